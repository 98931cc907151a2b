//! Reports from outside: made-up result folders in, pages and tables out. The pages stay in cargo's directory for temporary files of
//! tests, where `scripts/pages` opens them in a browser.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fixture;
mod folders;

use serde_json::Value;
use sinter_lab::published::published;
use sinter_lab::report::words::Words;
use sinter_lab::report::{Failure, compare, write};
use sinter_lab::result::LevelResult;
use sinter_lab::run::{PhaseRecord, RunRecord};
use sinter_lab::study::archive::archive;
use sinter_lab::study::folder::Folder;
use sinter_lab::study::metric::Metric;
use sinter_lab::study::plan::{Scale, Study};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const MIB: f64 = 1_048_576.0;

/// A new, empty folder for pages that are kept.
fn kept(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn records(folder: &Path) -> BTreeMap<usize, RunRecord> {
    let files = fs::read_dir(folder.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let numbered =
        |file: PathBuf| (file.file_stem().unwrap().to_str().unwrap().parse().unwrap(), serde_json::from_str(&read(&file)).unwrap());
    files.map(numbered).collect()
}

/// The bulk of a page: its tables and the data of its charts.
fn bulk(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"bulk\">").unwrap();
    serde_json::from_str(&fixture::unpacked(rest.split_once("</script>").unwrap().0)).unwrap()
}

fn figures(page: &str) -> Vec<Value> {
    bulk(page)["figures"].as_array().unwrap().clone()
}

/// The page as the reader sees it, with its tables in the place of the bulk.
fn visible(page: &str) -> String {
    let (before, rest) = page.split_once("<script type=\"text/plain\" id=\"bulk\">").unwrap();
    format!("{before}{}{}", bulk(page)["html"].as_str().unwrap(), rest.split_once("</script>").unwrap().1)
}

/// The name by which the program knows an engine of the page.
fn known(name: &str) -> &str {
    match name {
        "SinterDB" => "sinter",
        "RocksDB" => "rocksdb",
        other => panic!("no engine {other:?}"),
    }
}

/// A short name of a study in words.
fn said(study: &str, name: &str) -> String {
    Words::of(published(study).as_ref()).say(name)
}

/// Cell and engine of a line.
fn cell_of(trace: &Value) -> (String, String) {
    (whole(&trace["panel"]), known(trace["name"].as_str().unwrap()).to_owned())
}

fn floats(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-3, "{found} is not {expected}");
}

/// The whole study with its page, made once.
struct Sample {
    folder: PathBuf,
    study: Study,
    records: BTreeMap<usize, RunRecord>,
    page: String,
    /// The page with its bulk unpacked.
    text: String,
    figures: Vec<Value>,
    csv: String,
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let folder = kept("study").join("results");
        let study = fixture::study(3);
        fixture::write_study(&folder, &study, "aaaaaaaaaaaaaaaaaaaa", 1.0);
        let page = read(&write(&folder).unwrap());
        let csv = read(&folder.join("results.csv"));
        Sample { study, records: records(&folder), figures: figures(&page), text: visible(&page), page, csv, folder }
    })
}

impl Sample {
    fn figure(&self, id: &str) -> &Value {
        self.figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no chart {id}"))
    }

    /// A figure of all repeats of a cell on an engine.
    fn values(&self, cell: &str, engine: &str, of: impl Fn(&RunRecord) -> f64) -> Vec<f64> {
        let runs = self.study.runs();
        let mine = runs.iter().filter(|run| run.cell == cell && run.engine == engine);
        mine.map(|run| of(&self.records[&run.number])).collect()
    }

    /// Cell names of a workload, by their labels in the chart.
    fn cells(&self, workload: &str) -> BTreeMap<String, String> {
        let mine = self.study.cells.iter().filter(|cell| cell.workload.name == workload);
        mine.map(|cell| (said(&self.study.name, &cell.name).replace(' ', ""), cell.name.clone())).collect()
    }

    /// Workloads in the order of the page.
    fn workloads(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for cell in &self.study.cells {
            if !names.contains(&cell.workload.name) {
                names.push(cell.workload.name.clone());
            }
        }
        names
    }
}

fn phase<'a>(record: &'a RunRecord, name: &str) -> &'a PhaseRecord {
    record.phases.iter().find(|phase| phase.name == name).unwrap()
}

/// The label without its line breaks.
fn whole(label: &Value) -> String {
    label.as_str().unwrap().replace("<br>", "").replace(' ', "")
}

/// Compares every bar of a chart with `expected(cell, engine)`; returns the number of bars.
fn check_bars(sample: &Sample, workload: &str, id: &str, of: impl Fn(&RunRecord) -> f64) -> usize {
    let cells = sample.cells(workload);
    let mut seen = 0;
    for trace in sample.figure(id)["data"].as_array().unwrap() {
        let engine = known(trace["name"].as_str().unwrap());
        for (place, (label, x)) in trace["y"].as_array().unwrap().iter().zip(floats(&trace["x"])).enumerate() {
            let values = sample.values(&cells[&whole(label)], engine, &of);
            near(x, mean(&values));
            let (up, down) = (floats(&trace["error_x"]["array"])[place], floats(&trace["error_x"]["arrayminus"])[place]);
            let spread = values.iter().copied().fold(0.0, f64::max) - values.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(up > 0.0 && up < 3.0 * spread && down > 0.0, "{up} and {down} around {values:?}");
            seen += 1;
        }
    }
    seen
}

#[test]
fn bars_are_the_means_of_the_records() {
    let sample = sample();
    let workload = &sample.workloads()[0];
    let cells = sample.cells(workload).len() * 2;
    let together =
        |record: &RunRecord, of: fn(&PhaseRecord) -> f64| of(phase(record, "fillrandom")) + of(phase(record, "fillrandom debts"));
    let user = |p: &PhaseRecord| p.written.user_bytes as f64;
    let write = |r: &RunRecord| together(r, |p| p.written.total_bytes as f64) / together(r, user);
    assert_eq!(check_bars(sample, workload, "w0-0-write", write), cells);
    let space = |r: &RunRecord| phase(r, "fillrandom debts").space.space_amplification.unwrap();
    assert_eq!(check_bars(sample, workload, "w0-0-space", space), cells);
    let memory = |p: &PhaseRecord| p.memory.peak_resident_bytes as f64 / MIB;
    let peak = |r: &RunRecord| memory(phase(r, "fillrandom")).max(memory(phase(r, "fillrandom debts")));
    assert_eq!(check_bars(sample, workload, "w0-0-memory", peak), cells);
    assert_eq!(check_bars(sample, workload, "w0-phase-0-rate", |r| phase(r, "fillrandom").operations_per_second), cells);
    let p99 = |r: &RunRecord| phase(r, "overwrite").latency.as_ref().unwrap().p99 as f64 / 1000.0;
    assert_eq!(check_bars(sample, workload, "w0-phase-2-p99", p99), cells);
}

#[test]
fn a_study_has_the_figures_that_it_wants() {
    let folder = kept("compression").join("results");
    let study = fixture::named("adaptive-compression", Scale::Small, 2);
    fixture::write_study(&folder, &study, "0123456789abcdef", 1.0);
    let page = read(&write(&folder).unwrap());
    let text = visible(&page);
    assert!(text.contains("<b>Not run here:</b> runs of A with 64MiB, 128MiB, 256MiB of memory are not permitted (&lt;no cgroup&gt;)"));
    let had = "<td class=\"text\">default: kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kZSTD:kZSTD:kZSTD</td>";
    assert!(text.contains("Compression that the engines had") && text.contains(had));
    let chosen = "readrandom: default L0 none, L6 zstd";
    assert!(text.contains(chosen), "what auto chose, phase by phase");
    let figures = figures(&page);
    let drawn = figures.iter().find(|figure| figure["id"] == "w0-3-drawn-4").unwrap();
    let records = records(&folder);
    // CPU time per operation of A's reads: a bar for each cell and engine, the mean of its repeats.
    let runs = study.runs();
    let of = |cell: &str, engine: &str| {
        let mine = runs.iter().filter(|run| run.cell == cell && run.engine == engine).map(|run| phase(&records[&run.number], "readrandom"));
        mean(&mine.map(|phase| phase.cpu_seconds * 1e6 / phase.operations as f64).collect::<Vec<_>>())
    };
    let mut bars = 0;
    for trace in drawn["data"].as_array().unwrap() {
        let engine = known(trace["name"].as_str().unwrap());
        for (label, x) in trace["y"].as_array().unwrap().iter().zip(floats(&trace["x"])) {
            let cell = study.cells.iter().find(|cell| said(&study.name, &cell.name).replace(' ', "") == whole(label)).unwrap();
            near(x, of(&cell.name, engine));
            bars += 1;
        }
    }
    assert_eq!(bars, 5 * 2 + 4 * 2, "auto is SinterDB's alone");
    assert!(sample().text.matches("-drawn-").count() == 0, "others want no more than they had");
}

#[test]
fn stacks_are_the_ledger() {
    let sample = sample();
    let workload = &sample.workloads()[0];
    let traces = sample.figure("w0-1-causes")["data"].as_array().unwrap();
    let names: Vec<&str> = traces.iter().map(|trace| trace["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wal", "flush", "compaction to L1", "compaction to L2"], "reasons of one level are together");
    for (place, label) in traces[0]["y"].as_array().unwrap().iter().enumerate() {
        let label = whole(label);
        let (name, cell) = label.split_once(':').unwrap();
        let engine = known(name);
        let cell = &sample.cells(workload)[cell];
        let mut stack = 0.0;
        for trace in traces {
            let cause = trace["name"].as_str().unwrap();
            let share = |record: &RunRecord| {
                let phases = ["overwrite", "overwrite debts"].map(|name| phase(record, name));
                let lines = phases.iter().flat_map(|phase| &phase.written.by_cause).filter(|line| line.cause.starts_with(cause));
                lines.map(|line| line.bytes).sum::<u64>() as f64 / phases.iter().map(|phase| phase.written.user_bytes).sum::<u64>() as f64
            };
            let expected = mean(&sample.values(cell, engine, share));
            near(floats(&trace["x"])[place], expected);
            stack += expected;
        }
        let bars = sample.figure("w0-1-write")["data"].as_array().unwrap().iter().find(|trace| trace["name"] == name).unwrap();
        let at = bars["y"].as_array().unwrap().iter().position(|y| whole(y) == said(&sample.study.name, cell).replace(' ', "")).unwrap();
        near(stack, floats(&bars["x"])[at]);
    }
}

#[test]
fn lines_are_the_seconds_of_the_median_run() {
    let sample = sample();
    let cells = sample.cells(&sample.workloads()[0]);
    let runs = sample.study.runs();
    let lines = sample.figure("w0-phase-0-series-operations")["data"].as_array().unwrap();
    assert_eq!(lines.len(), cells.len() * 2);
    for trace in lines {
        let (cell, engine) = cell_of(trace);
        let mine = runs.iter().filter(|run| run.cell == cells[&cell] && run.engine == engine);
        let mut phases: Vec<&PhaseRecord> = mine.map(|run| phase(&sample.records[&run.number], "fillrandom")).collect();
        phases.sort_by(|a, b| a.operations_per_second.total_cmp(&b.operations_per_second));
        let series = &phases[1].series;
        let (x, y) = (floats(&trace["x"]), floats(&trace["y"]));
        assert_eq!(x.len(), series.len());
        let mut before = 0.0;
        for (second, (x, y)) in series.iter().zip(x.into_iter().zip(y)) {
            near(x, second.at);
            near(y, second.operations as f64 / (second.at - before));
            before = second.at;
        }
    }
}

#[test]
fn long_series_are_drawn_in_fewer_points() {
    let folder = kept("long").join("results");
    let mut record = fixture::sweep().swap_remove(0);
    let run = &mut record.phases[0];
    let second = run.series[0].clone();
    run.series = (1..=1000).map(|at| sinter_lab::run::Second { at: f64::from(at), operations: 7, ..second.clone() }).collect();
    run.series[499].latency_ns[1] = Some(9_000_000);
    // The first two points, and a second of the third.
    run.series[..11].iter_mut().for_each(|second| second.latency_ns = [None; 4]);
    run.levels.insert("default".into(), vec![LevelResult { level: 0, runs: 1, files: 1, bytes: 5 }]);
    fixture::write_runs(&folder, &[record]);
    let figures = figures(&read(&write(&folder).unwrap()));
    let trace = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap()["data"][0].clone();
    let operations = trace("w0-phase-0-series-operations");
    assert_eq!(floats(&operations["y"]), [7.0; 200], "a mean stays what it is");
    assert_eq!(floats(&operations["x"])[199], 1000.0);
    let p99 = trace("w0-phase-0-series-p99");
    let p99 = p99["y"].as_array().unwrap();
    assert!(p99.iter().any(|y| y.as_f64() == Some(9000.0)), "a peak stays visible");
    assert!(p99.iter().map(|y| y.is_null()).eq((0..200).map(|point| point < 2)), "no operations, no percentile");
}

/// A line of one point would be blank.
#[test]
fn short_phases_are_marks_or_nothing() {
    let folder = kept("short").join("results");
    let mut records = fixture::sweep();
    records.truncate(3);
    records.iter_mut().for_each(|record| record.phases[0].series.truncate(1));
    records[0].phases[2].series.truncate(1);
    records[1].phases[2].series.truncate(1);
    fixture::write_runs(&folder, &records);
    let figures = figures(&read(&write(&folder).unwrap()));
    let series = |id: &str| figures.iter().find(|figure| figure["id"] == id).map(|figure| figure["data"].clone());
    assert_eq!(series("w0-phase-0-series-operations"), None);
    let modes: Vec<Value> = series("w0-phase-2-series-operations").unwrap().as_array().unwrap().iter().map(|t| t["mode"].clone()).collect();
    assert_eq!(modes, ["markers", "lines"]);
}

#[test]
fn percentile_curves_have_all_calls() {
    let sample = sample();
    let cells = sample.cells(&sample.workloads()[0]);
    for trace in sample.figure("w0-phase-0-percentiles")["data"].as_array().unwrap() {
        let (cell, engine) = cell_of(trace);
        let latency = |of: fn(&sinter_lab::result::Latency) -> u64| {
            sample.values(&cells[&cell], &engine, |r| of(phase(r, "fillrandom").latency.as_ref().unwrap()) as f64)
        };
        let calls: f64 = latency(|l| l.count).iter().sum();
        let (x, y) = (floats(&trace["x"]), floats(&trace["y"]));
        assert!(x.is_sorted() && y.is_sorted() && x[0] >= 1.0);
        near(*x.last().unwrap(), calls);
        // Half of the calls end between the smallest and the greatest median of the repeats, but for the width of a bucket.
        let medians = latency(|l| l.p50);
        let half = y[x.iter().position(|x| *x >= 2.0).unwrap()] * 1000.0;
        let (least, most) = (medians.iter().copied().fold(f64::INFINITY, f64::min), medians.iter().copied().fold(0.0, f64::max));
        assert!(half >= least / 1.25 && half <= most * 1.5, "{half} is not between {least} and {most}");
    }
}

#[test]
fn sweeps_are_grids_of_means() {
    let sample = sample();
    let sweeps: Vec<&Value> = sample.figures.iter().filter(|figure| figure["id"].as_str().unwrap().starts_with("sweep-")).collect();
    assert_eq!(sweeps.len(), 8, "two engines, two measures, two amplifications");
    let map = &sweeps[0]["data"][0];
    assert_eq!((map["x"].as_array().unwrap().len(), map["y"].as_array().unwrap().len()), (6, 3), "shapes by values");
    assert_eq!(sweeps[0]["layout"]["xaxis"]["title"]["text"], "shape of the tree");
    for (row, z) in map["y"].as_array().unwrap().iter().zip(map["z"].as_array().unwrap()) {
        let value = row.as_str().unwrap().replace("<br>", " ");
        let value = value.strip_prefix("size of values ").unwrap().strip_suffix(" KiB").unwrap().parse::<u64>().unwrap() << 10;
        for (shape, z) in map["x"].as_array().unwrap().iter().zip(floats(z)) {
            let shape = shape.as_str().unwrap().replace("<br>", " ");
            let is_shown =
                |name: &str| name.ends_with(&format!(", {value} B")) && said(&sample.study.name, name).contains(&format!(": {shape}, v"));
            let cell = sample.study.cells.iter().find(|cell| is_shown(&cell.name)).unwrap().name.clone();
            let write = |r: &RunRecord| {
                let phases = ["fillrandom", "fillrandom debts"].map(|name| phase(r, name));
                let sum = |of: fn(&PhaseRecord) -> u64| phases.iter().map(|p| of(p)).sum::<u64>() as f64;
                sum(|p| p.written.total_bytes) / sum(|p| p.written.user_bytes)
            };
            near(z, mean(&sample.values(&cell, "rocksdb", write)));
        }
    }
}

#[test]
fn every_chart_has_an_element_of_its_own() {
    let sample = sample();
    let mut ids: Vec<&str> = sample.figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids.windows(2).find(|pair| pair[0] == pair[1]), None);
    ids.iter().for_each(|id| assert_eq!(sample.text.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}"));
}

#[test]
fn write_amplification_never_stands_alone() {
    let sample = sample();
    let ids: Vec<&str> = sample.figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    for (place, id) in ids.iter().enumerate().filter(|(_, id)| id.ends_with("-write")) {
        assert_eq!(ids[place + 1], id.replace("-write", "-space"));
    }
    let titles: Vec<&str> = sample.text.split("<figcaption><b>").skip(1).map(|rest| rest.split_once("</b>").unwrap().0).collect();
    for pair in titles.windows(2).filter(|pair| pair[0].ends_with("write amplification")) {
        assert_eq!(pair[1], pair[0].replace("write", "space"));
    }
    for head in sample.text.split("<thead>").skip(1).map(|rest| rest.split_once("</thead>").unwrap().0) {
        assert_eq!(head.contains(">write amplification<"), head.contains(">space amplification<"), "{head}");
    }
}

#[test]
fn the_page_says_what_was_asked_run_and_found() {
    let sample = sample();
    let text = &sample.text;
    let expected = [
        "<h1>Compaction style, write-ahead log and write amplification</h1>",
        "scale small · 2 * A Processor @ 2 GHz",
        "What was found",
        "The original's figures and ours",
        "What was asked",
        "A: does the write-ahead log&#39;s setting interact",
        "Verdicts",
        "2 * A Processor @ 2 GHz, 8.0 GiB, Linux 6.12.0, ext4 on /dev/sda1",
        "aaaaaaaaaaaaaaaaaaaa",
        "RocksDB: rocksdb 11.1.1",
        "2026-11-20",
        "RocksDB has no counterpart for <code>max_compaction_bytes: &lt;ignored&gt;</code>",
        "Bytes written have different sources here and are not the same to a percent.",
        "engine.families.default.settings.max_bytes_for_level_base",
    ];
    expected.iter().for_each(|part| assert!(text.contains(part), "{part}"));
    assert!(text.contains(">compaction to L2, marked</th>"), "the ledger has every reason");
    let verdicts = ["accepted", "rejected", "undecided"].map(|name| text.matches(&format!("<article class=\"verdict {name}\">")).count());
    assert_eq!(verdicts.iter().sum::<usize>(), 2 * sample.study.hypotheses.len());
}

/// Every figure of the original is on the page, with the original's values and ours in colours of their own, or with a reason.
#[test]
fn figures_of_the_original_stand_beside_ours() {
    let sample = sample();
    let published = published("compaction-wal-waf").unwrap();
    for figure in &published.figures {
        assert_eq!(sample.page.matches(&format!(" id=\"{}\"", figure.id)).count(), 1, "{}", figure.id);
        assert!(figure.why.as_ref().is_none_or(|why| sample.page.contains(why.as_str())), "{}", figure.id);
    }
    let (_, rest) = sample.page.split_once("id=\"profiles\"").unwrap();
    let bars = rest.split_once("</figure>").unwrap().0;
    assert_eq!(["original", "sinter", "rocksdb"].map(|class| bars.matches(&format!("<rect class=\"{class}\"")).count()), [4, 4, 4]);
    assert!(bars.contains(">65 % (about 35 % less)</text>") && !bars.contains("not run"));
    // Ours is the ratio of the means of the records.
    let total =
        |r: &RunRecord| ["fillrandom", "fillrandom debts"].map(|name| phase(r, name).written.total_bytes as f64).iter().sum::<f64>();
    let user = |r: &RunRecord| phase(r, "fillrandom").written.user_bytes as f64 + phase(r, "fillrandom debts").written.user_bytes as f64;
    let amplification = |cell: &str| mean(&sample.values(cell, "sinter", |r| total(r) / user(r)));
    let percent = 100.0 * amplification("A leveled perf") / amplification("A leveled stable");
    assert!(bars.contains(&format!(">{} %</text>", format!("{percent:.1}").trim_end_matches(".0"))), "{percent} in {bars}");
    assert!(sample.page.contains("<svg class=\"lines\"") && sample.page.contains("<polyline class=\"rocksdb\""));
    // The made-up runs count no flushes.
    assert!(sample.page.contains("<li id=\"flushes\">Flushes by style and profile (finding A, explanation): not counted in these runs."));
    assert!(sample.page.contains(" id=\"profiles\" data-ours>") && sample.page.contains(">size of values</text>"));
    assert_eq!(sample.page.matches("<style>").count(), 1, "a style inside of a picture would be one of the whole page");
}

/// Sentences on what was found follow from verdicts and records; the smallest scale decides nothing, and the page says so.
#[test]
fn sentences_follow_from_the_verdicts() {
    let (_, rest) = sample().page.split_once("<ul class=\"found\">").unwrap();
    let found = rest.split_once("</ul>").unwrap().0;
    assert!((3..=6).contains(&found.matches("<li>").count()), "{found}");
    assert!(found.contains("Leveled compaction writes more than universal everywhere, as in the original: "), "{found}");
    assert!(!found.contains('{'), "{found}");
    let folder = kept("ci").join("results");
    fixture::write_study(&folder, &fixture::named("compaction-wal-waf", Scale::Ci, 2), "aaaaaaaaaaaaaaaaaaaa", 1.0);
    let page = read(&write(&folder).unwrap());
    assert!(page.contains("It decides nothing.") && page.contains("<p class=\"origin\">scale ci · "));
    assert!(page.contains(" is not decided (2 runs): ") && !page.contains("<td class=\"accepted\""));
}

#[test]
fn the_page_holds_all_it_needs() {
    let sample = sample();
    for outside in ["http://", "https://", " src=", "url(", "@import"] {
        assert!(!sample.text.contains(outside), "{outside}");
    }
    assert!(sample.page.len() < 320_000, "{} bytes", sample.page.len());
    let verdicts = sample.page.matches("<article class=\"verdict ").count();
    assert_eq!(verdicts, 2 * sample.study.hypotheses.len(), "verdicts need no script");
    assert_eq!(read(&write(&sample.folder).unwrap()), sample.page, "the same records give the same page");
}

/// Fields of a line by RFC 4180.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    fields
}

#[test]
fn the_table_has_every_phase_of_every_run() {
    let sample = sample();
    let lines: Vec<Vec<String>> = sample.csv.split_terminator("\r\n").map(fields).collect();
    let phases: usize = sample.records.values().map(|record| record.phases.len()).sum();
    let measures = |number: usize| {
        let planned = sample.study.runs().into_iter().find(|run| run.number == number).unwrap();
        sample.study.cell(planned.cell, planned.engine).unwrap().measures.len()
    };
    assert_eq!(lines.len(), 1 + phases + sample.records.keys().map(|number| measures(*number)).sum::<usize>());
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let head = &lines[0];
    assert!(head.contains(&"style".into()) && head.contains(&"engine.version".into()), "what differs is a column");
    assert!(
        !head.contains(&"commit".into()) && !head.contains(&"engine.wal".into()),
        "what is the same, or follows from the cell, is none"
    );
    let column = |name: &str| lines[0].iter().position(|other| other == name).unwrap_or_else(|| panic!("no column {name}"));
    let first = &sample.records[&0];
    assert_eq!(lines[1][column("run")], "0000");
    assert_eq!(lines[1][column("written_bytes")], first.phases[0].written.total_bytes.to_string());
    near(lines[1][column("operations_per_second")].parse().unwrap(), first.phases[0].operations_per_second);
    // What verdicts compare stands once per run and measure, with the run's place in the plan.
    for planned in sample.study.runs() {
        let (cell, record) = (sample.study.cell(planned.cell, planned.engine).unwrap(), &sample.records[&planned.number]);
        let file = format!("{:04}", planned.number);
        let mine: Vec<_> = lines.iter().filter(|line| line[0] == file).collect();
        let place = |line: &[String]| (line[column("cell")].clone(), line[column("repeat")].clone());
        assert!(mine.iter().all(|line| place(line) == (cell.name.clone(), planned.repeat.to_string())), "{mine:?}");
        for (measure, phases) in &cell.measures {
            let named: Vec<_> =
                mine.iter().filter(|line| line[column("measure")] == *measure && line[column("phase")].is_empty()).collect();
            let found: Vec<f64> = named.iter().filter_map(|line| line[column("measure_write_amplification")].parse().ok()).collect();
            assert_eq!((named.len(), &named[0][column("seconds")]), (1, &String::new()));
            let rate = Metric::OperationsPerSecond.of(record, phases).unwrap();
            near(named[0][column("measure_operations_per_second")].parse().unwrap(), rate);
            let sum = |of: fn(&PhaseRecord) -> u64| phases.iter().map(|name| of(phase(record, name))).sum::<u64>() as f64;
            assert_eq!(found.len(), 1);
            near(found[0], sum(|p| p.written.total_bytes) / sum(|p| p.written.user_bytes));
        }
    }
}

#[test]
fn foreign_text_stays_text() {
    let folder = kept("hostile").join("results");
    let mut records = fixture::sweep();
    for record in &mut records {
        record.engine_version = fixture::HOSTILE.into();
        record.commit = Some(fixture::HOSTILE.into());
        record.spec.workload.name = fixture::HOSTILE.into();
        record.ignored_settings = vec![fixture::HOSTILE.into()];
        record.phases.iter_mut().for_each(|phase| phase.name = fixture::HOSTILE.into());
        let settings = &mut record.spec.engine.families[0].settings;
        let odd = format!("{}{}", settings["write_buffer_size"], fixture::HOSTILE);
        settings.insert("write_buffer_size".into(), odd);
    }
    fixture::write_runs(&folder, &records);
    let page = visible(&read(&write(&folder).unwrap()));
    assert!(!page.contains("<img") && !page.contains("onerror=\"alert"), "the text became an element");
    assert_eq!(page.matches("</script>").count(), 1, "only the page's own script ends");
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;"));
    let csv = read(&folder.join("results.csv"));
    let lines: Vec<Vec<String>> = csv.split_terminator("\r\n").map(fields).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
}
