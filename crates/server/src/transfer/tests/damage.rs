//! Partly damaged files: on demand all other keys are imported, and the left-out parts are reported.

use super::{NOW, everything, text, with};
use crate::keyspace::Keyspace;
use crate::rdb::{Output, Version, crc64, kind};
use crate::testing::fresh;
use crate::transfer::{Damage, Error, Found, Report, Result};
use std::path::Path;

fn import(path: &Path, keyspace: &mut Keyspace) -> Result<Report> {
    Found::look(path, Damage::Skip)?.load(keyspace, true, NOW)
}

/// A file with a key of each sort of damage between sound ones; one of them may be long. The file lacks its end.
fn body(is_long: bool) -> Vec<u8> {
    let mut out = Output::new(Vec::new());
    out.head(Version::Eleven).unwrap();
    out.database(2, 1, 0).unwrap();
    let sound = |out: &mut Output<Vec<u8>>, name: &str| {
        out.key(kind::STRING, name.as_bytes(), None).unwrap();
        out.string(b"1").unwrap();
    };
    sound(&mut out, "first");
    // A listpack that says it is longer than it is.
    out.key(kind::SET_LISTPACK, b"listpack", Some(NOW + 5)).unwrap();
    out.string(b"\x63\0\0\0\x01\0\x81a\x02\xff").unwrap();
    sound(&mut out, "second");
    // Found when it is loaded, and when a part of it is there.
    out.key(kind::SET, b"twice", None).unwrap();
    out.length(501).unwrap();
    (0..501).for_each(|n| out.string(format!("a member of a set {}", n % 500).as_bytes()).unwrap());
    out.key(kind::HASH_LISTPACK_DEADLINES_EARLY, b"deadlines", None).unwrap();
    out.string(b"anything").unwrap();
    if is_long {
        out.key(kind::SET, b"long", None).unwrap();
        out.length(2).unwrap();
        out.string(&vec![b'x'; 1 << 20]).unwrap();
        out.string(b"a").unwrap();
    }
    // A stream as Redis 5 wrote it: nodes, none of whose entries is alive, and more entries by its length.
    out.key(kind::STREAM, b"stream", None).unwrap();
    out.length(1).unwrap();
    out.string(&[0; 16]).unwrap();
    out.string(b"\x0f\0\0\0\x04\0\0\x01\0\x01\0\x01\0\x01\xff").unwrap();
    for n in [130, 7, 0, 0] {
        out.length(n).unwrap();
    }
    sound(&mut out, "last");
    let mut bytes = out.end().unwrap();
    // Without its end: one byte and the checksum.
    bytes.truncate(bytes.len() - 9);
    bytes
}

fn whole(mut body: Vec<u8>) -> Vec<u8> {
    body.push(0xff);
    let checksum = crc64(0, &body);
    [&body[..], &checksum.to_le_bytes()].concat()
}

#[test]
fn all_other_keys_are_taken() {
    let (_directory, path) = with("dump.rdb", &whole(body(true)));
    let error = Found::look(&path, Damage::Refuse).unwrap_err().to_string();
    assert!(error.contains("key listpack of database 2: "), "{error}");
    let mut keyspace = fresh();
    let report = import(&path, &mut keyspace).unwrap();
    assert_eq!((report.keys, report.left_out, report.corrected, report.notes.len()), (4, 4, 1, 5));
    for name in ["first", "second", "last"] {
        assert_eq!(text(&mut keyspace, 2, name), Some("1".into()));
    }
    assert_eq!((everything(&keyspace).len(), keyspace.deadlines(2)), (4, 0));
    let at = |name: &str| std::fs::read(&path).unwrap().windows(name.len()).position(|part| part == name.as_bytes()).unwrap();
    let reasons = [("listpack", "listpack"), ("deadlines", "a damaged listpack"), ("long", "longer than 1 MiB"), ("twice", "comes twice")];
    for (name, says) in reasons {
        // Before the name stand its type and its length; before these its deadline, if there is one.
        let from = at(name) - if name == "listpack" { 11 } else { 2 };
        let start = format!("{}: bytes {from} to ", path.display());
        let note = report.notes.iter().find(|note| note.contains(&format!("key {name} of database 2 was left out: "))).unwrap();
        assert!(note.starts_with(&start) && note.contains(says), "{note}");
    }
    let from = at("stream") - 2;
    let corrected =
        format!("{}: from byte {from} on: stream stream of database 2: corrected the number of entries from 130 to 0", path.display());
    assert!(report.notes.contains(&corrected), "{:?}", report.notes);
}

/// Everything before the cut is imported, and the size of the rest is reported.
#[test]
fn a_file_that_is_cut_is_taken_up_to_there() {
    let bytes = whole(body(false));
    for end in (9..bytes.len()).step_by(151).chain(bytes.len() - 40..bytes.len()) {
        let (_directory, path) = with("dump.rdb", &bytes[..end]);
        assert!(Found::look(&path, Damage::Refuse).is_err());
        let mut keyspace = fresh();
        let report = import(&path, &mut keyspace).unwrap();
        let names = ["first", "second", "last"].map(|name| [name.as_bytes(), &[0xc0, 1]].concat());
        let complete = names.iter().filter(|name| bytes[..end].windows(name.len()).any(|part| part == **name)).count();
        let found = ["first", "second", "last"].into_iter().filter(|name| text(&mut keyspace, 2, name).is_some()).count();
        assert_eq!(found, complete, "cut at {end}");
        let rest = report.notes.iter().filter(|note| note.contains(": from byte ") && note.contains("everything was left out: ")).count();
        assert_eq!(rest, 1, "cut at {end}: {:?}", report.notes);
    }
}

/// Whatever becomes of it, what is there can be read.
#[test]
fn any_byte_may_be_wrong() {
    let bytes = whole(body(false));
    let mut random = crate::testing::Random(7);
    for _ in 0..100 {
        let mut wrong = bytes.clone();
        // Few of them in the large set.
        let at = 9 + random.below(wrong.len() - 9);
        let at = if !at.is_multiple_of(4) { 9 + at % 120 } else { at };
        wrong[at] ^= 1 << random.below(8);
        let (_directory, path) = with("dump.rdb", &wrong);
        let mut keyspace = fresh();
        match import(&path, &mut keyspace) {
            Ok(report) => {
                assert!(report.left_out > 0, "byte {at}: {:?}", report.notes);
                assert_eq!(everything(&keyspace).len() as u64, report.keys);
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

#[test]
fn logs_are_not_taken_in_part() {
    let mut out = Output::new(Vec::new());
    out.head(Version::Nine).unwrap();
    out.aux("aof-base", "1").unwrap();
    for bytes in [out.end().unwrap(), super::log(&["SET a 1"])] {
        let (_directory, path) = with("appendonly.aof", &bytes);
        let error = import(&path, &mut fresh()).unwrap_err();
        assert!(matches!(&error, Error::Request(what) if what.contains("in RDB files only")), "{error}");
    }
}
