//! Jobs of background threads as data: the work, the threads that take it, and its end.

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
    /// Nothing changed: a table found no room on its tier, or a damaged input was set aside.
    Unchanged,
    /// The database closes: it was told to stop, and nothing changed.
    Stopped,
}

/// Jobs that a thread takes. Flushes have a thread of their own, so that a long compaction never keeps writers waiting, and so have moves
/// between tiers, so that a slow one keeps no compaction waiting.
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

/// Work that panics ends the handle; writers must not wait for it for ever.
pub(super) struct PanicGuard<'a> {
    pub inner: &'a Inner,
    /// How many running jobs end with it.
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
