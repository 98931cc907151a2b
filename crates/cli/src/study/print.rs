//! Output of a study while it runs and when it ends.

use indicatif::{ProgressBar, ProgressStyle};
use sinter_lab::drive::permitted_disk;
use sinter_lab::run::RunRecord;
use sinter_lab::statistics::Summary;
use sinter_lab::study::catalogue::Entry;
use sinter_lab::study::conduct::{Conducted, Event};
use sinter_lab::study::forecast::Forecast;
use sinter_lab::study::judge::{Finding, Row};
use sinter_lab::study::metric::Metric;
use sinter_lab::study::plan::Study;
use std::io::{ErrorKind, IsTerminal, Result, Write, stderr, stdout};
use std::path::Path;

/// Lists all studies.
pub fn list(studies: &[Entry]) -> Result<()> {
    studies.iter().try_for_each(|study| writeln!(stdout(), "{}: {}", study.name, study.asks))
}

/// Prints which parts of a study cannot run on this machine.
pub fn left_out(study: &Study) -> Result<()> {
    study.left_out.iter().try_for_each(|what| writeln!(stdout(), "left out: {what}"))
}

/// Prints roughly how long the runs that are left take, and how much disk.
pub fn forecast(forecast: &Forecast, directory: &Path) -> Result<()> {
    writeln!(stdout(), "{} in {}", forecast.statement(permitted_disk(directory).ok()), directory.display())
}

/// Progress: a line per finished run on stdout, and a bar below on a terminal.
pub struct Watch<'a> {
    study: &'a Study,
    forecast: Forecast,
    bar: ProgressBar,
    total: usize,
    /// Whether the warning that limits do not hold was printed.
    told: bool,
}

impl<'a> Watch<'a> {
    /// Progress of the runs of a study.
    pub fn new(study: &'a Study, forecast: Forecast) -> Self {
        let total = study.runs().len();
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} run {human_pos} of {human_len}, {prefix}: {msg}") {
            bar.set_style(style);
        }
        Watch { study, forecast, bar, total, told: false }
    }

    /// Shows an event.
    pub fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Begins(run) => {
                self.bar.set_position(run.number as u64);
                self.bar.set_prefix(self.forecast.progress());
                self.bar.set_message(format!("{}, {}", run.engine, run.cell));
            }
            Event::Progress { phase, done, total } => {
                let part = if *total > 0 { format!(" {:.0} %", 100.0 * *done as f64 / *total as f64) } else { String::new() };
                self.bar.set_message(format!("{phase}{part}"));
            }
            Event::Ended(run, record) => {
                self.complain(record.confinement.complaint.as_deref());
                let what = match &record.failure {
                    Some(why) if self.study.accepts(run, record) => why.clone(),
                    Some(why) => format!("failed: {why}"),
                    None => self.amplifications(run.cell, run.engine, record),
                };
                if self.study.accepts(run, record) {
                    self.forecast.note(run, record);
                }
                self.line(run.number, run.engine, run.cell, &format!("{what}; {}", self.forecast.progress()));
            }
            Event::Lost(run, why) => self.line(run.number, run.engine, run.cell, &format!("failed: {why}")),
        }
    }

    /// Write amplification, as the cell measures it, and space amplification, which is its price.
    fn amplifications(&self, cell: &str, engine: &str, record: &RunRecord) -> String {
        let measures = || self.study.cell(cell, engine).map(|cell| &cell.measures).into_iter().flatten();
        let list = |metric: Metric| {
            let figures = measures().filter_map(|(measure, phases)| Some(format!("{measure} {:.2}", metric.of(record, phases)?)));
            let figures: Vec<String> = figures.collect();
            (!figures.is_empty()).then(|| format!("{}: {}", metric.name(), figures.join(", ")))
        };
        let lists: Vec<String> = [Metric::WriteAmplification, Metric::SpaceAmplification].into_iter().filter_map(list).collect();
        if lists.is_empty() { "finished".to_string() } else { lists.join("; ") }
    }

    /// Warns, once per study, that the requested limits do not hold.
    fn complain(&mut self, complaint: Option<&str>) {
        if let Some(complaint) = complaint.filter(|_| !self.told) {
            self.told = true;
            self.bar.suspend(|| writeln!(stderr(), "sinter: limits do not hold: {complaint}").unwrap_or(()));
        }
    }

    fn line(&self, number: usize, engine: &str, cell: &str, what: &str) {
        // A closed stdout is ignored: the results are in the folder anyway.
        let print = || writeln!(stdout(), "{:>4}/{} {engine:8} {cell}: {what}", number + 1, self.total).unwrap_or(());
        self.bar.suspend(print);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints the verdicts, each with its comparisons.
pub fn findings(findings: &[Finding]) -> Result<()> {
    let mut out = stdout().lock();
    for finding in findings {
        let verdict = &finding.verdict;
        writeln!(out, "\n{}: {}\n  {}", verdict.engine, verdict.hypothesis, verdict.verdict.name())?;
        if let Some(original) = &finding.original {
            writeln!(out, "  the original study: {original}")?;
        }
        writeln!(out, "  rule: {}", verdict.rule)?;
        verdict.statistics.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    Ok(())
}

/// The settings, least write amplification first.
pub fn table(rows: &[Row]) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "\n{:8} {:36} {:>22} {:>7} {:>10} {:>12} {:>10}",
        "engine", "settings", "write amplification", "space", "peak MiB", "ops/s", "p99 us"
    )?;
    for row in rows {
        let figure = |i: usize, unit: f64| row.figures[i].as_ref().map_or("-".to_string(), |s| format!("{:.2}", s.mean / unit));
        let mark = if row.undominated { "*" } else { "" };
        let whole = |i: usize| row.figures[i].as_ref().map_or("-".to_string(), |s| format!("{:.0}", s.mean));
        writeln!(
            out,
            "{:8} {:36} {:>22} {:>7} {:>10} {:>12} {:>10} {mark}",
            row.engine,
            row.cell,
            row.figures[0].as_ref().map_or("-".to_string(), with_interval),
            figure(1, 1.0),
            figure(2, 1_048_576.0),
            whole(3),
            figure(4, 1000.0)
        )?;
    }
    writeln!(out, "Means, intervals at 95 %. *: no other row of the engine is as good in write amplification, space, memory and speed.")
}

/// Prints a table of the report; nothing if no run was finished.
pub fn made(file: &Path) -> Result<()> {
    match std::fs::read_to_string(file) {
        Ok(text) => write!(stdout(), "\n{text}"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn with_interval(summary: &Summary) -> String {
    let interval = summary.interval.map_or(String::new(), |i| format!(" ({:.2} to {:.2})", i.low, i.high));
    format!("{:.2}{interval}", summary.mean)
}

/// Prints the result of the study, the path of its report, and how to resume it.
pub fn end(conducted: &Conducted, total: usize, page: &Path, folder: &Path) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "\n{} of {total} runs finished; report: {}", conducted.finished, page.display())?;
    if conducted.interrupted {
        writeln!(out, "ended early; --resume --output {} goes on", folder.display())?;
    } else if conducted.failed > 0 {
        writeln!(out, "{} failed; --resume --output {} tries them again", conducted.failed, folder.display())?;
    }
    Ok(())
}
