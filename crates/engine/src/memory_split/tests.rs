//! The division under simulated work: a tree whose merges follow the levels, readers whose misses follow the cache.

use super::*;

const BUDGET: u64 = 256 << 20;
const DATA: u64 = 4 << 30;

/// Work as it is felt with a given division.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// Bytes that there are.
    data: u64,
    /// Bytes written per second.
    writes: f64,
    /// Reads per second of blocks chosen with density falling as `1/x` over the data.
    reads: f64,
}

impl Work {
    /// Observations of one second; merges end in bursts, every fifth second.
    fn seen(self, second: usize, memtables: u64, budget: u64) -> Seen {
        let levels = (2.0 * self.data as f64 / memtables as f64).ln() / 10f64.ln();
        // 3 ns per byte, rewritten 5 times per level.
        let merging = self.writes * 3.0 * 5.0 * levels;
        let cache = (budget - memtables) as f64;
        let hits_between = |from: f64, to: f64| (to / from).ln() / (self.data as f64 / 4096.0).ln() * self.reads;
        let window = cache / 2.0;
        Seen {
            seconds: 1.0,
            merge_ns: if second.is_multiple_of(5) { 5.0 * merging } else { 0.0 },
            tree_bytes: self.data,
            ghost_hits: hits_between(cache, cache + window) as u64,
            ghost_bytes: window as u64,
            miss_ns: 100_000.0,
        }
    }
}

fn run(split: &mut MemorySplit, work: Work, seconds: usize) -> (u64, u64) {
    let (mut least, mut most) = (u64::MAX, 0);
    for second in 0..seconds {
        let memtables = split.observe(&work.seen(second, split.memtables(), split.budget()));
        let budget = split.budget();
        assert!((budget.min(MOST_MEMTABLES) / FLOOR..=budget - budget / FLOOR).contains(&memtables));
        if second + 60 >= seconds {
            (least, most) = (least.min(memtables), most.max(memtables));
        }
    }
    (least, most)
}

const READ_HEAVY: Work = Work { data: DATA, writes: 1e5, reads: 50_000.0 };
const WRITE_HEAVY: Work = Work { data: DATA, writes: 5e7, reads: 100.0 };

#[test]
fn bytes_go_to_where_the_work_is_and_back() {
    let mut split = MemorySplit::new(BUDGET, 128 << 20);
    let (least, most) = run(&mut split, READ_HEAVY, 300);
    assert_eq!((least, most), (BUDGET / FLOOR, BUDGET / FLOOR), "{}", split.reason);
    let (least, _) = run(&mut split, WRITE_HEAVY, 300);
    assert!(least > BUDGET / 4 * 3, "{least} {}", split.reason);
    let (_, most) = run(&mut split, READ_HEAVY, 300);
    assert_eq!(most, BUDGET / FLOOR);
}

#[test]
fn between_the_two_it_rests_near_the_least_cost() {
    for (writes, reads) in [(1e7, 5000.0), (2e6, 3000.0), (2e7, 2000.0)] {
        let work = Work { data: DATA, writes, reads };
        // Per second, merging and missing, over all divisions.
        let cost = |memtables: u64| {
            let levels = (2.0 * DATA as f64 / memtables as f64).ln() / 10f64.ln();
            let cached = ((BUDGET - memtables) as f64 / 4096.0).ln() / (DATA as f64 / 4096.0).ln();
            writes * 15.0 * levels + (1.0 - cached) * reads * 100_000.0
        };
        let best = (BUDGET / FLOOR..=BUDGET - BUDGET / FLOOR).step_by(1 << 20).map(cost).fold(f64::INFINITY, f64::min);
        for start in [BUDGET / 8, BUDGET / 2, BUDGET / 8 * 7] {
            let mut split = MemorySplit::new(BUDGET, start);
            let (least, most) = run(&mut split, work, 400);
            assert!(most - least <= BUDGET / 16, "it does not swing: {least} to {most}");
            assert!(
                cost(split.memtables()) < 1.05 * best,
                "{writes} {reads}: {} costs {}, {best}",
                split.memtables(),
                cost(split.memtables())
            );
        }
    }
}

/// If the budget is many times what memtables may get, a step is still small beside what they have.
#[test]
fn large_budgets_rest_too() {
    for budget in [8 << 30, 64 << 30] {
        for (writes, reads) in [1e5, 5e5, 2e6, 5e6, 2e7, 1e8].into_iter().flat_map(|w| [1e3, 1e4, 1e5, 1e6].map(|r| (w, r))) {
            let work = Work { data: 1 << 40, writes, reads };
            let mut split = MemorySplit::new(budget, 512 << 20);
            let (least, most) = run(&mut split, work, 400);
            assert!(most - least <= MOST_MEMTABLES / 16, "{budget} {work:?}: it swings from {least} to {most}");
        }
    }
}

#[test]
fn nothing_happens_without_work_or_without_gain() {
    let mut split = MemorySplit::new(BUDGET, 100 << 20);
    run(&mut split, Work { data: DATA, writes: 0.0, reads: 0.0 }, 100);
    assert_eq!(split.memtables(), 100 << 20);
    // A few kilobytes and a few reads a second are not worth a step.
    run(&mut split, Work { data: DATA, writes: 1000.0, reads: 1.0 }, 100);
    assert_eq!(split.memtables(), 100 << 20);
    // Neither does a clock that stands still.
    assert_eq!(split.observe(&Seen::default()), 100 << 20);
}

#[test]
fn a_tree_that_fits_its_memtables_has_nothing_to_save() {
    let mut split = MemorySplit::new(BUDGET, 100 << 20);
    for _ in 0..100 {
        split.observe(&Seen { seconds: 1.0, merge_ns: 1e9, tree_bytes: 1 << 20, ..Seen::default() });
    }
    assert_eq!(split.memtables(), 100 << 20);
}

#[test]
fn memtables_stay_short_to_replay() {
    let mut split = MemorySplit::new(64 << 30, 1 << 30);
    // More than the most, because it was set so: it is not taken away, and no more is given.
    for _ in 0..100 {
        split.observe(&Seen { seconds: 1.0, merge_ns: 1e9, tree_bytes: 1 << 40, ..Seen::default() });
    }
    assert_eq!(split.memtables(), 1 << 30);
    let mut split = MemorySplit::new(64 << 30, 1 << 20);
    for _ in 0..100 {
        split.observe(&Seen { seconds: 1.0, merge_ns: 1e9, tree_bytes: 1 << 40, ..Seen::default() });
    }
    assert_eq!(split.memtables(), MOST_MEMTABLES);
}
