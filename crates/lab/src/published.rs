//! Published studies as data, one JSON file each: the figures and tables of the original with their values, the cell and metric of ours
//! that stand beside each, and the sentences in which a page says what was found. Numbers of ours never stand here; they come from records.

use crate::study::metric::Metric;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Files by the name of the study.
const FILES: &[(&str, &str)] = &[
    ("compaction-wal-waf", include_str!("published/compaction-wal-waf.json")),
    ("time-aware-tiering", include_str!("published/time-aware-tiering.json")),
    ("adaptive-compression", include_str!("published/adaptive-compression.json")),
    ("zone-allocation", include_str!("published/zone-allocation.json")),
    ("aof-rewrite", include_str!("published/aof-rewrite.json")),
];

/// The published counterpart of a study; `None` if it has none, or its file is damaged, which a test excludes.
pub fn published(study: &str) -> Option<Published> {
    let (_, text) = FILES.iter().find(|(name, _)| *name == study)?;
    serde_json::from_str(text).ok()
}

/// Names of the studies that have a published counterpart.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// A published study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// System and year of the original, for legends and headings.
    pub source: String,
    /// Setup of the original; a sentence.
    pub setup: String,
    /// Sentences of a page on what was found, in this order.
    #[serde(default)]
    pub found: Vec<Sentence>,
    /// Figures and tables, in this order.
    pub figures: Vec<Figure>,
}

/// A sentence on a claim: the half of its verdict, a colon, and the fact.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentence {
    /// Claim of the hypothesis, word for word.
    pub claim: String,
    /// Engine of the verdict.
    #[serde(default = "own")]
    pub engine: String,
    /// First half of the sentence where the claim is accepted.
    pub accepted: String,
    /// First half of the sentence where the claim is rejected.
    pub rejected: String,
    /// First half of the sentence where the claim is undecided.
    pub undecided: String,
    /// Second half. `{NAME}` stands for one of `values`, and `{ratios}` for the range of the verdict's ratios.
    pub fact: String,
    /// Values in the fact, by name.
    #[serde(default)]
    pub values: BTreeMap<String, Ours>,
}

fn own() -> String {
    "sinter".to_string()
}

/// A figure or table of the original.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Anchor on the page.
    pub id: String,
    /// Place in the original, such as `figure 7`, or in its notes.
    pub of: String,
    /// Title.
    pub title: String,
    /// Explanation needed to read both beside each other, or what is known of an original whose values are not.
    #[serde(default)]
    pub note: String,
    /// Reason why nothing of ours stands beside it; otherwise `ours` is there.
    pub why: Option<String>,
    /// Ours, for each row.
    pub ours: Option<Ours>,
    /// Title of the axis of values, with the unit.
    #[serde(default)]
    pub axis: String,
    /// Form of the figure.
    #[serde(default)]
    pub form: Form,
    /// Whether the axis of values is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
    /// Values of the original, in order. Rows of one panel follow each other.
    #[serde(default)]
    pub rows: Vec<Row>,
}

/// Form of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A group of bars for each row.
    #[default]
    Bars,
    /// Lines through the rows of each panel, at equal distances.
    Lines,
}

/// A value of the original.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Panel of the figure; all in one if empty.
    #[serde(default)]
    pub panel: String,
    /// Name of the row.
    pub label: String,
    /// Word for `{cell}` in the names of cells; the label if `None`.
    pub cell: Option<String>,
    /// Value of the original in the unit of the axis; `None` if it is not known.
    pub original: Option<f64>,
    /// The original's own words for the value, where they are not the number.
    #[serde(default)]
    pub said: String,
}

/// A figure of our runs: the mean over the repeats of a cell, or the ratio of two such means.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ours {
    /// Names of the cell; the first that the plan has counts, because names follow sizes and sizes the scale. `{cell}`, `{label}` and
    /// `{panel}` stand for those of the row, here, in `measure` and in `over`.
    pub cells: Vec<String>,
    /// Measure of the cell: its phases.
    pub measure: String,
    /// Metric.
    pub metric: Metric,
    /// Names of the cell below the line of a ratio; `cells` if there is only `over_metric`.
    #[serde(default)]
    pub over: Vec<String>,
    /// Metric below the line of a ratio; `metric` if there is only `over`.
    pub over_metric: Option<Metric>,
    /// Engine; all engines of the study in figures, and SinterDB in sentences, if `None`.
    pub engine: Option<String>,
    /// Unit behind values, such as `MB`; the metric's own, and none for ratios, if `None`.
    unit: Option<String>,
    /// Size of the unit in units of the metric or ratio.
    per: Option<f64>,
}

impl Published {
    /// All figures and tables of the original as a table in Markdown, with links to ours on `page`.
    pub fn markdown(&self, page: &str) -> String {
        let row = |Figure { id, of, title, why, .. }: &Figure| {
            let ours = why.as_ref().map_or_else(|| format!("[beside it]({page}#{id})"), |why| format!("none: {why}"));
            format!("| {of} | {title} | {ours} |\n")
        };
        format!("| {} | | ours |\n|---|---|---|\n{}", self.source, self.figures.iter().map(row).collect::<String>())
    }
}

impl Row {
    fn filled(&self, name: &str) -> String {
        let cell = self.cell.as_ref().unwrap_or(&self.label);
        name.replace("{cell}", cell).replace("{label}", &self.label).replace("{panel}", &self.panel)
    }
}

impl Ours {
    /// The value of a row.
    pub fn of(&self, row: &Row) -> Ours {
        let filled = |names: &[String]| names.iter().map(|name| row.filled(name)).collect();
        Ours { cells: filled(&self.cells), over: filled(&self.over), measure: row.filled(&self.measure), ..self.clone() }
    }

    /// Whether the value is a ratio.
    pub fn is_ratio(&self) -> bool {
        !self.over.is_empty() || self.over_metric.is_some()
    }

    /// Unit behind values, and its size.
    pub fn unit(&self) -> (&str, f64) {
        let (unit, per) = if self.is_ratio() { ("", 1.0) } else { self.metric.unit() };
        (self.unit.as_deref().unwrap_or(unit), self.per.unwrap_or(per))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::catalogue;
    use crate::study::plan::{Scale, Study};
    use crate::study::testing::request;
    use std::collections::BTreeSet;

    /// Plans of a study with all engines that it can compare.
    fn plans(name: &str) -> Vec<Study> {
        let engines = catalogue::engines(name);
        Scale::ALL.iter().map(|scale| catalogue::study(name, *scale, &request(engines, 3)).unwrap()).collect()
    }

    fn check(plans: &[Study], ours: &Ours, place: &str) {
        let planned = |names: &[String]| {
            let cells = plans.iter().flat_map(|plan| &plan.cells).filter(|cell| names.contains(&cell.name));
            let mut cells = cells.filter(|cell| ours.engine.as_deref().is_none_or(|engine| cell.is_for(engine)));
            cells.any(|cell| cell.measures.contains_key(&ours.measure))
        };
        assert!(planned(&ours.cells), "{place}: no plan has {:?} with measure {:?}", ours.cells, ours.measure);
        assert!(ours.over.is_empty() || planned(&ours.over), "{place}: no plan has {:?}", ours.over);
        assert!(ours.unit.is_some() == ours.per.is_some() && ours.unit().1 > 0.0, "{place}: a unit and its size");
    }

    /// Every figure has ours or a reason, and every cell, measure and claim is in the plan of some scale.
    #[test]
    fn figures_name_cells_of_the_plans() {
        for (name, text) in FILES {
            let published: Published = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let plans = plans(name);
            assert!((3..=6).contains(&published.found.len()), "{name}: three to six sentences say what was found");
            let ids: BTreeSet<&str> = published.figures.iter().map(|figure| figure.id.as_str()).collect();
            assert_eq!(ids.len(), published.figures.len(), "{name}: two figures of one id");
            for figure in &published.figures {
                let place = format!("{name}, {}", figure.id);
                assert!(figure.ours.is_some() != figure.why.is_some(), "{place}: ours, or the reason why there is nothing of ours");
                assert!(figure.ours.is_none() || !figure.rows.is_empty() && !figure.axis.is_empty(), "{place}: no rows or axis");
                for (row, ours) in figure.rows.iter().filter_map(|row| Some((row, figure.ours.as_ref()?))) {
                    check(&plans, &ours.of(row), &place);
                }
            }
        }
    }

    /// Every sentence is on a claim of some scale, and each name in it has a value.
    #[test]
    fn sentences_name_claims_of_the_plans() {
        for name in names() {
            let (published, plans) = (published(name).unwrap(), plans(name));
            for sentence in &published.found {
                let is_made = |plan: &Study| plan.hypotheses.iter().any(|h| h.claim == sentence.claim && h.is_for(&sentence.engine));
                assert!(plans.iter().any(is_made), "{name}: no plan claims {:?}", sentence.claim);
                sentence.values.values().for_each(|ours| check(&plans, ours, &sentence.claim));
                for part in sentence.fact.split('{').skip(1) {
                    let word = part.split_once('}').unwrap().0;
                    assert!(word == "ratios" || sentence.values.contains_key(word), "{name}: {{{word}}} is no value");
                }
            }
        }
    }
}
