//! Published studies as data, one JSON file each: the figures and tables of the original with their values, the cell and metric of ours
//! that stand beside each, and the sentences in which a page says what was found. Studies of our own have sentences alone. Numbers of ours
//! come from records; those of an experiment that has none stand here with its date.

use crate::study::metric::Metric;
use crate::study::plan::Scale;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Files by the name of the study.
const FILES: &[(&str, &str)] = &[
    ("compaction-wal-waf", include_str!("published/compaction-wal-waf.json")),
    ("time-aware-tiering", include_str!("published/time-aware-tiering.json")),
    ("adaptive-compression", include_str!("published/adaptive-compression.json")),
    ("zone-allocation", include_str!("published/zone-allocation.json")),
    ("aof-rewrite", include_str!("published/aof-rewrite.json")),
    ("memory-and-limits", include_str!("published/memory-and-limits.json")),
    ("redis-speed", include_str!("published/redis-speed.json")),
];

/// Sentences and figures of a study; `None` if it has none, or its file is damaged, which a test excludes.
pub fn published(study: &str) -> Option<Published> {
    let (_, text) = FILES.iter().find(|(name, _)| *name == study)?;
    serde_json::from_str(text).ok()
}

/// Names of the studies that have a published counterpart.
pub fn names() -> impl Iterator<Item = &'static str> {
    let is_published = |name: &&str| published(name).is_some_and(|published| !published.figures.is_empty());
    FILES.iter().map(|(name, _)| *name).filter(is_published)
}

/// A published study, or the sentences of one of our own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// System and year of the original, for legends and headings; empty without an original.
    #[serde(default)]
    pub source: String,
    /// Setup of the original; a sentence.
    #[serde(default)]
    pub setup: String,
    /// Sentences of a page on what was found, in this order.
    #[serde(default)]
    pub found: Vec<Sentence>,
    /// Parts of the study, by the letters or numbers with which names of cells and claims begin, in words.
    #[serde(default)]
    pub parts: BTreeMap<String, String>,
    /// Words for short names in names of cells and comparisons.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// Measured causes of rejected claims, by the claim word for word.
    #[serde(default)]
    pub causes: BTreeMap<String, Cause>,
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
    /// Second half where a value of `fact` is not measured. Without it the sentence is left out.
    #[serde(default)]
    pub otherwise: String,
    /// Second half where a value of `otherwise` is not measured either.
    #[serde(default)]
    pub last: String,
    /// Values in the second halves, by name.
    #[serde(default)]
    pub values: BTreeMap<String, Ours>,
}

/// The cause of a rejected claim, in a sentence or two, or a sentence which says that it is not known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The sentence. `{NAME}` stands for one of `values`.
    pub fact: String,
    /// The sentence where one of the values is not measured; one that says so if empty.
    #[serde(default)]
    pub otherwise: String,
    /// Values in the sentence, by name; of the engine of the verdict where they name none.
    #[serde(default)]
    pub values: BTreeMap<String, Ours>,
}

/// Stands for the cause of a claim which no measurement explains.
pub const UNKNOWN: &str = "The cause is not known.";

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
    /// Title of the axis of rows, with the unit; of lines only.
    #[serde(default)]
    pub across: String,
    /// Form of the figure.
    #[serde(default)]
    pub form: Form,
    /// Whether the axis of values is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
    /// Titles of panels whose names are words of cells.
    #[serde(default)]
    pub panels: BTreeMap<String, String>,
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
    /// Operations per second and memory of a server over time: for each row and engine a run, that with the median of the metric.
    OverTime,
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
    /// Word for `{cell}` at the scale `paper`, where names of cells follow sizes; `cell` if `None`.
    pub paper: Option<String>,
    /// Metric of the row; that of the figure if `None`.
    pub metric: Option<Metric>,
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

/// A page with figures of a published study.
pub struct Page {
    /// Path from the document that links to it.
    pub path: String,
    /// Words of a link to it.
    pub words: &'static str,
    /// Anchors of figures in which it has values of ours.
    pub drawn: BTreeSet<String>,
}

impl Published {
    /// Metrics of all figures, some of them several times.
    pub fn metrics(&self) -> Vec<Metric> {
        let of_rows = self.figures.iter().flat_map(|figure| figure.rows.iter().filter_map(|row| row.metric));
        let ours = self.figures.iter().filter_map(|figure| figure.ours.as_ref());
        ours.flat_map(|ours| [Some(ours.metric), ours.over_metric]).flatten().chain(of_rows).collect()
    }

    /// All figures and tables of the original as a table in Markdown, with links to ours. `pages`: the page of the study, then others.
    pub fn markdown(&self, pages: &[Page]) -> String {
        let link = |page: &Page, words: &str, id: &str| format!("[{words}]({}#{id})", page.path);
        let row = |Figure { id, of, title, why, .. }: &Figure| {
            let drawn = pages.iter().filter(|page| page.drawn.contains(id)).map(|page| link(page, page.words, id));
            let drawn = drawn.collect::<Vec<_>>().join(", ");
            let ours = match (why, pages.first()) {
                (Some(why), _) => format!("none: {why}"),
                (None, Some(page)) if drawn.is_empty() => format!("none yet: {}", link(page, "the runs here are of an older build", id)),
                (None, _) => drawn,
            };
            format!("| {of} | {title} | {ours} |\n")
        };
        format!("| {} | | ours |\n|---|---|---|\n{}", self.source, self.figures.iter().map(row).collect::<String>())
    }
}

impl Row {
    fn filled(&self, name: &str, scale: Option<Scale>) -> String {
        let paper = self.paper.as_ref().filter(|_| scale == Some(Scale::Paper));
        let cell = paper.or(self.cell.as_ref()).unwrap_or(&self.label);
        name.replace("{cell}", cell).replace("{label}", &self.label).replace("{panel}", &self.panel)
    }
}

impl Ours {
    /// The value of a row at a scale.
    pub fn of(&self, row: &Row, scale: Option<Scale>) -> Ours {
        let filled = |names: &[String]| names.iter().map(|name| row.filled(name, scale)).collect();
        let measure = row.filled(&self.measure, scale);
        let metric = row.metric.unwrap_or(self.metric);
        Ours { cells: filled(&self.cells), over: filled(&self.over), measure, metric, ..self.clone() }
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
    use crate::report::words::Words;
    use crate::study::catalogue;
    use crate::study::plan::{Scale, Study};
    use crate::study::testing::request;

    /// Plans of a study with all engines that it can compare.
    fn plans(name: &str) -> Vec<Study> {
        let engines = catalogue::engines(name);
        Scale::ALL.iter().map(|scale| catalogue::study(name, *scale, &request(engines, 3)).unwrap()).collect()
    }

    fn has(plan: &Study, ours: &Ours, names: &[String]) -> bool {
        let cells = plan.cells.iter().filter(|cell| names.contains(&cell.name));
        let mut cells = cells.filter(|cell| ours.engine.as_deref().is_none_or(|engine| cell.is_for(engine)));
        cells.any(|cell| cell.measures.contains_key(&ours.measure))
    }

    /// Checks that the plan of some scale has the cells of a value; `of` makes the value at a scale.
    fn check(plans: &[Study], of: impl Fn(Option<Scale>) -> Ours, place: &str) {
        let is_planned = |plan: &Study| {
            let ours = of(plan.scale);
            has(plan, &ours, &ours.cells) && (ours.over.is_empty() || has(plan, &ours, &ours.over))
        };
        let ours = of(None);
        assert!(plans.iter().any(is_planned), "{place}: no plan has {:?} over {:?}, measure {:?}", ours.cells, ours.over, ours.measure);
        assert!(ours.unit.is_some() == ours.per.is_some() && ours.unit().1 > 0.0, "{place}: a unit and its size");
    }

    /// Checks that no two rows of a figure show one and the same value at any scale.
    fn check_rows(plans: &[Study], figure: &Figure, ours: &Ours, place: &str) {
        for plan in plans {
            let mut shown = BTreeSet::new();
            for row in &figure.rows {
                let ours = ours.of(row, plan.scale);
                let Some(cell) = ours.cells.iter().find(|name| has(plan, &ours, std::slice::from_ref(name))) else { continue };
                let value = (cell.clone(), ours.measure.clone(), ours.metric.name());
                assert!(shown.insert(value), "{place}, {:?}: {}, {} stands beside {cell:?} again", plan.scale, row.panel, row.label);
            }
        }
    }

    /// Figures, tables and findings of each original, by the words that say where they stand in it. The studies themselves are not in the
    /// repository, so this list is what the figures are checked against.
    const CONTENTS: [(&str, &[&str]); 5] = [
        ("compaction-wal-waf", &["table of runs", "finding A", "finding A, explanation", "finding B"]),
        (
            "time-aware-tiering",
            &[
                "experiment 1, throughput",
                "experiment 1, run time",
                "experiment 1, latency",
                "experiment 1, size",
                "experiment 1, write amplification",
                "experiment 1, bytes read",
                "experiment 1, tables on the last level",
                "table 1, ages",
                "table 2, tables on the last level",
                "experiment 2, size",
                "experiment 2, write amplification",
                "experiment 2, throughput",
                "mechanism, migration",
            ],
        ),
        (
            "adaptive-compression",
            &[
                "part A, table of strategies",
                "part A",
                "part A, 4 and 6 processors",
                "part B, list of strategies",
                "part B, table of results",
                "short-term plan, codecs",
                "short-term plan, blocks and indexes",
            ],
        ),
        (
            "zone-allocation",
            &[
                "table of policies",
                "table of results, bytes migrated",
                "table of results, zones in use",
                "findings, 'no zone to allocate'",
                "findings, resets after 21 GB",
                "findings, lazy resets",
                "figure 7",
                "figure 8",
                "figure 12",
                "figures 13 and 16",
            ],
        ),
        ("aof-rewrite", &["figure 3", "table 1 and figures 4 to 6", "table 2"]),
    ];

    /// No figure, table or finding of an original is without a line, and each line says where it belongs.
    #[test]
    fn every_figure_of_the_originals_is_listed() {
        assert_eq!(names().collect::<BTreeSet<_>>(), CONTENTS.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>());
        for (name, contents) in CONTENTS {
            let published = published(name).unwrap();
            let listed: BTreeSet<&str> = published.figures.iter().map(|figure| figure.of.as_str()).collect();
            assert_eq!(listed, contents.iter().copied().collect::<BTreeSet<_>>(), "{name}: what is listed, and what the original has");
        }
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
                let Some(ours) = &figure.ours else { continue };
                assert!(!figure.rows.is_empty() && !figure.axis.is_empty(), "{place}: no rows or axis");
                assert_eq!(figure.form == Form::Lines, !figure.across.is_empty(), "{place}: lines have a title of the axis of rows");
                let is_panel = |name: &String| figure.rows.iter().any(|row| row.panel == *name);
                assert!(figure.panels.keys().all(is_panel), "{place}: a title of no panel");
                figure.rows.iter().for_each(|row| check(&plans, |scale| ours.of(row, scale), &place));
                check_rows(&plans, figure, ours, &place);
            }
        }
    }

    /// Checks that each name in a text has a value, and each value a name in a text.
    fn check_names(texts: &[&str], values: &BTreeMap<String, Ours>, place: &str) {
        for part in texts.iter().flat_map(|text| text.split('{').skip(1)) {
            let word = part.split_once('}').unwrap().0;
            assert!(word == "ratios" || values.contains_key(word), "{place}: {{{word}}} is no value");
        }
        let is_used = |value: &String| texts.iter().any(|text| text.contains(&format!("{{{value}}}")));
        assert!(values.keys().all(is_used), "{place}: a value that no text shows");
    }

    /// No cell is named by the letter of a part, the code of a setting, or a size whose unit sticks to it.
    #[test]
    fn cells_have_names_in_words() {
        for (name, _) in FILES {
            let words = Words::of(published(name).as_ref());
            for cell in plans(name).iter().flat_map(|plan| &plan.cells) {
                let said = words.say(&cell.name);
                let begins = published(name).unwrap().parts.keys().any(|part| said.starts_with(&format!("{part} ")));
                let glued = said.split([' ', ',', ':']).any(|word| word.ends_with("iB") && word.starts_with(|c: char| c.is_ascii_digit()));
                let code = said.contains(['_', '*']) || said.contains(" x2") || said.contains("lzr") || said.contains("sinter");
                assert!(!begins && !glued && !code, "{name}: {:?} is {said:?}", cell.name);
            }
        }
    }

    /// Every sentence and cause is on a claim of some scale, and each name in a sentence has a value.
    #[test]
    fn sentences_name_claims_of_the_plans() {
        for (name, _) in FILES {
            let (published, plans) = (published(name).unwrap(), plans(name));
            for (claim, cause) in &published.causes {
                let mut claims = plans.iter().flat_map(|plan| &plan.hypotheses);
                assert!(claims.any(|hypothesis| hypothesis.claim == *claim), "{name}: no plan claims {claim:?}");
                cause.values.values().for_each(|ours| check(&plans, |_| ours.clone(), claim));
                check_names(&[cause.fact.as_str(), &cause.otherwise], &cause.values, &format!("{name}, cause of {claim:?}"));
            }
            for sentence in &published.found {
                let is_made = |plan: &Study| plan.hypotheses.iter().any(|h| h.claim == sentence.claim && h.is_for(&sentence.engine));
                assert!(plans.iter().any(is_made), "{name}: no plan claims {:?}", sentence.claim);
                sentence.values.values().for_each(|ours| check(&plans, |_| ours.clone(), &sentence.claim));
                let halves = [&sentence.fact, &sentence.otherwise, &sentence.last].map(String::as_str);
                check_names(&halves, &sentence.values, &format!("{name}, {:?}", sentence.claim));
            }
        }
    }
}
