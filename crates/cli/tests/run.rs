//! `sinter run` from outside: a spec in, a record out.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;
use sinter_lab::run::RunRecord;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn start(directory: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinter"));
    command.arg("run").current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn run(directory: &Path, spec: &str) -> Output {
    let mut child = start(directory);
    child.stdin.take().unwrap().write_all(spec.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn record(output: &Output) -> RunRecord {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The example in the documentation.
fn example() -> Value {
    let text = include_str!("../../../docs/lab/lab.md");
    let (_, behind) = text.split_once("```json\n").unwrap();
    serde_json::from_str(behind.split_once("```").unwrap().0).unwrap()
}

/// The example with a number of operations instead of a duration.
fn counted(operations: u64) -> Value {
    let mut spec = example();
    let run = &mut spec["workload"]["phases"][2]["kind"]["run"];
    run["operations"] = operations.into();
    (run["seconds"], run["warm_up_seconds"]) = (Value::Null, 0.0.into());
    spec
}

#[test]
fn the_documented_example_runs() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &example().to_string());
    let record = record(&output);
    assert_eq!(record.failure, None);
    assert!(record.engine_version.starts_with("sinterdb "));
    assert_eq!(record.ignored_settings, Vec::<String>::new());
    // Outside of a repository there is no commit to report.
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output().ok().filter(|output| output.status.success());
    let head = head.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_string());
    assert_eq!(record.commit.map(|commit| commit.trim_end_matches("-dirty").to_string()), head);
    let run = &record.phases[2];
    assert!(run.seconds >= 1.4 && run.operations > 0 && run.series.len() >= 2, "{} s", run.seconds);
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(progress.lines().all(|line| line.starts_with("phase ")) && progress.contains("phase load 0/100000\n"), "{progress}");
    assert!(progress.contains("phase settle 0/1\n") && progress.contains("phase run 0/2\n"), "{progress}");
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn the_record_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = counted(50_000);
    // Without background work nothing is written between two readings that should agree.
    spec["engine"]["database"]["max_background_jobs"] = "0".into();
    let record = record(&run(directory.path(), &spec.to_string()));
    assert_eq!(record.failure, None);
    let [load, settle, run] = &record.phases[..] else { panic!("{:?}", record.phases.len()) };
    assert_eq!((load.operations, load.written.user_bytes, load.bytes), (100_000, 11_600_000, 11_600_000));
    let puts = run.latency_by_operation["all put"].count;
    assert_eq!(run.latency_by_operation["all get"].count + puts, 50_000);
    assert_eq!((run.operations, run.written.user_bytes), (50_000, puts * 116));
    let found = run.found.unwrap();
    assert_eq!((found.asked, found.found), (50_000 - puts, 50_000 - puts), "each key was loaded");
    assert!((puts as i64 - 25_000).abs() < 1000, "half of it puts: {puts}");
    for phase in [load, settle, run] {
        let lines = &phase.written.by_cause;
        let (ledger, process) = (lines.iter().map(|line| line.bytes).sum::<u64>() as f64, phase.process_written_bytes as f64);
        // The process writes progress lines besides the store. A mapped log counts only as zeros, up to 256 KiB ahead of the records of
        // each of the few segments.
        assert!((process - ledger).abs() < 10_000.0 + 4.0 * 262_144.0, "{}: ledger {ledger}, wchar {process}", phase.name);
        let counted = lines.iter().filter(|line| line.cause != "manifest").map(|line| line.bytes).sum::<u64>();
        assert_eq!(phase.written.total_bytes, counted, "{lines:?}");
        assert_eq!(phase.space.live_user_bytes, Some(11_600_000));
        assert_eq!(phase.levels.keys().collect::<Vec<_>>(), ["default"]);
    }
    assert!(load.written.write_amplification.unwrap() > 1.0);
}

#[test]
fn limits_hold_or_are_complained_about() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = counted(1000);
    spec["workload"]["keys"] = 1000.into();
    spec["limits"]["cpus"] = 1.into();
    spec["limits"]["memory_bytes"] = (1u64 << 30).into();
    let confinement = record(&run(directory.path(), &spec.to_string())).confinement;
    assert_eq!(confinement.cpus, 1);
    match &confinement.complaint {
        Some(complaint) => assert!(complaint.starts_with("limits.memory_bytes: "), "{complaint}"),
        None => assert!(confinement.memory_bytes.unwrap() <= 1 << 30),
    }
    spec["limits"]["cpus"] = 100_000.into();
    let output = run(directory.path(), &spec.to_string());
    let complaint = record(&output).confinement.complaint.unwrap();
    assert!(complaint.starts_with("limits.cpus: 100000 asked for"), "{complaint}");
    assert!(String::from_utf8(output.stderr).unwrap().lines().any(|line| line == format!("sinter: {complaint}")), "it is told");
}

#[test]
fn bad_specs_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |spec: &str, part: &str| {
        let output = run(directory.path(), spec);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), stderr.lines().count()), (Some(2), 0, 1), "{stderr}");
        assert!(stderr.starts_with("sinter: ") && stderr.contains(part), "{part:?} not in {stderr:?}");
    };
    refused("", "spec: EOF while parsing");
    refused("{\"version\": 1}", "spec: missing field `engine`");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut spec = example();
        change(&mut spec);
        spec.to_string()
    };
    refused(&changed(&|spec| spec["speed"] = 1.into()), "unknown field `speed`");
    refused(&changed(&|spec| spec["engine"]["name"] = "rocksdb".into()), "engine.name: \"rocksdb\" is not served here; there is sinter");
    refused(&changed(&|spec| spec["workload"]["keys"] = 0.into()), "workload.keys: must be at least 1");
}

#[test]
fn settings_that_make_no_sense_are_in_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = example();
    spec["engine"]["families"][0]["settings"]["num_levels"] = "99".into();
    let record = record(&run(directory.path(), &spec.to_string()));
    assert!(record.failure.as_ref().unwrap().contains("num_levels"), "{:?}", record.failure);
    assert!(record.phases.is_empty());
}

/// The signal also works if the parent had signals blocked, which is inherited.
#[test]
fn a_signal_ends_a_run_with_its_record() {
    let blocked: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    for (signal, mask) in [("-INT", SigSet::empty()), ("-TERM", SigSet::empty()), ("-INT", blocked), ("-TERM", blocked)] {
        mask.thread_set_mask().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut child = start(directory.path());
        let mut spec = example();
        spec["workload"]["keys"] = 1000.into();
        // If the run misses the signal, it ends without `failure` after a while, so that the test fails instead of hanging.
        spec["workload"]["phases"][2]["kind"]["run"]["seconds"] = 60.0.into();
        child.stdin.take().unwrap().write_all(spec.to_string().as_bytes()).unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("phase run ")), "it began");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        lines.for_each(drop);
        let record = record(&child.wait_with_output().unwrap());
        assert_eq!(record.failure.as_deref(), Some("interrupted"));
        assert_eq!(record.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), ["load", "settle"]);
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left behind");
    }
}
