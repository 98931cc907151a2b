//! SinterDB: an embedded log-structured key-value store that can say, for every byte written, why.
//!
//! ```
//! use sinterdb::db::{Db, Durability, WriteOptions};
//!
//! # fn main() -> sinterdb::Result<()> {
//! # let directory = tempfile::tempdir().expect("a temporary directory");
//! # let path = directory.path().join("my-data");
//! let db = Db::open(&path)?;
//! db.put(b"apple", b"red")?;
//! db.put_with(&db.default_family(), b"pear", b"green", &WriteOptions { durability: Durability::Sync })?;
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
//! [`db`] is what programs use: [`db::Db`], [`db::WriteBatch`], [`db::Snapshot`], [`db::DbIterator`]. With it go [`settings`] (plain data),
//! [`operator`] (merge operators, compaction filters), [`clock`], [`ledger`] (where every byte came from, counters) and [`Error`].
//!
//! The rest is the inside, public so that tools, tests and fuzzers can reach it. Modules stand in ranks; each imports only
//! its own and lower ones (`crates/cli/tests/layers.rs` enforces it). From the bottom:
//!
//! * words: [`key`], [`coding`], [`checksum`], [`codec`], [`cursor`], [`times`], [`prefetch`]; [`limits`] and [`cpu`]: what confines the
//!   process
//! * parts of files and of memory: [`filter`], [`cache`], [`range_del`], [`table`], [`wal`], [`memtable`],
//!   [`tier`]; [`placement`]: how old what is kept and what is touched is
//! * many sources as one: [`merge`], [`run_cursor`], [`visible`]
//! * the tree: [`manifest`], [`compaction`], [`pacing`], [`memory_split`]

pub mod cache;
pub mod checksum;
pub mod clock;
pub mod codec;
pub mod coding;
pub mod compaction;
pub mod cpu;
pub mod cursor;
pub mod db;
pub mod error;
pub mod filter;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod manifest;
pub mod memory_split;
pub mod memtable;
pub mod merge;
pub mod operator;
pub mod pacing;
pub mod placement;
pub mod prefetch;
pub mod range_del;
pub mod run_cursor;
pub mod settings;
mod slab;
pub mod table;
pub mod tier;
pub mod times;
pub mod visible;
pub mod wal;

pub use db::{Db, DbIterator, Durability, Family, ReadOptions, Snapshot, WriteBatch, WriteOptions};
pub use error::{Error, Result};

/// README's examples, so that they are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
