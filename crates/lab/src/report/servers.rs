//! Servers in one table: a row per cell, with latencies, memory and disk. For studies of servers.

use super::cells::{Cell, workloads};
use super::load::Folder;
use super::measures::titled;
use super::tables::framed;
use super::text::{escape, number};
use crate::statistics::median;
use crate::study::metric::Metric;

/// The columns.
const COLUMNS: [Metric; 9] = [
    Metric::OperationsPerSecond,
    Metric::P99Latency,
    Metric::P999Latency,
    Metric::LongestPing,
    Metric::PeakMemory,
    Metric::PeakOverRest,
    Metric::WriteAmplification,
    Metric::PeakDisk,
    Metric::ClientCore,
];

/// A cell: its name, its engine, and the medians of its repeats by column.
struct Row {
    name: String,
    engine: String,
    medians: Vec<Option<f64>>,
}

/// The table of a study.
pub struct Servers {
    rows: Vec<Row>,
}

impl Servers {
    /// Table of a folder; `None` if its study has no servers, or nothing has run.
    pub fn of(folder: &Folder) -> Option<Self> {
        folder.plan.as_ref()?.cells.iter().find(|cell| cell.settings.server.is_some())?;
        let mut rows = Vec::new();
        for workload in workloads(std::slice::from_ref(folder)) {
            let parts = workload.parts();
            for (part, _) in &parts {
                let measured = workload.cells.iter().filter(|cell| cell.parts.contains_key(part));
                rows.extend(measured.map(|cell| row(&workload.name, cell, part, parts.len() > 1)));
            }
        }
        (!rows.is_empty()).then_some(Servers { rows })
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let head: String = COLUMNS.iter().map(|metric| format!(" {} |", titled(*metric))).collect();
        let mut text = format!("{}\n\n| cell | engine |{head}\n|---|---|{}\n", introduction(), "---|".repeat(COLUMNS.len()));
        for Row { name, engine, medians } in &self.rows {
            let figures: String = medians.iter().map(|median| format!(" {} |", figure(*median))).collect();
            text += &format!("| {name} | {engine} |{figures}\n");
        }
        text
    }

    /// The table as a section of a page.
    pub fn html(&self) -> String {
        let head: String = COLUMNS.iter().map(|metric| format!("<th>{}</th>", escape(&titled(*metric)))).collect();
        let row = |Row { name, engine, medians }: &Row| {
            let figures: String = medians.iter().map(|median| format!("<td>{}</td>", escape(&figure(*median)))).collect();
            format!("<tr><th>{}</th><th>{}</th>{figures}</tr>\n", escape(name), escape(engine))
        };
        let table = framed(&format!("<th>cell</th><th>engine</th>{head}"), &self.rows.iter().map(row).collect::<String>());
        format!("<section><h2>Servers</h2>\n<p>{}</p>\n{table}</section>\n", escape(&introduction()))
    }
}

/// Text that explains the columns.
fn introduction() -> String {
    "Medians of the repeats. Memory is the proportional set of the server and its children, at its peak and at rest, after the load. Write \
     amplification is what files gave to the medium per byte of keys and values."
        .into()
}

fn row(workload: &str, cell: &Cell<'_>, part: &str, several: bool) -> Row {
    let name = if cell.label.is_empty() { workload } else { &cell.label };
    Row {
        name: if several { format!("{name}: {part}") } else { name.to_string() },
        engine: cell.engine.clone(),
        medians: COLUMNS.iter().map(|metric| median(&cell.figures(part, *metric))).collect(),
    }
}

fn figure(median: Option<f64>) -> String {
    median.map_or("-".into(), number)
}
