//! Tests of the facts that a family's choice of codecs is given where there are several families.

use super::super::Db;
use super::*;
use crate::clock::ManualClock;
use crate::settings::{DbSettings, FamilySettings};
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, MemoryStore, Operation};

#[test]
fn what_happened_while_codecs_were_chosen_by_hand_is_not_counted() {
    let clock = Arc::new(ManualClock::default());
    let settings = DbSettings { cache_size: 0, ..DbSettings::default() };
    let db = Db::builder().settings(settings).clock(clock.clone()).open_store(Arc::new(MemoryStore::new())).unwrap();
    // Only the test reviews.
    db.inner.ticked_ns.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let family = db.default_family();
    let read_all = || (0..1000u32).for_each(|n| assert!(db.get(&n.to_be_bytes()).unwrap().is_some()));
    (0..1000u32).for_each(|n| db.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap());
    db.flush().unwrap();
    let change = |compression| {
        let changed = FamilySettings { compression, ..FamilySettings::default() };
        db.change_family_settings(&family, changed).unwrap();
    };
    let missed = |seconds: u64| {
        clock.advance_ns(seconds * 1_000_000_000);
        db.inner.review_codecs(&family.core);
        let report = db.property(&family, "sinterdb.compression").unwrap();
        let megabytes = report.split(" MB/s written, ").nth(1).unwrap().split(' ').next().unwrap();
        megabytes.parse::<f64>().unwrap()
    };
    for _ in 0..2 {
        read_all();
        change(Codecs::Auto);
        assert_eq!([missed(3), missed(1)], [0.0, 0.0]);
        read_all();
        assert!(missed(1) > 0.5, "1000 blocks in 5 seconds");
        change(Codecs::Fixed(vec![Codecs::Auto.at(0)]));
    }
}

#[test]
fn a_miss_counts_for_the_block_as_large_as_its_values_make_it() {
    let clock = Arc::new(ManualClock::default());
    let settings = DbSettings { cache_size: 0, ..DbSettings::default() };
    let auto = FamilySettings { compression: Codecs::Auto, ..FamilySettings::default() };
    let builder = Db::builder().settings(settings).family("default", auto).clock(clock.clone());
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    db.inner.ticked_ns.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    (0..100u32).for_each(|n| db.put(&n.to_be_bytes(), &[n as u8; 100_000]).unwrap());
    db.flush().unwrap();
    let core = &db.default_family().core;
    clock.advance_ns(1_000_000_000);
    db.inner.review_codecs(core);
    (0..100u32).for_each(|n| assert!(db.get(&n.to_be_bytes()).unwrap().is_some()));
    clock.advance_ns(1_000_000_000);
    db.inner.review_codecs(core);
    let report = db.property(&db.default_family(), "sinterdb.compression").unwrap();
    assert!(report.contains(", 5.0 missed, "), "10 MB in two seconds: {report}");
}

#[test]
fn families_share_what_the_kernel_keeps_of_files_by_their_bytes() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 9000000 kB\nMemAvailable: 1000000 kB\n").unwrap();
    let builder = Db::builder().system_root(root.path()).clock(Arc::new(ManualClock::default()));
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    let (large, small) = (db.default_family(), db.create_family("small", FamilySettings::default()).unwrap());
    let empty = db.create_family("empty", FamilySettings::default()).unwrap();
    for n in 0..4000u32 {
        let family = if n.is_multiple_of(4) { &small } else { &large };
        db.put_with(family, &n.to_be_bytes(), &[n as u8; 100], &Default::default()).unwrap();
    }
    let share = |family: &Family| db.inner.for_files(family.core.view.load().tree.bytes(), db.inner.live_table_bytes()).unwrap();
    let all = db.inner.memory.for_files().unwrap();
    assert_eq!(share(&empty), all, "as long as there are no files");
    db.flush().unwrap();
    let [large_bytes, small_bytes] = [&large, &small].map(|family| family.core.view.load().tree.bytes());
    assert!(large_bytes > 2 * small_bytes && small_bytes > 0);
    assert_eq!(share(&empty), 0);
    assert!(all - (share(&large) + share(&small)) < 2, "nothing is counted twice");
    let (by_files, by_bytes) = (share(&large) as f64 / all as f64, large_bytes as f64 / (large_bytes + small_bytes) as f64);
    assert!((by_files - by_bytes).abs() < 1e-6, "{by_files} {by_bytes}");
}

/// A level has its verdict before the first table of a compaction that is the first to write there, and what did not come of one that
/// failed is not waited for.
#[test]
fn compactions_are_announced() {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    let auto = FamilySettings { compression: Codecs::Auto, ..FamilySettings::default() };
    let builder = Db::builder().settings(settings).family("default", auto).clock(Arc::new(ManualClock::default()));
    let db = builder.open_store(store.clone()).unwrap();
    let family = db.default_family();
    let load = || {
        (0..3000u32).for_each(|n| db.put(&n.to_be_bytes(), &[n as u8; 1000]).unwrap());
        db.flush().unwrap();
    };
    // The second half replaces the first.
    load();
    load();
    let report = || db.property(&family, "sinterdb.compression").unwrap();
    assert_eq!(report().lines().count(), 2, "level 0 and the sum: {}", report());
    db.compact_range(&family, None, None).unwrap();
    assert_eq!(family.core.auto.coming(), vec![0; 7]);
    let judged = report().lines().any(|line| line.starts_with("level 6: ") && line.contains(" since "));
    assert!(judged, "{}", report());
    load();
    store.inject(Fault::once(Calls::Only(Operation::Append), store.count(Operation::Append) + 1, EIO));
    db.compact_range(&family, None, None).unwrap_err();
    assert_eq!(family.core.auto.coming(), vec![0; 7]);
}
