//! Claims about the results. Rules and bounds are fixed here before anything is run.

use super::cells::{Log, SETS, name_of_a, name_of_b, name_of_c};
use super::{Row, Sizes, Value};
use crate::run::REDIS;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Cell, Comparison, Hypothesis, Term, absolute, comparison, each};
use crate::study::server_cells::SINTER;

/// Any difference at all.
const MORE: f64 = 1.0;
/// Growth of the memory peak by rewrites: the least of the original's rows with most SETs is 1.39.
const PEAK_GROWS: f64 = 1.25;
/// "To 3 times the data."
const THREE_TIMES: f64 = 3.0;
/// Share of throughput that remains with a log at 10 kB: about half, measured with Redis 7.0.15 on a virtual disk.
const LOG_LEAVES: f64 = 0.75;
/// Shortening costs nothing: within 2 %.
const COSTS_NOTHING: f64 = 0.98;
/// "No stall": longest PING, milliseconds.
const NO_STALL_MS: f64 = 20.0;
/// Peak over memory at rest that counts as no peak.
const NO_PEAK: f64 = 1.1;
/// "No larger" on disk after twice as many updates: the progress of a merge when the load ends makes a difference of this order.
const NO_LARGER: f64 = 1.25;
/// "Not behind": within 5 %.
const NOT_BEHIND: f64 = 0.95;

/// All claims that can be decided with these engines and cells.
pub fn claims(sizes: &Sizes, cells: &[Cell], engines: &[String]) -> Vec<Hypothesis> {
    let asked = |engine: &str| engines.iter().any(|asked| asked == engine);
    let mut claims = Vec::new();
    if asked(REDIS) {
        claims.extend(of_redis(sizes, cells));
    }
    if asked(SINTER) {
        claims.extend(of_sinter(sizes));
    }
    if asked(REDIS) && asked(SINTER) {
        claims.extend(beside(sizes));
    }
    for claim in &mut claims {
        // Every cell of a comparison must be run.
        let engine = claim.engine.clone().unwrap_or_default();
        let is_there = |term: &Term| {
            let engine = term.engine.as_deref().unwrap_or(&engine);
            cells.iter().any(|cell| cell.name == term.cell && cell.is_for(engine))
        };
        claim.groups.retain(|group| group.any_of.iter().all(|c| c.above.iter().chain(&c.below).all(is_there)));
    }
    claims.retain(|claim| !claim.groups.is_empty());
    claims
}

fn claim(engine: &str, text: &str, metric: Metric, comparisons: impl Iterator<Item = Comparison>) -> Hypothesis {
    Hypothesis { engine: Some(engine.to_string()), ..Hypothesis::new(text, metric, each(comparisons)) }
}

fn of_original(engine: &str, text: &str, original: &str, metric: Metric, comparisons: impl Iterator<Item = Comparison>) -> Hypothesis {
    Hypothesis { original: Some(original.to_string()), ..claim(engine, text, metric, comparisons) }
}

fn sets(cell: String) -> Term {
    Term::new(cell, SETS)
}

/// Compares Redis with itself under two fates of the log: for each value in A the row with most SETs that runs with both.
fn rows(sizes: &Sizes, cells: &[Cell], above: Log, below: Log, bound: Bound) -> impl Iterator<Item = Comparison> {
    let runs = |row: &Row, log: Log| cells.iter().any(|cell| cell.name == name_of_a(row, log) && cell.is_for(REDIS));
    let longest = |value: &Value| {
        let of_value = sizes.rows().filter(|row| row.value == *value && runs(row, above) && runs(row, below));
        of_value.max_by_key(|row| row.sets)
    };
    let rows: Vec<Row> = sizes.values.iter().filter_map(longest).collect();
    rows.into_iter().map(move |row| comparison(row.name(), sets(name_of_a(&row, above)), sets(name_of_a(&row, below)), bound))
}

fn of_redis(sizes: &Sizes, cells: &[Cell]) -> Vec<Hypothesis> {
    let shortened = |bound| rows(sizes, cells, Log::Shortened, Log::Kept, bound);
    let of_ten =
        |all: &mut dyn Iterator<Item = Comparison>| all.filter(|one| one.name.starts_with("10 kB, ")).collect::<Vec<_>>().into_iter();
    let minimums = |place: usize, bound: Bound| {
        let value = sizes.of_b().nth(place);
        let ends = sizes.minimums.first().zip(sizes.minimums.last());
        value.zip(ends).into_iter().map(move |(value, (least, most))| {
            let name = format!("{}: the largest minimum to the smallest", value.name);
            comparison(name, sets(name_of_b(&value, *most)), sets(name_of_b(&value, *least)), bound)
        })
    };
    vec![
        of_original(
            REDIS,
            "A: with rewrites, Redis does fewer SETs per second than without, at all sizes of values",
            "0.867, 0.833, 0.890 and 0.568 times as many at 1,000,000 SETs of 0.5, 1, 10 and 100 kB",
            Metric::OperationsPerSecond,
            shortened(Bound::Below(MORE)),
        ),
        of_original(
            REDIS,
            "A: rewrites add at least a quarter to Redis's peak of memory, at all sizes of values",
            "1.389, 2.088, 3.404 and 2.590 times as much",
            Metric::PeakMemory,
            shortened(Bound::Above(PEAK_GROWS)),
        ),
        of_original(
            REDIS,
            "A: with values of 10 kB, rewrites take Redis's memory to three times of what it takes without",
            "3.404 times; its buffer of what is written during a rewrite is gone since Redis 7.0",
            Metric::PeakMemory,
            of_ten(&mut shortened(Bound::Above(THREE_TIMES))),
        ),
        of_original(
            REDIS,
            "A: with rewrites, Redis's clients wait longer than without, the longest time",
            "nobody is served while the buffer drains",
            Metric::LongestPing,
            shortened(Bound::Above(MORE)),
        ),
        claim(
            REDIS,
            "A: with values of 10 kB, the log alone, never rewritten, costs Redis a quarter of its SETs per second",
            Metric::OperationsPerSecond,
            of_ten(&mut rows(sizes, cells, Log::Kept, Log::None, Bound::Below(LOG_LEAVES))),
        ),
        of_original(
            REDIS,
            "B: with small values, Redis does more SETs per second if it rewrites later",
            "with values of 1 kB 1.08 times as many from 512 MB on as from 32 MB on",
            Metric::OperationsPerSecond,
            minimums(0, Bound::Above(MORE)),
        ),
        of_original(
            REDIS,
            "B: with large values, Redis's peak of memory is larger if it rewrites later",
            "with values of 100 kB 1.44 times as much from 512 MB on as from 32 MB on",
            Metric::PeakMemory,
            minimums(1, Bound::Above(MORE)),
        ),
    ]
}

fn of_sinter(sizes: &Sizes) -> Vec<Hypothesis> {
    let shortened =
        || sizes.values.iter().map(|value| sizes.longest(*value)).map(|row| (row.name(), sets(name_of_a(&row, Log::Shortened))));
    let each_is = |bound: Bound| shortened().map(move |(name, term)| absolute(name, term, bound));
    let costs = sizes.values.iter().map(|value| {
        let term = |log| sets(name_of_c(value, log));
        comparison(format!("{}: shortened to kept", value.name), term(Log::Shortened), term(Log::Kept), Bound::Above(COSTS_NOTHING))
    });
    let grows = sizes.values.iter().filter_map(|value| {
        let rows: Vec<_> = sizes.rows().filter(|row| row.value == *value).collect();
        let [.., before, last] = rows.as_slice() else { return None };
        let term = |row: &Row| sets(name_of_a(row, Log::Shortened));
        Some(comparison(format!("{} to {}", last.name(), before.name()), term(last), term(before), Bound::Below(NO_LARGER)))
    });
    vec![
        claim(SINTER, "C: shortening the log costs SinterDB less than 2 % of SETs per second", Metric::OperationsPerSecond, costs),
        claim(
            SINTER,
            "A: while the log is shortened, no PING waits for 20 ms, at all sizes of values",
            Metric::LongestPing,
            each_is(Bound::Below(NO_STALL_MS)),
        ),
        claim(
            SINTER,
            "A: while the log is shortened, memory is never more than a tenth above what it is at rest",
            Metric::PeakOverRest,
            each_is(Bound::Below(NO_PEAK)),
        ),
        claim(SINTER, "A: disk is bounded: twice as many SETs of the same keys take no more than a quarter more", Metric::PeakDisk, grows),
    ]
}

fn beside(sizes: &Sizes) -> Vec<Hypothesis> {
    let compared = |bound: Bound| {
        sizes.values.iter().map(move |value| {
            let row = sizes.longest(*value);
            let of = |engine: &str| sets(name_of_a(&row, Log::Shortened)).on(engine);
            comparison(row.name(), of(SINTER), of(REDIS), bound)
        })
    };
    vec![
        claim(
            SINTER,
            "A: SinterDB does as many SETs per second as Redis with rewrites (5 %), at all sizes of values",
            Metric::OperationsPerSecond,
            compared(Bound::Above(NOT_BEHIND)),
        ),
        claim(
            SINTER,
            "A: its clients wait less than those of Redis with rewrites, the longest time",
            Metric::LongestPing,
            compared(Bound::Below(MORE)),
        ),
        claim(SINTER, "A: its peak of memory is lower than that of Redis with rewrites", Metric::PeakMemory, compared(Bound::Below(MORE))),
        claim(SINTER, "A: its data never take more disk than those of Redis with rewrites", Metric::PeakDisk, compared(Bound::Below(MORE))),
    ]
}
