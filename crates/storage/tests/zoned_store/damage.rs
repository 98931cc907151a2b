//! Bits that rot: nothing wrong is ever shown for what was durable.

use super::support::*;
use sinter_storage::store::{FileId, Store, StoreLock};
use sinter_storage::zoned::{Emulator, Geometry, Result, Zone, ZoneError, ZoneState, ZonedDevice};
use sinter_storage::zoned_store::{Allocation, Reset, ZonedStore};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

/// A drive some bytes of which read wrong.
#[derive(Debug)]
struct Rot {
    below: Arc<Emulator>,
    /// In which zone, from where to where, and what becomes of a byte there; `None`: it cannot be read.
    zone: u32,
    place: Range<u64>,
    change: fn(u64, u8) -> Option<u8>,
}

impl ZonedDevice for Rot {
    fn geometry(&self) -> &Geometry {
        self.below.geometry()
    }

    fn report(&self, first: u32, count: u32) -> Result<Vec<Zone>> {
        self.below.report(first, count)
    }

    fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> Result<()> {
        self.below.write(zone, at, bytes)
    }

    fn append(&self, zone: u32, bytes: &[u8]) -> Result<u64> {
        self.below.append(zone, bytes)
    }

    fn read(&self, zone: u32, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read(zone, at, buffer)?;
        for (place, byte) in (at..).zip(buffer).filter(|(place, _)| zone == self.zone && self.place.contains(place)) {
            *byte = (self.change)(place, *byte).ok_or_else(|| ZoneError::io("read", Some(zone), std::io::Error::from_raw_os_error(5)))?;
        }
        Ok(())
    }

    fn reset(&self, zone: u32) -> Result<()> {
        self.below.reset(zone)
    }

    fn finish(&self, zone: u32) -> Result<()> {
        self.below.finish(zone)
    }

    fn open(&self, zone: u32) -> Result<()> {
        self.below.open(zone)
    }

    fn close(&self, zone: u32) -> Result<()> {
        self.below.close(zone)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn lock(&self) -> sinter_storage::store::Result<Box<dyn StoreLock>> {
        self.below.lock()
    }
}

/// A copy of the drive with a byte flipped.
fn rotten(drive: &Emulator, zone: u32, at: u64) -> Arc<dyn ZonedDevice> {
    let below = Arc::new(drive.clone_image().unwrap());
    Arc::new(Rot { below, zone, place: at..at + 1, change: |place, byte| Some(byte ^ 1 << (place % 8)) })
}

/// A copy of the drive on which zeros are read in a part of a zone.
fn emptied(drive: &Emulator, zone: u32, place: Range<u64>) -> Arc<dyn ZonedDevice> {
    Arc::new(Rot { below: Arc::new(drive.clone_image().unwrap()), zone, place, change: |_, _| Some(0) })
}

#[test]
fn damage_of_durable_metadata_is_an_error() {
    let drive = tiny();
    let store = format(&drive, plain());
    for number in 0..5 {
        put(&store, FileId::table(number), &table_hint(1), 100);
        store.sync_names().unwrap();
    }
    drop(store);
    let end = drive.report(0, 1).unwrap()[0].written;
    let (mut refused, mut harmless) = (0, 0);
    for at in 0..end {
        match ZonedStore::open(rotten(&drive, 0, at), plain()) {
            Err(error) => {
                assert_eq!(error.source.kind(), ErrorKind::InvalidData, "{error}");
                refused += 1;
            }
            Ok(store) => {
                assert_eq!(store.list().unwrap().len(), 5, "byte {at}");
                harmless += 1;
            }
        }
    }
    assert!(refused > 650 && harmless > 500, "{refused} refused, {harmless} in padding");
}

/// The last frame of metadata says where a log begins. Behind it in the region nothing says that it was durable, and without it nobody
/// would look for the log.
#[test]
fn damage_of_the_last_metadata_is_an_error() {
    for files in [1, 20] {
        let drive = tiny();
        let store = format(&drive, plain());
        // So that the frame takes several blocks, or one.
        let empty: Vec<_> = (1..files).map(|number| store.create(FileId::log(100 + number), &log_hint()).unwrap()).collect();
        let start = drive.report(0, 1).unwrap()[0].written;
        let mut file = log(&store, 1, b"first");
        store.sync_names().unwrap();
        for _ in 0..10 {
            file.append(b", more").unwrap();
            file.sync().unwrap();
        }
        let end = drive.report(0, 1).unwrap()[0].written;
        assert_eq!(end - start > 512, files > 1);
        let whole = get(&store, FileId::log(1));
        std::mem::forget((file, store, empty));
        let mut refused = 0;
        for at in start..end {
            match ZonedStore::open(rotten(&drive, 0, at), plain()) {
                Err(error) => {
                    assert_eq!(error.source.kind(), ErrorKind::InvalidData, "{error}");
                    refused += 1;
                }
                Ok(store) => assert!(get(&store, FileId::log(1)) == whole, "byte {at}"),
            }
        }
        assert!(refused > 100, "{refused} refused");
    }
}

#[test]
fn damage_of_a_log_is_an_error() {
    // Both logs lie in one zone.
    let options = stepped(Allocation::PerLevel, Reset::Eager);
    let drive = tiny();
    let store = format(&drive, options);
    let mut open_log = log(&store, 1, b"open, first;");
    let mut sealed = log(&store, 2, b"sealed, first;");
    store.sync_names().unwrap();
    for file in [&mut open_log, &mut sealed] {
        for _ in 0..2 {
            file.append(b" more of it;").unwrap();
            file.sync().unwrap();
        }
    }
    sealed.seal().unwrap();
    store.sync_names().unwrap();
    let whole = [get(&store, FileId::log(1)), get(&store, FileId::log(2))];
    let map = store.map().unwrap();
    let zone = map.zones.iter().find(|zone| !zone.files.is_empty()).unwrap();
    std::mem::forget(open_log);
    let mut errors = 0;
    for at in 0..zone.written {
        let store = ZonedStore::open(rotten(&drive, zone.zone, at), options).unwrap();
        for (number, whole) in (1..).zip(&whole) {
            let file = store.open(FileId::log(number)).unwrap();
            let mut bytes = vec![0; file.len() as usize];
            match file.read_at(0, &mut bytes) {
                Ok(()) => assert!(bytes == *whole, "byte {at} of log {number}: {bytes:?}"),
                Err(error) => {
                    assert_eq!(error.source.kind(), ErrorKind::InvalidData);
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 400, "{errors} errors");
}

/// Nothing behind its last frames says that they were durable, but the write pointer says that they were written.
#[test]
fn a_log_whose_last_frames_are_gone_does_not_look_like_a_shorter_one() {
    let drive = tiny();
    let store = format(&drive, plain());
    let mut file = log(&store, 1, b"first;");
    store.sync_names().unwrap();
    let piece = pattern(FileId::log(1), 700);
    for _ in 0..4 {
        file.append(&piece).unwrap();
        file.sync().unwrap();
    }
    let map = store.map().unwrap();
    let zone = map.zones.iter().find(|zone| !zone.files.is_empty()).unwrap();
    let (zone, end) = (zone.zone, zone.written);
    std::mem::forget((file, store));
    for from in (512..end).step_by(512) {
        let drive = emptied(&drive, zone, from..end);
        for opening in 0..2 {
            let store = ZonedStore::open(Arc::clone(&drive), plain()).unwrap();
            let file = store.open(FileId::log(1)).unwrap();
            let error = file.read_at(0, &mut vec![0; file.len() as usize]).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidData, "{from} {opening}");
            let complaints = store.check().unwrap();
            assert!(complaints.iter().any(|what| what.contains("000001.log is damaged from byte")), "{from}: {complaints:?}");
        }
    }
    // Of a zone that was finished, the rest was not written.
    let copy = Arc::new(drive.clone_image().unwrap());
    copy.finish(zone).unwrap();
    let store = open(&copy, plain());
    assert_eq!(get(&store, FileId::log(1)).len(), 6 + 4 * 700);
    assert_sound(&store);
}

/// If there are few active zones, logs and tables share zones; a table is not taken for a damaged log.
#[test]
fn a_table_beside_a_log_is_no_damage() {
    let drive = drive(&Geometry { max_open: Some(3), max_active: Some(3), ..TINY }, TINY_CAPACITY);
    let store = format(&drive, plain());
    let mut file = log(&store, 1, b"first;");
    store.sync_names().unwrap();
    let table = FileId::table(2);
    put(&store, table, &table_hint(1), 1000);
    file.append(b"second;").unwrap();
    file.sync().unwrap();
    let mut unfinished = store.create(FileId::table(3), &table_hint(1)).unwrap();
    unfinished.append(&pattern(table, 2000)).unwrap();
    unfinished.sync().unwrap();
    let zones = store.map().unwrap().zones;
    assert_eq!(zones.iter().filter(|zone| !zone.files.is_empty()).count(), 1, "they share");
    std::mem::forget((file, unfinished, store));
    let store = open(&Arc::new(drive.clone_image().unwrap()), plain());
    assert_eq!(get(&store, FileId::log(1)), b"first;second;");
    assert_sound(&store);
}

/// Copies of a drive on which a log was being written when the process ended, each without one of the log's zones.
fn without_a_zone(bytes: usize, sync: bool) -> Vec<Arc<Emulator>> {
    let drive = tiny();
    let store = format(&drive, plain());
    let id = FileId::log(1);
    let mut file = log(&store, 1, b"");
    store.sync_names().unwrap();
    for piece in pattern(id, bytes).chunks(3000) {
        file.append(piece).unwrap();
        if sync {
            file.sync().unwrap();
        }
    }
    file.sync().unwrap();
    let zones = store.map().unwrap().zones;
    let image = |zone| {
        let image = Arc::new(drive.clone_image().unwrap());
        image.break_zone(zone, ZoneState::Offline).unwrap();
        image
    };
    let images = zones.iter().filter(|zone| zone.files.iter().any(|(file, _)| *file == id)).map(|zone| image(zone.zone)).collect();
    drop((file, store));
    images
}

/// The bytes in a lost zone may have been synced, and nothing else tells how many there were: the log must not look like a shorter one.
#[test]
fn a_lost_zone_of_an_open_log_is_a_hole() {
    let id = FileId::log(1);
    for (bytes, sync, zones) in [(6000, true, 1), (30_000, true, 3), (30_000, false, 3)] {
        let images = without_a_zone(bytes, sync);
        assert_eq!(images.len(), zones);
        for (which, image) in images.iter().enumerate() {
            for opening in 0..3 {
                let store = open(image, plain());
                let file = store.open(id).unwrap();
                let complaints = store.check().unwrap();
                assert!(complaints.iter().any(|what| what.contains("000001.log is damaged from byte")), "{complaints:?}");
                let mut found = vec![0; file.len() as usize];
                let error = file.read_at(0, &mut found).unwrap_err();
                assert_eq!((error.source.kind(), error.file), (ErrorKind::InvalidData, Some(id)), "zone {which}, opening {opening}");
                let [entry] = &store.files()[..] else { panic!("one file") };
                for extent in entry.extents.iter().filter(|extent| extent.zone.is_some()) {
                    let mut found = vec![0; extent.len as usize];
                    file.read_at(extent.offset, &mut found).unwrap();
                    assert!(found == pattern(id, bytes)[extent.offset as usize..][..found.len()], "what is left stands where it stood");
                }
            }
        }
    }
}

/// Fills a volume, deletes every other table, and fills it again, so that the collector empties zones.
fn crowd(store: &ZonedStore, first: u64) -> Vec<FileId> {
    let mut files = Vec::new();
    for number in first..first + 1000 {
        let id = FileId::table(number);
        let Ok(mut file) = store.create(id, &table_hint(2)) else { break };
        if file.append(&pattern(id, 3000)).and_then(|()| file.seal()).is_err() {
            store.delete(id).unwrap();
            break;
        }
        files.push(id);
    }
    store.sync_names().unwrap();
    files
}

/// A crowded volume on `device`: how many of `files` are left damaged, and whether `rotten` was moved.
fn collected(device: Arc<dyn ZonedDevice>, files: &[FileId], rotten: FileId, is_rot: bool) -> (usize, bool) {
    let store = ZonedStore::open(device, plain()).unwrap();
    let lies = || store.files().into_iter().find(|file| file.id == rotten).map(|file| file.extents);
    let before = lies();
    files.iter().step_by(2).for_each(|id| store.delete(*id).unwrap());
    store.sync_names().unwrap();
    crowd(&store, 10_000);
    let mut damaged = 0;
    for id in files.iter().skip(1).step_by(2) {
        let file = store.open(*id).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        match file.read_at(0, &mut bytes) {
            Ok(()) => {
                let wrong = bytes.iter().zip(pattern(*id, 3000)).filter(|(found, written)| **found != *written).count();
                assert!(wrong == 0 || is_rot && wrong == 1 && *id == rotten, "{id}: {wrong} bytes");
                damaged += wrong;
            }
            Err(error) => {
                assert!(!is_rot && *id == rotten, "{id}: {error}");
                damaged += 1;
            }
        }
    }
    (damaged, lies() != before)
}

/// The collector copies bytes as they are: rot stays the rot that checksums tell of, and what cannot be read stays where it is.
#[test]
fn the_collector_never_makes_damage_look_whole() {
    let drive = tiny();
    let store = format(&drive, plain());
    let files = crowd(&store, 1);
    let listed = store.files();
    drop(store);
    let mut moved = 0;
    for id in files.iter().skip(1).step_by(2) {
        let extent = listed.iter().find(|file| file.id == *id).unwrap().extents[0];
        let (zone, place) = (extent.zone.unwrap(), extent.at..extent.at + 1);
        let (rot, was_moved) = collected(rotten(&drive, zone, extent.at), &files, *id, true);
        moved += usize::from(was_moved);
        let below = Arc::new(drive.clone_image().unwrap());
        let (unreadable, was_moved) = collected(Arc::new(Rot { below, zone, place, change: |_, _| None }), &files, *id, false);
        assert_eq!((rot, unreadable, was_moved), (1, 1, false), "{id}");
    }
    assert!(moved > 5, "{moved} were moved");
}
