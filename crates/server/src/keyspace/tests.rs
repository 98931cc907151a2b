//! The keyspace against plain collections, and against the engine below.

mod collections;
mod dead_ranges;
mod eviction;
mod fields;
mod hidden;
mod inline;
mod long;
mod model;
mod pieces;
mod ranks;
mod stream_position;
mod streams;

use super::layout::{self, Direction, FamilyKind};
use super::{Counters, Error, FORMAT, Keyspace, Kind, Limit, StringEdit, Thresholds};
use crate::testing::{fresh, open, small_settings};

use sinter_storage::store::{Calls, EIO, Fault, FaultStore, MemoryStore, Operation, Store};
use sinterdb::WriteOptions;
use sinterdb::ledger::Ticker;
use sinterdb::operator::{CompactionFilter, Decision};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) fn commit(keyspace: &mut Keyspace) {
    keyspace.commit(&WriteOptions::default()).unwrap();
}

/// So many elements at most are inline, and of lists one at least.
pub(super) fn few(elements: u64) -> Thresholds {
    let limit = Limit { elements, bytes: 64 };
    Thresholds { hash: limit, set: limit, integers: elements, sorted_set: limit, list: i64::try_from(elements).unwrap() }
}

fn get(keyspace: &mut Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    keyspace.string(0, key).unwrap().map(<[u8]>::to_vec)
}

/// Makes a set of which each member is an engine key.
fn add_set(keyspace: &mut Keyspace, key: &[u8], members: u32) {
    keyspace.set_thresholds(few(0));
    let mut edit = keyspace.edit(0, key, Kind::Set).unwrap();
    for n in 0..members {
        keyspace.add_member(&mut edit, &n.to_le_bytes()).unwrap();
    }
    keyspace.finish(&edit);
}

/// Entries in the engine, pending ones included.
pub(super) fn stored(keyspace: &Keyspace, family: FamilyKind) -> usize {
    let everything = (Vec::new(), vec![0xff; 16]);
    let mut count = 0;
    keyspace
        .turn
        .walk(family, &everything, Direction::Forward, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    count
}

impl Keyspace {
    /// Makes the entry of a key one that cannot be read.
    pub(crate) fn damage(&mut self, key: &[u8]) {
        let place = super::layout::entry_key(self.seed, self.counters.places.of(0), key);
        self.turn.put(FamilyKind::Keys, place, [0x7f]);
    }
}

/// Counters are encoded as docs/engine/format.md says.
#[test]
fn counters_are_kept_as_the_format_says() {
    let mut counters = Counters { ids: 0x0102, ..Counters::NONE };
    (counters.keys[1], counters.deadlines[15]) = (7, 9);
    counters.places.swap(0, 2);
    let bytes = counters.encode();
    let mut expected = vec![0; 33 * 8];
    (expected[8], expected[31 * 8], expected[32 * 8], expected[32 * 8 + 1]) = (7, 9, 2, 1);
    expected.extend([2, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!((FORMAT, &bytes), (6, &expected));
    assert_eq!(Counters::decode(&bytes), Some(counters.clone()));
    for end in 0..bytes.len() {
        assert_eq!(Counters::decode(&bytes[..end]), None, "cut at {end}");
    }
    assert_eq!(Counters::decode(&[&bytes[..], b"\0"].concat()), None);
    // Counts of hashes whose fields have deadlines come last, if there is one.
    counters.expiring[2] = 3;
    expected.extend([0; 16 * 8]);
    expected[33 * 8 + 16 + 2 * 8] = 3;
    assert_eq!(counters.encode(), expected);
    assert_eq!(Counters::decode(&expected), Some(counters));
    assert_eq!(Counters::decode(&expected[..expected.len() - 1]), None);
    // Bytes have a setting of their own.
    let mut bytes = [0; 16];
    (bytes[1], bytes[15]) = (300, 1);
    let encoded = Counters { bytes: Some(bytes), ..Counters::NONE }.encode_bytes();
    assert_eq!(encoded, b"\0\xac\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    assert_eq!(Counters::decode_bytes(&encoded), Some(bytes));
    assert_eq!((Counters::decode_bytes(&encoded[1..]), Counters::decode_bytes(&[&encoded[..], b"\0"].concat())), (None, None));
}

#[test]
fn strings_are_changed_in_place() {
    let mut keyspace = fresh();
    keyspace.set_string(0, b"a", b"xyz", Some(2_000_000)).unwrap();
    add_set(&mut keyspace, b"s", 3);
    commit(&mut keyspace);
    keyspace.watch(1, 0, b"a").unwrap();
    // Nothing is written, nothing has changed.
    keyspace.change_string(0, b"none", |string| Ok(string.grow(0))).unwrap();
    keyspace.change_string(0, b"a", |string| string.write(0, b"!").map(|()| false)).unwrap();
    assert!(keyspace.is_committed() && !keyspace.is_disturbed(1).unwrap());
    assert_eq!((get(&mut keyspace, b"a").as_deref(), get(&mut keyspace, b"none")), (Some(&b"xyz"[..]), None));
    for (key, length, expected) in [(&b"a"[..], 5, &b"xyz\0+"[..]), (b"a", 2, b"x+z\0+"), (b"b", 2, b"\0+")] {
        let change = |string: &mut StringEdit| {
            let grows = string.length() < length;
            assert_eq!(string.grow(length), grows);
            string.write(length - 1, b"+")?;
            Ok(true)
        };
        keyspace.change_string(0, key, change).unwrap();
        assert_eq!(get(&mut keyspace, key).as_deref(), Some(expected));
    }
    assert!(keyspace.is_disturbed(1).unwrap());
    assert_eq!((keyspace.size(0), keyspace.find_collection(0, b"a").unwrap().unwrap().deadline), (3, Some(2_000_000)));
    assert!(matches!(keyspace.change_string(0, b"s", |_| Ok(true)), Err(Error::WrongType)));
    // The old value has ended.
    keyspace.set_now(3_000_000);
    keyspace.change_string(0, b"a", |string| Ok(string.grow(1))).unwrap();
    assert_eq!(
        (get(&mut keyspace, b"a").as_deref(), keyspace.find_collection(0, b"a").unwrap().unwrap().deadline),
        (Some(&b"\0"[..]), None)
    );
}

/// One after the other, so that each is read while the one before may still be on its way, and with small ones between.
#[test]
fn large_batches_are_found_when_they_are_committed() {
    let mut keyspace = fresh();
    for round in 0..300u32 {
        let keys = if round % 3 == 2 { 1 } else { 200 };
        for n in 0..keys {
            keyspace.set_string(0, &(round * 7 + n).to_be_bytes(), &[round as u8; 40], None).unwrap();
        }
        commit(&mut keyspace);
        match round % 5 {
            // Besides keys there are format, seed, counters and bytes.
            0 => assert_eq!(stored(&keyspace, FamilyKind::Keys) as u64, keyspace.size(0) + 4),
            1 => assert_eq!(keyspace.image().keyspace().size(0), keyspace.size(0)),
            _ => {}
        }
        for n in [0, keys / 2, keys - 1] {
            let mut entry = Vec::new();
            let place = layout::entry_key(keyspace.seed, keyspace.counters.places.of(0), &(round * 7 + n).to_be_bytes());
            assert!(
                keyspace.turn.get(FamilyKind::Keys, &place, &mut entry).unwrap() && entry.ends_with(&[round as u8; 40]),
                "{round}, {n}"
            );
        }
    }
}

/// Hot keys take what is written; what the log did not take must not be read from there.
#[test]
fn what_is_not_committed_is_not_found() {
    for length in [1, 1000] {
        let memory = Arc::new(MemoryStore::new());
        let faulty = Arc::new(FaultStore::new(memory.clone()));
        let mut keyspace = Keyspace::open(faulty.clone(), &small_settings(), 42).unwrap();
        for key in [b"a", b"b"] {
            keyspace.set_string(0, key, b"old", None).unwrap();
        }
        commit(&mut keyspace);
        assert_eq!(keyspace.memory().hot_entries, 2);
        faulty.inject(Fault::from(Calls::Only(Operation::Append), 0, EIO));
        keyspace.set_string(0, b"a", &vec![b'n'; length], None).unwrap();
        keyspace.set_string(0, b"c", b"new", None).unwrap();
        assert!(keyspace.remove(0, b"b").unwrap());
        keyspace.commit(&WriteOptions::default()).unwrap_err();
        let found = |keyspace: &mut Keyspace| [b"a", b"b", b"c"].map(|key| get(keyspace, key));
        let old = || Some(b"old".to_vec());
        assert_eq!(found(&mut keyspace), [old(), old(), None]);
        drop(keyspace);
        faulty.clear();
        assert_eq!(found(&mut open(&memory, 42)), [old(), old(), None]);
    }
}

#[test]
fn strings_are_set_read_and_removed() {
    let mut keyspace = fresh();
    assert_eq!(get(&mut keyspace, b"a"), None);
    keyspace.set_string(0, b"a", b"1", None).unwrap();
    keyspace.set_string(1, b"a", b"2", None).unwrap();
    assert_eq!((keyspace.size(0), keyspace.size(1)), (1, 1));
    commit(&mut keyspace);
    assert_eq!(get(&mut keyspace, b"a").as_deref(), Some(&b"1"[..]));
    assert!(keyspace.remove(0, b"a").unwrap());
    assert!(!keyspace.remove(0, b"a").unwrap());
    assert_eq!((get(&mut keyspace, b"a"), keyspace.size(0)), (None, 0));
    keyspace.discard();
    assert_eq!((get(&mut keyspace, b"a").as_deref(), keyspace.size(0)), (Some(&b"1"[..]), 1));
    assert!(matches!(keyspace.edit(0, b"a", Kind::Set), Err(Error::WrongType)));
    add_set(&mut keyspace, b"s", 1);
    assert!(matches!(keyspace.string(0, b"s"), Err(Error::WrongType)));
    assert!(matches!(keyspace.set_string(0, &vec![0; 1 << 20], b"", None), Err(Error::TooLong(_))));
}

#[test]
fn everything_is_there_again_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = open(&store, 1);
    keyspace.set_string(0, b"a", b"1", Some(5)).unwrap();
    add_set(&mut keyspace, b"s", 3);
    let first_id = keyspace.find_collection(0, b"s").unwrap().unwrap().id;
    keyspace.close().unwrap();
    // Another start has other randomness; the hashes stay.
    let mut keyspace = open(&store, 2);
    assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (2, 1));
    assert_eq!(get(&mut keyspace, b"a").as_deref(), Some(&b"1"[..]));
    let set = keyspace.find_collection(0, b"s").unwrap().unwrap();
    assert_eq!((set.count, set.id), (3, first_id));
    add_set(&mut keyspace, b"t", 1);
    assert!(keyspace.find_collection(0, b"t").unwrap().unwrap().id > first_id, "an id was used again");
    keyspace.close().unwrap();
}

#[test]
fn a_store_of_something_else_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let db = sinterdb::Db::builder().open_store(store.clone()).unwrap();
    db.put(b"key", b"value").unwrap();
    let before = db.settings().clone();
    db.close().unwrap();
    let files = |store: &MemoryStore| store.list().unwrap();
    let there = files(&store);
    assert!(matches!(Keyspace::open(store.clone(), &crate::testing::small_settings(), 1), Err(Error::Format(0, FORMAT))));
    assert!(matches!(Keyspace::open_to_read(store.clone()), Err(Error::Format(0, FORMAT))));
    assert_eq!(files(&store), there, "nothing was written");
    let db = sinterdb::Db::builder().open_store(store).unwrap();
    assert_eq!((db.settings(), db.families().len()), (&before, 1), "its settings are its own");
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn what_is_opened_to_be_read_stays_as_it_is() {
    let store = Arc::new(MemoryStore::new());
    assert!(Keyspace::open_to_read(store.clone()).is_err(), "there is nothing");
    let mut keyspace = open(&store, 42);
    keyspace.set_string(0, b"a", b"1", None).unwrap();
    add_set(&mut keyspace, b"s", 3);
    commit(&mut keyspace);
    keyspace.close().unwrap();
    let there = store.list().unwrap();
    let mut keyspace = Keyspace::open_to_read(store.clone()).unwrap();
    assert_eq!((get(&mut keyspace, b"a").as_deref(), keyspace.size(0)), (Some(&b"1"[..]), 2));
    let set = keyspace.find_collection(0, b"s").unwrap().unwrap();
    assert_eq!(keyspace.members(&set).unwrap().len(), 3);
    keyspace.set_string(0, b"b", b"1", None).unwrap();
    assert!(keyspace.commit(&WriteOptions::default()).is_err());
    drop(keyspace);
    assert_eq!(store.list().unwrap(), there);
}

#[test]
fn keys_end_at_their_time() {
    let mut keyspace = fresh();
    let now = keyspace.now();
    keyspace.set_string(0, b"a", b"1", Some(now + 10)).unwrap();
    keyspace.set_string(0, b"b", b"1", Some(now + 20)).unwrap();
    add_set(&mut keyspace, b"s", 2);
    assert!(keyspace.set_deadline(0, b"s", Some(now + 10)).unwrap());
    assert!(!keyspace.set_deadline(0, b"none", Some(now)).unwrap());
    commit(&mut keyspace);
    keyspace.set_now(now + 10);
    assert!(keyspace.exists(0, b"a").unwrap(), "it lasts up to its time");
    keyspace.set_now(now + 11);
    let mut seen = Vec::new();
    keyspace.scan(0, 0, 100, &mut |key, _| seen.push(key.to_vec())).unwrap();
    assert_eq!(seen, [b"b"], "scans show only what has not ended");
    assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (3, 3));
    assert!(!keyspace.exists(0, b"a").unwrap());
    assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (2, 2), "who finds it removes it");
    assert_eq!(keyspace.remove_expired(100).unwrap(), 1);
    assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (1, 1));
    assert!(keyspace.set_deadline(0, b"b", None).unwrap());
    keyspace.set_now(now + 1000);
    assert_eq!((keyspace.remove_expired(100).unwrap(), keyspace.deadlines(0)), (0, 0));
    assert_eq!(get(&mut keyspace, b"b").as_deref(), Some(&b"1"[..]));
}

/// A look at the deadlines may have to read what stands before them, however large it is. So there is none before one is due.
#[test]
fn deadlines_are_not_looked_at_before_the_first_one() {
    let mut keyspace = fresh();
    let now = keyspace.now();
    for (key, ends) in [(b"a", 100), (b"b", 300), (b"c", 200)] {
        keyspace.set_string(0, key, b"1", Some(now + ends)).unwrap();
    }
    commit(&mut keyspace);
    let looks = |keyspace: &mut Keyspace, from: u64, to: u64| {
        let before = keyspace.db().statistics().ticker(Ticker::NumIteratorCreated);
        let mut removed = Vec::new();
        for time in from..to {
            keyspace.set_now(now + time);
            if keyspace.remove_expired(10).unwrap() > 0 {
                removed.push(time);
            }
        }
        (removed, keyspace.db().statistics().ticker(Ticker::NumIteratorCreated) - before)
    };
    // The first look finds out which is the first one.
    assert_eq!(looks(&mut keyspace, 0, 100), (vec![], 2));
    assert_eq!(looks(&mut keyspace, 100, 200), (vec![101], 2));
    // A deadline whose removal was dropped has to be found again, and one before all others as well.
    keyspace.discard();
    assert_eq!(looks(&mut keyspace, 200, 250), (vec![200, 201], 4));
    keyspace.set_string(0, b"d", b"1", Some(now + 260)).unwrap();
    assert_eq!(looks(&mut keyspace, 250, 400), (vec![261, 301], 4));
    assert_eq!((keyspace.size(0), keyspace.deadlines(0)), (0, 0));
    assert_eq!(looks(&mut keyspace, 400, 500), (vec![], 0));
}

#[test]
fn renaming_and_copying_keep_elements_and_deadlines() {
    let mut keyspace = fresh();
    let later = Some(keyspace.now() + 5);
    add_set(&mut keyspace, b"s", 3000);
    keyspace.set_deadline(0, b"s", later).unwrap();
    keyspace.set_string(0, b"t", b"old", None).unwrap();
    commit(&mut keyspace);
    assert!(keyspace.rename((0, b"s"), (0, b"t")).unwrap());
    assert!(!keyspace.rename((0, b"s"), (0, b"t")).unwrap());
    assert!(keyspace.copy((0, b"t"), (3, b"u")).unwrap());
    let head = keyspace.find_collection(0, b"t").unwrap().unwrap();
    let mut copy = keyspace.find_collection(3, b"u").unwrap().unwrap();
    assert_eq!((head.count, head.deadline, keyspace.size(0), keyspace.size(3)), (3000, later, 1, 1));
    assert_ne!(head.id, copy.id);
    assert_eq!(keyspace.members(&head).unwrap(), keyspace.members(&copy).unwrap());
    copy.id = head.id;
    assert_eq!(*head, *copy);
    assert!(keyspace.remove(0, b"t").unwrap());
    let copy = keyspace.find_collection(3, b"u").unwrap().unwrap();
    assert_eq!(keyspace.members(&copy).unwrap().len(), 3000);
}

#[test]
fn elements_of_deleted_collections_go_with_the_next_compaction() {
    let mut keyspace = fresh();
    add_set(&mut keyspace, b"gone", 2000);
    add_set(&mut keyspace, b"stays", 10);
    commit(&mut keyspace);
    keyspace.remove(0, b"gone").unwrap();
    commit(&mut keyspace);
    let elements = keyspace.db().family("elements").unwrap();
    let compact = |keyspace: &Keyspace| {
        keyspace.db().flush().unwrap();
        keyspace.db().compact_range(&elements, None, None).unwrap();
    };
    compact(&keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 2011, "the deletion was not synced");
    keyspace.syncer().sync().unwrap();
    compact(&keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 11);
    let stays = keyspace.find_collection(0, b"stays").unwrap().unwrap();
    assert_eq!(keyspace.members(&stays).unwrap().len(), 10);
}

#[test]
fn the_filter_waits_for_a_sync_that_came_after_the_deletion() {
    let mut keyspace = fresh();
    // A filter is asked about what is in tables, so what it looks for has been found by reads before.
    let found = |keyspace: &mut Keyspace| {
        commit(keyspace);
        keyspace.db();
    };
    add_set(&mut keyspace, b"s", 1);
    found(&mut keyspace);
    let head = keyspace.find_collection(0, b"s").unwrap().unwrap();
    let element = layout::member_key(head.id, keyspace.seed, &0u32.to_le_bytes());
    let cleaner = keyspace.cleaner.clone();
    let fate = || cleaner.filter(6, &element, b"");
    assert_eq!(fate(), Decision::Keep);
    cleaner.sync_begins();
    keyspace.remove(0, b"s").unwrap();
    assert_eq!(fate(), Decision::Keep, "nothing is deleted before it is committed");
    found(&mut keyspace);
    cleaner.sync_ended();
    assert_eq!(fate(), Decision::Keep, "the sync began before the deletion");
    cleaner.hold(&[head.id]);
    cleaner.sync_begins();
    cleaner.sync_ended();
    cleaner.committed();
    assert_eq!(fate(), Decision::Keep, "the sync ended before the deletion was in the log");
    cleaner.sync_begins();
    assert_eq!(fate(), Decision::Keep);
    cleaner.sync_ended();
    assert_eq!(fate(), Decision::Remove);
    assert_eq!(cleaner.filter(6, &layout::exists_key(head.id), b""), Decision::Keep);
    assert_eq!(cleaner.filter(6, b"odd", b""), Decision::Keep);
}

#[test]
fn who_reads_behind_a_large_commit_knows_how_long_that_took() {
    let mut keyspace = fresh();
    keyspace.set_string(0, b"large", &[b'x'; 1 << 20], None).unwrap();
    commit(&mut keyspace);
    let before = keyspace.waited();
    assert!(!keyspace.exists(0, b"missing").unwrap());
    let has_thread = std::thread::available_parallelism().unwrap().get() > 1;
    assert_eq!(keyspace.waited() > before, has_thread);
    let waited = keyspace.waited();
    assert!(!keyspace.exists(0, b"another").unwrap());
    assert_eq!(keyspace.waited(), waited, "it is there by now");
}

#[test]
fn clearing_takes_one_database_or_all() {
    let mut keyspace = fresh();
    let later = Some(keyspace.now() + 5);
    for db in [0, 1] {
        keyspace.set_string(db, b"a", b"1", later).unwrap();
        let mut edit = keyspace.edit(db, b"l", Kind::List).unwrap();
        keyspace.push(&mut edit, super::Side::Left, b"x").unwrap();
        keyspace.finish(&edit);
    }
    commit(&mut keyspace);
    keyspace.set_string(0, b"fresh", b"1", None).unwrap();
    keyspace.clear(0).unwrap();
    assert_eq!((keyspace.size(0), keyspace.size(1)), (0, 2));
    assert!(!keyspace.exists(0, b"a").unwrap() && !keyspace.exists(0, b"fresh").unwrap());
    keyspace.set_string(0, b"again", b"1", None).unwrap();
    commit(&mut keyspace);
    assert_eq!((get(&mut keyspace, b"again").is_some(), keyspace.size(0)), (true, 1));
    let list = keyspace.find_collection(1, b"l").unwrap().unwrap();
    assert_eq!(keyspace.item(&list, 0).unwrap().as_deref(), Some(&b"x"[..]));
    keyspace.clear_all().unwrap();
    assert_eq!((keyspace.size(0), keyspace.size(1), stored(&keyspace, FamilyKind::Elements)), (0, 0, 0));
    let bytes = keyspace.uncommitted();
    keyspace.clear_all().unwrap();
    assert_eq!((bytes > 0, keyspace.uncommitted()), (true, bytes), "what is removed twice is kept once");
    commit(&mut keyspace);
    assert_eq!((stored(&keyspace, FamilyKind::Elements), stored(&keyspace, FamilyKind::Keys)), (0, 4), "the four settings are left");
    assert_eq!(keyspace.remove_expired(10).unwrap(), 0);
}

#[test]
fn scans_show_what_stays_once_whatever_else_happens() {
    let mut keyspace = fresh();
    for n in 0..500u32 {
        keyspace.set_string(0, &n.to_be_bytes(), b"", None).unwrap();
        if n % 3 == 0 {
            commit(&mut keyspace);
        }
    }
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let (mut cursor, mut round) = (0, 0u32);
    loop {
        cursor = keyspace.scan(0, cursor, 10, &mut |key, _| *seen.entry(key.to_vec()).or_default() += 1).unwrap();
        if cursor == 0 {
            break;
        }
        assert!(cursor < 1 << 53, "{cursor} is no integer where numbers are doubles");
        // Odd keys come and go, even ones stay.
        round += 1;
        keyspace.remove(0, &(round % 250 * 2 + 1).to_be_bytes()).unwrap();
        keyspace.set_string(0, &(10_000 + round * 2 + 1).to_be_bytes(), b"", None).unwrap();
    }
    for n in (0..500u32).step_by(2) {
        assert_eq!(seen.get(&n.to_be_bytes()[..]), Some(&1), "key {n}");
    }
    assert!(seen.values().all(|times| *times == 1));
    assert_eq!(keyspace.scan(0, u64::MAX, 10, &mut |_, _| ()).unwrap(), 0);
}

#[test]
fn scans_end_among_what_was_removed_and_go_on_from_there() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, b"set", Kind::Set).unwrap();
    for n in 0..1000u32 {
        keyspace.set_string(0, &n.to_be_bytes(), b"", None).unwrap();
        keyspace.add_member(&mut edit, &n.to_be_bytes()).unwrap();
    }
    keyspace.finish(&edit);
    commit(&mut keyspace);
    let mut edit = keyspace.edit(0, b"set", Kind::Set).unwrap();
    for n in 0..1000u32 {
        if n % 300 != 7 {
            keyspace.remove(0, &n.to_be_bytes()).unwrap();
            keyspace.remove_member(&mut edit, &n.to_be_bytes()).unwrap();
        }
    }
    keyspace.finish(&edit);
    let head = edit.head;
    commit(&mut keyspace);
    for of_keys in [true, false] {
        let (mut calls, mut cursor, mut seen) = (0, 0, Vec::new());
        loop {
            cursor = match of_keys {
                true => keyspace.scan(0, cursor, 1, &mut |key, _| seen.push(key.to_vec())).unwrap(),
                false => keyspace.scan_members(&head, cursor, 1, &mut |member, _| seen.push(member.to_vec())).unwrap(),
            };
            calls += 1;
            if cursor == 0 {
                break;
            }
            // Writes before the place at which the last walk stopped must not be lost, nor be shown again.
            keyspace.set_string(0, b"set", b"", None).unwrap();
            keyspace.discard();
        }
        assert!(calls > 30, "{calls} calls for what takes many");
        seen.sort();
        seen.retain(|name| name != b"set");
        assert_eq!(seen, [7u32, 307, 607, 907].map(|n| n.to_be_bytes().to_vec()));
    }
    for _ in 0..20 {
        assert!(keyspace.random_key(0).unwrap().is_some(), "there are keys, however few");
    }
}

#[test]
fn random_keys_come_from_everywhere() {
    let mut keyspace = fresh();
    assert_eq!(keyspace.random_key(0).unwrap(), None);
    for n in 0..10u8 {
        keyspace.set_string(0, &[n], b"", None).unwrap();
    }
    let mut times = [0; 10];
    for _ in 0..1000 {
        times[usize::from(keyspace.random_key(0).unwrap().unwrap()[0])] += 1;
    }
    assert!(times.iter().all(|times| *times > 20), "{times:?}");
    let now = keyspace.now();
    keyspace.clear_all().unwrap();
    keyspace.set_string(0, b"a", b"", Some(now)).unwrap();
    keyspace.set_now(now + 1);
    assert_eq!(keyspace.random_key(0).unwrap(), None);
}

#[test]
fn watchers_are_told_of_changes() {
    let mut keyspace = fresh();
    let now = keyspace.now();
    keyspace.set_string(0, b"a", b"1", None).unwrap();
    keyspace.set_string(0, b"b", b"1", Some(now + 5)).unwrap();
    keyspace.watch(7, 0, b"a").unwrap();
    keyspace.watch(8, 0, b"b").unwrap();
    keyspace.watch(9, 1, b"a").unwrap();
    keyspace.watch(10, 0, b"none").unwrap();
    assert!(!keyspace.is_disturbed(7).unwrap());
    keyspace.set_deadline(0, b"a", Some(now + 100)).unwrap();
    assert!(keyspace.is_disturbed(7).unwrap());
    keyspace.unwatch(7);
    assert!(!keyspace.is_disturbed(7).unwrap());
    keyspace.set_now(now + 6);
    assert!(keyspace.is_disturbed(8).unwrap(), "its time has come");
    keyspace.clear_all().unwrap();
    assert!(!keyspace.is_disturbed(9).unwrap() && !keyspace.is_disturbed(10).unwrap(), "what is not there is not cleared");
    keyspace.set_string(0, b"none", b"", None).unwrap();
    assert!(keyspace.is_disturbed(10).unwrap());
}
