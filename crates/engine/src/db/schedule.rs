//! Background work in two steps: `next_job` picks a job from the shared state, under its lock, and marks it as running; `run_job` does the
//! work. Background threads loop over the two. Without threads the writer runs jobs itself, in order, so that everything repeats exactly.

use super::family::FamilyCore;
use super::jobs::{Ended, Job, PanicGuard, Takes, Work, added, unpack};
use super::mem::{Mem, tombstones_seen_at};
use super::mover::Moved;
use super::space::{Asks, Reserved};
use super::{Inner, Shared};
use crate::compaction::job::{self, Context, Outcome, Report};
use crate::compaction::split_by_age::Placed;
use crate::compaction::throttle::{Pacing, Urgency};
use crate::compaction::{self, Hot, PickEnv, Plan, REST_SECONDS, Young, base_level};
use crate::error::{Error, Result};
use crate::ledger::{Histogram, Ticker};
use crate::manifest::{Change, Edit, RunLocation, TableChange};
use crate::settings::{Codecs, FamilySettings, Preclude};
use crate::table::Table;
use crate::tiering::age::Cut;
use sinter_storage::store::{FileId, Reason, Temperature, Tiers};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A family is being loaded if its last memtable became full less than this ago, nanoseconds.
const LOADING_NS: u64 = 2_000_000_000;

impl Inner {
    /// The most urgent job, marked as running.
    pub(super) fn next_job(&self, shared: &mut Shared, takes: Takes) -> Option<Job> {
        if shared.closing || self.end.is_over() {
            return None;
        }
        // While background work fails for lack of space, moves of tables on the wrong tier come first, then demotions.
        if matches!(shared.blocked, Some(Error::NoSpace(_))) && matches!(takes, Takes::Jobs | Takes::All) {
            let moves = if takes == Takes::All { self.next_move(shared) } else { None };
            if let Some(job) = moves.or_else(|| self.next_demotion(shared)) {
                return Some(job);
            }
        }
        let flush = if matches!(takes, Takes::Compactions | Takes::Moves) { None } else { self.next_flush(shared) };
        if flush.is_some() || takes == Takes::Flushes {
            return flush;
        }
        let compaction = if takes == Takes::Moves { None } else { self.next_compaction(shared) };
        if compaction.is_some() || !matches!(takes, Takes::Moves | Takes::All) {
            return compaction;
        }
        self.next_move(shared)
    }

    fn next_flush(&self, shared: &mut Shared) -> Option<Job> {
        if shared.blocked.is_some() && shared.jobs.demoting {
            // A flush would fail over and over until the running demotion has freed space.
            return None;
        }
        let waiting = shared.families.values().filter(|core| !shared.jobs.flushing.contains(&core.id));
        let (_, core) = waiting.filter_map(|core| Some((core.view.load().full.last()?.log, core.clone()))).min_by_key(|w| w.0)?;
        shared.jobs.start_flush(core.id);
        let mems = core.view.load().full.clone();
        Some(Job::Flush { core, mems })
    }

    fn next_compaction(&self, shared: &mut Shared) -> Option<Job> {
        if !self.may_compact(shared) {
            return None;
        }
        let (core, work, plan) = self.pick_compaction(shared)?;
        shared.jobs.turn = core.id.wrapping_add(1);
        self.mark(shared, &core, work, &plan);
        Some(Job::Compact { core, work, plan })
    }

    fn pick_compaction(&self, shared: &Shared) -> Option<(Arc<FamilyCore>, Work, Plan)> {
        let in_turn = shared.families.range(shared.jobs.turn..).chain(shared.families.range(..shared.jobs.turn));
        in_turn
            .map(|(_, core)| core)
            .filter(|core| !shared.jobs.manual.contains(&core.id))
            .find_map(|core| self.pick_for(shared, core).map(|(work, plan)| (core.clone(), work, plan)))
    }

    /// The next compaction of a family.
    fn pick_for(&self, shared: &Shared, core: &FamilyCore) -> Option<(Work, Plan)> {
        let version = core.view.load().tree.version.clone();
        self.with_env(shared, core, |env| {
            let pick = |env: &PickEnv<'_>| compaction::picker(env.settings.style).pick(&version, env);
            // Drops of whole tables come first: they need no space and free some.
            let choice =
                compaction::drop_hidden(&version, env).map_or_else(|| self.limit(shared, (&version, env), Asks::Scheduler, &pick), Ok);
            // An error means that no compaction fits now; the next pick may find space.
            choice.ok().and_then(unpack)
        })
    }

    /// The next demotion as a job, marked as running.
    pub(super) fn next_demotion(&self, shared: &mut Shared) -> Option<Job> {
        let (core, choice) = self.any_demotion(shared)?;
        let (work, plan) = unpack(choice)?;
        self.mark(shared, &core, work, &plan);
        Some(Job::Compact { core, work, plan })
    }

    /// Returns whether a compaction could begin now.
    pub(super) fn is_compaction_due(&self, shared: &Shared) -> bool {
        self.pick_compaction(shared).is_some()
    }

    /// Returns whether the tree is at rest: no job runs, no memtable waits for its flush, and no compaction is due.
    pub(super) fn is_idle(&self, shared: &Shared) -> bool {
        let flushed = || shared.families.values().all(|core| core.view.load().full.is_empty());
        shared.jobs.running == 0 && shared.jobs.manual.is_empty() && flushed() && !self.is_compaction_due(shared)
    }

    /// Calls `pick` with the inputs of a picker besides the version.
    pub(super) fn with_env<T>(&self, shared: &Shared, core: &FamilyCore, pick: impl FnOnce(&PickEnv<'_>) -> T) -> T {
        let settings = self.settings_of(core);
        let outputs: Vec<_> = shared.jobs.outputs.iter().filter(|o| o.0 == core.id).map(|o| (o.1, o.2.clone())).collect();
        let damaged = shared.damaged.keys().copied().collect();
        let tree = core.view.load().tree.clone();
        // Read before the snapshots: for a snapshot taken in between, at least as much has expired.
        let expired = self.outlived(shared, core).unwrap_or(Cut::NONE);
        let snapshots = self.snapshots.list(|| self.visible());
        let young = self.young(shared, core, &settings);
        pick(&PickEnv {
            settings: &settings,
            busy: &shared.jobs.tables,
            damaged: &damaged,
            hidden: &tree.hidden,
            busy_output: &outputs,
            now: self.clock.unix_seconds(),
            oldest_snapshot: snapshots.first().copied().unwrap_or(0),
            newest_snapshot: snapshots.iter().nth_back(1).copied(),
            expired,
            loading: self.is_loading(shared, core),
            two_media: young.as_ref().is_some_and(|young| self.has_two_media(&settings, young)),
            young,
            unit: self.store.unit(),
            crowded: false,
            room: u64::MAX,
            rested: self.older_than(shared, REST_SECONDS).map_or(0, |old| old.seq),
        })
    }

    /// The effective settings of a family: temperatures that default to the tiers are filled in, and table sizes are limited by the medium.
    pub(super) fn settings_of(&self, core: &FamilyCore) -> Arc<FamilySettings> {
        let settings = core.settings.load_full().on_tiers(self.media.temperatures());
        let target_file_size_base = self.within_medium(settings.target_file_size_base);
        if target_file_size_base == settings.target_file_size_base {
            return settings;
        }
        Arc::new(FamilySettings { target_file_size_base, ..(*settings).clone() })
    }

    /// Returns whether data that has just become old belongs on a different tier from young data.
    fn has_two_media(&self, settings: &FamilySettings, young: &Young) -> bool {
        let Some(tiers) = &self.media.tiers else { return false };
        let (above, now) = (settings.num_levels.saturating_sub(2), self.clock.unix_seconds());
        let fast = tiers.serving(settings.temperature_of(above, now, settings.default_write_temperature, now));
        self.place_of_last(tiers, settings, young) != fast
    }

    /// Tier of data that has just become old.
    pub(super) fn place_of_last(&self, tiers: &Tiers, settings: &FamilySettings, young: &Young) -> Temperature {
        let (last, now) = (settings.num_levels.saturating_sub(1), self.clock.unix_seconds());
        tiers.serving(settings.temperature_of(last, young.since.max(1), settings.default_write_temperature, now))
    }

    /// Bounds of the data too young for a family's last level.
    pub(super) fn young(&self, shared: &Shared, core: &FamilyCore, settings: &FamilySettings) -> Option<Young> {
        // Without a known time everything may be young.
        let older_than = |age| self.older_than(shared, age).unwrap_or(Cut { seq: 0, time: 0 });
        let young = match settings.preclude_last_level_data_seconds {
            Preclude::Seconds(age) => {
                settings.places_by_age().then(|| older_than(age)).map(|old| Young { after: old.seq, since: old.time })
            }
            Preclude::Auto => self.chosen_young(shared, core, settings),
        }?;
        if settings.ttl_seconds == 0 {
            return Some(young);
        }
        // Expired data counts as old. Otherwise expired data that a snapshot needs would stay above the last level and be merged again and
        // again.
        let outlived = older_than(settings.ttl_seconds);
        Some(Young { after: young.after.max(outlived.seq), since: young.since.max(outlived.time) })
    }

    /// Returns whether the family is being loaded: a memtable became full within [`LOADING_NS`], and nobody waits for compactions to end,
    /// to free space, or to relieve writers. Idle threads check every second, so compactions put off by a load begin soon after it.
    fn is_loading(&self, shared: &Shared, core: &FamilyCore) -> bool {
        let filled = core.filled_ns.load(Ordering::Relaxed);
        let is_recent = || self.clock.monotonic_ns().saturating_sub(filled) < LOADING_NS;
        let is_full = || shared.blocked.is_some() || self.is_scarce();
        let is_waited_for = || shared.jobs.settling > 0 || is_full() || !self.pressure.is_free();
        !self.inline() && filled != 0 && is_recent() && !is_waited_for()
    }

    /// Marks a plan as running.
    pub(super) fn mark(&self, shared: &mut Shared, core: &FamilyCore, work: Work, plan: &Plan) {
        shared.jobs.start(core.id, plan);
        if work == Work::Merge {
            self.reserve(shared, core, plan);
        }
    }

    pub(super) fn unmark(&self, shared: &mut Shared, core: &FamilyCore, plan: &Plan) {
        self.space.reservations.remove(plan);
        shared.jobs.end(core.id, plan);
    }

    /// Runs a job and publishes its result.
    pub(super) fn run_job(&self, job: Job) -> Result<()> {
        self.obsolete.clear();
        let result = self.do_job(job);
        // The job no longer holds the inputs that it replaced.
        self.obsolete.clear();
        result
    }

    fn do_job(&self, job: Job) -> Result<()> {
        let _guard = PanicGuard { inner: self, jobs: 1 };
        match job {
            Job::Flush { core, mems } => {
                let result = self.after_no_space(self.flush(&core, mems));
                let mut shared = self.shared.lock();
                shared.jobs.end_flush(core.id);
                let result = self.note_ended(&mut shared, result);
                self.refresh_after(&mut shared, &core);
                result
            }
            Job::Compact { core, work, plan } => {
                let result = self.after_no_space(self.compact(&core, work, &plan));
                let damaged = result.as_ref().err().map_or_else(Vec::new, |error| self.find_damaged(&core, &plan, error));
                let result = if damaged.is_empty() { result } else { Ok(Ended::Unchanged) };
                let mut shared = self.shared.lock();
                self.unmark(&mut shared, &core, &plan);
                let gives_way = self.report(&shared, &core, (work == Work::Merge, &plan), &result);
                shared.jobs.moving &= !matches!(work, Work::Relocate(_));
                self.set_aside(&mut shared, &core, damaged);
                let result = if gives_way { result.map(drop) } else { self.note_ended(&mut shared, result) };
                self.refresh_after(&mut shared, &core);
                result
            }
        }
    }

    /// Takes the result of background work. After a lack of space or descriptors, writers that need background work get the error until
    /// some work succeeds. Any other error ends the handle; damaged inputs of a compaction were handled before.
    pub(super) fn note_ended(&self, shared: &mut Shared, result: Result<Ended>) -> Result<()> {
        self.changed.notify_all();
        match &result {
            Ok(Ended::Published) => {
                shared.blocked = None;
                self.work.notify_all();
            }
            // Nothing changed, so the lack of space may persist: `blocked` stays set. It is cleared only if no work is left that could
            // clear it.
            Ok(Ended::Unchanged) => {
                if self.is_idle(shared) {
                    shared.blocked = None;
                }
                self.work.notify_all();
            }
            Ok(Ended::Stopped) => {}
            // No thread is woken: it would meet the same error at once and wake this thread in turn.
            Err(error) if error.passes() => shared.blocked = Some(error.clone()),
            // The thread that closes the database returns the error.
            Err(error) if shared.closing => drop(shared.failed.get_or_insert_with(|| error.clone())),
            Err(error) => {
                shared.failed.get_or_insert_with(|| error.clone());
                self.poison("background job", error.clone());
            }
        }
        result.map(drop)
    }

    /// Writes full memtables of a family to level 0.
    fn flush(&self, core: &Arc<FamilyCore>, mems: Vec<Arc<Mem>>) -> Result<Ended> {
        let start = self.clock.monotonic_ns();
        if self.shared.lock().families.len() > 1 {
            // The tables of the flush are durable, the log perhaps not. Without a sync, a power cut could keep this family's writes and
            // lose older ones of other families.
            match self.sync_retired() {
                // The database was closed meanwhile; the closing thread has synced the segments.
                Err(Error::Closed(_)) if self.end.stop_jobs.load(Ordering::Acquire) => return Ok(Ended::Stopped),
                synced => synced?,
            }
        }
        let Some(report) = self.write_level0(core, &mems, Some(&|| self.urgency_of_flush(core)))? else { return Ok(Ended::Stopped) };
        // Flushes of a family run one at a time, so a larger run number means newer data.
        let run = self.new_number();
        let tables = report.outputs.into_iter().map(|info| added(core.id, RunLocation { level: 0, run }, info)).collect();
        let mut edit = Edit { tables, ..Edit::default() };
        {
            let view = core.view.load();
            let kept = view.full.len().saturating_sub(mems.len());
            let next = view.full[..kept].last().unwrap_or(&view.mem).log;
            edit.flushed_logs = vec![(core.id, next)];
        }
        edit.last_seq = Some(self.visible());
        self.advance_idle(core.id, &mut edit);
        self.publish(core, edit, mems)?;
        self.statistics.record(Histogram::FlushTime, self.clock.monotonic_ns().saturating_sub(start));
        Ok(Ended::Published)
    }

    /// Writes memtables (newest first) to tables that no manifest names yet. `None`: the job was told to stop.
    pub(super) fn write_level0(&self, core: &Arc<FamilyCore>, mems: &[Arc<Mem>], urgency: Option<Urgency<'_>>) -> Result<Option<Report>> {
        // The sample says that the newest entries were written by now.
        self.take_sample(&mut self.shared.lock());
        self.finished(self.with_context(core, None, urgency, |context| self.level0(mems, &context)))
    }

    /// Writes memtables (newest first) to tables, in the store and for the snapshots that `context` gives.
    pub(super) fn level0(&self, mems: &[Arc<Mem>], context: &Context<'_>) -> Result<Outcome> {
        let tombstones = tombstones_seen_at(mems, context.snapshots);
        let cursors = mems.iter().filter(|m| !m.points.is_empty()).map(|m| m.points.cursor()).collect();
        let oldest = mems.iter().map(|m| m.created).min().unwrap_or(0);
        let times = (oldest, self.clock.unix_seconds().max(oldest));
        job::flush(cursors, &tombstones, times, context)
    }

    /// Records in the edit that families without unflushed data need no segment before the active one. Goes through the families by the
    /// oldest segment that they need and stops at the first with unflushed data: that family keeps its segment and all later ones alive.
    fn advance_idle(&self, but: u32, edit: &mut Edit) {
        // Read before the memtables are checked: a write that comes after the check goes to this segment or a later one.
        let active = self.logs.active();
        let shared = self.shared.lock();
        for (_, id) in shared.state.families_by_log().take_while(|(log, _)| *log < active) {
            let Some(core) = shared.families.get(&id).filter(|_| id != but) else { continue };
            let view = core.view.load();
            if !view.full.is_empty() || !view.mem.is_empty() {
                break;
            }
            edit.flushed_logs.push((id, active));
        }
    }

    fn compact(&self, core: &Arc<FamilyCore>, work: Work, plan: &Plan) -> Result<Ended> {
        let to = RunLocation { level: plan.output_level, run: plan.output_run };
        let above = plan.hot.as_ref().map(|hot| RunLocation { level: plan.output_level - 1, run: hot.run });
        let inputs =
            || plan.inputs.iter().flat_map(|i| i.tables.iter().map(move |t| (RunLocation { level: i.level, run: i.run }, t.number)));
        let mut tables: Vec<TableChange> = inputs()
            .map(|(from, number)| if work == Work::Move { Change::Move { from, to, number } } else { Change::Remove { from, number } })
            .map(|change| TableChange { family: core.id, change })
            .collect();
        match work {
            Work::Move | Work::Drop => {}
            Work::Merge => {
                let Some(report) = self.merge_tables(core, plan)? else { return Ok(Ended::Stopped) };
                tables.extend(report.outputs.into_iter().map(|info| added(core.id, to, info)));
                // Both levels change in one edit, so no reader sees an entry on neither level, or on both.
                tables.extend(report.hot.into_iter().map(|info| added(core.id, above.unwrap_or(to), info)));
            }
            Work::Relocate(wanted) => match self.move_table(core, plan, wanted)? {
                Moved::To(copy) => tables.push(added(core.id, to, *copy)),
                Moved::NoRoom => return Ok(Ended::Unchanged),
                Moved::Stopped => return Ok(Ended::Stopped),
            },
        }
        let edit = Edit { tables, ..Edit::default() };
        self.publish(core, edit, Vec::new())?;
        match work {
            Work::Relocate(_) => self.moves.count(plan.bytes()),
            Work::Move => core.auto.moved(&plan.raw_bytes_by_level()),
            Work::Drop | Work::Merge => {}
        }
        Ok(Ended::Published)
    }

    /// Merges tables; `None`: the job was told to stop. If the medium above the last level has no space for young data, merges again with
    /// the last level as the only output, which frees space above.
    fn merge_tables(&self, core: &Arc<FamilyCore>, plan: &Plan) -> Result<Option<Report>> {
        let merge = |plan: &Plan| {
            let urgency: Urgency<'_> = &|| self.urgency(core);
            self.finished(self.with_context(core, Some(plan), Some(urgency), |context| job::run(plan, &context)))
        };
        let is_held_down = plan.hot.as_ref().is_some_and(|hot| hot.spans.is_empty());
        let (mut merged, mut found_no_room) = (merge(plan), plan.reason == Reason::Room || is_held_down);
        if matches!(merged, Err(Error::NoSpace(_)))
            && !found_no_room
            && let Some(lower) = self.without_upper(core, plan)
        {
            (merged, found_no_room) = (merge(&lower), true);
        }
        let Some(report) = merged? else { return Ok(None) };
        let Placed { hot, cold, sunk } = report.placed;
        if found_no_room && sunk > 0 {
            let bytes: u64 = report.outputs.iter().map(|table| table.bytes).sum();
            let share = u128::from(bytes) * u128::from(sunk) / u128::from((cold + sunk).max(1));
            self.placer.note_sunk(sunk, share as u64);
        }
        self.statistics.add_all(&[
            (Ticker::CompactReadBytes, report.bytes_in),
            (Ticker::CompactWithoutThread, report.without_thread),
            (Ticker::PlacedHot, hot),
            (Ticker::PlacedCold, cold),
            (Ticker::PlacedSunk, sunk),
        ]);
        self.statistics.record(Histogram::CompactionTime, report.elapsed_ns);
        self.statistics.record(Histogram::NumFilesInSingleCompaction, plan.inputs.iter().map(|i| i.tables.len() as u64).sum());
        Ok(Some(report))
    }

    /// The plan with the last level as its only output, if that level lies on a tier that has space for the whole output.
    fn without_upper(&self, core: &FamilyCore, plan: &Plan) -> Option<Plan> {
        let (tiers, hot) = (self.media.tiers.as_ref()?, plan.hot.as_ref()?);
        let (settings, now) = (self.settings_of(core), self.clock.unix_seconds());
        let left = settings.temperature_of(plan.output_level, hot.old.time, settings.default_write_temperature, now);
        let free = tiers.free_bytes_of(left).ok()?;
        let has_room = tiers.serving(left) != Temperature::Unknown && free.is_none_or(|free| free >= plan.bytes());
        // The cut by age stays: young data keeps its sequence numbers, and is counted as demoted.
        has_room.then(|| Plan { hot: Some(Hot { spans: Vec::new(), ..hot.clone() }), ..plan.clone() })
    }

    /// The report of a job; `None` if it was cancelled, which is neither success nor failure. Deletes the files of a cancelled job.
    pub(super) fn finished(&self, outcome: Result<Outcome>) -> Result<Option<Report>> {
        match outcome? {
            Outcome::Done(report) => Ok(Some(report)),
            Outcome::Cancelled(files) => {
                files.iter().for_each(|n| drop(self.store.delete(FileId::table(*n))));
                Ok(None)
            }
        }
    }

    /// Calls `run` with the context of a job of the family. `plan`: the plan of a compaction, `None` for a flush. `urgency` limits the
    /// job's pauses; `None`: no pauses.
    pub(super) fn with_context<T>(
        &self,
        core: &Arc<FamilyCore>,
        plan: Option<&Plan>,
        urgency: Option<Urgency<'_>>,
        run: impl FnOnce(Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let settings = self.settings_of(core);
        let codecs = (settings.compression == Codecs::Auto).then(|| match plan {
            Some(plan) => core.auto.announce(plan.output_level, &plan.raw_bytes_by_level()),
            None => core.auto.announce(0, &[]),
        });
        self.review_codecs(core);
        self.review_placement(core);
        let shared = self.shared.lock();
        // Read before the snapshots, as in `with_env`.
        let expired = self.outlived(&shared, core);
        let snapshots = self.snapshots.list(|| self.visible());
        let apart = self.apart(&shared, core, expired);
        drop(shared);
        // Holds the tree alone: a view would keep its memtables in memory for as long as the job runs.
        let tree = core.view.load().tree.clone();
        let table = |number: u64| -> Result<Arc<Table>> {
            tree.table(number).cloned().ok_or_else(|| Error::invalid(format!("table {number} is not in the tree")))
        };
        let tick = || self.tick();
        run(Context {
            store: &*self.store,
            db: self.db,
            family: core.id,
            settings: &settings,
            base: base_level(&tree.version, &settings),
            codecs: codecs.as_ref(),
            create: &|id, hint| {
                let file = self.placer.create(id, hint)?;
                Ok(match plan.and_then(|plan| self.space.reservations.of(plan, self.media.serving(hint.temperature))) {
                    Some(reservation) => Box::new(Reserved { file, reservation }),
                    None => file,
                })
            },
            cache: &self.cache,
            table: &table,
            new_number: &|| self.new_number(),
            snapshots: &snapshots,
            is_copy: false,
            merge: core.merge.as_deref(),
            filter: core.filter.as_deref(),
            direct: self.settings.use_direct_io_for_flush_and_compaction,
            bytes_per_sync: self.settings.bytes_per_sync,
            threads: !self.inline(),
            packers: &self.packers,
            max_subcompactions: self.subcompactions(),
            cancel: &self.end.stop_jobs,
            clock: &*self.clock,
            pacing: urgency.filter(|_| !self.inline()).map(|urgency| Pacing {
                throttle: &self.throttle,
                room: &self.cpu,
                urgency,
                tick: &tick,
            }),
            expired,
            apart,
            zero_up_to: self.zero_up_to(core, &settings).map(|cut| self.unless_chosen(core, &settings, cut)),
            placement: self.placement(core, &settings),
            times: if settings.window() > 0 || settings.places_by_age() { self.shared.lock().state.times.clone() } else { Arc::default() },
        })
    }

    /// Runs jobs on this thread until none is due.
    pub(super) fn run_pending(&self) -> Result<()> {
        loop {
            let job = self.next_job(&mut self.shared.lock(), Takes::All);
            match job {
                Some(job) => self.run_or_demote(job)?,
                None => return Ok(()),
            }
        }
    }

    /// Runs a job. A lack of space is not an error if data can be demoted or a smaller merge replaces this one: the next job does that.
    pub(super) fn run_or_demote(&self, job: Job) -> Result<()> {
        match self.run_job(job) {
            Err(error @ Error::NoSpace(_)) => {
                let shared = self.shared.lock();
                if shared.blocked.is_none() || self.may_demote(&shared) { Ok(()) } else { Err(error) }
            }
            result => result,
        }
    }
}
