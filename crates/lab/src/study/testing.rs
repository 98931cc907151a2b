//! Inventions for tests of studies: requests, and records of runs that never happened.

use super::plan::{Permits, Request};
use super::servers::Servers;
use crate::result::Machine;
use crate::run::{Confinement, Limits, PhaseRecord, RECORD_VERSION, RunRecord, RunSpec, Source};
use std::collections::BTreeMap;

/// A request on a machine without bounds.
pub fn request(engines: &[&str], repeats: u32) -> Request {
    Request {
        engines: engines.iter().map(|engine| engine.to_string()).collect(),
        repeats: Some(repeats),
        seed: 7,
        directory: "scratch".into(),
        limits: Limits::default(),
        permits: Permits::all(),
        servers: Servers::all(),
    }
}

/// A record of a run that did what the spec asks, with these figures in each phase.
pub fn record(spec: RunSpec, figures: &PhaseRecord) -> RunRecord {
    let phases = spec.workload.phases.iter().map(|phase| PhaseRecord { name: phase.name.clone(), ..figures.clone() });
    RunRecord {
        version: RECORD_VERSION,
        phases: phases.collect(),
        engine_version: format!("{} 1", spec.engine.name),
        commit: None,
        ignored_settings: Vec::new(),
        compression: BTreeMap::new(),
        started_unix: 0,
        machine: Machine::default(),
        confinement: Confinement::default(),
        written_source: Source::Engine,
        failure: None,
        out_of_room: false,
        killed: None,
        spec,
    }
}
