//! `sinter import` that is killed: the old keys stay until the new ones are complete, in a directory and on a zoned drive.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Fields of the large hash of the file, and the approximate size of each: enough for several commits of an import.
const FIELDS: usize = 60_000;
const VALUE: usize = 400;
/// Kills that have to hit an unfinished import, and attempts to get there.
const KILLS: usize = 4;
const ATTEMPTS: usize = 10;

fn sinter(at: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).current_dir(at).args(words).output().unwrap()
}

/// Output of a command, which must succeed.
fn says(at: &Path, words: &[&str]) -> String {
    let output = sinter(at, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that is refused.
fn refused(at: &Path, words: &[&str]) -> String {
    let output = sinter(at, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.push(0x80);
    out.extend(u32::try_from(length).unwrap().to_be_bytes());
}

/// An RDB file without a checksum: strings whose names begin with `name`, and a large hash if `fields` is not 0.
fn file(name: &str, strings: usize, fields: usize) -> Vec<u8> {
    let mut out = b"REDIS0009\xfe\x00".to_vec();
    for n in 0..strings {
        let key = format!("{name}{n}");
        out.extend([&[0, key.len() as u8][..], key.as_bytes(), b"\x05value"].concat());
    }
    if fields > 0 {
        out.extend(b"\x04\x04hash");
        put_length(&mut out, fields);
    }
    for n in 0..fields {
        put_length(&mut out, 8);
        out.extend(format!("{n:08}").into_bytes());
        put_length(&mut out, VALUE);
        // Hardly compressible.
        out.extend((0..VALUE).map(|at| (n.wrapping_mul(2_654_435_761) >> (at % 24)) as u8));
    }
    out.extend(b"\xff\0\0\0\0\0\0\0\0");
    out
}

/// Space taken by the files of a directory, bytes.
fn taken(at: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(at) else { return 0 };
    let of = |path: &Path| fs::metadata(path).map_or(0, |file| if file.is_dir() { taken(path) } else { 512 * file.blocks() });
    entries.flatten().map(|entry| of(&entry.path())).sum()
}

/// Begins an import and kills it once it has written so many bytes, unless it has ended before.
fn kill_after(at: &Path, dir: &str, bytes: u64) {
    let before = taken(at);
    let command = ["import", "new.rdb", "--replace", "--memory", "16MiB", "--dir", dir];
    let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
        .current_dir(at)
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() && taken(at) < before + bytes {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// An RDB file of the data, without the time at which it was written.
fn exported(at: &Path, dir: &str) -> Vec<u8> {
    says(at, &["export", "--dir", dir, "--format", "rdb", "out.rdb"]);
    let mut bytes = fs::read(at.join("out.rdb")).unwrap();
    fs::remove_file(at.join("out.rdb")).unwrap();
    let time = bytes.windows(5).position(|part| part == b"ctime").unwrap();
    bytes[time + 5..time + 11].fill(0);
    bytes.truncate(bytes.len() - 8);
    bytes
}

/// Kills imports over the existing data (`before` as a file, or none) until enough of them were unfinished. Returns their number.
fn kill_imports(at: &Path, dir: &str, before: &dyn Fn() -> Vec<u8>, keys: usize) -> usize {
    let mut unfinished = 0;
    for attempt in 0..ATTEMPTS {
        if unfinished == KILLS {
            break;
        }
        let expected = before();
        kill_after(at, dir, 1 << (12 + attempt * 5 % 12));
        let output = sinter(at, &["export", "--dir", dir, "--format", "rdb", "out.rdb"]);
        let _ = fs::remove_file(at.join("out.rdb"));
        if output.status.success() {
            // The import had not begun, or was complete.
            let out = String::from_utf8(output.stdout).unwrap();
            let is_whole = out.ends_with(&format!("out.rdb: {keys} keys\n")) || out.ends_with("out.rdb: 301 keys\n");
            assert!(is_whole, "{out}");
            continue;
        }
        let error = String::from_utf8(output.stderr).unwrap();
        if keys == 0 && !error.contains("an import has not finished") {
            // There is no complete database yet.
            continue;
        }
        unfinished += 1;
        let ends = format!("sinter import --abandon --dir {dir}");
        assert!(error.contains("an import has not finished") && error.contains(&ends), "{error}");
        let error = refused(at, &["serve", "--port", "0", "--dir", dir]);
        assert!(error.contains("an import has not finished") && error.contains(&ends), "{error}");
        if unfinished % 2 == 0 {
            // The next import succeeds all the same.
            says(at, &["import", "new.rdb", "--replace", "--memory", "16MiB", "--dir", dir]);
            assert!(says(at, &["export", "--dir", dir, "--format", "rdb", "out.rdb"]).ends_with(": 301 keys\n"));
            fs::remove_file(at.join("out.rdb")).unwrap();
            continue;
        }
        let said = says(at, &["import", "--abandon", "--dir", dir]);
        assert!(said.ends_with(&format!("abandoned an import that had not finished: {keys} keys\n")), "{said}");
        assert!(exported(at, dir) == expected, "{attempt}: other keys than before");
        assert!(says(at, &["import", "--abandon", "--dir", dir]).contains("no import to abandon"));
    }
    unfinished
}

fn prepare(at: &Path) {
    fs::write(at.join("old.rdb"), file("old", 200, 300)).unwrap();
    fs::write(at.join("new.rdb"), file("new", 300, FIELDS)).unwrap();
}

#[test]
fn old_keys_stay_until_the_new_ones_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    prepare(at);
    let before = || {
        says(at, &["import", "old.rdb", "--replace", "--dir", "data"]);
        exported(at, "data")
    };
    let unfinished = kill_imports(at, "data", &before, 201);
    println!("{unfinished} unfinished imports");
    let error = sinter(at, &["import", "--abandon", "--dir", "nowhere"]);
    assert!(error.status.code() == Some(2) && !at.join("nowhere").exists());
}

#[test]
fn a_new_directory_is_refused_until_its_import_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    prepare(at);
    fs::write(at.join("none.rdb"), file("none", 0, 0)).unwrap();
    says(at, &["import", "none.rdb", "--dir", "empty"]);
    let expected = exported(at, "empty");
    let before = || {
        let _ = fs::remove_dir_all(at.join("data"));
        expected.clone()
    };
    let unfinished = kill_imports(at, "data", &before, 0);
    println!("{unfinished} unfinished imports");
}

#[test]
fn zones_keep_old_keys_until_the_new_ones_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    prepare(at);
    says(at, &["zones", "format", "--emulate", "zones.img,256x1MiB"]);
    let before = || {
        says(at, &["import", "old.rdb", "--replace", "--memory", "16MiB", "--dir", "zoned:zones.img"]);
        exported(at, "zoned:zones.img")
    };
    let unfinished = kill_imports(at, "zoned:zones.img", &before, 201);
    println!("{unfinished} unfinished imports");
}
