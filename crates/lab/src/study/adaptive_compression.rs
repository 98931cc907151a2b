//! Study 3, after a study of 2025 on RocksDB 10.11 with db_bench in containers: a codec for each level. Does stronger compression improve
//! the whole as processors grow, and does a choice by level hold up when reads are skewed to keys that lie compressed at the bottom? What
//! its authors left open is followed here: the engine chooses itself (`auto`, SinterDB), on reads and on mixes that rewrite.

mod cells;
mod claims;
mod codecs;
#[cfg(test)]
mod tests;

use super::metric::Metric;
use super::plan::{Permits, Request, Scale, Study};
use super::settings::MEMTABLE;
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "adaptive-compression";

/// Engine that chooses codecs itself; there is only one.
const CHOOSER: &str = "sinter";
/// Engine of the original study.
const ORIGINAL: &str = "rocksdb";
/// Name of the strategy in which the engine chooses, and value of the setting.
const AUTO: &str = "auto";

const NONE: &str = "kNoCompression";
const LZ4: &str = "kLZ4Compression";
const ZSTD: &str = "kZSTD";
/// zstd's level on both engines, set because their defaults differ: RocksDB's, as in the original.
const ZSTD_LEVEL: i32 = 3;
/// A codec for each of levels 0 to 6.
type Levels = [&'static str; 7];

/// A's strategies, in the original's names.
const STRATEGIES_A: [(&str, Levels); 4] =
    [("adaptive", [NONE, NONE, LZ4, LZ4, ZSTD, ZSTD, ZSTD]), ("all_zstd", [ZSTD; 7]), ("all_lz4", [LZ4; 7]), (NO_COMPRESSION, [NONE; 7])];
const NO_COMPRESSION: &str = "no_comp";
/// B's strategies, in the original's names.
const STRATEGIES_B: [(&str, Levels); 5] = [
    (PLAIN, [NONE; 7]),
    ("all zstd", [ZSTD; 7]),
    ("all lz4", [LZ4; 7]),
    ("none x2, lz4 x3, zstd x2", [NONE, NONE, LZ4, LZ4, LZ4, ZSTD, ZSTD]),
    ("none x2, zstd x5", [NONE, NONE, ZSTD, ZSTD, ZSTD, ZSTD, ZSTD]),
];
const PLAIN: &str = "none";

/// Size of a part. Memtables, tables, level targets, cache and memory are the original's divided by `divisor`.
#[derive(Debug, Clone, Copy)]
struct Size {
    divisor: u64,
    keys: u64,
}

impl Size {
    fn memtable(self) -> u64 {
        MEMTABLE / self.divisor
    }
}

/// Sizes of the study at a scale.
struct Sizes {
    a: Size,
    b: Size,
    /// Size of D and E.
    codecs: Size,
    /// Reads of each client of A, as a share of the keys.
    reads: f64,
    /// Numbers of processors of A.
    cpus: &'static [usize],
    /// Memory limits of A, GiB before they are divided; empty: no run has a limit.
    memory: &'static [u64],
    repeats: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        let (a, b) = (Size { divisor: 1, keys: 2_000_000 }, Size { divisor: 1, keys: 1_000_000 });
        match scale {
            Scale::Ci => Sizes {
                a: Size { divisor: 1024, keys: a.keys / 1024 },
                b: Size { divisor: 256, keys: b.keys / 256 },
                codecs: Size { divisor: 1024, keys: 2_000 },
                reads: 1.0,
                cpus: &[1, 2],
                memory: &[],
                repeats: 2,
            },
            // The least memory makes nearly every read wait for the medium: a quarter of the reads is a quarter of the study's time.
            Scale::Small => {
                let (a, codecs) = (Size { divisor: 16, keys: a.keys / 16 }, Size { divisor: 16, keys: b.keys / 4 });
                Sizes { a, b, codecs, reads: 0.25, cpus: &[1, 2, 4, 6], memory: &[1, 2, 4], repeats: 5 }
            }
            // The claims compare rates, which so many reads show: the original's 8,000,000 would take most of the hours.
            Scale::Paper => Sizes { a, b, codecs: b, reads: 1.0 / 16.0, cpus: &[1, 2, 4, 6], memory: &[1, 2, 4, 8], repeats: 3 },
        }
    }

    /// Number of reads of each client of A.
    fn reads_of_a(&self) -> u64 {
        (self.a.keys as f64 * self.reads) as u64
    }

    /// Memory limits of A's runs, bytes.
    fn memory(&self) -> impl Iterator<Item = u64> {
        self.memory.iter().map(|gib| (gib << 30) / self.a.divisor)
    }
}

/// Smallest memory limit of a run, bytes: permitted limits are found by trying this one.
pub const LEAST_MEMORY: u64 = (1 << 30) / 16;

/// Limits of A's runs that this machine permits, and the runs that are left out.
struct Permitted {
    cpus: Vec<usize>,
    /// Memory limits, bytes; `None`: no limit.
    memory: Vec<Option<u64>>,
    left_out: Vec<String>,
}

impl Permitted {
    fn of(sizes: &Sizes, permits: &Permits) -> Permitted {
        let mut left_out = Vec::new();
        let (mut cpus, more): (Vec<usize>, Vec<usize>) = sizes.cpus.iter().copied().partition(|cpus| *cpus <= permits.cpus);
        if !more.is_empty() {
            left_out.push(format!(
                "runs of A with {} processors: a run may use {}. They need a machine with as many",
                list(&more),
                permits.cpus
            ));
        }
        if cpus.is_empty() {
            cpus.push(1);
        }
        let all = permits.memory.as_ref().copied().unwrap_or(0);
        let (memory, more): (Vec<u64>, Vec<u64>) = sizes.memory().partition(|bytes| *bytes <= all);
        let names = || list(&more.iter().map(|bytes| format_bytes(*bytes)).collect::<Vec<_>>());
        match &permits.memory {
            _ if more.is_empty() => {}
            Ok(all) => left_out.push(format!("runs of A with {} of memory: a run can have {} MiB", names(), all >> 20)),
            Err(why) => left_out.push(format!(
                "runs of A with {} of memory are not permitted ({why}). They have no limit, so that their files may lie in the page \
                 cache whole",
                names()
            )),
        }
        let memory = if memory.is_empty() { vec![None] } else { memory.into_iter().map(Some).collect() };
        Permitted { cpus, memory, left_out }
    }

    /// All pairs of processors and memory.
    fn pairs(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        self.memory.iter().flat_map(|memory| self.cpus.iter().map(|cpus| (*cpus, *memory)))
    }

    /// Pairs with the largest memory limit, used by C.
    fn widest(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        self.pairs().filter(|(_, memory)| Some(memory) == self.memory.last())
    }
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let permitted = Permitted::of(&sizes, &request.permits);
    let mut cells = cells::of_a(&sizes, &permitted);
    cells.extend(cells::of_b(&sizes));
    cells.extend(cells::of_c(&sizes, &permitted));
    cells.extend(codecs::of_codecs(sizes.codecs));
    cells.extend(codecs::of_blocks(sizes.codecs));
    let mut hypotheses = claims::claims(&permitted, &request.engines);
    hypotheses.extend(codecs::claims(sizes.codecs, &request.engines));
    let title = "Compression chosen per level, by hand or by the engine";
    let swept = vec![Metric::IndexBytes, Metric::WriteAmplification, Metric::StoreBytes, Metric::OperationsPerSecond];
    let drawn = vec![
        Metric::OperationsPerSecond,
        Metric::OperationsPerSecondOfAll,
        Metric::P50Latency,
        Metric::P99Latency,
        Metric::CpuPerOperation,
        Metric::ReadPerOperation,
        Metric::StoreBytes,
        Metric::IndexBytes,
        Metric::CacheHits,
        Metric::CompressedCacheHits,
    ];
    let mut questions = questions(&sizes, &permitted);
    questions.extend(codecs::questions(sizes.codecs));
    let left_out = permitted.left_out.into_iter().chain(codecs::left_out(&request.engines)).collect();
    Study { questions, cells, hypotheses, drawn, swept, left_out, ..request.study(NAME, title, Some(scale), sizes.repeats) }
}

fn questions(sizes: &Sizes, permitted: &Permitted) -> Vec<String> {
    let memory: Vec<String> = permitted.memory.iter().map(|memory| memory.map_or("no limit".to_string(), format_bytes)).collect();
    let codecs = |strategies: &[(&str, Levels)]| {
        let word = |codec: &str| {
            if codec == NONE {
                "none"
            } else if codec == LZ4 {
                "lz4"
            } else {
                "zstd"
            }
        };
        let short = |levels: &Levels| levels.map(word).join(" ");
        strategies.iter().map(|(name, levels)| format!("{name} ({})", short(levels))).collect::<Vec<_>>().join("; ")
    };
    vec![
        format!(
            "A: with more processors, does stronger compression improve the whole? {} keys with values of {} bytes, block cache of {}, {} \
             clients: fillseq, compact (everything), readrandom (uniform, {} reads by each client). Processors: {}; \
             memory: {}. Strategies, by level from 0: {}; on SinterDB also auto.",
            sizes.a.keys,
            cells::VALUE_A,
            format_bytes(cells::CACHE_A / sizes.a.divisor),
            cells::CLIENTS_A,
            sizes.reads_of_a(),
            list(&permitted.cpus),
            memory.join(", "),
            codecs(&STRATEGIES_A)
        ),
        format!(
            "B: does the choice by level hold up when reads are skewed? {} keys with values of {} bytes, block cache of {}, one client: \
             fillseq, what it owes to compactions, then as many reads as keys with db_bench's read_random_exp_range = {}, with Zipf's law \
             (0.9, cache warm, and 1.2), and two mixes of reads and updates by Zipf 0.9, 95/5 and 50/50, in which auto is judged by what \
             rewrites. Strategies: {}; on SinterDB also auto.",
            sizes.b.keys,
            cells::VALUE_B,
            format_bytes(cells::CACHE_B / sizes.b.divisor),
            cells::EXP_RANGE,
            codecs(&STRATEGIES_B)
        ),
        format!(
            "C: does auto gain where no list fits all data? A's geometry and {} of memory, two families with the same list: {} % of the \
             keys are updated, the others are read, half of {} operations each, uniform. Strategies: B's.",
            memory.last().map_or("", String::as_str),
            cells::HOT_SHARE * 100.0,
            (sizes.a.keys as f64 * cells::BOTH_BY_KEY) as u64,
        ),
        format!(
            "How to read B: with that range db_bench draws exp(-{} u) of the keys, u uniform in 0 to 1, so that all but about {:.0} of \
             100,000 reads ask for one and the same key: the hot set is a block. Zipf 1.2 has a hot set that the cache holds nearly whole, \
             Zipf 0.9 one that it does not. A tree has the levels that its data need under static targets ({} for level 1, each level {} \
             times the one above): codecs of deeper levels are settings without data, in the original too. The table of what engines had \
             says where the data lay.",
            cells::EXP_RANGE,
            (sizes.b.keys as f64).ln() / cells::EXP_RANGE * 1e5,
            format_bytes(super::settings::BASE * sizes.b.memtable()),
            super::settings::FAN_OUT,
        ),
        format!(
            "Both engines have the same settings, by RocksDB's names: zstd of level {ZSTD_LEVEL} (stated, because their defaults differ), \
             blocks of {} bytes, no filters (db_bench's default), leveled compaction with static targets, memtables and tables of {} (A) \
             and {} (B), log on, no sync. Half of a value compresses away. Memtables, cache and limits of memory of A are the original's \
             over {}, as are its keys.",
            cells::BLOCK,
            format_bytes(sizes.a.memtable()),
            format_bytes(sizes.b.memtable()),
            sizes.a.divisor
        ),
    ]
}
