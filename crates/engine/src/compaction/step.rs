//! One step of a leveled tree: tables and the tables that they overlap below become a merge, or a move if they overlap none.

use super::{Choice, Input, PickEnv, bytes_of, collides, plan};
use crate::manifest::{KeyRange, TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::Reason;
use std::sync::Arc;

/// The tables of a level that share a key with `range`. The level must have at most one run.
pub fn tables_at<'a>(version: &'a Version, level: usize, range: &KeyRange) -> &'a [Arc<TableInfo>] {
    version.levels.get(level).and_then(|runs| runs.first()).map_or(&[], |run| run.overlapping(range))
}

/// The tables one level down that share a key with `range`.
pub fn below<'a>(version: &'a Version, level: usize, range: &KeyRange) -> &'a [Arc<TableInfo>] {
    tables_at(version, level + 1, range)
}

/// The choice that brings `inputs` to the run `output` (level and number): a move if there is one input run, no young data, and no more
/// overlap below the output than a later compaction may have; otherwise a merge. `None` if running jobs are in the way.
pub fn finish(version: &Version, env: &PickEnv<'_>, mut inputs: Vec<Input>, reason: Reason, output: (usize, u64)) -> Option<Choice> {
    inputs.retain(|i| !i.tables.is_empty());
    if collides(env, &inputs, output.0) {
        return None;
    }
    let top = inputs.first()?.level;
    let is_one_run = inputs.len() == 1;
    let plan = plan(version, env, reason, inputs, output);
    // A move would take young data to the last level, too.
    let is_light = plan.hot.is_none() && bytes_of(&plan.grandparents) <= env.settings.max_compaction_bytes;
    Some(if is_one_run && is_light && may_move(env.settings, top, output.0) { Choice::Move(plan) } else { Choice::Merge(plan) })
}

/// Returns whether tables may move between two levels: only if both have the same compression, because a moved table is not rewritten.
pub fn may_move(settings: &FamilySettings, from: usize, to: usize) -> bool {
    settings.compression_at(from) == settings.compression_at(to)
}
