//! Zoned drives from outside: made, filled, drawn, verified, copied and restored.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use sinter_storage::store::Store;
use std::path::Path;
use std::process::{Command, Output};

pub(super) fn sinter(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinter")).args(args).current_dir(directory).env("TMPDIR", directory).output().unwrap()
}

/// Output of a command, which must succeed.
#[track_caller]
pub(super) fn prints(directory: &Path, args: &[&str]) -> String {
    let output = sinter(directory, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub(super) fn json(directory: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&prints(directory, args)).unwrap()
}

/// Checks for this exit code, nothing on stdout, and one line on stderr that contains `part`.
#[track_caller]
fn refused(directory: &Path, args: &[&str], code: i32, part: &str) {
    let output = sinter(directory, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{args:?}: {stderr}");
    assert!(stderr.starts_with("sinter: ") && stderr.contains(part), "{part:?} not in {stderr:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

/// Makes a volume of 64 zones of 1 MiB, two of them for metadata, that holds a database of 10,000 keys.
pub(super) fn filled(at: &Path) {
    prints(at, &["zones", "format", "--emulate", "zones.img,64x1MiB"]);
    let bench = ["bench", "--store=zoned:zones.img", "--num=10000", "--value_size=400", "--write_buffer_size=1MiB"];
    let tree = ["--target_file_size_base=1MiB", "--max_bytes_for_level_base=2MiB", "--seed=3"];
    prints(at, &[&bench[..], &tree, &["--benchmarks=fillrandom,overwrite,flush,waitforcompaction"]].concat());
}

#[test]
fn a_drive_is_formatted_only_if_nothing_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let made = prints(at, &["zones", "format", "--emulate", "zones.img,32x1MiB,capacity=768KiB,open=6,active=8"]);
    assert!(made.contains("32 zones of 1.0 MiB, blocks of 4.0 KiB") && made.contains("2 zones for metadata, 30 for files"), "{made}");
    assert_eq!(std::fs::metadata(at.join("zones.img")).unwrap().len(), 32 << 20);
    let shape = &json(at, &["zones", "dump", "zones.img", "--json"])["geometry"];
    assert_eq!((shape["max_open"].as_u64(), shape["max_active"].as_u64(), shape["block"].as_u64()), (Some(6), Some(8), Some(4096)));
    prints(at, &["zones", "format", "zones.img"]);
    assert!(!made.contains("lie among tables") && made.contains("\na database with the default settings can store "), "{made}");
    let crowded = prints(at, &["zones", "format", "--emulate", "crowded.img,24x1MiB,active=3"]);
    assert!(crowded.contains("only 3 zones may be active") && crowded.contains("with 6 more could be stored"), "{crowded}");
    prints(at, &["zones", "format", "--emulate", "free.img,24x1MiB,active=0,open=0"]);
    let shape = &json(at, &["zones", "dump", "free.img", "--json"])["geometry"];
    assert!(shape["max_open"].is_null() && shape["max_active"].is_null(), "{shape}");
    refused(at, &["zones", "format", "--emulate", "zones.img,32x1MiB"], 2, "the drive exists");
    prints(at, &["zones", "format", "--force", "--emulate", "zones.img,64x1MiB"]);
    prints(at, &["bench", "--store=zoned:zones.img", "--num=100", "--benchmarks=fillseq"]);
    refused(at, &["zones", "format", "zones.img"], 2, "it holds a volume with 2 files; --force");
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean, 2 files"));
    prints(at, &["zones", "format", "zones.img", "--force"]);
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean, 0 files"));

    std::fs::write(at.join("file"), "mine").unwrap();
    for drive in ["file", "/dev/null", "."] {
        refused(at, &["zones", "format", "--force", drive], 2, "neither a zoned block device nor the file of an emulated drive");
    }
    refused(at, &["zones", "format", "--force", "--emulate", "file,20x1MiB"], 2, "is no emulated drive");
    assert_eq!(std::fs::read(at.join("file")).unwrap(), b"mine");
    refused(at, &["zones", "format", "missing"], 2, "missing: ");
    refused(at, &["zones", "format"], 2, "<DRIVE>");
    refused(at, &["zones", "format", "zones.img", "--emulate", "a,20x1MiB"], 2, "cannot be used with");
    refused(at, &["zones", "format", "--emulate", "small.img,4x1MiB"], 2, "zones are too few");
    refused(at, &["zones", "format", "--emulate", "odd.img,8x1000"], 2, "zones are whole blocks, and one is of 4096 bytes");
    refused(at, &["zones", "format", "--emulate", "odd.img,8by4KB"], 2, "must be FILE|DEVICE,ZONESxSIZE");
    assert!(!at.join("small.img").exists() && !at.join("odd.img").exists(), "a refused request leaves nothing behind");
    for too_small in ["zones.img,2x4MiB", "zones.img,32x1MiB,active=2"] {
        refused(at, &["zones", "format", "--force", "--emulate", too_small], 2, "zones");
        assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean, 0 files"), "the old drive is still there");
    }
    refused(at, &["zones", "mpa", "zones.img"], 2, "mpa");
}

#[test]
fn a_volume_is_shown_in_all_its_parts() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    let (zones, files) = (dump["zones"].as_array().unwrap(), dump["files"].as_array().unwrap());
    assert_eq!((zones.len(), dump["metadata_zones"][1].as_u64()), (64, Some(2)));
    let sum = |list: &[Value], key: &str| list.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>();
    for file in files {
        let extents = file["extents"].as_array().unwrap();
        assert_eq!(sum(extents, "bytes"), file["bytes"].as_u64().unwrap(), "{file}");
    }
    assert_eq!(sum(zones, "live"), sum(files, "bytes"));
    assert!(files.iter().any(|file| file["level"].as_u64() > Some(0) && !file["keys"].is_null()), "{files:?}");
    let text = prints(at, &["zones", "dump", "zones.img"]);
    assert!(text.contains("metadata in zones 0 to 1, ") && text.contains(".sst: ") && text.contains("  bytes 0 to "), "{text}");

    let df = json(at, &["zones", "df", "zones.img", "--json"]);
    let classes = df["classes"].as_array().unwrap();
    for class in classes.iter().filter(|class| class["class"] != "metadata") {
        let parts: u64 = ["live", "padding", "dead", "unwritten"].iter().map(|part| class[part].as_u64().unwrap()).sum();
        assert_eq!(Some(parts), class["capacity"].as_u64(), "{class}");
    }
    assert_eq!((sum(classes, "zones"), sum(classes, "live")), (64, sum(files, "bytes")));
    let space = df["space"].as_object().unwrap();
    let parts: Vec<u64> = space.iter().filter(|(name, _)| *name != "all").map(|(_, bytes)| bytes.as_u64().unwrap()).collect();
    assert_eq!((parts.len(), parts.iter().sum::<u64>()), (10, 64 << 20), "{space:?}");
    for part in ["metadata", "tables", "logs", "reserved_collector", "reserved_flushes", "reserved_compactions", "available"] {
        assert!(space[part].as_u64() > Some(0), "{part} in {space:?}");
    }
    let text = prints(at, &["zones", "df", "zones.img"]);
    for part in ["reserved for compactions ", "available for tables ", "the drive "] {
        assert!(text.contains(part), "{part:?} not in {text}");
    }
    for part in ["class ", "\nmetadata ", "\nmanifests ", "\nL1 medium ", "\nfor files ", "\nfree:  ", "\nwear:  ", "\nzones: "] {
        assert!(text.contains(part), "{part:?} not in {text}");
    }

    let text = prints(at, &["zones", "map", "zones.img"]);
    assert!(text.contains("\n       0  MM") && text.contains("tables of level 1") && text.contains("L1 medium"), "{text}");
    let svg = prints(at, &["zones", "map", "zones.img", "--format=svg"]);
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert_eq!((svg.matches("<g>").count(), svg.matches("</g>").count()), (64, 64));
    prints(at, &["zones", "map", "zones.img", "--format=html", "--output=map.html"]);
    let page = std::fs::read_to_string(at.join("map.html")).unwrap();
    assert!(page.contains("<svg ") && page.contains("<td>L1 medium</td>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("http").count(), 1, "a name space, and nothing that is loaded");
    assert_eq!(json(at, &["zones", "map", "zones.img", "--format=json"])["zones"].as_array().unwrap().len(), 64);
    for part in ["--output=zones.img", "--output=./zones.img.zones"] {
        refused(at, &["zones", "map", "zones.img", part], 2, "that is the drive");
    }
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean"));
}

/// The ledger of a bench accounts for every byte written to the drive, and other commands open the volume.
#[test]
fn a_database_lives_on_zones() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let bench = ["bench", "--use_existing_db", "--num=10000", "--value_size=400", "--seed=3", "--write_buffer_size=1MiB"];
    let policy = "--store=zoned:zones.img,allocation=sla,reset=eager,collector=lifetime";
    let text = prints(at, &[&bench[..], &[policy, "--benchmarks=overwrite,readrandom", "--json=out.json"]].concat());
    let report: Value = serde_json::from_slice(&std::fs::read(at.join("out.json")).unwrap()).unwrap();
    let (wrote, read) = (&report["phases"][0], &report["phases"][1]);
    assert_eq!(read["found"]["asked"].as_u64(), Some(10000));
    assert!(read["found"]["found"].as_u64() > Some(5000), "{read}");
    let zones = &wrote["zones"];
    let causes = zones["by_cause"].as_array().unwrap();
    let written: u64 = causes.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!((causes.len(), Some(written)), (6, zones["device_bytes"].as_u64()));
    assert!(zones["used"].as_u64() > Some(0) && zones["resets"].as_u64() > Some(0), "{zones}");
    assert_eq!(
        (report["machine"]["file_system"].as_str(), report["machine"]["device"].as_str()),
        (Some("zoned volume"), Some("zones.img"))
    );
    for part in
        ["  block padding ", "  zone metadata ", "  device  ", "  zones ", "  device write amplification ", "Database:   zoned:zones.img,"]
    {
        assert!(text.contains(part), "{part:?} not in {text}");
    }
    assert!(prints(at, &["check", "zoned:zones.img"]).contains("zoned:zones.img: clean"));
    assert!(prints(at, &["check", "--store=zoned:zones.img"]).contains("clean"));
    assert!(prints(at, &["inspect", "zoned:zones.img"]).starts_with("family 0 \"default\""));
    let below = prints(at, &["inspect", "--store", "zoned:zones.img", "zones"]);
    assert!(below.contains("frame heads and block padding") && below.contains("of 62 in use"), "{below}");
    refused(at, &["inspect", "zoned:zones.img", "--store=zoned:zones.img"], 2, "cannot be used with");
    refused(at, &["check", "zoned:zones.img,allocation=best"], 2, "must be one of zenfs, ");
    refused(at, &["bench", "--store=zoned:other.img"], 2, "other.img: ");
    prints(at, &["zones", "format", "--emulate", "empty.img,20x1MiB"]);
    refused(at, &["check", "zoned:empty.img"], 2, "no database there");
    refused(at, &["bench", "--store=zoned:empty.img", "--use_existing_db"], 2, "no database there");
    prints(at, &["bench", "--db", "db", "--num=10", "--benchmarks=fillseq"]);
    refused(at, &["inspect", "db", "zones"], 2, "does not lie on a zoned drive");
}

#[test]
fn a_drive_in_use_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let held = sinter_storage::place::ZonedPlace::new(at.join("zones.img")).open().unwrap();
    for args in [
        &["zones", "format", "--force", "zones.img"][..],
        &["zones", "format", "--force", "--emulate", "zones.img,20x1MiB"],
        &["zones", "map", "zones.img"],
        &["zones", "check", "zones.img"],
        &["zones", "df", "zones.img"],
        &["zones", "dump", "zones.img"],
        &["zones", "backup", "zones.img", "out"],
        &["check", "zoned:zones.img"],
        &["inspect", "zoned:zones.img"],
        &["bench", "--store=zoned:zones.img", "--num=10"],
    ] {
        refused(at, args, 1, "zones.img: the drive is in use");
    }
    drop(held);
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean"));
}

/// A flipped bit in a table and missing metadata are both named.
#[test]
fn damage_is_named() {
    use std::os::unix::fs::FileExt;
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    let tables = dump["files"].as_array().unwrap().iter();
    let table = tables.filter(|file| file["file"].as_str().unwrap().ends_with(".sst")).max_by_key(|file| file["bytes"].as_u64()).unwrap();
    let extent = &table["extents"][0];
    let offset = (extent["zone"].as_u64().unwrap() << 20) + extent["at"].as_u64().unwrap() + 1000;
    let image = std::fs::File::options().read(true).write(true).open(at.join("zones.img")).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, offset).unwrap();
    image.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    let output = sinter(at, &["zones", "check", "zones.img"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with(&format!("damaged: {} at offset ", table["file"].as_str().unwrap())) && text.contains("1 damaged"), "{text}");
    assert_eq!(sinter(at, &["check", "zoned:zones.img"]).status.code(), Some(1));
    let report: Value = serde_json::from_slice(&sinter(at, &["zones", "check", "zones.img", "--json"]).stdout).unwrap();
    assert_eq!((report["clean"].as_bool(), report["database"].as_array().map(Vec::len)), (Some(false), Some(1)), "{report}");

    for zone in 0..2 {
        image.write_all_at(&[0xff; 100], zone << 20).unwrap();
    }
    let output = sinter(at, &["zones", "check", "zones.img"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("damaged: "));
    refused(at, &["zones", "map", "zones.img"], 1, "neither region of the metadata holds a whole snapshot");
    refused(at, &["zones", "format", "zones.img"], 2, "or it is damaged");
}

/// An unreadable log keeps the database from opening, but its tables are still verified.
#[test]
fn all_damage_is_named_although_the_database_does_not_open() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    // Not flushed.
    prints(at, &["bench", "--store=zoned:zones.img", "--use_existing_db", "--num=100", "--value_size=400", "--benchmarks=overwrite"]);
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    let files = dump["files"].as_array().unwrap();
    let zone = |file: &Value| file["extents"][0]["zone"].as_u64();
    let name = |file: &Value| file["file"].as_str().unwrap().to_owned();
    let log = files.iter().find(|file| name(file).ends_with(".log") && zone(file).is_some()).unwrap();
    let table = files.iter().find(|file| name(file).ends_with(".sst") && zone(file) != zone(log)).unwrap();
    let drive = sinter_storage::zoned::Emulator::open(at.join("zones.img")).unwrap();
    for file in [log, table] {
        drive.break_zone(zone(file).unwrap() as u32, sinter_storage::zoned::ZoneState::Offline).unwrap();
    }
    drop(drive);
    let output = sinter(at, &["check", "zoned:zones.img"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lost = files.iter().filter(|file| [zone(log), zone(table)].contains(&zone(file)) && file["bytes"] != 0);
    lost.for_each(|file| assert!(text.contains(&format!("damaged: {}", name(file))), "{}: {text}", name(file)));
}

/// Without its manifest a database does not open. Findings about the volume are still reported.
#[test]
fn a_lost_zone_is_named_when_the_database_cannot_be_read() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    let mut manifests = dump["files"].as_array().unwrap().iter().filter(|file| file["file"].as_str().unwrap().contains("manifest"));
    let manifest = manifests.next_back().unwrap();
    let zone = manifest["extents"][0]["zone"].as_u64().unwrap() as u32;
    let drive = sinter_storage::zoned::Emulator::open(at.join("zones.img")).unwrap();
    drive.break_zone(zone, sinter_storage::zoned::ZoneState::Offline).unwrap();
    drop(drive);
    let output = sinter(at, &["zones", "check", "zones.img"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let hole = format!("damaged: {} is damaged from byte 0 to ", manifest["file"].as_str().unwrap());
    let unread = format!("damaged: {} at offset 0: ", manifest["file"].as_str().unwrap());
    assert!(text.contains(&hole) && text.contains(&unread), "{text}");
    let report: Value = serde_json::from_slice(&sinter(at, &["zones", "check", "zones.img", "--json"]).stdout).unwrap();
    assert!(report["clean"] == false && !report["volume"].as_array().unwrap().is_empty(), "{report}");
    assert_eq!(report["database"].as_array().map(Vec::len), Some(1), "{report}");
}

/// A drive with damaged states can be replaced with `--force`; a file that is no drive never is.
#[test]
fn a_damaged_image_can_be_replaced() {
    use std::os::unix::fs::FileExt;
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(at, &["zones", "format", "--emulate", "zones.img,32x1MiB"]);
    for damaged in [0, 9, 512, 4096] {
        let states = std::fs::File::options().write(true).open(at.join("zones.img.zones")).unwrap();
        states.write_all_at(&[0xff; 8], damaged).unwrap();
        refused(at, &["zones", "format", "--emulate", "zones.img,32x1MiB"], 2, "the drive exists");
        prints(at, &["zones", "format", "--emulate", "zones.img,32x1MiB", "--force"]);
        assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean, 0 files"));
    }
    // Truncated states are damage, and empty ones are half a drive.
    std::fs::File::options().write(true).open(at.join("zones.img.zones")).unwrap().set_len(5000).unwrap();
    let check = sinter(at, &["zones", "check", "zones.img"]);
    let text = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.code() == Some(1) && text.starts_with("damaged: ") && text.contains("cut short"), "{text}");
    std::fs::remove_file(at.join("zones.img")).unwrap();
    refused(at, &["zones", "format", "--emulate", "zones.img,32x1MiB"], 2, "only the states, in zones.img.zones; --force");
    prints(at, &["zones", "format", "--emulate", "zones.img,32x1MiB", "--force"]);
    std::fs::write(at.join("file"), "mine").unwrap();
    std::fs::write(at.join("file.zones"), [0; 8192]).unwrap();
    refused(
        at,
        &["zones", "format", "--emulate", "file,32x1MiB", "--force"],
        2,
        "is no emulated drive, which has its states in file.zones",
    );
    std::fs::remove_file(at.join("file")).unwrap();
    refused(at, &["zones", "format", "--emulate", "file,32x1MiB", "--force"], 1, "file.zones: the file exists");
}

/// A full drive is full only until something is deleted, and never closes the database. With fewer zones no volume is made.
#[test]
fn a_small_drive_is_never_full_for_good() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    refused(at, &["zones", "format", "--emulate", "zones.img,19x1MiB"], 2, "19 zones are too few: 2 are for metadata, and files need 18");
    prints(at, &["zones", "format", "--emulate", "zones.img,20x1MiB"]);
    let bench = ["bench", "--store=zoned:zones.img", "--seed=1", "--num=20000", "--value_size=100", "--compression_type=none"];
    let tree = ["--write_buffer_size=262144", "--target_file_size_base=131072", "--max_bytes_for_level_base=524288"];
    let run = |more: &[&str]| sinter(at, &[&bench[..], &tree, more].concat());
    let full = run(&["--benchmarks=fillrandom,overwrite"]);
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.success() || said.contains("no space") && !said.contains("closed"), "{said}");
    let deleted = run(&["--use_existing_db", "--benchmarks=deleteseq"]);
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean"));
}

#[test]
fn a_backup_comes_back_on_another_drive() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    std::fs::create_dir(at.join("full")).unwrap();
    std::fs::write(at.join("full/file"), "mine").unwrap();
    refused(at, &["zones", "backup", "zones.img", "full"], 2, "not empty");
    let said = prints(at, &["zones", "backup", "zones.img", "out"]);
    assert!(said.contains("out: ") && said.contains("saved from zones.img"), "{said}");
    assert!(prints(at, &["check", "out"]).contains("clean"), "a backup is a database");

    prints(at, &["zones", "format", "--emulate", "other.img,24x3MiB,capacity=2MiB,block=512"]);
    // Options of the volume do not affect the restored files.
    prints(at, &["zones", "restore", "out", "zoned:other.img,allocation=zenfs,fallback=false"]);
    let files = |drive: &str| {
        let dump = json(at, &["zones", "dump", drive, "--json"]);
        let files = dump["files"].as_array().unwrap().iter();
        files.map(|f| (f["file"].clone(), f["bytes"].clone(), f["level"].clone(), f["lifetime"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(files("other.img"), files("zones.img"));
    assert!(prints(at, &["zones", "check", "other.img"]).contains("clean"));
    let read =
        ["bench", "--store=zoned:other.img", "--use_existing_db", "--num=10000", "--value_size=400", "--benchmarks=readseq,overwrite"];
    assert!(prints(at, &read).contains("readseq"));

    refused(at, &["zones", "restore", "out", "other.img"], 2, "--force");
    refused(at, &["zones", "restore", "missing", "other.img"], 2, "missing/BACKUP: ");
    let mut saved = std::fs::read_dir(at.join("out")).unwrap().map(|file| file.unwrap().path());
    let table = saved.find(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = table.unwrap();
    let good = std::fs::read(&table).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(&table, bad).unwrap();
    refused(at, &["zones", "restore", "out", "zones.img", "--force"], 1, "not those that were saved");
    std::fs::write(&table, &good[1..]).unwrap();
    refused(at, &["zones", "restore", "out", "zones.img", "--force"], 1, "is not as the backup has it");
    std::fs::remove_file(&table).unwrap();
    refused(at, &["zones", "restore", "out", "zones.img", "--force"], 1, "is missing");
    std::fs::write(&table, &good).unwrap();
    std::fs::write(at.join("out/000999.log"), "").unwrap();
    refused(at, &["zones", "restore", "out", "zones.img", "--force"], 1, "000999.log is not as the backup has it");
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean"), "a damaged backup costs nothing");
}

/// Neither a restore that does not fit nor an interrupted one leaves a database, and it can be repeated.
#[test]
fn a_backup_that_does_not_fit_or_was_cut_short_is_no_database() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    std::fs::write(at.join("file"), "mine").unwrap();
    refused(at, &["zones", "backup", "zones.img", "file"], 2, "file");
    std::fs::create_dir(at.join("bad")).unwrap();
    std::fs::write(at.join("bad/BACKUP"), "mine").unwrap();
    let said = sinter(at, &["zones", "restore", "bad", "zones.img", "--force"]).stderr;
    assert_eq!(String::from_utf8_lossy(&said).matches("bad/BACKUP").count(), 1, "a path is said once");
    prints(at, &["zones", "backup", "zones.img", "out"]);
    prints(at, &["zones", "format", "--emulate", "small.img,24x64KiB,block=512"]);
    prints(at, &["bench", "--store=zoned:small.img", "--num=100", "--benchmarks=fillseq"]);
    refused(at, &["zones", "restore", "out", "small.img", "--force"], 1, "small.img: the backup takes ");
    assert!(prints(at, &["zones", "check", "small.img"]).contains("clean, 2 files"), "what does not fit costs nothing");
    prints(at, &["zones", "format", "small.img", "--force"]);
    assert!(prints(at, &["zones", "check", "small.img"]).contains("clean, 0 files"));
    // Copies all but the manifest, as if the machine had failed.
    prints(at, &["zones", "format", "--emulate", "other.img,64x1MiB"]);
    let place = sinter_storage::place::ZonedPlace::new(at.join("other.img")).quiet();
    let (from, to) = (sinter_storage::store::DirStore::open(at.join("out"), false).unwrap(), place.open().unwrap());
    for (id, _) in from.list().unwrap().into_iter().filter(|(id, _)| id.kind != sinter_storage::store::FileKind::Manifest) {
        from.share(id, &to, &sinter_storage::store::Hint::new(sinter_storage::store::Cause::Checkpoint)).unwrap();
    }
    to.sync_names().unwrap();
    drop(to);
    let output = sinter(at, &["check", "zoned:other.img"]);
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    refused(at, &["zones", "restore", "out", "other.img"], 2, "--force");
    prints(at, &["zones", "restore", "out", "other.img", "--force"]);
    assert!(prints(at, &["check", "zoned:other.img"]).contains("clean"));
}

/// Clients of a server with data on zones find it again after a restart.
#[test]
fn a_server_keeps_its_data_on_zones() {
    use std::io::{BufRead, BufReader, Read, Write};
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(at, &["zones", "format", "--emulate", "zones.img,64x1MiB"]);
    for round in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sinter"))
            .args(["serve", "--store=zoned:zones.img", "--port=0", "--memory=16MiB"])
            .current_dir(at)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(if round == 0 { b"SET key zoned\r\nSAVE\r\n" } else { b"GET key\r\n" }).unwrap();
        let expected: &[u8] = if round == 0 { b"+OK\r\n+OK\r\n" } else { b"$5\r\nzoned\r\n" };
        let mut reply = vec![0; expected.len()];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply, expected);
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        assert!(child.wait().unwrap().success());
    }
    assert!(prints(at, &["zones", "check", "zones.img"]).contains("clean"));
    refused(at, &["serve", "--dir=zoned:zones.img,speed=1", "--port=0"], 2, "there is no option");
    assert!(std::fs::read(at.join("dump.rdb")).unwrap().starts_with(b"REDIS"), "a drive has no directory for it");
}

/// A loop device, removed when this is dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A block device without zones works with every command.
#[test]
fn a_drive_may_lie_on_a_block_device() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::File::create(at.join("bytes")).unwrap().set_len(65 << 20).unwrap();
    let device = match Command::new("losetup").args(["--find", "--show"]).arg(at.join("bytes")).output() {
        Ok(output) if output.status.success() => Loop(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        outcome => return println!("SKIPPED: no loop device: {outcome:?}"),
    };
    let shape = |zones: &str| format!("{},{zones}", device.0);
    refused(at, &["zones", "check", &device.0], 2, "the device has no zones");
    refused(at, &["zones", "format", "--force", "--emulate", &shape("65x1MiB")], 2, "of which 1048576 are for states");
    std::fs::write(&device.0, "a file system").unwrap();
    refused(
        at,
        &["zones", "format", "--emulate", &shape("64x1MiB")],
        2,
        "there is something on the device: its byte 0 is not zero; --force",
    );
    let made = prints(at, &["zones", "format", "--force", "--emulate", &shape("64x1MiB")]);
    assert!(made.contains("64 zones of 1.0 MiB"), "{made}");
    refused(at, &["zones", "format", "--emulate", &shape("64x1MiB")], 2, "there is an emulated drive on the device; --force");
    let place = format!("--store=zoned:{}", device.0);
    let bench = ["bench", &place, "--num=10000", "--value_size=400", "--write_buffer_size=1MiB", "--target_file_size_base=1MiB"];
    prints(at, &[&bench[..], &["--benchmarks=fillrandom,overwrite,flush,waitforcompaction"]].concat());
    assert!(prints(at, &["zones", "check", &device.0]).contains("clean"));
    assert!(prints(at, &["zones", "map", &device.0]).contains("tables of level"));
    let df = prints(at, &["zones", "df", &device.0]);
    assert!(df.contains("for files") && !df.contains("write streams"), "a loop device has none: {df}");
    for verb in ["df", "dump"] {
        let streams = &json(at, &["zones", verb, &device.0, "--json"])["write_streams"];
        assert_eq!((streams["count"].as_u64(), streams["used"].as_bool()), (Some(0), Some(false)));
    }
    prints(at, &["check", &format!("zoned:{}", device.0)]);
    prints(at, &["zones", "format", "--force", &device.0]);
    assert!(prints(at, &["zones", "check", &device.0]).contains("clean, 0 files"));
}

/// Sizes may be given in round numbers, and drives are named as in other commands.
#[test]
fn sizes_are_rounded_and_drives_are_named_as_elsewhere() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    for (drive, shape, bytes, capacity) in [
        ("a.img", "64x16MB", 15_998_976, 15_998_976),
        ("b.img", "64x1MB", 999_424, 999_424),
        ("c.img", "24x100MB", 99_999_744, 99_999_744),
        ("d.img", "24x2048MB,capacity=1077MB", 2_048_000_000, 1_076_998_144),
    ] {
        let made = prints(at, &["zones", "format", "--emulate", &format!("{drive},{shape}")]);
        assert!(made.contains(&format!("a zone has {bytes} bytes, of which {capacity} can be written")), "{made}");
        std::fs::remove_file(at.join(drive)).unwrap();
    }
    prints(at, &["zones", "format", "--emulate", "zoned:zones.img,64x1MiB"]);
    let drive = "zoned:zones.img,allocation=sla,reset=lzr";
    prints(at, &["bench", &format!("--store={drive}"), "--num=1000", "--benchmarks=fillseq"]);
    assert!(prints(at, &["zones", "check", drive]).starts_with("zones.img: clean"));
    for verb in ["map", "df", "dump"] {
        prints(at, &["zones", verb, drive]);
    }
    prints(at, &["zones", "backup", drive, "out"]);
    refused(at, &["zones", "format", drive], 2, "--force");
    prints(at, &["zones", "format", "--force", drive]);
    prints(at, &["zones", "restore", "out", drive, "--force"]);
    assert!(prints(at, &["check", drive]).contains("clean"));
    assert_eq!(sinter(at, &["zones", "check", "zoned:zones.img,reset=never"]).status.code(), Some(2));
    // The format follows from the file's name.
    let text = "zones.img: ";
    for (output, begins) in [("map.svg", "<svg "), ("map.html", "<"), ("map.json", "{"), ("map.txt", text), ("map", text)] {
        prints(at, &["zones", "map", drive, "--output", output]);
        let drawn = std::fs::read_to_string(at.join(output)).unwrap();
        assert!(drawn.starts_with(begins), "{output}: {}", &drawn[..40]);
    }
    prints(at, &["zones", "map", drive, "--output=said.svg", "--format=text"]);
    assert!(std::fs::read_to_string(at.join("said.svg")).unwrap().starts_with("zones.img: "));
    assert_eq!(json(at, &["zones", "map", drive, "--json"])["zones"].as_array().unwrap().len(), 64);
    refused(at, &["zones", "map", drive, "--json", "--format=svg"], 2, "cannot be used with");
}

/// A drive is left as it is if the backup does not fit, or if no volume fits its new shape.
#[test]
fn nothing_is_lost_for_nothing() {
    use sinter_storage::place::ZonedPlace;
    use sinter_storage::store::{Cause, FileId, Hint};
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    prints(at, &["zones", "format", "--emulate", "many.img,64x1MiB"]);
    let store = ZonedPlace::new(at.join("many.img")).quiet().open().unwrap();
    for number in 0..300 {
        let mut file = store.create(FileId::table(number), &Hint::new(Cause::Flush)).unwrap();
        file.append(&[7; 100]).unwrap();
        file.seal().unwrap();
    }
    store.sync_names().unwrap();
    drop(store);
    prints(at, &["zones", "backup", "many.img", "out"]);
    // The bytes would fit, but not as whole blocks.
    prints(at, &["zones", "format", "--emulate", "small.img,22x64KiB"]);
    prints(at, &["bench", "--store=zoned:small.img", "--num=10", "--benchmarks=fillseq"]);
    refused(at, &["zones", "restore", "out", "small.img", "--force"], 1, "it was left as it is");
    assert!(prints(at, &["zones", "check", "small.img"]).contains("clean, 2 files"));
    // The capacity is too small for the metadata of so many zones.
    refused(
        at,
        &["zones", "format", "--force", "--emulate", "small.img,512x1MiB,capacity=4KiB"],
        2,
        "the zones for metadata are too small",
    );
    assert!(prints(at, &["zones", "check", "small.img"]).contains("clean, 2 files"));
    let (zones, zone_size) = (8, 1 << 20);
    let shape = sinter_storage::zoned::Geometry { block: 4096, zones, zone_size, max_open: None, max_active: None, conventional: 0 };
    drop(sinter_storage::zoned::Emulator::create(at.join("none.img"), shape, zone_size).unwrap());
    refused(at, &["zones", "check", "none.img"], 2, "`sinter zones format` makes one");
}

/// A drive that lost a zone: the rest is copied, the loss is named, and the copy does not count as a backup.
#[test]
fn what_can_be_read_is_saved() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    filled(at);
    let dump = json(at, &["zones", "dump", "zones.img", "--json"]);
    let files = dump["files"].as_array().unwrap();
    let table = files.iter().find(|file| file["file"].as_str().unwrap().ends_with(".sst")).unwrap();
    let zone = table["extents"][0]["zone"].as_u64().unwrap() as u32;
    let drive = sinter_storage::zoned::Emulator::open(at.join("zones.img")).unwrap();
    drive.break_zone(zone, sinter_storage::zoned::ZoneState::Offline).unwrap();
    drop(drive);
    let output = sinter(at, &["zones", "backup", "zones.img", "out"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(table["file"].as_str().unwrap()) && text.contains("lost: ") && text.contains("It is no backup"), "{text}");
    for file in files {
        let saved = std::fs::metadata(at.join("out").join(file["file"].as_str().unwrap())).unwrap();
        assert_eq!(Some(saved.len()), file["bytes"].as_u64(), "{file}");
    }
    assert!(!at.join("out/BACKUP").exists());
    let check = sinter(at, &["check", "out"]);
    assert_ne!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stdout));
}
