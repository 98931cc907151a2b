//! A cache under simulated readers and a clock that a miss moves.

use super::*;
use crate::cache::tests::{Bytes, Home};
use crate::cache::{Cached, Packed, Part};
use crate::clock::{Clock, ManualClock};
use crate::codec;
use std::sync::Arc;

const BLOCKS: usize = 2000;
/// Reads of a simulated second: enough to be typical of it.
const READS: usize = 6000;
const LENGTH: usize = 1000;

/// Readers of one table of [`BLOCKS`] blocks that pack to a third.
struct World {
    clock: Arc<ManualClock>,
    cache: Arc<Cache>,
    home: Arc<Home>,
    splitter: Splitter,
    state: u64,
    miss_ns: u64,
}

impl World {
    fn new(capacity: usize, miss_ns: u64) -> World {
        let clock = Arc::new(ManualClock::default());
        let cache = Cache::with((capacity * LENGTH) as u64, true, clock.clone());
        // The number decides which blocks are watched: always the same ones, whatever tests ran before.
        World { clock, cache, home: Home::numbered(7, BLOCKS), splitter: Splitter::default(), state: 1, miss_ns }
    }

    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    fn read(&mut self, slot: usize) {
        let number = slot as u32;
        // A hit takes 300 ns, unpacking 3 us.
        self.clock.advance_ns(300);
        if self.home.slots[slot].load().is_some() {
            return;
        }
        let timer = self.cache.timer(&*self.home, number);
        let keep = |raw: Vec<u8>| self.cache.keep(&self.home, number, &self.home.slots[slot], &Cached::new(Part::Data, Bytes(raw), LENGTH));
        if let Some(packed) = self.cache.take_packed(&*self.home, number) {
            let mut raw = vec![0; packed.raw as usize];
            codec::decompress(packed.codec, None, &packed.bytes, &mut raw).unwrap();
            keep(raw);
            self.clock.advance_ns(3000);
            timer.into_iter().for_each(|start| self.cache.time_unpacked(start));
            return;
        }
        self.cache.missed(Part::Data, &*self.home, number);
        self.clock.advance_ns(self.miss_ns);
        timer.into_iter().for_each(|start| self.cache.time_miss(start, LENGTH as u64, LENGTH as u64 / 3));
        let mut x = slot as u64;
        let noise = std::iter::repeat_with(move || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
            (x >> 40) as u8
        });
        let raw: Vec<u8> = noise.take(LENGTH / 5).chain(std::iter::repeat_n(0, LENGTH - LENGTH / 5)).collect();
        match Packed::pack(&raw).filter(|_| self.cache.packs()) {
            Some(packed) => self.cache.keep_packed(&*self.home, number, &self.home.slots[slot], packed),
            None => keep(raw),
        }
    }

    /// Simulated seconds with a tick in each; `skew` 0 reads all `blocks` alike, larger ones mostly the first.
    fn run(&mut self, seconds: usize, blocks: usize, skew: i32) {
        for _ in 0..seconds {
            let end = self.clock.monotonic_ns() + 1_000_000_000;
            for _ in 0..READS {
                let at = self.random().powi(skew + 1) * blocks as f64;
                self.read(at as usize);
                if self.clock.monotonic_ns() >= end {
                    break;
                }
            }
            self.splitter.tick(&self.cache);
        }
    }

    fn share(&self) -> f64 {
        self.cache.packed_capacity() as f64 / self.cache.capacity() as f64
    }

    /// Nanoseconds of a read.
    fn cost(&mut self, blocks: usize, skew: i32) -> f64 {
        let start = self.clock.monotonic_ns();
        for _ in 0..READS {
            let at = self.random().powi(skew + 1) * blocks as f64;
            self.read(at as usize);
        }
        (self.clock.monotonic_ns() - start) as f64 / READS as f64
    }
}

#[test]
fn nothing_is_packed_where_all_fits_or_the_medium_is_fast() {
    let mut fits = World::new(2 * BLOCKS, 100_000);
    fits.run(30, BLOCKS, 0);
    assert_eq!(fits.share(), 0.0, "{:?}", fits.splitter.last);
    let mut fast = World::new(BLOCKS / 4, 2000);
    fast.run(60, BLOCKS, 1);
    assert_eq!(fast.share(), 0.0, "{:?}", fast.splitter.last);
}

#[test]
fn a_slow_medium_and_data_that_fit_only_packed() {
    for (quarters, skew) in [(1, 0), (2, 1), (1, 3), (3, 1)] {
        let (mut best, mut shares) = (f64::INFINITY, Vec::new());
        for eighths in [0, 2, 4, 6] {
            let mut fixed = World::new(BLOCKS * quarters / 4, 100_000);
            fixed.cache.resize(fixed.cache.capacity(), fixed.cache.capacity() * eighths / 8);
            for _ in 0..5 {
                fixed.cost(BLOCKS, skew);
            }
            let cost = fixed.cost(BLOCKS, skew);
            shares.push((eighths, cost as u64));
            best = best.min(cost);
        }
        let mut auto = World::new(BLOCKS * quarters / 4, 100_000);
        auto.run(100, BLOCKS, skew);
        let cost = auto.cost(BLOCKS, skew);
        let (share, last) = (auto.share(), auto.splitter.last);
        assert!(cost < best * 1.15, "{quarters} skew {skew}: {cost:.0} at {share:.2}, fixed {shares:?}; {last:?}");
    }
}

#[test]
fn it_comes_to_rest_and_moves_back_when_the_work_changes() {
    let mut world = World::new(BLOCKS / 2, 100_000);
    world.run(120, BLOCKS, 0);
    assert!(world.share() > 0.2, "{:?}", world.splitter.last);
    let (mut least, mut most) = (1.0f64, 0.0f64);
    for _ in 0..60 {
        world.run(1, BLOCKS, 0);
        (least, most) = (least.min(world.share()), most.max(world.share()));
    }
    assert!(most - least < 0.25, "{least} to {most}");
    // The page cache has the data now.
    world.miss_ns = 1500;
    world.run(200, BLOCKS, 0);
    assert_eq!(world.share(), 0.0, "{:?}", world.splitter.last);
}

#[test]
fn too_few_reads_decide_nothing() {
    let mut world = World::new(BLOCKS / 4, 100_000);
    for slot in 0..900 {
        world.read(slot);
    }
    world.splitter.tick(&world.cache);
    assert_eq!(world.splitter.last.reason, Splitter::default().last.reason);
}

#[test]
fn the_decision_by_itself() {
    let seen = Signals {
        at_ns: 1_000_000_000,
        misses: 5000,
        ghost_hits: 2000,
        ghost_bytes: 8 << 20,
        spared: 100,
        plain_bytes: 2,
        packed_bytes: 1,
        ..Signals::default()
    };
    let slow = Observed { capacity: 32 << 20, plain_used: 32 << 20, seen, miss_ns: 100_000.0, unpack_ns: 5000.0, ..Observed::default() };
    assert_eq!(decide(&slow).packed, 1 << 20);
    let no_gain = [
        Observed { miss_ns: 4000.0, ..slow },
        Observed { seen: Signals { ghost_hits: 0, ..seen }, ..slow },
        Observed { seen: Signals { packed_bytes: 2, ..seen }, ..slow },
        Observed { seen: Signals { spared: 10_000_000, ..seen }, ..slow },
        Observed { seen: Signals { other_misses: 20_000, ..seen }, ..slow },
    ];
    for observed in no_gain {
        assert_eq!(decide(&observed).packed, 0, "{observed:?}");
        let packing = Observed { packed: 8 << 20, packed_used: 8 << 20, ..observed };
        assert!(decide(&packing).packed <= 8 << 20, "{packing:?}");
    }
    // Indexes that do not fit any more are worse than misses of blocks.
    let thrashing = Observed { packed: 8 << 20, packed_used: 8 << 20, ..no_gain[4] };
    assert_eq!(decide(&thrashing).packed, 7 << 20);
    let empty = Observed { packed: 16 << 20, packed_used: 1 << 20, ..slow };
    assert_eq!(decide(&empty).packed, 15 << 20);
    let full = Observed { packed: 28 << 20, packed_used: 28 << 20, plain_used: 4 << 20, ..slow };
    assert_eq!(decide(&full).packed, 28 << 20, "a tenth is left");
}
