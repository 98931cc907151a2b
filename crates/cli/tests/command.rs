//! The command from outside: exit codes, and one clear line for whatever is wrong with a request.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn sinter(args: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    sinter_in(directory.path(), args)
}

fn sinter_in(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).args(args).current_dir(directory).env("TMPDIR", directory).output().unwrap()
}

/// Exit 2, nothing on stdout, and one line on stderr that contains `part`.
#[track_caller]
fn assert_refused(output: &Output, part: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("sinter: ") && stderr.contains(part), "{part:?} not in {stderr:?}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_flags_are_one_line() {
    assert_refused(&sinter(&[]), "no command given");
    assert_refused(&sinter(&["bnech"]), "did you mean bench?");
    assert_refused(&sinter(&["bench", "--nmu=5"]), "did you mean --num?");
    assert_refused(&sinter(&["bench", "--memtablerep=vector"]), "unknown flag --memtablerep");
    assert_refused(&sinter(&["bench", "--cache-siez=5"]), "did you mean --cache_size?");
    assert_refused(&sinter(&["bench", "--num=many"]), "--num");
    assert_refused(&sinter(&["bench", "--num"]), "--num");
    assert_refused(&sinter(&["bench", "--sync=maybe"]), "expected true or false");
    assert_refused(&sinter(&["bench", "extra"]), "extra");
    assert_refused(&sinter(&["inspect"]), "<PATH>");
    assert_refused(&sinter(&["inspect", "x", "tabel", "1"]), "tabel");
    assert_refused(&sinter(&["inspect", "x", "table"]), "<NUMBER>");
}

#[test]
fn wrong_values_are_one_line_too() {
    assert_refused(&sinter(&["bench", "--benchmarks=fillsek"]), "unknown workload \"fillsek\"");
    assert_refused(&sinter(&["bench", "--threads=0", "--key_size=0"]), "key_size must be 1 to 65536, not 0");
    assert_refused(&sinter(&["bench", "--key_size=2", "--num=70000"]), "room for 65536");
    assert_refused(&sinter(&["bench", "--compression_type=brotli"]), "brotli");
    assert_refused(&sinter(&["bench", "--compaction_style=2"]), "compaction_style");
    assert_refused(&sinter(&["bench", "--write_buffer_size=lots"]), "write_buffer_size");
    assert_refused(&sinter(&["bench", "--num_levels=99"]), "num_levels");
    assert_refused(&sinter(&["bench", "--sync", "--disable_wal=1"]), "sync and disable_wal exclude each other");
    assert_refused(&sinter(&["bench", "--zipf_alpha=1", "--read_random_exp_range=1"]), "exclude each other");
    assert_refused(&sinter(&["bench", "--memory=1GB", "--settings=x"]), "cannot be used with");
}

#[test]
fn wrong_paths_are_one_line_too() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "x").unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    let refused = |args: &[&str], part| assert_refused(&sinter_in(directory.path(), args), part);
    refused(&["bench", "--db=file"], "not a directory");
    refused(&["bench", "--db=file/below"], "--db file/below");
    refused(&["bench", "--db=missing", "--use_existing_db"], "no database there");
    refused(&["bench", "--settings=missing.toml"], "missing.toml");
    refused(&["bench", "--options_file=missing.ini"], "missing.ini");
    refused(&["bench", "--json=missing/out.json"], "missing/out.json");
    for command in ["inspect", "check"] {
        refused(&[command, "missing"], "no such directory");
        refused(&[command, "file"], "not a directory");
        refused(&[command, "empty"], "no database there");
    }
    assert!(!directory.path().join("missing").exists(), "a refused request leaves nothing behind");
}

#[test]
fn help_and_version_are_not_errors() {
    for args in [&["--help"][..], &["--version"], &["bench", "--help"], &["help", "inspect"]] {
        let output = sinter(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}
