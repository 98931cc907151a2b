//! What a study is: cells, the order in which they run, and what is asked of the results.

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

/// A study, complete: it is written into the result folder before the first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// [`STUDY_VERSION`].
    pub version: u32,
    /// Its name on the command line.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What is asked, and what has to be known to read the answers; a paragraph each.
    pub questions: Vec<String>,
    /// How large; `None` for a user's own workload, which has its size.
    pub scale: Option<Scale>,
    /// The order of runs and the streams of all workloads follow from it.
    pub seed: u64,
    /// How often each cell runs on each engine.
    pub repeats: u32,
    /// `sinter`, `rocksdb`, `fjall`; of servers `sinter`, `redis`.
    pub engines: Vec<String>,
    /// Where the data of the runs lie meanwhile.
    pub medium: Medium,
    /// What each run may use.
    pub limits: Limits,
    /// What is run.
    pub cells: Vec<Cell>,
    /// What is asked of the results.
    pub hypotheses: Vec<Hypothesis>,
    /// Figures that the report draws beside write and space amplification and memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Metric>,
    /// Those of them that it draws over two factors too, where cells are a whole grid of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<Metric>,
    /// What [`Study::only`] was asked for; none: the study is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<String>,
    /// What belongs to the study and is not run here, and why; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// How large a study is.
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
    /// All, smallest first.
    pub const ALL: [Scale; 3] = [Scale::Ci, Scale::Small, Scale::Paper];

    /// Its name on the command line.
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
    /// Its name, unique among the cells of an engine: where engines have to be told the same in different words, each has a cell of its own
    /// of that name.
    pub name: String,
    /// Its values of what the study varies, such as `style`: `leveled`.
    pub factors: BTreeMap<String, String>,
    /// The settings; the engine's name is filled in for each run.
    pub settings: EngineSpec,
    /// What is done.
    pub workload: Workload,
    /// What is read from a run: name, and the phases that count together, a load with the debts it left to compactions.
    pub measures: BTreeMap<String, Vec<String>>,
    /// What its runs may use, where the study varies it: these go before those of the study.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// The engines that it runs on, of those of the study; all if there are none here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// That a run finds no room any more is a result: the phases before that count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fill: bool,
    /// Repeats beyond those of the study, where a claim is about less than what one run differs from the next by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Cell {
    /// Whether a run of it says what it was asked.
    pub fn accepts(&self, record: &RunRecord) -> bool {
        record.failure.is_none() || self.may_fill && record.out_of_room
    }

    /// Whether it runs on an engine of the study.
    pub fn is_for(&self, engine: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|name| name == engine)
    }
}

/// One run that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRun<'a> {
    /// Its place in the order, by which the [archive](super::archive) and the loose file `runs/NNNN.json` know it.
    pub number: usize,
    /// Its cell.
    pub cell: &'a str,
    /// Its engine.
    pub engine: &'a str,
    /// The how-manieth of its kind, from 0.
    pub repeat: u32,
}

/// A claim about the results, judged for each engine by itself or for one alone. It is accepted if every group holds, rejected if one is
/// refuted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// The claim, a sentence.
    pub claim: String,
    /// What the original study found, if there is one.
    pub original: Option<String>,
    /// The figure that is compared.
    pub metric: Metric,
    /// Settings that the claim is about: on an engine that has no counterpart for one of them it stays undecided.
    pub needs: Vec<String>,
    /// What has to hold.
    pub groups: Vec<Group>,
    /// The engine that it is about, where it is about one: settings that only one has, one engine against another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// Holds if one of its comparisons does; is refuted if all of them are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The ways in which it can hold.
    pub any_of: Vec<Comparison>,
}

/// A ratio against a bound: the means of `above`, multiplied or added, over those of `below`. Two terms on each side compare two ratios or
/// two differences. One term above and none below is the mean itself, for counts that may be 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Its name.
    pub name: String,
    /// Above the line.
    pub above: Vec<Term>,
    /// Below the line; none where the mean of the one above is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Term>,
    /// How several terms of a side become one figure.
    #[serde(default)]
    pub fold: Fold,
    /// Where the ratio should lie.
    pub bound: Bound,
}

/// Where a ratio should lie. The comparison holds if the whole interval lies there, and is refuted if none of it does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Below this.
    Below(f64),
    /// Above this.
    Above(f64),
    /// Outside of 1/x to x.
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
    /// The engine whose runs are meant; the one that is judged if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

impl Term {
    /// A measure of a cell.
    pub fn new(cell: impl Into<String>, measure: impl Into<String>) -> Self {
        Term { cell: cell.into(), measure: measure.into(), engine: None }
    }

    /// The same of a named engine.
    pub fn on(self, engine: impl Into<String>) -> Self {
        Term { engine: Some(engine.into()), ..self }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Below(x) => write!(f, "below {x:.2}"),
            Bound::Above(x) => write!(f, "above {x:.2}"),
            Bound::Apart(x) => write!(f, "outside {:.3} to {x:.3}", 1.0 / x),
        }
    }
}

impl Study {
    /// All runs in their order. Repeats are blocks, each with all cells on all engines in a random order of its own: whatever drifts on the
    /// machine hits all alike, and what is finished when somebody ends the study early is nearly balanced. What some cells have
    /// repeats more of comes behind, in blocks of its own.
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

    /// Whether engines are all that differs and no claim is made: what comes out is a table of engines.
    pub fn compares_engines(&self) -> bool {
        let is_alike = |a: &Cell, b: &Cell| a.settings == b.settings && a.limits == b.limits && a.factors == b.factors;
        self.hypotheses.is_empty() && self.cells.windows(2).all(|pair| is_alike(&pair[0], &pair[1]))
    }

    /// What a name stands for on an engine.
    pub fn cell(&self, name: &str, engine: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.name == name && cell.is_for(engine))
    }

    /// Whether the record of a run says what was asked.
    pub fn accepts(&self, run: &PlannedRun<'_>, record: &RunRecord) -> bool {
        self.cell(run.cell, run.engine).map_or(record.failure.is_none(), |cell| cell.accepts(record))
    }

    /// What the child process is asked to do; `None` for a run of another study. Repeats have seeds of their own, cells and engines have
    /// not: all see the same keys.
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
    /// A claim that no study made before.
    pub fn new(claim: &str, metric: Metric, groups: Vec<Group>) -> Self {
        Hypothesis { claim: claim.to_string(), original: None, metric, needs: Vec::new(), groups, engine: None }
    }

    /// Whether it is asked of an engine.
    pub fn is_for(&self, engine: &str) -> bool {
        self.engine.as_deref().is_none_or(|one| one == engine)
    }

    /// How many comparisons share its confidence.
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

/// One thing to another.
pub(super) fn comparison(name: impl Into<String>, above: Term, below: Term, bound: Bound) -> Comparison {
    Comparison { name: name.into(), above: vec![above], below: vec![below], fold: Fold::Product, bound }
}

/// The mean of one thing.
pub(super) fn absolute(name: impl Into<String>, of: Term, bound: Bound) -> Comparison {
    Comparison { name: name.into(), above: vec![of], below: Vec::new(), fold: Fold::Product, bound }
}

/// A group for each of many cases with one comparison in it.
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

/// Everything that a study leaves to the one who asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Engines, in the order of tables.
    pub engines: Vec<String>,
    /// Repeats; the study's own number if `None`.
    pub repeats: Option<u32>,
    /// The seed.
    pub seed: u64,
    /// Where data lie meanwhile.
    pub directory: PathBuf,
    /// What each run may use.
    pub limits: Limits,
    /// What runs can be confined to here, for studies that vary it.
    pub permits: Permits,
    /// Where servers are and what they may take, for studies of them.
    pub servers: Servers,
}

/// What runs can be confined to on a machine. A study leaves out what is more, and says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Processors that a run can have.
    pub cpus: usize,
    /// Bytes of memory that a run can have, or why none can be given a limit; one line.
    pub memory: Result<u64, String>,
    /// Runs can be given a quota of processor time, or why they cannot; one line.
    pub quota: Result<(), String>,
}

impl Permits {
    /// A machine without bounds.
    pub fn all() -> Self {
        Permits { cpus: usize::MAX, memory: Ok(u64::MAX), quota: Ok(()) }
    }
}

impl Request {
    /// A study that was asked for like this, with nothing asked or run yet. `repeats` is the study's own number.
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
