//! The export for other programs: one line per run and phase. Figures are rounded to six significant digits, counts are whole. Behind the
//! figures stand the factors of the cell, the commit and the version of the engine, or for runs without a plan the workload and all
//! parameters, where they differ between runs; the study and the records beside the table have all other settings.
//!
//! `measure` names the measure of the phase, which may span several phases. Columns `measure_...` are figures of all of them: write
//! amplification, and what the study draws or judges. They stand in the line of the last of these phases only, so that a mean over lines is
//! one over runs.

use super::cells::{Parameters, varied};
use super::load::{Folder, Run};
use super::measures::PHASE;
use crate::run::PhaseRecord;
use crate::study::metric::Metric;
use std::collections::BTreeSet;

type Count = fn(&PhaseRecord) -> Option<u64>;

/// Counts that charts show as ratios only.
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
    let (names, runs) = varied(folders);
    let metrics = metrics(folders);
    let head = ["run", "cell", "repeat", "engine", "seed", "started_unix", "failure", "phase", "measure"].map(str::to_owned).into_iter();
    let head = head.chain(metrics.iter().map(|metric| format!("measure_{}", metric.id())));
    let measured = PHASE.iter().map(|m| m.column).chain(COUNTS.iter().map(|(name, _)| *name)).map(str::to_owned);
    let mut out = line(head.chain(measured).chain(names.iter().cloned()));
    for (folder, run, parameters) in &runs {
        let none = PhaseRecord::default();
        // A run that failed before its first phase is still a line.
        let phases = if run.record.phases.is_empty() { std::slice::from_ref(&none) } else { &run.record.phases[..] };
        for phase in phases {
            out += &line(fields(folder, run, phase, &metrics).chain(values(&names, parameters)));
        }
    }
    out
}

/// Figures of measures: write amplification, then those that the studies draw or judge.
fn metrics(folders: &[Folder]) -> Vec<Metric> {
    let plans = folders.iter().filter_map(|folder| folder.plan.as_ref());
    let used = plans.flat_map(|plan| plan.drawn.iter().copied().chain(plan.hypotheses.iter().map(|hypothesis| hypothesis.metric)));
    let mut metrics = vec![Metric::WriteAmplification];
    for metric in used {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

fn fields(folder: &Folder, run: &Run, phase: &PhaseRecord, metrics: &[Metric]) -> impl Iterator<Item = String> {
    let (record, spec) = (&run.record, &run.record.spec);
    let cell = folder.planned(run).map(|(_, cell)| cell);
    let measure = cell.and_then(|cell| cell.measures.iter().find(|(_, phases)| phases.contains(&phase.name)));
    // A run that filled the medium ends with an earlier phase than planned.
    let last = measure.and_then(|(_, phases)| record.phases.iter().rev().find(|phase| phases.contains(&phase.name)));
    let together = measure.filter(|_| last.is_some_and(|last| last.name == phase.name));
    let of = |metric: &Metric| together.and_then(|(_, phases)| metric.of(record, phases)).map_or(String::new(), figure);
    let together: Vec<String> = metrics.iter().map(of).collect();
    let run = [
        run.name.clone(),
        cell.map_or(String::new(), |cell| cell.name.clone()),
        folder.repeat(run).map_or(String::new(), |repeat| repeat.to_string()),
        spec.engine.name.clone(),
        spec.seed.to_string(),
        record.started_unix.to_string(),
        record.failure.clone().unwrap_or_default(),
        phase.name.clone(),
        measure.map_or(String::new(), |(name, _)| name.clone()),
    ];
    let measures: Vec<String> = PHASE.iter().map(|m| (m.of)(phase).map_or(String::new(), figure)).collect();
    let counts: Vec<String> = COUNTS.iter().map(|(_, of)| of(phase).map_or(String::new(), |x| x.to_string())).collect();
    run.into_iter().chain(together).chain(measures).chain(counts)
}

/// Rounds to six significant digits.
fn figure(x: f64) -> String {
    format!("{x:.5e}").parse().unwrap_or(x).to_string()
}

fn values(names: &BTreeSet<String>, parameters: &Parameters) -> Vec<String> {
    names.iter().map(|name| parameters.get(name).cloned().unwrap_or_default()).collect()
}

/// Joins fields into a line by RFC 4180.
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted =
        fields.map(|field| if field.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
}
