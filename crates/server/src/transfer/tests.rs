//! Imports of files that are written here by hand, and exports that are imported again. What a real Redis writes and loads is compared in
//! `tests/rdb.rs`.

mod crash;
mod damage;

use super::{Damage, Error, Found, Report, Result, export_log, export_rdb};
use crate::keyspace::{EntryId, Keyspace, Kind, Pending, Side, encode_fields};
use crate::rdb::{Output, Version, crc64, kind};
use crate::resp::put_request;
use crate::testing::fresh;
use sinter_storage::store::MemoryStore;
use sinterdb::WriteOptions;
use sinterdb::settings::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const NOW: u64 = 1_000_000;

/// A directory with one file.
fn with(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

/// A log of commands, their words split at blanks.
fn log(commands: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for command in commands {
        put_request(&mut out, &command.split(' ').collect::<Vec<_>>());
    }
    out
}

/// An empty keyspace with the settings that a server has.
fn roomy() -> Keyspace {
    let mut keyspace = Keyspace::open(Arc::new(MemoryStore::new()), &Settings::default(), 42).unwrap();
    keyspace.set_now(NOW);
    keyspace
}

fn import(path: &Path, keyspace: &mut Keyspace) -> Result<Report> {
    Found::look(path, Damage::Refuse)?.load(keyspace, false, NOW)
}

fn text(keyspace: &mut Keyspace, db: usize, key: &str) -> Option<String> {
    keyspace.string(db, key.as_bytes()).unwrap().map(|text| String::from_utf8_lossy(text).into_owned())
}

/// A file with strings, each with its deadline, in two databases.
fn strings(aux: Option<(&str, &str)>) -> Vec<u8> {
    let mut out = Output::new(Vec::new());
    out.head(Version::Nine).unwrap();
    if let Some((name, value)) = aux {
        out.aux(name, value).unwrap();
    }
    for (db, key, deadline) in [(0, "a", None), (0, "over", Some(NOW - 1)), (3, "later", Some(NOW + 5000))] {
        out.database(db, 1, 0).unwrap();
        out.key(kind::STRING, key.as_bytes(), deadline).unwrap();
        out.string(b"1").unwrap();
    }
    out.end().unwrap()
}

#[test]
fn an_rdb_file() {
    let (_directory, path) = with("dump.rdb", &strings(None));
    let mut keyspace = fresh();
    let report = import(&path, &mut keyspace).unwrap();
    assert_eq!(report, Report { keys: 2, expired: 1, ..Report::default() });
    assert_eq!((text(&mut keyspace, 0, "a"), text(&mut keyspace, 0, "over")), (Some("1".into()), None));
    assert_eq!(keyspace.find(3, b"later").unwrap().unwrap().deadline, Some(NOW + 5000));
    // With keys in it, one has to say that they may go.
    let again = import(&path, &mut keyspace);
    assert!(matches!(again, Err(Error::Request(_))), "{again:?}");
    keyspace.set_string(0, b"own", b"1", None).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    let report = Found::look(&path, Damage::Refuse).unwrap().load(&mut keyspace, true, NOW).unwrap();
    assert_eq!((report.keys, text(&mut keyspace, 0, "own")), (2, None));
}

/// Loading reads the file a second time, and notices a change.
#[test]
fn a_file_that_has_changed_since_it_was_looked_at_is_an_error() {
    let (_directory, path) = with("dump.rdb", &strings(None));
    let found = Found::look(&path, Damage::Refuse).unwrap();
    let mut out = Output::new(Vec::new());
    out.head(Version::Nine).unwrap();
    out.database(99, 1, 0).unwrap();
    out.key(kind::STRING, b"a", None).unwrap();
    out.string(b"1").unwrap();
    fs::write(&path, out.end().unwrap()).unwrap();
    let error = found.load(&mut fresh(), false, NOW).unwrap_err().to_string();
    assert!(error.contains("database 99, and there are 16"), "{error}");
}

#[test]
fn a_log() {
    let commands = log(&[
        "SET a 1",
        "SELECT 2",
        "RPUSH l x y",
        // Its deadline is over, but was not when it was changed: it has to be there for that.
        "SET old 5 PXAT 5000",
        "INCR old",
        "PEXPIREAT old 99000000",
        "SET gone 1",
        "PEXPIREAT gone 1000",
        "MULTI",
        "SELECT 0",
        "INCRBY a 41",
        "EXEC",
        "SCRIPT LOAD x=1",
        "EVAL return(redis.call('incr',KEYS[1])) 1 a",
        // Redis makes `~` exact, and leaves the limit.
        "XADD stream MINID = 1 LIMIT 3 5-1 f v",
    ]);
    let (_directory, path) = with("appendonly.aof", &[b"#TS:1234\r\n", &commands[..], b"#TS:1235\r\n"].concat());
    let mut keyspace = fresh();
    let report = import(&path, &mut keyspace).unwrap();
    assert_eq!(report, Report { keys: 4, expired: 1, commands: 15, ..Report::default() });
    assert_eq!((text(&mut keyspace, 0, "a"), text(&mut keyspace, 2, "old")), (Some("43".into()), Some("6".into())));
    assert_eq!(text(&mut keyspace, 2, "gone"), None);
    assert_eq!(keyspace.find(2, b"l").unwrap().unwrap().count, 2);
}

#[test]
fn a_file_of_valkey() {
    let mut bytes = b"VALKEY080\xfe\0\0\x01a\x011\xff".to_vec();
    bytes.extend(crc64(0, &bytes).to_le_bytes());
    let (_directory, path) = with("dump.rdb", &bytes);
    let mut keyspace = fresh();
    assert_eq!(import(&path, &mut keyspace).unwrap(), Report { keys: 1, ..Report::default() });
    assert_eq!(text(&mut keyspace, 0, "a"), Some("1".into()));
}

/// Wherever a log is cut, its complete commands are imported, and the rest is reported.
#[test]
fn a_log_that_is_cut() {
    let start = log(&["SET a 1", "SET b 2"]);
    let whole = [&start[..], &log(&["MULTI", "SET c 3", "EXEC"])].concat();
    for end in start.len() + 1..whole.len() {
        let (_directory, path) = with("appendonly.aof", &whole[..end]);
        let mut keyspace = fresh();
        let report = import(&path, &mut keyspace).unwrap();
        let cut = (path, start.len() as u64, (end - start.len()) as u64);
        assert_eq!((report.keys, report.cut), (2, Some(cut)), "cut at {end}");
    }
}

#[test]
fn a_log_behind_an_rdb_file() {
    for (name, is_one) in [("aof-preamble", true), ("aof-base", true), ("ctime", false)] {
        let bytes = [strings(Some((name, "1"))), log(&["PERSIST over", "APPEND a 2"])].concat();
        let (_directory, path) = with("appendonly.aof", &bytes);
        let mut keyspace = fresh();
        let imported = import(&path, &mut keyspace);
        if !is_one {
            assert!(imported.unwrap_err().to_string().contains("more behind the end"));
            assert_eq!(keyspace.size(0), 0);
            continue;
        }
        assert_eq!(imported.unwrap(), Report { keys: 3, commands: 2, ..Report::default() });
        assert_eq!((text(&mut keyspace, 0, "a"), text(&mut keyspace, 0, "over")), (Some("12".into()), Some("1".into())));
    }
}

#[test]
fn a_directory_with_a_manifest() {
    let (directory, _) = with("appendonly.aof.1.base.rdb", &strings(Some(("aof-base", "1"))));
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    write("appendonly.aof.1.incr.aof", &log(&["SELECT 3", "SET x 1"]));
    // Each file begins in database 0.
    write("appendonly.aof.2.incr.aof", &[&log(&["SET y 1"])[..], b"*2\r\n$3\r\nDE"].concat());
    write("temp-appendonly.aof.manifest", b"unfinished");
    let missing = import(directory.path(), &mut fresh()).unwrap_err();
    assert!(missing.to_string().contains("no manifest"), "{missing}");
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\n# a remark\nfile old.aof seq 1 type h\n\
                    file appendonly.aof.1.incr.aof seq 1 type i\nfile appendonly.aof.2.incr.aof seq 2 type i\n";
    write("appendonly.aof.manifest", manifest.as_bytes());
    let mut keyspace = fresh();
    let report = import(directory.path(), &mut keyspace).unwrap();
    let cut = report.cut.clone().unwrap();
    assert_eq!((report.keys, report.expired, report.commands, cut.2), (4, 1, 3, 10));
    assert_eq!((text(&mut keyspace, 3, "x"), text(&mut keyspace, 0, "y")), (Some("1".into()), Some("1".into())));
    // Only the last file may be cut.
    write("appendonly.aof.1.incr.aof", b"*2\r\n$3");
    let error = import(directory.path(), &mut fresh()).unwrap_err();
    assert!(error.to_string().contains("not the last file"), "{error}");
    write("appendonly.aof.manifest", b"file a seq 1 type b\nfile b seq 2 type b\n");
    let error = import(directory.path(), &mut fresh()).unwrap_err();
    assert!(matches!(error, Error::Log { at: 20, .. }), "{error}");
}

/// Nothing is written, whatever damage the file has and wherever.
#[test]
fn what_is_wrong_is_found_before_anything_is_written() {
    let rdb = strings(None);
    let mut flipped = rdb.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let mut stream = Output::new(Vec::new());
    stream.head(Version::Nine).unwrap();
    stream.key(kind::STRING, b"a", None).unwrap();
    stream.string(b"1").unwrap();
    stream.key(kind::STREAM, b"s", None).unwrap();
    // No nodes, but a length of 1; last id; no groups.
    for n in [0, 1, 1, 1, 0] {
        stream.length(n).unwrap();
    }
    let mut far = Output::new(Vec::new());
    far.head(Version::Nine).unwrap();
    far.database(16, 1, 0).unwrap();
    let mut long = Output::new(Vec::new());
    long.head(Version::Nine).unwrap();
    long.key(kind::SET, b"s", None).unwrap();
    long.length(2).unwrap();
    long.string(b"a").unwrap();
    long.string(&vec![b'x'; 1 << 20]).unwrap();
    let good = log(&["SET a 1"]);
    let cases: [(Vec<u8>, &str); 13] = [
        (rdb[..rdb.len() - 1].to_vec(), "it ends in the middle of the checksum"),
        (flipped, "at byte"),
        (stream.end().unwrap(), "a stream that has not as many entries as it says"),
        (long.end().unwrap(), "key s of database 0: ERR a member of a collection is longer"),
        (far.end().unwrap(), "database 16, and there are 16"),
        ([&good[..], &log(&["NOSUCH x"])].concat(), "at byte 27: the command 'NOSUCH' is not supported"),
        // This command would write a file.
        ([&good[..], &log(&["SAVE"])].concat(), "at byte 27: the command 'SAVE' is none of a log"),
        ([&good[..], &log(&["MIGRATE 127.0.0.1 1 a 0 1"])].concat(), "at byte 27: the command 'MIGRATE' is none of a log"),
        ([&good[..], b"SET b 2\r\n"].concat(), "at byte 27: no command begins here"),
        ([&good[..], b"*1\r\n$x\r\n"].concat(), "at byte 27"),
        ([&good[..], b"*0\r\n"].concat(), "at byte 27: a command without a name"),
        (b"hello".to_vec(), "neither an RDB file nor a log"),
        (Vec::new(), "there is nothing in it"),
    ];
    for (bytes, says) in cases {
        let (_directory, path) = with("file", &bytes);
        let mut keyspace = fresh();
        let error = import(&path, &mut keyspace).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(keyspace.size(0), 0, "{says}");
    }
    assert!(matches!(import(Path::new("/no/such/file"), &mut fresh()), Err(Error::File { .. })));
}

#[test]
fn a_command_that_fails_ends_the_import() {
    for (commands, at) in [(&["SET a 1", "LPUSH a x", "SET b 2"][..], 27), (&["MULTI", "SET a 1", "SET b 2", "LPUSH a x", "EXEC"], 69)] {
        let (_directory, path) = with("appendonly.aof", &log(commands));
        let error = import(&path, &mut fresh()).unwrap_err().to_string();
        let says = format!("at byte {at}: the command 'LPUSH a' failed");
        assert!(error.contains(&says) && error.contains("WRONGTYPE"), "{error}");
    }
}

/// Adds more data than is committed at once, of every type.
fn fill(keyspace: &mut Keyspace) {
    let long = "x".repeat(300);
    for (n, kind) in [Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash].into_iter().enumerate() {
        let name = [b'k', b'0' + n as u8];
        let mut edit = keyspace.replace(n, &name, kind, Some(NOW + 77_000)).unwrap();
        for m in 0..35_000u32 {
            let member = format!("{m}{long}");
            match kind {
                Kind::List => keyspace.push(&mut edit, Side::Right, member.as_bytes()).unwrap(),
                Kind::Set => assert!(keyspace.add_member(&mut edit, member.as_bytes()).unwrap()),
                Kind::SortedSet => assert!(keyspace.set_score(&mut edit, member.as_bytes(), f64::from(m) / 7.0).unwrap().is_none()),
                _ => assert!(keyspace.set_field(&mut edit, &m.to_le_bytes(), member.as_bytes()).unwrap()),
            }
        }
        keyspace.finish(&edit);
        keyspace.commit(&WriteOptions::default()).unwrap();
    }
    fill_stream(keyspace, &long);
    keyspace.set_string(15, b"text", b"value", None).unwrap();
    keyspace.set_string(15, b"over", b"value", Some(5)).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
}

/// Adds a stream with entries and pending entries too large to be committed at once.
fn fill_stream(keyspace: &mut Keyspace, long: &str) {
    let mut edit = keyspace.edit(7, b"stream", Kind::Stream).unwrap();
    for n in 0..35_000 {
        keyspace.append(&mut edit, EntryId::new(5, n), encode_fields(&[b"field", long.as_bytes()]));
    }
    keyspace.finish(&edit);
    for name in [&b"one"[..], b"two"] {
        keyspace.create_group(&edit.head, name, EntryId::new(5, 34_000), Some(34_001)).unwrap();
        let mut group = keyspace.edit_group((7, b"stream"), &edit.head, name).unwrap().unwrap();
        let consumers = [&b"alice"[..], b"bob"].map(|name| keyspace.see_consumer(&mut group, name).unwrap());
        for n in 0..60_000 {
            // Some of them are gone.
            let pending = Pending { consumer: consumers[n as usize % 2], delivered: n, deliveries: n / 7 };
            keyspace.set_pending(&mut group, EntryId::new(4, n), None, pending).unwrap();
        }
        keyspace.finish_group(group);
    }
    keyspace.remove_entries(&mut edit, &[EntryId::new(5, 0), EntryId::new(5, 77)]).unwrap();
    keyspace.finish(&edit);
    keyspace.commit(&WriteOptions::default()).unwrap();
}

/// Database, name, deadline, size and checksum of a key's value.
type Seen = (usize, Vec<u8>, Option<u64>, u64, u64);

/// Everything that a keyspace holds.
fn everything(keyspace: &Keyspace) -> Vec<Seen> {
    let mut all = Vec::new();
    for db in 0..16 {
        let mut keys = Vec::new();
        let walked = keyspace.walk_keys(db, &mut |key, head, text| {
            let value = crate::persist::dump(keyspace, head, text).unwrap();
            keys.push((db, key.to_vec(), head.deadline, head.count, crate::rdb::crc64(0, &value)));
            std::ops::ControlFlow::Continue(())
        });
        walked.unwrap();
        keys.sort();
        all.extend(keys);
    }
    all
}

#[test]
fn what_is_exported_is_imported_again() {
    let mut keyspace = roomy();
    fill(&mut keyspace);
    let expected = everything(&keyspace);
    let directory = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let (file, folder) = (directory.path().join("dump.rdb"), directory.path().join("new/appendonlydir"));
    assert_eq!(export_rdb(&keyspace, &file, Version::Eleven, &never).unwrap(), 6);
    assert_eq!(export_log(&keyspace, &folder, Version::Ten, &never).unwrap(), 6);
    assert!(matches!(export_rdb(&keyspace, &file, Version::Nine, &never), Err(Error::Request(_))), "it is there already");
    assert!(matches!(export_log(&keyspace, &folder, Version::Nine, &never), Err(Error::Request(_))), "it is there already");
    for path in [file, folder] {
        // Members come in the order of their hashes, whose seed is that of the same test.
        let mut other = roomy();
        let report = import(&path, &mut other).unwrap();
        assert_eq!(report, Report { keys: 6, ..Report::default() });
        assert!(everything(&other) == expected, "{}", path.display());
    }
    // Told to stop, it leaves nothing.
    let target = directory.path().join("stopped.rdb");
    assert!(export_rdb(&keyspace, &target, Version::Nine, &AtomicBool::new(true)).is_err());
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Hashes some of whose fields have deadlines, inline and not, and one all of whose fields have.
fn fill_with_deadlines(keyspace: &mut Keyspace) {
    for (key, fields, from) in [(&b"small"[..], 9, 3), (b"large", 3000, 1000), (b"ends", 4, 0), (b"plain", 5, 5)] {
        let mut edit = keyspace.edit(3, key, Kind::Hash).unwrap();
        for n in 0..fields {
            keyspace.set_field(&mut edit, format!("field {n}").as_bytes(), b"value").unwrap();
            if n >= from {
                keyspace.set_field_deadline(&mut edit, format!("field {n}").as_bytes(), Some(NOW + 1 + n % 700 / 2)).unwrap();
            }
        }
        keyspace.finish(&edit);
    }
    keyspace.set_deadline(3, b"small", Some(NOW + 5000)).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
}

/// Files have deadlines of fields, in the form of the version that was asked for, or of the first one that can.
#[test]
fn deadlines_of_fields_come_back() {
    let mut keyspace = roomy();
    fill_with_deadlines(&mut keyspace);
    let expected = everything(&keyspace);
    let directory = tempfile::tempdir().unwrap();
    for (version, head) in [(Version::Nine, "REDIS0012"), (Version::Twelve, "REDIS0012"), (Version::Eighty, "VALKEY080")] {
        let (file, folder) = (directory.path().join(format!("{version:?}.rdb")), directory.path().join(format!("{version:?}")));
        let never = AtomicBool::new(false);
        assert_eq!(export_rdb(&keyspace, &file, version, &never).unwrap(), 4);
        assert_eq!(export_log(&keyspace, &folder, version, &never).unwrap(), 4);
        assert!(fs::read(&file).unwrap().starts_with(head.as_bytes()));
        for path in [file, folder] {
            let mut other = roomy();
            assert_eq!(import(&path, &mut other).unwrap(), Report { keys: 4, ..Report::default() });
            assert!(everything(&other) == expected, "{}", path.display());
            assert_eq!(other.expiring(3), 3);
        }
    }
    // Without deadlines the version is the one that was asked for.
    [&b"small"[..], b"large", b"ends"].iter().for_each(|key| assert!(keyspace.remove(3, key).unwrap()));
    keyspace.commit(&WriteOptions::default()).unwrap();
    let file = directory.path().join("plain.rdb");
    export_rdb(&keyspace, &file, Version::Nine, &AtomicBool::new(false)).unwrap();
    assert!(fs::read(&file).unwrap().starts_with(b"REDIS0009"));
}

/// Fields that have ended meanwhile are not there after an import, nor is a hash that has lost all of them.
#[test]
fn an_import_removes_fields_that_have_ended() {
    let mut keyspace = roomy();
    fill_with_deadlines(&mut keyspace);
    let (directory, mut later) = (tempfile::tempdir().unwrap(), roomy());
    let file = directory.path().join("dump.rdb");
    export_rdb(&keyspace, &file, Version::Nine, &AtomicBool::new(false)).unwrap();
    let report = Found::look(&file, Damage::Refuse).unwrap().load(&mut later, false, NOW + 2000).unwrap();
    assert_eq!(report, Report { keys: 3, expired: 1, ..Report::default() });
    let size = |keyspace: &mut Keyspace, key: &[u8]| keyspace.find(3, key).unwrap().map_or(0, |head| head.count);
    assert_eq!([&b"small"[..], b"large", b"ends", b"plain"].map(|key| size(&mut later, key)), [3, 1000, 0, 5]);
    assert_eq!((later.expiring(3), later.deadlines(3)), (0, 1));
}

/// Commands of a log are about fields that have ended since: they are there until its end.
#[test]
fn fields_end_at_the_end_of_a_log() {
    let commands = [
        "SELECT 0",
        "HSET h a 1 b 2 c 3",
        "HPEXPIREAT h 1000 FIELDS 2 a b",
        "HINCRBY h a 5",
        "HPERSIST h FIELDS 1 a",
        "HSET i a 1",
        "HPEXPIREAT i 5 FIELDS 1 a",
        "HSET i b 1",
        "HDEL i b",
        "COPY h j",
        "HPEXPIREAT h 2000000 FIELDS 1 c",
    ];
    let (_directory, path) = with("appendonly.aof", &log(&commands));
    let mut keyspace = roomy();
    let report = import(&path, &mut keyspace).unwrap();
    assert_eq!((report.keys, report.expired, report.commands), (2, 1, commands.len() as u64));
    for (key, deadline) in [(&b"h"[..], Some(2_000_000)), (b"j", None)] {
        let found = keyspace.find_collection(0, key).unwrap().unwrap();
        assert_eq!((found.count, keyspace.member(&found, b"a").unwrap()), (2, Some(b"6".to_vec())));
        assert_eq!(keyspace.field_deadline(&found, b"c").unwrap(), Some(deadline));
    }
}

#[test]
fn an_image_stays_as_it_was() {
    let mut keyspace = fresh();
    keyspace.set_string(0, b"a", b"1", None).unwrap();
    let mut edit = keyspace.edit(0, b"s", Kind::Set).unwrap();
    keyspace.add_member(&mut edit, b"m").unwrap();
    keyspace.finish(&edit);
    keyspace.commit(&WriteOptions::default()).unwrap();
    let image = keyspace.image();
    let before = everything(image.keyspace());
    keyspace.remove(0, b"s").unwrap();
    keyspace.set_string(0, b"a", b"2", None).unwrap();
    keyspace.set_string(0, b"b", b"3", None).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    assert_eq!((before.len(), image.keyspace().size(0)), (2, 2));
    assert!(everything(image.keyspace()) == before);
    assert!(everything(&keyspace) != before);
}

#[test]
fn libraries_of_functions_go_out_and_in() {
    let directory = tempfile::tempdir().unwrap();
    let (path, stops) = (directory.path().join("dump.rdb"), AtomicBool::new(false));
    let (mut keyspace, mut other) = (fresh(), fresh());
    keyspace.put_library(b"x", b"#!lua name=x\nredis.register_function('f', function() return 1 end)");
    keyspace.commit(&WriteOptions::default()).unwrap();
    export_rdb(&keyspace, &path, Version::Nine, &stops).unwrap();
    assert_eq!(import(&path, &mut other).unwrap().functions, 1);
    assert_eq!(other.libraries().unwrap(), keyspace.libraries().unwrap());
    assert!(import(&path, &mut other).unwrap_err().to_string().contains("libraries of functions already"));
}
