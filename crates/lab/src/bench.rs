//! db_bench's workloads as runs: what its flags ask for ([`BenchConfig`], [`Workload`]) becomes the spec of a run, which
//! [`drive`](crate::drive) executes, and `text` prints the record in db_bench's form.

mod config;
mod text;
mod workloads;

pub use config::BenchConfig;
pub use text::{header, print_statistics, print_workload};
pub use workloads::{Workload, parse_workloads};

use crate::drive::{Engine, Failed, Watch, execute_watched};
use crate::run::{
    EngineSpec, InPlace, Limits, Medium, Phase, PhaseKind, PhaseRecord, RunRecord, RunSpec, SPEC_VERSION, ValueSize, Workload as Work,
};
use crate::system::Outcome;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Workloads as a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Bench {
    /// The run.
    pub spec: RunSpec,
    /// Each workload with the index of its phase; `None` if it is skipped.
    steps: Vec<(Workload, Option<usize>)>,
}

impl Bench {
    /// The run of `workloads` over a database in `directory`. Loads begin with an empty one, as in db_bench. `engine` describes the
    /// engine; durability and the database's start follow from `config`, which must be valid.
    pub fn new(config: &BenchConfig, workloads: &[Workload], engine: EngineSpec, directory: PathBuf) -> Self {
        let (mut phases, mut steps) = (Vec::new(), Vec::new());
        for workload in workloads {
            if workload.is_load() && config.use_existing_db {
                steps.push((*workload, None));
                continue;
            }
            if workload.is_load() && !phases.is_empty() {
                phases.push(Phase { name: format!("empty before {}", steps.len() + 1), kind: PhaseKind::Empty });
            }
            let nth = steps.iter().filter(|(known, _)| known == workload).count() + 1;
            let name = if nth == 1 { workload.name().to_string() } else { format!("{} {nth}", workload.name()) };
            steps.push((*workload, Some(phases.len())));
            phases.push(Phase { name, kind: workload.phase(config) });
        }
        if phases.is_empty() {
            // A run has a phase at least.
            phases.push(Phase { name: "nothing".to_string(), kind: PhaseKind::Stats });
        }
        let in_place = Some(if config.use_existing_db { InPlace::Existing } else { InPlace::New });
        let workload = Work {
            name: "bench".to_string(),
            keys: config.num,
            key_size: config.key_size,
            value_size: ValueSize::Fixed(config.value_size),
            compression_ratio: config.compression_ratio,
            phases,
        };
        let engine = EngineSpec { sync: config.sync, in_place, ..engine };
        let (medium, seed, limits) = (Medium { directory }, config.seed, Limits::default());
        Bench { spec: RunSpec { version: SPEC_VERSION, engine, medium, workload, seed, limits }, steps }
    }

    /// Runs the workloads in order and hands each with its record to `each` at once, also one that ended early; a skipped one has no
    /// record. `progress` is called once a second with the phase, the work done, and all work. Returns the record, with phases that ended
    /// early, and the failure that ended the run.
    pub fn run<E: Engine>(
        &self,
        engine: &E,
        stop: &AtomicBool,
        progress: &(dyn Fn(&str, u64, u64) + Sync),
        mut each: impl FnMut(Workload, Option<&PhaseRecord>) -> Outcome<()>,
    ) -> (RunRecord, Option<Failed>) {
        let (mut steps, mut phases) = (self.steps.iter().peekable(), Vec::new());
        let mut ended = |index: usize, phase: &PhaseRecord| {
            phases.push(phase.clone());
            while let Some((workload, step)) = steps.next_if(|(_, step)| step.is_none_or(|step| step <= index)) {
                each(*workload, step.map(|_| phase))?;
            }
            Ok(())
        };
        let (mut record, failed) = execute_watched(engine, &self.spec, stop, Watch { progress, ended: &mut ended });
        record.phases = phases;
        (record, failed)
    }
}

#[cfg(test)]
mod tests;
