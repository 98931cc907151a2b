//! How much of the time flushes and compactions work where a control group has a CPU quota.
//!
//! Processors that are busy are shared out by the kernel, thread by thread. A quota is not: a group that has used it up stands still for
//! the rest of the period (100 ms), and a read that comes then waits as long, whoever used it up. So background work leaves some of it
//! over. What others need is not known; what all of the group together use is, and whether it was stopped. From that follows the share of
//! their time in which jobs work, by additive increase and multiplicative decrease, which finds a fair share without knowing what the
//! others want (Chiu and Jain, Computer Networks 17, 1989). Between increase and decrease lies a band in which nothing changes, so that the
//! limit is not probed once a second. CockroachDB governs its background work in the same way by how long threads wait for a processor
//! (pkg/util/admission, elastic CPU).
//!
//! The share never falls below the *urgency*. That of a compaction ([`crate::pacing::urgency`]) is how far the tree is behind, that of a
//! flush how much of the next memtable is full already. Where writers are held back, or somebody waits for background work, nothing
//! pauses. So debt has a bound, as without pauses.
//!
//! Pauses are short, after short pieces of work: within each period of the quota jobs have used about their share.

use crate::clock::Clock;
use crate::cpu::CpuRoom;
use crate::limits::CpuQuota;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds after which the share is reconsidered: once per period of a quota, unless the administrator chose another.
const PERIOD_NS: u64 = 100_000_000;
/// Quotas whose use was last looked at longer ago say nothing about now.
const STALE_NS: u64 = 10 * PERIOD_NS;
/// Jobs take less of a quota from this use on: bursts of others within a period need some, too.
const FULL: f64 = 0.95;
/// Below this use, jobs take more.
const ROOMY: f64 = 0.85;
/// Growth of the share in a period in which the quota is not near its end: from nothing to all in under two seconds.
const STEP: f64 = 1.0 / 16.0;
/// The smallest share where nothing is urgent.
const LEAST: f64 = 1.0 / 16.0;
/// Work between two looks at the clock, nanoseconds, about: a fiftieth of a period.
const SLICE_NS: u64 = 2_000_000;
/// Entries between two looks, at most.
const MOST_ENTRIES: u64 = 1024;
/// Shortest pause, nanoseconds: a shorter one costs more than it leaves over.
const NAP_MIN_NS: u64 = 500_000;
/// Longest single sleep, so that a cancelled job ends soon.
const NAP_MAX_NS: u64 = 10_000_000;

/// The share of time in which all flushes and compactions of a database work, and their pauses.
#[derive(Debug)]
pub struct Throttle {
    /// Bits of an `f64`.
    share: AtomicU64,
    /// Quotas when they were last looked at.
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
    /// The part of their time in which jobs work as far as nothing is urgent, up to 1.
    pub fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    /// Number of pauses, and their nanoseconds in all (pauses that run side by side added up).
    pub fn pauses(&self) -> (u64, u64) {
        (self.pauses.load(Ordering::Relaxed), self.paused_ns.load(Ordering::Relaxed))
    }

    /// Reconsiders the share, if a period has passed. A thread that comes while another one does so goes on.
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

/// The share after a period: `used` is the part of its quota that the group used, `is_throttled` says that it was stopped.
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

/// Returns the urgency of a job, up to 1: it may not pause.
pub type Urgency<'a> = &'a (dyn Fn() -> f64 + Sync);

/// Pacing of the flushes and compactions of one family.
#[derive(Clone, Copy)]
pub struct Pacing<'a> {
    /// The share, common to all families.
    pub throttle: &'a Throttle,
    /// Source of the quotas.
    pub room: &'a CpuRoom,
    /// Urgency of the work, up to 1: the smallest share.
    pub urgency: Urgency<'a>,
    /// Called now and then, a few times a second.
    pub tick: &'a (dyn Fn() + Sync),
}

/// Breaks of a merge loop: it looks whether it is to give up, and pauses. One per thread.
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
    /// Entries between two looks.
    entries: u64,
    resumed_ns: u64,
    /// Time when urgency and share are looked at next.
    next_ns: u64,
    share: f64,
}

impl<'a> Rests<'a> {
    /// Breaks of a thread. Without `pacing` there are no pauses, and the clock is not looked at.
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

    /// Pauses if it is time to. Returns the number of entries after which to look again; `None`: give up.
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
            // A clock that hardly moves must not keep it from working.
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

/// The time that a thread owes for its work: a token bucket that is filled by resting.
#[derive(Debug, Default)]
struct Budget {
    owed_ns: u64,
}

impl Budget {
    /// Adds the pause owed for so much work at this share of the time. The debt stays below a period: work that took long because the group
    /// was stopped was not all work.
    fn work(&mut self, ns: u64, share: f64) {
        let owed = ns as f64 * (1.0 - share) / share.max(LEAST);
        self.owed_ns = self.owed_ns.saturating_add(owed as u64).min(PERIOD_NS);
    }

    /// Nanoseconds to sleep now; `None`: none. With the whole share nothing is owed any more.
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
