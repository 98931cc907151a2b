//! Runs a study: each run is a child process, so that its memory and CPU time are its own and engines do not meet.
//!
//! A runner (`<program> run`) reads one spec from stdin, reports its progress on stderr (`phase NAME done/total`) and prints one record. An
//! interrupt is passed on to the current run and ends it; its finished phases do not count, and runs finished before are kept.

use super::Error;
use super::folder::Folder;
use super::plan::{PlannedRun, Study};
use crate::drive::remove_left;
use crate::run::{RECORD_VERSION, RunRecord, RunSpec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Interval between checks of the stop flag while a run goes on.
const POLL: Duration = Duration::from_millis(20);
/// Polls after which a runner that does not stop is killed: a minute.
const PATIENCE: u32 = 3000;

/// A program that executes specs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// The program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
}

impl Runner {
    /// `<program> run`.
    pub fn of(program: PathBuf) -> Self {
        Runner { program, arguments: vec!["run".into()] }
    }
}

/// Event during a study.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run begins.
    Begins(&'a PlannedRun<'a>),
    /// Progress of the run within a phase; a total of 0 is unknown.
    Progress {
        /// The phase.
        phase: &'a str,
        /// Work done so far.
        done: u64,
        /// Work of the whole phase.
        total: u64,
    },
    /// A run ended and its record was stored; the record may contain a failure.
    Ended(&'a PlannedRun<'a>, &'a RunRecord),
    /// A run ended without a record, for this reason.
    Lost(&'a PlannedRun<'a>, &'a str),
}

/// Outcome of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conducted {
    /// Runs with a good record, including those of earlier calls.
    pub finished: usize,
    /// Runs that failed during this call.
    pub failed: usize,
    /// Whether the user ended the study early.
    pub interrupted: bool,
}

/// Outcome of a child process.
enum Outcome {
    Record(Box<RunRecord>),
    Lost(String),
    Interrupted,
}

/// Makes all runs of a study that have no good record yet. `runner` finds the program for an engine. A failed run is reported and stored,
/// and the others go on; the next call tries it again.
///
/// # Errors
/// A folder that cannot be read or written.
pub fn conduct(
    study: &Study,
    folder: &Folder,
    runner: &dyn Fn(&str) -> Runner,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Conducted, Error> {
    let mut conducted = Conducted::default();
    for run in study.runs() {
        if folder.record(study, &run)?.is_some_and(|record| study.accepts(&run, &record)) {
            conducted.finished += 1;
            continue;
        }
        let Some(spec) = study.spec(&run) else { continue };
        if stop.load(Ordering::Relaxed) {
            conducted.interrupted = true;
            break;
        }
        watch(Event::Begins(&run));
        match execute(&runner(run.engine), &spec, stop, watch) {
            Outcome::Record(record) => {
                folder.keep(&run, &record)?;
                let good = study.accepts(&run, &record);
                conducted.finished += usize::from(good);
                conducted.failed += usize::from(!good);
                watch(Event::Ended(&run, &record));
            }
            Outcome::Lost(why) => {
                conducted.failed += 1;
                watch(Event::Lost(&run, &why));
            }
            Outcome::Interrupted => {
                conducted.interrupted = true;
                break;
            }
        }
    }
    Ok(conducted)
}

fn execute(runner: &Runner, spec: &RunSpec, stop: &AtomicBool, watch: &mut dyn FnMut(Event<'_>)) -> Outcome {
    let name = runner.program.display();
    let mut command = Command::new(&runner.program);
    command.args(&runner.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: the terminal's Ctrl-C reaches this process only, which passes it on once.
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::Lost(format!("{name}: {error}")),
    };
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Outcome::Lost(format!("{name}: no pipes"));
    };
    let ended = thread::scope(|scope| {
        let (send, lines) = channel();
        let tell = move || BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| send.send(line));
        let print = move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        };
        let started = thread::Builder::new().spawn_scoped(scope, tell);
        let printed = match started.and_then(|_| thread::Builder::new().spawn_scoped(scope, print)) {
            Ok(printed) => printed,
            // Without its readers the runner would wait for ever.
            Err(error) => {
                let ended = child.kill().and_then(|()| child.wait());
                return (ended.and(Err(error)), String::new(), Ok(Ok(Vec::new())));
            }
        };
        // A runner that does not read its spec reports the reason itself.
        let _ = serde_json::to_vec(spec).map(|text| stdin.write_all(&text));
        drop(stdin);
        let (status, last) = attend(&mut child, &lines, stop, watch);
        (status, last, printed.join())
    });
    // A killed runner could not clean up.
    for parent in spec.tier_directories().chain([spec.medium.directory.as_path()]) {
        remove_left(parent, child.id());
    }
    let (status, last) = match ended {
        (Ok(status), last, Ok(Ok(text))) => match record_of(status, &text) {
            Ok(record) if stop.load(Ordering::Relaxed) && record.failure.is_some() => return Outcome::Interrupted,
            Ok(record) => return Outcome::Record(Box::new(record)),
            Err(what) => (what, last),
        },
        (Err(error), last, _) => (error.to_string(), last),
        (_, last, _) => ("its output cannot be read".to_string(), last),
    };
    if stop.load(Ordering::Relaxed) {
        return Outcome::Interrupted;
    }
    Outcome::Lost(if last.is_empty() { format!("{name}: {status}") } else { format!("{name}: {status}: {last}") })
}

/// Waits for the end of a child process, and passes on its progress and, once, the request to stop. Returns the last line on stderr that
/// was no progress.
fn attend(
    child: &mut Child,
    lines: &Receiver<String>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Event<'_>),
) -> (std::io::Result<ExitStatus>, String) {
    let mut last = String::new();
    let mut asked = 0;
    let mut silent = false;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => match progress(&line) {
                Some((phase, done, total)) => watch(Event::Progress { phase, done, total }),
                None => last = line,
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                silent = true;
                thread::sleep(POLL);
            }
        }
        if silent {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return (Ok(status), last),
                Err(error) => return (Err(error), last),
            }
        }
        if stop.load(Ordering::Relaxed) {
            match asked {
                // A child that has just ended is no failure.
                0 => i32::try_from(child.id()).map_or((), |id| kill(Pid::from_raw(id), Signal::SIGINT).unwrap_or(())),
                PATIENCE => child.kill().unwrap_or(()),
                _ => {}
            }
            asked += 1;
        }
    }
}

/// Parses `phase NAME done/total`; names may have blanks.
fn progress(line: &str) -> Option<(&str, u64, u64)> {
    let (phase, counts) = line.strip_prefix("phase ")?.rsplit_once(' ')?;
    let (done, total) = counts.split_once('/')?;
    Some((phase, done.parse().ok()?, total.parse().ok()?))
}

fn record_of(status: ExitStatus, text: &[u8]) -> Result<RunRecord, String> {
    if !status.success() {
        return Err(format!("ended with {status}"));
    }
    let record: RunRecord = serde_json::from_slice(text).map_err(|error| format!("printed no record ({error})"))?;
    match record.version {
        RECORD_VERSION => Ok(record),
        other => Err(format!("printed a record of version {other}, not {RECORD_VERSION}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines() {
        assert_eq!(progress("phase fillrandom debts 3/10"), Some(("fillrandom debts", 3, 10)));
        assert_eq!(progress("phase x 3"), None);
        assert_eq!(progress("phase 3/10"), None);
        assert_eq!(progress("the disk is full: 3/10"), None);
    }
}
