use super::super::{Mem, tombstones_seen_at};
use super::*;

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

fn numbers(sets: &[Arc<RangeTombstones>]) -> usize {
    sets.iter().flat_map(|set| set.fragments()).map(|fragment| fragment.seqs.len()).sum()
}

/// Tombstone `n` of these deletes all keys up to `n`, and has number `n`.
fn truncate(tombstones: &MemTombstones, n: u64) {
    tombstones.add(b"", &key(n + 1), n);
}

#[test]
fn readers_at_all_numbers_see_many_tombstones_that_lie_in_each_other() {
    let tombstones = MemTombstones::default();
    for n in 1..=600 {
        truncate(&tombstones, n);
        for seq in [1, n / 2, n - 1, n, n + 1, MAX_SEQ, n / 3, n] {
            for probe in [0, 1, seq.saturating_sub(1), seq, seq.saturating_add(1), n / 2, n, n + 1] {
                let seen = seq.min(n);
                let expected = (probe <= seen && seen > 0).then_some(seen);
                assert_eq!(tombstones.covering(&key(probe), seq), expected, "key {probe} at {seq} of {n}");
            }
            let sets = tombstones.seen_at(seq);
            assert!(numbers(&sets) <= sets.len() * SHARED_NUMBERS_MIN.max(SHARED_NUMBERS * n as usize), "{n}");
        }
    }
    assert!(tombstones.parts.load().iter().any(|part| part.older.is_some()));
}

#[test]
fn tombstones_beside_each_other_are_shared_by_all_readers() {
    let tombstones = MemTombstones::default();
    for n in 1..=10_000 {
        tombstones.add(&key(2 * n), &key(2 * n + 1), n);
    }
    let (early, late) = (tombstones.seen_at(7), tombstones.seen_at(MAX_SEQ));
    assert!(early.len() == 1 && late.len() == 1 && Arc::ptr_eq(&early[0], &late[0]));
    assert_eq!(numbers(&late), 10_000);
}

/// However many range deletes come between two reads.
#[test]
fn parts_are_few() {
    for falls in [true, false] {
        let tombstones = MemTombstones::default();
        let mut number = 0;
        for round in 1..=200 {
            for _ in 0..if falls { 201 - round } else { round } {
                number += 1;
                tombstones.add(&key(2 * number), &key(2 * number + 1), number);
            }
            assert_eq!((tombstones.covering(&key(2), MAX_SEQ), tombstones.covering(&key(2 * number), MAX_SEQ)), (Some(1), Some(number)));
            let lengths: Vec<usize> = tombstones.parts.load().iter().map(|part| part.to - part.from).collect();
            assert!(lengths.is_sorted_by(|longer, next| *longer >= 2 * next), "{lengths:?}");
            assert_eq!(lengths.iter().sum::<usize>() as u64, number);
        }
    }
}

/// However often deletions and reads take turns, a tombstone is cut again only when its part has grown.
#[test]
fn a_tombstone_is_cut_few_times() {
    let tombstones = MemTombstones::default();
    let mut cut = 0;
    let mut known: Vec<(usize, usize)> = Vec::new();
    for n in 1..=4096 {
        tombstones.add(&key(2 * n), &key(2 * n + 1), n);
        assert_eq!((tombstones.covering(&key(2 * n), n), tombstones.covering(&key(2 * n), n - 1)), (Some(n), None));
        assert_eq!((tombstones.covering(&key(2), n), tombstones.covering(&key(2 * n + 1), n)), (Some(1), None));
        let parts: Vec<(usize, usize)> = tombstones.parts.load().iter().map(|part| (part.from, part.to)).collect();
        assert!(parts.is_sorted_by(|a, b| a.1 == b.0 && a.1 - a.0 >= 2 * (b.1 - b.0)), "{parts:?}");
        cut += parts.iter().filter(|part| !known.contains(part)).map(|(from, to)| to - from).sum::<usize>();
        known = parts;
    }
    assert_eq!(known, [(0, 4096)]);
    // All of them once for each doubling, half of them at each of the others.
    assert!(cut <= 4096 * 13, "{cut}");
}

#[test]
fn readers_beside_a_writer_see_all_up_to_their_number() {
    let tombstones = MemTombstones::default();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=3000).for_each(|n| truncate(&tombstones, n)));
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seq = tombstones.len() as u64;
                    assert_eq!(tombstones.covering(b"", seq), (seq > 0).then_some(seq));
                    if seq == 3000 {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
fn a_flush_takes_of_many_tombstones_what_snapshots_see() {
    let (older, newer) = (Mem::new(&Arc::default(), 1, 0), Mem::new(&Arc::default(), 1, 0));
    (1..=2000).for_each(|n| truncate(&older.tombstones, n));
    (2001..=4000).for_each(|n| truncate(&newer.tombstones, n));
    let set = tombstones_seen_at(&[newer, older], &[5, 700, 4000]);
    assert_eq!(set.covering(&key(3), 5), Some(5));
    assert_eq!(set.covering(&key(6), 5), None);
    assert_eq!(set.covering(&key(600), 700), Some(700));
    assert_eq!(set.covering(&key(3999), 4000), Some(4000));
    assert_eq!(
        set.fragments().iter().map(|fragment| fragment.seqs.clone()).collect::<Vec<_>>(),
        [vec![4000, 700, 5], vec![4000, 700], vec![4000]]
    );
}
