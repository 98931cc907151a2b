//! Universal (tiered) compaction as RocksDB has it (`compaction_picker_universal.cc`): the sorted runs of the tree, newest first, are
//! merged in contiguous groups. In this order: when the runs above the oldest hold too many dead bytes, all are merged; else neighbours
//! of similar size; else the newest, so that the number of runs stays bounded.
//!
//! With placement by age, the last level holds old data. A merge of everything writes two runs: old data to the last level, young data to
//! the level above. The young run hides nothing on the last level, so its bytes do not count as dead ([`young::unsettled`]). Between such
//! merges, old data is demoted once it is a quarter of the bytes that have to be rewritten for it. It becomes a run of its own on the last
//! level, merged with those newer runs of that level that are not larger. So the last level may have several runs, each larger than all
//! newer ones together, and old data need not wait above until a rewrite of the whole last level pays. (RocksDB merges everything, and
//! counts no dead bytes on the last level.)
//!
//! Such demotions pay where they free a faster medium ([`PickEnv::two_media`]). On a single medium, old data is demoted only by merges of
//! everything. The two runs of such a merge count as the one run that they would be without placement, so that the picker makes the same
//! merges. There are two exceptions: the upper run moves down, without being rewritten, once all of it is old; and all old data is demoted
//! when nothing was written for a while.

use super::demote::is_rested;
use super::young::{self, Young, unsettled};
use super::{Choice, Input, PickEnv, Picker, Plan, aging, collides, demotes_within, limited_space, plan};
use crate::manifest::{Run, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::ops::Range;

/// The universal style.
pub struct Universal;

/// Data is demoted to another medium once at least one byte in this many of those to be merged is old. So a byte is rewritten at most about
/// this many times on its way to the last level.
const SINKS_FROM: u64 = 4;

/// Upper bound of `max_size_amplification_percent` while space is limited.
const SCARCE_AMPLIFICATION_PERCENT: u64 = 10;

#[derive(Clone, Copy)]
struct Sorted<'a> {
    level: usize,
    run: &'a Run,
    bytes: u64,
    /// Unsettled bytes: they may hide as many dead bytes in older runs.
    unsettled: u64,
    busy: bool,
}

impl Sorted<'_> {
    /// Returns whether the run is what a merge of everything wrote to this level: it lies there, and at most half of it is unsettled.
    fn is_left(&self, level: usize) -> bool {
        self.level == level && self.unsettled <= self.bytes / 2
    }
}

/// Division of the runs into those above the last two levels and the rest.
struct Shape {
    /// Number of runs above the last level; without placement by age, of all runs.
    above: usize,
    /// Number of runs, from the newest on, that are merged with runs of similar size.
    alike: usize,
    /// The remaining runs, taken as one run, may also be merged with runs of similar size.
    joins: bool,
    /// Number of runs that count against the trigger. The last two levels count as one run, into which the others are merged.
    runs: usize,
    /// Number of runs that count against the trigger and that no job works on.
    idle: usize,
}

impl Picker for Universal {
    fn pick(&self, version: &Version, env: &PickEnv<'_>) -> Choice {
        let runs = sorted_runs(version, env);
        let shape = Shape::of(&runs, version.levels.len(), env);
        let is_due = shape.runs >= env.settings.level0_file_num_compaction_trigger.max(2);
        let alike = shape.alike(&runs);
        let whole = |(group, reason): (Range<usize>, Reason)| (shape.whole(group, runs.len()), reason);
        let try_group = |group: Option<(Range<usize>, Reason)>| {
            group.and_then(|(group, reason)| merge(version, env, &runs, group, reason)).map(Choice::Merge)
        };
        let if_due = |group: &dyn Fn() -> Option<(Range<usize>, Reason)>| is_due.then(group).and_then(try_group);
        let steps: [&dyn Fn() -> Option<Choice>; 8] = [
            &|| aging::drop_expired(version, env),
            &|| shed(version, env, &runs, is_due),
            &|| sink(version, env, &runs, shape.above),
            &|| if_due(&|| size_ratio(&alike, env.settings).map(whole)),
            &|| if_due(&|| run_count(&alike, shape.idle, env.settings).map(whole)),
            &|| push_expired(version, env, &runs),
            &|| aging::rewrite_tombstones(version, env),
            &|| push_deletions(version, env, &runs),
        ];
        let choice = env.first_that_fits(steps.iter().filter_map(|step| step()));
        choice.map_or(Choice::Nothing, |choice| give_way(version, env, &runs, choice))
    }

    /// Bytes of the newest runs that exceed the trigger. A due merge of everything adds nothing: writers are slowed for the number of runs,
    /// not for dead data.
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

/// The first of the levels into which the runs above are merged: the last two with placement by age, none without.
fn bottom(levels: usize, settings: &FamilySettings) -> usize {
    if settings.places_by_age() { levels - 2 } else { levels }
}

impl Shape {
    fn of(runs: &[Sorted<'_>], levels: usize, env: &PickEnv<'_>) -> Shape {
        let bottom = bottom(levels, env.settings);
        let first = |level: usize| runs.iter().position(|r| r.level >= level).unwrap_or(runs.len());
        let (upper, above) = (first(bottom), first(bottom + 1));
        let joins = bottom < levels && !env.two_media;
        let alike = if joins && runs[..above].last().is_some_and(|r| r.is_left(bottom)) { above - 1 } else { above };
        let end = if joins { alike } else { upper };
        let (newer, older) = runs.split_at(end);
        let idle = |runs: &[Sorted<'_>]| runs.iter().filter(|r| !r.busy).count();
        Shape { above, alike, joins, runs: newer.len() + usize::from(!older.is_empty()), idle: idle(newer) + idle(older).min(1) }
    }

    /// The runs that are merged with runs of similar size, newest first; the remaining ones, if they join, as a single run at the end.
    fn alike<'a>(&self, runs: &[Sorted<'a>]) -> Vec<Sorted<'a>> {
        let (newer, older) = runs.split_at(self.alike);
        let sum = |of: fn(&Sorted<'_>) -> u64| older.iter().map(of).sum::<u64>();
        let older = older.first().filter(|_| self.joins).map(|first| Sorted {
            bytes: sum(|r| r.bytes),
            unsettled: sum(|r| r.unsettled),
            busy: older.iter().any(|r| r.busy),
            ..*first
        });
        newer.iter().copied().chain(older).collect()
    }

    /// Converts a group of the runs that `alike` returns to a range of all runs.
    fn whole(&self, group: Range<usize>, runs: usize) -> Range<usize> {
        group.start..if group.end > self.alike { runs } else { group.end }
    }
}

/// Lists all runs of the tree, newest first. A run also counts as busy if a running job, for example of the leveled style, writes to its
/// level.
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

/// The idle runs down to the oldest, if the bytes that the others may hide reach `percent` of what a merge of them would leave.
fn space_amplification(runs: &[Sorted<'_>], percent: u64) -> Option<(Range<usize>, Reason)> {
    let oldest = runs.last().filter(|r| !r.busy)?;
    let start = runs.iter().rposition(|r| r.busy).map_or(0, |i| i + 1);
    let newer = &runs[start..runs.len() - 1];
    let sum = |of: fn(&Sorted<'_>) -> u64| newer.iter().map(|r| u128::from(of(r))).sum::<u128>();
    let (above, dead) = (sum(|r| r.bytes), sum(|r| r.unsettled));
    let limit = u128::from(percent) * (u128::from(oldest.bytes) + above - dead);
    (start + 1 < runs.len() && dead > 0 && dead * 100 >= limit).then_some((start..runs.len(), Reason::SpaceAmplification))
}

/// Returns whether a run of `next` bytes is at most `size_ratio` percent larger than the `newer` bytes of its group together.
fn is_similar(newer: u64, next: u64, settings: &FamilySettings) -> bool {
    u128::from(newer) * (100 + u128::from(settings.size_ratio)) >= u128::from(next) * 100
}

/// The newest group of similar runs.
fn size_ratio(runs: &[Sorted<'_>], settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let similar = |newer: u64, next: u64| is_similar(newer, next, settings);
    let group = newest_group(runs, settings.min_merge_width.max(2), settings.max_merge_width, similar)?;
    Some((group, Reason::SizeRatio))
}

/// The newest idle runs, as many as bring the number of runs down to the trigger, whatever their sizes.
fn run_count(runs: &[Sorted<'_>], idle: usize, settings: &FamilySettings) -> Option<(Range<usize>, Reason)> {
    let width = (idle + 1).checked_sub(settings.level0_file_num_compaction_trigger.max(1)).filter(|width| *width >= 2)?;
    Some((newest_group(runs, 2, width.min(settings.max_merge_width), |_, _| true)?, Reason::RunCount))
}

/// Demotes old data: merges the oldest of the `above` runs above the last level, from the newest run on with which enough of them is old,
/// with those runs of the last level that are not larger. Young data in them stays above.
fn sink(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], above: usize) -> Option<Choice> {
    let young: Young = env.young()?;
    let last = version.levels.len() - 1;
    let (start, may_merge) =
        if env.two_media { (ripe(&runs[..above], &young)?, true) } else { unhurried(&runs[..above], &young, env, last)? };
    sink_from(version, env, (runs, start..above), (may_merge, u64::MAX), Reason::Age)
}

/// Demotes the oldest runs above the last level, up to and including the oldest that has tables on the full medium.
pub fn demote(version: &Version, env: &PickEnv<'_>, lies_there: &dyn Fn(&TableInfo) -> bool, room: u64) -> Option<Choice> {
    let runs = sorted_runs(version, env);
    let above = runs.iter().position(|r| r.level + 1 == version.levels.len()).unwrap_or(runs.len());
    let start = runs[..above].iter().rposition(|r| r.run.tables.iter().any(|t| lies_there(t)))?;
    sink_from(version, env, (&runs, start..above), (true, room), Reason::Room).filter(|choice| demotes_within(version, choice, room))
}

/// Brings the given runs above the last level down to it, merged with those of its runs that are not larger, up to `most` bytes in all.
fn sink_from(
    version: &Version,
    env: &PickEnv<'_>,
    (runs, Range { start, end: above }): (&[Sorted<'_>], Range<usize>),
    (may_merge, most): (bool, u64),
    reason: Reason,
) -> Option<Choice> {
    let last = version.levels.len() - 1;
    let mut bytes: u64 = runs[start..above].iter().map(|r| r.bytes).sum();
    let mut end = above;
    let joins = |bytes: u64, r: &Sorted<'_>| !r.busy && is_similar(bytes, r.bytes, env.settings) && bytes.saturating_add(r.bytes) <= most;
    while let Some(next) = runs.get(end).filter(|r| may_merge && joins(bytes, r)) {
        bytes = bytes.saturating_add(next.bytes);
        end += 1;
    }
    let number = match (runs.get(end), &runs[above..end]) {
        (None, _) => 0,
        (Some(_), [.., oldest]) => oldest.run.number,
        (Some(older), []) => older.run.number.checked_add(1)?,
    };
    let plan = merge_to(version, env, (runs, start..end), reason, (last, number))?;
    let is_free =
        start + 1 == end && plan.hot.is_none() && env.settings.compression_at(runs[start].level) == env.settings.compression_at(last);
    if is_free { Some(Choice::Move(plan)) } else { may_merge.then_some(Choice::Merge(plan)) }
}

/// Index of the newest of the runs that are demoted to another medium.
fn ripe(runs: &[Sorted<'_>], young: &Young) -> Option<usize> {
    let idle = runs.iter().rposition(|r| r.busy).map_or(0, |i| i + 1);
    let (mut old, mut bytes, mut newest) = (0u64, 0u64, None);
    for (i, run) in runs.iter().enumerate().skip(idle).rev() {
        let due = run.run.tables.iter().map(|t| young.due(t)).sum::<u64>();
        (old, bytes) = (old.saturating_add(due), bytes.saturating_add(run.bytes));
        if due > 0 && u128::from(old) * u128::from(SINKS_FROM) >= u128::from(bytes) {
            newest = Some(i);
        }
    }
    newest
}

/// Index of the newest of the runs that are demoted on a single medium, and whether runs may be merged for that. All runs, if all are old
/// and nothing was written lately; otherwise the run that a merge of everything left above the last level, if all of it is old, by a move.
fn unhurried(runs: &[Sorted<'_>], young: &Young, env: &PickEnv<'_>, last: usize) -> Option<(usize, bool)> {
    let is_old = |r: &Sorted<'_>| !r.busy && r.run.tables.iter().all(|t| young.is_old(t));
    let is_rested = |r: &Sorted<'_>| r.run.tables.iter().all(|t| is_rested(env, t));
    if !runs.is_empty() && runs.iter().all(|r| is_old(r) && is_rested(r)) {
        return Some((0, true));
    }
    runs.last().filter(|r| r.is_left(last - 1) && is_old(r)).map(|_| (runs.len() - 1, false))
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

/// Merges the run of an expired table that hides older data with all older runs.
fn push_expired(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>]) -> Option<Choice> {
    let start = runs.iter().position(|r| r.run.tables.iter().any(|t| aging::expired(env, t) && !env.is_taken(t)))?;
    let group = start..runs.len();
    let ready = group.len() >= 2 && runs[group.clone()].iter().all(|r| !r.busy);
    ready.then(|| merge(version, env, runs, group, Reason::TimeToLive))?.map(Choice::Merge)
}

/// Merges everything when too much of it is outdated. If that does not fit into the free space, merges the oldest runs into each other,
/// part by part, which frees as much. While space is not limited, only once the number of runs has reached the trigger.
fn shed(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], is_due: bool) -> Option<Choice> {
    if !is_due && env.room == u64::MAX {
        return None;
    }
    // On a full fast medium, dropping outdated data is worth more than the merge costs. On a single medium the setting alone decides.
    let most = if env.room < u64::MAX && env.two_media { SCARCE_AMPLIFICATION_PERCENT } else { u64::MAX };
    let (group, reason) = space_amplification(runs, most.min(env.settings.max_size_amplification_percent.into()))?;
    let whole = merge(version, env, runs, group, reason).map(Choice::Merge);
    if whole.as_ref().is_some_and(|whole| env.fits(whole)) || env.room == u64::MAX {
        return whole;
    }
    let part = (2..=runs.len()).rev().find_map(|end| push_part(version, env, &runs[end - 2..end], reason, &|_| true));
    part.filter(|part| env.fits(part)).or(whole)
}

/// Replaces a choice that does not fit into the free space: merges the newest neighbouring runs that together fit, or else part of a run
/// into the next older one, trying the newest pair first.
fn give_way(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>], choice: Choice) -> Choice {
    let reason = match &choice {
        Choice::Merge(plan) if !env.fits(&choice) => plan.reason,
        _ => return choice,
    };
    let join = || {
        let group = newest_group(runs, 2, usize::MAX, |bytes, next| bytes.saturating_add(next) <= env.room)?;
        merge(version, env, runs, group, reason).map(Choice::Merge)
    };
    join().or_else(|| push_part(version, env, runs, reason, &|_| true)).unwrap_or(choice)
}

/// Pushes tables with deletions down while space is limited; otherwise they would free nothing before the number of runs reaches the
/// trigger.
fn push_deletions(version: &Version, env: &PickEnv<'_>, runs: &[Sorted<'_>]) -> Option<Choice> {
    (env.room < u64::MAX).then(|| push_part(version, env, runs, Reason::Tombstones, &TableInfo::deletes))?
}

/// Merges the newest of the wanted tables into the next older run, as many as fit into the free space.
fn push_part(
    version: &Version,
    env: &PickEnv<'_>,
    runs: &[Sorted<'_>],
    reason: Reason,
    wanted: &dyn Fn(&TableInfo) -> bool,
) -> Option<Choice> {
    let last = version.levels.len() - 1;
    let mut pairs = runs.windows(2).filter(|pair| pair.iter().all(|r| !r.busy));
    pairs.find_map(|pair| {
        let (newer, older) = (&pair[0], &pair[1]);
        // A table without ripe bytes stays: a merge would write its young data back to the level above.
        let young = env.young().filter(|_| newer.level + 1 == last && older.level == last);
        let mut input = Input::whole(newer.level, newer.run);
        input.tables.retain(|t| wanted(t) && young.is_none_or(|young| young::ripe(&young, t, 1) > 0));
        limited_space::part(version, env, &input, (older.level, older.run.number), reason)
    })
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

/// Level and run of a merge's output, as deep as the next older run allows, so that level 0 does not collect data that could lie below: the
/// last level for the oldest data, else the level above that run, if that is not level 0 and no newer run is or will be there; else the run
/// of the newest input. Data of the last level stays there.
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

/// Merges all runs from the newest that `wanted` chooses down to the oldest, if they are not one already (or two, the young one above the
/// last level) or `rewrite` says so. A run that cannot be taken stays, and those on either side of it are merged among themselves.
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
            return give_way(version, env, &runs, Choice::Merge(plan));
        }
    }
    Choice::Nothing
}
