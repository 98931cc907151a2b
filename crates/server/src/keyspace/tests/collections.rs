//! Lists and sorted sets against `VecDeque` and sorted vectors, sets and hashes against std's.

use super::super::{Collection, Edit, Keyspace, Kind, LexBound, ScoreBound, Side};
use super::{commit, few};
use crate::testing::{Random, fresh};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

type Scored = Vec<(Vec<u8>, f64)>;

fn items(keyspace: &Keyspace, head: &Collection, from: u64, to: u64, backward: bool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    keyspace
        .walk_items(head, (from, to), backward, &mut |item| {
            all.push(item.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

/// One random change of a list and of its model.
fn change_list(keyspace: &mut Keyspace, edit: &mut Edit, model: &mut Vec<Vec<u8>>, random: &mut Random) {
    let value = vec![b'a' + random.below(6) as u8];
    let position = random.below(model.len() + 1);
    match random.below(12) {
        0..4 => {
            keyspace.push(edit, Side::Right, &value).unwrap();
            model.push(value);
        }
        4..6 => {
            keyspace.push(edit, Side::Left, &value).unwrap();
            model.insert(0, value);
        }
        6 => assert_eq!(keyspace.pop(edit, Side::Left, 2).unwrap(), model.drain(..model.len().min(2)).collect::<Vec<_>>()),
        7 => {
            let popped: Vec<Vec<u8>> = model.drain(model.len() - model.len().min(2)..).rev().collect();
            assert_eq!(keyspace.pop(edit, Side::Right, 2).unwrap(), popped);
        }
        8 => {
            assert_eq!(keyspace.set_item(edit, position as u64, &value).unwrap(), position < model.len());
            if let Some(item) = model.get_mut(position) {
                *item = value;
            }
        }
        9 => {
            let behind = random.below(2) == 0;
            let at = model.iter().position(|item| *item == b"a");
            assert_eq!(keyspace.insert_item(edit, b"a", behind, &value).unwrap(), at.is_some());
            if let Some(at) = at {
                model.insert(at + usize::from(behind), value);
            }
        }
        10 => {
            let (most, from_right) = (random.below(4), random.below(2) == 0);
            let most = if most == 0 { usize::MAX } else { most };
            let mut equal: Vec<usize> = (0..model.len()).filter(|n| model[*n] == value).collect();
            if from_right {
                equal.reverse();
            }
            equal.truncate(most);
            let removed = keyspace.remove_items(edit, &value, most as u64, from_right).unwrap();
            assert_eq!(removed, equal.len() as u64);
            equal.sort_unstable();
            equal.iter().rev().for_each(|n| drop(model.remove(*n)));
        }
        _ if random.below(8) == 0 => {
            let to = random.below(model.len() + 2);
            keyspace.trim(edit, position as u64, to as u64).unwrap();
            model.truncate(to);
            model.drain(..position.min(model.len()));
        }
        _ => {}
    }
}

#[test]
fn lists_do_what_vectors_do() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(seed % 3 * 12));
        let mut model: Vec<Vec<u8>> = Vec::new();
        for round in 0..300 {
            let mut edit = keyspace.edit(0, b"l", Kind::List).unwrap();
            for _ in 0..random.below(12) {
                change_list(&mut keyspace, &mut edit, &mut model, &mut random);
            }
            keyspace.finish(&edit);
            if random.below(3) == 0 {
                commit(&mut keyspace);
            }
            let head = keyspace.find_collection(0, b"l").unwrap();
            assert_eq!(head.as_ref().map_or(0, |head| head.count), model.len() as u64, "seed {seed}, round {round}");
            assert_eq!(keyspace.size(0), u64::from(!model.is_empty()));
            let Some(head) = head else { continue };
            let (from, to) = (random.below(model.len()), random.below(model.len() + 2));
            let range = if from < to { model[from..to.min(model.len())].to_vec() } else { Vec::new() };
            assert_eq!(items(&keyspace, &head, 0, u64::MAX, false), model, "seed {seed}, round {round}");
            assert_eq!(items(&keyspace, &head, from as u64, to as u64, false), range);
            assert_eq!(items(&keyspace, &head, from as u64, to as u64, true), range.into_iter().rev().collect::<Vec<_>>());
            assert_eq!(keyspace.item(&head, from as u64).unwrap().as_ref(), model.get(from));
        }
    }
}

/// More items than are moved at once, in the middle of which something changes.
#[test]
fn long_lists_are_changed_in_the_middle() {
    for from_right in [false, true] {
        let mut keyspace = fresh();
        let mut model: Vec<Vec<u8>> = (0..5000).map(|n| format!("{}", n % 1000).into_bytes()).collect();
        let mut edit = keyspace.edit(0, b"l", Kind::List).unwrap();
        for item in &model {
            keyspace.push(&mut edit, Side::Right, item).unwrap();
        }
        keyspace.finish(&edit);
        commit(&mut keyspace);
        let mut edit = keyspace.edit(0, b"l", Kind::List).unwrap();
        // The first or the last 3 of 5.
        assert_eq!(keyspace.remove_items(&mut edit, b"500", 3, from_right).unwrap(), 3);
        let gaps = if from_right { [4500, 3500, 2500] } else { [2500, 1500, 500] };
        gaps.iter().for_each(|n| drop(model.remove(*n)));
        for (pivot, behind) in [(&b"10"[..], false), (b"999", true)] {
            assert!(keyspace.insert_item(&mut edit, pivot, behind, b"new").unwrap());
            let at = model.iter().position(|item| item == pivot).unwrap();
            model.insert(at + usize::from(behind), b"new".to_vec());
        }
        assert_eq!(items(&keyspace, &edit.head, 0, u64::MAX, false), model);
        keyspace.trim(&mut edit, 1500, 3000).unwrap();
        keyspace.finish(&edit);
        commit(&mut keyspace);
        let head = keyspace.find_collection(0, b"l").unwrap().unwrap();
        assert_eq!(items(&keyspace, &head, 0, u64::MAX, false), model[1500..3000]);
    }
}

pub(super) fn collect(walk: impl FnOnce(&mut dyn FnMut(&[u8], f64) -> ControlFlow<()>)) -> Scored {
    let mut all = Vec::new();
    walk(&mut |member, score| {
        all.push((member.to_vec(), score));
        ControlFlow::Continue(())
    });
    all
}

fn in_order(model: &BTreeMap<Vec<u8>, f64>) -> Scored {
    let mut all: Scored = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    all
}

fn check_sorted(keyspace: &mut Keyspace, head: &Collection, model: &BTreeMap<Vec<u8>, f64>, random: &mut Random) {
    let all = in_order(model);
    let backwards = |list: &[(Vec<u8>, f64)], backward: bool| {
        let mut list = list.to_vec();
        if backward {
            list.reverse();
        }
        list
    };
    let backward = random.below(2) == 0;
    let (from, to) = (random.below(all.len()), random.below(all.len() + 2));
    let ranked = collect(|visit| keyspace.walk_ranks(head, (from as u64, to as u64), backward, visit).unwrap());
    assert_eq!(ranked, backwards(all.get(from..to.min(all.len())).unwrap_or_default(), backward));
    let bound = |random: &mut Random| ScoreBound { score: score(random), is_open: random.below(2) == 0 };
    let (min, max) = (bound(random), bound(random));
    let inside = |score: f64| {
        (if min.is_open { score > min.score } else { score >= min.score })
            && (if max.is_open { score < max.score } else { score <= max.score })
    };
    let expected: Scored = all.iter().filter(|entry| inside(entry.1)).cloned().collect();
    let found = collect(|visit| keyspace.walk_scores(head, (min, max), backward, visit).unwrap());
    assert_eq!(found, backwards(&expected, backward), "{min:?} {max:?}");
    let (rank, (member, score)) = (from as u64, all[from].clone());
    assert_eq!(keyspace.rank(head, &member).unwrap(), Some((rank, score)));
    assert_eq!(keyspace.score(head, &member).unwrap(), Some(score));
    assert_eq!(keyspace.rank(head, b"no such member").unwrap(), None);
}

fn score(random: &mut Random) -> f64 {
    let scores = [f64::NEG_INFINITY, -3.5, -1.0, 0.0, 0.1, 2.0, 1e300, f64::INFINITY];
    scores[random.below(scores.len())]
}

#[test]
fn sorted_sets_keep_their_order() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(seed % 3 * 12));
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for _ in 0..300 {
            let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
            for _ in 0..random.below(8) {
                let member = random.bytes(3, b"\0ab\xff");
                if random.below(3) == 0 {
                    assert_eq!(keyspace.remove_scored(&mut edit, &member).unwrap(), model.remove(&member));
                } else {
                    let score = score(&mut random);
                    assert_eq!(keyspace.set_score(&mut edit, &member, score).unwrap(), model.insert(member, score));
                }
            }
            keyspace.finish(&edit);
            if random.below(3) == 0 {
                commit(&mut keyspace);
            }
            let head = keyspace.find_collection(0, b"z").unwrap();
            assert_eq!(head.as_ref().map_or(0, |head| head.count), model.len() as u64, "seed {seed}");
            if let Some(head) = head {
                check_sorted(&mut keyspace, &head, &model, &mut random);
            }
        }
    }
}

#[test]
fn ranks_are_counted_from_the_nearer_end() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    for n in 0..3000u32 {
        keyspace.set_score(&mut edit, &n.to_be_bytes(), f64::from(n / 2)).unwrap();
    }
    keyspace.finish(&edit);
    let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
    for n in [0u32, 1, 511, 512, 513, 1023, 1024, 1499, 1500, 1501, 2487, 2488, 2999] {
        assert_eq!(keyspace.rank(&head, &n.to_be_bytes()).unwrap(), Some((u64::from(n), f64::from(n / 2))), "{n}");
        let one = collect(|visit| keyspace.walk_ranks(&head, (u64::from(n), u64::from(n) + 1), false, visit).unwrap());
        assert_eq!(one, [(n.to_be_bytes().to_vec(), f64::from(n / 2))]);
    }
}

#[test]
fn names_of_one_score_are_a_range() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    let names = [&b""[..], b"\0", b"a", b"a\0", b"aa", b"b", b"\xff", b"\xff\xff"];
    for name in names {
        keyspace.set_score(&mut edit, name, -2.5).unwrap();
    }
    keyspace.finish(&edit);
    let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
    let found = |min: &LexBound, max: &LexBound, backward: bool| {
        let found = collect(|visit| keyspace.walk_lex(&head, (min, max), backward, 0, visit).unwrap());
        found.into_iter().map(|entry| entry.0).collect::<Vec<_>>()
    };
    let closed = |name: &[u8]| LexBound::Closed(name.to_vec());
    let open = |name: &[u8]| LexBound::Open(name.to_vec());
    assert_eq!(found(&LexBound::Lowest, &LexBound::Highest, false), names);
    assert_eq!(found(&closed(b"a"), &closed(b"b"), false), names[2..6]);
    assert_eq!(found(&open(b"a"), &open(b"b"), false), names[3..5]);
    assert_eq!(found(&open(b"a"), &open(b"b"), true), [names[4], names[3]]);
    assert_eq!(found(&closed(b"b"), &closed(b"a"), false), [b""; 0]);
    assert_eq!(found(&LexBound::Highest, &LexBound::Lowest, false), [b""; 0]);
    assert_eq!(found(&open(b"\xff"), &LexBound::Highest, false), names[7..]);
}

#[test]
fn sets_and_hashes_do_what_maps_do() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut keyspace = fresh();
        keyspace.set_thresholds(few(seed % 3 * 12));
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for _ in 0..300 {
            let mut edit = keyspace.edit(0, b"h", Kind::Hash).unwrap();
            for _ in 0..random.below(8) {
                let (field, value) = (random.bytes(3, b"\0ab\xff"), random.bytes(5, b"xyz"));
                if random.below(3) == 0 {
                    assert_eq!(keyspace.remove_member(&mut edit, &field).unwrap(), model.remove(&field).is_some());
                } else {
                    assert_eq!(keyspace.set_field(&mut edit, &field, &value).unwrap(), model.insert(field, value).is_none());
                }
            }
            keyspace.finish(&edit);
            if random.below(3) == 0 {
                commit(&mut keyspace);
            }
            let Some(head) = keyspace.find_collection(0, b"h").unwrap() else {
                assert!(model.is_empty());
                continue;
            };
            let all: BTreeMap<Vec<u8>, Vec<u8>> = keyspace.members(&head).unwrap().into_iter().collect();
            assert_eq!((&all, head.count), (&model, model.len() as u64), "seed {seed}");
            let field = random.bytes(3, b"\0ab\xff");
            assert_eq!(keyspace.member(&head, &field).unwrap().as_ref(), model.get(&field));
        }
    }
}

#[test]
fn random_members_are_different_ones_from_everywhere() {
    let mut keyspace = fresh();
    // Few members are counted, many are found by a random hash.
    for count in [10u16, 3000] {
        let mut edit = keyspace.edit(0, b"s", Kind::Set).unwrap();
        for n in 0..count {
            keyspace.add_member(&mut edit, &n.to_be_bytes()).unwrap();
        }
        keyspace.finish(&edit);
        let head = keyspace.find_collection(0, b"s").unwrap().unwrap();
        assert_eq!(head.count, u64::from(count));
        for most in [1, 5, 700, u64::MAX] {
            let picked = keyspace.random_members(&head, most).unwrap();
            let names: BTreeSet<&Vec<u8>> = picked.iter().map(|member| &member.0).collect();
            assert_eq!((names.len() as u64, picked.len()), (most.min(head.count), names.len()));
        }
        let mut seen = BTreeSet::new();
        for _ in 0..400 {
            seen.insert(keyspace.random_member(&head).unwrap().unwrap().0);
        }
        assert!(seen.len() >= if count == 10 { 10 } else { 250 }, "{} different ones", seen.len());
    }
}

#[test]
fn members_are_scanned_once() {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(0, b"s", Kind::Set).unwrap();
    for n in 0..1000u16 {
        keyspace.add_member(&mut edit, &n.to_be_bytes()).unwrap();
    }
    keyspace.finish(&edit);
    let head = edit.head;
    let mut seen = BTreeMap::new();
    let mut cursor = 0;
    let mut calls = 0;
    loop {
        cursor = keyspace.scan_members(&head, cursor, 50, &mut |member, _| *seen.entry(member.to_vec()).or_insert(0) += 1).unwrap();
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((seen.len(), calls), (1000, 20));
    assert!(seen.values().all(|times| *times == 1));
}
