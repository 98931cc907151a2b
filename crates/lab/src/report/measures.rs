//! The figures of a run that tables and charts show, as a list of functions: adding one is adding a line.

use super::cells::Cell;
use crate::result::Latency;
use crate::run::{PhaseRecord, RunRecord};

const MIB: f64 = 1_048_576.0;

/// A figure of `T`.
pub struct Measure<T> {
    /// Name and unit.
    pub name: &'static str,
    /// Column in the CSV file; empty: there under other columns.
    pub column: &'static str,
    /// What is to be known to read it right.
    pub meaning: &'static str,
    /// The value, if the run has one.
    pub of: fn(&T) -> Option<f64>,
}

/// Of one phase.
pub const PHASE: &[Measure<PhaseRecord>] = &[
    Measure { name: "operations/s", column: "operations_per_second", meaning: "warm-up left out", of: rate },
    Measure { name: "p50, µs", column: "p50_us", meaning: "latency, as its client saw it", of: |p| micros(p, |l| l.p50) },
    Measure { name: "p99, µs", column: "p99_us", meaning: "latency, as its client saw it", of: |p| micros(p, |l| l.p99) },
    Measure { name: "p99.9, µs", column: "p999_us", meaning: "latency, as its client saw it", of: |p| micros(p, |l| l.p999) },
    Measure {
        name: "write amplification",
        column: "write_amplification",
        meaning: "bytes written per user byte, in this phase alone",
        of: |p| p.written.write_amplification,
    },
    Measure {
        name: "space amplification",
        column: "space_amplification",
        meaning: "bytes of the store per live user byte, at the end of the phase",
        of: |p| p.space.space_amplification,
    },
    Measure { name: "stalled, s", column: "stall_seconds", meaning: "time that writers waited", of: |p| Some(p.stalls.seconds) },
    Measure {
        name: "peak memory, MiB",
        column: "peak_resident_mib",
        meaning: "largest resident set",
        of: |p| positive(p.memory.peak_resident_bytes as f64 / MIB),
    },
    Measure { name: "CPU, s", column: "cpu_seconds", meaning: "all threads, user and system", of: |p| Some(p.cpu_seconds) },
    Measure { name: "time, s", column: "seconds", meaning: "warm-up left out", of: |p| Some(p.seconds) },
];

/// Of a run from its first phase to its last, so that debts of one phase that another pays are in it.
pub const RUN: &[Measure<RunRecord>] = &[WRITE_AMPLIFICATION, SPACE_AMPLIFICATION, WRITTEN, PEAK_MEMORY, CPU, TIME];

/// All bytes written per user byte.
pub const WRITE_AMPLIFICATION: Measure<RunRecord> = Measure {
    name: "write amplification",
    column: "",
    meaning: "bytes written per user byte, all phases together",
    of: |run| {
        let (total, user) = (sum(run, |p| p.written.total_bytes as f64), sum(run, |p| p.written.user_bytes as f64));
        (user > 0.0).then_some(total / user)
    },
};

/// Space at the end.
pub const SPACE_AMPLIFICATION: Measure<RunRecord> = Measure {
    name: "space amplification",
    column: "",
    meaning: "bytes of the store per live user byte, at the end of the last phase",
    of: |run| run.phases.last()?.space.space_amplification,
};

/// The greatest peak of memory.
pub const PEAK_MEMORY: Measure<RunRecord> = Measure {
    name: "peak memory, MiB",
    column: "",
    meaning: "largest resident set",
    of: |run| positive(run.phases.iter().map(|p| p.memory.peak_resident_bytes).max()? as f64 / MIB),
};

const WRITTEN: Measure<RunRecord> =
    Measure { name: "written, MiB", column: "", meaning: "by all causes", of: |run| Some(sum(run, |p| p.written.total_bytes as f64) / MIB) };
const CPU: Measure<RunRecord> =
    Measure { name: "CPU, s", column: "", meaning: "all threads, user and system", of: |run| Some(sum(run, |p| p.cpu_seconds)) };
const TIME: Measure<RunRecord> =
    Measure { name: "time, s", column: "", meaning: "all phases, warm-up left out", of: |run| Some(sum(run, |p| p.seconds)) };

/// Operations per second, of a phase that has operations.
pub fn rate(phase: &PhaseRecord) -> Option<f64> {
    positive(phase.operations_per_second)
}

fn micros(phase: &PhaseRecord, of: fn(&Latency) -> u64) -> Option<f64> {
    Some(of(phase.latency.as_ref()?) as f64 / 1000.0)
}

fn positive(x: f64) -> Option<f64> {
    (x > 0.0).then_some(x)
}

fn sum(run: &RunRecord, of: fn(&PhaseRecord) -> f64) -> f64 {
    run.phases.iter().map(of).sum()
}

/// The phase of a name.
pub fn phase<'a>(run: &'a RunRecord, name: &str) -> Option<&'a PhaseRecord> {
    run.phases.iter().find(|phase| phase.name == name)
}

impl Cell<'_> {
    /// A figure of all repeats that have it.
    pub fn values(&self, of: impl Fn(&RunRecord) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| of(&run.record)).collect()
    }

    /// A figure of a phase of all repeats that have it.
    pub fn phase_values(&self, name: &str, of: fn(&PhaseRecord) -> Option<f64>) -> Vec<f64> {
        self.values(|run| of(phase(run, name)?))
    }
}
