//! Which keys are evicted, under each policy.

use super::super::{Counting, Keyspace, Policy, Rank};
use super::{add_set, commit};
use crate::testing::{Random, fresh};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

/// Bytes of each key that [`fill`] makes, with its value.
const EACH: u64 = 100;

fn name(n: u64) -> String {
    format!("key{n:07}")
}

/// Makes so many keys, with a deadline if `deadline` gives one.
fn fill(keyspace: &mut Keyspace, count: u64, deadline: impl Fn(u64) -> Option<u64>) {
    for n in 0..count {
        keyspace.begin_command(true);
        keyspace.set_string(0, name(n).as_bytes(), &[b'x'; EACH as usize - 10], deadline(n)).unwrap();
    }
    commit(keyspace);
}

fn read(keyspace: &mut Keyspace, n: u64) -> bool {
    keyspace.begin_command(true);
    keyspace.string(0, name(n).as_bytes()).unwrap().is_some()
}

/// Evicts until the limit holds; returns the number of evicted keys.
fn evict(keyspace: &mut Keyspace, policy: Policy, limit: u64) -> u64 {
    let mut evicted = 0;
    for _ in 0..10_000 {
        if keyspace.data_bytes().unwrap() <= limit {
            return evicted;
        }
        evicted += keyspace.evict(policy, 5, limit).unwrap();
        commit(keyspace);
    }
    panic!("nothing is evicted")
}

/// The keys that are left.
fn left(keyspace: &Keyspace, count: u64) -> Vec<u64> {
    let mut names = HashSet::new();
    keyspace
        .walk_keys(0, &mut |key, _, _| {
            names.insert(key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    (0..count).filter(|n| names.contains(name(*n).as_bytes())).collect()
}

#[test]
fn names_of_policies_are_read_and_shown() {
    for name in Policy::names().split(", ") {
        assert_eq!(Policy::parse(&name.to_ascii_uppercase()).map(Policy::name), Some(name));
    }
    assert_eq!((Policy::names().split(", ").count(), Policy::parse("lru")), (8, None));
    assert!(Policy::All(Rank::Frequency).is_by_frequency() && !Policy::Never.is_by_frequency());
    assert!(Policy::Volatile(Rank::Idle).is_by_use() && !Policy::Volatile(Rank::Deadline).is_by_use());
}

/// Keys that were used lately, or often, are left; of the others those go that the hand meets first.
#[test]
fn keys_in_use_stay() {
    for (policy, is_counting) in [(Policy::All(Rank::Idle), false), (Policy::All(Rank::Frequency), true)] {
        let mut keyspace = fresh();
        keyspace.set_counting(Counting { is_on: is_counting, ..Counting::default() });
        fill(&mut keyspace, 2_000, |_| None);
        assert_eq!(keyspace.data_bytes(), Some(2_000 * EACH));
        for second in 1..20 {
            keyspace.set_now(1_000_000 + second * 1000);
            (0..2_000).step_by(4).for_each(|n| assert!(read(&mut keyspace, n)));
        }
        assert_eq!(evict(&mut keyspace, policy, 800 * EACH), 1_200);
        let left = left(&keyspace, 2_000);
        assert_eq!((left.len(), left.iter().filter(|n| **n % 4 == 0).count()), (800, 500), "{policy:?}");
        keyspace.check_bytes();
    }
}

/// Keys whose entries are not in memory count as unused.
#[test]
fn keys_out_of_memory_go_first() {
    let mut keyspace = fresh();
    keyspace.keep_hot_bytes(0);
    fill(&mut keyspace, 1_000, |_| None);
    keyspace.keep_hot_bytes(1 << 20);
    (0..100).for_each(|n| assert!(read(&mut keyspace, n)));
    assert!((0..100).all(|n| keyspace.idle_seconds(0, name(n).as_bytes()) == Some(0)));
    assert_eq!(evict(&mut keyspace, Policy::All(Rank::Idle), 300 * EACH), 700);
    assert_eq!(left(&keyspace, 100).len(), 100);
    assert_eq!((keyspace.idle_seconds(0, name(7).as_bytes()), keyspace.frequency(0, name(7).as_bytes())), (Some(0), 5));
    assert_eq!((keyspace.idle_seconds(0, b"none"), keyspace.frequency(0, b"none")), (None, 0));
    keyspace.keep_hot_bytes(0);
    assert_eq!(evict(&mut keyspace, Policy::All(Rank::Random), 0), 300);
    assert!(!keyspace.can_evict(Policy::All(Rank::Random)));
}

/// Once the memory for hot keys is full, a new key in use takes the place of an old one, and is not evicted before keys without use. Keys
/// that are evicted take no place.
#[test]
fn new_keys_in_use_stay_when_hot_keys_are_full() {
    let mut keyspace = fresh();
    keyspace.set_counting(Counting { counts_writes: true, ..Counting::default() });
    keyspace.keep_hot_bytes(200 << 10);
    fill(&mut keyspace, 5_000, |_| None);
    let new = 5_000..5_100;
    keyspace.set_now(2_000_000);
    for n in new.clone() {
        keyspace.begin_command(true);
        keyspace.set_string(0, name(n).as_bytes(), &[b'x'; EACH as usize - 10], None).unwrap();
        commit(&mut keyspace);
        assert!(read(&mut keyspace, n));
    }
    keyspace.set_now(3_000_000);
    assert_eq!(evict(&mut keyspace, Policy::All(Rank::Idle), 2_500 * EACH), 2_600);
    assert_eq!(left(&keyspace, 5_100).iter().filter(|n| new.contains(n)).count(), 100);
    for n in new {
        assert_eq!(keyspace.idle_seconds(0, name(n).as_bytes()), Some(1_000), "{n}");
    }
}

#[test]
fn keys_without_deadline_stay_where_the_policy_says_so() {
    for rank in [Rank::Idle, Rank::Frequency, Rank::Random, Rank::Deadline] {
        let policy = Policy::Volatile(rank);
        let mut keyspace = fresh();
        fill(&mut keyspace, 900, |n| (n % 3 == 0).then_some(2_000_000_000 + n));
        assert!(keyspace.can_evict(policy));
        assert_eq!(evict(&mut keyspace, policy, 700 * EACH), 200);
        assert_eq!(left(&keyspace, 900).iter().filter(|n| **n % 3 > 0).count(), 600, "{rank:?}");
        assert_eq!(evict(&mut keyspace, policy, 600 * EACH), 100);
        assert!(!keyspace.can_evict(policy) && keyspace.deadlines(0) == 0);
        assert_eq!(keyspace.evict(policy, 5, 0).unwrap(), 0);
    }
}

/// The first deadline comes first, also one that is set while others are being evicted.
#[test]
fn the_first_deadlines_are_evicted_first() {
    let mut keyspace = fresh();
    fill(&mut keyspace, 1_000, |n| Some(2_000_000_000 + n * 7 % 1_000));
    let policy = Policy::Volatile(Rank::Deadline);
    evict(&mut keyspace, policy, 600 * EACH);
    assert!(left(&keyspace, 1_000).iter().all(|n| n * 7 % 1_000 >= 400));
    let (sooner, later) = (name(1_000_000), name(1_000_001));
    keyspace.set_string(0, sooner.as_bytes(), &[b'x'; EACH as usize - 10], Some(1_900_000_000)).unwrap();
    keyspace.set_string(0, later.as_bytes(), &[b'x'; EACH as usize - 10], Some(3_000_000_000)).unwrap();
    commit(&mut keyspace);
    evict(&mut keyspace, policy, 580 * EACH);
    assert!(!keyspace.exists(0, sooner.as_bytes()).unwrap() && keyspace.exists(0, later.as_bytes()).unwrap());
    keyspace.discard();
    evict(&mut keyspace, policy, 0);
    assert_eq!(keyspace.size(0), 0);
}

/// A deadline counts as it is when its key is to be evicted: also one that is not committed, and one that was prolonged after the choice.
#[test]
fn deadlines_count_as_they_are_now() {
    let mut keyspace = fresh();
    let policy = Policy::Volatile(Rank::Deadline);
    fill(&mut keyspace, 100, |n| Some(2_000_000_000 + n));
    let sooner = name(1_000);
    keyspace.set_string(0, sooner.as_bytes(), &[b'x'; EACH as usize - 10], Some(1_900_000_000)).unwrap();
    // Chooses victims, the uncommitted key among them, and evicts one.
    assert_eq!(keyspace.evict(policy, 5, 100 * EACH).unwrap(), 1);
    assert!(!keyspace.exists(0, sooner.as_bytes()).unwrap() && left(&keyspace, 100).len() == 100);
    commit(&mut keyspace);
    (0..10).for_each(|n| assert!(keyspace.set_deadline(0, name(n).as_bytes(), Some(3_000_000_000)).unwrap()));
    commit(&mut keyspace);
    assert_eq!(keyspace.evict(policy, 5, 99 * EACH).unwrap(), 1);
    let left = left(&keyspace, 100);
    assert!(left.len() == 99 && !left.contains(&10), "{left:?}");
    keyspace.check_bytes();
}

/// Writes of the present turn are not evicted, nor is a victim that was used meanwhile; a collection goes with all its bytes.
#[test]
fn what_is_just_written_or_used_stays() {
    let mut keyspace = fresh();
    for n in 0..50 {
        keyspace.set_string(0, name(n).as_bytes(), b"1", None).unwrap();
    }
    assert_eq!(keyspace.evict(Policy::All(Rank::Random), 5, 0).unwrap(), 0);
    commit(&mut keyspace);
    add_set(&mut keyspace, b"set", 1_000);
    commit(&mut keyspace);
    assert_eq!(keyspace.data_bytes(), Some(50 * 11 + 3 + 4_000));
    keyspace.set_now(1_100_000);
    // Chooses victims, and evicts one of them.
    let bytes = keyspace.data_bytes().unwrap();
    assert_eq!(keyspace.evict(Policy::All(Rank::Idle), 1, bytes - 1).unwrap(), 1);
    commit(&mut keyspace);
    keyspace.set_now(1_200_000);
    let used = left(&keyspace, 50);
    used.iter().for_each(|n| assert!(read(&mut keyspace, *n)));
    keyspace.evict(Policy::All(Rank::Idle), 1, 0).unwrap();
    assert_eq!(left(&keyspace, 50), used, "all were used");
    commit(&mut keyspace);
    evict(&mut keyspace, Policy::All(Rank::Idle), 0);
    assert_eq!((keyspace.size(0), keyspace.data_bytes()), (0, Some(0)));
}

/// Keys of a skewed distribution, read again and again, and written where they are missing: hits beside those of a cache that keeps exactly
/// the keys used last, and of one that evicts any.
#[test]
fn hits_are_near_those_of_exact_lru() {
    const KEYS: usize = 4_000;
    const KEPT: u64 = 1_000;
    let skewed = |random: &mut Random| (random.below(KEYS) * random.below(KEYS) / KEYS * random.below(KEYS) / KEYS) as u64;
    let hits = |policy: Policy| {
        let (mut keyspace, mut random, mut hits) = (fresh(), Random(3), 0);
        keyspace.set_counting(Counting { is_on: policy.is_by_frequency(), ..Counting::default() });
        for request in 0..20_000u64 {
            keyspace.set_now(1_000_000 + request * 100);
            let n = skewed(&mut random);
            if read(&mut keyspace, n) {
                hits += 1;
            } else {
                keyspace.set_string(0, name(n).as_bytes(), &[b'x'; EACH as usize - 10], None).unwrap();
                keyspace.evict(policy, 5, KEPT * EACH).unwrap();
                commit(&mut keyspace);
            }
        }
        assert!(keyspace.data_bytes().unwrap() <= (KEPT + 20) * EACH);
        hits
    };
    let exact = {
        let (mut random, mut hits, mut used) = (Random(3), 0, BTreeMap::new());
        for request in 0..20_000u64 {
            hits += i32::from(used.insert(skewed(&mut random), request).is_some());
            if used.len() as u64 > KEPT {
                let oldest = used.iter().min_by_key(|(_, last)| **last).map(|(n, _)| *n).unwrap();
                used.remove(&oldest);
            }
        }
        hits
    };
    let [idle, frequency, random] = [Rank::Idle, Rank::Frequency, Rank::Random].map(|rank| hits(Policy::All(rank)));
    assert!(exact - idle < (exact - random) / 3, "{idle} of {exact}, at random {random}");
    assert!(frequency > random, "{frequency} of {exact}, at random {random}");
}
