//! Pushes chosen tables of a leveled tree one level down, together with the tables that they overlap; in smaller steps if space is limited
//! (`limited_space`).

use super::step::{below, finish, tables_at};
use super::targets::Targets;
use super::young::is_worth_it;
use super::{Choice, Input, PickEnv, bytes_of, hull, limited_space, run_number, span};
use crate::manifest::{Run, TableInfo, Version};
use sinter_storage::store::Reason;
use std::sync::Arc;

/// Most tables of a level that move down together (RocksDB: `kMaxMultiTrivialMove`).
const MOST_MOVED: usize = 4;

/// Pushes the wanted tables of level 0 into the base level, with all tables of level 0 that overlap them: no older entry may stay above a
/// newer one.
pub fn push_level0(version: &Version, env: &PickEnv<'_>, wanted: &dyn Fn(&TableInfo) -> bool, reason: Reason) -> Option<Choice> {
    let base = Targets::of(version, env.settings).base;
    let mut inputs = closure(&version.levels[0], wanted);
    let range = hull(&inputs)?;
    if base == 0 || version.levels[base].len() > 1 {
        return None;
    }
    inputs.push(Input { level: base, run: run_number(version, base), tables: tables_at(version, base, &range).to_vec() });
    let choice = finish(version, env, inputs, reason, (base, run_number(version, base)))?;
    if env.fits(&choice) { Some(choice) } else { limited_space::level(version, env, 0, Some(base), reason).or(Some(choice)) }
}

/// Pushes all of level 0 into the last level, with what that overlaps on its way.
pub fn push_level0_to_last(version: &Version, env: &PickEnv<'_>, reason: Reason) -> Option<Choice> {
    let mut inputs = closure(&version.levels[0], &|_| true);
    for level in 1..version.levels.len() {
        let range = hull(&inputs)?;
        if version.levels[level].len() > 1 {
            return None;
        }
        inputs.push(Input { level, run: run_number(version, level), tables: tables_at(version, level, &range).to_vec() });
    }
    let last = version.levels.len() - 1;
    finish(version, env, inputs, reason, (last, run_number(version, last)))
}

/// Pushes a single wanted table of level 0, with those that overlap it, if a damaged table keeps the wanted tables from going down
/// together: the first that does not overlap the damaged table, oldest run first.
pub fn push_around_damage(version: &Version, env: &PickEnv<'_>, wanted: &dyn Fn(&TableInfo) -> bool, reason: Reason) -> Option<Choice> {
    if env.damaged.is_empty() {
        return None;
    }
    let seeds = version.levels[0].iter().rev().flat_map(|run| &run.tables).filter(|t| wanted(t));
    seeds.map(|seed| seed.number).find_map(|number| push_level0(version, env, &|t| t.number == number, reason))
}

/// The wanted tables of level 0 and all that overlap their common range, newest run first.
fn closure(runs: &[Run], wanted: &dyn Fn(&TableInfo) -> bool) -> Vec<Input> {
    let seeds: Vec<Arc<TableInfo>> = runs.iter().flat_map(|run| &run.tables).filter(|t| wanted(t)).cloned().collect();
    let Some(mut range) = span(&seeds) else { return Vec::new() };
    loop {
        let inputs: Vec<Input> =
            runs.iter().map(|run| Input { level: 0, run: run.number, tables: run.overlapping(&range).to_vec() }).collect();
        match hull(&inputs) {
            Some(wider) if wider != range => range.extend(&wider),
            _ => return inputs,
        }
    }
}

/// Pushes the `i`-th table of a level one level down. If it can move without being rewritten, the following tables that can do so move
/// with it, up to `MOST_MOVED`.
pub fn push_from(version: &Version, env: &PickEnv<'_>, (level, run): (usize, &Run), i: usize, reason: Reason) -> Option<Choice> {
    let push = |end| push_tables(version, env, Input { level, run: run.number, tables: run.tables[i..end].to_vec() }, reason);
    let mut choice = push(i + 1)?;
    for end in i + 2..=run.tables.len().min(i + MOST_MOVED) {
        let is_free = matches!(choice, Choice::Move(_)) && !env.is_taken(&run.tables[end - 1]);
        match push(end).filter(|_| is_free) {
            Some(longer @ Choice::Move(_)) => choice = longer,
            _ => break,
        }
    }
    Some(choice)
}

/// Pushes neighbouring tables of a level >= 1 one level down: merges them with the tables that they overlap there. Further tables of their
/// own level join if they add no overlap below, up to `max_compaction_bytes`.
pub fn push_tables(version: &Version, env: &PickEnv<'_>, mut input: Input, reason: Reason) -> Option<Choice> {
    let (level, next) = (input.level, input.level + 1);
    if version.levels.get(next)?.len() > 1 || version.levels[level].len() > 1 {
        return None;
    }
    let lower = below(version, level, &span(&input.tables)?);
    if let Some(mut range) = span(lower) {
        range.extend(&span(&input.tables)?);
        let wider = version.levels[level].first()?.overlapping(&range);
        let same = span(wider).is_some_and(|range| below(version, level, &range).len() == lower.len());
        let is_free = wider.iter().all(|t| !env.is_taken(t) && is_worth_it(env, level, t));
        if same && is_free && bytes_of(wider) + bytes_of(lower) <= env.most() {
            input.tables = wider.to_vec();
        }
    }
    let to = (next, run_number(version, next));
    let lower = Input { level: next, run: to.1, tables: lower.to_vec() };
    let choice = finish(version, env, vec![input.clone(), lower], reason, to)?;
    if env.fits(&choice) { Some(choice) } else { limited_space::part(version, env, &input, to, reason).or(Some(choice)) }
}
