//! Compaction on request (`compact_range`): a pure step function that is called until it has nothing left to do.

use super::leveled::unify;
use super::push::{push_around_damage, push_level0, push_tables};
use super::targets::Targets;
use super::{Choice, Input, PickEnv, bytes_of, collides, demote, is_bottommost, plan, run_number, universal};
use crate::key::{MAX_SEQ, Seq};
use crate::manifest::{KeyRange, Run, TableInfo, Version};
use crate::settings::Style;
use sinter_storage::store::Reason;

/// User keys from `from` to `to`, both included; `None` is unbounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManualRange {
    /// First key.
    pub from: Option<Vec<u8>>,
    /// Last key.
    pub to: Option<Vec<u8>>,
}

impl ManualRange {
    /// Returns whether `range` has a key in common with this one.
    pub fn meets(&self, range: &KeyRange) -> bool {
        let starts_late = self.to.as_ref().is_some_and(|to| range.smallest > *to);
        let ends_early = self.from.as_ref().is_some_and(|from| range.ends_before(from));
        !starts_late && !ends_early
    }
}

/// The next step of compacting `range`: apply it, then call again, until `Nothing` comes while no job runs.
///
/// Leveled: all that meets the range moves level by level to the deepest level in use, or to one further down that has room for it, because
/// what is over its level's target would soon be merged again; then tables there with a file number below
/// `before` (taken when the request began) are rewritten once, so that their tombstones go. Universal: all runs become one. Where data
/// is placed by age, what is young ends one level above the rest, with nothing on both that has to meet; what counts as young must then be
/// the same in all calls. Damaged tables stay where they are, and so does what only could go through them.
pub fn manual(version: &Version, env: &PickEnv<'_>, range: &ManualRange, before: u64) -> Choice {
    manual_up_to(version, env, range, before, MAX_SEQ)
}

/// [`manual`] for tables that hold something as old as `newest`: with the newest sequence number at the request's start it ends even if
/// writers never pause.
pub fn manual_up_to(version: &Version, env: &PickEnv<'_>, range: &ManualRange, before: u64, newest: Seq) -> Choice {
    let wanted = |t: &TableInfo| t.min_seq <= newest && range.meets(&t.range);
    match env.settings.style {
        Style::Leveled => leveled(version, env, &wanted, before),
        Style::Universal => {
            let is_due = |t: &TableInfo| t.number < before && wanted(t);
            let any = |run: &Run, of: &dyn Fn(&TableInfo) -> bool| run.tables.iter().any(|t| of(t));
            let choice = universal::merge_all(version, env, |run| any(run, &wanted), |run| any(run, &is_due));
            // A run that is too large to be rewritten at once.
            let pieces = (0..version.levels.len()).filter_map(|level| rewrite(version, env, level, &is_due));
            env.first_that_fits(std::iter::once(choice).chain(pieces)).unwrap_or(Choice::Nothing)
        }
    }
}

fn leveled(version: &Version, env: &PickEnv<'_>, wanted: &dyn Fn(&TableInfo) -> bool, before: u64) -> Choice {
    let last = version.levels.len() - 1;
    let is_placed = env.settings.places_by_age();
    let targets = Targets::of(version, env.settings);
    // What comes to a level, together with what lies there.
    let filled = |at: usize| {
        let tables = version.tables().filter(|(level, _, t)| *level == at || wanted(t));
        tables.fold(0, |sum: u64, (.., t)| sum.saturating_add(t.bytes))
    };
    let fits = |level: &usize| *level >= targets.last || targets.target(*level) >= filled(*level);
    let used = version.deepest().unwrap_or(0).max(targets.base);
    let bottom = if is_placed { last } else { (used..last).find(fits).unwrap_or(last) };
    // A table that came down as it is may have some. All of them are visible to every snapshot, so a merge leaves none.
    let has_dead = |level: usize, t: &TableInfo| {
        let here = || [Input { level, run: run_number(version, level), tables: vec![t.clone().into()] }];
        t.deletes() && t.max_seq <= env.oldest_snapshot && is_bottommost(version, &here())
    };
    // What is young stays on the level above the last, and would be wanted again for ever.
    let is_new = |level: usize, t: &TableInfo| t.number >= before && !demote::is_ripe(version, env, t) && !has_dead(level, t);
    let goes_down = |level: usize, t: &TableInfo| wanted(t) && !(is_placed && level + 1 == last && is_new(level, t));
    unify(version, env)
        .or_else(|| push_level0(version, env, wanted, Reason::Manual))
        .or_else(|| push_around_damage(version, env, wanted, Reason::Manual))
        .or_else(|| (1..bottom).find_map(|level| push(version, env, level, &|t| goes_down(level, t))))
        .or_else(|| rewrite(version, env, bottom, &|t| wanted(t) && (t.number < before || has_dead(bottom, t))))
        .unwrap_or(Choice::Nothing)
}

/// The first part of a level that can go one level down now, at most as much of this level as a merge takes together. Of a part that
/// cannot, because a table below it is damaged, single tables may.
fn push(version: &Version, env: &PickEnv<'_>, level: usize, wanted: &dyn Fn(&TableInfo) -> bool) -> Option<Choice> {
    let first = |most| pieces(version, env, level, most, wanted).find_map(|input| push_tables(version, env, input, Reason::Manual));
    first(env.most()).or_else(|| first(0))
}

fn rewrite(version: &Version, env: &PickEnv<'_>, level: usize, wanted: &dyn Fn(&TableInfo) -> bool) -> Option<Choice> {
    let input = pieces(version, env, level, env.most(), wanted).find(|input| !collides(env, std::slice::from_ref(input), level))?;
    let output = (level, input.run);
    Some(Choice::Merge(plan(version, env, Reason::Manual, vec![input], output)))
}

/// Neighbouring wanted tables of a level's runs, together at most `most` bytes unless it is one, idle, oldest run first (a newer one must
/// not go before it).
fn pieces<'a>(
    version: &'a Version,
    env: &'a PickEnv<'_>,
    level: usize,
    most: u64,
    wanted: &'a dyn Fn(&TableInfo) -> bool,
) -> impl Iterator<Item = Input> + 'a {
    version.levels[level].iter().rev().flat_map(move |run| {
        let mut pieces: Vec<Input> = Vec::new();
        let mut is_open = false;
        for table in &run.tables {
            let is_in = wanted(table) && !env.is_taken(table);
            match pieces.last_mut() {
                Some(last) if is_in && is_open && bytes_of(&last.tables) + table.bytes <= most => {
                    last.tables.push(table.clone());
                }
                _ if is_in => pieces.push(Input { level, run: run.number, tables: vec![table.clone()] }),
                _ => {}
            }
            is_open = is_in;
        }
        pieces
    })
}
