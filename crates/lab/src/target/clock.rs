//! A clock that is scaled to the work: a second passes with every so many operations. What an engine does by the age of data is then a
//! matter of the stream alone, and the same on a fast machine and on a slow one.

use sinterdb::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When it starts, unix seconds. Not 0: before that lies the time of data whose age nobody knows.
const START: u64 = 1_000_000_000;

/// Time that passes by operations. Stretches of it are scaled like the wall clock: data ages by either, and an engine whose two clocks
/// went apart would have to choose. So what the engine itself says of times (stalls, say) is in these seconds, not in the world's.
#[derive(Debug)]
pub struct OperationClock {
    done: AtomicU64,
    per_second: f64,
}

impl OperationClock {
    /// A second for every `per_second` operations, which must be more than 0.
    pub fn new(per_second: f64) -> Self {
        OperationClock { done: AtomicU64::new(0), per_second }
    }

    /// An operation passes.
    #[inline]
    pub fn pass(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.done.load(Relaxed) as f64 / self.per_second
    }
}

impl Clock for OperationClock {
    fn monotonic_ns(&self) -> u64 {
        (self.seconds() * 1e9) as u64
    }

    fn unix_seconds(&self) -> u64 {
        START.saturating_add(self.seconds() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_so_many_operations() {
        let clock = OperationClock::new(2.5);
        let times: Vec<(u64, u64)> = (0..6)
            .map(|_| {
                clock.pass();
                (clock.unix_seconds() - START, clock.monotonic_ns())
            })
            .collect();
        let halves = [400_000_000, 800_000_000, 1_200_000_000, 1_600_000_000, 2_000_000_000, 2_400_000_000];
        assert_eq!(times, [0, 0, 1, 1, 2, 2].into_iter().zip(halves).collect::<Vec<_>>());
    }
}
