//! Jobs of background threads as data: the work, which threads take it, and how it ends.

use super::Inner;
use super::family::FamilyCore;
use super::mem::Mem;
use crate::compaction::{Choice, Plan};
use crate::error::Error;
use crate::manifest::{Change, RunLocation, TableChange, TableInfo};
use sinter_storage::store::Temperature;
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
            shared.running = shared.running.saturating_sub(self.jobs);
            shared.failed.get_or_insert_with(|| error.clone());
            drop(shared);
            self.inner.poison("background job", error);
        }
    }
}
