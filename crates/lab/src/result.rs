//! Results of bench runs as data, stored as versioned JSON; text is printed from them.

mod machine;
mod text;
mod zones;

#[cfg(test)]
mod tests;

pub use machine::{Machine, Process};
pub(crate) use text::thousands;
pub use text::{codecs_in_short, header, print_levels, print_statistics, print_workload};
pub use zones::Zones;

use crate::bench::BenchConfig;
use crate::target::{Counters, Figures, LevelFigures};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`Report`]; grows when a field changes its meaning or goes away.
pub const RESULT_VERSION: u32 = 1;

/// A whole bench run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`RESULT_VERSION`].
    pub version: u32,
    /// Measured program and version, such as `sinterdb 0.1.0`.
    pub target: String,
    /// Commit of the measured code, where known.
    pub commit: Option<String>,
    /// Start, unix seconds.
    pub started_unix: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Parameters of the workloads.
    pub bench: BenchConfig,
    /// Settings of the database, by name.
    pub settings: BTreeMap<String, String>,
    /// One entry per workload, in order.
    pub workloads: Vec<WorkloadResult>,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// Failure that ended the run early.
    pub failure: Option<String>,
}

/// Result of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// Name of the workload in db_bench.
    pub name: String,
    /// Reason why the workload did not run.
    pub skipped: Option<String>,
    /// Whether the user or a failure ended the workload early.
    pub interrupted: bool,
    /// Threads that count in `operations`.
    pub threads: usize,
    /// Operations of all threads.
    pub operations: u64,
    /// Time from the first start to the last end, seconds.
    pub elapsed_seconds: f64,
    /// `operations / elapsed_seconds`.
    pub operations_per_second: f64,
    /// Mean time of an operation as its thread saw it, microseconds.
    pub micros_per_operation: f64,
    /// Key and value bytes read or written.
    pub bytes: u64,
    /// Keys found and keys asked for.
    pub found: Option<Found>,
    /// Latencies; `None` if nothing was timed.
    pub latency: Option<Latency>,
    /// The thread that wrote meanwhile; not counted in the figures before.
    pub background_writer: Option<BackgroundWriter>,
    /// Bytes written during the workload, by cause (`stats`: since the database was opened).
    pub written: Written,
    /// Activity of the zoned store below its files during the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,
    /// Space at the end of the workload.
    pub space: Space,
    /// Stalls of writers during the workload.
    pub stalls: Stalls,
    /// Memory of the process.
    pub memory: Memory,
    /// CPU time of the process during the workload, all threads, seconds.
    pub cpu_seconds: f64,
    /// The levels at the end of the workload.
    pub levels: Vec<LevelResult>,
    /// Codecs that the engine had chosen by the end of the workload, and why, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_codecs: Option<String>,
    /// Named counters and distributions since the database was opened.
    #[serde(flatten)]
    pub counters: Counters,
}

/// Hits of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Keys found.
    pub found: u64,
    /// Keys asked for.
    pub asked: u64,
}

/// Latencies of all threads together, nanoseconds. One value per call: a batch counts once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Calls timed.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Longest.
    pub max: u64,
    /// The distribution: upper end of a bucket (nanoseconds) and calls in it; empty buckets are left out.
    pub buckets: Vec<(u64, u64)>,
}

/// Longest latency that is distinguished from longer ones: an hour, nanoseconds.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

impl Latency {
    /// An empty histogram, nanoseconds, three significant digits; never grows.
    pub fn histogram() -> Histogram<u64> {
        Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).unwrap_or_else(|_| unreachable!("constant bounds"))
    }

    /// Summarises a histogram of nanoseconds. Buckets grow by about a fifth.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        let buckets = histogram.iter_log(64, 1.2).map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        Latency {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            deviation: histogram.stdev(),
            p50: at(0.5),
            p75: at(0.75),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max(),
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Figures of the writer beside the readers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackgroundWriter {
    /// Writes.
    pub operations: u64,
    /// Writes per second of the writer's own time.
    pub operations_per_second: f64,
}

/// Causes that are reported and are no part of write amplification (log, flushes, compactions and blobs over the user's bytes), because not
/// all engines account for them.
const BOOKKEEPING: [&str; 2] = ["manifest", "checkpoint"];

/// The write ledger's change during a workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Key and value bytes written by the workload.
    pub user_bytes: u64,
    /// Bytes that the store wrote, by cause.
    pub by_cause: Vec<CauseBytes>,
    /// Sum over the causes, without manifests and checkpoints.
    pub total_bytes: u64,
    /// `total_bytes / user_bytes`; `None` without user writes.
    pub write_amplification: Option<f64>,
    /// Write amplification since the database was opened, including compactions that earlier workloads left behind.
    pub write_amplification_since_open: Option<f64>,
}

impl Written {
    /// The ledger's change between two moments.
    pub fn between(before: &Figures, after: &Figures) -> Self {
        let earlier = |cause: &str| before.written.iter().find(|(name, _)| name == cause).map_or(0, |(_, bytes)| *bytes);
        let lines =
            after.written.iter().map(|(cause, bytes)| CauseBytes { cause: cause.clone(), bytes: bytes.saturating_sub(earlier(cause)) });
        let by_cause: Vec<CauseBytes> = lines.filter(|line| line.bytes > 0).collect();
        let ratio = |total: u64, user: u64| (user > 0).then(|| total as f64 / user as f64);
        let counts = |cause: &str| !BOOKKEEPING.contains(&cause);
        let total_bytes = by_cause.iter().filter(|line| counts(&line.cause)).map(|line| line.bytes).sum();
        let since_open = after.written.iter().filter(|(cause, _)| counts(cause)).map(|(_, bytes)| bytes).sum();
        let user_bytes = after.user_bytes.saturating_sub(before.user_bytes);
        Written {
            user_bytes,
            total_bytes,
            write_amplification: ratio(total_bytes, user_bytes),
            write_amplification_since_open: ratio(since_open, after.user_bytes),
            by_cause,
        }
    }
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseBytes {
    /// Cause of the writes.
    pub cause: String,
    /// Bytes written.
    pub bytes: u64,
}

/// Space at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes of all files of the store: tables not yet deleted, logs and manifests too.
    pub store_bytes: u64,
    /// Bytes of live tables.
    pub live_table_bytes: u64,
    /// Keys that exist, as the workloads count them; `None` for a database that existed before, and beyond 2^32 keys.
    pub live_keys: Option<u64>,
    /// Bytes of keys and values of `live_keys`, uncompressed.
    pub live_user_bytes: Option<u64>,
    /// `store_bytes / live_user_bytes`. Below 1 where compression wins.
    pub space_amplification: Option<f64>,
    /// `live_table_bytes / live_user_bytes`.
    pub table_space_amplification: Option<f64>,
}

impl Space {
    /// Space of the store now, over the keys and user bytes that are alive.
    pub fn of(now: &Figures, live_keys: Option<u64>, live_user_bytes: Option<u64>) -> Self {
        let ratio = |bytes: u64| live_user_bytes.filter(|user| *user > 0).map(|user| bytes as f64 / user as f64);
        Space {
            store_bytes: now.store_bytes,
            live_table_bytes: now.live_table_bytes,
            live_keys,
            live_user_bytes,
            space_amplification: ratio(now.store_bytes),
            table_space_amplification: ratio(now.live_table_bytes),
        }
    }
}

/// Stalls of writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// Total duration, seconds.
    pub seconds: f64,
    /// Longest stall since the database was opened, seconds.
    pub longest_seconds_since_open: f64,
}

impl Stalls {
    /// Stalls between two moments.
    pub fn between(before: &Figures, after: &Figures) -> Self {
        Stalls {
            count: after.stalls.saturating_sub(before.stalls),
            seconds: after.stall_ns.saturating_sub(before.stall_ns) as f64 / 1e9,
            longest_seconds_since_open: after.longest_stall_ns as f64 / 1e9,
        }
    }
}

/// Memory, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Largest resident set during the workload (in the life of the process, where the kernel cannot reset it). For a server and its
    /// children: the largest proportional set that was seen.
    pub peak_resident_bytes: u64,
    /// Resident set at the end.
    pub resident_bytes: u64,
    /// Memtables.
    pub memtable_bytes: u64,
    /// Block cache.
    pub cache_bytes: u64,
}

impl Memory {
    /// Memory of the process and of the store in it.
    pub fn of(process: &Process, figures: &Figures) -> Self {
        Memory {
            peak_resident_bytes: process.peak_resident_bytes,
            resident_bytes: process.resident_bytes,
            memtable_bytes: figures.memtable_bytes,
            cache_bytes: figures.cache_bytes,
        }
    }
}

/// One level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelResult {
    /// Number of the level.
    pub level: usize,
    /// Sorted runs.
    pub runs: usize,
    /// Files.
    pub files: usize,
    /// Bytes.
    pub bytes: u64,
}

impl LevelResult {
    /// Levels in order.
    pub fn list(figures: &[LevelFigures]) -> Vec<LevelResult> {
        let numbered = figures.iter().enumerate();
        numbered.map(|(level, f)| LevelResult { level, runs: f.runs, files: f.files, bytes: f.bytes }).collect()
    }
}
