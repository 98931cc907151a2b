//! Cells of the study.

use super::{GIB, Row, Sizes, Value, memory_for};
use crate::run::{Phase, ServerSpec, Workload};
use crate::study::plan::{Cell, Request};
use crate::study::servers::{self, CONNECTIONS, KEY, Length, Told, ask, load, redis, redis_without_log, rest, sinter, workload};
use sinterdb::internal::settings::format_bytes;

/// Measure of each run: all SETs and the work that they left behind.
pub const SETS: &str = "SETs";
/// Memory that a server needs beside its data, bytes.
const BESIDE: u64 = GIB;

/// Fate of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// The log grows without end.
    Kept,
    /// The log is shortened from time to time.
    Shortened,
    /// The server writes no log.
    None,
}

impl Log {
    fn name(self) -> &'static str {
        match self {
            Log::Kept => "log kept",
            Log::Shortened => "log shortened",
            Log::None => "no log",
        }
    }
}

/// Name of the cell of a row of A.
pub fn name_of_a(row: &Row, log: Log) -> String {
    format!("A {}, {}", row.name(), log.name())
}

/// Name of the cell of a value of B whose log is shortened from `from` bytes on.
pub fn name_of_b(value: &Value, from: u64) -> String {
    format!("B {}, from {}", value.name, format_bytes(from))
}

/// Name of the cell of a value of C.
pub fn name_of_c(value: &Value, log: Log) -> String {
    format!("C {}, {}", value.name, log.name())
}

/// Planned cells, and those that are left out on this machine.
#[derive(Default)]
pub struct Planned {
    pub cells: Vec<Cell>,
    pub left_out: Vec<String>,
}

struct Planner<'a> {
    request: &'a Request,
    planned: Planned,
}

/// Cells of the requested engines that fit the machine.
pub fn cells(sizes: &Sizes, request: &Request) -> Planned {
    let mut planner = Planner { request, planned: Planned::default() };
    for row in sizes.rows() {
        let workload = of_row(&row, "A");
        let mut add = |log: Log, told: Told| planner.add(name_of_a(&row, log), log, told, &row, &workload);
        add(Log::Shortened, redis(Some(sizes.rewrite_from)));
        add(Log::Kept, redis(None));
        if row == sizes.longest(row.value) {
            add(Log::None, redis_without_log());
        }
        add(Log::Shortened, sinter(sizes.memory));
    }
    for value in sizes.of_b() {
        let row = sizes.longest(value);
        let workload = of_row(&row, "B");
        for from in sizes.minimums {
            let name = name_of_b(&value, *from);
            planner.add(name.clone(), Log::Shortened, redis(Some(*from)), &row, &workload);
            match memory_for(*from) {
                Some(memory) => planner.add(name, Log::Shortened, sinter(Some(memory)), &row, &workload),
                None => planner.leave_out(servers::SINTER, &name, "it has no memtables of that size"),
            }
        }
    }
    for value in sizes.values {
        let sets = sizes.kept / (value.bytes + KEY as u64);
        // As in A, each key is set several times.
        let row = Row { value: Value { keys: (sets / 5).max(1), ..*value }, sets };
        let workload = of_row(&row, "C");
        planner.add(name_of_c(value, Log::Kept), Log::Kept, sinter(Some(sizes.kept_memory)), &row, &workload);
        planner.add(name_of_c(value, Log::Shortened), Log::Shortened, sinter(sizes.memory), &row, &workload);
    }
    planner.planned
}

impl Planner<'_> {
    fn add(&mut self, name: String, log: Log, told: Told, row: &Row, workload: &Workload) {
        let engine = told.engine();
        if !self.is_asked(engine) {
            return;
        }
        let (memory, disk) = needs(engine, log, row);
        if let Some(why) = self.request.servers.lacks(memory, disk) {
            return self.leave_out(engine, &name, &why);
        }
        let server = ServerSpec { keeps_log: log == Log::Kept, ..ServerSpec::new(CONNECTIONS, 1) };
        let phases: Vec<&str> = workload.phases.iter().map(|phase| phase.name.as_str()).collect();
        let cell = servers::cell(name, told, self.request, server, workload.clone(), &[(SETS, phases.as_slice())]);
        self.planned.cells.push(cell);
    }

    fn leave_out(&mut self, engine: &str, name: &str, why: &str) {
        if self.is_asked(engine) {
            self.planned.left_out.push(format!("{engine}, {name}: {why}"));
        }
    }

    fn is_asked(&self, engine: &str) -> bool {
        self.request.engines.iter().any(|asked| asked == engine)
    }
}

/// Sets every key once, then random keys for the rest of the SETs, then waits until the server is at rest.
fn of_row(row: &Row, part: &str) -> Workload {
    let Row { value, sets } = row;
    let updates = sets.saturating_sub(value.keys);
    let more = (updates > 0).then(|| ask("updates", &["put"], Length::Operations(updates)));
    let phases: Vec<Phase> = [Some(load("load")), more, Some(rest("rest"))].into_iter().flatten().collect();
    workload(format!("{part}: {}", row.name()), value.keys, value.bytes, phases)
}

/// Memory and disk that a run needs, bytes, generously: page copies of a fork, logs old and new, merges.
fn needs(engine: &str, log: Log, row: &Row) -> (u64, u64) {
    let data = row.data();
    let disk = match log {
        Log::Kept => row.log() / 10 * 11,
        Log::Shortened | Log::None => 4 * data + 2 * GIB,
    };
    let memory = if engine == servers::SINTER { BESIDE } else { data / 10 * 22 + BESIDE };
    (memory, disk)
}
