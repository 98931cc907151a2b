//! `sinter report`: draws or compares the results of studies.

use crate::ended::Ended;
use anyhow::Context;
use clap::Args;
use sinter_lab::report::{self, Failure};
use sinter_lab::study::archive::archive;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Default name of the page that compares several folders.
const COMPARISON: &str = "comparison.html";

/// The results to draw.
#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Result folders. One: its index.html and results.csv are made anew. Several: one page that sets them against the first.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The page, and beside it a table (.csv) [default: index.html in the folder, or comparison.html here for several].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// First put the runs of each folder, whose study must have ended, into one file (runs.jsonl.zst).
    #[arg(long)]
    archive: bool,
    /// Instead of a page: makes the blocks of measured figures in this Markdown file anew. May be given several times. The folders are
    /// studies in which engines are all that differs, such as side-by-side.
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    into: Vec<PathBuf>,
    /// Instead of a page: draws speed as a picture (SVG), like --into.
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    chart: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Folders without results, damaged files; a page that cannot be written.
pub fn run(flags: &ReportFlags) -> Result<ExitCode, Ended> {
    if flags.archive {
        flags.folders.iter().try_for_each(|folder| archive(folder).map(drop))?;
    }
    if !flags.into.is_empty() || flags.chart.is_some() {
        return fill(flags);
    }
    let page = match (flags.folders.as_slice(), &flags.output) {
        ([folder], None) => report::write(folder),
        (folders, output) => report::compare(folders, output.as_deref().unwrap_or(Path::new(COMPARISON))),
    };
    writeln!(io::stdout().lock(), "{}", page.map_err(ended)?.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Updates documents and a chart with the figures of the folders. Nothing is written unless all can be made.
fn fill(flags: &ReportFlags) -> Result<ExitCode, Ended> {
    let mut files: Vec<(&Path, String)> = Vec::new();
    for path in &flags.into {
        let document = fs::read_to_string(path).map_err(|error| Ended::Usage(format!("{}: {error}", path.display())))?;
        let filled = report::measured(&flags.folders, &document).map_err(|failure| match failure {
            Failure::Input(what) => Ended::Usage(format!("{}: {what}", path.display())),
            other => ended(other),
        })?;
        files.push((path, filled));
    }
    if let Some(path) = &flags.chart {
        files.push((path, report::chart(&flags.folders).map_err(ended)?));
    }
    for (path, text) in files {
        fs::write(path, text).with_context(|| path.display().to_string()).map_err(Ended::Failed)?;
        writeln!(io::stdout().lock(), "{}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn ended(failure: Failure) -> Ended {
    match failure {
        Failure::Input(what) => Ended::Usage(what),
        Failure::Output(_) => Ended::Failed(failure.into()),
    }
}
