//! Files: their cost, their survival of a reopening, and their fate when the drive fails.

use super::support::*;
use sinter_storage::store::{FileId, Store, StoreError};
use sinter_storage::zoned::{Call, Geometry, ZoneErrorKind, ZoneFault, ZoneState};
use sinter_storage::zoned_store::{Allocation, Condition, Reset, ZonedStore};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_drive_without_a_volume_says_so() {
    let error = ZonedStore::open(device(&tiny()), plain()).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    for geometry in [Geometry { zones: 7, ..TINY }, Geometry { max_active: Some(2), max_open: Some(2), ..TINY }] {
        let error = ZonedStore::format(device(&drive(&geometry, TINY_CAPACITY)), ID, plain()).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
    }
    // Regions are measured in zones, and of these not much can be written.
    let hollow = drive(&Geometry { zones: 256, zone_size: 4 << 20, block: 4096, ..TINY }, 4096);
    let error = ZonedStore::format(device(&hollow), ID, plain()).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
    let drive = tiny();
    put(&format(&drive, plain()), FileId::table(1), &table_hint(1), 9000);
    let again = format(&drive, plain());
    assert_eq!(again.list().unwrap(), [], "formatting forgets everything");
    let errors = [ZonedStore::open(device(&drive), plain()), ZonedStore::format(device(&drive), ID, plain())].map(Result::unwrap_err);
    assert!(errors.iter().all(StoreError::is_locked), "one volume at a time: {errors:?}");
    drop(again);
    assert_eq!(open(&drive, plain()).id(), ID);
}

#[test]
fn a_reopened_volume_is_the_same() {
    let drive = tiny();
    let store = format(&drive, plain());
    for number in 0..6 {
        put(&store, FileId::table(number), &table_hint(number as u8), 700 + 5000 * number as usize);
    }
    let mut file = log(&store, 9, b"synced");
    store.sync_names().unwrap();
    file.append(b" and more").unwrap();
    file.sync().unwrap();
    store.delete(FileId::table(2)).unwrap();
    store.sync_names().unwrap();
    drop(file);
    let before = store.map().unwrap();
    assert_sound(&store);
    drop(store);
    let store = open(&drive, plain());
    assert_sound(&store);
    assert_eq!(get(&store, FileId::log(9)), b"synced and more");
    for number in [0, 1, 3, 4, 5] {
        assert_holds(&store, FileId::table(number), 700 + 5000 * number as usize);
    }
    assert!(store.open(FileId::table(2)).unwrap_err().is_not_found());
    let after = store.map().unwrap();
    for (was, is) in before.zones.iter().zip(&after.zones).filter(|(was, _)| was.condition != Condition::Reserved) {
        assert_eq!((was.condition, was.written, was.live, was.resets), (is.condition, is.written, is.live, is.resets));
        assert_eq!((was.lifetime, was.level, &was.files), (is.lifetime, is.level, &is.files), "class and wear are kept");
    }
    assert!(before.zones.iter().any(|zone| zone.resets > 0 && zone.condition == Condition::Empty), "something was reset");
}

#[test]
fn syncs_of_a_log_need_no_metadata() {
    let drive = tiny();
    let store = format(&drive, plain());
    let mut file = log(&store, 1, b"first");
    store.sync_names().unwrap();
    file.append(b"second").unwrap();
    file.sync().unwrap();
    let before = store.figures();
    for n in 0..20u8 {
        file.append(&[n; 300]).unwrap();
        file.sync().unwrap();
    }
    let after = store.figures();
    assert_eq!(after.journal.frames, before.journal.frames);
    let (was, is) = (before.host.values().next().unwrap(), after.host.values().next().unwrap());
    assert_eq!((is.data - was.data, is.framing - was.framing, is.padding - was.padding), (20 * 300, 20 * 64, 20 * 148));
    assert_eq!(file.len(), 11 + 20 * 300);
    // Through several zones: metadata only where it comes to another one.
    for n in 0..100u8 {
        file.append(&[n; 400]).unwrap();
        file.sync().unwrap();
    }
    let frames = store.figures().journal.frames - after.journal.frames;
    assert!((1..=4).contains(&frames), "{frames} frames of metadata for 100 syncs in 4 zones");
    let bytes = get(&store, FileId::log(1));
    drop((file, store));
    assert!(get(&open(&drive, plain()), FileId::log(1)) == bytes);
}

#[test]
fn a_table_alone_is_one_extent_per_zone() {
    let geometry = Geometry { zones: 24, zone_size: 8 << 20, block: 4096, ..TINY };
    let store = format(&drive(&geometry, 6 << 20), plain());
    let length = (7 << 20) + 12_345;
    put(&store, FileId::table(1), &table_hint(1), length);
    assert_eq!(format!("{store:?}").matches("Range {").count(), 2, "{store:?}");
    assert_holds(&store, FileId::table(1), length);
    let file = store.open(FileId::table(1)).unwrap();
    let all = pattern(FileId::table(1), length);
    for (at, part) in [(0, 1), (4095, 2), ((6 << 20) - 3, 9), (1_000_001, 70_000), (length - 1, 1)] {
        let mut bytes = vec![0; part];
        file.read_at(at as u64, &mut bytes).unwrap();
        assert!(bytes == all[at..at + part], "{part} bytes at {at}");
    }
}

#[test]
fn files_written_at_once_share_the_zones_of_their_kind() {
    let geometry = Geometry { zones: 32, zone_size: 1 << 20, block: 4096, max_open: None, max_active: Some(6), conventional: 0 };
    let store = format(&drive(&geometry, 1 << 20), plain());
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let store = &store;
            scope.spawn(move || put(store, FileId::table(number), &table_hint(2), 3_000_000 + number as usize));
        }
    });
    (0..4).for_each(|number| assert_holds(&store, FileId::table(number), 3_000_000 + number as usize));
    assert_sound(&store);
    let map = store.map().unwrap();
    assert!(map.used() <= map.least() + 1, "{} zones for what fits {}", map.used(), map.least());
    assert_eq!((store.figures().finishes, store.figures().failed_zones), (0, 0));
}

/// Fails calls of one kind, from the n-th on, so many times.
fn fail(drive: &sinter_storage::zoned::Emulator, operation: &'static str, from: u64, times: u64, fault: ZoneFault) {
    let calls = AtomicU64::new(0);
    drive.set_hook(Some(Arc::new(move |call: &Call| {
        let number = if call.operation == operation { calls.fetch_add(1, Ordering::Relaxed) } else { return None };
        (from..from + times).contains(&number).then_some(fault)
    })));
}

#[test]
fn a_failed_write_ends_the_zone_and_not_the_file() {
    for fault in [ZoneFault::Cut(512), ZoneFault::Refuse(ZoneErrorKind::Io)] {
        for id in [FileId::table(1), FileId::log(1)] {
            let drive = tiny();
            let store = format(&drive, plain());
            let mut file = store.create(id, &table_hint(1)).unwrap();
            store.sync_names().unwrap();
            let all = pattern(id, 9000);
            file.append(&all[..3000]).unwrap();
            file.sync().unwrap();
            fail(&drive, "write", 0, 1, fault);
            file.append(&all[3000..]).unwrap();
            file.sync().unwrap();
            drive.set_hook(None);
            assert_eq!(store.figures().failed_zones, 1);
            assert!(get(&store, id) == all);
            drop(file);
            let crashed = Arc::new(drive.crash_with(sinter_storage::store::CrashMode::DropUnsynced).unwrap());
            let store = open(&crashed, plain());
            assert!(get(&store, id) == all, "{id} after {fault:?}");
            let ended = store.map().unwrap().zones.iter().filter(|zone| zone.condition == Condition::Full).count();
            assert_eq!(ended, 1, "the zone was finished");
            assert_sound(&store);
        }
    }
}

#[test]
fn a_drive_that_fails_every_write_fails_the_file() {
    let drive = tiny();
    let store = format(&drive, plain());
    let mut file = store.create(FileId::table(1), &table_hint(1)).unwrap();
    fail(&drive, "write", 0, 3, ZoneFault::Refuse(ZoneErrorKind::Io));
    file.append(&[1; 100]).unwrap();
    let error = file.sync().unwrap_err();
    assert_eq!((error.operation, error.file), ("sync", Some(FileId::table(1))));
    for result in [file.append(b"more"), file.sync(), file.seal()] {
        assert!(result.unwrap_err().to_string().contains("earlier append or sync"));
    }
    put(&store, FileId::table(2), &table_hint(1), 3000);
    assert_holds(&store, FileId::table(2), 3000);
}

#[test]
fn a_failed_write_of_metadata_changes_the_region() {
    let drive = tiny();
    let store = format(&drive, plain());
    put(&store, FileId::table(1), &table_hint(1), 3000);
    fail(&drive, "write", 0, 1, ZoneFault::Cut(512));
    store.sync_names().unwrap();
    drive.set_hook(None);
    assert_eq!(store.figures().journal.snapshots, 2);
    let crashed = Arc::new(drive.crash_with(sinter_storage::store::CrashMode::DropUnsynced).unwrap());
    assert_holds(&open(&crashed, plain()), FileId::table(1), 3000);
}

#[test]
fn a_failed_flush_ends_the_volume() {
    let drive = tiny();
    let store = format(&drive, plain());
    let mut file = log(&store, 1, b"before");
    store.sync_names().unwrap();
    file.append(b"after").unwrap();
    fail(&drive, "flush", 0, 1, ZoneFault::Refuse(ZoneErrorKind::Io));
    file.sync().unwrap_err();
    assert!(file.sync().is_err() && store.sync_names().is_err() && store.create(FileId::log(2), &log_hint()).is_err());
    let mut start = [0; 6];
    store.open(FileId::log(1)).unwrap().read_at(0, &mut start).unwrap();
    assert_eq!(&start, b"before", "reading goes on");
    drop((file, store));
    drive.set_hook(None);
    assert!(get(&open(&drive, plain()), FileId::log(1)).starts_with(b"before"));
}

#[test]
fn open_readers_keep_a_deleted_file() {
    let drive = tiny();
    let store = format(&drive, plain());
    let id = FileId::table(1);
    put(&store, id, &table_hint(1), 20_000);
    store.sync_names().unwrap();
    let reader = store.open(id).unwrap();
    store.delete(id).unwrap();
    store.sync_names().unwrap();
    assert_eq!(store.figures().resets.total(), 0);
    let mut bytes = vec![0; 20_000];
    reader.read_at(0, &mut bytes).unwrap();
    assert!(bytes == pattern(id, 20_000));
    drop(reader);
    store.tidy().unwrap();
    assert_eq!(store.figures().resets.total(), 2, "once nobody reads it");
    assert_sound(&store);

    put(&store, FileId::table(2), &table_hint(1), 3000);
    store.sync_names().unwrap();
    store.delete(FileId::table(2)).unwrap();
    store.tidy().unwrap();
    assert_eq!(store.figures().resets.total(), 2, "the deletion is not durable yet");
}

#[test]
fn the_metadata_log_goes_around() {
    let drive = tiny();
    let store = format(&drive, plain());
    for number in 0..400u64 {
        put(&store, FileId::table(number), &table_hint(1), 100);
        if number >= 5 {
            store.delete(FileId::table(number - 5)).unwrap();
        }
        store.sync_names().unwrap();
    }
    let figures = store.figures();
    assert!(figures.journal.snapshots > 10, "{figures:?}");
    assert_sound(&store);
    drop(store);
    let store = open(&drive, plain());
    let mut left = store.list().unwrap();
    left.sort();
    assert_eq!(left, (395..400).map(|number| (FileId::table(number), 100)).collect::<Vec<_>>());
    assert_sound(&store);
}

#[test]
fn metadata_that_would_not_fit_is_refused_and_can_be_deleted() {
    let store = format(&tiny(), plain());
    let mut number = 0;
    let error = loop {
        match store.create(FileId::table(number), &table_hint(1)) {
            Ok(file) => file.seal().unwrap(),
            Err(error) => break error,
        }
        number += 1;
        assert!(number < 1000, "there is no limit");
    };
    assert!(error.is_no_space(), "{error}");
    store.sync_names().unwrap();
    (0..number).for_each(|number| store.delete(FileId::table(number)).unwrap());
    store.sync_names().unwrap();
    put(&store, FileId::table(number + 1), &table_hint(1), 100);
    store.sync_names().unwrap();
    assert_sound(&store);
}

#[test]
fn lost_zones_lose_their_bytes_only() {
    let drive = tiny();
    let store = format(&drive, stepped(Allocation::PerLevel, Reset::Eager));
    let (lost, kept) = (FileId::table(1), FileId::table(2));
    put(&store, lost, &table_hint(1), 3000);
    put(&store, kept, &table_hint(2), 3000);
    store.sync_names().unwrap();
    let map = store.map().unwrap();
    let zone_of = |id: FileId| map.zones.iter().find(|zone| zone.files.iter().any(|(file, _)| *file == id)).unwrap().zone;
    drop(store);
    drive.break_zone(zone_of(lost), ZoneState::Offline).unwrap();
    drive.break_zone(zone_of(kept), ZoneState::ReadOnly).unwrap();
    let store = open(&drive, plain());
    assert_holds(&store, kept, 3000);
    assert!(store.list().unwrap().contains(&(lost, 3000)));
    let error = store.open(lost).unwrap().read_at(0, &mut [0; 10]).unwrap_err();
    assert_eq!((error.source.kind(), error.file), (ErrorKind::InvalidData, Some(lost)));
    store.delete(lost).unwrap();
    store.delete(kept).unwrap();
    store.sync_names().unwrap();
    put(&store, FileId::table(3), &table_hint(2), 20_000);
    assert_holds(&store, FileId::table(3), 20_000);
    assert_eq!(store.figures().resets.total(), 0);
}
