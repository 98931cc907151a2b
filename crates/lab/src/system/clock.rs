//! A clock driven by operations: a second passes with a fixed number of them. Behaviour of an engine that depends on the age of data then
//! depends on the stream alone, and not on the speed of the machine.

use sinterdb::clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Start of the clock, unix seconds. Not 0, because times before are those of data of unknown age.
const START: u64 = 1_000_000_000;

/// Clock that advances with operations. Both of its times do, because data ages by either, and an engine whose two clocks diverged would
/// have to choose. So the times that the engine reports (stalls, say) are in these seconds, too.
#[derive(Debug)]
pub struct OperationClock {
    done: AtomicU64,
    per_second: f64,
}

impl OperationClock {
    /// A clock whose second has `per_second` operations; must be more than 0.
    pub fn new(per_second: f64) -> Self {
        OperationClock { done: AtomicU64::new(0), per_second }
    }

    /// Advances by an operation.
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
