//! Cells of the study: settings, workloads and measures.

use super::{AUTO, DIVISIONS, OF_CONTAINER, OWN, RIVAL, SHARES, SizesA, SizesB, SizesC};
use crate::run::{Distribution, EngineSpec, FamilySpec, Limits, Mix, Order, Pace, Phase, Workload, Writer};
use crate::study::plan::Cell;
use crate::study::settings::owed;
use sinterdb::internal::settings::format_bytes;
use sinterdb::settings::{Budgets, DbSettings, FamilySettings};
use std::collections::BTreeMap;

/// Bytes of a key.
const KEY: usize = 16;
/// Bytes of a value of A and B.
pub const VALUE: usize = 1024;
/// Bytes of a value of C: large, so that requests are few and the client's waiting for the next one takes little processor time.
pub const VALUE_C: usize = 8000;
/// Clients of A and B. C has one, and a writer.
pub const CLIENTS: usize = 2;
/// Distribution of the requests over the keys.
const SKEW: Distribution = Distribution::Zipf(0.9);
/// Size of A's cache over that of its memtables, from which tables and level targets follow: all are small beside the cache.
const CACHE_TO_MEMTABLE: u64 = 8;

/// First phase of all parts.
const FILL: &str = "fill";
/// A's phase of reads.
pub const READS: &str = "reads";
/// A's phase of mixed reads and writes.
pub const MIX: &str = "mix 95/5";
/// B's phase with mostly writes.
pub const WRITE_HEAVY: &str = "write-heavy";
/// B's phase with mostly reads.
pub const READ_HEAVY: &str = "read-heavy";
/// B's measure over alternating turns of writes and reads.
pub const ALTERNATING: &str = "alternating";
/// Number of turns, of writes and reads together.
const TURNS: usize = 4;
/// C's phase.
pub const GETS: &str = "gets";

/// An amount of data of A.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Amount in comparison with the cache, as text.
    pub data: &'static str,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Memory limit of the run, page cache included, bytes, so small that its files lie outside of the page cache; `None`: they lie in it.
    pub limit: Option<u64>,
}

impl Case {
    /// Name for people.
    pub fn name(&self) -> String {
        format!("{}, {}", self.data, self.files())
    }

    fn files(&self) -> &'static str {
        if self.limit.is_some() { "outside of the page cache" } else { "in the page cache" }
    }
}

/// Limits of a run of C.
#[derive(Debug, Clone, Copy)]
pub struct Container {
    /// Processor time, in processors.
    pub cpus: usize,
    /// Memory limit, bytes.
    pub memory: u64,
}

impl Container {
    /// Name for people.
    pub fn name(&self) -> String {
        format!("{} CPU{}, {}", self.cpus, if self.cpus == 1 { "" } else { "s" }, format_bytes(self.memory))
    }
}

/// A's cells: every share for every case.
pub fn of_a(sizes: &SizesA, cases: &[Case]) -> Vec<Cell> {
    let of_case = |case: &Case| {
        let case = *case;
        SHARES.map(|share| {
            let workload = workload_of_a(sizes, &case, if share == AUTO { sizes.moved } else { sizes.warm });
            let factors = [("part", "A"), ("compressed", share), ("data", case.data), ("files", case.files())];
            let limits = Limits { memory_bytes: case.limit, ..Limits::default() };
            let settings = settings_of_a(sizes.cache, share);
            cell(name_of_a(share, &case), &factors, settings, workload, &[READS, MIX], limits, &[OWN])
        })
    };
    cases.iter().flat_map(of_case).collect()
}

/// The name of a cell of A.
pub fn name_of_a(share: &str, case: &Case) -> String {
    format!("A {share}, {}", case.name())
}

fn settings_of_a(cache: u64, share: &str) -> EngineSpec {
    let memtable = cache / CACHE_TO_MEMTABLE;
    let family = FamilySettings {
        write_buffer_size: memtable,
        target_file_size_base: memtable,
        max_bytes_for_level_base: 4 * memtable,
        max_compaction_bytes: 25 * memtable,
        ..FamilySettings::default()
    };
    let mut settings = settings(&DbSettings { cache_size: cache, ..DbSettings::default() }, &family);
    settings.database.insert("compressed_cache".to_string(), share.to_string());
    settings
}

fn workload_of_a(sizes: &SizesA, case: &Case, warm: f64) -> Workload {
    let gets = |name: &str, seconds| closed(name, (0.0, seconds), SKEW, 1.0);
    let phases = vec![
        fill(Order::Sequential),
        owed(FILL),
        gets("warm", warm),
        gets(READS, sizes.seconds),
        closed(MIX, (0.0, sizes.seconds), SKEW, 0.95),
        owed(MIX),
    ];
    workload(format!("A: data of {}", case.name()), case.bytes / (KEY + VALUE) as u64, VALUE, phases)
}

/// B's cells: each fixed division, and the moving one.
pub fn of_b(sizes: &SizesB) -> Vec<Cell> {
    let made = |name: String, settings, engines: &[&str]| {
        let factors = [("part", "B"), ("memtables:cache", name.as_str())];
        let (workload, measures) = (workload_of_b(sizes), [WRITE_HEAVY, READ_HEAVY, ALTERNATING]);
        cell(name_of_b(&name), &factors, settings, workload, &measures, Limits::default(), engines)
    };
    let fixed = DIVISIONS.map(|division| made(division_name(division), divided(sizes.budget, division), &[OWN]));
    let moving = made(MOVING.to_string(), of_memory(sizes.budget), &[OWN, RIVAL]);
    fixed.into_iter().chain([moving]).collect()
}

/// Name of the division that the engine moves by itself.
pub const MOVING: &str = "moving";

/// The name of a cell of B.
pub fn name_of_b(division: &str) -> String {
    format!("B {division}")
}

/// Name of a division.
pub fn division_name((memtables, cache): (u64, u64)) -> String {
    format!("{memtables}:{cache}")
}

/// Settings that follow from `memory` alone, as in OPTIONS files, the common language of all engines.
fn of_memory(memory: u64) -> EngineSpec {
    let budgets = Budgets { memory: Some(memory), ..Budgets::default() };
    settings(&budgets.db(), &budgets.family())
}

/// Settings for a budget with a fixed division between memtables and cache.
fn divided(budget: u64, (memtables, cache): (u64, u64)) -> EngineSpec {
    let budgets = Budgets { memory: Some(budget), ..Budgets::default() };
    let memtables = budget * memtables / (memtables + cache);
    let db = DbSettings { memory_budget: 0, db_write_buffer_size: memtables, cache_size: budget - memtables, ..budgets.db() };
    settings(&db, &FamilySettings { write_buffer_size: memtables / 2, ..budgets.family() })
}

/// Engine settings for the sizes that differ between the parts; everything else has SinterDB's defaults.
fn settings(db: &DbSettings, family: &FamilySettings) -> EngineSpec {
    let text = |pairs: &[(&str, u64)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_string(), value.to_string())).collect()
    };
    let mut database = text(&[("db_write_buffer_size", db.db_write_buffer_size), ("memory_budget", db.memory_budget)]);
    database.retain(|_, value| *value != u64::MAX.to_string() && *value != "0");
    let mut family = text(&[
        ("write_buffer_size", family.write_buffer_size),
        ("target_file_size_base", family.target_file_size_base),
        ("max_bytes_for_level_base", family.max_bytes_for_level_base),
        ("max_compaction_bytes", family.max_compaction_bytes),
        ("block_cache", db.cache_size),
    ]);
    family.insert("cache_index_and_filter_blocks".to_string(), db.cache_index_and_filter_blocks.to_string());
    let families = vec![FamilySpec { name: "default".to_string(), settings: family }];
    EngineSpec { database, families, wal: true, ..EngineSpec::default() }
}

fn workload_of_b(sizes: &SizesB) -> Workload {
    let write = |name: &str, seconds: (f64, f64)| closed(name, seconds, SKEW, 0.1);
    let read = |name: &str, seconds: (f64, f64)| closed(name, seconds, SKEW, 0.95);
    let mut phases = vec![
        fill(Order::Random),
        owed(FILL),
        write(WRITE_HEAVY, sizes.writes),
        owed(WRITE_HEAVY),
        read(READ_HEAVY, sizes.reads),
        owed(READ_HEAVY),
    ];
    phases.extend((0..TURNS).map(|turn| {
        let (name, seconds) = (format!("{ALTERNATING} {}", turn + 1), (0.0, sizes.turn));
        if turn % 2 == 0 { write(&name, seconds) } else { read(&name, seconds) }
    }));
    phases.push(owed(ALTERNATING));
    workload("B: writes, reads, and both in turns".to_string(), sizes.data * sizes.budget / (KEY + VALUE) as u64, VALUE, phases)
}

/// C's cells: each container with limits that the engine sees, and with hidden limits; the last one also with all of its memory for the
/// database.
pub fn of_c(sizes: &SizesC, containers: &[Container]) -> Vec<Cell> {
    let of_container = |container: &Container| {
        let watched = cell_of_c(sizes, container, WATCHED, container.memory / OF_CONTAINER, &[OWN, RIVAL]);
        let mut hidden = cell_of_c(sizes, container, HIDDEN, container.memory / OF_CONTAINER, &[OWN]);
        hidden.settings.hide_limits = true;
        [watched, hidden]
    };
    let all = containers.last().map(|container| cell_of_c(sizes, container, ALL_OF_IT, container.memory, &[OWN]));
    containers.iter().flat_map(of_container).chain(all).collect()
}

/// Cells in which the engine looks at its limits.
pub const WATCHED: &str = "watched";
/// Cells in which the limits are hidden from the engine.
pub const HIDDEN: &str = "hidden";
/// Cells in which the engine looks at its limits and gets all of the memory.
pub const ALL_OF_IT: &str = "watched, all of the memory asked for";

/// The name of a cell of C.
pub fn name_of_c(limits: &str, container: &Container) -> String {
    format!("C {limits}, {}", container.name())
}

fn cell_of_c(sizes: &SizesC, container: &Container, limits: &str, memory: u64, engines: &[&str]) -> Cell {
    let factors = [("part", "C"), ("limits", limits), ("cpus", &container.cpus.to_string()), ("memory", &format_bytes(container.memory))];
    let percent = u32::try_from(100 * container.cpus).unwrap_or(u32::MAX);
    let confined = Limits { cpus: None, memory_bytes: Some(container.memory), cpu_percent: Some(percent) };
    cell(name_of_c(limits, container), &factors, of_memory(memory), workload_of_c(sizes), &[GETS], confined, engines)
}

fn workload_of_c(sizes: &SizesC) -> Workload {
    let (before, measured) = sizes.seconds;
    let gets = Phase::timed(GETS, vec![Mix::all(SKEW, [("get", 1.0)])], before + measured, before, 1).at(Pace::Open(sizes.gets));
    let gets = gets.beside(Writer { per_second: Some(sizes.puts), distribution: Distribution::Uniform });
    // No settling in between: compactions of the random load stay busy from the start.
    workload("C: gets beside puts".to_string(), sizes.keys, VALUE_C, vec![fill(Order::Random), gets])
}

fn cell(
    name: String,
    factors: &[(&str, &str)],
    settings: EngineSpec,
    workload: Workload,
    measures: &[&str],
    limits: Limits,
    engines: &[&str],
) -> Cell {
    let engines = engines.iter().map(|engine| (*engine).to_string()).collect();
    let cell = Cell { limits, engines, ..Cell::new(name, factors, settings, workload) };
    let counts = |measure: &str, phase: &str| phase.strip_prefix(measure).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    measures.iter().fold(cell, |cell, measure| cell.measuring(measure, |phase| counts(measure, phase)))
}

fn workload(name: String, keys: u64, value: usize, phases: Vec<Phase>) -> Workload {
    Workload::new(name, keys, (KEY, value), phases)
}

fn fill(order: Order) -> Phase {
    Phase::load(FILL, order, 1)
}

/// A phase of gets (share `gets`) and puts, without pauses; `before`: seconds of warm-up, `measured`: seconds after it.
fn closed(name: &str, (before, measured): (f64, f64), distribution: Distribution, gets: f64) -> Phase {
    let all = Mix::all(distribution, [("get", gets), ("put", 1.0 - gets)]);
    Phase::timed(name, vec![all], before + measured, before, CLIENTS)
}
