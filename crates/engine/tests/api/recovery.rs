//! Opening with a log that is much longer than memtables may be.

use super::*;
use sinter_storage::store::{Calls, EIO, ENOSPC, Fault, FaultStore, FileId, FileKind};
use sinterdb::WriteBatch;
use sinterdb::clock::{Clock, SystemClock};

const FAMILIES: usize = 3;
const BATCHES: usize = 4000;

/// Memtables that hold everything, so that everything stays in the log.
fn roomy() -> FamilySettings {
    FamilySettings { write_buffer_size: 1 << 30, ..FamilySettings::default() }
}

/// A store that holds about 2 MB in its log, and in tables nothing but a family that made it begin segments.
/// Every batch goes to all families; every third overwrites.
fn long_log() -> Arc<MemoryStore> {
    let store = memory();
    let db = try_open(&store, builder().settings(inline()).family("default", roomy())).unwrap();
    let names = (1..FAMILIES).map(|n| n.to_string());
    let families: Vec<Family> = names.map(|name| db.create_family(&name, roomy()).unwrap()).chain([db.default_family()]).collect();
    let switch = db.create_family("switch", FamilySettings { write_buffer_size: 4 << 10, ..roomy() }).unwrap();
    for n in 0..BATCHES {
        let mut batch = WriteBatch::new();
        families.iter().for_each(|family| batch.put_in(family, &key(at(n)), &noise(n, 100)));
        db.write(&mut batch, &WriteOptions::default()).unwrap();
        if n % 1000 == 0 {
            db.sync().unwrap();
            // Each time its memtable is full, a segment is begun.
            db.put_with(&switch, b"k", &noise(n, 5000), &WriteOptions::default()).unwrap();
        }
    }
    drop((families, switch));
    db.close().unwrap();
    store
}

/// The key of a batch.
fn at(n: usize) -> usize {
    if n.is_multiple_of(3) { n / 2 } else { n }
}

fn expected() -> Vec<(Vec<u8>, Vec<u8>)> {
    let newest: std::collections::BTreeMap<_, _> = (0..BATCHES).map(|n| (key(at(n)), noise(n, 100))).collect();
    newest.into_iter().collect()
}

/// The families with much data.
fn long(db: &Db) -> impl Iterator<Item = Family> {
    db.families().into_iter().filter(|family| family.name() != "switch")
}

fn whole(db: &Db) {
    let expected = expected();
    for family in long(db) {
        let found = all(db, &family);
        assert!(found == expected, "family {} differs: {} entries of {}", family.name(), found.len(), expected.len());
    }
}

/// Room for a tenth of what a family has in the log.
fn tight() -> Builder {
    let small = FamilySettings { write_buffer_size: 64 << 10, ..FamilySettings::default() };
    builder().settings(inline()).family("default", small.clone()).family("1", small.clone()).family("2", small)
}

fn ids(store: &dyn Store, kind: FileKind) -> Vec<FileId> {
    store.list().unwrap().into_iter().map(|(id, _)| id).filter(|id| id.kind == kind).collect()
}

#[test]
fn a_long_log_is_recovered_in_pieces() {
    let store = long_log();
    let logs = ids(&*store, FileKind::Log);
    assert!(logs.len() > 2, "{logs:?}");
    let db = try_open(&store, tight()).unwrap();
    whole(&db);
    assert!(db.recovery().records_replayed >= BATCHES as u64);
    for family in long(&db) {
        let version = db.version(&family).unwrap();
        let newest = version.levels[0].iter().map(|run| run.tables.iter().map(|t| t.max_seq).max().unwrap());
        assert!(newest.clone().count() > 5, "{} is in {} runs", family.name(), newest.count());
        assert!(newest.is_sorted_by(|a, b| a > b), "newer runs come first");
        for table in version.levels[0].iter().flat_map(|run| &run.tables) {
            assert!(table.raw_bytes < 64 << 10, "a memtable of {} bytes", table.raw_bytes);
        }
    }
    assert!(ids(&*store, FileKind::Log).iter().all(|id| !logs.contains(id)), "the old log is gone");
    // And the numbers go on where they were.
    let before = db.snapshot().seq();
    db.put(b"after", b"").unwrap();
    assert_eq!(db.snapshot().seq(), before + 1);
    drop(db);
    let db = open(&store);
    db.delete(b"after").unwrap();
    whole(&db);
}

#[test]
fn the_memtables_of_a_recovery_share_a_budget() {
    let store = long_log();
    let settings = DbSettings { db_write_buffer_size: 100 << 10, ..inline() };
    let db = try_open(&store, builder().settings(settings)).unwrap();
    whole(&db);
    let runs: usize = long(&db).map(|family| db.version(&family).unwrap().levels[0].len()).sum();
    assert!(runs > 15, "{runs} runs");
}

#[test]
fn a_read_only_handle_keeps_a_long_log_in_memory() {
    let store = long_log();
    let files = store.list().unwrap();
    let db = try_open(&store, tight().read_only()).unwrap();
    whole(&db);
    assert!(db.stats().memtable_bytes > 1 << 20);
    assert_eq!(store.list().unwrap(), files);
}

/// Damage at the end of the log, where most of it has been replayed already: refused, with nothing changed.
#[test]
fn a_hole_late_in_the_log_is_found_before_anything_is_written() {
    let store = long_log();
    let last = *ids(&*store, FileKind::Log).iter().filter(|id| store.bytes(**id).unwrap().len() > 10_000).max().unwrap();
    let bytes = store.bytes(last).unwrap();
    let files = store.list().unwrap();
    let near = bytes.len() as u64 - 1000;
    let broken = [
        ("a flip", [&bytes[..bytes.len() - 400], &[bytes[bytes.len() - 400] ^ 1], &bytes[bytes.len() - 399..]].concat()),
        ("an early end", bytes[..bytes.len() - 300].to_vec()),
        ("no header", [&[0; 40], &bytes[40..]].concat()),
    ];
    for (what, broken) in broken {
        store.replace(last, broken);
        let files_now = store.list().unwrap();
        for _ in 0..2 {
            let mutations = FaultStore::new(store.clone());
            let mutations = Arc::new(mutations);
            let outcome = tight().open_store(mutations.clone());
            let Err(Error::Corrupt { file, offset, .. }) = outcome else { panic!("{what}: {outcome:?}") };
            assert_eq!(file, last.to_string(), "{what}");
            assert!(offset >= near || what == "no header", "{what}: {offset}");
            assert_eq!(mutations.mutating_calls(), 0, "{what}: the store was changed");
        }
        assert_eq!(store.list().unwrap(), files_now, "{what}");
    }
    store.replace(last, bytes);
    assert_eq!(store.list().unwrap(), files);
    whole(&try_open(&store, tight()).unwrap());
}

/// Recoveries that fail or crash half-way, again and again: nothing is lost, and what they wrote does not pile up.
#[test]
fn an_interrupted_recovery_leaves_nothing_behind() {
    for errno in [EIO, ENOSPC] {
        let store = long_log();
        let mut most = 0;
        for round in 0..12 {
            let left = ids(&*store, FileKind::Table).len() as u64;
            let faulty = Arc::new(FaultStore::new(store.clone()));
            // From some call on nothing works, deletions included: as if the process had died there.
            faulty.inject(Fault::from(Calls::Mutating, left + 10 + 5 * round, errno));
            assert!(tight().open_store(faulty).is_err());
            most = most.max(ids(&*store, FileKind::Table).len());
        }
        let db = try_open(&store, tight()).unwrap();
        whole(&db);
        let named: usize = db.families().iter().map(|family| db.version(family).unwrap().tables().count()).sum();
        assert_eq!(ids(&*store, FileKind::Table).len(), named);
        // One recovery writes as much.
        assert!((named / 2..=named).contains(&most), "there were {most} tables at a time, in the end {named}");
    }
}

/// `cargo test --release -p sinterdb --test api -- --ignored --nocapture a_gibibyte` prints seconds and memory of a recovery.
#[test]
#[ignore = "a measurement, run by hand"]
fn a_gibibyte_of_log() {
    let directory = tempfile::tempdir().unwrap();
    let open = |buffer: u64| {
        let family = FamilySettings { write_buffer_size: buffer, ..FamilySettings::default() };
        Db::builder().settings(DbSettings { max_total_wal_size: 4 << 30, ..inline() }).family("default", family).open(directory.path())
    };
    let db = open(2 << 30).unwrap();
    let value = noise(1, 1000);
    (0..1usize << 20).for_each(|n| db.put(&key(n.wrapping_mul(0x9e37_79b1) & 0xfffff), &value).unwrap());
    db.close().unwrap();
    // The kernel's high-water mark starts again from here.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS")).collect::<Vec<_>>().join(", ")
    };
    let before = memory();
    let clock = SystemClock::default();
    let start = clock.monotonic_ns();
    let db = open(64 << 20).unwrap();
    println!("{:.2} s; before {before}; after {}", (clock.monotonic_ns() - start) as f64 / 1e9, memory());
    assert!(db.recovery().records_replayed == 1 << 20);
}

/// The log of a directory has zeros ahead of it while it is written. A reader beside, and whoever finds the files of a killed process, sees
/// every write, and nothing that was cut.
#[test]
fn zeros_ahead_of_a_log_are_not_cut() {
    let (home, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |path: &std::path::Path| builder().settings(inline()).family("default", roomy()).open(path).unwrap();
    let db = open(home.path());
    for n in 0..3000 {
        db.put(&key(n), &noise(n, 100)).unwrap();
        if n == 1000 {
            db.sync().unwrap();
        }
    }
    let complete = |db: &Db| {
        let report = db.recovery();
        assert_eq!((report.records_replayed, report.cut_bytes, report.cuts.len()), (3000, 0, 0));
        (0..3000).for_each(|n| assert_eq!(db.get(&key(n)).unwrap(), Some(noise(n, 100))));
    };
    let beside = Db::builder().read_only().open(home.path()).unwrap();
    complete(&beside);
    assert_eq!(db.verify().unwrap(), []);
    for entry in std::fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    complete(&open(copy.path()));
    db.checkpoint(copy.path().join("checkpoint")).unwrap();
    let names = std::fs::read_dir(copy.path().join("checkpoint")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".log")), "a log that is still written is in a checkpoint");
    db.close().unwrap();
}
