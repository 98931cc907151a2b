//! Experiment 5: time tracking is turned on in a database that has data already. Data that lost its numbers has no age; an engine takes it
//! for young or for old, and tracking for a while beforehand avoids the question.

use super::cells::{RUN, Time, workload};
use super::{ALPHAS, Alpha, ORIGINAL, OWN, Sizes};
use crate::run::{Distribution, EngineSpec, Mix, Pace, Phase, PhaseKind, Workload};
use crate::statistics::Fold;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Cell, Comparison, Group, Hypothesis, Term, absolute, each};
use crate::study::settings::{Shape, TRIGGER, database, family, puts, settle};
use std::collections::BTreeMap;

/// Law of the keys.
const ALPHA: &Alpha = &ALPHAS[1];
/// The age, percent of a run: the later half of the updates before the merge is young.
const AGE_PERCENT: u64 = 50;
/// Operations before the merge that last a run, percent of the keys.
const RUN_PERCENT: u64 = 80;
/// Keys per put, and per read, after tiering was turned on.
const KEYS_PER_OPERATION: u64 = 10;
/// Levels: so few that reads answered by the last one are counted by themselves.
const LEVELS: u64 = 3;
/// Bound between no table and one.
const ANY: f64 = 0.5;
/// Smallest change of a figure that matters.
const MORE: f64 = 1.05;
/// A share of reads that is no smaller.
const NO_LESS: f64 = 0.95;

/// Tiering is never turned on.
const NEVER: &str = "never turned on";
/// Ages were tracked from the start.
const TRACKED: &str = "tracked before";
/// Ages were not tracked, and data without an age is old. RocksDB has no other way.
const OLD: &str = "untracked, taken for old";
/// Ages were not tracked, and data without an age is young.
const YOUNG: &str = "untracked, taken for young";

/// Name of the factor.
const BEFORE: &str = "data from before";
const PRESERVE: &str = "preserve_internal_time_seconds";
const PRECLUDE: &str = "preclude_last_level_data_seconds";
/// Measure of the reads alone: the tree as the merge left it.
const READS: &str = "reads";

/// The name of a cell.
pub fn name(variant: &str) -> String {
    format!("5 {variant}")
}

/// The cells.
pub fn cells(sizes: &Sizes) -> Vec<Cell> {
    let operations = sizes.tiered_keys * RUN_PERCENT / 100;
    let own_age = ALPHA.run * AGE_PERCENT / 100;
    let own = Time { ages: [own_age; 5], ..Time::own(ALPHA, operations) };
    let rate = Pace::Open(operations as f64 / sizes.tiered_run as f64);
    let world_age = (sizes.tiered_run * AGE_PERCENT).div_ceil(100);
    let world = Time { ages: [world_age; 5], ..Time::of_the_world(sizes.tiered_run, rate) };
    let own_cells = [NEVER, TRACKED, OLD, YOUNG].map(|variant| cell(sizes, &own, variant));
    let world_cells = [NEVER, TRACKED, OLD].map(|variant| cell(sizes, &world, variant));
    own_cells.into_iter().chain(world_cells).collect()
}

fn cell(sizes: &Sizes, time: &Time, variant: &str) -> Cell {
    let workload = migrated(sizes, time, variant);
    let factors = [("experiment", "5"), ("alpha", ALPHA.name), (BEFORE, variant)];
    let cell = Cell::new(name(variant), &factors, settings(sizes, time, variant), workload);
    Cell { engines: vec![time.engine.to_string()], ..cell }
        .measuring(RUN, |phase| phase.starts_with(RUN))
        .measuring(READS, |phase| phase.ends_with(READS))
}

fn settings(sizes: &Sizes, time: &Time, variant: &str) -> EngineSpec {
    let mut family = family("default", Shape::Universal { trigger: TRIGGER }, sizes.tiered_memtable);
    let levels =
        [("num_levels", LEVELS), ("block_cache", sizes.tiered_memtable)].map(|(name, value)| (name.to_string(), value.to_string()));
    family.settings.extend(levels);
    if variant == TRACKED {
        family.settings.insert(PRESERVE.to_string(), time.ages[0].to_string());
    }
    let mut spec = EngineSpec { operations_per_clock_second: time.clock, ..database(vec![family], sizes.tiered_memtable, true, false) };
    if time.engine == OWN {
        spec.database.insert("max_background_jobs".to_string(), "0".to_string());
    }
    spec
}

/// All keys are put once and as many updates follow, a merge of all drops the numbers that nothing asks for, tiering is turned on, and some
/// more updates and a merge of all show which data it keeps above the last level.
fn migrated(sizes: &Sizes, time: &Time, variant: &str) -> Workload {
    let keys = sizes.tiered_keys;
    let asked = |name: &str, count: u64, operation| {
        puts(name, count, vec![Mix::all(Distribution::Zipf(ALPHA.exponent), [(operation, 1.0)])]).at(time.pace)
    };
    let load = puts("load", keys, vec![Mix::puts(Distribution::Unique)]);
    let mut phases = vec![load, asked("warm", keys, "put"), Phase::new("merge", PhaseKind::Compact)];
    if variant != NEVER {
        let age = time.ages[0].to_string();
        let mut settings = BTreeMap::from([PRESERVE, PRECLUDE].map(|name| (name.to_string(), age.clone())));
        if time.engine == OWN && variant != TRACKED {
            settings.insert("untimed_data".to_string(), if variant == OLD { "old" } else { "young" }.to_string());
        }
        phases.push(Phase::new("turn on", PhaseKind::Change { settings }));
    }
    phases.extend([
        asked(&format!("{RUN} puts"), keys / KEYS_PER_OPERATION, "put"),
        settle(&format!("{RUN} debts")),
        Phase::new(format!("{RUN} merge"), PhaseKind::Compact),
        asked(&format!("{RUN} {READS}"), keys / KEYS_PER_OPERATION, "get"),
    ]);
    workload("5: tiering is turned on later".to_string(), keys, phases)
}

/// The claims that can be decided with these engines.
pub fn claims(engines: &[String]) -> Vec<Hypothesis> {
    let there = |engine: &str| engines.iter().any(|name| name == engine);
    let term = |variant: &str| Term::new(name(variant), RUN);
    let ratio = |name: &str, above: &str, below: &str, bound| Comparison {
        name: name.to_string(),
        above: vec![term(above)],
        below: vec![term(below)],
        fold: Fold::Product,
        bound,
    };
    let group = |comparison: Comparison| each(std::iter::once(comparison));
    let claim = |text: &str, original: Option<&str>, metric: Metric, groups: Vec<Group>| Hypothesis {
        original: original.map(str::to_string),
        needs: vec!["compaction_style".to_string()],
        ..Hypothesis::new(text, metric, groups)
    };
    let mut claims = Vec::new();
    if there(OWN) || there(ORIGINAL) {
        claims.push(claim(
            "5: turned on without tracking, young data counts as old: fewer reads are answered above the last level than with tracking",
            Some("yes: hot data is taken for cold; tracking first avoids that"),
            Metric::FastReads,
            group(ratio("tracked before, to untracked and taken for old", TRACKED, OLD, Bound::Above(MORE))),
        ));
    }
    if there(OWN) {
        let own = |claim: Hypothesis| Hypothesis { engine: Some(OWN.to_string()), ..claim };
        claims.push(own(claim(
            "5: taken for young, data from before answers as many reads above the last level as with tracking (95 % and more)",
            None,
            Metric::FastReads,
            group(ratio("untracked and taken for young, to tracked before", YOUNG, TRACKED, Bound::Above(NO_LESS))),
        )));
        claims.push(own(claim(
            "5: for that all of it goes above the last level, which is empty for a time",
            None,
            Metric::LastLevelTables,
            group(absolute("untracked and taken for young: tables on the last level", term(YOUNG), Bound::Below(ANY))),
        )));
    }
    claims
}
