//! Families, flushes and manual compactions.

use super::family::{Family, FamilyCore, Outlived};
use super::insert::FamilyWriter;
use super::jobs::{Job, Takes, unpack};
use super::mem::{Mem, MemWriter};
use super::space::Asks;
use super::view::{OpenTree, View};
use super::{DEFAULT_FAMILY, Db, Inner, Shared, callback};
use crate::compaction::auto_codecs::Auto;
use crate::compaction::{self, ManualRange, PickEnv};
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::manifest::{Edit, NewFamily, Version};
use crate::operator::{CompactionFilter, MergeOperator};
use crate::settings::{Codecs, FamilySettings};
use arc_swap::ArcSwap;
use parking_lot::MutexGuard;
use sinter_storage::store::FileId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Merge operator and compaction filter of a family.
type Plugins = (Option<Arc<dyn MergeOperator>>, Option<Arc<dyn CompactionFilter>>);

/// Longest name of a family, bytes.
const MAX_NAME: usize = 255;

/// Refuses names that could not be told apart in reports.
pub(super) fn check_family_name(name: &str) -> std::result::Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!("{name:?} is no name for a column family: 1 to {MAX_NAME} bytes without control characters"));
    }
    Ok(())
}

fn validated(settings: &FamilySettings) -> Result<()> {
    settings.validate().map_err(|complaints| Error::Invalid(complaints.join("; ")))
}

impl Db {
    /// Creates a column family; durable when it returns. Buffered writes before it are not made durable by that: a power cut may leave the
    /// family and take them. Writes to the family come after them in the one log of all families, so that none of these survives
    /// without all logged writes before it.
    pub fn create_family(&self, name: &str, settings: FamilySettings) -> Result<Family> {
        self.create_family_with(name, settings, None, None)
    }

    /// [`Db::create_family`] with a merge operator and a compaction filter.
    pub fn create_family_with(
        &self,
        name: &str,
        settings: FamilySettings,
        merge: Option<Arc<dyn MergeOperator>>,
        filter: Option<Arc<dyn CompactionFilter>>,
    ) -> Result<Family> {
        let handle = self.inner.handle;
        let merge = merge.map(|merge| callback::operator(handle, merge));
        let filter = filter.map(|filter| callback::filter(handle, filter));
        let mut families = self.create_all(&[(name, settings)], merge.as_ref(), filter.as_ref())?;
        families.pop().ok_or_else(|| Error::invalid("no column family was created"))
    }

    /// Creates several column families in one step and with one sync, which writers wait for: all of them, or none if one cannot be created
    /// or the power fails. Durable when it returns, like [`Db::create_family`]. The families come in the order of the names.
    pub fn create_families(&self, families: &[(&str, FamilySettings)]) -> Result<Vec<Family>> {
        self.create_all(families, None, None)
    }

    fn create_all(
        &self,
        families: &[(&str, FamilySettings)],
        merge: Option<&Arc<dyn MergeOperator>>,
        filter: Option<&Arc<dyn CompactionFilter>>,
    ) -> Result<Vec<Family>> {
        for (at, (name, settings)) in families.iter().enumerate() {
            check_family_name(name).map_err(Error::Invalid)?;
            validated(settings)?;
            if families[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(format!("column family {name:?} is named twice")));
            }
        }
        let inner = &self.inner;
        inner.check_outside()?;
        // Not within the lead: it is code of the user.
        let operator = merge.map(|m| m.name().to_owned()).unwrap_or_default();
        inner.lead_in_turn(|state| {
            inner.check_writable()?;
            let mut shared = inner.shared.lock();
            let active = inner.logs.active();
            let mut edit = Edit::default();
            for (id, (name, settings)) in (shared.state.next_family..=u32::MAX).zip(families) {
                if shared.state.family(name).is_some() {
                    return Err(Error::invalid(format!("column family {name:?} exists already")));
                }
                let num_levels = u8::try_from(settings.num_levels).map_err(|_| Error::invalid("too many levels"))?;
                let (name, operator) = ((*name).to_owned(), operator.clone());
                edit.new_families.push(NewFamily { id, name, settings: settings.to_toml(), operator, num_levels });
                edit.flushed_logs.push((id, active));
            }
            if families.is_empty() {
                return Ok(Vec::new());
            }
            inner.log_edit(&mut shared, &edit)?;
            let mut created = Vec::new();
            for (family, (_, settings)) in edit.new_families.into_iter().zip(families) {
                let mem = Mem::new(&inner.pool, active, inner.clock.unix_seconds());
                let core = inner.new_core(family, settings.clone(), mem.clone(), (merge.cloned(), filter.cloned()));
                let limit = inner.memtable_limit(&core);
                state.install(FamilyWriter { core: core.clone(), mem: MemWriter::new(mem), limit });
                shared.families.insert(core.id, core.clone());
                created.push(Family { core });
            }
            inner.plan_samples(&mut shared);
            Ok(created)
        })
    }

    /// Removes a column family with everything in it; durable when it returns. Handles to it give an error from now on. All logged writes
    /// before it are made durable first: a family that was copied to another one and dropped must not be gone together with its copy.
    pub fn drop_family(&self, family: &Family) -> Result<()> {
        if family.name() == DEFAULT_FAMILY {
            return Err(Error::invalid("the default column family cannot be dropped"));
        }
        let inner = &self.inner;
        inner.lead_in_turn(|state| {
            inner.check_writable()?;
            inner.check_family(family)?;
            inner.sync_log(state)?;
            let mut shared = inner.shared.lock();
            let edit = Edit { dropped_families: vec![family.id()], ..Edit::default() };
            inner.log_edit(&mut shared, &edit)?;
            family.core.dropped.store(true, Ordering::Release);
            if let Some(writer) = state.families.get_mut(family.id() as usize).and_then(Option::take) {
                state.active = state.active.saturating_sub(writer.mem.mem.memory() as u64);
            }
            state.full.retain(|id| *id != family.id());
            shared.families.remove(&family.id());
            inner.plan_samples(&mut shared);
            shared.damaged.retain(|_, damaged| damaged.family != family.id());
            let view = family.core.view.load_full();
            for table in view.tree.tables() {
                table.forget();
                // A running compaction may still be reading it: readers of a deleted file go on working.
                shared.doomed.push(FileId::table(table.info().number));
            }
            inner.obsolete.add(view.mems().map(|mem| mem.points.clone()), view.tree.tables().cloned().collect());
            inner.drop_old_logs(&mut shared);
            inner.refresh_pressure(&mut shared, &family.core);
            let doomed = inner.take_doomed(&mut shared);
            drop(shared);
            inner.delete_files(&doomed);
            Ok(())
        })
    }

    /// The settings that a family has now.
    pub fn family_settings(&self, family: &Family) -> Result<FamilySettings> {
        self.inner.check_family(family)?;
        Ok(FamilySettings::clone(&family.core.settings.load()))
    }

    /// Changes a family's settings, the style of its tree included; durable when it returns. Nothing is rewritten at once: the change
    /// applies as memtables fill and compactions come by. `num_levels` cannot be changed.
    pub fn change_family_settings(&self, family: &Family, settings: FamilySettings) -> Result<()> {
        validated(&settings)?;
        let inner = &self.inner;
        inner.lead_in_turn(|state| {
            inner.check_writable()?;
            inner.check_family(family)?;
            let levels = family.core.settings.load().num_levels;
            if levels != settings.num_levels {
                return Err(Error::invalid(format!("num_levels cannot be changed ({levels} to {})", settings.num_levels)));
            }
            let mut shared = inner.shared.lock();
            let edit = Edit { family_settings: vec![(family.id(), settings.to_toml())], ..Edit::default() };
            inner.log_edit(&mut shared, &edit)?;
            let was_by_hand = family.core.settings.load().compression != Codecs::Auto;
            family.core.settings.store(Arc::new(settings));
            if was_by_hand {
                inner.begin_codecs(&family.core);
            }
            // Under the lock: no job is planned before an age is chosen, if that is asked for now.
            inner.review_placement(&family.core);
            if let Some(writer) = state.family(family.id()) {
                writer.limit = inner.memtable_limit(&family.core);
            }
            inner.plan_samples(&mut shared);
            inner.refresh_pressure(&mut shared, &family.core);
            inner.work.notify_all();
            drop(shared);
            if inner.inline() { inner.run_pending() } else { Ok(()) }
        })
    }

    /// Returns when everything written before the call is in tables.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all()
    }

    /// Begins to flush everything written before the call, and does not wait until it is in tables.
    pub fn begin_flush(&self) -> Result<()> {
        let inner = &self.inner;
        inner.lead_in_turn(|state| {
            inner.check_writable()?;
            inner.switch_all(state)
        })?;
        if inner.inline() { inner.run_pending() } else { Ok(()) }
    }

    /// Returns when no flush, compaction or move between tiers runs or is needed and finds room; an error if some are needed that damaged
    /// tables keep from running.
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.inner.settle_down()
    }

    /// Flushes, then merges everything in the range (both ends included; `None`: from the first, to the last key) down to the deepest
    /// level in use, or one below that has room for it, so that no deleted or overwritten entry is left that no snapshot needs. With a
    /// damaged table in the range it does what can be done without, and gives that table's error.
    pub fn compact_range(&self, family: &Family, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.inner.check_family(family)?;
        self.flush()?;
        let inner = &self.inner;
        let range = ManualRange { from: from.map(<[u8]>::to_vec), to: to.map(<[u8]>::to_vec) };
        let (before, newest) = (inner.peek_number(), inner.visible());
        inner.shared.lock().jobs.manual.push(family.id());
        let result = inner.compact_manually(&family.core, &range, (before, newest));
        let mut shared = inner.shared.lock();
        if let Some(at) = shared.jobs.manual.iter().position(|id| *id == family.id()) {
            shared.jobs.manual.swap_remove(at);
        }
        inner.refresh_pressure(&mut shared, &family.core);
        inner.work.notify_all();
        drop(shared);
        result
    }
}

/// Interval at which a compaction on request looks whether other jobs have ended.
const WAIT: Duration = Duration::from_millis(100);

/// Most waits for free space before it gives up: longer in all than a merge that found none keeps larger ones back.
const MOST_WAITS: u32 = 120;

/// Most waits while other merges run: these end some time and free space, which may take an hour.
const MOST_WAITS_BESIDE: u32 = 36_000;

/// Refuses to wait for background work once the database closes.
fn check_open(shared: &Shared) -> Result<()> {
    if shared.closing { Err(Error::Closed("the database is closing".into())) } else { Ok(()) }
}

impl Inner {
    /// A new family with nothing in it but a memtable.
    fn new_core(&self, family: NewFamily, settings: FamilySettings, mem: Arc<Mem>, (merge, filter): Plugins) -> Arc<FamilyCore> {
        let tree = Arc::new(OpenTree::empty(Arc::new(Version::empty(settings.num_levels))));
        Arc::new(FamilyCore {
            id: family.id,
            name: family.name,
            handle: self.handle,
            settings: ArcSwap::from_pointee(settings),
            auto: Auto::new(self.clock.clone(), !self.inline()),
            placement: Arc::default(),
            merge,
            filter,
            view: ArcSwap::from_pointee(View { mem, full: Vec::new(), tree }),
            counters: self.ledger.family(family.id),
            dropped: AtomicBool::new(false),
            newest: AtomicU64::new(0),
            filled_ns: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            outlived: Outlived::default(),
        })
    }

    /// Returns when everything written before the call is in tables.
    pub(super) fn flush_all(&self) -> Result<()> {
        self.check_outside()?;
        let targets: Vec<Arc<FamilyCore>> = self.shared.lock().families.values().cloned().collect();
        let (mems, unlogged): (Vec<Arc<Mem>>, bool) = self.lead_in_turn(|state| {
            self.check_writable()?;
            self.switch_all(state)?;
            let full = targets.iter().flat_map(|core| core.view.load().full.clone()).collect();
            Ok((full, self.logs.unlogged.swap(false, Ordering::AcqRel)))
        })?;
        let waits = |core: &Arc<FamilyCore>| {
            !core.dropped.load(Ordering::Acquire) && core.view.load().full.iter().any(|m| mems.iter().any(|n| Arc::ptr_eq(m, n)))
        };
        let flushed = self.await_background(|_| !targets.iter().any(waits));
        if flushed.is_err() {
            self.logs.unlogged.fetch_or(unlogged, Ordering::AcqRel);
        }
        flushed
    }

    fn compact_manually(&self, core: &Arc<FamilyCore>, range: &ManualRange, (before, newest): (u64, Seq)) -> Result<()> {
        self.review_placement(core);
        // Data that grows old meanwhile is left to others, or there would be no end.
        let young = self.with_env(&self.shared.lock(), core, |env| env.young);
        let (mut waits, mut beside) = (0, 0);
        loop {
            self.check_writable()?;
            let mut shared = self.shared.lock();
            check_open(&shared)?;
            if core.dropped.load(Ordering::Acquire) {
                return Err(Error::invalid(format!("column family {:?} was dropped", core.name)));
            }
            let version = core.view.load().tree.version.clone();
            // Only when nothing else runs in this family: a manual merge is rare and large, and simple is worth more here.
            if shared.jobs.has_output_in(core.id) {
                self.changed.wait_for(&mut shared, WAIT);
                continue;
            }
            let step = |env: &PickEnv<'_>| {
                let merges = || compaction::manual_up_to(&version, &PickEnv { young, ..*env }, range, before, newest);
                compaction::drop_hidden(&version, env).unwrap_or_else(merges)
            };
            let choice = match self.with_env(&shared, core, |env| self.limit(&shared, (&version, env), Asks::Caller, &step)) {
                Err(Error::NoSpace(_)) if waits < MOST_WAITS && beside < MOST_WAITS_BESIDE && self.may_find_space(&shared) => {
                    let is_quiet = self.space.reservations.is_empty();
                    let waited = u32::from(self.changed.wait_for(&mut shared, WAIT).timed_out());
                    if is_quiet {
                        waits += waited
                    } else {
                        beside += waited
                    }
                    continue;
                }
                choice => choice?,
            };
            let Some((work, plan)) = unpack(choice) else { return self.check_undamaged(&shared, Some((core, range))) };
            self.mark(&mut shared, core, work, &plan);
            drop(shared);
            match self.run_job(Job::Compact { core: core.clone(), work, plan }) {
                Ok(()) => waits = 0,
                // A smaller one takes its place.
                Err(Error::NoSpace(_)) if self.shared.lock().blocked.is_none() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `ready`, doing the work itself where there are no threads.
    fn await_background(&self, ready: impl Fn(&Shared) -> bool) -> Result<()> {
        if self.inline() {
            self.run_pending()?;
        }
        let mut shared = self.shared.lock();
        loop {
            if ready(&shared) {
                return Ok(());
            }
            self.check_waiting(&mut shared)?;
            self.work.notify_all();
            shared.jobs.awaited += 1;
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
            shared.jobs.awaited -= 1;
        }
    }

    fn check_waiting(&self, shared: &mut MutexGuard<'_, Shared>) -> Result<()> {
        if let Some(error) = &shared.failed {
            return Err(error.clone());
        }
        if let Some(error) = &shared.blocked
            && !self.may_demote(shared)
        {
            return Err(error.clone());
        }
        self.check_writable()?;
        check_open(shared)
    }

    /// Waits until no job runs and none is needed.
    fn settle_down(&self) -> Result<()> {
        self.check_outside()?;
        // Whoever waits has ended a load: no memtable needs the free memory soon, and the merges to come need some.
        self.pool.release();
        let result = if self.inline() {
            self.run_pending().and_then(|()| self.check_undamaged(&self.shared.lock(), None))
        } else {
            self.shared.lock().jobs.settling += 1;
            let result = self.settle_by_hand();
            self.shared.lock().jobs.settling -= 1;
            result
        };
        // Flushes among these jobs have freed more.
        self.pool.release();
        result
    }

    fn settle_by_hand(&self) -> Result<()> {
        loop {
            let mut shared = self.shared.lock();
            self.check_waiting(&mut shared)?;
            if shared.jobs.running > 0 {
                self.changed.wait_for(&mut shared, Duration::from_millis(100));
                continue;
            }
            // What `next_job` hands out here is run here; the threads take their share meanwhile.
            let Some(job) = self.next_job(&mut shared, Takes::All) else { return self.check_undamaged(&shared, None) };
            drop(shared);
            self.run_or_demote(job)?;
        }
    }
}

impl OpenTree {
    /// A tree without tables.
    fn empty(version: Arc<Version>) -> Self {
        OpenTree::from_parts(version, Vec::new(), HashMap::new())
    }
}
