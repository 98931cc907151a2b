//! Several stores as one: where files lie, what a full tier says, which names are synced.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sinter_storage::store::{
    Calls, Cause, CrashMode, DirStore, EIO, Fault, FaultStore, FileId, Hint, MemoryStore, Operation, Relation, Shared, Store, Temperature,
    Tiers, relation,
};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn hint(temperature: Temperature, expected_bytes: u64) -> Hint {
    Hint { temperature, expected_bytes, ..Hint::new(Cause::Flush) }
}

fn put(store: &dyn Store, id: FileId, temperature: Temperature, bytes: &[u8]) {
    let mut file = store.create(id, &hint(temperature, 0)).unwrap();
    file.append(bytes).unwrap();
    file.seal().unwrap();
}

fn get(store: &dyn Store, id: FileId) -> Vec<u8> {
    let file = store.open(id).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

fn listed(store: &dyn Store) -> Vec<FileId> {
    let mut files: Vec<_> = store.list().unwrap().into_iter().map(|(id, _)| id).collect();
    files.sort();
    files
}

#[test]
fn a_temperature_without_a_store_has_that_of_the_next_hotter_one() {
    for subset in 0..32u8 {
        let stores: Vec<_> = Temperature::ALL.into_iter().filter(|t| *t as u8 > 0 && subset >> (*t as u8 - 1) & 1 == 1).collect();
        let tiers = Tiers::new(memory(), stores.iter().map(|t| (*t, memory() as Arc<dyn Store>))).unwrap();
        assert!(tiers.temperatures().eq(stores.iter().copied()));
        for temperature in Temperature::ALL {
            let hotter = |than: Temperature| stores.iter().rev().find(|t| **t < than).copied().unwrap_or(Temperature::Unknown);
            let serving = if stores.contains(&temperature) { temperature } else { hotter(temperature) };
            assert_eq!(tiers.serving(temperature), serving, "{stores:?}, {temperature:?}");
            let next = (serving != Temperature::Unknown).then(|| hotter(serving));
            assert_eq!(tiers.hotter(temperature), next, "{stores:?}, {temperature:?}");
        }
    }
}

#[test]
fn tables_lie_by_temperature_and_everything_else_in_the_primary_store() {
    let (primary, warm, cold) = (memory(), memory(), memory());
    let open = || Tiers::new(primary.clone(), [(Temperature::Cold, cold.clone() as Arc<dyn Store>), (Temperature::Warm, warm.clone())]);
    let tiers = open().unwrap();
    for (number, temperature) in Temperature::ALL.into_iter().enumerate() {
        put(&tiers, FileId::table(number as u64), temperature, &[number as u8; 3]);
    }
    put(&tiers, FileId::log(9), Temperature::Cold, b"log");
    put(&tiers, FileId::manifest(10), Temperature::Ice, b"manifest");
    assert_eq!(listed(&*primary), [FileId::manifest(10), FileId::log(9), FileId::table(0), FileId::table(1)]);
    assert_eq!(listed(&*warm), [FileId::table(2), FileId::table(3)]);
    assert_eq!(listed(&*cold), [FileId::table(4), FileId::table(5)]);
    for tiers in [tiers, open().unwrap()] {
        assert_eq!(listed(&tiers).len(), 8);
        let places = [0, 1, 2, 3, 4, 5].map(|number| tiers.place(FileId::table(number)).unwrap().name());
        assert_eq!(places, ["unknown", "unknown", "warm", "warm", "cold", "cold"]);
        for number in 0..6u8 {
            assert_eq!(get(&tiers, FileId::table(number.into())), [number; 3]);
        }
        assert_eq!(tiers.place(FileId::table(77)), None);
        let taken = tiers.create(FileId::table(4), &hint(Temperature::Hot, 0)).err().unwrap();
        assert_eq!(taken.source.kind(), std::io::ErrorKind::AlreadyExists, "a name is one file, wherever it lies");
    }
    let tiers = open().unwrap();
    let target = memory();
    assert_eq!(tiers.share(FileId::table(5), &*target, &hint(Temperature::Unknown, 0)).unwrap(), Shared::Copied(3));
    tiers.delete(FileId::table(5)).unwrap();
    assert!(tiers.open(FileId::table(5)).unwrap_err().is_not_found());
    assert!(tiers.delete(FileId::table(5)).unwrap_err().is_not_found());
    assert!(tiers.share(FileId::table(5), &*target, &hint(Temperature::Unknown, 0)).unwrap_err().is_not_found());
    assert_eq!(listed(&*cold), [FileId::table(4)]);
}

#[test]
fn what_is_not_a_table_is_no_file_of_a_tier() {
    let (primary, cold) = (memory(), memory());
    put(&*cold, FileId::tier(3), Temperature::Unknown, b"identity");
    put(&*cold, FileId::log(4), Temperature::Unknown, b"a stranger");
    let tiers = Tiers::new(primary, [(Temperature::Cold, cold.clone() as Arc<dyn Store>)]).unwrap();
    assert_eq!(listed(&tiers), []);
    for id in [FileId::tier(3), FileId::log(4)] {
        assert!(tiers.open(id).unwrap_err().is_not_found());
        assert!(tiers.delete(id).unwrap_err().is_not_found());
    }
    assert_eq!(listed(&*cold).len(), 2);
}

#[test]
fn of_a_name_in_two_stores_the_hotter_one_counts_and_a_deletion_removes_both() {
    let (primary, warm, cold) = (memory(), memory(), memory());
    let id = FileId::table(7);
    put(&*cold, id, Temperature::Unknown, b"torn");
    put(&*warm, id, Temperature::Unknown, b"whole");
    let failing = Arc::new(FaultStore::new(cold.clone()));
    let tiers =
        Tiers::new(primary, [(Temperature::Warm, warm.clone() as Arc<dyn Store>), (Temperature::Cold, failing.clone() as Arc<dyn Store>)])
            .unwrap();
    assert_eq!((tiers.place(id), get(&tiers, id)), (Some(Temperature::Warm), b"whole".to_vec()));
    assert_eq!(tiers.list().unwrap(), [(id, 5)]);
    failing.inject(Fault::once(Calls::Only(Operation::Delete), 0, EIO));
    let error = tiers.delete(id).unwrap_err();
    assert!(error.to_string().contains("tier cold"), "{error}");
    assert_eq!(tiers.place(id), Some(Temperature::Cold), "what is left is not forgotten");
    tiers.delete(id).unwrap();
    assert_eq!((listed(&*warm), listed(&*cold), tiers.place(id)), (vec![], vec![], None));
}

#[test]
fn a_full_tier_says_so_before_anything_is_written() {
    let home = tempfile::tempdir().unwrap();
    let (primary, cold) = (memory(), memory());
    let open = |cold: Arc<dyn Store>| Tiers::new(primary.clone(), [(Temperature::Cold, cold)]).unwrap();
    let tiers = open(cold.clone());
    cold.set_capacity(Some(100));
    primary.set_capacity(Some(1));
    let error = tiers.create(FileId::table(1), &hint(Temperature::Cold, 101)).err().unwrap();
    assert!(error.is_no_space() && error.to_string().contains("tier cold"), "{error}");
    assert_eq!(listed(&tiers), []);
    tiers.create(FileId::table(1), &hint(Temperature::Cold, 100)).unwrap();
    assert_eq!((tiers.free_bytes().unwrap(), tiers.free_bytes_of(Temperature::Ice).unwrap()), (Some(1), Some(100)));
    // The primary store is not asked: there is nowhere else to go.
    tiers.create(FileId::table(2), &hint(Temperature::Hot, 5000)).unwrap();
    // A real file system knows, too.
    let tiers = open(Arc::new(DirStore::open(home.path(), false).unwrap()));
    let error = tiers.create(FileId::table(3), &hint(Temperature::Cold, u64::MAX)).err().unwrap();
    assert!(error.is_no_space() && error.to_string().contains(&home.path().display().to_string()), "{error}");
    assert_eq!(tiers.directory_of(Temperature::Ice), Some(home.path()));
}

#[test]
fn names_are_synced_where_they_changed() {
    let counted = || Arc::new(FaultStore::new(memory()));
    let (primary, warm, cold) = (counted(), counted(), counted());
    let tiers =
        Tiers::new(primary.clone(), [(Temperature::Warm, warm.clone() as Arc<dyn Store>), (Temperature::Cold, cold.clone())]).unwrap();
    let syncs = || [&primary, &warm, &cold].map(|store| store.count(Operation::SyncNames));
    tiers.sync_names().unwrap();
    assert_eq!(syncs(), [1, 1, 1], "what was there before may not be durable");
    put(&tiers, FileId::log(1), Temperature::Unknown, b"x");
    tiers.sync_names().unwrap();
    assert_eq!(syncs(), [2, 1, 1]);
    put(&tiers, FileId::table(2), Temperature::Cold, b"x");
    cold.inject(Fault::once(Calls::Only(Operation::SyncNames), 1, EIO));
    assert!(tiers.sync_names().unwrap_err().to_string().contains("tier cold"));
    tiers.sync_names().unwrap();
    assert_eq!(syncs(), [4, 1, 3], "a failed sync is not forgotten");
    tiers.delete(FileId::table(2)).unwrap();
    tiers.sync_names().unwrap();
    tiers.sync_names().unwrap();
    assert_eq!(syncs(), [6, 1, 4]);
}

/// A table is made on a cold tier and its name synced. Within the first call `when` of that tier `other` happens, as another thread's doing
/// would; it may make the power go, which otherwise goes when the names are synced. The tables that are left on the tier.
fn made_beside(when: Operation, other: impl Fn(&Tiers, &dyn Fn()) + Send + Sync + 'static) -> Vec<FileId> {
    let below = memory();
    let cold = Arc::new(FaultStore::new(below.clone()));
    let tiers = Arc::new(Tiers::new(memory(), [(Temperature::Cold, cold.clone() as Arc<dyn Store>)]).unwrap());
    tiers.sync_names().unwrap();
    let left = Arc::new(Mutex::new(None));
    let power_goes = {
        let left = Arc::clone(&left);
        Arc::new(move || {
            left.lock().unwrap().get_or_insert_with(|| listed(&below.crash_with(CrashMode::DropUnsynced)));
        })
    };
    let (beside, sooner, met) = (Arc::clone(&tiers), Arc::clone(&power_goes), AtomicBool::new(false));
    cold.on_call(Some(Arc::new(move |_, operation| {
        if operation == when && !met.swap(true, Ordering::Relaxed) {
            other(&beside, &*sooner);
        }
    })));
    put(&*tiers, FileId::table(1), Temperature::Cold, b"x");
    tiers.sync_names().unwrap();
    power_goes();
    cold.on_call(None);
    left.lock().unwrap().take().unwrap()
}

#[test]
fn a_name_is_durable_for_whoever_synced_it_whatever_others_sync_meanwhile() {
    // A sync that is over before the file is there does not count for it.
    let left = made_beside(Operation::Create, |tiers, _| tiers.sync_names().unwrap());
    assert_eq!(left, [FileId::table(1)]);
    // Here the outer sync is the other thread's, which takes long, and the inner one that of the table's owner.
    let left = made_beside(Operation::SyncNames, |tiers, power_goes| {
        tiers.sync_names().unwrap();
        power_goes();
    });
    assert_eq!(left, [FileId::table(1)]);
}

#[test]
fn all_stores_are_locked_or_none() {
    let (primary, cold) = (memory(), memory());
    let tiers = Tiers::new(primary.clone(), [(Temperature::Cold, cold.clone() as Arc<dyn Store>)]).unwrap();
    let lock = tiers.lock().unwrap();
    assert!(primary.lock().unwrap_err().is_locked() && cold.lock().unwrap_err().is_locked());
    drop(lock);
    let other = cold.lock().unwrap();
    let error = tiers.lock().unwrap_err();
    assert!(error.is_locked() && error.to_string().contains("tier cold"), "{error}");
    primary.lock().unwrap();
    drop(other);
    tiers.lock().unwrap();
}

#[test]
fn one_temperature_has_one_store() {
    let twice = [(Temperature::Cold, memory() as Arc<dyn Store>), (Temperature::Cold, memory())];
    assert!(Tiers::new(memory(), twice).unwrap_err().to_string().contains("cold"));
    assert!(Tiers::new(memory(), [(Temperature::Unknown, memory() as Arc<dyn Store>)]).is_err());
}

#[test]
fn directories_know_how_they_lie_to_each_other() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    for name in ["db", "db/below", "db/below/deep", "other", "db2"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    symlink(path("db"), path("link")).unwrap();
    symlink(path("db/below"), path("other/link")).unwrap();
    for (a, b, expected) in [
        ("db", "db", Relation::Same),
        ("db", "link", Relation::Same),
        ("db/../db", "other/link/..", Relation::Same),
        ("db/below/deep", "db", Relation::Inside),
        ("other/link", "db", Relation::Inside),
        ("db", "other/link", Relation::Around),
        ("link/below", "db/below/deep", Relation::Around),
        ("db", "db2", Relation::Apart),
        ("other", "db", Relation::Apart),
    ] {
        assert_eq!(relation(&path(a), &path(b)).unwrap(), expected, "{a} {b}");
    }
    assert!(relation(&path("db"), &path("missing")).is_err());
}
