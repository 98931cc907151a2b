//! Holds writers to a rate of bytes, as db_bench's `--benchmark_write_rate_limit`: one budget for all threads of a phase.

use sinterdb::clock::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Span whose unused budget may be used later, nanoseconds: the refill period of RocksDB's rate limiter (util/rate_limiter.cc).
const BURST_NS: u64 = 100_000_000;
/// Shortest wait, nanoseconds; shorter ones are left to the next request, because a sleep costs more than it paces.
const SHORTEST_WAIT_NS: u64 = 1_000_000;

/// A byte rate as a schedule: each request is due when all bytes before it have had their time.
#[derive(Debug)]
pub(super) struct Pacer {
    bytes_per_second: u64,
    /// Moment at which the next request is due, on the clock's scale.
    next_ns: AtomicU64,
}

impl Pacer {
    pub fn new(bytes_per_second: u64) -> Self {
        Pacer { bytes_per_second, next_ns: AtomicU64::new(0) }
    }

    /// Takes `bytes` of the budget and returns the moment at which they are due.
    pub fn due(&self, bytes: u64, now_ns: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let start = |next: u64| next.max(now_ns.saturating_sub(BURST_NS));
        let taken = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(start(next).saturating_add(cost)));
        start(taken.unwrap_or_else(|next| next))
    }

    /// Waits until `bytes` more may be written, or until `ended` returns true for the current moment. Returns the moment at which the wait
    /// ended.
    pub fn wait(&self, bytes: u64, clock: &SystemClock, ended: impl Fn(u64) -> bool) -> u64 {
        let mut now = clock.monotonic_ns();
        let due = self.due(bytes, now);
        while now.saturating_add(SHORTEST_WAIT_NS) < due && !ended(now) {
            // In pieces, so that the end of the phase is noticed.
            std::thread::sleep(Duration::from_nanos((due - now).min(BURST_NS)));
            now = clock.monotonic_ns();
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_together_keep_the_rate() {
        let pacer = Pacer::new(1000);
        let second = 1_000_000_000;
        let dues: Vec<u64> = (0..4).map(|_| pacer.due(500, second)).collect();
        // A tenth of a second was not used before.
        assert_eq!(dues, [0, 1, 2, 3].map(|half| second - BURST_NS + half * second / 2));
        assert_eq!(pacer.due(1, 60 * second), 60 * second - BURST_NS, "what nobody used for long is gone");
        let slow = Pacer::new(1);
        assert_eq!((slow.due(u64::MAX, 0), slow.due(1, 0)), (0, u64::MAX));
    }

    #[test]
    fn a_wait_ends_with_the_phase() {
        let (pacer, clock) = (Pacer::new(1), SystemClock::default());
        pacer.due(u64::MAX, clock.monotonic_ns());
        pacer.wait(1, &clock, |_| true);
    }
}
