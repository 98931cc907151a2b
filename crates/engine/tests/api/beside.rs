//! Opening to read, and verifying, beside a writer that makes and deletes files as fast as it can, in a directory.
//!
//! `MOMENT_ROUNDS` says how often each size of memtables is opened.

use super::moments::{Stop, configured, families, read, rounds, write};
use super::*;
use sinter_storage::store::DirStore;
use sinterdb::internal::db::verify_files;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Opens while others write; how often somebody was told that the database is busy.
fn run(memtable: u64, rounds: usize) -> usize {
    // In memory where that can be had: syncs cost nothing there, and files come and go faster.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let settings = DbSettings { max_background_jobs: 2, ..DbSettings::default() };
    let db = configured(memtable).settings(settings).open(home.path()).unwrap();
    // Large memtables are flushed seldom whatever the pace, and every look replays the log.
    let pause = || {
        if memtable > 1 << 20 {
            std::thread::sleep(Duration::from_micros(200))
        }
    };
    let (stops, done, puts) = (AtomicBool::new(false), AtomicU64::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (db, stops, done, puts) = (&db, &stops, &done, &puts);
        let pause = &pause;
        // Both are logged: what is not is in the tables of some families alone.
        for writer in [1, 2] {
            scope.spawn(move || {
                let families = families(db);
                for n in (1..).take_while(|_| !stops.load(Ordering::Acquire)) {
                    write(db, &families, writer, n);
                    pause();
                    if writer == 2 {
                        done.store(n, Ordering::SeqCst);
                    }
                }
            });
        }
        // Many tables, and none of them for long.
        scope.spawn(move || {
            for n in (1..).take_while(|_| !stops.load(Ordering::Acquire)) {
                let mut key = noise(n, 3);
                key.insert(0, 9);
                db.put(&key, &noise(n, 2000)).unwrap();
                puts.store(n, Ordering::SeqCst);
                pause();
            }
        });
        let stop = Stop(stops);
        let busy = (0..rounds).filter(|round| {
            while puts.load(Ordering::SeqCst) < 400 + 20 * round {
                std::thread::yield_now();
            }
            look(home.path(), memtable, *round, done)
        });
        let busy = busy.count();
        drop(stop);
        busy
    })
}

/// Looks at the database once; returns whether it was busy.
fn look(path: &Path, memtable: u64, round: usize, done: &AtomicU64) -> bool {
    if round % 4 == 3 {
        return match verify_files(&(Arc::new(DirStore::open(path, false).unwrap()) as Arc<dyn Store>)) {
            Ok(damages) => {
                assert!(damages.is_empty(), "memtables of {memtable}: {damages:?}");
                false
            }
            Err(Error::Busy(_)) => true,
            Err(error) => panic!("memtables of {memtable}: {error}"),
        };
    }
    let before = done.load(Ordering::SeqCst);
    let seen = match configured(memtable).read_only().open(path) {
        Ok(seen) => seen,
        Err(Error::Busy(_)) => return true,
        Err(error) => panic!("memtables of {memtable}: {error}"),
    };
    let batches = read(&seen, None, "beside a writer");
    assert!(before <= batches[2], "batch {before} was acknowledged before, and {batches:?} are there");
    let damages = seen.verify().unwrap();
    assert!(damages.is_empty(), "memtables of {memtable}: {damages:?}");
    assert_eq!(read(&seen, None, "later"), batches);
    false
}

#[test]
fn who_opens_beside_a_writer_sees_a_whole_database_or_hears_that_it_is_busy() {
    let busy = [16 << 10, 64 << 10, 64 << 20].map(|memtable| run(memtable, rounds()));
    println!("busy: {busy:?}");
    assert_eq!(busy[2], 0, "with memtables of 64 MiB");
}
