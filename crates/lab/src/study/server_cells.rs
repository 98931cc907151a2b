//! Common parts of studies of servers: settings, workloads and phases of their cells.

use super::plan::{Cell, Request};
use crate::run::{Distribution, EngineSpec, FamilySpec, Mix, Order, Phase, PhaseKind, REDIS, SERVERS, ServerSpec, Workload};
use std::collections::BTreeMap;

/// Engine name of this project's server.
pub(super) const SINTER: &str = SERVERS[0];
/// Connections of the client: as many as redis-benchmark has.
pub(super) const CONNECTIONS: usize = 50;
/// Bytes of keys.
pub(super) const KEY: usize = 16;
/// Durability setting, equal for both servers.
const FSYNC: (&str, &str) = ("appendfsync", "everysec");

/// Settings of a server.
pub(super) struct Told {
    engine: &'static str,
    settings: Vec<(&'static str, String)>,
}

impl Told {
    /// Engine name of the server.
    pub fn engine(&self) -> &'static str {
        self.engine
    }
}

/// Redis with its log, rewritten when it has grown to `rewrite_from` bytes and to twice the length after the last rewrite; never if `None`.
pub(super) fn redis(rewrite_from: Option<u64>) -> Told {
    let growth = if rewrite_from.is_some() { "100" } else { "0" };
    let mut settings = vec![("appendonly", "yes".to_string()), ("auto-aof-rewrite-percentage", growth.to_string())];
    settings.extend(rewrite_from.map(|bytes| ("auto-aof-rewrite-min-size", bytes.to_string())));
    Told { engine: REDIS, settings }
}

/// Redis without a log.
pub(super) fn redis_without_log() -> Told {
    Told { engine: REDIS, settings: vec![("appendonly", "no".to_string())] }
}

/// SinterDB with `memory` bytes for memtables and cache; with its default if `None`.
pub(super) fn sinter(memory: Option<u64>) -> Told {
    Told { engine: SINTER, settings: memory.map(|bytes| ("memory", bytes.to_string())).into_iter().collect() }
}

/// The cell of one server. `measures`: names, and the phases of each.
pub(super) fn cell(
    name: String,
    told: Told,
    request: &Request,
    server: ServerSpec,
    workload: Workload,
    measures: &[(&str, &[&str])],
) -> Cell {
    let settings = told.settings.into_iter().chain([(FSYNC.0, FSYNC.1.to_string())]);
    let program = request.servers.redis.clone().filter(|_| told.engine == REDIS);
    let names = |phases: &[&str]| phases.iter().map(|phase| (*phase).to_string()).collect();
    let settings = EngineSpec {
        database: settings.map(|(name, value)| (name.to_string(), value)).collect(),
        families: vec![FamilySpec { name: "default".to_string(), settings: BTreeMap::new() }],
        wal: true,
        server: Some(ServerSpec { program, ..server }),
        ..EngineSpec::default()
    };
    let measures = measures.iter().map(|(name, phases)| ((*name).to_string(), names(phases))).collect();
    Cell { measures, engines: vec![told.engine.to_string()], ..Cell::new(name, &[], settings, workload) }
}

/// A workload of keys and values of one size. Half of a value compresses away; both servers compress by default, Redis where it writes a
/// base, SinterDB in its tables.
pub(super) fn workload(name: String, keys: u64, value: u64, phases: Vec<Phase>) -> Workload {
    Workload::new(name, keys, (KEY, usize::try_from(value).unwrap_or(usize::MAX)), phases)
}

/// Sets every key once, in random order.
pub(super) fn load(name: &str) -> Phase {
    Phase::load(name, Order::Random, 1)
}

/// Waits until the server is at rest.
pub(super) fn rest(name: &str) -> Phase {
    Phase::new(name, PhaseKind::Settle)
}

/// Length of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    Operations(u64),
    /// Seconds, those of the warm-up included.
    Seconds {
        all: f64,
        warm_up: f64,
    },
}

/// Operations at random keys, all equally frequent.
pub(super) fn ask(name: &str, operations: &[&str], length: Length) -> Phase {
    run(name, operations, Distribution::Uniform, length)
}

/// Operations at every key once, in random order.
pub(super) fn ask_once(name: &str, operations: &[&str], keys: u64) -> Phase {
    run(name, operations, Distribution::Unique, Length::Operations(keys))
}

fn run(name: &str, operations: &[&str], distribution: Distribution, length: Length) -> Phase {
    let all = vec![Mix::all(distribution, operations.iter().map(|operation| (*operation, 1.0)))];
    match length {
        Length::Operations(count) => Phase::requests(name, all, count, 1),
        Length::Seconds { all: seconds, warm_up } => Phase::timed(name, all, seconds, warm_up, 1),
    }
}
