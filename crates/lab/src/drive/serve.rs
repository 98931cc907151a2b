//! A runner: the program around a run. It reads one spec, executes it, and prints one record.

use crate::run::{RunRecord, RunSpec};
use crate::system::Outcome;
use nix::sys::signal::{SigSet, Signal};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code that the shell reports for a command that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// The whole of `<program> run`: reads a [`RunSpec`] as JSON from stdin, hands it to `run` (which calls [`execute`](fn@super::execute) with
/// the engine of that name) and prints the [`RunRecord`] as one line of JSON to stdout. `engines` are the names that it serves.
///
/// The exit code is 0 if a record was printed, also of a run that failed or was interrupted by SIGINT or SIGTERM; 2 for a spec that
/// makes no sense, after one line on stderr; 1 if the record could not be printed.
pub fn serve(program: &str, engines: &[&str], run: impl FnOnce(&RunSpec, &AtomicBool) -> RunRecord) -> ExitCode {
    let say = |what: &dyn std::fmt::Display, code: u8| {
        let _ = writeln!(io::stderr(), "{program}: {what}");
        ExitCode::from(code)
    };
    let spec = match read_spec(io::stdin().lock(), engines) {
        Ok(spec) => spec,
        Err(what) => return say(&what, 2),
    };
    let stop = match stop_on_signal() {
        Ok(stop) => stop,
        Err(failure) => return say(&failure, 1),
    };
    let record = run(&spec, &stop);
    if let Some(complaint) = &record.confinement.complaint {
        let _ = writeln!(io::stderr(), "{program}: {complaint}");
    }
    let mut out = io::stdout().lock();
    match serde_json::to_writer(&mut out, &record).map_err(io::Error::from).and_then(|()| writeln!(out)).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&error, 1),
    }
}

/// Reads and validates a spec.
fn read_spec(mut input: impl Read, engines: &[&str]) -> Result<RunSpec, String> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|error| format!("spec: {error}"))?;
    let spec: RunSpec = serde_json::from_str(&text).map_err(|error| format!("spec: {error}"))?;
    let mut complaints = spec.validate();
    if !engines.contains(&spec.engine.name.as_str()) {
        complaints.push(format!("engine.name: {:?} is not served here; there is {}", spec.engine.name, engines.join(", ")));
    }
    if complaints.is_empty() { Ok(spec) } else { Err(complaints.join("; ")) }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP raises; the second ends the process, for a call that does not return. To be called
/// before threads are started. A process inherits which signals are blocked from the one that starts it, and some test runners and
/// supervisors block these three; a run would then never end, so they are let through.
///
/// # Errors
/// The signals cannot be handled, as at the second call in a process.
pub fn stop_on_signal() -> Outcome<Arc<AtomicBool>> {
    let unhandled = |error: &dyn std::fmt::Display| format!("signals cannot be handled: {error}");
    let wanted: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    wanted.thread_unblock().map_err(|error| unhandled(&error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let handler = move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    };
    ctrlc::set_handler(handler).map_err(|error| unhandled(&error))?;
    Ok(stop)
}
