//! Tests of the original's seconds at every scale, of streams shared by both engines, of figures read from records, and of runs that repeat
//! exactly.

use super::super::folder::Folder;
use super::super::judge::{Results, judge};
use super::super::metric::{BUDGET, Metric};
use super::super::plan::{Cell, Scale, Study};
use super::cells::name;
use super::{ALPHAS, NAME, SHARES, migration};
use crate::drive::{SinterEngine, execute};
use crate::result::{Latency, LevelResult, Space, Written};
use crate::run::{Answer, Pace, PhaseKind, PhaseRecord, RunRecord, RunSpec};
use crate::study::{catalogue, testing};
use sinterdb::settings::TierBudget;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn study(scale: Scale, engines: &[&str]) -> Study {
    catalogue::study(NAME, scale, &testing::request(engines, 3)).unwrap()
}

fn age(cell: &Cell) -> Option<&str> {
    cell.settings.families[0].settings.get("preclude_last_level_data_seconds").map(String::as_str)
}

/// Operations that last a run's time, and their pace: those of the first phase, or four fifths of the phase after a load.
fn timed(cell: &Cell) -> (u64, Pace) {
    let phases = cell.workload.phases.iter().find(|phase| phase.name != "load");
    match phases.unwrap().kind {
        PhaseKind::Run { operations: Some(operations), pace, .. } if cell.name.starts_with('3') => (operations * 4 / 5, pace),
        PhaseKind::Run { operations: Some(operations), pace, .. } => (operations, pace),
        _ => panic!("{}", cell.name),
    }
}

#[test]
fn sinterdbs_clock_has_the_seconds_of_the_original_at_every_scale() {
    for scale in Scale::ALL {
        let study = study(scale, &["sinter"]);
        assert_eq!(study.cells.len(), 3 * (5 + 5 + 6) + 4);
        for (experiment, alpha) in [1, 2, 3].into_iter().flat_map(|experiment| ALPHAS.iter().map(move |alpha| (experiment, alpha))) {
            let cells = SHARES.map(|share| study.cell(&name(experiment, alpha.name, &share.to_string()), "sinter").unwrap());
            for (cell, age_of) in cells.into_iter().zip(alpha.ages) {
                let (operations, pace) = timed(cell);
                let seconds = operations as f64 / cell.settings.operations_per_clock_second.unwrap();
                assert!((seconds - alpha.run as f64).abs() < 1e-9 && pace == Pace::Closed, "{}", cell.name);
                assert_eq!(age(cell).map_or(0, |age| age.parse().unwrap()), age_of, "{}", cell.name);
            }
        }
    }
    let ages = |alpha: &str| ALPHAS.iter().find(|other| other.name == alpha).unwrap().ages;
    assert_eq!([ages("0.5"), ages("0.9"), ages("1.2")], [[0, 20, 50, 80, 120], [0, 15, 40, 65, 120], [0, 10, 25, 40, 120]]);
}

#[test]
fn rocksdbs_ages_are_the_same_shares_of_a_run_of_known_length() {
    for scale in [Scale::Small, Scale::Paper] {
        let study = study(scale, &["sinter", "rocksdb"]);
        for cell in study.cells.iter().filter(|cell| cell.is_for("rocksdb") && !cell.name.starts_with(['1', '5'])) {
            let own = study.cell(&cell.name, "sinter").unwrap();
            let ((operations, Pace::Open(rate)), (of_own, _)) = (timed(cell), timed(own)) else { panic!("{} has no pace", cell.name) };
            let (run, clock) = (operations as f64 / rate, own.settings.operations_per_clock_second.unwrap());
            assert!((5.0..=100.0).contains(&run) && cell.settings.operations_per_clock_second.is_none());
            let of = |cell: &Cell, run: f64| age(cell).map_or(0.0, |age| age.parse::<f64>().unwrap() / run);
            let (theirs, ours) = (of(cell, run), of(own, of_own as f64 / clock));
            // The longest is longer than the run on both; all others are equal, in whole seconds and the original's rounding.
            let alike = if ours > 1.0 { theirs > 1.0 } else { (theirs - ours).abs() <= 1.0 / run + 0.0125 };
            assert!(alike, "{}: {theirs} and {ours}", cell.name);
        }
    }
}

/// The engines differ only in the pace of requests, the words for the age, and the place of the last level.
#[test]
fn both_engines_see_the_same_stream() {
    let study = study(Scale::Small, &["rocksdb", "sinter", "fjall"]);
    assert!(study.left_out.iter().any(|what| what.starts_with("fjall")));
    assert!(!study.runs().iter().any(|run| run.engine == "fjall"));
    for theirs in study.cells.iter().filter(|cell| cell.is_for("rocksdb")) {
        let own = study.cell(&theirs.name, "sinter").unwrap();
        let plain = |cell: &Cell| {
            let mut workload = cell.workload.clone();
            for phase in &mut workload.phases {
                match &mut phase.kind {
                    PhaseKind::Run { pace, .. } => *pace = Pace::Closed,
                    PhaseKind::Change { settings } => settings.clear(),
                    _ => {}
                }
            }
            workload
        };
        assert_eq!((&plain(theirs), &theirs.factors, &theirs.measures), (&plain(own), &own.factors, &own.measures));
        let without_ages = |cell: &Cell| {
            let mut settings = cell.settings.families[0].settings.clone();
            settings.retain(|name, _| !name.ends_with("_seconds"));
            settings
        };
        assert_eq!(without_ages(theirs), without_ages(own), "{}", theirs.name);
    }
}

/// An invented record with these tables on the last level, and these reads and bytes above and on it.
fn record(spec: RunSpec, tables: usize, [upper, last]: [u64; 2], [fast, slow]: [u64; 2]) -> RunRecord {
    let levels: usize = spec.engine.families[0].settings.get("num_levels").map_or(7, |levels| levels.parse().unwrap());
    let level = |level: usize, files: usize, bytes: u64| LevelResult { level, runs: 1, files, bytes };
    let mut list = vec![level(0, 1, fast / 2), level(1, 1, fast - fast / 2)];
    if tables > 0 {
        list.push(level(levels - 1, tables, slow));
    }
    let mut record = testing::record(
        spec,
        &PhaseRecord {
            operations: 1000,
            seconds: 2.0,
            levels: BTreeMap::from([("default".to_string(), list)]),
            written: Written { user_bytes: 100, total_bytes: 300, ..Written::default() },
            space: Space { store_bytes: fast + slow, ..Space::default() },
            latency: Some(Latency { p99: 1000, count: 1000, ..Latency::of(&Latency::histogram()) }),
            ..PhaseRecord::default()
        },
    );
    // Counters since the store was opened.
    for (nth, phase) in (1..).zip(&mut record.phases) {
        let names = ["memtable.hit", "l0.hit", "l2andup.hit", "last.level.read.bytes", "non.last.level.read.bytes"];
        let counts = [nth * upper / 2, nth * (upper - upper / 2), nth * last, nth * 30, nth * 70];
        let grown = names.iter().zip(counts).filter(|(_, count)| *count > 0);
        phase.tickers = grown.map(|(name, count)| (format!("rocksdb.{name}"), count)).collect();
    }
    record
}

#[test]
fn figures_of_tiers_are_read_from_levels_and_counters() {
    let study = study(Scale::Ci, &["sinter", "rocksdb"]);
    let figures = |cell: &str, engine: &str, tables: usize, bytes: [u64; 2]| {
        let run = study.runs().into_iter().find(|run| run.cell == cell && run.engine == engine).unwrap();
        let phases = study.cell(cell, engine).unwrap().measures["run"].clone();
        let record = record(study.spec(&run).unwrap(), tables, [90, 10], bytes);
        move |metric: Metric| metric.of(&record, &phases)
    };
    let of = figures("3 alpha 1.2, 20 %", "rocksdb", 3, [20, 80]);
    assert_eq!([of(Metric::FastReads), of(Metric::FastBytes), of(Metric::FastReadsInBudget)], [Some(0.9), Some(0.2), Some(0.9)]);
    assert_eq!([of(Metric::LastLevelTables), of(Metric::LastLevelByteRatio)], [Some(3.0), Some(0.3)]);
    let of = figures("3 alpha 1.2, 50 %", "sinter", 3, [30, 70]);
    assert_eq!([of(Metric::FastReads), of(Metric::FastReadsInBudget)], [Some(0.9), Some(0.0)], "a quarter is the budget");
    // A second of the scaled clock, and of the system's: two in each phase.
    let of = figures("2 alpha 0.5, 20 %", "sinter", 0, [30, 0]);
    let rate = study.cell("2 alpha 0.5, 20 %", "sinter").unwrap().settings.operations_per_clock_second.unwrap();
    assert!((of(Metric::AgeShare).unwrap() - 20.0 * rate / 2000.0).abs() < 1e-9);
    assert_eq!([of(Metric::LastLevelTables), of(Metric::FastReads)], [Some(0.0), None], "of seven levels the counters do not say");
    let of = figures("2 alpha 0.5, 20 %", "rocksdb", 0, [30, 0]);
    assert_eq!([of(Metric::AgeShare), of(Metric::RunTime)], [Some(0.25), Some(4.0)]);
    assert_eq!(figures("2 alpha 0.5, 0 %", "rocksdb", 1, [30, 70])(Metric::AgeShare), None);
}

/// `of`: tables on the last level, reads that were answered above it and below, bytes above it and on it; by cell.
fn verdicts(study: &Study, of: impl Fn(&str) -> (usize, [u64; 2], [u64; 2])) -> BTreeMap<String, Answer> {
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::create(&directory.path().join("results"), study).unwrap();
    for run in study.runs() {
        let (tables, reads, bytes) = of(run.cell);
        folder.keep(&run, &record(study.spec(&run).unwrap(), tables, reads, bytes)).unwrap();
    }
    let findings = judge(study, &Results::read(study, &folder).unwrap());
    let named = findings
        .into_iter()
        .map(|finding| (format!("{}, {}", finding.verdict.engine, finding.verdict.hypothesis), finding.verdict.verdict));
    named.collect()
}

fn answer(verdicts: &BTreeMap<String, Answer>, start: &str) -> Answer {
    *verdicts.iter().find(|(name, _)| name.starts_with(start)).unwrap_or_else(|| panic!("no {start}")).1
}

#[test]
fn the_originals_table_is_accepted_and_another_is_not() {
    let study = study(Scale::Ci, &["sinter", "rocksdb"]);
    let original = [[4, 3, 0, 0, 0], [3, 3, 2, 0, 0], [1, 1, 1, 1, 0]];
    let tables = |table: [[usize; 5]; 3], cell: &str| {
        let places = ALPHAS.iter().enumerate().flat_map(|(i, alpha)| SHARES.iter().enumerate().map(move |(j, share)| (i, alpha, j, share)));
        let mut found = places.filter(|(_, alpha, _, share)| cell == name(2, alpha.name, &share.to_string()));
        found.next().map_or(0, |(i, _, j, _)| table[i][j])
    };
    let judged = |table| verdicts(&study, |cell| (tables(table, cell), [9, 1], [10, 90]));
    let as_there = judged(original);
    for engine in ["sinter", "rocksdb"] {
        assert_eq!(answer(&as_there, &format!("{engine}, 2: tables stand")), Answer::Accepted);
        assert_eq!(answer(&as_there, &format!("{engine}, 2: the larger alpha, the longer")), Answer::Accepted);
    }
    let sooner = judged([[4, 3, 0, 0, 0], [3, 3, 2, 0, 0], [1, 1, 1, 0, 0]]);
    assert_eq!(answer(&sooner, "sinter, 2: tables stand"), Answer::Accepted);
    assert_eq!(answer(&sooner, "sinter, 2: the larger alpha, the longer"), Answer::Rejected);
    assert_eq!(answer(&judged([[4, 3, 0, 0, 1], [3, 3, 2, 0, 0], [1, 1, 1, 1, 0]]), "sinter, 2: tables stand"), Answer::Rejected);
}

/// Cells with more than a quarter of the data on the fast tier count as nothing, whether a hand chose the age or the engine.
#[test]
fn auto_is_compared_with_the_best_age_within_the_budget() {
    let study = study(Scale::Ci, &["sinter"]);
    let (near, far) = ("sinter, 4: the engine's own age", "sinter, 3: by Zipf 1.2, some age");
    let judged = |auto: ([u64; 2], [u64; 2])| {
        verdicts(&study, |cell| match cell.split_once(", ").map_or("", |(_, share)| share) {
            "0 %" => (1, [50, 50], [5, 95]),
            "20 %" => (1, [95, 5], [20, 80]),
            "auto" => (1, auto.0, auto.1),
            _ => (1, [99, 1], [40, 60]),
        })
    };
    let good = judged(([92, 8], [25, 75]));
    assert_eq!([answer(&good, near), answer(&good, far)], [Answer::Accepted; 2]);
    assert_eq!(answer(&judged(([89, 11], [25, 75])), near), Answer::Rejected, "too few reads");
    assert_eq!(answer(&judged(([99, 1], [26, 74])), near), Answer::Rejected, "over the budget");
}

/// Puts after the merge fit between the engine's budget and the bound of the claim.
#[test]
fn auto_is_told_a_budget_that_it_can_keep() {
    for scale in Scale::ALL {
        for alpha in &ALPHAS {
            let study = study(scale, &["sinter"]);
            let cell = study.cell(&name(3, alpha.name, "auto"), "sinter").unwrap();
            let told: f64 = cell.settings.families[0].settings["fast_tier_budget"].trim_end_matches('%').parse().unwrap();
            let behind = cell.workload.phases.iter().skip_while(|phase| phase.name != "merge").skip(1);
            let puts: f64 = behind
                .map(|phase| match &phase.kind {
                    PhaseKind::Run { operations: Some(operations), .. } => *operations as f64 / 2.0,
                    _ => 0.0,
                })
                .sum();
            let put = puts / cell.workload.keys as f64;
            let most = (told / 100.0 + put) / (1.0 + put);
            assert!(put > 0.0 && most <= BUDGET, "{}: {told} % and {put} of the keys", cell.name);
            assert_eq!(cell.settings.options().unwrap().families[0].1.fast_tier_budget, TierBudget::Percent(told));
        }
    }
}

/// A database without threads, with a clock driven by operations, repeats exactly: equal specs leave equal trees, written by equal
/// compactions.
#[test]
fn a_run_of_sinterdb_repeats_exactly() {
    let study = study(Scale::Ci, &["sinter"]);
    let directory = tempfile::tempdir().unwrap();
    let run = |share: &str| {
        let cell = name(2, "0.9", share);
        let planned = study.runs().into_iter().find(|run| run.cell == cell).unwrap();
        let mut spec = study.spec(&planned).unwrap();
        spec.medium.directory = directory.path().to_owned();
        let record = execute(&SinterEngine, &spec, &AtomicBool::new(false));
        assert_eq!(record.failure, None);
        let of = |phase: &PhaseRecord| {
            let mut tickers = phase.tickers.clone();
            tickers.retain(|name, _| !name.ends_with(".micros"));
            (phase.written.clone(), phase.space.clone(), phase.levels.clone(), tickers)
        };
        record.phases.iter().map(of).collect::<Vec<_>>()
    };
    let first = run("20");
    assert_eq!(first, run("20"));
    assert_ne!(first, run("0"), "the age matters");
}

/// Tiering that is turned on later puts data from before where tracking, or the setting, says.
#[test]
fn data_from_before_goes_where_its_age_says() {
    let study = study(Scale::Ci, &["sinter"]);
    let directory = tempfile::tempdir().unwrap();
    let figures = |variant: &str| {
        let cell = migration::name(variant);
        let planned = study.runs().into_iter().find(|run| run.cell == cell).unwrap();
        let mut spec = study.spec(&planned).unwrap();
        spec.medium.directory = directory.path().to_owned();
        let record = execute(&SinterEngine, &spec, &AtomicBool::new(false));
        assert_eq!(record.failure, None, "{variant}");
        let phases = &study.cell(&cell, "sinter").unwrap().measures["run"];
        [Metric::FastReads, Metric::LastLevelTables, Metric::LastLevelBytes].map(|metric| metric.of(&record, phases).unwrap())
    };
    let [never, tracked, old, young] =
        ["never turned on", "tracked before", "untracked, taken for old", "untracked, taken for young"].map(figures);
    assert!(never[2] > tracked[2] && tracked[2] > young[2], "{never:?} {tracked:?} {young:?}");
    assert!(old[0] < tracked[0] && tracked[0] < young[0], "{old:?} {tracked:?} {young:?}");
    assert!(old[1] > 0.0 && young[1] == 0.0, "{old:?} {young:?}");
}
