//! Copies and snapshots beside writers whose batches span three families: each shows one moment of all of them.
//!
//! `MOMENT_ROUNDS` says how many copies are taken with each size of memtables.

use super::*;
use sinter_storage::store::{Calls, DirStore, ENOSPC, Fault, FaultStore, Operation, Temperature};
use sinterdb::{Snapshot, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use tempfile::TempDir;

const FAMILIES: [&str; 3] = ["default", "ranges", "sums"];
pub(super) const WRITERS: usize = 3;

/// Adds up operands.
struct Sum;

impl MergeOperator for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(base.iter().chain(operands).map(|bytes| number(bytes)).sum::<u64>().to_be_bytes().to_vec())
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

pub(super) fn configured(memtable: u64) -> Builder {
    // Large memtables come with the sizes of tables that belong to them.
    let sizes = if memtable < FamilySettings::default().write_buffer_size { small() } else { FamilySettings::default() };
    let family = FamilySettings { write_buffer_size: memtable, ..sizes };
    FAMILIES.iter().fold(builder(), |b, name| b.family(name, family.clone())).merge_operator("sums", Arc::new(Sum))
}

pub(super) fn families(db: &Db) -> [Family; 3] {
    FAMILIES.map(|name| db.family(name).unwrap())
}

/// Batches that were begun, and those that were acknowledged.
#[derive(Default)]
struct Progress {
    begun: [AtomicU64; WRITERS],
    done: [AtomicU64; WRITERS],
    stops: AtomicBool,
}

fn counts(of: &[AtomicU64; WRITERS]) -> [u64; WRITERS] {
    [0, 1, 2].map(|n| of[n].load(Ordering::SeqCst))
}

/// Batch `n` of a writer has `n` in all families: as a value, as the one key that a range tombstone leaves, and as a sum of ones.
pub(super) fn write(db: &Db, [values, ranges, sums]: &[Family; 3], writer: usize, n: u64) {
    let (id, mut batch) = ([writer as u8], WriteBatch::new());
    batch.put_in(values, &id, &[&n.to_be_bytes()[..], &noise(n as usize, 200 + n as usize % 1500)].concat());
    batch.delete_range_in(ranges, &id, &[writer as u8 + 1]);
    batch.put_in(ranges, &[&id[..], &n.to_be_bytes()].concat(), b"");
    batch.merge_in(sums, &id, &1u64.to_be_bytes());
    let options = match writer {
        0 => NO_WAL,
        1 if n.is_multiple_of(64) => SYNC,
        _ => WriteOptions::default(),
    };
    db.write(&mut batch, &options).unwrap();
}

/// The last batch of each writer, which is the same in all families.
pub(super) fn read(db: &Db, snapshot: Option<Snapshot>, when: &str) -> [u64; WRITERS] {
    let [values, ranges, sums] = families(db);
    let options = ReadOptions { snapshot, upper: Some(vec![WRITERS as u8]), ..ReadOptions::default() };
    let all = |family: &Family| db.iter_with(family, options.clone()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let of = |entries: &[(Vec<u8>, Vec<u8>)], writer: usize, at: usize| {
        let mine: Vec<_> = entries.iter().filter(|entry| entry.0[0] == writer as u8).collect();
        assert!(mine.len() < 2, "{when}: {} keys of writer {writer}", mine.len());
        mine.first().map_or(0, |(key, value)| number(if at == 0 { &key[1..] } else { value }))
    };
    let (values, ranges, sums) = (all(&values), all(&ranges), all(&sums));
    [0, 1, 2].map(|writer| {
        let found = [of(&values, writer, 1), of(&ranges, writer, 0), of(&sums, writer, 1)];
        assert!(found == [found[0]; 3], "{when}: of writer {writer} the families have batches {found:?}");
        found[0]
    })
}

/// The copy or snapshot lies between the batches acknowledged before and those begun after.
fn check(progress: &Progress, when: &str, take: impl FnOnce() -> [u64; WRITERS]) {
    let before = counts(&progress.done);
    let taken = take();
    let after = counts(&progress.begun);
    let is_between = (0..WRITERS).all(|n| before[n] <= taken[n] && taken[n] <= after[n]);
    assert!(is_between, "{when}: {taken:?} was taken between {before:?} and {after:?}");
}

/// A store for a copy, and what has to live as long as it does.
fn target(round: usize) -> (Arc<dyn Store>, Option<TempDir>) {
    if round.is_multiple_of(8) {
        let home = tempfile::tempdir().unwrap();
        return (Arc::new(DirStore::open(home.path(), true).unwrap()), Some(home));
    }
    (memory(), None)
}

/// Takes a copy into one store, or with a tier.
fn copy(db: &Db, memtable: u64, round: usize) -> [u64; WRITERS] {
    let ((store, _home), cold) = (target(round), memory());
    let opened = configured(memtable).settings(inline());
    let copy = if round % 8 == 3 {
        db.checkpoint_to_tiers(&*store, &[(Temperature::Cold, &*cold)]).unwrap();
        opened.tier_store(Temperature::Cold, cold).open_store(store).unwrap()
    } else {
        db.checkpoint_to(&*store).unwrap();
        opened.open_store(store).unwrap()
    };
    assert_eq!(copy.recovery().records_replayed, 0);
    let found = read(&copy, None, "in a copy");
    if round.is_multiple_of(16) {
        assert!(copy.verify().unwrap().is_empty());
    }
    found
}

/// Writers, one who reads at snapshots, and one who makes and drops families, beside copies.
fn run(store: Arc<dyn Store>, memtable: u64, rounds: usize) {
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let db = configured(memtable).settings(settings).open_store(store).unwrap();
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let (db, progress) = (&db, &progress);
        let stopped = || progress.stops.load(Ordering::Acquire);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let families = families(db);
                for n in (1..).take_while(|_| !stopped()) {
                    progress.begun[writer].store(n, Ordering::SeqCst);
                    write(db, &families, writer, n);
                    progress.done[writer].store(n, Ordering::SeqCst);
                }
            });
        }
        scope.spawn(move || {
            while !stopped() {
                check(progress, "a snapshot", || read(db, Some(db.snapshot()), "at a snapshot"));
            }
        });
        scope.spawn(move || {
            while !stopped() {
                let passing = db.create_family("passing", small()).unwrap();
                db.put_with(&passing, b"k", b"v", &NO_WAL).unwrap();
                db.drop_family(&passing).unwrap();
            }
        });
        let stop = Stop(&progress.stops);
        (0..rounds).for_each(|round| check(progress, "a copy", || copy(db, memtable, round)));
        drop(stop);
    });
    db.wait_for_compactions().unwrap();
    db.check_ledger().unwrap();
}

/// The others end, also when a check fails.
pub(super) struct Stop<'a>(pub(super) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(super) fn rounds() -> usize {
    std::env::var("MOMENT_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap())
}

#[test]
fn a_copy_beside_writers_is_one_moment_of_all_families() {
    // In memory flushes are quick, and many.
    run(memory(), 16 << 10, 4 * rounds());
    run(memory(), 64 << 10, 2 * rounds());
    run(new_store(), 64 << 20, rounds());
}

/// Takes a copy that has something to write from memory: `work` runs when the flush before the copy is about to end its first table.
fn copy_beside(faults: &Arc<FaultStore>, db: &Db, target: &dyn Store, work: impl FnOnce() + Send) -> Result<(), Error> {
    let ((enter, is_entered), (go, may_go)) = (mpsc::channel(), mpsc::channel());
    let (enter, may_go) = (Mutex::new(Some(enter)), Mutex::new(may_go));
    faults.on_call(Some(Arc::new(move |_, operation| {
        if operation == Operation::Seal
            && let Some(enter) = enter.lock().unwrap().take()
        {
            enter.send(()).unwrap();
            may_go.lock().unwrap().recv().unwrap();
        }
    })));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            is_entered.recv().unwrap();
            work();
            go.send(()).unwrap();
        });
        db.checkpoint_to(target)
    })
}

/// A database with batches up to 60 of writer 1 in tables and memtables.
fn part_in_memory(faults: &Arc<FaultStore>) -> Db {
    let db = try_open(faults, configured(1 << 20).settings(DbSettings { max_background_jobs: 1, ..DbSettings::default() })).unwrap();
    let families = families(&db);
    (1..=20).for_each(|n| write(&db, &families, 1, n));
    db.flush().unwrap();
    (21..=60).for_each(|n| write(&db, &families, 1, n));
    db
}

#[test]
fn what_is_written_during_the_flush_moves_to_the_copy_from_memory() {
    let faults = Arc::new(FaultStore::new(memory()));
    let db = part_in_memory(&faults);
    let target = memory();
    let copied = FaultStore::new(target.clone());
    let later = db.clone();
    // Before the first table is created, and so while memtables are read.
    copied.on_call(Some(Arc::new(move |call, _| {
        if call == 0 {
            let all = families(&later);
            write(&later, &all, 1, 71);
            write(&later, &all, 2, 1);
            all[..2].iter().for_each(|family| later.delete_range_with(family, b"\0", b"\xff", &NO_WAL).unwrap());
        }
    })));
    copy_beside(&faults, &db, &copied, || (61..=70).for_each(|n| write(&db, &families(&db), 1, n))).unwrap();
    let copy = try_open(&target, configured(1 << 20).settings(inline())).unwrap();
    assert_eq!(read(&copy, None, "in the copy"), [0, 70, 0]);
    // Numbers that the copy gives again hide all that it has.
    write(&copy, &families(&copy), 1, 71);
    assert_eq!(read(&copy, None, "in the copy"), [0, 71, 0]);
    copy.compact_range(&families(&copy)[2], None, None).unwrap();
    assert_eq!(read(&copy, None, "in the copy"), [0, 71, 0]);
    assert!(copy.verify().unwrap().is_empty());
    assert!(all(&db, &families(&db)[0]).is_empty());
    db.check_ledger().unwrap();
}

#[test]
fn a_copy_that_fails_is_no_database_or_whole_and_leaves_the_original_alone() {
    let faults = Arc::new(FaultStore::new(memory()));
    let db = part_in_memory(&faults);
    for (n, at) in (61..).step_by(2).zip(0..) {
        let target = Arc::new(FaultStore::new(memory()));
        target.inject(Fault::from(Calls::Mutating, at, ENOSPC));
        let families = families(&db);
        write(&db, &families, 1, n);
        let copied = copy_beside(&faults, &db, &*target, || write(&db, &families, 1, n + 1));
        target.clear();
        let opened = try_open(&target, configured(1 << 20).settings(inline()).create_if_missing(false));
        let is_opened = opened.map(|copy| assert_eq!(read(&copy, None, "in the copy"), [0, n + 1, 0])).is_ok();
        assert_eq!(read(&db, None, "in the original"), [0, n + 1, 0]);
        if copied.is_ok() {
            assert!(is_opened && at > 12, "tables from memory and from the store, names, manifest: {at} calls");
            break;
        }
        assert!(matches!(copied, Err(Error::NoSpace(_))), "{copied:?}");
        // Where only the names behind the manifest are not synced, everything is there.
        assert!(!is_opened || target.count(Operation::SyncNames) > 1, "after {at} calls");
    }
    db.flush().unwrap();
    db.check_ledger().unwrap();
}
