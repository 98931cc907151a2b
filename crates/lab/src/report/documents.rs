//! Measured figures in Markdown documents. A block between two markers is made from result folders of studies that compare engines, so that
//! each figure has one source, the records, and every document shows the same.
//!
//! | block | what it holds |
//! |---|---|
//! | `origin` | date, commit, machine, versions, repeats |
//! | `brief` | the first two engines: speed, ratio, write and space amplification, memory |
//! | `full` | all engines and columns, as `engines.md` has them |
//! | `behind` | figures in which the median of SinterDB is worse than another engine's by more than 2 %, a line each |
//! | `behind, brief` | every median in which the first engine is worse than the second, in one line for each column |

use super::Failure;
use super::behind::Difference;
use super::engines::{self, Engines, Row};
use super::load::Folder;
use super::text::{date, number};
use crate::result::Machine;
use crate::run::RunRecord;
use std::collections::BTreeSet;
use std::fmt::Write;

const START: &str = "<!-- measured: ";
const START_END: &str = " -->";
const END: &str = "<!-- end of measured -->";

/// The engines of the brief table and of the chart.
const BRIEF: [&str; 2] = ["sinter", "rocksdb"];

/// Least ratio of medians that counts as behind in the brief list: smaller ones are shown as 1.00.
const SHOWN: f64 = 1.005;

/// Longest time between the first and the last run of one table, seconds: rows of different days are not mixed.
const LONGEST: u64 = 24 * 3600;

/// Folders whose figures may be shown in one table.
pub struct Measured<'a> {
    tables: Vec<Engines<'a>>,
}

impl<'a> Measured<'a> {
    /// # Errors
    /// Folders without a table of engines; folders of different engines, commits or machines, or more than a day apart.
    pub fn of(folders: &'a [Folder]) -> Result<Self, Failure> {
        let wrong = |folder: &Folder, what: &str| Failure::Input(format!("{}: {what}", folder.path.display()));
        let table = |folder: &'a Folder| Engines::of(folder).ok_or_else(|| wrong(folder, "no study of engines side by side"));
        let tables = folders.iter().map(table).collect::<Result<Vec<_>, _>>()?;
        for (table, folder) in tables.iter().zip(folders) {
            // The chart and the brief table compare the first two engines.
            if !table.names.starts_with(&BRIEF.map(String::from)) {
                return Err(wrong(folder, "its first two engines are not sinter and rocksdb"));
            }
            if BRIEF.iter().any(|engine| table.records.iter().all(|record| record.spec.engine.name != *engine)) {
                return Err(wrong(folder, "an engine has no run that went well"));
            }
        }
        let mut paths: Vec<_> = folders.iter().map(|folder| folder.path.canonicalize().unwrap_or_else(|_| folder.path.clone())).collect();
        paths.sort();
        if paths.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Failure::Input("a folder is given twice".into()));
        }
        let measured = Measured { tables };
        let several = |what: &str| Failure::Input(format!("the runs are of different {what}: measure them together"));
        let commits = measured.all(|record| record.commit.clone().unwrap_or_default());
        if commits.len() > 1 {
            return Err(several("commits"));
        }
        if commits.iter().any(|commit| commit.ends_with("-dirty")) {
            return Err(Failure::Input("the sources differed from the commit: measure a commit".into()));
        }
        if measured.all(|record| record.machine.to_string()).len() > 1 {
            return Err(several("machines"));
        }
        let times = measured.all(|record| record.started_unix);
        match (times.first(), times.last()) {
            (Some(first), Some(last)) if last - first <= LONGEST => Ok(measured),
            _ => Err(several("days")),
        }
    }

    /// Rows of all tables.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tables.iter().flat_map(|table| &table.rows)
    }

    /// A name with its version: `rocksdb 11.8.1`.
    pub fn engine(&self, place: usize) -> String {
        let name = self.tables.first().and_then(|table| table.names.get(place)).map_or("", String::as_str);
        let of_engine = self.records().filter(|record| record.spec.engine.name == name);
        let versions: BTreeSet<String> = of_engine.map(|record| record.engine_version.clone()).collect();
        versions.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Returns the document with every block filled in anew.
    ///
    /// # Errors
    /// A block with an unknown name, or without an end.
    pub fn fill(&self, document: &str) -> Result<String, Failure> {
        let mut out = String::with_capacity(document.len());
        let mut lines = document.split_inclusive('\n');
        let mut blocks = 0;
        while let Some(line) = lines.next() {
            out.push_str(line);
            if !is_marker(line) {
                continue;
            }
            let Some(name) = started(line) else {
                return Err(Failure::Input(format!("{:?} begins no block; that is {START}NAME{START_END}", line.trim())));
            };
            out.push_str(&self.block(name)?);
            blocks += 1;
            match lines.find(|line| is_marker(line)) {
                Some(end) if end.trim_end() == END => out.push_str(end),
                _ => return Err(Failure::Input(format!("the block {name:?} has no line {END:?} behind it"))),
            }
        }
        if blocks == 0 { Err(Failure::Input("there is no block of measured figures".into())) } else { Ok(out) }
    }

    fn block(&self, name: &str) -> Result<String, Failure> {
        Ok(match name {
            "origin" => self.origin(),
            "brief" => self.brief(),
            "full" => engines::head() + &self.tables.iter().map(Engines::markdown_rows).collect::<String>(),
            "behind" => self.differences().filter(|one| one.is_behind()).map(|one| format!("* {one}\n")).collect(),
            "behind, brief" => self.behind_in_brief(),
            other => {
                let known = "origin, brief, full, behind and \"behind, brief\"";
                return Err(Failure::Input(format!("there is no block {other:?}; there are {known}")));
            }
        })
    }

    fn origin(&self) -> String {
        let first = self.all(|record| record.started_unix).first().map_or(String::new(), |time| date(*time));
        let commit = self.all(|record| record.commit.clone().unwrap_or_else(|| "unknown".into()));
        let commit: Vec<String> = commit.iter().map(|commit| commit.chars().take(8).collect()).collect();
        let machine = self.all(|record| {
            let Machine { cpus, cpu_model, memory_bytes, kernel, file_system, .. } = &record.machine;
            let gib = *memory_bytes as f64 / f64::from(1 << 30);
            format!("{cpus} processors ({cpu_model}), {gib:.0} GiB, Linux {kernel}, {file_system}")
        });
        let versions = self.all(|record| record.engine_version.clone());
        let join = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(", ");
        let runs = self.rows().filter_map(|row| row.median("operations/s", 0)).map(|(_, runs)| runs);
        let (least, most) = runs.fold((usize::MAX, 0), |(least, most), runs| (least.min(runs), most.max(runs)));
        let runs = if least < most { format!("{least} to {most}") } else { most.to_string() };
        format!("{first}, commit {}, {}; {}; medians of {runs} interleaved runs.\n", commit.join(", "), join(machine), join(versions))
    }

    fn brief(&self) -> String {
        let heads = ["workload", "SinterDB ops/s", "RocksDB ops/s", "ratio", "write amp.", "space amp.", "memory, MiB"];
        let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
        for row in self.rows() {
            let figure = |measure: &str, engine: usize| row.median(measure, engine).map(|(median, _)| median);
            let shown = |value: Option<f64>| value.map_or("-".to_string(), number);
            let pair = |measure: &str| match [figure(measure, 0), figure(measure, 1)] {
                [None, None] => "-".to_string(),
                [ours, theirs] => format!("{}/{}", shown(ours), shown(theirs)),
            };
            let [ours, theirs] = [0, 1].map(|engine| figure("operations/s", engine));
            let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.workload,
                shown(ours),
                shown(theirs),
                shown(ratio),
                pair("write amplification"),
                pair("space amplification"),
                pair("peak memory, MiB"),
            );
        }
        text
    }

    /// The block `behind, brief`, by medians alone, so that no row is left out for a wide interval of few repeats.
    fn behind_in_brief(&self) -> String {
        let is_row = |one: &&Difference| self.rows().any(|row| row.workload == one.place);
        let line = |measure: &str| {
            let brief = self.differences().filter(|one| one.measure == measure && one.other == BRIEF[1] && one.factor >= SHOWN);
            let worse: Vec<String> = brief.filter(is_row).map(|one| format!("{} {}", one.place, number(one.factor))).collect();
            // A ratio has no unit.
            let measure = measure.split(',').next().unwrap_or(measure);
            (!worse.is_empty()).then(|| format!("* {measure}: {}\n", worse.join(", ")))
        };
        let lines: String = engines::columns().filter_map(line).collect();
        if lines.is_empty() { "* nothing\n".to_string() } else { lines }
    }

    fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.tables.iter().flat_map(|table| &table.differences)
    }

    fn records(&self) -> impl Iterator<Item = &RunRecord> {
        self.tables.iter().flat_map(|table| table.records.iter().copied())
    }

    fn all<T: Ord>(&self, of: impl Fn(&RunRecord) -> T) -> BTreeSet<T> {
        self.records().map(of).collect()
    }
}

/// Whether a line looks like the beginning or end of a block.
fn is_marker(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("<!-- measured") || line == END
}

/// Name of the block that begins with this line.
fn started(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(START)?.strip_suffix(START_END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::engines::tests::{folder_of, study};

    /// Invented results: both engines take a second for everything, but rocksdb is faster in one repeat of the reads.
    fn measured<T>(names: &[&str], check: impl Fn(Result<Measured<'_>, Failure>) -> T) -> T {
        let (_directory, folder) =
            folder_of(&study("side-by-side", names, 2), |engine, _| Some(if engine == "sinter" { 1.0 } else { 2.0 }));
        check(Measured::of(std::slice::from_ref(&folder)))
    }

    const DOCUMENT: &str = "# Speed\n<!-- measured: brief -->\nold\n| rows |\n<!-- end of measured -->\nbehind\n";

    #[test]
    fn blocks_are_made_anew_and_the_rest_stays() {
        measured(&["sinter", "rocksdb"], |measured| {
            let measured = measured.unwrap();
            let filled = measured.fill(DOCUMENT).unwrap();
            assert!(filled.starts_with("# Speed\n<!-- measured: brief -->\n| workload | SinterDB ops/s |"), "{filled}");
            assert!(filled.contains("\n| fillseq | 1,000 | 500 | 2.00 | 4.00/4.00 | 0.750/0.750 | 10.0/10.0 |\n"), "{filled}");
            assert!(filled.ends_with("|\n<!-- end of measured -->\nbehind\n") && !filled.contains("old"), "{filled}");
            assert_eq!(measured.fill(&filled).unwrap(), filled, "nothing changes by doing it again");
            assert!(measured.fill(DOCUMENT.replace("brief", "origin").as_str()).unwrap().contains("medians of 2 interleaved runs"));
        });
    }

    #[test]
    fn wrong_blocks_are_named() {
        measured(&["sinter", "rocksdb"], |measured| {
            let measured = measured.unwrap();
            let wrong = |document: &str| measured.fill(document).unwrap_err().to_string();
            assert!(wrong(&DOCUMENT.replace("brief", "short")).starts_with("there is no block \"short\""));
            assert!(wrong(&DOCUMENT.replace("<!-- end", "<!-- END")).starts_with("the block \"brief\" has no line"));
            let (start, _) = DOCUMENT.split_once("<!-- end").unwrap();
            assert!(
                wrong(&[start, "prose\n", DOCUMENT].concat()).starts_with("the block \"brief\" has no line"),
                "a block ends before another"
            );
            assert!(wrong("<!-- measured:brief -->\n").contains("begins no block"));
            assert!(wrong("<!-- end of measured -->\n").contains("begins no block"));
            assert_eq!(wrong("# Speed\n"), "there is no block of measured figures");
        });
    }

    #[test]
    fn figures_that_were_not_measured_together_are_not_mixed() {
        assert!(measured(&["sinter"], |measured| measured.is_err()), "there is nothing beside it");
        assert!(measured(&["sinter", "fjall"], |measured| measured.is_err()), "the brief table is of sinter and rocksdb");
        let (_directory, mut folder) = folder_of(&study("side-by-side", &["sinter", "rocksdb"], 2), |_, _| Some(1.0));
        let complaint = |folder: &Folder| Measured::of(std::slice::from_ref(folder)).err().map(|failure| failure.to_string());
        assert_eq!(complaint(&folder), None);
        folder.runs[0].record.started_unix = LONGEST + 1;
        assert_eq!(complaint(&folder).unwrap(), "the runs are of different days: measure them together");
        folder.runs.iter_mut().for_each(|run| (run.record.started_unix, run.record.commit) = (0, Some("abc-dirty".into())));
        assert_eq!(complaint(&folder).unwrap(), "the sources differed from the commit: measure a commit");
        folder.runs[0].record.commit = Some("another".into());
        assert_eq!(complaint(&folder).unwrap(), "the runs are of different commits: measure them together");
    }

    #[test]
    fn the_chart_has_a_bar_for_each_workload() {
        measured(&["sinter", "rocksdb"], |measured| {
            let chart = crate::report::picture::speed(&measured.unwrap());
            assert_eq!(chart.matches("<rect class=\"ahead\"").count(), 13, "{chart}");
            assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"), "{chart}");
        });
    }
}
