//! SinterDB: an embedded log-structured key-value store that can say, for every byte written, why.
//!
//! Modules stand in ranks; each imports only lower ones (`crates/cli/tests/layers.rs` enforces it).

pub mod cache;
pub mod checksum;
pub mod clock;
pub mod codec;
pub mod coding;
pub mod compaction;
pub mod cursor;
pub mod db;
pub mod error;
pub mod filter;
pub mod key;
pub mod ledger;
pub mod manifest;
pub mod memtable;
pub mod merge;
pub mod operator;
pub mod pacing;
pub mod range_del;
pub mod run_cursor;
pub mod settings;
pub mod table;
pub mod visible;
pub mod wal;

pub use error::{Error, Result};
