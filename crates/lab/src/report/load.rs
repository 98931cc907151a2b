//! Result folders, read.

use super::Failure;
use crate::run::{EngineSpec, RECORD_VERSION, RunRecord};
use crate::study::judge::Finding;
use crate::study::plan::{Cell as PlannedCell, STUDY_VERSION, Study};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A result folder.
pub struct Folder {
    /// What tells it from the others on a page.
    pub name: String,
    /// The path it was read from.
    pub path: PathBuf,
    /// The study as it was asked, in its own words; `None`: not there.
    pub study: Option<Value>,
    /// The same, understood; `None` for studies of another version, whose runs are told apart by their specs.
    pub plan: Option<Study>,
    /// Names of the plan's cells, and repeats, by the numbers of runs.
    cells: BTreeMap<usize, (String, u32)>,
    /// What the study decided; empty if it did not (yet).
    pub findings: Vec<Finding>,
    /// In order of their file names.
    pub runs: Vec<Run>,
}

/// A run.
pub struct Run {
    /// Its file, from the folder on.
    pub file: String,
    /// What is in it.
    pub record: RunRecord,
}

impl Run {
    /// Its number: its file's name.
    fn number(&self) -> Option<usize> {
        Path::new(&self.file).file_stem()?.to_str()?.parse().ok()
    }
}

/// The part of a record that tells whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

impl Folder {
    /// Reads a folder. What is not there is left out; what is there must be whole.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let missing = |what: &str| Failure::Input(format!("{}: {what}", path.display()));
        if !path.is_dir() {
            return Err(missing(if path.exists() { "not a directory" } else { "no such directory" }));
        }
        let study: Option<Value> = json(&path.join("study.json"))?;
        let plan = study.as_ref().map(|study| plan(&path.join("study.json"), study)).transpose()?.flatten();
        let findings: Option<Vec<Finding>> = json(&path.join("verdicts.json"))?;
        let runs = run_files(&path.join("runs"))?.iter().map(|file| read_run(file)).collect::<Result<Vec<_>, _>>()?;
        if study.is_none() && runs.is_empty() {
            return Err(missing("no results there (neither study.json nor runs/*.json)"));
        }
        let name = fs::canonicalize(path).ok().and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| path.display().to_string());
        let cells = plan.iter().flat_map(|plan| plan.runs()).map(|run| (run.number, (run.cell.to_owned(), run.repeat))).collect();
        Ok(Folder { name, path: path.to_owned(), study, plan, cells, findings: findings.unwrap_or_default(), runs })
    }

    /// The cell of the plan that a run is of, and its place there. A run's file has its number in the plan's order.
    pub fn planned(&self, run: &Run) -> Option<(usize, &PlannedCell)> {
        let (cell, _) = self.cells.get(&run.number()?)?;
        let engine = &run.record.spec.engine.name;
        let cells = &self.plan.as_ref()?.cells;
        let (place, cell) = cells.iter().enumerate().find(|(_, other)| other.name == *cell && other.is_for(engine))?;
        // What the file says it did decides: a plan may have been edited, or its order made otherwise.
        let spec = &run.record.spec;
        let engine = EngineSpec { name: spec.engine.name.clone(), ..cell.settings.clone() };
        (cell.workload == spec.workload && engine == spec.engine).then_some((place, cell))
    }

    /// The how-manieth run of its cell it is in the plan, from 0.
    pub fn repeat(&self, run: &Run) -> Option<u32> {
        self.planned(run).and_then(|_| Some(self.cells.get(&run.number()?)?.1))
    }
}

/// A study of this version has to be whole.
fn plan(file: &Path, study: &Value) -> Result<Option<Study>, Failure> {
    if study.get("version").and_then(Value::as_u64) != Some(STUDY_VERSION.into()) {
        return Ok(None);
    }
    Study::deserialize(study).map(Some).map_err(|e| Failure::Input(format!("{}: {e}", file.display())))
}

/// Folders of the same name are told apart by their paths, and by their place if even those are alike.
pub fn tell_apart(folders: &mut [Folder]) {
    let clashes = |folders: &[Folder]| {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        folders.iter().for_each(|folder| *count.entry(folder.name.clone()).or_default() += 1);
        count
    };
    for round in 0..2 {
        let count = clashes(folders);
        for (place, folder) in folders.iter_mut().enumerate().filter(|(_, folder)| count[&folder.name] > 1) {
            folder.name = if round == 0 { folder.path.display().to_string() } else { format!("{} ({})", folder.name, place + 1) };
        }
    }
}

/// `runs/*.json` in order; other files (those still being written) do not count.
fn run_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |e| Failure::Input(format!("{}: {e}", directory.display()));
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    Ok(files)
}

fn read_run(file: &Path) -> Result<Run, Failure> {
    let text = fs::read_to_string(file).map_err(|e| Failure::Input(format!("{}: {e}", file.display())))?;
    // The version first: a record of another version may lack any field, and that is not damage.
    let Head { version } = parse(file, &text)?;
    if version != RECORD_VERSION {
        return Err(Failure::Input(format!("{}: record version {version}, this program reads version {RECORD_VERSION}", file.display())));
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(Run { file: format!("runs/{name}"), record: parse(file, &text)? })
}

fn json<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => parse(file, &text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Input(format!("{}: {error}", file.display()))),
    }
}

fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|e| Failure::Input(format!("{}: {e}", file.display())))
}
