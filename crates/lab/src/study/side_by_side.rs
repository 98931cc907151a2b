//! Engines side by side on well-known workloads: db_bench's and YCSB's. No claim is tested; the outcome is a table.

use super::plan::{Cell, Request, Scale, Study};
use super::settings::{MEMTABLE, Shape, database, family, owed};
use crate::run::{Distribution, EngineSpec, Mix, Order, Phase, Workload, Writer, named};

/// Name of the study on the command line.
pub const NAME: &str = "side-by-side";

/// Size of the block cache, memtables: at every scale a part of the data, as caches are.
const CACHE: u64 = 4;
/// db_bench's sizes of keys and values.
pub(super) const ENTRY: (usize, usize) = (16, 100);
/// Threads of YCSB's clients.
const CLIENTS: usize = 2;
/// Puts per second beside the readers, about 2 MB/s.
const WRITES: f64 = 20_000.0;
/// The workloads of YCSB that run on one load, in the order that its authors advise ("Core Workloads", steps 1 to 6): those that insert
/// come last, and E has a load of its own.
const YCSB: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d"];
const YCSB_SCANS: &str = "ycsb-e";

/// Sizes of the study at a scale. Memtables, tables, level targets and cache are divided by `divisor`.
struct Sizes {
    divisor: u64,
    /// Keys of db_bench's workloads.
    keys: u64,
    /// Records of YCSB's workloads, and requests of each.
    records: u64,
    /// Seconds of the phase that reads beside a writer.
    seconds: f64,
    repeats: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Ci => Sizes { divisor: 64, keys: 10_000, records: 2_000, seconds: 0.3, repeats: 2 },
            // fjall recommends memtables of 8 to 64 MiB.
            Scale::Small => Sizes { divisor: 4, keys: 2_000_000, records: 400_000, seconds: 10.0, repeats: 3 },
            Scale::Paper => Sizes { divisor: 1, keys: 100_000_000, records: 20_000_000, seconds: 600.0, repeats: 3 },
        }
    }

    fn memtable(&self) -> u64 {
        MEMTABLE / self.divisor
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let settings = settings(&sizes);
    let cell = |(workload, measured): (Workload, Vec<_>)| {
        Cell::new(workload.name.clone(), &[], settings.clone(), workload).measuring_each(measured)
    };
    let cells = workloads(&sizes).into_iter().map(cell);
    let title = "Engines side by side on db_bench's workloads and YCSB";
    Study { questions: questions(&sizes), cells: cells.collect(), ..request.study(NAME, title, Some(scale), sizes.repeats) }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let mib = |memtables: u64| (memtables * sizes.memtable()) >> 20;
    vec![
        "How fast are the engines beside each other, and what do they pay for it in bytes written, space and memory?".to_string(),
        format!(
            "Settings that all of them have, and the same for all: leveled compaction with level targets that follow the amount of data, \
             memtables and tables of {} MiB, base level of {} MiB, LZ4 on all levels, blocks of 4 KiB, filters of 10 bits per key on all \
             levels, a block cache of {} MiB, log on, no sync: what was acknowledged survives the process, not the machine.",
            mib(1),
            mib(super::settings::BASE),
            mib(CACHE)
        ),
        format!(
            "db_bench's workloads: {} keys of {} bytes, values of {} bytes of which half compress away, one thread. seekrandom is a new \
             iterator, a seek and one entry. readwhilewriting lasts {} s, in which one more thread puts {WRITES} random keys a second: its \
             operations are the reads alone. YCSB: {} records of 1000 bytes, as many requests by {CLIENTS} threads (of E a tenth, each a \
             scan of 1 to 100 records); D ends the runs on one load because it inserts, E has a load of its own.",
            sizes.keys, ENTRY.0, ENTRY.1, sizes.seconds, sizes.records
        ),
    ]
}

fn settings(sizes: &Sizes) -> EngineSpec {
    let mut family = family("default", Shape::Dynamic, sizes.memtable());
    let cache = CACHE * sizes.memtable();
    // Settings that RocksDB, SinterDB and fjall all have. Equal filter bits on the last level: only two of them could do otherwise.
    let shared = [("compression", "kLZ4Compression"), ("filter_policy", "bloomfilter:10:false"), ("block_size", "4096")];
    family.settings.extend(shared.map(|(name, value)| (name.to_string(), value.to_string())));
    family.settings.insert("block_cache".to_string(), cache.to_string());
    database(vec![family], sizes.memtable(), true, false)
}

/// Workloads, each run on a new store, and the names of their measured phases.
fn workloads(sizes: &Sizes) -> Vec<(Workload, Vec<&'static str>)> {
    let bench = |name: &str, phases| Workload::new(name, sizes.keys, ENTRY, phases);
    let records = |name: &str, phases| Workload::new(name, sizes.records, (24, 1000), phases);
    let keys = sizes.keys;
    let fills = vec![requests("fillrandom", "put", keys), owed("fillrandom"), requests("overwrite", "put", keys), owed("overwrite")];
    let writer = Writer { per_second: Some(WRITES), distribution: Distribution::Uniform };
    let reads = vec![
        Phase::load("load", Order::Random, 1),
        owed("load"),
        // The cache is warm before anything is measured.
        requests("warm", "get", keys / 2),
        requests("readrandom", "get", keys),
        requests("readmissing", "get_missing", keys),
        requests("seekrandom", "scan", keys / 4),
        Phase::timed("readwhilewriting", vec![Mix::all(Distribution::Uniform, [("get", 1.0)])], sizes.seconds, 0.0, 1).beside(writer),
        owed("readwhilewriting"),
    ];
    let mut scans = vec![Phase::load("load", Order::Random, CLIENTS), owed("load")];
    scans.extend(ycsb(YCSB_SCANS, sizes, sizes.records / 10));
    let mut core = vec![Phase::load("load", Order::Random, CLIENTS), owed("load")];
    core.extend(YCSB.into_iter().flat_map(|name| ycsb(name, sizes, sizes.records)));
    vec![
        (bench("sequential writes", vec![Phase::load("fillseq", Order::Sequential, 1), owed("fillseq")]), vec!["fillseq"]),
        (bench("random writes", fills), vec!["fillrandom", "overwrite"]),
        (bench("reads", reads), vec!["readrandom", "readmissing", "seekrandom", "readwhilewriting"]),
        (records("YCSB A, B, C, F, D", core), YCSB.to_vec()),
        (records("YCSB E", scans), vec![YCSB_SCANS]),
    ]
}

/// One thread does one operation at random keys.
pub(super) fn requests(name: &str, operation: &str, count: u64) -> Phase {
    Phase::requests(name, vec![Mix::all(Distribution::Uniform, [(operation, 1.0)])], count, 1)
}

/// The requests of a workload of YCSB, and the phase that finishes the compactions left by them.
fn ycsb(name: &'static str, sizes: &Sizes, operations: u64) -> impl Iterator<Item = Phase> {
    let run = named(name, sizes.records, operations, CLIENTS).and_then(|mut workload| workload.phases.pop());
    run.into_iter().flat_map(move |run| [Phase { name: name.to_string(), ..run }, owed(name)])
}
