//! Cuts the key range of one large compaction into pieces of about equal bytes.

/// The keys at which pieces end (and the next begin), at most `pieces - 1`. A segment is a first key and the bytes from there up to the
/// next segment of the same table; segments of all tables, in any order.
pub fn cuts(mut segments: Vec<(Vec<u8>, u64)>, pieces: usize) -> Vec<Vec<u8>> {
    segments.sort_unstable();
    let total: u64 = segments.iter().map(|s| s.1).sum();
    let share = (total / pieces.max(1) as u64).max(1);
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let (mut before, mut due) = (0, share);
    let first = segments.first().map(|s| s.0.clone());
    for (key, bytes) in segments {
        let fresh = cuts.last().or(first.as_ref()).is_some_and(|last| *last < key);
        if before >= due && fresh && cuts.len() + 1 < pieces {
            cuts.push(key);
            due = (before / share + 1) * share;
        }
        before += bytes;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::testing::Rng;

    #[test]
    fn equal_segments_give_equal_pieces() {
        let segments = (0..100u8).map(|k| (vec![k], 10)).collect();
        assert_eq!(cuts(segments, 4), [[25], [50], [75]]);
    }

    #[test]
    fn nothing_to_cut() {
        assert_eq!(cuts(vec![], 4), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(vec![(vec![1], 5), (vec![1], 5)], 4), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(vec![(vec![1], 5), (vec![2], 5)], 1), Vec::<Vec<u8>>::new());
        assert_eq!(cuts(vec![(vec![1], 0), (vec![2], 0)], 0), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn pieces_ascend_and_none_is_much_too_large() {
        for seed in 0..500 {
            let mut rng = Rng(seed);
            let segments: Vec<(Vec<u8>, u64)> =
                (0..rng.below(300)).map(|i| ((i as u32 * 7 % 301).to_be_bytes().to_vec(), rng.below(50))).collect();
            let pieces = 1 + rng.below(9) as usize;
            let total: u64 = segments.iter().map(|s| s.1).sum();
            let found = cuts(segments.clone(), pieces);
            assert!(found.len() < pieces && found.is_sorted_by(|a, b| a < b), "seed {seed}");
            let mut ends = found.clone();
            ends.push(vec![0xff; 5]);
            let mut from = Vec::new();
            for end in ends {
                let bytes: u64 = segments.iter().filter(|s| from <= s.0 && s.0 < end).map(|s| s.1).sum();
                assert!(bytes <= 2 * (total / pieces as u64) + 100, "seed {seed}: {bytes} of {total} in {pieces}");
                from = end;
            }
        }
    }
}
