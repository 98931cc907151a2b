//! The export for other programs: one line per run and phase, then one per run and measure. Figures are rounded to six significant digits,
//! counts are whole. Behind the figures stand the factors of the cell, the commit and the version of the engine, or for runs without a plan
//! the workload and all parameters, where they differ between runs; the study and the records beside the table have all other settings.
//!
//! A measure is a figure of several phases together. In its line `phase` is empty, and the columns `measure_...` have every metric that
//! verdicts, charts and figures beside an original use, so that a mean over lines is one over runs. In the line of a phase `measure` names
//! its measure.

use super::cells::{Parameters, varied};
use super::load::{Folder, Run};
use super::measures::PHASE;
use super::servers;
use crate::published::published;
use crate::run::PhaseRecord;
use crate::study::metric::Metric;
use crate::study::plan::Study;
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
    let head = ["run", "cell", "repeat", "engine", "seed", "started_unix", "failure", "phase"].into_iter();
    let metrics = metrics(folders.iter().filter_map(|folder| folder.plan.as_ref()));
    let head = head.chain(["measure"]).map(str::to_owned).chain(metrics.iter().map(|metric| column(*metric)));
    let measured = PHASE.iter().map(|m| m.column).chain(COUNTS.iter().map(|(name, _)| *name)).map(str::to_owned);
    let mut out = line(head.chain(measured).chain(names.iter().cloned()));
    for (folder, run, parameters) in &runs {
        let none = PhaseRecord::default();
        // A run that failed before its first phase is still a line.
        let phases = if run.record.phases.is_empty() { std::slice::from_ref(&none) } else { &run.record.phases[..] };
        for phase in phases {
            out += &line(of_phase(folder, run, phase, &metrics).chain(values(&names, parameters)));
        }
        for (measure, phases) in measures(folder, run) {
            out += &line(of_measure(folder, run, measure, phases, &metrics).chain(values(&names, parameters)));
        }
    }
    out
}

/// Metrics of the columns: the usual ones, and every one that a verdict, a chart or a figure beside an original uses.
fn metrics<'a>(plans: impl Iterator<Item = &'a Study>) -> Vec<Metric> {
    let of_plan = |plan: &'a Study| {
        let judged = plan.hypotheses.iter().map(|hypothesis| hypothesis.metric);
        let has_servers = plan.cells.iter().any(|cell| cell.settings.server.is_some());
        let of_servers = has_servers.then_some(servers::COLUMNS).into_iter().flatten();
        let beside = published(&plan.name).into_iter().flat_map(|published| published.metrics());
        judged.chain(plan.drawn.iter().chain(&plan.swept).copied()).chain(of_servers).chain(beside)
    };
    let mut metrics = Vec::new();
    for metric in Metric::TABLE.into_iter().chain(plans.flat_map(of_plan)) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

/// Name of a metric's column: the metric's own, and its unit.
fn column(metric: Metric) -> String {
    let name = serde_json::to_value(metric).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let unit = match metric.unit().0 {
        "" => String::new(),
        "%" => "_percent".to_string(),
        "µs" => "_us".to_string(),
        "B" => "_bytes".to_string(),
        unit => format!("_{}", unit.to_lowercase()),
    };
    format!("measure_{name}{unit}")
}

/// Measures of a run that is a result of its cell, each with its phases.
fn measures<'a>(folder: &'a Folder, run: &'a Run) -> impl Iterator<Item = (&'a String, &'a Vec<String>)> {
    let cell = folder.planned(run).map(|(_, cell)| cell).filter(|cell| cell.accepts(&run.record));
    cell.into_iter().flat_map(|cell| &cell.measures)
}

/// Fields that name the run and a part of it.
fn named(folder: &Folder, run: &Run, phase: &str, measure: &str) -> [String; 9] {
    let (record, spec) = (&run.record, &run.record.spec);
    [
        run.name.clone(),
        folder.planned(run).map_or(String::new(), |(_, cell)| cell.name.clone()),
        folder.repeat(run).map_or(String::new(), |repeat| repeat.to_string()),
        spec.engine.name.clone(),
        spec.seed.to_string(),
        record.started_unix.to_string(),
        record.failure.clone().unwrap_or_default(),
        phase.to_owned(),
        measure.to_owned(),
    ]
}

fn of_phase(folder: &Folder, run: &Run, phase: &PhaseRecord, metrics: &[Metric]) -> impl Iterator<Item = String> {
    let cell = folder.planned(run).map(|(_, cell)| cell);
    let measure = cell.and_then(|cell| cell.measures.iter().find(|(_, phases)| phases.contains(&phase.name)));
    let named = named(folder, run, &phase.name, measure.map_or("", |(name, _)| name));
    let measures: Vec<String> = PHASE.iter().map(|m| (m.of)(phase).map_or(String::new(), figure)).collect();
    let counts: Vec<String> = COUNTS.iter().map(|(_, of)| of(phase).map_or(String::new(), |x| x.to_string())).collect();
    named.into_iter().chain(vec![String::new(); metrics.len()]).chain(measures).chain(counts)
}

fn of_measure(folder: &Folder, run: &Run, measure: &str, phases: &[String], metrics: &[Metric]) -> impl Iterator<Item = String> {
    let value = |metric: &Metric| metric.of(&run.record, phases).map_or(String::new(), |value| figure(value / metric.unit().1));
    let figures: Vec<String> = metrics.iter().map(value).collect();
    named(folder, run, "", measure).into_iter().chain(figures).chain(vec![String::new(); PHASE.len() + COUNTS.len()])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};
    use crate::study::catalogue::{STUDIES, engines};

    /// Every metric that a verdict or a chart uses has a column of its own, in each study.
    #[test]
    fn all_metrics_of_a_plan_have_columns() {
        for entry in STUDIES {
            let study = study(entry.name, engines(entry.name), 1);
            let (_directory, folder) = folder_of(&study, |_, _| None);
            let text = csv(&[folder]);
            let head: Vec<&str> = text.trim_end().split(',').collect();
            let used = study.hypotheses.iter().map(|hypothesis| hypothesis.metric).chain(study.drawn.clone()).chain(study.swept.clone());
            let beside = published(entry.name).into_iter().flat_map(|published| published.metrics());
            used.chain(beside).for_each(|metric| assert!(head.contains(&column(metric).as_str()), "{}: {metric:?}", entry.name));
            assert_eq!(head.iter().collect::<BTreeSet<_>>().len(), head.len(), "{}", entry.name);
        }
        let names = [Metric::ZoneMoved, Metric::LongestPing, Metric::PeakOverRest, Metric::LastLevelTables, Metric::IndexBytes];
        let expected = ["zone_moved_mib", "longest_ping_ms", "peak_over_rest", "last_level_tables", "index_bytes_kib"];
        assert_eq!(names.map(column), expected.map(|name| format!("measure_{name}")));
    }
}
