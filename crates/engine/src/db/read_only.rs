//! Reads beside a writer that may be at work. Without a lock, files that the manifest named when it was read may be deleted before they are
//! opened. So a reader opens everything that the manifest names first, and reads it afterwards: an open file stays readable.
//!
//! * **Tables.** The writer deletes a table only after an edit that does without it. Whoever misses one applies the edits that came since
//!   and opens what is new; files that are open stay open.
//! * **The log.** Nobody misses segments that are deleted before the log is listed, because nothing names them one by one; what is left may
//!   look like a whole log. So the manifest, read again once all segments are open, must need no fewer of them.
//! * **The manifest** is replaced now and then. Whoever misses it starts again.
//!
//! Damage is reported only if the manifest did not change between a look before and one after; else the reader tries again, and hears in
//! the end that the database is busy.

use super::Db;
use super::builder::Builder;
use super::recover::{open_log, survey};
use super::tier_stores::{FoundTiers, Opening, find_tiers, stored_settings};
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::manifest::{self, Loaded, ManifestState};
use sinter_storage::store::{
    Appender, Beneath, BoundedStore, FileId, FileKind, Hint, Meter, OpenFiles, ReadAt, Store, StoreError, StoreLock, Tiers,
};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Attempts until a database counts as busy, and looks at the manifest in each. Each one that fails means that the writer has changed the
/// manifest during it.
const TRIES: usize = 10;

/// Open files by name.
type Files = HashMap<FileId, Arc<dyn ReadAt>>;
/// The segments of a log, open, oldest first.
type Log = Vec<(u64, Arc<dyn ReadAt>)>;

/// A store whose files can be read by name after a writer has deleted them, if they were opened before.
#[derive(Debug)]
pub struct Held {
    below: Arc<dyn Store>,
    files: Files,
}

impl Held {
    fn refuse<T>(operation: &'static str) -> sinter_storage::store::Result<T> {
        Err(StoreError::store(operation, io::ErrorKind::ReadOnlyFilesystem.into()))
    }
}

impl Store for Held {
    fn create(&self, _: FileId, _: &Hint) -> sinter_storage::store::Result<Box<dyn Appender>> {
        Held::refuse("create")
    }

    fn open(&self, id: FileId) -> sinter_storage::store::Result<Arc<dyn ReadAt>> {
        self.files.get(&id).map_or_else(|| self.below.open(id), |file| Ok(Arc::clone(file)))
    }

    fn delete(&self, _: FileId) -> sinter_storage::store::Result<()> {
        Held::refuse("delete")
    }

    fn list(&self) -> sinter_storage::store::Result<Vec<(FileId, u64)>> {
        self.below.list()
    }

    fn sync_names(&self) -> sinter_storage::store::Result<()> {
        Held::refuse("sync names")
    }

    fn free_bytes(&self) -> sinter_storage::store::Result<Option<u64>> {
        self.below.free_bytes()
    }

    fn lock(&self) -> sinter_storage::store::Result<Box<dyn StoreLock>> {
        self.below.lock()
    }

    fn directory(&self) -> Option<&Path> {
        self.below.directory()
    }

    fn beneath(&self) -> Option<Beneath> {
        self.below.beneath()
    }

    fn unit(&self) -> u64 {
        self.below.unit()
    }

    fn pinned_bytes(&self) -> u64 {
        self.below.pinned_bytes()
    }
}

/// The manifests and their lengths: no edit goes unnoticed.
fn manifests(store: &dyn Store) -> Result<Vec<(FileId, u64)>> {
    let mut found: Vec<_> = store.list()?.into_iter().filter(|(id, _)| id.kind == FileKind::Manifest).collect();
    found.sort_unstable();
    Ok(found)
}

/// Repeats an attempt that fails while the manifest changes.
fn undisturbed<T>(store: &dyn Store, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let before = manifests(store)?;
        let error = match attempt() {
            Err(error @ (Error::Corrupt { .. } | Error::Io(_) | Error::Busy(_))) => error,
            settled => return settled,
        };
        let is_unchanged = manifests(store)? == before;
        // A listing may miss a manifest that is replaced and the one that replaces it.
        if is_unchanged && (tries == 0 || !before.is_empty()) {
            return Err(error);
        }
        if tries == 0 {
            return Err(if matches!(error, Error::Busy(_)) { error } else { Error::Busy(format!("{BUSY} (the last attempt: {error})")) });
        }
    }
}

/// Reason why opening gave up.
const BUSY: &str = "a writer changes the database faster than its files can be opened";

/// Opens the tables of a state that are not in `files`, the most short-lived first, and closes others; false: some are missing.
fn open_tables(store: &dyn Store, state: &ManifestState, files: &mut Files) -> Result<bool> {
    let tables = || state.families.values().flat_map(|family| family.version.tables()).map(|(level, _, table)| (level, table.number));
    let wanted: HashSet<FileId> = tables().map(|(_, number)| FileId::table(number)).collect();
    files.retain(|id, _| wanted.contains(id));
    let mut missing: Vec<(usize, FileId)> =
        tables().map(|(level, number)| (level, FileId::table(number))).filter(|(_, id)| !files.contains_key(id)).collect();
    missing.sort_unstable();
    let mut is_whole = true;
    for (_, id) in missing {
        match store.open(id) {
            Ok(file) => drop(files.insert(id, file)),
            Err(error) if error.is_not_found() => is_whole = false,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_whole)
}

/// Opens the log and the tables of one moment, and gives what the manifest says of that. A table that is missing though nothing changes is
/// left out of `files`, and a log of which something is missing is the error. `all` has the files of all tiers.
fn hold(primary: &dyn Store, all: &dyn Store, loaded: &mut Loaded, files: &mut Files) -> Result<(ManifestState, Result<Log>)> {
    for _ in 0..TRIES {
        manifest::catch_up(primary, loaded)?;
        let Some(state) = loaded.state.clone() else { return Err(Error::invalid("there is no database here")) };
        let log = open_log(primary, &state);
        let is_whole = open_tables(all, &state, files)?;
        // A segment that is gone right after it was listed is the writer's doing, too.
        let is_gone = matches!(&log, Err(Error::Io(error)) if error.is_not_found());
        let is_unchanged = manifest::catch_up(primary, loaded)? == 0 && !is_gone;
        let has_log = log.is_ok() && loaded.state.as_ref().is_some_and(|now| now.needed_log() == state.needed_log());
        if is_unchanged || is_whole && has_log {
            return Ok((state, log));
        }
    }
    Err(Error::Busy(BUSY.into()))
}

/// A database as it was at a moment, for tools that read its files: nothing is locked or written.
#[derive(Debug)]
pub struct Seen {
    /// The manifest as a file.
    pub loaded: Loaded,
    /// The state that the manifest leads to.
    pub state: ManifestState,
    /// The tiers that can be looked at.
    pub tiers: FoundTiers,
    /// Location of each file.
    pub places: Arc<Tiers>,
    /// All files: the manifest, the tables and the log of `state` are open.
    pub files: Held,
}

/// Looks at a database, beside a writer or not; `None`: there is none. Tables and segments that are missing are missing from `files`, too.
///
/// # Errors
/// `Busy` if the writer was quicker each time. A manifest that is damaged.
pub fn see(store: &Arc<dyn Store>) -> Result<Option<Seen>> {
    let mut files = Files::default();
    let open = OpenFiles::new();
    let bounded = |store: &Arc<dyn Store>| Arc::new(BoundedStore::new(Arc::clone(store), Arc::clone(&open), true)) as Arc<dyn Store>;
    let store = &bounded(store);
    undisturbed(&**store, || {
        let mut loaded = manifest::load(&**store)?;
        let (Some(state), Some(live)) = (&loaded.state, loaded.live) else { return Ok(None) };
        let mut tiers = find_tiers(state);
        tiers.stores.iter_mut().for_each(|(_, store)| *store = bounded(store));
        let places = Arc::new(Tiers::new(Arc::clone(store), tiers.stores.clone())?);
        let (state, log) = hold(&**store, &*places, &mut loaded, &mut files)?;
        let mut files = std::mem::take(&mut files);
        files.insert(live, store.open(live)?);
        files.extend(log.unwrap_or_default().into_iter().map(|(number, file)| (FileId::log(number), file)));
        Ok(Some(Seen { loaded, state, tiers, files: Held { below: places.clone(), files }, places }))
    })
}

impl Builder {
    pub(super) fn open_to_read(&self, store: &Arc<dyn Store>) -> Result<Db> {
        let (open, mut held) = (OpenFiles::new(), Files::default());
        let bounded: Arc<dyn Store> = Arc::new(BoundedStore::new(Arc::clone(store), Arc::clone(&open), true));
        undisturbed(&**store, || self.try_to_read(&bounded, &open, &mut held))
    }

    fn try_to_read(&self, store: &Arc<dyn Store>, files: &Arc<OpenFiles>, held: &mut Files) -> Result<Db> {
        let primary = Arc::new(Meter::new(Arc::clone(store)));
        let mut loaded = manifest::load(&*primary)?;
        let mut state = match loaded.state.clone() {
            Some(_) if self.error_if_exists => return Err(Error::invalid("the database exists already")),
            Some(state) => state,
            None => return Err(Error::invalid("there is no database here")),
        };
        let before = stored_settings(&state)?.tiers;
        self.merge_settings(&mut state)?;
        files.set_most(stored_settings(&state)?.max_open_files);
        let (ledger, mut locks) = (Arc::new(Ledger::default()), Vec::new());
        let opening = &mut Opening { loaded: &mut loaded, state: &mut state, locks: &mut locks, ledger: &ledger, files, before };
        let mut media = self.open_tiers(&primary, opening)?;
        let (mut state, log) = hold(&*primary, &*media.store, &mut loaded, held)?;
        let families: Vec<u32> = state.families.keys().copied().collect();
        self.merge_settings(&mut state)?;
        let mut survey = survey(log?, &state)?;
        // Records of families that the state does not have are passed over: batches that the log has got meanwhile would not be whole.
        manifest::catch_up(&*primary, &mut loaded)?;
        if !loaded.state.as_ref().is_some_and(|now| now.families.keys().eq(&families)) {
            return Err(Error::Busy(BUSY.into()));
        }
        if let Some(manifest) = loaded.live {
            survey.report.cut(manifest, &loaded.end);
        }
        media.store = Arc::new(Held { below: media.store, files: held.clone() });
        self.assemble((media, locks, ledger), state, survey, &loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::see;
    use crate::db::{Builder, Db, ReadOptions, WriteBatch, WriteOptions, verify_files};
    use crate::error::Error;
    use crate::settings::{DbSettings, FamilySettings};
    use parking_lot::Mutex;
    use sinter_storage::store::{Appender, FileId, FileKind, Hint, MemoryStore, ReadAt, Result, Store, StoreLock};
    use std::sync::Arc;

    /// A store as a reader sees it, in which something happens before some of the reader's calls.
    struct Beside {
        store: Arc<MemoryStore>,
        at: At,
        /// Receives how often it will still be called.
        work: Box<dyn Fn(usize) + Send + Sync>,
        times: Mutex<usize>,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum At {
        Open(FileKind),
        List,
    }

    impl std::fmt::Debug for Beside {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.store.fmt(f)
        }
    }

    impl Beside {
        fn meet(&self, at: At) {
            let mut times = self.times.lock();
            if at == self.at && *times > 0 {
                *times -= 1;
                (self.work)(*times);
            }
        }
    }

    impl Store for Beside {
        fn create(&self, _: FileId, _: &Hint) -> Result<Box<dyn Appender>> {
            panic!("a reader writes")
        }
        fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
            self.meet(At::Open(id.kind));
            self.store.open(id)
        }
        fn delete(&self, _: FileId) -> Result<()> {
            panic!("a reader deletes")
        }
        fn list(&self) -> Result<Vec<(FileId, u64)>> {
            self.meet(At::List);
            self.store.list()
        }
        fn sync_names(&self) -> Result<()> {
            panic!("a reader syncs")
        }
        fn free_bytes(&self) -> Result<Option<u64>> {
            self.store.free_bytes()
        }
        fn lock(&self) -> Result<Box<dyn StoreLock>> {
            panic!("a reader locks")
        }
    }

    fn writer(store: &Arc<MemoryStore>) -> Db {
        let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
        let family = FamilySettings { write_buffer_size: 8 << 10, ..FamilySettings::default() };
        Builder::default().settings(settings).family("default", family).open_store(store.clone()).unwrap()
    }

    fn put_all(db: &Db, round: usize) {
        for n in 0..50u32 {
            db.put(&n.to_be_bytes(), &[round as u8; 50]).unwrap();
        }
    }

    /// Every table and log segment is replaced.
    fn work(db: &Db, round: usize) {
        put_all(db, round);
        db.compact_range(&db.default_family(), None, None).unwrap();
        db.put(b"z", &[round as u8; 50]).unwrap();
    }

    fn beside(kind: FileKind, times: usize) -> Arc<Beside> {
        let store = Arc::new(MemoryStore::new());
        let db = writer(&store);
        work(&db, times);
        Arc::new(Beside { store, at: At::Open(kind), work: Box::new(move |round| work(&db, round)), times: Mutex::new(times) })
    }

    #[test]
    fn an_open_that_loses_the_race_with_a_deletion_starts_again() {
        for kind in [FileKind::Table, FileKind::Log, FileKind::Manifest] {
            for times in 0..8 {
                let store = beside(kind, times);
                let db = Builder::default().read_only().open_store(store.clone()).unwrap_or_else(|e| panic!("{kind:?}, {times}: {e}"));
                let entries: Vec<_> = db.iter().map(|entry| entry.unwrap_or_else(|e| panic!("{kind:?}, {times}: {e}"))).collect();
                assert_eq!(entries.len(), 51, "{kind:?}, {times}");
                assert!(entries.iter().all(|e| e.1 == entries[0].1), "{kind:?}, {times}: one moment");
            }
        }
    }

    /// No table is replaced, and nothing names the segments that go.
    #[test]
    fn a_log_that_is_flushed_while_it_is_listed_is_not_taken_for_a_shorter_one() {
        for times in 0..8 {
            let store = Arc::new(MemoryStore::new());
            let db = writer(&store);
            put_all(&db, times);
            let flush = move |round| {
                db.flush().unwrap();
                put_all(&db, round);
            };
            let store = Arc::new(Beside { store, at: At::List, work: Box::new(flush), times: Mutex::new(times) });
            let db = Builder::default().read_only().open_store(store).unwrap_or_else(|e| panic!("{times}: {e}"));
            let entries: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
            assert_eq!(entries.len(), 50, "{times}: what was written before the open is there");
            assert!(entries.iter().all(|e| e.1 == entries[0].1), "{times}: one moment");
        }
    }

    /// The log of a process that died is replayed and deleted by the next writer, whose own log continues none.
    #[test]
    fn a_log_that_is_recovered_while_it_is_listed_is_not_taken_for_a_new_one() {
        for times in 1..5 {
            let store = Arc::new(MemoryStore::new());
            let db = writer(&store);
            put_all(&db, 1);
            let image = Arc::new(store.clone_image());
            let (shared, next) = (image.clone(), Mutex::new(None));
            let recover = move |left| {
                if left == 0 {
                    *next.lock() = Some(writer(&shared));
                }
            };
            let store = Arc::new(Beside { store: image, at: At::List, work: Box::new(recover), times: Mutex::new(times) });
            let db = Builder::default().read_only().open_store(store).unwrap_or_else(|e| panic!("{times}: {e}"));
            assert_eq!(db.iter().collect::<crate::error::Result<Vec<_>>>().unwrap().len(), 50, "{times}");
        }
    }

    /// A family is made, or dropped, and a batch is written, between the reader's looks at the manifest and at the log.
    #[test]
    fn batches_of_families_that_come_and_go_are_whole() {
        for is_made in [true, false] {
            for times in 1..5 {
                let store = Arc::new(MemoryStore::new());
                let db = writer(&store);
                let old = db.create_family("old", FamilySettings::default()).unwrap();
                db.put(b"k", b"old").unwrap();
                let work = move |left| {
                    let made = (is_made && left == 0).then(|| db.create_family("new", FamilySettings::default()).unwrap());
                    let mut batch = WriteBatch::new();
                    batch.put(b"k", b"new");
                    if let Some(made) = &made {
                        batch.put_in(made, b"k", b"new");
                    }
                    db.write(&mut batch, &WriteOptions::default()).unwrap();
                    if !is_made && left == 0 {
                        db.drop_family(&old).unwrap();
                    }
                };
                let store = Arc::new(Beside { store, at: At::Open(FileKind::Log), work: Box::new(work), times: Mutex::new(times) });
                let reader = Builder::default().read_only().open_store(store.clone()).unwrap_or_else(|e| panic!("{times}: {e}"));
                if *store.times.lock() > 0 {
                    continue;
                }
                assert_eq!(reader.get(b"k").unwrap().unwrap(), b"new");
                assert_eq!((reader.family("old").is_some(), reader.family("new").is_some()), (is_made, is_made), "{times}");
                if let Some(family) = reader.family("new") {
                    assert_eq!(reader.get_with(&family, b"k", &ReadOptions::default()).unwrap().unwrap(), b"new");
                }
            }
        }
    }

    #[test]
    fn a_table_that_is_missing_for_good_is_missing_after_all() {
        let store = Arc::new(MemoryStore::new());
        let db = writer(&store);
        work(&db, 1);
        drop(db);
        let (table, _) = store.list().unwrap().into_iter().find(|(id, _)| id.kind == FileKind::Table).unwrap();
        store.delete(table).unwrap();
        let db = Builder::default().read_only().open_store(store).expect("it bears missing tables");
        assert!(matches!(db.get(&[0; 4]), Err(Error::Corrupt { .. })));
        assert_eq!(db.verify().unwrap().len(), 1);
    }

    #[test]
    fn who_loses_every_race_hears_that_the_database_is_busy() {
        for kind in [FileKind::Table, FileKind::Log] {
            let opened = Builder::default().read_only().open_store(beside(kind, usize::MAX));
            assert!(matches!(&opened, Err(Error::Busy(_))), "{kind:?}: {opened:?}");
        }
        for kind in [FileKind::Table, FileKind::Log] {
            let store: Arc<dyn Store> = beside(kind, usize::MAX);
            assert!(matches!(verify_files(&store), Err(Error::Busy(_))), "{kind:?}");
        }
    }

    #[test]
    fn what_was_seen_stays_there() {
        let store = Arc::new(MemoryStore::new());
        // Without threads, which may delete files later.
        let db = writer(&store);
        let store: Arc<dyn Store> = store;
        work(&db, 1);
        let seen = see(&store).unwrap().unwrap();
        let reader = Builder::default().read_only().open_store(store.clone()).unwrap();
        work(&db, 2);
        assert!(seen.files.files.keys().filter(|id| store.open(**id).is_err()).count() > 1, "the writer has deleted some");
        let held: Vec<_> = seen.files.files.keys().map(|id| seen.files.open(*id).unwrap().len()).collect();
        assert!(held.len() > 2 && held.iter().all(|len| *len > 0));
        assert!(reader.verify().unwrap().is_empty());
        assert_eq!(reader.get(&[0; 4]).unwrap().unwrap(), [1; 50]);
    }
}
