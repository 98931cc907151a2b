//! The names and properties of db_bench's workloads.

use super::config::BenchConfig;
use crate::workload::{Distribution, Permutation, Zipf, mix};

/// One workload, named as in db_bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Writes keys in order into a fresh database.
    FillSeq,
    /// Writes random keys into a fresh database.
    FillRandom,
    /// Writes every key once, in random order, into a fresh database; one thread.
    FillUniqueRandom,
    /// Writes random keys out of the first thousandth of `num` into a fresh database, each durable before the next.
    FillSync,
    /// Writes random keys.
    Overwrite,
    /// Reads, then writes random keys.
    UpdateRandom,
    /// Walks forward from the first key.
    ReadSeq,
    /// Walks backward from the last key.
    ReadReverse,
    /// Reads random keys.
    ReadRandom,
    /// Reads random keys that are one character longer than those written: none exists.
    ReadMissing,
    /// Reads random keys, `batch_size` at once.
    MultiReadRandom,
    /// A new iterator, a seek to a random key and `seek_nexts` steps.
    SeekRandom,
    /// `seekrandom` beside one thread that overwrites.
    SeekRandomWhileWriting,
    /// `readrandom` beside one thread that overwrites.
    ReadWhileWriting,
    /// Reads and writes random keys, `readwritepercent` of them reads.
    ReadRandomWriteRandom,
    /// Deletes random keys.
    DeleteRandom,
    /// Deletes keys in order.
    DeleteSeq,
    /// Merges the whole key space.
    Compact,
    /// Flushes memtables into tables.
    Flush,
    /// Waits until no background work is left.
    WaitForCompaction,
    /// Prints counters.
    Stats,
    /// Prints files and bytes per level.
    LevelStats,
}

use Workload::*;

impl Workload {
    /// Every workload with its name.
    pub const ALL: [(&'static str, Workload); 22] = [
        ("fillseq", FillSeq),
        ("fillrandom", FillRandom),
        ("filluniquerandom", FillUniqueRandom),
        ("fillsync", FillSync),
        ("overwrite", Overwrite),
        ("updaterandom", UpdateRandom),
        ("readseq", ReadSeq),
        ("readreverse", ReadReverse),
        ("readrandom", ReadRandom),
        ("readmissing", ReadMissing),
        ("multireadrandom", MultiReadRandom),
        ("seekrandom", SeekRandom),
        ("seekrandomwhilewriting", SeekRandomWhileWriting),
        ("readwhilewriting", ReadWhileWriting),
        ("readrandomwriterandom", ReadRandomWriteRandom),
        ("deleterandom", DeleteRandom),
        ("deleteseq", DeleteSeq),
        ("compact", Compact),
        ("flush", Flush),
        ("waitforcompaction", WaitForCompaction),
        ("stats", Stats),
        ("levelstats", LevelStats),
    ];

    /// Name in db_bench.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, w)| *w == self).map_or("", |(name, _)| name)
    }

    /// Whether the workload begins with an empty database.
    pub fn is_load(self) -> bool {
        matches!(self, FillSeq | FillRandom | FillUniqueRandom | FillSync)
    }

    /// Whether the workload is one call to the target, without operations of its own.
    pub fn is_single_call(self) -> bool {
        matches!(self, Compact | Flush | WaitForCompaction | Stats | LevelStats)
    }

    /// Whether an additional thread overwrites meanwhile.
    pub fn has_background_writer(self) -> bool {
        matches!(self, ReadWhileWriting | SeekRandomWhileWriting)
    }

    /// Whether `--benchmark_write_rate_limit` applies, as in db_bench.
    pub(super) fn obeys_write_rate(self) -> bool {
        self.is_load() || matches!(self, Overwrite | UpdateRandom)
    }

    /// Whether the workload reports how many of the requested keys exist.
    pub fn counts_found(self) -> bool {
        matches!(
            self,
            UpdateRandom
                | ReadRandom
                | ReadMissing
                | MultiReadRandom
                | SeekRandom
                | SeekRandomWhileWriting
                | ReadWhileWriting
                | ReadRandomWriteRandom
        )
    }

    /// Upper end of the key numbers, which are drawn from 0.
    pub(super) fn key_space(self, config: &BenchConfig) -> u64 {
        if self == FillSync { (config.num / 1000).max(1) } else { config.num }
    }

    /// Operations per thread, unless a duration ends the workload.
    pub(super) fn operations(self, config: &BenchConfig) -> u64 {
        let or_num = |own: Option<u64>| own.unwrap_or(config.num);
        match self {
            FillSeq | FillRandom | FillUniqueRandom | FillSync | Overwrite => or_num(config.writes.filter(|n| *n > 0)),
            DeleteSeq | DeleteRandom => or_num(config.deletes),
            UpdateRandom | ReadRandomWriteRandom => or_num(config.reads.max(config.writes)),
            _ => or_num(config.reads),
        }
    }

    /// Whether `--duration` applies: to workloads in random order; those in key order end by count.
    pub(super) fn obeys_duration(self) -> bool {
        !matches!(self, FillSeq | FillUniqueRandom | ReadSeq | ReadReverse | DeleteSeq)
    }

    /// Key distribution of a thread of this workload.
    pub(super) fn distribution(self, config: &BenchConfig) -> Distribution {
        match self {
            FillSeq | DeleteSeq | ReadSeq | ReadReverse => Distribution::Sequential,
            FillUniqueRandom => Distribution::Unique(Permutation::new(config.num, mix(config.seed))),
            FillRandom | FillSync => Distribution::Uniform,
            _ if config.zipf_alpha > 0.0 => {
                // One permutation for all workloads and threads of a run: popular keys stay popular.
                let permutation = Permutation::new(config.num, mix(!config.seed));
                Distribution::Zipf(Zipf::new(config.num, config.zipf_alpha), permutation)
            }
            ReadRandom | ReadMissing | MultiReadRandom | ReadWhileWriting if config.read_random_exp_range > 0.0 => {
                Distribution::Exponential(config.read_random_exp_range)
            }
            _ => Distribution::Uniform,
        }
    }
}

/// Reads a comma-separated list such as `fillrandom,readrandom[X3]`: `[Xn]` repeats a workload n times.
///
/// # Errors
/// One line that names the first unknown workload or malformed repeat.
pub fn parse_workloads(list: &str) -> Result<Vec<Workload>, String> {
    let mut workloads = Vec::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, repeat) = match item.split_once('[') {
            Some((name, suffix)) => (name, parse_repeat(item, suffix)?),
            None => (item, 1),
        };
        let workload = Workload::ALL.iter().find(|(known, _)| *known == name).map(|(_, workload)| *workload);
        let workload = workload.ok_or_else(|| {
            let known: Vec<&str> = Workload::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown workload {name:?}; known are {}", known.join(", "))
        })?;
        workloads.extend(std::iter::repeat_n(workload, repeat));
    }
    if workloads.is_empty() { Err("benchmarks names no workload".into()) } else { Ok(workloads) }
}

fn parse_repeat(item: &str, suffix: &str) -> Result<usize, String> {
    let count = suffix.strip_prefix('X').and_then(|rest| rest.strip_suffix(']')).and_then(|n| n.parse().ok());
    count.filter(|n| (1..=1000).contains(n)).ok_or_else(|| format!("{item:?}: only [X1] to [X1000] may follow a workload"))
}
