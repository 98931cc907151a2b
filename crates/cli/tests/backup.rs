//! Copies of volumes on zoned drives: damage is named, and a damaged copy never counts as a backup.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use super::zones::{filled, json, prints, sinter};
use sinter_storage::backup::Copied;
use sinter_storage::place::ZonedPlace;
use sinter_storage::store::{Cause, Hint, Store};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of the first table of a drive with zones of 1 MiB; returns its name. A second call flips it back.
fn rot(at: &Path, drive: &str) -> String {
    let dump = json(at, &["zones", "dump", drive, "--json"]);
    let table = dump["files"].as_array().unwrap().iter().find(|file| file["file"].as_str().unwrap().ends_with(".sst")).unwrap();
    let extent = &table["extents"][0];
    let image = std::fs::File::options().read(true).write(true).open(at.join(drive)).unwrap();
    let place = (extent["zone"].as_u64().unwrap() << 20) + extent["at"].as_u64().unwrap() + 700;
    let mut byte = [0];
    image.read_exact_at(&mut byte, place).unwrap();
    image.write_all_at(&[byte[0] ^ 16], place).unwrap();
    table["file"].as_str().unwrap().to_owned()
}

/// The output of a command that ends with exit code 1.
#[track_caller]
fn fails(at: &Path, args: &[&str]) -> String {
    let output = sinter(at, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn rot_is_named_and_no_backup() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let table = rot(at, "zones.img");
    let said = fails(at, &["zones", "backup", "zones.img", "out"]);
    assert!(said.contains(&format!("damaged: {table} at offset 0: the checksum of a block does not match")), "{said}");
    assert!(said.contains("1 damaged. It is no backup"), "{said}");
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    for file in dump["files"].as_array().unwrap() {
        let saved = std::fs::metadata(at.join("out").join(file["file"].as_str().unwrap())).unwrap();
        assert_eq!(Some(saved.len()), file["bytes"].as_u64(), "{file}");
    }
    assert!(!at.join("out/BACKUP").exists());

    // A backup that was not verified.
    let store = ZonedPlace::new(at.join("zones.img")).quiet().open().unwrap();
    Copied::make(&store, &at.join("old")).unwrap().finish().unwrap();
    drop(store);
    prints(at, &["zones", "format", "--emulate", "other.img,64x1MiB"]);
    prints(at, &["bench", "--store=zoned:other.img", "--num=100", "--benchmarks=fillseq"]);
    let said = fails(at, &["zones", "restore", "old", "other.img", "--force"]);
    assert!(said.contains(&format!("damaged: {table} at offset 0: ")) && said.contains("left as it is"), "{said}");
    assert!(prints(at, &["zones", "check", "other.img"]).contains("clean, 2 files"));

    rot(at, "zones.img");
    prints(at, &["zones", "backup", "zones.img", "good"]);
    prints(at, &["zones", "restore", "good", "other.img", "--force"]);
}

/// A volume that is a tier has no manifest: its tables are verified one by one.
#[test]
fn rot_on_a_tier_is_named() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    prints(at, &["zones", "format", "--emulate", "tier.img,64x1MiB"]);
    let store = ZonedPlace::new(at.join("zones.img")).quiet().open().unwrap();
    let to = ZonedPlace::new(at.join("tier.img")).quiet().open().unwrap();
    for (id, _) in store.list().unwrap().into_iter().filter(|(id, _)| id.kind == sinter_storage::store::FileKind::Table) {
        store.share(id, &to, &Hint::new(Cause::Checkpoint)).unwrap();
    }
    to.create(sinter_storage::store::FileId::tier(999), &Hint::new(Cause::Manifest)).unwrap().seal().unwrap();
    to.sync_names().unwrap();
    drop((store, to));
    prints(at, &["zones", "backup", "tier.img", "good"]);
    let table = rot(at, "tier.img");
    for args in [&["zones", "check", "tier.img"][..], &["zones", "backup", "tier.img", "out"]] {
        let said = fails(at, args);
        assert!(said.contains(&format!("damaged: {table} at offset 0: the checksum of a block does not match")), "{said}");
    }
}
