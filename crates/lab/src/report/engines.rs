//! Engines side by side: a row per workload, and in each cell of the table a figure of every engine. For studies that compare engines.

use super::behind::{Difference, differences};
use super::cells::{Workload, workloads};
use super::load::Folder;
use super::measures::{COMPARED, Measure, OfPart};
use super::text::{engine, escape, number, range};
use crate::run::RunRecord;
use crate::statistics::median;
use std::collections::{BTreeMap, BTreeSet};

/// The figures of all repeats of a workload: by column and engine.
pub struct Row {
    /// Name of the workload.
    pub workload: String,
    figures: Vec<Vec<Vec<f64>>>,
}

/// A study's table.
pub struct Engines<'a> {
    /// Names of the engines, in the order of the study.
    pub names: &'a [String],
    /// Records of all runs that did not fail.
    pub records: Vec<&'a RunRecord>,
    /// A row per workload.
    pub rows: Vec<Row>,
    /// Figures of SinterDB beside those of each other engine, whichever is better.
    pub differences: Vec<Difference>,
}

impl<'a> Engines<'a> {
    /// Table of a folder; `None` if its study does not compare engines, or nothing has run.
    pub fn of(folder: &'a Folder) -> Option<Self> {
        let plan = folder.plan.as_ref().filter(|plan| plan.compares_engines())?;
        let folders = std::slice::from_ref(folder);
        let rows: Vec<Row> = workloads(folders).iter().flat_map(|workload| rows(workload, &plan.engines)).collect();
        let records = folder.runs.iter().map(|run| &run.record).filter(|record| record.failure.is_none()).collect();
        (!rows.is_empty()).then(|| Engines { names: &plan.engines, records, rows, differences: differences(folder) })
    }

    /// The table as Markdown, with an introduction.
    pub fn markdown(&self) -> String {
        let text = format!("{}\n\n{}{}", self.introduction(str::to_string), head(), self.markdown_rows());
        let list = |title: &str, lines: &[String]| match lines {
            [] => String::new(),
            lines => format!("\n{title}\n\n{}", lines.iter().map(|line| format!("* {line}\n")).collect::<String>()),
        };
        text + &list(&self.title_of_behind(), &self.behind()) + &list("Settings without a counterpart:", &self.ignored())
    }

    /// Rows of the table in Markdown, for [`head`].
    pub fn markdown_rows(&self) -> String {
        let row = |row: &Row| {
            let cells: String = (0..COMPARED.len()).map(|c| format!(" {} |", row.medians(c))).collect();
            format!("| {} |{cells}\n", row.workload)
        };
        self.rows.iter().map(row).collect()
    }

    /// The table as a section of a page.
    pub fn html(&self) -> String {
        let head: String = COMPARED.iter().map(|(m, _)| format!("<th title=\"{}\">{}</th>", escape(m.meaning), escape(m.name))).collect();
        let row = |row: &Row| {
            let cell = |(place, (measure, _)): (usize, &(Measure<OfPart>, bool))| {
                format!("<td data-head=\"{}\">{}</td>", escape(measure.name), escape(&row.medians(place)))
            };
            let cells: String = COMPARED.iter().enumerate().map(cell).collect();
            format!("<tr><th>{}</th>{cells}</tr>\n", escape(&row.workload))
        };
        let rows: String = self.rows.iter().map(row).collect();
        let introduction = self.introduction(|name| engine(name).to_string());
        format!(
            "<section><h2>Side by side</h2>\n<p>{}</p>\n<table class=\"stack\"><thead><tr><th>workload</th>{head}</tr></thead>\
             <tbody>\n{rows}</tbody></table></section>\n",
            escape(&introduction)
        )
    }

    /// `name`: an engine's name in the document.
    fn introduction(&self, name: impl Fn(&str) -> String) -> String {
        let all = |of: fn(&RunRecord) -> &str| self.records.iter().map(|record| of(record)).collect::<BTreeSet<_>>();
        let repeats = self.rows.iter().flat_map(|row| row.figures.iter().flatten().map(Vec::len));
        let (least, most) = repeats.filter(|n| *n > 0).fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        let repeats = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        format!(
            "{} ({}). Medians of {repeats} repeats. Write amplification is what the process handed to write calls per byte of the user \
             (of SinterDB its own account, if that is more), with what compactions owed; space is the store's per live byte of the user.",
            self.names.iter().map(|engine| name(engine)).collect::<Vec<_>>().join(" / "),
            all(|record| &record.engine_version).into_iter().collect::<Vec<_>>().join(", ")
        )
    }

    fn title_of_behind(&self) -> String {
        let first = self.names.first().map_or("", String::as_str);
        format!(
            "Where the median of {first} is behind by more than 2 %, with the 95 % interval of the ratio of means from three repeats on:"
        )
    }

    /// Sentences that set the first engine against each other one, by the medians of all workloads.
    pub fn sentences(&self) -> Vec<String> {
        let first = self.names.first().map_or("", |name| self::engine(name));
        let others = self.names.iter().enumerate().skip(1);
        let against = |(place, name): (usize, &String)| {
            let other = self::engine(name);
            let [rate, latency, written, space, memory] = COMPARED else { return Vec::new() };
            let of = |column: &(Measure<OfPart>, bool)| self.ratios(column, place);
            let bytes = [
                of(written).map(|(ratios, better)| format!("it writes {ratios} times as many bytes{better}")),
                of(space).map(|(ratios, better)| format!("it takes {ratios} times as much space{better}")),
                of(memory).map(|(ratios, better)| format!("its memory peaks at {ratios} times as much{better}")),
            ];
            let bytes = bytes.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let sentences = [
                of(rate).map(|(ratios, better)| format!("{first} does {ratios} times as many operations per second as {other}{better}.")),
                of(latency).map(|(ratios, better)| format!("Its 99th percentile of latency is {ratios} times that of {other}{better}.")),
                (!bytes.is_empty()).then(|| format!("Against {other}, {bytes}.")),
            ];
            sentences.into_iter().flatten().collect()
        };
        others.flat_map(against).collect()
    }

    /// Ratios of the first engine's medians to another one's over all workloads, and of several the number in which it is better.
    fn ratios(&self, (measure, more): &(Measure<OfPart>, bool), other: usize) -> Option<(String, String)> {
        let both = |row: &Row| Some((row.median(measure.name, 0)?.0, row.median(measure.name, other)?.0));
        let ratios: Vec<f64> = self.rows.iter().filter_map(both).filter(|(_, y)| *y > 0.0).map(|(x, y)| x / y).collect();
        let better = ratios.iter().filter(|ratio| if *more { **ratio > 1.0 } else { **ratio < 1.0 }).count();
        let range = range(ratios.iter().copied())?;
        let better = if ratios.len() < 2 { String::new() } else { format!(" (better in {better} of {} workloads)", ratios.len()) };
        Some((range, better))
    }

    /// Figures in which SinterDB is behind, a line each.
    fn behind(&self) -> Vec<String> {
        self.differences.iter().filter(|difference| difference.is_behind()).map(Difference::to_string).collect()
    }

    fn ignored(&self) -> Vec<String> {
        let mut by_engine: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for record in &self.records {
            by_engine.entry(&record.spec.engine.name).or_default().extend(record.ignored_settings.iter().map(String::as_str));
        }
        let lines = by_engine.iter().flat_map(|(engine, settings)| settings.iter().map(move |setting| format!("{engine}: `{setting}`")));
        lines.collect()
    }
}

/// Names of the columns.
pub fn columns() -> impl Iterator<Item = &'static str> {
    COMPARED.iter().map(|(measure, _)| measure.name)
}

/// First two lines of the table in Markdown.
pub fn head() -> String {
    let names: String = COMPARED.iter().map(|(measure, _)| format!(" {} |", measure.name)).collect();
    format!("| workload |{names}\n|---|{}\n", "---|".repeat(COMPARED.len()))
}

/// Rows of a workload, one for each measure.
fn rows(workload: &Workload<'_>, engines: &[String]) -> Vec<Row> {
    let values = |name: &str, engine: &str, of: OfPart| workload.of(engine).flat_map(|cell| cell.values(name, of)).collect();
    let row = |(name, _): (String, Vec<String>)| {
        let column = |(measure, _): &(Measure<OfPart>, bool)| engines.iter().map(|engine| values(&name, engine, measure.of)).collect();
        Row { figures: COMPARED.iter().map(column).collect(), workload: name }
    };
    workload.parts().into_iter().map(row).collect()
}

impl Row {
    /// Median of an engine in the column of this name, and the number of its runs.
    pub fn median(&self, measure: &str, engine: usize) -> Option<(f64, usize)> {
        let column = COMPARED.iter().position(|(column, _)| column.name == measure)?;
        let values = self.figures[column].get(engine)?;
        Some((median(values)?, values.len()))
    }

    /// The medians of a column: `1,000 / 900 / -`; a `-` alone where no engine has one.
    fn medians(&self, column: usize) -> String {
        let medians: Vec<Option<f64>> = self.figures[column].iter().map(|values| median(values)).collect();
        match medians.iter().all(Option::is_none) {
            true => "-".into(),
            false => medians.into_iter().map(|m| m.map_or("-".into(), number)).collect::<Vec<_>>().join(" / "),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::measures::Part;
    use super::*;
    use crate::result::{CauseBytes, Machine, Memory, Space, Written};
    use crate::run::{Confinement, Limits, PhaseRecord, RECORD_VERSION, RunSpec, Source};
    use crate::study::catalogue;
    use crate::study::folder;
    use crate::study::plan::{Permits, Request, Scale, Study};
    use crate::study::servers::Servers;

    pub fn study(name: &str, engines: &[&str], repeats: u32) -> Study {
        let engines = engines.iter().map(|engine| engine.to_string()).collect();
        let (limits, permits, servers) = (Limits::default(), Permits::all(), Servers::all());
        let request = Request { engines, repeats: Some(repeats), seed: 1, directory: "scratch".into(), limits, permits, servers };
        catalogue::study(name, Scale::Ci, &request).unwrap()
    }

    /// An invented record: every phase took `seconds` for 1000 operations and handed 400 bytes to write calls for 100 of the user's,
    /// compactions included.
    pub fn record(spec: RunSpec, seconds: f64) -> RunRecord {
        let phase = |name: &str| {
            let debts = name.ends_with("debts");
            PhaseRecord {
                name: name.to_string(),
                operations: if debts { 0 } else { 1000 },
                seconds,
                written: Written { user_bytes: if debts { 0 } else { 100 }, ..Written::default() },
                process_written_bytes: 200,
                space: Space { space_amplification: Some(0.75), ..Space::default() },
                memory: Memory { peak_resident_bytes: 10 << 20, ..Memory::default() },
                ..PhaseRecord::default()
            }
        };
        RunRecord {
            version: RECORD_VERSION,
            phases: spec.workload.phases.iter().map(|p| phase(&p.name)).collect(),
            engine_version: format!("{} 9", spec.engine.name),
            spec,
            commit: None,
            ignored_settings: vec!["speed | <b>: there is one".into()],
            compression: BTreeMap::new(),
            started_unix: 0,
            machine: Machine::default(),
            confinement: Confinement::default(),
            written_source: Source::Engine,
            failure: None,
            out_of_room: false,
            killed: None,
        }
    }

    /// The folder of a study whose runs took `seconds` on an engine in each repeat.
    pub fn folder_of(study: &Study, seconds: impl Fn(&str, u32) -> Option<f64>) -> (tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        let results = folder::Folder::create(directory.path(), study).unwrap();
        for run in study.runs() {
            if let Some(seconds) = seconds(run.engine, run.repeat) {
                results.keep(&run, &record(study.spec(&run).unwrap(), seconds)).unwrap();
            }
        }
        let read = Folder::read(directory.path()).unwrap();
        (directory, read)
    }

    #[test]
    fn a_row_has_the_medians_of_all_engines() {
        let study = study("side-by-side", &["sinter", "rocksdb", "fjall"], 3);
        // fjall did not run; sinter is twice as fast as rocksdb.
        let seconds = |engine: &str, repeat: u32| match engine {
            "sinter" => Some([0.1, 0.5, 0.51][repeat as usize]),
            "rocksdb" => Some([1.01, 1.0, 9.0][repeat as usize]),
            _ => None,
        };
        let (_directory, folder) = folder_of(&study, seconds);
        let engines = Engines::of(&folder).unwrap();
        let text = engines.markdown();
        assert!(text.starts_with("sinter / rocksdb / fjall (rocksdb 9, sinter 9). Medians of 3 repeats."), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 14, "{text}");
        assert_eq!(rows[1], "| fillseq | 2,000 / 990 / - | - | 4.00 / 4.00 / - | 0.750 / 0.750 / - | 10.0 / 10.0 / - |");
        let name = |row: &&str| row.split('|').nth(1).unwrap().trim().to_owned();
        let names: Vec<String> = rows[2..].iter().map(name).collect();
        let reads = ["readrandom", "readmissing", "seekrandom", "readwhilewriting"];
        let ycsb = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"];
        assert_eq!(names, [&["fillrandom", "overwrite"][..], &reads, &ycsb].concat(), "in the order in which they ran");
        assert!(text.contains("* rocksdb: `speed | <b>: there is one`\n"), "{text}");
        assert!(!text.contains("behind"), "{text}");
        let html = engines.html();
        assert!(
            html.contains("<td data-head=\"operations/s\">2,000 / 990 / -</td>"),
            "on a narrow screen each figure has its head: {html}"
        );
        assert!(html.contains("<p>SinterDB / RocksDB / fjall (") && !html.contains("class=\"scroll\""), "{html}");
        let said = engines.sentences();
        assert_eq!(said.len(), 2, "no latency was measured: {said:?}");
        assert_eq!(said[0], "SinterDB does 2.02 times as many operations per second as RocksDB (better in 13 of 13 workloads).");
        assert!(said[1].ends_with("its memory peaks at 1.00 times as much (better in 0 of 13 workloads)."), "{said:?}");
    }

    #[test]
    fn of_two_figures_of_bytes_the_table_shows_the_worse_one() {
        let study = study("side-by-side", &["sinter", "rocksdb"], 1);
        let amplification = |engine: &str, accounted: u64| {
            let run = study.runs().into_iter().find(|run| run.engine == engine).unwrap();
            let mut record = record(study.spec(&run).unwrap(), 1.0);
            record.phases[0].written.by_cause = [accounted - 50, 50].map(|bytes| CauseBytes { cause: "wal".into(), bytes }).into();
            let phases = [record.phases[0].name.clone()];
            (COMPARED[2].0.of)(&Part { run: &record, phases: &phases })
        };
        assert_eq!([150, 250].map(|bytes| amplification("sinter", bytes)), [Some(2.0), Some(2.5)], "200 bytes are known from write calls");
        assert_eq!([150, 250].map(|bytes| amplification("rocksdb", bytes)), [Some(2.0), Some(2.0)]);
    }

    #[test]
    fn it_says_where_the_first_engine_is_behind() {
        let study = study("side-by-side", &["sinter", "rocksdb", "fjall"], 3);
        let seconds = |engine: &str, repeat: u32| {
            let noise = f64::from(repeat) / 1000.0;
            Some(if engine == "rocksdb" { 1.0 } else { 2.0 } + noise)
        };
        let (_directory, folder) = folder_of(&study, seconds);
        let behind = Engines::of(&folder).unwrap().behind();
        // In all other figures, and with fjall, it is equal. The loads of three cells are behind, too, which no row shows.
        assert_eq!(behind.len(), 13 + 3 + 1, "{behind:?}");
        assert!(behind[0].starts_with("fillseq, operations/s: less than RocksDB by a factor of 2.00 ("), "{}", behind[0]);
        assert!(behind[0].ends_with("), 500 against 999") || behind[0].ends_with("), 500 against 1,000"), "{}", behind[0]);
        assert!(behind.iter().any(|line| line.starts_with("YCSB E: load, operations/s: less than RocksDB")), "{behind:?}");
        let (_directory, once) = folder_of(&self::study("side-by-side", &["sinter", "rocksdb"], 1), seconds);
        let behind = Engines::of(&once).unwrap().behind();
        assert_eq!(
            behind[0], "fillseq, operations/s: less than RocksDB by a factor of 2.00 (one run), 500 against 1,000",
            "no interval, and said so"
        );
    }

    #[test]
    fn studies_with_claims_have_verdicts_instead() {
        let study = study("compaction-wal-waf", &["sinter"], 1);
        let (_directory, folder) = folder_of(&study, |_, _| Some(1.0));
        assert!(Engines::of(&folder).is_none());
        let (_directory, nothing) = folder_of(&self::study("side-by-side", &["sinter"], 1), |_, _| None);
        assert!(Engines::of(&nothing).is_none());
    }
}
