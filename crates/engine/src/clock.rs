//! Time comes in from outside, so that tests can move it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Two kinds of time.
///
/// A clock calls nothing of a database: the engine asks for the time with its locks held. Methods of [`Db`](crate::Db) that can give an
/// error give [`Error::Invalid`](crate::Error::Invalid) there, at once; the others tell nothing (no families, no figures).
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Nanoseconds since some fixed point; never goes back.
    fn monotonic_ns(&self) -> u64;
    /// Seconds since 1970; may jump either way.
    fn unix_seconds(&self) -> u64;
    /// Nanoseconds in which this thread could have worked and others had the processors, or a quota was used up; 0 where that is not known.
    fn queued_ns(&self) -> u64 {
        0
    }
}

thread_local! {
    /// File in which the kernel counts how long this thread waited for a processor; `None` where there is none.
    static TURNS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
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

    /// Takes a microsecond.
    fn queued_ns(&self) -> u64 {
        let mut text = [0; 64];
        let length = TURNS.try_with(|file| file.as_ref()?.read_at(&mut text, 0).ok()).ok().flatten();
        let text = length.and_then(|length| std::str::from_utf8(text.get(..length)?).ok());
        // Time on a processor, time in the queue for one, number of turns.
        text.and_then(|text| text.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    }
}

/// The time of an open database. It never goes back: it starts at the later of the wall clock and the newest time that the database
/// has noted, and from then on it goes with the monotonic clock. What the wall clock does meanwhile, it does not follow, neither
/// forwards nor backwards: a jump cannot be told from a mistake, and one forwards would make all data old at once.
///
/// While a database is closed there is only the wall clock, and so it counts at the next open. One that is behind then costs the time
/// for which the database was closed: data look younger than they are.
#[derive(Debug)]
pub(crate) struct TrackedClock {
    clock: Arc<dyn Clock>,
    start_unix: u64,
    start_ns: u64,
}

impl TrackedClock {
    /// Starts at the time of `clock`, or at `newest` if that is later, unix seconds.
    pub fn new(clock: Arc<dyn Clock>, newest: u64) -> Self {
        TrackedClock { start_unix: clock.unix_seconds().max(newest), start_ns: clock.monotonic_ns(), clock }
    }
}

impl Clock for TrackedClock {
    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn unix_seconds(&self) -> u64 {
        self.start_unix.saturating_add(self.monotonic_ns().saturating_sub(self.start_ns) / NS_PER_SECOND)
    }

    fn queued_ns(&self) -> u64 {
        self.clock.queued_ns()
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    ns: AtomicU64,
    unix: AtomicU64,
}

impl ManualClock {
    /// Sets the wall clock, forwards or backwards. An open database does not follow.
    pub fn set_unix_seconds(&self, seconds: u64) {
        self.unix.store(seconds, Ordering::Relaxed);
    }

    /// Moves the monotonic clock.
    pub fn advance_ns(&self, ns: u64) {
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Lets time pass: moves both clocks.
    pub fn advance_seconds(&self, seconds: u64) {
        self.unix.fetch_add(seconds, Ordering::Relaxed);
        self.advance_ns(seconds.saturating_mul(NS_PER_SECOND));
    }

    /// Lets time pass until the wall clock shows `unix_seconds`; not at all if it is later already.
    pub fn advance_to(&self, unix_seconds: u64) {
        self.advance_seconds(unix_seconds.saturating_sub(self.unix_seconds()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracked_clock_starts_at_the_later_time_and_goes_with_the_monotonic_clock() {
        for (wall, newest, start) in [(1000, 0, 1000), (1000, 500, 1000), (1000, 5000, 5000), (0, u64::MAX, u64::MAX)] {
            let inner = Arc::new(ManualClock::default());
            inner.advance_ns(123_456_789);
            inner.set_unix_seconds(wall);
            let clock = TrackedClock::new(inner.clone(), newest);
            assert_eq!(clock.unix_seconds(), start);
            for jump in [0, u64::MAX, 999, 1001] {
                inner.set_unix_seconds(jump);
                assert_eq!(clock.unix_seconds(), start, "a jump to {jump}");
            }
            inner.advance_ns(NS_PER_SECOND - 1);
            assert_eq!(clock.unix_seconds(), start);
            inner.advance_ns(1);
            assert_eq!(clock.unix_seconds(), start.saturating_add(1));
            inner.set_unix_seconds(wall);
            inner.advance_seconds(10);
            assert_eq!((clock.unix_seconds(), inner.unix_seconds()), (start.saturating_add(11), wall + 10));
            inner.advance_to(wall + 15);
            inner.advance_to(wall + 15);
            assert_eq!((clock.unix_seconds(), inner.unix_seconds()), (start.saturating_add(16), wall + 15));
        }
    }
}
