//! `sinter report` from outside. The contents of pages are tested in the laboratory.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn report(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).arg("report").args(args).current_dir(directory).output().unwrap()
}

#[track_caller]
fn assert_refused(output: &Output, part: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.starts_with("sinter: ") && stderr.contains(part), "{part:?} not in {stderr:?}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_drawn_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("damaged/runs")).unwrap();
    fs::write(path.join("damaged/runs/0000.json"), "{\"version\":1,").unwrap();
    assert_refused(&report(path, &[]), "<DIR>");
    assert_refused(&report(path, &["missing"]), "missing: no such directory");
    assert_refused(&report(path, &["."]), "no results there");
    assert_refused(&report(path, &["damaged"]), "damaged/runs/0000.json: EOF");
    assert_refused(&report(path, &["damaged", "missing"]), "damaged/runs/0000.json: EOF");
    assert!(!path.join("damaged/index.html").exists() && !path.join("comparison.html").exists());
}

#[test]
fn pages_are_where_they_are_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for name in ["one", "two"] {
        fs::create_dir(path.join(name)).unwrap();
        fs::write(path.join(name).join("study.json"), format!("{{\"version\":0,\"title\":\"Study {name}\"}}")).unwrap();
    }
    let said = |args: &[&str]| {
        let output = report(path, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let page = |args: &[&str]| fs::read_to_string(path.join(said(args))).unwrap();
    assert_eq!(said(&["one"]), "one/index.html");
    assert!(page(&["one"]).contains("<h1>Study one</h1>") && path.join("one/results.csv").exists());
    assert_eq!(said(&["one", "two"]), "comparison.html");
    assert!(page(&["--archive", "one"]).contains("<h1>Study one</h1>"));
    assert!(path.join("one/runs.jsonl.zst").exists() && !path.join("one/study.json").exists());
    fs::create_dir(path.join("none")).unwrap();
    assert_refused(&report(path, &["--archive", "none"]), "none: no study there");
    assert!(page(&["one", "two", "--output", "both.html"]).contains("<h1>one against two</h1>") && path.join("both.csv").exists());
}
