//! Counts touches by age: versions that answered reads, and versions that newer ones replaced. Counted since the last look.
//!
//! 1. One read in 64 of each thread is counted, of those that tables answered: memtables are in memory whatever the tiers are. Which ones
//!    follows from the number of reads alone (multiples of the golden ratio, whose gaps are of three lengths, so that no habit of a caller
//!    meets always or never a counted one). No clock, no random numbers: the same reads give the same counts.
//! 2. The age is the newest sequence number less that of the version. A number that was zeroed counts as older than everything.
//! 3. A version that a newer one replaced is met when a compaction drops it. Its age is the difference of the two numbers.

use super::ages::{Ages, BUCKETS, bucket};
use crate::key::Seq;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// One read in so many is counted.
pub const SAMPLED: u64 = 64;

/// Counts of one family.
#[derive(Debug)]
pub struct Heat {
    /// Counts are wanted.
    watched: AtomicBool,
    reads: [AtomicU64; BUCKETS],
    replaced: Mutex<Ages>,
}

impl Default for Heat {
    fn default() -> Self {
        Heat { watched: AtomicBool::default(), reads: [const { AtomicU64::new(0) }; BUCKETS], replaced: Mutex::default() }
    }
}

/// The `nth` read of a thread is one of those that are counted.
#[inline]
pub fn is_sampled(nth: u64) -> bool {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) <= u64::MAX / SAMPLED
}

impl Heat {
    /// Begins to count, or ceases to.
    pub fn watch(&self, watched: bool) {
        self.watched.store(watched, Relaxed);
    }

    /// Touches are being counted.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Relaxed)
    }

    /// A sampled read was answered by the version `seq` when `newest` was the newest number.
    #[cold]
    pub fn read(&self, seq: Seq, newest: Seq) {
        if self.is_watched() {
            self.reads[bucket(age(seq, newest))].fetch_add(1, Relaxed);
        }
    }

    /// Adds the ages of versions that a compaction dropped, at the time when they were replaced.
    pub fn replaced(&self, ages: &Ages) {
        self.replaced.lock().add_all(ages);
    }

    /// Takes the counts since the last call: reads, replaced versions.
    pub fn take(&self) -> (Ages, Ages) {
        let mut reads = Ages::default();
        for (bucket, count) in self.reads.iter().enumerate().filter(|(_, count)| count.load(Relaxed) > 0) {
            reads.add_to_bucket(bucket, count.swap(0, Relaxed) as f64);
        }
        (reads, std::mem::take(&mut *self.replaced.lock()))
    }
}

/// Age of the version `seq`, in writes.
#[inline]
pub fn age(seq: Seq, newest: Seq) -> u64 {
    if seq == 0 { u64::MAX } else { newest.saturating_sub(seq) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_in_64_is_counted_whatever_the_rhythm() {
        for stride in [1u64, 2, 3, 7, 8, 16, 64, 100, 128, 1000] {
            let sampled = (0..64_000u64).filter(|n| is_sampled(1 + n * stride)).count();
            assert!((900..1100).contains(&sampled), "every {stride}th: {sampled} of 64000");
        }
    }

    #[test]
    fn what_was_counted_is_taken_once() {
        let heat = Heat::default();
        heat.read(5, 10);
        assert_eq!(heat.take().0, Ages::default(), "nobody wanted to know");
        heat.watch(true);
        heat.read(5, 10);
        heat.read(10, 10);
        heat.read(0, 10);
        let mut replaced = Ages::default();
        replaced.add(1000, 3.0);
        heat.replaced(&replaced);
        heat.replaced(&replaced);
        let (reads, replaced) = heat.take();
        assert_eq!((reads.total(), reads.younger(2), reads.younger(6)), (3.0, 1.0, 2.0), "a zeroed number is older than everything");
        assert_eq!((replaced.total(), replaced.younger(896), replaced.younger(1024)), (6.0, 0.0, 6.0));
        assert_eq!(heat.take(), (Ages::default(), Ages::default()));
    }

    #[test]
    fn threads_lose_no_counts() {
        let heat = Heat::default();
        heat.watch(true);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=10_000).for_each(|seq| heat.read(seq, 10_000)));
            }
        });
        assert_eq!(heat.take().0.total(), 40_000.0);
    }
}
