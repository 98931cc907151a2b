//! Frees space on a full fast medium while the medium of the last level has some: compactions demote young data as well.
//!
//! The fast medium is the primary store, which has the log and all files for which other stores had no space. It is full for a family whose
//! last level lies elsewhere if background work failed for lack of space, if besides the reservations of running merges ([`claim`]) it has
//! less than a memtable in the log and those on their way to a table take, or if it could not hold another merge above the last level. Then
//! the next compaction takes tables that lie there down to the last level (`compaction::relieve`), one job at a time, until that is over.
//! Meanwhile writers wait; they get an error only once nothing can be demoted any more. The log never takes the last of the space
//! ([`Inner::check_log_room`]): jobs that free space have to note it in the manifest, which lies there. Output of a job that found no more
//! space is deleted at once; the log stays.
//!
//! Nothing can be demoted where all lies on one medium, the slow one is full, or no age keeps data above the last level. There, deletions
//! must always find space, and so must the compactions that free deleted data. So some of the primary store is reserved
//! ([`Inner::kept_back`]): a part of it from compactions, for the log and the flushes of deletions, and all of it from other writes, which
//! wait a moment for compactions to free more, and then get an error. A merge that does not fit into the rest gives way to smaller ones
//! ([`PickEnv::room`]), and deletions wait for these before they take their space. Tables that fit into no other store go to the primary
//! one in the end, so that one alone counts, unless a merge belongs elsewhere as a whole and finds space there.

pub(super) mod claim;
pub mod kept;

use super::family::FamilyCore;
use super::schedule::{Job, Work, unpack};
use super::{Inner, Shared};
use crate::compaction::{self, Choice, PickEnv, Plan};
use crate::error::{Error, Result};
use crate::manifest::{State, TableInfo, Version};
use crate::settings::FamilySettings;
use kept::KeptBack;
use sinter_storage::store::{FileId, StoreError, Temperature};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Nanoseconds for which merges are at most half as large as one that found no space: free space may be hard to get at.
const OVERDRAWN_NS: u64 = 10_000_000_000;

/// Most input of a merge that is expected to leave little, as a multiple of the free space.
const HOPE: u64 = 8;

/// Deletions, and the last merge that is tried when space is scarce, keep free one part in so many of the bytes that units may pin. If the
/// merge kept all of it, deletions that have taken the rest would never be merged.
pub(super) const LITTLE_PINNED: u64 = 2;

/// Longest wait of a write for space that compactions may free.
pub(super) const PATIENCE_NS: u64 = 1_000_000_000;

/// Longest such wait of a write that is no deletion, on a medium that frees bytes only in units, where one merge may free nothing yet: in
/// this time a merge of some hundred megabytes ends, and one that the medium has space for is no larger.
const UNIT_PATIENCE_NS: u64 = 10_000_000_000;

/// A merge that found no space on the one medium, whatever the medium had counted as free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overdrawn {
    /// Bytes that the merge read.
    bytes: u64,
    /// Monotonic nanoseconds from which on as large a merge may be tried again.
    until: u64,
}

/// The newest table that a merge reads.
fn newest(plan: &Plan) -> u64 {
    plan.tables().map(|table| table.number).max().unwrap_or(0)
}

pub(super) fn no_room(operation: &'static str) -> Error {
    let why = "what is left is kept for what makes room";
    StoreError::store(operation, io::Error::new(io::ErrorKind::StorageFull, why)).into()
}

impl Inner {
    /// Bounds the size of memtables and tables, so that the medium holds enough of them: with few large ones, nothing could be merged
    /// before it was full.
    pub(super) fn note_medium(&self, state: &State) {
        let lies_there = |table: &&Arc<TableInfo>| self.lies_there(table);
        let tables = state.families.values().flat_map(|family| family.version.tables()).map(|(.., table)| table).filter(lies_there);
        let free = self.media.primary().free_bytes().ok().flatten();
        let size = free.map(|free| tables.fold(free, |sum, table| sum.saturating_add(table.bytes)));
        self.division.note_largest(size.map_or(u64::MAX, |size| kept::largest(size, self.media.primary().unit())));
    }

    /// Size of a memtable or table of `bytes`, cut to the largest for which the medium has space.
    pub(super) fn within_medium(&self, bytes: u64) -> u64 {
        bytes.min(self.division.largest())
    }

    /// Bytes that stay free on the fast medium: for a memtable in the log, and for those on their way to a table.
    pub(super) fn reserve(&self, settings: &FamilySettings) -> u64 {
        self.within_medium(settings.write_buffer_size).saturating_mul(1 + settings.max_write_buffer_number.max(2) as u64)
    }

    /// Bytes for a merge of a table of level 0 with some of those below.
    fn working_room(&self, settings: &FamilySettings) -> u64 {
        self.within_medium(settings.write_buffer_size)
            .saturating_add(self.within_medium(settings.target_file_size_base))
            .saturating_mul(kept::MERGED)
    }

    /// The next compaction of a family.
    pub(super) fn pick_for(&self, shared: &Shared, core: &FamilyCore) -> Option<(Work, Plan)> {
        let version = core.view.load().tree.version.clone();
        self.with_env(shared, core, |env| {
            // Dropping tables frees space, and takes none.
            if let Some(hidden) = compaction::drop_hidden(&version, env) {
                return unpack(hidden);
            }
            let pick = || {
                let picked = self.pick_within(shared, env, false, &|env| compaction::picker(env.settings.style).pick(&version, env));
                // Space may be found later.
                picked.ok().flatten()
            };
            let Some(room) = self.room(shared, env) else { return pick() };
            let (kept, relief) = (self.reserve(env.settings).saturating_add(shared.claims.left()), || self.relief(shared, &version, env));
            if room < kept
                && let Some(relief) = relief()
            {
                return Some(relief);
            }
            let (work, plan) = pick()?;
            let claim = if work == Work::Merge { self.claim(env, &plan) } else { 0 };
            if claim == 0 || claim.saturating_add(kept) <= room || !self.sinks(shared) {
                return Some((work, plan));
            }
            // The merge may still find space where nothing can be demoted, but not beside others.
            if shared.relieving { None } else { relief().or_else(|| (shared.running == 0).then_some((work, plan))) }
        })
    }

    /// The choice of `pick`, or where the one medium has no space for that, the choice of `pick` with less. [`Error::NoSpace`]: nothing
    /// fits.
    pub(super) fn pick_within(
        &self,
        shared: &Shared,
        env: &PickEnv<'_>,
        is_asked_for: bool,
        pick: &dyn Fn(&PickEnv<'_>) -> Choice,
    ) -> Result<Option<(Work, Plan)>> {
        let is_scarce = self.scarce.load(Ordering::Acquire);
        let pick = |env: &PickEnv<'_>| self.held_down(shared, env, pick(env));
        let usual = pick(env);
        // Moves and drops of tables need no space.
        if matches!(usual, Choice::Move(_) | Choice::Drop(_)) || (usual == Choice::Nothing && !is_scarce) {
            return Ok(unpack(usual));
        }
        let Some(free) = self.media.primary().free_bytes().ok().flatten() else { return Ok(unpack(usual)) };
        let KeptBack { pinned, from_merges, .. } = self.kept_back(shared, free);
        let needs = if let Choice::Merge(plan) = &usual { plan.bytes() } else { 0 };
        let is_near = free < from_merges.saturating_add(shared.claims.left()).saturating_add(needs);
        // Missing space first makes data sink.
        let free = if is_near && !is_scarce { free.saturating_add(self.sinkable(shared)) } else { free };
        // Space reserved for the log and for flushes is lent to no more than one merge, if somebody asks for it or nothing else can be
        // done: deletions that took the space of merges free nothing without one.
        let may_lend = if is_asked_for { shared.claims.left() == 0 } else { is_scarce && shared.running == 0 };
        let lent = [pinned.midpoint(from_merges), pinned, pinned / LITTLE_PINNED].into_iter().filter(|_| may_lend);
        for kept in std::iter::once(from_merges).chain(lent) {
            let room = free.saturating_sub(kept).saturating_sub(shared.claims.left()).min(self.overdrawn(shared) / 2);
            let env = PickEnv { room, ..*env };
            let fits = |choice: &Choice| *choice != Choice::Nothing && (env.fits(choice) || self.fits_elsewhere(shared, &env, choice));
            if !is_scarce && fits(&usual) {
                return Ok(unpack(usual));
            }
            // Deletions come first when room is scarce.
            if let Some(choice) = [pick(&env), usual.clone()].into_iter().find(fits) {
                return Ok(unpack(choice));
            }
        }
        // Deletions took even that. A merge that drops most of its input may find space all the same; output of a merge without space is
        // deleted at once, and the next one comes with new deletions.
        if may_lend && self.overdrawn(shared) == u64::MAX {
            let env = PickEnv { room: free.saturating_mul(HOPE), ..*env };
            let choice = pick(&env);
            if let Choice::Merge(plan) = &choice
                && env.fits(&choice)
                && plan.expected() <= free / 2
                && !shared.in_vain.contains(&newest(plan))
            {
                return Ok(unpack(choice));
            }
        }
        if usual != Choice::Nothing { Err(no_room("compact")) } else { Ok(None) }
    }

    /// Keeps demoted data down unless the fast medium has space for it twice, or it would go up and down for ever.
    fn held_down(&self, shared: &Shared, env: &PickEnv<'_>, choice: Choice) -> Choice {
        let Choice::Merge(mut plan) = choice else { return choice };
        let rising = claim::most(env, &plan);
        if let Some(hot) = plan.hot.as_mut().filter(|hot| env.two_media && !hot.spans.is_empty())
            && let Some(free) = self.media.primary().free_bytes().ok().flatten()
        {
            let kept = self.kept_back(shared, free).from_writes.saturating_add(shared.claims.left());
            if env.room < u64::MAX || self.scarce.load(Ordering::Acquire) || free < kept.saturating_add(rising.saturating_mul(2)) {
                hot.spans.clear();
            }
        }
        Choice::Merge(plan)
    }

    /// Bytes that a merge has to stay below after one that found no space; `u64::MAX`: no bound.
    fn overdrawn(&self, shared: &Shared) -> u64 {
        shared.overdrawn.filter(|it| self.clock.monotonic_ns() < it.until).map_or(u64::MAX, |it| it.bytes)
    }

    /// Returns whether work that finds no space now may find some: running jobs free it, or a merge that found none holds larger ones up.
    pub(super) fn may_find_room(&self, shared: &Shared) -> bool {
        shared.running > 0 || self.overdrawn(shared) < u64::MAX
    }

    /// Notes that a merge found no room: on one medium smaller ones take its place, and nobody need be told. False where it is not known
    /// how much room there is, so that it would be done again as it was.
    pub(super) fn note_overdrawn(&self, shared: &mut Shared, plan: &Plan) -> bool {
        let bytes = plan.bytes().min(self.overdrawn(shared));
        let until = self.clock.monotonic_ns().saturating_add(OVERDRAWN_NS);
        shared.overdrawn = Some(Overdrawn { bytes, until });
        shared.in_vain.insert(newest(plan));
        self.free(shared).is_some()
    }

    /// Bytes that can still be written to the primary store; `None` if that is not known, or something can be demoted from there.
    fn free(&self, shared: &Shared) -> Option<u64> {
        if self.sinks(shared) { None } else { self.media.primary().free_bytes().ok().flatten() }
    }

    /// Returns whether enough can be demoted from the primary store to free space, or could if nothing ran: running jobs do not change how
    /// a full medium is dealt with.
    pub(super) fn sinks(&self, shared: &Shared) -> bool {
        // When space is scarce, the other stores are full as well, but for space that deletions may have freed there.
        !self.scarce.load(Ordering::Acquire) && self.sinkable(shared) > 0
    }

    /// Bytes of the primary store that could be demoted before the other stores are full, but for what they need for a last merge.
    fn sinkable(&self, shared: &Shared) -> u64 {
        let Some(tiers) = &self.media.tiers else { return 0 };
        let of = |core: &Arc<FamilyCore>| {
            let version = core.view.load().tree.version.clone();
            self.sinking_of(shared, core)?;
            self.with_env(shared, core, |env| {
                let room = self.room_on(tiers, self.place_of_last(tiers, env.settings, &env.young?));
                Some(compaction::sinkable(
                    &version,
                    env,
                    &|table| self.lies_there(table),
                    room.saturating_sub(self.working_room(env.settings)),
                ))
            })
        };
        self.places_by_age(shared).filter_map(of).fold(0, u64::saturating_add)
    }

    /// Families that age places; others have nothing to demote.
    fn places_by_age<'a>(&self, shared: &'a Shared) -> impl Iterator<Item = &'a Arc<FamilyCore>> {
        shared.families.values().filter(|core| core.settings.load().places_by_age())
    }

    /// The next demotion of a family if nothing ran.
    fn sinking_of(&self, shared: &Shared, core: &FamilyCore) -> Option<(Work, Plan)> {
        let nothing = HashSet::new();
        let version = core.view.load().tree.version.clone();
        self.with_env(shared, core, |env| self.sinking(&version, &PickEnv { busy: &nothing, busy_output: &[], ..*env }))
    }

    fn lies_there(&self, table: &TableInfo) -> bool {
        self.media.place(FileId::table(table.number)) == Temperature::Unknown
    }

    /// Bytes of the family's tables on the primary store.
    fn bytes_there(&self, core: &FamilyCore) -> u64 {
        let version = core.view.load().tree.version.clone();
        version.tables().filter(|(_, _, table)| self.lies_there(table)).map(|(_, _, table)| table.bytes).sum()
    }

    /// Returns whether all output of the choice belongs to another store than the primary one, and finds space there.
    fn fits_elsewhere(&self, shared: &Shared, env: &PickEnv<'_>, choice: &Choice) -> bool {
        let (Some(tiers), Choice::Merge(plan)) = (&self.media.tiers, choice) else { return false };
        let is_known = plan.tables().all(|table| table.newest_time > 0);
        let newest = plan.tables().map(|table| table.newest_time).max().filter(|_| is_known).unwrap_or(0);
        let warmth = env.settings.temperature_of(plan.output_level, newest, env.settings.default_write_temperature, env.now);
        let is_elsewhere = plan.hot.as_ref().is_none_or(|hot| hot.spans.is_empty()) && tiers.serving(warmth) != Temperature::Unknown;
        is_elsewhere && self.room_on(tiers, tiers.serving(warmth)) >= plan.bytes().saturating_add(shared.claims.left())
    }

    /// Bytes that a merge may write to the primary store: all that finds no space elsewhere.
    pub(super) fn claim(&self, env: &PickEnv<'_>, plan: &Plan) -> u64 {
        let room_below = || {
            self.media
                .tiers
                .as_ref()
                .zip(env.young)
                .map_or(0, |(tiers, young)| self.room_on(tiers, self.place_of_last(tiers, env.settings, &young)))
        };
        let usual = claim::most(env, plan);
        if usual < plan.bytes() && (self.scarce.load(Ordering::Acquire) || room_below() < plan.bytes()) { plan.bytes() } else { usual }
    }

    /// Bytes reserved on the primary store, which has `free` bytes free: a quarter at most on a small medium.
    pub(super) fn kept_back(&self, shared: &Shared, free: u64) -> KeptBack {
        let settings = || shared.families.values().map(|core| core.settings.load());
        let memtables =
            |of: &FamilySettings| self.within_medium(of.write_buffer_size).saturating_mul(of.max_write_buffer_number.max(2) as u64);
        let memtables = settings().fold(0u64, |sum, of| sum.saturating_add(memtables(&of))).min(self.division.memtables());
        // Families that hold nothing need nothing.
        let most = settings()
            .map(|of| self.within_medium(of.write_buffer_size))
            .max()
            .unwrap_or(0)
            .saturating_add(self.division.log(&self.settings));
        let memtables = memtables.min(most);
        // Contents of memtables are in the log, and on their way to tables.
        let primary = self.media.primary();
        let pinned = kept::pinned(primary.unit(), primary.pinned_bytes());
        let merged = settings().map(|of| self.working_room(&of)).max().unwrap_or(0);
        let kept = KeptBack::of(pinned, memtables, merged);
        if kept.from_writes <= free / 4 {
            return kept;
        }
        kept.within(shared.families.values().fold(free, |sum, core| sum.saturating_add(self.bytes_there(core))))
    }

    /// Looks whether there is space for other writes than deletions.
    pub(super) fn note_room(&self, shared: &Shared) -> bool {
        let is_scarce = self.media.primary().free_bytes().ok().flatten().is_some_and(|free| {
            let kept = self.kept_back(shared, free).from_writes;
            // Once the other stores are full as well, as much has to be left here.
            free < kept && free.saturating_add(self.sinkable(shared)) < kept
        });
        self.scarce.store(is_scarce, Ordering::Release);
        !is_scarce
    }

    /// Checks the space for a write that is no deletion. It waits for some before it takes the lead, and keeps nobody from deleting.
    #[inline]
    pub(super) fn check_room(&self, is_deletion: impl FnOnce() -> bool) -> Result<()> {
        if !self.scarce.load(Ordering::Acquire) || is_deletion() { Ok(()) } else { self.await_room() }
    }

    #[cold]
    fn await_room(&self) -> Result<()> {
        self.sync_deletions()?;
        let is_at_rest = |inner: &Inner, shared: &Shared| inner.is_idle(shared) && !inner.may_move(shared);
        let patience = if self.media.primary().unit() > 0 { UNIT_PATIENCE_NS } else { PATIENCE_NS };
        let until = self.clock.monotonic_ns().saturating_add(patience);
        let wait = || {
            let is_hopeless = |inner: &Inner, shared: &Shared| inner.clock.monotonic_ns() >= until || is_at_rest(inner, shared);
            self.wait_until(|inner, shared| inner.note_room(shared) || is_hopeless(inner, shared))?;
            if self.scarce.load(Ordering::Acquire) {
                // Inputs merged meanwhile are free once their deletion is durable.
                self.sync_deletions()?;
                self.note_room(&self.shared.lock());
            }
            Ok::<_, Error>(())
        };
        wait()?;
        if self.scarce.load(Ordering::Acquire) && self.holds_deletions() {
            // Deletions free nothing before they are in a table.
            self.flush_all()?;
            wait()?;
        }
        if self.scarce.load(Ordering::Acquire) {
            return Err(no_room("write"));
        }
        // The space may have come from elsewhere: files may have been deleted.
        self.refresh_waiting(&mut self.shared.lock());
        Ok(())
    }

    /// Deletions in memory that are worth a flush: of ranges, or some others, once in a while.
    pub(super) fn holds_deletions(&self) -> bool {
        let mems: Vec<_> = self.shared.lock().families.values().map(|core| core.view.load().mem.clone()).collect();
        let (now, before) = (self.clock.monotonic_ns(), self.flushed_deletions_ns.load(Ordering::Relaxed));
        let is_worth_it = mems.iter().any(|mem| mem.has_tombstones())
            || (now.saturating_sub(before) >= PATIENCE_NS && mems.iter().any(|mem| mem.deletes()));
        if is_worth_it {
            self.flushed_deletions_ns.store(now, Ordering::Relaxed);
        }
        is_worth_it
    }

    /// Bytes that can still be written to the fast medium; `None` if that is not known, or a family's last level lies there as well.
    fn room(&self, shared: &Shared, env: &PickEnv<'_>) -> Option<u64> {
        let tiers = self.media.tiers.as_ref().filter(|_| env.two_media)?;
        if matches!(shared.blocked, Some(Error::NoSpace(_))) { Some(0) } else { tiers.free_bytes_of(Temperature::Unknown).ok().flatten() }
    }

    /// The demotion that frees space next, if any. None while another one runs or a checkpoint blocks deletions: moving data would free no
    /// space.
    fn relief(&self, shared: &Shared, version: &Version, env: &PickEnv<'_>) -> Option<(Work, Plan)> {
        if shared.relieving || shared.hold_deletes > 0 { None } else { self.sinking(version, env) }
    }

    /// Like `relief`, but ignores running demotions and checkpoints.
    fn sinking(&self, version: &Version, env: &PickEnv<'_>) -> Option<(Work, Plan)> {
        let (tiers, young) = (self.media.tiers.as_ref().filter(|_| env.two_media)?, env.young?);
        let room = self.room_on(tiers, self.place_of_last(tiers, env.settings, &young));
        unpack(compaction::relieve(version, env, &|table| self.lies_there(table), room))
    }

    /// Like `relief`, for the first family that has a demotion.
    fn any_relief(&self, shared: &Shared) -> Option<(Arc<FamilyCore>, Work, Plan)> {
        self.media.tiers.as_ref()?;
        shared.families.values().filter(|core| !shared.manual.contains(&core.id)).find_map(|core| {
            let version = core.view.load().tree.version.clone();
            let (work, plan) = self.with_env(shared, core, |env| self.relief(shared, &version, env))?;
            Some((core.clone(), work, plan))
        })
    }

    /// Makes a demotion a job, marked as running.
    pub(super) fn next_relief(&self, shared: &mut Shared) -> Option<Job> {
        let (core, work, plan) = self.any_relief(shared)?;
        self.mark(shared, &core, work, &plan);
        Some(Job::Compact { core, work, plan })
    }

    /// Returns whether a demotion runs or is possible, now, or when running jobs have ended or files are deleted again: so a write or job
    /// that found no space may try again.
    pub(super) fn can_relieve(&self, shared: &Shared) -> bool {
        // A lack of descriptors passes without a move.
        if matches!(shared.blocked, Some(Error::NoDescriptors(_))) {
            return false;
        }
        let may_sink = |core: &Arc<FamilyCore>| self.with_env(shared, core, |env| env.two_media);
        // Without threads, whoever tries again does so at once.
        let is_held_up = shared.running > 0 || (shared.hold_deletes > 0 && !self.inline());
        let may_soon = || self.media.tiers.is_some() && is_held_up && shared.families.values().any(may_sink);
        shared.relieving || self.any_relief(shared).is_some() || may_soon()
    }

    /// The family's writers have to wait until data was demoted or, on one medium, until merges have dropped what was deleted so far: these
    /// merges need the space themselves.
    pub(super) fn awaits_relief(&self, shared: &Shared, core: &FamilyCore) -> bool {
        if self.scarce.load(Ordering::Acquire)
            && let Some(free) = self.free(shared)
        {
            let kept = self.kept_back(shared, free);
            return free < kept.from_merges.midpoint(kept.from_writes);
        }
        let kept = |env: &PickEnv<'_>| self.reserve(env.settings).saturating_add(shared.claims.left());
        let is_full = |env: &PickEnv<'_>| self.room(shared, env).is_some_and(|room| room < kept(env));
        self.media.tiers.is_some() && self.with_env(shared, core, is_full) && self.can_relieve(shared)
    }

    /// Waits after a job or a write that found no space: true if there may be some now.
    pub(super) fn await_relief(&self, error: &Error) -> Result<bool> {
        let mut shared = self.shared.lock();
        if self.inline() {
            let Some(job) = self.next_relief(&mut shared) else { return Ok(false) };
            drop(shared);
            return self.run_job(job).map(|()| true);
        }
        // The threads look for a demotion as long as `blocked` says that there is no space.
        let is_first = shared.blocked.is_none();
        shared.blocked.get_or_insert_with(|| error.clone());
        while shared.blocked.is_some() && !shared.closing && !self.ended.load(Ordering::Acquire) && self.can_relieve(&shared) {
            self.work.notify_all();
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
        }
        let is_relieved = shared.blocked.is_none();
        if is_first {
            shared.blocked = None;
        }
        Ok(is_relieved)
    }
}

#[cfg(test)]
mod tests;
