//! Work that is due once a second, whether there are jobs or not. The thread for flushes does it, and so do jobs on their way: a flush may
//! pause, and a compaction keep the only thread for minutes. A database without threads does without, so that it repeats exactly.

use super::Inner;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Nanoseconds between two ticks, at least.
const PERIOD_NS: u64 = 1_000_000_000;

impl Inner {
    /// Does the work if it is due. Called whenever the thread looks for work, and amid jobs. Of several callers at once, one does it.
    pub(super) fn tick(&self) {
        let (now, before) = (self.clock.monotonic_ns(), self.ticked_ns.load(Ordering::Relaxed));
        let passed = now.saturating_sub(before);
        if passed < PERIOD_NS || self.ticked_ns.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        self.obsolete.clear();
        self.sample_if_due();
        self.watch_outlived();
        self.save_samples();
        self.divide_memory();
        self.watch_limits(now);
        self.packers.look(self.cpu.idle(), self.cpu.cpus(), Duration::from_nanos(passed));
        self.review_all_codecs();
        self.review_all_placements();
    }
}

#[cfg(test)]
mod tests;
