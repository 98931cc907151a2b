//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{
    ALL_OF_IT, ALTERNATING, Case, Container, GETS, HIDDEN, MIX, MOVING, READ_HEAVY, READS, WATCHED, WRITE_HEAVY, division_name, name_of_a,
    name_of_b, name_of_c,
};
use super::{AUTO, DIVISIONS, OWN, Permitted, RIVAL, SHARES};
use crate::statistics::Fold;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Comparison, Hypothesis, Term, comparison, each};

/// "As good as": within 5 %.
const AS_GOOD: f64 = 0.95;
/// Bound of "no more than" and of "by something".
const MORE: f64 = 1.05;
/// "No larger" peak of memory: allocators round.
const NO_LARGER: f64 = 1.1;
/// Growth of tail latency (of few requests) that is accepted when the database has all of the memory.
const ALL_MAY_COST: f64 = 1.25;

/// All claims that can be decided with these engines and limits.
pub fn claims(permitted: &Permitted, engines: &[String]) -> Vec<Hypothesis> {
    let mut claims = of_a(&permitted.cases).to_vec();
    claims.extend(of_b());
    claims.extend(of_c(&permitted.containers));
    if engines.iter().any(|engine| engine == RIVAL) {
        claims.extend(beside_rocksdb(&permitted.containers));
    }
    claims.retain(|claim| !claim.groups.is_empty());
    claims
}

fn claim(text: &str, metric: Metric, comparisons: impl Iterator<Item = Comparison>) -> Hypothesis {
    Hypothesis { engine: Some(OWN.to_string()), ..Hypothesis::new(text, metric, each(comparisons)) }
}

/// Compares the best of some cells with the best of others, by one measure.
fn of_best(name: String, above: Vec<String>, below: Vec<String>, measure: &str, bound: Bound) -> Comparison {
    let terms = |cells: Vec<String>| cells.into_iter().map(|cell| Term::new(cell, measure)).collect();
    Comparison { name, above: terms(above), below: terms(below), fold: Fold::Greatest, bound }
}

fn of_a(cases: &[Case]) -> [Hypothesis; 3] {
    let (off, fixed) = (SHARES[0], &SHARES[..3]);
    let names = |shares: &[&str], case: &Case| shares.iter().map(|share| name_of_a(share, case)).collect::<Vec<_>>();
    let compare = |what: &str, above: &[&str], below: &[&str], case: &Case, bound: Bound| {
        [READS, MIX].map(|measure| {
            let name = format!("{}, {measure}: {what}", case.name());
            of_best(name, names(above, case), names(below, case), measure, bound)
        })
    };
    let outside = || cases.iter().filter(|case| case.limit.is_some());
    [
        claim(
            "A: auto is within 5 % of the best fixed share, in operations per second",
            Metric::OperationsPerSecond,
            cases.iter().flat_map(|case| compare("auto to the best", &[AUTO], fixed, case, Bound::Above(AS_GOOD))),
        ),
        claim(
            "A: where a miss goes to the medium, the better of two compressed shares brings 5 % more operations per second than none",
            Metric::OperationsPerSecond,
            outside().flat_map(|case| compare("compressed to none", &fixed[1..], &[off], case, Bound::Above(MORE))),
        ),
        claim(
            "A: where the page cache has the data, no compressed share brings 5 % more operations per second than none",
            Metric::OperationsPerSecond,
            cases
                .iter()
                .filter(|case| case.limit.is_none())
                .flat_map(|case| compare("compressed to none", &fixed[1..], &[off], case, Bound::Below(MORE))),
        ),
    ]
}

fn of_b() -> [Hypothesis; 4] {
    let fixed = || DIVISIONS.map(|division| name_of_b(&division_name(division))).to_vec();
    let moving = || vec![name_of_b(MOVING)];
    let to_best = |measure: &str, bound: Bound| of_best(format!("{measure}: moving to the best"), moving(), fixed(), measure, bound);
    let to_each = |measure: &'static str, bound: Bound| {
        DIVISIONS.into_iter().map(move |division| {
            let division = division_name(division);
            let (above, below) = (Term::new(name_of_b(MOVING), measure), Term::new(name_of_b(&division), measure));
            comparison(format!("{measure}: moving to {division}"), above, below, bound)
        })
    };
    [
        claim(
            "B: memory that moves is within 5 % of the best fixed division in every phase, in operations per second",
            Metric::OperationsPerSecond,
            [WRITE_HEAVY, READ_HEAVY, ALTERNATING].into_iter().map(|measure| to_best(measure, Bound::Above(AS_GOOD))),
        ),
        claim(
            "B: where phases alternate, it is faster than every fixed division",
            Metric::OperationsPerSecond,
            to_each(ALTERNATING, Bound::Above(1.0)),
        ),
        claim(
            "B: its write amplification in the write-heavy phase is no more than 5 % above that of any fixed division",
            Metric::WriteAmplification,
            to_each(WRITE_HEAVY, Bound::Below(MORE)),
        ),
        claim(
            "B: the budget holds: its peak of memory is no more than 10 % above the largest of a fixed division",
            Metric::PeakMemory,
            [WRITE_HEAVY, READ_HEAVY, ALTERNATING].into_iter().map(|measure| to_best(measure, Bound::Below(NO_LARGER))),
        ),
    ]
}

fn of_c(containers: &[Container]) -> Vec<Hypothesis> {
    let compare = |cpus: usize, bound: Bound| {
        containers.iter().filter(move |container| container.cpus == cpus).map(move |container| {
            let term = |limits: &str| Term::new(name_of_c(limits, container), GETS);
            comparison(format!("{}: watched to hidden", container.name()), term(WATCHED), term(HIDDEN), bound)
        })
    };
    let all = containers.last().map(|container| {
        let term = |limits: &str| Term::new(name_of_c(limits, container), GETS);
        let name = format!("{}: all of the memory to an eighth", container.name());
        comparison(name, term(ALL_OF_IT), term(WATCHED), Bound::Below(ALL_MAY_COST))
    });
    let mut claims = Vec::new();
    for (metric, name) in [(Metric::P99Latency, "99th"), (Metric::P999Latency, "99.9th")] {
        let text = format!("C: with one processor, the {name} percentile of gets is lower where limits are looked at");
        claims.push(claim(&text, metric, compare(1, Bound::Below(1.0))));
    }
    let text = "C: with two, the 99th percentile of gets is not higher (5 %)";
    claims.push(claim(text, Metric::P99Latency, compare(2, Bound::Below(MORE))));
    let text =
        "C: asked for all of a container's memory, the engine fits itself in, and the 99th percentile of gets is not higher (a quarter)";
    claims.push(claim(text, Metric::P99Latency, all.into_iter()));
    claims
}

fn beside_rocksdb(containers: &[Container]) -> [Hypothesis; 2] {
    let beside = |cell: &str, measure: &str, name: String, bound: Bound| {
        comparison(name, Term::new(cell, measure).on(OWN), Term::new(cell, measure).on(RIVAL), bound)
    };
    [
        claim(
            "B: with one budget for memtables and cache, SinterDB does more operations per second than RocksDB in every phase",
            Metric::OperationsPerSecond,
            [WRITE_HEAVY, READ_HEAVY, ALTERNATING]
                .into_iter()
                .map(|measure| beside(&name_of_b(MOVING), measure, format!("{measure}: SinterDB to RocksDB"), Bound::Above(1.0))),
        ),
        claim(
            "C: in every container, the 99th percentile of gets is lower than RocksDB's",
            Metric::P99Latency,
            containers.iter().map(|container| {
                let name = format!("{}: SinterDB to RocksDB", container.name());
                beside(&name_of_c(WATCHED, container), GETS, name, Bound::Below(1.0))
            }),
        ),
    ]
}
