//! Study 2's workloads in small: Zipf writes, Zipf reads over them, first with every key in its place at once, then in a tree of runs.

mod model;

use super::*;
use crate::settings::TierBudget;
use model::{Table, Tree, Zipf, random};

const ALPHAS: [f64; 3] = [0.5, 0.9, 1.2];
const KEYS: usize = 4000;
const WRITES: u64 = 120_000;

/// Placement as it would be if every key sank the moment it is old enough: the newest `age` writes are hot. A read is one of a key that
/// exists.
struct Ideal {
    latest: Vec<u64>,
    now: u64,
}

impl Ideal {
    fn write(&mut self, key: usize) {
        self.now += 1;
        self.latest[key] = self.now;
    }

    fn live(&self) -> usize {
        self.latest.iter().filter(|seq| **seq > 0).count()
    }

    fn younger(&self, age: u64) -> usize {
        let from = self.now.saturating_sub(age);
        self.latest.iter().filter(|seq| **seq > from && **seq > 0).count()
    }

    /// The present versions as tables, each with a sample of its keys.
    fn tables(&self) -> Vec<Table> {
        Table::all(&self.latest, self.latest.len() / 64)
    }
}

/// Result of a run: the share of reads that hit hot data, and the share of the data that was hot, on average over the second half.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    hits: f64,
    bytes: f64,
}

/// Writes and reads by turns, 30 of each per key, with data hot below the age that `age` tells after each write per eight keys.
fn ideal(keys: usize, alpha: f64, mut age: impl FnMut(&Ideal, &[u64]) -> u64) -> Outcome {
    let (zipf, mut seed) = (Zipf::new(keys, alpha), 42);
    let writes = 30 * keys as u64;
    let mut model = Ideal { latest: vec![0; keys], now: 0 };
    let (mut hot, mut reads, mut hits, mut samples, mut bytes) = (u64::MAX, 0.0, 0.0, 0.0, 0.0);
    let mut ages = Vec::new();
    for n in 1..=writes {
        model.write(zipf.draw(random(&mut seed)));
        let seq = model.latest[zipf.draw(random(&mut seed))];
        if seq > 0 {
            ages.push(model.now - seq);
            if n > writes / 2 {
                reads += 1.0;
                hits += f64::from(u8::from(model.now - seq < hot));
            }
        }
        if n % (keys as u64 / 8) == 0 {
            hot = age(&model, &ages);
            ages.clear();
            if n > writes / 2 {
                samples += 1.0;
                bytes += model.younger(hot) as f64 / model.live() as f64;
            }
        }
    }
    Outcome { hits: hits / reads, bytes: bytes / samples }
}

/// The engine's own choice in [`ideal`], from one read in four.
fn ideal_auto(keys: usize, alpha: f64, budget: TierBudget) -> Outcome {
    let auto = Auto::default();
    auto.heat().watch(true);
    ideal(keys, alpha, |model, ages| {
        ages.iter().step_by(4).for_each(|age| auto.heat().read(model.now - age, model.now));
        let tables = model.tables();
        let tables: Vec<_> = tables.iter().map(Table::holding).collect();
        auto.review(&Observed { now: model.now, budget, tables: &tables, unix_seconds: 0 });
        model.now - auto.borders(model.now).cold
    })
}

/// The best of many fixed ages within a budget.
fn best(budget: f64, run: impl Fn(u64) -> Outcome) -> (u64, Outcome) {
    let ages = (0..40).map(|step| (50.0 * 1.22f64.powi(step)) as u64);
    let runs = ages.map(|age| (age, run(age))).filter(|(_, outcome)| outcome.bytes <= budget);
    runs.max_by(|(_, a), (_, b)| a.hits.total_cmp(&b.hits)).expect("the smallest age fits")
}

#[test]
fn the_choice_is_as_good_as_the_best_age_within_the_budget() {
    for alpha in ALPHAS {
        for percent in [10.0, 25.0, 50.0] {
            let auto = ideal_auto(KEYS, alpha, TierBudget::Percent(percent));
            let (age, best) = best(percent / 100.0, |age| ideal(KEYS, alpha, |_, _| age));
            println!("alpha {alpha} budget {percent} %: auto {auto:.3?}, best {age} {best:.3?}");
            assert!(auto.hits >= 0.95 * best.hits, "alpha {alpha}, {percent} %: {auto:?}, best {best:?} at {age}");
            assert!(auto.bytes <= percent / 100.0 * 1.06, "alpha {alpha}, {percent} %: {auto:?}");
        }
    }
}

#[test]
fn strong_skew_needs_little_of_the_data() {
    // The more keys, the less of them are hot: with 4,000 keys no age reaches nine tenths by much.
    let auto = ideal_auto(10 * KEYS, 1.2, TierBudget::Percent(25.0));
    println!("{auto:.3?}");
    assert!(auto.hits > 0.9 && auto.bytes <= 0.2625, "{auto:?}");
}

/// Result of a run of the tree.
#[derive(Debug, Clone, Copy)]
struct Merged {
    /// The share of the reads that tables answered which the levels above the last did.
    hits: f64,
    /// The share of the data that merges left above the last level, on average.
    left: f64,
}

/// Runs a tree in which everything is merged after each `flushes` memtables; data younger than `fixed`, or than the engine chooses, is then
/// kept from the last level. Counted from the second half on.
fn tree(alpha: f64, flushes: u64, fixed: Option<u64>) -> Merged {
    let (zipf, mut seed) = (Zipf::new(KEYS, alpha), 42);
    let mut tree = Tree::new(KEYS, flushes);
    let auto = Auto::default();
    auto.heat().watch(true);
    let (mut reads, mut hits, mut merges, mut left, mut nth) = (0.0, 0.0, 0.0, 0.0, 0);
    for n in 1..=WRITES {
        if tree.write(zipf.draw(random(&mut seed))) {
            let chosen = || {
                let holdings: Vec<_> = tree.tables().map(Table::holding).collect();
                auto.review(&Observed { now: tree.now, budget: TierBudget::Percent(25.0), tables: &holdings, unix_seconds: 0 });
                auto.borders(tree.now).cold
            };
            let cold = fixed.map_or_else(chosen, |age| tree.now.saturating_sub(age));
            if tree.compact(cold) && n > WRITES / 2 {
                let (fast, all) = tree.bytes();
                merges += 1.0;
                left += fast as f64 / all as f64;
            }
        }
        let Some((seq, fast)) = tree.read(zipf.draw(random(&mut seed))) else { continue };
        nth += 1;
        if nth % 4 == 0 {
            auto.heat().read(seq, tree.now);
        }
        if n > WRITES / 2 {
            reads += 1.0;
            hits += f64::from(u8::from(fast));
        }
    }
    Merged { hits: hits / reads, left: left / merges }
}

#[test]
fn with_full_merges_now_and_then_the_choice_is_as_good_too() {
    for alpha in ALPHAS {
        for flushes in [2, 8, 24] {
            let auto = tree(alpha, flushes, None);
            let fixed = (0..16).map(|step| (150.0 * 1.4f64.powi(step)) as u64).map(|age| (age, tree(alpha, flushes, Some(age))));
            let within = fixed.filter(|(_, merged)| merged.left <= 0.255);
            let (age, best) = within.max_by(|(_, a), (_, b)| a.hits.total_cmp(&b.hits)).expect("the smallest age fits");
            println!("alpha {alpha}, merges after {flushes} memtables: auto {auto:.3?}, best {age} {best:.3?}");
            assert!(auto.hits >= 0.95 * best.hits, "alpha {alpha}, {flushes}: {auto:?}, at {age} {best:?}");
            assert!(auto.left <= 0.25 * 1.08, "alpha {alpha}, {flushes}: {auto:?}");
        }
    }
}

/// All data is deleted, and so many writes later that nothing is left of the counts.
#[test]
fn what_was_known_of_data_that_is_gone_is_not_told_of() {
    let auto = Auto::default();
    auto.heat().watch(true);
    (1..=1000).for_each(|seq| auto.heat().read(seq, 1000));
    let table = Holding { bytes: 1_000_000, entries: 1000, seqs: (1, 1000), sample: &[] };
    let seen = |now, tables: &[Holding<'_>]| {
        auto.review(&Observed { now, budget: TierBudget::Percent(25.0), tables, unix_seconds: 0 });
        auto.why(&|_| None)
    };
    assert!(seen(1000, &[table]).contains("of 1000 reads"));
    let why = seen(1 << 40, &[]);
    assert!(why.ends_with("too little is read and replaced to say more") && !why.contains("NaN"), "{why}");
}

#[test]
fn a_review_is_due_after_a_pause_and_until_something_is_chosen() {
    let auto = Auto::default();
    assert_eq!([0, 1, 2].map(|now| auto.is_due(now, 100)), [true; 3], "there was nothing to choose about");
    let table = Holding { bytes: 1000, entries: 1000, seqs: (1, 1000), sample: &[] };
    auto.review(&Observed { now: 1000, budget: TierBudget::Percent(25.0), tables: &[table], unix_seconds: 0 });
    assert_eq!([3, 101, 102, 103, 202].map(|now| auto.is_due(now, 100)), [false, false, true, false, true]);
}
