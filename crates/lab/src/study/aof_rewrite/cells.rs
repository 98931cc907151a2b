//! Cells of the study.

use super::{GIB, Row, Sizes, Value, memory_for};
use crate::result::thousands;
use crate::run::{Limits, Phase, ServerSpec, Workload};
use crate::study::plan::{Cell, Request};
use crate::study::server_cells::{
    self, CONNECTIONS, KEY, Length, SINTER, Told, ask, load, redis, redis_without_log, rest, sinter, workload,
};
use sinterdb::internal::settings::format_bytes;
use std::collections::BTreeMap;

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
    /// Limit of the memory of each server, bytes.
    limit: Option<u64>,
    planned: Planned,
}

/// A cell before it is known to fit the machine.
struct Asked<'a> {
    name: String,
    log: Log,
    row: &'a Row,
    workload: &'a Workload,
    /// Length of the log from which on it is written anew, where the study varies it.
    from: Option<u64>,
}

/// Cells of the requested engines that fit the machine.
pub fn cells(sizes: &Sizes, request: &Request) -> Planned {
    let mut planner = Planner { request, limit: sizes.limit, planned: Planned::default() };
    planner.check_limit();
    for row in sizes.rows() {
        let workload = of_row(&row, "A");
        let mut add = |log: Log, told: Told| {
            planner.add(told, &Asked { name: name_of_a(&row, log), log, row: &row, workload: &workload, from: None });
        };
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
            let asked = Asked { name: name_of_b(&value, *from), log: Log::Shortened, row: &row, workload: &workload, from: Some(*from) };
            planner.add(redis(Some(*from)), &asked);
            match memory_for(*from) {
                Some(memory) => planner.add(sinter(Some(memory)), &asked),
                None => planner.leave_out(SINTER, &asked.name, "it has no memtables of that size"),
            }
        }
    }
    for value in sizes.values {
        let sets = sizes.kept / (value.bytes + KEY as u64);
        // As in A, each key is set several times.
        let row = Row { value: Value { keys: (sets / 5).max(1), ..*value }, sets };
        let workload = of_row(&row, "C");
        for (log, memory) in [(Log::Kept, Some(sizes.kept_memory)), (Log::Shortened, sizes.memory)] {
            planner.add(sinter(memory), &Asked { name: name_of_c(value, log), log, row: &row, workload: &workload, from: None });
        }
    }
    planner.planned
}

impl Planner<'_> {
    /// Gives the limit up, and says so, where the machine does not permit it.
    fn check_limit(&mut self) {
        let Some(limit) = self.limit else { return };
        let lack = match &self.request.permits.memory {
            Ok(most) if *most >= limit => return,
            Ok(most) => format!("there are {}", format_bytes(most >> 20 << 20)),
            Err(why) => why.clone(),
        };
        self.limit = None;
        let what = format!("the limit of {} GB for the memory of each server: {lack}", limit / 1_000_000_000);
        self.planned.left_out.push(what);
    }

    fn add(&mut self, told: Told, asked: &Asked<'_>) {
        let Asked { name, log, row, workload, .. } = asked;
        let engine = told.engine();
        if !self.is_asked(engine) {
            return;
        }
        let (memory, disk) = needs(engine, *log, row);
        // A server that needs more than its limit is killed, and that is a result.
        let memory = self.limit.map_or(memory, |limit| memory.min(limit));
        if let Some(why) = self.request.servers.lacks(memory, disk) {
            return self.leave_out(engine, name, &why);
        }
        let server = ServerSpec { keeps_log: *log == Log::Kept, ..ServerSpec::new(CONNECTIONS, 1) };
        let phases: Vec<&str> = workload.phases.iter().map(|phase| phase.name.as_str()).collect();
        let cell = server_cells::cell(name.clone(), told, self.request, server, (*workload).clone(), &[(SETS, phases.as_slice())]);
        let limits = Limits { memory_bytes: self.limit, ..cell.limits };
        self.planned.cells.push(Cell { factors: asked.factors(), limits, ..cell });
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

impl Asked<'_> {
    fn factors(&self) -> BTreeMap<String, String> {
        let part = self.name.split(' ').next().unwrap_or_default().to_string();
        let Row { value, sets } = self.row;
        let all = [("part", part), ("value", value.name.to_string()), ("SETs", thousands(*sets)), ("log", self.log.name().to_string())];
        let from = self.from.map(|bytes| ("from", format_bytes(bytes)));
        all.into_iter().chain(from).map(|(name, value)| (name.to_string(), value)).collect()
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
    let memory = if engine == SINTER { BESIDE } else { data / 10 * 22 + BESIDE };
    (memory, disk)
}
