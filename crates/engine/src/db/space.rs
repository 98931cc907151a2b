//! The owner of free space: which writes and merges may take the bytes that the media have left.
//!
//! The primary store has the log, the manifest, and all files for which other stores have no space. Of its free bytes a reserve is left to
//! work that frees space ([`reserve`]): writes other than deletions leave space for merges, merges leave space for flushes, and flushes
//! leave space for the manifest and the log. Another store has no reserve but the space of one merge. Four questions are asked here:
//!
//! * `admit` ([`admission`]): may a write go on? Where space is scarce it waits for merges, and then gets an error; deletions go on. The
//!   log never grows beyond what can be flushed.
//! * `limit` ([`limit`]): may a compaction have this choice? If not, data is demoted from a full fast medium as long as the medium of the
//!   last level has space; where nothing can be demoted, smaller merges take its place, those of deletions first.
//! * `reserve`: a merge that begins has its output promised ([`reservations`]).
//! * `report`: how did a job end? A medium that refused a merge is asked for less ([`refusals`]). Deletions of files are made durable,
//!   because a medium may count only those as free, and then it is noted whether space is scarce.

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

/// Free space that is promised, refused, or left alone.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Remaining free space is left to deletions and merges.
    is_scarce: AtomicBool,
    /// Length of the log, bytes, up to which the contents of memtables surely fit into tables.
    log_limit: AtomicU64,
    /// A write has waited long enough for the merges that run.
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
    /// Most bytes for which the store may be asked.
    most: u64,
}

impl Primary {
    /// Most bytes of a merge that leaves so many free.
    fn limit(&self, left: u64) -> u64 {
        self.free.saturating_sub(left).saturating_sub(self.reserved).min(self.most)
    }
}

/// The error of work for which no space is left.
fn no_space(operation: &'static str) -> Error {
    let why = "what is left is reserved for work that frees space";
    StoreError::store(operation, io::Error::new(io::ErrorKind::StorageFull, why)).into()
}

impl Inner {
    /// Returns whether remaining free space is left to deletions and merges.
    #[inline]
    pub(super) fn is_scarce(&self) -> bool {
        self.space.is_scarce.load(Ordering::Acquire)
    }

    /// Most bytes for which a store may be asked after it refused some; `u64::MAX`: it has refused nothing lately.
    fn refused(&self, place: Temperature) -> u64 {
        self.space.refusals.most(place, self.media.free(place), self.clock.monotonic_ns())
    }

    /// Free bytes of a store that no running merge has reserved, `u64::MAX` if that is not known; less if it refused some lately.
    pub(super) fn available(&self, place: Temperature) -> u64 {
        let left = |free: u64| free.saturating_sub(self.space.reservations.on(place));
        self.media.free(place).map_or(u64::MAX, left).min(self.refused(place))
    }

    /// Notes that a store refused a job of so many bytes.
    pub(super) fn refuse(&self, place: Temperature, bytes: u64) {
        self.space.refusals.add(place, bytes, self.media.free(place), self.clock.monotonic_ns());
    }

    fn is_on_primary(&self, table: &TableInfo) -> bool {
        self.media.place(FileId::table(table.number)) == Temperature::Unknown
    }

    /// Bytes of those tables that lie on the primary store.
    pub(super) fn bytes_on_primary<'a>(&self, tables: impl Iterator<Item = &'a Arc<TableInfo>>) -> u64 {
        tables.filter(|table| self.is_on_primary(table)).fold(0, |sum, table| sum.saturating_add(table.bytes))
    }

    /// Bytes of a merge of a table of level 0 with some of those below.
    fn bytes_of_merge(&self, settings: &FamilySettings) -> u64 {
        self.within_medium(settings.write_buffer_size)
            .saturating_add(self.within_medium(settings.target_file_size_base))
            .saturating_mul(reserve::MERGED)
    }

    /// The free space of the primary store now; `None`: it does not know.
    fn survey(&self, shared: &Shared) -> Option<Primary> {
        let free = self.media.free(Temperature::Unknown)?;
        let reserved = self.space.reservations.on(Temperature::Unknown);
        Some(Primary { free, reserved, reserve: self.primary_reserve(shared, free), most: self.refused(Temperature::Unknown) })
    }

    /// The reserve of the primary store, which has `free` bytes free: a quarter of it at most on a small medium.
    fn primary_reserve(&self, shared: &Shared, free: u64) -> Reserve {
        let settings = || shared.families.values().map(|core| core.settings.load());
        let memtable = |of: &FamilySettings| self.within_medium(of.write_buffer_size);
        let memtables = |of: &FamilySettings| memtable(of).saturating_mul(of.max_write_buffer_number.max(2) as u64);
        let memtables = settings().fold(0u64, |sum, of| sum.saturating_add(memtables(&of))).min(self.division.memtables());
        // Families that hold nothing need nothing, and contents of memtables are in the log.
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

    /// Notes whether there is space for other writes than deletions, and returns it.
    pub(super) fn note_space(&self, shared: &Shared) -> bool {
        let is_scarce = self.survey(shared).is_some_and(|Primary { free, reserve, .. }| {
            // Once the other stores are full as well, as much has to be left here.
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
        // The next write looks whether there is still enough for it.
        self.space.log_limit.store(0, Ordering::Release);
        self.space.has_waited.store(false, Ordering::Release);
    }

    /// Makes deletions of a job's output durable after it found no space: a medium may count only those as free, and the next job would
    /// find less.
    pub(super) fn after_no_space<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::NoSpace(_))) { self.sync_names().and(result) } else { result }
    }

    /// Notes how a compaction ended that is no longer marked as running. Returns whether smaller merges take the place of one that found no
    /// space: then nobody need be told. False where the free space is not known, so that it would be done again as it was.
    pub(super) fn report<T>(&self, shared: &Shared, core: &FamilyCore, (is_merge, plan): (bool, &Plan), result: &Result<T>) -> bool {
        self.space.has_waited.store(false, Ordering::Release);
        if !matches!(result, Err(Error::NoSpace(_))) {
            return false;
        }
        // If other jobs run, they may have taken the space.
        if plan.reason == Reason::Room
            && shared.running == 0
            && let Some(below) = self.with_env(shared, core, |env| self.place_of_old(env))
        {
            self.refuse(below, plan.bytes());
        }
        if is_merge {
            self.refuse(Temperature::Unknown, plan.bytes());
        }
        is_merge && (self.is_scarce() || self.demotable(shared) == 0) && self.media.free(Temperature::Unknown).is_some()
    }

    /// Returns whether work that finds no space now may find some: running jobs free it, or a refusal holds larger merges up.
    pub(super) fn may_find_space(&self, shared: &Shared) -> bool {
        shared.running > 0 || self.refused(Temperature::Unknown) < u64::MAX
    }
}

#[cfg(test)]
mod tests;
