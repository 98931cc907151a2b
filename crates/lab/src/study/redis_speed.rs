//! Speed beside Redis, by one light client: SET and GET of small values, with one, sixteen and sixty-four requests at once, and collections
//! with sixteen.

mod shapes;
#[cfg(test)]
mod tests;

use super::metric::Metric;
use super::plan::{Bound, Cell, Hypothesis, Request, Scale, Study, Term, comparison, each};
use super::server_cells::{self, CONNECTIONS, Length, SINTER, Told, ask, load, redis, rest, sinter, workload};
use crate::result::thousands;
use crate::run::{Phase, REDIS, ServerSpec};
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "redis-speed";

/// Numbers of requests at once.
const PIPELINES: [usize; 3] = [1, 16, 64];
/// Number of requests at once at which redis-benchmark is measured, too.
const CHECKED: usize = 16;
/// Bytes of values.
const VALUE: u64 = 100;
/// Names of measures.
const SET: &str = "SET";
const GET: &str = "GET";
/// Redis's own client.
const BENCHMARK: &str = "redis-benchmark";
/// Length of the log from which on Redis rewrites it, its default, bytes.
const REWRITE_FROM: u64 = 64 << 20;

/// "Not behind": within 5 %.
const NOT_BEHIND: f64 = 0.95;
/// Claimed speed of SET over Redis's, by number of requests at once.
const FASTER: [(usize, f64); 2] = [(16, 1.5), (64, 2.0)];

/// Sizes of the study at a scale.
struct Sizes {
    keys: u64,
    /// Seconds of the SETs and of the GETs: warm-up, measured time.
    seconds: (f64, f64),
    /// Requests that redis-benchmark makes.
    checked: u64,
    /// Collections of a kind: elements of all together, commands that change them, commands that read them.
    elements: u64,
    changes: u64,
    reads: u64,
    repeats: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Ci => {
                Sizes { keys: 10_000, seconds: (0.1, 0.3), checked: 50_000, elements: 20_000, changes: 20_000, reads: 5_000, repeats: 2 }
            }
            Scale::Small => Sizes {
                keys: 1_000_000,
                seconds: (1.0, 6.0),
                checked: 3_000_000,
                elements: 1_000_000,
                changes: 1_000_000,
                reads: 300_000,
                repeats: 5,
            },
            Scale::Paper => Sizes {
                keys: 10_000_000,
                seconds: (5.0, 60.0),
                checked: 30_000_000,
                elements: 10_000_000,
                changes: 10_000_000,
                reads: 3_000_000,
                repeats: 3,
            },
        }
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let asked: Vec<&str> = [SINTER, REDIS].into_iter().filter(|engine| request.engines.iter().any(|asked| asked == engine)).collect();
    let cells = asked.iter().flat_map(|engine| {
        let told = || if *engine == REDIS { redis(Some(REWRITE_FROM)) } else { sinter(None) };
        let by_lab = PIPELINES.map(|pipeline| of_pipeline(&sizes, request, told(), pipeline));
        let by_benchmark = request.servers.benchmark.as_ref().map(|_| checked(&sizes, request, told()));
        by_lab.into_iter().chain(by_benchmark).chain(shapes::cells(&sizes, request, told))
    });
    let cells: Vec<Cell> = cells.collect();
    let hypotheses = if asked.len() > 1 { claims() } else { Vec::new() };
    let drawn = vec![
        Metric::OperationsPerSecond,
        Metric::P50Latency,
        Metric::P99Latency,
        Metric::P999Latency,
        Metric::LongestPing,
        Metric::CpuPerOperation,
        Metric::ClientCore,
        Metric::PeakMemory,
    ];
    let left_out = if request.servers.benchmark.is_none() { vec![format!("the same by {BENCHMARK}: it is not here")] } else { Vec::new() };
    let title = "Speed beside Redis";
    Study { questions: questions(&sizes), cells, hypotheses, drawn, left_out, ..request.study(NAME, title, Some(scale), sizes.repeats) }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    vec![
        format!(
            "How many SETs and GETs of values of {VALUE} bytes do SinterDB's server and Redis do beside each other, at any of {} keys, \
             with a log that is on the medium every second (appendfsync everysec)? Redis rewrites its log from {} on and whenever it has \
             doubled, as it does by default. Both may take the memory that they take by default, and how much that was is told.",
            thousands(sizes.keys),
            format_bytes(REWRITE_FROM),
        ),
        format!(
            "One thread asks over {CONNECTIONS} connections, each of which sends 1, 16 or 64 requests and waits for their replies: {} s of \
             SETs, then of GETs, after {} s that are not measured. The client has a core's share of its own, which is told: at one request \
             at a time both servers spend most of theirs in the kernel's network, as any would.",
            sizes.seconds.1 - sizes.seconds.0,
            sizes.seconds.0,
        ),
        format!(
            "{BENCHMARK} makes the same SETs at {CHECKED} at once ({} of them), so that the light client can be compared with what others \
             measure with. It needs a core for itself long before a fast server does.",
            thousands(sizes.checked)
        ),
        format!(
            "Collections at {} requests at once: small ones, with {} elements of about {} bytes in all of a kind, are made by one command \
             each, changed {} times at random, and read whole at random; one large hash, set, sorted set and list grow from nothing as \
             those of {BENCHMARK} do, with any of 100,000 members. Both servers are sent the same commands, and what changes left to \
             be done counts with them. User bytes are all arguments of commands that write.",
            shapes::PIPELINE,
            thousands(sizes.elements),
            shapes::VALUE,
            thousands(sizes.changes),
        ),
    ]
}

fn name(pipeline: usize) -> String {
    format!("pipeline {pipeline}")
}

fn of_pipeline(sizes: &Sizes, request: &Request, told: Told, pipeline: usize) -> Cell {
    let length = Length::Seconds { all: sizes.seconds.1, warm_up: sizes.seconds.0 };
    let phases: Vec<Phase> = vec![load("load"), rest("loaded"), ask(SET, &["put"], length), rest("rest"), ask(GET, &["get"], length)];
    let measures: [(&str, &[&str]); 2] = [(SET, &[SET, "rest"]), (GET, &[GET])];
    let workload = workload(name(pipeline), sizes.keys, VALUE, phases);
    server_cells::cell(name(pipeline), told, request, ServerSpec::new(CONNECTIONS, pipeline), workload, &measures)
}

/// Cell of SETs made by redis-benchmark.
fn checked(sizes: &Sizes, request: &Request, told: Told) -> Cell {
    let name = format!("{}, {BENCHMARK}", name(CHECKED));
    // About all keys once, before the measured phase.
    let phases = vec![
        ask("load", &["put"], Length::Operations(sizes.keys)),
        rest("loaded"),
        ask(SET, &["put"], Length::Operations(sizes.checked)),
        rest("rest"),
    ];
    let server = ServerSpec { benchmark: request.servers.benchmark.clone(), ..ServerSpec::new(CONNECTIONS, CHECKED) };
    server_cells::cell(name.clone(), told, request, server, workload(name, sizes.keys, VALUE, phases), &[(SET, &[SET, "rest"])])
}

fn claims() -> Vec<Hypothesis> {
    let compare = |measure: &'static str, pipeline: usize, bound: f64| {
        let term = |engine: &str| Term::new(name(pipeline), measure).on(engine);
        comparison(format!("{measure}, {}", name(pipeline)), term(SINTER), term(REDIS), Bound::Above(bound))
    };
    let claim = |text: String, comparisons: Vec<_>| Hypothesis {
        engine: Some(SINTER.to_string()),
        ..Hypothesis::new(&text, Metric::OperationsPerSecond, each(comparisons.into_iter()))
    };
    let faster = FASTER.map(|(pipeline, times)| {
        let text = format!("SinterDB does {times} times as many SETs per second as Redis, {pipeline} at once");
        claim(text, vec![compare(SET, pipeline, times)])
    });
    let not_behind = [
        claim("SinterDB is not behind Redis in SETs, one at a time (5 %)".to_string(), vec![compare(SET, PIPELINES[0], NOT_BEHIND)]),
        claim(
            "SinterDB is not behind Redis in GETs (5 %)".to_string(),
            PIPELINES.map(|pipeline| compare(GET, pipeline, NOT_BEHIND)).to_vec(),
        ),
    ];
    faster.into_iter().chain(not_behind).chain(shapes::claims()).collect()
}
