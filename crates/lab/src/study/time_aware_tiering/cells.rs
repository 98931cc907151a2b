//! Cells of the study: settings, workloads and measures.

use super::{ALL, ALPHAS, AUTO, Alpha, KEY, KEYS, ORIGINAL, OWN, PUTS_PER_KEY, SHARES, Sizes, VALUE};
use crate::run::{Distribution, EngineSpec, Mix, Pace, Phase, PhaseKind, TierSpec, Workload};
use crate::study::plan::Cell;
use crate::study::settings::{MEMTABLE, Shape, TRIGGER, database, family, puts, settle};

/// Name of the factor of ages.
const AGE: &str = "age, % of a run";
/// The smallest age above 0, with which compactions have both young and old data.
pub const SMALL: &str = "20";
/// Age of cells with universal compaction alone.
pub const ALONE: &str = "0";
/// Measure of all experiments.
pub const RUN: &str = "run";
/// Phase that finishes the compactions left by the run.
const DEBTS: &str = "run debts";
/// In experiments 3 and 4 as many operations as keys come before the merge, and this percentage of them lasts a run's time, so that the
/// longest age is shorter than the time between load and merge, on both engines.
const RUN_PERCENT: u64 = 80;
/// Operations before the merge per read among them.
pub const OPERATIONS_PER_READ: u64 = 20;
/// Keys per operation after the merge; every other operation is a read.
pub const KEYS_PER_OPERATION: u64 = 10;
/// Phases of the operations after the merge: the contents of tiers are known at the end of each.
const PIECES: u64 = 4;
/// Fast-tier budget of the engine where it chooses the age. Puts after the merge come on top, half an operation for each
/// [`KEYS_PER_OPERATION`] keys; with them it is to stay within [`crate::study::metric::BUDGET`].
const TOLD: &str = "21%";
/// Levels of experiments 3 and 4: so few that reads answered by the last one are counted by themselves.
const TIERED_LEVELS: u64 = 3;

/// Clock of an engine in a run, and its ages.
pub struct Time {
    /// The engine.
    pub engine: &'static str,
    /// Operations for each second of the engine's clock; `None`: the clock is the system's.
    pub clock: Option<f64>,
    /// When operations start.
    pub pace: Pace,
    /// Ages of [`SHARES`], seconds.
    pub ages: [u64; SHARES.len()],
}

impl Time {
    /// SinterDB's time: `operations` take as long as in the original.
    pub fn own(alpha: &Alpha, operations: u64) -> Time {
        Time { engine: OWN, clock: Some(operations as f64 / alpha.run as f64), pace: Pace::Closed, ages: alpha.ages }
    }

    /// RocksDB's time, for a run of `seconds` by the system's clock.
    pub fn of_the_world(seconds: u64, pace: Pace) -> Time {
        let age = |share: u64| (if share == 100 { ALL } else { share } * seconds).div_ceil(100);
        Time { engine: ORIGINAL, clock: None, pace, ages: SHARES.map(age) }
    }
}

/// The name of a cell.
pub fn name(experiment: u32, alpha: &str, share: &str) -> String {
    let share = if share == AUTO { AUTO.to_string() } else { format!("{share} %") };
    format!("{experiment} alpha {alpha}, {share}")
}

/// Shares as they stand in names and factors.
pub fn shares() -> [String; SHARES.len()] {
    SHARES.map(|share| share.to_string())
}

/// Experiment 1: puts without pauses.
pub fn of_fast(sizes: &Sizes) -> Vec<Cell> {
    let puts = PUTS_PER_KEY * KEYS / sizes.fast;
    let of = |alpha: &Alpha| {
        let times = [Time::own(alpha, puts), Time::of_the_world(sizes.fast_run, Pace::Closed)];
        times.map(|time| filled(1, alpha, &time, sizes.fast, None)).concat()
    };
    let mut cells: Vec<Cell> = ALPHAS.iter().flat_map(of).collect();
    let is_claimed = |cell: &Cell| cell.is_for(OWN) && [ALONE, SMALL].contains(&cell.factors[AGE].as_str());
    for cell in cells.iter_mut().filter(|cell| is_claimed(cell)) {
        cell.more = sizes.more;
    }
    cells
}

/// Experiment 2: runs of known length, so that ages are known shares of them.
pub fn of_table(sizes: &Sizes) -> Vec<Cell> {
    let puts = PUTS_PER_KEY * KEYS / sizes.table;
    let of = |alpha: &Alpha| {
        let pace = Pace::Open((puts * sizes.seconds) as f64 / alpha.run as f64);
        let world = Time { ages: alpha.ages.map(|age| age.div_ceil(sizes.seconds)), ..Time::of_the_world(0, pace) };
        let own = filled(2, alpha, &Time::own(alpha, puts), sizes.table, Some(("max_background_jobs", "0")));
        [own, filled(2, alpha, &world, sizes.table, None)].concat()
    };
    ALPHAS.iter().flat_map(of).collect()
}

/// A cell for each age: puts by Zipf's law into an empty store.
fn filled(experiment: u32, alpha: &Alpha, time: &Time, divisor: u64, extra: Option<(&str, &str)>) -> Vec<Cell> {
    let (keys, memtable) = (KEYS / divisor, MEMTABLE / divisor);
    let all = vec![Mix::puts(Distribution::Zipf(alpha.exponent))];
    let phases = vec![puts(RUN, PUTS_PER_KEY * keys, all).at(time.pace), settle(DEBTS)];
    let workload =
        workload(format!("{experiment}: puts by Zipf's law{}", if experiment == 1 { ", as fast as they go" } else { "" }), keys, phases);
    let cell = |(share, age): (String, u64)| {
        let mut settings = settings(time, memtable, (age > 0).then(|| age.to_string()));
        settings.database.extend(extra.map(|(name, value)| (name.to_string(), value.to_string())));
        if age > 0 {
            cold(&mut settings);
        }
        cell(experiment, alpha, &share, time.engine, settings, &workload)
    };
    shares().into_iter().zip(time.ages).map(cell).collect()
}

/// Experiments 3 and 4: the last level on a slow medium.
pub fn of_tiered(sizes: &Sizes) -> Vec<Cell> {
    let of = |alpha: &Alpha| {
        let operations = sizes.tiered_keys * RUN_PERCENT / 100;
        let rate = Pace::Open(operations as f64 / sizes.tiered_run as f64);
        let times = [Time::own(alpha, operations), Time::of_the_world(sizes.tiered_run, rate)];
        times.iter().flat_map(|time| tiered(sizes, alpha, time)).collect::<Vec<_>>()
    };
    let mut cells: Vec<Cell> = ALPHAS.iter().flat_map(of).collect();
    for cell in cells.iter_mut().filter(|cell| cell.is_for(OWN)) {
        cell.more = sizes.more_tiered;
    }
    cells
}

fn tiered(sizes: &Sizes, alpha: &Alpha, time: &Time) -> Vec<Cell> {
    let workload = tiered_workload(sizes, alpha, time);
    let made = |share: String, age: Option<String>| {
        let mut settings = settings(time, sizes.tiered_memtable, age);
        let family = &mut settings.families[0].settings;
        let own = [("num_levels", TIERED_LEVELS), ("block_cache", sizes.tiered_memtable)];
        family.extend(own.map(|(name, value)| (name.to_string(), value.to_string())));
        if share == AUTO {
            family.insert("fast_tier_budget".to_string(), TOLD.to_string());
        }
        cold(&mut settings);
        if time.engine == OWN {
            settings.tiers = vec![TierSpec { temperature: "cold".to_string(), directory: None, model: Some(sizes.slow) }];
        }
        cell(3, alpha, &share, time.engine, settings, &workload)
    };
    let fixed = shares().into_iter().zip(time.ages).map(|(share, age)| made(share, (age > 0).then(|| age.to_string())));
    let auto = (time.engine == OWN).then(|| made(AUTO.to_string(), Some(AUTO.to_string())));
    fixed.chain(auto).collect()
}

fn tiered_workload(sizes: &Sizes, alpha: &Alpha, time: &Time) -> Workload {
    let keys = sizes.tiered_keys;
    let mixed = |name: &str, operations: u64, per_read: u64| {
        let reads = 1.0 / per_read as f64;
        let all = Mix::all(Distribution::Zipf(alpha.exponent), [("get", reads), ("put", 1.0 - reads)]);
        puts(name, operations, vec![all]).at(time.pace)
    };
    let mut phases = vec![
        puts("load", keys, vec![Mix::puts(Distribution::Unique)]),
        mixed("warm", keys, OPERATIONS_PER_READ),
        Phase::new("merge", PhaseKind::Compact),
    ];
    phases.extend((1..=PIECES).map(|piece| mixed(&format!("{RUN} {piece}"), keys / KEYS_PER_OPERATION / PIECES, 2)));
    phases.push(settle(DEBTS));
    workload("3: puts and reads by Zipf's law, the last level on a slow medium".to_string(), keys, phases)
}

/// A workload of experiments 1 to 5 with these phases.
pub fn workload(name: String, keys: u64, phases: Vec<Phase>) -> Workload {
    Workload::new(name, keys, (KEY, VALUE), phases)
}

/// Settings of universal compaction; `age`: seconds, or `auto`.
fn settings(time: &Time, memtable: u64, age: Option<String>) -> EngineSpec {
    let mut family = family("default", Shape::Universal { trigger: TRIGGER }, memtable);
    for (name, of) in [("preserve_internal_time_seconds", age.clone().filter(|age| age != AUTO)), ("preclude_last_level_data_seconds", age)]
    {
        family.settings.extend(of.map(|age| (name.to_string(), age)));
    }
    EngineSpec { operations_per_clock_second: time.clock, ..database(vec![family], memtable, true, false) }
}

/// Makes the last level cold.
fn cold(settings: &mut EngineSpec) {
    settings.families[0].settings.insert("last_level_temperature".to_string(), "kCold".to_string());
}

fn cell(experiment: u32, alpha: &Alpha, share: &str, engine: &str, settings: EngineSpec, workload: &Workload) -> Cell {
    let number = experiment.to_string();
    let factors = [("experiment", number.as_str()), ("alpha", alpha.name), (AGE, share)];
    let cell = Cell::new(name(experiment, alpha.name, share), &factors, settings, workload.clone());
    Cell { engines: vec![engine.to_string()], ..cell }.measuring(RUN, |phase| phase.starts_with(RUN))
}
