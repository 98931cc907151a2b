use super::*;

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

fn numbers(set: &RangeTombstones) -> usize {
    set.fragments().iter().map(|fragment| fragment.seqs.len()).sum()
}

/// Tombstone `n` of these deletes all keys up to `n`, and has number `n`.
fn truncate(mem: &Mem, n: u64) {
    mem.add_tombstone(b"", &key(n + 1), n);
}

#[test]
fn readers_at_all_numbers_see_many_tombstones_that_lie_in_each_other() {
    let mem = Mem::new(&Arc::default(), 1, 0);
    let check = |newest: u64, seq: Seq| {
        let set = mem.tombstones(seq);
        for probe in [0, 1, seq.saturating_sub(1), seq, seq.saturating_add(1), newest / 2, newest, newest + 1] {
            let seen = seq.min(newest);
            let expected = (probe <= seen && seen > 0).then_some(seen);
            assert_eq!(set.covering(&key(probe), seq), expected, "key {probe} at {seq} of {newest}");
        }
        assert!(numbers(&set) <= SHARED_NUMBERS_MIN.max(SHARED_NUMBERS * newest as usize), "{newest}");
    };
    for n in 1..=600 {
        truncate(&mem, n);
        for seq in [1, n / 2, n - 1, n, n + 1, MAX_SEQ, n / 3, n] {
            check(n, seq);
        }
    }
    assert!(mem.is_deep.load(Ordering::Relaxed));
}

#[test]
fn tombstones_beside_each_other_are_shared_by_all_readers() {
    let mem = Mem::new(&Arc::default(), 1, 0);
    for n in 1..=10_000 {
        mem.add_tombstone(&key(2 * n), &key(2 * n + 1), n);
    }
    let (early, late) = (mem.tombstones(7), mem.tombstones(MAX_SEQ));
    assert!(Arc::ptr_eq(&early, &late));
    assert_eq!(numbers(&late), 10_000);
}

#[test]
fn a_flush_takes_of_many_tombstones_what_snapshots_see() {
    let (older, newer) = (Mem::new(&Arc::default(), 1, 0), Mem::new(&Arc::default(), 1, 0));
    (1..=2000).for_each(|n| truncate(&older, n));
    (2001..=4000).for_each(|n| truncate(&newer, n));
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
