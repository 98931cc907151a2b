//! Leveled compaction as RocksDB has it (`compaction_picker_level.cc`, `VersionStorageInfo::CalculateBaseBytes`): one run per level, each
//! level larger than the one above by a factor. The level that exceeds its target most is worked on first; of a level, the table goes
//! down that rewrites least below it.
//!
//! Where data is placed by age, levels grow to the one above the last, and the last takes only what is old (`demote`).

use super::push::{push_around_damage, push_from, push_level0, push_tables};
use super::step::{below, may_move, tables_at};
use super::targets::Targets;
use super::{Choice, Input, PickEnv, Picker, aging, bytes_of, collides, demote, hull, limited_space, plan, run_number, span, young};
use crate::manifest::{Run, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::sync::Arc;

/// The leveled style.
pub struct Leveled;

/// Fewest runs worth a merge within level 0 (RocksDB: `kMinFilesForIntraL0Compaction`).
const MIN_INTRA_L0: usize = 4;

/// On a medium that frees space in units, tables of this many units are pushed down together.
const UNITS: u64 = 3;

impl Picker for Leveled {
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice {
        let targets = Targets::of(version, env.settings);
        let steps: [&dyn Fn() -> Option<Choice>; 9] = [
            &|| unify(version, env),
            &|| aging::drop_expired(version, env),
            &|| pick_by_score(version, env, &targets),
            &|| move_early(version, env),
            &|| demote::sink_cheaply(version, env),
            &|| push_expired(version, env),
            &|| aging::rewrite_tombstones(version, env),
            &|| push_outdating(version, env),
            &|| demote::sink_at_rest(version, env),
        ];
        env.first_that_fits(steps.iter().filter_map(|step| step())).unwrap_or(Choice::Nothing)
    }

    /// Estimates as RocksDB's `EstimateCompactionBytesNeeded`: level 0 and the base level once the trigger is reached, then the excess of
    /// each level, with what it overlaps below, added to the next.
    fn debt(&self, version: &Version, settings: &FamilySettings) -> u64 {
        let targets = Targets::of(version, settings);
        let level0 = version.level_bytes(0);
        let is_due = version.levels[0].len() >= settings.level0_file_num_compaction_trigger || level0 >= settings.max_bytes_for_level_base;
        let (mut moving, mut debt) = if is_due { (level0, level0 + version.level_bytes(targets.base)) } else { (0, 0) };
        for level in targets.base.max(1)..targets.last {
            let size = version.level_bytes(level) + std::mem::take(&mut moving);
            let target = targets.target(level);
            if size > target {
                moving = size - target;
                let fan_out = version.level_bytes(level + 1) as f64 / size as f64 + 1.0;
                debt = debt.saturating_add((moving as f64 * fan_out) as u64);
            }
        }
        if settings.places_by_age() { debt.saturating_add(demote::debt(version, settings)) } else { debt }
    }
}

/// Scores and numbers of the levels that are due, most urgent first.
fn scores(version: &Version, env: &PickEnv<'_>, targets: &Targets) -> Vec<(f64, usize)> {
    let settings = env.settings;
    let idle = |run: &Run| run.tables.iter().filter(|t| !env.is_taken(t)).map(|t| t.bytes).sum::<u64>();
    let idle_runs = version.levels[0].iter().filter(|run| run.tables.iter().all(|t| !env.is_taken(t))).count();
    let level0: u64 = version.levels[0].iter().map(idle).sum();
    let by_runs = idle_runs as f64 / settings.level0_file_num_compaction_trigger.max(1) as f64;
    let by_bytes = level0 as f64 / settings.max_bytes_for_level_base.max(1) as f64;
    // With limited space level 0 is always due: its deletions free nothing before they are merged with what they delete.
    let by_room = if env.room < u64::MAX && idle_runs > 0 { 1.0 } else { 0.0 };
    let mut scores = vec![(by_runs.max(by_bytes).max(by_room), 0)];
    for level in 1..targets.last {
        let bytes: u64 = version.levels[level].iter().map(idle).sum();
        let target = targets.bytes[level];
        if targets.drained.is_some_and(|d| level <= d) && bytes > 0 {
            scores.push((1.001, level));
        } else if bytes > target {
            // Bytes that will come from the level above do not lower the score: a level that waits for them grows, and each merge from
            // above would rewrite all of it.
            scores.push((bytes as f64 / target as f64, level));
        }
    }
    scores.extend(demote::score(version, env));
    scores.retain(|(score, _)| *score >= 1.0);
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scores
}

/// Merges the runs of a level >= 1 that has several: the universal style left them.
pub fn unify(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    (1..version.levels.len()).filter(|l| version.levels[*l].len() > 1).find_map(|level| {
        let inputs: Vec<Input> = version.levels[level].iter().map(|run| Input::whole(level, run)).collect();
        if env.busy_output.iter().any(|(l, _)| *l == level) {
            return None;
        }
        let all = (!collides(env, &inputs, level)).then(|| Choice::Merge(plan(version, env, Reason::StyleChange, inputs, (level, 0))))?;
        if env.fits(&all) { Some(all) } else { limited_space::level(version, env, level, None, Reason::StyleChange).or(Some(all)) }
    })
}

/// The work of the most urgent level that fits into the free space. A move of any due level comes before all merges, because a table that
/// has moved away is not rewritten by the next merge from above.
fn pick_by_score(version: &Version, env: &PickEnv<'_>, targets: &Targets) -> Option<Choice> {
    let due = scores(version, env, targets).into_iter();
    let mut choices = due.filter_map(|(_, level)| match level {
        0 => pick_level0(version, env),
        level if level == targets.last => demote::pick(version, env),
        level => pick_level(version, env, level),
    });
    let mut merges = Vec::new();
    let moved = choices.find_map(|choice| match choice {
        Choice::Move(_) => Some(choice),
        merge => {
            merges.push(merge);
            None
        }
    });
    moved.or_else(|| env.first_that_fits(merges))
}

/// Level 0 counts as growing if its newest run is younger than this, seconds.
const YOUNG_SECONDS: u64 = 10;

/// Returns whether level 0 waits for more runs: under a load, until it is twice as large as the base level, which a merge would rewrite.
/// Each byte of the base level is then rewritten half as often as if level 0 were merged at equal size; the cost is that readers check
/// more runs.
fn waits(version: &Version, env: &PickEnv<'_>) -> bool {
    let settings = env.settings;
    // A merge has to begin well before level 0 has so many runs that writers are delayed.
    let most = settings.level0_file_num_compaction_trigger.midpoint(settings.level0_slowdown_writes_trigger);
    let level0 = version.level_bytes(0);
    let base = version.level_bytes(Targets::of(version, settings).base);
    // If the runs of a load move on at once, the runs that stay would wait in vain, so level 0 itself has to grow.
    let grows = version.levels[0].first().is_some_and(|run| run.tables.iter().any(|t| t.newest_time.abs_diff(env.now) <= YOUNG_SECONDS));
    env.loading && version.levels[0].len() < most && level0 / 2 < base.min(settings.max_bytes_for_level_base) && grows
}

fn pick_level0(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let moved = move_level0(version, env);
    if moved.is_some() || waits(version, env) {
        return moved;
    }
    push_level0(version, env, &|_| true, Reason::RunCount)
        .or_else(|| push_around_damage(version, env, &|_| true, Reason::RunCount))
        .or_else(|| intra_level0(version, env))
}

/// Moves runs of level 0 that overlap neither another run nor the base level, so that a load in key order rewrites nothing. (A run that
/// overlaps only newer ones could move, too, but readers would still have to check all of them.)
fn move_level0(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let base = Targets::of(version, env.settings).base;
    if base == 0 || version.levels[base].len() > 1 || !may_move(env.settings, 0, base) {
        return None;
    }
    let mut chosen: Vec<Input> = Vec::new();
    for run in version.levels[0].iter().rev() {
        let others = || version.levels[0].iter().filter(|other| other.number != run.number);
        let is_alone = run.tables.iter().all(|t| others().all(|other| other.overlapping(&t.range).is_empty()));
        let mut more = chosen.clone();
        more.insert(0, Input::whole(0, run));
        let Some(range) = hull(&more).filter(|_| is_alone) else { continue };
        let is_light = bytes_of(below(version, base, &range)) <= env.settings.max_compaction_bytes;
        if is_light && tables_at(version, base, &range).is_empty() && !collides(env, &more, base) {
            chosen = more;
        }
    }
    let output = (base, run_number(version, base));
    (!chosen.is_empty()).then(|| Choice::Move(plan(version, env, Reason::RunCount, chosen, output)))
}

/// Moves several runs of level 0 before the trigger is reached, so that after a load in key order readers check one run on the base level
/// instead of several. (A single run stays: if newer runs will overlap it, it would be rewritten once more.)
fn move_early(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    move_level0(version, env).filter(|choice| matches!(choice, Choice::Move(plan) if plan.inputs.len() > 1))
}

/// Merges the newest idle runs of level 0 into one run while older ones are being compacted, so that readers check fewer runs and writers
/// need not wait. A run joins as long as that lowers the bytes written per run saved, so that a large run is not rewritten for each small
/// one.
fn intra_level0(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let runs = &version.levels[0];
    if runs.len() < env.settings.level0_file_num_compaction_trigger + 2 {
        return None;
    }
    let mut bytes = 0u64;
    let mut cost = u64::MAX;
    let mut width = 0;
    for run in runs.iter().take_while(|run| run.tables.iter().all(|t| !env.is_taken(t))) {
        bytes = bytes.saturating_add(run.bytes());
        let new_cost = if width == 0 { u64::MAX } else { bytes / width as u64 };
        if bytes > env.most() || new_cost > cost {
            break;
        }
        cost = new_cost;
        width += 1;
    }
    let inputs: Vec<Input> = runs[..width].iter().map(|run| Input::whole(0, run)).collect();
    let is_worth = width >= MIN_INTRA_L0 && !collides(env, &inputs, 0);
    is_worth.then(|| Choice::Merge(plan(version, env, Reason::RunCount, inputs, (0, runs[0].number))))
}

/// Pushes down the table of a level with the smallest overlap below for its size. If it can move, neighbours move with it: moves cost
/// nothing, and a table that moved away is not rewritten by the next merge from above (RocksDB 7.8, `TryExtendNonL0TrivialMove`).
fn pick_level(version: &Version, env: &PickEnv<'_>, level: usize) -> Option<Choice> {
    let [run] = version.levels[level].as_slice() else { return None };
    if env.unit > 0 {
        return pick_next(version, env, (level, run));
    }
    let overlap = |t: &TableInfo| bytes_of(below(version, level, &t.range));
    let mut order: Vec<(f64, u64, usize)> = run
        .tables
        .iter()
        .enumerate()
        .filter(|(_, t)| !env.is_taken(t))
        .map(|(i, t)| (overlap(t) as f64 / t.bytes.max(1) as f64, t.min_seq, i))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    order.into_iter().find_map(|(_, _, i)| push_from(version, env, (level, run), i, Reason::LevelSize))
}

/// Pushes down the next tables of a level in key order, on a medium that frees space in units of several tables. The newest table below
/// tells where the last push ended. Merges write tables in key order; pushing them down in that order, too, makes units obsolete one after
/// the other, so that few units are partly obsolete.
fn pick_next(version: &Version, env: &PickEnv<'_>, (level, run): (usize, &Run)) -> Option<Choice> {
    let newest = version.levels.get(level + 1)?.first().and_then(|run| run.tables.iter().max_by_key(|t| t.number));
    let passed = newest.map_or(0, |newest| run.tables.partition_point(|t| t.range.largest <= newest.range.largest));
    let mut starts = (passed..run.tables.len()).chain(0..passed);
    starts.find_map(|start| {
        let tables = neighbours(version, env, level, &run.tables[start..]).to_vec();
        push_tables(version, env, Input { level, run: run.number, tables }, Reason::LevelSize)
    })
}

/// The longest prefix of `tables` that is idle, fills at most [`UNITS`] units and can be merged at once; at least the first table, if it is
/// idle.
fn neighbours<'t>(version: &Version, env: &PickEnv<'_>, level: usize, tables: &'t [Arc<TableInfo>]) -> &'t [Arc<TableInfo>] {
    let fits = |tables: &[Arc<TableInfo>]| {
        let own = bytes_of(tables);
        let lower = span(tables).map_or(0, |range| bytes_of(below(version, level, &range)));
        own <= env.unit.saturating_mul(UNITS) && own.saturating_add(lower) <= env.most()
    };
    let ends = (1..=tables.len()).take_while(|end| !env.is_taken(&tables[end - 1]) && (*end == 1 || fits(&tables[..*end])));
    &tables[..ends.last().unwrap_or(0)]
}

/// Pushes an expired table down until it is merged with the older data that it hides.
fn push_expired(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    version.tables().filter(|(_, _, t)| aging::expired(env, t)).find_map(|(level, run, table)| match level {
        0 => push_level0(version, env, &|t| t.number == table.number, Reason::TimeToLive),
        _ => push_tables(version, env, Input { level, run, tables: vec![Arc::clone(table)] }, Reason::TimeToLive),
    })
}

/// With limited space, pushes tables below level 0 down until they have been merged with all data that they may delete or replace. Tables
/// with deletions come first, and among equals the deepest.
fn push_outdating(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    if env.room == u64::MAX {
        return None;
    }
    // With placement by age, young values stay above the last level even if they replace older ones there.
    let goes_down = |t: &TableInfo| t.deletes() || !env.settings.places_by_age();
    let may_go = |(level, _, t): &(usize, u64, &Arc<TableInfo>)| *level > 0 && goes_down(t) && !env.is_taken(t);
    // A table without ripe bytes stays above the last level: a merge would write its young data back to where it was.
    let young = env.young();
    let stays = |(level, _, t): &(usize, u64, &Arc<TableInfo>)| {
        level + 2 == version.levels.len() && young.is_some_and(|young| young::ripe(&young, t, 1) == 0)
    };
    let goes = |found: &(usize, u64, &Arc<TableInfo>)| may_go(found) && !stays(found) && is_hidden_by(version, found.0, found.2);
    let mut found: Vec<_> = version.tables().filter(goes).collect();
    found.sort_by_key(|(level, _, table)| std::cmp::Reverse((table.deletes(), *level)));
    let push = |(level, run, table): (usize, u64, &Arc<TableInfo>)| {
        let reason = if table.deletes() { Reason::Tombstones } else { Reason::LevelSize };
        push_tables(version, env, Input { level, run, tables: vec![Arc::clone(table)] }, reason)
    };
    found.into_iter().filter_map(push).find(|choice| env.fits(choice))
}

/// Returns whether a deeper level has tables that overlap the table.
fn is_hidden_by(version: &Version, level: usize, table: &TableInfo) -> bool {
    version.levels[level + 1..].iter().flatten().any(|run| !run.overlapping(&table.range).is_empty())
}
