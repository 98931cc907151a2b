//! Pickers: decisions from text scripts, and trees that live under random work.

mod ledger;
mod script;
mod simulation;

use super::{Choice, Plan};
use crate::manifest::{Run, TableInfo, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// The tree after a choice: what the manifest's edit does, with the tables that the job made, those one level higher apart.
fn apply(version: &Version, choice: &Choice, outputs: Vec<TableInfo>, hot: Vec<TableInfo>) -> Version {
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
    let mut put = |level: usize, number: u64, tables: Vec<Arc<TableInfo>>| {
        let runs = &mut next.levels[level];
        let at = runs.partition_point(|run| run.number > number);
        if runs.get(at).is_none_or(|run| run.number != number) {
            runs.insert(at, Run { number, tables: Vec::new() });
        }
        runs[at].tables.extend(tables);
        runs[at].tables.sort_by(|a, b| a.range.smallest.cmp(&b.range.smallest));
    };
    put(plan.output_level, plan.output_run, outputs);
    if let Some(place) = &plan.hot {
        put(plan.output_level - 1, place.run, hot.into_iter().map(Arc::new).collect());
    } else {
        assert!(hot.is_empty(), "young tables without a place: {plan:?}");
    }
    next.levels.iter_mut().for_each(|runs| runs.retain(|run| !run.tables.is_empty()));
    next
}
