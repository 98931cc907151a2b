//! Collections that lie in their key's entry: their order, when they become engine keys, and those of older formats.

use super::super::entry::Form;
use super::super::layout::{self, FamilyKind, score_order};
use super::super::{Collection, FORMAT, Keyspace, Kind, Side};
use super::{commit, few, stored};
use crate::testing::{Random, fresh, open};
use sinter_storage::store::MemoryStore;
use sinterdb::WriteOptions;
use std::ops::ControlFlow;
use std::sync::Arc;

fn find(keyspace: &mut Keyspace, key: &[u8]) -> Collection {
    keyspace.find_collection(0, key).unwrap().unwrap()
}

/// Names of elements in order, with a blank between them, and the form that they are in.
fn shown(keyspace: &mut Keyspace, key: &[u8]) -> (String, Form) {
    let found = find(keyspace, key);
    let mut names: Vec<String> = Vec::new();
    let mut see = |name: &[u8]| {
        names.push(String::from_utf8(name.to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    match found.kind {
        Kind::List => keyspace.walk_items(&found, (0, u64::MAX), false, &mut see).unwrap(),
        Kind::SortedSet => keyspace.walk_scored_or_set(&found, &mut |name, _| see(name)).unwrap(),
        _ => keyspace.walk_members(&found, &mut |name, _| see(name)).unwrap(),
    }
    assert_eq!(names.len() as u64, found.count);
    (names.join(" "), found.form)
}

fn add(keyspace: &mut Keyspace, key: &[u8], kind: Kind, names: &str) {
    let mut edit = keyspace.edit(0, key, kind).unwrap();
    for (number, name) in names.split(' ').enumerate() {
        let name = name.as_bytes();
        match kind {
            Kind::List => keyspace.push(&mut edit, Side::Right, name).unwrap(),
            Kind::SortedSet => drop(keyspace.set_score(&mut edit, name, -(number as f64)).unwrap()),
            Kind::Set => drop(keyspace.add_member(&mut edit, name).unwrap()),
            _ => drop(keyspace.set_field(&mut edit, name, b"value").unwrap()),
        }
    }
    keyspace.finish(&edit);
}

#[test]
fn small_collections_keep_the_order_of_redis() {
    let mut keyspace = fresh();
    add(&mut keyspace, b"h", Kind::Hash, "c a b a d");
    add(&mut keyspace, b"s", Kind::Set, "10 9 -3 10");
    add(&mut keyspace, b"z", Kind::SortedSet, "x y a b");
    add(&mut keyspace, b"l", Kind::List, "b a b");
    assert_eq!(shown(&mut keyspace, b"h"), ("c a b d".into(), Form::Inline));
    assert_eq!(shown(&mut keyspace, b"s"), ("-3 9 10".into(), Form::Integers));
    assert_eq!(shown(&mut keyspace, b"z"), ("b a y x".into(), Form::Inline));
    assert_eq!(shown(&mut keyspace, b"l"), ("b a b".into(), Form::Inline));
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 0);
    commit(&mut keyspace);
    add(&mut keyspace, b"s", Kind::Set, "1 two 0");
    assert_eq!(shown(&mut keyspace, b"s"), ("-3 1 9 10 two 0".into(), Form::Inline));
    let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
    assert!(keyspace.remove_member(&mut edit, b"a").unwrap());
    keyspace.finish(&edit);
    add(&mut keyspace, b"h", Kind::Hash, "a c");
    commit(&mut keyspace);
    assert_eq!(shown(&mut keyspace, b"h"), ("c b d a".into(), Form::Inline));
    let found = find(&mut keyspace, b"h");
    let mut seen = 0;
    assert_eq!(keyspace.scan_members(&found, 0, 1, &mut |_, _| seen += 1).unwrap(), 0, "all at once");
    assert_eq!((seen, keyspace.random_members(&found, 9).unwrap()), (4, keyspace.members(&found).unwrap()));
}

#[test]
fn what_grows_becomes_engine_keys_and_stays_so() {
    let long = "x".repeat(65);
    let kinds = [(Kind::Hash, "h"), (Kind::Set, "s"), (Kind::SortedSet, "z"), (Kind::List, "l")];
    for (kind, key) in kinds {
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(4));
        let key = key.as_bytes();
        add(&mut keyspace, key, kind, "a b c d");
        keyspace.set_deadline(0, key, Some(2_000_000)).unwrap();
        commit(&mut keyspace);
        assert_eq!((find(&mut keyspace, key).form, stored(&keyspace, FamilyKind::Elements)), (Form::Inline, 0));
        add(&mut keyspace, key, kind, "e");
        let elements = if kind == Kind::SortedSet { 11 } else { 6 };
        assert_eq!((find(&mut keyspace, key).form, stored(&keyspace, FamilyKind::Elements)), (Form::Elements, elements), "{kind:?}");
        commit(&mut keyspace);
        let found = find(&mut keyspace, key);
        assert_eq!((found.count, found.deadline), (5, Some(2_000_000)));
        let mut edit = keyspace.edit(0, key, kind).unwrap();
        for name in [b"a", b"b", b"c"] {
            match kind {
                Kind::List => assert_eq!(keyspace.pop(&mut edit, Side::Left, 1).unwrap(), [name]),
                Kind::SortedSet => assert!(keyspace.remove_scored(&mut edit, name).unwrap().is_some()),
                _ => assert!(keyspace.remove_member(&mut edit, name).unwrap()),
            }
        }
        keyspace.finish(&edit);
        commit(&mut keyspace);
        assert_eq!(find(&mut keyspace, key).form, Form::Elements, "{kind:?}");
        // Without elements it is gone, and the next one begins anew.
        keyspace.remove(0, key).unwrap();
        add(&mut keyspace, key, kind, "a");
        keyspace.copy((0, key), (0, b"copy")).unwrap();
        keyspace.rename((0, b"copy"), (0, b"renamed")).unwrap();
        assert_eq!(shown(&mut keyspace, b"renamed"), ("a".into(), Form::Inline));
        commit(&mut keyspace);
        add(&mut keyspace, b"renamed", kind, &long);
        let form = if kind == Kind::List { Form::Inline } else { Form::Elements };
        assert_eq!((find(&mut keyspace, key).form, find(&mut keyspace, b"renamed").form), (Form::Inline, form));
    }
}

#[test]
fn other_thresholds_take_effect_when_something_is_added() {
    let mut keyspace = fresh();
    add(&mut keyspace, b"s", Kind::Set, "1 2 3");
    add(&mut keyspace, b"h", Kind::Hash, "a b c");
    keyspace.set_thresholds(few(2));
    add(&mut keyspace, b"s", Kind::Set, "1 2");
    assert_eq!(shown(&mut keyspace, b"s").1, Form::Integers, "all were there");
    add(&mut keyspace, b"s", Kind::Set, "4");
    add(&mut keyspace, b"h", Kind::Hash, "a");
    assert_eq!((shown(&mut keyspace, b"s").1, shown(&mut keyspace, b"h").1), (Form::Elements, Form::Elements));
    keyspace.set_thresholds(few(100));
    add(&mut keyspace, b"h", Kind::Hash, "d");
    assert_eq!(shown(&mut keyspace, b"h").1, Form::Elements);
    let mut lists = fresh();
    for (size, item, form) in [(-1, 4000, Form::Inline), (-1, 5000, Form::Elements), (-5, 60_000, Form::Inline), (3, 9000, Form::Elements)]
    {
        lists.set_thresholds(super::Thresholds { list: size, ..few(0) });
        lists.remove(0, b"l").unwrap();
        add(&mut lists, b"l", Kind::List, &"x".repeat(item));
        assert_eq!(shown(&mut lists, b"l").1, form, "{size} {item}");
    }
}

/// Bytes that the engine has put into its log.
fn logged(keyspace: &Keyspace) -> u64 {
    let tickers = keyspace.db().stats().tickers;
    tickers.iter().find(|(name, _)| *name == "rocksdb.wal.bytes").unwrap().1
}

#[test]
fn a_change_of_a_large_entry_writes_little() {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = open(&store, 1);
    let mut random = Random(1);
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
    for n in 0..400 {
        let pair = (format!("field{n}").into_bytes(), vec![b'v'; 20]);
        keyspace.set_field(&mut edit, &pair.0, &pair.1).unwrap();
        model.push(pair);
    }
    keyspace.finish(&edit);
    commit(&mut keyspace);
    let before = logged(&keyspace);
    for round in 0..500 {
        let at = random.below(model.len());
        let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
        match random.below(3) {
            0 => assert!(keyspace.remove_member(&mut edit, &model.remove(at).0).unwrap()),
            1 => {
                model.push((format!("new{round}").into_bytes(), random.bytes(60, b"xyz")));
                let (field, value) = model.last().unwrap();
                assert!(keyspace.set_field(&mut edit, field, value).unwrap());
            }
            _ => {
                model[at].1 = random.bytes(60, b"xyz");
                assert!(!keyspace.set_field(&mut edit, &model[at].0, &model[at].1).unwrap());
            }
        }
        keyspace.finish(&edit);
        match random.below(20) {
            0 => _ = keyspace.set_deadline(0, b"h", Some(u64::MAX - round)).unwrap(),
            1 => keyspace.db().flush().unwrap(),
            _ => {}
        }
        // Several changes in one batch, and one in a batch.
        if random.below(2) == 0 {
            commit(&mut keyspace);
        }
        if random.below(40) == 0 {
            commit(&mut keyspace);
            keyspace.close().unwrap();
            keyspace = open(&store, 1);
        }
        let found = find(&mut keyspace, b"h");
        assert_eq!(keyspace.members(&found).unwrap(), model, "round {round}");
    }
    commit(&mut keyspace);
    assert!(logged(&keyspace) < before + 200_000, "{} bytes for 500 changes of some 50 bytes in 12 KiB", logged(&keyspace) - before);
    // An entry that a turn has written whole is not written in part.
    keyspace.remove(0, b"h").unwrap();
    add(&mut keyspace, b"h", Kind::Hash, &"name ".repeat(2).trim_end().repeat(40));
    add(&mut keyspace, b"h", Kind::Hash, "last");
    commit(&mut keyspace);
    keyspace.close().unwrap();
    keyspace = open(&store, 1);
    assert!(shown(&mut keyspace, b"h").0.ends_with(" last"));
}

/// A hash of three fields, a set of two integers and a string, a sorted set and a list, as the third format has them.
fn old(store: &Arc<MemoryStore>) {
    let mut keyspace = open(store, 7);
    let place = keyspace.counters.places.of(0);
    let entries: [(&[u8], &[u8]); 5] =
        [(b"h", b"\x04\x01\x03"), (b"s", b"\x02\x02\x03"), (b"i", b"\x02\x03\x02"), (b"z", b"\x03\x04\x02"), (b"l", b"\x01\x05\x02\x09")];
    for (id, (key, entry)) in (1..).zip(entries) {
        keyspace.turn.put(FamilyKind::Keys, layout::entry_key(7, place, key), entry);
        keyspace.turn.put(FamilyKind::Elements, layout::exists_key(id), b"");
    }
    for field in [b"a", b"b", b"c"] {
        keyspace.turn.put(FamilyKind::Elements, layout::member_key(1, 7, field), b"value");
    }
    for (id, member) in [(2, &b"10"[..]), (2, b"9"), (2, b"x"), (3, b"10"), (3, b"9")] {
        keyspace.turn.put(FamilyKind::Elements, layout::member_key(id, 7, member), b"");
    }
    for (member, score) in [(&b"one"[..], 1.0), (b"two", 2.0)] {
        keyspace.turn.put(FamilyKind::Elements, layout::member_key(4, 7, member), score_order(score).to_be_bytes());
        keyspace.turn.put(FamilyKind::Elements, layout::score_key(4, score_order(score), member), b"");
    }
    for (index, item) in [(9, b"x"), (10, b"y")] {
        keyspace.turn.put(FamilyKind::Elements, layout::item_key(5, index), item);
    }
    keyspace.turn.put(FamilyKind::Keys, layout::setting_key(b"format"), 3u64.to_le_bytes());
    keyspace.counters.keys[0] = 5;
    keyspace.counters.ids = 100;
    commit(&mut keyspace);
    keyspace.close().unwrap();
}

#[test]
fn old_data_are_read_and_become_inline_when_they_are_changed() {
    let store = Arc::new(MemoryStore::new());
    old(&store);
    let all: [(&[u8], Kind, &str); 5] =
        [(b"h", Kind::Hash, "d"), (b"s", Kind::Set, "d"), (b"i", Kind::Set, "-1"), (b"z", Kind::SortedSet, "d"), (b"l", Kind::List, "d")];
    let as_read = open(&store, 7).close().map(|()| open(&store, 7)).map(|mut keyspace| {
        assert_eq!(keyspace.number_setting(b"format").unwrap(), Some(FORMAT));
        all.map(|(key, ..)| shown(&mut keyspace, key))
    });
    let before = as_read.unwrap();
    assert!(before.iter().all(|(_, form)| *form == Form::Plain), "{before:?}");
    assert_eq!((before[3].0.as_str(), before[4].0.as_str()), ("one two", "x y"));
    let mut keyspace = open(&store, 7);
    for (key, kind, name) in all {
        keyspace.set_deadline(0, key, Some(u64::MAX)).unwrap();
        let mut edit = keyspace.edit(0, key, kind).unwrap();
        if matches!(kind, Kind::Hash | Kind::Set) {
            // Nothing happens, so nothing is converted.
            assert!(!keyspace.remove_member(&mut edit, b"none").unwrap());
        }
        drop(edit);
        assert_eq!(find(&mut keyspace, key).form, Form::Plain);
        add(&mut keyspace, key, kind, name);
    }
    commit(&mut keyspace);
    keyspace.close().unwrap();
    let mut keyspace = open(&store, 7);
    assert_eq!(shown(&mut keyspace, b"h"), (format!("{} d", before[0].0), Form::Inline));
    let (set, form) = shown(&mut keyspace, b"s");
    assert_eq!((set.len(), form, set.ends_with(" d")), ("10 9 x d".len(), Form::Inline, true));
    assert_eq!(shown(&mut keyspace, b"i"), ("-1 9 10".into(), Form::Integers));
    assert_eq!(shown(&mut keyspace, b"z"), ("d one two".into(), Form::Inline));
    assert_eq!(shown(&mut keyspace, b"l"), ("x y d".into(), Form::Inline));
    keyspace.set_now(3);
    keyspace.syncer().sync().unwrap();
    keyspace.db().compact_range(&keyspace.db().family("elements").unwrap(), None, None).unwrap();
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 0, "what they had before is gone");
}

#[test]
fn old_data_that_are_too_large_stay_as_they_are() {
    let store = Arc::new(MemoryStore::new());
    old(&store);
    let mut keyspace = open(&store, 7);
    keyspace.set_thresholds(few(1));
    for (key, kind) in [(&b"h"[..], Kind::Hash), (b"s", Kind::Set), (b"z", Kind::SortedSet), (b"l", Kind::List)] {
        add(&mut keyspace, key, kind, "d");
        assert_eq!(find(&mut keyspace, key).form, Form::Elements);
    }
    keyspace.set_thresholds(few(100));
    add(&mut keyspace, b"h", Kind::Hash, "e");
    assert_eq!((find(&mut keyspace, b"h").form, find(&mut keyspace, b"h").count), (Form::Elements, 5));
    keyspace.commit(&WriteOptions::default()).unwrap();
}
