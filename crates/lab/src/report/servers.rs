//! Servers in one table: a row per cell, with latencies, memory and disk; servers that were killed, cells that are not run, and all numbers
//! and sizes of values in one picture. For studies of servers.

use super::cells::{Cell, workloads};
use super::charts::{Place, sizes};
use super::load::{Folder, Run};
use super::measures::titled;
use super::tables::framed;
use super::text::{self, escape, number};
use crate::run::RunRecord;
use crate::statistics::median;
use crate::study::metric::Metric;
use crate::study::plan::{Cell as PlannedCell, Study};
use std::fmt;

/// The columns.
pub const COLUMNS: [Metric; 9] = [
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

/// A cell: its name in words, its engine, and the medians of its repeats by column.
struct Row {
    name: String,
    /// Name of the cell in the plan.
    cell: String,
    engine: String,
    medians: Vec<Option<f64>>,
}

/// The table of a study.
pub struct Servers<'a> {
    folder: &'a Folder,
    rows: Vec<Row>,
    killed: Vec<KilledIn>,
}

/// A cell with servers that were killed.
struct KilledIn {
    cell: String,
    /// The cell in words.
    name: String,
    engine: String,
    /// The first of them, and their number.
    told: String,
}

impl fmt::Display for KilledIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", text::engine(&self.engine), self.name, self.told)
    }
}

impl<'a> Servers<'a> {
    /// Table of a folder; `None` if its study has no servers, or nothing has run.
    pub fn of(folder: &'a Folder) -> Option<Self> {
        let plan = folder.plan.as_ref()?;
        plan.cells.iter().find(|cell| cell.settings.server.is_some())?;
        let mut rows = Vec::new();
        for workload in workloads(std::slice::from_ref(folder)) {
            let parts = workload.parts();
            for (part, _) in &parts {
                let measured = workload.cells.iter().filter(|cell| cell.parts.contains_key(part));
                rows.extend(measured.map(|cell| row(folder, &workload.name, cell, part, parts.len() > 1)));
            }
        }
        (!rows.is_empty()).then(|| Servers { folder, rows, killed: killed(folder, plan) })
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let head: String = COLUMNS.iter().map(|metric| format!(" {} |", titled(*metric))).collect();
        let mut table = format!("{}\n\n| cell | engine |{head}\n|---|---|{}\n", introduction(), "---|".repeat(COLUMNS.len()));
        for Row { name, engine, medians, .. } in &self.rows {
            let figures: String = medians.iter().map(|median| format!(" {} |", figure(*median))).collect();
            table += &format!("| {name} | {} |{figures}\n", text::engine(engine));
        }
        let left_out = self.folder.plan.iter().flat_map(|plan| &plan.left_out).map(|what| format!("* not run: {what}\n"));
        let missing: String = self.killed.iter().map(|killed| format!("* {killed}\n")).chain(left_out).collect();
        if missing.is_empty() { table } else { format!("{table}\n{missing}") }
    }

    /// Picture of speed and memory over the numbers and sizes of values of part A.
    fn sizes(&self) -> Option<String> {
        let place = |name: &str, engine: &str, figures: [Option<f64>; 2], killed: bool| {
            let mut parts = name.strip_prefix("A ")?.split(", ");
            let (value, sets, log) = (parts.next()?, parts.next()?.strip_suffix(" SETs")?, parts.next()?);
            let line = format!("{}, {log}", text::engine(engine));
            Some(Place { value: value.to_string(), sets: sets.to_string(), line, figures, killed })
        };
        let median = |row: &Row, metric: Metric| row.medians[COLUMNS.iter().position(|column| *column == metric)?];
        let is_killed = |name: &str, engine: &str| self.killed.iter().any(|killed| killed.cell == name && killed.engine == engine);
        let measured = self.rows.iter().filter_map(|row| {
            let figures = [median(row, Metric::OperationsPerSecond), median(row, Metric::PeakMemory)];
            place(&row.cell, &row.engine, figures, is_killed(&row.cell, &row.engine))
        });
        let has_row = |killed: &&KilledIn| self.rows.iter().any(|row| row.cell == killed.cell && row.engine == killed.engine);
        let without = self.killed.iter().filter(|killed| !has_row(killed));
        let without = without.filter_map(|killed| place(&killed.cell, &killed.engine, [None, None], true));
        sizes(&measured.chain(without).collect::<Vec<_>>())
    }

    /// The table for a page.
    pub fn html(&self) -> String {
        let head: String = COLUMNS.iter().map(|metric| format!("<th>{}</th>", escape(&titled(*metric)))).collect();
        let row = |Row { name, engine, medians, .. }: &Row| {
            let figures: String = medians.iter().map(|median| format!("<td>{}</td>", escape(&figure(*median)))).collect();
            format!("<tr><th>{}</th><th>{}</th>{figures}</tr>\n", escape(name), escape(text::engine(engine)))
        };
        let table = framed(&format!("<th>cell</th><th>engine</th>{head}"), &self.rows.iter().map(row).collect::<String>());
        let killed: String = self.killed.iter().map(|killed| format!("<li>{}</li>\n", escape(&killed.to_string()))).collect();
        let killed = if killed.is_empty() { killed } else { format!("<ul>\n{killed}</ul>\n") };
        let sizes = self.sizes().map_or(String::new(), |picture| {
            let caption = "Speed and peak memory over the number of SETs, medians; each size has its own scale";
            format!("<figure><figcaption>{caption}</figcaption>\n<div class=\"scroll\">{picture}</div></figure>\n")
        });
        format!("<p>{}</p>\n{table}{killed}{sizes}", escape(&introduction()))
    }
}

/// Records of a cell on an engine.
fn runs_of<'a>(folder: &'a Folder, cell: &PlannedCell, engine: &str) -> Vec<&'a RunRecord> {
    let is_its =
        |run: &&Run| run.record.spec.engine.name == engine && folder.planned(run).is_some_and(|(_, planned)| planned.name == cell.name);
    folder.runs.iter().filter(is_its).map(|run| &run.record).collect()
}

/// Cells with servers that were killed.
fn killed(folder: &Folder, plan: &Study) -> Vec<KilledIn> {
    let pairs = plan.cells.iter().flat_map(|cell| plan.engines.iter().map(move |engine| (cell, engine)));
    let found = pairs.filter(|(cell, engine)| cell.is_for(engine)).filter_map(|(cell, engine)| {
        let runs = runs_of(folder, cell, engine);
        let killed: Vec<_> = runs.iter().filter_map(|record| record.killed.as_ref()).collect();
        let told = format!("{} in {} of {} runs", killed.first()?, killed.len(), runs.len());
        Some(KilledIn { cell: cell.name.clone(), name: folder.words.say(&cell.name), engine: engine.clone(), told })
    });
    found.collect()
}

/// Text that explains the columns.
fn introduction() -> String {
    "Medians of the repeats. Memory is the proportional set of the server and its children, at its peak and at rest, after the load. Write \
     amplification is what files gave to the medium per byte of keys and values."
        .into()
}

fn row(folder: &Folder, workload: &str, cell: &Cell<'_>, part: &str, several: bool) -> Row {
    let name = if cell.label.is_empty() { workload } else { &cell.label };
    let planned = cell.runs.first().and_then(|run| folder.planned(run));
    Row {
        name: if several { format!("{name}: {part}") } else { name.to_string() },
        cell: planned.map_or_else(|| name.to_string(), |(_, planned)| planned.name.clone()),
        engine: cell.engine.clone(),
        medians: COLUMNS.iter().map(|metric| median(&cell.figures(part, *metric))).collect(),
    }
}

fn figure(median: Option<f64>) -> String {
    median.map_or("-".into(), number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};
    use crate::run::{Killed, PhaseRecord, Second};

    /// A killed server is in the list and in the picture over sizes; cells that are not run are named.
    #[test]
    fn killed_servers_and_cells_that_are_not_run_are_told() {
        let study = study("aof-rewrite", &["sinter", "redis"], 1);
        let (_directory, mut folder) = folder_of(&study, |_, _| Some(1.0));
        let name = "A 10 kB, 1,000 SETs, log shortened";
        let series: Vec<Second> = (1..5).map(|n| Second { at: f64::from(n), operations: 9, ..Second::default() }).collect();
        let numbers: Vec<usize> =
            study.runs().iter().filter(|run| run.cell == name && run.engine == "redis").map(|run| run.number).collect();
        for number in numbers {
            let record = &mut folder.runs[number].record;
            let phase = PhaseRecord { series: series.clone(), ..PhaseRecord::default() };
            record.killed = Some(Killed { operations: 1500, seconds: 2.5, memory_bytes: 48 << 20, phase });
            record.failure = Some("killed".to_string());
        }
        let plan = folder.plan.as_mut().unwrap();
        plan.left_out.push("redis, A 100 kB: no disk".to_string());
        let servers = Servers::of(&folder).unwrap();
        let line = "Redis, load and updates: 10 kB, 1,000 SETs, log rewritten: killed after 1,500 operations in 2.5 s, with 48 MiB of \
             memory in 1 of 1 runs";
        let text = servers.markdown();
        assert!(text.contains(&format!("\n* {line}\n")) && text.contains("\n* not run: redis, A 100 kB: no disk\n"), "{text}");
        let page = servers.html();
        assert!(page.contains(&format!("<li>{line}</li>")) && page.matches("✕ killed").count() == 2, "{page}");
        assert!(page.contains("values of 0.5 kB") && page.contains("Redis, log kept"), "{page}");
        // A style inside of a picture would be one of the whole page.
        assert!(!page.contains("<style"), "{page}");
    }
}
