//! Reads all figures once a second, on a thread of its own, and tells the progress of the phase.

use super::books::Books;
use super::gauge::{self, Gauge, Latencies};
use super::requests::{Length, Plan};
use crate::result::{Process, Stalls, Written};
use crate::run::Second;
use crate::system::{Figures, System};
use sinterdb::clock::{Clock, SystemClock};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// Amount of work of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) enum Amount {
    /// Operations of all threads.
    Operations(u64),
    /// Seconds.
    Seconds(f64),
    /// One call, without progress before it returns.
    Call,
}

impl Amount {
    /// Amount of the requests of a plan.
    pub fn of(plan: &Plan) -> Self {
        let Length { count, seconds, .. } = plan.length;
        let threads = if plan.calls.per_thread { plan.clients() as u64 } else { 1 };
        if seconds.is_finite() { Amount::Seconds(seconds) } else { Amount::Operations(count.saturating_mul(threads)) }
    }

    /// Work done and all work of a phase, after `operations` operations and `nanoseconds`.
    fn progress(self, operations: u64, nanoseconds: u64) -> (u64, u64) {
        let (done, total) = match self {
            Amount::Operations(total) => (operations, total),
            Amount::Seconds(total) => (nanoseconds / SECOND_NS, total.ceil() as u64),
            Amount::Call => (0, 1),
        };
        (done.min(total), total)
    }

    /// Prints the progress of a phase on stderr, after `operations` operations and `nanoseconds`.
    pub fn tell(self, phase: &str, operations: u64, nanoseconds: u64) {
        let (done, total) = self.progress(operations, nanoseconds);
        print_progress(phase, done, total);
    }
}

/// Prints the progress of a phase on stderr.
pub(super) fn print_progress(phase: &str, done: u64, total: u64) {
    // Perhaps nobody reads stderr.
    let _ = writeln!(std::io::stderr(), "phase {phase} {done}/{total}");
}

/// A phase under observation.
pub(super) struct Sampler<'a, T> {
    pub phase: &'a str,
    pub amount: Amount,
    pub system: &'a T,
    pub books: &'a Books,
    pub gauges: &'a [Gauge],
    pub clock: &'a SystemClock,
    /// Called once a second with the phase, the work done, and all work.
    pub progress: &'a (dyn Fn(&str, u64, u64) + Sync),
}

/// All figures at one moment.
pub(super) struct Reading {
    at_ns: u64,
    operations: u64,
    latencies: Latencies,
    process: Process,
    figures: Figures,
}

impl<T: System> Sampler<'_, T> {
    /// The first reading, before the work begins.
    pub fn begin(&self) -> Reading {
        let reading = self.read(None);
        self.tell(reading.at_ns);
        reading
    }

    /// Reads until `ended` is raised, whose raiser should unpark the thread: one entry per second, the last one shorter.
    pub fn run(&self, start: Reading, ended: &AtomicBool) -> Vec<Second> {
        let (start_ns, mut before, mut series) = (start.at_ns, start, Vec::new());
        loop {
            let wake_ns = start_ns + (series.len() as u64 + 1) * SECOND_NS;
            let mut now = self.clock.monotonic_ns();
            while now < wake_ns && !ended.load(Ordering::Acquire) {
                thread::park_timeout(Duration::from_nanos(wake_ns - now));
                now = self.clock.monotonic_ns();
            }
            let last = ended.load(Ordering::Acquire);
            let after = self.read(Some(&before));
            series.push(second(&before, &after, start_ns));
            self.tell(start_ns);
            if last {
                return series;
            }
            before = after;
        }
    }

    fn read(&self, before: Option<&Reading>) -> Reading {
        let process = Process::now();
        let figures = self.books.read(self.system, self.gauges, &process);
        Reading {
            at_ns: self.clock.monotonic_ns(),
            operations: gauge::operations(self.gauges),
            latencies: Latencies::everything(self.gauges),
            process,
            // A failing system reports it at the end of the phase; the series is not worth ending the phase for.
            figures: figures.unwrap_or_else(|_| before.map_or_else(Figures::default, |before| before.figures.clone())),
        }
    }

    fn tell(&self, start_ns: u64) {
        let (done, total) = self.amount.progress(gauge::operations(self.gauges), self.clock.monotonic_ns() - start_ns);
        (self.progress)(self.phase, done, total);
    }
}

fn second(before: &Reading, after: &Reading, start_ns: u64) -> Second {
    let latencies = after.latencies.since(&before.latencies);
    let written = Written::between(&before.figures, &after.figures);
    let stalls = Stalls::between(&before.figures, &after.figures);
    Second {
        at: (after.at_ns - start_ns) as f64 / 1e9,
        operations: after.operations - before.operations,
        latency_ns: [0.5, 0.99, 0.999, 1.0].map(|quantile| latencies.at(quantile)),
        written: written.by_cause.into_iter().map(|line| (line.cause, line.bytes)).collect(),
        stall_ns: (stalls.seconds * 1e9) as u64,
        resident_bytes: after.process.resident_bytes,
        proportional_bytes: after.process.proportional_bytes,
        cpu_seconds: after.process.cpu_seconds - before.process.cpu_seconds,
        disk_bytes: after.figures.store_bytes,
        longest_ping_ns: None,
        ..Second::default()
    }
}
