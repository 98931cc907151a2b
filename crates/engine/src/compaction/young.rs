//! Placement by age: which data is too young for the last level, and where a merge into the last level may write it one level higher.
//!
//! One sequence number divides the output of a merge: newer entries go to the level above the last, older ones to the last, versions of one
//! key and range tombstones alike. So the ages on both levels are right whatever the merge had to keep for snapshots. An entry may be
//! promoted (or stay) only where the upper level is empty once the inputs are gone, and where the entry passes no table that is not an
//! input; everywhere else it goes to the last level, young or not.
//!
//! How much outdated data on the last level is hidden by newer versions above it cannot be seen from outside. So each table records how
//! many of its bytes are *settled*: no older version of their keys lay below when they were written. An unsettled byte may hide a dead
//! byte below. A merge that includes all older data of its key range settles its output; no merge writes more unsettled bytes than
//! it reads.

use super::{Input, PickEnv, Plan, hull, places, run_number, target_file_size};
use crate::key::{MAX_SEQ, Seq};
use crate::manifest::{KeyRange, OwnTimes, TableInfo, Version};
use crate::tiering::age::Cut;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

/// Bounds of the data that is too young for the last level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Young {
    /// Only entries with a larger sequence number may be young.
    pub after: Seq,
    /// Data written after this time is young, unix seconds.
    pub since: u64,
}

/// User keys from `from` up to and excluding `to`; `None` is unbounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// First key of the span.
    pub from: Option<Vec<u8>>,
    /// First key behind the span.
    pub to: Option<Vec<u8>>,
}

/// The part of a merge into the last level that goes to the level above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hot {
    /// The run of the upper output.
    pub run: u64,
    /// Entries as old as this, or older, go to the last level.
    pub old: Cut,
    /// Key ranges in which the upper output may write, in key order.
    pub spans: Vec<Span>,
    /// Tables of the last level, in key order: an output table ends where it would overlap too many bytes of them.
    pub grandparents: Vec<Arc<TableInfo>>,
    /// Size at which an output table ends, bytes.
    pub target_file_size: u64,
}

impl Young {
    /// Bounds under which nothing is young.
    pub const NOTHING: Young = Young { after: MAX_SEQ, since: u64::MAX };

    /// Returns whether no entry of the table is young.
    pub fn is_old(&self, table: &TableInfo) -> bool {
        let by_number = table.by_number().is_none_or(|(_, newest)| newest <= self.after);
        let by_time = table.by_time().is_none_or(|(_, newest)| newest <= self.since);
        (by_number && by_time) || (table.newest_time != 0 && table.newest_time <= self.since)
    }

    /// Estimated bytes of the table that are old, taking entries to be spread evenly over its sequence numbers, and values with a time of
    /// their own over those times. At least 1 if any entry may be old.
    pub fn due(&self, table: &TableInfo) -> u64 {
        if self.is_old(table) {
            return table.bytes;
        }
        let timed = table.timed.map_or(0, |timed| timed.entries.min(table.entries));
        let timed = share(table.bytes, timed, table.entries);
        old_part(table.bytes - timed, table.by_number(), self.after).saturating_add(old_part(timed, table.by_time(), self.since))
    }

    /// The sequence number up to which nothing in the inputs is young. Usually this is `after`. Where samples of the time are missing, a
    /// table whose newest write is old raises the cut to its largest number, unless a table with young data has numbers up to that one.
    fn cut(&self, inputs: &[Input]) -> Seq {
        let tables = || inputs.iter().flat_map(|i| &i.tables);
        let known = tables().filter(|t| self.is_old(t)).map(|t| t.max_seq).max().unwrap_or(0);
        let is_sure = tables().all(|t| self.is_old(t) || t.min_seq > known);
        if is_sure { known.max(self.after) } else { self.after }
    }
}

impl Span {
    /// Returns whether `key` lies behind the span.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        self.to.as_deref().is_some_and(|to| to <= key)
    }

    /// Returns whether `key` lies in the span.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && !self.ends_before(key)
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        !self.ends_before(&range.smallest) && self.from.as_deref().is_none_or(|from| !range.ends_before(from))
    }
}

/// The share of `bytes` that `part` of `all` entries have.
fn share(bytes: u64, part: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(part) / u128::from(all.max(1))) as u64
}

/// The part of `bytes` with ages up to `old`, if they are spread evenly from the first to the last age; at least 1 if the first age is.
fn old_part(bytes: u64, ages: Option<(u64, u64)>, old: u64) -> u64 {
    match ages {
        Some((first, last)) if first <= old => {
            let count = |last: u64| (last - first).saturating_add(1);
            share(bytes, count(old.min(last)), count(last)).max(1)
        }
        _ => 0,
    }
}

/// Unsettled bytes of a table: they may hide as many dead bytes in older runs.
pub fn unsettled(table: &TableInfo) -> u64 {
    table.bytes.saturating_sub(table.settled)
}

/// Bounds of the young data, if a merge of `inputs` goes into the last level and may contain any.
fn divides(env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> Option<Young> {
    let is_last = output_level >= 2 && output_level + 1 == env.settings.num_levels;
    env.by_age().filter(|young| is_last && inputs.iter().flat_map(|i| &i.tables).any(|t| !young.is_old(t)))
}

/// Returns whether a merge of `inputs` to this level may also write to the level above.
pub fn may_rise(env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> bool {
    !env.crowded && divides(env, inputs, output_level).is_some()
}

/// The upper output of a merge; `None` if the inputs have no young data. While the medium above has no free space, the upper output has no
/// spans: young data goes to the last level, and is still counted as young.
pub fn hot(version: &Version, env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> Option<Hot> {
    let young = divides(env, inputs, output_level)?;
    let range = hull(inputs)?;
    let level = output_level - 1;
    let taken: HashSet<u64> = inputs.iter().flat_map(|i| &i.tables).map(|t| t.number).collect();
    // A promoted entry must not meet a table on the upper level, nor pass a run of the last level that is newer than an input.
    let oldest = inputs.iter().map(|i| (i.level, Reverse(i.run))).max()?;
    let passed = places(version).filter(|(place, _)| place.0 == level || (place.0 == output_level && *place < oldest));
    let mut in_the_way: Vec<&KeyRange> = Vec::new();
    for (_, run) in passed {
        in_the_way.extend(run.overlapping(&range).iter().filter(|t| !taken.contains(&t.number)).map(|t| &t.range));
    }
    in_the_way.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let spans = gaps(&in_the_way).into_iter().filter(|span| !env.crowded && span.overlaps(&range)).collect();
    let below = version.levels[output_level].last();
    Some(Hot {
        run: run_number(version, level),
        old: Cut { seq: young.cut(inputs), time: young.since },
        spans,
        grandparents: below.map_or_else(Vec::new, |run| run.overlapping(&range).to_vec()),
        target_file_size: target_file_size(version, env.settings, level),
    })
}

/// Spans between ranges, which are sorted by their smallest keys.
fn gaps(ranges: &[&KeyRange]) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut from: Option<Vec<u8>> = None;
    for range in ranges {
        if from.as_ref().map_or(!range.smallest.is_empty(), |from| *from < range.smallest) {
            gaps.push(Span { from: from.clone(), to: Some(range.smallest.clone()) });
        }
        let mut end = range.largest.clone();
        if !range.end_exclusive {
            // The smallest key behind `largest`.
            end.push(0);
        }
        from = from.max(Some(end));
    }
    gaps.push(Span { from, to: None });
    gaps
}

/// Checks that the upper output of a plan meets no other table and passes none. An error names the first table in the way.
pub fn check_hot(version: &Version, plan: &Plan, hot: &Hot) -> Result<(), String> {
    if plan.output_level + 1 != version.levels.len() || plan.output_level < 2 {
        return Err(format!("two outputs, though level {} is not the last of at least three", plan.output_level));
    }
    if hot.spans.windows(2).any(|pair| pair[0].to.is_none() || pair[0].to > pair[1].from) {
        return Err("the spans of the upper output are not in order".into());
    }
    let taken: HashSet<u64> = plan.tables().map(|t| t.number).collect();
    for (place, run) in places(version).filter(|(place, _)| place.0 + 1 >= plan.output_level) {
        let is_met = place.0 < plan.output_level || plan.inputs.iter().any(|i| (i.level, Reverse(i.run)) > place);
        let mut others = run.overlapping(&plan.range()).iter().filter(|t| is_met && !taken.contains(&t.number));
        if let Some(table) = others.find(|t| hot.spans.iter().any(|span| span.overlaps(&t.range))) {
            return Err(format!("table {} on level {} is in the way of what is young", table.number, place.0));
        }
    }
    Ok(())
}

/// Bytes for which a table of the level above the last should be merged into the last: old ones, and, if the table overlaps `overlap` > 0
/// bytes there, unsettled ones, which may hide dead bytes.
pub fn ripe(young: &Young, table: &TableInfo, overlap: u64) -> u64 {
    let hides = if overlap > 0 { unsettled(table) } else { 0 };
    young.due(table).saturating_add(hides).min(table.bytes)
}

/// Returns whether a table joins a merge into the next level, given that it adds no input from there. On the level above the last only if
/// at least half of it is ripe.
pub fn is_worth_it(env: &PickEnv<'_>, level: usize, table: &TableInfo) -> bool {
    let Some(young) = env.young().filter(|_| level + 2 == env.settings.num_levels) else { return true };
    ripe(&young, table, 1) >= table.bytes / 2
}

/// Makes a table that a merge wrote above the last level count as young under the merge's cut, so that it is not merged again at once with
/// the same result. False if the table's ages had to be raised for that.
pub fn keep(table: &mut TableInfo, old: Cut) -> bool {
    let (by_number, by_time) = (table.by_number(), table.by_time());
    let is_after = |ages: Option<(u64, u64)>, old: u64| ages.is_none_or(|(oldest, _)| oldest > old);
    if is_after(by_number, old.seq) && is_after(by_time, old.time) {
        return true;
    }
    let after = |ages: Option<(u64, u64)>, old: u64| {
        let least = old.saturating_add(1);
        ages.map_or((u64::MAX, 0), |(oldest, newest)| (oldest.max(least), newest.max(least)))
    };
    let entries = table.timed.map_or(0, |timed| timed.entries);
    table.timed = Some(OwnTimes { entries, times: after(by_time, old.time), others: after(by_number, old.seq) });
    false
}

/// Sets the settled bytes of a merge's outputs from the unsettled bytes of its inputs. `bottommost`: nothing older than the inputs exists.
pub fn set_settled_bytes<'a>(
    inputs: impl Iterator<Item = &'a Arc<TableInfo>>,
    bottommost: bool,
    hot: &mut [TableInfo],
    cold: &mut [TableInfo],
) {
    let written: u64 = hot.iter().chain(&*cold).map(|t| t.bytes).sum();
    let open = if bottommost { 0 } else { inputs.map(|t| unsettled(t)).sum::<u64>().min(written) };
    // A bottommost merge leaves nothing older to hide, and nothing reads this figure of tables on the last level.
    let cold = if bottommost { &mut [] } else { cold };
    for table in hot.iter_mut().chain(cold) {
        let share = (u128::from(table.bytes) * u128::from(open)).div_ceil(u128::from(written.max(1)));
        table.settled = table.bytes.saturating_sub(share as u64);
    }
}
