//! Watches a server ten times a second, on a thread of its own, while another thread sends it nothing but PING: waiting times that
//! everybody has are seen best by a client that needs no work.

use super::line::Line;
use crate::drive::books::directory_bytes;
use crate::drive::gauge::{self, Gauge, Latencies};
use crate::drive::sampler::Amount;
use crate::drive::together::panicked;
use crate::result::Process;
use crate::run::{PROCESS, Second};
use crate::target::Outcome;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

/// Interval between readings, nanoseconds.
const SAMPLE_NS: u64 = 100_000_000;
/// Interval between PINGs, nanoseconds. A shorter stall may go unseen.
const PING_NS: u64 = 2_000_000;
/// Readings between two reports of progress.
const TELL: usize = 10;

/// A phase under observation.
pub(super) struct Watch<'a> {
    pub phase: &'a str,
    pub amount: Amount,
    pub gauges: &'a [Gauge],
    /// Process id of the server, its address, and the directory of its data.
    pub process: u32,
    pub address: SocketAddr,
    pub data: &'a Path,
    pub clock: &'a SystemClock,
    pub stop: &'a AtomicBool,
}

/// All figures at one moment.
struct Reading {
    at_ns: u64,
    operations: u64,
    latencies: Latencies,
    process: Process,
    disk_bytes: u64,
}

impl Watch<'_> {
    /// Watches the server while `work` runs. Returns an entry for each reading.
    ///
    /// # Errors
    /// Failures of `work`, threads that cannot be started, a server that does not answer PING.
    pub fn during<R>(&self, work: impl FnOnce() -> Outcome<R>) -> Outcome<(R, Vec<Second>)> {
        let (longest, pinged, ended) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let mut line = Line::connect(self.address, self.stop)?;
        // Read here, because the watching thread may come to run only when much of the work is done.
        let first = self.read();
        thread::scope(|scope| {
            // Raised in this order also while a panic passes: the scope waits for both threads.
            let _all = Raised(&ended);
            let no_more_pings = Raised(&pinged);
            let start = |error: std::io::Error| format!("a thread cannot be started: {error}");
            let watching = Builder::new().spawn_scoped(scope, || self.watch(first, &longest, &ended)).map_err(start)?;
            let pinging = Builder::new().spawn_scoped(scope, || self.ping(&mut line, &longest, &pinged)).map_err(start)?;
            let done = work();
            drop(no_more_pings);
            // The PING on its way is waited for, and counts in the last reading.
            let answered = pinging.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
            ended.store(true, Ordering::Release);
            let series = watching.join().map_err(|panic| panicked(&*panic))?;
            let done = done?;
            answered?;
            Ok((done, series))
        })
    }

    fn ping(&self, line: &mut Line<'_>, longest: &AtomicU64, ended: &AtomicBool) -> Outcome<()> {
        while !ended.load(Ordering::Acquire) && !self.stop.load(Ordering::Relaxed) {
            let begin = self.clock.monotonic_ns();
            line.ping()?;
            let waited = self.clock.monotonic_ns().saturating_sub(begin);
            longest.fetch_max(waited, Ordering::Relaxed);
            thread::sleep(Duration::from_nanos(PING_NS.saturating_sub(waited)));
        }
        Ok(())
    }

    fn watch(&self, first: Reading, longest: &AtomicU64, ended: &AtomicBool) -> Vec<Second> {
        let mut before = first;
        let (start_ns, mut series) = (before.at_ns, Vec::new());
        loop {
            let wake_ns = start_ns + (series.len() as u64 + 1) * SAMPLE_NS;
            let mut now = self.clock.monotonic_ns();
            while now < wake_ns && !ended.load(Ordering::Acquire) {
                // In small pieces, so that a short phase is not made longer.
                thread::sleep(Duration::from_nanos((wake_ns - now).min(SAMPLE_NS / 10)));
                now = self.clock.monotonic_ns();
            }
            let last = ended.load(Ordering::Acquire);
            let after = self.read();
            series.push(second(&before, &after, start_ns, longest.swap(0, Ordering::Relaxed)));
            if last || series.len() % TELL == 1 {
                self.amount.tell(self.phase, after.operations, after.at_ns - start_ns);
            }
            if last {
                return series;
            }
            before = after;
        }
    }

    fn read(&self) -> Reading {
        Reading {
            operations: gauge::operations(self.gauges),
            latencies: Latencies::everything(self.gauges),
            process: Process::of(self.process),
            disk_bytes: directory_bytes(self.data),
            at_ns: self.clock.monotonic_ns(),
        }
    }
}

fn second(before: &Reading, after: &Reading, start_ns: u64, longest_ping_ns: u64) -> Second {
    let latencies = after.latencies.since(&before.latencies);
    // Figures of an ended child appear a little later at its parent; until then they must not shrink.
    let written = after.process.medium_written_bytes.saturating_sub(before.process.medium_written_bytes);
    Second {
        at: (after.at_ns - start_ns) as f64 / 1e9,
        operations: after.operations - before.operations,
        latency_ns: [0.5, 0.99, 0.999, 1.0].map(|quantile| latencies.at(quantile)),
        written: BTreeMap::from([(PROCESS.to_string(), written)]),
        stall_ns: 0,
        longest_ping_ns: (longest_ping_ns > 0).then_some(longest_ping_ns),
        resident_bytes: after.process.resident_bytes,
        proportional_bytes: after.process.proportional_bytes,
        cpu_seconds: (after.process.cpu_seconds - before.process.cpu_seconds).max(0.0),
        disk_bytes: after.disk_bytes,
    }
}

/// Raises a flag when dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
