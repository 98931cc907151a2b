//! The folder of a running study: `study.json` (the request), `runs/NNNN.json` (one record per run), `verdicts.json`, and the
//! [archive](super::archive) of an earlier session. Files appear whole or not at all, so that a study can be ended at any moment and go on
//! later.

use super::Error;
use super::archive::{ARCHIVE, RUNS, STUDY, Stored, Text, run_name};
use super::finding::Finding;
use super::plan::{PlannedRun, STUDY_VERSION, Study};
use super::whole::write_whole;
use crate::run::RunRecord;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of one study.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Records that were archived before, by the names of their loose files.
    archived: BTreeMap<String, Text>,
}

impl Folder {
    /// Creates a folder for a new study.
    ///
    /// # Errors
    /// A folder that has results already, or that cannot be written.
    pub fn create(path: &Path, study: &Study) -> Result<Folder, Error> {
        if [STUDY, RUNS, ARCHIVE].iter().any(|name| path.join(name).exists()) {
            let there = path.display();
            return Err(Error::Request(format!("{there} has results; --resume goes on with them, another --output begins anew")));
        }
        let folder = Folder { path: path.to_owned(), archived: BTreeMap::new() };
        fs::create_dir_all(path).map_err(|error| Error::Request(format!("{}: {error}", path.display())))?;
        write(&path.join(STUDY), study)?;
        Ok(folder)
    }

    /// Opens the folder of an existing study, and reads the study.
    ///
    /// # Errors
    /// A folder without a study, or with one of another version.
    pub fn open(path: &Path) -> Result<(Folder, Study), Error> {
        let Stored { study, runs: archived } = Stored::archived(path)?;
        let text = Text::loose(&path.join(STUDY))?.or(study);
        let text = text.ok_or_else(|| Error::Request(format!("{}: no study was begun there", path.display())))?;
        let value: serde_json::Value = text.parse()?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(STUDY_VERSION)) {
            let found = version.map_or("none".to_string(), |version| version.to_string());
            return Err(Error::Request(format!("{}: version {found}, this program reads {STUDY_VERSION}", text.place)));
        }
        let study = serde_json::from_value(value).map_err(|error| Error::Request(format!("{}: {error}", text.place)))?;
        Ok((Folder { path: path.to_owned(), archived }, study))
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record of a run of a study; `None` if there is none yet.
    ///
    /// # Errors
    /// A file that is not a record of this version, or of something else than the study's run of that number.
    pub fn record(&self, study: &Study, run: &PlannedRun<'_>) -> Result<Option<RunRecord>, Error> {
        let loose = Text::loose(&self.run_file(run))?;
        let Some(text) = loose.as_ref().or_else(|| self.archived.get(&run_name(run.number))) else { return Ok(None) };
        let record = text.record()?;
        if study.spec(run).as_ref() != Some(&record.spec) {
            let (place, PlannedRun { cell, engine, .. }) = (&text.place, run);
            return Err(Error::Request(format!("{place}: is of another run than the study's {engine}, {cell}; take it away to go on")));
        }
        Ok(Some(record))
    }

    /// Stores the record of a run.
    ///
    /// # Errors
    /// A medium that takes no more.
    pub fn keep(&self, run: &PlannedRun<'_>, record: &RunRecord) -> Result<(), Error> {
        let runs = self.path.join(RUNS);
        fs::create_dir_all(&runs).map_err(|error| Error::Failed(format!("{}: {error}", runs.display())))?;
        write(&self.run_file(run), record)
    }

    /// Stores the findings.
    ///
    /// # Errors
    /// A medium that takes no more.
    pub fn conclude(&self, findings: &[Finding]) -> Result<(), Error> {
        write(&self.path.join("verdicts.json"), findings)
    }

    fn run_file(&self, run: &PlannedRun<'_>) -> PathBuf {
        self.path.join(RUNS).join(run_name(run.number))
    }
}

/// Reads a JSON file of the user.
///
/// # Errors
/// A file that cannot be read, or has other contents: a wrong request.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Error> {
    let wrong = |what: &dyn Display| Error::Request(format!("{}: {what}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Writes a value as JSON in one line, because hundreds of records are kept, and half of an indented one is blanks.
fn write<T: Serialize + ?Sized>(file: &Path, value: &T) -> Result<(), Error> {
    write_whole(file, |new| new.write_all((serde_json::to_string(value)? + "\n").as_bytes()))
}
