//! Applies the rules of a study to the records of its runs.

pub use super::finding::{CauseChange, Compared, Finding, State};

use super::Error;
use super::folder::Folder;
use super::metric::{Metric, by_cause};
use super::own::MEASURE;
use super::plan::{Bound, Comparison, Group, Hypothesis, Study, Term};
use crate::run::{Answer, Limits, RunRecord, Verdict};
use crate::statistics::{CONFIDENCE, Interval, Method, Ratio, Summary, cliffs_delta, mean, ratio, summarise};
use std::collections::{BTreeMap, BTreeSet};

/// The good records of a study by cell and engine.
pub struct Results(BTreeMap<(String, String), Vec<RunRecord>>);

impl Results {
    /// Reads the results of a folder. Failed runs are left out, and runs in which the limits of their cell did not hold.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn read(study: &Study, folder: &Folder) -> Result<Results, Error> {
        let mut results: BTreeMap<_, Vec<RunRecord>> = BTreeMap::new();
        for run in study.runs() {
            if let Some(record) = folder.record(study, &run)?.filter(|record| study.accepts(&run, record)) {
                let limited = study.cell(run.cell, run.engine).is_some_and(|cell| cell.limits != Limits::default());
                // Without its limits a run does not belong to its cell.
                if !limited || record.confinement.complaint.is_none() {
                    results.entry((run.cell.to_string(), run.engine.to_string())).or_default().push(record);
                }
            }
        }
        Ok(Results(results))
    }

    /// Values of a metric of a term, one for each repeat.
    pub fn sample(&self, study: &Study, engine: &str, term: &Term, metric: Metric) -> Vec<f64> {
        Side { study, results: self, engine }.sample(term, metric)
    }

    fn of(&self, cell: &str, engine: &str) -> &[RunRecord] {
        self.0.get(&(cell.to_string(), engine.to_string())).map_or(&[], Vec::as_slice)
    }
}

/// A study and its results, judged for one engine.
struct Side<'a> {
    study: &'a Study,
    results: &'a Results,
    engine: &'a str,
}

impl Side<'_> {
    fn records(&self, term: &Term) -> &[RunRecord] {
        self.results.of(&term.cell, self.engine_of(term))
    }

    fn engine_of<'a>(&'a self, term: &'a Term) -> &'a str {
        term.engine.as_deref().unwrap_or(self.engine)
    }

    fn phases(&self, term: &Term) -> &[String] {
        let cell = self.study.cell(&term.cell, self.engine_of(term));
        let phases = cell.and_then(|cell| cell.measures.get(&term.measure));
        phases.map_or(&[], Vec::as_slice)
    }

    fn sample(&self, term: &Term, metric: Metric) -> Vec<f64> {
        self.records(term).iter().filter_map(|record| metric.of(record, self.phases(term))).collect()
    }

    /// Values of a metric of all terms, from the repeats that all of them have: these are blocks with common keys, measured at about the
    /// same time. Repeats that only one side has may be from another day.
    fn blocks(&self, terms: &[&Term], metric: Metric) -> Vec<Vec<f64>> {
        let values = |term: &&Term| -> BTreeMap<u64, f64> {
            let of = |record: &RunRecord| Some((record.spec.seed, metric.of(record, self.phases(term))?));
            self.records(term).iter().filter_map(of).collect()
        };
        let all: Vec<BTreeMap<u64, f64>> = terms.iter().map(values).collect();
        let common = |seed: &u64| all.iter().all(|values| values.contains_key(seed));
        all.iter().map(|values| values.iter().filter(|(seed, _)| common(seed)).map(|(_, value)| *value).collect()).collect()
    }

    fn causes(&self, term: &Term) -> Vec<BTreeMap<String, f64>> {
        self.records(term).iter().filter_map(|record| by_cause(record, self.phases(term))).collect()
    }
}

/// Judges all hypotheses on all engines.
pub fn judge(study: &Study, results: &Results) -> Vec<Finding> {
    let sides = study.engines.iter().map(|engine| Side { study, results, engine });
    let judged = |side: Side<'_>| {
        let hypotheses = study.hypotheses.iter().filter(|hypothesis| hypothesis.is_for(side.engine));
        hypotheses.map(|hypothesis| judge_one(hypothesis, &side)).collect::<Vec<_>>()
    };
    sides.flat_map(judged).collect()
}

fn judge_one(hypothesis: &Hypothesis, side: &Side<'_>) -> Finding {
    let confidence = 1.0 - (1.0 - CONFIDENCE) / hypothesis.comparisons().max(1) as f64;
    let compare = |group: &Group| -> Vec<Compared> {
        group.any_of.iter().map(|comparison| compared(&group.name, comparison, hypothesis.metric, side, confidence)).collect()
    };
    let groups: Vec<Vec<Compared>> = hypothesis.groups.iter().map(compare).collect();
    let ignored = ignored_settings(hypothesis, side);
    let answer = if ignored.is_empty() { answer(&groups) } else { Answer::Undecided };
    let comparisons: Vec<Compared> = groups.into_iter().flatten().collect();
    let mut statistics: Vec<String> = comparisons.iter().map(Compared::sentence).collect();
    if !ignored.is_empty() {
        let list = ignored.into_iter().collect::<Vec<_>>().join(", ");
        statistics.insert(0, format!("{} has no counterpart for {list}, so this is not decided", side.engine));
    }
    statistics.extend(killed(hypothesis, side));
    statistics.extend(mixed(hypothesis, side));
    statistics.extend(methods(&comparisons));
    let verdict = Verdict {
        hypothesis: hypothesis.claim.clone(),
        engine: side.engine.to_string(),
        verdict: answer,
        rule: hypothesis.rule(),
        statistics: statistics.join("\n"),
    };
    Finding { verdict, original: hypothesis.original.clone(), comparisons }
}

/// Methods of the intervals, a sentence for each.
fn methods(comparisons: &[Compared]) -> Vec<String> {
    let intervals = || comparisons.iter().filter_map(|compared| compared.ratio?.interval);
    let found = |method: Method, how: &str| {
        let one = intervals().find(|interval| interval.method == method)?;
        Some(format!("Intervals at {:.2} %: {how}", 100.0 * one.confidence))
    };
    let student = "Welch's, on logarithms, which take a normal distribution: there are too few repeats to resample at this confidence";
    [found(Method::Student, student), found(Method::Bootstrap, "bootstrap percentiles, expanded, of whole repeats")]
        .into_iter()
        .flatten()
        .collect()
}

/// Records by which a hypothesis is judged.
fn judged_by<'a>(hypothesis: &'a Hypothesis, side: &'a Side<'_>) -> impl Iterator<Item = &'a RunRecord> {
    let comparisons = hypothesis.groups.iter().flat_map(|group| &group.any_of);
    comparisons.flat_map(|c| c.above.iter().chain(&c.below)).flat_map(move |term| side.records(term))
}

/// Servers that exceeded the memory of their cells in runs of a hypothesis, a sentence for each cell.
fn killed(hypothesis: &Hypothesis, side: &Side<'_>) -> Vec<String> {
    let terms = hypothesis.groups.iter().flat_map(|group| &group.any_of).flat_map(|c| c.above.iter().chain(&c.below));
    let cells: BTreeSet<(&str, &str)> = terms.map(|term| (term.cell.as_str(), side.engine_of(term))).collect();
    let told = |(cell, engine): (&str, &str)| {
        let records = side.results.of(cell, engine);
        let killed: Vec<String> = records.iter().filter_map(|record| Some(record.killed.as_ref()?.to_string())).collect();
        let runs = records.len();
        (!killed.is_empty()).then(|| format!("{engine}, {cell}: {} in {} of {runs} runs", killed[0], killed.len()))
    };
    cells.into_iter().filter_map(told).collect()
}

/// Settings needed by the hypothesis that some run ignored.
fn ignored_settings(hypothesis: &Hypothesis, side: &Side<'_>) -> BTreeSet<String> {
    let told: BTreeSet<&str> =
        judged_by(hypothesis, side).flat_map(|record| &record.ignored_settings).map(|line| told_name(line)).collect();
    hypothesis.needs.iter().filter(|name| told.contains(name.as_str())).cloned().collect()
}

/// Properties that the runs of a hypothesis should share and do not, a sentence for each.
fn mixed(hypothesis: &Hypothesis, side: &Side<'_>) -> Vec<String> {
    let all = |what: &str, of: &dyn Fn(&RunRecord) -> String| {
        let values: BTreeSet<(&str, String)> =
            judged_by(hypothesis, side).map(|record| (record.spec.engine.name.as_str(), of(record))).collect();
        let engines: BTreeSet<&str> = values.iter().map(|(engine, _)| *engine).collect();
        let several: BTreeSet<String> = values.iter().map(|(_, value)| value.clone()).collect();
        // Each engine may have a version of its own, but only one.
        (several.len() > 1 && values.len() > engines.len())
            .then(|| format!("The runs are of several {what}: {}", several.into_iter().collect::<Vec<_>>().join(", ")))
    };
    let unknown = || "unknown".to_string();
    let found = [
        all("versions of the engine", &|record| record.engine_version.clone()),
        all("commits", &|record| record.commit.clone().unwrap_or_else(unknown)),
        all("machines", &|record| record.machine.to_string()),
    ];
    found.into_iter().flatten().collect()
}

/// Name of the setting in `[section] name = value: why`; the reason may name others.
fn told_name(line: &str) -> &str {
    let name = line.split([':', '=']).next().unwrap_or_default();
    name.rsplit(']').next().unwrap_or_default().trim()
}

fn answer(groups: &[Vec<Compared>]) -> Answer {
    let any = |group: &Vec<Compared>| group.iter().any(|c| c.state == State::Holds);
    let none = |group: &Vec<Compared>| group.iter().all(|c| c.state == State::Refuted);
    if groups.iter().any(none) {
        Answer::Rejected
    } else if groups.iter().all(any) {
        Answer::Accepted
    } else {
        Answer::Undecided
    }
}

/// Width of an interval, in ratios, beyond which its ends are not printed.
const WIDEST: f64 = 1e3;

/// Fewest decimals, two to six, with which different values are printed differently.
fn digits<'a>(values: impl Iterator<Item = &'a f64> + Clone) -> usize {
    let differ = |digits: usize| {
        let mut printed: Vec<(String, f64)> = values.clone().map(|x| (format!("{x:.digits$}"), *x)).collect();
        printed.sort_by(|a, b| a.1.total_cmp(&b.1));
        printed.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1)
    };
    (2..6).find(|digits| differ(*digits)).unwrap_or(6)
}

/// Fewest repeats for which a figure gets an interval, so that it decides something: two repeats hardly tell how far repeats lie apart.
pub const LEAST_RUNS: usize = 3;

fn compared(group: &str, comparison: &Comparison, metric: Metric, side: &Side<'_>, confidence: f64) -> Compared {
    let mut above = side.blocks(&comparison.above.iter().chain(&comparison.below).collect::<Vec<_>>(), metric);
    let below = above.split_off(comparison.above.len());
    let runs = above.first().map_or(0, Vec::len);
    let ratio = match (above.as_slice(), below.as_slice()) {
        ([one], []) => summarise(one, confidence).map(|of| Ratio { ratio: of.mean, interval: of.interval }),
        _ => ratio(comparison.fold, &views(&above), &views(&below), true, confidence),
    };
    let ratio = ratio.map(|ratio| Ratio { interval: ratio.interval.filter(|_| runs >= LEAST_RUNS), ..ratio });
    let (delta, causes) = match (comparison.above.as_slice(), comparison.below.as_slice()) {
        ([x], [y]) => (cliffs_delta(&above[0], &below[0]), changes(&side.causes(x), &side.causes(y))),
        _ => (None, Vec::new()),
    };
    Compared {
        group: group.to_string(),
        name: comparison.name.clone(),
        bound: comparison.bound,
        ratio,
        runs,
        cliffs_delta: delta,
        state: state(ratio.and_then(|ratio| ratio.interval), comparison.bound),
        causes: if metric == Metric::WriteAmplification { causes } else { Vec::new() },
    }
}

fn views(samples: &[Vec<f64>]) -> Vec<&[f64]> {
    samples.iter().map(Vec::as_slice).collect()
}

fn state(interval: Option<Interval>, bound: Bound) -> State {
    let Some(Interval { low, high, .. }) = interval else { return State::Open };
    let (holds, refuted) = match bound {
        Bound::Below(x) => (high < x, low >= x),
        Bound::Above(x) => (low > x, high <= x),
        Bound::Apart(x) => (high < 1.0 / x || low > x, low >= 1.0 / x && high <= x),
    };
    match (holds, refuted) {
        (true, _) => State::Holds,
        (_, true) => State::Refuted,
        _ => State::Open,
    }
}

/// Means of each cause on both sides, largest change first.
fn changes(above: &[BTreeMap<String, f64>], below: &[BTreeMap<String, f64>]) -> Vec<CauseChange> {
    let names: BTreeSet<&String> = above.iter().chain(below).flat_map(BTreeMap::keys).collect();
    let average = |side: &[BTreeMap<String, f64>], cause: &str| {
        mean(&side.iter().map(|run| run.get(cause).copied().unwrap_or(0.0)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let change = |cause: &String| CauseChange { cause: cause.clone(), above: average(above, cause), below: average(below, cause) };
    let mut changes: Vec<CauseChange> = names.into_iter().map(change).collect();
    changes.sort_by(|x, y| (y.above - y.below).abs().total_cmp(&(x.above - x.below).abs()));
    changes
}

impl Compared {
    /// The ratio with its interval, with the digits that tell it from the bound, or the number of runs where they are too few.
    pub fn figure(&self, ratio: f64, interval: Option<Interval>) -> String {
        let bounds = self.bound.limits();
        let ends = interval.map(|interval| [interval.low, interval.high]);
        let digits = digits(ends.iter().flatten().chain(&bounds).chain([&ratio]));
        match interval {
            None => format!("{ratio:.digits$}, not decided, {} run{}", self.runs, if self.runs == 1 { "" } else { "s" }),
            // Ends so far apart say nothing but that repeats differ.
            Some(Interval { low, high, .. }) if high - low > WIDEST * ratio.abs().max(1.0) => {
                format!("{ratio:.digits$} (repeats differ too much)")
            }
            Some(Interval { low, high, .. }) => format!("{ratio:.digits$} ({low:.digits$} to {high:.digits$})"),
        }
    }

    /// Sentence for people: the ratio with its interval, and the causes of the change.
    fn sentence(&self) -> String {
        let Some(Ratio { ratio, interval }) = self.ratio else { return format!("{}: not run", self.name) };
        let mut text = format!("{}: {}", self.name, self.figure(ratio, interval));
        if let Some(delta) = self.cliffs_delta {
            text += &format!(", Cliff's delta {delta:.2}");
        }
        let state = match self.state {
            State::Holds => "holds",
            State::Refuted => "refuted",
            State::Open => "open",
        };
        text += &format!(", {}: {state}", self.bound);
        let parts = self.causes.iter().filter(|change| (change.above - change.below).abs() >= 0.005).take(3);
        let parts: Vec<String> = parts.map(|change| format!("{} {:+.2}", change.cause, change.above - change.below)).collect();
        if !parts.is_empty() {
            let all: f64 = self.causes.iter().map(|change| change.above - change.below).sum();
            text += &format!(" [of a change of {all:+.2}: {}]", parts.join(", "));
        }
        text
    }
}

/// One line of the table over all cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The engine.
    pub engine: String,
    /// Name of the measure.
    pub measure: String,
    /// Summaries by metric, in the order of [`Metric::TABLE`]; `None` where nothing is known.
    pub figures: Vec<Option<Summary>>,
    /// Whether no other row of the engine and measure is at least as good in write amplification, space, memory and speed at once.
    pub undominated: bool,
}

/// Table of all cells with results, least write amplification first. Rows of a user's workload are alternatives, so that each says whether
/// another one beats it in everything.
pub fn table(study: &Study, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for engine in &study.engines {
        let side = Side { study, results, engine };
        for cell in study.cells.iter().filter(|cell| cell.is_for(engine)) {
            for measure in cell.measures.keys() {
                let term = Term::new(&cell.name, measure);
                let figures = Metric::TABLE.map(|metric| summarise(&side.sample(&term, metric), CONFIDENCE));
                let row = Row {
                    cell: cell.name.clone(),
                    engine: engine.clone(),
                    measure: measure.clone(),
                    figures: figures.into(),
                    undominated: true,
                };
                rows.extend(row.figures.iter().any(Option::is_some).then_some(row));
            }
        }
    }
    let beaten: Vec<bool> = rows.iter().map(|row| row.measure == MEASURE && rows.iter().any(|other| other.beats(row))).collect();
    rows.iter_mut().zip(beaten).for_each(|(row, beaten)| row.undominated = !beaten);
    rows.sort_by(|a, b| a.cost(0).total_cmp(&b.cost(0)));
    rows
}

impl Row {
    /// Mean of a metric, with the sign for which less is better; unknown figures are worst.
    fn cost(&self, metric: usize) -> f64 {
        let mean = self.figures[metric].as_ref().map(|summary| summary.mean);
        match Metric::TABLE[metric] {
            Metric::OperationsPerSecond => mean.map_or(f64::INFINITY, |rate| -rate),
            _ => mean.unwrap_or(f64::INFINITY),
        }
    }

    fn beats(&self, other: &Row) -> bool {
        let costs = |row: &Row| [0, 1, 2, 3].map(|metric| row.cost(metric));
        let (mine, theirs) = (costs(self), costs(other));
        self.engine == other.engine && self.measure == other.measure && mine != theirs && mine.iter().zip(&theirs).all(|(a, b)| a <= b)
    }
}
