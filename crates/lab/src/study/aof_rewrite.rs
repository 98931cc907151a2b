//! Study 5: the cost of shortening the log for a server that keeps its data in memory, and for one that does not. Bounds of the verdicts
//! stand in `claims`, sizes here, settings and workloads in `cells`.

mod cells;
mod claims;
#[cfg(test)]
mod tests;

use super::metric::Metric;
use super::plan::{Request, Scale, Study};
use super::server_cells::KEY;
use crate::result::thousands;
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "aof-rewrite";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Memory of a server at the original's sizes, its page cache included, bytes. (The original had 64 GB, of which Redis might use 30.)
pub const LIMIT: u64 = 20_000_000_000;

/// Largest overhead of a command in a log beside key and value, bytes.
const FRAME: u64 = 64;

/// Values of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    name: &'static str,
    bytes: u64,
    /// Number of keys with such values.
    keys: u64,
}

/// Values of the original's sizes, with the given numbers of keys.
const fn values(small: u64, ten: u64, hundred: u64) -> [Value; 4] {
    [
        Value { name: "0.5 kB", bytes: 512, keys: small },
        Value { name: "1 kB", bytes: KIB, keys: small },
        Value { name: "10 kB", bytes: 10 * KIB, keys: ten },
        Value { name: "100 kB", bytes: 100 * KIB, keys: hundred },
    ]
}

/// The original's data: 50 MB to 10 GB.
static WHOLE: [Value; 4] = values(100_000, 100_000, 100_000);
/// Data of 200 MB at most.
static SMALL: [Value; 4] = values(100_000, 20_000, 2_000);
static CI: [Value; 2] = [Value { name: "0.5 kB", bytes: 512, keys: 2000 }, Value { name: "10 kB", bytes: 10 * KIB, keys: 200 }];

/// A row of A: the number of SETs, each key once and then keys at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    value: Value,
    sets: u64,
}

impl Row {
    fn name(&self) -> String {
        format!("{}, {} SETs", self.value.name, thousands(self.sets))
    }

    /// Bytes of live keys and values.
    fn data(&self) -> u64 {
        self.value.keys * (self.value.bytes + KEY as u64)
    }

    /// Bytes of a log of all SETs.
    fn log(&self) -> u64 {
        self.sets * (self.value.bytes + KEY as u64 + FRAME)
    }
}

/// Sizes of the study at a scale.
struct Sizes {
    values: &'static [Value],
    /// SETs in A, as multiples of the number of keys.
    times: &'static [u64],
    /// Length of the log from which on Redis rewrites it, in A, bytes.
    rewrite_from: u64,
    /// Lengths of the log from which on Redis rewrites it, in B, bytes; and the indices of B's two values.
    minimums: &'static [u64],
    of_minimums: [usize; 2],
    /// SinterDB's memory for memtables, cache and hot keys, bytes; its default if `None`.
    memory: Option<u64>,
    /// Bytes of keys and values in C's log, which one memtable holds, and the memory at which it does.
    kept: u64,
    kept_memory: u64,
    /// Limit of the memory of each server, bytes.
    limit: Option<u64>,
    repeats: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        let sizes = Sizes {
            values: &SMALL,
            times: &[1, 5, 10],
            rewrite_from: 64 * MIB,
            minimums: &[32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB],
            of_minimums: [1, 3],
            memory: None,
            // Three quarters of the largest memtable (`memory_for`), which holds more than keys and values.
            kept: 192 * MIB,
            kept_memory: with_hot_keys(4 * GIB),
            // Smaller data come nowhere near it.
            limit: None,
            repeats: 5,
        };
        match scale {
            Scale::Ci => Sizes {
                values: &CI,
                times: &[5],
                rewrite_from: 256 * KIB,
                minimums: &[256 * KIB, MIB],
                of_minimums: [0, 1],
                memory: Some(with_hot_keys(3 * MIB / 2)),
                kept: 2 * MIB,
                kept_memory: with_hot_keys(160 * MIB),
                repeats: 2,
                ..sizes
            },
            Scale::Small => sizes,
            Scale::Paper => Sizes { values: &WHOLE, limit: Some(LIMIT), repeats: 3, ..sizes },
        }
    }

    /// The rows of A.
    fn rows(&self) -> impl Iterator<Item = Row> {
        self.values.iter().flat_map(|value| self.times.iter().map(move |times| Row { value: *value, sets: times * value.keys }))
    }

    /// The row with most SETs of a value.
    fn longest(&self, value: Value) -> Row {
        Row { value, sets: self.times.iter().max().map_or(1, |times| times * value.keys) }
    }

    /// The values of B.
    fn of_b(&self) -> impl Iterator<Item = Value> {
        self.of_minimums.iter().filter_map(|place| self.values.get(*place)).copied()
    }
}

/// The memory at which SinterDB's memtables, and with them the log that is kept, have `memtable` bytes; `None` if there is none.
fn memory_for(memtable: u64) -> Option<u64> {
    let memory = memtable * 5 / 2;
    // The smallest memory of a database, and the largest memtable that the server's log permits.
    (memory >= MIB && memtable <= 256 * MIB).then_some(with_hot_keys(memory))
}

/// Memory of a server with `memory` bytes for memtables and cache: a quarter of the whole goes to hot keys.
const fn with_hot_keys(memory: u64) -> u64 {
    memory + memory / 3
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let planned = cells::cells(&sizes, request);
    let hypotheses = claims::claims(&sizes, &planned.cells, &request.engines);
    let title = "What shortening the log costs: rewrites against flushes";
    let drawn = vec![
        Metric::OperationsPerSecond,
        Metric::P50Latency,
        Metric::P99Latency,
        Metric::P999Latency,
        Metric::LongestPing,
        Metric::PeakOverRest,
        Metric::PeakDisk,
        Metric::CpuPerOperation,
        Metric::ClientCore,
        Metric::LogRewrites,
    ];
    Study {
        questions: questions(&sizes),
        cells: planned.cells,
        hypotheses,
        drawn,
        left_out: planned.left_out,
        ..request.study(NAME, title, Some(scale), sizes.repeats)
    }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let limit = sizes.limit.map_or(String::new(), |bytes| {
        format!(
            " Each server has {} GB of memory (a cgroup, page cache included); one that needs more is killed, and that is its result.",
            bytes / 1_000_000_000
        )
    });
    let data = sizes.values.iter().map(|value| format!("{} keys of {}", thousands(value.keys), value.name)).collect::<Vec<_>>().join(", ");
    let times = sizes.times.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let memory = sizes.memory.map_or("its default memory".to_string(), |bytes| format!("{} of memory", format_bytes(bytes)));
    vec![
        "A log of all writes grows for ever unless it is shortened. Redis forks a child that writes the present data anew; SinterDB \
         flushes memtables into tables, and a log whose memtable was flushed is deleted. What do the servers' clients feel of it, and what \
         does it take in memory and on disk?"
            .to_string(),
        format!(
            "A: {data}, set once in random order and then at random, {times} times as many SETs in all, by 50 connections without \
             pipelining. Redis keeps its log for ever, or writes it anew from {} on and whenever it has doubled, or has none at all, which \
             tells what the log costs from what shortening it costs. SinterDB has {memory} and does what it always does.",
            format_bytes(sizes.rewrite_from),
        ),
        "B: the same with other lengths of the log from which on it is written anew, most SETs. SinterDB's counterpart is the size of a \
         memtable, which follows from the memory."
            .to_string(),
        format!(
            "C: what does shortening cost SinterDB? Its log can be kept only as long as one memtable holds all of it: {} of keys and \
             values, with {} of memory, of which a part is used; against {memory}.",
            format_bytes(sizes.kept),
            format_bytes(sizes.kept_memory),
        ),
        "Both servers make writes durable every second (appendfsync everysec). Memory is the proportional set of the server and its \
         children, looked at ten times a second; at rest means when the server has no child and does nothing. A second client PINGs every \
         2 ms. Written is what files gave to the medium, by the server and its children. Client and server share the processors."
            .to_string()
            + &limit,
    ]
}
