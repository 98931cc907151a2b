//! Tables of figures: a row per cell, a column per measure.

use super::cells::{Cell, Workload};
use super::measures::{PART, PEAK_MEMORY, PHASE, SPACE_AMPLIFICATION, WRITE_AMPLIFICATION, latency_p99, rate, titled};
use super::text::{engine, escape, number};
use crate::statistics::{CONFIDENCE, Fold, ratio, summarise};
use crate::study::metric::Metric;
use std::collections::BTreeSet;

/// Table of phases that count together, with the metrics `drawn` of the study; without those that no run has.
pub fn part(workload: &Workload<'_>, name: &str, drawn: &[Metric]) -> String {
    let there = |metric: &&Metric| workload.cells.iter().any(|cell| !cell.figures(name, **metric).is_empty());
    let drawn: Vec<(Metric, String)> = drawn.iter().filter(there).map(|metric| (*metric, titled(*metric))).collect();
    let usual = PART.iter().map(|measure| (measure.name, measure.meaning));
    let head: Vec<_> = usual.chain(drawn.iter().map(|(_, name)| (name.as_str(), "phases together"))).collect();
    table(workload, &head, |cell, place| match PART.get(place) {
        Some(measure) => cell.values(name, measure.of),
        None => cell.figures(name, drawn[place - PART.len()].0),
    })
}

/// Table of one phase.
pub fn phase(workload: &Workload<'_>, name: &str) -> String {
    let head: Vec<_> = PHASE.iter().map(|measure| (measure.name, measure.meaning)).collect();
    table(workload, &head, |cell, place| cell.phase_values(name, PHASE[place].of))
}

/// Table of bytes by cause for phases that count together, folded away; empty where nothing was written.
pub fn ledger(workload: &Workload<'_>, name: &str) -> String {
    let parts = || workload.cells.iter().flat_map(|cell| cell.parts(name));
    let causes: BTreeSet<String> = parts().flat_map(|part| part.causes()).collect();
    let head: Vec<_> = causes.iter().map(|cause| (cause.as_str(), "bytes written per user byte")).collect();
    let table = table(workload, &head, |cell, place| cell.parts(name).filter_map(|part| part.share(head[place].0)).collect());
    if causes.is_empty() { String::new() } else { format!("<details><summary>Every cause, per user byte</summary>\n{table}</details>\n") }
}

/// `head`: name and meaning of each column. `values`: all repeats of a cell, by column.
fn table(workload: &Workload<'_>, head: &[(&str, &str)], values: impl Fn(&Cell<'_>, usize) -> Vec<f64>) -> String {
    let names = head.iter().map(|(name, meaning)| format!("<th title=\"{}\">{}</th>", escape(meaning), escape(name)));
    let row = |cell: &Cell<'_>| {
        let figures = (0..head.len()).map(|place| format!("<td>{}</td>", figure(&values(cell, place)))).collect::<String>();
        format!("{}<td>{}</td>{figures}</tr>\n", named(cell), cell.runs.len())
    };
    let rows = workload.cells.iter().map(row);
    framed(&format!("<th>engine</th><th>settings</th><th>repeats</th>{}", names.collect::<String>()), &rows.collect::<String>())
}

fn named(cell: &Cell<'_>) -> String {
    let label = if cell.label.is_empty() { "-" } else { &cell.label };
    format!("<tr><th>{}</th><th>{}</th>", escape(engine(&cell.engine)), escape(label))
}

/// The median, and the interval of the mean where there are repeats.
fn figure(values: &[f64]) -> String {
    match summarise(values, CONFIDENCE) {
        None => "-".into(),
        Some(summary) => {
            let interval = summary.interval.map(|i| format!(" <small>{} – {}</small>", number(i.low.max(0.0)), number(i.high)));
            format!("{}{}", number(summary.median), interval.unwrap_or_default())
        }
    }
}

/// A table that scrolls by itself on a narrow screen. `head` and `rows` are HTML.
pub fn framed(head: &str, rows: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n")
}

/// One measure of a comparison: its heading and its values.
type Column = (String, Box<dyn Fn(&Cell<'_>) -> Vec<f64>>);

/// Table of the changes of cells against their counterparts in the folder `base`; `None` if no cell has one.
pub fn changes(workload: &Workload<'_>, base: &str) -> Option<String> {
    let columns = columns(workload);
    let mut rows = String::new();
    for cell in workload.cells.iter().filter(|cell| cell.folder().is_some_and(|folder| folder != base)) {
        let like = |other: &&Cell<'_>| other.folder() == Some(base) && other.request() == cell.request() && asked_alike(other, cell);
        if let Some(before) = workload.cells.iter().find(like) {
            let changed = columns.iter().map(|(_, of)| format!("<td>{}</td>", change(&of(cell), &of(before))));
            rows += &format!("{}{}</tr>\n", named(cell), changed.collect::<String>());
        }
    }
    let head = columns.iter().map(|(name, _)| format!("<th>{}</th>", escape(name))).collect::<String>();
    (!rows.is_empty()).then(|| framed(&format!("<th>engine</th><th>settings</th>{head}"), &rows))
}

/// Whether two cells had equal engine, settings, workload and limits: equal names may stand for different sizes. All runs of a cell are
/// equal in these.
fn asked_alike(a: &Cell<'_>, b: &Cell<'_>) -> bool {
    let asked = |cell: &Cell<'_>| {
        let spec = &cell.runs.first()?.record.spec;
        Some((spec.engine.clone(), spec.workload.clone(), spec.limits))
    };
    asked(a) == asked(b)
}

fn columns(workload: &Workload<'_>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (name, _) in workload.parts() {
        for measure in [WRITE_AMPLIFICATION, SPACE_AMPLIFICATION, PEAK_MEMORY] {
            let part = name.clone();
            columns.push((format!("{name}: {}", measure.name), Box::new(move |cell| cell.values(&part, measure.of))));
        }
    }
    for name in workload.phases().into_iter().filter(|name| workload.has_operations(name)) {
        let rates = name.clone();
        columns.push((format!("{name}: operations/s"), Box::new(move |cell| cell.phase_values(&rates, rate))));
        columns.push((format!("{name}: p99"), Box::new(move |cell| cell.phase_values(&name, latency_p99))));
    }
    columns
}

/// A change of means in percent with its interval; set in bold where the interval says that there is one.
fn change(after: &[f64], before: &[f64]) -> String {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    match ratio(Fold::Product, &[after], &[before], false, CONFIDENCE) {
        None => "-".into(),
        Some(found) => match found.interval {
            None => percent(found.ratio),
            Some(i) if i.low <= 1.0 && i.high >= 1.0 => {
                format!("{} <small>{} – {}</small>", percent(found.ratio), percent(i.low), percent(i.high))
            }
            Some(i) => format!("<b>{}</b> <small>{} – {}</small>", percent(found.ratio), percent(i.low), percent(i.high)),
        },
    }
}
