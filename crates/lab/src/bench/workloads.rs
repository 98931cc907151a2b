//! The names and properties of db_bench's workloads.

use super::config::BenchConfig;
use crate::run::{Calls, Distribution, Mix, Pace, PhaseKind, Writer};

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

    /// Whether the workload is one call to the engine, without operations of its own.
    pub fn is_single_call(self) -> bool {
        matches!(self, Compact | Flush | WaitForCompaction | Stats | LevelStats)
    }

    /// Whether an additional thread overwrites meanwhile.
    pub fn has_background_writer(self) -> bool {
        matches!(self, ReadWhileWriting | SeekRandomWhileWriting)
    }

    /// Whether `--benchmark_write_rate_limit` applies, as in db_bench.
    fn obeys_write_rate(self) -> bool {
        self.is_load() || self.has_background_writer() || matches!(self, Overwrite | UpdateRandom)
    }

    /// Upper end of the key numbers, which are drawn from 0.
    fn key_space(self, config: &BenchConfig) -> u64 {
        if self == FillSync { (config.num / 1000).max(1) } else { config.num }
    }

    /// Operations per thread, unless a duration ends the workload.
    fn operations(self, config: &BenchConfig) -> u64 {
        let or_num = |own: Option<u64>| own.unwrap_or(config.num);
        match self {
            FillSeq | FillRandom | FillUniqueRandom | FillSync | Overwrite => or_num(config.writes.filter(|n| *n > 0)),
            DeleteSeq | DeleteRandom => or_num(config.deletes),
            UpdateRandom | ReadRandomWriteRandom => or_num(config.reads.max(config.writes)),
            _ => or_num(config.reads),
        }
    }

    /// Whether `--duration` applies: to workloads in random order; those in key order end by count.
    fn obeys_duration(self) -> bool {
        !matches!(self, FillSeq | FillUniqueRandom | ReadSeq | ReadReverse | DeleteSeq)
    }

    /// Key distribution of a thread of this workload.
    fn distribution(self, config: &BenchConfig) -> Distribution {
        match self {
            FillSeq | DeleteSeq | ReadSeq | ReadReverse => Distribution::Sequential,
            FillUniqueRandom => Distribution::Unique,
            FillRandom | FillSync => Distribution::Uniform,
            _ if config.zipf_alpha > 0.0 => Distribution::Zipf(config.zipf_alpha),
            ReadRandom | ReadMissing | MultiReadRandom | ReadWhileWriting => Distribution::Exponential(config.read_random_exp_range),
            _ => Distribution::Uniform,
        }
    }

    /// Operations with their weights.
    fn mix(self, config: &BenchConfig) -> Vec<(&'static str, f64)> {
        let one = match self {
            ReadRandomWriteRandom => {
                let reads = config.readwritepercent.min(100) as f64;
                return vec![("get", reads), ("put", 100.0 - reads)];
            }
            DeleteSeq | DeleteRandom => "delete",
            UpdateRandom => "read_modify_write",
            ReadSeq => "walk",
            ReadReverse => "walk_back",
            ReadRandom | ReadWhileWriting | MultiReadRandom => "get",
            ReadMissing => "get_missing",
            SeekRandom | SeekRandomWhileWriting => "seek",
            _ => "put",
        };
        vec![(one, 1.0)]
    }

    /// The phase that is this workload.
    pub(super) fn phase(self, config: &BenchConfig) -> PhaseKind {
        match self {
            Compact => return PhaseKind::Compact,
            Flush => return PhaseKind::Flush,
            WaitForCompaction => return PhaseKind::Wait,
            Stats | LevelStats => return PhaseKind::Stats,
            _ => {}
        }
        let space = self.key_space(config);
        let mix = Mix {
            name: self.name().to_string(),
            range: (0.0, if space == config.num { 1.0 } else { space as f64 / config.num as f64 }),
            scan_length: usize::try_from(config.seek_nexts).unwrap_or(usize::MAX),
            ..Mix::all(self.distribution(config), self.mix(config))
        };
        let batched = self.is_load() || matches!(self, Overwrite | DeleteSeq | DeleteRandom | MultiReadRandom);
        let by_time = config.duration > 0 && self.obeys_duration();
        let calls = Calls {
            batch: if batched { config.batch_size } else { 1 },
            sync: self == FillSync,
            untimed: !config.time_operations,
            per_thread: true,
            bytes_per_second: Some(config.benchmark_write_rate_limit).filter(|rate| *rate > 0 && self.obeys_write_rate()),
            // Reading an existing database must not repeat the order in which it was filled.
            salt: self as u64 + 1,
        };
        PhaseKind::Run {
            mixes: vec![mix],
            operations: (!by_time).then(|| self.operations(config)),
            seconds: by_time.then_some(config.duration as f64),
            threads: if self == FillUniqueRandom { 1 } else { config.threads },
            pace: Pace::Closed,
            warm_up_seconds: 0.0,
            writer: self.has_background_writer().then(|| Writer { per_second: None, distribution: Overwrite.distribution(config) }),
            calls,
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
