//! Limits compactions to the free space: a merge that does not fit gives way to a demotion, or to smaller merges ([`PickEnv::room`]).

use super::{Inner, Shared, no_space};
use crate::compaction::{self, Choice, PickEnv, Plan, Young};
use crate::db::family::FamilyCore;
use crate::error::{Error, Result};
use crate::manifest::Version;
use sinter_storage::store::Temperature;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes that a merge may write at most.
#[derive(Debug, Clone, Copy)]
pub(in crate::db) struct Demand {
    /// Bytes on the primary store.
    pub primary: u64,
    /// Another store, and bytes there.
    pub elsewhere: Option<(Temperature, u64)>,
}

/// Who asks for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::db) enum Asks {
    Scheduler,
    /// A compaction on request: nothing else compacts the family meanwhile.
    Caller,
}

impl Inner {
    /// The choice of `pick` if it finds space, or else one that frees some: a demotion, or the choice of `pick` with less space.
    /// [`Error::NoSpace`]: nothing finds space now.
    pub(in crate::db) fn limit(
        &self,
        shared: &Shared,
        (version, env): (&Version, &PickEnv<'_>),
        asks: Asks,
        pick: &dyn Fn(&PickEnv<'_>) -> Choice,
    ) -> Result<Choice> {
        let pick = |env: &PickEnv<'_>| self.keep_demoted(shared, env, pick(env));
        let usual = pick(env);
        let Some(free) = self.media.free(Temperature::Unknown) else { return Ok(usual) };
        let (reserve, reserved, is_scarce) =
            (self.reserve(shared, free), self.space.reservations.on(Temperature::Unknown), self.is_scarce());
        let room = |left: u64| free.saturating_sub(left).saturating_sub(reserved).min(self.refused(Temperature::Unknown));
        let fits = |choice: &Choice, room: u64| match choice {
            Choice::Merge(plan) => self.demand(env, plan).primary <= room,
            choice => *choice != Choice::Nothing,
        };
        let is_blocked = env.two_media && matches!(shared.blocked, Some(Error::NoSpace(_)));
        let is_usual = match &usual {
            Choice::Nothing => !is_scarce,
            Choice::Move(_) | Choice::Drop(_) => true,
            Choice::Merge(_) => !is_scarce && fits(&usual, if is_blocked { 0 } else { room(reserve.flushes) }),
        };
        let demotable = if is_usual { 0 } else { self.demotable(shared) };
        let is_short = is_blocked || free < reserve.flushes.saturating_add(reserved);
        if asks == Asks::Scheduler && (is_short || demotable > 0) {
            let demotion = self.demotion(shared, version, env);
            if demotion != Choice::Nothing {
                return Ok(demotion);
            }
        }
        if is_usual {
            return Ok(usual);
        }
        if demotable > 0 {
            // The merge may still find space where nothing can be demoted now, but not beside others.
            return Ok(if asks == Asks::Caller || shared.running == 0 { usual } else { Choice::Nothing });
        }
        // Nearly all of the reserve is lent to no more than one merge, if somebody asks for it or nothing else can be done: deletions that
        // took the space of merges free nothing without one.
        let may_lend = if asks == Asks::Caller { reserved == 0 } else { is_scarce && shared.running == 0 };
        for left in std::iter::once(reserve.flushes).chain(may_lend.then(|| reserve.least())) {
            let smaller = pick(&PickEnv { room: room(left), ..*env });
            // Deletions come first when space is scarce.
            let choices = if is_scarce { [smaller, usual.clone()] } else { [usual.clone(), smaller] };
            if let Some(choice) = choices.into_iter().find(|choice| fits(choice, room(left))) {
                return Ok(choice);
            }
        }
        if usual == Choice::Nothing { Ok(usual) } else { Err(no_space("compact")) }
    }

    /// Keeps demoted data down unless the fast medium has space for it twice, or it would go up and down for ever.
    fn keep_demoted(&self, shared: &Shared, env: &PickEnv<'_>, choice: Choice) -> Choice {
        let Choice::Merge(mut plan) = choice else { return choice };
        let rising = young_bytes(&plan);
        if let Some(hot) = plan.hot.as_mut().filter(|hot| env.two_media && !hot.spans.is_empty())
            && let Some(free) = self.media.free(Temperature::Unknown)
        {
            let kept = self.reserve(shared, free).merges.saturating_add(self.space.reservations.on(Temperature::Unknown));
            if env.room < u64::MAX || self.is_scarce() || free < kept.saturating_add(rising.saturating_mul(2)) {
                hot.spans.clear();
            }
        }
        Choice::Merge(plan)
    }

    /// Bytes that a merge may write: to the store of its output, except for what is too young for that; all of it to the primary store, if
    /// the other one has no space.
    pub(in crate::db) fn demand(&self, env: &PickEnv<'_>, plan: &Plan) -> Demand {
        let all = plan.bytes();
        let is_known = plan.tables().all(|table| table.newest_time > 0);
        let newest = plan.tables().map(|table| table.newest_time).max().filter(|_| is_known).unwrap_or(0);
        let newest = plan.hot.as_ref().map_or(newest, |hot| hot.old.time.max(1));
        let temperature = env.settings.temperature_of(plan.output_level, newest, env.settings.default_write_temperature, env.now);
        match self.media.serving(temperature) {
            place if place != Temperature::Unknown && self.available(place) >= all => {
                Demand { primary: young_bytes(plan), elsewhere: Some((place, all)) }
            }
            _ => Demand { primary: all, elsewhere: None },
        }
    }

    /// The demotion that frees space next, if any. None while another one runs or a checkpoint blocks deletions: moving data would free no
    /// space.
    pub(in crate::db) fn demotion(&self, shared: &Shared, version: &Version, env: &PickEnv<'_>) -> Choice {
        if shared.demoting || shared.hold_deletes > 0 { Choice::Nothing } else { self.possible_demotion(version, env) }
    }

    /// Like `demotion`, but ignores running demotions and checkpoints.
    fn possible_demotion(&self, version: &Version, env: &PickEnv<'_>) -> Choice {
        let Some(place) = self.place_of_old(env).filter(|_| env.two_media) else { return Choice::Nothing };
        compaction::demote(version, env, &|table| self.is_on_primary(table), self.available(place))
    }

    /// The store of data that has just become old.
    pub(super) fn place_of_old(&self, env: &PickEnv<'_>) -> Option<Temperature> {
        Some(self.place_of_last(self.media.tiers.as_ref()?, env.settings, &env.young?))
    }

    /// Bytes of the primary store that could be demoted if nothing ran, before the other stores are full but for their reserve, which is
    /// the space of one merge. Running jobs do not change how a full medium is dealt with.
    pub(in crate::db) fn demotable(&self, shared: &Shared) -> u64 {
        // When space is scarce, the other stores are full as well, but for space that deletions may have freed there.
        if self.media.tiers.is_none() || self.is_scarce() {
            return 0;
        }
        self.demotable_though_scarce(shared)
    }

    pub(super) fn demotable_though_scarce(&self, shared: &Shared) -> u64 {
        let nothing = HashSet::new();
        let of = |core: &Arc<FamilyCore>| {
            let version = core.view.load().tree.version.clone();
            self.with_env(shared, core, |env| {
                let env = PickEnv { busy: &nothing, busy_output: &[], ..*env };
                if self.possible_demotion(&version, &env) == Choice::Nothing {
                    return 0;
                }
                let room = self.place_of_old(&env).map_or(0, |place| self.available(place));
                let room = room.saturating_sub(self.bytes_of_merge(env.settings));
                compaction::demotable(&version, &env, &|table| self.is_on_primary(table), room)
            })
        };
        let placed = shared.families.values().filter(|core| self.media.tiers.is_some() && core.settings.load().places_by_age());
        placed.map(of).fold(0, u64::saturating_add)
    }

    /// A demotion of any family that is possible now.
    pub(in crate::db) fn any_demotion(&self, shared: &Shared) -> Option<(Arc<FamilyCore>, Choice)> {
        self.media.tiers.as_ref()?;
        shared.families.values().filter(|core| !shared.manual.contains(&core.id)).find_map(|core| {
            let version = core.view.load().tree.version.clone();
            let choice = self.with_env(shared, core, |env| self.demotion(shared, &version, env));
            (choice != Choice::Nothing).then(|| (core.clone(), choice))
        })
    }

    /// Returns whether a demotion runs or is possible, now, or when running jobs have ended or files are deleted again: so a write or job
    /// that found no space may try again.
    pub(in crate::db) fn may_demote(&self, shared: &Shared) -> bool {
        // A lack of descriptors passes without a move.
        if self.media.tiers.is_none() || matches!(shared.blocked, Some(Error::NoDescriptors(_))) {
            return false;
        }
        // Without threads, whoever tries again does so at once.
        let is_held_up = shared.running > 0 || (shared.hold_deletes > 0 && !self.inline());
        let has_two_media = |core: &Arc<FamilyCore>| self.with_env(shared, core, |env| env.two_media);
        shared.demoting || self.any_demotion(shared).is_some() || (is_held_up && shared.families.values().any(has_two_media))
    }
}

/// Bytes of a merge's input that are too young for the last level.
fn young_bytes(plan: &Plan) -> u64 {
    let Some(hot) = plan.hot.as_ref().filter(|hot| !hot.spans.is_empty()) else { return 0 };
    let young = Young { after: hot.old.seq, since: hot.old.time };
    plan.tables().map(|table| table.bytes.saturating_sub(young.due(table))).fold(0, u64::saturating_add)
}
