//! How much CPU this process may use, and how much of it is still free.
//!
//! Two things bound it: the processors (those the process may run on, shared with everything else on the machine) and the quota of each
//! control group around it (shared with everything else in the group). The least that any of them leaves is the process's room. It is
//! measured between two samples about a second apart, from counters that the kernel keeps anyway.

use crate::clock::Clock;
use crate::limits::{CpuQuota, CpuTicks, ProcessLimits};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Samples closer than this say little: quotas are granted per period of 100 ms, and ticks are 10 ms long.
const CLOSEST_NS: u64 = 200_000_000;
/// The room is smoothed over about this time: a sample after it counts half.
const MEMORY_NS: u64 = 1_000_000_000;

/// Processor time of this thread, nanoseconds.
pub fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Does `work`. Returns its result, the nanoseconds of this thread's processor time, and the nanoseconds of waiting for the medium. Waiting
/// for a processor counts in neither: the work could have been done later as well, by whoever has the processors meanwhile. Measuring takes
/// two microseconds.
pub fn timed<T>(clock: &dyn Clock, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let queued = clock.queued_ns();
    let (start, busy) = (clock.monotonic_ns(), thread_ns());
    let result = work();
    // A clock that tests move may stand still meanwhile.
    let passed = clock.monotonic_ns().saturating_sub(start);
    let busy = thread_ns().saturating_sub(busy).min(passed);
    let queued = clock.queued_ns().saturating_sub(queued);
    (result, busy, (passed - busy).saturating_sub(queued))
}

/// Bytes that were read or written, and the time that they took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Transfer {
    /// Number of bytes, possibly weighted.
    pub bytes: f64,
    /// Nanoseconds of processors.
    pub busy_ns: f64,
    /// Nanoseconds of waiting for the medium.
    pub wait_ns: f64,
}

impl Transfer {
    /// A transfer of `bytes` at costs per byte.
    pub fn of(bytes: f64, busy_ns: f64, wait_ns: f64) -> Self {
        Transfer { bytes, busy_ns: bytes * busy_ns, wait_ns: bytes * wait_ns }
    }

    /// Adds another transfer.
    pub fn add(&mut self, other: Transfer) {
        self.bytes += other.bytes;
        self.busy_ns += other.busy_ns;
        self.wait_ns += other.wait_ns;
    }

    /// The transfer with `weight` times its weight.
    pub fn times(self, weight: f64) -> Self {
        Transfer { bytes: self.bytes * weight, busy_ns: self.busy_ns * weight, wait_ns: self.wait_ns * weight }
    }

    /// Both costs per byte, once they are known.
    pub fn per_byte(&self) -> Option<(f64, f64)> {
        (self.bytes > 0.0 && self.busy_ns + self.wait_ns > 0.0).then(|| (self.busy_ns / self.bytes, self.wait_ns / self.bytes))
    }
}

/// The CPU that one process may use. One per open database, sampled once a second.
#[derive(Debug)]
pub struct CpuRoom {
    /// `None`: nothing is measured.
    limits: Option<ProcessLimits>,
    /// Bits of an `f64`, as is `idle`.
    cpus: AtomicU64,
    idle: AtomicU64,
    last: Mutex<Option<Counters>>,
}

/// Counters of the kernel at one moment.
#[derive(Debug, Clone)]
struct Counters {
    at_ns: u64,
    quotas: Vec<CpuQuota>,
    /// Ticks of the processors that the process may run on.
    machine: Vec<CpuTicks>,
    /// Whether `idle` has a value yet.
    is_measured: bool,
}

impl CpuRoom {
    /// The room of this process, with the files of the system below `root` (`/`). Idle is 0 until it has been measured.
    pub fn new(root: &Path) -> Self {
        let room = CpuRoom { limits: Some(ProcessLimits::find(root)), ..Self::fixed(1.0, 0.0) };
        if let Some(limits) = &room.limits {
            let quotas = limits.quotas();
            room.set_cpus(limits, &quotas);
        }
        room
    }

    /// A room that never changes, for tests and for databases that must repeat exactly.
    pub fn fixed(cpus: f64, idle: f64) -> Self {
        CpuRoom { limits: None, cpus: AtomicU64::new(cpus.to_bits()), idle: AtomicU64::new(idle.to_bits()), last: Mutex::new(None) }
    }

    /// Number of processors that this process may use, at least a hundredth: those that it may run on, or the tightest quota, which may be
    /// a fraction.
    pub fn cpus(&self) -> f64 {
        f64::from_bits(self.cpus.load(Ordering::Relaxed))
    }

    /// Processors' worth of CPU that this process could still use, over about the last second; 0 if there is none or it is not known.
    pub fn idle(&self) -> f64 {
        f64::from_bits(self.idle.load(Ordering::Relaxed))
    }

    /// The limits behind it; `None` for a fixed room.
    pub fn limits(&self) -> Option<&ProcessLimits> {
        self.limits.as_ref()
    }

    /// Measures what happened since the last sample. `now_ns` is monotonic. Takes some ten microseconds: a few small files are read.
    pub fn sample(&self, now_ns: u64) {
        let Some(limits) = &self.limits else { return };
        let mut last = self.last.lock();
        if last.as_ref().is_some_and(|last| now_ns.saturating_sub(last.at_ns) < CLOSEST_NS) {
            return;
        }
        let quotas = limits.quotas();
        let allowed = self.set_cpus(limits, &quotas);
        let mut machine = limits.machine();
        machine.retain(|ticks| allowed.as_ref().is_none_or(|allowed| allowed.contains(&ticks.cpu)));
        let mut now = Counters { at_ns: now_ns, quotas, machine, is_measured: false };
        if let Some(room) = last.as_ref().and_then(|last| now.room_since(last)) {
            let room = room.clamp(0.0, self.cpus());
            let passed = now_ns - last.as_ref().map_or(now_ns, |last| last.at_ns);
            let is_first = last.as_ref().is_none_or(|last| !last.is_measured);
            let weight = if is_first { 1.0 } else { passed as f64 / (passed + MEMORY_NS) as f64 };
            let smoothed = (self.idle() + weight * (room - self.idle())).min(self.cpus());
            self.idle.store(smoothed.to_bits(), Ordering::Relaxed);
            now.is_measured = true;
        } else {
            self.idle.store(0f64.to_bits(), Ordering::Relaxed);
        }
        *last = Some(now);
    }

    /// Gives the processors that the process may run on, if they are known.
    fn set_cpus(&self, limits: &ProcessLimits, quotas: &[CpuQuota]) -> Option<Vec<usize>> {
        let allowed = limits.affinity();
        // std looks at quotas, too, but only in whole processors.
        let count = allowed.as_ref().map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), Vec::len);
        let cpus = quotas.iter().map(|quota| quota.cpus).fold(count as f64, f64::min);
        self.cpus.store(cpus.max(0.01).to_bits(), Ordering::Relaxed);
        allowed
    }
}

impl Counters {
    /// Processors' worth of CPU that was left since `last`; `None` if nothing is known.
    fn room_since(&self, last: &Counters) -> Option<f64> {
        let passed = self.at_ns.saturating_sub(last.at_ns);
        let by_quota =
            self.quotas.iter().filter_map(|quota| quota.left_since(last.quotas.iter().find(|l| l.group == quota.group)?, passed));
        by_quota.chain(self.idle_since(last)).reduce(f64::min)
    }

    /// Processors of the machine that had nothing to do.
    fn idle_since(&self, last: &Counters) -> Option<f64> {
        let shares = self.machine.iter().filter_map(|now| {
            let then = last.machine.iter().find(|then| then.cpu == now.cpu)?;
            let total = now.total.checked_sub(then.total).filter(|total| *total > 0)?;
            Some(now.idle.saturating_sub(then.idle) as f64 / total as f64)
        });
        shares.reduce(|a, b| a + b)
    }
}

#[cfg(test)]
mod tests;
