//! Tickers and histograms under RocksDB's names (monitoring/statistics.cc), so that dashboards and habits carry over. Only those that the
//! engine feeds exist; tickers about written bytes are taken from the ledger, which is the one place where they are counted.
//!
//! Where meanings differ: `rocksdb.bytes.written` has key and value bytes only (RocksDB adds its batch framing), and
//! `rocksdb.compact.write.bytes` has no flushes in it.

use super::LedgerSnapshot;
use super::histogram::{Buckets, HistogramSummary};
use super::shard::{SLOTS, add, slot};
use sinter_storage::store::{Cause, Reason};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($variant:ident = $name:literal, $what:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $type {
            $(#[doc = $what] $variant,)*
        }

        impl $type {
            /// All of them, in the order of the dump.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// RocksDB's name, or one of this engine.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    /// A counter. Those about bytes written are derived from the ledger, see [`LedgerSnapshot::tickers`].
    Ticker {
        MemtableHit = "rocksdb.memtable.hit", "Point reads answered by a memtable.";
        MemtableMiss = "rocksdb.memtable.miss", "Point reads that went on to tables.";
        L0Hit = "rocksdb.l0.hit", "Point reads answered by level 0.";
        L1Hit = "rocksdb.l1.hit", "Point reads answered by level 1.";
        L2AndUpHit = "rocksdb.l2andup.hit", "Point reads answered by deeper levels.";
        LastLevelHit = "sinterdb.last.level.hit", "Point reads answered by the last level, counted above as well.";
        NumberKeysRead = "rocksdb.number.keys.read", "Point reads.";
        BytesRead = "rocksdb.bytes.read", "Bytes of values returned by point reads.";
        NumberDbSeek = "rocksdb.number.db.seek", "Iterator seeks.";
        NumberDbNext = "rocksdb.number.db.next", "Iterator steps forward, counted when the iterator is dropped.";
        NumberDbPrev = "rocksdb.number.db.prev", "Iterator steps backward, counted when the iterator is dropped.";
        NumIteratorCreated = "rocksdb.num.iterator.created", "Iterators made.";
        StallMicros = "rocksdb.stall.micros", "Microseconds for which writers were slowed down or stopped.";
        NumberMultigetGet = "rocksdb.number.multiget.get", "Calls of multi_get.";
        NumberMultigetKeysRead = "rocksdb.number.multiget.keys.read", "Keys asked for by multi_get.";
        NumberMultigetBytesRead = "rocksdb.number.multiget.bytes.read", "Bytes of values returned by multi_get.";
        NumberMultigetKeysFound = "rocksdb.number.multiget.keys.found", "Keys found by multi_get.";
        WalFileSynced = "rocksdb.wal.synced", "Syncs of the log.";
        WriteDoneBySelf = "rocksdb.write.self", "Batches committed by their own writer, the leader of a group.";
        WriteDoneByOther = "rocksdb.write.other", "Batches committed by the leader of another.";
        CompactReadBytes = "rocksdb.compact.read.bytes", "Bytes that compactions read.";
        CompactWithoutThread = "sinterdb.compact.without.thread", "Parts of compactions that waited for lack of a thread.";
        PlacedHot = "sinterdb.placed.hot.entries", "Entries that merges into the last level left above it, because they are young.";
        PlacedCold = "sinterdb.placed.cold.entries", "Entries that such merges wrote to the last level, because they are old.";
        PlacedSunk = "sinterdb.placed.sunk.entries", "Young entries that went down: other tables were in the way above, or no room.";
    }
}

names! {
    /// A distribution. Times are recorded in nanoseconds and printed in microseconds, as their names say.
    Histogram {
        CompactionTime = "rocksdb.compaction.times.micros", "Time of a compaction.";
        FlushTime = "rocksdb.db.flush.micros", "Time of a flush.";
        WalFileSync = "rocksdb.wal.file.sync.micros", "Time of a sync of the log.";
        WriteStall = "rocksdb.db.write.stall", "Time for which one write was slowed down or stopped, in microseconds.";
        NumFilesInSingleCompaction = "rocksdb.numfiles.in.singlecompaction", "Tables that went into one compaction; not a time.";
    }
}

impl Histogram {
    /// Whether it is fed nanoseconds; otherwise plain numbers.
    pub fn is_time(self) -> bool {
        self != Histogram::NumFilesInSingleCompaction
    }
}

/// The counters that one thread adds to; the alignment keeps its neighbours' cache lines out, prefetched pairs included.
#[repr(align(128))]
struct Counters([AtomicU64; Ticker::ALL.len()]);

/// All tickers and histograms of a database. Adding never touches a cache line of another thread.
pub struct Statistics {
    tickers: [OnceLock<Box<Counters>>; SLOTS],
    histograms: Vec<Buckets>,
}

impl Default for Statistics {
    fn default() -> Self {
        let histograms = Histogram::ALL.iter().map(|_| Buckets::default()).collect();
        Statistics { tickers: [const { OnceLock::new() }; SLOTS], histograms }
    }
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(Ticker::ALL.iter().map(|t| (t.name(), self.ticker(*t))).filter(|(_, value)| *value > 0)).finish()
    }
}

impl Statistics {
    /// Adds to a ticker.
    pub(crate) fn add(&self, ticker: Ticker, n: u64) {
        self.add_all(&[(ticker, n)]);
    }

    /// Adds one to a ticker; returns the count of the thread's own slot so far.
    pub(crate) fn count(&self, ticker: Ticker) -> u64 {
        let slot = slot();
        add(&self.counters(slot).0[ticker as usize], slot, 1)
    }

    /// Adds to several tickers; looks up the thread's place once.
    pub(crate) fn add_all(&self, counts: &[(Ticker, u64)]) {
        let slot = slot();
        let counters = self.counters(slot);
        for (ticker, n) in counts {
            add(&counters.0[*ticker as usize], slot, *n);
        }
    }

    fn counters(&self, slot: usize) -> &Counters {
        self.tickers[slot].get_or_init(|| Box::new(Counters([const { AtomicU64::new(0) }; Ticker::ALL.len()])))
    }

    /// Records a value: nanoseconds for times, a plain number for the others.
    pub(crate) fn record(&self, histogram: Histogram, value: u64) {
        self.histograms[histogram as usize].record(slot(), value);
    }

    /// The value of a ticker.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let parts = self.tickers.iter().filter_map(OnceLock::get);
        parts.fold(0, |sum, counters| sum.wrapping_add(counters.0[ticker as usize].load(Relaxed)))
    }

    /// A distribution, in the unit of its name: microseconds for times.
    pub fn histogram(&self, histogram: Histogram) -> HistogramSummary {
        let summary = self.histograms[histogram as usize].summary();
        if histogram.is_time() { summary.in_larger_unit(1000.0) } else { summary }
    }

    /// All tickers by name.
    pub fn tickers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Ticker::ALL.iter().map(|ticker| (ticker.name(), self.ticker(*ticker)))
    }

    /// All distributions by name.
    pub fn histograms(&self) -> impl Iterator<Item = (&'static str, HistogramSummary)> {
        Histogram::ALL.iter().map(|histogram| (histogram.name(), self.histogram(*histogram)))
    }
}

/// Tickers and distributions as text, in RocksDB's form: `NAME COUNT : n` and
/// `NAME P50 : x P95 : x P99 : x P100 : x COUNT : n SUM : n`.
pub fn dump<'a>(
    tickers: impl IntoIterator<Item = (&'a str, u64)>,
    histograms: impl IntoIterator<Item = (&'a str, HistogramSummary)>,
) -> String {
    let mut out = String::new();
    for (name, value) in tickers {
        let _ = writeln!(out, "{name} COUNT : {value}");
    }
    for (name, HistogramSummary { count, sum, max, p50, p95, p99 }) in histograms {
        let _ = writeln!(out, "{name} P50 : {p50:.6} P95 : {p95:.6} P99 : {p99:.6} P100 : {max:.6} COUNT : {count} SUM : {sum:.0}");
    }
    out
}

impl LedgerSnapshot {
    /// RocksDB's tickers about bytes written, which are sums of ledger lines.
    pub fn tickers(&self) -> Vec<(&'static str, u64)> {
        let compaction = |wanted: Option<Reason>| {
            self.sum(|cause| matches!(cause, Cause::Compaction { reason, .. } if wanted.is_none_or(|wanted| wanted == reason)))
        };
        vec![
            ("rocksdb.bytes.written", self.user()),
            ("rocksdb.number.keys.written", self.user_keys.iter().map(|(_, keys)| keys).sum()),
            ("rocksdb.wal.bytes", self.sum(|cause| cause == Cause::Wal)),
            ("rocksdb.flush.write.bytes", self.sum(|cause| cause == Cause::Flush)),
            ("rocksdb.compact.write.bytes", compaction(None)),
            ("rocksdb.compact.write.ttl.bytes", compaction(Some(Reason::TimeToLive))),
            ("rocksdb.compact.write.marked.bytes", compaction(Some(Reason::Tombstones))),
        ]
    }
}
