//! Callbacks call methods of the database that waits for them: each works or gives an error at once, and the handle goes on.

#![expect(clippy::disallowed_methods, reason = "a thread that may hang outlives its test")]

use crate::*;
use parking_lot::Mutex;
use sinterdb::WriteBatch;
use sinterdb::clock::Clock;
use sinterdb::operator::{CompactionFilter, Decision};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Seconds after which a call counts as hung: long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// User code that calls the database.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Caller {
    Filter,
    Operator,
    Clock,
}

/// The promise of a method to callbacks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Class {
    /// Refused in all of them.
    Waits,
    /// Refused in a clock.
    Reads,
    /// Tells nothing in a clock.
    Figures,
    /// Works in all of them.
    Free,
}

/// A database and a family of it that holds data.
struct World {
    db: Db,
    other: Family,
}

/// True if it did or told something.
type Method = fn(&World) -> Result<bool, Error>;

const METHODS: &[(&str, Class, Method)] = &[
    ("put", Class::Waits, |w| w.db.put(b"x", b"x").map(|()| true)),
    ("put_with", Class::Waits, |w| w.db.put_with(&w.other, b"x", b"x", &SYNC).map(|()| true)),
    ("put_at", Class::Waits, |w| w.db.put_at(b"x", b"x", 1).map(|()| true)),
    ("delete", Class::Waits, |w| w.db.delete(b"x").map(|()| true)),
    ("merge", Class::Waits, |w| w.db.merge(b"x", b"x").map(|()| true)),
    ("delete_range", Class::Waits, |w| w.db.delete_range(b"x", b"y").map(|()| true)),
    ("write", Class::Waits, |w| {
        let mut batch = WriteBatch::new();
        batch.put(b"x", b"x");
        w.db.write(&mut batch, &NO_WAL).map(|()| true)
    }),
    ("write of nothing", Class::Waits, |w| w.db.write(&mut WriteBatch::new(), &SYNC).map(|()| true)),
    ("sync", Class::Waits, |w| w.db.sync().map(|()| true)),
    ("flush", Class::Waits, |w| w.db.flush().map(|()| true)),
    ("wait_for_compactions", Class::Waits, |w| w.db.wait_for_compactions().map(|()| true)),
    ("compact_range", Class::Waits, |w| w.db.compact_range(&w.other, None, None).map(|()| true)),
    ("checkpoint_to", Class::Waits, |w| w.db.checkpoint_to(&MemoryStore::new()).map(|()| true)),
    ("checkpoint", Class::Waits, |w| {
        let path = std::env::temp_dir().join(format!("sinterdb-refused-{}", std::process::id()));
        let done = w.db.checkpoint(&path).map(|()| true);
        assert!(!path.exists(), "what is refused makes no directory");
        done
    }),
    ("create_family", Class::Waits, |w| w.db.create_family("new", small()).map(|_| true)),
    ("create_families", Class::Waits, |w| w.db.create_families(&[("new", small())]).map(|_| true)),
    ("change_family_settings", Class::Waits, |w| w.db.change_family_settings(&w.other, small()).map(|()| true)),
    ("change_memory_budget", Class::Waits, |w| w.db.change_memory_budget(64 << 20).map(|()| true)),
    ("change_cache_size", Class::Waits, |w| w.db.change_cache_size(8 << 20).map(|()| true)),
    ("drop_family", Class::Waits, |w| w.db.drop_family(&w.other).map(|()| true)),
    ("close", Class::Waits, |w| w.db.clone().close().map(|()| true)),
    ("get", Class::Reads, |w| Ok(w.db.get_with(&w.other, &key(0), &ReadOptions::default())?.is_some())),
    ("get at a snapshot", Class::Reads, |w| {
        let options = ReadOptions { snapshot: Some(w.db.snapshot()), ..ReadOptions::default() };
        Ok(w.db.get_with(&w.other, &key(0), &options)?.is_some())
    }),
    ("multi_get", Class::Reads, |w| {
        let found = w.db.multi_get(&w.other, &[&key(0), b"none"], &ReadOptions::default())?;
        Ok(found[0].is_some() && found[1].is_none())
    }),
    ("iter_with", Class::Reads, |w| {
        let mut iterator = w.db.iter_with(&w.other, ReadOptions { upper: Some(key(9)), ..ReadOptions::default() })?;
        iterator.seek_last()?;
        iterator.retreat()?;
        Ok(iterator.valid())
    }),
    ("iter", Class::Reads, |w| w.db.iter().next().transpose().map(|_| true)),
    ("family_settings", Class::Reads, |w| w.db.family_settings(&w.other).map(|_| true)),
    ("version", Class::Reads, |w| w.db.version(&w.other).map(|_| true)),
    ("verify", Class::Reads, |w| w.db.verify().map(|damage| damage.is_empty())),
    ("tier_of", Class::Reads, |w| match w.db.tier_of(1 << 40) {
        Err(Error::Invalid(why)) if why.contains("there is no table") => Ok(true),
        other => other.map(|_| false),
    }),
    ("families", Class::Figures, |w| Ok(w.db.families().len() == 2)),
    ("family", Class::Figures, |w| Ok(w.db.family("other").is_some())),
    ("stats", Class::Figures, |w| Ok(!w.db.stats().tickers.is_empty())),
    ("memory_used", Class::Free, |w| Ok(w.db.memory_used().0 < 1 << 40)),
    ("property", Class::Figures, |w| Ok(w.db.property(&w.other, "sinterdb.memory-split").is_some())),
    ("tiers", Class::Figures, |w| Ok(!w.db.tiers().is_empty())),
    ("damaged_tables", Class::Free, |w| Ok(w.db.damaged_tables().is_empty())),
    ("would_wait", Class::Free, |w| Ok(!w.db.would_wait(&w.other, 0))),
    ("check_ledger", Class::Free, |w| {
        let _ = w.db.check_ledger();
        Ok(true)
    }),
    ("expect", Class::Free, |w| {
        w.db.expect(&w.other, &[&key(0)]);
        Ok(true)
    }),
    ("snapshot", Class::Free, |w| Ok(w.db.snapshot().seq() > 0)),
    ("settings", Class::Free, |w| Ok(w.db.settings().max_background_jobs < 100)),
    ("recovery", Class::Free, |w| Ok(w.db.recovery().cut_bytes == 0)),
    ("statistics", Class::Free, |w| Ok(w.db.statistics().tickers().count() > 0)),
    ("memory_room", Class::Free, |w| Ok(w.db.memory_room() != Some(0))),
    ("memory_note", Class::Free, |w| Ok(w.db.memory_note().is_none_or(|note| !note.is_empty()))),
];

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Filter, operator and clock in one: whichever is armed calls every method.
#[derive(Default)]
struct Probe {
    armed: Mutex<Option<Caller>>,
    world: Mutex<Option<Arc<World>>>,
    /// Number of times that all methods were called.
    rounds: AtomicU64,
    /// The method that is called now, or was last.
    last: Mutex<&'static str>,
    complaints: Mutex<Vec<String>>,
    ns: AtomicU64,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl Probe {
    fn call(&self, from: Caller) {
        if *self.armed.lock() != Some(from) || INSIDE.replace(true) {
            return;
        }
        let world = self.world.lock().clone();
        // Reads of a filter may be many.
        if let Some(world) = world.filter(|_| from == Caller::Clock || self.rounds.load(Ordering::Relaxed) < 3) {
            for (name, class, method) in METHODS {
                *self.last.lock() = name;
                let outcome = method(&world);
                let fits = match (class, from, &outcome) {
                    (Class::Waits, _, Err(Error::Invalid(why))) | (Class::Reads, Caller::Clock, Err(Error::Invalid(why))) => {
                        why.contains("for which the database waits")
                    }
                    (Class::Figures, Caller::Clock, Ok(told)) => !told,
                    (Class::Reads | Class::Figures, Caller::Filter | Caller::Operator, Ok(told)) | (Class::Free, _, Ok(told)) => *told,
                    _ => false,
                };
                if !fits {
                    self.complaints.lock().push(format!("{name} in {from:?}: {outcome:?}"));
                }
            }
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
        INSIDE.set(false);
    }
}

impl MergeOperator for Probe {
    fn name(&self) -> &'static str {
        self.call(Caller::Operator);
        "probe"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.call(Caller::Operator);
        Join.full_merge(key, base, operands)
    }

    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.call(Caller::Operator);
        None
    }
}

impl CompactionFilter for Probe {
    fn filter(&self, _level: u8, _key: &[u8], _value: &[u8]) -> Decision {
        self.call(Caller::Filter);
        Decision::Keep
    }
}

impl Clock for Probe {
    fn monotonic_ns(&self) -> u64 {
        self.call(Caller::Clock);
        self.ns.fetch_add(1000, Ordering::Relaxed)
    }

    fn unix_seconds(&self) -> u64 {
        self.call(Caller::Clock);
        1_000_000
    }
}

/// Runs `work` beside; one that does not end fails.
pub(super) fn watched(what: impl Fn() -> String, work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: {}", what()),
        _ => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn settings(threads: usize) -> DbSettings {
    DbSettings { max_background_jobs: threads, ..DbSettings::default() }
}

/// A way in which the engine comes to call code of the user.
type Way = fn(&World);

const WAYS: &[(&str, &[Caller], Way)] = &[
    ("flush", &[Caller::Operator, Caller::Clock], |w| {
        w.db.put(b"a", b"1").unwrap();
        w.db.merge(b"a", b"2").unwrap();
        w.db.flush().unwrap();
    }),
    ("full memtable", &[Caller::Filter, Caller::Clock], |w| {
        (0..800).for_each(|n| w.db.put(&key(n % 50), &noise(n, 200)).unwrap());
        w.db.wait_for_compactions().unwrap();
    }),
    ("compaction by hand", &[Caller::Filter, Caller::Operator, Caller::Clock], |w| {
        w.db.merge(b"b", b"2").unwrap();
        w.db.flush().unwrap();
        w.db.merge(b"b", b"3").unwrap();
        w.db.compact_range(&w.db.default_family(), None, None).unwrap();
    }),
    ("get", &[Caller::Operator], |w| {
        w.db.merge(b"c", b"1").unwrap();
        w.db.get(b"c").unwrap().unwrap();
    }),
    ("iterator", &[Caller::Operator], |w| {
        w.db.merge(b"c", b"1").unwrap();
        assert!(w.db.iter().count() > 0);
        let mut iterator = w.db.iter();
        iterator.seek_last().unwrap();
        while iterator.valid() {
            iterator.retreat().unwrap();
        }
    }),
    ("family", &[Caller::Operator, Caller::Clock], |w| {
        let family = w.db.create_family_with("brief", small(), Some(Arc::new(Forward(w.db.clone()))), None).unwrap();
        w.db.merge_with(&family, b"a", b"1", &WriteOptions::default()).unwrap();
        w.db.change_family_settings(&family, FamilySettings { ttl_seconds: 5000, ..small() }).unwrap();
        w.db.drop_family(&family).unwrap();
    }),
    ("sync", &[Caller::Clock], |w| {
        w.db.put_with(&w.other, b"a", b"1", &SYNC).unwrap();
        w.db.sync().unwrap();
        w.db.change_memory_budget(64 << 20).unwrap();
        w.db.checkpoint_to(&MemoryStore::new()).unwrap();
    }),
];

/// An operator that reads from the database that asks for its name.
struct Forward(Db);

impl MergeOperator for Forward {
    fn name(&self) -> &'static str {
        assert!(self.0.families().len() >= 2 && self.0.put(b"x", b"x").is_err());
        "forward"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Join.full_merge(key, base, operands)
    }
}

#[test]
fn callbacks_may_call_every_method_and_wait_for_none() {
    for threads in [0, 1, 4] {
        for (way, callers, work) in WAYS {
            for caller in *callers {
                let probe = Arc::new(Probe::default());
                let spy = Arc::clone(&probe);
                let what = move || format!("{} in {caller:?} in {way}, {threads} threads", spy.last.lock());
                watched(what, move || matrix(threads, way, *caller, *work, &probe));
            }
        }
    }
}

fn matrix(threads: usize, way: &str, caller: Caller, work: Way, probe: &Arc<Probe>) {
    let store = memory();
    let builder = Db::builder().settings(settings(threads)).clock(probe.clone()).family("default", small()).family("other", small());
    let builder = builder.merge_operator("default", probe.clone()).compaction_filter("default", probe.clone());
    let db = try_open(&store, builder).unwrap();
    let other = db.family("other").unwrap();
    (0..20).for_each(|n| db.put_with(&other, &key(n), b"there", &WriteOptions::default()).unwrap());
    let world = Arc::new(World { db, other });
    *probe.world.lock() = Some(world.clone());
    *probe.armed.lock() = Some(caller);
    work(&world);
    *probe.armed.lock() = None;
    *probe.world.lock() = None;
    let is_asked = way != "family" || caller != Caller::Operator;
    assert!(!is_asked || probe.rounds.load(Ordering::Relaxed) > 0, "{caller:?} in {way}, {threads} threads: never called");
    assert_eq!(*probe.complaints.lock(), Vec::<String>::new(), "{caller:?} in {way}, {threads} threads");
    // The handle has not ended.
    let World { db, other } = &*world;
    db.put_with(other, b"after", b"1", &SYNC).unwrap();
    db.compact_range(other, None, None).unwrap();
    assert_eq!(all(db, other).len(), 20 + 1 + usize::from(way == "sync"));
    db.clone().close().unwrap();
}

/// Keeps what it removes in another database.
struct Archive(Db);

impl CompactionFilter for Archive {
    fn filter(&self, _level: u8, key: &[u8], value: &[u8]) -> Decision {
        self.0.put(key, value).unwrap();
        self.0.flush().unwrap();
        Decision::Remove
    }
}

#[test]
fn a_callback_may_write_to_another_database() {
    for threads in [0, 4] {
        let work = move || {
            let archive = try_open(&memory(), builder().settings(settings(threads))).unwrap();
            let filter = Arc::new(Archive(archive.clone()));
            let db = try_open(&memory(), builder().settings(settings(threads)).compaction_filter("default", filter)).unwrap();
            fill(&db, 5, 10);
            db.compact_range(&db.default_family(), None, None).unwrap();
            assert_eq!((keys(&db).len(), keys(&archive).len()), (0, 5));
        };
        watched(move || format!("{threads} threads"), work);
    }
}

/// Holds the last handle of its database and lets it go when it is called and told to.
struct Last {
    db: Mutex<Option<Db>>,
    called: mpsc::Sender<()>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl MergeOperator for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let db = self.db.lock().take();
        if let Some(db) = db {
            self.called.send(()).unwrap();
            self.go.lock().recv().unwrap();
            // Refused, and then it goes.
            assert!(db.close().is_err());
        }
        Join.full_merge(key, base, operands)
    }
}

/// The last handle goes in a job, and beside an iterator, which reads on.
#[test]
fn a_last_handle_that_goes_within_a_callback_closes_the_database_beside() {
    for (threads, reads) in [(0, true), (1, true), (4, true), (1, false), (4, false)] {
        watched(move || format!("{threads} threads, reads: {reads}"), move || close_within(threads, reads));
    }
}

fn close_within(threads: usize, reads: bool) {
    let ((called, is_called), (go, may_go)) = (mpsc::channel(), mpsc::channel());
    let last = Arc::new(Last { db: Mutex::default(), called, go: Mutex::new(may_go) });
    let store = memory();
    let open =
        || try_open(&store, builder().settings(settings(threads)).family("default", small()).merge_operator("default", last.clone()));
    let db = open().unwrap();
    db.put(b"a", b"0").unwrap();
    db.merge(b"a", b"1").unwrap();
    db.merge_with(&db.default_family(), b"a", b"2", &NO_WAL).unwrap();
    let mut iterator = db.iter();
    *last.db.lock() = Some(db.clone());
    if !reads {
        // Until a memtable is full, whose flush waits for the operator.
        let is_full = || db.property(&db.default_family(), "rocksdb.mem-table-flush-pending").unwrap() == "1";
        (0..).take_while(|_| !is_full()).for_each(|n| db.put(&key(n), &noise(n, 100)).unwrap());
        is_called.recv().unwrap();
    }
    drop(db);
    go.send(()).unwrap();
    if reads {
        assert_eq!(iterator.next().unwrap().unwrap().1, b"0,1,2");
    }
    let again = loop {
        match open() {
            Err(Error::Busy(_)) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(again.get(b"a").unwrap().unwrap(), b"0,1,2");
    again.close().unwrap();
}
