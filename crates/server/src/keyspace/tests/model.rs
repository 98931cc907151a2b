//! Random commands on many keys against a map, with commits, dropped turns, restarts and crashes in between.

use super::super::{Keyspace, Kind, Side};
use super::{commit, few};
use crate::testing::{Random, open};
use sinter_storage::store::{CrashMode, MemoryStore};
use sinterdb::{Durability, WriteOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
}

type Model = BTreeMap<(usize, Vec<u8>), (Value, Option<u64>)>;

fn read(keyspace: &mut Keyspace, db: usize, key: &[u8]) -> Option<(Value, Option<u64>)> {
    let head = keyspace.find_collection(db, key).unwrap()?;
    let value = match head.kind {
        Kind::String => Value::String(keyspace.string(db, key).unwrap().unwrap().to_vec()),
        Kind::List => {
            let mut items = Vec::new();
            keyspace
                .walk_items(&head, (0, u64::MAX), false, &mut |item| {
                    items.push(item.to_vec());
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!(items.len() as u64, head.count);
            Value::List(items)
        }
        _ => {
            let mut members: Vec<Vec<u8>> = keyspace.members(&head).unwrap().into_iter().map(|member| member.0).collect();
            assert_eq!(members.len() as u64, head.count);
            members.sort();
            Value::Set(members)
        }
    };
    Some((value, head.deadline))
}

/// Adds to the collection at a key, unless it holds something else.
fn add(keyspace: &mut Keyspace, model: &mut Model, place: (usize, Vec<u8>), kind: Kind, item: Vec<u8>) {
    let (db, key) = (place.0, place.1.clone());
    let found =
        model.entry(place).or_insert_with(|| (if kind == Kind::List { Value::List(Vec::new()) } else { Value::Set(Vec::new()) }, None));
    match (&mut found.0, keyspace.edit(db, &key, kind)) {
        (Value::List(items), Ok(mut edit)) if kind == Kind::List => {
            keyspace.push(&mut edit, Side::Left, &item).unwrap();
            keyspace.finish(&edit);
            items.insert(0, item);
        }
        (Value::Set(members), Ok(mut edit)) if kind == Kind::Set => {
            let is_new = keyspace.add_member(&mut edit, &item).unwrap();
            keyspace.finish(&edit);
            assert_eq!(is_new, !members.contains(&item));
            if is_new {
                members.push(item);
                members.sort();
            }
        }
        (value, result) => assert!(result.is_err(), "{value:?} passed for {kind:?}"),
    }
}

fn step(keyspace: &mut Keyspace, model: &mut Model, random: &mut Random) {
    let key = |random: &mut Random| (random.below(2), random.bytes(2, b"\0ab\xff"));
    let (place, other) = (key(random), key(random));
    let now = keyspace.now();
    let deadline = (random.below(4) == 0).then(|| now + random.below(40) as u64);
    match random.below(24) {
        0..6 => {
            let value = random.bytes(200, b"xyz");
            keyspace.set_string(place.0, &place.1, &value, deadline).unwrap();
            model.insert(place, (Value::String(value), deadline));
        }
        6..11 => add(keyspace, model, place, Kind::Set, random.bytes(2, b"xyz")),
        11..16 => add(keyspace, model, place, Kind::List, random.bytes(60, b"xyz")),
        16 | 17 => assert_eq!(keyspace.remove(place.0, &place.1).unwrap(), model.remove(&place).is_some()),
        18 => {
            let found = keyspace.set_deadline(place.0, &place.1, deadline).unwrap();
            assert_eq!(found, model.contains_key(&place));
            if let Some(entry) = model.get_mut(&place) {
                entry.1 = deadline;
            }
        }
        19 => {
            let found = keyspace.rename((place.0, &place.1), (other.0, &other.1)).unwrap();
            let held = model.remove(&place);
            assert_eq!(found, held.is_some());
            model.extend(held.map(|held| (other, held)));
        }
        20 => {
            let held = model.get(&place).cloned().filter(|_| place != other);
            if held.is_some() {
                assert!(keyspace.copy((place.0, &place.1), (other.0, &other.1)).unwrap());
            }
            model.extend(held.map(|held| (other, held)));
        }
        21 => {
            keyspace.set_now(now + random.below(10) as u64);
            let now = keyspace.now();
            model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
            while keyspace.remove_expired(3).unwrap() > 0 {}
        }
        22 if random.below(6) == 0 => {
            keyspace.clear(place.0).unwrap();
            model.retain(|(db, _), _| *db != place.0);
        }
        _ => {}
    }
}

fn check(keyspace: &mut Keyspace, model: &Model, what: &str) {
    for ((db, key), value) in model {
        assert_eq!(read(keyspace, *db, key).as_ref(), Some(value), "{what}: {db} {key:?}");
    }
    for db in 0..2 {
        let here = || model.iter().filter(|((other, _), _)| *other == db);
        assert_eq!(keyspace.size(db), here().count() as u64, "{what}: size of {db}");
        assert_eq!(keyspace.deadlines(db), here().filter(|(_, held)| held.1.is_some()).count() as u64, "{what}: deadlines of {db}");
        let mut keys = Vec::new();
        assert_eq!(keyspace.scan(db, 0, usize::MAX, &mut |key, _| keys.push(key.to_vec())).unwrap(), 0);
        keys.sort();
        assert_eq!(keys, here().map(|((_, key), _)| key.clone()).collect::<Vec<_>>(), "{what}: keys of {db}");
    }
}

#[test]
fn random_commands_do_what_a_map_does() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        keyspace.set_now(1000);
        keyspace.set_thresholds(few(seed % 4 * 2));
        let (mut model, mut committed) = (Model::new(), Model::new());
        for round in 0..250 {
            let what = format!("seed {seed}, round {round}");
            for _ in 0..random.below(10) {
                step(&mut keyspace, &mut model, &mut random);
            }
            match random.below(8) {
                0 => {
                    keyspace.discard();
                    model = committed.clone();
                    let now = keyspace.now();
                    model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
                    while keyspace.remove_expired(3).unwrap() > 0 {}
                }
                1 if random.below(4) == 0 => {
                    let now = keyspace.now();
                    keyspace.close().unwrap();
                    keyspace = open(&store, seed + 1);
                    keyspace.set_now(now);
                    // Inline collections may be too large for that by now, and others small enough.
                    keyspace.set_thresholds(few(random.below(8) as u64));
                }
                2..5 => commit(&mut keyspace),
                _ => {}
            }
            if keyspace.is_committed() {
                committed = model.clone();
            }
            check(&mut keyspace, &model, &what);
        }
    }
}

/// After a power cut, the state is that after some commit, not before the last one that was synced, and whole: sizes fit, and nothing that
/// was deleted later has lost its elements.
#[test]
fn a_crash_leaves_the_state_after_some_commit() {
    for seed in 0..12 {
        let mut random = Random(seed + 100);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        keyspace.set_now(1000);
        let mut model = Model::new();
        let mut states = vec![model.clone()];
        let mut synced = None;
        for _ in 0..120 {
            for _ in 0..random.below(8) {
                step(&mut keyspace, &mut model, &mut random);
            }
            // Time stands still: what a state holds must not depend on when it is looked at.
            keyspace.set_now(1000);
            let durability = if random.below(12) == 0 { Durability::Sync } else { Durability::Buffered };
            keyspace.commit(&WriteOptions::new(durability)).unwrap();
            states.push(model.clone());
            if durability == Durability::Sync {
                synced = Some(states.len() - 1);
            }
            if random.below(20) == 0 {
                keyspace.syncer().sync().unwrap();
                synced = Some(states.len() - 1);
            }
        }
        let image = Arc::new(store.crash_with(CrashMode::DropUnsynced));
        drop(keyspace);
        let mut after = open(&image, seed);
        after.set_now(1000);
        let found: Model = (0..2)
            .flat_map(|db| {
                let mut keys = Vec::new();
                after.scan(db, 0, usize::MAX, &mut |key, _| keys.push((db, key.to_vec()))).unwrap();
                keys
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(db, key)| ((db, key.clone()), read(&mut after, db, &key).unwrap()))
            .collect();
        let state = states.iter().rposition(|state| *state == found);
        assert!(state >= synced, "seed {seed}: state {state:?}, synced {synced:?}");
        check(&mut after, &found, &format!("seed {seed} after a crash"));
    }
}
