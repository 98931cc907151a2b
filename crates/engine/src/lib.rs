//! SinterDB: an embedded log-structured key-value store that can say, for every byte written, why.
//!
//! ```
//! use sinterdb::{Db, Durability, WriteOptions};
//!
//! # fn main() -> sinterdb::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let path = directory.path().join("my-data");
//! let db = Db::open(&path)?;
//! db.put(b"apple", b"red")?;
//! db.put_with(&db.default_family(), b"pear", b"green", &WriteOptions::new(Durability::Sync))?;
//! assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
//!
//! db.delete(b"apple")?;
//! let left: Vec<_> = db.iter().collect::<Result<_, _>>()?;
//! assert_eq!(left, [(b"pear".to_vec(), b"green".to_vec())]);
//! db.close()?;
//!
//! // What was written is there again.
//! assert_eq!(Db::open(&path)?.get(b"pear")?.as_deref(), Some(&b"green"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`Db`], [`WriteBatch`], [`Snapshot`] and [`DbIterator`]. [`Builder`] opens with more than a path: [`settings`] (plain data),
//! [`operator`] (merge operators, compaction filters), a [`clock`], a [`store`]. [`ledger`] says where every written byte came from.
//!
//! # Features
//!
//! Each codec is a cargo feature: `lz4`, `snappy`, `zstd`, `zlib`, `bzip2`. All are on by default. Without `zstd` a build needs no C
//! compiler. Settings that name a codec that is not built in are refused, and so are reads of tables that were written with it; without
//! `lz4` new families are not compressed unless their settings name a codec.

mod cache;
mod checksum;
pub mod clock;
mod codec;
mod coding;
mod compaction;
mod cpu;
mod cursor;
mod db;
mod error;
mod filter;
#[doc(hidden)]
pub mod internal;
mod key;
pub mod ledger;
mod limits;
mod manifest;
mod memory_split;
mod memtable;
mod merge;
pub mod operator;
mod pacing;
mod prefetch;
mod range_del;
mod run_cursor;
pub mod settings;
mod slab;
pub mod store;
mod table;
mod tiering;
mod visible;
mod wal;

pub use db::{
    Builder, Cut, DEFAULT_FAMILY, Damage, Db, DbIterator, Durability, Family, MAX_BATCH, MAX_KEY, MAX_VALUE, ReadOptions, RecoveryReport,
    Snapshot, Stats, TierStats, WriteBatch, WriteOptions,
};
pub use error::{Error, Result};

/// Examples of README, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Examples of the page on embedding, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/engine/embed.md")]
pub struct Embed;
