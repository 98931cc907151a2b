//! Archives whole, damaged, and of hostile contents.

use super::super::testing::{self, request};
use super::super::{catalogue, folder::Folder, plan::Scale, plan::Study};
use super::{ARCHIVE, Stored, archive};
use crate::run::PhaseRecord;
use std::io::Write;
use std::path::Path;

/// A study with a record of each run, in its folder.
fn folder_of_study(path: &Path) -> Study {
    let study = catalogue::study("compaction-wal-waf", Scale::Ci, &request(&["sinter"], 1)).unwrap();
    let folder = Folder::create(path, &study).unwrap();
    for run in study.runs() {
        folder.keep(&run, &testing::record(study.spec(&run).unwrap(), &PhaseRecord::default())).unwrap();
    }
    study
}

/// Reads a folder. Returns the number of runs, or the complaint.
fn read(folder: &Path) -> Result<usize, String> {
    let read = || {
        let stored = Stored::read(folder)?;
        stored.study.as_ref().map(|text| text.parse::<serde_json::Value>()).transpose()?;
        stored.runs.values().map(|text| text.record().map(drop)).collect::<Result<Vec<_>, _>>()
    };
    read().map(|runs| runs.len()).map_err(|error| error.to_string())
}

#[test]
fn an_archive_is_lines_of_json() {
    let scratch = tempfile::tempdir().unwrap();
    let study = folder_of_study(scratch.path());
    std::fs::write(scratch.path().join("runs/notes.json"), "{}").unwrap();
    let loose = std::fs::read_to_string(scratch.path().join("runs/0002.json")).unwrap();
    let file = archive(scratch.path()).unwrap();
    let text = String::from_utf8(zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + study.runs().len());
    assert_eq!(lines[0], serde_json::to_string(&study).unwrap());
    assert_eq!(lines[3], format!("{{\"run\":2,\"record\":{}}}", loose.trim()), "records are copied to the byte");
    let left: Vec<_> = std::fs::read_dir(scratch.path().join("runs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.json"], "what is not the study's stays");
    let (folder, read) = Folder::open(scratch.path()).unwrap();
    assert!(read == study && study.runs().iter().all(|run| folder.record(&study, run).unwrap().is_some()));
    let again = std::fs::read(&file).unwrap();
    archive(scratch.path()).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), again);
}

#[test]
fn a_damaged_archive_is_named_with_its_line() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let runs = folder_of_study(folder).runs().len();
    let file = archive(folder).unwrap();
    let good = std::fs::read(&file).unwrap();
    assert_eq!(read(folder), Ok(runs));
    let refused = |bytes: &[u8], parts: &[&str]| {
        std::fs::write(&file, bytes).unwrap();
        let what = read(folder).unwrap_err();
        assert!(what.contains(ARCHIVE) && parts.iter().all(|part| what.contains(part)), "{parts:?} not in {what:?}");
    };
    for cut in [0, 3, good.len() / 2, good.len() - 1] {
        refused(&good[..cut], &[]);
    }
    for place in (0..good.len()).step_by(good.len() / 50) {
        let mut damaged = good.clone();
        damaged[place] ^= 0x10;
        refused(&damaged, &[]);
    }
    let text = String::from_utf8(zstd::decode_all(&*good).unwrap()).unwrap();
    let second = text.find('\n').unwrap() + 1;
    let twice = format!("{text}{}\n", text.lines().nth(2).unwrap());
    let cases: [(&str, &[&str]); 7] = [
        (&text[second..], &[", line 1: ", "has to be the study"]),
        (&text[..second + 100], &[", line 2: ", "does not end"]),
        (&text.replacen("{\"run\":0", "{\"run\":-1", 1), &[", line 2: ", "invalid value"]),
        (&text.replacen("\"record\":{\"version\":1", "\"record\":{\"version\":99", 1), &[", line 2: ", "record version 99"]),
        (&text.replacen("\"record\":{\"version\":1", "\"record\":[", 1), &[", line 2: "]),
        (&twice, &["run 1 is there twice", ", line 3"]),
        ("no study\n", &[", line 1: ", "expected"]),
    ];
    for (damage, parts) in cases {
        refused(&zstd::encode_all(damage.as_bytes(), 1).unwrap(), parts);
    }
}

/// A few kilobytes can claim to be gigabytes.
#[test]
fn lines_without_end_are_given_up() {
    let scratch = tempfile::tempdir().unwrap();
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let zeros = vec![b'0'; 1 << 20];
    (0..100).for_each(|_| bomb.write_all(&zeros).unwrap());
    std::fs::write(scratch.path().join(ARCHIVE), bomb.finish().unwrap()).unwrap();
    let what = read(scratch.path()).unwrap_err();
    assert!(what.contains(", line 1: ") && what.contains("too long"), "{what}");
}

/// A record that no reader understands would make the archive unreadable, and could not be removed from it.
#[test]
fn what_is_no_record_stays_loose() {
    let scratch = tempfile::tempdir().unwrap();
    let runs = folder_of_study(scratch.path()).runs().len();
    let broken = scratch.path().join("runs/0001.json");
    std::fs::write(&broken, "[]").unwrap();
    assert!(archive(scratch.path()).unwrap_err().to_string().contains("runs/0001.json"));
    assert!(broken.exists() && !scratch.path().join(ARCHIVE).exists());
    std::fs::remove_file(broken).unwrap();
    archive(scratch.path()).unwrap();
    assert_eq!(read(scratch.path()), Ok(runs - 1));
}
