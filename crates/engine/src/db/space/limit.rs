//! Limits compactions to the free space: a merge that does not fit is replaced by a demotion, or by smaller merges ([`PickEnv::room`]).

use super::{Inner, Shared, no_space};
use crate::compaction::{self, Choice, PickEnv, Plan, Young};
use crate::db::family::FamilyCore;
use crate::error::{Error, Result};
use crate::manifest::Version;
use sinter_storage::store::Temperature;
use std::collections::HashSet;
use std::sync::Arc;

/// The caller for which a compaction is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::db) enum Asks {
    Scheduler,
    /// A manual compaction: no other job compacts the family meanwhile.
    Caller,
}

impl Inner {
    /// Returns the choice of `pick` if the choice fits into the free space; otherwise a demotion, or what `pick` chooses when told of less
    /// space. [`Error::NoSpace`]: no compaction fits now.
    pub(in crate::db) fn limit(
        &self,
        shared: &Shared,
        (version, env): (&Version, &PickEnv<'_>),
        asks: Asks,
        pick: &dyn Fn(&PickEnv<'_>) -> Choice,
    ) -> Result<Choice> {
        let pick = |env: &PickEnv<'_>| self.keep_demoted(shared, env, pick(env));
        let (usual, is_scarce) = (pick(env), self.is_scarce());
        // Moves and drops of tables need no space.
        let needs_none = matches!(usual, Choice::Move(_) | Choice::Drop(_)) || (usual == Choice::Nothing && !is_scarce);
        // A survey goes through all families: only where its result matters.
        let is_asked = env.two_media || !needs_none;
        let Some(primary) = is_asked.then(|| self.survey(shared)).flatten() else { return Ok(usual) };
        let fits = |choice: &Choice, limit: u64| match choice {
            Choice::Merge(plan) => self.demand(env, plan).0 <= limit,
            choice => *choice != Choice::Nothing,
        };
        let is_blocked = env.two_media && matches!(shared.blocked, Some(Error::NoSpace(_)));
        let usual_limit = if is_blocked { 0 } else { primary.limit(primary.reserve.flushes) };
        let is_usual = needs_none || (!is_scarce && fits(&usual, usual_limit));
        let demotable = if is_usual || is_scarce { 0 } else { self.demotable(shared) };
        if asks == Asks::Scheduler && (usual_limit == 0 || demotable > 0) {
            let demotion = self.demotion(shared, version, env);
            if demotion != Choice::Nothing {
                return Ok(demotion);
            }
        }
        if is_usual {
            return Ok(usual);
        }
        if demotable > 0 {
            // Data can be demoted, but not now. The merge is tried if no other job runs; beside one it would hardly find space.
            return Ok(if asks == Asks::Caller || shared.jobs.running == 0 { usual } else { Choice::Nothing });
        }
        // One merge at a time may use the reserve of flushes: a manual one, or one without which nothing becomes free. Deletions that used
        // up the space of merges, for example, free nothing until a merge applies them.
        let is_alone = if asks == Asks::Caller { primary.reserved == 0 } else { is_scarce && shared.jobs.running == 0 };
        let last = is_alone.then(|| primary.limit(primary.reserve.least()));
        for limit in std::iter::once(primary.limit(primary.reserve.flushes)).chain(last) {
            let smaller = pick(&PickEnv { room: limit, ..*env });
            // With less space, `pick` chooses deletions first: that choice is preferred when space is scarce.
            let choices = if is_scarce { [smaller, usual.clone()] } else { [usual.clone(), smaller] };
            if let Some(choice) = choices.into_iter().find(|choice| fits(choice, limit)) {
                return Ok(choice);
            }
        }
        if usual == Choice::Nothing { Ok(usual) } else { Err(no_space("compact")) }
    }

    /// Clears a merge's upper output, so that demoted data stays on the last level, unless the fast medium has twice the space that the
    /// promoted data needs: otherwise data would be promoted and demoted over and over.
    fn keep_demoted(&self, shared: &Shared, env: &PickEnv<'_>, choice: Choice) -> Choice {
        let Choice::Merge(mut plan) = choice else { return choice };
        let rising = young_bytes(&plan);
        if let Some(hot) = plan.hot.as_mut().filter(|hot| env.two_media && !hot.spans.is_empty())
            && let Some(primary) = self.survey(shared)
            && (env.room < u64::MAX || self.is_scarce() || primary.limit(primary.reserve.merges) < rising.saturating_mul(2))
        {
            hot.spans.clear();
        }
        Choice::Merge(plan)
    }

    /// Most bytes that a merge may write to the primary store, and the tier to which its output belongs, if that tier has space. Then the
    /// primary store gets only the data that is too young for the tier; otherwise it may get all.
    pub(in crate::db) fn demand(&self, env: &PickEnv<'_>, plan: &Plan) -> (u64, Option<Temperature>) {
        let all = plan.bytes();
        let is_known = plan.tables().all(|table| table.newest_time > 0);
        let newest = plan.tables().map(|table| table.newest_time).max().filter(|_| is_known).unwrap_or(0);
        let newest = plan.hot.as_ref().map_or(newest, |hot| hot.old.time.max(1));
        let temperature = env.settings.temperature_of(plan.output_level, newest, env.settings.default_write_temperature, env.now);
        let place = self.media.serving(temperature);
        let is_elsewhere = place != Temperature::Unknown && self.available(place) >= all;
        if is_elsewhere { (young_bytes(plan), Some(place)) } else { (all, None) }
    }

    /// The next demotion, if any. None while another one runs, or while a checkpoint blocks deletions: moving data would free no space.
    pub(in crate::db) fn demotion(&self, shared: &Shared, version: &Version, env: &PickEnv<'_>) -> Choice {
        if shared.jobs.demoting || shared.hold_deletes > 0 { Choice::Nothing } else { self.possible_demotion(version, env) }
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

    /// Bytes of the primary store that could be demoted if no job ran, until the free space of the colder tier is down to its reserve, the
    /// space of one merge. Running jobs are ignored, so that their begin and end do not change how a full medium is handled.
    pub(super) fn demotable(&self, shared: &Shared) -> u64 {
        let nothing = HashSet::new();
        let of = |core: &Arc<FamilyCore>| {
            let version = core.view.load().tree.version.clone();
            self.with_env(shared, core, |env| {
                let env = PickEnv { busy: &nothing, busy_output: &[], ..*env };
                let room = self.place_of_old(&env).map_or(0, |place| self.available(place));
                let bytes = self.bytes_on_primary(version.tables().map(|(.., table)| table));
                let is_possible = self.possible_demotion(&version, &env) != Choice::Nothing;
                if is_possible { bytes.min(room.saturating_sub(self.bytes_of_merge(env.settings))) } else { 0 }
            })
        };
        let placed = shared.families.values().filter(|core| self.media.tiers.is_some() && core.settings.load().places_by_age());
        placed.map(of).fold(0, u64::saturating_add)
    }

    /// The first demotion that is possible now, in any family without a manual compaction.
    pub(in crate::db) fn any_demotion(&self, shared: &Shared) -> Option<(Arc<FamilyCore>, Choice)> {
        self.media.tiers.as_ref()?;
        shared.families.values().filter(|core| !shared.jobs.manual.contains(&core.id)).find_map(|core| {
            let version = core.view.load().tree.version.clone();
            let choice = self.with_env(shared, core, |env| self.demotion(shared, &version, env));
            (choice != Choice::Nothing).then(|| (core.clone(), choice))
        })
    }

    /// Returns whether a write or job that found no space should try again: a demotion runs, is possible now, or may become possible when
    /// running jobs end or a checkpoint no longer blocks deletions.
    pub(in crate::db) fn may_demote(&self, shared: &Shared) -> bool {
        // Demotions do not help against a lack of file descriptors.
        if self.media.tiers.is_none() || matches!(shared.blocked, Some(Error::NoDescriptors(_))) {
            return false;
        }
        // Without threads the caller would retry at once, in a busy loop.
        let is_held_up = shared.jobs.running > 0 || (shared.hold_deletes > 0 && !self.inline());
        let has_two_media = |core: &Arc<FamilyCore>| self.with_env(shared, core, |env| env.two_media);
        shared.jobs.demoting || self.any_demotion(shared).is_some() || (is_held_up && shared.families.values().any(has_two_media))
    }
}

/// Bytes of a merge's input that are too young for the last level.
fn young_bytes(plan: &Plan) -> u64 {
    let Some(hot) = plan.hot.as_ref().filter(|hot| !hot.spans.is_empty()) else { return 0 };
    let young = Young { after: hot.old.seq, since: hot.old.time };
    plan.tables().map(|table| table.bytes.saturating_sub(young.due(table))).fold(0, u64::saturating_add)
}
