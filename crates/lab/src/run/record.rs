//! What came of one run.

use super::spec::RunSpec;
use crate::result::{Found, Latency, LevelResult, Machine, Memory, Space, Stalls, Written, Zones};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`RunRecord`]; grows when a field changes its meaning or goes away.
pub const RECORD_VERSION: u32 = 1;

/// Everything there is to know of a run. Reports are made from these alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RECORD_VERSION`].
    pub version: u32,
    /// What was asked for.
    pub spec: RunSpec,
    /// What was measured, such as `sinterdb 0.1.0` or `rocksdb 11.1.1`.
    pub engine_version: String,
    /// Commit of the laboratory (and of sinterdb), where known; with `-dirty` where sources differed from it.
    pub commit: Option<String>,
    /// Settings of the spec that the engine has no counterpart for.
    pub ignored_settings: Vec<String>,
    /// The compression that the engine says it has, by family, in its own words.
    #[serde(default)]
    pub compression: BTreeMap<String, String>,
    /// Start, unix seconds.
    pub started_unix: u64,
    /// Where it ran.
    pub machine: Machine,
    /// What the process was confined to.
    pub confinement: Confinement,
    /// Where the bytes written were taken from.
    pub written_source: Source,
    /// One per phase of the workload, in order.
    pub phases: Vec<Phase>,
    /// What ended it early, if something did.
    pub failure: Option<String>,
    /// That was the medium, on which a phase found no room any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_room: bool,
}

/// What the process was confined to, as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Processors it may use.
    pub cpus: usize,
    /// The limit of its cgroup, bytes.
    pub memory_bytes: Option<u64>,
    /// The processor time that it was given, percent of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Why a limit that was asked for does not hold.
    pub complaint: Option<String>,
}

/// Where written bytes come from. Figures of different sources are not the same to a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The engine's own account, by cause.
    Engine,
    /// Bytes that the process handed to write calls (`wchar` of /proc/self/io): one cause, [`PROCESS`].
    Process,
    /// Bytes of files that a server and the processes that it started gave to the medium (`write_bytes` of /proc/PID/io), in whole pages:
    /// one cause, [`PROCESS`]. Replies to clients are not in it, as they are in `wchar`.
    Medium,
}

/// The only cause of bytes of an engine that keeps no account.
pub const PROCESS: &str = "process";

/// What a phase did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Operations, warm-up left out.
    pub operations: u64,
    /// Requests of an open loop that were due before the end of the phase and never started, because the engine was too slow.
    #[serde(default)]
    pub not_started: u64,
    /// Seconds, warm-up left out.
    pub seconds: f64,
    /// `operations / seconds`.
    pub operations_per_second: f64,
    /// Key and value bytes read or written.
    pub bytes: u64,
    /// Keys that were there, of those asked for.
    pub found: Option<Found>,
    /// Latency of all operations, and of the requests that never started, how long they had waited when their thread ended.
    pub latency: Option<Latency>,
    /// Latency by operation, such as `hot get`.
    pub latency_by_operation: BTreeMap<String, Latency>,
    /// Bytes written during the phase, by cause.
    pub written: Written,
    /// What a store on zones did below its files meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,
    /// Bytes that the process handed to write calls during the phase (`wchar`), whatever the source above.
    pub process_written_bytes: u64,
    /// Bytes that read calls gave to the process during the phase (`rchar`), from files of any kind and wherever the kernel had them;
    /// `None` in records of older versions.
    #[serde(default)]
    pub process_read_bytes: Option<u64>,
    /// Those of them, in whole pages, that came from the medium (`read_bytes`).
    #[serde(default)]
    pub medium_read_bytes: Option<u64>,
    /// Space at its end.
    pub space: Space,
    /// Writers that waited.
    pub stalls: Stalls,
    /// Memory of the process and its children.
    pub memory: Memory,
    /// Proportional set size at its end, bytes.
    pub proportional_bytes: u64,
    /// CPU time, seconds; of a server without that of its client.
    pub cpu_seconds: f64,
    /// CPU time of the thread that asked a server, seconds, warm-up left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_seconds: Option<f64>,
    /// The levels at its end, by family.
    pub levels: BTreeMap<String, Vec<LevelResult>>,
    /// The codecs that the engine had chosen by itself at its end, and why, by family, in its own words: a line for each level.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub chosen_codecs: BTreeMap<String, String>,
    /// One per second; ten per second of a server.
    pub series: Vec<Second>,
    /// The engine's own counters at its end.
    pub tickers: BTreeMap<String, u64>,
}

/// One second of a phase, or a tenth of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Since the phase began, seconds (its end).
    pub at: f64,
    /// Operations that ended in it.
    pub operations: u64,
    /// Latency percentiles of those, nanoseconds: 50, 99, 99.9, greatest; `None` if there are none. In the last second also of
    /// [`Phase::not_started`].
    pub latency_ns: [Option<u64>; 4],
    /// Bytes written, by cause.
    pub written: BTreeMap<String, u64>,
    /// Time writers waited, nanoseconds.
    pub stall_ns: u64,
    /// The longest that a client of a server waited who only PINGs, of the replies that came in it, nanoseconds; `None` without any.
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
}
