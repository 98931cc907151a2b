//! What one run does.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version of [`RunSpec`]; grows when a field changes its meaning or goes away.
pub const SPEC_VERSION: u32 = 1;

/// A run, complete: the same spec on the same machine does the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`SPEC_VERSION`].
    pub version: u32,
    /// What is measured.
    pub engine: EngineSpec,
    /// Where its data lies.
    pub medium: Medium,
    /// What is done to it.
    pub workload: Workload,
    /// All streams of keys, operations and values follow from it.
    pub seed: u64,
    /// What the process may use.
    #[serde(default)]
    pub limits: Limits,
}

impl RunSpec {
    /// Below which the tiers of the run lie, in their order.
    pub fn tier_directories(&self) -> impl Iterator<Item = &Path> {
        self.engine.tiers.iter().map(|tier| tier.directory.as_ref().unwrap_or(&self.medium.directory).as_path())
    }
}

/// An engine and its settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// `sinter`, `rocksdb` or `fjall`; of servers `sinter` or `redis`.
    pub name: String,
    /// Settings of the database by RocksDB's option names, which are the language that all engines are spoken to in; each engine says in
    /// its record which of them it has no counterpart for.
    #[serde(default)]
    pub database: BTreeMap<String, String>,
    /// Families; the first is the one of phases that name none.
    pub families: Vec<FamilySpec>,
    /// Write-ahead log on.
    pub wal: bool,
    /// Every write durable before it returns.
    #[serde(default)]
    pub sync: bool,
    /// The engine does not see the cgroups that confine it, and does as if there were none: what it is worth to look at them. SinterDB
    /// looks; for others it changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hide_limits: bool,
    /// A second passes on the engine's clock with every so many operations, not with the system's: what depends on the age of data then
    /// repeats exactly, at any speed. `None`: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_clock_second: Option<f64>,
    /// Other media for files of some temperature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierSpec>,
    /// All files lie on an emulated drive of zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZonesSpec>,
    /// The engine is a server, started for the run. Its settings are those of `database`, by the names that its own command line has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSpec>,
}

/// A new emulated drive of zones, and how the store on it is run. Policies by their names (docs/engine/zones.md). A small drive is kept in
/// memory, a larger one in a sparse file of the run's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesSpec {
    /// Zones, those for metadata among them.
    pub zones: u32,
    /// Bytes from the start of one to that of the next.
    pub zone_bytes: u64,
    /// Bytes of each that can be written; all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_capacity: Option<u64>,
    /// Zones that can be active, and open, at a time; no limit if `None`.
    pub max_active: Option<u32>,
    /// Which zone a file is written into.
    pub allocation: String,
    /// When a dead zone is reset.
    pub reset: String,
    /// Which zone the collector empties first; the store's own rule if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<String>,
    /// Whether a file that its policy finds no zone for takes another one, or waits; it fails if not.
    pub fallback: bool,
    /// Whether the engine is told how large a zone is, so that compactions go by zones.
    pub tells: bool,
}

/// A server that is spoken to in Redis's protocol, and how it is spoken to: by one thread with many connections, each of which sends
/// requests and waits for all of their replies before it sends more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Its program; `None`: for `sinter` the one that runs this, for `redis` the `redis-server` that is found first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// Connections.
    pub connections: usize,
    /// Requests that a connection sends at once.
    pub pipeline: usize,
    /// A run in which the log was shortened is a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_log: bool,
    /// Not the laboratory asks, but this `redis-benchmark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<PathBuf>,
}

/// A medium for the files of a temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// `hot`, `warm`, `cool`, `cold` or `ice`.
    pub temperature: String,
    /// Where its files lie: the run makes a directory of its own below it and removes it at the end. `None`: where its other data lies.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// How slow it is made; `None`: as it is.
    #[serde(default)]
    pub model: Option<MediumModel>,
}

/// A model of a slow medium, not a simulation of one: it has one head, which serves one request at a time, without a cache and without
/// reordering.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumModel {
    /// Megabytes (10^6 bytes) read per second.
    pub read_mb_per_s: f64,
    /// Megabytes written per second.
    pub write_mb_per_s: f64,
    /// Milliseconds before a read that does not begin where the last request ended.
    pub seek_ms: f64,
}

/// A family and its settings, by RocksDB's option names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilySpec {
    /// Its name.
    pub name: String,
    /// Its settings.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Where data lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// A directory; the run makes one of its own below it and removes it at the end.
    pub directory: PathBuf,
}

/// What the process may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processors (affinity); all if `None`.
    pub cpus: Option<usize>,
    /// Bytes of memory, page cache included (a cgroup); no limit if `None`.
    pub memory_bytes: Option<u64>,
    /// Processor time, percent of a processor in each period of 100 ms (a cgroup): what containers are given. No limit if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
}

/// Keys, values and what is done with them, in phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in tables and charts.
    pub name: String,
    /// Key numbers run from 0 to here.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: ValueSize,
    /// Values compress to about this part of their size; those below 200 bytes or so less well (docs/lab/lab.md).
    pub compression_ratio: f64,
    /// In order.
    pub phases: Vec<Phase>,
}

/// Sizes of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueSize {
    /// All alike.
    Fixed(usize),
    /// Each size from the first to the second alike often; drawn for each write from its thread's stream, so a key's values differ in
    /// size.
    Uniform(usize, usize),
    /// Generalised Pareto with location 0, scale and shape, cut at `most`: sizes of values at Facebook (Cao et al., FAST 2020). Drawn as
    /// `Uniform`.
    Pareto {
        /// Scale, bytes.
        scale: f64,
        /// Shape.
        shape: f64,
        /// Largest.
        most: usize,
    },
}

/// One part of a workload, measured by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name in results.
    pub name: String,
    /// What is done.
    pub kind: PhaseKind,
}

/// What a phase does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseKind {
    /// Puts every key once into the first family. (To load several families, run one phase for each, with a mix of `put` alone, the
    /// distribution `unique`, and as many operations as its range has keys.)
    Load {
        /// In which order.
        order: Order,
        /// By how many threads, each its share.
        threads: usize,
    },
    /// Flushes, then waits until no compaction is due.
    Settle,
    /// Merges the whole key space.
    Compact,
    /// A mix of operations.
    Run {
        /// Which operations, and on which keys.
        mixes: Vec<Mix>,
        /// Operations of all threads together, those of the warm-up included; each thread does its share. `None` if seconds decide.
        operations: Option<u64>,
        /// Seconds; `None` if the count decides. One of both is given.
        seconds: Option<f64>,
        /// Threads.
        threads: usize,
        /// When operations start.
        pace: Pace,
        /// Seconds (of the phase) at its start: what starts in them counts in no latency and no rate. A number of operations that all
        /// start in them is a failure.
        warm_up_seconds: f64,
        /// Who writes meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer>,
    },
    /// Replays a text trace (docs/lab/traces.md) with one thread.
    Replay {
        /// The file.
        trace: PathBuf,
        /// When operations start.
        pace: Pace,
    },
}

/// One more thread, which puts values into the first family as long as the others work. Its puts count in what was written, in the store's
/// size and in the series of seconds, and neither as operations of the phase nor in its latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writer {
    /// So many per second, at times that do not depend on the engine: every engine is read beside the same writes.
    pub per_second: f64,
    /// At which keys.
    pub distribution: Distribution,
}

/// Order of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending.
    Sequential,
    /// Each key once, by a permutation.
    Random,
}

/// When operations start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Each thread starts one when its last one ended.
    Closed,
    /// So many per second of all threads together start at times that do not depend on the engine; latency counts from the intended start
    /// (coordinated omission: Tene 2013).
    Open(f64),
    /// At the times that the trace says, counted from its first: an open loop. For replays.
    Trace,
}

/// A kind of client: what it does, with which part of the keys, in which family. Of all operations, each mix has the share of its weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Its name in results, such as `hot`.
    pub name: String,
    /// Its share: weight over the sum of all weights.
    pub weight: f64,
    /// The family; the first if `None`.
    #[serde(default)]
    pub family: Option<String>,
    /// The part of the key space, from 0 to 1; `(0, 1)` is all.
    pub range: (f64, f64),
    /// Which keys.
    pub distribution: Distribution,
    /// Weights of the operations: `get`, `get_missing`, `put`, `insert` (a key that was not there, next to a random one of the range),
    /// `delete`, `read_modify_write`, `scan`; of servers `get`, `put`, `delete` and templates of commands, such as
    /// `HSET {key} {member of 10} {value}` (docs/lab/lab.md).
    pub operations: BTreeMap<String, f64>,
    /// Entries read by a scan, each length from 1 to here alike often.
    pub scan_length: usize,
}

/// Which keys of a range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// One after another, from the start again behind the end; threads share the walk.
    Sequential,
    /// All alike.
    Uniform,
    /// Each once, in random order, then again; threads share the walk.
    Unique,
    /// Exact Zipf: weight `1 / (rank + 1)^alpha`, ranks permuted over the range.
    Zipf(f64),
    /// The newest insert of the thread most often, then older ones, then the loaded keys of the range from its end: Zipf's law over ages
    /// (YCSB `latest`).
    Latest(f64),
    /// db_bench's `read_random_exp_range`; as there, 0 is uniform.
    Exponential(f64),
}
