//! A table file whose reads are counted, separately for tables of the last level (their data is mostly cold) and by the temperature of the
//! data. Now and then a read of one block is timed; reads of merges, which go in order, are all timed.

use crate::cache::Cache;
use crate::clock::Clock;
use crate::cpu::{self, Transfer};
use crate::ledger::Latencies;
use parking_lot::Mutex;
use sinter_storage::store::{ReadAt, Result, Temperature};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One read in so many is timed: the clock costs two hundredths of a read from the page cache.
const TIMED_READS: u64 = 64;
/// Longest read that counts as one of a single block, bytes.
pub(super) const LONGEST: u64 = 64 << 10;
/// Nanoseconds from which on a read has waited for the medium: the page cache answers within 2 us, a local SSD after 40.
const SLOW_NS: u64 = 15_000;
/// Weight of one read in a mean.
const WEIGHT: f64 = 1.0 / 64.0;
/// Share of reads that wait from which on they wait often: prefetching one then costs less, at a microsecond of system call, than it saves.
/// Prefetching ends only below `SELDOM`: in a batch that was prefetched, only the first read may wait.
const OFTEN: f64 = 1.0 / 16.0;
const SELDOM: f64 = 1.0 / 64.0;
/// Number of the last reads that waited whose times are remembered.
const SLOW_READS: usize = 63;
/// Number of waits of [`SLOW_GUESS_NS`] assumed before any was measured: of a handful of reads, the median may be anything.
const SLOW_BEFORE: usize = 16;
/// Time of a wait for the medium assumed before any was measured, nanoseconds.
pub const SLOW_GUESS_NS: u64 = 50_000;

#[derive(Debug)]
pub(super) struct Counted {
    below: Arc<dyn ReadAt>,
    cache: Arc<Cache>,
    temperature: Temperature,
    last_level: AtomicBool,
    /// Data blocks that readers did not find in the cache, since [`Counted::take_misses`].
    misses: AtomicU64,
    /// Reads of one block.
    reads: AtomicU64,
    times: OnceLock<Arc<ReadTimes>>,
    /// Read latencies of the tier.
    latencies: OnceLock<Arc<Latencies>>,
}

impl Counted {
    pub fn new(below: Arc<dyn ReadAt>, cache: Arc<Cache>, temperature: Temperature) -> Self {
        Counted {
            below,
            cache,
            temperature,
            last_level: AtomicBool::new(false),
            misses: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            times: OnceLock::new(),
            latencies: OnceLock::new(),
        }
    }

    /// Tells whether the table is on the last level now.
    pub fn set_last_level(&self, yes: bool) {
        self.last_level.store(yes, Ordering::Relaxed);
    }

    /// Sets the collector of read times, once.
    pub fn set_times(&self, times: &Arc<ReadTimes>) {
        self.times.get_or_init(|| Arc::clone(times));
    }

    /// Sets the collector of read times that all tables of a tier share, once. Reads that opened the table do not count: the next read is
    /// timed, because many cold tables have few.
    pub(crate) fn set_latencies(&self, latencies: &Arc<Latencies>) {
        self.latencies.get_or_init(|| Arc::clone(latencies));
        self.reads.store(0, Ordering::Relaxed);
    }

    /// A reader did not find a data block in the cache.
    pub fn count_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads wait for the medium often, lately.
    pub fn is_slow(&self) -> bool {
        self.times.get().is_some_and(|times| times.wait_often.load(Ordering::Relaxed))
    }

    /// Takes the number of data blocks that readers did not find in the cache since the last call.
    pub fn take_misses(&self) -> u64 {
        self.misses.swap(0, Ordering::Relaxed)
    }

    /// Reads one of many blocks in order and prefetches the `next` one, too; prefetching is most of the processor's work if the page cache
    /// does not have the bytes.
    pub fn read_in_order(&self, offset: u64, buffer: &mut [u8], next: Option<(u64, u64)>) -> Result<()> {
        let length = buffer.len() as u64;
        let mut read = || {
            self.cache.count_read(self.last_level.load(Ordering::Relaxed), self.temperature, length);
            self.below.read_at(offset, buffer)?;
            next.into_iter().for_each(|(offset, length)| self.below.will_need(offset, length));
            Ok(())
        };
        match self.times.get().and_then(|times| times.clock.as_ref().map(|clock| (times, clock))) {
            Some((times, clock)) => times.note_in_order(length, cpu::timed(&**clock, read)),
            None => read(),
        }
    }

    fn read_timed(&self, times: &ReadTimes, clock: &dyn Clock, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // To ask takes as long as a read that does not wait.
        let queued = times.wait_often.load(Ordering::Relaxed).then(|| clock.queued_ns());
        let start = clock.monotonic_ns();
        let result = self.below.read_at(offset, buffer);
        let ns = clock.monotonic_ns().saturating_sub(start);
        let queued = queued.map_or(0, |before| clock.queued_ns().saturating_sub(before));
        times.note(ns.saturating_sub(queued));
        self.latencies.get().into_iter().for_each(|latencies| latencies.record(ns));
        result
    }
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.cache.count_read(self.last_level.load(Ordering::Relaxed), self.temperature, buffer.len() as u64);
        if buffer.len() as u64 <= LONGEST
            && self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIMED_READS)
            && let Some(times) = self.times.get()
            && let Some(clock) = &times.clock
        {
            return self.read_timed(times, &**clock, offset, buffer);
        }
        self.below.read_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.below.will_need(offset, length);
    }
}

/// Collector of read times: reads of one block, answered by the page cache or by the medium, and reads of merges, which are longer and go
/// in order.
#[derive(Debug)]
pub struct ReadTimes {
    /// `None`: nothing is timed.
    clock: Option<Arc<dyn Clock>>,
    /// The share of reads that waited came to [`OFTEN`], and has not fallen below [`SELDOM`] since.
    wait_often: AtomicBool,
    noted: Mutex<Noted>,
    /// Reads of merges since [`ReadTimes::take_in_order`].
    in_order: Mutex<Transfer>,
}

#[derive(Debug)]
struct Noted {
    fast_ns: Option<f64>,
    slow_share: f64,
    /// Nanoseconds of the last reads that waited, in a ring.
    slow: Vec<u64>,
    /// Index in `slow` of the next time.
    next: usize,
}

impl Default for Noted {
    fn default() -> Self {
        Noted { fast_ns: None, slow_share: 0.0, slow: vec![SLOW_GUESS_NS; SLOW_BEFORE], next: 0 }
    }
}

/// Summary of the last hundred or so timed reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadSummary {
    /// Mean time of a read that the page cache answered, nanoseconds; `None` if there was none.
    pub fast_ns: Option<f64>,
    /// Median time of a read that waited for the medium, nanoseconds. Not the mean: reads that a quota of processor time stopped took a
    /// thousand times as long.
    pub slow_ns: f64,
    /// The part of reads that waited.
    pub slow_share: f64,
}

impl ReadTimes {
    /// A collector; without a clock nothing is timed.
    pub fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        ReadTimes { clock, wait_often: AtomicBool::new(false), noted: Mutex::default(), in_order: Mutex::default() }
    }

    /// A summary of the times noted.
    pub fn summary(&self) -> ReadSummary {
        let noted = self.noted.lock();
        let mut slow = noted.slow.clone();
        slow.sort_unstable();
        let slow_ns = slow.get(slow.len() / 2).map_or(SLOW_GUESS_NS, |ns| *ns) as f64;
        ReadSummary { fast_ns: noted.fast_ns, slow_ns, slow_share: noted.slow_share }
    }

    /// Takes the transfers of merges since the last call.
    pub fn take_in_order(&self) -> Transfer {
        std::mem::take(&mut *self.in_order.lock())
    }

    fn note_in_order<T>(&self, bytes: u64, (result, busy, wait): (T, u64, u64)) -> T {
        self.in_order.lock().add(Transfer { bytes: bytes as f64, busy_ns: busy as f64, wait_ns: wait as f64 });
        result
    }

    pub(crate) fn note(&self, ns: u64) {
        let mut noted = self.noted.lock();
        let is_slow = ns >= SLOW_NS;
        noted.slow_share += WEIGHT * (f64::from(u8::from(is_slow)) - noted.slow_share);
        let least = if self.wait_often.load(Ordering::Relaxed) { SELDOM } else { OFTEN };
        self.wait_often.store(noted.slow_share >= least, Ordering::Relaxed);
        if !is_slow {
            let ns = ns as f64;
            noted.fast_ns = Some(noted.fast_ns.map_or(ns, |mean| mean + WEIGHT * (ns - mean)));
            return;
        }
        let next = noted.next;
        match noted.slow.get_mut(next) {
            Some(oldest) => *oldest = ns,
            None => noted.slow.push(ns),
        }
        noted.next = (next + 1) % SLOW_READS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_wait_are_told_from_those_that_do_not() {
        let times = ReadTimes::new(None);
        let guess = ReadSummary { fast_ns: None, slow_ns: SLOW_GUESS_NS as f64, slow_share: 0.0 };
        assert_eq!(times.summary(), guess);
        (0..1000).for_each(|_| times.note(700));
        assert_eq!(times.summary(), ReadSummary { fast_ns: Some(700.0), ..guess });
        (0..7).for_each(|_| times.note(800_000));
        assert_eq!(times.summary().slow_ns, guess.slow_ns, "a few reads of many blocks' time say little");
        (0..1000).for_each(|n| times.note(if n % 2 == 0 { 60_000 } else { 700 }));
        let summary = times.summary();
        assert_eq!((summary.fast_ns, summary.slow_ns), (Some(700.0), 60_000.0));
        assert!((summary.slow_share - 0.5).abs() < 0.01, "{summary:?}");
        // A quarter of them were stopped in their midst.
        (0..200).for_each(|n| times.note(if n % 4 == 0 { 40_000_000 } else { 90_000 + n }));
        assert!((90_000.0..91_000.0).contains(&times.summary().slow_ns), "{:?}", times.summary());
    }
}
