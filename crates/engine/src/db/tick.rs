//! What the database looks after once a second, whether there is work or not. The thread for flushes does it, which never is busy for long;
//! a database without threads does without, so that it repeats exactly.

use super::Inner;
use std::sync::atomic::Ordering;

/// Nanoseconds between two ticks, at least.
const PERIOD_NS: u64 = 1_000_000_000;

impl Inner {
    /// Called whenever the thread looks for work.
    pub(super) fn tick(&self) {
        let now = self.clock.monotonic_ns();
        if now.saturating_sub(self.ticked_ns.load(Ordering::Relaxed)) < PERIOD_NS {
            return;
        }
        self.ticked_ns.store(now, Ordering::Relaxed);
        self.cpu.sample(now);
        self.review_all_codecs();
    }
}
