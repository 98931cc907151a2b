//! `sinter check` announces what opening would cut from a log, with an exit code of its own, for a directory and for a zoned drive.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use sinter_storage::store::{Cause, FileId, FileKind, Hint, MemoryStore, Store};
use sinter_storage::zoned::Emulator;
use sinter_storage::zoned_store::{Options, ZonedStore};
use sinterdb::{Db, Durability, WriteOptions};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

fn sinter(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).args(args).current_dir(directory).env("TMPDIR", directory).output().unwrap()
}

/// Changes the bytes of a log.
type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

/// The files of a process that was killed after 200 writes: all of them synced, or none.
fn killed(durability: Durability) -> (MemoryStore, FileId) {
    let store = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(store.clone()).unwrap();
    for n in 0..200u32 {
        db.put_with(&db.default_family(), &n.to_be_bytes(), &[7; 50], &WriteOptions::new(durability)).unwrap();
    }
    let image = store.clone_image();
    let mut logs = image.list().unwrap().into_iter().map(|file| file.0).filter(|id| id.kind == FileKind::Log);
    let log = logs.next().unwrap();
    assert_eq!(logs.next(), None);
    (image, log)
}

fn write(files: &MemoryStore, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for (id, _) in files.list().unwrap() {
        std::fs::write(to.join(id.to_string()), files.bytes(id).unwrap()).unwrap();
    }
}

fn with(files: &MemoryStore, id: FileId, change: impl FnOnce(&mut Vec<u8>)) -> MemoryStore {
    let changed = files.clone_image();
    let mut bytes = changed.bytes(id).unwrap();
    change(&mut bytes);
    changed.replace(id, bytes);
    changed
}

/// Runs a check with and without `--json`, which must agree on the exit code. Returns the code, the text, and the JSON.
#[track_caller]
fn check(at: &Path, args: &[&str]) -> (i32, String, Value) {
    let text = sinter(at, args);
    let json = sinter(at, &[args, &["--json"]].concat());
    assert!(text.stderr.is_empty() && json.stderr.is_empty(), "{text:?}");
    let code = text.status.code().unwrap();
    assert_eq!(json.status.code(), Some(code));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["clean"], code == 0, "{report}");
    assert_eq!(report["cuts"].as_array().unwrap().is_empty(), code != 3, "{report}");
    (code, String::from_utf8(text.stdout).unwrap(), report)
}

#[test]
fn what_opening_would_cut_is_said_before() {
    let home = tempfile::tempdir().unwrap();
    let (at, db) = (home.path(), home.path().join("db"));
    let (synced, log) = killed(Durability::Sync);
    let len = synced.bytes(log).unwrap().len();
    let look = |files: &MemoryStore| {
        write(files, &db);
        check(at, &["check", "db"])
    };
    assert_eq!(look(&synced).1, "db: clean\n");
    // Damage that later records prove not to be a crash's end.
    for files in [with(&synced, log, |bytes| bytes.insert(len / 2, 0)), with(&synced, log, Vec::clear)] {
        let (code, text, report) = look(&files);
        assert!(code == 1 && text.starts_with(&format!("damaged: {log} at offset ")) && text.ends_with("db: 1 damaged\n"), "{text}");
        assert_eq!(report["damages"][0]["file"], log.to_string());
    }
    // Damage without such proof looks like the end that a crash leaves. Zeros at the end of a log do not belong to it.
    let lost = with(&synced, log, |bytes| bytes[len / 2..].fill(0));
    let end = lost.bytes(log).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (code, text, report) = look(&lost);
    let cut = &report["cuts"][0];
    let (bytes, offset) = (cut["bytes"].as_u64().unwrap(), cut["offset"].as_u64().unwrap());
    assert_eq!((code, bytes + offset, cut["records"].as_u64()), (3, end as u64, Some(0)));
    let said = format!("opening cuts {bytes} bytes from {log}, from offset {offset} on, with 0 whole records in them\ndb: no damage ");
    assert!(text.starts_with(&said), "{text}");
    // The finding stays until the database is opened for writing, which cuts what was announced.
    let opened = Db::open(&db).unwrap();
    assert_eq!(opened.recovery().cuts.iter().map(|cut| (cut.offset, cut.bytes)).collect::<Vec<_>>(), [(offset, bytes)]);
    let kept = opened.iter().count();
    assert!((90..110).contains(&kept), "{kept} entries");
    opened.close().unwrap();
    assert_eq!(check(at, &["check", "db"]).1, "db: clean\n");
    // A real crash: records behind a torn one that were never synced, in place or moved.
    let (buffered, log) = killed(Durability::Buffered);
    assert_eq!(look(&buffered).1, "db: clean\n");
    let len = buffered.bytes(log).unwrap().len();
    for files in [with(&buffered, log, |bytes| bytes[len / 2] ^= 1), with(&buffered, log, |bytes| bytes.insert(len / 2, 9))] {
        let (code, text, report) = look(&files);
        let records = report["cuts"][0]["records"].as_u64().unwrap();
        assert!(code == 3 && (98..=100).contains(&records) && text.contains(&format!("with {records} whole records")), "{text}");
    }
    let (code, text, _) = look(&with(&buffered, log, Vec::clear));
    assert!(code == 3 && text.starts_with(&format!("opening passes over {log}, which is empty\n")), "{text}");
}

#[test]
fn a_volume_on_zones_says_it_as_well() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let (synced, log) = killed(Durability::Sync);
    let len = synced.bytes(log).unwrap().len();
    let changes: [(i32, Change<'_>); 4] = [
        (0, &|_| ()),
        (1, &|bytes| bytes.insert(len / 2, 0)),
        (3, &|bytes| bytes[len / 2..].fill(0)),
        (3, &|bytes| bytes.truncate(len / 2 + 5)),
    ];
    for (code, change) in changes {
        let made = sinter(at, &["zones", "format", "--force", "--emulate", "zones.img,32x1MiB"]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let files = with(&synced, log, change);
        let drive = Arc::new(Emulator::open(at.join("zones.img")).unwrap());
        let store = ZonedStore::open(drive, Options { background: false, ..Options::default() }).unwrap();
        for (id, _) in files.list().unwrap() {
            let cause = if id.kind == FileKind::Manifest { Cause::Manifest } else { Cause::Wal };
            let mut file = store.create(id, &Hint::new(cause)).unwrap();
            file.append(&files.bytes(id).unwrap()).unwrap();
            file.seal().unwrap();
        }
        store.sync_names().unwrap();
        drop(store);
        for args in [&["check", "zoned:zones.img"][..], &["zones", "check", "zones.img"]] {
            let (found, text, _) = check(at, args);
            assert_eq!(found, code, "{args:?}: {text}");
            let said = ["clean", "damaged: ", "", "opening cuts "][code as usize];
            assert!(text.contains(said), "{args:?}: {text}");
        }
    }
}
