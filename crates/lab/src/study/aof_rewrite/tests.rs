//! Tests of the requests and settings of servers, of cells that exceed the machine, and of the judging of claims.

use super::super::folder::Folder;
use super::super::judge::{Finding, Results, judge};
use super::super::plan::{Cell, Permits, Request, Scale, Study};
use super::{MIB, NAME, Sizes, memory_for, with_hot_keys};
use crate::result::{Latency, Memory, Written};
use crate::run::{Answer, Killed, PhaseKind, PhaseRecord, Second};
use crate::study::servers::Servers;
use crate::study::{catalogue, testing};
use sinterdb::settings::{Budgets, Settings};
use std::collections::BTreeSet;

fn study(scale: Scale, engines: &[&str], servers: Servers) -> Study {
    let request = Request { servers, ..testing::request(engines, 3) };
    catalogue::study(NAME, scale, &request).unwrap()
}

fn whole(scale: Scale) -> Study {
    study(scale, &["sinter", "redis"], Servers::all())
}

fn cell<'a>(study: &'a Study, name: &str, engine: &str) -> &'a Cell {
    study.cell(name, engine).unwrap_or_else(|| panic!("no cell {name} of {engine}"))
}

/// The paper scale has the original's numbers and sizes of SETs, its 64 MB, and its minimums from 32 to 512 MB.
#[test]
fn paper_has_the_sizes_of_the_original() {
    let study = whole(Scale::Paper);
    for (value, bytes) in [("0.5 kB", 512), ("1 kB", 1024), ("10 kB", 10_240), ("100 kB", 102_400)] {
        for (sets, updates) in [("100,000", 0), ("500,000", 400_000), ("1,000,000", 900_000)] {
            let shortened = cell(&study, &format!("A {value}, {sets} SETs, log shortened"), "redis");
            assert_eq!(shortened.workload.keys, 100_000);
            assert_eq!(shortened.workload.value_size, crate::run::ValueSize::Fixed(bytes));
            let more = shortened.workload.phases.iter().find_map(|phase| match phase.kind {
                PhaseKind::Run { operations, .. } => operations,
                _ => None,
            });
            assert_eq!(more.unwrap_or(0), updates);
            let told = &shortened.settings.database;
            assert_eq!((told["auto-aof-rewrite-min-size"].as_str(), told["auto-aof-rewrite-percentage"].as_str()), ("67108864", "100"));
            let kept = cell(&study, &format!("A {value}, {sets} SETs, log kept"), "redis");
            assert_eq!(kept.settings.database["auto-aof-rewrite-percentage"], "0");
            assert_eq!(kept.workload, shortened.workload);
        }
    }
    let minimums: BTreeSet<&str> = study.cells.iter().map(|cell| cell.name.as_str()).filter(|name| name.starts_with("B ")).collect();
    assert_eq!(minimums.len(), 10, "{minimums:?}");
    assert!(study.cells.iter().all(|cell| cell.limits.memory_bytes == Some(20_000_000_000)));
    let factors = &cell(&study, "B 1 kB, from 512MiB", "redis").factors;
    assert_eq!(
        ["part", "value", "SETs", "log", "from"].map(|name| factors[name].as_str()),
        ["B", "1 kB", "1,000,000", "log shortened", "512MiB"]
    );
}

/// Without permission to limit memory, rows run that fit the machine, and the missing limit is named.
#[test]
fn a_limit_that_is_not_permitted_is_named() {
    let with = |memory: Result<u64, String>, servers: Servers| {
        let permits = Permits { memory, ..Permits::all() };
        catalogue::study(NAME, Scale::Paper, &Request { servers, permits, ..testing::request(&["redis"], 3) }).unwrap()
    };
    for (memory, why) in [(Err("no cgroup".to_string()), "no cgroup"), (Ok(8 << 30), "there are 8GiB")] {
        let study = with(memory, Servers { memory: 16 << 30, ..Servers::all() });
        assert_eq!(study.left_out[0], format!("the limit of 20 GB for the memory of each server: {why}"));
        assert!(study.cells.iter().all(|cell| cell.limits.memory_bytes.is_none() && !cell.name.starts_with("A 100 kB")));
    }
    let limited = with(Ok(23 << 30), Servers { memory: 23 << 30, ..Servers::all() });
    assert!(limited.left_out.is_empty() && limited.cells.iter().any(|cell| cell.name == "A 100 kB, 1,000,000 SETs, log shortened"));
}

/// A server killed by its limit is a result of its cell, and verdicts say where it happened instead of a figure.
#[test]
fn a_killed_server_is_a_result() {
    let study = study(Scale::Paper, &["redis"], Servers::all());
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::create(&directory.path().join("results"), &study).unwrap();
    let name = "A 100 kB, 1,000,000 SETs, log shortened";
    for run in study.runs().into_iter().filter(|run| run.cell == name) {
        let last = PhaseRecord { name: "updates".into(), operations: 2000, seconds: 4.0, ..PhaseRecord::default() };
        let killed = Killed { operations: 102_000, seconds: 24.5, memory_bytes: 19_000 * MIB, phase: last };
        let mut record = testing::record(study.spec(&run).unwrap(), &PhaseRecord::default());
        record.phases.truncate(1);
        record.failure = Some(format!("phase updates: the server was {killed}"));
        assert!(!study.accepts(&run, &record), "another failure");
        record.killed = Some(killed);
        assert!(study.accepts(&run, &record));
        folder.keep(&run, &record).unwrap();
    }
    let findings = judge(&study, &Results::read(&study, &folder).unwrap());
    let said = &findings[0].verdict.statistics;
    let expected = format!("redis, {name}: killed after 102,000 operations in 24.5 s, with 19,000 MiB of memory in 3 of 3 runs");
    assert!(said.contains("100 kB, 1,000,000 SETs: not run") && said.contains(&expected), "{said}");
}

/// Both sides have equal durability, requests and client, whatever else their settings are.
#[test]
fn servers_are_asked_the_same() {
    for scale in Scale::ALL {
        let study = whole(scale);
        for cell in &study.cells {
            let server = cell.settings.server.as_ref().unwrap();
            assert_eq!(cell.settings.database["appendfsync"], "everysec", "{}", cell.name);
            assert_eq!((server.connections, server.pipeline), (50, 1));
            assert_eq!(server.keeps_log, cell.name.ends_with("log kept"), "{}", cell.name);
            assert_eq!(cell.engines.len(), 1);
        }
        for name in study.cells.iter().map(|cell| &cell.name).filter(|name| name.starts_with("A ") && name.ends_with("shortened")) {
            assert_eq!(cell(&study, name, "sinter").workload, cell(&study, name, "redis").workload);
        }
        assert!(study.cells.iter().filter(|cell| cell.name.starts_with("C ")).all(|cell| cell.is_for("sinter") && !cell.is_for("redis")));
    }
}

/// A memtable is as large as the log may become; in C it holds the whole log, with the overhead of entries.
#[test]
fn memory_makes_the_memtable_that_is_wanted() {
    let memtable = |memory: u64| {
        // The rest is for hot keys.
        let settings = Settings::new(Budgets { memory: Some(memory - memory / 4), ..Budgets::default() });
        assert_eq!(settings.validate(), Ok(()));
        settings.family("default").write_buffer_size
    };
    for wanted in [1, 32, 64, 128, 256] {
        assert_eq!(memtable(memory_for(wanted * MIB).unwrap()), wanted * MIB);
    }
    assert_eq!((memory_for(512 * MIB), memory_for(256 << 10)), (None, None));
    for scale in Scale::ALL {
        let sizes = Sizes::of(scale);
        assert!(memtable(sizes.kept_memory) / 4 * 3 >= sizes.kept);
        assert!(memtable(sizes.memory.unwrap_or(with_hot_keys(160 * MIB))) * 2 < sizes.kept, "otherwise nothing is shortened");
    }
}

#[test]
fn what_there_is_no_room_for_is_left_out_and_named() {
    let little = |memory: u64, disk: u64| study(Scale::Paper, &["sinter", "redis"], Servers { memory, disk, ..Servers::all() });
    let none = whole(Scale::Paper);
    assert_eq!(none.left_out.len(), 2, "memtables of 512 MiB: {:?}", none.left_out);
    let short = little(8 << 30, u64::MAX);
    assert!(short.cells.iter().all(|cell| cell.is_for("sinter") || !cell.name.contains("100 kB")));
    assert!(short.left_out.iter().any(|what| what.starts_with("redis, A 100 kB, 100,000 SETs, log kept: ")), "{:?}", short.left_out);
    // The next shorter row takes the place of one that does not fit.
    let longest = |study: &Study| study.hypotheses[0].groups.iter().map(|group| group.name.clone()).next_back().unwrap();
    assert_eq!(longest(&none), "100 kB, 1,000,000 SETs");
    assert_eq!(longest(&little(u64::MAX, 60 << 30)), "100 kB, 500,000 SETs");
    let full = little(u64::MAX, 60 << 30);
    assert!(full.cells.iter().all(|cell| cell.name != "A 100 kB, 1,000,000 SETs, log kept"));
    assert!(full.cells.iter().any(|cell| cell.name == "A 100 kB, 500,000 SETs, log kept"));
    for study in [&short, &full] {
        let text = study.left_out.join("\n");
        assert!(text.contains(" are needed, and there are "), "{text}");
    }
    let alone = study(Scale::Small, &["sinter"], Servers::all());
    assert!(alone.hypotheses.iter().all(|claim| claim.engine.as_deref() == Some("sinter")) && alone.hypotheses.len() == 4);
    assert_eq!(study(Scale::Small, &["redis"], Servers::all()).hypotheses.len(), 7);
}

/// Invented figures of a run.
struct Made {
    /// SETs per second.
    rate: f64,
    /// Milliseconds.
    ping: u64,
    /// MiB.
    peak: u64,
    disk: u64,
}

const EASY: Made = Made { rate: 100_000.0, ping: 5, peak: 105, disk: 100 };

/// Verdicts of invented runs, by cell and engine.
fn judged(study: &Study, made: &dyn Fn(&str, &str) -> Made) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::create(&directory.path().join("results"), study).unwrap();
    for run in study.runs() {
        let Made { rate, ping, peak, disk } = made(run.cell, run.engine);
        let noise = 1.0 + 0.0001 * f64::from(run.repeat);
        let latency = Latency { p99: 1000, ..Latency::of(&Latency::histogram()) };
        let second = Second { longest_ping_ns: Some(ping * 1_000_000 + u64::from(run.repeat)), ..Second::default() };
        let figures = PhaseRecord {
            operations: 1000,
            seconds: 1000.0 / rate / noise,
            latency: Some(latency),
            written: Written { user_bytes: 100, total_bytes: 150, ..Written::default() },
            memory: Memory { peak_resident_bytes: peak * MIB + u64::from(run.repeat), ..Memory::default() },
            proportional_bytes: 100 * MIB,
            series: vec![Second { disk_bytes: disk * MIB + u64::from(run.repeat), ..second }],
            ..PhaseRecord::default()
        };
        folder.keep(&run, &testing::record(study.spec(&run).unwrap(), &figures)).unwrap();
    }
    judge(study, &Results::read(study, &folder).unwrap())
}

#[test]
fn what_the_original_found_and_what_is_claimed_can_hold_and_fail() {
    let study = whole(Scale::Small);
    let as_found = judged(&study, &|cell, engine| match (engine, cell) {
        ("sinter", _) => EASY,
        (_, cell) if cell.starts_with("B 1 kB") => Made { rate: if cell.ends_with("from 512MiB") { 74_230.0 } else { 68_631.0 }, ..EASY },
        (_, cell) if cell.starts_with("B ") => Made { peak: if cell.ends_with("from 512MiB") { 400 } else { 280 }, ..EASY },
        (_, cell) if cell.ends_with("no log") => Made { rate: 160_000.0, ..EASY },
        (_, cell) if cell.ends_with("log kept") => Made { rate: 90_000.0, ping: 6, peak: 110, disk: 900 },
        _ => Made { rate: 60_000.0, ping: 1000, peak: 350, disk: 300 },
    });
    let answers = |findings: &[Finding]| findings.iter().map(|finding| finding.verdict.verdict).collect::<Vec<_>>();
    assert_eq!(answers(&as_found), [Answer::Accepted; 15], "{as_found:#?}");
    let worse = judged(&study, &|cell, engine| match (engine, cell) {
        ("sinter", cell) if cell.starts_with("C ") && cell.ends_with("shortened") => Made { rate: 90_000.0, ..EASY },
        ("sinter", "A 10 kB, 200,000 SETs, log shortened") => Made { rate: 50_000.0, ping: 40, peak: 130, disk: 400 },
        ("sinter", _) => EASY,
        (_, cell) if cell.ends_with("from 512MiB") => Made { rate: 80_000.0, peak: 90, ..EASY },
        (_, cell) if cell.ends_with("log shortened") => Made { rate: 95_000.0, ping: 4, peak: 100, disk: 110 },
        _ => Made { rate: 90_000.0, ping: 6, peak: 110, disk: 110 },
    });
    let rejected = worse.iter().filter(|finding| finding.verdict.verdict == Answer::Rejected).count();
    assert_eq!(rejected, 15, "{:#?}", worse.iter().map(|f| (&f.verdict.hypothesis, f.verdict.verdict)).collect::<Vec<_>>());
}
