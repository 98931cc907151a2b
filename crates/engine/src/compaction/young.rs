//! Placement by age: which data is too young for the last level, and where a merge into the last level may write it one level higher.
//!
//! One sequence number cuts each merge: what is newer goes to the level above the last, the rest to the last, versions of one key and
//! range tombstones alike. So on either level everything is as old as its place says, whatever the merge had to keep for snapshots. An
//! entry may rise (or stay) only where that level is empty once the inputs are gone, and where it passes no table that is not an input;
//! everywhere else it goes to the last level, young or not.
//!
//! What a level above hides on the last one cannot be seen from outside. So each table says how much of it is *settled*: its keys had
//! nothing older below when they were written. The rest may be dead weight below, byte for byte. A merge that includes all that is older
//! settles what it writes; any other merge cannot make more unsettled bytes than went in.

use super::{Input, PickEnv, Plan, hull, places, run_number, target_file_size};
use crate::key::{MAX_SEQ, Seq};
use crate::manifest::{KeyRange, TableInfo, Timed, Version};
use crate::tiering::age::Cut;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

/// Bounds of the data that is too young for the last level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Young {
    /// Entries with a larger sequence number may be young; all others are not.
    pub after: Seq,
    /// Data written after this time is young, unix seconds.
    pub since: u64,
}

/// User keys from `from` up to but without `to`; `None` is unbounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// First key.
    pub from: Option<Vec<u8>>,
    /// First key after it.
    pub to: Option<Vec<u8>>,
}

/// The part of a merge into the last level that goes to the level above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hot {
    /// The run on that level.
    pub run: u64,
    /// Entries as old as this go to the last level.
    pub old: Cut,
    /// Key ranges in which the upper output may write, in key order.
    pub spans: Vec<Span>,
    /// Tables of the last level, in key order: the output is cut where it would overlap too many bytes of them.
    pub grandparents: Vec<Arc<TableInfo>>,
    /// Size at which an output table ends, bytes.
    pub target_file_size: u64,
}

impl Young {
    /// Nothing is young.
    pub const NOTHING: Young = Young { after: MAX_SEQ, since: u64::MAX };

    /// Nothing in the table is young.
    pub fn is_old(&self, table: &TableInfo) -> bool {
        let by_number = table.by_number().is_none_or(|(_, newest)| newest <= self.after);
        let by_time = table.by_time().is_none_or(|(_, newest)| newest <= self.since);
        (by_number && by_time) || (table.newest_time != 0 && table.newest_time <= self.since)
    }

    /// Bytes of the table that are not young, as if entries were spread evenly over its sequence numbers, and those that go by times of
    /// their own over these; not 0 if one entry is not.
    pub fn due(&self, table: &TableInfo) -> u64 {
        if self.is_old(table) {
            return table.bytes;
        }
        let timed = table.timed.map_or(0, |timed| timed.entries.min(table.entries));
        let timed = share(table.bytes, timed, table.entries);
        old_part(table.bytes - timed, table.by_number(), self.after).saturating_add(old_part(timed, table.by_time(), self.since))
    }

    /// The sequence number up to which nothing in the inputs is young. Usually that is `after`. Where times were not kept, tables whose
    /// newest write is old raise it, unless another table has numbers of that age as well.
    fn cut(&self, inputs: &[Input]) -> Seq {
        let tables = || inputs.iter().flat_map(|i| &i.tables);
        let known = tables().filter(|t| self.is_old(t)).map(|t| t.max_seq).max().unwrap_or(0);
        let is_sure = tables().all(|t| self.is_old(t) || t.min_seq > known);
        if is_sure { known.max(self.after) } else { self.after }
    }
}

impl Span {
    /// `key` lies behind it.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        self.to.as_deref().is_some_and(|to| to <= key)
    }

    /// `key` lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && !self.ends_before(key)
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        !self.ends_before(&range.smallest) && self.from.as_deref().is_none_or(|from| !range.ends_before(from))
    }
}

/// `part` of `all` in bytes.
fn share(bytes: u64, part: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(part) / u128::from(all.max(1))) as u64
}

/// Bytes out of `bytes` that are as old as `old`, spread evenly from the first to the last age; not 0 if anything is.
fn old_part(bytes: u64, ages: Option<(u64, u64)>, old: u64) -> u64 {
    match ages {
        Some((first, last)) if first <= old => {
            let count = |last: u64| (last - first).saturating_add(1);
            share(bytes, count(old.min(last)), count(last)).max(1)
        }
        _ => 0,
    }
}

/// Bytes of a table that may hide as many on older places.
pub fn unsettled(table: &TableInfo) -> u64 {
    table.bytes.saturating_sub(table.settled)
}

/// Bounds of the young data, if a merge of `inputs` to this level has any.
fn divides(env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> Option<Young> {
    let is_last = output_level >= 2 && output_level + 1 == env.settings.num_levels;
    env.by_age().filter(|young| is_last && inputs.iter().flat_map(|i| &i.tables).any(|t| !young.is_old(t)))
}

/// A merge of `inputs` to this level may write to the level above.
pub fn may_rise(env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> bool {
    !env.crowded && divides(env, inputs, output_level).is_some()
}

/// The upper output of a merge, for its young part; `None` if it has none. Without free space above it has no spans: young data goes down,
/// but counts as young.
pub fn hot(version: &Version, env: &PickEnv<'_>, inputs: &[Input], output_level: usize) -> Option<Hot> {
    let young = divides(env, inputs, output_level)?;
    let range = hull(inputs)?;
    let level = output_level - 1;
    let taken: HashSet<u64> = inputs.iter().flat_map(|i| &i.tables).map(|t| t.number).collect();
    // Obstacles to a rising entry: the level it goes to, and the runs of the last level that are newer than an input.
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
            // The next key there is.
            end.push(0);
        }
        from = from.max(Some(end));
    }
    gaps.push(Span { from, to: None });
    gaps
}

/// The young part of a plan lands where nothing else is and passes nothing on the way up. An error names the first table in the way.
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

/// Bytes of a table above the last level for which it should be merged into that one, where its keys have `overlap` bytes: what is old, and
/// what may be dead weight there.
pub fn ripe(young: &Young, table: &TableInfo, overlap: u64) -> u64 {
    let hides = if overlap > 0 { unsettled(table) } else { 0 };
    young.due(table).saturating_add(hides).min(table.bytes)
}

/// A table of a level is worth a place in a merge one level down that would be as large below without it.
pub fn is_worth_it(env: &PickEnv<'_>, level: usize, table: &TableInfo) -> bool {
    let Some(young) = env.young().filter(|_| level + 2 == env.settings.num_levels) else { return true };
    ripe(&young, table, 1) >= table.bytes / 2
}

/// Makes a table that a merge put above the last level count as young under the merge's cut, so that it stays there: another merge would
/// change as little. False if the table's ages had to be raised for that.
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
    table.timed = Some(Timed { entries, times: after(by_time, old.time), others: after(by_number, old.seq) });
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
    // Below what is oldest there is nothing to hide: nobody asks.
    let cold = if bottommost { &mut [] } else { cold };
    for table in hot.iter_mut().chain(cold) {
        let share = (u128::from(table.bytes) * u128::from(open)).div_ceil(u128::from(written.max(1)));
        table.settled = table.bytes.saturating_sub(share as u64);
    }
}
