//! Replays a trace: one client does what the lines say.

use super::client::{Client, Schedule};
use super::gauge::Gauge;
use super::requests::Operation;
use crate::run::Pace;
use crate::target::{Failure, Outcome, Session};
use crate::workload::ValuePool;
use crate::workload::trace::{Action, Contents, Trace};
use sinterdb::clock::Clock;
use std::fs::File;
use std::io::BufReader;
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

fn open(path: &Path) -> Outcome<BufReader<File>> {
    let file = File::open(path).map_err(|error| Failure::from(format!("{}: {error}", path.display())))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Reads the whole trace, so that nothing that is wrong with it comes up in the middle of the measurement.
///
/// # Errors
/// What is wrong, with file and line.
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

/// Does what the trace says. Lines are read between operations: that is no part of a latency, but of the time that the phase takes.
pub(super) fn replay<S: Session>(path: &Path, session: S, pool: &ValuePool, schedule: &Schedule<'_>, gauge: &Gauge) -> Outcome<()> {
    let mut trace = Trace::new(open(path)?);
    let mut client = Client::new(session, pool);
    let (mut nth, mut first_micros) = (0, None);
    while trace.advance()? {
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
        nth += 1;
    }
    gauge.end(schedule.clock.monotonic_ns());
    Ok(())
}
