//! Tests of the engines' settings, of cells that a machine does not permit, and of the judging of claims.

use super::super::folder::Folder;
use super::super::judge::{Finding, Results, judge};
use super::super::plan::{Cell, Permits, Request, Scale, Study};
use super::NAME;
use crate::result::{Latency, Memory, Written};
use crate::run::{Answer, Limits, PhaseKind, PhaseRecord};
use crate::study::{catalogue, testing};
use sinterdb::settings::{CompressedCache, DbSettings, FamilySettings, Settings};

const MIB: u64 = 1 << 20;

fn study(scale: Scale, engines: &[&str], permits: Permits) -> Study {
    let request = Request { permits, ..testing::request(engines, 3) };
    catalogue::study(NAME, scale, &request).unwrap()
}

fn cell<'a>(study: &'a Study, name: &str) -> &'a Cell {
    study.cells.iter().find(|cell| cell.name == name).unwrap_or_else(|| panic!("no cell {name}"))
}

/// SinterDB's settings for a cell.
fn read(cell: &Cell) -> (DbSettings, FamilySettings) {
    let mut file = cell.settings.options().unwrap();
    assert_eq!(file.report(), Vec::<String>::new(), "{}", cell.name);
    (file.db, file.families.remove(0).1)
}

#[test]
fn memory_alone_is_what_a_user_would_write() {
    for scale in Scale::ALL {
        let study = study(scale, &["sinter"], Permits::all());
        let whole = study.cells.last().unwrap();
        assert!(whole.name.starts_with("C watched, all of the memory asked for, 2 CPUs, "), "{}", whole.name);
        let (limit, budget) = (whole.limits.memory_bytes.unwrap(), read(cell(&study, "B moving")).0.memory_budget);
        let watched = study.cells.iter().find(|cell| cell.name.starts_with("C watched, 1 CPU,")).unwrap();
        let eighth = watched.limits.memory_bytes.unwrap() / 8;
        for (cell, memory) in [(whole, limit), (cell(&study, "B moving"), budget), (watched, eighth)] {
            let written = Settings::from_toml(&format!("memory = {memory}")).unwrap();
            assert_eq!(read(cell), (written.db.clone(), written.family("default")), "{}", cell.name);
        }
    }
}

/// Fixed divisions differ from the moving one in the division only.
#[test]
fn divisions_share_one_budget() {
    let study = study(Scale::Small, &["sinter"], Permits::all());
    let (db, family) = read(cell(&study, "B moving"));
    assert_eq!(db.memory_budget, 64 * MIB);
    for (name, memtables) in [("B 1:7", 8), ("B 1:3", 16), ("B 1:1", 32), ("B 3:1", 48)] {
        let sizes = (memtables * MIB, (64 - memtables) * MIB);
        let expected = DbSettings { memory_budget: 0, db_write_buffer_size: sizes.0, cache_size: sizes.1, ..db.clone() };
        let of_family = FamilySettings { write_buffer_size: sizes.0 / 2, ..family.clone() };
        assert_eq!(read(cell(&study, name)), (expected, of_family), "{name}");
    }
    let engines = |name: &str| cell(&study, name).engines.clone();
    assert_eq!((engines("B moving"), engines("B 1:1")), (vec!["sinter".to_string(), "rocksdb".into()], vec!["sinter".to_string()]));
}

#[test]
fn shares_differ_in_the_share_and_limits_in_the_case() {
    let study = study(Scale::Small, &["sinter"], Permits::all());
    let of_a: Vec<&Cell> = study.cells.iter().filter(|cell| cell.name.starts_with("A ")).collect();
    assert_eq!(of_a.len(), 4 * 4);
    let share = |name: &str| read(cell(&study, name)).0.compressed_cache;
    assert_eq!(share("A off, twice the cache, in the page cache"), CompressedCache::Off);
    assert_eq!(share("A 0.25, twice the cache, in the page cache"), CompressedCache::Share(0.25));
    assert_eq!(share("A auto, six times the cache, outside of the page cache"), CompressedCache::Auto);
    for cell in of_a {
        let (db, family) = read(cell);
        assert_eq!((db.cache_size, db.memory_budget, family.write_buffer_size), (32 * MIB, 0, 4 * MIB), "{}", cell.name);
        let outside = cell.name.ends_with("outside of the page cache");
        assert_eq!(cell.limits.memory_bytes.is_some(), outside, "{}", cell.name);
        let seconds = cell.workload.phases.iter().find(|phase| phase.name == "warm").unwrap();
        let PhaseKind::Run { seconds, .. } = &seconds.kind else { panic!("{seconds:?}") };
        assert_eq!(*seconds > Some(10.0), cell.name.starts_with("A auto"), "parts that move get the time that they need");
    }
}

/// Cells with hidden limits differ in nothing else, and RocksDB runs in equal containers.
#[test]
fn containers_differ_in_what_is_looked_at() {
    let study = study(Scale::Paper, &["sinter", "rocksdb"], Permits::all());
    for memory in ["512MiB", "1GiB", "2GiB", "4GiB"] {
        for (cpus, percent) in [("1 CPU", 100), ("2 CPUs", 200)] {
            let watched = cell(&study, &format!("C watched, {cpus}, {memory}"));
            let hidden = cell(&study, &format!("C hidden, {cpus}, {memory}"));
            assert_eq!(watched.limits.cpu_percent, Some(percent));
            assert_eq!((watched.limits, &watched.workload), (hidden.limits, &hidden.workload));
            assert!(hidden.settings.hide_limits && !watched.settings.hide_limits);
            assert_eq!(watched.engines, ["sinter", "rocksdb"]);
            assert_eq!(hidden.engines, ["sinter"]);
        }
    }
    let runs = study.runs();
    let spec = study.spec(runs.iter().find(|run| run.cell.starts_with("C watched, 1 CPU") && run.engine == "rocksdb").unwrap()).unwrap();
    assert_eq!((spec.limits.cpu_percent, spec.limits.cpus), (Some(100), None));
}

#[test]
fn what_is_not_permitted_is_left_out_and_named() {
    let refused = Permits { cpus: 2, memory: Ok(100 * MIB), quota: Ok(()) };
    let study_of = |permits: Permits| study(Scale::Small, &["sinter"], permits);
    let little = study_of(refused.clone());
    assert_eq!(little.left_out.len(), 3, "{:?}", little.left_out);
    assert!(little.left_out[0].contains("C with 1 CPU, 128MiB: a run can have 100 MiB"), "{:?}", little.left_out);
    let one = study_of(Permits { cpus: 1, memory: Ok(1 << 30), quota: Ok(()) });
    assert_eq!(one.left_out.len(), 2, "{:?}", one.left_out);
    assert!(one.hypotheses.iter().all(|claim| !claim.claim.starts_with("C: with two")), "a claim without a run");
    let none = study_of(Permits { memory: Err("no cgroup".into()), quota: Err("no quota".into()), ..refused });
    assert!(none.cells.iter().all(|cell| cell.limits == Limits::default()));
    assert_eq!(none.cells.len(), 4 * 2 + 5);
    assert!(none.hypotheses.iter().all(|claim| !claim.claim.starts_with("C: ")));
    assert!(none.left_out[0].ends_with("outside of the page cache: no cgroup"), "{:?}", none.left_out);
    assert!(none.left_out[1].ends_with(": no quota"), "{:?}", none.left_out);
}

/// A record in which every phase did `rate` operations per second with a tail of `p99` nanoseconds.
fn phase(rate: f64, p99: u64) -> PhaseRecord {
    let latency = Latency { p99, p999: 2 * p99, ..Latency::of(&Latency::histogram()) };
    PhaseRecord {
        operations: 1000,
        seconds: 1000.0 / rate,
        latency: Some(latency),
        written: Written { user_bytes: 100, total_bytes: 500, ..Written::default() },
        memory: Memory { peak_resident_bytes: 90 * MIB, ..Memory::default() },
        ..PhaseRecord::default()
    }
}

/// Verdicts of invented runs: `rate` by cell, engine and phase, `p99` by cell and engine.
fn judged(study: &Study, rate: &dyn Fn(&str, &str, &str) -> f64, p99: &dyn Fn(&str, &str) -> u64) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::create(&directory.path().join("results"), study).unwrap();
    for run in study.runs() {
        let mut record = testing::record(study.spec(&run).unwrap(), &PhaseRecord::default());
        for of in &mut record.phases {
            let rate = rate(run.cell, run.engine, &of.name) * (1.0 + 0.001 * f64::from(run.repeat));
            *of = PhaseRecord { name: of.name.clone(), ..phase(rate, p99(run.cell, run.engine) + u64::from(run.repeat)) };
        }
        folder.keep(&run, &record).unwrap();
    }
    judge(study, &Results::read(study, &folder).unwrap())
}

#[test]
fn choices_of_the_engine_are_judged_against_the_best_by_hand() {
    let study = study(Scale::Small, &["sinter", "rocksdb"], Permits::all());
    let good = judged(
        &study,
        &|cell, engine, name| match cell {
            _ if engine == "rocksdb" => 50_000.0,
            "B moving" if name.starts_with("alternating") => 120_000.0,
            _ if cell.ends_with("outside of the page cache") && !cell.contains("A off") => 150_000.0,
            _ => 100_000.0,
        },
        &|cell, engine| if cell.contains("hidden, 1 CPU") || engine == "rocksdb" { 9_000_000 } else { 1_000_000 },
    );
    let verdicts = |findings: &[Finding]| findings.iter().map(|finding| finding.verdict.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(&good), [Answer::Accepted; 13], "{good:#?}");
    assert!(good.iter().all(|finding| finding.verdict.engine == "sinter"), "what is claimed is claimed of SinterDB");
    let bad = judged(
        &study,
        &|cell, engine, name| match cell {
            _ if engine == "rocksdb" => 130_000.0,
            "B moving" if name.starts_with("read-heavy") || name.starts_with("alternating") => 80_000.0,
            "A auto, six times the cache, outside of the page cache" => 90_000.0,
            "A 0.5, half the cache, in the page cache" => 120_000.0,
            _ => 100_000.0,
        },
        &|cell, engine| match cell {
            _ if engine == "rocksdb" => 500_000,
            _ if cell.contains("watched, 2 CPUs, 32MiB") || cell.contains("all of") => 2_000_000,
            _ => 1_000_000,
        },
    );
    let rejected = |finding: &&Finding| finding.verdict.verdict == Answer::Rejected;
    let claims: Vec<&str> = bad.iter().filter(rejected).map(|finding| finding.verdict.hypothesis.as_str()).collect();
    let starts = [
        "A: auto is within",
        "A: where a miss goes",
        "A: where the page cache",
        "B: memory that moves",
        "B: where phases alternate",
        "C: with two",
        "C: asked for all",
        "B: with one budget",
        "C: in every container",
    ];
    for start in starts {
        assert!(claims.iter().any(|claim| claim.starts_with(start)), "{start}: {claims:#?}");
    }
    assert!(!claims.iter().any(|claim| claim.starts_with("B: its write") || claim.starts_with("B: the budget")), "{claims:#?}");
}
