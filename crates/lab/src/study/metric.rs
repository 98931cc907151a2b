//! The figures of a run that studies compare.

use crate::run::{PhaseRecord, RunRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure of a run, over some of its phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Bytes written to the store over bytes written by the user.
    WriteAmplification,
    /// Bytes of the store over bytes of live keys and values, when the last phase ended.
    SpaceAmplification,
    /// Largest resident set, bytes.
    PeakMemory,
    /// Operations over the time of the phases that have any.
    OperationsPerSecond,
    /// The 99th percentile of latency, nanoseconds; the worst of the phases.
    P99Latency,
}

impl Metric {
    /// All.
    pub const ALL: [Metric; 5] =
        [Metric::WriteAmplification, Metric::SpaceAmplification, Metric::PeakMemory, Metric::OperationsPerSecond, Metric::P99Latency];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Metric::WriteAmplification => "write amplification",
            Metric::SpaceAmplification => "space amplification",
            Metric::PeakMemory => "peak memory",
            Metric::OperationsPerSecond => "operations per second",
            Metric::P99Latency => "99th percentile of latency",
        }
    }

    /// The figure of the named phases together; `None` where a phase is missing or the figure has no meaning.
    pub fn of(self, record: &RunRecord, phases: &[String]) -> Option<f64> {
        let found = find(record, phases)?;
        match self {
            Metric::WriteAmplification => {
                let total: u64 = found.iter().map(|phase| phase.written.total_bytes).sum();
                per(total as f64, user_bytes(&found))
            }
            Metric::SpaceAmplification => found.last()?.space.space_amplification,
            Metric::PeakMemory => found.iter().map(|phase| phase.memory.peak_resident_bytes as f64).reduce(f64::max),
            Metric::OperationsPerSecond => {
                let busy = || found.iter().filter(|phase| phase.operations > 0);
                per(busy().map(|phase| phase.operations as f64).sum(), busy().map(|phase| phase.seconds).sum())
            }
            Metric::P99Latency => found.iter().filter_map(|phase| Some(phase.latency.as_ref()?.p99 as f64)).reduce(f64::max),
        }
    }
}

/// Write amplification by cause: bytes of each over bytes written by the user. Compactions by level, whatever asked for them, so that few
/// enough remain to be compared.
pub fn by_cause(record: &RunRecord, phases: &[String]) -> Option<BTreeMap<String, f64>> {
    let found = find(record, phases)?;
    let user = user_bytes(&found);
    let mut causes = BTreeMap::new();
    for line in found.iter().flat_map(|phase| &phase.written.by_cause) {
        let cause = line.cause.split(',').next().unwrap_or_default().to_string();
        *causes.entry(cause).or_insert(0.0) += per(line.bytes as f64, user)?;
    }
    Some(causes)
}

fn find<'a>(record: &'a RunRecord, phases: &[String]) -> Option<Vec<&'a PhaseRecord>> {
    phases.iter().map(|name| record.phases.iter().find(|phase| phase.name == *name)).collect()
}

fn user_bytes(phases: &[&PhaseRecord]) -> f64 {
    phases.iter().map(|phase| phase.written.user_bytes as f64).sum()
}

fn per(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}
