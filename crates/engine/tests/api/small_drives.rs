//! Zoned drives of a few score zones hold the amount of data that `sinter zones format` says, and go on taking new versions of it.

use crate::{full::drive, noise};
use sinter_storage::store::Store;
use sinterdb::clock::SystemClock;
use sinterdb::internal::db::reserve::storable;
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Db, WriteBatch, WriteOptions};
use std::sync::Arc;

/// Bytes of values put together.
const BATCH: u64 = 64 << 10;

/// Far from the last one's, so that every run of level 0 overlaps all others.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(store: &Arc<dyn Store>, family: FamilySettings) -> Db {
    let builder = Db::builder().clock(Arc::new(SystemClock::default())).settings(DbSettings::default()).family("default", family);
    builder.open_store(store.clone()).unwrap()
}

/// A drive, and what a database holds on it.
struct Shape {
    zones: u32,
    zone_size: u64,
    value: usize,
    family: FamilySettings,
}

impl Shape {
    fn plain(zones: u32, zone_size: u64, value: usize) -> Self {
        Shape { zones, zone_size, value, family: FamilySettings::default() }
    }

    /// Fills a new drive as far as is promised, and puts so many of the keys anew, drawn at random: no write finds no room.
    fn keeps_its_promise(&self, rounds: f64) {
        let store = drive(self.zones, self.zone_size);
        let free = store.free_bytes().unwrap().unwrap();
        let promised = storable(free, store.unit());
        let db = open(&store, self.family.clone());
        let together = (BATCH / self.value as u64).clamp(1, 16);
        let keys = promised / (8 + self.value as u64) / together * together;
        let put = |first: u64, version: u64| {
            let mut batch = WriteBatch::new();
            (first..first + together).for_each(|n| batch.put(&key(n), &noise((n ^ version << 40) as usize, self.value)));
            db.write(&mut batch, &WriteOptions::default())
        };
        let what = format!("{} zones of {}, {promised} of {free} bytes promised", self.zones, self.zone_size);
        for first in (0..keys).step_by(together as usize) {
            put(first, 0).unwrap_or_else(|error| panic!("{what}: {first} of {keys} keys are put: {error}"));
        }
        let overwrites = (keys as f64 * rounds) as u64 / together;
        for n in 1..=overwrites {
            let first = u64::from_be_bytes(key(n)) % (keys / together) * together;
            put(first, n).unwrap_or_else(|error| panic!("{what}: {} of {keys} keys are put anew: {error}", n * together));
        }
        assert_eq!(db.iter().map(Result::unwrap).count() as u64, keys, "{what}");
        drop(db);
        let db = open(&store, self.family.clone());
        assert_eq!((db.get(&key(keys - 1)).unwrap().map(|value| value.len()), db.verify().unwrap()), (Some(self.value), Vec::new()));
    }
}

#[test]
fn a_small_drive_holds_what_is_promised_and_overwrites_it() {
    if std::env::var("DRIVE_ROUNDS").is_err() {
        Shape::plain(32, 4 << 20, 4000).keeps_its_promise(0.3);
        Shape::plain(64, 4 << 20, 8000).keeps_its_promise(0.1);
    }
}

/// For `scripts/soak`: every key of each drive is put anew `DRIVE_ROUNDS` times.
#[test]
fn drives_of_all_sizes_hold_what_is_promised() {
    let Ok(rounds) = std::env::var("DRIVE_ROUNDS") else { return };
    let rounds = rounds.parse().unwrap();
    for (zones, zone_size, value) in [
        (20, 1 << 20, 1000),
        (26, 128 << 10, 1000),
        (24, 8 << 20, 1000),
        (32, 4 << 20, 100),
        (32, 4 << 20, 50_000),
        (64, 4 << 20, 1000),
        (256, 1 << 20, 1000),
        (256, 8 << 20, 1000),
    ] {
        Shape::plain(zones, zone_size, value).keeps_its_promise(rounds);
    }
    let family = FamilySettings { write_buffer_size: 128 << 10, target_file_size_base: 64 << 10, ..FamilySettings::default() };
    // Of settings that are not the default ones nothing is promised but that they fill the drive.
    Shape { zones: 4096, zone_size: 128 << 10, value: 1000, family }.keeps_its_promise(0.0);
}

/// The sizes of memtables and tables in the settings fit the medium, whatever the number of families.
#[test]
fn memtables_and_tables_follow_the_drive() {
    let store = drive(32, 4 << 20);
    let size = store.free_bytes().unwrap().unwrap();
    let db = open(&store, FamilySettings::default());
    let families: Vec<_> = ["a", "b", "c", "d"].map(|name| db.create_family(name, FamilySettings::default()).unwrap()).into();
    let (mut most, mut n) = (0, 0);
    while n < 16 << 10 {
        let family = &families[n % 4];
        db.put_with(family, &key(n as u64), &noise(n, 1000), &WriteOptions::default()).unwrap();
        let active = |family| db.property(family, "rocksdb.cur-size-active-mem-table").unwrap().parse::<u64>().unwrap();
        if n.is_multiple_of(16) {
            most = most.max(families.iter().map(active).sum::<u64>());
        }
        n += 1;
    }
    assert!(most > size / 256 && most <= size / 64, "{most} bytes in memtables on a drive of {size}");
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    let largest = store.list().unwrap().iter().filter(|(id, _)| id.to_string().ends_with(".sst")).map(|(_, bytes)| *bytes).max();
    assert!(largest.is_some_and(|bytes| bytes <= size / 128 * 5 / 4), "{largest:?} bytes in a table on a drive of {size}");
    assert_eq!(db.property(&db.default_family(), "sinterdb.memtable-capacity").unwrap(), (size / 128 * 2).to_string());
}
