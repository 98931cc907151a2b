//! Universal (tiered) compaction as RocksDB has it (`compaction_picker_universal.cc`): the sorted runs of the tree, newest first, are
//! merged in contiguous groups. In this order: when the runs above the oldest hold too many dead bytes, all are merged; else neighbours
//! of similar size; else the newest, so that the number of runs stays bounded.
//!
//! Where data is placed by age, the last level is for what is old. A merge of everything leaves two runs, the young one on the level above;
//! it hides nothing on the last level, so it does not count as dead bytes ([`placing::unsettled`]). Between such merges, old data sinks
//! once it is a quarter of what has to be read and written again to get at it: as a run of its own, which takes those of the last level
//! with it that are not larger. So the last level may have several runs, each larger than all newer ones together: old data need not wait
//! on the levels above until it is worth rewriting all of the last (RocksDB merges everything, and counts no dead bytes on the last level).

use super::placing::{Young, unsettled};
use super::{Choice, Input, PickEnv, Picker, Plan, aging, collides, plan};
use crate::manifest::{Run, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::ops::Range;

/// The universal style.
pub struct Universal;

/// Data sinks once one byte in so many of those that are merged for it is old: so each is rewritten at most so often on its way.
const SINKS_FROM: u64 = 4;

struct Sorted<'a> {
    level: usize,
    run: &'a Run,
    bytes: u64,
    /// Bytes that may hide as many in older runs.
    unsettled: u64,
    busy: bool,
}

/// How the runs are divided between what is above the last two levels and these.
struct Shape {
    /// Runs above the last level; without placement by age all runs.
    above: usize,
    /// What counts against the trigger. The last two levels count as one run: they are what the others are merged into.
    runs: usize,
    /// The same without runs that a job works on.
    idle: usize,
}

impl Picker for Universal {
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice {
        if let Some(choice) = aging::drop_expired(version, env) {
            return choice;
        }
        let runs = sorted_runs(version, env);
        let shape = Shape::of(&runs, version.levels.len(), env.settings);
        let is_due = shape.runs >= env.settings.level0_file_num_compaction_trigger.max(2);
        let above = &runs[..shape.above];
        let try_group = |group: Option<(Range<usize>, Reason)>| {
            group.and_then(|(group, reason)| merge(version, env, &runs, group, reason)).map(Choice::Merge)
        };
        let if_due = |group: &dyn Fn() -> Option<(Range<usize>, Reason)>| is_due.then(group).and_then(try_group);
        if_due(&|| space_amplification(&runs, env.settings))
            .or_else(|| sink(version, env, &runs, shape.above))
            .or_else(|| if_due(&|| size_ratio(above, env.settings)))
            .or_else(|| if_due(&|| run_count(above, shape.idle, env.settings)))
            .or_else(|| push_expired(version, env, &runs))
            .or_else(|| aging::rewrite_tombstones(version, env))
            .unwrap_or(Choice::Nothing)
    }

    /// The newest runs beyond the trigger. A merge of everything is not counted: it is no reason to slow writers, the number of runs is.
    fn debt(&self, version: &Version, settings: &FamilySettings) -> u64 {
        let runs: Vec<(usize, u64)> =
            version.levels.iter().enumerate().flat_map(|(level, runs)| runs.iter().map(move |run| (level, run.bytes()))).collect();
        let bottom = bottom(version.levels.len(), settings);
        let upper = runs.iter().filter(|(level, _)| *level < bottom).count();
        let trigger = settings.level0_file_num_compaction_trigger.max(2);
        let excess = (upper + usize::from(upper < runs.len()) + 1).saturating_sub(trigger);
        if excess == 0 { 0 } else { runs.iter().take(excess + 1).map(|(_, bytes)| bytes).sum() }
    }
}

/// The first of the levels that are what the runs above them are merged into.
fn bottom(levels: usize, settings: &FamilySettings) -> usize {
    if settings.places_by_age() { levels - 2 } else { levels }
}

impl Shape {
    fn of(runs: &[Sorted<'_>], levels: usize, settings: &FamilySettings) -> Shape {
        let bottom = bottom(levels, settings);
        let (upper, lower) = runs.split_at(runs.iter().position(|r| r.level >= bottom).unwrap_or(runs.len()));
        let idle = |runs: &[Sorted<'_>]| runs.iter().filter(|r| !r.busy).count();
        Shape {
            above: upper.len() + lower.iter().filter(|r| r.level == bottom).count(),
            runs: upper.len() + usize::from(!lower.is_empty()),
            idle: idle(upper) + idle(lower).min(1),
        }
    }
}

/// All runs of the tree, newest first. A run is busy, too, if a job of the leveled style is about to add to its level.
fn sorted_runs<'a>(version: &'a Version, env: &PickEnv<'_>) -> Vec<Sorted<'a>> {
    let runs = version.levels.iter().enumerate().flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)));
    runs.map(|(level, run)| {
        let written = level > 0 && env.busy_output.iter().any(|(l, _)| *l == level);
        let busy = written || run.tables.iter().any(|t| env.is_taken(t));
        let unsettled = run.tables.iter().map(|t| unsettled(t)).sum();
        Sorted { level, run, bytes: run.bytes(), unsettled, busy }
    })
    .collect()
}

/// The idle runs down to the oldest, if those above it may hide too much for what is left then.
fn space_amplification(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let oldest = runs.last().filter(|r| !r.busy)?;
    let start = runs.iter().rposition(|r| r.busy).map_or(0, |i| i + 1);
    let newer = &runs[start..runs.len() - 1];
    let sum = |of: fn(&Sorted<'_>) -> u64| newer.iter().map(|r| u128::from(of(r))).sum::<u128>();
    let (above, dead) = (sum(|r| r.bytes), sum(|r| r.unsettled));
    let limit = u128::from(settings.max_size_amplification_percent) * (u128::from(oldest.bytes) + above - dead);
    (start + 1 < runs.len() && dead > 0 && dead * 100 >= limit).then_some((start..runs.len(), Reason::SpaceAmplification))
}

/// A run is at most `size_ratio` percent larger than all newer ones of its group together.
fn is_similar(newer: u64, next: u64, settings: &FamilySettings) -> bool {
    u128::from(newer) * (100 + u128::from(settings.size_ratio)) >= u128::from(next) * 100
}

/// The newest group of similar runs.
fn size_ratio(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let similar = |newer: u64, next: u64| is_similar(newer, next, settings);
    let group = newest_group(runs, settings.min_merge_width.max(2), settings.max_merge_width, similar)?;
    Some((group, Reason::SizeRatio))
}

/// As many of the newest idle runs as exceed the trigger, whatever their sizes.
fn run_count(runs: &[Sorted<'_>], idle: usize, settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let width = (idle + 1).checked_sub(settings.level0_file_num_compaction_trigger.max(1)).filter(|width| *width >= 2)?;
    Some((newest_group(runs, 2, width.min(settings.max_merge_width), |_, _| true)?, Reason::RunCount))
}

/// The runs above the last level (`above` of them) from the newest on that makes enough of all of them old, with those of the last level
/// that are not larger. What is young in them stays above.
fn sink(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], above: usize) -> Option<Choice> {
    let young: Young = env.young()?;
    let idle = runs[..above].iter().rposition(|r| r.busy).map_or(0, |i| i + 1);
    let due = |r: &Sorted<'_>| r.run.tables.iter().map(|t| young.due(t)).sum::<u64>();
    let (mut start, mut old, mut bytes, mut best) = (above, 0u64, 0u64, None);
    while start > idle {
        start -= 1;
        let of_run = due(&runs[start]);
        (old, bytes) = (old.saturating_add(of_run), bytes.saturating_add(runs[start].bytes));
        if of_run > 0 && u128::from(old) * u128::from(SINKS_FROM) >= u128::from(bytes) {
            best = Some((start, bytes));
        }
    }
    let (start, mut bytes) = best?;
    let mut end = above;
    while let Some(next) = runs.get(end).filter(|r| !r.busy && is_similar(bytes, r.bytes, env.settings)) {
        bytes = bytes.saturating_add(next.bytes);
        end += 1;
    }
    let last = version.levels.len() - 1;
    let number = match (runs.get(end), &runs[above..end]) {
        (None, _) => 0,
        (Some(_), [.., oldest]) => oldest.run.number,
        (Some(older), []) => older.run.number.checked_add(1)?,
    };
    let plan = merge_to(version, env, (runs, start..end), Reason::Age, (last, number))?;
    let is_free =
        start + 1 == end && plan.hot.is_none() && env.settings.compression_at(runs[start].level) == env.settings.compression_at(last);
    Some(if is_free { Choice::Move(plan) } else { Choice::Merge(plan) })
}

fn newest_group(runs: &[Sorted<'_>], least: usize, most: usize, joins: impl Fn(u64, u64) -> bool) -> Option<Range<usize>> {
    let most = most.max(least);
    (0..runs.len()).find_map(|start| {
        let mut bytes = 0u64;
        let mut end = start;
        while end < runs.len() && end - start < most && !runs[end].busy && (end == start || joins(bytes, runs[end].bytes)) {
            bytes = bytes.saturating_add(runs[end].bytes);
            end += 1;
        }
        (end - start >= least).then_some(start..end)
    })
}

/// An expired table that hides older data: its run and all older ones are merged.
fn push_expired(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>]) -> Option<Choice> {
    let start = runs.iter().position(|r| r.run.tables.iter().any(|t| aging::expired(env, t) && !env.is_taken(t)))?;
    let group = start..runs.len();
    let ready = group.len() >= 2 && runs[group.clone()].iter().all(|r| !r.busy);
    ready.then(|| merge(version, env, runs, group, Reason::TimeToLive))?.map(Choice::Merge)
}

fn merge(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], group: Range<usize>, reason: Reason) -> Option<Plan> {
    let output = output(version, env, runs, &group);
    merge_to(version, env, (runs, group), reason, output)
}

fn merge_to(
    version: &Version,
    env: &PickEnv<'_>,
    (runs, group): (&[Sorted<'_>], Range<usize>),
    reason: Reason,
    output: (usize, u64),
) -> Option<Plan> {
    let inputs: Vec<Input> = runs[group].iter().map(|r| Input::whole(r.level, r.run)).collect();
    (!collides(env, &inputs, output.0)).then(|| plan(version, env, reason, inputs, output))
}

/// As deep as the next older run allows, so that level 0 does not collect what could lie below: the last level for the oldest data, else
/// the level above that run, if that is not level 0 and no newer run is or will be there; else the place of the newest input. What was on
/// the last level stays there.
fn output(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], group: &Range<usize>) -> (usize, u64) {
    let newest = &runs[group.start];
    let oldest = &runs[group.end - 1];
    if group.end < runs.len() && oldest.level + 1 == version.levels.len() {
        return (oldest.level, oldest.run.number);
    }
    let deepest = runs.get(group.end).map_or(version.levels.len() - 1, |older| older.level.saturating_sub(1));
    let newer = group.start.checked_sub(1).map(|i| runs[i].level);
    let is_free = newer.is_none_or(|level| level < deepest) && env.busy_output.iter().all(|(level, _)| *level != deepest);
    if deepest >= newest.level.max(1) && is_free { (deepest, 0) } else { (newest.level, newest.run.number) }
}

/// All runs from the newest that `wanted` chooses down to the oldest, if they are not one already (or two, the young one above the last
/// level) or `rewrite` says so. A run that cannot be taken stays, and those on either side of it are merged among themselves.
pub fn merge_all(version: &Version, env: &PickEnv<'_>, wanted: impl Fn(&Run) -> bool, rewrite: impl Fn(&Run) -> bool) -> Choice {
    let runs = sorted_runs(version, env);
    let bottom = bottom(version.levels.len(), env.settings);
    let mut end = 0;
    for group in runs.chunk_by(|newer, older| newer.busy == older.busy) {
        let start = end + group.iter().position(|r| wanted(r.run)).unwrap_or(group.len());
        end += group.len();
        let is_pair = |of: &[Sorted<'_>]| matches!(of, [above, last] if above.level == bottom && last.level == bottom + 1);
        let is_merged = start + 1 >= end || is_pair(&runs[start..end]);
        let is_due = !is_merged || runs[start..end].iter().any(|r| rewrite(r.run));
        if is_due
            && !group[0].busy
            && let Some(plan) = merge(version, env, &runs, start..end, Reason::Manual)
        {
            return Choice::Merge(plan);
        }
    }
    Choice::Nothing
}
