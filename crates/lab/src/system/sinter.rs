//! SinterDB as a system.

use super::{Counters, FLUSHES, Figures, INDEX_BYTES, LevelFigures, OperationClock, Outcome, Scan, Session, System};
use sinter_storage::place::{Place, ZonedPlace};
use sinter_storage::store::{Cause, Medium, Store, Temperature, Throttle};
use sinter_storage::zoned_store::ZonedStore;
use sinterdb::internal::db::find_tiers;
use sinterdb::internal::manifest;
use sinterdb::settings::{Codecs, DbSettings, FamilySettings};
use sinterdb::{Db, DbIterator, Durability, Family, ReadOptions, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens SinterDB.
#[derive(Debug, Clone)]
pub struct SinterOpener {
    /// Directory of the database.
    pub path: PathBuf,
    /// Volume that holds the whole database, instead of the directory.
    pub zones: Option<ZonedPlace>,
    /// Settings of the database.
    pub database: DbSettings,
    /// The families by name, with their settings; sessions choose them by their index here.
    pub families: Vec<(String, FamilySettings)>,
    /// Whether writes bypass the log.
    pub disable_wal: bool,
    /// Clock driven by operations; `None`: the system's.
    pub clock: Option<Arc<OperationClock>>,
    /// Whether the database sees a system without cgroups.
    pub hide_limits: bool,
    /// Tiers that are slowed down to a model of a medium ([`Throttle`]). Their directories stand in `database`.
    pub slow: BTreeMap<Temperature, Medium>,
}

impl SinterOpener {
    /// Opens the database, empty if `fresh`. Earlier handles must be closed.
    pub fn open(&self, fresh: bool) -> Outcome<SinterSystem> {
        let place = self.zones.clone().map_or_else(|| Place::Directory(self.path.clone()), Place::Zoned);
        let store = place.open(fresh).map_err(sinterdb::Error::from)?;
        if fresh {
            remove_database(&*store)?;
        }
        self.open_on(store, fresh)
    }

    /// Opens the database in a store; creates one in an empty store, if `fresh`.
    pub fn open_on(&self, store: Arc<dyn Store>, fresh: bool) -> Outcome<SinterSystem> {
        let mut builder = Db::builder().settings(self.database.clone()).create_if_missing(fresh);
        for (temperature, path) in self.database.tiers.named() {
            match (Place::of(path)?, self.slow.get(&temperature)) {
                (place, Some(medium)) => {
                    builder = builder.tier_store(temperature, Arc::new(Throttle::new(place.open(fresh)?, *medium)));
                }
                (place @ Place::Directory(_), None) => drop(place.open(fresh)?),
                // A drive is opened once, by the database.
                (Place::Zoned(_), None) => {}
            }
        }
        let builder = self.families.iter().fold(builder, |builder, (name, settings)| builder.family(name, settings.clone()));
        let builder = match &self.clock {
            Some(clock) => builder.clock(Arc::<OperationClock>::clone(clock)),
            None => builder,
        };
        let builder = if self.hide_limits { builder.system_root(system_without_groups(&self.path)?) } else { builder };
        let db = builder.open_store(store)?;
        let families = self.families.iter().filter_map(|(name, _)| db.family(name)).collect();
        Ok(SinterSystem { db, families, disable_wal: self.disable_wal, clock: self.clock.clone(), zones: None })
    }
}

/// An open SinterDB.
pub struct SinterSystem {
    db: Db,
    families: Vec<Family>,
    disable_wal: bool,
    clock: Option<Arc<OperationClock>>,
    /// Store on zones, whose own work counts as background work of the database.
    zones: Option<Arc<ZonedStore>>,
}

impl SinterSystem {
    /// The system whose [`System::wait_for_compactions`] also waits for the store on zones that holds the database.
    #[must_use]
    pub fn on(self, zones: Arc<ZonedStore>) -> Self {
        SinterSystem { zones: Some(zones), ..self }
    }

    /// The database itself.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

impl System for SinterSystem {
    type Session<'a> = SinterSession<'a>;

    fn session(&self, sync: bool) -> SinterSession<'_> {
        let durability = match (sync, self.disable_wal) {
            (true, _) => Durability::Sync,
            (false, true) => Durability::NoWal,
            (false, false) => Durability::Buffered,
        };
        SinterSession {
            db: &self.db,
            families: &self.families,
            family: &self.families[0],
            write: WriteOptions::new(durability),
            read: ReadOptions::default(),
            batch: WriteBatch::new(),
            clock: self.clock.as_deref(),
        }
    }

    fn flush(&self) -> Outcome<()> {
        Ok(self.db.flush()?)
    }

    fn compact(&self) -> Outcome<()> {
        self.families.iter().try_for_each(|family| Ok(self.db.compact_range(family, None, None)?))
    }

    fn wait_for_compactions(&self) -> Outcome<()> {
        self.db.wait_for_compactions()?;
        Ok(self.zones.as_ref().map_or(Ok(()), |zones| zones.settle()).map_err(sinterdb::Error::from)?)
    }

    /// The settings must be named alike in SinterDB and RocksDB.
    fn change(&self, settings: &BTreeMap<String, String>) -> Outcome<()> {
        let mut changed = self.db.family_settings(&self.families[0])?;
        settings.iter().try_for_each(|(name, value)| changed.set(name, value))?;
        Ok(self.db.change_family_settings(&self.families[0], changed)?)
    }

    fn figures(&self) -> Outcome<Figures> {
        let stats = self.db.stats();
        let mut written = BTreeMap::new();
        for line in &stats.ledger.lines {
            *written.entry(line.cause).or_insert(0) += line.bytes;
        }
        Ok(Figures {
            user_bytes: stats.ledger.user(),
            written: written.into_iter().map(|(cause, bytes)| (cause_name(cause), bytes)).collect(),
            stall_ns: stats.stall_ns,
            longest_stall_ns: stats.longest_stall_ns,
            stalls: stats.stalls,
            live_table_bytes: stats.live_table_bytes,
            store_bytes: stats.store_bytes,
            memtable_bytes: stats.memtable_bytes,
            cache_bytes: stats.cache_bytes,
            beneath: stats.beneath,
        })
    }

    fn levels(&self, family: usize) -> Outcome<Vec<LevelFigures>> {
        let version = self.db.version(&self.families[family])?;
        let figures = version.levels.iter().enumerate().map(|(level, runs)| LevelFigures {
            runs: runs.len(),
            files: runs.iter().map(|run| run.tables.len()).sum(),
            bytes: version.level_bytes(level),
        });
        Ok(figures.collect())
    }

    fn counters(&self) -> Outcome<Counters> {
        let stats = self.db.stats();
        let mut tickers: BTreeMap<String, u64> = stats.tickers.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let histograms: BTreeMap<String, _> = stats.histograms.into_iter().map(|(name, summary)| (name.to_string(), summary)).collect();
        tickers.extend(histograms.get("rocksdb.db.flush.micros").map(|flushes| (FLUSHES.to_string(), flushes.count)));
        let index_bytes = |family| self.db.property(family, "sinterdb.index-bytes")?.parse::<u64>().ok();
        tickers.insert(INDEX_BYTES.to_string(), self.families.iter().filter_map(index_bytes).sum());
        Ok(Counters { tickers, histograms })
    }

    fn chosen_codecs(&self, family: usize) -> Option<String> {
        let family = self.families.get(family)?;
        let chooses = self.db.family_settings(family).is_ok_and(|settings| settings.compression == Codecs::Auto);
        chooses.then(|| self.db.property(family, "sinterdb.compression"))?
    }

    fn close(self) -> Outcome<()> {
        Ok(self.db.close()?)
    }
}

/// The name of a cause in results, such as `compaction to L2, level-size`.
pub fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Manifest => "manifest".into(),
        Cause::Wal => "wal".into(),
        Cause::Flush => "flush".into(),
        Cause::Compaction { to, reason } => format!("compaction to L{to}, {}", reason.name()),
        Cause::Checkpoint => "checkpoint".into(),
    }
}

/// A thread's handle to SinterDB.
pub struct SinterSession<'a> {
    db: &'a Db,
    families: &'a [Family],
    family: &'a Family,
    write: WriteOptions,
    read: ReadOptions,
    batch: WriteBatch,
    clock: Option<&'a OperationClock>,
}

impl SinterSession<'_> {
    /// Begins an operation: advances the clock, if it is driven by operations.
    #[inline]
    fn begin(&self) {
        if let Some(clock) = self.clock {
            clock.pass();
        }
    }
}

impl Session for SinterSession<'_> {
    type Scan<'a>
        = DbIterator
    where
        Self: 'a;

    #[inline]
    fn choose(&mut self, family: usize) {
        self.family = &self.families[family];
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.begin();
        Ok(self.db.put_with(self.family, key, value, &self.write)?)
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.begin();
        Ok(self.db.delete_with(self.family, key, &self.write)?)
    }

    #[inline]
    fn stage_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put_in(self.family, key, value);
    }

    #[inline]
    fn stage_delete(&mut self, key: &[u8]) {
        self.batch.delete_in(self.family, key);
    }

    #[inline]
    fn commit(&mut self) -> Outcome<()> {
        self.begin();
        Ok(self.db.write(&mut self.batch, &self.write)?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Outcome<bool> {
        self.begin();
        Ok(self.db.get_into(self.family, key, &self.read, out)?)
    }

    fn multi_get(&mut self, keys: &[&[u8]], found: impl FnMut(&[u8])) -> Outcome<()> {
        self.begin();
        let values = self.db.multi_get(self.family, keys, &self.read)?;
        values.iter().flatten().map(Vec::as_slice).for_each(found);
        Ok(())
    }

    fn scan(&mut self) -> Outcome<DbIterator> {
        self.begin();
        Ok(self.db.iter_with(self.family, self.read.clone())?)
    }
}

impl Scan for DbIterator {
    fn seek_first(&mut self) -> Outcome<()> {
        Ok(DbIterator::seek_first(self)?)
    }

    fn seek_last(&mut self) -> Outcome<()> {
        Ok(DbIterator::seek_last(self)?)
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) -> Outcome<()> {
        Ok(DbIterator::seek(self, key)?)
    }

    #[inline]
    fn advance(&mut self) -> Outcome<()> {
        Ok(DbIterator::advance(self)?)
    }

    #[inline]
    fn retreat(&mut self) -> Outcome<()> {
        Ok(DbIterator::retreat(self)?)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }
}

/// Makes a system directory, below the database's, in which nothing confines the process: its /proc links to the kernel's information on
/// processors, and has none on cgroups.
fn system_without_groups(path: &Path) -> Outcome<PathBuf> {
    let root = path.join("system");
    std::fs::create_dir_all(root.join("proc"))?;
    for file in ["stat", "thread-self"] {
        match std::os::unix::fs::symlink(Path::new("/proc").join(file), root.join("proc").join(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
    }
    Ok(root)
}

/// Removes the files of a database, under its lock, so that a database in use is never touched. Files that SinterDB did not name stay, and
/// so do tiers of other databases.
fn remove_database(store: &dyn Store) -> Outcome<()> {
    let _lock = store.lock().map_err(sinterdb::Error::from)?;
    let state = manifest::load(store).ok().and_then(|loaded| loaded.state);
    for (_, tier) in state.map(|state| find_tiers(&state).stores).unwrap_or_default() {
        let _lock = tier.lock().map_err(sinterdb::Error::from)?;
        for (id, _) in tier.list()? {
            tier.delete(id)?;
        }
        tier.sync_names()?;
    }
    for (id, _) in store.list()? {
        store.delete(id)?;
    }
    Ok(store.sync_names()?)
}
