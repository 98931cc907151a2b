//! Spec of one run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version of [`RunSpec`]; grows when a field changes its meaning or goes away.
pub const SPEC_VERSION: u32 = 1;

/// Complete description of a run: one spec on one machine always does the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`SPEC_VERSION`].
    pub version: u32,
    /// Engine under measurement.
    pub engine: EngineSpec,
    /// Medium of the engine's data.
    pub medium: Medium,
    /// Workload of the run.
    pub workload: Workload,
    /// Seed of all streams of keys, operations and values.
    pub seed: u64,
    /// Limits of the process.
    #[serde(default)]
    pub limits: Limits,
}

impl RunSpec {
    /// Directories below which the run puts its tiers, in the order of the tiers.
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
    /// Settings of the database by RocksDB's option names, the common language of all engines; each engine lists in its record the settings
    /// that it has no counterpart for.
    #[serde(default)]
    pub database: BTreeMap<String, String>,
    /// Families; phases that name none use the first.
    pub families: Vec<FamilySpec>,
    /// Whether the write-ahead log is on.
    pub wal: bool,
    /// Whether every write is durable before it returns.
    #[serde(default)]
    pub sync: bool,
    /// Hides the cgroups that confine the engine, so that it behaves as if unlimited: shows the worth of looking at them. Only SinterDB
    /// looks; for other engines it changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hide_limits: bool,
    /// Operations per second of the engine's clock, which then advances with operations instead of time: behaviour that depends on the age
    /// of data repeats exactly, at any speed. `None`: the system's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_clock_second: Option<f64>,
    /// Media for the files of some temperatures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierSpec>,
    /// Emulated drive of zones that holds all files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZonesSpec>,
    /// The engine is a server, started for the run; `database` holds settings by the names of its own command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSpec>,
    /// The database lies in the medium's directory itself and stays there. `None`: in a directory of the run, removed at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlace>,
}

/// Start of a database that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InPlace {
    /// Empty: files of a database are removed first.
    New,
    /// The database that is there.
    Existing,
}

/// A new emulated drive of zones, and the policies of the store on it by name (docs/engine/zones.md). A small drive is kept in memory, a
/// larger one in a sparse file of the run's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesSpec {
    /// Number of zones, those for metadata included.
    pub zones: u32,
    /// Bytes from the start of one zone to the start of the next.
    pub zone_bytes: u64,
    /// Writable bytes of each zone; all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_capacity: Option<u64>,
    /// Most zones that can be active, and open, at a time; no limit if `None`.
    pub max_active: Option<u32>,
    /// Policy that chooses the zone of a file.
    pub allocation: String,
    /// Policy that decides when a dead zone is reset.
    pub reset: String,
    /// Policy that chooses the next zone of the collector; the store's own if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector: Option<String>,
    /// Whether a file for which its policy finds no zone takes another one, or waits; it fails if not.
    pub fallback: bool,
    /// Whether the engine knows the size of zones, so that compactions fit tables to them.
    pub tells: bool,
}

/// A server of Redis's protocol and its client: one thread with many connections, each of which sends requests and waits for all of their
/// replies before it sends more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Program of the server; `None`: for `sinter` the running program, for `redis` the first `redis-server` in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// Connections.
    pub connections: usize,
    /// Requests that a connection sends at once.
    pub pipeline: usize,
    /// Whether a run fails if the server shortened its log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_log: bool,
    /// Program `redis-benchmark` that makes the requests instead of the laboratory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<PathBuf>,
}

/// A medium for the files of a temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// `hot`, `warm`, `cool`, `cold` or `ice`.
    pub temperature: String,
    /// Directory below which the run makes one for the tier's files and removes it at the end. `None`: that of the run's other data.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Model that slows the medium down; `None`: full speed.
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
    /// Delay of a read that does not begin where the last request ended, milliseconds.
    pub seek_ms: f64,
}

/// A family and its settings, by RocksDB's option names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilySpec {
    /// Name of the family.
    pub name: String,
    /// Settings of the family.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Medium of a run's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// A directory; the run makes one of its own below it and removes it at the end.
    pub directory: PathBuf,
}

/// Limits of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processors (affinity); all if `None`.
    pub cpus: Option<usize>,
    /// Bytes of memory, page cache included (a cgroup); no limit if `None`.
    pub memory_bytes: Option<u64>,
    /// Processor time, percent of a processor in each period of 100 ms (a cgroup), as for containers. No limit if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
}

/// Keys, values and operations, in phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name in tables and charts.
    pub name: String,
    /// Number of keys; key numbers run from 0 to `keys`, exclusive.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: ValueSize,
    /// Compressed size of values as a share of their size, about; values below some 200 bytes compress less well (docs/lab/lab.md).
    pub compression_ratio: f64,
    /// Phases, in order.
    pub phases: Vec<Phase>,
}

impl Workload {
    /// A workload of keys of one size and values of one size, half of which compresses away.
    pub fn new(name: impl Into<String>, keys: u64, (key_size, value): (usize, usize), phases: Vec<Phase>) -> Self {
        Workload { name: name.into(), keys, key_size, value_size: ValueSize::Fixed(value), compression_ratio: 0.5, phases }
    }
}

/// Sizes of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueSize {
    /// All values have this size.
    Fixed(usize),
    /// Each size from the first to the second is equally frequent; drawn for each write from its thread's stream, so that a key's values
    /// differ in size.
    Uniform(usize, usize),
    /// Generalised Pareto with location 0, cut at `most`: sizes of values at Facebook (Cao et al., FAST 2020). Drawn as for `Uniform`.
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
    /// Name in results.
    pub name: String,
    /// Work of the phase.
    pub kind: PhaseKind,
}

impl Phase {
    /// A phase of some work.
    pub fn new(name: impl Into<String>, kind: PhaseKind) -> Self {
        Phase { name: name.into(), kind }
    }

    /// Loads all keys, by `threads` threads.
    pub fn load(name: &str, order: Order, threads: usize) -> Self {
        Self::new(name, PhaseKind::Load { order, threads })
    }

    /// Makes `count` requests of some mixes, by `threads` threads that each start one when their last one ended.
    pub fn requests(name: impl Into<String>, mixes: Vec<Mix>, count: u64, threads: usize) -> Self {
        let (operations, pace, warm_up_seconds, calls) = (Some(count), Pace::Closed, 0.0, Calls::default());
        Self::new(name, PhaseKind::Run { mixes, operations, seconds: None, threads, pace, warm_up_seconds, writer: None, calls })
    }

    /// Like [`Phase::requests`], for some seconds instead, `warm_up` of them at the start not measured.
    pub fn timed(name: &str, mixes: Vec<Mix>, all: f64, warm_up: f64, threads: usize) -> Self {
        let mut phase = Self::requests(name, mixes, 0, threads);
        if let PhaseKind::Run { operations, seconds, warm_up_seconds, .. } = &mut phase.kind {
            (*operations, *seconds, *warm_up_seconds) = (None, Some(all), warm_up);
        }
        phase
    }

    /// Requests at another pace.
    #[must_use]
    pub fn at(mut self, wanted: Pace) -> Self {
        if let PhaseKind::Run { pace, .. } = &mut self.kind {
            *pace = wanted;
        }
        self
    }

    /// Requests beside a thread that writes.
    #[must_use]
    pub fn beside(mut self, thread: Writer) -> Self {
        if let PhaseKind::Run { writer, .. } = &mut self.kind {
            *writer = Some(thread);
        }
        self
    }
}

/// Work of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PhaseKind {
    /// Puts every key once into the first family. (To load several families, run one phase for each, with a mix of `put` alone, the
    /// distribution `unique`, and as many operations as its range has keys.)
    Load {
        /// Order of the keys.
        order: Order,
        /// Number of threads; each loads its share.
        threads: usize,
    },
    /// Flushes, then waits until no compaction is due.
    Settle,
    /// Flushes.
    Flush,
    /// Waits until no compaction is due.
    Wait,
    /// Closes the database and opens an empty one.
    Empty,
    /// Does nothing: bytes written, zones and stalls of its record are those since the database was opened.
    Stats,
    /// Merges the whole key space.
    Compact,
    /// Changes settings of the first family while the store is open.
    Change {
        /// Settings that change, by RocksDB's option names.
        settings: BTreeMap<String, String>,
    },
    /// A mix of operations.
    Run {
        /// Operations and their keys.
        mixes: Vec<Mix>,
        /// Operations of all threads together (see also [`Calls::per_thread`]), those of the warm-up included; each thread does its
        /// share. `None` if seconds decide.
        operations: Option<u64>,
        /// Seconds; `None` if the count decides. Exactly one of both is given.
        seconds: Option<f64>,
        /// Threads.
        threads: usize,
        /// When operations start.
        pace: Pace,
        /// Warm-up at the start of the phase, seconds: operations that start in it count in no latency and no rate. A phase whose
        /// operations all start in it is a failure.
        warm_up_seconds: f64,
        /// Thread that writes meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<Writer>,
        /// How operations are called.
        #[serde(default, skip_serializing_if = "Calls::is_default")]
        calls: Calls,
    },
    /// Replays a text trace (docs/lab/traces.md) with one thread.
    Replay {
        /// The file.
        trace: PathBuf,
        /// When operations start.
        pace: Pace,
    },
}

/// An additional thread, which puts values into the first family as long as the others work. Its puts count in the bytes written, in the
/// store's size and in the series of seconds, and neither as operations of the phase nor in its latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writer {
    /// Puts per second, at times that do not depend on the engine: every engine is read beside the same writes. `None`: without pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Distribution of the keys.
    pub distribution: Distribution,
}

/// How the operations of a phase are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Calls {
    /// Entries of a call: puts and deletes form one write batch, gets one multi-get. Operations are entries; latencies are those of calls.
    pub batch: u64,
    /// Whether every write is durable before it returns, also where `engine.sync` is false.
    pub sync: bool,
    /// Whether no latency is taken: reading the clock costs about 21 ns per call.
    pub untimed: bool,
    /// Whether each thread does all `operations`, and goes through sequential or unique keys by itself.
    pub per_thread: bool,
    /// Key and value bytes that all threads together, the writer included, put per second at most; waits are part of no latency.
    pub bytes_per_second: Option<u64>,
    /// Changes the random draws of the phase: two runs on one database shall not meet its keys in one order.
    pub salt: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { batch: 1, sync: false, untimed: false, per_thread: false, bytes_per_second: None, salt: 0 }
    }
}

impl Calls {
    /// Whether each operation is a call of its own, timed and without a limit.
    pub fn is_default(&self) -> bool {
        *self == Calls::default()
    }
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
    /// Each thread starts an operation when its previous one ended.
    Closed,
    /// Operations per second of all threads together, started at times that do not depend on the engine; latency counts from the intended
    /// start (coordinated omission: Tene 2013).
    Open(f64),
    /// Operations start at the times in the trace, counted from its first: an open loop. For replays.
    Trace,
}

/// A kind of client: its operations, its part of the keys, and its family. Mixes share all operations by their weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Name in results, such as `hot`.
    pub name: String,
    /// Weight of the mix; its share of the operations is the weight over the sum of all weights.
    pub weight: f64,
    /// The family; the first if `None`.
    #[serde(default)]
    pub family: Option<String>,
    /// The part of the key space, from 0 to 1; `(0, 1)` is all.
    pub range: (f64, f64),
    /// Distribution of the keys within the range.
    pub distribution: Distribution,
    /// Weights of the operations: `get`, `get_missing`, `put`, `insert` (a new key, next to a random one of the range), `delete`,
    /// `read_modify_write`, `scan`, `seek`, `walk`, `walk_back`; for servers `get`, `put`, `delete` and templates of commands, such as
    /// `HSET {key} {member of 10} {value}` (docs/lab/lab.md).
    pub operations: BTreeMap<String, f64>,
    /// Largest number of entries read by a scan; lengths from 1 to here are equally frequent. A seek reads exactly so many.
    pub scan_length: usize,
}

impl Mix {
    /// Operations with their weights (0: left out) at all keys of the first family.
    pub fn all<'a>(distribution: Distribution, operations: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let operations = operations.into_iter().filter(|(_, weight)| *weight > 0.0);
        let operations = operations.map(|(name, weight)| (name.to_string(), weight)).collect();
        Mix { name: "all".to_string(), weight: 1.0, family: None, range: (0.0, 1.0), distribution, operations, scan_length: 1 }
    }

    /// Puts at all keys of the first family.
    pub fn puts(distribution: Distribution) -> Self {
        Self::all(distribution, [("put", 1.0)])
    }
}

/// Distribution of keys over a range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// One after another, from the start again behind the end; threads share the walk.
    Sequential,
    /// All keys equally often.
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
