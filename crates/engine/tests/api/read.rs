//! Reads: gets, iterators, snapshots, range deletes, merges, the cache.

use super::*;
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, Operation};
use sinterdb::{DbIterator, MAX_KEY, WriteBatch};
use std::collections::BTreeSet;

fn iterator(db: &Db, options: ReadOptions) -> DbIterator {
    db.iter_with(&db.default_family(), options).unwrap()
}

fn scan(db: &Db, options: ReadOptions) -> Vec<String> {
    iterator(db, options).map(|entry| String::from_utf8_lossy(&entry.unwrap().0).into_owned()).collect()
}

/// Keys a, c, e in three places: a table, an older memtable's table, the memtable.
fn ace() -> Db {
    let db = open(&new_store());
    for key in [b"a", b"c", b"e"] {
        db.put(key, &key.to_ascii_uppercase()).unwrap();
        if key != b"e" {
            db.flush().unwrap();
        }
    }
    db
}

#[test]
fn multi_get_equals_gets() {
    let db = small_db();
    fill(&db, 2000, 50);
    (0..2000).step_by(3).for_each(|n| db.delete(&key(n)).unwrap());
    let snapshot = db.snapshot();
    fill(&db, 2000, 51);
    let wanted: Vec<Vec<u8>> = (0..2100).rev().chain([7, 7, 7]).map(key).collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    for options in [ReadOptions::default(), ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() }] {
        db.expect(&db.default_family(), &wanted);
        let values = db.multi_get(&db.default_family(), &wanted, &options).unwrap();
        assert_eq!(values.len(), wanted.len());
        for (key, value) in wanted.iter().zip(values) {
            assert_eq!(value, db.get_with(&db.default_family(), key, &options).unwrap());
        }
    }
    assert!(db.multi_get(&db.default_family(), &[], &ReadOptions::default()).unwrap().is_empty());
}

#[test]
fn get_into_uses_the_buffer_and_empties_it_for_absent_keys() {
    let db = open(&new_store());
    db.put(b"k", b"value").unwrap();
    let mut out = b"old".to_vec();
    assert!(db.get_into(&db.default_family(), b"k", &ReadOptions::default(), &mut out).unwrap());
    assert_eq!(out, b"value");
    assert!(!db.get_into(&db.default_family(), b"absent", &ReadOptions::default(), &mut out).unwrap());
    assert!(out.is_empty());
}

#[test]
fn a_fresh_iterator_yields_everything_from_the_first_key() {
    assert_eq!(keys(&ace()), ["a", "c", "e"]);
}

#[test]
fn after_a_seek_next_yields_the_sought_entry_first() {
    let mut iterator = iterator(&ace(), ReadOptions::default());
    iterator.seek(b"b").unwrap();
    assert_eq!(iterator.next().unwrap().unwrap(), (b"c".to_vec(), b"C".to_vec()));
    assert_eq!(iterator.next().unwrap().unwrap().0, b"e");
    assert!(iterator.next().is_none());
    assert!(iterator.next().is_none(), "it stays at the end");
    iterator.seek_for_prev(b"d").unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().0, b"c");
    iterator.seek_last().unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().0, b"e");
    iterator.seek_first().unwrap();
    iterator.advance().unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().0, b"c");
    iterator.retreat().unwrap();
    assert_eq!(iterator.next().unwrap().unwrap().0, b"a");
}

#[test]
fn an_iterator_that_stands_nowhere_has_empty_key_and_value() {
    let mut iterator = iterator(&ace(), ReadOptions::default());
    assert!(!iterator.valid() && iterator.key().is_empty() && iterator.value().is_empty());
    iterator.seek(b"z").unwrap();
    assert!(!iterator.valid() && iterator.key().is_empty());
    iterator.advance().unwrap();
    iterator.retreat().unwrap();
    assert!(!iterator.valid());
}

/// Each read of a walk fails once: some sources of the iterator have moved by then, others not.
#[test]
fn an_iterator_takes_no_step_from_a_move_that_failed() {
    let below = memory();
    let db = try_open(&below, builder().settings(inline()).family("default", small())).unwrap();
    for half in 0..2 {
        (half..400).step_by(2).for_each(|n| db.put(&key(n), &noise(n, 200)).unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    let mut failures = 0;
    for at in 0.. {
        let store = Arc::new(FaultStore::new(below.clone()));
        let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
        let mut iterator = iterator(&db, ReadOptions::default());
        store.inject(Fault::once(Calls::Only(Operation::Read), store.count(Operation::Read) + at, EIO));
        let mut found = 0;
        let mut moved = iterator.seek_first();
        while moved.is_ok() && iterator.valid() {
            assert_eq!(iterator.key(), key(found));
            found += 1;
            moved = iterator.advance();
        }
        if moved.is_ok() {
            assert_eq!(found, 400);
            break;
        }
        failures += 1;
        for step in [DbIterator::advance, DbIterator::retreat] {
            step(&mut iterator).unwrap();
            assert!(!iterator.valid() && iterator.key().is_empty(), "read {at}");
        }
        iterator.seek(&key(found)).unwrap();
        assert_eq!(iterator.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), (found..400).map(key).collect::<Vec<_>>());
    }
    assert!(failures > 4, "{failures}");
}

#[test]
fn bounds_include_the_lower_and_exclude_the_upper() {
    let db = ace();
    let within = |lower: &[u8], upper: &[u8]| {
        scan(&db, ReadOptions { lower: Some(lower.to_vec()), upper: Some(upper.to_vec()), ..ReadOptions::default() })
    };
    assert_eq!(within(b"a", b"e"), ["a", "c"]);
    assert_eq!(within(b"b", b"f"), ["c", "e"]);
    assert!(within(b"c", b"c").is_empty());
    assert!(within(b"e", b"a").is_empty());
    let mut iterator = iterator(&db, ReadOptions { lower: Some(b"b".to_vec()), upper: Some(b"d".to_vec()), ..ReadOptions::default() });
    iterator.seek(b"").unwrap();
    assert_eq!(iterator.key(), b"c");
    iterator.retreat().unwrap();
    assert!(!iterator.valid());
    iterator.seek_for_prev(b"z").unwrap();
    assert_eq!(iterator.key(), b"c");
    iterator.seek(b"e").unwrap();
    assert!(!iterator.valid());
}

#[test]
fn an_iterator_stops_among_dead_keys_and_another_goes_on_from_there() {
    let db = small_db();
    fill(&db, 2000, 50);
    db.delete_range(&key(300), &key(600)).unwrap();
    (0..2000).filter(|n| n % 100 != 7).for_each(|n| db.delete(&key(n)).unwrap());
    let alive = keys(&db);
    for patience in [1, 10, 1000] {
        let (mut found, mut stops, mut lower) = (Vec::new(), 0, None);
        loop {
            let mut some = iterator(&db, ReadOptions { patience, lower, ..ReadOptions::default() });
            found.extend(some.by_ref().map(|entry| String::from_utf8_lossy(&entry.unwrap().0).into_owned()));
            assert!(!some.valid());
            let Some(stop) = some.stopped_at() else { break };
            stops += 1;
            lower = Some(stop.to_vec());
        }
        assert_eq!(found, alive, "{patience}");
        assert!(stops > 0 && stops < 2000 / patience, "{stops} stops at a patience of {patience}");
        let mut back = iterator(&db, ReadOptions { patience, ..ReadOptions::default() });
        back.seek_last().unwrap();
        assert!(back.valid() && back.stopped_at().is_none(), "backwards nothing is counted");
    }
}

#[test]
fn a_prefix_keeps_both_directions_inside() {
    let db = open(&new_store());
    for key in [&b"a"[..], b"ab", b"ab\xff", b"ab\xff\xff", b"ac", b"\xff", b"\xff\xff", b"\xff\xff\x00"] {
        db.put(key, b"").unwrap();
    }
    let count = |prefix: &[u8]| {
        let options = ReadOptions { prefix: Some(prefix.to_vec()), ..ReadOptions::default() };
        let forward = iterator(&db, options.clone()).count();
        let mut iterator = iterator(&db, options);
        iterator.seek_last().unwrap();
        let mut backward = 0;
        while iterator.valid() {
            assert!(iterator.key().starts_with(prefix));
            backward += 1;
            iterator.retreat().unwrap();
        }
        assert_eq!(forward, backward);
        forward
    };
    assert_eq!([count(b"ab"), count(b"ab\xff"), count(b"\xff"), count(b"\xff\xff"), count(b""), count(b"b")], [3, 2, 3, 2, 8, 0]);
}

#[test]
fn an_iterator_sees_the_moment_it_was_made() {
    let db = small_db();
    fill(&db, 500, 40);
    let before = all(&db, &db.default_family());
    let iterator = db.iter();
    fill(&db, 600, 41);
    db.delete_range(b"", b"key000100").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(iterator.collect::<Result<Vec<_>, _>>().unwrap(), before);
    assert_eq!(keys(&db).len(), 500);
}

#[test]
fn a_snapshot_is_one_moment_of_all_families() {
    let db = small_db();
    let other = db.create_family("other", small()).unwrap();
    db.put(b"k", b"1").unwrap();
    db.put_with(&other, b"k", b"2", &WriteOptions::default()).unwrap();
    let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    for n in 0..3000 {
        db.put(b"k", &noise(n, 30)).unwrap();
        db.delete_with(&other, b"k", &WriteOptions::default()).unwrap();
    }
    db.compact_range(&db.default_family(), None, None).unwrap();
    db.compact_range(&other, None, None).unwrap();
    assert_eq!(db.get_with(&db.default_family(), b"k", &at).unwrap().unwrap(), b"1");
    assert_eq!(db.get_with(&other, b"k", &at).unwrap().unwrap(), b"2");
    assert_eq!(db.get_with(&other, b"k", &ReadOptions::default()).unwrap(), None);
    let seen: Vec<_> = db.iter_with(&other, at).unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, [(b"k".to_vec(), b"2".to_vec())]);
}

#[test]
fn a_snapshot_of_another_database_is_refused() {
    let (db, stranger) = (open(&new_store()), open(&new_store()));
    let at = ReadOptions { snapshot: Some(stranger.snapshot()), ..ReadOptions::default() };
    let family = db.default_family();
    assert!(invalid(db.get_with(&family, b"k", &at)).contains("another database"));
    assert!(invalid(db.multi_get(&family, &[b"k"], &at)).contains("another database"));
    assert!(invalid(db.iter_with(&family, at).map(drop)).contains("another database"));
}

#[test]
fn delete_range_includes_its_start_and_excludes_its_end() {
    let db = ace();
    db.delete_range(b"a", b"e").unwrap();
    assert_eq!(keys(&db), ["e"]);
    db.put(b"c", b"new").unwrap();
    assert_eq!(keys(&db), ["c", "e"]);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(keys(&db), ["c", "e"]);
}

#[test]
fn an_empty_range_deletes_nothing_and_an_inverted_one_is_refused() {
    let db = ace();
    db.delete_range(b"c", b"c").unwrap();
    assert!(invalid(db.delete_range(b"e", b"a")).contains("ends before it begins"));
    assert!(invalid(db.delete_range_with(&db.default_family(), b"a\0", b"a", &SYNC)).contains("ends before it begins"));
    let mut batch = WriteBatch::new();
    batch.put(b"d", b"D");
    batch.delete_range_in(&db.default_family(), b"z", b"");
    assert!(invalid(db.write(&mut batch, &WriteOptions::default())).contains("ends before it begins"), "and nothing of the batch counts");
    db.delete_range(b"", b"").unwrap();
    assert_eq!(keys(&db), ["a", "c", "e"]);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(keys(&db), ["a", "c", "e"]);
}

/// Keys are deleted from memtables, the log, tables on several levels and a checkpoint; keys written afterwards stay.
#[test]
fn a_range_without_an_end_deletes_all_keys_from_its_start_on() {
    let store = memory();
    let open = || try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let longest = vec![0xff; MAX_KEY];
    let mut expected: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut db = open();
    for round in 0..30usize {
        for n in 0..40 {
            let key = key(round * 7919 % 1000 + n * 25);
            db.put(&key, &noise(round, 50)).unwrap();
            expected.insert(key);
        }
        db.put(&longest, b"v").unwrap();
        let from = key(200 + round * 131 % 1000);
        let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
        let (before, snapshot) = (expected.len() + 1, db.iter_with(&db.default_family(), at).unwrap());
        let mut batch = WriteBatch::new();
        batch.put(b"z", b"older");
        batch.delete_range_from(&from);
        batch.put(b"y", b"newer");
        db.write(&mut batch, &if round % 7 == 0 { NO_WAL } else { WriteOptions::default() }).unwrap();
        expected.retain(|key| *key < from);
        expected.insert(b"y".to_vec());
        match round % 6 {
            0 => db.flush().unwrap(),
            1 => db.compact_range(&db.default_family(), None, None).unwrap(),
            2 if round % 7 > 0 => {
                drop(snapshot);
                drop(db);
                db = open();
                assert_eq!(db.iter().count(), expected.len(), "round {round}");
                continue;
            }
            3 => {
                let target = memory();
                db.checkpoint_to(&*target).unwrap();
                let copy = try_open(&target, builder().settings(inline())).unwrap();
                assert!(copy.iter().map(|entry| entry.unwrap().0).eq(expected.iter().cloned()), "round {round}");
            }
            4 => {
                let reader = try_open(&store, builder().read_only()).unwrap();
                assert!(round % 7 == 0 || reader.iter().map(|entry| entry.unwrap().0).eq(expected.iter().cloned()), "round {round}");
            }
            _ => {}
        }
        assert!(db.iter().map(|entry| entry.unwrap().0).eq(expected.iter().cloned()), "round {round}");
        assert_eq!(db.get(&longest).unwrap(), None);
        assert_eq!(snapshot.filter(|entry| entry.is_ok()).count(), before, "round {round}");
    }
    db.delete_range_from(b"").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(db.iter().count(), 0);
    assert!(db.version(&db.default_family()).unwrap().tables().next().is_none());
    db.delete_range_from(b"a").unwrap();
    assert!(invalid(db.delete_range_from(&vec![0; MAX_KEY + 1])).contains("1 MiB"));
}

#[test]
fn a_snapshot_before_a_range_delete_still_sees_the_keys() {
    let db = ace();
    let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.delete_range(b"a", b"z").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(scan(&db, at.clone()), ["a", "c", "e"]);
    assert_eq!(db.get_with(&db.default_family(), b"c", &at).unwrap().unwrap(), b"C");
    assert!(keys(&db).is_empty());
}

#[test]
fn merges_fold_in_order_wherever_they_lie() {
    let db = try_open(&new_store(), builder().settings(inline()).merge_operator("default", Arc::new(Join))).unwrap();
    db.put(b"k", b"base").unwrap();
    for operand in [b"1", b"2", b"3"] {
        db.merge(b"k", operand).unwrap();
        db.flush().unwrap();
    }
    db.merge(b"alone", b"x").unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"base,1,2,3");
    assert_eq!(db.get(b"alone").unwrap().unwrap(), b"x");
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"base,1,2,3");
    db.delete(b"k").unwrap();
    db.merge(b"k", b"4").unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"4");
}

#[test]
fn an_operator_that_refuses_fails_the_read_and_loses_nothing() {
    let db = try_open(&new_store(), builder().settings(inline()).merge_operator("default", Arc::new(Join))).unwrap();
    db.put(b"k", b"base").unwrap();
    db.merge(b"k", b"bad").unwrap();
    assert!(invalid(db.get(b"k")).contains("join"));
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert!(invalid(db.get(b"k")).contains("join"));
    db.put(b"k", b"healed").unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"healed");
}

#[test]
fn the_cache_keeps_to_its_size() {
    let settings = DbSettings { cache_size: 256 << 10, cache_index_and_filter_blocks: true, ..inline() };
    let db = try_open(&new_store(), builder().settings(settings).family("default", small())).unwrap();
    fill(&db, 8000, 200);
    db.compact_range(&db.default_family(), None, None).unwrap();
    for n in 0..8000 {
        assert_eq!(db.get(&key(n * 17 % 8000)).unwrap().unwrap(), noise(n * 17 % 8000, 200));
        if n % 100 == 0 {
            let used = db.stats().cache_bytes;
            assert!(used <= 256 << 10, "{used} bytes after {n} reads");
        }
    }
    assert!(db.stats().cache_bytes > 64 << 10, "the cache is used");
}

#[test]
fn a_scan_that_does_not_fill_the_cache_leaves_it_alone() {
    let db = small_db();
    fill(&db, 4000, 200);
    db.compact_range(&db.default_family(), None, None).unwrap();
    let count = |fill_cache| iterator(&db, ReadOptions { fill_cache, readahead: 64 << 10, ..ReadOptions::default() }).count();
    assert_eq!(count(false), 4000);
    let kept = db.stats().cache_bytes;
    assert_eq!(count(true), 4000);
    let filled = db.stats().cache_bytes;
    assert!(filled > kept + 400_000, "{kept} bytes kept without, {filled} with");
}
