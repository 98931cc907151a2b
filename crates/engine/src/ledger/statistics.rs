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
        pub enum $type {
            $(#[doc = $what] $variant,)*
        }

        impl $type {
            /// All of them, in the order of the dump.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// RocksDB's name.
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
        BlockCacheMiss = "rocksdb.block.cache.miss", "Blocks of any kind that were not in the cache.";
        BlockCacheHit = "rocksdb.block.cache.hit", "Blocks of any kind that were in the cache.";
        BlockCacheAdd = "rocksdb.block.cache.add", "Blocks put into the cache.";
        BlockCacheIndexMiss = "rocksdb.block.cache.index.miss", "Index blocks that were not in the cache.";
        BlockCacheIndexHit = "rocksdb.block.cache.index.hit", "Index blocks that were in the cache.";
        BlockCacheFilterMiss = "rocksdb.block.cache.filter.miss", "Filter blocks that were not in the cache.";
        BlockCacheFilterHit = "rocksdb.block.cache.filter.hit", "Filter blocks that were in the cache.";
        BlockCacheDataMiss = "rocksdb.block.cache.data.miss", "Data blocks that were not in the cache.";
        BlockCacheDataHit = "rocksdb.block.cache.data.hit", "Data blocks that were in the cache.";
        BlockCacheBytesRead = "rocksdb.block.cache.bytes.read", "Bytes served from the cache.";
        BlockCacheBytesWrite = "rocksdb.block.cache.bytes.write", "Bytes put into the cache.";
        BloomFilterUseful = "rocksdb.bloom.filter.useful", "Runs that a filter ruled out.";
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive", "Runs that a filter did not rule out.";
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive", "Runs not ruled out that had the key.";
        MemtableHit = "rocksdb.memtable.hit", "Point reads answered by a memtable.";
        MemtableMiss = "rocksdb.memtable.miss", "Point reads that went on to tables.";
        L0Hit = "rocksdb.l0.hit", "Point reads answered by level 0.";
        L1Hit = "rocksdb.l1.hit", "Point reads answered by level 1.";
        L2AndUpHit = "rocksdb.l2andup.hit", "Point reads answered by deeper levels.";
        CompactionKeyDropNew = "rocksdb.compaction.key.drop.new", "Entries dropped because a newer one hides them.";
        CompactionKeyDropObsolete = "rocksdb.compaction.key.drop.obsolete", "Tombstones dropped because nothing is left below them.";
        CompactionKeyDropRangeDel = "rocksdb.compaction.key.drop.range_del", "Entries dropped because a range tombstone covers them.";
        CompactionKeyDropUser = "rocksdb.compaction.key.drop.user", "Entries dropped by a compaction filter or by age.";
        CompactionRangeDelDropObsolete = "rocksdb.compaction.range_del.drop.obsolete", "Range tombstones dropped.";
        CompactionCancelled = "rocksdb.compaction.cancelled", "Compactions that ended without a result.";
        NumberKeysRead = "rocksdb.number.keys.read", "Point reads.";
        BytesRead = "rocksdb.bytes.read", "Bytes of values returned by point reads.";
        NumberDbSeek = "rocksdb.number.db.seek", "Iterator seeks.";
        NumberDbNext = "rocksdb.number.db.next", "Iterator steps forward.";
        NumberDbPrev = "rocksdb.number.db.prev", "Iterator steps backward.";
        NumberDbSeekFound = "rocksdb.number.db.seek.found", "Seeks that found an entry.";
        NumberDbNextFound = "rocksdb.number.db.next.found", "Steps forward that found an entry.";
        NumberDbPrevFound = "rocksdb.number.db.prev.found", "Steps backward that found an entry.";
        IterBytesRead = "rocksdb.db.iter.bytes.read", "Bytes of keys and values that iterators passed.";
        NumIteratorCreated = "rocksdb.num.iterator.created", "Iterators made.";
        NoFileOpens = "rocksdb.no.file.opens", "Tables opened.";
        StallMicros = "rocksdb.stall.micros", "Microseconds for which writers were slowed down or stopped.";
        NumberMultigetGet = "rocksdb.number.multiget.get", "Calls of multi_get.";
        NumberMultigetKeysRead = "rocksdb.number.multiget.keys.read", "Keys asked for by multi_get.";
        NumberMultigetBytesRead = "rocksdb.number.multiget.bytes.read", "Bytes of values returned by multi_get.";
        NumberMultigetKeysFound = "rocksdb.number.multiget.keys.found", "Keys found by multi_get.";
        NumberMergeFailures = "rocksdb.number.merge.failures", "Merges that the operator refused.";
        WalFileSynced = "rocksdb.wal.synced", "Syncs of the log.";
        WriteDoneBySelf = "rocksdb.write.self", "Batches committed by their own writer, the leader of a group.";
        WriteDoneByOther = "rocksdb.write.other", "Batches committed by the leader of another.";
        WriteWithWal = "rocksdb.write.wal", "Batches that were logged.";
        CompactReadBytes = "rocksdb.compact.read.bytes", "Bytes that compactions read.";
        NumberBlockCompressed = "rocksdb.number.block.compressed", "Blocks stored compressed.";
        NumberBlockDecompressed = "rocksdb.number.block.decompressed", "Blocks decompressed.";
        LastLevelReadBytes = "rocksdb.last.level.read.bytes", "Bytes read from tables of the last level, by readers and compactions.";
        LastLevelReadCount = "rocksdb.last.level.read.count", "Reads from tables of the last level.";
        NonLastLevelReadBytes = "rocksdb.non.last.level.read.bytes", "Bytes read from tables of other levels.";
        NonLastLevelReadCount = "rocksdb.non.last.level.read.count", "Reads from tables of other levels.";
        BlockChecksumComputeCount = "rocksdb.block.checksum.compute.count", "Blocks verified.";
        BlockChecksumMismatchCount = "rocksdb.block.checksum.mismatch.count", "Blocks that were damaged.";
    }
}

names! {
    /// A distribution. Times are recorded in nanoseconds and printed in microseconds, as their names say.
    Histogram {
        DbGet = "rocksdb.db.get.micros", "Time of a point read.";
        DbWrite = "rocksdb.db.write.micros", "Time of a write, stalls included.";
        DbMultiget = "rocksdb.db.multiget.micros", "Time of a multi_get.";
        DbSeek = "rocksdb.db.seek.micros", "Time of an iterator seek.";
        CompactionTime = "rocksdb.compaction.times.micros", "Time of a compaction.";
        FlushTime = "rocksdb.db.flush.micros", "Time of a flush.";
        WalFileSync = "rocksdb.wal.file.sync.micros", "Time of a sync of the log.";
        ManifestFileSync = "rocksdb.manifest.file.sync.micros", "Time of a sync of the manifest.";
        TableSync = "rocksdb.table.sync.micros", "Time of a sync of a flushed table.";
        CompactionOutfileSync = "rocksdb.compaction.outfile.sync.micros", "Time of a sync of a compacted table.";
        WriteStall = "rocksdb.db.write.stall", "Time for which one write was slowed down or stopped, in microseconds.";
        NumFilesInSingleCompaction = "rocksdb.numfiles.in.singlecompaction", "Tables that went into one compaction; not a time.";
        BytesPerRead = "rocksdb.bytes.per.read", "Size of a value returned by a point read; not a time.";
        BytesPerWrite = "rocksdb.bytes.per.write", "Size of a batch; not a time.";
    }
}

impl Histogram {
    /// Whether it is fed nanoseconds; otherwise plain numbers.
    pub fn is_time(self) -> bool {
        !matches!(self, Histogram::NumFilesInSingleCompaction | Histogram::BytesPerRead | Histogram::BytesPerWrite)
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
    pub fn add(&self, ticker: Ticker, n: u64) {
        self.add_all(&[(ticker, n)]);
    }

    /// Adds to several tickers; looks up the thread's place once.
    pub fn add_all(&self, counts: &[(Ticker, u64)]) {
        let slot = slot();
        let counters = self.tickers[slot].get_or_init(|| Box::new(Counters([const { AtomicU64::new(0) }; Ticker::ALL.len()])));
        for (ticker, n) in counts {
            add(&counters.0[*ticker as usize], slot, *n);
        }
    }

    /// Records a value: nanoseconds for times, a plain number for the others.
    pub fn record(&self, histogram: Histogram, value: u64) {
        self.histograms[histogram as usize].record(slot(), value);
    }

    /// The value of a ticker.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let parts = self.tickers.iter().filter_map(OnceLock::get);
        parts.fold(0, |sum, counters| sum.wrapping_add(counters.0[ticker as usize].load(Relaxed)))
    }

    /// A distribution, in the unit that was recorded.
    pub fn histogram(&self, histogram: Histogram) -> HistogramSummary {
        self.histograms[histogram as usize].summary()
    }

    /// All tickers by name: the counted ones, then those of the ledger.
    pub fn tickers(&self, ledger: &LedgerSnapshot) -> Vec<(&'static str, u64)> {
        let counted = Ticker::ALL.iter().map(|ticker| (ticker.name(), self.ticker(*ticker)));
        counted.chain(ledger.tickers()).collect()
    }

    /// The dump that `--statistics` prints, in RocksDB's form: `NAME COUNT : n` and
    /// `NAME P50 : x P95 : x P99 : x P100 : x COUNT : n SUM : n`.
    pub fn dump(&self, ledger: &LedgerSnapshot) -> String {
        let mut out = String::new();
        for (name, value) in self.tickers(ledger) {
            let _ = writeln!(out, "{name} COUNT : {value}");
        }
        for histogram in Histogram::ALL {
            let h = self.histogram(*histogram);
            let scale = if histogram.is_time() { 1000.0 } else { 1.0 };
            let (p50, p95, p99, max) = (h.p50 / scale, h.p95 / scale, h.p99 / scale, h.max as f64 / scale);
            let sum = if histogram.is_time() { h.sum / 1000 } else { h.sum };
            let (name, count) = (histogram.name(), h.count);
            let _ = writeln!(out, "{name} P50 : {p50:.6} P95 : {p95:.6} P99 : {p99:.6} P100 : {max:.6} COUNT : {count} SUM : {sum}");
        }
        out
    }
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
