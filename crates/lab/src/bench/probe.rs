//! The measuring part of a worker: counts, times, stops. Nothing here allocates, prints or takes a lock between the first and the last
//! operation.

use super::config::BenchConfig;
use super::pacer::Pacer;
use crate::result::Latency;
use hdrhistogram::Histogram;
use sinterdb::clock::{Clock, SystemClock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Without timing, operations between two looks at the clock for `duration` (db_bench: `ops_between_duration_checks`).
const OPS_BETWEEN_CLOCKS: u64 = 1000;

/// A counter with a cache line of its own, so that threads do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// Progress of the running workload; written by the driver, read by the display.
#[derive(Debug)]
pub struct Progress {
    label: Mutex<(&'static str, u64)>,
    slots: Vec<Slot>,
}

impl Progress {
    /// Progress of runs with up to `threads` threads.
    pub fn new(threads: usize) -> Self {
        Progress { label: Mutex::new(("", 0)), slots: (0..threads).map(|_| Slot::default()).collect() }
    }

    /// Name of the running workload, operations done, and operations to do (0: unknown).
    pub fn now(&self) -> (&'static str, u64, u64) {
        let (name, total) = *self.label.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (name, self.slots.iter().map(|slot| slot.0.load(Ordering::Relaxed)).sum(), total)
    }

    pub(super) fn begin(&self, name: &'static str, total: u64) {
        self.slots.iter().for_each(|slot| slot.0.store(0, Ordering::Relaxed));
        *self.label.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = (name, total);
    }
}

/// Limit of a worker: it ends when one of the two is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Number of operations.
    pub operations: u64,
    /// Duration, nanoseconds.
    pub nanoseconds: u64,
}

impl Limit {
    /// Runs until a flag is raised.
    pub const NONE: Limit = Limit { operations: u64::MAX, nanoseconds: u64::MAX };
}

/// Tally of one worker.
#[derive(Debug)]
pub(super) struct Tally {
    pub operations: u64,
    pub bytes: u64,
    pub found: u64,
    /// Keys asked for.
    pub asked: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub latency: Histogram<u64>,
}

/// Counts and times one worker's operations.
pub(super) struct Probe<'a> {
    clock: &'a SystemClock,
    /// Flags that end the worker when raised: the user's, and the driver's.
    flags: [&'a AtomicBool; 2],
    slot: Option<&'a Slot>,
    limit: Limit,
    pacer: Option<&'a Pacer>,
    timed: bool,
    deadline_ns: u64,
    last_ns: u64,
    pub tally: Tally,
}

impl<'a> Probe<'a> {
    pub fn new(config: &BenchConfig, clock: &'a SystemClock, flags: [&'a AtomicBool; 2], limit: Limit) -> Self {
        let tally = Tally { operations: 0, bytes: 0, found: 0, asked: 0, start_ns: 0, end_ns: 0, latency: Latency::histogram() };
        Probe { clock, flags, slot: None, limit, pacer: None, timed: config.time_operations, deadline_ns: u64::MAX, last_ns: 0, tally }
    }

    /// Shows the count in `progress`, in the place of thread `index`.
    pub fn show(mut self, progress: &'a Progress, index: usize) -> Self {
        self.slot = progress.slots.get(index);
        self
    }

    /// Holds writes to the rate of `pacer`.
    pub fn pace_with(mut self, pacer: Option<&'a Pacer>) -> Self {
        self.pacer = pacer;
        self
    }

    /// Begins the measured time.
    pub fn begin(&mut self) {
        let now = self.clock.monotonic_ns();
        (self.tally.start_ns, self.last_ns) = (now, now);
        self.deadline_ns = now.saturating_add(self.limit.nanoseconds);
    }

    /// Ends the measured time.
    pub fn end(mut self) -> Tally {
        self.tally.end_ns = self.clock.monotonic_ns();
        self.tally
    }

    /// Whether there is another operation to do.
    #[inline]
    pub fn more(&self) -> bool {
        self.tally.operations < self.limit.operations && !self.ended_at(self.last_ns)
    }

    #[inline]
    fn ended_at(&self, now_ns: u64) -> bool {
        now_ns >= self.deadline_ns || self.flags.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Waits until the rate allows `bytes` more; false if the workload ended meanwhile. As in db_bench, the wait does not count in the next
    /// operation's latency.
    #[inline]
    pub fn pace(&mut self, bytes: u64) -> bool {
        let Some(pacer) = self.pacer else { return true };
        self.last_ns = pacer.wait(bytes, self.clock, |now| self.ended_at(now));
        !self.ended_at(self.last_ns)
    }

    /// Size of the next batch: at most `wanted`, and not beyond the limit.
    #[inline]
    pub fn batch(&self, wanted: u64) -> u64 {
        wanted.min(self.limit.operations - self.tally.operations)
    }

    /// Counts `operations` done in one call. The end of one call is the start of the next: one clock read each.
    #[inline]
    pub fn done(&mut self, operations: u64, bytes: u64) {
        let before = self.tally.operations;
        self.tally.operations += operations;
        self.tally.bytes += bytes;
        if let Some(slot) = self.slot {
            slot.0.store(self.tally.operations, Ordering::Relaxed);
        }
        if self.timed {
            let now = self.clock.monotonic_ns();
            self.tally.latency.saturating_record(now.saturating_sub(self.last_ns));
            self.last_ns = now;
        } else if self.deadline_ns != u64::MAX && before / OPS_BETWEEN_CLOCKS != self.tally.operations / OPS_BETWEEN_CLOCKS {
            self.last_ns = self.clock.monotonic_ns();
        }
    }
}
