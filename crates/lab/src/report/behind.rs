//! Where SinterDB is behind: the figures in which it is worse than a rival that ran the same request, or worse with a setting that a claim
//! favours than with the one compared with it, and the claims of ours that are rejected. Rivals are compared by speed, latency, bytes and
//! memory, settings by what the claims of their study measure. Made from the records of a folder, so that no list is kept by hand; tables
//! of engines, documents and pages have their lists from here.

use super::load::Folder;
use super::measures::{COMPARED, Measure, OfPart, Part, titled};
use super::servers;
use super::text::{engine, escape, number};
use super::words::Words;
use crate::run::{Answer, PhaseKind, RunRecord, SERVERS};
use crate::statistics::{CONFIDENCE, Fold, Interval, median, ratio};
use crate::study::judge::State;
use crate::study::metric::Metric;
use crate::study::plan::{Bound, Cell, Comparison, Hypothesis, Study, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The engine that is compared with all others.
const OURS: &str = SERVERS[0];
/// Factor below which a difference is not listed.
const LEAST: f64 = 1.02;
/// Fewest repeats for which the interval of a factor is told.
const LEAST_REPEATS: usize = 3;
/// Number of differences of one figure from which on one line stands for all.
const MANY: usize = 3;

/// Figures of servers, beyond [`COMPARED`]; each with whether more is better.
const OF_SERVERS: &[(Measure<OfPart>, bool)] = &[
    (Measure { name: "longest PING, ms", column: "", meaning: "of a second client", of: |part| people(Metric::LongestPing, part) }, false),
    (Measure { name: "peak disk, MiB", column: "", meaning: "largest size on disk", of: |part| people(Metric::PeakDisk, part) }, false),
];

/// A metric in its unit for people.
fn people(metric: Metric, part: &Part<'_>) -> Option<f64> {
    Some(metric.of(part.run, part.phases)? / metric.unit().1)
}

/// A figure by which two sides are compared.
#[derive(Clone, Copy)]
enum Figure {
    /// A column of tables, and whether more is better.
    Column(&'static (Measure<OfPart>, bool)),
    /// A metric, and whether more is better. A count of 0 is a result.
    Of(Metric, bool),
}

impl Figure {
    /// Name with the unit.
    fn name(self) -> String {
        match self {
            Figure::Column((measure, _)) => measure.name.to_string(),
            Figure::Of(metric, _) => titled(metric),
        }
    }

    fn more_is_better(self) -> bool {
        match self {
            Figure::Column((_, more)) => *more,
            Figure::Of(_, more) => more,
        }
    }

    fn of(self, part: &Part<'_>) -> Option<f64> {
        match self {
            Figure::Column((measure, _)) => (measure.of)(part),
            Figure::Of(metric, _) => people(metric, part),
        }
    }

    /// How many times `ours` is worse; infinite where only `theirs` is 0 and less is better.
    fn factor(self, ours: f64, theirs: f64) -> Option<f64> {
        let (worse, better) = if self.more_is_better() { (theirs, ours) } else { (ours, theirs) };
        let factor = if worse == better { 1.0 } else { worse / better };
        match self {
            Figure::Column(_) => (ours > 0.0 && theirs > 0.0 && factor.is_finite()).then_some(factor),
            Figure::Of(..) => (!factor.is_nan()).then_some(factor),
        }
    }
}

/// Figures by which rivals are compared.
fn of_rivals() -> Vec<Figure> {
    COMPARED.iter().chain(OF_SERVERS).map(Figure::Column).collect()
}

/// Figures by which settings of a study are compared: the metrics of its claims, and of servers the columns of their table.
fn of_settings(plan: &Study) -> Vec<Figure> {
    let claims = plan.hypotheses.iter().filter(|claim| claim.is_for(OURS)).map(|claim| claim.metric);
    let has_servers = plan.cells.iter().any(|cell| cell.settings.server.is_some());
    let columns = servers::COLUMNS.into_iter().filter(|_| has_servers);
    let mut metrics: Vec<Metric> = Vec::new();
    for metric in claims.chain(columns) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics.into_iter().filter_map(|metric| Some(Figure::Of(metric, metric.more_is_better()?))).collect()
}

/// A figure of SinterDB beside another one: medians of the repeats that both have.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Cell and measure.
    pub place: String,
    /// Name of the figure, with its unit.
    pub measure: String,
    /// Whether more of it is better.
    more: bool,
    /// A rival's name, or the cell without the setting.
    pub other: String,
    ours: f64,
    theirs: f64,
    /// Number of times that the figure of SinterDB is worse; below 1 if it is better, infinite if the other one is a count of 0.
    pub factor: f64,
    repeats: usize,
    /// Interval of the ratio of means, for [`LEAST_REPEATS`] or more.
    interval: Option<Interval>,
}

impl Difference {
    /// Whether SinterDB is worse by so much that it is listed.
    pub fn is_behind(&self) -> bool {
        self.factor > LEAST
    }

    /// Factor with its interval, or the number of runs, and both medians; an infinite factor is left out.
    fn figures(&self) -> String {
        let Difference { ours, theirs, factor, repeats, .. } = self;
        let certain = match (self.interval, repeats) {
            (Some(Interval { low, high, .. }), _) => format!("{} to {}", number(low), number(high)),
            (None, 1) => "one run".to_string(),
            (None, runs) => format!("{runs} runs"),
        };
        let factor = if factor.is_finite() { format!("{} ", number(*factor)) } else { String::new() };
        format!("{factor}({certain}), {} against {}", number(*ours), number(*theirs))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { place, measure, other, .. } = self;
        let worse = if self.more { "less than" } else { "more than" };
        let by = if self.factor.is_finite() { " by a factor of" } else { "" };
        write!(f, "{place}, {measure}: {worse} {}{by} {}", engine(other), self.figures())
    }
}

/// All differences of one figure from one rival, or between settings.
struct Group {
    measure: String,
    /// The rival, or [`SETTINGS`].
    other: String,
    /// Number of places in which both sides have the figure.
    compared: usize,
    /// Places in which SinterDB is worse by more than [`LEAST`], the worst first.
    found: Vec<Difference>,
}

/// Stands for all cells without a setting in lines of several.
const SETTINGS: &str = "with the other setting";

impl Group {
    fn worst(&self) -> f64 {
        self.found.first().map_or(0.0, |difference| difference.factor)
    }

    /// One line for many differences.
    fn in_short(&self) -> String {
        let is_less = self.found.first().is_some_and(|difference| difference.more);
        let worse = if is_less { "less than" } else { "more than" };
        let factors = || self.found.iter().map(|difference| difference.factor).filter(|factor| factor.is_finite());
        let by = factors().reduce(f64::min).zip(factors().reduce(f64::max));
        let by = by.map_or(String::new(), |(least, most)| format!(", by factors of {} to {}", number(least), number(most)));
        let none = match self.found.len() - factors().count() {
            0 => String::new(),
            count if is_less => format!(", 0 in {count} of them"),
            count => format!(", against 0 in {count} of them"),
        };
        let Group { measure, other, compared, found } = self;
        format!("{measure}: {worse} {} in {} of {compared} cells{none}{by}", engine(other), found.len())
    }
}

/// The differences of a figure from each rival in each place, whatever their sign, in the order of the plan: by place, figure, and rival.
pub fn differences(folder: &Folder) -> Vec<Difference> {
    let Some(runs) = Runs::of(folder) else { return Vec::new() };
    let pairs = runs.rivals();
    let figures = of_rivals();
    pairs.iter().flat_map(|pair| figures.iter().filter_map(|figure| runs.compare(pair, *figure))).collect()
}

/// Section of a page that lists where SinterDB is behind; empty for a folder in which nothing can be compared.
pub fn behind(folder: &Folder) -> String {
    let Some(runs) = Runs::of(folder) else { return String::new() };
    let compared = [(runs.rivals(), of_rivals()), (runs.settings(), of_settings(runs.plan))];
    let is_compared = |(pairs, figures): &(Vec<Pair<'_>>, Vec<Figure>)| {
        pairs.iter().any(|pair| figures.iter().any(|figure| runs.compare(pair, *figure).is_some()))
    };
    if !compared.iter().any(is_compared) {
        return String::new();
    }
    let ([rivals, settings], rejected) = (compared.map(|(pairs, figures)| runs.groups(&pairs, &figures)), rejected(folder));
    let lists = [
        ("Worse than a rival that ran the same workload", lines(&rivals)),
        ("Worse with a setting that a claim favours than with the one it is compared with", lines(&settings)),
        ("Claims of ours that are rejected", rejected.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect()),
    ];
    let lists = lists.iter().filter(|(_, lines)| !lines.is_empty());
    let lists: String = lists.map(|(title, lines)| format!("<h3>{title}</h3>\n<ul>\n{lines}</ul>\n")).collect();
    let lists = if lists.is_empty() { "<p>In nothing that was compared.</p>\n".to_string() } else { lists };
    format!(
        "<section id=\"behind\"><h2>Where we are behind</h2>\n<p>Every figure in which the median of SinterDB is worse by more than 2 %, \
         as a factor, the worst first; with the 95 % interval of the ratio of means from {LEAST_REPEATS} repeats on. Settings are \
         compared by what the study's claims are about.</p>\n{lists}</section>\n"
    )
}

/// Items of a list: a line for each difference, or one that opens for many of one figure.
fn lines(groups: &[Group]) -> String {
    let item = |group: &Group, difference: &Difference| {
        let other = if group.other == SETTINGS { format!(" against {}", difference.other) } else { String::new() };
        format!("<li>{}</li>\n", escape(&format!("{}{other}: {}", difference.place, difference.figures())))
    };
    let line = |group: &Group| -> String {
        if group.found.len() < MANY {
            return group.found.iter().map(|difference| format!("<li>{}</li>\n", escape(&difference.to_string()))).collect();
        }
        let items: String = group.found.iter().map(|difference| item(group, difference)).collect();
        format!("<li><details><summary>{}</summary>\n<ul>\n{items}</ul></details></li>\n", escape(&group.in_short()))
    };
    groups.iter().map(line).collect()
}

/// Rejected claims about SinterDB that no original made, each with what refutes it.
fn rejected(folder: &Folder) -> Vec<String> {
    let ours = folder.findings.iter().filter(|finding| finding.verdict.engine == OURS && finding.original.is_none());
    let rejected = ours.filter(|finding| finding.verdict.verdict == Answer::Rejected);
    let line = |finding: &crate::study::judge::Finding| {
        let refuted = finding.comparisons.iter().filter(|compared| compared.state == State::Refuted);
        let refuted = refuted.filter_map(|compared| {
            let ratio = compared.ratio?;
            let interval = ratio.interval.map_or(String::new(), |i| format!(" ({} to {})", number(i.low), number(i.high)));
            Some(format!("{} {}{interval}, not {}", folder.words.say(&compared.name), number(ratio.ratio), compared.bound))
        });
        format!("{}: {}", finding.verdict.hypothesis, refuted.collect::<Vec<_>>().join("; "))
    };
    rejected.map(line).collect()
}

/// The good runs of a folder, by cell and engine of the plan.
struct Runs<'a> {
    plan: &'a Study,
    words: &'a Words,
    by_cell: BTreeMap<(&'a str, &'a str), Vec<&'a RunRecord>>,
}

/// One side of a comparison: a cell and its phases that count together.
struct Side<'a> {
    cell: &'a Cell,
    engine: &'a str,
    phases: Vec<String>,
}

/// Two sides that were sent the same requests.
struct Pair<'a> {
    place: String,
    other: String,
    ours: Side<'a>,
    theirs: Side<'a>,
    /// Whether the sides differ in a setting, and not in the engine.
    by_setting: bool,
}

impl<'a> Runs<'a> {
    /// The runs of a folder; `None` without a plan, or if SinterDB is not in it.
    fn of(folder: &'a Folder) -> Option<Self> {
        let plan = folder.plan.as_ref().filter(|plan| plan.engines.iter().any(|engine| engine == OURS))?;
        let mut by_cell: BTreeMap<_, Vec<&RunRecord>> = BTreeMap::new();
        for run in folder.runs.iter().filter(|run| run.record.failure.is_none()) {
            if let Some((_, cell)) = folder.planned(run) {
                by_cell.entry((cell.name.as_str(), run.record.spec.engine.name.as_str())).or_default().push(&run.record);
            }
        }
        Some(Runs { plan, words: &folder.words, by_cell })
    }

    /// Cells that a rival ran with the same workload: their measures, and phases with operations that no measure has.
    fn rivals(&self) -> Vec<Pair<'a>> {
        let plan = self.plan;
        let cells = plan.cells.iter().filter(|cell| cell.is_for(OURS));
        let of = |cell: &'a Cell| {
            let others = plan.engines.iter().filter(|engine| *engine != OURS);
            let others = others.filter_map(|engine| Some((engine, plan.cell(&cell.name, engine)?)));
            let others: Vec<_> = others.filter(|(_, other)| other.workload == cell.workload).collect();
            let parts = parts(cell).into_iter();
            parts.flat_map(move |(name, phases)| {
                let pair = |(engine, other): &(&'a String, &'a Cell)| Pair {
                    place: self.words.say(&place(plan, cell, &name)),
                    other: (*engine).clone(),
                    ours: Side { cell, engine: OURS, phases: phases.clone() },
                    theirs: Side { cell: other, engine, phases: other.measures.get(&name).unwrap_or(&phases).clone() },
                    by_setting: false,
                };
                others.iter().map(pair).collect::<Vec<_>>()
            })
        };
        cells.flat_map(of).collect()
    }

    /// Pairs of SinterDB's cells that a claim compares over one workload: the cell that the claim favours, beside the other one. If one
    /// number distinguishes the two, such as an age, the cells with other values of it are paired with the other one, too. Cells that
    /// emulate a published policy are left out: no claim of ours favours them.
    fn settings(&self) -> Vec<Pair<'a>> {
        let claims = self.plan.hypotheses.iter().filter(|claim| claim.is_for(OURS));
        let compared = claims.flat_map(|claim| claim.groups.iter().flat_map(|group| &group.any_of).map(move |one| (claim, one)));
        let mut seen = BTreeSet::new();
        let mut pairs = Vec::new();
        for (favoured, other) in compared.filter_map(|(claim, comparison)| favoured(claim, comparison)) {
            let Some((cell, base)) = self.plan.cell(&favoured.cell, OURS).zip(self.plan.cell(&other.cell, OURS)) else { continue };
            if cell.settings.zones.as_ref().is_some_and(|zones| zones.allocation != OURS) {
                continue;
            }
            for cell in self.varied(cell, base) {
                let (Some(phases), Some(others)) = (cell.measures.get(&favoured.measure), base.measures.get(&other.measure)) else {
                    continue;
                };
                if cell.workload != base.workload || !seen.insert((&cell.name, &favoured.measure, &base.name, &other.measure)) {
                    continue;
                }
                pairs.push(Pair {
                    place: self.words.say(&place(self.plan, cell, &favoured.measure)),
                    other: self.words.say(&base.name),
                    ours: Side { cell, engine: OURS, phases: phases.clone() },
                    theirs: Side { cell: base, engine: OURS, phases: others.clone() },
                    by_setting: true,
                });
            }
        }
        pairs
    }

    /// A cell and its variants: if one factor alone distinguishes it from `base`, and its value is a number such as an age, the cells with
    /// other values of that factor, `base` excepted. Words are other settings, not more or less of one.
    fn varied(&self, cell: &'a Cell, base: &Cell) -> Vec<&'a Cell> {
        let names: BTreeSet<&String> = cell.factors.keys().chain(base.factors.keys()).collect();
        let differ: Vec<&String> = names.into_iter().filter(|name| cell.factors.get(*name) != base.factors.get(*name)).collect();
        let [factor] = differ.as_slice() else { return vec![cell] };
        if cell.factors.get(*factor).is_none_or(|value| value.parse::<f64>().is_err()) {
            return vec![cell];
        }
        let but = |cell: &Cell| cell.factors.clone().into_iter().filter(|(name, _)| name != *factor).collect::<Vec<_>>();
        let others = self.plan.cells.iter().filter(|other| other.is_for(OURS) && other.name != base.name);
        others.filter(|other| other.factors.contains_key(*factor) && but(other) == but(cell)).collect()
    }

    /// Compares a figure; `None` where a side has none.
    fn compare(&self, pair: &Pair<'_>, figure: Figure) -> Option<Difference> {
        let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| self.sample(side, figure));
        let common = |sample: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>| -> Vec<f64> {
            sample.iter().filter(|(seed, _)| other.contains_key(seed)).map(|(_, value)| *value).collect()
        };
        let (ours, theirs) = (common(&ours, &theirs), common(&theirs, &ours));
        let medians = (median(&ours)?, median(&theirs)?);
        let factor = figure.factor(medians.0, medians.1)?;
        let more = figure.more_is_better();
        let (above, below) = if more { (&theirs, &ours) } else { (&ours, &theirs) };
        let interval = (ours.len() >= LEAST_REPEATS && factor > LEAST && factor.is_finite())
            .then(|| ratio(Fold::Product, &[above], &[below], true, CONFIDENCE)?.interval)
            .flatten();
        Some(Difference {
            place: pair.place.clone(),
            measure: figure.name(),
            more,
            other: pair.other.clone(),
            ours: medians.0,
            theirs: medians.1,
            factor,
            repeats: ours.len(),
            interval,
        })
    }

    /// Values by the seeds of the repeats, which all sides share.
    fn sample(&self, side: &Side<'_>, figure: Figure) -> BTreeMap<u64, f64> {
        let runs = self.by_cell.get(&(side.cell.name.as_str(), side.engine)).into_iter().flatten();
        runs.filter_map(|run| Some((run.spec.seed, figure.of(&Part { run, phases: &side.phases })?))).collect()
    }

    /// Differences of the pairs by figure and rival, the worst first.
    fn groups(&self, pairs: &[Pair<'_>], figures: &[Figure]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (pair, figure) in pairs.iter().flat_map(|pair| figures.iter().map(move |figure| (pair, figure))) {
            let Some(difference) = self.compare(pair, *figure) else { continue };
            let other = if pair.by_setting { SETTINGS } else { &pair.other };
            let place = groups.iter().position(|group| group.measure == difference.measure && group.other == other);
            let place = place.unwrap_or_else(|| {
                groups.push(Group { measure: difference.measure.clone(), other: other.to_string(), compared: 0, found: Vec::new() });
                groups.len() - 1
            });
            groups[place].compared += 1;
            groups[place].found.extend(Some(difference).filter(Difference::is_behind));
        }
        groups.iter_mut().for_each(|group| group.found.sort_by(|a, b| b.factor.total_cmp(&a.factor)));
        groups.retain(|group| !group.found.is_empty());
        groups.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
        groups
    }
}

/// Phases of a cell that count together, by name: its measures in the order of their phases, and each phase with operations in none.
fn parts(cell: &Cell) -> Vec<(String, Vec<String>)> {
    let measures = cell.measures.iter().map(|(name, phases)| (name.clone(), phases.clone()));
    let is_measured = |name: &String| cell.measures.values().any(|phases| phases.contains(name));
    let works = |kind: &PhaseKind| matches!(kind, PhaseKind::Load { .. } | PhaseKind::Run { .. } | PhaseKind::Replay { .. });
    let others = cell.workload.phases.iter().filter(|phase| works(&phase.kind) && !is_measured(&phase.name));
    let mut parts: Vec<_> = measures.chain(others.map(|phase| (phase.name.clone(), vec![phase.name.clone()]))).collect();
    let order = |phases: &[String]| cell.workload.phases.iter().position(|phase| phases.first() == Some(&phase.name));
    parts.sort_by_key(|(_, phases)| order(phases));
    parts
}

/// Name of a part of a cell: of engines side by side that of the measure, else that of the cell, and of the part where it has several.
fn place(plan: &Study, cell: &Cell, part: &str) -> String {
    match (cell.measures.contains_key(part), cell.measures.len()) {
        (true, _) if plan.compares_engines() => part.to_string(),
        (true, 1) => cell.name.clone(),
        _ => format!("{}: {part}", cell.name),
    }
}

/// The terms of a comparison of SinterDB with itself, the favoured one first: of a claim of ours, or one that a setting costs little.
/// `None` for all others.
fn favoured<'a>(claim: &Hypothesis, comparison: &'a Comparison) -> Option<(&'a Term, &'a Term)> {
    let ([above], [below]) = (comparison.above.as_slice(), comparison.below.as_slice()) else { return None };
    let ours = |term: &Term| term.engine.as_deref().is_none_or(|engine| engine == OURS);
    let costs_little =
        matches!(comparison.bound, Bound::Above(least) if least < 1.0) || matches!(comparison.bound, Bound::Below(most) if most > 1.0);
    if !ours(above) || !ours(below) || !(claim.original.is_none() || costs_little) {
        return None;
    }
    match (claim.metric.more_is_better()?, comparison.bound) {
        (true, Bound::Above(_)) | (false, Bound::Below(_)) => Some((above, below)),
        (true, Bound::Below(_)) | (false, Bound::Above(_)) => Some((below, above)),
        (_, Bound::Apart(_)) => None,
    }
}

#[cfg(test)]
mod tests;
