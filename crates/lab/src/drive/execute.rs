//! A run from its directory to its record.

use super::Engine;
use super::alive::Alive;
use super::books::Books;
use super::limits::confine;
use super::phase::Run;
use super::requests::sizes;
use super::server;
use super::together::caught;
use crate::result::{Machine, Process};
use crate::run::{Confinement, EngineSpec, RECORD_VERSION, RunRecord, RunSpec, Source, TierSpec};
use crate::target::{Failure, Outcome, Target};
use crate::workload::ValuePool;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Executes a spec in this process and returns its record. Whatever goes wrong is in the record: complaints about the spec, a failure or
/// panic of the engine, or `interrupted` after `stop` was raised. Phases that were finished before are in it too. Prints progress on stderr
/// once a second: `phase NAME done/total`.
///
/// For a spec of a server the engine is not used: the server is started and sent the requests.
pub fn execute<E: Engine>(engine: &E, spec: &RunSpec, stop: &AtomicBool) -> RunRecord {
    match &spec.engine.server {
        Some(server) => recorded(spec, |clock, record| server::run(spec, server, stop, clock, record)),
        None => recorded(spec, |clock, record| run(engine, spec, stop, clock, record)),
    }
}

/// Validates the spec, calls `run` if it is valid, and returns the record.
fn recorded(spec: &RunSpec, run: impl FnOnce(SystemClock, &mut RunRecord) -> Outcome<()>) -> RunRecord {
    let clock = SystemClock::default();
    let mut record = RunRecord {
        version: RECORD_VERSION,
        spec: spec.clone(),
        engine_version: String::new(),
        commit: option_env!("SINTER_COMMIT").map(str::to_string),
        ignored_settings: Vec::new(),
        compression: BTreeMap::new(),
        started_unix: clock.unix_seconds(),
        machine: Machine::default(),
        confinement: Confinement::default(),
        written_source: Source::Engine,
        phases: Vec::new(),
        failure: None,
        out_of_room: false,
        killed: None,
    };
    let complaints = spec.validate();
    let outcome = if complaints.is_empty() { caught(|| run(clock, &mut record)) } else { Err(Failure::from(complaints.join("; "))) };
    record.failure = outcome.err().map(|failure| failure.to_string());
    record
}

fn run<E: Engine>(engine: &E, spec: &RunSpec, stop: &AtomicBool, clock: SystemClock, record: &mut RunRecord) -> Outcome<()> {
    let directory = Directory::below("medium", &spec.medium.directory)?;
    let tiers = spec.tier_directories().map(|parent| Directory::below("engine.tiers", parent)).collect::<Outcome<Vec<_>>>()?;
    let placed = spec.engine.tiers.iter().zip(&tiers).map(|(tier, own)| TierSpec { directory: Some(own.path.clone()), ..tier.clone() });
    let engine_spec = EngineSpec { tiers: placed.collect(), ..spec.engine.clone() };
    record.machine = Machine::here(&directory.path);
    let confined = confine(&spec.limits);
    record.confinement = confined.confinement.clone();
    let written_at_open = Process::now().written_bytes;
    let opened = engine.open(&engine_spec, &directory.path)?;
    (record.engine_version, record.ignored_settings, record.written_source) = (opened.version, opened.ignored_settings, opened.source);
    record.compression = opened.compression;
    let all = std::iter::once(&directory).chain(&tiers);
    let mut run = Run {
        spec,
        target: &opened.target,
        books: Books::open(opened.source, all.map(|own| own.path.clone()).collect(), written_at_open),
        stop,
        clock,
        pool: ValuePool::new(sizes(spec.workload.value_size).most(), spec.workload.compression_ratio),
        alive: Alive::new(spec.engine.families.len(), spec.workload.keys),
        inserts: 0,
    };
    for (index, phase) in spec.workload.phases.iter().enumerate() {
        let done = if stop.load(Ordering::Relaxed) { Ok(None) } else { run.phase(index) };
        let full = |failure: &Failure| matches!(failure.downcast_ref::<sinterdb::Error>(), Some(sinterdb::Error::NoSpace(_)));
        record.out_of_room = done.as_ref().is_err_and(full);
        let in_phase = |failure: Failure| format!("phase {}: {failure}", phase.name);
        record.phases.push(done.map_err(in_phase)?.ok_or("interrupted")?);
    }
    opened.target.close().map_err(|failure| format!("closing: {failure}").into())
}

/// Removes what a dead, perhaps killed, process left: its directory below a medium's, the server that it had started there, and its cgroup.
pub fn remove_left(parent: &Path, process: u32) {
    super::limits::remove_left(process);
    let own = |name: &str| name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) == Some(process.to_string().as_str());
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(own) {
            server::end_left(&entry.path());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Prefix of the directories of runs; the process id and a number follow.
const PREFIX: &str = "sinter-run-";

/// A directory of the run's own, removed with everything in it.
pub(super) struct Directory {
    pub path: PathBuf,
}

impl Directory {
    /// Creates a directory below `parent`. `field`: path of `parent` in the spec, for complaints.
    pub fn below(field: &str, parent: &Path) -> Outcome<Self> {
        let wrong = |error: std::io::Error| Failure::from(format!("{field}.directory: {}: {error}", parent.display()));
        let process = std::process::id();
        for number in 0.. {
            let path = parent.join(format!("{PREFIX}{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Directory { path }),
                // A killed process of the same number made it, or another run of this one.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        Err(Failure::from("no name is free"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The record is worth more than the complaint.
        let _ = fs::remove_dir_all(&self.path);
    }
}
