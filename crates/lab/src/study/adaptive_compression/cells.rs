//! Cells of the study: settings, workloads and measures.

use super::{AUTO, CHOOSER, Levels, Permitted, STRATEGIES_A, STRATEGIES_B, Size, Sizes, ZSTD_LEVEL};
use crate::run::{Distribution, EngineSpec, FamilySpec, Limits, Mix, Order, Phase, PhaseKind, Workload};
use crate::study::plan::Cell;
use crate::study::settings::{BASE, FAN_OUT, Shape, database, family, owed};
use sinterdb::internal::settings::format_bytes;

/// The original's block cache of A, bytes.
pub const CACHE_A: u64 = 128 << 20;
/// The original's block cache of B, bytes.
pub const CACHE_B: u64 = 256 << 20;
/// Bytes of a value of A.
pub const VALUE_A: usize = 4096;
/// Bytes of a value of B.
pub const VALUE_B: usize = 1024;
/// Clients of A. B has one.
pub const CLIENTS_A: usize = 4;
/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// db_bench's `read_random_exp_range` in B.
pub const EXP_RANGE: f64 = 200_000.0;

/// First phase of both parts.
pub const FILL: &str = "fillseq";
/// A's phase that merges everything.
pub const COMPACT: &str = "compact";
/// A's phase of reads, and B's phase of the original's reads.
pub const READ: &str = "readrandom";
/// B's reads by Zipf's law: name, exponent.
pub const ZIPF: [(&str, f64); 2] = [("readrandom, Zipf 0.9", 0.9), ("readrandom, Zipf 1.2", 1.2)];
/// B's mixes by [`MIXED_BY`]: name, share of reads.
pub const MIXES: [(&str, f64); 2] = [("mix 95/5", 0.95), ("mix 50/50", 0.5)];
const MIXED_BY: f64 = 0.9;
/// Name of C's second family, which is read; the first is written to.
const COLD: &str = "cold";
/// Share of C's keys in the first family.
pub const HOT_SHARE: f64 = 1.0 / 8.0;
/// C's phase of reads of one family and updates of the other.
pub const BOTH: &str = "reads of one, updates of the other";
/// Operations of [`BOTH`] per key, half of each kind.
pub const BOTH_BY_KEY: f64 = 2.0;
/// Measure over all phases of a workload.
pub const WHOLE: &str = "the whole";
/// Keys per warm-up read, which fill the cache before reads by Zipf's law are measured.
const WARM: u64 = 4;

/// A's cells for each pair of limits.
pub fn of_a(sizes: &Sizes, permitted: &Permitted) -> Vec<Cell> {
    let workload = workload_of_a(sizes);
    let measures = [FILL, COMPACT, READ, WHOLE];
    let mut cells = Vec::new();
    for (cpus, memory) in permitted.pairs() {
        for (strategy, levels) in with_auto(&STRATEGIES_A) {
            let settings = settings(levels, sizes.a, CACHE_A);
            cells.push(confined("A", strategy, (cpus, memory), settings, &workload, &measures));
        }
    }
    cells
}

/// The name of a cell of A.
pub fn name_of_a(strategy: &str, cpus: usize, memory: Option<u64>) -> String {
    name_within("A", strategy, cpus, memory)
}

/// Limits for people.
pub fn limits_name(cpus: usize, memory: Option<u64>) -> String {
    let memory = memory.map_or(String::new(), |bytes| format!(", {}", format_bytes(bytes)));
    format!("{cpus} CPU{}{memory}", if cpus == 1 { "" } else { "s" })
}

/// B's cells.
pub fn of_b(sizes: &Sizes) -> Vec<Cell> {
    let workload = workload_of_b(sizes.b);
    let measures: Vec<&str> = measures_of_b().into_iter().chain([WHOLE]).collect();
    let made = |(strategy, levels)| {
        let settings = settings(levels, sizes.b, CACHE_B);
        cell(name_of_b(strategy), &[("part", "B"), ("strategy", strategy)], settings, &workload, &measures)
    };
    with_auto(&STRATEGIES_B).map(made).collect()
}

/// The name of a cell of B.
pub fn name_of_b(strategy: &str) -> String {
    format!("B {strategy}")
}

/// C's cells.
pub fn of_c(sizes: &Sizes, permitted: &Permitted) -> Vec<Cell> {
    let workload = workload_of_c(sizes.a);
    let mut cells = Vec::new();
    for (cpus, memory) in permitted.widest() {
        for (strategy, levels) in with_auto(&STRATEGIES_B) {
            let mut settings = settings(levels, sizes.a, CACHE_A);
            let cold = FamilySpec { name: COLD.to_string(), settings: settings.families[0].settings.clone() };
            settings.families.push(cold);
            cells.push(confined("C", strategy, (cpus, memory), settings, &workload, &[BOTH, WHOLE]));
        }
    }
    cells
}

/// The name of a cell of C.
pub fn name_of_c(strategy: &str, cpus: usize, memory: Option<u64>) -> String {
    name_within("C", strategy, cpus, memory)
}

fn name_within(part: &str, strategy: &str, cpus: usize, memory: Option<u64>) -> String {
    format!("{part} {strategy}, {}", limits_name(cpus, memory))
}

/// A cell that has limits.
fn confined(
    part: &str,
    strategy: &str,
    (cpus, memory): (usize, Option<u64>),
    settings: EngineSpec,
    workload: &Workload,
    measures: &[&str],
) -> Cell {
    let (processors, most) = (cpus.to_string(), memory.map_or("unlimited".to_string(), format_bytes));
    let factors = [("part", part), ("strategy", strategy), ("cpus", &processors), ("memory", &most)];
    let cell = cell(name_within(part, strategy, cpus, memory), &factors, settings, workload, measures);
    Cell { limits: Limits { cpus: Some(cpus), memory_bytes: memory, cpu_percent: None }, ..cell }
}

/// Measures of B, one for each phase.
pub fn measures_of_b() -> Vec<&'static str> {
    let reads = ZIPF.iter().map(|(name, _)| *name);
    [FILL, READ].into_iter().chain(reads).chain(MIXES.iter().map(|(name, _)| *name)).collect()
}

/// The fixed strategies with their lists of codecs, followed by `auto`, which has none.
fn with_auto(strategies: &'static [(&'static str, Levels)]) -> impl Iterator<Item = (&'static str, Option<&'static Levels>)> {
    strategies.iter().map(|(name, levels)| (*name, Some(levels))).chain([(AUTO, None)])
}

/// Settings of a list of codecs by level; `None`: the engine chooses.
pub fn settings(levels: Option<&Levels>, size: Size, cache: u64) -> EngineSpec {
    // Static targets: with dynamic ones RocksDB counts its list from the base level, SinterDB by the number of the level.
    let mut family = family("default", Shape::Leveled { base: BASE, fan_out: FAN_OUT }, size.memtable());
    let compression = match levels {
        None => vec![("compression", AUTO.to_string())],
        Some(levels) => {
            let list = [("compression", levels[6].to_string()), ("compression_per_level", levels.join(":"))];
            // No other codec of the study has levels.
            let level = levels.contains(&"kZSTD").then(|| ("compression_opts.level", ZSTD_LEVEL.to_string()));
            list.into_iter().chain(level).collect()
        }
    };
    let others =
        [("filter_policy", "nullptr".to_string()), ("block_size", BLOCK.to_string()), ("block_cache", (cache / size.divisor).to_string())];
    family.settings.extend(compression.into_iter().chain(others).map(|(name, value)| (name.to_string(), value)));
    database(vec![family], size.memtable(), true, false)
}

fn cell(name: String, factors: &[(&str, &str)], settings: EngineSpec, workload: &Workload, measures: &[&str]) -> Cell {
    let engines = if factors.contains(&("strategy", AUTO)) { vec![CHOOSER.to_string()] } else { Vec::new() };
    let cell = Cell { engines, ..Cell::new(name, factors, settings, workload.clone()) };
    let measuring = |cell: Cell, name: &&str| if *name == WHOLE { cell.measuring(WHOLE, |_| true) } else { cell.measuring_each([*name]) };
    measures.iter().fold(cell, measuring)
}

/// A workload whose values are of one size.
pub fn workload(name: &str, keys: u64, value: usize, phases: Vec<Phase>) -> Workload {
    Workload::new(name, keys, (16, value), phases)
}

fn workload_of_a(sizes: &Sizes) -> Workload {
    let phases = vec![
        fill(CLIENTS_A),
        Phase::new(COMPACT, PhaseKind::Compact),
        requests(READ, CLIENTS_A as u64 * sizes.reads_of_a(), CLIENTS_A, Distribution::Uniform, 1.0),
    ];
    workload("A: fillseq, compact, readrandom", sizes.a.keys, VALUE_A, phases)
}

fn workload_of_b(Size { keys, .. }: Size) -> Workload {
    let mut phases = vec![
        fill(1),
        owed(FILL),
        requests(READ, keys, 1, Distribution::Exponential(EXP_RANGE), 1.0),
        requests("warm", keys / WARM, 1, Distribution::Zipf(ZIPF[0].1), 1.0),
    ];
    phases.extend(ZIPF.map(|(name, exponent)| requests(name, keys, 1, Distribution::Zipf(exponent), 1.0)));
    phases.extend(MIXES.into_iter().flat_map(|(name, gets)| [requests(name, keys, 1, Distribution::Zipf(MIXED_BY), gets), owed(name)]));
    workload("B: fillseq, skewed reads and mixes", keys, VALUE_B, phases)
}

fn workload_of_c(Size { keys, .. }: Size) -> Workload {
    let hot = (keys as f64 * HOT_SHARE) as u64;
    let edge = hot as f64 / keys as f64;
    let part = |name: &str, family: Option<&str>, range, operation: &str, distribution| Mix {
        name: name.to_string(),
        family: family.map(str::to_string),
        range,
        ..Mix::all(distribution, [(operation, 1.0)])
    };
    let updated = |distribution| part("updated", None, (0.0, edge), "put", distribution);
    let read = |operation, distribution| part("read", Some(COLD), (edge, 1.0), operation, distribution);
    let both = vec![updated(Distribution::Uniform), read("get", Distribution::Uniform)];
    let phases = vec![
        Phase::requests("fill what is updated", vec![updated(Distribution::Unique)], hot, CLIENTS_A),
        Phase::requests("fill what is read", vec![read("put", Distribution::Unique)], keys - hot, CLIENTS_A),
        Phase::requests(BOTH, both, (keys as f64 * BOTH_BY_KEY) as u64, CLIENTS_A),
    ];
    workload("C: one family read, another updated", keys, VALUE_A, phases)
}

fn fill(threads: usize) -> Phase {
    Phase::load(FILL, Order::Sequential, threads)
}

/// A phase of reads (share `gets`) and updates, without pauses.
pub fn requests(name: &str, operations: u64, threads: usize, distribution: Distribution, gets: f64) -> Phase {
    Phase::requests(name, vec![Mix::all(distribution, [("get", gets), ("put", 1.0 - gets)])], operations, threads)
}
