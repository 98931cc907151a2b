//! Random operations against a model, and the same operations under many settings: every answer must be right, and all histories equal.
//!
//! `MODEL_OPS` sets the number of operations in all, by more seeds; the last seed is a new one each time. `MODEL_SEED` runs one seed,
//! `MODEL_VARIANT` the variants whose name contains it. A failure prints its seed and the shortest list of operations found that still
//! fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model_support;

use model_support::crowd;
use model_support::operations::{Operation, generate};
use model_support::shrink::shrink;
use model_support::variants::{Variant, variants};
use model_support::world::World;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Operations in all, unless `MODEL_OPS` says otherwise.
const OPERATIONS: usize = 1_000_000;
/// Operations of one seed; they run under every variant.
const LENGTH: usize = 17_500;

/// So many seeds: the last one is new each time, the others are always the same.
fn seeds(count: u64) -> Vec<u64> {
    let fresh = RandomState::new().hash_one(count) % 1_000_000_000;
    (1..count).chain([fresh]).collect()
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Runs a list: its history, or where and why it failed.
fn run(list: &[Operation], variant: &Variant) -> Result<u64, (usize, String)> {
    let at = AtomicUsize::new(0);
    let body = || {
        let mut world = World::new(variant)?;
        for (n, operation) in list.iter().enumerate() {
            at.store(n, Ordering::Relaxed);
            world.apply(operation)?;
        }
        world.finish().map_err(|why| format!("at the end: {why}"))?;
        Ok(world.history())
    };
    let caught = catch_unwind(AssertUnwindSafe(body));
    let result = caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()))
    });
    result.map_err(|why| (at.load(Ordering::Relaxed), why))
}

fn report(seed: u64, variant: &Variant, list: &[Operation], (at, why): (usize, String)) -> String {
    let name = variant.name;
    eprintln!("seed {seed}, {name:?}: operation {at}: {why}; looking for a shorter list");
    let (short, reason) = shrink(list[..=at].to_vec(), |list| run(list, variant).err().map(|e| e.1));
    let lines: Vec<String> = short.iter().map(|o| format!("  {o:?}")).collect();
    format!(
        "MODEL_SEED={seed} MODEL_VARIANT={name:?}: operation {at}: {why}\n{} operations suffice ({reason}):\n{}",
        short.len(),
        lines.join("\n")
    )
}

#[test]
fn all_settings_give_the_same_right_history() {
    let filter = std::env::var("MODEL_VARIANT").unwrap_or_default();
    let exact = variants().iter().any(|v| v.name == filter);
    let wanted = |v: &Variant| if exact { v.name == filter } else { v.name.contains(&filter) };
    let variants: Vec<Variant> = variants().into_iter().filter(wanted).collect();
    assert!(variants.len() >= 16 || !filter.is_empty());
    let total = variable("MODEL_OPS").map_or(OPERATIONS, |n| usize::try_from(n).unwrap());
    let count = total.div_ceil(LENGTH * variants.len()) as u64;
    let seeds: Vec<u64> = variable("MODEL_SEED").map_or_else(|| seeds(count), |seed| vec![seed]);
    println!("seeds {seeds:?}");
    let work: Vec<(u64, &Variant)> = seeds.iter().flat_map(|seed| variants.iter().map(move |v| (*seed, v))).collect();
    let next = AtomicUsize::new(0);
    let (histories, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((seed, variant)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let list = generate(*seed, LENGTH);
                    match run(&list, variant) {
                        Ok(history) => histories.lock().unwrap().push((*seed, history, variant.name)),
                        Err(failure) => {
                            next.store(work.len(), Ordering::Relaxed);
                            failures.lock().unwrap().push(report(*seed, variant, &list, failure));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let histories = histories.into_inner().unwrap();
    for seed in &seeds {
        let of_seed: Vec<_> = histories.iter().filter(|h| h.0 == *seed).collect();
        assert_eq!(of_seed.len(), variants.len());
        assert!(of_seed.iter().all(|h| h.1 == of_seed[0].1), "histories differ: {of_seed:?}");
    }
    assert!(histories.len() * LENGTH >= total || variable("MODEL_SEED").is_some());
}

/// Steps of each of the crowd's writers, per seed.
const STEPS: usize = 5_000;

#[test]
fn many_threads_read_what_they_wrote() {
    let seeds = variable("MODEL_SEED").map_or_else(|| (1..=2).collect(), |seed| vec![seed]);
    for seed in seeds {
        println!("MODEL_SEED={seed}");
        crowd::run(seed, STEPS);
    }
}
