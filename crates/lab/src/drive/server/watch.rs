//! Watches a server ten times a second, on a thread of its own, while another thread sends it PING: a client that causes no work sees best
//! how long the server lets every client wait.

use super::field;
use super::line::Line;
use crate::drive::books::directory_bytes;
use crate::drive::gauge::{self, Gauge, Latencies};
use crate::drive::sampler::Amount;
use crate::drive::together::panicked;
use crate::result::Process;
use crate::run::{PROCESS, Second};
use crate::system::Outcome;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

/// Interval between readings, nanoseconds.
const SAMPLE_NS: u64 = 100_000_000;
/// Time without readings after each, as a multiple of the time that it took: with many gigabytes the kernel walks long page tables.
const PAUSE: u64 = 9;
/// Interval between PINGs, nanoseconds. A shorter stall may go unseen.
const PING_NS: u64 = 2_000_000;
/// Field of INFO with the bytes that Redis keeps in memory for a rewrite; it has none since 7.0.
const BUFFER: &str = "aof_rewrite_buffer_length";
/// Length of a buffer that no server tells.
const NONE: u64 = u64::MAX;
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

/// Figures that the pinging thread finds out for the watching one.
struct Said {
    /// Longest wait since the last reading, nanoseconds.
    longest_ping_ns: AtomicU64,
    /// Length of the server's rewrite buffer; [`NONE`] without one.
    buffer_bytes: AtomicU64,
}

/// All figures at one moment.
struct Reading {
    at_ns: u64,
    /// Time that the reading took.
    took_ns: u64,
    operations: u64,
    latencies: Latencies,
    process: Process,
    disk_bytes: u64,
}

impl Watch<'_> {
    /// Watches the server while `work` runs. Returns the outcome of the work, which is a failure also if the server does not answer PING,
    /// and an entry for each reading.
    ///
    /// # Errors
    /// Threads that cannot be started, a server that cannot be reached before the work begins.
    pub fn during<R>(&self, work: impl FnOnce() -> Outcome<R>) -> Outcome<(Outcome<R>, Vec<Second>)> {
        let (pinged, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let said = Said { longest_ping_ns: AtomicU64::new(0), buffer_bytes: AtomicU64::new(NONE) };
        let mut line = Line::connect(self.address, self.stop)?;
        // Read here, because the watching thread may come to run only when much of the work is done.
        let first = self.read();
        thread::scope(|scope| {
            // Raised in this order also while a panic passes: the scope waits for both threads.
            let _all = Raised(&ended);
            let no_more_pings = Raised(&pinged);
            let start = |error: std::io::Error| format!("a thread cannot be started: {error}");
            let watching = Builder::new().spawn_scoped(scope, || self.watch(first, &said, &ended)).map_err(start)?;
            let pinging = Builder::new().spawn_scoped(scope, || self.ping(&mut line, &said, &pinged)).map_err(start)?;
            let done = work();
            drop(no_more_pings);
            // The PING on its way is waited for, and counts in the last reading.
            let answered = pinging.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
            ended.store(true, Ordering::Release);
            let series = watching.join().map_err(|panic| panicked(&*panic))?;
            Ok((done.and_then(|done| answered.map(|()| done)), series))
        })
    }

    fn ping(&self, line: &mut Line<'_>, said: &Said, ended: &AtomicBool) -> Outcome<()> {
        let has_buffer = field(&line.info()?, BUFFER).is_some();
        let mut ask_ns = 0;
        while !ended.load(Ordering::Acquire) && !self.stop.load(Ordering::Relaxed) {
            let begin = self.clock.monotonic_ns();
            line.ping()?;
            let waited = self.clock.monotonic_ns().saturating_sub(begin);
            said.longest_ping_ns.fetch_max(waited, Ordering::Relaxed);
            if has_buffer && begin >= ask_ns {
                // Not timed: a client that only PINGs does not wait for its own INFO.
                let bytes = field(&line.info()?, BUFFER).and_then(|text| text.parse().ok());
                said.buffer_bytes.store(bytes.unwrap_or(NONE), Ordering::Relaxed);
                ask_ns = begin + SAMPLE_NS;
            }
            thread::sleep(Duration::from_nanos(PING_NS.saturating_sub(waited)));
        }
        Ok(())
    }

    fn watch(&self, first: Reading, said: &Said, ended: &AtomicBool) -> Vec<Second> {
        let mut before = first;
        let (start_ns, mut series) = (before.at_ns, Vec::new());
        loop {
            let wake_ns = wake_ns(start_ns, &before);
            let mut now = self.clock.monotonic_ns();
            while now < wake_ns && !ended.load(Ordering::Acquire) {
                // In small pieces, so that a short phase is not made longer.
                thread::sleep(Duration::from_nanos((wake_ns - now).min(SAMPLE_NS / 10)));
                now = self.clock.monotonic_ns();
            }
            let last = ended.load(Ordering::Acquire);
            let after = self.read();
            series.push(second(&before, &after, start_ns, said));
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
        let begin_ns = self.clock.monotonic_ns();
        let (operations, latencies) = (gauge::operations(self.gauges), Latencies::everything(self.gauges));
        let (process, disk_bytes) = (Process::of(self.process), directory_bytes(self.data));
        let at_ns = self.clock.monotonic_ns();
        Reading { operations, latencies, process, disk_bytes, at_ns, took_ns: at_ns.saturating_sub(begin_ns) }
    }
}

/// Time of the next reading: a whole number of intervals after the start.
fn wake_ns(start_ns: u64, before: &Reading) -> u64 {
    let rested = before.at_ns.saturating_sub(start_ns) + PAUSE * before.took_ns;
    start_ns + (rested / SAMPLE_NS + 1) * SAMPLE_NS
}

fn second(before: &Reading, after: &Reading, start_ns: u64, said: &Said) -> Second {
    let longest_ping_ns = said.longest_ping_ns.swap(0, Ordering::Relaxed);
    let buffer_bytes = said.buffer_bytes.load(Ordering::Relaxed);
    let latencies = after.latencies.since(&before.latencies);
    // The bytes of a child that has ended appear at its parent a little later. Until then the sum is smaller, and nothing was unwritten.
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
        children: (after.process.count as u64).saturating_sub(1),
        copied_bytes: after.process.copied_bytes,
        rewrite_buffer_bytes: (buffer_bytes != NONE).then_some(buffer_bytes),
    }
}

/// Raises a flag when dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_readings_are_rare() {
        let next = |at_ms: u64, took_ms: u64| {
            let (at_ns, took_ns) = (7 + at_ms * 1_000_000, took_ms * 1_000_000);
            let (latencies, process) = (Latencies::everything(&[]), Process::default());
            wake_ns(7, &Reading { at_ns, took_ns, operations: 0, latencies, process, disk_bytes: 0 }) / 1_000_000
        };
        assert_eq!([next(0, 1), next(101, 1), next(201, 5)], [100, 200, 300]);
        assert_eq!([next(130, 30), next(430, 30)], [500, 800]);
    }
}
