use super::*;
use crate::merge::testing::Rng;

/// Simulated writes with their times, and the samples taken meanwhile.
struct World {
    rng: Rng,
    now: u64,
    /// The time of number i + 1.
    written: Vec<u64>,
    map: TimeMap,
}

impl World {
    fn new(seed: u64) -> World {
        World { rng: Rng(seed), now: 1_700_000_000, written: Vec::new(), map: TimeMap::default() }
    }

    fn sample(&mut self) {
        self.map.add(self.written.len() as Seq, self.now);
    }

    /// Writes, time and samples in any mixture.
    fn random(seed: u64) -> World {
        let mut world = World::new(seed);
        let (longest, rare) = (1 + world.rng.below(1000), 1 + world.rng.below(30));
        for _ in 0..world.rng.below(1500) {
            match world.rng.below(3) {
                0 => world.now += world.rng.below(longest),
                1 if world.rng.one_in(rare) => world.sample(),
                _ => world.written.push(world.now),
            }
        }
        world
    }

    /// Everything that the map says of the numbers `min..=max` is true.
    fn check(&self, map: &TimeMap, min: Seq, max: Seq, seed: u64) {
        for seq in min..=max {
            let written = self.written[seq as usize - 1];
            assert!(map.not_before(seq).is_none_or(|time| time <= written), "seed {seed}: {seq}");
            assert!(map.not_after(seq).is_none_or(|time| written <= time), "seed {seed}: {seq}");
        }
        for &(_, time) in map.samples() {
            for time in [time.saturating_sub(1), time, time + 1] {
                let old = map.seq_at(time).unwrap_or(0).min(max);
                assert!((min..=old).all(|seq| self.written[seq as usize - 1] <= time), "seed {seed}: {old} at {time}");
            }
        }
    }
}

fn is_ascending(map: &TimeMap) -> bool {
    map.samples().windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
}

#[test]
fn what_it_says_is_true_also_of_a_part_and_after_a_loss() {
    for seed in 0..400 {
        let mut world = World::random(seed);
        let last = world.written.len() as Seq;
        assert!(is_ascending(&world.map), "seed {seed}");
        world.check(&world.map, 1, last, seed);
        let min = 1 + world.rng.below(last.max(1));
        let max = (min + world.rng.below(last.max(1))).min(last);
        if min <= max {
            let part = world.map.within(min, max);
            assert!(is_ascending(&part) && part.samples().len() <= MAX_IN_TABLE, "seed {seed}");
            world.check(&part, min, max, seed);
        }
        // The newest samples are lost, and the next one comes late.
        let kept = world.rng.below(world.map.samples().len() as u64 + 1) as usize;
        let mut less = TimeMap { samples: world.map.samples()[..kept].to_vec() };
        let later = world.now + 1000;
        less.add(last, later);
        for time in (0..50).map(|n| world.now - n * world.now / 100_000).chain([world.now + 5, later]) {
            assert!(less.seq_at(time) <= world.map.seq_at(time).max(Some(last).filter(|_| time >= later)), "seed {seed}: younger or equal");
        }
        for seq in 1..=last {
            assert!(less.not_after(seq) >= world.map.not_after(seq), "seed {seed}: younger or equal");
        }
    }
}

#[test]
fn a_window_is_known_to_a_hundredth_whatever_the_others_are() {
    // A write per second for 40 days, a sample as often as a window of ten minutes asks for.
    let mut world = World::new(3);
    let (period, end) = (6, 40 * 86_400);
    for second in 0..end {
        world.now += 1;
        world.written.push(world.now);
        if second % period == 0 {
            world.sample();
        }
    }
    for window in [600, 3600, 86_400, 7 * 86_400, 30 * 86_400] {
        let limit = world.now - window;
        let old = world.map.seq_at(limit).unwrap();
        let late = limit - world.written[old as usize - 1];
        assert!(late <= window / RESOLUTION + period, "{window}: {late} seconds too late");
    }
    let count = world.map.samples().len();
    assert!(count < 1500, "{count} samples");
}

#[test]
fn the_number_of_samples_grows_with_the_logarithm_of_time() {
    let mut rng = Rng(7);
    for longest in [2, 1000, 1 << 40] {
        let (mut map, mut seq, mut time) = (TimeMap::default(), 0, 0u64);
        for _ in 0..20_000 {
            seq += 1 + rng.below(1000);
            time = time.saturating_add(1 + rng.below(longest));
            map.add(seq, time);
        }
        // Two gaps together are more than a hundredth of their age: their ages grow by that from pair to pair.
        let pairs = (time as f64).ln() / (1.0 + 1.0 / RESOLUTION as f64).ln();
        assert!((map.samples().len() as f64) < 2.0 * pairs + 2.0 * RESOLUTION as f64, "{longest}: {}", map.samples().len());
    }
}

#[test]
fn a_map_is_the_same_when_it_is_built_again() {
    for seed in 0..200 {
        let map = World::random(seed).map;
        let mut again = TimeMap::default();
        map.samples().iter().for_each(|&(seq, time)| again.add(seq, time));
        assert_eq!(again, map, "seed {seed}");
    }
}

#[test]
fn samples_that_say_less_than_is_known_change_nothing() {
    let mut map = TimeMap::default();
    assert_eq!((map.seq_at(u64::MAX), map.not_before(1), map.not_after(1), map.newest()), (None, None, None, None));
    map.add(10, 100);
    map.add(10, 200);
    map.add(5, 300);
    assert_eq!(map.samples(), [(10, 100)], "those numbers had been written by then");
    map.add(20, 100);
    assert_eq!(map.samples(), [(20, 100)], "one time, more numbers");
    map.add(30, 40);
    assert_eq!(map.samples(), [(30, 100)], "a time that goes back stands still");
    map.add(40, 101);
    assert_eq!((map.seq_at(99), map.seq_at(100), map.seq_at(101)), (None, Some(30), Some(40)));
    assert_eq!((map.not_before(30), map.not_before(31), map.not_before(40), map.not_before(41)), (None, Some(100), Some(100), Some(101)));
    assert_eq!((map.not_after(1), map.not_after(30), map.not_after(31), map.not_after(41)), (Some(100), Some(100), Some(101), None));
    assert_eq!((map.above(29), map.above(40)), (&[(30, 100), (40, 101)][..], &[][..]));
}

#[test]
fn the_map_of_a_table_is_small_whatever_there_is() {
    let mut rng = Rng(1);
    let mut largest = 0;
    for round in 0..300 {
        let (seq_bits, time_bits) = (rng.below(47), rng.below(54));
        let (seqs, times) = (1 + rng.below(1 << seq_bits), 1 + rng.below(1 << time_bits));
        let (mut seq, mut time) = (0, rng.below(1 << 40));
        let mut map = TimeMap::default();
        for _ in 0..1 + rng.below(400) {
            seq += 1 + rng.below(seqs);
            time += 1 + rng.below(times);
            map.samples.push((seq, time));
        }
        let (newest, part) = (map.newest().unwrap(), map.within(1, seq));
        let mut bytes = Vec::new();
        part.encode(&mut bytes);
        assert!(bytes.len() < MAX_BYTES_IN_TABLE && part.samples().len() <= MAX_IN_TABLE, "round {round}: {} bytes", bytes.len());
        assert_eq!(part.newest(), Some(newest), "round {round}");
        assert_eq!(TimeMap::decode(&bytes), Some(part), "round {round}");
        largest = largest.max(bytes.len());
    }
    assert!(largest > 900, "the limit of bytes was never met: {largest}");
}

#[test]
fn a_table_gets_what_concerns_it() {
    let map = TimeMap { samples: vec![(10, 100), (20, 200), (30, 300), (40, 400)] };
    assert_eq!(map.within(21, 30).samples(), [(20, 200), (30, 300)]);
    assert_eq!(map.within(15, 35).samples(), [(10, 100), (20, 200), (30, 300), (35, 400)]);
    assert_eq!(map.within(1, 5).samples(), [(5, 100)]);
    assert_eq!(map.within(41, 50).samples(), [(40, 400)]);
    assert_eq!(map.within(0, 0).samples(), [(0, 100)]);
    assert_eq!(TimeMap::default().within(1, 5), TimeMap::default());
}

#[test]
fn damaged_bytes_are_refused_without_a_panic() {
    let map = TimeMap { samples: vec![(10, 100), (200, 2000), (MAX_SEQ, u64::MAX)] };
    let mut good = Vec::new();
    map.encode(&mut good);
    assert_eq!(TimeMap::decode(&good), Some(map));
    (0..good.len()).for_each(|end| assert_eq!(TimeMap::decode(&good[..end]), None));
    for bad in [&[1, 5][..], &[2, 5, 5, 0, 1], &[2, 5, 5, 1, 0], &[1, 5, 5, 0], &[0, 0], &[255, 255, 255, 255, 255, 1]] {
        assert_eq!(TimeMap::decode(bad), None, "{bad:?}");
    }
    let mut rng = Rng(9);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.next() as u8;
        if let Some(map) = TimeMap::decode(&bytes) {
            assert!(is_ascending(&map) && map.newest().is_none_or(|newest| newest.0 <= MAX_SEQ), "{bytes:?}");
        }
    }
}
