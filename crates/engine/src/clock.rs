//! Time comes in from outside, so that tests can move it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Two kinds of time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since some fixed point; never goes back.
    fn monotonic_ns(&self) -> u64;
    /// Seconds since 1970; may jump either way.
    fn unix_seconds(&self) -> u64;
}

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system's time comes in")]
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where the system's time comes in")]
    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    ns: AtomicU64,
    unix: AtomicU64,
}

impl ManualClock {
    /// Sets the wall clock, forwards or backwards.
    pub fn set_unix_seconds(&self, seconds: u64) {
        self.unix.store(seconds, Ordering::Relaxed);
    }

    /// Moves the monotonic clock.
    pub fn advance_ns(&self, ns: u64) {
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn monotonic_ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        self.unix.load(Ordering::Relaxed)
    }
}
