//! Reads result folders.

use super::Failure;
use super::words::Words;
use crate::published::published;
use crate::run::{EngineSpec, RunRecord};
use crate::study::Error;
use crate::study::archive::{ARCHIVE, Stored, Text, number};
use crate::study::judge::Finding;
use crate::study::plan::{Cell as PlannedCell, STUDY_VERSION, Study};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A result folder.
pub struct Folder {
    /// Name of the folder, unique among those on a page.
    pub name: String,
    /// Path of the folder.
    pub path: PathBuf,
    /// The study's request as stored; `None` if the folder has none.
    pub study: Option<Value>,
    /// The parsed study; `None` for studies of another version, whose runs are told apart by their specs.
    pub plan: Option<Study>,
    /// Words for short names of the study.
    pub words: Words,
    /// Cell names and repeats of the plan, by the numbers of runs.
    cells: BTreeMap<usize, (String, u32)>,
    /// Findings of the study; empty as long as there are none.
    pub findings: Vec<Finding>,
    /// Runs, ordered by name.
    pub runs: Vec<Run>,
}

/// A run.
pub struct Run {
    /// Number of the run with leading zeros: the name of its loose file without the ending.
    pub name: String,
    /// The number; `None` for a file that no study wrote.
    number: Option<usize>,
    /// Record of the run: the spec and the figures of each phase.
    pub record: RunRecord,
}

impl Run {
    fn of((file, text): (&String, &Text)) -> Result<Self, Failure> {
        let name = file.trim_end_matches(".json").to_owned();
        Ok(Run { name, number: number(file), record: text.record().map_err(input)? })
    }
}

impl Folder {
    /// Reads a folder. Missing files are left out; existing ones must be whole.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let missing = |what: &str| Failure::Input(format!("{}: {what}", path.display()));
        if !path.is_dir() {
            return Err(missing(if path.exists() { "not a directory" } else { "no such directory" }));
        }
        let stored = Stored::read(path).map_err(input)?;
        let plan = stored.study.as_ref().map(plan).transpose()?.flatten();
        let study: Option<Value> = stored.study.as_ref().map(Text::parse).transpose().map_err(input)?;
        let findings = Text::loose(&path.join("verdicts.json")).map_err(input)?;
        let findings: Option<Vec<Finding>> = findings.as_ref().map(Text::parse).transpose().map_err(input)?;
        let runs = stored.runs.iter().map(Run::of).collect::<Result<Vec<_>, _>>()?;
        if study.is_none() && runs.is_empty() {
            return Err(missing(&format!("no results there (neither {ARCHIVE} nor study.json nor runs/*.json)")));
        }
        let name = fs::canonicalize(path).ok().and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| path.display().to_string());
        let cells = plan.iter().flat_map(|plan| plan.runs()).map(|run| (run.number, (run.cell.to_owned(), run.repeat))).collect();
        let words = Words::of(plan.as_ref().and_then(|plan| published(&plan.name)).as_ref());
        Ok(Folder { name, path: path.to_owned(), study, plan, words, cells, findings: findings.unwrap_or_default(), runs })
    }

    /// The cell of a run in the plan, and its index there, found by the number of the run.
    pub fn planned(&self, run: &Run) -> Option<(usize, &PlannedCell)> {
        let (cell, _) = self.cells.get(&run.number?)?;
        let engine = &run.record.spec.engine.name;
        let cells = &self.plan.as_ref()?.cells;
        let (place, cell) = cells.iter().enumerate().find(|(_, other)| other.name == *cell && other.is_for(engine))?;
        // The record decides: a plan may have been edited, or its order made otherwise.
        let spec = &run.record.spec;
        let engine = EngineSpec { name: spec.engine.name.clone(), ..cell.settings.clone() };
        (cell.workload == spec.workload && engine == spec.engine).then_some((place, cell))
    }

    /// Number of the repeat in the plan, from 0.
    pub fn repeat(&self, run: &Run) -> Option<u32> {
        self.planned(run).and_then(|_| Some(self.cells.get(&run.number?)?.1))
    }
}

/// Parses a study. One of this version must be whole.
fn plan(study: &Text) -> Result<Option<Study>, Failure> {
    let value: Value = study.parse().map_err(input)?;
    if value.get("version").and_then(Value::as_u64) != Some(STUDY_VERSION.into()) {
        return Ok(None);
    }
    Study::deserialize(value).map(Some).map_err(|error| Failure::Input(format!("{}: {error}", study.place)))
}

fn input(error: Error) -> Failure {
    Failure::Input(error.to_string())
}

/// Makes the names of folders unique: equal ones are replaced by paths, and numbered if even those are equal.
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
