//! Several writers with background threads: which schedule runs is not repeatable, but each writer owns its keys, so that it knows what it
//! must read at any moment, and what every snapshot that it took must show of them.

use super::operations::{key, range, value};
use super::variants::{changed, variants};
use super::{Append, Random, Text, shown};
use sinter_storage::store::{MemoryStore, Store};
use sinterdb::clock::ManualClock;
use sinterdb::internal::compaction::check_shape;
use sinterdb::operator::MergeOperator;
use sinterdb::{Builder, Db, Durability, Family, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const WRITERS: usize = 3;
/// Steps of all writers together between two disturbances.
const PAUSE: usize = 300;
const FAMILIES: [&str; 2] = ["default", "other"];

/// A writer's keys, per family.
type Maps = [Map; 2];

struct Writer<'a> {
    db: &'a Db,
    families: &'a [Family; 2],
    prefix: u8,
    random: Random,
    maps: Maps,
    moments: Vec<(Snapshot, Maps)>,
    /// Number of steps of all writers together.
    steps: &'a AtomicUsize,
}

fn builder() -> Builder {
    let builder = Db::builder().clock(Arc::new(ManualClock::default())).identity(*b"a crowd of model");
    FAMILIES.iter().fold(builder, |b, name| b.merge_operator(name, Arc::new(Append { partial: true })))
}

impl Writer<'_> {
    fn own(&self, key: &Text) -> Vec<u8> {
        [&[self.prefix], &**key].concat()
    }

    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..=self.random.index(4) {
            let at = self.random.index(2);
            let family = &self.families[at];
            let name = key(&mut self.random);
            let name = self.own(&name);
            let map = &mut self.maps[at];
            match self.random.below(16) {
                0..=8 => {
                    let value = value(&mut self.random);
                    batch.put_in(family, &name, &value);
                    map.insert(name, value.0);
                }
                9..=11 => {
                    batch.delete_in(family, &name);
                    map.remove(&name);
                }
                12 => {
                    let (from, to) = range(&mut self.random);
                    let (from, to) = ([&[self.prefix], &**(&from).min(&to)].concat(), [&[self.prefix], &**(&from).max(&to)].concat());
                    batch.delete_range_in(family, &from, &to);
                    map.retain(|k, _| !(from <= *k && *k < to));
                }
                _ => {
                    let operand = self.random.next().to_le_bytes();
                    batch.merge_in(family, &name, &operand);
                    let new = Append { partial: true }.full_merge(&name, map.get(&name).map(Vec::as_slice), &[&operand]).unwrap();
                    map.insert(name, new);
                }
            }
        }
        let durability = [Durability::Sync, Durability::NoWal, Durability::Buffered, Durability::Buffered][self.random.index(4)];
        self.db.write(&mut batch, &WriteOptions::new(durability)).unwrap();
    }

    fn get(&mut self) {
        let at = self.random.index(2);
        let name = key(&mut self.random);
        let name = self.own(&name);
        let found = self.db.get_with(&self.families[at], &name, &ReadOptions::default()).unwrap();
        assert_eq!(found.as_ref(), self.maps[at].get(&name), "get {}", shown(&name));
    }

    fn moment(&mut self) {
        if self.moments.len() == 4 {
            let (snapshot, maps) = self.moments.swap_remove(self.random.index(4));
            compare(self.db, self.families, self.prefix, &maps, Some(snapshot));
        }
        self.moments.push((self.db.snapshot(), self.maps.clone()));
    }

    fn run(mut self, steps: usize) -> Maps {
        for _ in 0..steps {
            self.steps.fetch_add(1, Ordering::Relaxed);
            match self.random.below(64) {
                0 => self.moment(),
                1 => compare(self.db, self.families, self.prefix, &self.maps, None),
                2..=30 => self.get(),
                _ => self.write(),
            }
        }
        for (snapshot, maps) in std::mem::take(&mut self.moments) {
            compare(self.db, self.families, self.prefix, &maps, Some(snapshot));
        }
        self.maps
    }
}

/// Compares all keys of a writer, in both directions.
fn compare(db: &Db, families: &[Family; 2], prefix: u8, maps: &Maps, snapshot: Option<Snapshot>) {
    for (family, map) in families.iter().zip(maps) {
        let options = ReadOptions { snapshot: snapshot.clone(), prefix: Some(vec![prefix]), ..ReadOptions::default() };
        let found: Map = db.iter_with(family, options.clone()).unwrap().map(Result::unwrap).collect();
        assert!(found == *map, "writer {prefix}: {} entries instead of {}, or others", found.len(), map.len());
        let mut iterator = db.iter_with(family, options).unwrap();
        iterator.seek_last().unwrap();
        for (key, value) in map.iter().rev() {
            assert!(iterator.key() == key && iterator.value() == value, "backward: {} instead of {}", shown(iterator.key()), shown(key));
            iterator.retreat().unwrap();
        }
        assert!(!iterator.valid());
    }
}

/// Disturbances by administrators meanwhile.
fn disturb(db: &Db, families: &[Family; 2], random: &mut Random) {
    let family = &families[random.index(2)];
    match random.below(8) {
        0 | 1 => db.flush().unwrap(),
        2 => {
            let (from, to) = (vec![random.below(4) as u8], vec![random.below(4) as u8]);
            db.compact_range(family, Some(&from), Some(&to)).unwrap();
        }
        3 => db.compact_range(family, None, None).unwrap(),
        4 | 5 => {
            let settings = db.family_settings(family).unwrap();
            db.change_family_settings(family, changed(&settings, random.next())).unwrap();
        }
        6 => {
            let target = Arc::new(MemoryStore::new());
            db.checkpoint_to(&*target).unwrap();
            let copy = builder().open_store(target).unwrap();
            assert!(copy.verify().unwrap().is_empty());
        }
        _ => {
            let passing = db.create_family("passing", db.family_settings(family).unwrap()).unwrap();
            db.put_with(&passing, b"k", b"v", &WriteOptions::default()).unwrap();
            db.drop_family(&passing).unwrap();
        }
    }
}

fn families(db: &Db) -> [Family; 2] {
    FAMILIES.map(|name| db.family(name).unwrap())
}

/// `steps` of each writer.
pub fn run(seed: u64, steps: usize) {
    let mut variant = variants().into_iter().find(|v| v.name == "background threads").unwrap();
    variant.family.write_buffer_size = 32 << 10;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let configured = FAMILIES.iter().fold(builder(), |b, name| b.family(name, variant.family.clone()));
    let db = configured.settings(variant.db).open_store(store.clone()).unwrap();
    let handles = families(&db);
    let (running, done) = (AtomicUsize::new(WRITERS), AtomicUsize::new(0));
    let mut all: Vec<Maps> = Vec::new();
    std::thread::scope(|scope| {
        let (db, handles, running, done) = (&db, &handles, &running, &done);
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                scope.spawn(move || {
                    let random = Random(seed * 100 + n as u64);
                    let (maps, moments) = (Maps::default(), Vec::new());
                    let writer = Writer { db, families: handles, prefix: n as u8, random, maps, moments, steps: done };
                    let _left = Leave(running);
                    writer.run(steps)
                })
            })
            .collect();
        scope.spawn(move || {
            let mut random = Random(seed);
            let mut next = 0;
            while running.load(Ordering::Acquire) > 0 {
                if done.load(Ordering::Relaxed) < next {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                next += PAUSE;
                disturb(db, handles, &mut random);
            }
        });
        all = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    });
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    db.check_ledger().unwrap();
    assert!(db.verify().unwrap().is_empty());
    handles.iter().for_each(|family| check_shape(&db.version(family).unwrap()).unwrap());
    all.iter().enumerate().for_each(|(n, maps)| compare(&db, &handles, n as u8, maps, None));
    db.close().unwrap();
    let db = builder().open_store(store).unwrap();
    all.iter().enumerate().for_each(|(n, maps)| compare(&db, &families(&db), n as u8, maps, None));
}

/// Counts a writer out, also when it panics: the others must end.
struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
