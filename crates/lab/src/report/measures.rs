//! The figures of a run in tables and charts, as a list of functions: a new figure is a new line.

use super::cells::{Cell, Workload};
use crate::result::{CauseBytes, Latency};
use crate::run::{PROCESS, PhaseRecord, RunRecord};
use crate::study::metric::Metric;
use std::collections::BTreeSet;

const MIB: f64 = 1_048_576.0;

/// A figure of one phase.
pub type OfPhase = fn(&PhaseRecord) -> Option<f64>;
/// A figure of phases that count together.
pub type OfPart = fn(&Part<'_>) -> Option<f64>;

/// A figure.
pub struct Measure<F> {
    /// Name and unit.
    pub name: &'static str,
    /// Column in the CSV file; empty if other columns hold the figure.
    pub column: &'static str,
    /// Explanation needed to read the figure right.
    pub meaning: &'static str,
    /// The value, if the run has one.
    pub of: F,
}

/// Figures of one phase.
pub const PHASE: &[Measure<OfPhase>] = &[
    Measure { name: "operations/s", column: "operations_per_second", meaning: "warm-up left out", of: rate },
    Measure { name: "p50, µs", column: "p50_us", meaning: "latency, as its client saw it", of: |p| micros(p, |l| l.p50) },
    Measure { name: "p99, µs", column: "p99_us", meaning: "latency, as its client saw it", of: latency_p99 },
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
    Measure { name: "stalled, s", column: "stall_seconds", meaning: "time that writers waited", of: stalled },
    Measure {
        name: "peak memory, MiB",
        column: "peak_resident_mib",
        meaning: "largest resident set",
        of: |p| positive(p.memory.peak_resident_bytes as f64 / MIB),
    },
    Measure { name: "CPU, s", column: "cpu_seconds", meaning: "all threads, user and system", of: |p| Some(p.cpu_seconds) },
    Measure {
        name: "read, MiB",
        column: "read_mib",
        meaning: "what read calls gave to the process, from page cache or medium",
        of: |p| Some(p.process_read_bytes? as f64 / MIB),
    },
    Measure {
        name: "read from medium, MiB",
        column: "medium_read_mib",
        meaning: "what was not in the page cache",
        of: |p| Some(p.medium_read_bytes? as f64 / MIB),
    },
    Measure { name: "time, s", column: "seconds", meaning: "warm-up left out", of: |p| Some(p.seconds) },
];

/// Figures of the phases that count together.
pub const PART: &[Measure<OfPart>] = &[WRITE_AMPLIFICATION, SPACE_AMPLIFICATION, WRITTEN, PEAK_MEMORY, CPU, TIME];

/// All bytes written per user byte.
pub const WRITE_AMPLIFICATION: Measure<OfPart> = Measure {
    name: "write amplification",
    column: "",
    meaning: "bytes written per user byte",
    of: |part| Metric::WriteAmplification.of(part.run, part.phases),
};

/// Space amplification at the end.
pub const SPACE_AMPLIFICATION: Measure<OfPart> = Measure {
    name: "space amplification",
    column: "",
    meaning: "bytes of the store per live user byte, at the end",
    of: |part| Metric::SpaceAmplification.of(part.run, part.phases),
};

/// The greatest peak of memory.
pub const PEAK_MEMORY: Measure<OfPart> = Measure {
    name: "peak memory, MiB",
    column: "",
    meaning: "largest resident set",
    of: |part| positive(Metric::PeakMemory.of(part.run, part.phases)? / MIB),
};

/// Figures in which engines are compared, each with whether more is better.
pub const COMPARED: &[(Measure<OfPart>, bool)] = &[
    (
        Measure {
            name: "operations/s",
            column: "",
            meaning: "of the phases that have operations",
            of: |part| Metric::OperationsPerSecond.of(part.run, part.phases),
        },
        true,
    ),
    (
        Measure {
            name: "p99, µs",
            column: "",
            meaning: "latency, as the client saw it",
            of: |part| Some(Metric::P99Latency.of(part.run, part.phases)? / 1000.0),
        },
        false,
    ),
    (
        Measure {
            name: "write amplification",
            column: "",
            meaning: "bytes written per user byte, debts included: by write calls, or by SinterDB's own account if that is more",
            of: write_amplification,
        },
        false,
    ),
    (SPACE_AMPLIFICATION, false),
    (PEAK_MEMORY, false),
];

/// Bytes written per user byte, by one instrument for all engines, whatever they count themselves: what the process handed to write calls.
/// Stores into a mapped file are not among these bytes. SinterDB's log is mapped, so its own account stands where that is more.
fn write_amplification(part: &Part<'_>) -> Option<f64> {
    let engine = &part.run.spec.engine;
    if engine.server.is_some() {
        // Write calls of a server are replies, too.
        return Metric::WriteAmplification.of(part.run, part.phases);
    }
    let user = part.sum(|phase| phase.written.user_bytes as f64);
    let handed = part.sum(|phase| phase.process_written_bytes as f64);
    let accounted = part.sum(|phase| phase.written.by_cause.iter().map(|line| line.bytes as f64).sum());
    let written = if engine.name == "sinter" { handed.max(accounted) } else { handed };
    (user > 0.0).then(|| written / user)
}

const WRITTEN: Measure<OfPart> = Measure {
    name: "written, MiB",
    column: "",
    meaning: "by all causes",
    of: |part| Some(part.sum(|phase| phase.written.total_bytes as f64) / MIB),
};
const CPU: Measure<OfPart> =
    Measure { name: "CPU, s", column: "", meaning: "all threads, user and system", of: |part| Some(part.sum(|phase| phase.cpu_seconds)) };
const TIME: Measure<OfPart> =
    Measure { name: "time, s", column: "", meaning: "warm-up left out", of: |part| Some(part.sum(|phase| phase.seconds)) };

/// Phases of a run that count together, so that compactions left by one phase and finished by another are in the figures.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Names of the phases.
    pub phases: &'a [String],
}

impl Part<'_> {
    /// Names of all causes of bytes written.
    pub fn causes(&self) -> BTreeSet<String> {
        self.written().map(|line| line.cause.clone()).collect()
    }

    /// Bytes of a cause per user byte.
    pub fn share(&self, cause: &str) -> Option<f64> {
        let bytes: u64 = self.written().filter(|line| line.cause == cause).map(|line| line.bytes).sum();
        let user = self.sum(|phase| phase.written.user_bytes as f64);
        (user > 0.0).then_some(bytes as f64 / user)
    }

    fn written(&self) -> impl Iterator<Item = &CauseBytes> {
        self.phases.iter().filter_map(|name| phase(self.run, name)).flat_map(|phase| &phase.written.by_cause)
    }

    /// The sum of a figure over the phases.
    pub fn sum(&self, of: fn(&PhaseRecord) -> f64) -> f64 {
        self.phases.iter().filter_map(|name| phase(self.run, name)).map(of).sum()
    }
}

/// Operations per second, of a phase that has operations.
pub fn rate(phase: &PhaseRecord) -> Option<f64> {
    positive(phase.operations_per_second)
}

/// Seconds of stalls; `None` for an engine that counts no written bytes, which counts no stalls either.
fn stalled(phase: &PhaseRecord) -> Option<f64> {
    (!phase.written.by_cause.iter().any(|line| line.cause == PROCESS)).then_some(phase.stalls.seconds)
}

/// The 99th percentile of all operations, microseconds.
pub fn latency_p99(phase: &PhaseRecord) -> Option<f64> {
    micros(phase, |latency| latency.p99)
}

fn micros(phase: &PhaseRecord, of: fn(&Latency) -> u64) -> Option<f64> {
    Some(of(phase.latency.as_ref()?) as f64 / 1000.0)
}

fn positive(x: f64) -> Option<f64> {
    (x > 0.0).then_some(x)
}

/// The phase of a name.
fn phase<'a>(run: &'a RunRecord, name: &str) -> Option<&'a PhaseRecord> {
    run.phases.iter().find(|phase| phase.name == name)
}

/// A metric's name with its unit.
pub fn titled(metric: Metric) -> String {
    match metric.unit() {
        ("", _) => metric.name().into(),
        (unit, _) => format!("{}, {unit}", metric.name()),
    }
}

impl<'a> Cell<'a> {
    /// Values of a metric of a part, one for each repeat that has it, in the unit for people.
    pub fn figures(&self, part: &str, metric: Metric) -> Vec<f64> {
        let of = |part: Part<'_>| Some(metric.of(part.run, part.phases)? / metric.unit().1);
        self.parts(part).filter_map(of).collect()
    }

    /// Values of a figure of a part, one for each repeat that has it.
    pub fn values(&self, part: &str, of: OfPart) -> Vec<f64> {
        self.parts(part).filter_map(|part| of(&part)).collect()
    }

    /// A part, for each repeat.
    pub fn parts<'b>(&'b self, part: &str) -> impl Iterator<Item = Part<'b>> {
        let phases = self.parts.get(part);
        phases.into_iter().flat_map(move |phases| self.runs.iter().map(move |run| Part { run: &run.record, phases }))
    }

    /// Values of a figure of a phase, one for each repeat that has it.
    pub fn phase_values(&self, name: &str, of: OfPhase) -> Vec<f64> {
        self.phases(name).filter_map(of).collect()
    }

    /// The phase of this name, of each repeat that has it.
    pub fn phases(&self, name: &str) -> impl Iterator<Item = &'a PhaseRecord> {
        self.runs.iter().filter_map(move |run| phase(&run.record, name))
    }
}

impl Workload<'_> {
    /// Measures of the workload and their phases, in the order of the phases.
    pub fn parts(&self) -> Vec<(String, Vec<String>)> {
        let mut parts: Vec<(String, Vec<String>)> = Vec::new();
        for (name, phases) in self.cells.iter().flat_map(|cell| &cell.parts) {
            if !parts.iter().any(|(other, _)| other == name) {
                parts.push((name.clone(), phases.clone()));
            }
        }
        let order = self.phases();
        parts.sort_by_key(|(_, phases)| phases.first().and_then(|first| order.iter().position(|name| name == first)));
        parts
    }

    /// Names of all phases, in the order of the first run that has each.
    pub fn phases(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for phase in self.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.record.phases) {
            if !names.contains(&phase.name) {
                names.push(phase.name.clone());
            }
        }
        names
    }

    /// Whether a phase of this name has operations, and so something to draw beside its table.
    pub fn has_operations(&self, name: &str) -> bool {
        self.cells.iter().any(|cell| !cell.phase_values(name, rate).is_empty())
    }
}
