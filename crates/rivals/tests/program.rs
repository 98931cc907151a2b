//! The program: a spec goes in, a record comes out, and all engines have done the same.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use sinter_lab::report;
use sinter_lab::run::{
    Distribution, EngineSpec, FamilySpec, Limits, Medium, Mix, Order, Phase, PhaseKind, RunRecord, RunSpec, SPEC_VERSION, Source,
    ValueSize, Workload,
};
use sinter_lab::study::catalogue;
use sinter_lab::study::conduct::{Event, Runner, conduct};
use sinter_lab::study::folder::Folder;
use sinter_lab::study::plan::{Permits, Request, Scale};
use sinter_lab::study::servers::Servers;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

const KEYS: u64 = 5000;

fn run_phase(name: &str, distribution: Distribution, operations: &[(&str, f64)], count: u64) -> Phase {
    let mix = |name: &str, family: &str, weight: f64| Mix {
        name: name.into(),
        weight,
        family: Some(family.into()),
        scan_length: 50,
        ..Mix::all(distribution, operations.iter().copied())
    };
    Phase::requests(name, vec![mix("much", "default", 0.7), mix("little", "second", 0.3)], count, 1)
}

fn spec(engine: &str, directory: &Path, extra: &[(&str, &str)]) -> RunSpec {
    let small = [("write_buffer_size", "262144"), ("target_file_size_base", "262144"), ("max_bytes_for_level_base", "1048576")];
    let settings: BTreeMap<String, String> = small.iter().chain(extra).map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let families = ["default", "second"].map(|name| FamilySpec { name: name.into(), settings: settings.clone() });
    let everything =
        [("get", 3.0), ("get_missing", 1.0), ("put", 3.0), ("insert", 1.0), ("delete", 1.0), ("read_modify_write", 1.0), ("scan", 0.5)];
    let phases = vec![
        Phase::load("load", Order::Random, 1),
        run_phase("mix", Distribution::Zipf(0.8), &everything, 15_000),
        Phase::new("settle", PhaseKind::Settle),
        // Every key of either family is asked for: the same hits and bytes are the same content.
        run_phase("look", Distribution::Unique, &[("get", 1.0)], 4 * KEYS),
        run_phase("walk", Distribution::Sequential, &[("scan", 1.0)], 1000),
        Phase::new("compact", PhaseKind::Compact),
        run_phase("look again", Distribution::Unique, &[("get", 1.0)], 4 * KEYS),
    ];
    RunSpec {
        version: SPEC_VERSION,
        engine: EngineSpec { name: engine.into(), families: families.into(), wal: true, ..EngineSpec::default() },
        medium: Medium { directory: directory.into() },
        workload: Workload {
            name: "everything".into(),
            keys: KEYS,
            key_size: 24,
            value_size: ValueSize::Uniform(100, 900),
            compression_ratio: 0.5,
            phases,
        },
        seed: 11,
        limits: Limits::default(),
    }
}

fn program(arguments: &[&str], input: &[u8]) -> Output {
    let program = env!("CARGO_BIN_EXE_sinter-rivals");
    let pipes = (Stdio::piped(), Stdio::piped(), Stdio::piped());
    let mut child = Command::new(program).args(arguments).stdin(pipes.0).stdout(pipes.1).stderr(pipes.2).spawn().unwrap();
    // A program that does not read its input has ended, and says why.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn record(spec: &RunSpec) -> RunRecord {
    let output = program(&["run"], &serde_json::to_vec(spec).unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: RunRecord = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((record.failure.as_ref(), record.phases.len()), (None, spec.workload.phases.len()));
    assert_eq!(std::fs::read_dir(&spec.medium.directory).unwrap().count(), 0, "the run removes its data");
    record
}

#[test]
fn all_engines_do_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let done = |record: &RunRecord| -> Vec<_> {
        record.phases.iter().map(|p| (p.name.clone(), p.operations, p.bytes, p.found, p.written.user_bytes, p.space.live_keys)).collect()
    };
    let sinter = record(&spec("sinter", directory.path(), &[]));
    let found = sinter.phases[3].found.unwrap();
    assert!(found.found > KEYS && found.found < found.asked, "the test has hits and misses: {found:?}");
    for (engine, version) in [("rocksdb", "rocksdb 11."), ("fjall", "fjall 3.")] {
        let rival = record(&spec(engine, directory.path(), &[]));
        assert!(rival.engine_version.starts_with(version), "{}", rival.engine_version);
        assert_eq!(rival.ignored_settings, [""; 0]);
        assert_eq!(done(&rival), done(&sinter), "{engine}");
        let settled = &rival.phases[2];
        assert_eq!(settled.levels.keys().collect::<Vec<_>>(), ["default", "second"]);
        assert!(settled.levels.values().all(|levels| levels.iter().any(|level| level.bytes > 0)), "{:?}", settled.levels);
        assert!(settled.space.live_table_bytes > 0 && settled.space.store_bytes >= settled.space.live_table_bytes);
    }
}

fn sum_of_causes(record: &RunRecord) -> u64 {
    record.phases.iter().flat_map(|phase| &phase.written.by_cause).map(|cause| cause.bytes).sum()
}

fn sum_of_process(record: &RunRecord) -> u64 {
    record.phases.iter().map(|phase| phase.process_written_bytes).sum()
}

/// RocksDB's account is what the kernel saw, but for the frames of log records and the manifest: nothing is missing or counted twice.
#[test]
fn rocksdb_accounts_for_what_it_writes() {
    let directory = tempfile::tempdir().unwrap();
    let blobs: &[(&str, &str)] = &[("enable_blob_files", "true"), ("min_blob_size", "300")];
    for extra in [&[], blobs] {
        let record = record(&spec("rocksdb", directory.path(), extra));
        assert_eq!(record.written_source, Source::Engine);
        let (causes, process) = (sum_of_causes(&record), sum_of_process(&record));
        assert!(causes <= process + process / 100 && causes as f64 >= 0.93 * process as f64, "{causes} of {process} bytes, {extra:?}");
        let last = record.phases.last().unwrap();
        assert_eq!(last.tickers.contains_key("rocksdb.blobdb.blob.file.bytes.written"), !extra.is_empty());
        let by_level: u64 = last.tickers.iter().filter(|(name, _)| name.starts_with("lab.compact.")).map(|(_, bytes)| bytes).sum();
        let compacted = last.tickers["rocksdb.compact.write.bytes"];
        assert!(by_level > compacted / 2 && by_level <= compacted + compacted / 20, "{by_level} of {compacted} bytes, {extra:?}");
        let causes = || record.phases.iter().flat_map(|phase| &phase.written.by_cause);
        let told: u64 = causes().filter(|line| line.cause.starts_with("compaction to L")).map(|line| line.bytes).sum();
        let rest: u64 = causes().filter(|line| line.cause == "compaction").map(|line| line.bytes).sum();
        assert_eq!(told + rest, compacted);
        assert!(told > rest, "{told} of {compacted} bytes by level, {extra:?}");
    }
}

#[test]
fn fjall_is_accounted_for_by_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let record = record(&spec("fjall", directory.path(), &[]));
    assert_eq!(record.written_source, Source::Process);
    assert!(record.phases.iter().flat_map(|phase| &phase.written.by_cause).all(|cause| cause.cause == "process"));
    assert_eq!(sum_of_causes(&record), sum_of_process(&record));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, input) in [
        (&["run"][..], serde_json::to_vec(&spec("leveldb", directory.path(), &[])).unwrap()),
        (&["run"], b"nonsense".to_vec()),
        (&[], Vec::new()),
        (&["walk"], Vec::new()),
    ] {
        let output = program(arguments, &input);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(output.stdout.is_empty());
    }
    let bad = spec("rocksdb", directory.path(), &[("compaction_pri", "kWorst")]);
    let output = program(&["run"], &serde_json::to_vec(&bad).unwrap());
    let record: RunRecord = serde_json::from_slice(&output.stdout).unwrap();
    assert!(record.failure.unwrap().contains("compaction_pri = kWorst"));
}

/// The study that sets engines side by side, at its smallest: every workload works on every engine, and none loses a key.
#[test]
fn the_study_of_engines_runs_on_all() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let request = Request {
        engines: ["sinter", "rocksdb", "fjall"].map(str::to_owned).into(),
        repeats: Some(1),
        seed: 3,
        directory: scratch,
        limits: Limits::default(),
        permits: Permits::all(),
        servers: Servers::all(),
    };
    let study = catalogue::study("side-by-side", Scale::Ci, &request).unwrap();
    let folder = Folder::create(&directory.path().join("out"), &study).unwrap();
    let runner = Runner::of(env!("CARGO_BIN_EXE_sinter-rivals").into());
    let mut failures = Vec::new();
    let conducted = conduct(&study, &folder, &|_| runner.clone(), &AtomicBool::new(false), &mut |event| match event {
        Event::Ended(run, record) => failures.extend(record.failure.as_ref().map(|why| format!("{run:?}: {why}"))),
        Event::Lost(run, why) => failures.push(format!("{run:?}: {why}")),
        _ => {}
    });
    assert_eq!((conducted.unwrap().finished, failures), (15, Vec::new()));
    let mut found: BTreeMap<(String, String), BTreeSet<(u64, u64)>> = BTreeMap::new();
    for run in study.runs() {
        for phase in folder.record(&study, &run).unwrap().unwrap().phases {
            // How often one asks in so many seconds is the engine's affair.
            if let Some(hits) = phase.found.filter(|_| phase.name != "readwhilewriting") {
                found.entry((run.cell.into(), phase.name)).or_default().insert((hits.found, hits.asked));
            }
        }
    }
    assert!(found.values().all(|hits| hits.len() == 1), "all engines find the same: {found:?}");
    report::write(folder.path()).unwrap();
    let table = std::fs::read_to_string(folder.path().join(report::ENGINES)).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(rows.len(), 13, "{table}");
    for row in rows {
        let figures = |column: usize| row.split('|').nth(column).unwrap().split('/').filter(|n| n.trim() != "-").count();
        assert!([2, 3, 5, 6].iter().all(|column| figures(*column) == 3), "{row}");
    }
}
