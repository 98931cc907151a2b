//! Samples: when they are taken, what a restart, a crash and a jump of the wall clock make of them.

use super::*;
use crate::clock::ManualClock;
use crate::cursor::Cursor;
use crate::db::{Builder, DEFAULT_FAMILY, Db, WriteOptions};
use crate::key::{Kind, Seq, kind_of, seq_of};
use crate::merge::testing::Rng;
use crate::settings::{DbSettings, Style};
use crate::table::TableProperties;
use crate::tiering::age::{MAX_IN_TABLE, TimeMap};
use sinter_storage::store::MemoryStore;
use std::sync::Arc;

const START: u64 = 1_700_000_000;

fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(START);
    clock
}

fn builder(clock: &Arc<ManualClock>) -> Builder {
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    Db::builder().settings(settings).clock(clock.clone())
}

fn tracking(window: u64) -> FamilySettings {
    FamilySettings { preserve_internal_time_seconds: window, ..FamilySettings::default() }
}

fn times(db: &Db) -> Arc<TimeMap> {
    db.inner.shared.lock().state.times.clone()
}

/// The newest number that is surely older than so many seconds.
fn older(db: &Db, seconds: u64) -> Option<Seq> {
    db.inner.older_than(&db.inner.shared.lock(), seconds).map(|cut| cut.seq)
}

fn seconds(db: &Db) -> u64 {
    db.inner.clock.unix_seconds()
}

/// Properties of all tables of the default family.
fn properties(db: &Db) -> Vec<TableProperties> {
    let view = db.default_family().core.view.load_full();
    view.tree.tables().map(|table| table.properties().unwrap()).collect()
}

#[test]
fn the_smallest_window_says_how_often_samples_are_taken() {
    let clock = clock();
    let db = builder(&clock).open_store(Arc::new(MemoryStore::new())).unwrap();
    let write_for = |seconds: u64| {
        let from = db.inner.clock.unix_seconds();
        for _ in 0..seconds {
            clock.advance_seconds(1);
            db.put(b"k", b"v").unwrap();
        }
        times(&db).samples().iter().filter(|sample| sample.1 > from).count()
    };
    assert_eq!(write_for(100), 0, "nobody asks for the age of anything");
    let slow = db.create_family("slow", tracking(5000)).unwrap();
    assert_eq!(write_for(500), 10);
    let fast = db.create_family("fast", tracking(500)).unwrap();
    assert_eq!(write_for(100), 20);
    db.change_family_settings(&fast, tracking(50)).unwrap();
    assert_eq!(write_for(20), 20, "at most one per second");
    db.drop_family(&fast).unwrap();
    assert_eq!(write_for(500), 10);
    db.change_family_settings(&slow, tracking(0)).unwrap();
    assert_eq!(write_for(100), 0);
    assert_eq!(older(&db, 1000), Some(300), "the last sample before was taken 1019 seconds ago");
}

#[test]
fn jumps_of_the_wall_clock_while_open_do_no_harm() {
    for jump in [0, START - 86_400 * 365, START + 86_400 * 365, u64::MAX] {
        let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
        let settings = FamilySettings { ttl_seconds: 1000, ..tracking(1000) };
        let db = builder(&clock).family(DEFAULT_FAMILY, settings).open_store(store).unwrap();
        db.put(b"a", b"v").unwrap();
        db.flush().unwrap();
        clock.set_unix_seconds(jump);
        assert_eq!(seconds(&db), START, "{jump}");
        db.put(b"b", b"v").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(db.iter().count(), 2, "{jump}: nothing has expired");
        clock.advance_ns(1500 * 1_000_000_000);
        assert_eq!(seconds(&db), START + 1500, "{jump}");
        db.put(b"c", b"v").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(db.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [b"c"], "{jump}: what is old has");
    }
}

#[test]
fn a_restart_follows_the_wall_clock_forwards_only() {
    let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
    let open = || builder(&clock).family(DEFAULT_FAMILY, tracking(1000)).open_store(store.clone()).unwrap();
    let db = open();
    db.put(b"a", b"v").unwrap();
    clock.advance_seconds(100);
    db.close().unwrap();
    let db = open();
    assert_eq!((seconds(&db), times(&db).not_after(1)), (START + 100, Some(START + 100)));
    db.put(b"b", b"v").unwrap();
    clock.advance_seconds(10);
    db.close().unwrap();

    clock.set_unix_seconds(START + 5000);
    let db = open();
    assert_eq!((seconds(&db), times(&db).not_after(2)), (START + 5000, Some(START + 110)), "the close was noted");
    db.put(b"c", b"v").unwrap();
    db.close().unwrap();

    clock.set_unix_seconds(17);
    let db = open();
    assert_eq!(seconds(&db), START + 5000, "time does not go back");
    clock.advance_seconds(50);
    assert_eq!(seconds(&db), START + 5050);
    assert_eq!(older(&db, 40), Some(3));
    assert_eq!(older(&db, 50), Some(2), "in whole seconds the third may be younger");
    assert_eq!(older(&db, u64::MAX), None);
}

#[test]
fn numbers_are_kept_for_the_window_and_tables_say_when_they_were_written() {
    for style in [Style::Leveled, Style::Universal] {
        let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
        let settings = FamilySettings { style, ..tracking(10_000) };
        let db = builder(&clock).family(DEFAULT_FAMILY, settings.clone()).open_store(store).unwrap();
        let fill = |from: u32| {
            for n in from..from + 300 {
                clock.advance_seconds(10);
                db.put(&n.to_be_bytes(), b"v").unwrap();
            }
        };
        fill(0);
        db.compact_range(&db.default_family(), None, None).unwrap();
        let [first] = properties(&db).try_into().unwrap();
        assert_eq!((first.zeroed_seq, first.created), (Some(0), START + 3000), "{style:?}: all are young");
        assert_eq!((first.oldest_time, first.newest_time), (START, START + 3000), "{style:?}");
        assert!((30..=MAX_IN_TABLE).contains(&first.times.samples().len()), "{style:?}: {:?}", first.times);
        for n in 1..=300 {
            let written = START + 10 * n;
            assert!(first.times.not_before(n).unwrap() <= written && written <= first.times.not_after(n).unwrap(), "{style:?}: {n}");
        }

        clock.advance_seconds(5000);
        fill(1000);
        db.compact_range(&db.default_family(), None, None).unwrap();
        let [second] = properties(&db).try_into().unwrap();
        let zeroed = second.zeroed_seq.unwrap();
        assert!((90..=100).contains(&zeroed), "{style:?}: {zeroed} was written {} seconds ago", 11_000 - 10 * zeroed);
        assert_eq!((second.min_seq, second.max_seq), (1, 600), "{style:?}: as they were");

        db.change_family_settings(&db.default_family(), FamilySettings { ttl_seconds: 50_000, ..settings.clone() }).unwrap();
        clock.advance_seconds(20_000);
        db.put(b"k", b"v").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(properties(&db)[0].zeroed_seq, Some(zeroed), "{style:?}: numbers stay while there is a time to live");
        db.change_family_settings(&db.default_family(), FamilySettings { style, ..FamilySettings::default() }).unwrap();
        db.put(b"k", b"w").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        let [last] = properties(&db).try_into().unwrap();
        assert_eq!((last.zeroed_seq, last.times), (Some(602), TimeMap::default()), "{style:?}: nobody asks any more");
    }
}

/// Keys, numbers and kinds of the entries of all tables of the default family.
fn entries(db: &Db) -> Vec<(Vec<u8>, Seq, Kind)> {
    let view = db.default_family().core.view.load_full();
    let mut entries = Vec::new();
    for table in view.tree.tables() {
        let mut cursor = table.scan();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            entries.push((cursor.key().to_vec(), seq_of(cursor.trailer()), kind_of(cursor.trailer()).unwrap()));
            cursor.next().unwrap();
        }
    }
    entries.sort();
    entries
}

#[test]
fn a_time_of_its_own_decides_for_how_long_an_entry_keeps_its_number() {
    let clock = clock();
    let db = builder(&clock).family(DEFAULT_FAMILY, tracking(1000)).open_store(Arc::new(MemoryStore::new())).unwrap();
    db.put_at(b"a", b"v", START - 5000).unwrap();
    db.put(b"b", b"v").unwrap();
    db.put_at(b"c", b"v", START + 5000).unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    let entry = |key: &[u8], seq, kind| (key.to_vec(), seq, kind);
    let expected = [entry(b"a", 0, Kind::Value), entry(b"b", 2, Kind::Value), entry(b"c", 3, Kind::TimedValue)];
    assert_eq!(entries(&db), expected);
    let info = |db: &Db| db.version(&db.default_family()).unwrap().tables().map(|(_, _, table)| table.clone()).next().unwrap();
    assert_eq!(info(&db).newest_time, START + 5000);
    assert_eq!(properties(&db)[0].zeroed_seq, Some(0), "the first is older than all numbers that are known");
    clock.advance_seconds(10_000);
    db.put(b"d", b"v").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    let old = |key: &[u8]| entry(key, 0, Kind::Value);
    assert_eq!(entries(&db), [old(b"a"), old(b"b"), old(b"c"), entry(b"d", 4, Kind::Value)]);
    assert_eq!(properties(&db)[0].zeroed_seq, Some(3));
}

/// Everything the map says of numbers of which it is known when they were written.
fn check(map: &TimeMap, written: &[u64], seed: u64) {
    for (seq, &at) in (1..).zip(written) {
        assert!(map.not_before(seq).is_none_or(|time| time <= at), "seed {seed}: {seq}");
        assert!(map.not_after(seq).is_none_or(|time| at <= time), "seed {seed}: {seq}");
    }
}

#[test]
fn a_crash_takes_the_newest_samples_only_and_makes_nothing_older() {
    let mut lost = 0;
    for seed in 0..150 {
        let mut rng = Rng(seed);
        let (clock, mut store) = (clock(), Arc::new(MemoryStore::new()));
        let settings = FamilySettings { write_buffer_size: 4 << 10, ..tracking(200 + rng.below(2000)) };
        // When each number was written: the last time, for one that a power cut took and that was given again.
        let mut written: Vec<u64> = Vec::new();
        for _ in 0..4 {
            let db = builder(&clock).family(DEFAULT_FAMILY, settings.clone()).open_store(store.clone()).unwrap();
            let first = db.inner.visible() as usize;
            assert!(times(&db).newest().unwrap().0 <= first as u64, "seed {seed}: a number that is noted is not given again");
            written.resize(first, 0);
            // Where time has gone back to the newest sample that is left, what was written since is no older than that.
            written.iter_mut().for_each(|at| *at = (*at).min(seconds(&db)));
            check(&times(&db), &written, seed);
            for _ in 0..rng.below(300) {
                match rng.below(20) {
                    0..5 => clock.advance_seconds(rng.below(30)),
                    5 => db.inner.tick(),
                    6 if rng.one_in(6) => db.flush().unwrap(),
                    7 if rng.one_in(6) => db.sync().unwrap(),
                    _ => {
                        db.put(&rng.below(50).to_be_bytes(), &[7; 60]).unwrap();
                        written.push(seconds(&db));
                    }
                }
            }
            let before = times(&db);
            check(&before, &written, seed);
            let image = store.crash_with(rng.next());
            drop(db);
            store = Arc::new(image);
            let found = crate::manifest::load(&*store).unwrap().state.unwrap().times;
            check(&found, &written, seed);
            assert!(found.newest() <= before.newest(), "seed {seed}");
            lost += usize::from(found.newest() < before.newest());
            // What is left of it is as dense as ever.
            let old = before.samples().partition_point(|sample| Some(*sample) <= found.newest());
            assert!(before.samples()[..old].iter().all(|sample| found.samples().contains(sample)), "seed {seed}: the newest only");
            match rng.below(3) {
                0 => clock.set_unix_seconds(seconds_after(&before) + rng.below(10_000)),
                1 => clock.set_unix_seconds(seconds_after(&before).saturating_sub(rng.below(10_000))),
                _ => {}
            }
        }
    }
    assert!(lost > 50, "samples were lost: {lost}");
}

fn seconds_after(map: &TimeMap) -> u64 {
    map.newest().map_or(START, |newest| newest.1)
}

#[test]
fn samples_wait_for_an_edit_and_not_for_ever() {
    let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
    let db = builder(&clock).family(DEFAULT_FAMILY, tracking(100)).open_store(store.clone()).unwrap();
    let saved = || crate::manifest::load(&*store).unwrap().state.unwrap().times.newest().unwrap();
    let edits = || crate::manifest::load(&*store).unwrap().edits;
    let before = edits();
    for n in 1..=9 {
        clock.advance_seconds(1);
        db.put(b"k", b"v").unwrap();
        db.inner.tick();
        let newest = if n == 1 { (0, START) } else { (n - 1, START + n) };
        assert_eq!((times(&db).newest().unwrap(), saved()), (newest, (0, START)));
    }
    assert_eq!(edits(), before, "no edit for each sample");
    clock.advance_seconds(3);
    db.inner.tick();
    assert_eq!((saved(), edits()), ((9, START + 12), before + 1), "one for all");
    clock.advance_seconds(100);
    db.inner.tick();
    assert_eq!((saved(), edits()), ((9, START + 12), before + 1), "nothing was written, so there is nothing to note");
    db.put(b"k", b"v").unwrap();
    clock.advance_seconds(1);
    db.put(b"k", b"v").unwrap();
    db.create_family("other", FamilySettings::default()).unwrap();
    assert_eq!(saved(), (10, START + 113), "an edit of another sort takes them along");
    db.put_with(&db.default_family(), b"k", b"v", &WriteOptions::default()).unwrap();
    db.close().unwrap();
    assert_eq!(saved(), (12, START + 113));
}

#[test]
fn a_medium_without_room_keeps_samples_waiting() {
    let (clock, store) = (clock(), Arc::new(MemoryStore::new()));
    let db = builder(&clock).family(DEFAULT_FAMILY, tracking(100)).open_store(store.clone()).unwrap();
    db.put(b"k", b"v").unwrap();
    clock.advance_seconds(1);
    db.inner.tick();
    store.set_capacity(Some(db.stats().store_bytes));
    for _ in 0..3 {
        clock.advance_seconds(20);
        db.inner.tick();
        assert!(db.get(b"k").unwrap().is_some());
    }
    store.set_capacity(None);
    db.put(b"k", b"w").unwrap();
    clock.advance_seconds(20);
    db.inner.tick();
    db.close().unwrap();
    let state = crate::manifest::load(&*store).unwrap().state.unwrap();
    assert_eq!(state.times.samples(), [(0, START), (1, START + 1), (2, START + 81)]);
}
