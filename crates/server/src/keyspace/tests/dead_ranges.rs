//! Walks that begin where many elements were removed.

use super::super::dead_ranges::NOTED;
use super::super::layout::{self, Bounds, Direction, score_order};
use super::super::{Keyspace, Kind, ScoreBound};
use super::collections::collect;
use super::{commit, few};
use crate::testing::{Random, fresh};

/// Members of the queues.
const MEMBERS: u32 = 400;

fn name(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A sorted set of as many members, whose names and scores are their numbers.
fn queue(random: &mut Random) -> Keyspace {
    let mut keyspace = fresh();
    keyspace.set_thresholds(few(0));
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    let mut numbers: Vec<u32> = (0..MEMBERS).collect();
    (1..numbers.len()).for_each(|last| numbers.swap(last, random.below(last + 1)));
    numbers.iter().for_each(|n| _ = keyspace.set_score(&mut edit, &name(*n), f64::from(*n)).unwrap());
    keyspace.finish(&edit);
    commit(&mut keyspace);
    keyspace
}

fn set_score(keyspace: &mut Keyspace, number: u32) {
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    keyspace.set_score(&mut edit, &name(number), f64::from(number)).unwrap();
    keyspace.finish(&edit);
}

/// Takes the member at an end.
fn take(keyspace: &mut Keyspace, backward: bool) -> u32 {
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    let rank = if backward { edit.head.count - 1 } else { 0 };
    let found = collect(|visit| keyspace.walk_ranks(&edit.head, (rank, rank + 1), backward, visit).unwrap());
    let [(member, score)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(keyspace.remove_scored(&mut edit, member).unwrap(), Some(*score));
    keyspace.finish(&edit);
    *score as u32
}

/// The part of the set's order over which a walk has to go.
fn known(keyspace: &Keyspace, id: u64, direction: Direction) -> Bounds {
    let mut rest = layout::scores(id);
    keyspace.turn.dead.borrow().next_part(&mut rest, direction).unwrap().bounds
}

fn id(keyspace: &mut Keyspace) -> u64 {
    keyspace.find_collection(0, b"z").unwrap().unwrap().id
}

/// Members that are taken from an end of a sorted set are passed over once, and not again for each member behind them, within a turn and
/// from turn to turn.
#[test]
fn what_was_taken_from_an_end_is_passed_over_once() {
    for (backward, turns) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut keyspace = queue(&mut Random(1));
        let id = id(&mut keyspace);
        let key = |number: u32| layout::score_key(id, score_order(f64::from(number)), &name(number));
        let far = NOTED as u32 + 1;
        for n in 0..MEMBERS - 1 {
            let expected = if backward { MEMBERS - 1 - n } else { n };
            assert_eq!(take(&mut keyspace, backward), expected);
            if turns {
                commit(&mut keyspace);
            }
            if n > 2 * far {
                if backward {
                    assert!(known(&keyspace, id, Direction::Backward).1 <= key(expected + far), "{n} taken");
                } else {
                    assert!(known(&keyspace, id, Direction::Forward).0 >= key(expected - far), "{n} taken");
                }
            }
            keyspace.turn.check_dead("taken");
        }
        // A range of scores of which nothing is left is empty at once.
        let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
        let all = [f64::NEG_INFINITY, f64::INFINITY].map(|score| ScoreBound { score, is_open: false });
        assert_eq!(collect(|visit| keyspace.walk_scores(&head, (all[0], all[1]), backward, visit).unwrap()).len(), 1);
        assert!(keyspace.turn.check_dead("one left").len() <= 2);
    }
}

/// A member that is added among those that were taken is found; what was taken when a turn is dropped is found again.
#[test]
fn what_is_added_or_not_taken_after_all_is_found() {
    let mut random = Random(2);
    let mut keyspace = queue(&mut random);
    let mut left: Vec<u32> = (0..MEMBERS).collect();
    let mut most = 0;
    for round in 0..600 {
        let before = left.clone();
        for _ in 0..random.below(4) {
            if left.len() > 1 && random.below(3) > 0 {
                let backward = random.below(4) == 0;
                let expected = left.remove(if backward { left.len() - 1 } else { 0 });
                assert_eq!(take(&mut keyspace, backward), expected, "round {round}");
            } else {
                let number = random.below(MEMBERS as usize) as u32;
                set_score(&mut keyspace, number);
                if let Err(at) = left.binary_search(&number) {
                    left.insert(at, number);
                }
            }
        }
        match random.below(8) {
            0 => {
                keyspace.discard();
                left = before;
            }
            _ => commit(&mut keyspace),
        }
        let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
        let found = collect(|visit| keyspace.walk_ranks(&head, (0, u64::MAX), random.below(2) == 0, visit).unwrap());
        let mut found: Vec<u32> = found.iter().map(|(_, score)| *score as u32).collect();
        found.sort_unstable();
        assert_eq!(found, left, "round {round}");
        most = most.max(keyspace.turn.check_dead("a round").len());
    }
    assert!(most > 2, "{most} ranges at most");
}

/// Removed elements behind a first one that stays are passed over once, too.
#[test]
fn what_was_removed_behind_the_first_one_is_passed_over_once() {
    let mut keyspace = queue(&mut Random(3));
    let mut edit = keyspace.edit(0, b"z", Kind::SortedSet).unwrap();
    (1..MEMBERS - 1).for_each(|n| _ = keyspace.remove_scored(&mut edit, &name(n)).unwrap());
    keyspace.finish(&edit);
    commit(&mut keyspace);
    let head = keyspace.find_collection(0, b"z").unwrap().unwrap();
    for backward in [false, true] {
        keyspace.turn.dead.borrow_mut().clear();
        let mut all = collect(|visit| keyspace.walk_ranks(&head, (0, 2), backward, visit).unwrap());
        all.sort_by_key(|(member, _)| member.clone());
        assert_eq!(all, [0, MEMBERS - 1].map(|n| (name(n).to_vec(), f64::from(n))));
        let key = |number: u32| layout::score_key(head.id, score_order(f64::from(number)), &name(number));
        let ranges = keyspace.turn.check_dead("two left");
        assert!(ranges.iter().any(|range| range.0 <= key(1) && key(MEMBERS - 2) < range.1), "{ranges:?}");
    }
}
