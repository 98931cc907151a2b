//! A result folder: `study.json` (the study as it was asked), `runs/NNNN.json` (one record per run), `verdicts.json`. Files appear whole
//! or not at all, so that a study can be ended at any moment and go on later.

use super::Error;
use super::judge::Finding;
use super::plan::{PlannedRun, STUDY_VERSION, Study};
use crate::run::{RECORD_VERSION, RunRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The folder of one study.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new folder for a study.
    ///
    /// # Errors
    /// A folder that has results already, or that cannot be written.
    pub fn create(path: &Path, study: &Study) -> Result<Folder, Error> {
        let folder = Folder { path: path.to_owned() };
        if folder.study_file().exists() || folder.runs().exists() {
            let there = path.display();
            return Err(Error::Request(format!("{there} has results; --resume goes on with them, another --output begins anew")));
        }
        fs::create_dir_all(folder.runs()).map_err(|error| Error::Request(format!("{}: {error}", path.display())))?;
        write(&folder.study_file(), study)?;
        Ok(folder)
    }

    /// The folder of a study that was begun, and that study.
    ///
    /// # Errors
    /// A folder without a study, or with one of another version.
    pub fn open(path: &Path) -> Result<(Folder, Study), Error> {
        let folder = Folder { path: path.to_owned() };
        let file = folder.study_file();
        if !file.exists() {
            return Err(Error::Request(format!("{}: no study was begun there", path.display())));
        }
        let value: serde_json::Value = read(&file)?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(STUDY_VERSION)) {
            let found = version.map_or("none".to_string(), |version| version.to_string());
            return Err(Error::Request(format!("{}: version {found}, this program reads {STUDY_VERSION}", file.display())));
        }
        let study = serde_json::from_value(value).map_err(|error| Error::Request(format!("{}: {error}", file.display())))?;
        fs::create_dir_all(folder.runs()).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
        Ok((folder, study))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record of a run of a study; `None` if there is none yet.
    ///
    /// # Errors
    /// A file that is not a record of this version, or of something else than the study's run of that number.
    pub fn record(&self, study: &Study, run: &PlannedRun<'_>) -> Result<Option<RunRecord>, Error> {
        let file = self.run_file(run);
        if !file.exists() {
            return Ok(None);
        }
        let record: RunRecord = read(&file)?;
        if record.version != RECORD_VERSION {
            return Err(Error::Request(format!("{}: version {}, this program reads {RECORD_VERSION}", file.display(), record.version)));
        }
        if study.spec(run).as_ref() != Some(&record.spec) {
            let (file, PlannedRun { cell, engine, .. }) = (file.display(), run);
            return Err(Error::Request(format!("{file}: is of another run than the study's {engine}, {cell}; take it away to go on")));
        }
        Ok(Some(record))
    }

    /// Keeps the record of a run.
    ///
    /// # Errors
    /// A medium that takes no more.
    pub fn keep(&self, run: &PlannedRun<'_>, record: &RunRecord) -> Result<(), Error> {
        write(&self.run_file(run), record)
    }

    /// Keeps what was found.
    ///
    /// # Errors
    /// A medium that takes no more.
    pub fn conclude(&self, findings: &[Finding]) -> Result<(), Error> {
        write(&self.path.join("verdicts.json"), findings)
    }

    fn study_file(&self) -> PathBuf {
        self.path.join("study.json")
    }

    fn runs(&self) -> PathBuf {
        self.path.join("runs")
    }

    fn run_file(&self, run: &PlannedRun<'_>) -> PathBuf {
        self.runs().join(format!("{:04}.json", run.number))
    }
}

/// Reads a JSON file of the user's.
///
/// # Errors
/// A file that cannot be read, or does not say what it should: a wrong request.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Error> {
    let wrong = |what: &dyn Display| Error::Request(format!("{}: {what}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

/// Writes beside the file first: what is seen under its name is whole. In one line, because hundreds of records are kept, and half of an
/// indented one is blanks.
fn write<T: Serialize + ?Sized>(file: &Path, value: &T) -> Result<(), Error> {
    let failed = |what: &dyn Display| Error::Failed(format!("{}: {what}", file.display()));
    let text = serde_json::to_string(value).map_err(|error| failed(&error))? + "\n";
    let unfinished = file.with_extension("unfinished");
    let written = File::create(&unfinished).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&unfinished, file)
    });
    written.map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            let _ = fs::remove_file(&unfinished);
        }
        failed(&error)
    })
}
