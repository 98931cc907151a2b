//! The time to live as readers see it: expired entries are gone for them, whenever flushes and compactions come by.

use super::callbacks::watched;
use super::{Join, builder, inline, key, keys, new_store, small, try_open};
use sinter_storage::store::MemoryStore;
use sinterdb::clock::{Clock, ManualClock};
use sinterdb::operator::MergeOperator;
use sinterdb::settings::{FamilySettings, Style};
use sinterdb::{Db, Family, ReadOptions, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

const START: u64 = 1_700_000_000;
const HOUR: u64 = 3600;

fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(START);
    clock
}

fn living(seconds: u64) -> FamilySettings {
    FamilySettings { ttl_seconds: seconds, write_buffer_size: 4 << 20, ..small() }
}

/// [`Join`] that needs no base.
struct JoinMore;

impl MergeOperator for JoinMore {
    fn name(&self) -> &'static str {
        "join"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Join.full_merge(key, base, operands)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Join.full_merge(key, None, operands)
    }
}

fn open_in(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, settings: FamilySettings) -> Db {
    let builder = builder().settings(inline()).clock(clock.clone()).merge_operator("default", Arc::new(JoinMore));
    try_open(store, builder.family("default", settings)).unwrap()
}

fn at(snapshot: &Snapshot) -> ReadOptions {
    ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() }
}

/// Entries of all tables.
fn entries(db: &Db) -> u64 {
    db.version(&db.default_family()).unwrap().tables().map(|(_, _, table)| table.entries).sum()
}

#[test]
fn what_lay_in_a_memtable_for_a_month_has_expired() {
    for style in [Style::Leveled, Style::Universal] {
        let (store, clock) = (Arc::new(MemoryStore::new()), clock());
        let db = open_in(&store, &clock, FamilySettings { style, ..living(HOUR) });
        (0..3000).for_each(|n| db.put(&key(n), b"v").unwrap());
        assert_eq!(keys(&db).len(), 3000);
        clock.advance_seconds(30 * 86_400);
        assert_eq!((keys(&db).len(), db.get(&key(0)).unwrap()), (0, None), "{style:?}: in the memtable");
        let two = db.multi_get(&db.default_family(), &[&key(1), &key(2)], &ReadOptions::default()).unwrap();
        assert_eq!(two, [None, None]);
        db.flush().unwrap();
        assert_eq!(keys(&db).len(), 0, "{style:?}: on level 0");
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!((keys(&db).len(), entries(&db)), (0, 0), "{style:?}: nothing is left");
    }
}

/// No read comes between the long rest and the write after it.
#[test]
fn a_write_after_a_long_rest_makes_nothing_young() {
    let (store, clock) = (Arc::new(MemoryStore::new()), clock());
    let db = open_in(&store, &clock, living(HOUR));
    (0..100).for_each(|n| db.put(&key(n), b"v").unwrap());
    clock.advance_seconds(30 * 86_400);
    db.put(b"new", b"v").unwrap();
    assert_eq!(keys(&db), ["new"]);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!((keys(&db), entries(&db)), (vec!["new".into()], 1));
}

#[test]
fn an_expired_entry_hides_what_is_older() {
    for flushes in [false, true] {
        let (store, clock) = (Arc::new(MemoryStore::new()), clock());
        let db = open_in(&store, &clock, living(HOUR));
        let flush = || {
            if flushes {
                db.flush().unwrap();
            }
        };
        // By a time of its own, older than what it hides.
        db.put(b"timed", b"older").unwrap();
        db.merge(b"base", b"1").unwrap();
        flush();
        db.put_at(b"timed", b"newer", START - 2 * HOUR).unwrap();
        db.put_at(b"future", b"v", START + HOUR).unwrap();
        flush();
        assert_eq!(keys(&db), ["base", "future"]);
        // An operand lives for its own time, and so does what it stands on.
        clock.advance_seconds(HOUR / 2);
        db.merge(b"base", b"2").unwrap();
        flush();
        assert_eq!(db.get(b"base").unwrap().unwrap(), b"1,2");
        if flushes {
            db.compact_range(&db.default_family(), None, None).unwrap();
            assert_eq!(db.get(b"base").unwrap().unwrap(), b"1,2");
        }
        clock.advance_seconds(HOUR * 6 / 10);
        assert_eq!(db.get(b"base").unwrap().unwrap(), b"2", "flushes: {flushes}");
        assert_eq!(db.iter().next().unwrap().unwrap().1, b"2");
        assert_eq!(keys(&db), ["base", "future"]);
        clock.advance_seconds(HOUR / 2);
        assert_eq!(keys(&db), ["future"]);
        clock.advance_seconds(HOUR);
        assert_eq!(keys(&db).len(), 0);
        db.merge(b"base", b"3").unwrap();
        assert_eq!(db.get(b"base").unwrap().unwrap(), b"3");
    }
}

#[test]
fn a_snapshot_sees_what_had_not_expired_when_it_was_taken() {
    for style in [Style::Leveled, Style::Universal] {
        let (store, clock) = (Arc::new(MemoryStore::new()), clock());
        let db = open_in(&store, &clock, FamilySettings { style, ..living(HOUR) });
        let family = db.default_family();
        let seen = |snapshot: &Snapshot| db.iter_with(&family, at(snapshot)).unwrap().map(|e| e.unwrap().0).collect::<Vec<_>>();
        db.put(b"a", b"v").unwrap();
        let first = db.snapshot();
        clock.advance_seconds(HOUR / 2);
        db.put(b"b", b"v").unwrap();
        clock.advance_seconds(HOUR * 3 / 4);
        let second = db.snapshot();
        // Of the same number, later.
        clock.advance_seconds(HOUR);
        let third = db.snapshot();
        let check = |what: &str| {
            assert_eq!(seen(&first), [b"a"], "{style:?} {what}");
            assert_eq!(seen(&second), [b"b"], "{style:?} {what}");
            assert_eq!(seen(&third), [b""; 0], "{style:?} {what}");
            assert_eq!(keys(&db).len(), 0, "{style:?} {what}");
        };
        check("in the memtable");
        db.flush().unwrap();
        check("on level 0");
        db.compact_range(&family, None, None).unwrap();
        clock.advance_seconds(HOUR);
        db.put(b"c", b"v").unwrap();
        db.delete(b"c").unwrap();
        db.compact_range(&family, None, None).unwrap();
        check("compacted");
        db.change_family_settings(&family, FamilySettings { style, ..small() }).unwrap();
        let compact = || {
            db.put(b"c", b"v").unwrap();
            db.delete(b"c").unwrap();
            db.compact_range(&family, None, None).unwrap();
        };
        for _ in 0..2 {
            let all = (seen(&first), seen(&second), seen(&third));
            assert_eq!(all, (vec![b"a".to_vec()], vec![b"b".to_vec()], Vec::new()), "{style:?}: its settings do not change");
            compact();
        }
        db.change_family_settings(&family, FamilySettings { style, ..living(HOUR) }).unwrap();
        drop((first, second, third));
        db.compact_range(&family, None, None).unwrap();
        assert_eq!(entries(&db), 0, "{style:?}: released");
    }
}

#[test]
fn a_change_of_the_time_to_live_counts_at_once() {
    let (store, clock) = (Arc::new(MemoryStore::new()), clock());
    // Numbers are lost before anything has a time to live.
    let db = open_in(&store, &clock, small());
    let family = db.default_family();
    db.put(b"a", b"v").unwrap();
    db.compact_range(&family, None, None).unwrap();
    clock.advance_seconds(10);
    db.put(b"b", b"v").unwrap();
    db.change_family_settings(&family, living(HOUR)).unwrap();
    clock.advance_seconds(HOUR - 10);
    assert_eq!(keys(&db), ["a", "b"]);
    clock.advance_seconds(HOUR / 50 + 30);
    assert_eq!(keys(&db).len(), 0);
    db.change_family_settings(&family, living(3 * HOUR)).unwrap();
    assert_eq!(keys(&db), ["a", "b"], "what no compaction has removed is there again");
    db.change_family_settings(&family, small()).unwrap();
    clock.advance_seconds(100 * HOUR);
    assert_eq!(keys(&db), ["a", "b"]);
    db.change_family_settings(&family, living(HOUR)).unwrap();
    assert_eq!(keys(&db).len(), 0);
    db.compact_range(&family, None, None).unwrap();
    db.change_family_settings(&family, small()).unwrap();
    assert_eq!(keys(&db).len(), 0, "it has removed them");
}

#[test]
fn time_goes_on_while_a_database_is_closed() {
    for ends in ["close", "crash"] {
        let (store, clock) = (Arc::new(MemoryStore::new()), clock());
        let settings = living(HOUR);
        let db = open_in(&store, &clock, settings.clone());
        db.put(b"a", b"v").unwrap();
        clock.advance_seconds(60);
        // Takes a sample, and syncs it.
        db.put(b"b", b"v").unwrap();
        db.create_family("other", small()).unwrap();
        db.put(b"c", b"v").unwrap();
        db.sync().unwrap();
        let image = if ends == "crash" { Arc::new(store.crash_with(7)) } else { store.clone() };
        let copy = Arc::new(MemoryStore::new());
        db.checkpoint_to(&*copy).unwrap();
        db.close().unwrap();
        clock.advance_seconds(HOUR + 10);
        for of in [&image, &copy] {
            // A crash leaves no sample of the last write, which may then have been written at any time before the next open.
            let left = if ends == "crash" && Arc::ptr_eq(of, &image) { vec!["c".to_string()] } else { Vec::new() };
            let reader = try_open(of, builder().read_only().clock(clock.clone()).merge_operator("default", Arc::new(JoinMore))).unwrap();
            assert_eq!((keys(&reader), reader.get(b"a").unwrap()), (left.clone(), None), "{ends}: to read");
            let db = open_in(of, &clock, settings.clone());
            assert_eq!(keys(&db), left, "{ends}");
            db.compact_range(&db.default_family(), None, None).unwrap();
            assert_eq!(entries(&db), left.len() as u64, "{ends}");
        }
        clock.advance_seconds(HOUR + HOUR / 50);
        assert_eq!(keys(&open_in(&image, &clock, settings)).len(), 0, "{ends}");
    }
}

#[test]
fn a_read_only_handle_looks_at_the_clock() {
    let (store, clock) = (Arc::new(MemoryStore::new()), clock());
    let db = open_in(&store, &clock, living(HOUR));
    db.put(b"a", b"v").unwrap();
    drop(db);
    let reader = try_open(&store, builder().read_only().clock(clock.clone()).merge_operator("default", Arc::new(JoinMore))).unwrap();
    assert_eq!(keys(&reader), ["a"]);
    clock.advance_seconds(HOUR + HOUR / 50);
    assert_eq!(keys(&reader).len(), 0);
}

#[test]
fn threads_look_at_the_clock_for_readers() {
    let clock = clock();
    let settings = sinterdb::settings::DbSettings { max_background_jobs: 2, ..inline() };
    let db = try_open(&new_store(), builder().settings(settings).clock(clock.clone()).family("default", living(HOUR))).unwrap();
    db.put(b"a", b"v").unwrap();
    assert!(db.get(b"a").unwrap().is_some());
    // A thread takes a sample, and sees the entry expire.
    let (reader, time) = (db.clone(), clock.clone());
    let expires = move || {
        while reader.get(b"a").unwrap().is_some() {
            time.advance_seconds(HOUR / 20);
            std::thread::yield_now();
        }
    };
    watched(|| "the entry does not expire".into(), expires);
    assert_eq!(keys(&db).len(), 0);
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(entries(&db), 0);
}

/// An entry as the model knows it.
#[derive(Clone)]
enum Did {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
}

/// Per key what was written when, oldest first.
type History = BTreeMap<Vec<u8>, Vec<(u64, u64, Did)>>;

/// Entries alive for a reader whose clock shows `now`, of those written up to `seq`: each entry lives for its own time.
fn alive(history: &History, seq: u64, now: u64, ttl: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut alive = BTreeMap::new();
    for (key, writes) in history {
        let seen: Vec<_> = writes.iter().filter(|write| write.0 <= seq).collect();
        let mut parts: Vec<&[u8]> = Vec::new();
        for (_, time, did) in seen.into_iter().rev() {
            if ttl > 0 && time.saturating_add(ttl) < now {
                break;
            }
            match did {
                Did::Merge(operand) => parts.push(operand),
                Did::Put(value) => {
                    parts.push(value);
                    break;
                }
                Did::Delete => break,
            }
        }
        parts.reverse();
        if !parts.is_empty() {
            alive.insert(key.clone(), parts.join(&b','));
        }
    }
    alive
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The clock moves in steps that are longer than samples are apart, so that what the model says holds to the second.
const STEP: u64 = 100;
const TTL: u64 = 1000;

struct Model {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    db: Db,
    settings: FamilySettings,
    history: History,
    written: u64,
    snapshots: Vec<(Snapshot, u64, u64)>,
}

impl Model {
    fn new(random: &mut Random) -> Model {
        let (store, clock) = (Arc::new(MemoryStore::new()), clock());
        let style = [Style::Leveled, Style::Universal][random.below(2) as usize];
        let settings =
            FamilySettings { style, ttl_seconds: TTL, write_buffer_size: [4 << 10, 1 << 20][random.below(2) as usize], ..small() };
        let db = open_in(&store, &clock, settings.clone());
        Model { clock, store, db, settings, history: History::new(), written: 0, snapshots: Vec::new() }
    }

    fn note(&mut self, key: &[u8], time: u64, did: Did) {
        self.written += 1;
        assert_eq!(self.db.snapshot().seq(), self.written);
        self.history.entry(key.to_vec()).or_default().push((self.written, time, did));
    }

    fn step(&mut self, random: &mut Random) {
        let (key, now) = (key(random.below(12) as usize), self.clock.unix_seconds());
        let value = format!("{}{}", self.written, "x".repeat(random.below(200) as usize)).into_bytes();
        match random.below(100) {
            0..25 => {
                self.db.put(&key, &value).unwrap();
                self.note(&key, now, Did::Put(value));
            }
            25..50 => {
                self.db.merge(&key, &value).unwrap();
                self.note(&key, now, Did::Merge(value));
            }
            50..55 => {
                let time = now + STEP * random.below(15) - STEP * random.below(15);
                self.db.put_at(&key, &value, time).unwrap();
                self.note(&key, time, Did::Put(value));
            }
            55..60 => {
                self.db.delete(&key).unwrap();
                self.note(&key, now, Did::Delete);
            }
            60..75 => self.clock.advance_seconds(STEP * (1 + random.below(3))),
            75..80 => self.db.flush().unwrap(),
            80..84 => self.db.compact_range(&self.db.default_family(), None, None).unwrap(),
            84..88 => self.db.wait_for_compactions().unwrap(),
            88..93 => self.snapshots.push((self.db.snapshot(), self.written, now)),
            93..97 if !self.snapshots.is_empty() => drop(self.snapshots.swap_remove(random.below(self.snapshots.len() as u64) as usize)),
            97 => {
                self.snapshots.clear();
                self.db.clone().close().unwrap();
                self.clock.advance_seconds(STEP * random.below(4));
                self.db = open_in(&self.store, &self.clock, self.settings.clone());
            }
            _ => {}
        }
    }

    fn check(&self, what: &str) {
        let family = self.db.default_family();
        let now = alive(&self.history, self.written, self.clock.unix_seconds(), TTL);
        check(&self.db, &family, &ReadOptions::default(), &now, what);
        for (snapshot, seq, time) in &self.snapshots {
            let expected = alive(&self.history, *seq, *time, TTL);
            check(&self.db, &family, &at(snapshot), &expected, &format!("{what}, snapshot {seq} of {time}"));
        }
    }
}

fn check(db: &Db, family: &Family, options: &ReadOptions, expected: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    let mut iterator = db.iter_with(family, options.clone()).unwrap();
    iterator.seek_first().unwrap();
    for entry in expected {
        assert_eq!((iterator.key(), iterator.value()), (&entry.0[..], &entry.1[..]), "{what}");
        iterator.advance().unwrap();
    }
    assert!(!iterator.valid(), "{what}: {:?}", iterator.key().escape_ascii().to_string());
    iterator.seek_last().unwrap();
    for entry in expected.iter().rev() {
        assert_eq!((iterator.key(), iterator.value()), (&entry.0[..], &entry.1[..]), "{what}, backwards");
        iterator.retreat().unwrap();
    }
    assert!(!iterator.valid(), "{what}, backwards");
    let names: Vec<Vec<u8>> = (0..12).map(key).collect();
    let found = db.multi_get(family, &names.iter().map(Vec::as_slice).collect::<Vec<_>>(), options).unwrap();
    for (name, value) in names.iter().zip(found) {
        assert_eq!(value.as_ref(), expected.get(name), "{what}, many");
        assert_eq!(db.get_with(family, name, options).unwrap(), value, "{what}, one");
    }
}

/// `EXPIRY_ROUNDS` asks for more.
#[test]
fn readers_see_what_a_model_says_while_time_goes_by() {
    let rounds = std::env::var("EXPIRY_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        let mut random = Random(seed);
        let mut model = Model::new(&mut random);
        for step in 0..150 {
            model.step(&mut random);
            model.check(&format!("seed {seed}, step {step}"));
        }
    }
}
