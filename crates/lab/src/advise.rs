//! Advice: which shape of a tree writes least for a workload, within a budget of memory and space, before anything is run.
//!
//! In reading order: [`tree`] is a tree of keys that SinterDB's own pickers keep in shape, [`predict`](mod@predict) sends a workload into
//! it, and here the shapes are compared, and predictions with measurements. Formulas such as `n F^(1/n)` for leveled trees
//! (Callaghan, smalldatum 2018-12) assume full levels and no overwrites on the way; a simulation assumes neither, and is quick, because it
//! has no values.

pub mod predict;
pub mod tree;

#[cfg(test)]
mod tests;

use crate::run::{Distribution, Limits, Medium, Mix, Pace, RunSpec, SPEC_VERSION, ValueSize, Workload};
use crate::statistics::{CONFIDENCE, Summary, summarise};
use crate::study::Error;
use crate::study::folder::Folder;
use crate::study::judge::Results;
use crate::study::metric::Metric;
use crate::study::own::{measured, settings, settled, shapes};
use crate::study::plan::Term;
use crate::study::settings::{puts, settle};
use predict::{Prediction, predict, write_amplification};
use sinterdb::settings::Budgets;

/// Assumptions of the predictions, for people.
pub const ASSUMPTIONS: [&str; 6] = [
    "One merge runs at a time. Where the workload's pace is closed, it reads three times as many bytes of tables as writers fill meanwhile \
     (measured on two processors with small trees), until level 0 slows them down; where it is open, merges keep up.",
    "Values compress as the workload says, keys do not; an entry costs 36 bytes beyond key and value in the log and in the memtable, 2 \
     in a table.",
    "Beyond 2,000,000 writes everything is made smaller alike: keys, memtables, tables, levels.",
    "Reads cost nothing but are told: the sorted runs that one has to look into, filters apart (10 bits per key spare it 99 of 100).",
    "Space is that of tables over what live keys and values need in them, compressed, as the budget counts it; the log adds what the \
     memtables hold. (Studies report bytes of the store over uncompressed bytes of the user.)",
    "The pickers are SinterDB's; RocksDB's follow the same rules with other ties.",
];

/// A shape and its predicted figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Name of the shape.
    pub name: String,
    /// Bytes written over bytes written by the user, log included.
    pub write_amplification: f64,
    /// Bytes of tables in the end over the bytes that live keys and values need in them, as the space budget counts.
    pub space_amplification: f64,
    /// Largest space amplification during the run.
    pub peak_space_amplification: f64,
    /// Sorted runs that a read looks into.
    pub runs: f64,
    /// Whether `peak_space_amplification` is within the space budget; true without one.
    pub fits: bool,
}

/// All shapes with predictions: fitting ones first, then by least write amplification. The memory budget decides the size of memtables,
/// tables and levels.
///
/// # Errors
/// Workloads that cannot be predicted, or that write nothing.
pub fn advise(workload: &Workload, budgets: Budgets) -> Result<Vec<Advice>, Error> {
    let memtable = budgets.family().write_buffer_size;
    let workload = &settled(workload.clone());
    let phases = measured(workload);
    let mut options = Vec::new();
    for tried in shapes(memtable) {
        let spec = RunSpec {
            version: SPEC_VERSION,
            engine: settings(workload, tried.shape, memtable),
            medium: Medium { directory: ".".into() },
            workload: workload.clone(),
            seed: 1,
            limits: Limits::default(),
        };
        let wrong = spec.validate();
        if !wrong.is_empty() {
            return Err(Error::Request(wrong.join("; ")));
        }
        let predictions = predict(&spec).map_err(Error::Request)?;
        let waf = write_amplification(&predictions, &phases);
        let waf = waf.ok_or_else(|| Error::Request(format!("workload {:?} writes nothing in its phases {phases:?}", workload.name)))?;
        let named = || predictions.iter().filter(|prediction| phases.contains(&prediction.name));
        let peak = named().map(|prediction| prediction.peak_space_amplification).fold(0.0, f64::max);
        let last = named().next_back().cloned().unwrap_or_default();
        options.push(Advice {
            name: tried.name,
            write_amplification: waf,
            space_amplification: last.space_amplification,
            peak_space_amplification: peak,
            runs: last.runs,
            fits: budgets.space_amplification.is_none_or(|most| peak <= most),
        });
    }
    options.sort_by(|a, b| b.fits.cmp(&a.fits).then(a.write_amplification.total_cmp(&b.write_amplification)));
    Ok(options)
}

/// A workload of uniform updates, twice the number of keys, after a load, so slow that merges keep up: all that is known of a database's
/// data, and the worst that its writers may do to it.
pub fn uniform_updates(keys: u64, key_size: usize, value_size: usize, compression_ratio: f64) -> Workload {
    let slow = |name: &str, operations, distribution| puts(name, operations, vec![Mix::puts(distribution)]).at(Pace::Open(1.0));
    let phases = vec![
        slow("load", keys, Distribution::Unique),
        settle("loaded"),
        slow("update", 2 * keys, Distribution::Uniform),
        settle("update debts"),
    ];
    Workload { name: "uniform updates".to_string(), keys, key_size, value_size: ValueSize::Fixed(value_size), compression_ratio, phases }
}

/// A prediction beside the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The cell of the study.
    pub cell: String,
    /// Name of the measure of the cell.
    pub measure: String,
    /// Predicted write amplification.
    pub predicted: f64,
    /// Measured write amplification.
    pub measured: Summary,
}

/// Predictions and measurements of all cells of a stored study that SinterDB ran.
///
/// # Errors
/// A folder that cannot be read.
pub fn compare(folder: &std::path::Path) -> Result<Vec<Compared>, Error> {
    let (folder, study) = Folder::open(folder)?;
    let results = Results::read(&study, &folder)?;
    let mut compared = Vec::new();
    for run in study.runs().iter().filter(|run| run.engine == "sinter" && run.repeat == 0) {
        let (Some(spec), Some(cell)) = (study.spec(run), study.cell(run.cell, run.engine)) else { continue };
        let predictions: Vec<Prediction> = predict(&spec).map_err(Error::Request)?;
        for (measure, phases) in &cell.measures {
            let values = results.sample(&study, "sinter", &Term::new(run.cell, measure), Metric::WriteAmplification);
            let Some(measured) = summarise(&values, CONFIDENCE) else { continue };
            let Some(predicted) = write_amplification(&predictions, phases) else { continue };
            compared.push(Compared { cell: cell.name.clone(), measure: measure.clone(), predicted, measured });
        }
    }
    compared.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(compared)
}
