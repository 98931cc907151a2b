//! Counters of a client: plain numbers that only the client writes and anybody may read, so that the sampler never stops it. A second's
//! latencies are the difference of two readings; nothing is swapped, locked or allocated.

use crate::result::{Found, Latency};
use crate::run::PhaseRecord;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets per octave, as a power of two: a bucket is less than a hundredth wide.
const PER_OCTAVE_LOG2: u32 = 7;
/// Latencies from 2^42 ns (73 minutes) on are counted as the largest.
const OCTAVES: u32 = 42;
const BUCKETS: usize = ((OCTAVES - PER_OCTAVE_LOG2 + 1) as usize) << PER_OCTAVE_LOG2;

/// The bucket of a latency.
#[inline]
fn bucket(nanoseconds: u64) -> usize {
    let nanoseconds = nanoseconds.min((1 << OCTAVES) - 1);
    let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(PER_OCTAVE_LOG2 + 1);
    ((shift as usize) << PER_OCTAVE_LOG2) + (nanoseconds >> shift) as usize
}

/// The largest latency of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let shift = (bucket >> PER_OCTAVE_LOG2).saturating_sub(1);
    let high = (bucket - (shift << PER_OCTAVE_LOG2)) as u64;
    ((high + 1) << shift) - 1
}

/// Adds to a counter that only the calling thread writes, so that no locked instruction is needed.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed) + amount, Relaxed);
}

/// Bytes and keys of an operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Key and value bytes read or written.
    pub bytes: u64,
    /// Key and value bytes written, part of `bytes`.
    pub written: u64,
    /// Keys asked for.
    pub asked: u64,
    /// Keys found.
    pub found: u64,
}

#[derive(Debug, Default)]
struct Counters {
    operations: AtomicU64,
    bytes: AtomicU64,
    asked: AtomicU64,
    found: AtomicU64,
}

/// The figures of one client. Aligned so that no two clients share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Gauge {
    /// Counters of the warm-up, and counters of the measured time.
    counters: [Counters; 2],
    written: AtomicU64,
    not_started: AtomicU64,
    end_ns: AtomicU64,
    /// Latency buckets: one set for the warm-up, then one for each kind of request.
    latencies: Vec<Box<[AtomicU64]>>,
}

impl Gauge {
    /// A gauge at zero for `kinds` kinds of requests.
    pub fn new(kinds: usize) -> Self {
        let latency = || (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Gauge {
            counters: Default::default(),
            written: AtomicU64::new(0),
            not_started: AtomicU64::new(0),
            end_ns: AtomicU64::new(0),
            latencies: (0..=kinds).map(|_| latency()).collect(),
        }
    }

    /// Counts `operations` that were one call. While `warming`, they count only in the series and in the bytes written.
    #[inline]
    pub fn count(&self, warming: bool, operations: u64, done: &Done) {
        let counters = &self.counters[usize::from(!warming)];
        add(&counters.operations, operations);
        add(&counters.bytes, done.bytes);
        // For most callers the compiler knows the result.
        if done.asked > 0 {
            add(&counters.asked, done.asked);
            add(&counters.found, done.found);
        }
        if done.written > 0 {
            add(&self.written, done.written);
        }
    }

    /// Adds the latency of a call.
    #[inline]
    pub fn time(&self, kind: usize, warming: bool, nanoseconds: u64) {
        let latency = if warming { 0 } else { kind + 1 };
        add(&self.latencies[latency][bucket(nanoseconds)], 1);
    }

    /// Counts an operation that took `nanoseconds`.
    #[inline]
    pub fn record(&self, kind: usize, warming: bool, nanoseconds: u64, done: &Done) {
        self.time(kind, warming, nanoseconds);
        self.count(warming, 1, done);
    }

    /// Counts a request that had not started when the client ended, after a wait of `nanoseconds`: it adds a latency, but no operation.
    pub fn miss(&self, kind: usize, nanoseconds: u64) {
        add(&self.latencies[kind + 1][bucket(nanoseconds)], 1);
        add(&self.not_started, 1);
    }

    /// Notes the end of the client.
    pub fn end(&self, now_ns: u64) {
        self.end_ns.store(now_ns, Relaxed);
    }

    /// End of the client, on the clock's scale; 0 before.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Relaxed)
    }

    /// Operations of the client, those of the warm-up included.
    pub fn operations(&self) -> u64 {
        self.counters.iter().map(|counters| counters.operations.load(Relaxed)).sum()
    }
}

/// Sums over several clients, without the warm-up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub operations: u64,
    /// Requests that had not started when their client ended.
    pub not_started: u64,
    pub done: Done,
    /// Moment at which the last client ended.
    pub end_ns: u64,
}

impl Totals {
    /// Sums the gauges of clients that have ended.
    pub fn of(gauges: &[Gauge]) -> Self {
        let mut totals = Totals { end_ns: gauges.iter().map(Gauge::end_ns).max().unwrap_or(0), ..Totals::default() };
        for counters in gauges.iter().map(|gauge| &gauge.counters[1]) {
            totals.operations += counters.operations.load(Relaxed);
            totals.done.bytes += counters.bytes.load(Relaxed);
            totals.done.asked += counters.asked.load(Relaxed);
            totals.done.found += counters.found.load(Relaxed);
        }
        totals.not_started = gauges.iter().map(|gauge| gauge.not_started.load(Relaxed)).sum();
        totals.done.written = written(gauges);
        totals
    }
}

/// Operations so far, also during the warm-up.
pub(super) fn operations(gauges: &[Gauge]) -> u64 {
    gauges.iter().map(Gauge::operations).sum()
}

/// Key and value bytes written so far, also during the warm-up.
pub(super) fn written(gauges: &[Gauge]) -> u64 {
    gauges.iter().map(|gauge| gauge.written.load(Relaxed)).sum()
}

/// Latencies of several clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Latencies {
    counts: Vec<u64>,
}

impl Latencies {
    /// Latencies of all kinds, warm-up included.
    pub fn everything(gauges: &[Gauge]) -> Self {
        Self::read(gauges.iter().flat_map(|gauge| gauge.latencies.iter().map(AsRef::as_ref)))
    }

    /// Latencies of one kind, without the warm-up.
    pub fn of_kind(gauges: &[Gauge], kind: usize) -> Self {
        Self::read(gauges.iter().map(|gauge| gauge.latencies[kind + 1].as_ref()))
    }

    fn read<'a>(parts: impl Iterator<Item = &'a [AtomicU64]>) -> Self {
        let mut counts = vec![0; BUCKETS];
        for part in parts {
            counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count.load(Relaxed));
        }
        Latencies { counts }
    }

    /// Sum of several.
    pub fn sum(parts: &[Latencies]) -> Self {
        let mut counts = vec![0; BUCKETS];
        for part in parts {
            counts.iter_mut().zip(&part.counts).for_each(|(sum, count)| *sum += count);
        }
        Latencies { counts }
    }

    /// Latencies counted since an earlier reading.
    pub fn since(&self, earlier: &Latencies) -> Self {
        Latencies { counts: self.counts.iter().zip(&earlier.counts).map(|(now, before)| now - before).collect() }
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The latency that the share `quantile` of all does not exceed; `None` if there are none.
    pub fn at(&self, quantile: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        reached.map(upper_end)
    }

    /// Summary for a result, in which each latency counts as the largest of its bucket; `None` if there are none.
    pub fn result(&self) -> Option<Latency> {
        let mut histogram = Latency::histogram();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.saturating_record_n(upper_end(bucket), count);
        }
        (!histogram.is_empty()).then(|| Latency::of(&histogram))
    }
}

/// Record of the figures of clients that have ended, by kinds of requests.
pub(super) fn counted(kinds: &[String], gauges: &[Gauge]) -> PhaseRecord {
    let totals = Totals::of(gauges);
    let by_kind: Vec<Latencies> = (0..kinds.len()).map(|kind| Latencies::of_kind(gauges, kind)).collect();
    PhaseRecord {
        operations: totals.operations,
        not_started: totals.not_started,
        bytes: totals.done.bytes,
        found: (totals.done.asked > 0).then_some(Found { found: totals.done.found, asked: totals.done.asked }),
        latency: Latencies::sum(&by_kind).result(),
        latency_by_operation: kinds.iter().cloned().zip(&by_kind).filter_map(|(name, one)| Some((name, one.result()?))).collect(),
        ..PhaseRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        assert_eq!((bucket(0), bucket(255), bucket(256), bucket(257), bucket(258)), (0, 255, 256, 256, 257));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_end(BUCKETS - 1), (1 << OCTAVES) - 1);
        for b in 0..BUCKETS {
            assert_eq!(bucket(upper_end(b)), b);
            let lower = if b == 0 { 0 } else { upper_end(b - 1) + 1 };
            assert_eq!(bucket(lower), b);
            assert!((upper_end(b) - lower) as f64 <= lower as f64 / 128.0, "{b}");
        }
    }

    #[test]
    fn the_warm_up_counts_in_the_series_only() {
        let gauges = [Gauge::new(2), Gauge::new(2)];
        let done = Done { bytes: 10, written: 10, asked: 1, found: 1 };
        gauges[0].record(0, true, 7, &done);
        gauges[0].record(0, false, 100, &done);
        let before = Latencies::everything(&gauges);
        gauges[1].record(1, false, 1_000_000, &done);
        gauges[0].end(5);
        gauges[1].end(4);
        let totals = Totals::of(&gauges);
        assert_eq!((totals.operations, totals.done, totals.end_ns), (2, Done { bytes: 20, written: 30, asked: 2, found: 2 }, 5));
        assert_eq!((gauges[0].operations(), operations(&gauges), written(&gauges)), (2, 3, 30));
        let all = Latencies::everything(&gauges);
        assert_eq!((all.count(), all.at(0.3), all.at(0.5), all.since(&before).count()), (3, Some(7), Some(100), 1));
        assert!((1_000_000..1_008_000).contains(&all.since(&before).at(0.99).unwrap()));
        assert_eq!(Latencies::of_kind(&gauges, 0).result().unwrap().p50, 100);
        assert_eq!(Latencies::of_kind(&[Gauge::new(1)], 0).result(), None);
        assert_eq!(Latencies::everything(&[]).at(0.5), None);
    }

    #[test]
    fn what_never_started_is_a_latency_and_no_operation() {
        let gauges = [Gauge::new(1)];
        gauges[0].record(0, false, 100, &Done { bytes: 10, ..Done::default() });
        gauges[0].miss(0, 200);
        let totals = Totals::of(&gauges);
        assert_eq!((totals.operations, totals.not_started, totals.done.bytes, operations(&gauges)), (1, 1, 10, 1));
        let latency = Latencies::of_kind(&gauges, 0).result().unwrap();
        assert_eq!((latency.count, latency.max), (2, 200));
    }
}
