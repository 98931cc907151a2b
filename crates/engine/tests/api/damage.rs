//! A damaged table on a database that is written to.

#![expect(clippy::disallowed_methods, reason = "a thread that may hang outlives its test")]

use super::*;
use sinter_storage::store::{
    Appender, Calls, DirStore, EMFILE, ENOSPC, Fault, FaultStore, FileId, FileKind, Hint, Operation, ReadAt, Result as StoreResult,
    StoreError, StoreLock, Temperature,
};
use sinterdb::WriteBatch;
use sinterdb::settings::{Preclude, Style};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes `count` keys from `from` on, all with new values.
fn write(db: &Db, family: &Family, model: &mut Model, (from, count): (usize, usize), round: usize) -> Result<(), Error> {
    for n in from..from + count {
        let value = noise(n * 31 + round, 60);
        db.put_with(family, &key(n), &value, &WriteOptions::default())?;
        model.insert(key(n), value);
    }
    Ok(())
}

/// Every key has its newest value or cannot be read; how many cannot.
fn unreadable(db: &Db, family: &Family, model: &Model, file: FileId) -> usize {
    let mut lost = 0;
    for (key, value) in model {
        match db.get_with(family, key, &ReadOptions::default()) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{}", key.escape_ascii()),
            Err(Error::Corrupt { file: named, .. }) if named == file.to_string() => lost += 1,
            Err(other) => panic!("{}: {other}", key.escape_ascii()),
        }
    }
    lost
}

/// A table from the middle of the deepest level.
fn deep_table(db: &Db, family: &Family) -> FileId {
    let version = db.version(family).unwrap();
    let tables = &version.levels.iter().rfind(|runs| !runs.is_empty()).unwrap()[0].tables;
    FileId::table(tables[tables.len() / 2].number)
}

fn flip(store: &MemoryStore, file: FileId, offset: u64) {
    store.corrupt(file, offset, |byte| *byte ^= 1).unwrap();
}

fn corrupt(result: Result<(), Error>, file: FileId) {
    match result {
        Err(Error::Corrupt { file: named, .. }) if named == file.to_string() => {}
        other => panic!("{file}: {other:?}"),
    }
}

/// Fills and compacts a database, and damages one of its tables: returns the former content, and the table.
fn with_damage(store: &MemoryStore, open: &dyn Fn() -> Db, count: usize) -> (Model, FileId) {
    let db = open();
    let mut model = Model::new();
    write(&db, &db.default_family(), &mut model, (0, count), 0).unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    let file = deep_table(&db, &db.default_family());
    db.close().unwrap();
    flip(store, file, 500);
    (model, file)
}

fn with_jobs(max_background_jobs: usize) -> DbSettings {
    DbSettings { max_background_jobs, ..DbSettings::default() }
}

#[test]
fn a_damaged_table_is_set_aside_and_writing_goes_on() {
    for (jobs, style) in [(0, Style::Leveled), (0, Style::Universal), (2, Style::Leveled), (2, Style::Universal)] {
        let store = memory();
        let settings = FamilySettings { style, ..small() };
        let open = || try_open(&store, builder().settings(with_jobs(jobs)).family("default", settings.clone())).unwrap();
        let (mut model, file) = with_damage(&store, &open, 6_000);
        let db = open();
        let family = db.default_family();
        let other = db.create_family("other", settings.clone()).unwrap();
        let mut others = Model::new();
        for round in 1..8 {
            write(&db, &family, &mut model, (0, 6_000), round).unwrap();
            write(&db, &other, &mut others, (0, 2_000), round).unwrap();
        }
        corrupt(db.wait_for_compactions(), file);
        corrupt(db.compact_range(&family, None, None), file);
        db.compact_range(&family, Some(&key(9_000)), None).unwrap();
        db.compact_range(&other, None, None).unwrap();

        let damaged = db.damaged_tables();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!((damaged[0].file.clone(), damaged[0].family.as_deref()), (file.to_string(), Some("default")));
        assert_eq!(db.verify().unwrap(), damaged);
        assert_eq!(db.property(&family, "rocksdb.background-errors").unwrap(), "1");
        let lines = db.property(&family, "sinterdb.damaged-tables").unwrap();
        assert!(lines.contains(&file.to_string()) && lines.lines().count() == 1, "{lines}");
        assert_eq!(db.property(&other, "sinterdb.damaged-tables").unwrap(), "");
        // Also what the failed merge had written.
        db.check_ledger().unwrap();

        // All keys have been overwritten above the damaged table.
        assert_eq!(unreadable(&db, &family, &model, file), 0);
        assert_eq!(unreadable(&db, &other, &others, file), 0);
        assert!(db.iter().any(|entry| entry.is_err()), "a scan needs the damaged table");
        corrupt(db.close(), file);

        // The next handle meets it again.
        let db = open();
        assert!(db.damaged_tables().is_empty());
        corrupt(db.compact_range(&db.default_family(), None, None), file);
        assert_eq!(db.damaged_tables().len(), 1);
        assert_eq!(unreadable(&db, &db.default_family(), &model, file), 0);
        corrupt(db.close(), file);
    }
}

#[test]
fn key_ranges_beside_a_damaged_table_are_compacted() {
    let store = memory();
    let open = || try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let (mut model, file) = with_damage(&store, &open, 6_000);
    let db = open();
    let family = db.default_family();
    for round in 1..4 {
        write(&db, &family, &mut model, (0, 6_000), round).unwrap();
    }
    db.flush().unwrap();
    corrupt(db.compact_range(&family, None, None), file);
    let range = db.damaged_tables()[0].key_range.clone().unwrap();
    let version = db.version(&family).unwrap();
    let bottom = version.deepest().unwrap();
    for (level, _, table) in version.tables() {
        let apart = table.range.largest < range.0 || table.range.smallest > range.1;
        assert!(level == bottom || level == 0 || !apart, "{} on level {level} is not near {range:?}", table.number);
    }
    assert_eq!(unreadable(&db, &family, &model, file), 0);
}

/// A family above whose damaged table too much has piled up refuses writes with the reason; it neither hangs nor grows without end, and the
/// other families are not concerned.
#[test]
fn a_pile_above_a_damaged_table_ends_in_a_clear_error() {
    for jobs in [0, 2] {
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            let store = memory();
            let settings = FamilySettings {
                level0_file_num_compaction_trigger: 2,
                level0_slowdown_writes_trigger: 6,
                level0_stop_writes_trigger: 8,
                max_compaction_bytes: 16 << 10,
                ..small()
            };
            let open = || try_open(&store, builder().settings(with_jobs(jobs)).family("default", settings.clone())).unwrap();
            let (mut model, file) = with_damage(&store, &open, 500);
            for _ in 0..2 {
                let db = open();
                let family = db.default_family();
                let other = db.family("other").unwrap_or_else(|| db.create_family("other", small()).unwrap());
                let ended = (1..200).find_map(|round| write(&db, &family, &mut model, (0, 500), round).err());
                corrupt(Err(ended.expect("the pile has a limit")), file);
                let mut batch = WriteBatch::new();
                batch.put_in(&other, b"k", b"v");
                batch.put(b"k", b"v");
                corrupt(db.write(&mut batch, &WriteOptions::default()), file);
                write(&db, &other, &mut Model::new(), (0, 2_000), 1).unwrap();
                assert_eq!(unreadable(&db, &family, &model, file), 0);
                assert_eq!(db.property(&family, "rocksdb.is-write-stopped").unwrap(), "0");
                let runs = db.version(&family).unwrap().levels[0].len();
                assert!((8..20).contains(&runs), "{runs} runs");
                // Room by decree: writing goes on.
                let more = FamilySettings { level0_stop_writes_trigger: 1_000, level0_slowdown_writes_trigger: 1_000, ..settings.clone() };
                db.change_family_settings(&family, more).unwrap();
                write(&db, &family, &mut model, (0, 500), 0).unwrap();
                db.change_family_settings(&family, settings.clone()).unwrap();
                db.put(b"k", b"v").unwrap_err();
                assert_eq!(unreadable(&db, &family, &model, file), 0);
                corrupt(db.close(), file);
            }
            let db = open();
            let family = db.create_family("new", small()).unwrap();
            db.drop_family(&db.family("other").unwrap()).unwrap();
            write(&db, &family, &mut Model::new(), (0, 500), 1).unwrap();
            done.send(()).unwrap();
        });
        finished.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|e| panic!("{jobs} jobs: {e}"));
    }
}

/// A scan within bounds needs the tables that have keys there, and no neighbour of theirs.
#[test]
fn scans_beside_a_damaged_table_do_not_touch_it() {
    let store = memory();
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let mut model = Model::new();
    write(&db, &db.default_family(), &mut model, (0, 6_000), 0).unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    let version = db.version(&db.default_family()).unwrap();
    let tables = &version.levels[version.deepest().unwrap()][0].tables;
    assert!(tables.len() >= 5, "{} tables", tables.len());
    let (before, broken, after) = (&tables[1].range, &tables[2], &tables[3].range);
    db.close().unwrap();
    store.remove(FileId::table(broken.number)).unwrap();

    let db = try_open(&store, builder().read_only()).unwrap();
    let inside = |range: &sinterdb::internal::manifest::KeyRange| model.range(range.smallest.clone()..=range.largest.clone()).count();
    let end = |key: &[u8]| [key, b"\0"].concat();
    // The bounds reach into the gaps: up to the broken table's first key, and from just behind its last.
    let below = ReadOptions { lower: Some(before.smallest.clone()), upper: Some(broken.range.smallest.clone()), ..ReadOptions::default() };
    let above = ReadOptions { lower: Some(end(&broken.range.largest)), upper: Some(end(&after.largest)), ..ReadOptions::default() };
    let gap = ReadOptions { lower: Some(end(&before.largest)), upper: Some(broken.range.smallest.clone()), ..ReadOptions::default() };
    let prefix = ReadOptions { prefix: Some(before.largest.clone()), ..ReadOptions::default() };
    for (options, expected) in [(below, inside(before)), (above, inside(after)), (gap, 0), (prefix, 1)] {
        let mut scan = db.iter_with(&db.default_family(), options.clone()).unwrap();
        let mut count = 0;
        scan.seek_first().unwrap();
        while scan.valid() {
            count += 1;
            scan.advance().unwrap();
        }
        assert_eq!(count, expected, "{options:?}");
        scan.seek_last().unwrap();
        while scan.valid() {
            count -= 1;
            scan.retreat().unwrap();
        }
        assert_eq!(count, 0, "{options:?}");
        scan.seek(b"").unwrap();
        scan.seek_for_prev(b"z").unwrap();
        assert_eq!(scan.valid(), expected > 0);
    }
    let across = ReadOptions { lower: Some(before.largest.clone()), upper: Some(end(&broken.range.smallest)), ..ReadOptions::default() };
    assert!(db.iter_with(&db.default_family(), across).unwrap().any(|entry| entry.is_err()));
}

#[test]
fn lack_of_space_is_forgotten_with_the_job_that_met_it() {
    let store = memory();
    let late = FamilySettings {
        level0_file_num_compaction_trigger: 20,
        level0_slowdown_writes_trigger: 100,
        level0_stop_writes_trigger: 200,
        target_file_size_base: 64 << 20,
        write_buffer_size: 32 << 20,
        max_compaction_bytes: 256 << 20,
        max_bytes_for_level_base: 64 << 20,
        ..small()
    };
    let open = || try_open(&store, builder().settings(with_jobs(2)).family("default", late.clone())).unwrap();
    let (_, file) = with_damage(&store, &open, 60_000);
    // Rather where it is read after the output has been created.
    flip(&store, file, 500);
    flip(&store, file, 3_500_000);
    let faults = Arc::new(FaultStore::new(store.clone() as Arc<dyn Store>));
    let db = builder().settings(with_jobs(2)).open_store(faults.clone() as Arc<dyn Store>).unwrap();
    let family = db.default_family();
    for n in 0..3 {
        write(&db, &family, &mut Model::new(), (0, 60_000), n + 1).unwrap();
        db.flush().unwrap();
    }
    // The output of the compaction that becomes due finds no room; when it is tried again, its input is damaged.
    let created = faults.count(Operation::Create);
    faults.inject(Fault::once(Calls::Only(Operation::Create), created, ENOSPC));
    db.change_family_settings(&family, FamilySettings { level0_file_num_compaction_trigger: 3, ..late.clone() }).unwrap();
    let start = Instant::now();
    while db.damaged_tables().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "{file} is met");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(faults.count(Operation::Create) >= created + 2, "lack of space came first");
    corrupt(db.wait_for_compactions(), file);
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
}

#[test]
fn a_writer_that_tries_again_on_a_full_medium_does_not_keep_compactions_from_making_room() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_ns(1_000_000_000);
    let family = FamilySettings { max_bytes_for_level_base: 4 << 20, ..small() };
    let faults = Arc::new(FaultStore::new(memory() as Arc<dyn Store>));
    let builder = builder().clock(clock.clone()).settings(with_jobs(2)).family("default", family);
    let db = builder.open_store(faults.clone() as Arc<dyn Store>).unwrap();
    fill(&db, 10_000, 60);
    db.compact_range(&db.default_family(), None, None).unwrap();
    for n in 0..4 {
        db.put(&key(n), b"v").unwrap();
        db.put(&key(9_000 + n), b"v").unwrap();
        db.flush().unwrap();
    }
    let tried = Arc::new(AtomicBool::new(false));
    let seen = tried.clone();
    faults.on_call(Some(Arc::new(move |_, operation| {
        let is_compaction = std::thread::current().name().is_some_and(|name| name.contains("compact"));
        seen.fetch_or(operation == Operation::Create && is_compaction, Ordering::Relaxed);
    })));
    faults.inject(Fault::from(Calls::Only(Operation::Create), 0, ENOSPC));
    let start = Instant::now();
    for n in 0.. {
        if tried.load(Ordering::Relaxed) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no compaction was tried");
        // Refused as soon as the memtable is full.
        drop(db.put(&key(n % 10_000), &noise(n, 60)));
        clock.advance_ns(1_000_000);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A table is cut while its file is open, when its length is no longer looked at.
#[test]
fn a_table_that_is_cut_while_it_is_open_is_set_aside() {
    for jobs in [0, 2] {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(DirStore::open(directory.path(), false).unwrap());
        let db = try_open(&store, builder().settings(with_jobs(jobs)).family("default", small())).unwrap();
        let (family, mut model) = (db.default_family(), Model::new());
        write(&db, &family, &mut model, (0, 3_000), 0).unwrap();
        db.compact_range(&family, None, None).unwrap();
        let file = deep_table(&db, &family);
        std::fs::OpenOptions::new().write(true).open(directory.path().join(file.to_string())).unwrap().set_len(500).unwrap();
        for round in 1..4 {
            write(&db, &family, &mut model, (0, 3_000), round).unwrap();
        }
        corrupt(db.compact_range(&family, None, None), file);
        assert_eq!(db.damaged_tables().len(), 1);
        assert!(db.damaged_tables()[0].offset.is_some());
        write(&db, &family, &mut model, (0, 3_000), 4).unwrap();
        assert_eq!(unreadable(&db, &family, &model, file), 0);
        corrupt(db.close(), file);
    }
}

/// A store in which files of one kind end after so many bytes, whatever their length was said to be.
#[derive(Debug)]
struct Short {
    below: Arc<MemoryStore>,
    kind: FileKind,
    length: u64,
}

#[derive(Debug)]
struct ShortFile {
    below: Arc<dyn ReadAt>,
    id: FileId,
    length: u64,
}

impl ReadAt for ShortFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        if offset + buffer.len() as u64 > self.length {
            return Err(StoreError::read(self.id, offset, std::io::ErrorKind::UnexpectedEof.into()));
        }
        self.below.read_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.below.len()
    }
}

impl Store for Short {
    fn create(&self, id: FileId, hint: &Hint) -> StoreResult<Box<dyn Appender>> {
        self.below.create(id, hint)
    }

    fn open(&self, id: FileId) -> StoreResult<Arc<dyn ReadAt>> {
        let below = self.below.open(id)?;
        let length = if id.kind == self.kind { self.length } else { u64::MAX };
        Ok(Arc::new(ShortFile { below, id, length }))
    }

    fn delete(&self, id: FileId) -> StoreResult<()> {
        self.below.delete(id)
    }

    fn list(&self) -> StoreResult<Vec<(FileId, u64)>> {
        self.below.list()
    }

    fn sync_names(&self) -> StoreResult<()> {
        self.below.sync_names()
    }

    fn free_bytes(&self) -> StoreResult<Option<u64>> {
        self.below.free_bytes()
    }

    fn lock(&self) -> StoreResult<Box<dyn StoreLock>> {
        self.below.lock()
    }
}

#[test]
fn a_short_read_of_any_file_is_damage() {
    for kind in [FileKind::Table, FileKind::Log, FileKind::Manifest, FileKind::Tier] {
        let (primary, tier) = (memory(), memory());
        let opened = |length: u64, read_only: bool| {
            let short = |below: &Arc<MemoryStore>| Arc::new(Short { below: below.clone(), kind, length });
            let builder = builder().settings(inline()).family("default", small()).tier_store(Temperature::Cold, short(&tier));
            try_open(&short(&primary), if read_only { builder.read_only() } else { builder })
        };
        let db = opened(u64::MAX, false).unwrap();
        write(&db, &db.default_family(), &mut Model::new(), (0, 500), 0).unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        db.put(b"in the log", b"value").unwrap();
        db.close().unwrap();
        for length in [0, 20] {
            match opened(length, false) {
                Err(Error::Corrupt { file, .. }) => assert_eq!(FileId::parse(&file).unwrap().kind, kind),
                other => panic!("{kind:?} of {length} bytes: {other:?}"),
            }
        }
        opened(u64::MAX, true).unwrap();
    }
}

/// Copies of tables are verified: damage is told with the table's name, and what was copied by then is no database.
#[test]
fn a_checkpoint_to_another_medium_does_not_copy_damage() {
    let store = memory();
    let open = || try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let (_, file) = with_damage(&store, &open, 2_000);
    let db = open();
    let target = memory();
    corrupt(db.checkpoint_to(&*target), file);
    let copied = target.list().unwrap();
    assert!(copied.iter().all(|(id, _)| *id != file && id.kind == FileKind::Table), "{copied:?}");
    assert!(matches!(try_open(&target, builder()), Err(Error::Corrupt { .. })));
    flip(&store, file, 500);
    let target = memory();
    db.checkpoint_to(&*target).unwrap();
    assert!(try_open(&target, builder()).unwrap().verify().unwrap().is_empty());
}

/// A move between tiers reads the whole table: a damaged one stays where it is, is set aside, and others move.
#[test]
fn a_damaged_table_does_not_move_to_another_tier() {
    let (primary, cold) = (memory(), memory());
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(1_700_000_000);
    let settings = FamilySettings { temperature_ages: "hot 1h, cold".parse().unwrap(), ..small() };
    let builder = || Db::builder().clock(clock.clone()).settings(inline()).family("default", settings.clone());
    let open = || builder().tier_store(Temperature::Cold, cold.clone()).open_store(primary.clone()).unwrap();
    let (model, file) = with_damage(&primary, &open, 2_000);
    let db = open();
    clock.advance_seconds(7200);
    corrupt(db.wait_for_compactions(), file);
    let tables = |store: &MemoryStore| -> Vec<FileId> {
        store.list().unwrap().into_iter().map(|(id, _)| id).filter(|id| id.kind == FileKind::Table).collect()
    };
    assert_eq!(tables(&primary), [file], "all others moved");
    assert!(tables(&cold).len() > 3);
    assert_eq!(db.damaged_tables().len(), 1);
    assert!((1..200).contains(&unreadable(&db, &db.default_family(), &model, file)));
    db.put(b"k", b"v").unwrap();
}

#[test]
fn a_lack_of_descriptors_is_no_damage_and_passes() {
    let below = Arc::new(FaultStore::new(memory()));
    let settings = DbSettings { max_open_files: 1, cache_size: 0, ..inline() };
    let db = try_open(&below, builder().settings(settings).family("default", small())).unwrap();
    let (family, mut model) = (db.default_family(), Model::new());
    write(&db, &family, &mut model, (0, 3_000), 0).unwrap();
    db.flush().unwrap();
    db.put(b"in the log", b"value").unwrap();
    below.inject(Fault::from(Calls::Only(Operation::Open), 0, EMFILE));
    below.inject(Fault::from(Calls::Only(Operation::Create), 0, EMFILE));
    let passes = |result: Result<(), Error>| match result {
        Err(Error::NoDescriptors(_)) => {}
        other => panic!("{other:?}"),
    };
    passes(db.verify().map(drop));
    passes(model.keys().try_for_each(|key| db.get(key).map(drop)));
    passes(db.compact_range(&family, None, None));
    passes(db.flush());
    passes((0..10).try_for_each(|round| write(&db, &family, &mut model, (0, 3_000), round)));
    below.clear();
    write(&db, &family, &mut model, (0, 3_000), 11).unwrap();
    db.compact_range(&family, None, None).unwrap();
    assert!(model.iter().all(|(key, value)| db.get(key).unwrap().as_ref() == Some(value)));
    assert!(db.damaged_tables().is_empty() && db.verify().unwrap().is_empty());
    db.close().unwrap();
}

/// On a database with a tier, where lack of space on the fast medium is answered by moves.
#[test]
fn a_lack_of_descriptors_is_told_to_writers_beside_a_tier() {
    let (fast, cold) = (Arc::new(FaultStore::new(memory())), Arc::new(FaultStore::new(memory())));
    let family = FamilySettings { preclude_last_level_data_seconds: Preclude::Seconds(86_400), ..small() };
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let builder = builder().settings(settings).family("default", family).tier_store(Temperature::Cold, cold.clone());
    let db = builder.open_store(fast.clone()).unwrap();
    fill(&db, 1500, 100);
    db.compact_range(&db.default_family(), None, None).unwrap();
    fill(&db, 1500, 100);
    db.wait_for_compactions().unwrap();
    for store in [&fast, &cold] {
        // The next log segment is made, and no table is.
        store.inject(Fault::from(Calls::Only(Operation::Create), store.count(Operation::Create) + 1, EMFILE));
    }
    let (tell, told) = mpsc::channel();
    let writer = db.clone();
    let writing = std::thread::spawn(move || {
        let error = (0..).find_map(|n| writer.put(&key(n % 1500), &noise(n, 100)).err());
        tell.send(error).unwrap();
    });
    let error = told.recv_timeout(Duration::from_secs(60));
    [&fast, &cold].iter().for_each(|store| store.clear());
    assert!(matches!(error, Ok(Some(Error::NoDescriptors(_)))), "{error:?}");
    writing.join().unwrap();
    for n in 0..1500 {
        while let Err(error) = db.put(&key(n), &noise(n, 100)) {
            assert!(matches!(error, Error::NoDescriptors(_)), "until a job has found some: {error:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(keys(&db).len(), 1500);
}
