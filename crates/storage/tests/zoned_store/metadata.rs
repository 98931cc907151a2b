//! Zones of the metadata that the drive has given up: one region is enough, and what is lost is never taken for what was not there.

use super::support::*;
use parking_lot::Mutex;
use sinter_storage::store::{FileId, Hint, Store};
use sinter_storage::zoned::{Call, Emulator, Geometry, ZoneFault, ZoneState, ZonedDevice};
use sinter_storage::zoned_store::ZonedStore;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the region that does not count (of one zone) the one that does: a write of metadata fails once.
fn change_region(drive: &Emulator, store: &ZonedStore) {
    let snapshots = store.figures().journal.snapshots;
    let failed = AtomicBool::new(false);
    drive.set_hook(Some(Arc::new(move |call: &Call| {
        let first = call.operation == "write" && !failed.swap(true, Ordering::Relaxed);
        first.then_some(ZoneFault::Cut(0))
    })));
    store.delete(FileId::table(0)).unwrap();
    store.sync_names().unwrap();
    drive.set_hook(None);
    assert_eq!(store.figures().journal.snapshots, snapshots + 1);
}

/// A drive with a volume of two files whose metadata lies in that zone: region and zone are the same number.
fn with_metadata_in(zone: u32) -> Arc<Emulator> {
    let drive = tiny();
    let store = format(&drive, plain());
    (0..3).for_each(|number| put(&store, FileId::table(number), &table_hint(1), 3000));
    store.sync_names().unwrap();
    if zone == 1 {
        change_region(&drive, &store);
    } else {
        store.delete(FileId::table(0)).unwrap();
    }
    drop(store);
    drive
}

/// Small tables fill a drive of many small zones: the metadata has room for them.
#[test]
fn small_files_fill_many_small_zones() {
    const FILE: usize = 32 << 10;
    let geometry = Geometry { block: 4096, zones: 1024, zone_size: 128 << 10, max_open: None, max_active: None, conventional: 0 };
    let store = format(&drive(&geometry, 128 << 10), plain());
    let files = store.free_bytes().unwrap().unwrap() / FILE as u64;
    assert!(files * FILE as u64 > 120 << 20, "{files} files");
    for number in 0..files {
        let mut file = store.create(FileId::table(number), &table_hint(1)).unwrap_or_else(|e| panic!("{number} of {files} files: {e}"));
        file.append(&pattern(FileId::table(number), FILE)).unwrap();
        file.seal().unwrap_or_else(|e| panic!("{number} of {files} files: {e}"));
    }
    assert_holds(&store, FileId::table(files - 1), FILE);
    assert_sound(&store);
}

#[test]
fn one_region_is_enough() {
    for (counts, broken, state) in [
        (0, 0, ZoneState::ReadOnly),
        (0, 1, ZoneState::ReadOnly),
        (0, 1, ZoneState::Offline),
        (1, 1, ZoneState::ReadOnly),
        (1, 0, ZoneState::ReadOnly),
        (1, 0, ZoneState::Offline),
    ] {
        let drive = with_metadata_in(counts);
        drive.break_zone(broken, state).unwrap();
        for opening in 0..4 {
            let store = open(&drive, plain());
            let what = format!("region {counts}, zone {broken} is {state:?}, opening {opening}");
            (1..3 + opening).for_each(|number| assert_holds(&store, FileId::table(number), 3000));
            assert_eq!(store.list().unwrap().len() as u64, 2 + opening, "{what}");
            put(&store, FileId::table(3 + opening), &table_hint(1), 3000);
            // One that is open has to be sealed at the next opening.
            let mut file = log(&store, opening, b"synced");
            store.sync_names().unwrap();
            file.append(b" and more").unwrap();
            file.sync().unwrap();
            drop((file, store));
            let store = open(&drive, plain());
            assert_eq!(get(&store, FileId::log(opening)), b"synced and more", "{what}");
            store.delete(FileId::log(opening)).unwrap();
            store.sync_names().unwrap();
            let complaints = store.check().unwrap();
            let [complaint] = &complaints[..] else { panic!("{what}: {complaints:?}") };
            assert!(complaint.starts_with(&format!("zone {broken}, which is for metadata, is ")), "{complaint}");
        }
    }
}

#[test]
fn lost_metadata_is_damage_and_not_an_empty_drive() {
    for zone in [0, 1] {
        let drive = with_metadata_in(zone);
        drive.break_zone(zone, ZoneState::Offline).unwrap();
        for _ in 0..2 {
            let error = ZonedStore::open(device(&drive), plain()).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidData, "{error}");
            assert!(error.to_string().contains(&format!("zone {zone}")), "{error}");
            let error = ZonedStore::format_unused(device(&drive), ID, plain()).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::AlreadyExists, "{error}");
        }
    }
}

/// A region that could not be emptied holds what was true before the metadata left it.
#[test]
fn what_may_be_old_metadata_is_not_taken_for_the_newest() {
    let drive = with_metadata_in(0);
    drive.break_zone(0, ZoneState::ReadOnly).unwrap();
    let store = open(&drive, plain());
    put(&store, FileId::table(7), &table_hint(1), 3000);
    store.sync_names().unwrap();
    drop(store);
    drive.break_zone(1, ZoneState::Offline).unwrap();
    let error = ZonedStore::open(device(&drive), plain()).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidData, "{error}");
}

#[test]
fn metadata_leaves_a_zone_that_becomes_read_only() {
    let drive = tiny();
    let store = format(&drive, plain());
    put(&store, FileId::table(1), &table_hint(1), 3000);
    store.sync_names().unwrap();
    drive.break_zone(0, ZoneState::ReadOnly).unwrap();
    put(&store, FileId::table(2), &table_hint(1), 3000);
    store.sync_names().unwrap();
    put(&store, FileId::table(3), &table_hint(1), 3000);
    store.sync_names().unwrap();
    drop(store);
    (1..4).for_each(|number| assert_holds(&open(&drive, plain()), FileId::table(number), 3000));
}

#[test]
fn a_full_region_without_another_ends_changes_and_says_why() {
    let drive = tiny();
    let store = format(&drive, plain());
    drive.break_zone(1, ZoneState::ReadOnly).unwrap();
    let mut known = 0;
    let error = loop {
        put(&store, FileId::table(known), &table_hint(1), 100);
        match store.sync_names() {
            Ok(()) => known += 1,
            Err(error) => break error,
        }
        assert!(known < 1000, "there is no end");
    };
    assert!(known > 10 && error.to_string().contains("zone 1"), "after {known}: {error}");
    let after = store.create(FileId::log(1), &log_hint()).map(drop).unwrap_err();
    assert!(after.to_string().contains("zone 1"), "{after}");
    (0..known).for_each(|number| assert_holds(&store, FileId::table(number), 100));
    drop(store);
    let store = open(&drive, plain());
    (0..known).for_each(|number| assert_holds(&store, FileId::table(number), 100));
}

/// The end of the metadata is cut, so it cannot be gone on with, and there is no other region.
#[test]
fn a_volume_that_cannot_be_written_can_be_read() {
    let drive = with_metadata_in(0);
    let store = open(&drive, plain());
    drive.break_zone(1, ZoneState::ReadOnly).unwrap();
    drive.set_hook(Some(Arc::new(|call: &Call| (call.operation == "write").then_some(ZoneFault::Cut(512)))));
    (10..30).for_each(|number| drop(store.create(FileId::table(number), &table_hint(1)).unwrap()));
    store.sync_names().unwrap_err();
    drive.set_hook(None);
    drop(store);
    for _ in 0..2 {
        let store = open(&drive, plain());
        assert_eq!(store.list().unwrap().len(), 2);
        (1..3).for_each(|number| assert_holds(&store, FileId::table(number), 3000));
        let error = store.create(FileId::log(1), &log_hint()).map(drop).unwrap_err();
        assert!(error.to_string().contains("zone 1"), "{error}");
        let complaints = store.check().unwrap();
        assert!(complaints[0].contains("zone 1") && complaints.len() == 2, "{complaints:?}");
    }
}

/// A power cut takes the ends of several zones of a region, which then hold more places than the metadata has.
#[test]
fn cut_zones_of_the_metadata_give_back_their_places() {
    let shape = Geometry { zones: 100, zone_size: 4 << 10, max_open: Some(3), max_active: Some(3), ..TINY };
    let drive = drive(&shape, 7 << 9);
    let store = format(&drive, plain());
    put(&store, FileId::table(1), &table_hint(1), 1000);
    store.sync_names().unwrap();
    // One frame of edits over three zones.
    let hint = Hint { key_range: Some((vec![b'a'; 16], vec![b'z'; 16])), ..table_hint(1) };
    (100..210).for_each(|number| drop(store.create(FileId::table(number), &hint).unwrap()));
    let images: Arc<Mutex<Vec<Arc<Emulator>>>> = Arc::default();
    let (from, into) = (drive.clone(), images.clone());
    drive.set_hook(Some(Arc::new(move |call: &Call| {
        if call.operation == "flush" && into.lock().is_empty() {
            into.lock().extend((0..32).map(|seed| Arc::new(from.crash_with(seed).unwrap())));
        }
        None
    })));
    store.sync_names().unwrap();
    drive.set_hook(None);
    let images = std::mem::take(&mut *images.lock());
    let partly = |image: &Emulator| image.report(0, 7).unwrap().iter().filter(|zone| zone.state.is_active()).count();
    assert!(images.iter().any(|image| partly(image) > 1), "no image has more than one");
    for image in &images {
        let store = open(image, plain());
        assert_holds(&store, FileId::table(1), 1000);
        put(&store, FileId::table(2), &table_hint(1), 1000);
        store.sync_names().unwrap();
        assert_sound(&store);
    }
}

/// Resets of zones for metadata are counted as those of all others, and none are forgotten when the volume is made anew.
#[test]
fn wear_is_the_drives() {
    let drive = tiny();
    let worn = |store: &ZonedStore| store.map().unwrap().zones.iter().map(|zone| zone.resets).collect::<Vec<u64>>();
    let real = || (0..TINY.zones).map(|zone| u64::from(drive.wear(zone))).collect::<Vec<u64>>();
    let mut store = format(&drive, plain());
    for round in 0..3 {
        for number in 0..400 {
            put(&store, FileId::table(number), &table_hint(1), 700);
            store.sync_names().unwrap();
            store.delete(FileId::table(number)).unwrap();
            store.sync_names().unwrap();
        }
        assert!(store.figures().journal.snapshots > 1 && real()[0] > 0 && real()[1] > 0);
        assert_eq!(worn(&store), real(), "round {round}");
        assert_sound(&store);
        drop(store);
        store = open(&drive, plain());
        assert_eq!(worn(&store), real(), "opened after round {round}");
        drop(store);
        store = format(&drive, plain());
        assert_eq!(worn(&store), real(), "made anew after round {round}");
        assert_sound(&store);
    }
    let zones = store.beneath().unwrap().zones;
    assert_eq!(zones.wear_metadata, u64::from(drive.wear(0).max(drive.wear(1))));
}

/// Formatting takes the region that can be written, and what stands in the other one does not come back. It erased the one and then failed
/// at the other.
#[test]
fn a_drive_with_one_good_region_is_formatted_in_that() {
    for (counts, broken, state) in [
        (0, 0, ZoneState::ReadOnly),
        (0, 0, ZoneState::Offline),
        (0, 1, ZoneState::ReadOnly),
        (1, 1, ZoneState::ReadOnly),
        (1, 1, ZoneState::Offline),
        (1, 0, ZoneState::Offline),
    ] {
        let drive = with_metadata_in(counts);
        drive.break_zone(broken, state).unwrap();
        let store = format(&drive, plain());
        put(&store, FileId::table(9), &table_hint(1), 3000);
        store.sync_names().unwrap();
        drop(store);
        let store = open(&drive, plain());
        assert_eq!(store.list().unwrap(), [(FileId::table(9), 3000)], "region {counts}, zone {broken} is {state:?}");
        assert_holds(&store, FileId::table(9), 3000);
    }
}

#[test]
fn a_drive_without_a_good_region_is_not_erased() {
    let drive = with_metadata_in(0);
    (0..2).for_each(|zone| drive.break_zone(zone, ZoneState::ReadOnly).unwrap());
    let error = ZonedStore::format(device(&drive), ID, plain()).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("zone 0 is read-only, and zone 1 read-only"), "{error}");
    let error = ZonedStore::fit_on(&device(&drive), plain(), &[]).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::Unsupported, "{error}");
    assert_holds(&open(&drive, plain()), FileId::table(1), 3000);
}
