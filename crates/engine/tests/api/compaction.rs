//! Flushes, compactions, filters, time to live, checkpoints.

use super::*;
use sinterdb::operator::{CompactionFilter, Decision};
use sinterdb::settings::Style;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_flush_moves_everything_to_tables() {
    let db = open(&new_store());
    fill(&db, 100, 10);
    let entries = |name: &str| db.property(&db.default_family(), name).unwrap();
    assert_eq!(entries("rocksdb.num-entries-active-mem-table"), "100");
    assert_eq!(entries("rocksdb.num-files-at-level0"), "0");
    db.flush().unwrap();
    assert_eq!(entries("rocksdb.num-entries-active-mem-table"), "0");
    assert_eq!(entries("rocksdb.num-files-at-level0"), "1");
    db.flush().unwrap();
    assert_eq!(entries("rocksdb.num-files-at-level0"), "1", "an empty memtable makes no table");
}

/// One tombstone over many tables: they go as they are, once no snapshot sees them, and nothing that they hid comes back.
#[test]
fn tables_that_a_range_hides_go_without_a_byte_written() {
    for style in [Style::Leveled, Style::Universal] {
        let settings = FamilySettings { style, ..small() };
        let db = try_open(&new_store(), builder().settings(inline()).family("default", settings)).unwrap();
        (50..53).for_each(|size| fill(&db, 3000, size));
        (0..3000).step_by(3).for_each(|n| db.delete(&key(n)).unwrap());
        db.flush().unwrap();
        let tables = || {
            let version = db.version(&db.default_family()).unwrap();
            let ranges = version.tables().map(|(_, _, table)| (table.range.smallest.clone(), table.range.largest.clone()));
            ranges.collect::<Vec<_>>()
        };
        let inside = |range: &&(Vec<u8>, Vec<u8>)| range.0 >= key(500) && range.1 < key(2500);
        assert!(tables().iter().any(|range| inside(&range)), "{style:?}: {:?}", tables());
        let snapshot = db.snapshot();
        db.delete_range(&key(500), &key(2500)).unwrap();
        db.flush().unwrap();
        assert!(tables().iter().filter(inside).count() > 1, "the snapshot sees them");
        let seen = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        assert_eq!(db.get_with(&db.default_family(), &key(1000), &seen).unwrap().unwrap().len(), 52);
        drop((snapshot, seen));
        // Whatever makes it look for something to do.
        db.put(&key(9999), b"v").unwrap();
        db.wait_for_compactions().unwrap();
        assert_eq!(tables().iter().filter(inside).count(), 0, "{style:?}: {:?}", tables());
        let expected = |n: &usize| !n.is_multiple_of(3) && !(500..2500).contains(n);
        let left: Vec<_> = (0..3000).filter(expected).chain([9999]).map(|n| String::from_utf8(key(n)).unwrap()).collect();
        assert_eq!(keys(&db), left, "{style:?}");
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(keys(&db), left, "{style:?}");
        db.check_ledger().unwrap();
    }
}

#[test]
fn compact_range_leaves_nothing_dead() {
    for style in [Style::Leveled, Style::Universal] {
        let settings = FamilySettings { style, ..small() };
        let db = try_open(&new_store(), builder().settings(inline()).family("default", settings)).unwrap();
        fill(&db, 3000, 50);
        fill(&db, 3000, 51);
        (0..3000).step_by(2).for_each(|n| db.delete(&key(n)).unwrap());
        db.delete_range(&key(2000), &key(3000)).unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        let version = db.version(&db.default_family()).unwrap();
        let (mut entries, mut dead) = (0, 0);
        for (_, _, table) in version.tables() {
            entries += table.entries;
            dead += table.tombstones + table.range_tombstones;
        }
        assert_eq!((entries, dead), (1000, 0), "{style:?}");
        assert_eq!(keys(&db).len(), 1000);
    }
}

#[test]
fn a_tree_stays_within_its_shape() {
    let db = small_db();
    fill(&db, 20_000, 60);
    let family = db.default_family();
    let version = db.version(&family).unwrap();
    sinterdb::internal::compaction::check_shape(&version).unwrap();
    assert!(version.levels[0].len() < 4, "{} runs on level 0 after all work is done", version.levels[0].len());
    assert!(version.levels.iter().skip(1).all(|runs| runs.len() <= 1), "leveled: one run per level");
    assert_eq!(db.property(&family, "rocksdb.compaction-pending").unwrap(), "0");
}

/// Keeps `keep..`, removes `drop..`, changes `change..`.
struct Sorter;

impl CompactionFilter for Sorter {
    fn filter(&self, _level: u8, key: &[u8], _value: &[u8]) -> Decision {
        match key {
            _ if key.starts_with(b"drop") => Decision::Remove,
            _ if key.starts_with(b"change") => Decision::Change(b"changed".to_vec()),
            _ => Decision::Keep,
        }
    }
}

#[test]
fn a_compaction_filter_keeps_removes_and_changes() {
    let db = try_open(&new_store(), builder().settings(inline()).compaction_filter("default", Arc::new(Sorter))).unwrap();
    for key in [b"keep", b"drop"] {
        db.put(key, b"old").unwrap();
    }
    db.put(b"change", b"old").unwrap();
    db.flush().unwrap();
    assert_eq!(keys(&db), ["change", "drop", "keep"], "a flush does not filter");
    db.compact_range(&db.default_family(), None, None).unwrap();
    let entries = all(&db, &db.default_family());
    assert_eq!(entries, [(b"change".to_vec(), b"changed".to_vec()), (b"keep".to_vec(), b"old".to_vec())]);
}

#[test]
fn a_compaction_filter_spares_what_a_snapshot_sees() {
    let db = try_open(&new_store(), builder().settings(inline()).compaction_filter("default", Arc::new(Sorter))).unwrap();
    db.put(b"drop", b"old").unwrap();
    let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(db.get_with(&db.default_family(), b"drop", &at).unwrap().unwrap(), b"old");
    drop(at);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(db.get(b"drop").unwrap(), None);
}

#[test]
fn entries_older_than_their_time_to_live_vanish_in_compactions_and_not_before() {
    for style in [Style::Leveled, Style::Universal] {
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(1_000_000);
        let settings = FamilySettings { ttl_seconds: 1000, style, ..small() };
        let builder = builder().settings(inline()).clock(clock.clone()).family("default", settings);
        let db = try_open(&new_store(), builder).unwrap();
        db.put(b"old", b"v").unwrap();
        db.flush().unwrap();
        clock.advance_seconds(900);
        db.put(b"young", b"v").unwrap();
        db.flush().unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(keys(&db), ["old", "young"], "{style:?}: not before its time");
        clock.advance_seconds(600);
        assert_eq!(keys(&db), ["young"], "{style:?}: at once for readers");
        let entries = || db.version(&db.default_family()).unwrap().tables().map(|(_, _, table)| table.entries).sum::<u64>();
        assert_eq!(entries(), 2, "{style:?}: not without a compaction");
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!((keys(&db), entries()), (vec!["young".into()], 1), "{style:?}");
        clock.advance_seconds(3500);
        db.wait_for_compactions().unwrap();
        assert_eq!((keys(&db).len(), entries()), (0, 0), "{style:?}: a table that has expired goes by itself");
    }
}

/// Tables that vanish as a whole, and entries that vanish in merges.
#[test]
fn what_a_snapshot_sees_outlives_its_time_to_live() {
    for style in [Style::Leveled, Style::Universal] {
        let clock = Arc::new(ManualClock::default());
        clock.set_unix_seconds(1_000_000);
        let settings = FamilySettings { ttl_seconds: 1000, style, ..small() };
        let db = try_open(&new_store(), builder().settings(inline()).clock(clock.clone()).family("default", settings)).unwrap();
        let family = db.default_family();
        fill(&db, 500, 60);
        db.compact_range(&family, None, None).unwrap();
        let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
        let seen = || db.iter_with(&family, at.clone()).unwrap().collect::<Result<Vec<_>, _>>().unwrap().len();
        clock.advance_seconds(5000);
        db.put(b"young", b"v").unwrap();
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        assert_eq!(seen(), 500, "{style:?}: by themselves");
        db.compact_range(&family, None, None).unwrap();
        assert_eq!(seen(), 500, "{style:?}: in a merge");
        drop(at);
        db.wait_for_compactions().unwrap();
        db.compact_range(&family, None, None).unwrap();
        assert_eq!(keys(&db), ["young"], "{style:?}: once nobody sees it");
    }
}

#[test]
fn a_checkpoint_is_the_same_database_and_leaves_the_original_alone() {
    let db = small_db();
    let other = db.create_family("other", small()).unwrap();
    fill(&db, 3000, 50);
    db.put_with(&other, b"unlogged", b"v", &NO_WAL).unwrap();
    let target = new_store();
    db.checkpoint_to(&*target).unwrap();
    let before = all(&db, &db.default_family());
    fill(&db, 3000, 70);
    db.compact_range(&db.default_family(), None, None).unwrap();
    let copy = open(&target);
    assert_eq!(all(&copy, &copy.default_family()), before);
    assert_eq!(all(&copy, &copy.family("other").unwrap()).len(), 1);
    assert!(copy.verify().unwrap().is_empty());
    copy.put(b"key000000", b"only in the copy").unwrap();
    copy.delete_range(b"key000001", b"z").unwrap();
    copy.compact_range(&copy.default_family(), None, None).unwrap();
    assert_eq!(keys(&copy).len(), 1);
    assert_eq!(keys(&db).len(), 3000);
    assert_eq!(db.get(&key(0)).unwrap().unwrap(), noise(0, 70));
    db.check_ledger().unwrap();
}

#[test]
fn a_checkpoint_on_the_same_disk_links_its_tables() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
    let db = builder().settings(inline()).family("default", small()).open(&path).unwrap();
    fill(&db, 500, 100);
    db.checkpoint(&copy).unwrap();
    let tables: Vec<_> =
        std::fs::read_dir(&copy).unwrap().map(Result::unwrap).filter(|f| f.path().extension().is_some_and(|e| e == "sst")).collect();
    assert!(!tables.is_empty());
    assert!(tables.iter().all(|t| t.metadata().unwrap().nlink() == 2), "tables are linked, not copied");
    assert!(invalid(db.checkpoint(&copy)).contains("has files"), "never over another database");
    let opened = builder().open(&copy).unwrap();
    assert_eq!(keys(&opened).len(), 500);
    drop(db);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(opened.verify().unwrap().is_empty(), "it does not need the original");
}

#[test]
fn background_threads_reach_the_same_rest() {
    let settings = DbSettings { max_background_jobs: 3, max_subcompactions: 2, ..DbSettings::default() };
    let db = try_open(&new_store(), builder().settings(settings).family("default", small())).unwrap();
    fill(&db, 10_000, 60);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(db.property(&db.default_family(), "rocksdb.compaction-pending").unwrap(), "0");
    assert_eq!(keys(&db).len(), 10_000);
    db.check_ledger().unwrap();
}

#[test]
fn level_0_waits_for_more_under_a_load_and_no_longer() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_ns(1_000_000_000);
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    // One level below level 0, so that what a merge would rewrite is all there is.
    let family = FamilySettings { max_bytes_for_level_base: 4 << 20, ..small() };
    let db = try_open(&new_store(), builder().settings(settings).clock(clock.clone()).family("default", family)).unwrap();
    let runs = || db.version(&db.default_family()).unwrap().levels[0].len();
    let add_runs = || {
        (0..4).for_each(|n| {
            db.put(&key(n), b"v").unwrap();
            db.put(&key(9_000 + n), b"v").unwrap();
            db.flush().unwrap();
        });
    };
    fill(&db, 10_000, 60);
    db.compact_range(&db.default_family(), None, None).unwrap();

    add_runs();
    assert!(runs() >= 4, "memtables were full a moment ago");
    db.wait_for_compactions().unwrap();
    assert!(runs() < 4, "whoever waits for compactions gets them");

    add_runs();
    clock.advance_ns(3_000_000_000);
    let fewer_soon = || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        runs() < 4
    };
    assert!((0..6000).any(|_| fewer_soon()), "after a load, compactions go on by themselves");
}
