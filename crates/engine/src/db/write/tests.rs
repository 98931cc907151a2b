//! A sync of the log beside writers: work that goes on meanwhile, writes that it makes durable, and who hears of its failure.

#![expect(clippy::disallowed_methods, reason = "threads that outlive the scope of a test's function")]

use super::*;
use crate::settings::DbSettings;
use parking_lot::Mutex;
use sinter_storage::store::{Calls, CrashMode, EIO, Fault, FaultStore, FileId, MemoryStore, Operation, Store};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

const SYNC: WriteOptions = WriteOptions { durability: Durability::Sync };
const LONG: Duration = Duration::from_secs(20);

fn inline(store: Arc<dyn Store>) -> Db {
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    Db::builder().settings(settings).open_store(store).unwrap()
}

/// A database whose next syncs of files call `meanwhile` before the medium does anything.
fn staged(meanwhile: impl Fn(&Arc<Db>) + Send + Sync + 'static) -> (Arc<MemoryStore>, Arc<FaultStore>, Arc<Db>) {
    let memory = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultStore::new(memory.clone()));
    let db = Arc::new(inline(store.clone()));
    db.put(b"first", b"v").unwrap();
    db.sync().unwrap();
    let theirs = Arc::downgrade(&db);
    store.on_call(Some(Arc::new(move |_, operation| {
        if operation == Operation::Sync
            && let Some(db) = theirs.upgrade()
        {
            meanwhile(&db);
        }
    })));
    (memory, store, db)
}

/// The keys after the worst crash: nothing but what was synced is left.
fn keys(memory: &MemoryStore) -> Vec<Vec<u8>> {
    let db = inline(Arc::new(memory.crash_with(CrashMode::DropUnsynced)));
    db.iter().map(|entry| entry.unwrap().0.to_vec()).collect()
}

#[test]
fn writers_and_switches_go_on_during_a_sync() {
    let (memory, store, db) = staged(|db| {
        // Another thread, for the one that syncs would only wait for itself.
        std::thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                db.put(b"during", b"v").unwrap();
                db.inner.lead_in_turn(|state| db.inner.start_log(state, 0)).unwrap();
                db.put(b"during, behind it", b"v").unwrap();
                done.send(()).unwrap();
            });
            is_done.recv_timeout(LONG).expect("writers wait for a sync");
        });
    });
    db.put(b"before", b"v").unwrap();
    db.sync().unwrap();
    store.on_call(None);
    let durable = keys(&memory);
    assert!(durable.contains(&b"before".to_vec()) && durable.contains(&b"first".to_vec()), "{durable:?}");
    db.sync().unwrap();
    assert_eq!(keys(&memory).len(), 4);
}

#[test]
fn who_syncs_beside_a_failing_sync_hears_of_it() {
    let others: Arc<Mutex<Vec<JoinHandle<Result<()>>>>> = Arc::default();
    let theirs = others.clone();
    let (memory, store, db) = staged(move |db| {
        let mut others = theirs.lock();
        if others.is_empty() {
            let writer = db.clone();
            others.push(std::thread::spawn(move || writer.put_with(&writer.default_family(), b"synced", b"v", &SYNC)));
            // It has the lead, and waits for the turn to sync: otherwise it has failed, and the test finds that out.
            let end = std::time::Instant::now() + LONG;
            while !db.inner.queue.is_led() && std::time::Instant::now() < end {
                std::thread::yield_now();
            }
        }
    });
    // The failure is told once, as the kernel does.
    store.inject(Fault::once(Calls::Only(Operation::Sync), store.count(Operation::Sync), EIO));
    db.put(b"before", b"v").unwrap();
    assert!(db.sync().is_err());
    for other in others.lock().drain(..) {
        assert!(other.join().unwrap().is_err(), "acknowledged although a sync before it had failed");
    }
    assert!(db.put(b"after", b"v").is_err() && db.sync().is_err());
    store.on_call(None);
    assert!(keys(&memory).contains(&b"first".to_vec()));
}

/// The segment is retired, flushed and deleted while it is synced.
#[test]
fn a_segment_that_is_given_up_meanwhile_is_no_failure() {
    let (memory, store, db) = staged(|db| {
        if std::thread::current().name() == Some("syncs") {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    db.put(b"behind", b"v").unwrap();
                    db.flush().unwrap();
                });
            });
        }
    });
    let log = FileId::log(db.inner.logs.active());
    db.put(b"before", b"v").unwrap();
    let theirs = db.clone();
    std::thread::Builder::new().name("syncs".into()).spawn(move || theirs.sync()).unwrap().join().unwrap().unwrap();
    store.on_call(None);
    assert!(memory.list().unwrap().iter().all(|(id, _)| *id != log), "it is still there");
    assert_eq!(keys(&memory).len(), 3);
}

/// The manifest must not name a segment that it has given up: its loss would be taken for damage.
#[test]
fn a_segment_that_was_given_up_is_not_told_to_the_manifest() {
    let memory = Arc::new(MemoryStore::new());
    let db = inline(memory.clone());
    db.inner.lead_in_turn(|state| db.inner.start_log(state, 0)).unwrap();
    let number = db.inner.logs.active();
    db.put(b"key", b"v").unwrap();
    db.flush().unwrap();
    db.inner.activate(number, 0).unwrap();
    assert!(!db.inner.shared.lock().state.logs.contains(&number));
    assert_eq!(keys(&memory).len(), 1);
}

/// A handle that a failure has ended must not write once it is closed: another process may open the database.
#[test]
fn who_closes_an_ended_handle_waits_for_a_sync_which_writes_no_more() {
    let (closed, was_closed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let closers: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let theirs = (closed.clone(), was_closed.clone(), closers.clone());
    let (memory, store, db) = staged(move |db| {
        let (closed, was_closed, closers) = &theirs;
        let (db, done) = (db.clone(), closed.clone());
        closers.lock().push(std::thread::spawn(move || {
            db.inner.poison("job", Error::Closed("made up".into()));
            assert!(db.inner.shut_down().is_ok());
            done.store(true, Ordering::Release);
        }));
        // Time to be wrong in.
        (0..100).take_while(|_| !closed.load(Ordering::Acquire)).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
        was_closed.fetch_or(closed.load(Ordering::Acquire), Ordering::AcqRel);
    });
    db.put(b"before", b"v").unwrap();
    let files = memory.list().unwrap();
    db.sync().unwrap();
    store.on_call(None);
    closers.lock().drain(..).for_each(|closer| closer.join().unwrap());
    assert!(closed.load(Ordering::Acquire) && !was_closed.load(Ordering::Acquire), "closed while a sync was under way");
    assert_eq!(memory.list().unwrap(), files, "written behind the end");
    assert_eq!(keys(&memory).len(), 2);
}

#[test]
fn syncs_that_come_together_are_one() {
    let (memory, store, db) = staged(|_| {});
    db.put(b"before", b"v").unwrap();
    let syncs = store.count(Operation::Sync);
    let turn = db.inner.logs.turn.lock();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| db.sync().unwrap());
        }
        // Whoever is later than this finds nothing to sync.
        std::thread::sleep(Duration::from_millis(50));
        drop(turn);
    });
    assert_eq!(store.count(Operation::Sync) - syncs, 1);
    assert_eq!(keys(&memory).len(), 2);
}

/// Syncs and writes from all sides; acknowledged syncs survive a crash.
#[test]
fn what_a_sync_acknowledges_survives() {
    let memory = Arc::new(MemoryStore::new());
    let db = inline(memory.clone());
    let acknowledged = std::sync::atomic::AtomicU64::new(0);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut written = 0u64;
            while !ends.load(Ordering::Acquire) {
                written += 1;
                let options = if written.is_multiple_of(7) { SYNC } else { WriteOptions::default() };
                db.put_with(&db.default_family(), &written.to_be_bytes(), &[7; 100], &options).unwrap();
                acknowledged.store(written, Ordering::Release);
                if written.is_multiple_of(50) {
                    db.flush().unwrap();
                }
            }
        });
        for _ in 0..20 {
            let before = acknowledged.load(Ordering::Acquire);
            db.sync().unwrap();
            let found = keys(&memory).len() as u64;
            assert!(found >= before, "{found} of {before}");
        }
        ends.store(true, Ordering::Release);
    });
}
