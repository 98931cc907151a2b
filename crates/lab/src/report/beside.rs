//! Values of our runs that stand beside published ones.

use super::load::Folder;
use super::text::short;
use super::words::Words;
use crate::published::Ours;
use crate::run::RunRecord;
use crate::statistics::{CONFIDENCE, Fold, Interval, mean, ratio, summarise};
use crate::study::judge::LEAST_RUNS;
use crate::study::metric::Metric;
use crate::study::plan::{Cell, Study};
use std::collections::BTreeMap;

/// A value in the unit of its axis.
pub struct Value {
    /// Mean of the repeats, or ratio of two means.
    pub mean: f64,
    /// Interval of the mean; `None` for fewer repeats than decide something.
    pub interval: Option<(f64, f64)>,
    /// Mean above the line of a share, with its unit; empty otherwise.
    pub said: String,
}

/// Good records of a study by cell and engine.
pub struct Measured<'a> {
    /// The study.
    pub plan: &'a Study,
    /// Words for its short names.
    pub words: &'a Words,
    records: BTreeMap<(&'a str, &'a str), Vec<&'a RunRecord>>,
}

impl<'a> Measured<'a> {
    /// Records of a folder; `None` without a plan.
    pub fn of(folder: &'a Folder) -> Option<Self> {
        let plan = folder.plan.as_ref()?;
        let mut records: BTreeMap<_, Vec<&RunRecord>> = BTreeMap::new();
        for run in &folder.runs {
            if let Some((_, cell)) = folder.planned(run).filter(|(_, cell)| cell.accepts(&run.record)) {
                records.entry((cell.name.as_str(), run.record.spec.engine.name.as_str())).or_default().push(&run.record);
            }
        }
        Some(Measured { plan, words: &folder.words, records })
    }

    fn cell(&self, names: &[String], engine: &str) -> Option<&Cell> {
        names.iter().find_map(|name| self.plan.cell(name, engine))
    }

    /// Good records of the cell of a value on an engine.
    fn runs(&self, ours: &Ours, engine: &str) -> &[&'a RunRecord] {
        let Some(cell) = self.cell(&ours.cells, engine) else { return &[] };
        let found = self.records.iter().find(|((name, on), _)| *name == cell.name && *on == engine);
        found.map_or(&[], |(_, runs)| runs.as_slice())
    }

    /// Whether the cell of a value was run on some engine, whatever its records hold.
    pub fn is_run(&self, ours: &Ours) -> bool {
        self.plan.engines.iter().any(|engine| !self.runs(ours, engine).is_empty())
    }

    /// Why the runs of a value on an engine ended before they were through; `None` if some run did not.
    pub fn ended(&self, ours: &Ours, engine: &str) -> Option<&'static str> {
        let runs = self.runs(ours, engine);
        let all = |is_ended: fn(&RunRecord) -> bool| !runs.is_empty() && runs.iter().all(|run| is_ended(run));
        if all(|run| run.out_of_room) {
            return Some("stopped, no space was left");
        }
        all(|run| run.killed.is_some()).then_some("killed, no memory was left")
    }

    /// The run with the median of a value on an engine, the lower one of two.
    pub fn median_run(&self, ours: &Ours, engine: &str) -> Option<&'a RunRecord> {
        let phases = self.cell(&ours.cells, engine)?.measures.get(&ours.measure)?;
        // A run that was killed has no value of all its phases and comes first.
        let mut runs: Vec<_> = self.runs(ours, engine).iter().map(|run| (ours.metric.of(run, phases).unwrap_or(0.0), *run)).collect();
        runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        runs.get(runs.len().saturating_sub(1) / 2).map(|(_, run)| *run)
    }

    /// Values of a metric, by the seed that a repeat shares among cells.
    fn sample(&self, names: &[String], measure: &str, metric: Metric, engine: &str) -> Option<BTreeMap<u64, f64>> {
        let cell = self.cell(names, engine)?;
        let phases = cell.measures.get(measure)?;
        let records = self.records.get(&(cell.name.as_str(), engine))?;
        Some(records.iter().filter_map(|record| Some((record.spec.seed, metric.of(record, phases)?))).collect())
    }

    /// The value on an engine; `None` if it was not run, or is for another engine.
    pub fn value(&self, ours: &Ours, engine: &str) -> Option<Value> {
        if ours.engine.as_deref().is_some_and(|one| one != engine) {
            return None;
        }
        let above = self.sample(&ours.cells, &ours.measure, ours.metric, engine)?;
        let over = if ours.over.is_empty() { &ours.cells } else { &ours.over };
        let below = self.sample(over, &ours.measure, ours.over_metric.unwrap_or(ours.metric), engine)?;
        let pairs: Vec<(f64, f64)> = above.iter().filter_map(|(seed, x)| Some((*x, *below.get(seed)?))).collect();
        let of = |values: Vec<f64>| summarise(&values, CONFIDENCE).map(|summary| (summary.mean, summary.interval));
        let (found, interval) = match (ours.over.is_empty(), ours.over_metric) {
            (true, None) => of(above.values().copied().collect()),
            (true, Some(_)) => of(pairs.iter().filter(|(_, y)| *y > 0.0).map(|(x, y)| x / y).collect()),
            (false, _) => {
                let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
                ratio(Fold::Product, &[&x], &[&y], true, CONFIDENCE).map(|ratio| (ratio.ratio, ratio.interval))
            }
        }?;
        let (_, per) = ours.unit();
        let interval = interval.filter(|_| pairs.len() >= LEAST_RUNS);
        let interval = interval.map(|Interval { low, high, .. }| (low.max(0.0) / per, high / per));
        let said = ours.over_metric.filter(|_| ours.over.is_empty()).and_then(|_| {
            let (unit, size) = ours.metric.unit();
            Some(format!("{} {unit}", short(mean(&above.values().copied().collect::<Vec<_>>())? / size)).trim_end().to_string())
        });
        Some(Value { mean: found / per, interval, said: said.unwrap_or_default() })
    }
}
