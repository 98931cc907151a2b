//! The whole engine on an emulated zoned drive: the power is cut before every call that changes the drive, and what opens afterwards is a
//! moment of the history that is not older than the last synced write.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::runner::settings;
use parking_lot::Mutex;
use sinter_storage::store::{Cause, CrashMode, Reason};
use sinter_storage::zoned::{Call, Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use sinterdb::settings::FamilySettings;
use sinterdb::{Db, Durability, WriteOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Data that is written, and the settings of its family.
struct Shape {
    family: FamilySettings,
    writes: u64,
    /// Number of keys that the writes go around.
    keys: u64,
}

/// Every so many writes one is synced.
const SYNCED: u64 = 3;

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

/// So small that logs, flushes and compactions go through many zones, and some come around again.
fn drive() -> Arc<Emulator> {
    let geometry = Geometry { block: 512, zones: 64, zone_size: 16 << 10, max_open: Some(10), max_active: Some(10), conventional: 0 };
    Arc::new(Emulator::memory(geometry, 14 << 10).expect("a sound geometry"))
}

/// A tree with all tables on two levels.
fn low() -> Shape {
    Shape { family: FamilySettings { write_buffer_size: 8 << 10, ..FamilySettings::default() }, writes: 1300, keys: 97 }
}

/// Small tables on many levels, through which compactions go in the order of keys because the store says how large a zone is.
fn high() -> Shape {
    let family = FamilySettings {
        write_buffer_size: 8 << 10,
        target_file_size_base: 4 << 10,
        max_bytes_for_level_base: 4 << 10,
        max_bytes_for_level_multiplier: 2.0,
        max_compaction_bytes: 16 << 10,
        level0_file_num_compaction_trigger: 2,
        level_compaction_dynamic_level_bytes: false,
        ..FamilySettings::default()
    };
    Shape { family, writes: 1200, keys: 293 }
}

fn open(store: ZonedStore, family: &FamilySettings) -> sinterdb::Result<Db> {
    Db::builder().settings(settings()).family("default", family.clone()).identity([3; 16]).open_store(Arc::new(store))
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn value(write: u64) -> Vec<u8> {
    format!("{write:06} {}", "v".repeat((write % 150) as usize)).into_bytes()
}

/// Number of writes that the database shows; an error if it shows no moment of the history.
fn moment(db: &Db, keys: u64) -> Result<u64, String> {
    let mut found = Vec::new();
    for number in 0..keys {
        let got = db.get(&key(number)).map_err(|error| format!("key {number}: {error}"))?;
        if let Some(bytes) = got {
            let write: u64 = std::str::from_utf8(&bytes[..6]).ok().and_then(|text| text.parse().ok()).ok_or("a value of no write")?;
            found.push((write, bytes));
        }
    }
    let writes = found.iter().map(|(write, _)| write + 1).max().unwrap_or(0);
    let due = (0..keys).filter_map(|number| (number..writes).step_by(keys as usize).last());
    let mut due: Vec<u64> = due.collect();
    due.sort_unstable();
    found.sort_unstable();
    if !due.iter().eq(found.iter().map(|(write, _)| write)) {
        return Err(format!("holes among {writes} writes"));
    }
    found.iter().all(|(write, bytes)| *bytes == value(*write)).then_some(writes).ok_or_else(|| "a value is wrong".into())
}

/// Writes begun and writes synced.
type Progress = Arc<Mutex<(u64, u64)>>;

fn judge(crashed: Emulator, shape: &Shape, (begun, synced): (u64, u64)) -> Result<(), String> {
    let store = ZonedStore::open(Arc::new(crashed), options()).map_err(|error| format!("the volume: {error}"))?;
    let complaints = store.check().map_err(|error| format!("check: {error}"))?;
    if !complaints.is_empty() {
        return Err(complaints.join("; "));
    }
    let db = open(store, &shape.family).map_err(|error| format!("the database: {error}"))?;
    match moment(&db, shape.keys)? {
        writes if (synced..=begun).contains(&writes) => Ok(()),
        writes => Err(format!("{writes} writes, of {begun} begun and {synced} synced")),
    }
}

/// The bytes that compactions wrote because a level was too large.
fn ring(shape: Shape) -> u64 {
    let shape = Arc::new(shape);
    let drive = drive();
    let store = ZonedStore::format(drive.clone(), VolumeId([9; 16]), options()).unwrap();
    let progress = Progress::default();
    let outcome: Arc<Mutex<(u64, Option<String>)>> = Arc::default();
    let (from, now, told, asked) = (drive.clone(), progress.clone(), outcome.clone(), shape.clone());
    drive.set_hook(Some(Arc::new(move |call: &Call| {
        if call.mutates() && told.lock().1.is_none() {
            let number = told.lock().0;
            let mode = if number.is_multiple_of(3) { CrashMode::DropUnsynced } else { CrashMode::Random(number) };
            let (crashed, progress) = (from.crash_with(mode).unwrap(), *now.lock());
            let judged = catch_unwind(AssertUnwindSafe(|| judge(crashed, &asked, progress))).unwrap_or_else(|_| Err("panicked".into()));
            let mut told = told.lock();
            told.0 += 1;
            told.1 = judged.err().map(|what| format!("state {number}, before {call:?}: {what}"));
        }
        None
    })));
    let db = open(store, &shape.family).unwrap();
    for write in 0..shape.writes {
        progress.lock().0 = write + 1;
        let durability = if write % SYNCED == 0 { Durability::Sync } else { WriteOptions::default().durability };
        db.put_with(&db.default_family(), &key(write % shape.keys), &value(write), &WriteOptions::new(durability)).unwrap();
        if write % SYNCED == 0 {
            progress.lock().1 = write + 1;
        }
        if outcome.lock().1.is_some() {
            break;
        }
    }
    drive.set_hook(None);
    let (states, failure) = outcome.lock().clone();
    assert_eq!(failure, None);
    assert!(states > 1000, "only {states} crash states");
    println!("{states} crash states, {:?}", drive.activity());
    let deepened = db.stats().ledger.sum(|cause| matches!(cause, Cause::Compaction { reason: Reason::LevelSize, .. }));
    db.close().unwrap();
    let db = open(ZonedStore::open(drive, options()).unwrap(), &shape.family).unwrap();
    assert_eq!(moment(&db, shape.keys), Ok(shape.writes));
    deepened
}

#[test]
fn a_power_cut_loses_nothing_synced() {
    ring(low());
}

#[test]
fn a_power_cut_between_levels_loses_nothing_synced() {
    let deepened = ring(high());
    assert!(deepened > 5_000, "only {deepened} bytes went down for the size of a level");
}
