//! Opening: recover, write what the log held into tables, start a new manifest, then a new log segment.
//!
//! The new manifest is the commit point: it names the tables written from the log and says that the old segments are not needed. A crash
//! before the old manifest is gone is fine: the next open starts from it again and finds logs and tables as they were. For that reason
//! tables written on the way are not named one by one: the log's end may not be durable yet, and after a power cut a family with such
//! a table would be ahead of the others. What an interrupted recovery wrote is deleted by the next one before it begins
//! (`delete_unfinished`), so that however often it is interrupted, the store holds the log once and its tables once.

use super::builder::Builder;
use super::confined::{MemoryWatch, cpu_room};
use super::family::{Family, FamilyCore, Outlived};
use super::insert::{FamilyWriter, WriteState};
use super::jobs::added;
use super::media::Media;
use super::mem::{Mem, MemWriter};
use super::publish::new_tables;
use super::recover::{ReplayLimits, Survey, open_log, survey};
use super::tier_stores::{Opening, stored_settings};
use super::view::{OpenTree, TableOpener, View};
use super::{DEFAULT_FAMILY, Db, Handle, Inner, Parts, Shared, callback};
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::clock::{Clock, TrackedClock};
use crate::compaction::auto_codecs::Auto;
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::ledger::Ledger;
use crate::manifest::{self, Edit, Loaded, ManifestState, NewFamily, RunLocation, TableChange};
use crate::memtable::ChunkPool;
use crate::settings::{Budgets, DbSettings, FamilySettings, Settings};
use crate::tiering::fallback::Placer;
use arc_swap::ArcSwap;
use sinter_storage::store::{BoundedStore, DirStore, Meter, OpenFiles};
use sinter_storage::store::{Cause, FileId, FileKind, Store, StoreLock};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The next handle's number; 0 stands for none.
static HANDLES: AtomicU64 = AtomicU64::new(1);

type Families = BTreeMap<u32, Arc<FamilyCore>>;
/// Takes a full memtable of a family.
type FullMemtable<'a> = dyn FnMut(&Arc<FamilyCore>, Arc<Mem>) -> Result<()> + 'a;
type OpenParts = (Media, Vec<Box<dyn StoreLock>>, Arc<Ledger>);

impl Builder {
    /// The settings that the database in a store was opened with last, all of its families among them, by its manifest alone; `None`:
    /// there is no database. Changes nothing, but nobody else may have it open for writing.
    pub fn settings_in(store: &dyn Store) -> Result<Option<Settings>> {
        let _lock = store.lock()?;
        let Some(state) = manifest::load(store)?.state else { return Ok(None) };
        let families = state.families.values().map(|family| Ok((family.name.clone(), family_settings(&family.settings)?)));
        Ok(Some(Settings { db: stored_settings(&state)?, families: families.collect::<Result<_>>()?, ..Settings::default() }))
    }

    /// Opens the database in a directory, with the tiers that its settings name.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let create = self.create_if_missing && !self.read_only;
        let store = DirStore::open(path.as_ref(), create).map_err(|error| {
            if error.is_not_found() && !create {
                Error::invalid(format!("there is no database at {}", path.as_ref().display()))
            } else {
                error.into()
            }
        })?;
        self.open_store(Arc::new(store))
    }

    /// Opens the database in a store.
    pub fn open_store(self, store: Arc<dyn Store>) -> Result<Db> {
        self.validate()?;
        if self.read_only { self.open_to_read(&store) } else { self.try_open(store) }
    }

    fn try_open(&self, store: Arc<dyn Store>) -> Result<Db> {
        let mut locks = vec![store.lock()?];
        let files = OpenFiles::new();
        let primary = Arc::new(Meter::new(Arc::new(BoundedStore::new(store, Arc::clone(&files), false))));
        let mut loaded = manifest::load(&*primary)?;
        let mut state = match loaded.state.take() {
            Some(_) if self.error_if_exists => return Err(Error::invalid("the database exists already")),
            Some(state) => state,
            None if !self.create_if_missing => return Err(Error::invalid("there is no database here")),
            None => ManifestState::new(self.new_identity()?),
        };
        let before = stored_settings(&state)?.tiers;
        self.merge_settings(&mut state)?;
        files.set_most(stored_settings(&state)?.max_open_files);
        let ledger = Arc::new(Ledger::default());
        let opening = &mut Opening { loaded: &mut loaded, state: &mut state, locks: &mut locks, ledger: &ledger, files: &files, before };
        let media = self.open_tiers(&primary, opening)?;
        let log = open_log(&*media.store, &state)?;
        let mut survey = survey(log, &state)?;
        if let Some(manifest) = loaded.live {
            survey.report.cut(manifest, &loaded.end);
        }
        self.assemble((media, locks, ledger), state, survey, &loaded)
    }

    fn validate(&self) -> Result<()> {
        let mut complaints = Vec::new();
        if let Some(settings) = &self.settings {
            complaints.extend(settings.validate().err().unwrap_or_default());
        }
        for (name, settings) in &self.families {
            let bad = settings.validate().err().unwrap_or_default();
            complaints.extend(bad.into_iter().map(|c| format!("family {name:?}: {c}")));
            complaints.extend(super::admin::check_family_name(name).err());
        }
        if complaints.is_empty() { Ok(()) } else { Err(Error::Invalid(complaints.join("; "))) }
    }

    fn random_identity() -> Result<[u8; 16]> {
        let mut id = [0u8; 16];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut f| std::io::Read::read_exact(&mut f, &mut id));
        read.map_err(|e| Error::invalid(format!("no random identity to be had from /dev/urandom: {e}")))?;
        Ok(id)
    }

    fn new_identity(&self) -> Result<DbId> {
        Ok(DbId(match self.id {
            Some(id) => id,
            None => Self::random_identity()?,
        }))
    }

    /// Brings given settings and families into the state.
    pub(super) fn merge_settings(&self, state: &mut ManifestState) -> Result<()> {
        let (before, given) = (stored_settings(state)?, self.db_settings(state)?);
        let mut edit = Edit { db_settings: given.as_ref().map(DbSettings::to_toml), ..Edit::default() };
        let now = given.as_ref().unwrap_or(&before);
        edit.family_settings = self.families_that_follow(state, &before, now)?;
        let default = unnamed_family(now);
        let mut wanted: Vec<(&str, &FamilySettings)> = self.families.iter().map(|(name, settings)| (name.as_str(), settings)).collect();
        if state.family(DEFAULT_FAMILY).is_none() && !wanted.iter().any(|w| w.0 == DEFAULT_FAMILY) {
            wanted.push((DEFAULT_FAMILY, &default));
        }
        // The default family comes first: its number is 0.
        wanted.sort_by_key(|w| w.0 != DEFAULT_FAMILY);
        let mut next_id = state.next_family;
        for (name, settings) in wanted {
            match state.family(name) {
                Some(family) if family.version.levels.len() != settings.num_levels => {
                    let (has, asked) = (family.version.levels.len(), settings.num_levels);
                    return Err(Error::invalid(format!("family {name:?} has {has} levels; num_levels cannot be changed to {asked}")));
                }
                Some(family) => edit.family_settings.push((family.id, settings.to_toml())),
                None => {
                    let operator = self.operators.get(name).map(|o| o.name().to_owned()).unwrap_or_default();
                    let num_levels = u8::try_from(settings.num_levels).map_err(|_| Error::invalid("too many levels"))?;
                    let family = NewFamily { id: next_id, name: name.to_owned(), settings: settings.to_toml(), operator, num_levels };
                    edit.new_families.push(family);
                    // No existing segment can hold anything of it. Without this, recovery would take all of them for needed.
                    edit.flushed_logs.push((next_id, state.next_number));
                    next_id += 1;
                }
            }
        }
        state.apply(&edit).map_err(Error::Invalid)?;
        for name in self.operators.keys().chain(self.filters.keys()) {
            if state.family(name).is_none() {
                return Err(Error::invalid(format!("an operator or filter is given for family {name:?}, which does not exist")));
            }
        }
        self.check_operators(state)
    }

    /// Settings of families that nobody names here and that have no size of their own: their memtables follow the memory budget.
    fn families_that_follow(&self, state: &ManifestState, before: &DbSettings, now: &DbSettings) -> Result<Vec<(u32, String)>> {
        let Some(now) = now.moving_write_buffer() else { return Ok(Vec::new()) };
        let before = before.moving_write_buffer().unwrap_or(FamilySettings::default().write_buffer_size);
        let mut edits = Vec::new();
        for family in state.families.values().filter(|family| !self.families.iter().any(|(name, _)| *name == family.name)) {
            let settings = family_settings(&family.settings)?;
            if settings.write_buffer_size == before && before != now {
                edits.push((family.id, FamilySettings { write_buffer_size: now, ..settings }.to_toml()));
            }
        }
        Ok(edits)
    }

    fn check_operators(&self, state: &mut ManifestState) -> Result<()> {
        for family in state.families.values_mut() {
            match (self.operators.get(&family.name), family.operator.as_str()) {
                (Some(given), stored) if !stored.is_empty() && given.name() != stored => {
                    let (name, given) = (&family.name, given.name());
                    return Err(Error::invalid(format!("family {name:?} was written with merge operator {stored:?}, not {given:?}")));
                }
                (None, stored) if !stored.is_empty() && !self.read_only => {
                    return Err(Error::invalid(format!("family {:?} needs its merge operator {stored:?}", family.name)));
                }
                (Some(given), _) => family.operator = given.name().to_owned(),
                (None, _) => {}
            }
        }
        Ok(())
    }

    pub(super) fn assemble(&self, parts: OpenParts, state: ManifestState, survey: Survey, loaded: &Loaded) -> Result<Db> {
        let (media, locks, ledger) = parts;
        let asked = callback::clock(self.clock.clone());
        let pool = Arc::new(ChunkPool::default());
        let mut settings = stored_settings(&state)?;
        let family_settings = state.families.values().map(|family| family_settings(&family.settings)).collect::<Result<Vec<_>>>()?;
        let memory = MemoryWatch::new(&self.system_root, &mut settings, family_settings.iter());
        let is_bounded = settings.memory_budget > 0 || memory.room().is_some();
        let counts_all = settings.cache_index_and_filter_blocks || is_bounded;
        let (cache, start) = (Cache::with(memory.cache_bytes(), counts_all, asked.clone()), settings.compressed_cache.start());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
        cache.resize(cache.capacity(), (cache.capacity() as f64 * start) as u64);
        let newest = state.times.newest().map_or(0, |newest| newest.1);
        let clock: Arc<dyn Clock> = Arc::new(TrackedClock::new(asked.clone(), newest));
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        let has_threads = settings.max_background_jobs > 0;
        let mut families = BTreeMap::new();
        let mut writers = WriteState::new(state.last_seq);
        for (family, settings) in state.families.values().zip(family_settings) {
            let auto = Auto::new(asked.clone(), has_threads);
            let times = auto.read_times();
            let opener = TableOpener { media: &media, db: state.db, cache: &cache, times, tolerant: self.read_only, opened: &[] };
            let tree = Arc::new(OpenTree::open(family.version.clone(), None, &opener)?);
            let mem = Mem::new(&pool, 0, clock.unix_seconds());
            let limit = usize::try_from(settings.write_buffer_size).unwrap_or(usize::MAX);
            let core = Arc::new(FamilyCore {
                id: family.id,
                name: family.name.clone(),
                handle,
                merge: self.operators.get(&family.name).map(|operator| callback::operator(handle, operator.clone())),
                filter: self.filters.get(&family.name).map(|filter| callback::filter(handle, filter.clone())),
                view: ArcSwap::from_pointee(View { mem: mem.clone(), full: Vec::new(), tree }),
                counters: ledger.family(family.id),
                dropped: AtomicBool::new(false),
                newest: AtomicU64::new(0),
                filled_ns: AtomicU64::new(0),
                stuck: AtomicBool::new(false),
                outlived: Outlived::default(),
                settings: ArcSwap::from_pointee(settings),
                auto,
                placement: Arc::default(),
            });
            writers.install(FamilyWriter { core: core.clone(), mem: MemWriter::new(mem), limit });
            families.insert(family.id, core);
        }
        let default = families.values().find(|c| c.name == DEFAULT_FAMILY).cloned();
        let core = default.ok_or_else(|| Error::corrupt("manifest", 0, "the default family is missing"))?;
        let next_number = loaded.next_number.max(state.next_number).max(1);
        let default_family = Family { core };
        let cpu = Arc::new(cpu_room(&settings, &self.system_root));
        let placer = Placer::new(media.store.clone(), media.tiers.clone(), ledger.clone(), clock.clone());
        let parts = Parts { media, placer, locks, pool, cache, ledger, clock, cpu, memory, settings, default_family, next_number };
        let inner = Inner::new(parts, &state);
        if self.read_only {
            inner.start_read_only(state, families, survey)?;
        } else {
            let before = state.clone();
            inner.start(state, families, writers, survey, loaded).map_err(|error| inner.tell_room_to_open(error, loaded, &before))?;
        }
        let db = Db { inner: Arc::new(Handle(Arc::new(inner))) };
        db.inner.threads.start(&db.inner)?;
        db.inner.set_by_hand(self.read_only || !has_threads);
        Ok(db)
    }
}

/// The default family's settings if nobody gives any: where memory is one budget, its part of that.
fn unnamed_family(db: &DbSettings) -> FamilySettings {
    let budgets = Budgets { memory: db.moving_write_buffer().map(|_| db.memory_budget), ..Budgets::default() };
    let family = budgets.family();
    FamilySettings { write_buffer_size: db.moving_write_buffer().unwrap_or(family.write_buffer_size), ..family }
}

fn family_settings(stored: &str) -> Result<FamilySettings> {
    Ok(FamilySettings::from_stored(stored).map_err(|complaints| Error::Invalid(complaints.join("; ")))?.0)
}

impl Inner {
    /// Starts without writing: the replayed memtables become full ones that are never flushed.
    fn start_read_only(&self, mut state: ManifestState, families: Families, mut survey: Survey) -> Result<()> {
        let last_seq = self.replay(&state, &families, &mut survey, &mut |core, mem| {
            let view = core.view.load_full();
            let full = std::iter::once(mem).chain(view.full.iter().cloned()).collect();
            core.view.store(Arc::new(View { mem: view.mem.clone(), full, tree: view.tree.clone() }));
            Ok(())
        })?;
        self.visible.store(last_seq, Ordering::Release);
        // Writes after the last sample were made by now.
        state.note_time(last_seq, self.clock.unix_seconds());
        let mut shared = self.shared.lock();
        *shared = Shared { families, closing: true, ..Shared::new(state, None) };
        self.plan_samples(&mut shared);
        drop(shared);
        self.end.set("the database was opened read-only");
        Ok(())
    }

    /// Replays the log and notes what was found. Gives the newest sequence number.
    fn replay(&self, state: &ManifestState, families: &Families, survey: &mut Survey, full: &mut FullMemtable<'_>) -> Result<Seq> {
        let limit = |id| families.get(&id).map_or(0, |core| self.memtable_limit(core));
        let total = usize::try_from(self.division.memtables()).unwrap_or(usize::MAX);
        let last_seq = survey.replay(state, ReplayLimits { pool: &self.pool, family: &limit, total }, &mut |id, mem, last_seq| {
            // Nobody reads yet; this tells a flush that it is about the present.
            self.visible.store(last_seq, Ordering::Release);
            families.get(&id).filter(|_| !mem.is_empty()).map_or(Ok(()), |core| full(core, mem))
        })?;
        *self.recovery.lock() = survey.report.clone();
        Ok(last_seq)
    }

    /// Replays the log into tables that nothing names yet.
    fn replay_to_tables(&self, state: &ManifestState, families: &Families, survey: &mut Survey) -> Result<(Seq, Vec<TableChange>)> {
        let mut tables = Vec::new();
        let replayed = self.replay(state, families, survey, &mut |core, mem| {
            // Later memtables of a family get larger numbers: newer runs.
            let run = self.new_number();
            let report = self.write_level0(core, &[mem], None)?;
            // Nobody can have closed what is not open yet.
            let outputs = report.ok_or_else(|| Error::Closed("the recovery was stopped".into()))?.outputs;
            tables.extend(outputs.into_iter().map(|info| added(core.id, RunLocation { level: 0, run }, info)));
            Ok(())
        });
        match replayed {
            Ok(last_seq) => Ok((last_seq, tables)),
            Err(error) => {
                self.delete_files(&new_tables(&tables).collect::<Vec<_>>());
                Err(error)
            }
        }
    }

    fn start(
        &self,
        mut state: ManifestState,
        families: Families,
        mut writers: WriteState,
        mut survey: Survey,
        loaded: &Loaded,
    ) -> Result<()> {
        self.delete_unfinished(loaded)?;
        self.make_room_to_open(loaded, &state)?;
        self.note_medium(&state);
        {
            let mut shared = self.shared.lock();
            shared.families.clone_from(&families);
            self.note_outlived(&shared);
        }
        let (last_seq, tables) = self.replay_to_tables(&state, &families, &mut survey)?;
        // The files of the log are closed before they are deleted.
        drop(survey);
        self.visible.store(last_seq, Ordering::Release);
        writers.last_seq = last_seq;
        let mut edit = Edit { last_seq: Some(last_seq), tables, ..Edit::default() };
        let number = self.new_number();
        // The segment that comes next has a larger number, and so do all later ones.
        edit.flushed_logs = families.keys().map(|id| (*id, number)).collect();
        edit.time_samples = vec![(last_seq, self.clock.unix_seconds())];
        state.apply(&edit).map_err(Error::Invalid)?;
        state.next_number = state.next_number.max(self.peek_number());
        self.store.sync_names()?;
        let manifest = loaded.start(&*self.store, number, &state)?;
        self.ledger.record(None, Cause::Manifest, manifest.len());
        // Not before the manifest: in a new store, a segment without one would be taken for a database that lost it.
        self.start_log(&mut writers, 0)?;
        let log = self.logs.active();
        for core in families.values() {
            self.start_family(core, &state, &mut writers, log)?;
        }
        self.delete_leftovers(&state)?;
        let mut shared = self.shared.lock();
        *shared = Shared { families: families.clone(), ..Shared::new(state, Some(manifest)) };
        self.review_log_limit(&shared);
        families.values().for_each(|core| self.refresh_pace(&mut shared, core));
        self.note_space(&shared);
        self.plan_samples(&mut shared);
        drop(shared);
        // Before the first job is planned: who has chosen no age yet keeps all data from the last level.
        families.values().for_each(|core| self.review_placement(core));
        *self.write_state.lock() = writers;
        Ok(())
    }

    /// Deletes the tables of a recovery that did not end. Their numbers are above all that the manifest ever named, so that no end of
    /// the manifest that a crash may yet bring about needs them; of other tables that is not sure before the new manifest is durable.
    fn delete_unfinished(&self, loaded: &Loaded) -> Result<()> {
        let files = self.store.list()?.into_iter().map(|(id, _)| id);
        let unfinished: Vec<FileId> = files.filter(|id| id.kind == FileKind::Table && id.number >= loaded.named_below).collect();
        self.delete_files(&unfinished);
        Ok(())
    }

    /// Deletes tables and segments that nothing names: those that a crash left, and segments whose contents are in tables now.
    pub(super) fn delete_leftovers(&self, state: &ManifestState) -> Result<()> {
        let tables: HashSet<u64> = state.families.values().flat_map(|f| f.version.tables()).map(|(_, _, t)| t.number).collect();
        let needed = state.needed_log();
        let dead = |id: &FileId| match id.kind {
            FileKind::Table => !tables.contains(&id.number),
            FileKind::Log => id.number < needed,
            FileKind::Manifest | FileKind::Tier => false,
        };
        let files: Vec<FileId> = self.store.list()?.into_iter().map(|(id, _)| id).filter(dead).collect();
        self.delete_files(&files);
        Ok(())
    }

    /// Gives a family the tree of the state and an empty memtable over the new segment.
    fn start_family(&self, core: &Arc<FamilyCore>, state: &ManifestState, writers: &mut WriteState, log: u64) -> Result<()> {
        let old = core.view.load_full();
        let version = state.families.get(&core.id).map_or_else(|| old.tree.version.clone(), |f| f.version.clone());
        let times = core.auto.read_times();
        let opener = TableOpener { media: &self.media, db: self.db, cache: &self.cache, times, tolerant: false, opened: &[] };
        let tree = Arc::new(OpenTree::open(version, Some(&old.tree), &opener)?);
        let mem = Mem::new(&self.pool, log, self.clock.unix_seconds());
        core.view.store(Arc::new(View { mem: mem.clone(), full: Vec::new(), tree }));
        if let Some(writer) = writers.family(core.id) {
            writer.mem = MemWriter::new(mem);
            writer.limit = self.memtable_limit(core);
        }
        Ok(())
    }
}
