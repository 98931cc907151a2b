//! Engines side by side: a row per workload, and in each cell a figure of every engine. For studies in which engines are all that differs.

use super::cells::{Workload, workloads};
use super::load::Folder;
use super::measures::{Measure, OfPart, PEAK_MEMORY, SPACE_AMPLIFICATION};
use super::tables::framed;
use super::text::{escape, number};
use crate::run::RunRecord;
use crate::statistics::{CONFIDENCE, Interval, median, ratio};
use crate::study::metric::Metric;
use std::collections::{BTreeMap, BTreeSet};

/// A difference of means below this is not told, however sure it is.
const LEAST_DIFFERENCE: f64 = 1.02;

/// A column, and whether more is better.
const COLUMNS: &[(Measure<OfPart>, bool)] = &[
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
            // One instrument for all engines, whatever they count themselves.
            meaning: "bytes that the process handed to write calls per user byte, debts included",
            of: |part| {
                let user = part.sum(|phase| phase.written.user_bytes as f64);
                (user > 0.0).then(|| part.sum(|phase| phase.process_written_bytes as f64) / user)
            },
        },
        false,
    ),
    (SPACE_AMPLIFICATION, false),
    (PEAK_MEMORY, false),
];

/// The figures of all repeats of a workload: by column and engine.
struct Row {
    workload: String,
    figures: Vec<Vec<Vec<f64>>>,
}

/// A study's table.
pub struct Engines<'a> {
    /// In the order that the study names them.
    names: &'a [String],
    records: Vec<&'a RunRecord>,
    rows: Vec<Row>,
}

impl<'a> Engines<'a> {
    /// Of a folder; `None` if its study asks something else, or nothing has run.
    pub fn of(folder: &'a Folder) -> Option<Self> {
        let plan = folder.plan.as_ref().filter(|plan| plan.compares_engines())?;
        let folders = std::slice::from_ref(folder);
        let rows: Vec<Row> = workloads(folders).iter().flat_map(|workload| rows(workload, &plan.engines)).collect();
        let records = folder.runs.iter().map(|run| &run.record).filter(|record| record.failure.is_none()).collect();
        (!rows.is_empty()).then_some(Engines { names: &plan.engines, records, rows })
    }

    /// As Markdown, with what is to be known to read it.
    pub fn markdown(&self) -> String {
        let head: String = COLUMNS.iter().map(|(measure, _)| format!(" {} |", measure.name)).collect();
        let mut text = format!("{}\n\n| workload |{head}\n|---|{}\n", self.introduction(), "---|".repeat(COLUMNS.len()));
        for row in &self.rows {
            text += &format!("| {} |{}\n", row.workload, (0..COLUMNS.len()).map(|c| format!(" {} |", row.medians(c))).collect::<String>());
        }
        let list = |title: &str, lines: &[String]| match lines {
            [] => String::new(),
            lines => format!("\n{title}\n\n{}", lines.iter().map(|line| format!("* {line}\n")).collect::<String>()),
        };
        text + &list(&self.title_of_behind(), &self.behind()) + &list("Settings without a counterpart:", &self.ignored())
    }

    /// As a section of a page.
    pub fn html(&self) -> String {
        let head: String = COLUMNS.iter().map(|(m, _)| format!("<th title=\"{}\">{}</th>", escape(m.meaning), escape(m.name))).collect();
        let row = |row: &Row| {
            let cells: String = (0..COLUMNS.len()).map(|c| format!("<td>{}</td>", escape(&row.medians(c)))).collect();
            format!("<tr><th>{}</th>{cells}</tr>\n", escape(&row.workload))
        };
        let rows: String = self.rows.iter().map(row).collect();
        let behind: String = self.behind().iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        let behind = if behind.is_empty() { behind } else { format!("<p>{}</p>\n<ul>{behind}</ul>\n", escape(&self.title_of_behind())) };
        let table = framed(&format!("<th>workload</th>{head}"), &rows);
        format!("<section><h2>Side by side</h2>\n<p>{}</p>\n{table}{behind}</section>\n", escape(&self.introduction()))
    }

    fn introduction(&self) -> String {
        let all = |of: fn(&RunRecord) -> &str| self.records.iter().map(|record| of(record)).collect::<BTreeSet<_>>();
        let repeats = self.rows.iter().flat_map(|row| row.figures.iter().flatten().map(Vec::len));
        let (least, most) = repeats.filter(|n| *n > 0).fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        let repeats = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        format!(
            "{} ({}). Medians of {repeats} repeats. Write amplification is what the process handed to write calls per byte of the user, with \
             what compactions owed; space is the store's per live byte of the user.",
            self.names.join(" / "),
            all(|record| &record.engine_version).into_iter().collect::<Vec<_>>().join(", ")
        )
    }

    fn title_of_behind(&self) -> String {
        let first = self.names.first().map_or("", String::as_str);
        format!("Where {first} is behind by more than 2 %, with intervals of 95 % each that leave equality out:")
    }

    /// Where the first engine is worse than another.
    fn behind(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for (column, (measure, more)) in COLUMNS.iter().enumerate() {
                for (other, name) in self.names.iter().enumerate().skip(1) {
                    let [mine, theirs] = [0, other].map(|engine| row.figures[column][engine].as_slice());
                    let (above, below) = if *more { (theirs, mine) } else { (mine, theirs) };
                    let Some(found) = ratio(&[above], &[below], CONFIDENCE) else { continue };
                    let Some(Interval { low, high, .. }) = found.interval.filter(|i| i.low > 1.0 && found.ratio > LEAST_DIFFERENCE) else {
                        continue;
                    };
                    let (worse, [ratio, low, high]) = (if *more { "less than" } else { "more than" }, [found.ratio, low, high].map(number));
                    lines.push(format!("{}, {}: {worse} {name} by a factor of {ratio} ({low} to {high})", row.workload, measure.name));
                }
            }
        }
        lines
    }

    fn ignored(&self) -> Vec<String> {
        let mut by_engine: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for record in &self.records {
            by_engine.entry(&record.spec.engine.name).or_default().extend(record.ignored_settings.iter().map(String::as_str));
        }
        let lines = by_engine.iter().flat_map(|(engine, settings)| settings.iter().map(move |setting| format!("{engine}: `{setting}`")));
        lines.collect()
    }
}

/// A row for everything that is measured of a workload.
fn rows(workload: &Workload<'_>, engines: &[String]) -> Vec<Row> {
    let values = |name: &str, engine: &str, of: OfPart| workload.of(engine).flat_map(|cell| cell.values(name, of)).collect();
    let row = |(name, _): (String, Vec<String>)| {
        let column = |(measure, _): &(Measure<OfPart>, bool)| engines.iter().map(|engine| values(&name, engine, measure.of)).collect();
        Row { figures: COLUMNS.iter().map(column).collect(), workload: name }
    };
    workload.parts().into_iter().map(row).collect()
}

impl Row {
    /// The medians of a column: `1,000 / 900 / -`; a `-` alone where no engine has one.
    fn medians(&self, column: usize) -> String {
        let medians: Vec<Option<f64>> = self.figures[column].iter().map(|values| median(values)).collect();
        match medians.iter().all(Option::is_none) {
            true => "-".into(),
            false => medians.into_iter().map(|m| m.map_or("-".into(), number)).collect::<Vec<_>>().join(" / "),
        }
    }
}
