//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{BOTH, FILL, MIXES, READ, WHOLE, ZIPF, limits_name, measures_of_b, name_of_a, name_of_b, name_of_c};
use super::{AUTO, CHOOSER, NO_COMPRESSION, ORIGINAL, PLAIN, Permitted, STRATEGIES_A, STRATEGIES_B};
use crate::statistics::Fold;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Comparison, Group, Hypothesis, Term, comparison, each};

/// "By far": by a quarter.
const BY_FAR: f64 = 1.25;
/// Smallest change of a figure that matters.
const MORE: f64 = 1.05;
/// "Proportional": at least this part of the gain that exact proportionality would give.
const PROPORTIONAL: f64 = 0.9;
/// "Costs little": no more than a fifth, as the original's table has it.
const LITTLE: f64 = 0.8;
/// "Never worse": the engine's own choice loses at most 5 % against the best fixed one.
const NEVER_WORSE: f64 = 0.95;
/// A size within this factor is no larger.
const NO_LARGER: f64 = 1.01;

/// All claims that can be decided with these engines and limits.
pub fn claims(permitted: &Permitted, engines: &[String]) -> Vec<Hypothesis> {
    let there = |engine: &str| engines.iter().any(|name| name == engine);
    let mut claims = vec![compressing_wins(permitted)];
    if let (Some(few), Some(many)) = (permitted.cpus.iter().min(), permitted.cpus.iter().max())
        && few < many
    {
        claims.extend([stronger_gains(permitted, *few, *many), proportional(permitted, *few, *many)]);
    }
    claims.push(below_costs_little());
    if there(CHOOSER) {
        claims.extend([auto_is_near_the_best_on_the_whole(permitted), auto_is_near_the_best(permitted), auto_wins_on_a_mix(permitted)]);
    }
    if there(CHOOSER) && there(ORIGINAL) {
        claims.extend(ahead());
    }
    claims
}

fn claim(claim: &str, original: Option<&str>, metric: Metric, groups: Vec<Group>) -> Hypothesis {
    let needs = ["compression", "compression_per_level"].map(str::to_string).to_vec();
    Hypothesis { original: original.map(str::to_string), needs, ..Hypothesis::new(claim, metric, groups) }
}

/// A claim about SinterDB alone.
fn own(text: &str, metric: Metric, groups: Vec<Group>) -> Hypothesis {
    Hypothesis { engine: Some(CHOOSER.to_string()), ..claim(text, None, metric, groups) }
}

fn read_of_a(strategy: &str, cpus: usize, memory: Option<u64>) -> Term {
    Term::new(name_of_a(strategy, cpus, memory), READ)
}

fn compressing_wins(permitted: &Permitted) -> Hypothesis {
    let compare = |(cpus, memory): (usize, Option<u64>)| {
        let compressing = STRATEGIES_A.iter().map(|(name, _)| *name).filter(|name| *name != NO_COMPRESSION);
        compressing.map(move |strategy| {
            let name = format!("{}: {strategy} to {NO_COMPRESSION}", limits_name(cpus, memory));
            let term = |strategy: &str| read_of_a(strategy, cpus, memory);
            comparison(name, term(strategy), term(NO_COMPRESSION), Bound::Above(BY_FAR))
        })
    };
    claim(
        "A: compressing beats not compressing by far (random reads, by a quarter and more)",
        Some("yes, by far"),
        Metric::OperationsPerSecond,
        each(permitted.pairs().flat_map(compare)),
    )
}

fn stronger_gains(permitted: &Permitted, few: usize, many: usize) -> Hypothesis {
    let compare = |memory: &Option<u64>| {
        let term = |strategy: &str, cpus| read_of_a(strategy, cpus, *memory);
        Comparison {
            name: format!("all_zstd to all_lz4, {} to {}", limits_name(many, *memory), limits_name(few, *memory)),
            above: vec![term("all_zstd", many), term("all_lz4", few)],
            below: vec![term("all_lz4", many), term("all_zstd", few)],
            fold: Fold::Product,
            bound: Bound::Above(MORE),
        }
    };
    claim(
        "A: the stronger codec gains on the weaker one as processors grow (random reads)",
        Some("yes: it wins as processors grow"),
        Metric::OperationsPerSecond,
        each(permitted.memory.iter().map(compare)),
    )
}

fn proportional(permitted: &Permitted, few: usize, many: usize) -> Hypothesis {
    let compare = |memory: &Option<u64>| {
        let memory = *memory;
        STRATEGIES_A.iter().map(move |(strategy, _)| {
            let name = format!("{strategy}: {} to {}", limits_name(many, memory), limits_name(few, memory));
            let least = PROPORTIONAL * many as f64 / few as f64;
            comparison(name, read_of_a(strategy, many, memory), read_of_a(strategy, few, memory), Bound::Above(least))
        })
    };
    claim(
        "A: throughput of random reads is proportional to processors (nine tenths of it and more)",
        Some("yes"),
        Metric::OperationsPerSecond,
        each(permitted.memory.iter().flat_map(compare)),
    )
}

fn below_costs_little() -> Hypothesis {
    // The hot sets that the cache holds.
    let held = [READ, ZIPF[1].0];
    let compare = |measure: &'static str| {
        let compressing = STRATEGIES_B.iter().map(|(name, _)| *name).filter(|name| *name != PLAIN);
        compressing.map(move |strategy| {
            let term = |strategy: &str| Term::new(name_of_b(strategy), measure);
            comparison(format!("{measure}: {strategy} to {PLAIN}"), term(strategy), term(PLAIN), Bound::Above(LITTLE))
        })
    };
    claim(
        "B: while the cache holds the hot set, compressing costs little (a fifth of the reads per second at most)",
        Some("yes: 80 to 85 % of the reads per second without compression"),
        Metric::OperationsPerSecond,
        each(held.into_iter().flat_map(compare)),
    )
}

/// Compares the engine's choice with the best fixed strategy, by a measure.
fn to_the_best(name: String, cell: impl Fn(&str) -> String, strategies: &[&str], measure: &str, bound: Bound) -> Comparison {
    Comparison {
        name: format!("{name}: auto to the best"),
        above: vec![Term::new(cell(AUTO), measure)],
        below: strategies.iter().map(|strategy| Term::new(cell(strategy), measure)).collect(),
        fold: Fold::Greatest,
        bound,
    }
}

/// Claims about everything a user waits for: loading, compactions, reading. The best strategy of one phase is often the worst of another.
fn auto_is_near_the_best_on_the_whole(permitted: &Permitted) -> Hypothesis {
    let bound = Bound::Above(NEVER_WORSE);
    own(
        "auto never loses more than 5 % of operations per second of a whole workload, merges included, against the best fixed strategy",
        Metric::OperationsPerSecondOfAll,
        each(auto_in_a(permitted, &[WHOLE], bound).chain([auto_in_b(WHOLE, bound)]).chain(auto_in_c(permitted, WHOLE, bound))),
    )
}

fn auto_is_near_the_best(permitted: &Permitted) -> Hypothesis {
    let bound = Bound::Above(NEVER_WORSE);
    let of_b = measures_of_b().into_iter().map(|measure| auto_in_b(measure, bound));
    own(
        "auto never loses more than 5 % of operations per second of a phase against the best fixed strategy of that phase",
        Metric::OperationsPerSecond,
        each(auto_in_a(permitted, &[FILL, READ], bound).chain(of_b).chain(auto_in_c(permitted, BOTH, bound))),
    )
}

fn auto_in_a(permitted: &Permitted, measures: &'static [&'static str], bound: Bound) -> impl Iterator<Item = Comparison> {
    permitted.pairs().flat_map(move |(cpus, memory)| {
        measures.iter().map(move |measure| {
            let name = format!("A {measure}, {}", limits_name(cpus, memory));
            to_the_best(name, |strategy| name_of_a(strategy, cpus, memory), &STRATEGIES_A.map(|(name, _)| name), measure, bound)
        })
    })
}

fn auto_in_b(measure: &str, bound: Bound) -> Comparison {
    to_the_best(format!("B {measure}"), name_of_b, &STRATEGIES_B.map(|(name, _)| name), measure, bound)
}

fn auto_in_c(permitted: &Permitted, measure: &'static str, bound: Bound) -> impl Iterator<Item = Comparison> {
    permitted.widest().map(move |(cpus, memory)| {
        let name = format!("C {measure}, {}", limits_name(cpus, memory));
        to_the_best(name, |strategy| name_of_c(strategy, cpus, memory), &STRATEGIES_B.map(|(name, _)| name), measure, bound)
    })
}

fn auto_wins_on_a_mix(permitted: &Permitted) -> Hypothesis {
    let bound = Bound::Above(1.0);
    let any_of = MIXES.iter().map(|(mix, _)| auto_in_b(mix, bound)).chain(auto_in_c(permitted, BOTH, bound)).collect();
    own(
        "auto beats the best fixed strategy on one mix at least, in operations per second",
        Metric::OperationsPerSecond,
        vec![Group { name: "mixes".to_string(), any_of }],
    )
}

/// Claims that compare the two engines, on B.
fn ahead() -> [Hypothesis; 3] {
    let each_strategy = |measures: &[&str], bound: Bound| {
        let compare = |measure: &str| {
            STRATEGIES_B.map(|(strategy, _)| {
                let term = || Term::new(name_of_b(strategy), measure);
                comparison(format!("{measure}, {strategy}: {CHOOSER} to {ORIGINAL}"), term(), term().on(ORIGINAL), bound)
            })
        };
        each(measures.iter().flat_map(|measure| compare(measure)))
    };
    [
        own(
            "B: SinterDB reads faster than RocksDB with every strategy (the original's reads)",
            Metric::OperationsPerSecond,
            each_strategy(&[READ], Bound::Above(1.0)),
        ),
        own(
            "B: SinterDB's files are no larger than RocksDB's with any strategy (after fillseq and its compactions, within 1 %)",
            Metric::StoreBytes,
            each_strategy(&[FILL], Bound::Below(NO_LARGER)),
        ),
        own(
            "B: SinterDB reads faster than RocksDB with every strategy, by Zipf's law",
            Metric::OperationsPerSecond,
            each_strategy(&ZIPF.map(|(name, _)| name), Bound::Above(1.0)),
        ),
    ]
}
