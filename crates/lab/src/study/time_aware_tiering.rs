//! Study 2, after a study of 2025 on RocksDB 10.2: what does it cost to keep data of less than some age off the last level, when keys are
//! drawn by Zipf's law, and at which age is nothing left there? Two ends that its authors left open are followed here: a second medium
//! that is slow, and the engine that finds the age itself.

mod cells;
mod claims;
mod migration;
#[cfg(test)]
mod tests;

use super::metric::{BUDGET, Metric};
use super::plan::{Request, Scale, Study};
use super::settings::MEMTABLE;
use crate::run::MediumModel;
use sinterdb::internal::settings::format_bytes;

/// Name of the study on the command line.
pub const NAME: &str = "time-aware-tiering";

/// Engine with a scaled clock, tiers, and a choice of the age by itself.
const OWN: &str = "sinter";
/// Engine of the original study, which uses the system's clock.
const ORIGINAL: &str = "rocksdb";

/// A skew, with the original's length of a run and its five ages, seconds.
struct Alpha {
    name: &'static str,
    exponent: f64,
    run: u64,
    ages: [u64; SHARES.len()],
}

const ALPHAS: [Alpha; 3] = [
    Alpha { name: "0.5", exponent: 0.5, run: 100, ages: [0, 20, 50, 80, 120] },
    Alpha { name: "0.9", exponent: 0.9, run: 80, ages: [0, 15, 40, 65, 120] },
    Alpha { name: "1.2", exponent: 1.2, run: 50, ages: [0, 10, 25, 40, 120] },
];

/// The original's names of its ages, percent of a run: 0 is universal compaction alone, and 100 more than any run lasts.
const SHARES: [u64; 5] = [0, 20, 50, 80, 100];
/// The original's age of 100 percent, in percent of a run.
const ALL: u64 = 120;
/// Share in cells where the engine chooses the age.
const AUTO: &str = "auto";

/// Keys of experiments 1 and 2 before they are divided, and puts per key. With memtables of 64 MiB they leave as many tables on the last
/// level as the original had: four, three and one.
const KEYS: u64 = 5_000_000;
const PUTS_PER_KEY: u64 = 2;
/// Bytes of a key and a value.
const KEY: usize = 16;
const VALUE: usize = 100;

/// Sizes of the experiments at a scale.
struct Sizes {
    /// Divisor of keys, memtables and tables in experiment 1.
    fast: u64,
    /// Length of a run of experiment 1 on RocksDB, from which its ages follow, seconds.
    fast_run: u64,
    /// Divisor of keys, memtables and tables in experiment 2.
    table: u64,
    /// Divisor of the original's seconds in RocksDB's runs of experiment 2.
    seconds: u64,
    /// Keys of experiments 3 and 4.
    tiered_keys: u64,
    tiered_memtable: u64,
    /// Length of a run of experiments 3 and 4 on RocksDB, from which ages follow, seconds.
    tiered_run: u64,
    /// Model of the slow medium.
    slow: MediumModel,
    repeats: u32,
    /// Additional repeats of the cells that show the cost of SinterDB's tiering, puts per second on one medium, which is claimed to be next
    /// to nothing.
    more: u32,
    /// Additional repeats of SinterDB's cells with two media, where a twentieth of a share is in question.
    more_tiered: u32,
}

impl Sizes {
    fn of(scale: Scale) -> Sizes {
        let disk = |milliseconds| MediumModel { read_mb_per_s: 150.0, write_mb_per_s: 150.0, seek_ms: milliseconds };
        match scale {
            Scale::Ci => Sizes {
                fast: 500,
                fast_run: 1,
                table: 500,
                seconds: 100,
                tiered_keys: 2_000,
                tiered_memtable: 16 << 10,
                tiered_run: 1,
                slow: disk(0.1),
                repeats: 2,
                more: 0,
                more_tiered: 0,
            },
            Scale::Small => Sizes {
                fast: 5,
                fast_run: 10,
                table: 10,
                seconds: 5,
                tiered_keys: 200_000,
                tiered_memtable: 512 << 10,
                tiered_run: 10,
                slow: disk(1.0),
                repeats: 3,
                more: 98,
                more_tiered: 2,
            },
            Scale::Paper => Sizes {
                fast: 1,
                fast_run: 50,
                table: 1,
                seconds: 1,
                tiered_keys: 10_000_000,
                tiered_memtable: 16 << 20,
                tiered_run: 100,
                slow: disk(8.0),
                repeats: 3,
                more: 0,
                more_tiered: 0,
            },
        }
    }
}

/// The study.
pub fn study(scale: Scale, request: &Request) -> Study {
    let sizes = Sizes::of(scale);
    let mut cells = cells::of_fast(&sizes);
    cells.extend(cells::of_table(&sizes));
    cells.extend(cells::of_tiered(&sizes));
    cells.extend(migration::cells(&sizes));
    let there = |engine: &str| request.engines.iter().any(|name| name == engine);
    cells.retain(|cell| cell.engines.iter().any(|engine| there(engine)));
    let swept = vec![
        Metric::LastLevelTables,
        Metric::LastLevelByteRatio,
        Metric::OperationsPerSecond,
        Metric::StoreBytes,
        Metric::FastReads,
        Metric::FastBytes,
        Metric::ReadLatency,
    ];
    let drawn =
        [Metric::LastLevelBytes, Metric::RunTime, Metric::P50Latency, Metric::P99Latency, Metric::CpuPerOperation, Metric::AgeShare];
    let title = "Time-aware tiering under writes by Zipf's law";
    Study {
        questions: questions(&sizes),
        cells,
        hypotheses: claims::claims(&request.engines).into_iter().chain(migration::claims(&request.engines)).collect(),
        drawn: swept.iter().copied().chain(drawn).collect(),
        swept,
        left_out: left_out(scale, &request.engines),
        ..request.study(NAME, title, Some(scale), sizes.repeats)
    }
}

fn questions(sizes: &Sizes) -> Vec<String> {
    let ages = |alpha: &Alpha| format!("{} (runs of {} s: {:?})", alpha.name, alpha.run, &alpha.ages[1..]);
    let alphas = ALPHAS.iter().map(ages).collect::<Vec<_>>().join(", ");
    let keys = |divisor: u64| (KEYS / divisor, PUTS_PER_KEY * KEYS / divisor, format_bytes(MEMTABLE / divisor));
    let ((fast_keys, fast_puts, fast_memtable), (keys, puts, memtable)) = (keys(sizes.fast), keys(sizes.table));
    vec![
        format!(
            "Data that was written less than some time ago stays off the last level, so that the last level can lie on another medium. \
             Universal compaction, keys by Zipf's law with exponents {alphas}: the original's ages in seconds, which it calls 20, 50, 80 \
             and 100 % of a run, beside 0, universal compaction alone. preserve_internal_time_seconds and \
             preclude_last_level_data_seconds are both the age, last_level_temperature is cold."
        ),
        format!(
            "1: what does it cost, as fast as puts go? {fast_puts} puts of {KEY} + {VALUE} bytes at {fast_keys} keys, memtables and tables \
             of {fast_memtable}; ages of 0 and 20 % on SinterDB with {} repeats more than all others. 2: at which age is nothing \
             left on the last level? {puts} puts at {keys} keys, memtables and tables of {memtable}. Each with the compactions that \
             the puts made necessary.",
            sizes.more,
        ),
        format!(
            "3: with the last level on a slow medium (a model: one head, {} ms for a read that does not go on where the last one ended, \
             {} MB/s) and everything else on a fast one, how many reads does the fast one answer, and how much of the data does it hold? \
             {} keys, all put once; then as many operations by Zipf's law, one in {} a read; a merge of all, which sorts by age what \
             is there; and what is measured: one operation for {} keys, every other one a read. Reads that a memtable answers are answered \
             above the last level; all of SinterDB's have {} repeats more. 4: does the engine that is told a budget, and neither age nor \
             exponent, find as good an age as the best of the five that has no more than {:.0} % of the data there?",
            sizes.slow.seek_ms,
            sizes.slow.read_mb_per_s,
            sizes.tiered_keys,
            cells::OPERATIONS_PER_READ,
            cells::KEYS_PER_OPERATION,
            sizes.more_tiered,
            100.0 * BUDGET,
        ),
        format!(
            "5: tiering is turned on in a database that has data: {} keys, as many updates by Zipf's law (0.9), a merge of all, and then \
             an age of half a run, with ages tracked before and without. Without, the merge dropped what tells ages: RocksDB then takes \
             all of it for old, SinterDB for young or for old (`untimed_data`). Updates of a tenth of the keys and a merge of all show \
             what that writes and where it puts the data, as many reads which level answers them. One medium, three levels.",
            sizes.tiered_keys,
        ),
        format!(
            "Time: SinterDB's clock goes by the number of operations done, so that a run of {puts} puts takes the original's \
             seconds at any speed and has the original's ages. In 2 and 5 it has no threads either (max_background_jobs = 0), and repeats \
             exactly. RocksDB has no other clock than the world's. In 2 to 5 puts come to it at a fixed rate, below what it can do, \
             so that a run takes a known time, and ages are the same shares of it; in 1 they come as fast as they go, and the share \
             that an age was of the run stands beside it."
        ),
    ]
}

fn left_out(scale: Scale, engines: &[String]) -> Vec<String> {
    let there = |engine: &str| engines.iter().any(|name| name == engine);
    let mut list = Vec::new();
    if there(ORIGINAL) {
        list.push(
            "RocksDB on two media: it places files by temperature only through a file system of the user's, which its C interface does not \
             have. Its runs of 3 are on one medium, and say what the last level would have had to answer; how long it would have taken \
             is not known"
                .to_string(),
        );
        list.push(
            "reads by temperature of RocksDB's: it counts compactions' reads with them. What levels answered is counted by read"
                .to_string(),
        );
        if scale == Scale::Ci {
            list.push(
                "RocksDB's ages as shares of a run: runs of this scale are shorter than the least age it can be told, a second".to_string(),
            );
        }
    }
    list.extend(
        engines.iter().filter(|engine| ![OWN, ORIGINAL].contains(&engine.as_str())).map(|engine| format!("{engine}: it has no tiers")),
    );
    list
}
