//! Reports: made from result folders and nothing else, so that old results can be drawn again; one HTML page and one CSV file. In reading
//! order: `load` reads a folder, `cells` groups repeats and finds the parameters in which runs differ, `measures` are the figures of a run
//! as a table of functions, `beside` are values that stand beside published ones and `drawing` draws both, `charts` makes data for the
//! page's script, `tables` and `page` the HTML, `engines` sets engines side by side, `servers` does so with servers, `behind` lists where
//! SinterDB is worse than others, `csv` is the export; `documents` puts figures into Markdown files and `picture` draws the chart for them.

mod behind;
mod beside;
mod cells;
mod charts;
mod csv;
mod documents;
mod drawing;
mod engines;
mod load;
mod measures;
mod page;
mod picture;
mod servers;
mod tables;
mod text;
pub mod words;

use crate::study::Error;
use crate::study::folder;
use crate::study::judge::{Finding, Results, judge};
use engines::Engines;
use load::Folder;
use servers::Servers;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

pub use page::WITH_OURS;

/// File of the table that sets engines side by side (Markdown).
pub const ENGINES: &str = "engines.md";
/// File of the table of servers (Markdown).
pub const SERVERS: &str = "servers.md";

/// Reason why there is no report; one line for the user.
#[derive(Debug)]
pub enum Failure {
    /// The input cannot be drawn; names the file.
    Input(String),
    /// The report could not be written; names the file.
    Output(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Input(what) | Failure::Output(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Failure {}

/// Judges the runs of a result folder anew if they were judged, and makes `index.html` and `results.csv` there, [`ENGINES`] for a study
/// that compares engines, and [`SERVERS`] for one of servers. Returns the path of the page.
///
/// # Errors
/// A folder without results, a damaged or newer file; a folder that cannot be written.
pub fn write(folder: &Path) -> Result<PathBuf, Failure> {
    let mut read = Folder::read(folder)?;
    if read.plan.is_some() && !read.findings.is_empty() {
        read.findings = judged(folder).map_err(|error| Failure::Input(error.to_string()))?;
    }
    if let Some(engines) = Engines::of(&read) {
        written(&folder.join(ENGINES), engines.markdown())?;
    }
    if let Some(servers) = Servers::of(&read) {
        written(&folder.join(SERVERS), servers.markdown())?;
    }
    render(&[read], &folder.join("index.html"), &folder.join("results.csv"))
}

/// Makes one page (and beside it, with the ending `.csv`, one table) of several result folders, such as those of several commits. Folder,
/// commit and version count as parameters where they differ; changes are against the first folder.
///
/// # Errors
/// As [`write()`].
pub fn compare(folders: &[PathBuf], page: &Path) -> Result<PathBuf, Failure> {
    let mut read = folders.iter().map(|folder| Folder::read(folder)).collect::<Result<Vec<_>, _>>()?;
    load::tell_apart(&mut read);
    render(&read, page, &page.with_extension("csv"))
}

/// Returns a document with its measured blocks filled in anew from the folders of studies that compare engines. A block stands between
/// `<!-- measured: NAME -->` and `<!-- end of measured -->`, each a line of its own.
///
/// # Errors
/// Folders without a table of engines, or of different engines, commits, machines or days; a block with an unknown name or without an end.
pub fn measured(folders: &[PathBuf], document: &str) -> Result<String, Failure> {
    let read = folders.iter().map(|folder| Folder::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let measured = documents::Measured::of(&read)?;
    measured.fill(document)
}

/// The chart (SVG) of the engines' speed in the folders.
///
/// # Errors
/// As [`measured()`], except for blocks.
pub fn chart(folders: &[PathBuf]) -> Result<String, Failure> {
    let read = folders.iter().map(|folder| Folder::read(folder)).collect::<Result<Vec<_>, _>>()?;
    Ok(picture::speed(&documents::Measured::of(&read)?))
}

/// Judges a study by its stored runs anew and stores the verdicts: the rule may be newer than they are.
fn judged(folder: &Path) -> Result<Vec<Finding>, Error> {
    let (stored, study) = folder::Folder::open(folder)?;
    let findings = judge(&study, &Results::read(&study, &stored)?);
    stored.conclude(&findings)?;
    Ok(findings)
}

fn render(folders: &[Folder], page: &Path, csv: &Path) -> Result<PathBuf, Failure> {
    let table = csv.file_name().unwrap_or_default().to_string_lossy();
    written(page, page::page(folders, &table))?;
    written(csv, csv::csv(folders))?;
    Ok(page.to_owned())
}

fn written(path: &Path, text: String) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| Failure::Output(format!("{}: {e}", path.display())))
}
