//! The plan of a study: cells, the order in which they run, and hypotheses about the results.

use super::metric::Metric;
use super::servers::Servers;
use crate::run::{EngineSpec, Limits, Medium, RunRecord, RunSpec, SPEC_VERSION, Workload};
use crate::statistics::Fold;
use crate::workload::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of [`Study`]; grows when a field changes its meaning or goes away.
pub const STUDY_VERSION: u32 = 1;

/// Complete description of a study, written into the result folder before the first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// [`STUDY_VERSION`].
    pub version: u32,
    /// Name of the study on the command line.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Questions of the study and explanations needed to read the answers; a paragraph each.
    pub questions: Vec<String>,
    /// Scale of the study; `None` for a user's own workload, whose size is its own.
    pub scale: Option<Scale>,
    /// Seed of the order of runs and of the streams of all workloads.
    pub seed: u64,
    /// How often each cell runs on each engine.
    pub repeats: u32,
    /// `sinter`, `rocksdb`, `fjall`; of servers `sinter`, `redis`.
    pub engines: Vec<String>,
    /// Medium for the data of the runs.
    pub medium: Medium,
    /// Limits of each run.
    pub limits: Limits,
    /// Cells that are run.
    pub cells: Vec<Cell>,
    /// Hypotheses to be judged by the results.
    pub hypotheses: Vec<Hypothesis>,
    /// Figures that the report draws beside write and space amplification and memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Metric>,
    /// Figures of `drawn` that the report also draws over two factors, where the cells are a whole grid of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<Metric>,
    /// Choices given to [`Study::only`]; empty for the whole study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<String>,
    /// Parts of the study that are not run here, and why; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Size of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Under a minute: shows that everything works.
    Ci,
    /// Minutes.
    Small,
    /// The original's sizes: hours to days.
    Paper,
}

impl Scale {
    /// All scales, smallest first.
    pub const ALL: [Scale; 3] = [Scale::Ci, Scale::Small, Scale::Paper];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Ci => "ci",
            Scale::Small => "small",
            Scale::Paper => "paper",
        }
    }
}

/// One combination of settings and workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Name, unique among the cells of an engine: where engines need different words for equal settings, each has a cell of its own of this
    /// name.
    pub name: String,
    /// Factors of the study with their values in this cell, such as `style`: `leveled`.
    pub factors: BTreeMap<String, String>,
    /// The settings; the engine's name is filled in for each run.
    pub settings: EngineSpec,
    /// Workload of the cell.
    pub workload: Workload,
    /// Measures: name, and the phases that count together, such as a load and the compactions that it left.
    pub measures: BTreeMap<String, Vec<String>>,
    /// Limits of the cell's runs, where the study varies them; they take precedence over those of the study.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Engines of the study on which the cell runs; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// Whether a run that fills the medium is a result: its phases before that count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fill: bool,
    /// Repeats beyond those of the study, for claims about differences smaller than those between single runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// End of the name of a phase that finishes the compactions left by another.
pub(super) const DEBTS: &str = " debts";

impl Cell {
    /// A cell of all engines, without limits of its own and without measures.
    pub(crate) fn new(name: impl Into<String>, factors: &[(&str, &str)], settings: EngineSpec, workload: Workload) -> Self {
        Cell {
            name: name.into(),
            factors: factors.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            settings,
            workload,
            measures: BTreeMap::new(),
            limits: Limits::default(),
            engines: Vec::new(),
            may_fill: false,
            more: 0,
        }
    }

    /// Adds a measure of the phases for whose names `counts` is true.
    #[must_use]
    pub(crate) fn measuring(mut self, name: &str, counts: impl Fn(&str) -> bool) -> Self {
        let phases = self.workload.phases.iter().map(|phase| &phase.name).filter(|phase| counts(phase)).cloned().collect();
        self.measures.insert(name.to_string(), phases);
        self
    }

    /// Adds a measure for each named phase, which counts together with the phase that finishes its compactions, if there is one.
    #[must_use]
    pub(super) fn measuring_each<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let of = |name: &str, phase: &str| phase.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest == DEBTS);
        names.into_iter().fold(self, |cell, name| cell.measuring(name, |phase| of(name, phase)))
    }

    /// Returns whether the record of a run is a result of the cell. A server that exceeded the cell's limit of memory is one: its phases
    /// before that count.
    pub fn accepts(&self, record: &RunRecord) -> bool {
        let killed = self.limits.memory_bytes.is_some() && record.killed.is_some();
        record.failure.is_none() || self.may_fill && record.out_of_room || killed
    }

    /// Whether the cell runs on an engine of the study.
    pub fn is_for(&self, engine: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|name| name == engine)
    }
}

/// One run of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRun<'a> {
    /// Number in the order of runs, used by the [archive](super::archive) and the loose file `runs/NNNN.json`.
    pub number: usize,
    /// Name of the cell.
    pub cell: &'a str,
    /// Name of the engine.
    pub engine: &'a str,
    /// Number of the repeat, from 0.
    pub repeat: u32,
}

/// A claim about the results, judged for each engine by itself or for one only. It is accepted if every group holds, and rejected if one is
/// refuted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// The claim, a sentence.
    pub claim: String,
    /// Result of the original study, if there is one.
    pub original: Option<String>,
    /// The metric of all comparisons.
    pub metric: Metric,
    /// Settings that the claim is about; on an engine without a counterpart of one of them the verdict is undecided.
    pub needs: Vec<String>,
    /// Groups of comparisons that must all hold.
    pub groups: Vec<Group>,
    /// Engine of a claim about one engine only: settings that only it has, or one engine against another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// Alternative comparisons: the group holds if one of them does, and is refuted if all are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Alternative comparisons.
    pub any_of: Vec<Comparison>,
}

/// A ratio against a bound: the means of `above`, multiplied or added, over those of `below`. Two terms on each side compare two ratios or
/// two differences. One term above and none below is the mean itself, for counts that may be 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Name of the comparison.
    pub name: String,
    /// Terms above the line of the ratio.
    pub above: Vec<Term>,
    /// Below the line; empty where the mean of the term above is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Term>,
    /// Way in which several terms of a side become one figure.
    #[serde(default)]
    pub fold: Fold,
    /// Bound of the ratio.
    pub bound: Bound,
}

/// Bound of a ratio. The comparison holds if the whole interval keeps it, and is refuted if no part of the interval does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The ratio is below this.
    Below(f64),
    /// The ratio is above this.
    Above(f64),
    /// The ratio is outside of 1/x to x.
    Apart(f64),
}

/// The mean of a measure over the repeats of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The cell.
    pub cell: String,
    /// The measure.
    pub measure: String,
    /// Engine of the runs; the judged one if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

impl Term {
    /// The mean of a measure of a cell, on the judged engine.
    pub fn new(cell: impl Into<String>, measure: impl Into<String>) -> Self {
        Term { cell: cell.into(), measure: measure.into(), engine: None }
    }

    /// The term on a named engine.
    pub fn on(self, engine: impl Into<String>) -> Self {
        Term { engine: Some(engine.into()), ..self }
    }
}

impl Bound {
    /// The values at which the bound lies; one of them twice where there is only one.
    pub fn limits(&self) -> [f64; 2] {
        match self {
            Bound::Below(x) | Bound::Above(x) => [*x, *x],
            Bound::Apart(x) => [1.0 / x, *x],
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Below(x) => write!(f, "below {x}"),
            Bound::Above(x) => write!(f, "above {x}"),
            Bound::Apart(x) => write!(f, "outside {:.3} to {x:.3}", 1.0 / x),
        }
    }
}

impl Study {
    /// All runs in their order. Repeats are blocks, each with all cells on all engines in a random order of its own: drift of the machine
    /// hits all alike, and an interrupted study is nearly balanced. Additional repeats of some cells follow in blocks of their own.
    pub fn runs(&self) -> Vec<PlannedRun<'_>> {
        let mut runs = Vec::new();
        let repeats = |cell: &Cell| self.repeats.saturating_add(cell.more);
        for repeat in 0..self.cells.iter().map(repeats).max().unwrap_or(0) {
            let mut random = Xoshiro256PlusPlus::stream(self.seed, u64::from(repeat));
            let engines = |cell: &Cell| self.engines.iter().filter(|engine| cell.is_for(engine)).collect::<Vec<_>>();
            let cells = self.cells.iter().filter(|cell| repeat < repeats(cell));
            let pairs = cells.flat_map(|cell| engines(cell).into_iter().map(move |engine| (cell.name.as_str(), engine.as_str())));
            let mut block: Vec<(&str, &str)> = pairs.collect();
            // Fisher, Yates; Durstenfeld 1964.
            for last in (1..block.len()).rev() {
                block.swap(last, random.below(last as u64 + 1) as usize);
            }
            runs.extend(block.into_iter().map(|(cell, engine)| (cell, engine, repeat)));
        }
        let numbered = runs.into_iter().enumerate();
        numbered.map(|(number, (cell, engine, repeat))| PlannedRun { number, cell, engine, repeat }).collect()
    }

    /// Whether the study compares engines: all cells have equal settings, limits and factors, and no claim is made, so that the result is a
    /// table of engines by workload.
    pub fn compares_engines(&self) -> bool {
        let is_alike = |a: &Cell, b: &Cell| a.settings == b.settings && a.limits == b.limits && a.factors == b.factors;
        self.hypotheses.is_empty() && self.cells.windows(2).all(|pair| is_alike(&pair[0], &pair[1]))
    }

    /// The cell of a name on an engine.
    pub fn cell(&self, name: &str, engine: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name && cell.is_for(engine))
    }

    /// Whether the record of a run is a result of the study.
    pub fn accepts(&self, run: &PlannedRun<'_>, record: &RunRecord) -> bool {
        self.cell(run.cell, run.engine).map_or(record.failure.is_none(), |cell| cell.accepts(record))
    }

    /// Spec for the child process; `None` for a run of another study. Each repeat has a seed of its own, shared by cells and engines: all
    /// see the same keys.
    pub fn spec(&self, run: &PlannedRun<'_>) -> Option<RunSpec> {
        let cell = self.cell(run.cell, run.engine)?;
        let engine = EngineSpec { name: run.engine.to_string(), ..cell.settings.clone() };
        Some(RunSpec {
            version: SPEC_VERSION,
            engine,
            medium: self.medium.clone(),
            workload: cell.workload.clone(),
            seed: self.seed.wrapping_add(u64::from(run.repeat)),
            limits: Limits {
                cpus: cell.limits.cpus.or(self.limits.cpus),
                memory_bytes: cell.limits.memory_bytes.or(self.limits.memory_bytes),
                cpu_percent: cell.limits.cpu_percent.or(self.limits.cpu_percent),
            },
        })
    }
}

impl Hypothesis {
    /// A claim about all engines without a result of an original study.
    pub fn new(claim: &str, metric: Metric, groups: Vec<Group>) -> Self {
        Hypothesis { claim: claim.to_string(), original: None, metric, needs: Vec::new(), groups, engine: None }
    }

    /// Whether the hypothesis is judged for an engine.
    pub fn is_for(&self, engine: &str) -> bool {
        self.engine.as_deref().is_none_or(|one| one == engine)
    }

    /// Number of comparisons that share the confidence of the hypothesis.
    pub fn comparisons(&self) -> usize {
        self.groups.iter().map(|group| group.any_of.len()).sum()
    }

    /// The rule, in words.
    pub fn rule(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(Group::rule).collect();
        let single = |comparison: &Comparison| comparison.below.is_empty();
        let means = self.groups.iter().flat_map(|group| &group.any_of).all(single);
        format!(
            "{} {}, with intervals that hold together at 95 % (Bonferroni over {} comparisons). One holds if its whole \
             interval lies where it should, and is refuted if none of it does. Accepted if these hold, of alternatives at least one: {}. \
             Rejected if one is refuted, of alternatives all. Undecided otherwise.",
            if means { "Means of" } else { "Ratios of mean" },
            self.metric.name(),
            self.comparisons(),
            groups.join("; ")
        )
    }
}

/// Compares one term with another.
pub(super) fn comparison(name: impl Into<String>, above: Term, below: Term, bound: Bound) -> Comparison {
    Comparison { name: name.into(), above: vec![above], below: vec![below], fold: Fold::Product, bound }
}

/// Compares the mean of one term with a bound.
pub(super) fn absolute(name: impl Into<String>, of: Term, bound: Bound) -> Comparison {
    Comparison { name: name.into(), above: vec![of], below: Vec::new(), fold: Fold::Product, bound }
}

/// Makes a group of each comparison: all of them must hold.
pub(super) fn each(comparisons: impl Iterator<Item = Comparison>) -> Vec<Group> {
    comparisons.map(|comparison| Group { name: comparison.name.clone(), any_of: vec![comparison] }).collect()
}

impl Group {
    fn rule(&self) -> String {
        let each = |comparison: &Comparison| format!("{} {}", comparison.name, comparison.bound);
        match self.any_of.as_slice() {
            [one] if one.name == self.name => each(one),
            [one] => format!("{}: {}", self.name, each(one)),
            several => format!("{}: one of ({})", self.name, several.iter().map(each).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Parameters of a study that the user chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Engines, in the order of tables.
    pub engines: Vec<String>,
    /// Repeats; the study's own number if `None`.
    pub repeats: Option<u32>,
    /// The seed.
    pub seed: u64,
    /// Directory for the data of the runs.
    pub directory: PathBuf,
    /// Limits of each run.
    pub limits: Limits,
    /// Limits that this machine permits, for studies that vary them.
    pub permits: Permits,
    /// Programs of servers and their resources, for studies of servers.
    pub servers: Servers,
}

/// Limits that a machine permits. A study leaves out runs that exceed them, and says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Number of processors that a run can have.
    pub cpus: usize,
    /// Largest memory limit of a run, bytes, or the reason why limits are not permitted; one line.
    pub memory: Result<u64, String>,
    /// Whether runs can have a quota of processor time; the reason if not, one line.
    pub quota: Result<(), String>,
}

impl Permits {
    /// A machine without bounds.
    pub fn all() -> Self {
        Permits { cpus: usize::MAX, memory: Ok(u64::MAX), quota: Ok(()) }
    }
}

impl Request {
    /// An empty study with the parameters of the request. `repeats`: the study's own number.
    pub(super) fn study(&self, name: &str, title: &str, scale: Option<Scale>, repeats: u32) -> Study {
        Study {
            version: STUDY_VERSION,
            name: name.to_string(),
            title: title.to_string(),
            questions: Vec::new(),
            scale,
            seed: self.seed,
            repeats: self.repeats.unwrap_or(repeats),
            engines: self.engines.clone(),
            medium: Medium { directory: self.directory.clone() },
            limits: self.limits,
            cells: Vec::new(),
            hypotheses: Vec::new(),
            drawn: Vec::new(),
            swept: Vec::new(),
            chosen: Vec::new(),
            left_out: Vec::new(),
        }
    }
}
