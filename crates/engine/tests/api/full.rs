//! A medium filled up by writes: deletions still find space, and compactions give it back.

use crate::{builder, memory, small};
use sinter_storage::store::{Cause, FaultStore, FileId, Hint, Operation, Store, Temperature};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use sinterdb::clock::{Clock, ManualClock, SystemClock};
use sinterdb::operator::{CompactionFilter, Decision};
use sinterdb::settings::{DbSettings, FamilySettings, Preclude, Style};
use sinterdb::{Builder, Db, Error, ReadOptions, WriteBatch, WriteOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Keys put together.
const BATCH: u64 = 16;

/// Nanoseconds in which what found no room must have found some. It takes about a second; this is only so that a hang ends.
const PATIENCE: u64 = 120_000_000_000;

/// Background jobs, and the shape of the tree.
type Kind = (usize, Style);

const LEVELED: Kind = (2, Style::Leveled);

fn settings(kind: Kind) -> Builder {
    of_family(kind, FamilySettings { max_bytes_for_level_base: 64 << 20, ..FamilySettings::default() })
}

/// Trees of several levels, in which deletions and outdated values come to lie far above what they hide.
fn deep(kind: Kind) -> Builder {
    let levels = FamilySettings {
        max_bytes_for_level_base: 512 << 10,
        max_bytes_for_level_multiplier: 4.0,
        level_compaction_dynamic_level_bytes: false,
        ..FamilySettings::default()
    };
    of_family(kind, levels)
}

fn of_family((max_background_jobs, style): Kind, levels: FamilySettings) -> Builder {
    let family = FamilySettings { style, write_buffer_size: 128 << 10, target_file_size_base: 64 << 10, ..levels };
    builder()
        .clock(Arc::new(SystemClock::default()))
        .settings(DbSettings { max_background_jobs, ..DbSettings::default() })
        .family("default", family)
}

fn reopen(db: Db, store: &Arc<dyn Store>, kind: Kind) -> Db {
    db.close().unwrap_or_else(|error| assert_no_space(&error));
    settings(kind).open_store(store.clone()).unwrap()
}

#[track_caller]
fn assert_no_space(error: &Error) {
    assert!(matches!(error, Error::NoSpace(_)), "{error:?}");
}

/// Far from the last one's, so that every run of level 0 overlaps all others.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Bytes that do not compress.
fn value(n: u64) -> Vec<u8> {
    (0..64).flat_map(|i| key(n ^ (i << 40))).collect()
}

/// A flush whose room a merge took is done again within a second.
fn until_done(work: impl Fn() -> Result<(), Error>) {
    let clock = SystemClock::default();
    while let Err(error) = work() {
        assert_no_space(&error);
        assert!(clock.monotonic_ns() < PATIENCE, "no end: {error}");
    }
}

/// Puts until there is no room, whatever compactions do; how many were acknowledged.
fn fill(db: &Db) -> u64 {
    let (mut n, mut refused) = (0, None);
    loop {
        let mut batch = WriteBatch::new();
        (n..n + BATCH).for_each(|n| batch.put(&key(n), &value(n)));
        match db.write(&mut batch, &WriteOptions::default()) {
            Ok(()) => n += BATCH,
            Err(error) => {
                assert_no_space(&error);
                if refused.replace(n) == Some(n) {
                    return n;
                }
                until_done(|| db.wait_for_compactions());
            }
        }
    }
}

#[track_caller]
fn check(db: &Db, there: impl Iterator<Item = u64>) {
    let mut expected: Vec<_> = there.map(|n| (key(n).to_vec(), value(n))).collect();
    expected.sort_unstable();
    let found: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert!(found == expected, "{} entries where {} were expected", found.len(), expected.len());
}

/// Compacts everything. `sync_names` makes the space of deleted files count as free on any store.
fn compact(db: &Db, store: &Arc<dyn Store>) {
    db.compact_range(&db.default_family(), None, None).unwrap();
    db.wait_for_compactions().unwrap();
    store.sync_names().unwrap();
}

/// Filled, opened again, emptied by `delete`, which leaves every 16th, compacted, and filled again, nearly as far as before.
fn recovers(store: Arc<dyn Store>, kind: Kind, delete: &dyn Fn(&Db, u64)) {
    let db = settings(kind).open_store(store.clone()).unwrap();
    let written = fill(&db);
    let room = store.free_bytes().unwrap().unwrap();
    check(&db, 0..written);
    let db = reopen(db, &store, kind);
    check(&db, 0..written);
    delete(&db, written);
    let left = || (0..written).filter(|n| n.is_multiple_of(16));
    check(&db, left());
    compact(&db, &store);
    check(&db, left());
    assert!(store.free_bytes().unwrap().unwrap() > room + written * 512 / 2, "{room} bytes were free, and {written} entries of 512");
    let db = reopen(db, &store, kind);
    let again = fill(&db);
    assert!(again > written * 3 / 4, "{written} entries at first, {again} then");
    check(&db, (0..again).chain(left().filter(|n| *n >= again)));
    assert_eq!(db.verify().unwrap(), []);
}

/// A fast medium that is full, beside a slow one that takes nothing off it: because nothing is old enough by the ages of whole tables, or
/// because the slow one is full as well.
#[test]
fn a_full_fast_medium_recovers_by_deleting_where_nothing_sinks() {
    let by_ages = FamilySettings { temperature_ages: "hot 1d, cold".parse().unwrap(), ..FamilySettings::default() };
    let by_level = FamilySettings { preclude_last_level_data_seconds: Preclude::Seconds(86_400), ..FamilySettings::default() };
    let universal = (2, Style::Universal);
    for (family, capacity, kinds) in [
        (by_ages, 64 << 20, vec![LEVELED, universal]),
        (by_level.clone(), 256 << 10, vec![LEVELED, universal]),
        (by_level, 8 << 20, vec![LEVELED, universal, (0, Style::Leveled)]),
    ] {
        for kind in kinds {
            let (store, cold) = (limited(), memory());
            cold.set_capacity(Some(capacity));
            let free = || store.free_bytes().unwrap().unwrap() + cold.free_bytes().unwrap().unwrap();
            let full = free();
            let family = FamilySettings { max_bytes_for_level_base: 64 << 20, ..family.clone() };
            let db = of_family(kind, family).tier_store(Temperature::Cold, cold.clone()).open_store(store.clone()).unwrap();
            let written = fill(&db);
            by_key(&db, written);
            let left = || (0..written).filter(|n| n.is_multiple_of(16));
            check(&db, left());
            compact(&db, &store);
            check(&db, left());
            let now = free();
            assert!(now > full / 2, "{kind:?}, {capacity}: {now} bytes of {full} are free after {written} entries of 512");
            let again = fill(&db);
            assert!(again > written * 3 / 4, "{kind:?}, {capacity}: {written} entries at first, {again} then");
            db.check_ledger().unwrap();
        }
    }
}

fn by_key(db: &Db, written: u64) {
    (0..written).filter(|n| !n.is_multiple_of(16)).for_each(|n| db.delete(&key(n)).unwrap());
}

/// Deletes ranges one after the other, between the keys that stay.
fn by_range(db: &Db, written: u64) {
    let mut kept: Vec<_> = (0..written).filter(|n| n.is_multiple_of(16)).map(key).collect();
    kept.sort_unstable();
    let (first, last) = (kept[0], kept[kept.len() - 1]);
    db.delete_range(&[], &first).unwrap();
    kept.windows(2).for_each(|pair| db.delete_range(&[&pair[0][..], &[0]].concat(), &pair[1]).unwrap());
    db.delete_range(&[&last[..], &[0]].concat(), &[0xff; 9]).unwrap();
}

fn limited() -> Arc<dyn Store> {
    let store = memory();
    store.set_capacity(Some(16 << 20));
    store
}

fn zones() -> Arc<dyn Store> {
    drive(64, 256 << 10)
}

pub fn drive(zones: u32, zone_size: u64) -> Arc<dyn Store> {
    let geometry = Geometry { block: 4096, zones, zone_size, max_open: Some(14), max_active: Some(14), conventional: 0 };
    let drive = Arc::new(Emulator::memory(geometry, zone_size).unwrap());
    Arc::new(ZonedStore::format(drive, VolumeId([7; 16]), Options::default()).unwrap())
}

#[test]
fn a_full_medium_recovers_by_deleting_keys() {
    recovers(limited(), LEVELED, &by_key);
}

#[test]
fn a_full_medium_recovers_by_deleting_ranges() {
    recovers(limited(), LEVELED, &by_range);
}

#[test]
fn full_zones_recover_by_deleting_keys() {
    recovers(zones(), LEVELED, &by_key);
}

#[test]
fn full_zones_recover_by_deleting_ranges() {
    recovers(zones(), LEVELED, &by_range);
}

#[test]
fn universal_trees_recover_by_deleting() {
    for delete in [by_key, by_range] {
        recovers(limited(), (2, Style::Universal), &delete);
        recovers(zones(), (2, Style::Universal), &delete);
    }
}

#[test]
fn databases_without_threads_recover_by_deleting() {
    recovers(limited(), (0, Style::Leveled), &by_key);
    recovers(zones(), (0, Style::Universal), &by_range);
}

/// Drives on which the memtables of the default settings would not find room, and those of the fewest zones.
#[test]
fn full_drives_recover_however_small() {
    for (zones, zone_size) in [(64, 1 << 20), (32, 1 << 20), (20, 1 << 20)] {
        for style in [Style::Leveled, Style::Universal] {
            let what = format!("{zones} zones of {zone_size}, {style:?}");
            let store = drive(zones, zone_size);
            let open = || {
                let family = FamilySettings { style, ..FamilySettings::default() };
                builder().clock(Arc::new(SystemClock::default())).family("default", family).open_store(store.clone())
            };
            let db = open().unwrap();
            let written = fill(&db);
            check(&db, 0..written);
            db.close().unwrap_or_else(|error| assert_no_space(&error));
            let db = open().unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&db, 0..written);
            by_key(&db, written);
            compact(&db, &store);
            let again = fill(&db);
            // A zone of a score that is open at the wrong time is much of it.
            assert!(again > written / 2, "{what}: {written} entries at first, {again} then");
            check(&db, (0..again).chain((again..written).filter(|n| n.is_multiple_of(16))));
            db.close().unwrap_or_else(|error| assert_no_space(&error));
            assert_eq!(open().unwrap().verify().unwrap(), []);
        }
    }
}

/// A load in order leaves nothing to merge; one deleted range lies over all of it, and nothing of that fits into one merge.
#[test]
fn one_range_over_a_full_level_is_cut() {
    for store in [limited(), zones()] {
        let db = settings(LEVELED).open_store(store.clone()).unwrap();
        let mut n = 0u64;
        while db.put(&n.to_be_bytes(), &value(n)).is_ok() {
            n += 1;
        }
        let db = reopen(db, &store, LEVELED);
        db.delete_range(&[], &(n - 1).to_be_bytes()).unwrap();
        compact(&db, &store);
        assert_eq!(db.iter().map(Result::unwrap).collect::<Vec<_>>(), [((n - 1).to_be_bytes().to_vec(), value(n - 1))]);
        assert!(store.free_bytes().unwrap().unwrap() > n * 512 / 2, "{n} entries of 512");
        assert!(db.put(b"more", &value(0)).is_ok());
    }
}

/// Holds compactions up while it is locked.
#[derive(Default)]
struct Gate(Mutex<()>);

impl CompactionFilter for Gate {
    fn filter(&self, _level: u8, _key: &[u8], _value: &[u8]) -> Decision {
        drop(self.0.lock());
        Decision::Keep
    }
}

/// A put waits for a compaction, which may make room, but not for ever, and keeps nobody from deleting.
#[test]
fn who_waits_for_room_keeps_nobody_from_deleting() {
    let (gate, clock) = (Arc::new(Gate::default()), Arc::new(ManualClock::default()));
    let store = memory();
    let db = settings(LEVELED).clock(clock.clone()).open_store(store.clone()).unwrap();
    let side = db.create_family_with("side", small(), None, Some(gate.clone())).unwrap();
    db.put_with(&side, b"k", b"v", &WriteOptions::default()).unwrap();
    (0..8 * BATCH * 1024).step_by(8).for_each(|n| db.put(&key(n), &value(n)).unwrap());
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    store.sync_names().unwrap();
    // Less than is kept back from writes (1152 KiB), and enough for merges: these do what little there is to do before it counts.
    let limit = || {
        let used: u64 = store.list().unwrap().iter().map(|file| file.1).sum();
        store.set_capacity(Some(used + (1000 << 10)));
    };
    limit();
    db.put_with(&side, b"k", b"w", &WriteOptions::default()).unwrap();
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    limit();
    let held = gate.0.lock().unwrap();
    let is_refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(&side, None, None));
        while db.property(&side, "rocksdb.num-running-compactions").unwrap() == "0" {
            assert!(!compaction.is_finished());
            std::thread::yield_now();
        }
        let put = scope.spawn(|| {
            let result = db.put(b"more", &value(0));
            is_refused.store(true, Ordering::Release);
            result
        });
        (0..100).for_each(|n| db.delete(&key(n)).unwrap());
        db.sync().unwrap();
        assert!(!is_refused.load(Ordering::Acquire), "the put did not wait");
        while !is_refused.load(Ordering::Acquire) {
            clock.advance_seconds(1);
            std::thread::yield_now();
        }
        assert_no_space(&put.join().unwrap().unwrap_err());
        drop(held);
        compaction.join().unwrap().unwrap();
    });
}

/// A merge that claims most of what is left, and does not end: deletions wait for it, but not for ever.
#[test]
fn a_merge_without_end_keeps_nobody_from_deleting() {
    let gate = Arc::new(Gate::default());
    let store = memory();
    let db = settings(LEVELED).open_store(store.clone()).unwrap();
    let one_level = FamilySettings {
        write_buffer_size: 128 << 10,
        level0_file_num_compaction_trigger: 1000,
        level0_slowdown_writes_trigger: 1000,
        level0_stop_writes_trigger: 1000,
        ..FamilySettings::default()
    };
    let side = db.create_family_with("side", one_level, None, Some(gate.clone())).unwrap();
    (0..4000).for_each(|n| db.put_with(&side, &key(n), &value(n), &WriteOptions::default()).unwrap());
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    store.sync_names().unwrap();
    let merged: u64 = db.version(&side).unwrap().tables().map(|(_, _, table)| table.bytes).sum();
    // Once for the log to go, and once for it to be looked at again.
    for _ in 0..2 {
        let used: u64 = store.list().unwrap().iter().map(|file| file.1).sum();
        store.set_capacity(Some(used + merged + (16 << 10)));
        db.put(b"k", b"v").unwrap();
        db.flush().unwrap();
        store.sync_names().unwrap();
    }
    let held = gate.0.lock().unwrap();
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(&side, None, None));
        while db.property(&side, "rocksdb.num-running-compactions").unwrap() == "0" {
            assert!(!compaction.is_finished());
            std::thread::yield_now();
        }
        // More than is left beside what it has claimed.
        (0..12).for_each(|_| {
            (0..4000).for_each(|n| db.delete_with(&side, &key(n), &WriteOptions::default()).unwrap());
            db.sync().unwrap();
        });
        assert!(!compaction.is_finished());
        drop(held);
        let _ = compaction.join().unwrap();
    });
    db.wait_for_compactions().unwrap();
    assert_eq!(db.iter_with(&side, ReadOptions::default()).unwrap().count(), 0);
}

#[test]
fn a_compaction_on_request_that_finds_no_room_says_so() {
    for style in [Style::Leveled, Style::Universal] {
        let store = memory();
        let db = settings((2, style)).open_store(store.clone()).unwrap();
        (0..1000).for_each(|n| db.put(&key(n), &value(n)).unwrap());
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        store.set_capacity(Some(store.list().unwrap().iter().map(|file| file.1).sum()));
        assert_no_space(&db.compact_range(&db.default_family(), None, None).unwrap_err());
        db.wait_for_compactions().unwrap();
        store.set_capacity(None);
        db.compact_range(&db.default_family(), None, None).unwrap();
        check(&db, 0..1000);
    }
}

/// Nobody need ask for a compaction: deleted data gives way to new data.
#[test]
fn puts_find_the_room_of_what_was_deleted() {
    for kind in [LEVELED, (2, Style::Universal), (0, Style::Leveled), (0, Style::Universal)] {
        let db = deep(kind).open_store(limited()).unwrap();
        let written = fill(&db);
        by_key(&db, written);
        let new = || written..written + written / 2;
        new().for_each(|n| until_done(|| db.put(&key(n), &value(n))));
        check(&db, (0..written).filter(|n| n.is_multiple_of(16)).chain(new()));
        assert_eq!(db.verify().unwrap(), []);
    }
}

/// One deleted range hides everything, and nobody asks for a flush or a compaction.
#[test]
fn puts_find_the_room_of_a_deleted_range() {
    for (store, kind) in [(limited(), LEVELED), (zones(), LEVELED), (limited(), (2, Style::Universal)), (zones(), (0, Style::Leveled))] {
        let db = settings(kind).open_store(store).unwrap();
        let written = fill(&db);
        db.delete_range(&[], &[0xff; 9]).unwrap();
        let new = || written..written + written / 2;
        new().for_each(|n| until_done(|| db.put(&key(n), &value(n))));
        check(&db, new());
        assert_eq!(db.verify().unwrap(), []);
    }
}

/// Another program takes the last of the medium. Refused writes make no files and use up no numbers.
#[test]
fn refused_writes_use_up_no_log_segments() {
    for jobs in [0, 2] {
        let store = memory();
        let faults = Arc::new(FaultStore::new(store.clone() as Arc<dyn Store>));
        let open = || settings((jobs, Style::Leveled)).open_store(faults.clone() as Arc<dyn Store>).unwrap();
        let db = open();
        (0..50).for_each(|n| db.put(&key(n), &value(n)).unwrap());
        let used = || store.list().unwrap().iter().map(|(_, bytes)| bytes).sum::<u64>();
        let newest = || store.list().unwrap().iter().map(|(id, _)| id.number).max().unwrap();
        let (number, created) = (newest(), faults.count(Operation::Create));
        for left in [0, 300, 5000] {
            store.set_capacity(Some(used() + left));
            (0..1000).for_each(|n| assert_no_space(&db.put(&key(n), &[1; 10_000]).unwrap_err()));
        }
        let created = faults.count(Operation::Create) - created;
        assert!(created <= 3, "{jobs} jobs: {created} files were created");
        store.set_capacity(None);
        db.put(b"more", b"room").unwrap();
        assert!(newest() <= number + 4, "{jobs} jobs: {number} became {}", newest());
        db.close().unwrap();
        let db = open();
        (0..50).for_each(|n| assert_eq!(db.get(&key(n)).unwrap(), Some(value(n))));
        assert_eq!(db.get(b"more").unwrap().as_deref(), Some(&b"room"[..]));
    }
}

/// An open for writing deletes what the manifest does not need before it writes anything. If that is not enough, it says how much is.
#[test]
fn opening_on_a_full_medium_frees_what_it_can() {
    let store = memory();
    let open = || settings((0, Style::Leveled)).open_store(store.clone() as Arc<dyn Store>);
    for round in 0..3 {
        let db = open().unwrap();
        (0..200).for_each(|n| db.put(&key(round * 200 + n), &value(n)).unwrap());
        std::mem::drop(db);
    }
    let used = || store.list().unwrap().iter().map(|(_, bytes)| bytes).sum::<u64>();
    let check = |db: &Db| (0..600).for_each(|n| assert_eq!(db.get(&key(n)).unwrap(), Some(value(n % 200)), "{n}"));
    store.set_capacity(Some(used()));
    let before = store.list().unwrap().len();
    for _ in 0..3 {
        let error = open().map(drop).unwrap_err();
        assert_no_space(&error);
        assert!(error.to_string().contains("opening for writing takes up to ") && error.to_string().contains("0 are free"), "{error}");
        assert_eq!(store.list().unwrap().len(), before, "nothing is lost, and nothing is left");
        check(&builder().read_only().open_store(store.clone() as Arc<dyn Store>).unwrap());
    }
    // Tables and a segment that nothing names, as an interrupted compaction leaves them.
    store.set_capacity(None);
    let newest = store.list().unwrap().iter().map(|(id, _)| id.number).max().unwrap();
    for id in [FileId::table(1), FileId::table(newest - 1), FileId::log(1)] {
        if store.list().unwrap().iter().all(|(other, _)| *other != id) {
            let mut file = store.create(id, &Hint::new(Cause::Flush)).unwrap();
            file.append(&[7; 300 << 10]).unwrap();
            file.seal().unwrap();
        }
    }
    store.sync_names().unwrap();
    store.set_capacity(Some(used()));
    let db = open().unwrap();
    check(&db);
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    check(&open().unwrap());
}

/// A quarter of the medium holds all that is alive.
#[test]
fn values_put_anew_do_not_fill_a_medium() {
    for kind in [LEVELED, (2, Style::Universal), (0, Style::Leveled), (0, Style::Universal)] {
        let db = deep(kind).open_store(limited()).unwrap();
        let newest = |n: u64| (0..60_000).rev().find(|put| put % 6000 == n).unwrap();
        (0..60_000u64).for_each(|put| until_done(|| db.put(&key(put % 6000), &value(put))));
        (0..6000).for_each(|n| assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(newest(n)), "{kind:?}: {n}"));
        assert_eq!(db.verify().unwrap(), []);
    }
}
