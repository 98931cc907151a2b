//! Limits the share of time in which flushes and compactions work if a control group has a CPU quota.
//!
//! The kernel shares a busy processor between threads, but it does not share a quota: once the quota is used up, all threads of the group
//! stop for the rest of the period (100 ms), reads included, whichever thread used it up. So background jobs leave part of the quota
//! unused. How much the other threads need is not known; the use of the whole group is, and whether the group was stopped. From these two
//! the share of time in which jobs work is adjusted by additive increase and multiplicative decrease, which finds a fair share without
//! knowing the demand of others (Chiu and Jain, Computer Networks 17, 1989). Between `ROOMY` and `FULL` the share stays as it is, so
//! that jobs do not run into the limit once a second. CockroachDB adjusts its background work in a similar way by the time that threads
//! wait for a processor (pkg/util/admission, elastic CPU).
//!
//! The share never falls below the *urgency* of a job. The urgency of a compaction ([`crate::pacing::urgency`]) says how far the tree is
//! behind; the urgency of a flush is the filled part of the next memtable. While writers are held back or somebody waits for background
//! work, jobs do not pause. So debt has the same bound as without pauses.
//!
//! Jobs pause often and briefly, so that they use about their share of each period of the quota.

use crate::clock::Clock;
use crate::cpu::CpuRoom;
use crate::limits::CpuQuota;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds after which the share is reconsidered: once per period of a quota, unless the administrator chose another.
const PERIOD_NS: u64 = 100_000_000;
/// A reading of the quotas older than this, nanoseconds, is not compared with the present one.
const STALE_NS: u64 = 10 * PERIOD_NS;
/// Above this use of a quota the share is halved: bursts of other threads within a period need the rest.
const FULL: f64 = 0.95;
/// Below this use of a quota the share grows.
const ROOMY: f64 = 0.85;
/// Growth of the share per period: from its minimum to 1 in under two seconds.
const STEP: f64 = 1.0 / 16.0;
/// The smallest share where nothing is urgent.
const LEAST: f64 = 1.0 / 16.0;
/// Approximate work between two checks of the clock, nanoseconds: a fiftieth of a period.
const SLICE_NS: u64 = 2_000_000;
/// Most entries between two checks.
const MOST_ENTRIES: u64 = 1024;
/// Shortest pause, nanoseconds: a shorter one costs more CPU time than it saves.
const NAP_MIN_NS: u64 = 500_000;
/// Longest single sleep, so that a cancelled job ends soon.
const NAP_MAX_NS: u64 = 10_000_000;

/// The share of time in which all flushes and compactions of a database work, and their pauses.
#[derive(Debug)]
pub struct Throttle {
    /// Bits of an `f64`.
    share: AtomicU64,
    /// The last reading of the quotas, and its time, monotonic nanoseconds.
    last: Mutex<(u64, Vec<CpuQuota>)>,
    pauses: AtomicU64,
    paused_ns: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle { share: AtomicU64::new(1f64.to_bits()), last: Mutex::default(), pauses: AtomicU64::new(0), paused_ns: AtomicU64::new(0) }
    }
}

impl Throttle {
    /// The share of time in which jobs without urgency work, up to 1.
    pub fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    /// Number of pauses, and their total length in nanoseconds, summed over threads.
    pub fn pauses(&self) -> (u64, u64) {
        (self.pauses.load(Ordering::Relaxed), self.paused_ns.load(Ordering::Relaxed))
    }

    /// Adjusts the share if a period has passed. Returns at once if another thread is adjusting it.
    fn adjust(&self, now_ns: u64, room: &CpuRoom) {
        let Some(limits) = room.limits() else { return };
        let Some(mut last) = self.last.try_lock() else { return };
        let passed = now_ns.saturating_sub(last.0);
        if passed < PERIOD_NS {
            return;
        }
        let quotas = limits.quotas();
        let share = if quotas.is_empty() {
            1.0
        } else if passed > STALE_NS {
            self.share()
        } else {
            let pairs = || quotas.iter().filter_map(|now| Some((now, last.1.iter().find(|then| then.group == now.group)?)));
            let used = pairs().filter_map(|(now, then)| Some(1.0 - now.left_since(then, passed)? / now.cpus)).fold(0.0, f64::max);
            next_share(self.share(), used, pairs().any(|(now, then)| now.throttled > then.throttled))
        };
        self.share.store(share.to_bits(), Ordering::Relaxed);
        *last = (now_ns, quotas);
    }
}

/// The share after a period in which the group used the part `used` of its quota; `is_throttled`: the kernel stopped the group.
fn next_share(share: f64, used: f64, is_throttled: bool) -> f64 {
    let next = if is_throttled || used > FULL {
        share / 2.0
    } else if used < ROOMY {
        share + STEP
    } else {
        share
    };
    next.clamp(LEAST, 1.0)
}

/// Returns the urgency of a job, from 0 to 1. A job of urgency 1 does not pause.
pub type Urgency<'a> = &'a (dyn Fn() -> f64 + Sync);

/// Pacing of the flushes and compactions of one family.
#[derive(Clone, Copy)]
pub struct Pacing<'a> {
    /// The share, common to all families.
    pub throttle: &'a Throttle,
    /// Source of the quotas.
    pub room: &'a CpuRoom,
    /// Urgency of the work: a lower bound of its share.
    pub urgency: Urgency<'a>,
    /// Called about ten times a second, for tasks of the database that are due.
    pub tick: &'a (dyn Fn() + Sync),
}

/// Lets a merge loop pause, and tells it when to stop. One per thread.
pub struct Rests<'a> {
    /// The job was cancelled.
    pub cancel: &'a AtomicBool,
    /// Another part of the job failed.
    pub failed: &'a AtomicBool,
    paced: Option<Paced<'a>>,
}

struct Paced<'a> {
    pacing: Pacing<'a>,
    clock: &'a dyn Clock,
    budget: Budget,
    /// Entries until the next check.
    entries: u64,
    resumed_ns: u64,
    /// Time of the next check of urgency and share, monotonic nanoseconds.
    next_ns: u64,
    share: f64,
}

impl<'a> Rests<'a> {
    /// Makes the `Rests` of one thread. Without `pacing` there are no pauses, and the clock is not read.
    pub fn new(cancel: &'a AtomicBool, failed: &'a AtomicBool, pacing: Option<(Pacing<'a>, &'a dyn Clock)>) -> Self {
        let paced = pacing.map(|(pacing, clock)| Paced {
            pacing,
            clock,
            budget: Budget::default(),
            entries: MOST_ENTRIES / 16,
            resumed_ns: clock.monotonic_ns(),
            next_ns: 0,
            share: 1.0,
        });
        Rests { cancel, failed, paced }
    }

    /// Pauses if a pause is due. Returns the number of entries after which to call this again; `None`: stop.
    pub fn look(&mut self) -> Option<u64> {
        let (cancel, failed) = (self.cancel, self.failed);
        let is_over = || cancel.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        if is_over() {
            return None;
        }
        let Some(paced) = &mut self.paced else { return Some(MOST_ENTRIES) };
        paced.rest(&is_over);
        (!is_over()).then_some(paced.entries)
    }
}

impl Paced<'_> {
    fn rest(&mut self, is_over: &dyn Fn() -> bool) {
        let start = self.clock.monotonic_ns();
        let worked = start.saturating_sub(self.resumed_ns);
        self.entries = match worked {
            _ if worked > 2 * SLICE_NS => self.entries / 2,
            _ if worked < SLICE_NS / 2 => self.entries * 2,
            _ => self.entries,
        }
        .clamp(1, MOST_ENTRIES);
        self.consider(start);
        self.budget.work(worked, self.share);
        let mut now = start;
        while let Some(nap) = self.budget.nap(self.share).filter(|_| !is_over()) {
            std::thread::sleep(Duration::from_nanos(nap));
            let before = std::mem::replace(&mut now, self.clock.monotonic_ns());
            // At least the requested time counts: a manual clock may not have moved.
            self.budget.slept(now.saturating_sub(before).max(nap));
            self.consider(now);
        }
        if now > start {
            self.pacing.throttle.pauses.fetch_add(1, Ordering::Relaxed);
            self.pacing.throttle.paused_ns.fetch_add(now - start, Ordering::Relaxed);
        }
        self.resumed_ns = now;
    }

    fn consider(&mut self, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        self.next_ns = now_ns + PERIOD_NS;
        (self.pacing.tick)();
        self.pacing.throttle.adjust(now_ns, self.pacing.room);
        let share = self.pacing.throttle.share();
        self.share = if share < 1.0 { share.max((self.pacing.urgency)()).min(1.0) } else { 1.0 };
    }
}

/// The pause that a thread owes for its work.
#[derive(Debug, Default)]
struct Budget {
    owed_ns: u64,
}

impl Budget {
    /// Adds the pause owed for `ns` of work at this share. At most one period is owed, because work seems long if the group was stopped in
    /// its midst.
    fn work(&mut self, ns: u64, share: f64) {
        let owed = ns as f64 * (1.0 - share) / share.max(LEAST);
        self.owed_ns = self.owed_ns.saturating_add(owed as u64).min(PERIOD_NS);
    }

    /// Nanoseconds to sleep now, if any. A share of 1 clears the debt.
    fn nap(&mut self, share: f64) -> Option<u64> {
        if share >= 1.0 {
            self.owed_ns = 0;
        }
        (self.owed_ns >= NAP_MIN_NS).then_some(self.owed_ns.min(NAP_MAX_NS))
    }

    fn slept(&mut self, ns: u64) {
        self.owed_ns = self.owed_ns.saturating_sub(ns);
    }
}

#[cfg(test)]
mod tests;
