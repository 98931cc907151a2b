//! A wall clock that is scaled to the work: a second passes with every so many operations. What an engine does by the age of data is then
//! a matter of the stream alone, and the same on a fast machine and on a slow one.

use sinterdb::clock::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When it starts, unix seconds. Not 0: before that lies the time of data whose age nobody knows.
const START: u64 = 1_000_000_000;

/// Wall time that passes by operations. Stretches of time (latencies, stalls) are the system's.
#[derive(Debug)]
pub struct OperationClock {
    system: SystemClock,
    done: AtomicU64,
    per_second: f64,
}

impl OperationClock {
    /// A second for every `per_second` operations, which must be more than 0.
    pub fn new(per_second: f64) -> Self {
        OperationClock { system: SystemClock::default(), done: AtomicU64::new(0), per_second }
    }

    /// An operation passes.
    #[inline]
    pub fn pass(&self) {
        self.done.fetch_add(1, Relaxed);
    }
}

impl Clock for OperationClock {
    fn monotonic_ns(&self) -> u64 {
        self.system.monotonic_ns()
    }

    fn unix_seconds(&self) -> u64 {
        START.saturating_add((self.done.load(Relaxed) as f64 / self.per_second) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_so_many_operations() {
        let clock = OperationClock::new(2.5);
        let seconds: Vec<u64> = (0..6)
            .map(|_| {
                clock.pass();
                clock.unix_seconds() - START
            })
            .collect();
        assert_eq!(seconds, [0, 0, 1, 1, 2, 2]);
    }
}
