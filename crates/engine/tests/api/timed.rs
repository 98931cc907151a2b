//! Writes that carry their own time.

use super::{Join, NO_WAL, SYNC, all, builder, inline, key, keys, new_store, small, try_open};
use sinterdb::clock::ManualClock;
use sinterdb::operator::{CompactionFilter, Decision};
use sinterdb::settings::{FamilySettings, Style};
use sinterdb::{Db, ReadOptions, WriteBatch, WriteOptions};
use std::sync::Arc;

const NOW: u64 = 1_700_000_000;

fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(NOW);
    clock
}

/// Everything that a reader can ask gives `expected`, in order.
fn check(db: &Db, expected: &[(Vec<u8>, Vec<u8>)], what: &str) {
    let family = db.default_family();
    assert_eq!(all(db, &family), expected, "{what}");
    let mut iterator = db.iter_with(&family, ReadOptions::default()).unwrap();
    iterator.seek_last().unwrap();
    for (key, value) in expected.iter().rev() {
        assert_eq!((iterator.key(), iterator.value()), (&key[..], &value[..]), "{what}");
        iterator.retreat().unwrap();
    }
    assert!(!iterator.valid(), "{what}");
    let names: Vec<&[u8]> = expected.iter().map(|(key, _)| key.as_slice()).collect();
    let values: Vec<Option<Vec<u8>>> = expected.iter().map(|(_, value)| Some(value.clone())).collect();
    assert_eq!(db.multi_get(&family, &names, &ReadOptions::default()).unwrap(), values, "{what}");
    for (key, value) in expected {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value), "{what}");
    }
}

#[test]
fn readers_see_ordinary_values_wherever_they_lie() {
    for style in [Style::Leveled, Style::Universal] {
        let (store, clock) = (new_store(), clock());
        let settings = FamilySettings { style, preserve_internal_time_seconds: 1000, ..small() };
        let open = || {
            let builder = builder().settings(inline()).clock(clock.clone()).merge_operator("default", Arc::new(Join));
            try_open(&store, builder.family("default", settings.clone())).unwrap()
        };
        let db = open();
        let family = db.default_family();
        let times = [0, 127, 128, NOW - 5000, NOW, NOW + 5000, u64::MAX];
        for (n, time) in times.into_iter().enumerate() {
            db.put(&key(n), b"older").unwrap();
            match n % 3 {
                0 => db.put_at(&key(n), b"value", time).unwrap(),
                1 => db.put_at_with(&family, &key(n), b"value", time, &SYNC).unwrap(),
                _ => {
                    let mut batch = WriteBatch::new();
                    batch.put_at(&key(n), b"not this", time);
                    batch.put_at_in(&family, &key(n), b"value", time);
                    db.write(&mut batch, &WriteOptions::default()).unwrap();
                }
            }
        }
        db.put_at(b"empty", b"", NOW).unwrap();
        db.put_at(b"gone", b"v", NOW).unwrap();
        db.delete(b"gone").unwrap();
        db.put_at(b"merged", b"base", NOW - 1).unwrap();
        db.merge(b"merged", b"1").unwrap();
        db.merge(b"merged", b"2").unwrap();
        let mut expected: Vec<_> = (0..times.len()).map(|n| (key(n), b"value".to_vec())).collect();
        expected.push((b"merged".to_vec(), b"base,1,2".to_vec()));
        expected.insert(0, (b"empty".to_vec(), Vec::new()));
        check(&db, &expected, "in the memtable");
        let at = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
        db.close().unwrap();
        drop(at);
        let db = open();
        check(&db, &expected, "from the log");
        let reader = builder().read_only().merge_operator("default", Arc::new(Join));
        check(&try_open(&store, reader).unwrap(), &expected, "read-only");
        db.merge(b"merged", b"3").unwrap();
        expected[times.len() + 1].1 = b"base,1,2,3".to_vec();
        db.flush().unwrap();
        check(&db, &expected, "on level 0");
        db.compact_range(&db.default_family(), None, None).unwrap();
        check(&db, &expected, "on the last level");
        clock.advance_seconds(100_000);
        db.put(b"zz", b"v").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        expected.push((b"zz".to_vec(), b"v".to_vec()));
        check(&db, &expected, "when most are old");
        assert!(db.verify().unwrap().is_empty());
        let target = new_store();
        db.checkpoint_to(&*target).unwrap();
        check(&try_open(&target, builder().merge_operator("default", Arc::new(Join))).unwrap(), &expected, "in a checkpoint");
    }
}

#[test]
fn the_time_to_live_goes_by_the_time_that_a_write_carries() {
    for style in [Style::Leveled, Style::Universal] {
        let clock = clock();
        let settings = FamilySettings { ttl_seconds: 1000, style, ..small() };
        let builder = builder().settings(inline()).clock(clock.clone()).family("default", settings);
        let db = try_open(&new_store(), builder).unwrap();
        let compact = || db.compact_range(&db.default_family(), None, None).unwrap();
        db.put_at(b"long ago", b"v", NOW - 1001).unwrap();
        db.put_at(b"a while ago", b"v", NOW - 1000).unwrap();
        db.put(b"now", b"v").unwrap();
        db.put_at(b"tomorrow", b"v", NOW + 86_400).unwrap();
        compact();
        assert_eq!(keys(&db), ["a while ago", "now", "tomorrow"], "{style:?}");
        clock.advance_seconds(1);
        compact();
        assert_eq!(keys(&db), ["now", "tomorrow"], "{style:?}");
        clock.advance_seconds(1001);
        db.wait_for_compactions().unwrap();
        let entries = || db.version(&db.default_family()).unwrap().tables().map(|(_, _, table)| table.entries).sum::<u64>();
        assert_eq!((keys(&db), entries()), (vec!["tomorrow".into()], 2), "{style:?}: the table does not go before all of it is old");
        compact();
        assert_eq!((keys(&db), entries()), (vec!["tomorrow".into()], 1), "{style:?}");
        clock.advance_seconds(86_400);
        db.wait_for_compactions().unwrap();
        assert_eq!((keys(&db).len(), entries()), (0, 0), "{style:?}: now it does");
        // What is newer hides what is older, whatever their times say.
        db.put(b"k", b"first").unwrap();
        db.put_at(b"k", b"second", 0).unwrap();
        assert_eq!(db.get(b"k").unwrap(), None, "{style:?}: the second has expired, and hides the first");
        compact();
        assert_eq!(db.get(b"k").unwrap(), None, "{style:?}: and nothing comes back");
    }
}

/// Keeps the values it has seen; changes those of a key.
#[derive(Default)]
struct Seen(std::sync::Mutex<Vec<Vec<u8>>>);

impl CompactionFilter for Seen {
    fn filter(&self, _level: u8, key: &[u8], value: &[u8]) -> Decision {
        self.0.lock().unwrap().push(value.to_vec());
        if key == b"change" { Decision::Change(b"changed".to_vec()) } else { Decision::Keep }
    }
}

#[test]
fn a_compaction_filter_gets_the_value_and_the_time_stays() {
    let (clock, filter) = (clock(), Arc::new(Seen::default()));
    let settings = FamilySettings { ttl_seconds: 1000, ..small() };
    let builder = builder().settings(inline()).clock(clock.clone()).family("default", settings);
    let db = try_open(&new_store(), builder.compaction_filter("default", filter.clone())).unwrap();
    db.put_at_with(&db.default_family(), b"change", b"one", NOW + 500, &NO_WAL).unwrap();
    db.put_at(b"keep", b"two", NOW + 500).unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert!(filter.0.lock().unwrap().starts_with(&[b"one".to_vec(), b"two".to_vec()]));
    assert_eq!(db.get(b"change").unwrap().unwrap(), b"changed");
    clock.advance_seconds(1400);
    db.put(b"x", b"v").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(keys(&db), ["change", "keep", "x"], "not as old as their numbers");
    clock.advance_seconds(200);
    db.put(b"x", b"w").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(keys(&db), ["x"]);
}

#[test]
fn sizes_are_bounded_as_for_other_values() {
    let db = try_open(&new_store(), builder().settings(inline())).unwrap();
    assert!(super::invalid(db.put_at(&vec![7; (1 << 20) + 1], b"v", 1)).contains("a key is longer"));
    assert_eq!(keys(&db).len(), 0);
}
