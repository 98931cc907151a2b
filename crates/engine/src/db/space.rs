//! The owner of free space: which writes and merges may take the bytes that the media have left.
//!
//! The primary store has the log, the manifest, and all files for which other stores have no space. Part of its free bytes is a reserve
//! for work that frees space ([`reserve`]): writes other than deletions leave space for merges, merges leave space for flushes, and flushes
//! leave space for the manifest and the log. On every other store the reserve is the space of one merge. The steps, in order:
//!
//! * `admit` ([`admission`]) decides whether a write goes on. Where space is scarce, a write waits for merges and then gets an error;
//!   deletions go on. The log never grows beyond what can be flushed.
//! * `limit` ([`limit`]) decides whether a compaction fits. If it does not, data is demoted from the full fast medium to the medium of the
//!   last level; if nothing can be demoted, smaller merges are picked, first those that apply deletions.
//! * `reserve` reserves the space of a merge that begins ([`reservations`]).
//! * `report` takes the outcome of a job. A medium that refused a merge gets smaller ones for a while ([`refusals`]).

mod admission;
mod limit;
mod refusals;
mod reservations;
pub mod reserve;

use super::family::FamilyCore;
use super::{Inner, Shared};
use crate::compaction::Plan;
use crate::error::{Error, Result};
use crate::manifest::{TableInfo, Version};
use crate::settings::FamilySettings;
pub(super) use limit::Asks;
use refusals::Refusals;
use reservations::Reservations;
pub(super) use reservations::Reserved;
use reserve::Reserve;
use sinter_storage::store::{FileId, Reason, StoreError, Temperature};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reservations, refusals and limits of free space.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    /// Only deletions and merges may use the remaining free space.
    is_scarce: AtomicBool,
    /// Length of the log, bytes, up to which a flush of all memtables certainly fits; beyond it the leader checks again.
    log_limit: AtomicU64,
    /// A write has waited in vain for the running merges: further writes do not wait for them.
    has_waited: AtomicBool,
    /// Time when deletions were flushed last because a write found no free space, monotonic nanoseconds.
    flushed_deletions_ns: AtomicU64,
    pub reservations: Reservations,
    refusals: Refusals,
}

/// Free space of the primary store.
#[derive(Debug, Clone, Copy)]
struct Primary {
    free: u64,
    /// Bytes that running merges have reserved.
    reserved: u64,
    reserve: Reserve,
    /// Most bytes that one job may ask of the store; less than `u64::MAX` after a refusal.
    most: u64,
}

impl Primary {
    /// Most bytes that a merge may write if `left` bytes must stay free.
    fn limit(&self, left: u64) -> u64 {
        self.free.saturating_sub(left).saturating_sub(self.reserved).min(self.most)
    }
}

/// The error of work for which no space is left.
fn no_space(operation: &'static str) -> Error {
    let why = "the remaining free space is reserved for work that frees space";
    StoreError::store(operation, io::Error::new(io::ErrorKind::StorageFull, why)).into()
}

impl Inner {
    /// Returns whether only deletions and merges may use the remaining free space.
    #[inline]
    pub(super) fn is_scarce(&self) -> bool {
        self.space.is_scarce.load(Ordering::Acquire)
    }

    /// Most bytes that one job may ask of a store; `u64::MAX`: the store has refused nothing lately.
    fn refused(&self, place: Temperature) -> u64 {
        self.space.refusals.most(place, self.media.free(place), self.clock.monotonic_ns())
    }

    /// Free bytes of a store that no running merge has reserved; `u64::MAX` if they are not known; less after a recent refusal.
    pub(super) fn available(&self, place: Temperature) -> u64 {
        let left = |free: u64| free.saturating_sub(self.space.reservations.on(place));
        self.media.free(place).map_or(u64::MAX, left).min(self.refused(place))
    }

    /// Notes that a store refused a job of `bytes`.
    pub(super) fn refuse(&self, place: Temperature, bytes: u64) {
        self.space.refusals.add(place, bytes, self.media.free(place), self.clock.monotonic_ns());
    }

    fn is_on_primary(&self, table: &TableInfo) -> bool {
        self.media.place(FileId::table(table.number)) == Temperature::Unknown
    }

    /// Bytes of the given tables, counting only those on the primary store.
    pub(super) fn bytes_on_primary<'a>(&self, tables: impl Iterator<Item = &'a Arc<TableInfo>>) -> u64 {
        tables.filter(|table| self.is_on_primary(table)).fold(0, |sum, table| sum.saturating_add(table.bytes))
    }

    /// Bytes of a typical merge of a table of level 0 with the tables below it.
    fn bytes_of_merge(&self, settings: &FamilySettings) -> u64 {
        self.within_medium(settings.write_buffer_size)
            .saturating_add(self.within_medium(settings.target_file_size_base))
            .saturating_mul(reserve::MERGED)
    }

    /// The free space of the primary store now; `None`: the store does not know its free bytes.
    fn survey(&self, shared: &Shared) -> Option<Primary> {
        let free = self.media.free(Temperature::Unknown)?;
        let reserved = self.space.reservations.on(Temperature::Unknown);
        Some(Primary { free, reserved, reserve: self.primary_reserve(shared, free), most: self.refused(Temperature::Unknown) })
    }

    /// The reserve of the primary store, which has `free` bytes free; at most a quarter of a small medium.
    fn primary_reserve(&self, shared: &Shared, free: u64) -> Reserve {
        let settings = || shared.families.values().map(|core| core.settings.load());
        let memtable = |of: &FamilySettings| self.within_medium(of.write_buffer_size);
        let memtables = |of: &FamilySettings| memtable(of).saturating_mul(of.max_write_buffer_number.max(2) as u64);
        let memtables = settings().fold(0u64, |sum, of| sum.saturating_add(memtables(&of))).min(self.division.memtables());
        // A database with many families need not reserve a memtable for each: what memtables hold is in the log, which is bounded.
        let most = settings().map(|of| memtable(&of)).max().unwrap_or(0).saturating_add(self.division.log(&self.settings));
        let primary = self.media.primary();
        let pinned = reserve::pinned(primary.unit(), primary.pinned_bytes());
        let merged = settings().map(|of| self.bytes_of_merge(&of)).max().unwrap_or(0);
        let reserve = Reserve::of(pinned, memtables.min(most), merged);
        if reserve.merges <= free / 4 {
            return reserve;
        }
        let versions = shared.families.values().map(|core| core.view.load().tree.version.clone());
        let here = |version: Arc<Version>| self.bytes_on_primary(version.tables().map(|(.., table)| table));
        reserve.within(versions.map(here).fold(free, u64::saturating_add))
    }

    /// Determines whether there is space for writes other than deletions, notes the answer and returns it.
    pub(super) fn note_space(&self, shared: &Shared) -> bool {
        let is_scarce = self.survey(shared).is_some_and(|Primary { free, reserve, .. }| {
            // What can be demoted counts as free. Once nothing can be, because the other stores are full, the whole reserve has to be here.
            free < reserve.merges && free.saturating_add(self.demotable(shared)) < reserve.merges
        });
        self.space.is_scarce.store(is_scarce, Ordering::Release);
        !is_scarce
    }

    /// Reserves the space of a merge that begins.
    pub(super) fn reserve(&self, shared: &Shared, core: &FamilyCore, plan: &Plan) {
        let (bytes, elsewhere) = self.with_env(shared, core, |env| self.demand(env, plan));
        self.space.reservations.add(plan, Temperature::Unknown, bytes);
        elsewhere.into_iter().for_each(|place| self.space.reservations.add(plan, place, plan.bytes()));
        // The next write checks the free space again.
        self.space.log_limit.store(0, Ordering::Release);
        self.space.has_waited.store(false, Ordering::Release);
    }

    /// Makes deletions of a job's output durable if the job found no space: a medium may count a deleted file as free only once the
    /// deletion is durable.
    pub(super) fn after_no_space<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::NoSpace(_))) { self.sync_names().and(result) } else { result }
    }

    /// Takes the result of a compaction that is no longer marked as running. Returns whether smaller merges will replace one that found no
    /// space, so that its error can be dropped. False where the free space is not known: the picker would choose the same merge again.
    pub(super) fn report<T>(&self, shared: &Shared, core: &FamilyCore, (is_merge, plan): (bool, &Plan), result: &Result<T>) -> bool {
        self.space.has_waited.store(false, Ordering::Release);
        if !matches!(result, Err(Error::NoSpace(_))) {
            return false;
        }
        // A demotion that failed beside other jobs proves nothing: they may have taken the space.
        if plan.reason == Reason::Room
            && shared.jobs.running == 0
            && let Some(below) = self.with_env(shared, core, |env| self.place_of_old(env))
        {
            self.refuse(below, plan.bytes());
        }
        if is_merge {
            self.refuse(Temperature::Unknown, plan.bytes());
        }
        is_merge && (self.is_scarce() || self.demotable(shared) == 0) && self.media.free(Temperature::Unknown).is_some()
    }

    /// Returns whether work that finds no space now may find some later: running jobs may free space, or a recent refusal, which expires,
    /// limits the size of merges.
    pub(super) fn may_find_space(&self, shared: &Shared) -> bool {
        shared.jobs.running > 0 || self.refused(Temperature::Unknown) < u64::MAX
    }
}

#[cfg(test)]
mod tests;
