//! Distributions in fixed buckets, eight to an octave, so that a percentile is off by at most an eighth and recording is two adds.

use super::shard::{SLOTS, add, raise, slot};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PER_OCTAVE_LOG2: u32 = 3;
/// Values below 8 have their own bucket; 61 octaves above have eight each.
const BUCKETS: usize = 8 + 61 * 8;

/// Values recorded by one slot's thread.
struct Part {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

/// One distribution, counted per thread and summed when read. Memory (4 KB) is taken for threads that record something.
pub(super) struct Buckets {
    parts: [OnceLock<Box<Part>>; SLOTS],
}

/// A distribution at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistogramSummary {
    /// Values recorded.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The largest.
    pub max: f64,
    /// Half of the values are not larger.
    pub p50: f64,
    /// 95 of 100 are not larger.
    pub p95: f64,
    /// 99 of 100 are not larger.
    pub p99: f64,
}

impl HistogramSummary {
    /// The mean; 0 of nothing.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The summary in a unit that is `factor` times as large.
    pub(super) fn in_larger_unit(self, factor: f64) -> Self {
        let HistogramSummary { count, sum, max, p50, p95, p99 } = self;
        HistogramSummary { count, sum: sum / factor, max: max / factor, p50: p50 / factor, p95: p95 / factor, p99: p99 / factor }
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets { parts: [const { OnceLock::new() }; SLOTS] }
    }
}

impl Buckets {
    pub(super) fn record(&self, slot: usize, value: u64) {
        let new = || Box::new(Part { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0), max: AtomicU64::new(0) });
        let part = self.parts[slot].get_or_init(new);
        add(&part.buckets[index(value)], slot, 1);
        add(&part.sum, slot, value);
        raise(&part.max, slot, value);
    }

    pub(super) fn summary(&self) -> HistogramSummary {
        let mut counts = [0u64; BUCKETS];
        let (mut sum, mut max) = (0u64, 0);
        for part in self.parts.iter().filter_map(OnceLock::get) {
            for (count, bucket) in counts.iter_mut().zip(&part.buckets) {
                *count += bucket.load(Relaxed);
            }
            sum = sum.wrapping_add(part.sum.load(Relaxed));
            max = max.max(part.max.load(Relaxed));
        }
        // Counted here and not beside the buckets: a reader amid writers then sees percentiles that fit the count.
        let count = counts.iter().sum();
        let mut all = HistogramSummary { count, sum: sum as f64, max: max as f64, ..HistogramSummary::default() };
        all.p50 = percentile(&counts, &all, 0.50);
        all.p95 = percentile(&counts, &all, 0.95);
        all.p99 = percentile(&counts, &all, 0.99);
        all
    }
}

/// A distribution of times by itself: fed nanoseconds, told in microseconds.
#[derive(Default)]
pub(crate) struct Latencies(Buckets);

impl std::fmt::Debug for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary().fmt(f)
    }
}

impl Latencies {
    /// Adds a time, nanoseconds.
    pub fn record(&self, ns: u64) {
        self.0.record(slot(), ns);
    }

    /// Summary of all values so far, microseconds.
    pub fn summary(&self) -> HistogramSummary {
        self.0.summary().in_larger_unit(1000.0)
    }
}

/// The bucket of a value: its exponent and the three bits below the highest.
fn index(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let fraction = (value >> (exponent - PER_OCTAVE_LOG2)) & 7;
    ((exponent - PER_OCTAVE_LOG2) as usize) * 8 + 8 + fraction as usize
}

/// The smallest value of a bucket.
fn lower(index: usize) -> f64 {
    if index < 8 {
        return index as f64;
    }
    let (octave, fraction) = ((index - 8) / 8, index % 8);
    (8 + fraction) as f64 * (octave as f64).exp2()
}

/// The value below which a share of all lies, spread evenly within its bucket.
fn percentile(counts: &[u64], all: &HistogramSummary, share: f64) -> f64 {
    let wanted = all.count as f64 * share;
    let mut before = 0.0;
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if before + count >= wanted {
            let (low, high) = (lower(index), lower(index + 1));
            // A bucket of one value holds that value, not its surroundings.
            let width = if high - low <= 1.0 { 0.0 } else { high - low };
            return (low + width * ((wanted - before) / count)).min(all.max);
        }
        before += count;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_an_eighth_wide() {
        let around = |shift: u32| [-1i128, 0, 1, 7].map(|offset| (1i128 << shift) + offset);
        let mut values: Vec<u64> = (0..64).flat_map(around).filter_map(|value| value.try_into().ok()).collect();
        values.push(u64::MAX);
        values.sort_unstable();
        let mut previous = 0;
        for value in values {
            let at = index(value);
            assert!(at >= previous && at < BUCKETS, "{value}");
            previous = at;
            assert!(lower(at) <= value as f64 && lower(at + 1) >= value as f64, "{value}");
            assert!(value < 8 || (value as f64 - lower(at)) / lower(at) <= 0.125 + 1e-9, "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
        assert_eq!(index(8), 8);
        assert_eq!(index(16), 16);
    }

    #[test]
    fn percentiles_are_off_by_an_eighth_at_most() {
        let buckets = Buckets::default();
        (1..=100_000u64).for_each(|v| buckets.record(3, v));
        let summary = buckets.summary();
        assert_eq!((summary.count, summary.sum, summary.max), (100_000, 5_000_050_000.0, 100_000.0));
        for (got, want) in [(summary.p50, 50_000.0), (summary.p95, 95_000.0), (summary.p99, 99_000.0)] {
            assert!((got - want).abs() / want < 0.125, "{got} {want}");
        }
        assert_eq!(Buckets::default().summary(), HistogramSummary::default());
        let one = Buckets::default();
        one.record(63, 700);
        assert!(one.summary().p50 <= 700.0 && one.summary().p99 <= 700.0 && one.summary().p50 >= 640.0);
    }
}
