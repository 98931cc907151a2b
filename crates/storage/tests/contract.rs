//! Duties of every store, checked on the directory, the memory, zones and each of them below all wrappers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_storage::store::{
    BoundedStore, Cause, DirStore, FaultStore, FileId, Hint, Medium, MemoryStore, Meter, OpenFiles, Shared, Store, Temperature, Throttle,
    Tiers,
};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

fn hint() -> Hint {
    Hint { temperature: Temperature::Cold, ..Hint::new(Cause::Flush) }
}

/// Tables lie in the second store.
fn tiered() -> Tiers {
    Tiers::new(Arc::new(MemoryStore::new()), [(Temperature::Warm, Arc::new(MemoryStore::new()) as Arc<dyn Store>)]).unwrap()
}

/// The smallest drive that holds what these tests write.
fn zoned() -> ZonedStore {
    let geometry = Geometry { block: 512, zones: 64, zone_size: 256 << 10, max_open: Some(14), max_active: Some(14), conventional: 0 };
    let drive = Arc::new(Emulator::memory(geometry, 200 << 10).unwrap());
    ZonedStore::format(drive, VolumeId([1; 16]), Options::default()).unwrap()
}

fn wrapped(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let medium = Medium { read_mb_per_s: 0.0, write_mb_per_s: 0.0, seek: Duration::ZERO };
    Arc::new(FaultStore::new(Arc::new(Meter::new(Arc::new(Throttle::new(store, medium))))))
}

/// Two files stay open.
fn bounded(store: Arc<dyn Store>) -> BoundedStore {
    let files = OpenFiles::new();
    files.set_most(2);
    BoundedStore::new(store, files, false)
}

/// Runs a test over a fresh pair of each kind of store.
fn over_all(test: impl Fn(&str, &dyn Store, &dyn Store)) {
    let homes: Vec<_> = (0..6).map(|_| tempfile::tempdir().unwrap()).collect();
    let dir = |i: usize| Arc::new(DirStore::open(homes[i].path(), false).unwrap());
    test("dir", &*dir(0), &*dir(1));
    test("memory", &MemoryStore::new(), &MemoryStore::new());
    test("tiers", &tiered(), &tiered());
    test("wrapped dir", &*wrapped(dir(2)), &*wrapped(dir(3)));
    test("bounded dir", &bounded(dir(4)), &bounded(dir(5)));
    test("bounded memory", &bounded(Arc::new(MemoryStore::new())), &bounded(Arc::new(MemoryStore::new())));
    test("zoned", &zoned(), &zoned());
    test("wrapped zoned", &*wrapped(Arc::new(zoned())), &*wrapped(Arc::new(zoned())));
    test("wrapped memory", &*wrapped(Arc::new(MemoryStore::new())), &*wrapped(Arc::new(MemoryStore::new())));
}

fn put(store: &dyn Store, id: FileId, hint: &Hint, pieces: &[&[u8]]) {
    let mut file = store.create(id, hint).unwrap();
    for piece in pieces {
        file.append(piece).unwrap();
    }
    file.seal().unwrap();
}

fn get(store: &dyn Store, id: FileId) -> Vec<u8> {
    let file = store.open(id).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn listed(store: &dyn Store) -> Vec<(FileId, u64)> {
    let mut files = store.list().unwrap();
    files.sort();
    files
}

/// Bytes whose place can be told from their value.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn bytes_come_back_and_lengths_are_known() {
    over_all(|name, store, _| {
        let all = pattern(200_000);
        for (number, pieces) in [vec![], vec![1], vec![1, 65_535, 1, 65_536, 68_927], vec![200_000], vec![0, 5, 0]].iter().enumerate() {
            let id = FileId::table(number as u64);
            let mut file = store.create(id, &hint()).unwrap();
            assert!(file.is_empty());
            let mut at = 0;
            for piece in pieces {
                file.append(&all[at..at + piece]).unwrap();
                at += piece;
                assert_eq!(file.len(), at as u64, "{name}");
                assert_eq!(get(store, id), &all[..at], "{name}: appended bytes are readable at once");
            }
            file.sync().unwrap();
            file.seal().unwrap();
            assert_eq!(get(store, id), &all[..at], "{name}");
            assert!(listed(store).contains(&(id, at as u64)), "{name}");
        }
    });
}

#[test]
fn reads_stay_inside_the_file() {
    over_all(|name, store, _| {
        let all = pattern(100_000);
        let id = FileId::log(7);
        put(store, id, &hint(), &[&all]);
        let file = store.open(id).unwrap();
        file.will_need(0, u64::MAX);
        file.will_need(99_999, 1);
        for (offset, length) in [(0, 100_000), (65_530, 12), (99_999, 1), (100_000, 0), (3, 0)] {
            let mut buffer = vec![0; length];
            file.read_at(offset, &mut buffer).unwrap();
            assert_eq!(buffer, &all[offset as usize..][..length], "{name}");
        }
        for (offset, length) in [(0, 100_001), (99_999, 2), (100_000, 1), (1 << 40, 1)] {
            let error = file.read_at(offset, &mut vec![0; length]).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof, "{name} at {offset}");
            assert_eq!((error.file, error.offset), (Some(id), Some(offset)), "{name}");
        }
        assert!(file.read_at(u64::MAX, &mut [0; 2]).is_err(), "{name}: an end past u64 is an error, not a panic");
    });
}

#[test]
fn names_exist_once_and_end_with_delete() {
    over_all(|name, store, _| {
        let id = FileId::manifest(1_234_567_890);
        assert!(store.open(id).unwrap_err().is_not_found(), "{name}");
        assert!(store.delete(id).unwrap_err().is_not_found(), "{name}");
        put(store, id, &hint(), &[b"abc"]);
        let again = store.create(id, &hint()).err().unwrap();
        assert_eq!(again.source.kind(), ErrorKind::AlreadyExists, "{name}");
        assert_eq!(get(store, id), b"abc", "{name}: a refused create changes nothing");
        put(store, FileId::log(2), &hint(), &[]);
        put(store, FileId::table(2), &hint(), &[b"x"]);
        store.sync_names().unwrap();
        assert_eq!(listed(store), [(id, 3), (FileId::log(2), 0), (FileId::table(2), 1)], "{name}");

        let reader = store.open(id).unwrap();
        store.delete(id).unwrap();
        let mut buffer = [0; 3];
        reader.read_at(0, &mut buffer).unwrap();
        assert_eq!((&buffer, reader.len()), (b"abc", 3), "{name}: an open reader outlives the name");
        assert!(store.open(id).unwrap_err().is_not_found(), "{name}");
        assert_eq!(listed(store).len(), 2, "{name}");
    });
}

#[test]
fn the_lock_is_exclusive_until_dropped() {
    over_all(|name, store, other| {
        let lock = store.lock().unwrap();
        let error = store.lock().err().unwrap();
        assert!(error.is_locked(), "{name}: {error}");
        other.lock().unwrap();
        drop(lock);
        store.lock().unwrap();
        assert_eq!(listed(store), [], "{name}: the lock is not one of the files");
    });
}

#[test]
fn sharing_gives_the_same_bytes_under_the_same_name() {
    over_all(|name, store, target| {
        let id = FileId::table(9);
        let all = pattern((1 << 20) + 4097);
        put(store, id, &hint(), &[&all]);
        put(store, FileId::table(10), &hint(), &[]);
        let expected = if store.directory().is_some() { Shared::Linked } else { Shared::Copied(all.len() as u64) };
        let checkpoint = Hint::new(Cause::Checkpoint);
        assert_eq!(store.share(id, target, &checkpoint).unwrap(), expected, "{name}");
        store.share(FileId::table(10), target, &checkpoint).unwrap();
        assert_eq!(get(target, id), all, "{name}");

        let taken = store.share(id, target, &checkpoint).unwrap_err();
        assert_eq!(taken.source.kind(), ErrorKind::AlreadyExists, "{name}");
        assert_eq!(get(target, id), all, "{name}: a refused share changes nothing");
        assert!(store.share(FileId::table(11), target, &checkpoint).unwrap_err().is_not_found(), "{name}");
        assert_eq!(listed(target).len(), 2, "{name}: a failed share leaves no file");

        store.delete(id).unwrap();
        assert_eq!(get(target, id), all, "{name}: the shared file does not depend on the first name");
    });
}

#[test]
fn sharing_across_kinds_of_store_copies() {
    let home = tempfile::tempdir().unwrap();
    let (dir, memory) = (DirStore::open(home.path(), false).unwrap(), MemoryStore::new());
    let all = pattern(3_000_000);
    put(&dir, FileId::table(1), &hint(), &[&all]);
    put(&memory, FileId::table(2), &hint(), &[&all]);
    assert_eq!(dir.share(FileId::table(1), &memory, &hint()).unwrap(), Shared::Copied(3_000_000));
    assert_eq!(memory.share(FileId::table(2), &dir, &hint()).unwrap(), Shared::Copied(3_000_000));
    assert_eq!(get(&memory, FileId::table(1)), all);
    assert_eq!(get(&dir, FileId::table(2)), all);
}

#[test]
fn one_file_is_read_while_it_grows() {
    over_all(|name, store, _| {
        let all = pattern(300_000);
        let id = FileId::log(1);
        let mut file = store.create(id, &hint()).unwrap();
        file.append(&all[..1000]).unwrap();
        let reader = store.open(id).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for piece in all[1000..].chunks(777) {
                    file.append(piece).unwrap();
                }
            });
            let mut length = 0;
            while length < all.len() {
                let now = reader.len() as usize;
                assert!(now >= length, "{name}: a log never shrinks");
                let mut buffer = vec![0; now - length];
                reader.read_at(length as u64, &mut buffer).unwrap();
                assert!(buffer == all[length..now], "{name}");
                length = now;
            }
        });
    });
}
