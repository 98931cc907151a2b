//! Opening to read only, beside a writer that may be at work. Without a lock, files that the manifest named when it was read may be
//! deleted before they are opened. The writer deletes a file only after an edit that does without it, so whoever misses one finds a
//! changed manifest and starts again from that. Only what is missing from, or wrong with, a manifest that did not change meanwhile is
//! damage.
//!
//! Segments of the log are not named one by one, so nobody misses those that are deleted before the log is listed; what is left may look
//! like a whole log. Therefore the manifest is read again once all segments are open.

use super::{Builder, Db};
use crate::error::{Error, Result};
use crate::manifest;
use sinter_storage::store::{FileId, FileKind, Store};
use std::sync::Arc;

/// Opens before what is missing counts as missing: each lost race means that the writer finished a job during it.
const TRIES: usize = 10;

/// The manifests and their lengths: no edit goes unnoticed.
fn manifests(store: &dyn Store) -> Result<Vec<(FileId, u64)>> {
    let mut found: Vec<_> = store.list()?.into_iter().filter(|(id, _)| id.kind == FileKind::Manifest).collect();
    found.sort_unstable();
    Ok(found)
}

fn is_whole(db: &Db) -> bool {
    db.families().iter().all(|family| family.core.view.load().tree.tables().all(|table| !table.is_broken()))
}

/// After the log was opened: whatever of it was needed was there. `needed` is [`manifest::State::needed_log`] of before.
pub(super) fn check_log(store: &dyn Store, needed: u64) -> Result<()> {
    match manifest::load(store)?.state {
        Some(state) if state.needed_log() == needed => Ok(()),
        _ => Err(Error::Busy("the log was flushed while it was opened".into())),
    }
}

impl Builder {
    pub(super) fn open_to_read(&self, store: &Arc<dyn Store>) -> Result<Db> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let before = manifests(&**store)?;
            let opened = self.try_open(store.clone());
            if tries == 0 || opened.as_ref().is_ok_and(is_whole) || manifests(&**store)? == before {
                return opened;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::db::{Builder, Db};
    use crate::error::Error;
    use crate::settings::{DbSettings, FamilySettings};
    use parking_lot::Mutex;
    use sinter_storage::store::{Appender, FileId, FileKind, Hint, MemoryStore, ReadAt, Result, Store, StoreLock};
    use std::sync::Arc;

    /// What a reader sees of a store: before some of its calls something happens beside it.
    struct Beside {
        store: Arc<MemoryStore>,
        at: At,
        /// Is told how often it will still be called.
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

    #[test]
    fn a_table_that_is_missing_for_good_is_missing_after_all() {
        let store = beside(FileKind::Table, usize::MAX);
        let db = Builder::default().read_only().open_store(store).expect("it bears missing tables");
        assert!(matches!(db.get(&[0; 4]), Err(Error::Corrupt { .. })));
    }
}
