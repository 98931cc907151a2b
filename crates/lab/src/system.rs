//! Traits of the system under test, a store that is measured. The driver knows a store only through them, with static dispatch: a call
//! per operation and nothing virtual on the measured path.

mod clock;
#[cfg(test)]
pub mod model;
mod sinter;

pub use clock::OperationClock;
pub use sinter::{SinterOpener, SinterSystem, cause_name};

use serde::{Deserialize, Serialize};
use sinter_storage::store::Beneath;
use sinterdb::ledger::HistogramSummary;
use std::collections::BTreeMap;

/// Reason why a system failed, for the user. The exact kind of failure does not matter to a measurement: it ends.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// The result of a system's operation.
pub type Outcome<T> = Result<T, Failure>;

/// A store under measurement; shared by all threads.
pub trait System: Sync + Sized {
    /// Handle of one thread.
    type Session<'a>: Session
    where
        Self: 'a;

    /// A thread's own handle, with its reused buffers. `sync`: every write is durable before it returns.
    fn session(&self, sync: bool) -> Self::Session<'_>;
    /// Flushes everything written so far into tables.
    fn flush(&self) -> Outcome<()>;
    /// Merges the whole key space.
    fn compact(&self) -> Outcome<()>;
    /// Returns when no background work runs or is needed.
    fn wait_for_compactions(&self) -> Outcome<()>;
    /// Changes settings of the first family, by RocksDB's option names, while the store is open.
    fn change(&self, _settings: &BTreeMap<String, String>) -> Outcome<()> {
        Err("settings of this store cannot be changed while it is open".into())
    }
    /// Current counters.
    fn figures(&self) -> Outcome<Figures>;
    /// Files and bytes of each level of a family (index into the list that it was opened with; 0 is the only one of many systems).
    fn levels(&self, family: usize) -> Outcome<Vec<LevelFigures>>;
    /// Named counters and distributions.
    fn counters(&self) -> Outcome<Counters>;
    /// Codecs that the engine chose by itself for a family's levels, and why, in its own words; `None` if it does not choose.
    fn chosen_codecs(&self, _family: usize) -> Option<String> {
        None
    }
    /// Ends background work and reports its failures.
    fn close(self) -> Outcome<()>;
}

/// One thread's handle to a system.
pub trait Session {
    /// Iterator over keys.
    type Scan<'a>: Scan
    where
        Self: 'a;

    /// Chooses the family (index into the list that the system was opened with) of the following calls; 0 at first.
    fn choose(&mut self, family: usize);
    /// Writes one entry.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Removes one key.
    fn delete(&mut self, key: &[u8]) -> Outcome<()>;
    /// Adds an entry to the session's batch.
    fn stage_put(&mut self, key: &[u8], value: &[u8]);
    /// Adds a removal to the session's batch.
    fn stage_delete(&mut self, key: &[u8]);
    /// Writes the batch and empties it.
    fn commit(&mut self) -> Outcome<()>;
    /// Reads one key into `out`; true if it exists.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Outcome<bool>;
    /// Reads many keys; calls `found` with each value there is, in order.
    fn multi_get(&mut self, keys: &[&[u8]], found: impl FnMut(&[u8])) -> Outcome<()>;
    /// A new iterator over the newest state.
    fn scan(&mut self) -> Outcome<Self::Scan<'_>>;
}

/// A position among the keys of a system.
pub trait Scan {
    /// Moves to the first key.
    fn seek_first(&mut self) -> Outcome<()>;
    /// Moves to the last key.
    fn seek_last(&mut self) -> Outcome<()>;
    /// Moves to the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Outcome<()>;
    /// Moves to the next key.
    fn advance(&mut self) -> Outcome<()>;
    /// Moves to the previous key.
    fn retreat(&mut self) -> Outcome<()>;
    /// Current key and value; `None` past the ends.
    fn entry(&self) -> Option<(&[u8], &[u8])>;
}

/// A system's counters at one moment. Counters only grow while it is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Key and value bytes of user writes.
    pub user_bytes: u64,
    /// Bytes written by cause, in the ledger's order.
    pub written: Vec<(String, u64)>,
    /// Total time for which writers were slowed or stopped, nanoseconds.
    pub stall_ns: u64,
    /// Longest single stall, nanoseconds.
    pub longest_stall_ns: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Bytes of live tables.
    pub live_table_bytes: u64,
    /// Bytes of all files.
    pub store_bytes: u64,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Writes of the store below its files, if it lies on zones.
    pub beneath: Option<Beneath>,
}

/// Ticker of flushes that wrote tables.
pub const FLUSHES: &str = "lab.flushes";
/// Ticker of the size of the indexes in all tables, bytes: not a counter, its value is that of the moment.
pub const INDEX_BYTES: &str = "lab.index.bytes";

/// Named counters and distributions since the system was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Counters. [`FLUSHES`] and [`INDEX_BYTES`] are the laboratory's, where the system knows them.
    pub tickers: BTreeMap<String, u64>,
    /// Distributions, in the unit that the name says.
    pub histograms: BTreeMap<String, HistogramSummary>,
}

/// One level of a system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelFigures {
    /// Sorted runs.
    pub runs: usize,
    /// Files.
    pub files: usize,
    /// Bytes.
    pub bytes: u64,
}
