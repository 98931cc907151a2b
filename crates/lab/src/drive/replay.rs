//! Replays a trace: one client executes its lines.

use super::client::{Client, Schedule};
use super::gauge::Gauge;
use super::requests::Operation;
use crate::run::Pace;
use crate::system::{Failure, Outcome, Session};
use crate::workload::ValuePool;
use crate::workload::trace::{Action, Contents, Trace};
use sinterdb::clock::Clock;
use std::fs::{self, File};
use std::io::{BufReader, Read, Take};
use std::path::Path;

/// Names of the kinds of a replay, in the order of [`kind`].
pub(super) const KINDS: [&str; 4] = ["replay get", "replay put", "replay delete", "replay scan"];

fn kind(action: Action) -> (usize, Operation, usize) {
    match action {
        Action::Get => (0, Operation::Get, 0),
        Action::Put(size) => (1, Operation::Put, size),
        Action::Delete => (2, Operation::Delete, 0),
        Action::Scan(count) => (3, Operation::Scan, count),
    }
}

/// Opens a trace. Lines that are appended meanwhile are not read: there might be no end of them.
fn open(path: &Path) -> Outcome<BufReader<Take<File>>> {
    let wrong = |what: &dyn std::fmt::Display| Failure::from(format!("{}: {what}", path.display()));
    // Checked first, because opening a pipe waits for a writer.
    let metadata = fs::metadata(path).map_err(|error| wrong(&error))?;
    if !metadata.is_file() {
        return Err(wrong(&"not a regular file, and a trace is read twice"));
    }
    let file = File::open(path).map_err(|error| wrong(&error))?;
    Ok(BufReader::with_capacity(1 << 20, file.take(metadata.len())))
}

/// Reads the whole trace, so that errors in it do not come up in the middle of the measurement.
///
/// # Errors
/// The error in the trace, with file and line.
pub(super) fn contents(path: &Path, pace: Pace, families: usize) -> Outcome<Contents> {
    let name = path.display();
    let contents = Contents::of(open(path)?).map_err(|error| format!("{name}: {error}"))?;
    if contents.largest_family >= families {
        return Err(format!("{name}: it uses family {}, and the engine has {families}", contents.largest_family).into());
    }
    match contents.first_without_time.filter(|_| pace == Pace::Trace) {
        Some(line) => Err(format!("{name}: line {line}: it has no time, which the pace asks for").into()),
        None => Ok(contents),
    }
}

/// A trace that was read to its end once.
pub(super) struct Script<'a> {
    pub path: &'a Path,
    pub contents: Contents,
    /// Pool of values up to the largest of the trace.
    pub pool: ValuePool,
}

/// Executes the trace. Lines are read between operations: reading counts in no latency, but in the time of the phase.
///
/// # Errors
/// The first failure of the session, and a trace that changed since its contents were read.
pub(super) fn replay<S: Session>(script: &Script<'_>, session: S, schedule: &Schedule<'_>, gauge: &Gauge) -> Outcome<()> {
    let Script { path, contents, pool } = script;
    let mut trace = Trace::new(open(path)?);
    let mut client = Client::new(session, pool);
    let mut first_micros = None;
    for nth in 0..contents.operations {
        let more = matches!(trace.advance(), Ok(true));
        if !more || !contents.covers(&trace) {
            return Err(format!("{}: it was changed while it was replayed", path.display()).into());
        }
        let mut begin = schedule.begin(nth, schedule.clock.monotonic_ns());
        if let (Pace::Trace, Some(micros)) = (schedule.pace, trace.micros) {
            let first = *first_micros.get_or_insert(micros);
            let due = schedule.start_ns.saturating_add(micros.saturating_sub(first).saturating_mul(1000));
            begin = begin.and_then(|_| schedule.wait(due).then_some(due));
        }
        let Some(begin) = begin else { break };
        let (kind, operation, size) = kind(trace.action);
        let done = client.act(operation, trace.family, &trace.key, size)?;
        gauge.record(kind, false, schedule.clock.monotonic_ns().saturating_sub(begin), &done);
    }
    gauge.end(schedule.clock.monotonic_ns());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use crate::system::model::ModelOpener;
    use sinterdb::clock::SystemClock;
    use std::sync::atomic::AtomicBool;

    /// Replays a trace that changed from `before` to `after` once its contents were read. Returns operations and the failure.
    fn changed(before: &str, after: &str) -> (u64, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.txt");
        fs::write(&path, before).unwrap();
        let contents = contents(&path, Pace::Closed, 2).unwrap();
        fs::write(&path, after).unwrap();
        let script = Script { path: &path, contents, pool: ValuePool::new(contents.largest_value, 1.0) };
        let (system, clock, flag, gauge) =
            (ModelOpener::default().open(true), SystemClock::default(), AtomicBool::new(false), Gauge::new(4));
        let schedule = Schedule {
            clock: &clock,
            flags: [&flag, &flag],
            start_ns: 0,
            warm_until_ns: 0,
            deadline_ns: u64::MAX,
            pace: Pace::Closed,
            thread: 0,
            threads: 1,
        };
        let outcome = replay(&script, system.session(false), &schedule, &gauge);
        (gauge.operations(), outcome.err().map(|failure| failure.to_string().replace(&path.display().to_string(), "trace")))
    }

    #[test]
    fn a_trace_that_grows_ends_where_it_ended() {
        let before = "put a 10\nget a\n";
        assert_eq!(changed(before, "put a 10\nget a\nput b 2000000\n0x61 0 7 0 1\nnonsense\n"), (2, None));
        for (after, done) in [("put a 10\n", 1), ("put a 10\nput b 2000000\n", 1), ("0x61 0 1 0 1\n", 0), ("nonsense\n", 0)] {
            assert_eq!(changed(before, after), (done, Some("trace: it was changed while it was replayed".into())), "{after}");
        }
    }
}
