//! A run from its directory to its record.

use super::Engine;
use super::alive::Alive;
use super::books::Books;
use super::directory::{Directory, PREFIX};
use super::interrupted::Interrupted;
use super::limits::confine;
use super::phase::Run;
use super::requests::sizes;
use super::sampler::print_progress;
use super::server;
use super::together::caught;
use crate::result::{Machine, Process};
use crate::run::{Confinement, EngineSpec, InPlace, PhaseKind, PhaseRecord, RECORD_VERSION, RunRecord, RunSpec, Source};
use crate::system::{Failure, Outcome, System};
use crate::workload::ValuePool;
use sinterdb::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Failure that ended a run early.
#[derive(Debug)]
pub struct Failed {
    /// Index of the phase that failed; `None` outside of all phases.
    pub phase: Option<usize>,
    /// The reason; [`Interrupted`] after `stop` was raised.
    pub failure: Failure,
}

impl Failed {
    fn outside(failure: impl Into<Failure>) -> Self {
        Failed { phase: None, failure: failure.into() }
    }
}

/// Spectator of a run.
pub struct Watch<'w> {
    /// Called once a second with the phase, the work done, and all work.
    pub progress: &'w (dyn Fn(&str, u64, u64) + Sync),
    /// Called with the index and the record of each phase when it ends, also when it ends early.
    pub ended: &'w mut dyn FnMut(usize, &PhaseRecord) -> Outcome<()>,
}

/// Executes a spec in this process and returns its record. Whatever goes wrong is in the record: complaints about the spec, a failure or
/// panic of the engine, or `interrupted` after `stop` was raised. Phases that were finished before are in it too. Prints progress on stderr
/// once a second: `phase NAME done/total`.
///
/// For a spec of a server the engine is not used: the server is started and sent the requests.
pub fn execute<E: Engine>(engine: &E, spec: &RunSpec, stop: &AtomicBool) -> RunRecord {
    execute_watched(engine, spec, stop, Watch { progress: &print_progress, ended: &mut |_, _| Ok(()) }).0
}

/// Executes a spec like [`execute`] and tells `watch` how it goes (for servers it prints). Returns the failure itself beside the record.
pub fn execute_watched<E: Engine>(engine: &E, spec: &RunSpec, stop: &AtomicBool, watch: Watch<'_>) -> (RunRecord, Option<Failed>) {
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
    let run = || match &spec.engine.server {
        _ if !complaints.is_empty() => Err(Failed::outside(complaints.join("; "))),
        Some(server) => server::run(spec, server, stop, clock, &mut record).map_err(Failed::outside),
        None => run(engine, spec, stop, clock, &mut record, watch),
    };
    let failed = caught(|| Ok(run())).unwrap_or_else(|panic| Err(Failed::outside(panic))).err();
    record.failure = failed.as_ref().map(|Failed { phase, failure }| match phase {
        Some(index) => format!("phase {}: {failure}", spec.workload.phases[*index].name),
        None => failure.to_string(),
    });
    (record, failed)
}

fn run<E: Engine>(
    engine: &E,
    spec: &RunSpec,
    stop: &AtomicBool,
    clock: SystemClock,
    record: &mut RunRecord,
    watch: Watch<'_>,
) -> Result<(), Failed> {
    let mut home = Home::of(spec).map_err(Failed::outside)?;
    record.machine = Machine::here(home.path());
    let confined = confine(&spec.limits);
    record.confinement = confined.confinement.clone();
    let written_at_open = Process::now().written_bytes;
    let opened = engine.open(&home.engine, home.path()).map_err(Failed::outside)?;
    (record.engine_version, record.ignored_settings, record.written_source) = (opened.version, opened.ignored_settings, opened.source);
    record.compression = opened.compression;
    let mut system = opened.system;
    let alive = || Alive::new(spec.engine.families.len(), spec.workload.keys);
    let mut run = Run {
        spec,
        books: Books::open(opened.source, home.directories(), written_at_open),
        stop,
        clock,
        pool: ValuePool::new(sizes(spec.workload.value_size).most(), spec.workload.compression_ratio),
        alive: alive(),
        inserts: 0,
        progress: watch.progress,
    };
    if spec.engine.in_place == Some(InPlace::Existing) {
        run.alive.forget();
    }
    let mut failed = None;
    for (index, phase) in spec.workload.phases.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            failed = Some(Failed::outside(Interrupted));
            break;
        }
        let in_phase = |failure| Failed { phase: Some(index), failure };
        if phase.kind == PhaseKind::Empty {
            system.close().map_err(in_phase)?;
            home.empty().map_err(in_phase)?;
            let written_at_open = Process::now().written_bytes;
            system = engine.open(&home.engine, home.path()).map_err(in_phase)?.system;
            (run.books, run.alive) = (Books::open(run.books.source, home.directories(), written_at_open), alive());
        }
        let ended = run.phase(&system, index).and_then(|(phase, failure)| {
            (watch.ended)(index, &phase)?;
            Ok((phase, failure))
        });
        match ended {
            Ok((phase, None)) => record.phases.push(phase),
            Ok((_, Some(failure))) if failure.is::<Interrupted>() => failed = Some(Failed::outside(failure)),
            Ok((_, Some(failure))) | Err(failure) => failed = Some(in_phase(failure)),
        }
        if failed.is_some() {
            break;
        }
    }
    let full = |failed: &Failed| matches!(failed.failure.downcast_ref::<sinterdb::Error>(), Some(sinterdb::Error::NoSpace(_)));
    record.out_of_room = failed.as_ref().is_some_and(full);
    let closed = system.close().map_err(|failure| Failed { phase: None, failure });
    failed.map_or(closed, Err)
}

/// Directories of a run, and its engine with them.
struct Home<'a> {
    /// Directories of the run's own: for the engine's files, then for each tier. None if the database stays where it is.
    own: Vec<Directory>,
    /// The medium's directory.
    medium: &'a Path,
    engine: EngineSpec,
}

impl<'a> Home<'a> {
    fn of(spec: &'a RunSpec) -> Outcome<Self> {
        let mut home = Home { own: Vec::new(), medium: &spec.medium.directory, engine: spec.engine.clone() };
        if spec.engine.in_place.is_none() {
            home.own.push(Directory::below("medium", home.medium)?);
            for (tier, parent) in home.engine.tiers.iter_mut().zip(spec.tier_directories()) {
                let own = Directory::below("engine.tiers", parent)?;
                tier.directory = Some(own.path.clone());
                home.own.push(own);
            }
        }
        Ok(home)
    }

    /// Directory of the database.
    fn path(&self) -> &Path {
        self.own.first().map_or(self.medium, |own| &own.path)
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.own.iter().map(|own| own.path.clone()).collect()
    }

    /// Removes the files of a closed engine; of a database that stays where it is, the engine itself does when it opens.
    fn empty(&mut self) -> Outcome<()> {
        for own in &self.own {
            fs::remove_dir_all(&own.path)?;
            fs::create_dir(&own.path)?;
        }
        self.engine.in_place = self.engine.in_place.map(|_| InPlace::New);
        Ok(())
    }
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
