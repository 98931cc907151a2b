//! The whole engine on a real zoned block device, or an emulated drive on a plain one, whose machine is reset in the middle of writing:
//! nothing that was acknowledged as synced is lost, and what is there is a moment of the history.
//!
//! The device is named by `ZONED_DEVICE` and loses its data; what is to be known after the reset is kept in the folder `ZONED_OUT`.
//! `scripts/zoned-engine` and `scripts/write-streams` run these tests in guests: the first one until the guest is reset under it, then the
//! second one, and both again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_storage::zoned::{ZonedDevice, find};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Db, Durability, WriteOptions};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Keys among which the writes go around.
const KEYS: u64 = 997;

/// Every so many writes one is synced.
const SYNCED: u64 = 4;

/// Seconds by which the machine must have been reset; later the test has failed.
const SECONDS_AT_MOST: u64 = 100;

/// The number of the last write that was acknowledged as synced, and one more.
struct Acknowledged(File);

impl Acknowledged {
    fn open() -> Self {
        let path = PathBuf::from(std::env::var("ZONED_OUT").expect("ZONED_OUT names a folder")).join("acknowledged");
        Acknowledged(File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    fn get(&self) -> u64 {
        let mut text = [0; 12];
        match self.0.read_exact_at(&mut text, 0) {
            Ok(()) => std::str::from_utf8(&text).unwrap().parse().unwrap(),
            Err(_) => 0,
        }
    }

    /// In one piece, so that whoever copies the file finds one number or the other.
    fn set(&self, writes: u64) {
        self.0.write_all_at(format!("{writes:012}").as_bytes(), 0).unwrap();
    }
}

fn device() -> Arc<dyn ZonedDevice> {
    find(std::env::var("ZONED_DEVICE").expect("ZONED_DEVICE names a device").as_ref(), None).unwrap()
}

/// So small that memtables, tables and logs come and go all the time, in zones of less than a megabyte.
fn open(store: ZonedStore) -> Db {
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let family = FamilySettings {
        write_buffer_size: 64 << 10,
        target_file_size_base: 64 << 10,
        max_bytes_for_level_base: 256 << 10,
        ..FamilySettings::default()
    };
    Db::builder().settings(settings).family("default", family).open_store(Arc::new(store)).unwrap()
}

fn key(write: u64) -> Vec<u8> {
    format!("key {:03}", write % KEYS).into_bytes()
}

fn value(write: u64) -> Vec<u8> {
    let noise = (0..write % 400).map(|i| (write.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 56)) as u8 ^ i as u8);
    [format!("{write:012} ").into_bytes(), noise.collect()].concat()
}

/// How many writes the database shows; a panic if it shows no moment of the history.
fn moment(db: &Db) -> u64 {
    let mut found = Vec::new();
    for number in 0..KEYS {
        let Some(bytes) = db.get(&key(number)).unwrap() else { continue };
        let write: u64 = std::str::from_utf8(&bytes[..12]).unwrap().parse().unwrap();
        assert!(bytes == value(write), "the value of write {write} is wrong");
        assert_eq!(write % KEYS, number);
        found.push(write);
    }
    found.sort_unstable();
    let writes = found.last().map_or(0, |last| last + 1);
    let due: Vec<u64> = (writes.saturating_sub(KEYS)..writes).collect();
    assert_eq!(found, due, "a write is missing or came back");
    writes
}

#[test]
#[ignore = "needs a zoned device, and ends when its machine is reset"]
fn before_a_reset_of_the_machine() {
    let (acknowledged, device) = (Acknowledged::open(), device());
    let options = Options::default();
    let first = acknowledged.get() == 0;
    let store = if first { ZonedStore::format(device, VolumeId::random().unwrap(), options) } else { ZonedStore::open(device, options) };
    let db = open(store.unwrap());
    let clock = SystemClock::default();
    let end = clock.unix_seconds() + SECONDS_AT_MOST;
    let mut write = moment(&db);
    while clock.unix_seconds() < end {
        let durability = if write.is_multiple_of(SYNCED) { Durability::Sync } else { Durability::Buffered };
        db.put_with(&db.default_family(), &key(write), &value(write), &WriteOptions::new(durability)).unwrap();
        write += 1;
        if durability == Durability::Sync {
            acknowledged.set(write);
        }
    }
    panic!("the machine was not reset");
}

#[test]
#[ignore = "needs a zoned device whose machine was reset"]
fn after_the_reset_of_the_machine() {
    let acknowledged = Acknowledged::open();
    let store = ZonedStore::open(device(), Options::default()).unwrap();
    assert_eq!(store.check().unwrap(), [""; 0]);
    let db = open(store);
    let writes = moment(&db);
    assert!(writes >= acknowledged.get(), "{} writes were acknowledged as synced, {writes} are there", acknowledged.get());
    let damages = db.verify().unwrap();
    assert!(damages.is_empty(), "{damages:?}");
    let beneath = db.stats().beneath.unwrap();
    println!("{writes} writes, {} of them acknowledged before the reset; {:?}", acknowledged.get(), beneath.zones);
    // What came after the last acknowledged one is part of the history now.
    acknowledged.set(writes);
    db.close().unwrap();
}
