//! What the database looks after once a second, whether there is work or not. The thread for flushes does it, which is never busy for long
//! unless it is the only one; a database without threads does without, so that it repeats exactly.

use super::Inner;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Nanoseconds between two ticks, at least.
const PERIOD_NS: u64 = 1_000_000_000;

impl Inner {
    /// Called whenever the thread looks for work.
    pub(super) fn tick(&self) {
        let now = self.clock.monotonic_ns();
        if now.saturating_sub(self.ticked_ns.load(Ordering::Relaxed)) < PERIOD_NS {
            return;
        }
        let passed = now.saturating_sub(self.ticked_ns.swap(now, Ordering::Relaxed));
        self.sample_if_due();
        self.save_samples();
        self.divide_memory();
        self.watch_limits(now);
        self.packers.look(self.cpu.idle(), self.cpu.cpus(), Duration::from_nanos(passed));
        self.review_all_codecs();
        self.review_all_placements();
    }
}
