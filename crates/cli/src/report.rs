//! `sinter report`: draws the results of studies again, or compares them.

use crate::ended::Ended;
use clap::Args;
use sinter_lab::report::{self, Failure};
use sinter_lab::study::archive::archive;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the page of several folders goes if nothing is said.
const COMPARISON: &str = "comparison.html";

/// What to draw.
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
}

/// Runs the command.
///
/// # Errors
/// Folders without results, damaged files; a page that cannot be written.
pub fn run(flags: &ReportFlags) -> Result<ExitCode, Ended> {
    if flags.archive {
        flags.folders.iter().try_for_each(|folder| archive(folder).map(drop))?;
    }
    let page = match (flags.folders.as_slice(), &flags.output) {
        ([folder], None) => report::write(folder),
        (folders, output) => report::compare(folders, output.as_deref().unwrap_or(Path::new(COMPARISON))),
    };
    writeln!(io::stdout().lock(), "{}", page.map_err(ended)?.display())?;
    Ok(ExitCode::SUCCESS)
}

fn ended(failure: Failure) -> Ended {
    match failure {
        Failure::Input(what) => Ended::Usage(what),
        Failure::Output(_) => Ended::Failed(failure.into()),
    }
}
