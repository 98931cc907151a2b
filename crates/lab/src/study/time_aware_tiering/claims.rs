//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{ALONE, RUN, SMALL, name, shares};
use super::{ALPHAS, AUTO, ORIGINAL, OWN};
use crate::statistics::Fold;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Comparison, Group, Hypothesis, Term, absolute, comparison, each};

/// "Costs nothing that can be measured": 2 %.
const NOTHING: f64 = 0.02;
/// Bounds of a change of a figure that matters: 5 %.
const LESS: f64 = 0.95;
const MORE: f64 = 1.05;
/// Share of reads that the fast tier should answer under the steepest law.
const MOST: f64 = 0.9;
/// "Near": the engine's own choice loses at most 5 % against the best by hand.
const NEAR: f64 = 0.95;
/// Bound between no table and one.
const ANY: f64 = 0.5;

/// The original's table: the ages, by alpha, at which tables stood on the last level.
const PRESENT: [&[&str]; ALPHAS.len()] = [&["0", "20"], &["0", "20", "50"], &["0", "20", "50", "80"]];

/// All claims that can be decided with these engines.
pub fn claims(engines: &[String]) -> Vec<Hypothesis> {
    let there = |engine: &str| engines.iter().any(|name| name == engine);
    if !there(OWN) && !there(ORIGINAL) {
        return Vec::new();
    }
    let mut claims = Vec::from(larger_alphas_are_better());
    claims.extend(costs());
    claims.extend(table());
    claims.extend(trends());
    claims.extend([enough_reads(), skew_helps()]);
    if there(OWN) {
        claims.extend([reads_are_faster(), auto_is_near_the_best()]);
    }
    if there(OWN) && there(ORIGINAL) {
        claims.extend(side_by_side());
    }
    claims
}

fn claim(claim: &str, original: Option<&str>, metric: Metric, groups: Vec<Group>) -> Hypothesis {
    let needs = ["compaction_style", "preclude_last_level_data_seconds"].map(str::to_string).to_vec();
    Hypothesis { original: original.map(str::to_string), needs, ..Hypothesis::new(claim, metric, groups) }
}

/// A claim about SinterDB alone.
fn own(text: &str, metric: Metric, groups: Vec<Group>) -> Hypothesis {
    Hypothesis { engine: Some(OWN.to_string()), ..claim(text, None, metric, groups) }
}

fn term(experiment: u32, alpha: &str, share: &str) -> Term {
    Term::new(name(experiment, alpha, share), RUN)
}

/// Compares two ages of one alpha.
fn ages(experiment: u32, alpha: &str, above: &str, below: &str, bound: Bound) -> Comparison {
    let name = format!("alpha {alpha}: {above} % to {below} %");
    comparison(name, term(experiment, alpha, above), term(experiment, alpha, below), bound)
}

fn of_all_alphas(of: impl Fn(&str) -> Comparison) -> Vec<Group> {
    each(ALPHAS.iter().map(|alpha| of(alpha.name)))
}

fn larger_alphas_are_better() -> [Hypothesis; 5] {
    let compare = |bound: Bound| {
        let pairs = ALPHAS.windows(2).map(|pair| (pair[1].name, pair[0].name));
        let of = move |(larger, smaller): (&'static str, &'static str)| {
            [ALONE, SMALL].map(|share| {
                comparison(format!("{share} %: alpha {larger} to {smaller}"), term(1, larger, share), term(1, smaller, share), bound)
            })
        };
        each(pairs.flat_map(of))
    };
    let original = Some("yes, in every metric");
    let (better, less) = (Bound::Above(1.0), Bound::Below(1.0));
    [
        claim("1: the larger alpha, the more puts per second", original, Metric::OperationsPerSecond, compare(better)),
        claim("1: the larger alpha, the shorter the 99th percentile of latency", original, Metric::P99Latency, compare(less)),
        claim("1: the larger alpha, the smaller the database", original, Metric::StoreBytes, compare(less)),
        claim("1: the larger alpha, the less is written", original, Metric::WriteAmplification, compare(less)),
        claim("1: the larger alpha, the fewer tables stand on the last level", original, Metric::LastLevelTables, compare(less)),
    ]
}

fn costs() -> [Hypothesis; 2] {
    let original = Some("nothing that can be measured");
    let to_alone = |bound| of_all_alphas(|alpha| ages(1, alpha, SMALL, ALONE, bound));
    [
        claim(
            "1: on one medium, tiering costs less than 2 % of the puts per second",
            original,
            Metric::OperationsPerSecond,
            to_alone(Bound::Above(1.0 - NOTHING)),
        ),
        claim(
            "1: on one medium, tiering writes less than 2 % more",
            original,
            Metric::WriteAmplification,
            to_alone(Bound::Below(1.0 + NOTHING)),
        ),
    ]
}

fn table() -> [Hypothesis; 2] {
    let cell = |alpha: &str, share: &str, present: bool| {
        let bound = if present { Bound::Above(ANY) } else { Bound::Below(ANY) };
        absolute(format!("alpha {alpha}, {share} %: {}", if present { "tables" } else { "none" }), term(2, alpha, share), bound)
    };
    let ends = [(ALONE, true), (SMALL, true), ("100", false)];
    let between = |share: &&str| !ends.iter().any(|(end, _)| end == share);
    let shape = ALPHAS.iter().flat_map(|alpha| ends.map(|(share, present)| cell(alpha.name, share, present)));
    let names = shares();
    let later = ALPHAS.iter().zip(PRESENT).flat_map(|(alpha, present)| {
        let shares = names.iter().map(String::as_str).filter(between);
        shares.map(|share| cell(alpha.name, share, present.contains(&share))).collect::<Vec<_>>()
    });
    [
        claim(
            "2: tables stand on the last level at small ages (0 and 20 %), and none at an age longer than the run",
            Some("yes: 4, 3, none; 3, 3, none; 1, 1, none for alpha 0.5, 0.9, 1.2"),
            Metric::LastLevelTables,
            each(shape),
        ),
        claim(
            "2: the larger alpha, the longer the age at which the last level is empty: 50 % for 0.5, 80 % for 0.9, 100 % for 1.2",
            Some("yes: at 50 and 80 % none, none; 2, none; 1, 1 for alpha 0.5, 0.9, 1.2"),
            Metric::LastLevelTables,
            each(later),
        ),
    ]
}

fn trends() -> [Hypothesis; 3] {
    [
        claim(
            "2: at the smallest age more is written than by universal compaction alone",
            Some("slightly more"),
            Metric::WriteAmplification,
            of_all_alphas(|alpha| ages(2, alpha, SMALL, ALONE, Bound::Above(1.0))),
        ),
        claim(
            "2: and less again at longer ages (100 % to 20 %)",
            Some("it falls, and is flat"),
            Metric::WriteAmplification,
            of_all_alphas(|alpha| ages(2, alpha, "100", SMALL, Bound::Below(1.0))),
        ),
        claim(
            "1: with the age, puts per second rise for alpha 0.5 and 1.2 and fall for 0.9 (100 % to 0)",
            Some("yes"),
            Metric::OperationsPerSecond,
            of_all_alphas(|alpha| {
                let bound = if alpha == "0.9" { Bound::Below(1.0) } else { Bound::Above(1.0) };
                ages(1, alpha, "100", ALONE, bound)
            }),
        ),
    ]
}

/// Name of the largest alpha.
fn steepest() -> &'static str {
    ALPHAS[ALPHAS.len() - 1].name
}

fn enough_reads() -> Hypothesis {
    let names = shares();
    let of = |share: &str| absolute(format!("alpha {}, {share} %", steepest()), term(3, steepest(), share), Bound::Above(MOST));
    let any_of = names.iter().filter(|share| *share != ALONE).map(|share| of(share)).collect();
    claim(
        "3: by Zipf 1.2, some age has nine tenths of the reads answered above the last level, with a quarter of the data there at most",
        None,
        Metric::FastReadsInBudget,
        vec![Group { name: "one of the ages".to_string(), any_of }],
    )
}

fn skew_helps() -> Hypothesis {
    let pairs = ALPHAS.windows(2).map(|pair| (pair[1].name, pair[0].name));
    let of = |(larger, smaller): (&str, &str)| {
        comparison(format!("{SMALL} %: alpha {larger} to {smaller}"), term(3, larger, SMALL), term(3, smaller, SMALL), Bound::Above(MORE))
    };
    claim(
        "3: the larger alpha, the more reads are answered above the last level at the same age",
        None,
        Metric::FastReads,
        each(pairs.map(of)),
    )
}

fn reads_are_faster() -> Hypothesis {
    let mut claim = own(
        "3: with the last level on a slow medium, reads are faster where young data stays off it",
        Metric::ReadLatency,
        of_all_alphas(|alpha| ages(3, alpha, SMALL, ALONE, Bound::Below(LESS))),
    );
    claim.needs.push("tiers".to_string());
    claim
}

fn auto_is_near_the_best() -> Hypothesis {
    let names = shares();
    let compare = |alpha: &str| Comparison {
        name: format!("alpha {alpha}: auto to the best age"),
        above: vec![term(3, alpha, AUTO)],
        below: names.iter().map(|share| term(3, alpha, share)).collect(),
        fold: Fold::Greatest,
        bound: Bound::Above(NEAR),
    };
    own(
        "4: the engine's own age has 95 % of the best age's reads answered above the last level, with a quarter of the data there at most",
        Metric::FastReadsInBudget,
        of_all_alphas(compare),
    )
}

/// Claims that compare the two engines.
fn side_by_side() -> [Hypothesis; 2] {
    let compare = |experiment: u32, list: &[&str], bound: Bound| {
        let of = |alpha: &'static str| {
            list.iter().map(move |share| {
                let term = || term(experiment, alpha, share);
                comparison(format!("alpha {alpha}, {share} %: {OWN} to {ORIGINAL}"), term(), term().on(ORIGINAL), bound)
            })
        };
        each(ALPHAS.iter().flat_map(|alpha| of(alpha.name)))
    };
    let names = shares();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    [
        own(
            "1: SinterDB takes more puts per second than RocksDB, alone and with tiering",
            Metric::OperationsPerSecond,
            compare(1, &[ALONE, SMALL], Bound::Above(1.0)),
        ),
        own(
            "2: SinterDB's files are no larger than RocksDB's at any age (within 5 %)",
            Metric::StoreBytes,
            compare(2, &all, Bound::Below(MORE)),
        ),
    ]
}
