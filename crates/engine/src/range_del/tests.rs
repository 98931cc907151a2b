use super::*;
use crate::merge::testing::Rng;

type Raw = Vec<(Vec<u8>, Vec<u8>, Seq)>;

fn random(rng: &mut Rng) -> Raw {
    (0..rng.below(14)).map(|i| (rng.key(), rng.key(), if rng.one_in(3) { rng.below(8) } else { i })).collect()
}

fn naive(raw: &Raw, key: &[u8], snapshot: Seq) -> Option<Seq> {
    raw.iter().filter(|(a, b, seq)| a.as_slice() <= key && key < b.as_slice() && *seq <= snapshot).map(|t| t.2).max()
}

#[test]
fn covering_agrees_with_looking_at_every_tombstone() {
    for seed in 0..2000 {
        let mut rng = Rng(seed);
        let raw = random(&mut rng);
        let set = RangeTombstones::new(raw.clone());
        for _ in 0..40 {
            let (key, snapshot) = (rng.key(), rng.below(16));
            assert_eq!(set.covering(&key, snapshot), naive(&raw, &key, snapshot), "seed {seed} key {key:?}");
            let span = set.span(&key);
            assert!(span.from.is_none_or(|from| from <= key.as_slice()) && span.to.is_none_or(|to| key.as_slice() < to), "seed {seed}");
        }
        assert!(set.fragments().windows(2).all(|w| w[0].end <= w[1].start), "seed {seed}");
        assert!(set.fragments().iter().all(|f| f.start < f.end && f.seqs.is_sorted_by(|a, b| a > b)), "seed {seed}");
    }
}

#[test]
fn readers_at_snapshots_and_after_the_last_see_what_all_numbers_say() {
    for seed in 0..2000 {
        let mut rng = Rng(seed);
        let raw = random(&mut rng);
        let mut snapshots: Vec<Seq> = (0..rng.below(4)).map(|_| rng.below(12)).collect();
        snapshots.sort_unstable();
        let (all, seen) = (RangeTombstones::new(raw.clone()), RangeTombstones::seen_at(&snapshots, raw.clone()));
        let last = snapshots.last().copied().unwrap_or(0);
        for key in (0..40).map(|_| rng.key()).collect::<Vec<_>>() {
            for snapshot in snapshots.iter().copied().chain(last..16) {
                assert_eq!(
                    seen.covering(&key, snapshot),
                    all.covering(&key, snapshot),
                    "seed {seed} key {key:?} at {snapshot} of {snapshots:?}"
                );
            }
        }
        for fragment in seen.fragments() {
            assert!(fragment.seqs.is_sorted_by(|a, b| a > b), "seed {seed}");
            let seen = fragment.seqs.iter().filter(|seq| snapshots.last().is_some_and(|last| *seq <= last));
            assert!(seen.count() <= snapshots.len(), "seed {seed}");
        }
        let numbers = all.fragments().iter().map(|fragment| fragment.seqs.len()).sum::<usize>();
        assert!(numbers == 0 || RangeTombstones::of_few_numbers(raw, numbers - 1).is_none(), "seed {seed}");
    }
}

#[test]
fn clipped_pieces_put_together_are_the_whole() {
    for seed in 0..1000 {
        let mut rng = Rng(seed);
        let set = RangeTombstones::new(random(&mut rng));
        let mut cuts = [rng.key(), rng.key(), rng.key()];
        cuts.sort();
        let mut pieces = vec![set.clip(None, Some(&cuts[0]))];
        pieces.extend(cuts.windows(2).map(|w| set.clip(Some(&w[0]), Some(&w[1]))));
        pieces.push(set.clip(Some(&cuts[2]), None));
        assert_eq!(RangeTombstones::union(&pieces), set, "seed {seed}");
        for f in pieces[1].fragments() {
            assert!(cuts[0] <= f.start && f.end <= cuts[1], "seed {seed}");
        }
        assert_eq!(set.clip(Some(&cuts[2]), Some(&cuts[0])).fragments(), &[], "a clip of nothing, seed {seed}");
    }
}

#[test]
fn the_format_round_trips_and_damage_is_noticed() {
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let set = RangeTombstones::new(random(&mut rng));
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        assert_eq!(RangeTombstones::decode(Decoder::new(&bytes)).as_ref(), Some(&set), "seed {seed}");
        for cut in 0..bytes.len() {
            assert_eq!(RangeTombstones::decode(Decoder::new(&bytes[..cut])), None, "seed {seed}");
        }
        bytes.push(0);
        assert_eq!(RangeTombstones::decode(Decoder::new(&bytes)), None);
        // Any other byte: no panic, and what is accepted keeps the invariants.
        for _ in 0..50 {
            let mut damaged = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
            if let Some(set) = RangeTombstones::decode(Decoder::new(&damaged)) {
                assert!(set.fragments().iter().all(|f| f.start < f.end && f.seqs.is_sorted_by(|a, b| a > b)), "seed {seed}");
                assert!(set.fragments().windows(2).all(|w| w[0].end <= w[1].start), "seed {seed}");
            }
        }
    }
}

#[test]
fn decoding_refuses_each_kind_of_nonsense() {
    let encode = |fragments: &[(&[u8], &[u8], &[u64])]| {
        let mut out = Vec::new();
        put_varint(&mut out, fragments.len() as u64);
        for (start, end, numbers) in fragments {
            put_bytes(&mut out, start);
            put_bytes(&mut out, end);
            put_varint(&mut out, numbers.len() as u64);
            numbers.iter().for_each(|&n| put_varint(&mut out, n));
        }
        RangeTombstones::decode(Decoder::new(&out))
    };
    assert!(encode(&[]).is_some());
    assert!(encode(&[(b"a", b"b", &[7, 3]), (b"b", b"c", &[7])]).is_some());
    assert_eq!(encode(&[(b"b", b"b", &[7])]), None, "empty range");
    assert_eq!(encode(&[(b"a", b"b", &[])]), None, "no number");
    assert_eq!(encode(&[(b"a", b"b", &[7, 0])]), None, "the same number twice");
    assert_eq!(encode(&[(b"a", b"b", &[7, 8])]), None, "a number below zero");
    assert_eq!(encode(&[(b"a", b"b", &[MAX_SEQ + 1])]), None, "a number too large");
    assert_eq!(encode(&[(b"a", b"c", &[7]), (b"b", b"d", &[7])]), None, "overlap");
    assert_eq!(encode(&[(b"c", b"d", &[7]), (b"a", b"b", &[7])]), None, "order");
    assert_eq!(encode(&[(b"a", b"b", &[7]), (b"b", b"c", &[7])]), None, "not canonical");
    let mut huge = Vec::new();
    put_varint(&mut huge, u64::MAX);
    assert_eq!(RangeTombstones::decode(Decoder::new(&huge)), None, "a count without contents");
}
