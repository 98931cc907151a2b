//! Deadlines of the fields of hashes against a map, with a clock that moves, and how due fields go.

use super::super::entry::{FieldDeadlines, Form};
use super::super::layout::{self, Direction, FamilyKind};
use super::super::{Change, FIELD_DEADLINE_MAX, Keyspace, Kind, Trace};
use super::{commit, few, stored};
use crate::testing::{Random, fresh, open};
use sinter_storage::store::{CrashMode, MemoryStore};
use sinterdb::{Durability, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Default)]
struct Hash {
    fields: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    deadline: Option<u64>,
}

impl Hash {
    fn next_deadline(&self) -> Option<u64> {
        self.fields.values().filter_map(|field| field.1).chain(self.deadline).min()
    }

    fn has_field_deadlines(&self) -> bool {
        self.fields.values().any(|field| field.1.is_some())
    }
}

type DatabaseKey = (usize, Vec<u8>);
type Model = BTreeMap<DatabaseKey, Hash>;

/// Removes what is due.
fn expire(model: &mut Model, now: u64) {
    for hash in model.values_mut() {
        hash.fields.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
    }
    model.retain(|_, hash| !hash.fields.is_empty() && hash.deadline.is_none_or(|deadline| deadline >= now));
}

/// Entries of the engine within bounds.
fn within(keyspace: &Keyspace, family: FamilyKind, bounds: &layout::Bounds) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    keyspace.turn.walk(family, bounds, Direction::Forward, &mut visit).unwrap();
    count
}

/// The hash at a key; everything that is known of it agrees.
fn read(keyspace: &mut Keyspace, (db, key): (usize, &[u8])) -> Option<Hash> {
    let found = keyspace.find_collection(db, key).unwrap()?;
    let (mut hash, mut order) = (Hash { deadline: found.deadline, ..Hash::default() }, Vec::new());
    keyspace
        .walk_fields(&found, &mut |field, value, deadline| {
            order.push(deadline);
            hash.fields.insert(field.to_vec(), (value.to_vec(), Some(deadline).filter(|deadline| *deadline > 0)));
            ControlFlow::Continue(())
        })
        .unwrap();
    let deadlines: Vec<u64> = hash.fields.values().filter_map(|field| field.1).collect();
    let fields = FieldDeadlines { count: deadlines.len() as u64, first: deadlines.iter().min().copied().unwrap_or(0) };
    assert_eq!((found.count, found.fields), (hash.fields.len() as u64, fields));
    if found.form == Form::Elements {
        assert_eq!(within(keyspace, FamilyKind::Elements, &layout::elements(found.id)), hash.fields.len() + 2 * deadlines.len());
    } else {
        assert!(order.is_sorted_by_key(|deadline| deadline.wrapping_sub(1)), "{order:?}");
    }
    for (field, (value, deadline)) in &hash.fields {
        assert_eq!(keyspace.member(&found, field).unwrap().as_ref(), Some(value));
        assert_eq!(keyspace.field_deadline(&found, field).unwrap(), Some(*deadline));
    }
    assert_eq!(keyspace.field_deadline(&found, b"no such field").unwrap(), None);
    Some(hash)
}

fn names() -> impl Iterator<Item = DatabaseKey> {
    (0..2).flat_map(|db| [&b"a"[..], b"b", b"c\xff"].map(|key| (db, key.to_vec())))
}

/// Changes some fields of a hash in one edit.
fn edit(keyspace: &mut Keyspace, model: &mut Model, place: DatabaseKey, random: &mut Random) {
    let now = keyspace.now();
    let mut edit = keyspace.edit(place.0, &place.1, Kind::Hash).unwrap();
    let hash = model.entry(place.clone()).or_default();
    for _ in 0..=random.below(4) {
        let field = random.bytes(2, b"\0xyz");
        let most = if random.below(9) == 0 { 90 } else { 9 };
        let (old, value) = (hash.fields.get(&field).cloned(), random.bytes(most, b"uvw"));
        let deadline = (random.below(4) > 0).then(|| now + random.below(60) as u64);
        match random.below(9) {
            0..3 => {
                assert_eq!(keyspace.set_field(&mut edit, &field, &value).unwrap(), old.is_none());
                hash.fields.insert(field, (value, None));
            }
            3 => {
                assert_eq!(keyspace.change_field(&mut edit, &field, &value).unwrap(), old.is_none());
                hash.fields.insert(field, (value, old.and_then(|old| old.1)));
            }
            4..8 if old.is_some() => {
                keyspace.set_field_deadline(&mut edit, &field, deadline).unwrap();
                hash.fields.entry(field).and_modify(|held| held.1 = deadline);
            }
            _ => {
                assert_eq!(keyspace.remove_member(&mut edit, &field).unwrap(), old.is_some());
                hash.fields.remove(&field);
            }
        }
    }
    keyspace.finish(&edit);
    model.retain(|_, hash| !hash.fields.is_empty());
}

fn step(keyspace: &mut Keyspace, model: &mut Model, random: &mut Random) {
    let mut any = || names().nth(random.below(6)).unwrap();
    let (place, other) = (any(), any());
    let now = keyspace.now();
    match random.below(20) {
        0..12 => edit(keyspace, model, place, random),
        12 => assert_eq!(keyspace.remove(place.0, &place.1).unwrap(), model.remove(&place).is_some()),
        13 => {
            let deadline = (random.below(2) == 0).then(|| now + random.below(90) as u64);
            assert_eq!(keyspace.set_deadline(place.0, &place.1, deadline).unwrap(), model.contains_key(&place));
            model.entry(place).and_modify(|hash| hash.deadline = deadline);
            model.retain(|_, hash| !hash.fields.is_empty());
        }
        14 => {
            let held = model.remove(&place);
            assert_eq!(keyspace.rename((place.0, &place.1), (other.0, &other.1)).unwrap(), held.is_some());
            model.extend(held.map(|held| (other, held)));
        }
        15 => {
            let held = model.get(&place).cloned().filter(|_| place != other);
            if held.is_some() {
                assert!(keyspace.copy((place.0, &place.1), (other.0, &other.1)).unwrap());
            }
            model.extend(held.map(|held| (other, held)));
        }
        16 if random.below(8) == 0 => {
            keyspace.clear(place.0).unwrap();
            model.retain(|(db, _), _| *db != place.0);
        }
        17 => {
            keyspace.swap(0, 1).unwrap();
            *model = std::mem::take(model).into_iter().map(|((db, key), hash)| ((1 - db, key), hash)).collect();
        }
        _ => {
            keyspace.set_now(now + random.below(12) as u64);
            expire(model, keyspace.now());
        }
    }
}

fn check(keyspace: &mut Keyspace, model: &Model, what: &str) {
    for place in names() {
        assert_eq!(read(keyspace, (place.0, &place.1)).as_ref(), model.get(&place), "{what}: {place:?}");
    }
    for db in 0..2 {
        let here = || model.iter().filter(move |((other, _), _)| *other == db).map(|(_, hash)| hash);
        let counts = (keyspace.size(db), keyspace.deadlines(db), keyspace.expiring(db));
        let deadlines = here().filter(|hash| hash.deadline.is_some()).count() as u64;
        assert_eq!(counts, (here().count() as u64, deadlines, here().filter(|hash| hash.has_field_deadlines()).count() as u64), "{what}");
    }
    let expected: BTreeSet<(u64, DatabaseKey)> =
        model.iter().filter_map(|(place, hash)| hash.next_deadline().map(|deadline| (deadline, place.clone()))).collect();
    let mut found = BTreeSet::new();
    keyspace
        .turn
        .walk(FamilyKind::Keys, &keyspace.generation().deadlines(), Direction::Forward, &mut |entry, _| {
            let (deadline, place, key) = layout::split_expiry_key(entry).unwrap();
            found.insert((deadline, (keyspace.counters.places.database(place), key.to_vec())));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, expected, "{what}");
}

/// Nothing is due after this, whoever has looked.
fn remove_expired(keyspace: &mut Keyspace, most: usize) {
    while keyspace.remove_expired(most).unwrap() >= most {}
    let due = keyspace.generation().deadlines_within(0, keyspace.now().saturating_sub(1));
    assert_eq!(within(keyspace, FamilyKind::Keys, &due), 0);
}

#[test]
fn random_deadlines_do_what_a_map_does() {
    for seed in 0..12 {
        let mut random = Random(seed + 900);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        keyspace.set_now(1000);
        keyspace.set_thresholds(few(seed % 4 * 3));
        let (mut model, mut committed) = (Model::new(), Model::new());
        for round in 0..250 {
            let what = format!("seed {seed}, round {round}");
            for _ in 0..random.below(8) {
                step(&mut keyspace, &mut model, &mut random);
            }
            match random.below(10) {
                0 => {
                    keyspace.discard();
                    model = committed.clone();
                    expire(&mut model, keyspace.now());
                }
                1 if random.below(4) == 0 => {
                    let now = keyspace.now();
                    keyspace.close().unwrap();
                    keyspace = open(&store, seed + 1);
                    keyspace.set_now(now);
                    keyspace.set_thresholds(few(random.below(12) as u64));
                }
                2..5 => commit(&mut keyspace),
                5..7 => remove_expired(&mut keyspace, 1 + random.below(3)),
                _ => {}
            }
            if keyspace.is_committed() {
                committed = model.clone();
            }
            if random.below(3) > 0 {
                check(&mut keyspace, &model, &what);
            }
        }
    }
}

/// After a power cut the fields and their deadlines are those after some commit, not before the last one that was synced.
#[test]
fn a_crash_leaves_the_deadlines_after_some_commit() {
    for seed in 0..8 {
        let mut random = Random(seed + 300);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        keyspace.set_now(1000);
        keyspace.set_thresholds(few(seed % 3 * 4));
        let mut model = Model::new();
        let (mut states, mut synced) = (vec![model.clone()], None);
        for _ in 0..80 {
            (0..random.below(8)).for_each(|_| step(&mut keyspace, &mut model, &mut random));
            let durability = if random.below(12) == 0 { Durability::Sync } else { Durability::Buffered };
            keyspace.commit(&WriteOptions::new(durability)).unwrap();
            states.push(model.clone());
            if durability == Durability::Sync {
                synced = Some(states.len() - 1);
            }
        }
        let (image, now) = (Arc::new(store.crash_with(CrashMode::DropUnsynced)), keyspace.now());
        drop(keyspace);
        let mut after = open(&image, seed);
        after.set_now(now);
        let found: Model = names().filter_map(|place| read(&mut after, (place.0, &place.1)).map(|hash| (place, hash))).collect();
        states.iter_mut().for_each(|state| expire(state, now));
        let state = states.iter().rposition(|state| *state == found);
        assert!(state >= synced, "seed {seed}: state {state:?}, synced {synced:?}");
        check(&mut after, &found, &format!("seed {seed} after a crash"));
    }
}

/// A hash of fields `0`, `1` and so on, of which the first ones have deadlines 1,000,001 and on.
fn hash_of(keyspace: &mut Keyspace, fields: u64, with_deadline: u64) {
    let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
    for n in 0..fields {
        keyspace.set_field(&mut edit, n.to_string().as_bytes(), b"value").unwrap();
        if n < with_deadline {
            keyspace.set_field_deadline(&mut edit, n.to_string().as_bytes(), Some(1_000_001 + n)).unwrap();
        }
    }
    keyspace.finish(&edit);
    commit(keyspace);
}

fn size(keyspace: &mut Keyspace) -> Option<u64> {
    keyspace.find_collection(0, b"h").unwrap().map(|head| head.count)
}

#[test]
fn due_fields_are_removed_in_steps() {
    for inline in [0, 500] {
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(inline));
        hash_of(&mut keyspace, 100, 40);
        assert_eq!(keyspace.remove_expired(10).unwrap(), 0);
        keyspace.set_now(1_000_031);
        keyspace.trace(true);
        let dealt: Vec<usize> = (0..5).map(|_| keyspace.remove_expired(8).unwrap()).collect();
        assert_eq!(dealt, [8, 8, 8, 6, 0]);
        let named: Vec<usize> =
            keyspace.take_traces().iter().map(|trace| if let Trace::Fields(_, _, names) = trace { names.len() } else { 0 }).collect();
        assert_eq!((named, keyspace.expired().fields), (vec![8, 8, 8, 6], 30));
        assert_eq!((size(&mut keyspace), keyspace.expiring(0)), (Some(70), 1));
        // Whoever finds the hash removes the rest at once.
        keyspace.set_now(1_000_100);
        keyspace.note_changes(true);
        assert_eq!((size(&mut keyspace), keyspace.expiring(0), keyspace.deadlines(0)), (Some(60), 0, 0));
        assert_eq!(keyspace.take_changes(), [(0, b"h".to_vec(), Change::FieldsExpired)]);
        assert_eq!(keyspace.remove_expired(10).unwrap(), 0);
        commit(&mut keyspace);
        assert_eq!(size(&mut keyspace), Some(60));
    }
}

/// Of many deadlines in one millisecond, a walk passes those that were removed once, not each time.
#[test]
fn removed_deadlines_are_not_passed_again() {
    const MANY: u64 = 400;
    let is_found = |keyspace: &Keyspace, family, bounds| {
        let mut found = false;
        let visit = &mut |_: &[u8], _: &[u8]| {
            found = true;
            ControlFlow::Break(())
        };
        keyspace.turn.walk_some(family, &bounds, Direction::Forward, 16, visit).unwrap();
        found
    };
    let mut keyspace = fresh();
    keyspace.set_thresholds(few(0));
    hash_of(&mut keyspace, MANY, 0);
    let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
    for n in 1..MANY {
        keyspace.set_field_deadline(&mut edit, n.to_string().as_bytes(), Some(1_000_001)).unwrap();
    }
    keyspace.finish(&edit);
    let id = edit.head.id;
    for n in 0..MANY {
        keyspace.set_string(0, format!("~{n}").as_bytes(), b"value", Some(1_000_001)).unwrap();
    }
    commit(&mut keyspace);
    keyspace.set_now(1_000_031);
    let (fields, keys) = (layout::dues(id, 0, 1_000_031), keyspace.generation().deadlines_within(0, 1_000_030));
    for _ in 0..MANY / 8 + 20 {
        assert_eq!(keyspace.remove_expired(8).unwrap(), 8);
        commit(&mut keyspace);
        let (hash, size) = (within(&keyspace, FamilyKind::Elements, &fields), within(&keyspace, FamilyKind::Keys, &keys));
        assert_eq!(is_found(&keyspace, FamilyKind::Elements, keyspace.due.cut_fields(id, fields.clone())), hash > 0, "{hash} fields");
        assert_eq!(is_found(&keyspace, FamilyKind::Keys, keyspace.due.cut_keys(keys.clone())), size > 0, "{size} keys");
    }
    assert_eq!((within(&keyspace, FamilyKind::Elements, &fields), within(&keyspace, FamilyKind::Keys, &keys)), (0, 239));
    // An earlier deadline is found all the same.
    keyspace.set_string(0, b"early", b"value", Some(1_000_001)).unwrap();
    while keyspace.remove_expired(50).unwrap() > 0 {}
    assert_eq!((keyspace.size(0), size(&mut keyspace), keyspace.deadlines(0)), (1, Some(1), 0));
}

/// A hash ends with its last field; if all of many fields are due, without a look at each.
#[test]
fn a_hash_ends_with_its_fields() {
    for inline in [0, 500] {
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(inline));
        hash_of(&mut keyspace, 100, 100);
        keyspace.watch(1, 0, b"h").unwrap();
        keyspace.set_now(1_000_100);
        keyspace.trace(true);
        assert_eq!(size(&mut keyspace), Some(1));
        keyspace.set_now(1_000_101);
        assert_eq!((keyspace.size(0), keyspace.expiring(0)), (1, 1), "not yet");
        keyspace.note_changes(true);
        assert_eq!((keyspace.remove_expired(1).unwrap(), keyspace.remove_expired(1).unwrap()), (1, 0));
        assert_eq!(keyspace.take_changes(), [(0, b"h".to_vec(), Change::Emptied), (0, b"h".to_vec(), Change::Missed)]);
        assert!(matches!(&keyspace.take_traces()[..], [Trace::Fields(0, _, names), Trace::Expired(0, _)] if names.len() == 99));
        assert_eq!((keyspace.size(0), keyspace.expiring(0), keyspace.expired().fields), (0, 0, 100));
        assert!(keyspace.is_disturbed(1).unwrap());
        commit(&mut keyspace);
        // A hash of which all fields are due ends as a whole.
        hash_of(&mut keyspace, 100, 100);
        let before = keyspace.uncommitted();
        keyspace.set_now(2_000_000);
        assert_eq!(size(&mut keyspace), None);
        assert!(keyspace.uncommitted() - before < 200, "{}", keyspace.uncommitted());
        commit(&mut keyspace);
        assert_eq!((keyspace.size(0), keyspace.remove_expired(9).unwrap()), (0, 0));
    }
}

#[test]
fn replaying_expires_nothing() {
    let mut keyspace = fresh();
    hash_of(&mut keyspace, 3, 2);
    keyspace.keep_ended(true);
    keyspace.set_now(2_000_000);
    assert_eq!((size(&mut keyspace), keyspace.is_over(5)), (Some(3), false));
    let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
    keyspace.set_field_deadline(&mut edit, b"2", Some(0)).unwrap();
    keyspace.set_field_deadline(&mut edit, b"1", Some(u64::MAX)).unwrap();
    keyspace.finish(&edit);
    let found = keyspace.find_collection(0, b"h").unwrap().unwrap();
    let deadlines = [&b"2"[..], b"1"].map(|field| keyspace.field_deadline(&found, field).unwrap().flatten());
    assert_eq!(deadlines, [Some(1), Some(FIELD_DEADLINE_MAX)]);
    keyspace.keep_ended(false);
    assert_eq!((size(&mut keyspace), keyspace.expiring(0)), (Some(1), 1));
}

/// Hashes without deadlines are stored as if there were none: also those that have lost theirs.
#[test]
fn what_has_no_deadlines_takes_no_bytes_for_them() {
    for (inline, form) in [(0, Form::Elements), (500, Form::Inline)] {
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(inline));
        let mut shown = |with_deadline: u64| {
            keyspace.remove(0, b"h").unwrap();
            hash_of(&mut keyspace, 20, with_deadline);
            let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
            for n in 0..with_deadline {
                keyspace.set_field_deadline(&mut edit, n.to_string().as_bytes(), None).unwrap();
            }
            keyspace.finish(&edit);
            commit(&mut keyspace);
            let (head, body) = keyspace.peek(0, b"h").unwrap().map(|(head, body)| (head, body.len())).unwrap();
            (
                head.form,
                head.fields,
                body,
                within(&keyspace, FamilyKind::Elements, &layout::elements(head.id)),
                stored(&keyspace, FamilyKind::Keys),
            )
        };
        let without = shown(0);
        assert_eq!((without.0, without.1), (form, FieldDeadlines::default()));
        assert_eq!(shown(7), without);
    }
}
