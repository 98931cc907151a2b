//! The whole engine on an emulated zoned drive: the power is cut before every call that changes the drive, and what opens afterwards is a
//! moment of the history that is not older than the last synced write.

use crate::runner::settings;
use parking_lot::Mutex;
use sinter_storage::store::CrashMode;
use sinter_storage::store::zoned::{Options, VolumeId, ZonedStore};
use sinter_storage::zoned::{Call, Emulator, Geometry};
use sinterdb::db::{Db, Durability, WriteOptions};
use sinterdb::settings::FamilySettings;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Writes of one run.
const WRITES: u64 = 1300;

/// Keys among which they go around.
const KEYS: u64 = 97;

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

fn open(store: ZonedStore) -> sinterdb::Result<Db> {
    let family = FamilySettings { write_buffer_size: 8 << 10, ..FamilySettings::default() };
    Db::builder().settings(settings()).family("default", family).identity([3; 16]).open_store(Arc::new(store))
}

fn key(write: u64) -> Vec<u8> {
    format!("key {:02}", write % KEYS).into_bytes()
}

fn value(write: u64) -> Vec<u8> {
    format!("{write:06} {}", "v".repeat((write % 150) as usize)).into_bytes()
}

/// How many writes the database shows; what is wrong, if it shows no moment of the history.
fn moment(db: &Db) -> Result<u64, String> {
    let mut found = Vec::new();
    for number in 0..KEYS {
        let got = db.get(&key(number)).map_err(|error| format!("key {number}: {error}"))?;
        if let Some(bytes) = got {
            let write: u64 = std::str::from_utf8(&bytes[..6]).ok().and_then(|text| text.parse().ok()).ok_or("a value of no write")?;
            found.push((write, bytes));
        }
    }
    let writes = found.iter().map(|(write, _)| write + 1).max().unwrap_or(0);
    let due = (0..KEYS).filter_map(|number| (number..writes).step_by(KEYS as usize).last());
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

fn judge(crashed: Emulator, (begun, synced): (u64, u64)) -> Result<(), String> {
    let store = ZonedStore::open(Arc::new(crashed), options()).map_err(|error| format!("the volume: {error}"))?;
    let complaints = store.check().map_err(|error| format!("check: {error}"))?;
    if !complaints.is_empty() {
        return Err(complaints.join("; "));
    }
    let db = open(store).map_err(|error| format!("the database: {error}"))?;
    match moment(&db)? {
        writes if (synced..=begun).contains(&writes) => Ok(()),
        writes => Err(format!("{writes} writes, of {begun} begun and {synced} synced")),
    }
}

#[test]
fn a_power_cut_loses_nothing_synced() {
    let drive = drive();
    let store = ZonedStore::format(drive.clone(), VolumeId([9; 16]), options()).unwrap();
    let progress = Progress::default();
    let outcome: Arc<Mutex<(u64, Option<String>)>> = Arc::default();
    let (from, now, told) = (drive.clone(), progress.clone(), outcome.clone());
    drive.set_hook(Some(Arc::new(move |call: &Call| {
        if call.mutates() && told.lock().1.is_none() {
            let number = told.lock().0;
            let mode = if number.is_multiple_of(3) { CrashMode::DropUnsynced } else { CrashMode::Random(number) };
            let (crashed, progress) = (from.crash_with(mode).unwrap(), *now.lock());
            let judged = catch_unwind(AssertUnwindSafe(|| judge(crashed, progress))).unwrap_or_else(|_| Err("panicked".into()));
            let mut told = told.lock();
            told.0 += 1;
            told.1 = judged.err().map(|what| format!("state {number}, before {call:?}: {what}"));
        }
        None
    })));
    let db = open(store).unwrap();
    for write in 0..WRITES {
        progress.lock().0 = write + 1;
        let durability = if write % SYNCED == 0 { Durability::Sync } else { WriteOptions::default().durability };
        db.put_with(&db.default_family(), &key(write), &value(write), &WriteOptions { durability }).unwrap();
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
    db.close().unwrap();
    let db = open(ZonedStore::open(drive, options()).unwrap()).unwrap();
    assert_eq!(moment(&db), Ok(WRITES));
}
