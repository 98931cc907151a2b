//! Pickers: decisions from text scripts, and trees that live under random work.

mod script;
mod simulation;

use super::{Choice, Plan};
use crate::manifest::{Run, TableInfo, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// The tree after a choice: what the manifest's edit does, with the tables that the job made.
fn apply(version: &Version, choice: &Choice, outputs: Vec<TableInfo>) -> Version {
    let (plan, outputs): (&Plan, Vec<Arc<TableInfo>>) = match choice {
        Choice::Nothing => return version.clone(),
        Choice::Move(plan) => (plan, plan.tables().cloned().collect()),
        Choice::Merge(plan) => (plan, outputs.into_iter().map(Arc::new).collect()),
        Choice::Drop(plan) => (plan, Vec::new()),
    };
    let taken: HashSet<u64> = plan.tables().map(|t| t.number).collect();
    let mut next = version.clone();
    let before = version.tables().count();
    next.levels.iter_mut().flatten().for_each(|run| run.tables.retain(|t| !taken.contains(&t.number)));
    assert_eq!(next.tables().count() + taken.len(), before, "an input is not in the tree: {plan:?}");
    if !outputs.is_empty() {
        let runs = &mut next.levels[plan.output_level];
        let at = runs.partition_point(|run| run.number > plan.output_run);
        if runs.get(at).is_none_or(|run| run.number != plan.output_run) {
            runs.insert(at, Run { number: plan.output_run, tables: Vec::new() });
        }
        runs[at].tables.extend(outputs);
        runs[at].tables.sort_by(|a, b| a.range.smallest.cmp(&b.range.smallest));
    }
    next.levels.iter_mut().for_each(|runs| runs.retain(|run| !run.tables.is_empty()));
    next
}
