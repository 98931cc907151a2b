//! Streams and their groups against maps, with commits, dropped turns, copies and restarts in between.

use super::super::{Blocks, Edit, EntryId, FamilyKind, Head, Keep, Keyspace, Kind, Pending, encode_fields, fields};
use super::{commit, stored};
use crate::testing::{Random, fresh, open};
use sinter_storage::store::MemoryStore;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const KEY: &[u8] = b"stream";

#[derive(Debug, Clone, Default, PartialEq)]
struct ModelGroup {
    last: EntryId,
    consumers: BTreeSet<Vec<u8>>,
    /// Consumer, time, deliveries.
    pending: BTreeMap<EntryId, (Vec<u8>, u64, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    entries: BTreeMap<EntryId, Vec<u8>>,
    last: EntryId,
    max_deleted: EntryId,
    added: u64,
    groups: BTreeMap<Vec<u8>, ModelGroup>,
}

fn some_id(random: &mut Random) -> EntryId {
    match random.below(12) {
        0 => EntryId::MIN,
        1 => EntryId::MAX,
        _ => EntryId::new(random.below(60) as u64, random.below(3) as u64),
    }
}

/// One random change of the entries and of their model.
fn change_entries(keyspace: &mut Keyspace, edit: &mut Edit, model: &mut Model, random: &mut Random) {
    match random.below(12) {
        0..7 => {
            let next = EntryId::new(model.last.ms() + random.below(3) as u64, random.below(3) as u64);
            let (id, value) = (next.max(model.last.after().unwrap()), random.bytes(90, b"xyz"));
            keyspace.append(edit, id, encode_fields(&[b"field", &value]));
            model.entries.insert(id, value);
            model.last = id;
            model.added += 1;
        }
        7..9 => {
            let ids: Vec<EntryId> = (0..random.below(4)).map(|_| some_id(random)).collect();
            let there: BTreeSet<EntryId> = ids.iter().copied().filter(|id| model.entries.remove(id).is_some()).collect();
            assert_eq!(keyspace.remove_entries(edit, &ids).unwrap(), there.len() as u64);
            model.max_deleted = there.into_iter().fold(model.max_deleted, EntryId::max);
        }
        9 => {
            let keep = if random.below(2) == 0 { Keep::Newest(random.below(60) as u64) } else { Keep::From(some_id(random)) };
            let too_many = match keep {
                Keep::Newest(kept) => model.entries.len().saturating_sub(kept as usize),
                Keep::From(id) => model.entries.range(..id).count(),
            };
            let blocks = (random.below(2) == 0).then(|| Blocks { size: random.below(5) as u64, limit: 1 + random.below(30) as u64 });
            let removed = keyspace.trim_entries(edit, keep, blocks).unwrap();
            match blocks {
                None => assert_eq!(removed, too_many as u64),
                Some(blocks) => assert!(removed <= blocks.limit.min(too_many as u64), "{removed} of {too_many} by {blocks:?}"),
            }
            (0..removed).for_each(|_| drop(model.entries.pop_first()));
        }
        _ => {}
    }
}

/// One random change of a group and of its model.
fn change_group(keyspace: &mut Keyspace, head: &Head, model: &mut Model, random: &mut Random) {
    let name = random.bytes(1, b"\0g");
    let Some(mut edit) = keyspace.edit_group((0, KEY), head, &name).unwrap() else {
        assert!(!model.groups.contains_key(&name));
        if random.below(3) == 0 {
            let last = some_id(random);
            keyspace.create_group(head, &name, last, None).unwrap();
            model.groups.insert(name, ModelGroup { last, ..ModelGroup::default() });
        }
        return;
    };
    let group = model.groups.get_mut(&name).unwrap();
    let (consumer, id) = (random.bytes(1, b"ab"), some_id(random));
    match random.below(12) {
        0..6 => {
            let number = keyspace.see_consumer(&mut edit, &consumer).unwrap();
            group.consumers.insert(consumer.clone());
            for id in [id, some_id(random)] {
                let old = keyspace.pending(&edit.group, id).unwrap();
                assert_eq!(old.map(|old| old.deliveries), group.pending.get(&id).map(|old| old.2));
                let new = Pending { consumer: number, delivered: random.below(1000) as u64, deliveries: random.below(300) as u64 };
                keyspace.set_pending(&mut edit, id, old, new).unwrap();
                group.pending.insert(id, (consumer.clone(), new.delivered, new.deliveries));
            }
        }
        6..9 => {
            let old = keyspace.pending(&edit.group, id).unwrap();
            assert_eq!(old.is_some(), group.pending.remove(&id).is_some());
            if let Some(old) = old {
                keyspace.remove_pending(&mut edit, id, old).unwrap();
            }
        }
        9 => {
            let is_new = keyspace.create_consumer(&mut edit, &consumer).unwrap();
            assert_eq!(is_new, group.consumers.insert(consumer));
        }
        10 if random.below(3) == 0 => {
            let removed = keyspace.remove_consumer(&mut edit, &consumer).unwrap();
            let before = group.pending.len();
            group.pending.retain(|_, (owner, _, _)| *owner != consumer);
            let expected = group.consumers.remove(&consumer).then(|| (before - group.pending.len()) as u64);
            assert_eq!(removed, expected);
        }
        11 if random.below(6) == 0 => {
            keyspace.remove_group((0, KEY), &name, &edit.group).unwrap();
            model.groups.remove(&name);
            return;
        }
        _ => {
            edit.group.last = id;
            group.last = id;
        }
    }
    keyspace.finish_group(edit);
}

fn walk(keyspace: &Keyspace, head: &Head, range: (EntryId, EntryId), backward: bool) -> Vec<(EntryId, Vec<u8>)> {
    let mut all = Vec::new();
    keyspace
        .walk_entries(head, range, backward, &mut |id, entry| {
            all.push((id, fields(entry).unwrap()[1].to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn check_groups(keyspace: &Keyspace, head: &Head, model: &Model, what: &str) {
    let groups = keyspace.groups(head).unwrap();
    assert_eq!(groups.iter().map(|(name, _)| name).collect::<Vec<_>>(), model.groups.keys().collect::<Vec<_>>(), "{what}");
    for ((_, group), expected) in groups.iter().zip(model.groups.values()) {
        let counts = (group.last, group.pending, group.consumers);
        assert_eq!(counts, (expected.last, expected.pending.len() as u64, expected.consumers.len() as u64), "{what}");
        let consumers = keyspace.consumers(group).unwrap();
        assert!(consumers.iter().map(|(_, consumer)| &consumer.name).eq(&expected.consumers), "{what}");
        let everything = (EntryId::MIN, EntryId::MAX);
        let pending = |owner, range| {
            let mut all = BTreeMap::new();
            keyspace
                .walk_pending(group, owner, range, &mut |id, pending| {
                    let name = keyspace.consumer(group, pending.consumer).unwrap().name;
                    assert!(all.insert(id, (name, pending.delivered, pending.deliveries)).is_none());
                    ControlFlow::Continue(())
                })
                .unwrap();
            all
        };
        assert_eq!(pending(None, everything), expected.pending, "{what}");
        let middle = (EntryId::new(20, 1), EntryId::new(40, 1));
        assert!(pending(None, middle).into_iter().eq(expected.pending.clone().into_iter().filter(|p| middle.0 <= p.0 && p.0 <= middle.1)));
        for (number, consumer) in consumers {
            let mut owned = expected.pending.clone();
            owned.retain(|_, (owner, _, _)| *owner == consumer.name);
            assert_eq!(consumer.pending, owned.len() as u64, "{what}");
            assert_eq!(pending(Some(number), everything), owned, "{what}");
        }
        let edges = expected.pending.first_key_value().zip(expected.pending.last_key_value());
        assert_eq!(keyspace.pending_edges(group).unwrap(), edges.map(|(first, last)| (*first.0, *last.0)));
    }
}

fn check(keyspace: &mut Keyspace, model: &Model, random: &mut Random, what: &str) {
    keyspace.turn.check_dead(what);
    let head = keyspace.find(0, KEY).unwrap().unwrap();
    let first = model.entries.keys().next().copied().unwrap_or_default();
    let stream = head.stream;
    assert_eq!((head.count, stream.first, stream.last), (model.entries.len() as u64, first, model.last), "{what}");
    assert_eq!((stream.max_deleted, stream.added), (model.max_deleted, model.added), "{what}");
    assert_eq!(keyspace.last_entry(&head).unwrap(), model.entries.keys().next_back().copied(), "{what}");
    let range = (some_id(random), some_id(random));
    let mut expected: Vec<_> = model.entries.clone().into_iter().filter(|entry| range.0 <= entry.0 && entry.0 <= range.1).collect();
    assert_eq!(walk(keyspace, &head, range, false), expected, "{what}: {range:?}");
    expected.reverse();
    assert_eq!(walk(keyspace, &head, range, true), expected, "{what}: {range:?}");
    check_groups(keyspace, &head, model, what);
    // Nothing is left of what was removed.
    let of_group = |group: &ModelGroup| 1 + 2 * (group.consumers.len() + group.pending.len());
    let elements = 1 + model.entries.len() + model.groups.values().map(of_group).sum::<usize>();
    assert_eq!(stored(keyspace, FamilyKind::Elements), elements, "{what}");
}

#[test]
fn streams_do_what_maps_do() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        let (mut model, mut committed) = (Model::default(), None);
        for round in 0..200 {
            let mut edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
            for _ in 0..random.below(12) {
                change_entries(&mut keyspace, &mut edit, &mut model, &mut random);
            }
            keyspace.finish(&edit);
            for _ in 0..random.below(8) {
                change_group(&mut keyspace, &edit.head, &mut model, &mut random);
            }
            check(&mut keyspace, &model, &mut random, &format!("seed {seed}, round {round}"));
            match random.below(12) {
                0..6 => {
                    commit(&mut keyspace);
                    committed = Some(model.clone());
                }
                6 => {
                    keyspace.discard();
                    model = committed.clone().unwrap_or_default();
                }
                7 => {
                    keyspace.close().unwrap();
                    keyspace = open(&store, seed + 1);
                    committed = Some(model.clone());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn long_streams_are_trimmed_by_ranges() {
    let id = |n: u64| EntryId::new(n / 3, n % 3);
    for (keep, kept) in [
        (Keep::Newest(2900), 2900),
        (Keep::Newest(100), 100),
        (Keep::Newest(0), 0),
        (Keep::From(id(1000)), 2000),
        (Keep::From(id(2990)), 10),
        (Keep::From(EntryId::MAX), 0),
        (Keep::From(EntryId::MIN), 3000),
    ] {
        for committed in [true, false] {
            let mut keyspace = fresh();
            let mut edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
            (0..3000).for_each(|n| keyspace.append(&mut edit, id(n), encode_fields(&[b"n", n.to_string().as_bytes()])));
            if committed {
                keyspace.finish(&edit);
                commit(&mut keyspace);
                edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
            }
            assert_eq!(keyspace.trim_entries(&mut edit, keep, None).unwrap(), 3000 - kept);
            keyspace.finish(&edit);
            let head = keyspace.find(0, KEY).unwrap().unwrap();
            let first = if kept == 0 { EntryId::MIN } else { id(3000 - kept) };
            assert_eq!((head.count, head.stream.first, head.stream.last, head.stream.added), (kept, first, id(2999), 3000));
            let found: Vec<EntryId> =
                walk(&keyspace, &head, (EntryId::MIN, EntryId::MAX), false).into_iter().map(|entry| entry.0).collect();
            assert_eq!(found, (3000 - kept..3000).map(id).collect::<Vec<_>>(), "{keep:?}");
            assert_eq!(keyspace.remove_entries(&mut edit, &[first]).unwrap(), u64::from(kept > 0));
        }
    }
}

/// Blocks are counted from the first entry that was ever added, so that many small trims take as much as a large one.
#[test]
fn rough_trims_take_whole_blocks() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
    let mut next = 0;
    let mut add = |keyspace: &mut Keyspace, edit: &mut Edit, count: u64| {
        for _ in 0..count {
            next += 1;
            keyspace.append(edit, EntryId::new(next, 0), Vec::new());
        }
    };
    let blocks = |limit| Some(Blocks { size: 100, limit });
    add(&mut keyspace, &mut edit, 1000);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(555), None).unwrap(), 445);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(444), blocks(10_000)).unwrap(), 55);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(401), blocks(10_000)).unwrap(), 0);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(0), blocks(250)).unwrap(), 200);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::From(EntryId::new(801, 0)), blocks(10_000)).unwrap(), 100);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::From(EntryId::new(900, 0)), blocks(10_000)).unwrap(), 0);
    // The last block is one even if it is not full.
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(0), blocks(10_000)).unwrap(), 200);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(0), blocks(10_000)).unwrap(), 0);
    add(&mut keyspace, &mut edit, 30);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::Newest(10), Some(Blocks { size: 0, limit: 10_000 })).unwrap(), 0);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::From(EntryId::MAX), blocks(29)).unwrap(), 0);
    assert_eq!(keyspace.trim_entries(&mut edit, Keep::From(EntryId::MAX), blocks(30)).unwrap(), 30);
    keyspace.finish(&edit);
}

#[test]
fn a_large_group_goes_as_a_range() {
    let mut keyspace = fresh();
    let edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
    keyspace.finish(&edit);
    for name in [&b"goes"[..], b"stays"] {
        keyspace.create_group(&edit.head, name, EntryId::MIN, Some(3)).unwrap();
        let mut group = keyspace.edit_group((0, KEY), &edit.head, name).unwrap().unwrap();
        let consumer = keyspace.see_consumer(&mut group, b"me").unwrap();
        for n in 0..2000 {
            let new = Pending { consumer, delivered: 1, deliveries: 1 };
            keyspace.set_pending(&mut group, EntryId::new(n, 0), None, new).unwrap();
        }
        keyspace.finish_group(group);
    }
    commit(&mut keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 1 + 2 * 4003);
    let group = keyspace.group(&edit.head, b"goes").unwrap().unwrap();
    keyspace.remove_group((0, KEY), b"goes", &group).unwrap();
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 1 + 4003);
    commit(&mut keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 1 + 4003);
    assert_eq!(keyspace.group(&edit.head, b"goes").unwrap(), None);
    let stays = keyspace.group(&edit.head, b"stays").unwrap().unwrap();
    assert_eq!((stays.pending, stays.consumers, stays.read), (2000, 1, Some(3)));
}

#[test]
fn copies_have_groups_of_their_own() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, KEY, Kind::Stream).unwrap();
    keyspace.append(&mut edit, EntryId::new(1, 1), encode_fields(&[b"f", b"v"]));
    keyspace.finish(&edit);
    keyspace.create_group(&edit.head, b"g", EntryId::MIN, None).unwrap();
    let mut group = keyspace.edit_group((0, KEY), &edit.head, b"g").unwrap().unwrap();
    let consumer = keyspace.see_consumer(&mut group, b"me").unwrap();
    let pending = Pending { consumer, delivered: 5, deliveries: 6 };
    keyspace.set_pending(&mut group, EntryId::new(1, 1), None, pending).unwrap();
    keyspace.finish_group(group);
    assert!(keyspace.copy((0, KEY), (1, b"copy")).unwrap());
    assert!(keyspace.remove(0, KEY).unwrap());
    commit(&mut keyspace);
    let head = keyspace.find(1, b"copy").unwrap().unwrap();
    assert_eq!((head.count, head.stream), (1, edit.head.stream));
    let mut group = keyspace.edit_group((0, KEY), &head, b"g").unwrap().unwrap();
    assert_eq!(keyspace.consumer(&group.group, consumer).unwrap().name, b"me");
    assert_eq!(keyspace.pending(&group.group, EntryId::new(1, 1)).unwrap(), Some(pending));
    keyspace.remove_pending(&mut group, EntryId::new(1, 1), pending).unwrap();
    keyspace.finish_group(group);
    // An empty stream is one.
    let mut edit = keyspace.edit(1, b"copy", Kind::Stream).unwrap();
    assert_eq!(keyspace.remove_entries(&mut edit, &[EntryId::new(1, 1)]).unwrap(), 1);
    keyspace.finish(&edit);
    let head = keyspace.find(1, b"copy").unwrap().unwrap();
    assert_eq!((head.count, head.stream.last, keyspace.size(1)), (0, EntryId::new(1, 1), 1));
}
