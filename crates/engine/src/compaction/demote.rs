//! Decides when data is demoted to the last level of a leveled tree that places it by age.
//!
//! The level above the last keeps what is young, however much that is, so it has no target size. Ripe is what is old on it, and what may
//! hide dead data on the last level ([`young::ripe`]). Three rules, in this order:
//!
//! 1. Once more is old than a level above the last would hold (its size divided by the multiplier), or more is unsettled than a level above
//!    both would, the table goes that rewrites least per ripe byte. So dead data is bounded as in a tree without placement, and so is old
//!    data above.
//! 2. A table with nothing young in it goes if that rewrites no more than it moves, and for nothing if it can move: data in order of time.
//! 3. When all data above the last level is old and was written ten minutes ago or earlier, it all goes down level by level, where a step
//!    is no larger than a compaction may be. Values with times of their own say by their numbers when they were written.
//!
//! What sank, or was settled, is not ripe again, so none of this repeats without new data or time to pass.

use super::push::{push_from, push_level0, push_level0_to_last};
use super::step::below;
use super::young::{Young, ripe, unsettled};
use super::{Choice, PickEnv, bytes_of, demotes_within};
use crate::manifest::{Run, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;

/// A tree that was not written to for so many seconds is at rest.
pub const REST_SECONDS: u64 = 600;

/// The level above the last, if it is one run that gives to it.
fn upper<'a>(version: &'a Version, env: &PickEnv<'_>) -> Option<(Young, usize, &'a Run)> {
    let level = version.levels.len().checked_sub(2)?;
    match version.levels[level].as_slice() {
        [run] => Some((env.young()?, level, run)),
        _ => None,
    }
}

/// Size of the level above one of `bytes`, by the multiplier.
fn above(bytes: u64, settings: &FamilySettings) -> f64 {
    (bytes.max(settings.max_bytes_for_level_base) as f64 / settings.max_bytes_for_level_multiplier.max(1.0)).max(1.0)
}

/// Score of the first rule, and the level on which it works.
pub fn score(version: &Version, env: &PickEnv<'_>) -> Option<(f64, usize)> {
    let (young, level, run) = upper(version, env)?;
    let (mut old, mut open) = (0u64, 0u64);
    for table in run.tables.iter().filter(|t| !env.is_taken(t)) {
        old = old.saturating_add(young.due(table));
        if !below(version, level, &table.range).is_empty() {
            open = open.saturating_add(unsettled(table));
        }
    }
    let last = version.level_bytes(level + 1);
    let both = last.saturating_add(version.level_bytes(level));
    Some(((old as f64 / above(last, env.settings)).max(open as f64 / above(both, env.settings)), level))
}

/// The first rule's table.
pub fn pick(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let (young, level, run) = upper(version, env)?;
    let mut order: Vec<(f64, usize)> = Vec::new();
    for (i, table) in run.tables.iter().enumerate().filter(|(_, t)| !env.is_taken(t)) {
        let overlap = bytes_of(below(version, level, &table.range));
        let ripe = ripe(&young, table, overlap);
        if ripe > 0 {
            order.push(((table.bytes + overlap) as f64 / ripe as f64, i));
        }
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().find_map(|(_, i)| {
        let reason = if young.due(&run.tables[i]) > 0 { Reason::Age } else { Reason::SpaceAmplification };
        push_from(version, env, (level, run), i, reason)
    })
}

/// The second rule.
pub fn sink_cheaply(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let (young, level, run) = upper(version, env)?;
    let is_cheap = |t: &TableInfo| !env.is_taken(t) && young.is_old(t) && bytes_of(below(version, level, &t.range)) <= t.bytes;
    let cheap = run.tables.iter().enumerate().filter(|(_, t)| is_cheap(t));
    cheap.into_iter().find_map(|(i, _)| push_from(version, env, (level, run), i, Reason::Age))
}

/// The third rule.
pub fn sink_at_rest(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let young = env.young()?;
    let above = &version.levels[..version.levels.len() - 1];
    let tables = || above.iter().flatten().flat_map(|run| &run.tables);
    if !tables().all(|t| young.is_old(t) && is_rested(env, t)) {
        return None;
    }
    let is_light = |choice: &Choice| !matches!(choice, Choice::Merge(plan) if plan.bytes() > env.settings.max_compaction_bytes);
    push_level0(version, env, &|_| true, Reason::Age).filter(is_light).or_else(|| {
        above.iter().enumerate().skip(1).find_map(|(level, runs)| {
            let [run] = runs.as_slice() else { return None };
            let idle = (0..run.tables.len()).filter(|i| !env.is_taken(&run.tables[*i]));
            idle.into_iter().find_map(|i| push_from(version, env, (level, run), i, Reason::Age).filter(is_light))
        })
    })
}

/// Picks a table to demote from a full medium to one that has `room`: on the deepest level above the last that can give, the table that
/// rewrites least for the space that it frees, of those the one written longest ago. A level further up may first have to move down without
/// writing. Level 0 comes last.
pub fn demote(version: &Version, env: &PickEnv<'_>, lies_there: &dyn Fn(&TableInfo) -> bool, room: u64) -> Option<Choice> {
    let fits = |choice: &Choice| demotes_within(version, choice, room);
    let last = version.levels.len() - 1;
    let from_level = |level: usize| {
        let [run] = version.levels[level].as_slice() else { return None };
        let idle = run.tables.iter().enumerate().filter(|(_, t)| !env.is_taken(t) && lies_there(t));
        let cost = |t: &TableInfo| bytes_of(below(version, level, &t.range)) as f64 / t.bytes.max(1) as f64;
        let mut order: Vec<(f64, u64, usize)> = idle.map(|(i, t)| (cost(t), t.newest_time, i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let push = |i: usize| push_from(version, env, (level, run), i, Reason::Room);
        let sinks = |choice: &Choice| level + 1 == last || matches!(choice, Choice::Move(_));
        order.into_iter().filter_map(|(.., i)| push(i)).find(|choice| sinks(choice) && fits(choice))
    };
    (1..last).rev().find_map(from_level).or_else(|| push_level0_to_last(version, env, Reason::Room).filter(fits))
}

/// Nothing in the table was written lately. A value with a time of its own may have been, whatever that time is.
pub fn is_rested(env: &PickEnv<'_>, table: &TableInfo) -> bool {
    table.max_seq <= env.rested || (table.timed.is_none() && table.newest_time.saturating_add(REST_SECONDS) <= env.now)
}

/// A table of the level above the last has something to give to that one.
pub fn is_ripe(version: &Version, env: &PickEnv<'_>, table: &TableInfo) -> bool {
    upper(version, env).is_some_and(|(young, level, _)| ripe(&young, table, bytes_of(below(version, level, &table.range))) > 0)
}

/// Bytes to be rewritten until the unsettled bytes are within their limit. Old data does not count: it needs no hurry.
pub fn debt(version: &Version, settings: &FamilySettings) -> u64 {
    let Some(level) = version.levels.len().checked_sub(2) else { return 0 };
    let (mut open, mut cost) = (0u64, 0u64);
    for table in version.levels[level].iter().flat_map(|run| &run.tables) {
        let overlap = bytes_of(below(version, level, &table.range));
        if overlap > 0 && unsettled(table) > 0 {
            open = open.saturating_add(unsettled(table));
            cost = cost.saturating_add(table.bytes).saturating_add(overlap);
        }
    }
    let both = version.level_bytes(level).saturating_add(version.level_bytes(level + 1));
    let excess = (open as f64 - above(both, settings)).max(0.0);
    (cost as f64 * (excess / open.max(1) as f64)) as u64
}
