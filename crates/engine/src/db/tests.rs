//! Cases that random tests rarely meet: calls that cross each other at chosen moments, and handles that end amid work.

#![expect(clippy::disallowed_methods, reason = "threads that outlive the scope of a test's function")]

use super::jobs::{Ended, Job, Takes};
use super::*;
use crate::clock::ManualClock;
use crate::compaction::job::Outcome;
use crate::settings::{FamilySettings, Style};
use sinter_storage::store::{
    self, Appender, Calls, EIO, ENOSPC, Fault, FaultStore, FileKind, Hint, MemoryStore, Operation, ReadAt, Store, StoreLock, Temperature,
};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{self, ZonedStore};
use std::collections::BTreeSet;
use std::sync::{OnceLock, Weak, mpsc};

/// A store in which a flush stops at its first call of one kind, until it is let go.
struct Stage {
    memory: Arc<MemoryStore>,
    store: Arc<FaultStore>,
    reached: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Stage {
    fn new(at: Operation) -> Self {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultStore::new(memory.clone()));
        let (arrived, reached) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let (gone, waited) = (Mutex::new(gone), AtomicBool::new(false));
        store.on_call(Some(Arc::new(move |_, operation| {
            let is_flush = std::thread::current().name().is_some_and(|name| name.starts_with("sinterdb-flush"));
            if is_flush && operation == at && !waited.swap(true, Ordering::Relaxed) {
                arrived.send(()).unwrap();
                // A test that fails has dropped the other end.
                let _ = gone.lock().recv();
            }
        })));
        Stage { memory, store, reached, go }
    }

    fn open(&self, family: FamilySettings) -> Db {
        Db::builder().family(DEFAULT_FAMILY, family).open_store(self.store.clone()).unwrap()
    }
}

/// Memtables of a few writes.
fn tiny() -> FamilySettings {
    FamilySettings { write_buffer_size: 4 << 10, max_write_buffer_number: 2, ..FamilySettings::default() }
}

fn inline(store: Arc<dyn Store>) -> Db {
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    Db::builder().settings(settings).open_store(store).unwrap()
}

fn tables(store: &dyn Store) -> Vec<FileId> {
    store.list().unwrap().into_iter().map(|(id, _)| id).filter(|id| id.kind == FileKind::Table).collect()
}

fn put(db: &Db, family: &Family, key: &[u8]) -> Result<()> {
    db.put_with(family, key, &[7; 100], &WriteOptions::default())
}

#[test]
fn a_family_that_a_reopen_creates_leaves_the_log_its_worth() {
    let memory = Arc::new(MemoryStore::new());
    for durability in [Durability::Buffered, Durability::Sync] {
        let db = inline(memory.clone());
        let family = db.default_family();
        db.put_with(&family, format!("{durability:?}").as_bytes(), b"v", &WriteOptions { durability }).unwrap();
        let image = Arc::new(memory.clone_image());
        let db = Db::builder().family("new", FamilySettings::default()).open_store(image).unwrap();
        assert_eq!(db.get(format!("{durability:?}").as_bytes()).unwrap().as_deref(), Some(&b"v"[..]), "{durability:?}");
    }
}

#[test]
fn a_family_can_be_dropped_while_it_is_flushed() {
    for at in [Operation::Create, Operation::Seal, Operation::SyncNames] {
        let stage = Stage::new(at);
        let db = stage.open(FamilySettings::default());
        let family = db.create_family("gone", FamilySettings::default()).unwrap();
        put(&db, &family, b"k").unwrap();
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| db.flush());
            stage.reached.recv().unwrap();
            db.drop_family(&family).unwrap();
            stage.go.send(()).unwrap();
            flush.join().unwrap().unwrap();
        });
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        let left = tables(&*stage.memory);
        db.close().unwrap();
        assert_eq!(left.len(), 1, "at {at:?}: {left:?}");
    }
}

#[test]
fn an_idle_family_can_be_dropped_while_another_is_flushed() {
    let stage = Stage::new(Operation::SyncNames);
    let db = stage.open(FamilySettings::default());
    let idle = db.create_family("idle", FamilySettings::default()).unwrap();
    db.put(b"k", b"v").unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        stage.reached.recv().unwrap();
        db.drop_family(&idle).unwrap();
        stage.go.send(()).unwrap();
        flush.join().unwrap().unwrap();
    });
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
}

#[test]
fn a_close_does_not_wait_for_a_writer_that_waits_for_room() {
    let stage = Stage::new(Operation::Create);
    let db = stage.open(tiny());
    let writer = db.clone();
    let writing = std::thread::spawn(move || (0u32..).find_map(|n| writer.put(&n.to_be_bytes(), &[7; 1000]).err()));
    stage.reached.recv().unwrap();
    while !db.inner.queue.is_led() || db.property(&db.default_family(), "rocksdb.num-immutable-mem-table").as_deref() != Some("1") {
        std::thread::yield_now();
    }
    let (done, closed) = mpsc::channel();
    std::thread::spawn(move || done.send(db.close()));
    stage.go.send(()).unwrap();
    closed.recv_timeout(Duration::from_secs(120)).expect("the close waits for the writer").unwrap();
    assert!(matches!(writing.join().unwrap(), Some(Error::Closed(_))));
}

/// A flush is inside the sync of an old segment; writers fill memtables and begin segments meanwhile.
#[test]
fn writers_go_on_while_old_segments_are_synced() {
    let stage = Stage::new(Operation::Sync);
    let db = stage.open(FamilySettings { max_write_buffer_number: 6, ..tiny() });
    // With one family alone a flush need not sync the log.
    db.create_family("other", FamilySettings::default()).unwrap();
    let full = |db: &Db| db.property(&db.default_family(), "rocksdb.num-immutable-mem-table").and_then(|n| n.parse::<usize>().ok());
    let fill =
        move |db: &Db, until| (0u32..).find(|n| full(db).is_some_and(|full| full >= until) || db.put(&n.to_be_bytes(), &[7; 500]).is_err());
    fill(&db, 1);
    stage.reached.recv().unwrap();
    let (writer, (done, written)) = (db.clone(), mpsc::channel());
    std::thread::spawn(move || {
        fill(&writer, 3);
        done.send(full(&writer)).unwrap();
    });
    let outcome = written.recv_timeout(Duration::from_secs(60));
    stage.go.send(()).unwrap();
    assert_eq!(outcome.expect("a writer waits for the sync"), Some(3));
    db.sync().unwrap();
    let image = Arc::new(stage.memory.crash_with(0));
    let count = db.iter().count();
    assert_eq!(inline(image).iter().count(), count);
    db.close().unwrap();
}

#[test]
fn a_closed_database_can_be_opened_while_iterators_and_handles_live() {
    let memory = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(memory.clone()).unwrap();
    db.put(b"k", b"v").unwrap();
    let (handle, iterator) = (db.clone(), db.iter());
    db.close().unwrap();
    let next = Db::builder().open_store(memory).unwrap();
    next.delete(b"k").unwrap();
    assert_eq!(handle.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(iterator.count(), 1);
    assert!(matches!(handle.put(b"k", b"v"), Err(Error::Closed(_))));
}

#[test]
fn a_stop_that_no_compaction_can_end_does_not_hold_writers() {
    let family = FamilySettings {
        style: Style::Universal,
        level0_file_num_compaction_trigger: 1,
        level0_slowdown_writes_trigger: 1,
        level0_stop_writes_trigger: 1,
        ..FamilySettings::default()
    };
    let (done, written) = mpsc::channel();
    std::thread::spawn(move || {
        let db = Db::builder().family(DEFAULT_FAMILY, family).open_store(Arc::new(MemoryStore::new())).unwrap();
        for n in 0..3u8 {
            db.put(&[n], b"v").unwrap();
            db.flush().unwrap();
        }
        done.send(()).unwrap();
    });
    written.recv_timeout(Duration::from_secs(120)).expect("a writer waits for ever");
}

#[test]
fn families_take_turns_in_being_compacted() {
    let db = inline(Arc::new(MemoryStore::new()));
    let settings = |trigger| FamilySettings { level0_file_num_compaction_trigger: trigger, ..FamilySettings::default() };
    let families: Vec<Family> = ["a", "b", "c"].map(|name| db.create_family(name, settings(20)).unwrap()).into();
    for family in families.iter().cycle().take(6) {
        put(&db, family, b"key").unwrap();
        db.flush().unwrap();
    }
    let ids: Vec<u32> = families.iter().map(Family::id).collect();
    // Nothing runs while all are reserved.
    db.inner.shared.lock().jobs.manual.extend(&ids);
    families.iter().for_each(|family| db.change_family_settings(family, settings(2)).unwrap());
    let mut shared = db.inner.shared.lock();
    shared.jobs.manual.clear();
    // Each has work to do at any time, as if writers never paused.
    let mut served = || {
        let Some(Job::Compact { core, plan, .. }) = db.inner.next_job(&mut shared, Takes::Compactions) else { panic!("all are due") };
        db.inner.unmark(&mut shared, &core, &plan);
        core.id
    };
    assert_eq!([served(), served(), served(), served()], [ids[0], ids[1], ids[2], ids[0]]);
}

#[test]
fn a_read_only_open_reads_what_is_whole() {
    let memory = Arc::new(MemoryStore::new());
    let db = inline(memory.clone());
    let other = db.create_family("other", FamilySettings::default()).unwrap();
    let mut last = Vec::new();
    for key in [b"a", b"m", b"z"] {
        db.put(key, b"v").unwrap();
        db.flush().unwrap();
        last.push(*tables(&*memory).iter().max().unwrap());
    }
    put(&db, &other, b"m").unwrap();
    db.close().unwrap();
    let length = memory.bytes(last[0]).unwrap().len() as u64;
    memory.corrupt(last[0], length - 20, |byte| *byte ^= 1).unwrap();
    memory.remove(last[1]).unwrap();

    let strict = Db::builder().open_store(memory.clone()).unwrap_err().to_string();
    assert!(strict.contains(&last[0].to_string()) || strict.contains(&last[1].to_string()), "{strict}");

    let db = Db::builder().read_only().open_store(memory).unwrap();
    assert!(matches!(db.get(b"a"), Err(Error::Corrupt { file, .. }) if file == last[0].to_string()));
    assert!(matches!(db.get(b"m"), Err(Error::Corrupt { .. })));
    assert_eq!(db.get(b"z").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.get(b"b").unwrap(), None, "outside the key ranges");
    assert_eq!(db.get_with(&db.family("other").unwrap(), b"m", &ReadOptions::default()).unwrap(), Some(vec![7; 100]));
    assert!(db.iter().any(|item| item.is_err()));
    let upper = ReadOptions { lower: Some(b"n".to_vec()), ..ReadOptions::default() };
    let keys: Vec<_> = db.iter_with(&db.default_family(), upper).unwrap().map(|item| item.unwrap().0).collect();
    assert_eq!(keys, [b"z"]);
    let mut damage = db.verify().unwrap();
    damage.sort_by(|a, b| a.file.cmp(&b.file));
    let named: Vec<_> = damage.iter().map(|d| (d.file.as_str(), d.key_range.clone().unwrap().0)).collect();
    assert_eq!(named, [(&*last[0].to_string(), b"a".to_vec()), (&*last[1].to_string(), b"m".to_vec())]);
}

#[test]
fn an_edit_is_good_though_the_marker_behind_it_found_no_space() {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let db = inline(store.clone());
    store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append) + 1, ENOSPC).torn(5));
    db.create_family("one", FamilySettings::default()).unwrap();
    db.create_family("two", FamilySettings::default()).unwrap();
    db.close().unwrap();
    let names: Vec<String> = inline(store).families().iter().map(|f| f.name().to_owned()).collect();
    assert_eq!(names, ["default", "one", "two"]);
}

/// Number of appends from now on up to that of the next flush's edit: the last but the marker behind it.
fn edit_of_a_flush() -> u64 {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let db = inline(store.clone());
    db.put(b"k", b"v").unwrap();
    let before = store.count(Operation::Append);
    db.flush().unwrap();
    store.count(Operation::Append) - before - 2
}

#[test]
fn flushes_that_cannot_be_published_leave_no_tables_behind() {
    for torn in [0, 5, u64::MAX] {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultStore::new(memory.clone()));
        let db = inline(store.clone());
        db.put(b"k", b"v").unwrap();
        store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append) + edit_of_a_flush(), ENOSPC).torn(torn));
        assert!(matches!(db.flush(), Err(Error::NoSpace(_))));
        // Whoever opens next may find the edit: what it names has to stay.
        assert_eq!(tables(&*memory).len(), 1);
        assert_eq!(inline(Arc::new(memory.clone_image())).get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        db.put(b"l", b"v").unwrap();
        assert!(tables(&*memory).is_empty(), "a new manifest says nothing of the table");
        db.flush().unwrap();
        let live = db.version(&db.default_family()).unwrap();
        assert_eq!(tables(&*memory).len(), live.tables().count());
    }
}

#[test]
fn writes_to_a_family_whose_removal_failed_are_kept() {
    for torn in [0, 5, u64::MAX] {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultStore::new(memory.clone()));
        let db = inline(store.clone());
        let family = db.create_family("family", FamilySettings::default()).unwrap();
        let options = WriteOptions { durability: Durability::Sync };
        db.put_with(&family, b"k", b"1", &options).unwrap();
        store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append), ENOSPC).torn(torn));
        store.inject(Fault::from(Calls::Only(Operation::Create), 0, ENOSPC));
        assert!(matches!(db.drop_family(&family), Err(Error::NoSpace(_))));
        // The manifest may say that the family is gone, and no other can be written.
        assert!(matches!(db.put_with(&family, b"k", b"2", &options), Err(Error::NoSpace(_))));
        assert_eq!(db.get_with(&family, b"k", &ReadOptions::default()).unwrap().as_deref(), Some(&b"1"[..]));
        store.clear();
        db.put_with(&family, b"k", b"3", &options).unwrap();
        for seed in 0..8u64 {
            let db = inline(Arc::new(memory.crash_with(seed)));
            let family = db.family("family").unwrap_or_else(|| panic!("torn {torn}, seed {seed}: the family is gone"));
            assert_eq!(
                db.get_with(&family, b"k", &ReadOptions::default()).unwrap().as_deref(),
                Some(&b"3"[..]),
                "torn {torn}, seed {seed}"
            );
        }
    }
}

/// Names that a failed sync did not make durable may not be so after the next one either, although that reports no error.
#[test]
fn a_failed_sync_of_names_ends_the_handle() {
    for at in 0..2 {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultStore::new(memory.clone()));
        let db = inline(store.clone());
        db.put_with(&db.default_family(), b"k", b"v", &WriteOptions { durability: Durability::Sync }).unwrap();
        if at == 1 {
            // The sync comes with a change of manifests.
            store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append), ENOSPC));
            assert!(matches!(db.create_family("one", FamilySettings::default()), Err(Error::NoSpace(_))));
        }
        store.inject(Fault::once(Calls::Only(Operation::SyncNames), store.count(Operation::SyncNames), ENOSPC));
        assert!(matches!(if at == 0 { db.flush() } else { db.put(b"l", b"v") }, Err(Error::NoSpace(_))));
        assert!(matches!(db.put(b"l", b"v"), Err(Error::Closed(_))));
        drop(db);
        assert_eq!(inline(memory).get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}

/// A sync after a failed one must not take the segment of the failed one for synced.
#[test]
fn a_failed_sync_of_an_old_segment_is_not_forgotten() {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let db = inline(store.clone());
    db.put(b"k", b"v").unwrap();
    store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append), ENOSPC));
    assert!(matches!(db.put(b"l", b"v"), Err(Error::NoSpace(_))));
    store.inject(Fault::once(Calls::Only(Operation::Sync), store.count(Operation::Sync), EIO));
    assert!(matches!(db.inner.sync_retired(), Err(Error::Io(_))));
    assert!(matches!(db.inner.sync_retired(), Err(Error::Closed(_))));
}

/// The log of a database that is not written to takes what its records take, whether a segment was followed by another or was the last.
#[test]
fn segments_that_end_give_back_the_zeros_ahead_of_them() {
    let memory = Arc::new(MemoryStore::new());
    memory.set_ahead(4096);
    let store = Arc::new(FaultStore::new(memory.clone()));
    let db = inline(store.clone());
    let id = db.inner.db;
    let segments = || -> Vec<(u64, u64)> {
        let files = memory.list().unwrap().into_iter().filter(|(file, _)| file.kind == FileKind::Log);
        files.map(|(file, len)| (len, crate::wal::survey_log(&*memory, Some(id), file).unwrap().0.end.good)).collect()
    };
    let excess = || segments().iter().map(|(len, good)| len - good).collect::<Vec<_>>();
    db.put(b"k", b"v").unwrap();
    db.inner.lead_in_turn(|state| db.inner.start_log(state, 0)).unwrap();
    db.put(b"l", b"v").unwrap();
    assert!(excess().len() == 2 && excess().iter().all(|excess| *excess > 0), "{:?}", segments());
    db.sync().unwrap();
    assert!(excess()[0] == 0 && excess()[1] > 0, "a segment that is followed by another: {:?}", segments());
    db.close().unwrap();
    assert_eq!(excess(), [0, 0], "{:?}", segments());

    // Zeros that cannot be given back do no harm.
    let db = inline(store.clone());
    assert_eq!(db.recovery().cut_bytes, 0);
    db.put(b"m", b"v").unwrap();
    store.inject(Fault::from(Calls::Only(Operation::Close), 0, EIO));
    db.close().unwrap();
    assert!(excess().iter().any(|excess| *excess > 0), "{:?}", segments());
    assert_eq!(inline(memory.clone()).iter().count(), 3);
}

/// A segment whose creation failed may be there all the same, whole header and all, and names the length that the active one had then.
#[test]
fn a_segment_that_was_not_to_be_does_not_shorten_the_one_before() {
    for (torn, deleted) in [(0, true), (5, true), (u64::MAX, true), (0, false), (5, false), (u64::MAX, false)] {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultStore::new(memory.clone()));
        let db = inline(store.clone());
        let durable = WriteOptions { durability: Durability::Sync };
        db.put_with(&db.default_family(), b"1", b"v", &durable).unwrap();
        store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append), ENOSPC).torn(torn));
        if !deleted {
            store.inject(Fault::once(Calls::Only(Operation::Delete), store.count(Operation::Delete), EIO));
        }
        assert!(matches!(db.flush(), Err(Error::NoSpace(_))));
        db.put_with(&db.default_family(), b"2", b"v", &durable).unwrap();
        let check = |wanted: usize| {
            for seed in 0..8u64 {
                let found = inline(Arc::new(memory.crash_with(seed))).iter().count();
                assert_eq!(found, wanted, "torn {torn}, deleted {deleted}, seed {seed}");
            }
        };
        check(2);
        // A segment that is to be.
        db.inner.lead_in_turn(|state| db.inner.start_log(state, 0)).unwrap();
        db.put_with(&db.default_family(), b"3", b"v", &durable).unwrap();
        check(3);
    }
}

/// A store on which it takes long to open a table: meanwhile others want to plan jobs and to switch memtables.
struct Slow {
    memory: MemoryStore,
    inner: OnceLock<Weak<Inner>>,
    opened: AtomicU64,
}

impl std::fmt::Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.memory.fmt(f)
    }
}

impl Store for Slow {
    fn create(&self, id: FileId, hint: &Hint) -> store::Result<Box<dyn Appender>> {
        self.memory.create(id, hint)
    }
    fn open(&self, id: FileId) -> store::Result<Arc<dyn ReadAt>> {
        if let Some(inner) = self.inner.get().and_then(Weak::upgrade).filter(|_| id.kind == FileKind::Table) {
            assert!(inner.shared.try_lock().is_some(), "{id} is opened while others wait");
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        self.memory.open(id)
    }
    fn delete(&self, id: FileId) -> store::Result<()> {
        self.memory.delete(id)
    }
    fn list(&self) -> store::Result<Vec<(FileId, u64)>> {
        self.memory.list()
    }
    fn sync_names(&self) -> store::Result<()> {
        self.memory.sync_names()
    }
    fn free_bytes(&self) -> store::Result<Option<u64>> {
        self.memory.free_bytes()
    }
    fn lock(&self) -> store::Result<Box<dyn StoreLock>> {
        self.memory.lock()
    }
}

#[test]
fn nobody_waits_for_new_tables_to_be_opened() {
    let slow = Arc::new(Slow { memory: MemoryStore::new(), inner: OnceLock::new(), opened: AtomicU64::new(0) });
    let db = inline(slow.clone());
    slow.inner.set(Arc::downgrade(&db.inner.0)).unwrap();
    for round in 0..3 {
        db.put(b"key", &[round]).unwrap();
        db.flush().unwrap();
    }
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert!(slow.opened.load(Ordering::Relaxed) > 3);
    assert_eq!(db.get(b"key").unwrap().unwrap(), [2]);
    db.close().unwrap();
}

/// Memory of memtables is kept for the next ones, until somebody waits for the end of a load.
#[test]
fn memory_of_memtables_is_given_back_after_a_load() {
    let db = inline(Arc::new(MemoryStore::new()));
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    assert!(db.inner.0.pool.free_bytes() > 0);
    db.wait_for_compactions().unwrap();
    assert_eq!(db.inner.0.pool.free_bytes(), 0);
    db.close().unwrap();
}

/// Compactions are due all the time: what belongs elsewhere leaves the fast medium all the same.
#[test]
fn a_move_has_its_turn_although_compactions_are_due() {
    let clock = Arc::new(ManualClock::default());
    let settings = |ages: &str| FamilySettings {
        level0_file_num_compaction_trigger: 2,
        temperature_ages: ages.parse().unwrap(),
        ..FamilySettings::default()
    };
    let builder = Db::builder().clock(clock.clone()).family(DEFAULT_FAMILY, settings("hot"));
    let builder = builder.tier_store(Temperature::Cold, Arc::new(MemoryStore::new()));
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    // As if so many were at work that no other may begin.
    db.inner.shared.lock().jobs.running += 100;
    for n in 0..5 {
        db.put(b"key", &[n]).unwrap();
        db.flush().unwrap();
    }
    db.change_family_settings(&db.default_family(), settings("cold")).unwrap();
    let mut shared = db.inner.shared.lock();
    let is_due = db.inner.is_compaction_due(&shared);
    let early = db.inner.next_move(&mut shared);
    clock.advance_seconds(61);
    let late = db.inner.next_move(&mut shared);
    // Whatever comes of this, the database can be closed.
    shared.jobs.running -= 100;
    drop(shared);
    let had_turn = [&early, &late].map(Option::is_some);
    [early, late].into_iter().flatten().for_each(|job| db.inner.run_job(job).unwrap());
    assert_eq!((is_due, had_turn), (true, [false, true]), "after a minute");
    db.wait_for_compactions().unwrap();
    let tables = db.version(&db.default_family()).unwrap();
    assert!(tables.tables().all(|(_, _, table)| db.tier_of(table.number).unwrap() == Temperature::Cold));
    db.close().unwrap();
}

/// A panic in a thread that helps a job is an error of the job, at any time; that a job was stopped by the close itself is none.
#[test]
fn a_job_that_fails_while_the_database_closes_is_told_of() {
    let ended = |outcome: Result<Outcome>| {
        let db = Db::builder().open_store(Arc::new(MemoryStore::new())).unwrap();
        db.inner.shared.lock().closing = true;
        let result = db.inner.finished(outcome).map(|report| if report.is_some() { Ended::Published } else { Ended::Stopped });
        let settled = db.inner.note_ended(&mut db.inner.shared.lock(), result);
        [settled, db.close()]
    };
    ended(Ok(Outcome::Cancelled(Vec::new()))).into_iter().for_each(|result| result.unwrap());
    for result in ended(Err(Error::Closed("compressing a block panicked".into()))) {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("compressing a block panicked"), "{error}");
    }
}

/// Lifetimes go by the depth below the base level: with dynamic levels, the default, the last level is the base level at first.
#[test]
fn how_long_a_table_lives_goes_by_the_base_level() {
    let geometry = Geometry { block: 4096, zones: 64, zone_size: 1 << 20, max_open: None, max_active: None, conventional: 0 };
    let lifetimes = |dynamic: bool| {
        let drive = Arc::new(Emulator::memory(geometry.clone(), 1 << 20).unwrap());
        let options = zoned_store::Options { background: false, ..zoned_store::Options::default() };
        let store = Arc::new(ZonedStore::format(drive, zoned_store::VolumeId([7; 16]), options).unwrap());
        let family = FamilySettings {
            write_buffer_size: 64 << 10,
            target_file_size_base: 64 << 10,
            max_bytes_for_level_base: 256 << 10,
            max_bytes_for_level_multiplier: 4.0,
            level_compaction_dynamic_level_bytes: dynamic,
            ..FamilySettings::default()
        };
        let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
        let db = Db::builder().settings(settings).family("default", family).open_store(store.clone()).unwrap();
        let (mut seen, mut key) = (BTreeSet::new(), 1u64);
        for _ in 0..80 {
            for _ in 0..100 {
                key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                // Of no use to a codec.
                let value: Vec<u8> = (0..64u64).flat_map(|i| (key ^ i).wrapping_mul(0xd134_2543_de82_ef95).to_be_bytes()).collect();
                db.put(&key.to_be_bytes(), &value).unwrap();
            }
            db.flush().unwrap();
            let tables = store.files().into_iter().filter(|file| file.id.kind == FileKind::Table);
            seen.extend(tables.map(|file| (file.about.level, file.about.lifetime)));
        }
        seen
    };
    let (medium, long, extreme) = (3, 4, 5);
    let dynamic = lifetimes(true);
    for expected in [(0, medium), (6, medium), (5, medium), (6, long)] {
        assert!(dynamic.contains(&expected), "{expected:?} not in {dynamic:?}");
    }
    let fixed = lifetimes(false);
    let levels = [(0, medium), (1, medium), (2, long), (3, extreme)];
    assert!(fixed.is_subset(&BTreeSet::from(levels)) && fixed.len() >= 3, "{fixed:?}");
}

/// A log that is too long switches no more memtables while the flush that frees the oldest segments is to come.
#[test]
fn a_log_that_a_flush_shortens_switches_nothing_more() {
    let settings = DbSettings { max_total_wal_size: 150 << 10, ..DbSettings::default() };
    let family = FamilySettings { write_buffer_size: 128 << 10, max_write_buffer_number: 20, ..FamilySettings::default() };
    let builder = Db::builder().settings(settings).family(DEFAULT_FAMILY, family.clone()).family("side", family);
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    let (main, side) = (db.default_family(), db.family("side").unwrap());
    let full = |family: &Family| family.core.view.load().full.len();
    // As if both were being flushed.
    db.inner.shared.lock().jobs.flushing.extend([main.core.id, side.core.id]);
    for n in 0..1500u32 {
        if n % 50 == 0 {
            put(&db, &side, &n.to_be_bytes()).unwrap();
        }
        put(&db, &main, &n.to_be_bytes()).unwrap();
    }
    let switched = (full(&main), full(&side));
    db.inner.shared.lock().jobs.flushing.clear();
    db.inner.work.notify_all();
    assert!(switched.0 <= 2 && switched.1 == 1, "{switched:?}: one was full, and the other kept its log");
    db.close().unwrap();
}

/// A process that forks without running another program leaves its child a copy of the handle, which the child drops when it ends.
#[test]
fn a_forked_child_closes_nothing() {
    let memory = Arc::new(MemoryStore::new());
    let db = inline(memory.clone());
    db.put(b"a", b"1").unwrap();
    let child = db.inner.process ^ 1;
    assert!(matches!(db.inner.shut_down_in(child), Err(Error::Closed(_))));
    db.put(b"b", b"2").unwrap();
    assert!(matches!(Db::builder().open_store(memory.clone()), Err(Error::Busy(_))));
    db.close().unwrap();
    assert_eq!(inline(memory).iter().count(), 2);
}
