//! `sinter import` and `sinter export` as processes: their output and exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Exit code, stdout, stderr.
fn sinter(arguments: &[&dyn AsRef<OsStr>]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinter"));
    for argument in arguments {
        let word: &OsStr = (**argument).as_ref();
        command.arg(word);
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn import(path: &Path, dir: &Path) -> (i32, String, String) {
    sinter(&[&"import", &path, &"--dir", &dir])
}

const LOG: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*5\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n$4\r\nPXAT\r\n$4\r\n1000\r\n\
                     *3\r\n$4\r\nSADD\r\n$1\r\ns\r\n$1\r\nx\r\n*2\r\n$3\r\nDEL";

#[test]
fn data_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("appendonly.aof"), LOG).unwrap();
    let (code, out, err) = import(&at("appendonly.aof"), &at("data"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(": 2 keys\n3 commands of the log were run\n1 keys had ended"), "{out}");
    assert!(out.contains("appendonly.aof: its last 11 bytes, from byte 102 on, are an incomplete command"), "{out}");

    // The database has keys by now.
    let (code, _, err) = import(&at("appendonly.aof"), &at("data"));
    assert!(code == 2 && err.contains("data: there are 2 keys already; --replace replaces them"), "{err}");
    assert_eq!(sinter(&[&"import", &at("appendonly.aof"), &"--dir", &at("data"), &"--replace"]).0, 0);

    let (code, out, _) = sinter(&[&"export", &"--dir", &at("data"), &"--format", &"rdb", &at("out.rdb"), &"--rdb-version", &"11"]);
    assert!(code == 0 && out.ends_with("out.rdb: 2 keys\n"), "{out}");
    assert!(fs::read(at("out.rdb")).unwrap().starts_with(b"REDIS0011"));
    let (code, out, _) = sinter(&[&"export", &"--dir", &at("data"), &"--format", &"aof", &at("logs")]);
    assert!(code == 0 && out.ends_with("logs: 2 keys\n"), "{out}");
    for (source, target) in [("out.rdb", "one"), ("logs", "two")] {
        let (code, out, err) = import(&at(source), &at(target));
        assert!(code == 0 && out.ends_with(": 2 keys\n"), "{out}{err}");
    }
    let (code, _, err) = sinter(&[&"export", &"--dir", &at("data"), &"--format", &"rdb", &at("out.rdb")]);
    assert!(code == 2 && err.contains("out.rdb: it is there already"), "{err}");
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("damaged.rdb"), b"REDIS0009\x00\x01a\x01b\xff\x01\x02\x03\x04\x05\x06\x07\x08").unwrap();
    let (code, _, err) = import(&at("damaged.rdb"), &at("data"));
    assert!(code == 1 && err.contains("damaged.rdb: at byte 15: the checksum is"), "{err}");
    assert!(!at("data").exists(), "a directory was made for nothing");
    let (code, _, err) = import(&at("missing"), &at("data"));
    assert!(code == 2 && err.contains("missing: no such file or directory"), "{err}");
    let (code, _, err) = sinter(&[&"export", &"--dir", &at("data"), &"--format", &"rdb", &at("out.rdb")]);
    assert!(code == 2 && err.contains("data: no such directory"), "{err}");
    assert_eq!(sinter(&[&"export", &"--dir", &at("data"), &"--format", &"rdb", &at("out.rdb"), &"--rdb_version", &"10"]).0, 2);
    assert_eq!(sinter(&[&"export", &"--dir", &at("data"), &"--format", &"csv", &at("out.rdb")]).0, 2);
}

#[test]
fn damaged_keys_are_left_out_if_that_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    // A set of three-byte integers, an encoding that does not exist, between two strings; no checksum.
    fs::write(at("damaged.rdb"), b"REDIS0009\xfe\x00\x00\x01a\x01b\x0b\x01s\x09\x03\0\0\0\x01\0\0\0\x07\x00\x01c\x01d\xff\0\0\0\0\0\0\0\0")
        .unwrap();
    let (code, _, err) = import(&at("damaged.rdb"), &at("data"));
    assert!(code == 1 && err.contains("key s of database 0"), "{err}");
    let (code, out, err) = sinter(&[&"import", &at("damaged.rdb"), &"--dir", &at("data"), &"--skip-damaged"]);
    assert!(code == 3 && err.is_empty() && out.contains(": 2 keys\n"), "{out}{err}");
    assert!(out.contains("damaged.rdb: bytes 16 to 29: key s of database 0 was left out: at byte 29: "), "{out}");
    assert!(out.ends_with("1 damaged keys or parts of the file were left out\n"), "{out}");
    let bytes = fs::read(at("damaged.rdb")).unwrap();
    fs::write(at("cut.rdb"), &bytes[..33]).unwrap();
    let (code, out, _) = sinter(&[&"import", &at("cut.rdb"), &"--dir", &at("cut"), &"--skip-damaged"]);
    assert!(code == 3 && out.contains("cut.rdb: from byte 29 on everything was left out: "), "{out}");
    fs::write(at("appendonly.aof"), LOG).unwrap();
    let (code, _, err) = sinter(&[&"import", &at("appendonly.aof"), &"--dir", &at("log"), &"--skip-damaged"]);
    assert!(code == 2 && err.contains("in RDB files only"), "{err}");
}

#[test]
fn data_of_another_program_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let foreign = sinterdb::Db::open(at("foreign")).unwrap();
    foreign.put(b"a", b"1").unwrap();
    foreign.close().unwrap();
    let contents = || {
        let paths = fs::read_dir(at("foreign")).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = paths.map(|path| (fs::read(&path).unwrap(), path)).collect();
        all.sort();
        all
    };
    let before = contents();
    for (code, _, err) in [
        sinter(&[&"serve", &"--dir", &at("foreign"), &"--port", &"0"]),
        sinter(&[&"export", &"--dir", &at("foreign"), &"--format", &"rdb", &at("out.rdb")]),
    ] {
        assert!(code == 1 && err.contains("the data are in format 0"), "{err}");
    }
    assert!(contents() == before && !at("out.rdb").exists(), "something was written");
}
