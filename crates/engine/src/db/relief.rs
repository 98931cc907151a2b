//! Room on a full fast medium, as long as the one of the last level has some: there, what is young sinks, too.
//!
//! The fast medium is the primary store, which has the log and what every other store found no room for. It is full for a family whose last
//! level lies elsewhere if background work failed for want of room, if it has less than two memtables take, one in the log and one on its
//! way to a table, or if it could not hold another merge above the last level. Then the next compaction takes tables that lie there down
//! to the last level (`compaction::relieve`), one job at a time, until that is over. Meanwhile writers wait; only where nothing can sink
//! any more are they told that there is no room.

use super::family::FamilyCore;
use super::schedule::{Job, Work, unpack};
use super::{Inner, Shared};
use crate::compaction::{self, PickEnv, Plan};
use crate::error::{Error, Result};
use crate::manifest::{TableInfo, Version};
use crate::settings::FamilySettings;
use sinter_storage::store::{FileId, Temperature};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes that stay free on the fast medium.
fn reserve(settings: &FamilySettings) -> u64 {
    settings.write_buffer_size.saturating_mul(2)
}

impl Inner {
    /// The next compaction of a family.
    pub(super) fn pick_for(&self, shared: &Shared, core: &FamilyCore) -> Option<(Work, Plan)> {
        let version = core.view.load().tree.version.clone();
        self.with_env(shared, core, |env| {
            let pick = || unpack(compaction::picker(env.settings.style).pick(&version, env));
            let Some(room) = self.room(shared, env) else { return pick() };
            let (reserve, relief) = (reserve(env.settings), || self.relief(shared, &version, env));
            if room < reserve
                && let Some(relief) = relief()
            {
                return Some(relief);
            }
            let (work, plan) = pick()?;
            let is_above = work == Work::Merge && plan.output_level + 1 < version.levels.len();
            if !is_above || plan.bytes().saturating_add(reserve) <= room {
                return Some((work, plan));
            }
            if shared.relieving { None } else { relief().or(Some((work, plan))) }
        })
    }

    /// Bytes that can still be written to the fast medium; `None` if that is not known, or a family's last level lies there as well.
    fn room(&self, shared: &Shared, env: &PickEnv<'_>) -> Option<u64> {
        let tiers = self.media.tiers.as_ref().filter(|_| env.two_media)?;
        if shared.blocked.is_some() { Some(0) } else { tiers.free_bytes_of(Temperature::Unknown).ok().flatten() }
    }

    /// What sinks to make room, if there is room for it. Nothing does while no file is deleted: none of it would make room.
    fn relief(&self, shared: &Shared, version: &Version, env: &PickEnv<'_>) -> Option<(Work, Plan)> {
        let (tiers, young) =
            (self.media.tiers.as_ref().filter(|_| env.two_media && !shared.relieving && shared.hold_deletes == 0)?, env.young?);
        let lies_there = |table: &TableInfo| tiers.place(FileId::table(table.number)) == Some(Temperature::Unknown);
        let room = self.room_on(tiers, self.place_of_last(tiers, env.settings, &young));
        unpack(compaction::relieve(version, env, &lies_there, room))
    }

    /// The same of any family.
    fn any_relief(&self, shared: &Shared) -> Option<(Arc<FamilyCore>, Work, Plan)> {
        self.media.tiers.as_ref()?;
        shared.families.values().filter(|core| !shared.manual.contains(&core.id)).find_map(|core| {
            let version = core.view.load().tree.version.clone();
            let (work, plan) = self.with_env(shared, core, |env| self.relief(shared, &version, env))?;
            Some((core.clone(), work, plan))
        })
    }

    /// As a job, marked as running.
    pub(super) fn next_relief(&self, shared: &mut Shared) -> Option<Job> {
        let (core, work, plan) = self.any_relief(shared)?;
        self.mark(shared, &core, &plan);
        Some(Job::Compact { core, work, plan })
    }

    /// Something sinks to make room, or can, now, or when what runs has ended or files are deleted again: so whoever found
    /// none may try again.
    pub(super) fn can_relieve(&self, shared: &Shared) -> bool {
        let may_sink = |core: &Arc<FamilyCore>| self.with_env(shared, core, |env| env.two_media);
        // Without threads, whoever tries again does so at once.
        let is_held_up = shared.running > 0 || (shared.hold_deletes > 0 && !self.inline());
        let may_soon = || self.media.tiers.is_some() && is_held_up && shared.families.values().any(may_sink);
        shared.relieving || self.any_relief(shared).is_some() || may_soon()
    }

    /// The family's writers have to wait until something has sunk.
    pub(super) fn awaits_relief(&self, shared: &Shared, core: &FamilyCore) -> bool {
        let is_full = |env: &PickEnv<'_>| self.room(shared, env).is_some_and(|room| room < reserve(env.settings));
        self.media.tiers.is_some() && self.with_env(shared, core, is_full) && self.can_relieve(shared)
    }

    /// After a job or a write that found no room: true if there may be some now.
    pub(super) fn await_relief(&self, error: &Error) -> Result<bool> {
        let mut shared = self.shared.lock();
        if self.inline() {
            let Some(job) = self.next_relief(&mut shared) else { return Ok(false) };
            drop(shared);
            return self.run_job(job).map(|()| true);
        }
        // The threads look for what can sink, as long as it says that there is no room.
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
