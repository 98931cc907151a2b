//! Ranks of large sorted sets against a plain list, whatever is written meanwhile.

use super::super::decode_score;
use super::super::layout::{hash, score_order};
use super::super::ranks::Order;
use super::super::{Collection, Edit, Keyspace, Kind, LexBound, ScoreBound};
use super::collections::collect;
use super::{commit, few};
use crate::testing::{Random, fresh, small_settings};
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, MemoryStore, Operation};
use sinterdb::WriteOptions;
use sinterdb::ledger::Ticker;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
const NOW: u64 = 1000;

/// Scores by member.
type Set = BTreeMap<Vec<u8>, f64>;
/// Sets and their deadlines by key.
type Model = BTreeMap<&'static [u8], (Set, Option<u64>)>;

/// Orders of scores, and members, in the order of a sorted set.
fn in_order(set: &Set) -> Vec<(u64, Vec<u8>)> {
    let mut all: Vec<_> = set.iter().map(|(member, score)| (score_order(*score), member.clone())).collect();
    all.sort();
    all
}

/// Scores that are all different, few, or one.
fn score(random: &mut Random, sort: usize) -> f64 {
    match sort {
        0 => random.below(1 << 20) as f64 / 8.0 - 1000.0,
        1 => random.below(5) as f64 - 2.0,
        _ => 7.0,
    }
}

fn member(random: &mut Random) -> Vec<u8> {
    let mut member = random.bytes(4, b"\0ab\xff");
    member.extend(random.bytes(40, b"x"));
    member
}

fn put(keyspace: &mut Keyspace, edit: &mut Edit, set: &mut Set, member: &[u8], score: f64) {
    assert_eq!(keyspace.set_score(edit, member, score).unwrap(), set.insert(member.to_vec(), score));
}

/// Adds, moves and removes members of one set.
fn change(keyspace: &mut Keyspace, model: &mut Model, key: &'static [u8], random: &mut Random) {
    let mut edit = keyspace.edit(0, key, Kind::SortedSet).unwrap();
    let (set, _) = model.entry(key).or_default();
    let all = in_order(set);
    let sort = random.below(3);
    let most = if random.below(8) == 0 { 150 } else { 6 };
    let many = random.below(most);
    match random.below(5) {
        // At one end, as where scores are times.
        0 => {
            let last = set.values().fold(0.0f64, |last, score| last.max(*score));
            (0..many).for_each(|n| put(keyspace, &mut edit, set, &member(random), last + n as f64));
        }
        1 | 2 => (0..many).for_each(|_| put(keyspace, &mut edit, set, &member(random), score(random, sort))),
        // Neighbouring members.
        3 => {
            let from = random.below(all.len());
            for (_, member) in all.iter().skip(from).take(many) {
                assert_eq!(keyspace.remove_scored(&mut edit, member).unwrap(), set.remove(member));
            }
        }
        _ => {
            for _ in 0..many.min(all.len()) {
                let member = &all[random.below(all.len())].1;
                assert_eq!(keyspace.remove_scored(&mut edit, member).unwrap(), set.remove(member));
            }
        }
    }
    keyspace.finish(&edit);
    if set.is_empty() {
        model.remove(key);
    }
}

fn step(keyspace: &mut Keyspace, model: &mut Model, random: &mut Random) {
    let (key, other) = (KEYS[random.below(KEYS.len())], KEYS[random.below(KEYS.len())]);
    match random.below(40) {
        0 => assert_eq!(keyspace.remove(0, key).unwrap(), model.remove(key).is_some()),
        1 => {
            let found = model.remove(key);
            assert_eq!(keyspace.rename((0, key), (0, other)).unwrap(), found.is_some());
            model.extend(found.map(|found| (other, found)));
        }
        2 if key != other => {
            let found = model.get(key).cloned();
            assert_eq!(keyspace.copy((0, key), (0, other)).unwrap(), found.is_some());
            model.extend(found.map(|found| (other, found)));
        }
        3 => {
            let deadline = Some(keyspace.now() + 1 + random.below(9) as u64);
            assert_eq!(keyspace.set_deadline(0, key, deadline).unwrap(), model.contains_key(key));
            model.entry(key).and_modify(|found| found.1 = deadline);
            if model.get(key).is_some_and(|found| found.0.is_empty()) {
                model.remove(key);
            }
        }
        4 => {
            keyspace.set_now(keyspace.now() + 1);
            let now = keyspace.now();
            model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
        }
        5 if random.below(5) == 0 => {
            keyspace.clear(0).unwrap();
            model.clear();
        }
        // A loaded value replaces the old one, or is abandoned.
        6 => {
            let mut edit = keyspace.replace(0, key, Kind::SortedSet, None).unwrap();
            let mut set = Set::new();
            (0..1 + random.below(80)).for_each(|n| put(keyspace, &mut edit, &mut set, &member(random), n as f64));
            assert!(keyspace.rank(&edit.head, set.keys().next().unwrap()).unwrap().is_some());
            if random.below(2) == 0 {
                keyspace.abandon(&edit);
            } else {
                keyspace.finish(&edit);
                model.insert(key, (set, None));
            }
        }
        _ => change(keyspace, model, key, random),
    }
}

/// Asks for ranks, and for what lies at ranks.
fn ask(keyspace: &mut Keyspace, key: &[u8], model: &Model, random: &mut Random, what: &str) {
    let head = keyspace.find_collection(0, key).unwrap();
    let Some((set, _)) = model.get(key) else { return assert!(head.is_none(), "{what}") };
    let (head, all) = (head.unwrap(), in_order(set));
    assert_eq!(head.count, all.len() as u64, "{what}");
    let at = random.below(all.len());
    let (order, member) = &all[at];
    assert_eq!(keyspace.rank(&head, member).unwrap(), Some((at as u64, set[member])), "{what}");
    let (picked, bytes) = keyspace.random_member(&head).unwrap().unwrap();
    assert_eq!(set.get(&picked), Some(&decode_score(&bytes).unwrap()), "{what}");
    let (from, to) = (random.below(all.len()), random.below(all.len() + 2));
    let backward = random.below(2) == 0;
    let found = collect(|visit| keyspace.walk_ranks(&head, (from as u64, to as u64), backward, visit).unwrap());
    let mut expected: Vec<_> = all.get(from..to.min(all.len())).unwrap_or_default().to_vec();
    if backward {
        expected.reverse();
    }
    assert_eq!(found.into_iter().map(|(member, score)| (score_order(score), member)).collect::<Vec<_>>(), expected, "{what}");
    let scores = [from, to.min(all.len() - 1)].map(|at| set[&all[at].1]);
    let [min, max] = scores.map(|score| ScoreBound { score, is_open: random.below(2) == 0 });
    let inside = |score: f64| {
        (if min.is_open { score > min.score } else { score >= min.score })
            && (if max.is_open { score < max.score } else { score <= max.score })
    };
    let expected = set.values().filter(|score| inside(**score)).count() as u64;
    assert_eq!(keyspace.count_scores(&head, (min, max)).unwrap(), expected, "{what}: {min:?} {max:?}");
    let range = (LexBound::Open(random.bytes(3, b"\0ab\xff")), LexBound::Closed(member.clone()));
    if all[0].0 == all[all.len() - 1].0 {
        let LexBound::Open(first) = &range.0 else { return };
        let expected = all.iter().filter(|(other, name)| other == order && name > first && name <= member).count() as u64;
        assert_eq!(keyspace.count_lex(&head, (&range.0, &range.1)).unwrap(), expected, "{what}: {range:?}");
    }
}

/// All that is kept in memory is what is there.
fn check(keyspace: &mut Keyspace, model: &Model, what: &str) {
    assert!(keyspace.ranks.used() <= keyspace.ranks.capacity(), "{what}");
    let mut ids = Vec::new();
    for key in KEYS {
        // Whoever finds one that has ended removes it.
        let head = keyspace.find_collection(0, key).unwrap();
        if let (Some(head), Some((set, _))) = (head, model.get(key)) {
            ids.push(head.id);
            keyspace.ranks.check(head.id, Order::Scores, &in_order(set), what);
            let mut by_hash: Vec<_> = set.keys().map(|name| (hash(keyspace.seed, name), name.clone())).collect();
            by_hash.sort();
            keyspace.ranks.check(head.id, Order::Hashes, &by_hash, what);
        }
    }
    assert!(keyspace.ranks.ids().all(|id| ids.contains(&id)), "{what}: of a set that is gone");
    keyspace.turn.check_dead(what);
}

fn play(seed: u64, capacity: u64) -> usize {
    let mut random = Random(seed);
    let memory = Arc::new(MemoryStore::new());
    let faulty = Arc::new(FaultStore::new(memory.clone()));
    let open = || {
        let mut keyspace = Keyspace::open(faulty.clone(), &small_settings(), seed).unwrap();
        keyspace.set_thresholds(few(0));
        keyspace.ranks.set_capacity(capacity);
        keyspace
    };
    let mut keyspace = open();
    keyspace.set_now(NOW);
    let (mut model, mut committed) = (Model::new(), Model::new());
    let mut kept = 0;
    for round in 0..400 {
        let what = format!("seed {seed}, {capacity} bytes, round {round}");
        for _ in 0..random.below(6) {
            step(&mut keyspace, &mut model, &mut random);
        }
        if random.below(3) > 0 {
            (0..3).for_each(|_| ask(&mut keyspace, KEYS[random.below(KEYS.len())], &model, &mut random, &what));
        }
        let now = keyspace.now();
        let dropped = |mut model: Model| {
            model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline >= now));
            model
        };
        match random.below(16) {
            0 => {
                keyspace.discard();
                model = dropped(committed.clone());
            }
            1 if !keyspace.is_committed() => {
                faulty.inject(Fault::from(Calls::Only(Operation::Append), 0, EIO));
                keyspace.commit(&WriteOptions::default()).unwrap_err();
                model = dropped(committed.clone());
                for key in KEYS {
                    ask(&mut keyspace, key, &model, &mut random, &format!("{what}, after a failure"));
                }
                check(&mut keyspace, &model, &what);
                keyspace.discard();
                drop(keyspace);
                faulty.clear();
                keyspace = open();
                keyspace.set_now(now);
            }
            2..9 => commit(&mut keyspace),
            _ => {}
        }
        if keyspace.is_committed() {
            committed = model.clone();
        }
        check(&mut keyspace, &model, &what);
        kept += keyspace.ranks.ids().count();
    }
    kept
}

#[test]
fn ranks_are_those_of_a_list() {
    for seed in 0..6 {
        let kept = [0, 3000, 1 << 20].map(|capacity| play(seed, capacity));
        assert!(kept[0] == 0 && kept[1] > 20 && kept[2] > kept[1], "seed {seed}: {kept:?}");
    }
}

/// A look passes over a few members wherever it is, also where many have come since the one before; to ask for what lies at an end prepares
/// nothing.
#[test]
fn ranks_are_near() {
    let mut keyspace = fresh();
    keyspace.set_thresholds(few(0));
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    let add = |keyspace: &mut Keyspace, edit: &mut Edit, from: u32, to: u32| {
        (from..to).for_each(|n| _ = keyspace.set_score(edit, &n.to_be_bytes(), f64::from(n)).unwrap());
        keyspace.finish(edit);
        commit(keyspace);
    };
    add(&mut keyspace, &mut edit, 0, 3000);
    let passed = |keyspace: &mut Keyspace, n: u32| {
        let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
        let before = keyspace.db().statistics().ticker(Ticker::NumberDbNext);
        assert_eq!(keyspace.rank(&head, &n.to_be_bytes()).unwrap(), Some((u64::from(n), f64::from(n))));
        for backward in [false, true] {
            let one = collect(|visit| keyspace.walk_ranks(&head, (u64::from(n), u64::from(n) + 1), backward, visit).unwrap());
            assert_eq!(one, [(n.to_be_bytes().to_vec(), f64::from(n))]);
        }
        keyspace.db().statistics().ticker(Ticker::NumberDbNext) - before
    };
    for n in [0, 3, 2990, 2999] {
        assert!(passed(&mut keyspace, n) < 60);
    }
    assert_eq!(keyspace.ranks.used(), 0);
    assert!(passed(&mut keyspace, 1000) >= 3000);
    for n in (0..3000).step_by(37) {
        assert!(passed(&mut keyspace, n) < 60, "{n}");
    }
    add(&mut keyspace, &mut edit, 3000, 4000);
    assert!((1000..1200).contains(&passed(&mut keyspace, 3500)));
    for n in (2900..4000).step_by(37) {
        assert!(passed(&mut keyspace, n) < 60, "{n}");
    }
    // A set whose number of members differs from its outline's is counted once more.
    let mut head = keyspace.find_collection(0, b"z").unwrap().unwrap();
    head.count = 4001;
    let before = keyspace.db().statistics().ticker(Ticker::NumberDbNext);
    assert_eq!(keyspace.rank(&head, &1000u32.to_be_bytes()).unwrap(), Some((1000, 1000.0)));
    assert!(keyspace.db().statistics().ticker(Ticker::NumberDbNext) - before >= 4000);
    // Half of them go.
    (0..2000u32).for_each(|n| _ = keyspace.remove_scored(&mut edit, &n.to_be_bytes()).unwrap());
    keyspace.finish(&edit);
    let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
    assert_eq!(keyspace.rank(&head, &3000u32.to_be_bytes()).unwrap(), Some((1000, 3000.0)));
    let mut count = 0;
    keyspace
        .walk_ranks(&head, (500, 1500), true, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(count, 1000);
}

/// Once an outline is known, finding a member passes over hardly any removed ones.
fn check_near(keyspace: &mut Keyspace, head: &Collection) {
    for position in 0..head.count {
        let piece = keyspace.piece(head, Order::Hashes, |outline| outline.at(position)).unwrap();
        let (found, stop) = keyspace.nth(&piece.bounds, position - piece.before, 3).unwrap();
        assert!(found.is_some() && stop.is_none(), "{position} of {}", head.count);
    }
}

/// The few members left of many are found wherever they lie, each as often as the others, without passing over all removed ones each time.
#[test]
fn the_few_that_are_left_are_picked() {
    let mut keyspace = fresh();
    keyspace.set_thresholds(few(0));
    let mut edit = keyspace.edit(0, b"s", Kind::Set).unwrap();
    (0..3000u32).for_each(|n| _ = keyspace.add_member(&mut edit, &n.to_be_bytes()).unwrap());
    keyspace.finish(&edit);
    commit(&mut keyspace);
    keyspace.db().flush().unwrap();
    let mut left: BTreeSet<u32> = (0..3000).collect();
    for members in [600, 20, 3, 1] {
        let gone: Vec<u32> = left.iter().copied().take(left.len() - members).collect();
        for n in gone {
            assert!(keyspace.remove_member(&mut edit, &n.to_be_bytes()).unwrap());
            left.remove(&n);
        }
        keyspace.finish(&edit);
        commit(&mut keyspace);
        let head = keyspace.find_collection(0, b"s").unwrap().unwrap();
        let number = |member: &[u8]| u32::from_be_bytes(member.try_into().unwrap());
        let mut times = BTreeMap::new();
        for _ in 0..members * 20 {
            let picked = number(&keyspace.random_member(&head).unwrap().unwrap().0);
            assert!(left.contains(&picked), "{picked}");
            *times.entry(picked).or_insert(0) += 1;
        }
        assert!(members > 20 || times.len() == members && times.values().all(|times| *times > 3), "{times:?}");
        for most in [1, 2, members as u64, u64::MAX] {
            let picked: BTreeSet<u32> = keyspace.random_members(&head, most).unwrap().iter().map(|member| number(&member.0)).collect();
            assert!(picked.len() as u64 == most.min(members as u64) && picked.is_subset(&left), "{picked:?}");
        }
        assert_eq!(keyspace.ranks.has(head.id, Order::Hashes), members < 500);
        keyspace.ranks.clear();
        check_near(&mut keyspace, &head);
        // Members before all others, and behind them.
        for n in 5000..5000 + members.min(30) as u32 {
            keyspace.add_member(&mut edit, &n.to_be_bytes()).unwrap();
            left.insert(n);
        }
        keyspace.finish(&edit);
        let head = keyspace.find_collection(0, b"s").unwrap().unwrap();
        let all = keyspace.random_members(&head, u64::MAX).unwrap();
        assert_eq!(all.iter().map(|member| number(&member.0)).collect::<BTreeSet<u32>>(), left);
        check_near(&mut keyspace, &head);
    }
}
