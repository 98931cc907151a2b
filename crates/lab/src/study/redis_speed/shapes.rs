//! Collections beside Redis: a table of shapes, each filled, changed and read by commands that both servers get.

use super::{NOT_BEHIND, Sizes};
use crate::run::{Phase, REDIS, ServerSpec};
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Cell, Hypothesis, Request, Term, comparison, each};
use crate::study::server_cells::{self, CONNECTIONS, Length, SINTER, Told, ask, ask_once, rest, workload};

/// Number of requests at once.
pub const PIPELINE: usize = 16;
/// Bytes of values, and of members.
pub const VALUE: u64 = 20;

/// Name of a measure, and its commands, each equally frequent.
type Ask = (&'static str, &'static [&'static str]);

/// Collections of a kind.
struct Shape {
    name: &'static str,
    /// Number of collections, with a million elements together, and the command that creates one. `None`: one collection, empty at first,
    /// as with redis-benchmark.
    fill: Option<(u64, Ask)>,
    change: Ask,
    read: Option<Ask>,
}

static SHAPES: [Shape; 8] = [
    Shape {
        name: "hashes of 10",
        fill: Some((100_000, ("HSET of 10", &["HSET {key} {10 of member value}"]))),
        change: ("HSET", &["HSET {key} {member of 10} {value}"]),
        read: Some(("HGETALL", &["HGETALL {key}"])),
    },
    Shape {
        name: "sets of 16",
        fill: Some((62_500, ("SADD of 16", &["SADD {key} {16 of member}"]))),
        change: ("SADD, SREM", &["SADD {key} {member of 32}", "SREM {key} {member of 32}"]),
        read: Some(("SMEMBERS", &["SMEMBERS {key}"])),
    },
    Shape {
        name: "sorted sets of 50",
        fill: Some((20_000, ("ZADD of 50", &["ZADD {key} {50 of score member}"]))),
        change: ("ZADD", &["ZADD {key} {score} {member of 50}"]),
        read: Some(("ZRANGE", &["ZRANGE {key} 0 -1"])),
    },
    Shape {
        name: "lists of 100",
        fill: Some((10_000, ("RPUSH of 100", &["RPUSH {key} {100 of value}"]))),
        change: ("LPUSH, RPOP", &["LPUSH {key} {value}", "RPOP {key}"]),
        read: Some(("LRANGE", &["LRANGE {key} 0 99"])),
    },
    Shape { name: "one hash", fill: None, change: ("HSET", &["HSET {key} {member of 100000} {value}"]), read: None },
    Shape { name: "one set", fill: None, change: ("SADD", &["SADD {key} {member of 100000}"]), read: None },
    Shape { name: "one sorted set", fill: None, change: ("ZADD", &["ZADD {key} {score} {member of 100000}"]), read: None },
    Shape { name: "one list", fill: None, change: ("LPUSH", &["LPUSH {key} {value}"]), read: Some(("LRANGE", &["LRANGE {key} 0 99"])) },
];

impl Shape {
    /// Measures of the shape.
    fn measures(&self) -> impl Iterator<Item = &'static str> {
        let fill = self.fill.map(|(_, ask)| ask);
        [fill, Some(self.change), self.read].into_iter().flatten().map(|(measure, _)| measure)
    }

    fn cell(&self, sizes: &Sizes, request: &Request, told: Told) -> Cell {
        let keys = self.fill.map_or(1, |(keys, _)| keys * sizes.elements / 1_000_000);
        let (mut phases, mut measures) = (Vec::new(), Vec::new());
        let mut add = |asked: Phase, paid: Option<&'static str>| {
            measures.push((asked.name.clone(), std::iter::once(asked.name.clone()).chain(paid.map(str::to_string)).collect()));
            phases.extend([Some(asked), paid.map(rest)].into_iter().flatten());
        };
        if let Some((_, (name, commands))) = self.fill {
            add(ask_once(name, commands, keys), Some("filled"));
        }
        let (name, commands) = self.change;
        add(ask(name, commands, Length::Operations(sizes.changes)), Some("changed"));
        if let Some((name, commands)) = self.read {
            add(ask(name, commands, Length::Operations(sizes.reads)), None);
        }
        let (name, server) = (self.name.to_string(), ServerSpec::new(CONNECTIONS, PIPELINE));
        let cell = server_cells::cell(name.clone(), told, request, server, workload(name, keys, VALUE, phases), &[]);
        Cell { measures: measures.into_iter().collect(), ..cell }
    }
}

/// The cells of one server.
pub fn cells(sizes: &Sizes, request: &Request, told: impl Fn() -> Told) -> Vec<Cell> {
    SHAPES.iter().map(|shape| shape.cell(sizes, request, told())).collect()
}

/// A claim for each measure.
pub fn claims() -> impl Iterator<Item = Hypothesis> {
    SHAPES.iter().flat_map(|shape| {
        shape.measures().map(|measure| {
            let term = |engine: &str| Term::new(shape.name, measure).on(engine);
            let ratio = comparison(format!("{}: {measure}", shape.name), term(SINTER), term(REDIS), Bound::Above(NOT_BEHIND));
            let claim = format!("SinterDB is not behind Redis in {measure}, {} (5 %)", shape.name);
            let engine = Some(SINTER.to_string());
            Hypothesis { engine, ..Hypothesis::new(&claim, Metric::OperationsPerSecond, each(std::iter::once(ratio))) }
        })
    })
}
