//! Jobs of background threads as data: the work, which threads take it, which jobs run, and how a job ends.

use super::Inner;
use super::family::FamilyCore;
use super::mem::Mem;
use crate::compaction::{Choice, Plan};
use crate::error::Error;
use crate::manifest::{Change, KeyRange, RunLocation, TableChange, TableInfo};
use sinter_storage::store::{Reason, Temperature};
use std::collections::HashSet;
use std::sync::Arc;

/// Work to be done.
pub(super) enum Job {
    Flush { core: Arc<FamilyCore>, mems: Vec<Arc<Mem>> },
    Compact { core: Arc<FamilyCore>, work: Work, plan: Plan },
}

/// Work of a compaction on its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Merge,
    Move,
    Drop,
    /// Copies a table to the store for a temperature; nothing else changes.
    Relocate(Temperature),
}

/// End of a job that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The result is part of the tree.
    Published,
    /// Nothing changed: the tier had no space for a table, or a damaged input was set aside.
    Unchanged,
    /// Nothing changed: the job was told to stop, because the database closes.
    Stopped,
}

/// Kinds of jobs that a thread takes. Flushes have a thread of their own, so that a long compaction never delays writers. Moves between
/// tiers have one, too, so that a slow tier delays no compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Flushes,
    Compactions,
    /// Flushes and compactions.
    Jobs,
    Moves,
    All,
}

/// Jobs that run, and callers that wait for some: a part of [`Shared`](super::Shared), so under its lock.
#[derive(Default)]
pub(super) struct Jobs {
    /// Jobs that run.
    pub running: usize,
    /// Tables that compactions and moves read. Table numbers are unique among families.
    pub tables: HashSet<u64>,
    /// Family, level and key range that they write.
    pub outputs: Vec<(u32, usize, KeyRange)>,
    /// Families that are being flushed.
    pub flushing: HashSet<u32>,
    /// A job moves a table between tiers.
    pub moving: bool,
    /// A job demotes data from a full fast medium.
    pub demoting: bool,
    /// The family whose turn for a compaction is next: one that always has something to do must not keep the others waiting.
    pub turn: u32,
    /// Families whose trees manual compactions want to themselves, once per compaction.
    pub manual: Vec<u32>,
    /// How many callers wait for all compactions to end.
    pub settling: usize,
    /// How many callers wait for other background work.
    pub awaited: usize,
}

impl Jobs {
    /// Marks the flush of a family as running.
    pub fn start_flush(&mut self, family: u32) {
        self.flushing.insert(family);
        self.running += 1;
    }

    /// Marks the flush of a family as ended.
    pub fn end_flush(&mut self, family: u32) {
        self.flushing.remove(&family);
        self.running -= 1;
    }

    /// Marks a compaction, or a move between tiers, as running.
    pub fn start(&mut self, family: u32, plan: &Plan) {
        self.tables.extend(inputs(plan));
        self.outputs.extend(outputs(family, plan));
        self.demoting |= plan.reason == Reason::Room;
        self.running += 1;
    }

    /// Marks a compaction, or a move between tiers, as ended.
    pub fn end(&mut self, family: u32, plan: &Plan) {
        for number in inputs(plan) {
            self.tables.remove(&number);
        }
        for mine in outputs(family, plan) {
            if let Some(at) = self.outputs.iter().position(|other| *other == mine) {
                self.outputs.swap_remove(at);
            }
        }
        self.demoting &= plan.reason != Reason::Room;
        self.running -= 1;
    }

    /// Compactions that run: moves between tiers are none, and a merge is one, however many levels it writes to.
    pub fn compactions(&self) -> usize {
        self.running.saturating_sub(self.flushing.len() + usize::from(self.moving))
    }

    /// Returns whether a caller waits for background work.
    pub fn has_waiters(&self) -> bool {
        self.settling + self.awaited + self.manual.len() > 0
    }

    /// Returns whether a compaction or a move writes to a family, or a manual compaction wants its tree to itself.
    pub fn is_taken(&self, family: u32) -> bool {
        self.manual.contains(&family) || self.has_output_in(family)
    }

    /// Returns whether a compaction or a move writes to a family.
    pub fn has_output_in(&self, family: u32) -> bool {
        self.outputs.iter().any(|output| output.0 == family)
    }
}

/// Numbers of the tables that a plan reads.
fn inputs(plan: &Plan) -> impl Iterator<Item = u64> {
    plan.inputs.iter().flat_map(|input| input.tables.iter()).map(|table| table.number)
}

/// The family, levels and key range that a plan writes.
fn outputs(family: u32, plan: &Plan) -> impl Iterator<Item = (u32, usize, KeyRange)> {
    let hot = plan.hot.as_ref().map(|_| plan.output_level - 1);
    std::iter::once(plan.output_level).chain(hot).map(move |level| (family, level, plan.range()))
}

/// The change that adds a table.
pub(super) fn added(family: u32, to: RunLocation, info: TableInfo) -> TableChange {
    TableChange { family, change: Change::Add { to, table: Arc::new(info) } }
}

pub(super) fn unpack(choice: Choice) -> Option<(Work, Plan)> {
    match choice {
        Choice::Nothing => None,
        Choice::Move(plan) => Some((Work::Move, plan)),
        Choice::Merge(plan) => Some((Work::Merge, plan)),
        Choice::Drop(plan) => Some((Work::Drop, plan)),
    }
}

/// Ends the handle if the work on this thread panics, so that writers do not wait forever.
pub(super) struct PanicGuard<'a> {
    pub inner: &'a Inner,
    /// Number of running jobs that end with the panic.
    pub jobs: usize,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Error::Closed("a background job panicked".into());
            let mut shared = self.inner.shared.lock();
            shared.jobs.running = shared.jobs.running.saturating_sub(self.jobs);
            shared.failed.get_or_insert_with(|| error.clone());
            drop(shared);
            self.inner.poison("background job", error);
        }
    }
}
