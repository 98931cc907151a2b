//! Decides when data is demoted to the last level of a leveled tree with placement by age.
//!
//! The level above the last (here: the upper level) keeps all young data, however much, so it has no target size. Its *ripe* bytes are old
//! ones, and unsettled ones, which may hide dead data on the last level ([`young::ripe`]). Three rules, in this order:
//!
//! 1. Demote the table that rewrites least per ripe byte, once the upper level has more old bytes than the size of the last level divided
//!    by `max_bytes_for_level_multiplier`, or more unsettled bytes than the size of both levels divided by it. So old data above and dead
//!    data are bounded as in a tree without placement.
//! 2. Demote a table without young data if the overlap on the last level is no larger than the table. Where keys grow with time there is
//!    no overlap, and the table moves without being rewritten.
//! 3. Once all data above the last level is old and was written at least ten minutes ago, demote all of it, level by level, in steps no
//!    larger than `max_compaction_bytes`. Here the age of a value with its own time is that of its sequence number.
//!
//! Demoted or settled data is not ripe, so no rule applies to it again before new data comes or time passes.

use super::push::{push_from, push_level0, push_level0_to_last};
use super::step::below;
use super::young::{Young, ripe, unsettled};
use super::{Choice, PickEnv, bytes_of, demotes_within};
use crate::manifest::{Run, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;

/// A tree is at rest if it was not written to for this long, seconds.
pub const REST_SECONDS: u64 = 600;

/// The upper level and its one run, with the bounds of young data; `None` if it has several runs, or age does not place data.
fn upper<'a>(version: &'a Version, env: &PickEnv<'_>) -> Option<(Young, usize, &'a Run)> {
    let level = version.levels.len().checked_sub(2)?;
    match version.levels[level].as_slice() {
        [run] => Some((env.young()?, level, run)),
        _ => None,
    }
}

/// Size of the level above a level of `bytes`, by the multiplier.
fn above(bytes: u64, settings: &FamilySettings) -> f64 {
    (bytes.max(settings.max_bytes_for_level_base) as f64 / settings.max_bytes_for_level_multiplier.max(1.0)).max(1.0)
}

/// The score of rule 1 (due from 1.0 on), and the upper level.
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

/// The choice of rule 1: the table of the upper level with least bytes to rewrite per ripe byte.
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

/// The choice of rule 2.
pub fn sink_cheaply(version: &Version, env: &PickEnv<'_>) -> Option<Choice> {
    let (young, level, run) = upper(version, env)?;
    let is_cheap = |t: &TableInfo| !env.is_taken(t) && young.is_old(t) && bytes_of(below(version, level, &t.range)) <= t.bytes;
    let cheap = run.tables.iter().enumerate().filter(|(_, t)| is_cheap(t));
    cheap.into_iter().find_map(|(i, _)| push_from(version, env, (level, run), i, Reason::Age))
}

/// The choice of rule 3.
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

/// Picks a table to demote from a full medium to the last level, whose medium has `room` free bytes. Goes through the levels from the
/// deepest above the last up to level 1. On the upper level, picks the table with least overlap for its size, the oldest of equals; from
/// higher levels tables can only move one level down, without being rewritten. Level 0, as a whole, comes last.
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

/// Returns whether nothing in the table was written within [`REST_SECONDS`]. The sequence number decides for values with a time of their
/// own.
pub fn is_rested(env: &PickEnv<'_>, table: &TableInfo) -> bool {
    table.max_seq <= env.rested || (table.timed.is_none() && table.newest_time.saturating_add(REST_SECONDS) <= env.now)
}

/// Returns whether a table of the upper level has ripe bytes.
pub fn is_ripe(version: &Version, env: &PickEnv<'_>, table: &TableInfo) -> bool {
    upper(version, env).is_some_and(|(young, level, _)| ripe(&young, table, bytes_of(below(version, level, &table.range))) > 0)
}

/// Bytes to be rewritten until unsettled bytes are within their limit. Old data adds no debt: its demotion is not urgent.
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
