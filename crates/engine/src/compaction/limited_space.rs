//! Smaller merges for a medium that has no space for the usual ones.
//!
//! A merge writes all of its output before any input is deleted, so at worst it needs as much space as it reads. Where only
//! [`PickEnv::room`] bytes may be written, the work is done in steps that fit, the first possible one of these:
//!
//! 1. Merge the newest neighbouring runs that fit together into one run. Deletions in them drop the data that they hide there.
//! 2. Merge a few neighbouring tables of the newest run into the next older run, so that deletions soon meet what they delete.
//! 3. If even one table overlaps too much, for example because it has a range tombstone over many keys, cut the table in its place, at
//!    edges of the tables below, so that each part overlaps less.
//!
//! Levels below level 0 have one run, so only steps 2 and 3 apply. Each step leaves fewer runs, fewer tables above or narrower ones, so the
//! steps come to an end.

use super::step::finish;
use super::{Choice, Input, PickEnv, Plan, bytes_of, collides, plan, run_number, span};
use crate::manifest::{KeyRange, TableInfo, Version};
use sinter_storage::store::Reason;
use std::sync::Arc;

/// The next step for a level whose runs are to be merged into one run, or into level `base`.
pub fn level(version: &Version, env: &PickEnv<'_>, level: usize, base: Option<usize>, reason: Reason) -> Option<Choice> {
    let runs = &version.levels[level];
    let older = |i: usize| {
        let beside = runs.get(i + 1).map(|run| (level, run.number));
        beside.or_else(|| base.map(|base| (base, run_number(version, base))))
    };
    let goes = |i: usize| part(version, env, &Input::whole(level, &runs[i]), older(i)?, reason);
    join(version, env, level, reason).or_else(|| (0..runs.len()).find_map(goes))
}

/// Step 1: merges the newest neighbouring runs of a level that fit together.
fn join(version: &Version, env: &PickEnv<'_>, level: usize, reason: Reason) -> Option<Choice> {
    let runs = &version.levels[level];
    let fitting = |start: usize| {
        let mut bytes = 0u64;
        let joins = runs[start..].iter().take_while(|run| {
            bytes = bytes.saturating_add(run.bytes());
            bytes <= env.room && run.tables.iter().all(|t| !env.is_taken(t))
        });
        start..start + joins.count()
    };
    let group = (0..runs.len()).map(fitting).find(|group| group.len() > 1)?;
    let output = (level, runs[group.start].number);
    let inputs: Vec<Input> = runs[group].iter().map(|run| Input::whole(level, run)).collect();
    (!collides(env, &inputs, level)).then(|| Choice::Merge(plan(version, env, reason, inputs, output)))
}

/// Steps 2 and 3: merges the first neighbouring tables of `input`, all of one run, that fit, into the next older run `to` (level and run
/// number). If no single table fits, cuts the first that can be cut.
pub fn part(version: &Version, env: &PickEnv<'_>, input: &Input, to: (usize, u64), reason: Reason) -> Option<Choice> {
    let older = version.levels.get(to.0)?.iter().find(|run| run.number == to.1);
    let below = |range: &KeyRange| older.map_or(&[][..], |run| run.overlapping(range));
    let below_all = |tables: &[Arc<TableInfo>]| span(tables).map_or(&[][..], |range| below(&range));
    let tables = &input.tables;
    let goes = |start: usize| {
        let fits = |end: &usize| bytes_of(&tables[start..*end]).saturating_add(bytes_of(below_all(&tables[start..*end]))) <= env.room;
        let end = (start + 1..=tables.len()).take_while(|end| !env.is_taken(&tables[end - 1]) && fits(end)).last()?;
        let upper = Input { tables: tables[start..end].to_vec(), ..*input };
        let lower = Input { level: to.0, run: to.1, tables: below_all(&upper.tables).to_vec() };
        finish(version, env, vec![upper, lower], reason, to)
    };
    let is_cut = |table: &Arc<TableInfo>| cut(version, env, &Input { tables: vec![table.clone()], ..*input }, below(&table.range), reason);
    (0..tables.len()).find_map(goes).or_else(|| tables.iter().find_map(is_cut))
}

/// Step 3: rewrites a table in its place, cut so that each part overlaps at most about half of the free space in the tables below.
fn cut(version: &Version, env: &PickEnv<'_>, table: &Input, below: &[Arc<TableInfo>], reason: Reason) -> Option<Choice> {
    let smallest = &span(&table.tables)?.smallest;
    let (mut cuts, mut overlap) = (Vec::new(), 0u64);
    for lower in below {
        overlap = overlap.saturating_add(lower.bytes);
        if overlap > env.room / 2 && lower.range.smallest > *smallest {
            cuts.push(lower.range.smallest.clone());
            overlap = lower.bytes;
        }
    }
    let is_free = !cuts.is_empty() && bytes_of(&table.tables) <= env.room && !collides(env, std::slice::from_ref(table), table.level);
    is_free.then(|| Choice::Merge(Plan { cuts, ..plan(version, env, reason, vec![table.clone()], (table.level, table.run)) }))
}
