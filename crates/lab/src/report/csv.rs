//! The export for other programs: one line per run and phase, every parameter a column. The records beside it have everything else.

use super::cells::{Parameters, parameters};
use super::load::Folder;
use super::measures::PHASE;
use crate::run::{PhaseRecord, RunRecord};
use std::collections::BTreeSet;

type Count = fn(&PhaseRecord) -> Option<u64>;

/// Counts that charts show only as ratios.
const COUNTS: &[(&str, Count)] = &[
    ("operations", |p| Some(p.operations)),
    ("user_bytes", |p| Some(p.written.user_bytes)),
    ("written_bytes", |p| Some(p.written.total_bytes)),
    ("process_written_bytes", |p| Some(p.process_written_bytes)),
    ("store_bytes", |p| Some(p.space.store_bytes)),
    ("live_user_bytes", |p| p.space.live_user_bytes),
];

/// The table of all folders.
pub fn csv(folders: &[Folder]) -> String {
    let runs = parameters(folders);
    let names: BTreeSet<&String> = runs.iter().flat_map(|(_, parameters)| parameters.keys()).collect();
    let head = ["run", "engine", "workload", "seed", "started_unix", "failure", "phase"].into_iter().map(str::to_owned);
    let measured = PHASE.iter().map(|m| m.column).chain(COUNTS.iter().map(|(name, _)| *name)).map(str::to_owned);
    let mut out = line(head.chain(measured).chain(names.iter().map(|name| (*name).clone())));
    for (run, parameters) in &runs {
        let none = PhaseRecord::default();
        // A run that failed before its first phase is still a line.
        let phases = if run.record.phases.is_empty() { std::slice::from_ref(&none) } else { &run.record.phases[..] };
        for phase in phases {
            out += &line(fields(&run.file, &run.record, phase).chain(values(&names, parameters)));
        }
    }
    out
}

fn fields(file: &str, record: &RunRecord, phase: &PhaseRecord) -> impl Iterator<Item = String> {
    let spec = &record.spec;
    let failure = record.failure.clone().unwrap_or_default();
    let run = [
        file.to_owned(),
        spec.engine.name.clone(),
        spec.workload.name.clone(),
        spec.seed.to_string(),
        record.started_unix.to_string(),
        failure,
        phase.name.clone(),
    ];
    let measures: Vec<String> = PHASE.iter().map(|m| (m.of)(phase).map_or(String::new(), |x| x.to_string())).collect();
    let counts: Vec<String> = COUNTS.iter().map(|(_, of)| of(phase).map_or(String::new(), |x| x.to_string())).collect();
    run.into_iter().chain(measures).chain(counts)
}

fn values(names: &BTreeSet<&String>, parameters: &Parameters) -> Vec<String> {
    names.iter().map(|name| parameters.get(*name).cloned().unwrap_or_default()).collect()
}

/// A line by RFC 4180.
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted =
        fields.map(|field| if field.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}
