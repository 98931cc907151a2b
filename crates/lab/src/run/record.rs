//! Record of one run.

use super::spec::RunSpec;
use crate::result::{Found, Latency, LevelResult, Machine, Memory, Space, Stalls, Written, Zones, thousands};
use serde::{Deserialize, Serialize};
use sinterdb::ledger::HistogramSummary;
use std::collections::BTreeMap;
use std::fmt;

/// Version of [`RunRecord`]; grows when a field changes its meaning or goes away.
pub const RECORD_VERSION: u32 = 1;

/// Everything known about a run. Reports are made from records alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RECORD_VERSION`].
    pub version: u32,
    /// Spec of the run.
    pub spec: RunSpec,
    /// Measured program and version, such as `sinterdb 0.1.0` or `rocksdb 11.1.1`.
    pub engine_version: String,
    /// Commit of the laboratory (and of sinterdb), where known; with `-dirty` where sources differed from it.
    pub commit: Option<String>,
    /// Settings of the spec without a counterpart in the engine.
    pub ignored_settings: Vec<String>,
    /// Compression reported by the engine, by family, in its own words.
    #[serde(default)]
    pub compression: BTreeMap<String, String>,
    /// Start, unix seconds.
    pub started_unix: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Limits of the process.
    pub confinement: Confinement,
    /// Source of the figures of bytes written.
    pub written_source: Source,
    /// One per phase of the workload, in order.
    pub phases: Vec<Phase>,
    /// Failure that ended the run early.
    pub failure: Option<String>,
    /// Whether the run failed because the medium was full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_room: bool,
    /// Server that the kernel killed, in a run that failed for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<Killed>,
}

/// A server that the kernel killed because the memory of its cgroup was full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Killed {
    /// Operations of the run until then.
    pub operations: u64,
    /// Seconds of all phases until then.
    pub seconds: f64,
    /// Largest proportional set of the server and its children that was seen in the run, bytes; the limit, if it was killed before the
    /// first look.
    pub memory_bytes: u64,
    /// The phase in which the server was killed, as far as it was seen.
    pub phase: Phase,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, mib) = (thousands(self.operations), thousands(self.memory_bytes >> 20));
        write!(f, "killed after {operations} operations in {:.1} s, with {mib} MiB of memory", self.seconds)
    }
}

/// Limits of the process, as the kernel reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Processors that the process may use.
    pub cpus: usize,
    /// Memory limit of the cgroup, bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time granted, percent of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Reason why a requested limit does not hold.
    pub complaint: Option<String>,
}

/// Source of figures of written bytes. Figures of different sources may differ by some percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Bytes counted by the engine, by cause.
    Engine,
    /// Bytes that the process handed to write calls (`wchar` of /proc/self/io): one cause, [`PROCESS`].
    Process,
    /// Bytes of files that a server and its child processes gave to the medium (`write_bytes` of /proc/PID/io), in whole pages: one cause,
    /// [`PROCESS`]. Unlike `wchar`, excludes replies to clients.
    Medium,
}

/// The only cause of bytes for an engine that keeps no account.
pub const PROCESS: &str = "process";

/// Figures of a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Whether the phase was ended early, by the user or a failure. (Records of `sinter run` leave such phases out.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Operations, warm-up left out.
    pub operations: u64,
    /// Requests of an open loop that were due before the end of the phase and never started, because the engine was too slow.
    #[serde(default)]
    pub not_started: u64,
    /// Seconds, warm-up left out.
    pub seconds: f64,
    /// Seconds of all threads together, warm-up left out; for the time of an operation as its thread sees it.
    #[serde(default)]
    pub thread_seconds: f64,
    /// `operations / seconds`.
    pub operations_per_second: f64,
    /// Key and value bytes read or written.
    pub bytes: u64,
    /// Keys found and keys asked for.
    pub found: Option<Found>,
    /// Latency of all operations; requests that never started count with their wait until their thread ended.
    pub latency: Option<Latency>,
    /// Latency by operation, such as `hot get`.
    pub latency_by_operation: BTreeMap<String, Latency>,
    /// The writer beside the other threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_writer: Option<BackgroundWriter>,
    /// Bytes written during the phase, by cause.
    pub written: Written,
    /// Activity of the zoned store below its files during the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,
    /// Bytes that the process handed to write calls during the phase (`wchar`), whatever the source of `written`.
    pub process_written_bytes: u64,
    /// Bytes returned by read calls of the process during the phase (`rchar`), from files of any kind, cached or not; `None` in records of
    /// older versions.
    #[serde(default)]
    pub process_read_bytes: Option<u64>,
    /// Bytes read from the medium during the phase, in whole pages (`read_bytes`); `None` in records of older versions.
    #[serde(default)]
    pub medium_read_bytes: Option<u64>,
    /// Space at the end of the phase.
    pub space: Space,
    /// Stalls of writers.
    pub stalls: Stalls,
    /// Memory of the process; of a server, with its children.
    pub memory: Memory,
    /// Proportional set size at the end of the phase, bytes.
    pub proportional_bytes: u64,
    /// CPU time, seconds; for a server, without that of its client.
    pub cpu_seconds: f64,
    /// CPU time of the client thread of a server, seconds, warm-up left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_seconds: Option<f64>,
    /// The levels at the end of the phase, by family.
    pub levels: BTreeMap<String, Vec<LevelResult>>,
    /// Codecs that the engine had chosen by the end of the phase, and why, by family, in its own words: a line for each level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub chosen_codecs: BTreeMap<String, String>,
    /// Entries of the time series: one per second; for a server ten per second.
    pub series: Vec<Second>,
    /// Counters of the engine at the end of the phase.
    pub tickers: BTreeMap<String, u64>,
    /// Distributions that the engine keeps, at the end of the phase, in the unit that the name says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<String, HistogramSummary>,
}

/// Figures of the writer beside the other threads, which are part of none of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackgroundWriter {
    /// Puts.
    pub operations: u64,
    /// Puts per second of the writer's own time.
    pub operations_per_second: f64,
}

/// One second of a phase, or a tenth of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// End of the second, counted from the start of the phase, seconds.
    pub at: f64,
    /// Operations that ended in this second.
    pub operations: u64,
    /// Latency percentiles of these operations, nanoseconds: 50, 99, 99.9, greatest; `None` without operations. The last second includes
    /// [`Phase::not_started`].
    pub latency_ns: [Option<u64>; 4],
    /// Bytes written, by cause.
    pub written: BTreeMap<String, u64>,
    /// Time for which writers waited, nanoseconds.
    pub stall_ns: u64,
    /// Longest wait of a client that only PINGs the server, among the replies of this second, nanoseconds; `None` without replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ping_ns: Option<u64>,
    /// Resident set, bytes.
    pub resident_bytes: u64,
    /// Proportional set size, bytes.
    pub proportional_bytes: u64,
    /// CPU time, seconds.
    pub cpu_seconds: f64,
    /// Bytes of the store's directory.
    pub disk_bytes: u64,
    /// Child processes of a server at the end of the second: rewrites of its log.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u64,
    /// Memory that only the children of a server have at the end of the second, bytes: pages copied since a fork.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copied_bytes: u64,
    /// Commands that a server keeps in memory for a rewrite of its log, at the end of the second, bytes; `None` for a server that does not
    /// tell (Redis has no such buffer since 7.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite_buffer_bytes: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
