//! Figures of results, as data.

mod machine;
mod zones;

pub use machine::{Machine, Process};
pub use zones::Zones;

use crate::system::{Figures, LevelFigures};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

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

/// Shortens an engine's report of chosen codecs (`level 6: zstd since ..`) to `L0 none, L6 zstd`, without the reasons.
pub fn codecs_in_short(chosen: &str) -> String {
    let level = |line: &str| {
        let (level, rest) = line.strip_prefix("level ")?.split_once(": ")?;
        Some(format!("L{level} {}", rest.split_whitespace().next()?))
    };
    chosen.lines().filter_map(level).collect::<Vec<_>>().join(", ")
}

/// Formats a number with commas.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
