//! Operations that replace many keys are done or not done, wherever the process is killed or the power cut.

use super::{NOW, everything, log, with};
use crate::keyspace::{Error, Keyspace, Kind, Side};
use crate::rdb::{Output, Version, kind};
use crate::testing::small_settings;
use crate::transfer::{Damage, Found};
use parking_lot::Mutex;
use sinter_storage::store::{CrashMode, FaultStore, MemoryStore};
use sinterdb::{DEFAULT_FAMILY, Durability, ReadOptions, WriteOptions};
use std::path::Path;
use std::sync::Arc;

const SYNCED: WriteOptions = WriteOptions::new(Durability::Sync);

/// The contents of a keyspace.
type State = Vec<super::Seen>;

/// A keyspace in memory, and the possible contents of the medium after each call that changes it.
struct Watched {
    keyspace: Keyspace,
    faults: Arc<FaultStore>,
    images: Arc<Mutex<Vec<MemoryStore>>>,
}

impl Watched {
    fn new() -> Watched {
        let memory = Arc::new(MemoryStore::new());
        let faults = Arc::new(FaultStore::new(memory.clone()));
        let keyspace = Keyspace::open(faults.clone(), &small_settings(), 42).unwrap();
        let images = Arc::<Mutex<Vec<MemoryStore>>>::default();
        let theirs = images.clone();
        let watched = Watched { keyspace, faults, images };
        watched.faults.on_call(Some(Arc::new(move |n, _| {
            let image = match n % 4 {
                0 => memory.clone_image(),
                1 => memory.crash_with(CrashMode::DropUnsynced),
                2 => memory.crash_with(CrashMode::KeepAll),
                _ => memory.crash_with(n),
            };
            theirs.lock().push(image);
        })));
        watched
    }

    /// Closes the keyspace, and returns the contents of the medium on the way and at the end.
    fn end(self) -> Vec<MemoryStore> {
        self.keyspace.close().unwrap();
        self.faults.on_call(None);
        std::mem::take(&mut self.images.lock())
    }
}

fn open(image: MemoryStore) -> Result<Keyspace, Error> {
    Keyspace::open(Arc::new(image), &small_settings(), 42).map(at_now)
}

fn at_now(mut keyspace: Keyspace) -> Keyspace {
    keyspace.set_now(NOW);
    keyspace
}

/// Keys of all sorts in several databases, of which two have changed places.
fn fill(keyspace: &mut Keyspace) {
    keyspace.set_now(NOW);
    for n in 0..40usize {
        let (db, name) = (n % 3, format!("old{n}"));
        let deadline = (n % 4 == 0).then_some(NOW + 1000 + n as u64);
        match n % 5 {
            0 | 1 => keyspace.set_string(db, name.as_bytes(), &[b'o'; 400], deadline).unwrap(),
            2 => {
                let mut edit = keyspace.replace(db, name.as_bytes(), Kind::List, deadline).unwrap();
                (0..20).for_each(|_| keyspace.push(&mut edit, Side::Right, b"an item").unwrap());
                keyspace.finish(&edit);
            }
            _ => {
                let mut edit = keyspace.replace(db, name.as_bytes(), Kind::Set, deadline).unwrap();
                (0..20u8).for_each(|m| assert!(keyspace.add_member(&mut edit, &[m]).unwrap()));
                keyspace.finish(&edit);
            }
        }
    }
    keyspace.swap(0, 2).unwrap();
    keyspace.commit(&SYNCED).unwrap();
}

/// An RDB file, followed by a log of commands that replace many keys.
fn file() -> Vec<u8> {
    let mut out = Output::new(Vec::new());
    out.head(Version::Nine).unwrap();
    out.aux("aof-base", "1").unwrap();
    out.database(1, 1, 0).unwrap();
    out.key(kind::SET, b"large", Some(NOW + 5000)).unwrap();
    out.length(1500).unwrap();
    (0..1500).for_each(|n| out.string(format!("member {n} of a large set").as_bytes()).unwrap());
    for n in 0..60 {
        out.key(kind::STRING, format!("new{n}").as_bytes(), (n % 7 == 0).then_some(NOW + 9)).unwrap();
        out.string(&[b'n'; 700]).unwrap();
    }
    let end = log(&["SELECT 0", "SADD gone 1 2 3", "FLUSHDB", "SADD s 1 2 3", "SWAPDB 0 5", "SELECT 1", "DEL new3", "EXPIRE new4 77"]);
    [out.end().unwrap(), end].concat()
}

/// All entries of the engine, except the settings of the keyspace.
fn raw(keyspace: &Keyspace) -> Vec<Vec<u8>> {
    let db = keyspace.db();
    let families = [DEFAULT_FAMILY, "elements"].map(|name| db.family(name).unwrap());
    let all = families.iter().flat_map(|family| db.iter_with(family, ReadOptions::default()).unwrap());
    let all = all.map(|entry| entry.unwrap()).filter(|(key, _)| key.first() != Some(&b'0'));
    all.map(|(key, value)| [&key[..], &value[..]].concat()).collect()
}

fn import(path: &Path, keyspace: &mut Keyspace) {
    Found::look(path, Damage::Refuse).unwrap().load(keyspace, true, NOW).unwrap();
}

/// Checks an image after a crash during an import: old, new or refused. A refused one accepts the next import, and abandoning the import
/// gives back the old contents, and nothing else. Returns whether it is refused.
fn check_import(image: &MemoryStore, path: &Path, before: &(State, Vec<Vec<u8>>), after: &State) -> (bool, bool) {
    match open(image.clone_image()) {
        Ok(keyspace) => {
            let state = everything(&keyspace);
            assert!(state == before.0 || state == *after, "neither the old keys nor the new ones: {} keys", state.len());
            (false, state == *after)
        }
        Err(Error::Unfinished) => {
            let to_read = Keyspace::open_to_read(Arc::new(image.clone_image()));
            assert!(matches!(to_read, Err(Error::Unfinished)), "{to_read:?}");
            let store = Arc::new(image.clone_image());
            let (keyspace, was_unfinished) = Keyspace::open_abandoning(store.clone(), &small_settings(), 42).unwrap();
            let mut keyspace = at_now(keyspace);
            assert!(was_unfinished && everything(&keyspace) == before.0 && raw(&keyspace) == before.1, "not what there was");
            // And that again on what is left.
            import(path, &mut keyspace);
            assert!(everything(&keyspace) == *after, "imported again");
            drop(keyspace);
            assert!(everything(&open(store.clone_image()).unwrap()) == *after, "imported again, and killed");
            (true, false)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_import_is_all_or_nothing() {
    let (_directory, path) = with("appendonly.aof", &file());
    for is_filled in [true, false] {
        let mut watched = Watched::new();
        if is_filled {
            fill(&mut watched.keyspace);
        }
        watched.keyspace.commit(&SYNCED).unwrap();
        watched.images.lock().clear();
        watched.keyspace.set_now(NOW);
        let before = (everything(&watched.keyspace), raw(&watched.keyspace));
        import(&path, &mut watched.keyspace);
        let after = everything(&watched.keyspace);
        assert_eq!((before.0.len(), after.len()), (if is_filled { 40 } else { 0 }, 61));
        assert!(watched.keyspace.size(5) == 1 && watched.keyspace.size(0) == 0);
        // Nothing of the old keys is left, and nothing of what the log has removed.
        assert!(raw(&watched.keyspace).len() < 61 + 1500 + 60 && watched.keyspace.deadlines(1) == 11);
        let images = watched.end();
        let seen: Vec<_> = images.iter().map(|image| check_import(image, &path, &before, &after)).collect();
        let refused = seen.iter().filter(|(is_refused, _)| *is_refused).count();
        assert!(refused > 20 && seen.last() == Some(&(false, true)), "{refused} of {} refused", seen.len());
    }
}

/// The keys that are there stay, and nothing is refused afterwards.
#[test]
fn an_import_that_fails_leaves_no_trace() {
    let commands = [&file()[..], &log(&["SELECT 0", "SET a 1", "LPUSH a x"])].concat();
    let (_directory, path) = with("appendonly.aof", &commands);
    let mut watched = Watched::new();
    fill(&mut watched.keyspace);
    let before = (everything(&watched.keyspace), raw(&watched.keyspace));
    for _ in 0..2 {
        let error = Found::look(&path, Damage::Refuse).unwrap().load(&mut watched.keyspace, true, NOW).unwrap_err();
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        assert!((everything(&watched.keyspace), raw(&watched.keyspace)) == before);
    }
    // Collections that are made now have ids of their own.
    let mut edit = watched.keyspace.edit(0, b"later", Kind::Set).unwrap();
    watched.keyspace.add_member(&mut edit, b"m").unwrap();
    watched.keyspace.finish(&edit);
    watched.keyspace.commit(&SYNCED).unwrap();
    let image = watched.end().pop().unwrap();
    assert_eq!(open(image).unwrap().size(0), 14);
}

/// A successor that is being filled, and the keyspace that is used meanwhile, do not see each other.
#[test]
fn the_old_keys_are_used_until_the_new_ones_are_whole() {
    let (_directory, path) = with("appendonly.aof", &file());
    let mut keyspace = crate::testing::fresh();
    fill(&mut keyspace);
    let mut next = keyspace.begin_successor().unwrap();
    assert!(matches!(keyspace.begin_successor(), Err(Error::Unfinished)), "one at a time");
    for n in 0..300u32 {
        let mut edit = next.edit(0, b"s", Kind::Set).unwrap();
        assert!(next.add_member(&mut edit, &n.to_le_bytes()).unwrap());
        next.finish(&edit);
        next.set_string(0, &n.to_le_bytes(), &[1; 100], Some(NOW + 1)).unwrap();
        next.commit(&WriteOptions::default()).unwrap();
        let mut edit = keyspace.edit(1, b"s", Kind::Set).unwrap();
        assert!(keyspace.add_member(&mut edit, &n.to_le_bytes()).unwrap());
        keyspace.finish(&edit);
        keyspace.commit(&WriteOptions::default()).unwrap();
    }
    keyspace.set_now(NOW + 2);
    assert_eq!((keyspace.remove_expired(1000).unwrap(), keyspace.size(1), next.size(0)), (0, 14, 301));
    keyspace.clear_all().unwrap();
    keyspace.set_string(0, b"late", b"1", None).unwrap();
    keyspace.commit(&WriteOptions::default()).unwrap();
    keyspace.watch(1, 0, b"late").unwrap();
    keyspace.watch(2, 0, b"s").unwrap();
    keyspace.watch(3, 0, b"none").unwrap();
    assert_eq!((keyspace.size(0), next.size(0)), (1, 301));
    let head = next.find_collection(0, b"s").unwrap().unwrap();
    assert_eq!(next.members(&head).unwrap().len(), 300);
    keyspace.adopt(next, None).unwrap();
    assert_eq!([1, 2, 3].map(|watcher| keyspace.was_disturbed(watcher)), [true, true, false]);
    let head = keyspace.find_collection(0, b"s").unwrap().unwrap();
    assert_eq!((keyspace.members(&head).unwrap().len(), keyspace.find(0, b"late").unwrap()), (300, None));
    assert_eq!((keyspace.remove_expired(1000).unwrap(), keyspace.size(0)), (300, 1));
    // And back to the first generation.
    import(&path, &mut keyspace);
    assert_eq!(everything(&keyspace).len(), 61);
}

/// One batch each: nothing has to be refused.
#[test]
fn flushes_and_swaps_are_all_or_nothing() {
    type Act = fn(&mut Keyspace);
    let acts: [(&str, Act); 4] = [
        ("FLUSHALL", |keyspace| keyspace.clear_all().unwrap()),
        ("FLUSHDB", |keyspace| keyspace.clear(1).unwrap()),
        ("SWAPDB", |keyspace| keyspace.swap(1, 7).unwrap()),
        ("FLUSHDB of the last", |keyspace| keyspace.clear_all().and_then(|()| keyspace.clear(2)).unwrap()),
    ];
    for (name, act) in acts {
        let mut watched = Watched::new();
        fill(&mut watched.keyspace);
        watched.images.lock().clear();
        let before = everything(&watched.keyspace);
        act(&mut watched.keyspace);
        watched.keyspace.commit(&WriteOptions::default()).unwrap();
        let after = everything(&watched.keyspace);
        // Compactions from here on drop removed elements.
        watched.keyspace.syncer().sync().unwrap();
        watched.keyspace.db().flush().unwrap();
        let images = watched.end();
        let states: Vec<_> = images.into_iter().map(|image| everything(&open(image).unwrap())).collect();
        assert!(states.iter().all(|state| *state == before || *state == after), "{name}");
        assert!(states.len() > 3 && states.last() == Some(&after) && before != after, "{name}: {} stages", states.len());
    }
}
