//! Study 4: memory and limits. Is a compressed part of the block cache worth its decompression, does memory that moves between memtables
//! and cache beat every division by hand, and do reads in a container gain where the engine looks at its limits? Bounds of the verdicts
//! stand in `claims`, sizes here, settings and workloads in `cells`.

mod cells;
mod claims;
#[cfg(test)]
mod tests;

use super::metric::Metric;
use super::plan::{Permits, Request, Scale, Study};
use cells::{Case, Container};
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "memory-and-limits";

/// The engine that has all features of the study.
const OWN: &str = "sinter";
/// The engine with counterparts to some of them.
const RIVAL: &str = "rocksdb";

/// Smallest memory limit of a run, bytes.
pub const LEAST_MEMORY: u64 = 32 << 20;

/// Shares of the cache for compressed blocks, as values of the setting.
static SHARES: [&str; 4] = ["off", "0.25", "0.5", AUTO];
/// Share that the engine moves by itself.
const AUTO: &str = "auto";
/// Fixed divisions of a budget: parts of memtables and of the cache.
const DIVISIONS: [(u64, u64); 4] = [(1, 7), (1, 3), (1, 1), (3, 1)];
/// Part of a container's memory that a program gives to the database: one in this many.
const OF_CONTAINER: u64 = 8;

/// Amount of A's data: name, and percent of the cache.
type Data = (&'static str, u64);
/// Amounts below and above the size of the cache.
const DATA: [Data; 3] = [("half the cache", 50), ("twice the cache", 200), ("six times the cache", 600)];

/// Part A: the compressed part of the cache.
struct SizesA {
    /// Size of the cache, bytes.
    cache: u64,
    /// Amounts of data that lie in the page cache.
    paged: &'static [Data],
    /// Amounts of data that lie outside of the page cache.
    outside: &'static [Data],
    /// Memory of the program itself, by which the limit of a run exceeds the cache where data lie outside of the page cache, bytes.
    beside: u64,
    /// Seconds until a cache with fixed parts is warm.
    warm: f64,
    /// Seconds until a cache with moving parts is warm and they have moved, a thirty-second of the cache per second.
    moved: f64,
    /// Measured seconds of the reads, and of the mix.
    seconds: f64,
}

/// Part B: one budget for memtables and cache.
struct SizesB {
    /// The budget, bytes.
    budget: u64,
    /// Bytes of keys and values, as a multiple of the budget.
    data: u64,
    /// Seconds of the writes: warm-up, measured time.
    writes: (f64, f64),
    /// Seconds of the reads: warm-up, measured time.
    reads: (f64, f64),
    /// Seconds of each turn of writes and reads.
    turn: f64,
}

/// Part C: containers.
struct SizesC {
    /// Containers: processor time in processors, and memory in bytes.
    containers: &'static [(usize, u64)],
    /// Keys.
    keys: u64,
    /// Gets per second.
    gets: f64,
    /// Puts per second beside the gets.
    puts: f64,
    /// Seconds of the gets: warm-up, measured time.
    seconds: (f64, f64),
}

/// Sizes of the study at a scale.
struct Sizes {
    a: SizesA,
    b: SizesB,
    c: SizesC,
    repeats: u32,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Ci => Sizes {
                a: SizesA { cache: MIB, paged: &[DATA[0], DATA[1]], outside: &[], beside: 0, warm: 0.1, moved: 0.2, seconds: 0.1 },
                b: SizesB { budget: 4 * MIB, data: 2, writes: (0.05, 0.1), reads: (0.05, 0.1), turn: 0.05 },
                c: SizesC { containers: &[(1, 64 * MIB), (2, 64 * MIB)], keys: 500, gets: 500.0, puts: 100.0, seconds: (0.1, 0.3) },
                repeats: 2,
            },
            Scale::Small => Sizes {
                a: SizesA {
                    cache: 32 * MIB,
                    paged: &[DATA[0], DATA[1]],
                    outside: &[DATA[1], DATA[2]],
                    beside: 40 * MIB,
                    warm: 1.5,
                    moved: 15.0,
                    seconds: 1.5,
                },
                b: SizesB { budget: 64 * MIB, data: 3, writes: (2.0, 4.5), reads: (8.0, 4.5), turn: 2.5 },
                c: SizesC {
                    containers: &[(1, 32 * MIB), (1, 64 * MIB), (1, 128 * MIB), (1, 256 * MIB), (2, 32 * MIB), (2, 256 * MIB)],
                    keys: 16_000,
                    gets: 2000.0,
                    puts: 1500.0,
                    seconds: (1.0, 3.5),
                },
                repeats: 5,
            },
            Scale::Paper => Sizes {
                // A larger cache would show nothing new about A: the two parts depend on the sizes of blocks only.
                a: SizesA { cache: 256 * MIB, paged: &[], outside: &[], beside: 0, warm: 0.0, moved: 0.0, seconds: 0.0 },
                b: SizesB { budget: GIB, data: 3, writes: (5.0, 15.0), reads: (20.0, 15.0), turn: 10.0 },
                c: SizesC {
                    containers: &[
                        (1, 512 * MIB),
                        (1, GIB),
                        (1, 2 * GIB),
                        (1, 4 * GIB),
                        (2, 512 * MIB),
                        (2, GIB),
                        (2, 2 * GIB),
                        (2, 4 * GIB),
                    ],
                    keys: 256_000,
                    gets: 2000.0,
                    puts: 1500.0,
                    seconds: (5.0, 20.0),
                },
                repeats: 3,
            },
        }
    }
}

/// Cases of A and containers of C that this machine permits, and the runs that are left out.
struct Permitted {
    /// Amounts of data, with files in the page cache and outside of it.
    cases: Vec<Case>,
    containers: Vec<Container>,
    left_out: Vec<String>,
}

impl Permitted {
    fn of(sizes: &Sizes, permits: &Permits, engines: &[String]) -> Permitted {
        let mut permitted = Permitted { cases: Vec::new(), containers: Vec::new(), left_out: Vec::new() };
        let SizesA { cache, paged, outside, beside, .. } = sizes.a;
        let case = |limit: Option<u64>| move |&(data, percent): &Data| Case { data, bytes: cache / 100 * percent, limit };
        permitted.cases.extend(paged.iter().map(case(None)));
        match fits(cache + beside, permits) {
            Ok(()) => permitted.cases.extend(outside.iter().map(case(Some(cache + beside)))),
            Err(why) if !outside.is_empty() => {
                permitted.left_out.push(format!("runs of A whose files lie outside of the page cache: {why}"))
            }
            Err(_) => {}
        }
        for &(cpus, memory) in sizes.c.containers {
            let outcome = permits
                .quota
                .clone()
                .and_then(|()| fits(memory, permits))
                .and_then(|()| if cpus <= permits.cpus { Ok(()) } else { Err(format!("a run may use {} processors", permits.cpus)) });
            let container = Container { cpus, memory };
            match outcome {
                Ok(()) => permitted.containers.push(container),
                Err(why) => permitted.left_out.push(format!("runs of C with {}: {why}", container.name())),
            }
        }
        if !permitted.cases.is_empty() && engines.iter().any(|engine| engine == RIVAL) {
            permitted.left_out.push("RocksDB in A: its C interface has no compressed cache".to_string());
        }
        permitted
    }
}

fn fits(limit: u64, permits: &Permits) -> Result<(), String> {
    match &permits.memory {
        Ok(all) if limit <= *all => Ok(()),
        Ok(all) => Err(format!("a run can have {} MiB of memory", all >> 20)),
        Err(why) => Err(why.clone()),
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let permitted = Permitted::of(&sizes, &request.permits, &request.engines);
    let cells = [cells::of_a(&sizes.a, &permitted.cases), cells::of_b(&sizes.b), cells::of_c(&sizes.c, &permitted.containers)].concat();
    let hypotheses = claims::claims(&permitted, &request.engines);
    let questions = questions(&sizes, &permitted);
    let title = "Memory: compressed or not, for writes or reads, and in containers";
    let drawn = vec![
        Metric::OperationsPerSecond,
        Metric::P50Latency,
        Metric::P99Latency,
        Metric::P999Latency,
        Metric::CpuPerOperation,
        Metric::ReadPerOperation,
        Metric::CacheHits,
        Metric::CompressedCacheHits,
    ];
    Study { questions, cells, hypotheses, drawn, left_out: permitted.left_out, ..request.study(NAME, title, Some(scale), sizes.repeats) }
}

fn questions(sizes: &Sizes, permitted: &Permitted) -> Vec<String> {
    let Sizes { a, b, c, .. } = sizes;
    let names = |list: Vec<String>| list.join(", ");
    let limit = permitted.cases.iter().find_map(|case| case.limit).map_or(String::new(), |limit| {
        format!(
            " Outside of the page cache means {} of memory for everything, which leaves little of it, so that a miss goes to the medium.",
            format_bytes(limit)
        )
    });
    let mut questions = Vec::new();
    if !permitted.cases.is_empty() {
        questions.push(format!(
            "A: what is a compressed part of the block cache worth? A cache of {}, of which {} (`compressed_cache`) is for packed blocks; \
             data of {}; values of {} bytes that LZ4 packs to half, {} clients, keys by Zipf 0.9: {} s of reads, then as much of a mix \
             95/5. \
             {} s warm the cache before, {} where the part moves.{limit}",
            format_bytes(a.cache),
            SHARES.join(", "),
            names(permitted.cases.iter().map(Case::name).collect()),
            cells::VALUE,
            cells::CLIENTS,
            a.seconds,
            a.warm,
            a.moved,
        ));
    }
    questions.push(format!(
        "B: one budget of {} for memtables and cache, divided {} (memtables to cache) for good, or moving (`memory` alone). Data of \
             {}, {} clients, keys by Zipf 0.9: a write-heavy phase (90 % puts), a read-heavy one (95 % gets), and four turns of {} s of \
             one and the other. {} s and {} s before the first two are not measured: a sixty-fourth of the budget moves per second.",
        format_bytes(b.budget),
        names(DIVISIONS.iter().map(|division| cells::division_name(*division)).collect()),
        format_bytes(b.data * b.budget),
        cells::CLIENTS,
        b.turn,
        b.writes.0,
        b.reads.0,
    ));
    if !permitted.containers.is_empty() {
        questions.push(format!(
            "C: what is it worth to look at the limits of a container? Containers of {}, each by a quota of processor time and a limit of \
             memory. The database is told `memory`, an eighth of the container's, and nothing else. {} keys with values of {} bytes \
             are loaded in random order; then {} gets per second (Zipf 0.9, open loop, {} s measured) beside {} puts per second \
             (uniform), which keep compactions busy. The same engine is shown a system without groups for comparison.",
            names(permitted.containers.iter().map(Container::name).collect()),
            c.keys,
            cells::VALUE_C,
            c.gets,
            c.seconds.1,
            c.puts,
        ));
    }
    questions.push(
        "RocksDB has a part in it where it has a counterpart: in B a block cache of the whole budget to which a WriteBufferManager \
         charges memtables, in C the same with the sizes that SinterDB starts with, in the same container. It looks at no limits. Its \
         compressed cache is not to be had through its C interface."
            .to_string(),
    );
    questions
}
