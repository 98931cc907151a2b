//! Universal (tiered) compaction as RocksDB has it (`compaction_picker_universal.cc`): the sorted runs of the tree, newest first, are
//! merged in contiguous groups. In this order: when the runs above the oldest hold too many dead bytes, all are merged; else neighbours
//! of similar size; else the newest, so that the number of runs stays bounded.

use super::{Choice, Input, PickEnv, Picker, Plan, aging, collides, plan};
use crate::manifest::{Run, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::ops::Range;

/// The universal style.
pub struct Universal;

struct Sorted<'a> {
    level: usize,
    run: &'a Run,
    bytes: u64,
    busy: bool,
}

impl Picker for Universal {
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice {
        if let Some(choice) = aging::drop_expired(version, env) {
            return choice;
        }
        let runs = sorted_runs(version, env);
        let by_count = || -> Option<Choice> {
            if runs.len() < env.settings.level0_file_num_compaction_trigger.max(2) {
                return None;
            }
            let try_group = |group: Option<(Range<usize>, Reason)>| {
                group.and_then(|(group, reason)| merge(version, env, &runs, group, reason)).map(Choice::Merge)
            };
            try_group(space_amplification(&runs, env.settings))
                .or_else(|| try_group(size_ratio(&runs, env.settings)))
                .or_else(|| try_group(run_count(&runs, env.settings)))
        };
        by_count()
            .or_else(|| push_expired(version, env, &runs))
            .or_else(|| aging::rewrite_tombstones(version, env))
            .unwrap_or(Choice::Nothing)
    }

    /// The newest runs beyond the trigger. A merge of everything is not counted: it is no reason to slow writers, the number of runs is.
    fn debt(&self, version: &Version, settings: &FamilySettings) -> u64 {
        let runs: Vec<u64> = version.levels.iter().flatten().map(Run::bytes).collect();
        let trigger = settings.level0_file_num_compaction_trigger.max(2);
        let excess = (runs.len() + 1).saturating_sub(trigger);
        if excess == 0 { 0 } else { runs.iter().take(excess + 1).sum() }
    }
}

/// All runs of the tree, newest first. A run is busy, too, if a job of the leveled style is about to add to its level.
fn sorted_runs<'a>(version: &'a Version, env: &PickEnv<'_>) -> Vec<Sorted<'a>> {
    let runs = version.levels.iter().enumerate().flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)));
    runs.map(|(level, run)| {
        let written = level > 0 && env.busy_output.iter().any(|(l, _)| *l == level);
        let busy = written || run.tables.iter().any(|t| env.is_taken(t));
        Sorted { level, run, bytes: run.bytes(), busy }
    })
    .collect()
}

/// The idle runs down to the oldest, if those above it are too large for it.
fn space_amplification(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let oldest = runs.last().filter(|r| !r.busy)?;
    let start = runs.iter().rposition(|r| r.busy).map_or(0, |i| i + 1);
    let above: u128 = runs[start..runs.len() - 1].iter().map(|r| u128::from(r.bytes)).sum();
    let limit = u128::from(settings.max_size_amplification_percent) * u128::from(oldest.bytes);
    (start + 1 < runs.len() && above * 100 >= limit).then_some((start..runs.len(), Reason::SpaceAmplification))
}

/// The newest group in which each run is at most `size_ratio` percent larger than all newer ones of the group together.
fn size_ratio(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let similar = |newer: u64, next: u64| u128::from(newer) * (100 + u128::from(settings.size_ratio)) >= u128::from(next) * 100;
    let group = newest_group(runs, settings.min_merge_width.max(2), settings.max_merge_width, similar)?;
    Some((group, Reason::SizeRatio))
}

/// As many of the newest idle runs as exceed the trigger, whatever their sizes.
fn run_count(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let idle = runs.iter().filter(|r| !r.busy).count();
    let width = (idle + 1).checked_sub(settings.level0_file_num_compaction_trigger.max(1)).filter(|width| *width >= 2)?;
    Some((newest_group(runs, 2, width.min(settings.max_merge_width), |_, _| true)?, Reason::RunCount))
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
    let inputs: Vec<Input> = runs[group].iter().map(|r| Input::whole(r.level, r.run)).collect();
    (!collides(env, &inputs, output.0)).then(|| plan(version, env.settings, reason, inputs, output))
}

/// As deep as the next older run allows, so that level 0 does not collect what could lie below: the last level for the oldest data, else
/// the level above that run, if that is not level 0 and no newer run is or will be there; else the place of the newest input.
fn output(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], group: &Range<usize>) -> (usize, u64) {
    let newest = &runs[group.start];
    let deepest = runs.get(group.end).map_or(version.levels.len() - 1, |older| older.level.saturating_sub(1));
    let newer = group.start.checked_sub(1).map(|i| runs[i].level);
    let is_free = newer.is_none_or(|level| level < deepest) && env.busy_output.iter().all(|(level, _)| *level != deepest);
    if deepest >= newest.level.max(1) && is_free { (deepest, 0) } else { (newest.level, newest.run.number) }
}

/// All runs from the newest that `wanted` chooses down to the oldest, if they are not one already or `rewrite` says so. A run that cannot
/// be taken stays, and those on either side of it are merged among themselves.
pub fn merge_all(version: &Version, env: &PickEnv<'_>, wanted: impl Fn(&Run) -> bool, rewrite: impl Fn(&Run) -> bool) -> Choice {
    let runs = sorted_runs(version, env);
    let mut end = 0;
    for group in runs.chunk_by(|newer, older| newer.busy == older.busy) {
        let start = end + group.iter().position(|r| wanted(r.run)).unwrap_or(group.len());
        end += group.len();
        let is_due = start + 1 < end || (start < end && rewrite(runs[start].run));
        if is_due
            && !group[0].busy
            && let Some(plan) = merge(version, env, &runs, start..end, Reason::Manual)
        {
            return Choice::Merge(plan);
        }
    }
    Choice::Nothing
}
