//! Common parts of studies of servers: settings of each server, and the resources of the machine.

use super::plan::{Cell, Request};
use crate::drive::permitted_disk;
use crate::result::Machine;
pub(super) use crate::result::thousands;
use crate::run::{Distribution, EngineSpec, FamilySpec, Mix, Order, Phase, PhaseKind, REDIS, SERVERS, ServerSpec, Workload};
use sinterdb::internal::settings::format_bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Engine name of this project's server.
pub(super) const SINTER: &str = SERVERS[0];
/// Connections of the client: as many as redis-benchmark has.
pub(super) const CONNECTIONS: usize = 50;
/// Bytes of keys.
pub(super) const KEY: usize = 16;
/// Durability setting, equal for both servers.
const FSYNC: (&str, &str) = ("appendfsync", "everysec");

/// Programs of servers and the resources of the machine, found before a study is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// The program of Redis, if there is one.
    pub redis: Option<PathBuf>,
    /// Redis's own client, if there is one.
    pub benchmark: Option<PathBuf>,
    /// Memory of the machine, bytes.
    pub memory: u64,
    /// Free space of the medium, bytes.
    pub disk: u64,
}

impl Servers {
    /// A machine without bounds, on which programs are found by their names.
    pub fn all() -> Self {
        Servers { redis: Some(SERVER.into()), benchmark: Some(BENCHMARK.into()), memory: u64::MAX, disk: u64::MAX }
    }

    /// Looks at this machine: `redis`, or the `redis-server` found first, and the client beside it; the free space below `directory`.
    ///
    /// # Errors
    /// A program that is not there; a medium of which nothing is known; one line.
    pub fn here(redis: Option<&Path>, directory: &Path) -> Result<Self, String> {
        let redis = match redis {
            // A study may be resumed from another directory.
            Some(program) if program.is_file() => {
                Some(std::path::absolute(program).map_err(|error| format!("{}: {error}", program.display()))?)
            }
            Some(program) => return Err(format!("{}: no such program", program.display())),
            None => found(SERVER),
        };
        let beside = redis.as_ref().map(|program| program.with_file_name(BENCHMARK)).filter(|program| program.is_file());
        let memory = Machine::here(Path::new("/")).memory_bytes;
        Ok(Servers { redis, benchmark: beside.or_else(|| found(BENCHMARK)), memory, disk: permitted_disk(directory)? })
    }

    /// Resource of which a run needs more than there is, as a complaint.
    pub(super) fn lacks(&self, memory: u64, disk: u64) -> Option<String> {
        let lack = |what: &str, needed: u64, there: u64| {
            let (needed, there) = (format_bytes(needed >> 20 << 20), format_bytes(there >> 20 << 20));
            format!("{needed} of {what} are needed, and there are {there}")
        };
        match () {
            () if memory > self.memory => Some(lack("memory", memory, self.memory)),
            () if disk > self.disk => Some(lack("disk", disk, self.disk)),
            () => None,
        }
    }
}

/// The programs of Redis.
const SERVER: &str = "redis-server";
const BENCHMARK: &str = "redis-benchmark";

/// Path of the program that a shell would find by this name.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told() {
        let servers = Servers { memory: 1 << 30, disk: 1 << 40, ..Servers::all() };
        assert_eq!(servers.lacks(1 << 30, 1 << 40), None);
        assert_eq!(servers.lacks(3 << 30, 0).unwrap(), "3GiB of memory are needed, and there are 1GiB");
        assert_eq!(servers.lacks(0, 2 << 40).unwrap(), "2TiB of disk are needed, and there are 1TiB");
        let here = Servers::here(Some(Path::new("/bin/sh")), Path::new(".")).unwrap();
        assert!(here.memory > 0 && here.disk > 0 && here.redis.is_some_and(|program| program.ends_with("sh")));
        let relative = Servers::here(Some(Path::new("Cargo.toml")), Path::new(".")).unwrap();
        assert!(relative.redis.is_some_and(|program| program.is_absolute()));
        assert_eq!(Servers::here(Some(Path::new("/nowhere/x")), Path::new(".")).unwrap_err(), "/nowhere/x: no such program");
    }
}
