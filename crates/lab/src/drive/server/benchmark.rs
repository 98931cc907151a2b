//! redis-benchmark in the place of the laboratory's client: the usual instrument of others.

use super::child::{Server, last_said};
use crate::run::{PhaseKind, RunSpec, ValueSize};
use crate::system::Outcome;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Interval between checks whether redis-benchmark has ended.
const POLL: Duration = Duration::from_millis(20);

/// Result that redis-benchmark prints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Said {
    pub operations: u64,
    pub per_second: f64,
}

/// Lets `program` do a phase; `None` if it was stopped, or there is nothing for it to do. Its output lies in the directory of the run
/// meanwhile, and it ends with the server whatever becomes of this process.
///
/// # Errors
/// A program that cannot be started, fails, or prints no rate.
pub(super) fn ask(program: &Path, spec: &RunSpec, phase: &PhaseKind, server: &Server, stop: &AtomicBool) -> Outcome<Option<Said>> {
    let Some((arguments, operations)) = arguments(spec, phase, server.address()) else { return Ok(None) };
    let name = program.display();
    let [printed, complaints] = ["benchmark.csv", "benchmark.log"].map(|file| server.directory().join(file));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(File::create(&printed)?).stderr(File::create(&complaints)?);
    command.process_group(i32::try_from(server.process())?);
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    };
    if !status.success() {
        return Err(format!("{name}: ended with {status}{}", last_said(&complaints)).into());
    }
    let text = fs::read_to_string(&printed)?;
    let per_second = rate(&text).ok_or_else(|| format!("{name}: said nothing of requests per second"))?;
    Ok(Some(Said { operations, per_second }))
}

/// Arguments of redis-benchmark for a phase, and the number of requests; `None` if it cannot do the phase.
fn arguments(spec: &RunSpec, phase: &PhaseKind, address: SocketAddr) -> Option<(Vec<String>, u64)> {
    let (PhaseKind::Run { mixes, operations: Some(operations), .. }, Some(server)) = (phase, &spec.engine.server) else { return None };
    let ValueSize::Fixed(size) = spec.workload.value_size else { return None };
    let command = if mixes.first()?.operations.contains_key("get") { "get" } else { "set" };
    let numbers = [
        ("-p", u64::from(address.port())),
        ("-n", *operations),
        ("-r", spec.workload.keys),
        ("-d", size as u64),
        ("-c", server.connections as u64),
        ("-P", server.pipeline as u64),
    ];
    let texts = ["-h".to_string(), address.ip().to_string(), "-t".to_string(), command.to_string(), "--csv".to_string()];
    let all = texts.into_iter().chain(numbers.iter().flat_map(|(flag, number)| [(*flag).to_string(), number.to_string()]));
    Some((all.collect(), *operations))
}

/// Reads the requests per second from the table of redis-benchmark: the second column; newer versions print a head, too.
fn rate(text: &str) -> Option<f64> {
    let columns = text.lines().filter_map(|line| line.split(',').nth(1));
    columns.filter_map(|column| column.trim().trim_matches('"').parse::<f64>().ok()).find(|rate| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_understood() {
        let with_head = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"99800.40\",\"0.27\"\n";
        assert_eq!((rate(with_head), rate("\"SET\",\"812.5\"\n")), (Some(99_800.40), Some(812.5)));
        assert_eq!((rate(""), rate("Could not connect\n"), rate("\"SET\",\"nan\"\n")), (None, None, None));
    }
}
