//! Faults at chosen calls, the meter's sums, the time of a slow medium.

use sinter_storage::store::{
    Calls, Cause, CrashMode, DirStore, EIO, ENOSPC, Fault, FaultStore, FileId, Hint, Medium, MemoryStore, Meter, Operation, Reason, Result,
    Store, Throttle,
};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

fn hint() -> Hint {
    Hint::new(Cause::Flush)
}

/// Every counted call at least once; stops at the first error.
fn workload(store: &dyn Store) -> Result<()> {
    for number in 1..=3 {
        let id = FileId::table(number);
        let mut file = store.create(id, &hint())?;
        file.append(b"first piece")?;
        file.append(b"second piece")?;
        file.sync()?;
        file.append(b"third piece")?;
        file.seal()?;
        store.sync_names()?;
        let reader = store.open(id)?;
        reader.read_at(3, &mut [0; 5])?;
    }
    store.create(FileId::log(4), &hint())?.close()?;
    store.list()?;
    store.share(FileId::table(2), &MemoryStore::new(), &hint())?;
    store.delete(FileId::table(1))?;
    store.sync_names()
}

#[test]
fn calls_are_counted_by_kind() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    workload(&store).unwrap();
    let counts = Operation::ALL.map(|operation| store.count(operation));
    assert_eq!(counts, [4, 9, 3, 3, 1, 1, 4, 1, 3, 3, 1]);
    assert_eq!((store.mutating_calls(), store.reading_calls()), (26, 7));
}

#[test]
fn the_nth_call_fails_and_only_that_one() {
    for (calls, total) in
        [(Calls::Mutating, 26), (Calls::Reading, 7), (Calls::Only(Operation::Append), 9), (Calls::Only(Operation::List), 1)]
    {
        for at in 0..total {
            let store = FaultStore::new(Arc::new(MemoryStore::new()));
            store.inject(Fault::once(calls, at, EIO));
            let error = workload(&store).unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(EIO), "{calls:?} {at}: {error}");
            for (id, _) in store.list().unwrap() {
                store.delete(id).unwrap();
            }
            workload(&store).unwrap();
        }
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        store.inject(Fault::once(calls, total, EIO));
        workload(&store).unwrap();
    }
}

#[test]
fn a_sticky_fault_stays_until_cleared() {
    let memory = Arc::new(MemoryStore::new());
    let store = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
    store.inject(Fault::from(Calls::Mutating, 1, ENOSPC));
    let mut file = store.create(FileId::log(1), &hint()).unwrap();
    assert!(file.append(b"x").unwrap_err().is_no_space());
    for id in 2..5 {
        assert!(store.create(FileId::log(id), &hint()).err().unwrap().is_no_space());
    }
    assert_eq!(store.list().unwrap(), [(FileId::log(1), 0)], "reading goes on, and what failed did not happen");
    store.clear();
    assert!(file.append(b"x").is_err(), "a dead appender stays dead");
    store.create(FileId::log(2), &hint()).unwrap().append(b"x").unwrap();
}

#[test]
fn an_append_can_be_torn() {
    for (torn, left) in [(0, &b"whole"[..]), (2, b"wholeto"), (4, b"wholetorn"), (99, b"wholetorn")] {
        let memory = Arc::new(MemoryStore::new());
        let store = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
        store.inject(Fault::once(Calls::Only(Operation::Append), 1, EIO).torn(torn));
        let mut file = store.create(FileId::log(1), &hint()).unwrap();
        file.append(b"whole").unwrap();
        let calls = store.mutating_calls();
        assert_eq!(file.append(b"torn").unwrap_err().source.raw_os_error(), Some(EIO));
        assert!(file.append(b"more").is_err());
        assert_eq!(store.mutating_calls(), calls + 1, "a refused append is no call");
        file.sync().unwrap();
        assert!(file.seal().is_err());
        assert_eq!(memory.bytes(FileId::log(1)).unwrap(), left);
    }
}

#[test]
fn after_a_failed_sync_the_bytes_are_not_durable() {
    for operation in [Operation::Sync, Operation::Seal] {
        let memory = Arc::new(MemoryStore::new());
        let store = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
        store.inject(Fault::once(Calls::Only(operation), 0, EIO));
        let mut file = store.create(FileId::log(1), &hint()).unwrap();
        store.sync_names().unwrap();
        file.append(b"x").unwrap();
        if operation == Operation::Sync {
            file.sync().unwrap_err();
            file.sync().unwrap_err();
        }
        file.seal().unwrap_err();
        assert_eq!(memory.crash_with(CrashMode::DropUnsynced).bytes(FileId::log(1)).unwrap(), b"");
        assert_eq!(memory.bytes(FileId::log(1)).unwrap(), b"x");
    }
}

#[test]
fn the_hook_sees_the_store_before_each_mutating_call() {
    let memory = Arc::new(MemoryStore::new());
    let store = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (below, log) = (Arc::clone(&memory), Arc::clone(&seen));
    store.on_call(Some(Arc::new(move |index, operation| {
        let durable = below.crash_with(CrashMode::DropUnsynced);
        log.lock().unwrap().push((index, operation, durable.list().unwrap().iter().map(|(_, n)| n).sum::<u64>()));
    })));
    let mut file = store.create(FileId::log(1), &hint()).unwrap();
    store.sync_names().unwrap();
    file.append(b"12345").unwrap();
    file.sync().unwrap();
    file.seal().unwrap();
    store.on_call(None);
    store.delete(FileId::log(1)).unwrap();
    use Operation::{Append, Create, Seal, Sync, SyncNames};
    assert_eq!(*seen.lock().unwrap(), [(0, Create, 0), (1, SyncNames, 0), (2, Append, 0), (3, Sync, 0), (4, Seal, 5)]);
}

#[test]
fn the_meter_sums_by_family_and_cause() {
    let meter = Meter::new(Arc::new(MemoryStore::new()));
    let compaction = Cause::Compaction { to: 3, reason: Reason::LevelSize };
    let mut number = 0;
    let mut write = |family, cause, bytes: usize| {
        number += 1;
        let mut file = meter.create(FileId::table(number), &Hint { family, ..Hint::new(cause) }).unwrap();
        file.append(&vec![0; bytes]).unwrap();
        file.sync().unwrap();
        file.append(b"12").unwrap();
        file.seal().unwrap();
    };
    write(0, Cause::Wal, 10);
    write(1, Cause::Flush, 100);
    write(1, Cause::Flush, 200);
    write(2, Cause::Flush, 1000);
    write(1, compaction, 5000);
    meter.create(FileId::log(77), &Hint::new(Cause::Manifest)).unwrap();
    meter.delete(FileId::log(77)).unwrap();
    meter.sync_names().unwrap();
    let reader = meter.open(FileId::table(4)).unwrap();
    reader.read_at(0, &mut [0; 30]).unwrap();
    reader.read_at(1000, &mut [0; 30]).unwrap_err();
    let seen = meter.snapshot();
    let lines: Vec<_> = seen.written.iter().map(|(line, n)| (*line, *n)).collect();
    assert_eq!(lines, [((0, Cause::Wal), 12), ((1, Cause::Flush), 304), ((1, compaction), 5002), ((2, Cause::Flush), 1002)]);
    assert_eq!((seen.total_written(), meter.total_written()), (6320, 6320));
    assert_eq!((seen.read_bytes, seen.reads), (30, 1), "what failed is not counted");
    assert_eq!((seen.created, seen.deleted, seen.syncs, seen.name_syncs), (6, 1, 10, 1));
}

#[test]
fn the_meter_counts_copies_and_not_links() {
    let checkpoint = Hint::new(Cause::Checkpoint);
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| Arc::new(DirStore::open(home.path().join(name), true).unwrap());
    let meter = Meter::new(dir("db"));
    let mut file = meter.create(FileId::table(1), &hint()).unwrap();
    file.append(&[7; 500]).unwrap();
    file.seal().unwrap();
    meter.share(FileId::table(1), &*dir("near"), &checkpoint).unwrap();
    assert_eq!(meter.total_written(), 500);
    meter.share(FileId::table(1), &MemoryStore::new(), &checkpoint).unwrap();
    assert_eq!(meter.snapshot().written.get(&(0, Cause::Checkpoint)), Some(&500));
    assert_eq!(meter.total_written(), 1000);
}

#[test]
fn a_slow_medium_takes_its_time() {
    let slept = Arc::new(Mutex::new(Duration::ZERO));
    let clock = Arc::clone(&slept);
    let medium = Medium { read_mb_per_s: 100.0, write_mb_per_s: 50.0, seek: Duration::from_millis(8) };
    let sleep = Arc::new(move |time| *clock.lock().unwrap() += time);
    let store = Throttle::with_sleep(Arc::new(MemoryStore::new()), medium, sleep);
    let took = || slept.lock().unwrap().as_micros();
    let mut file = store.create(FileId::log(1), &hint()).unwrap();
    file.append(&[0; 1_000_000]).unwrap();
    assert_eq!(took(), 20_000);
    for _ in 0..10 {
        file.append(&[0; 10_000]).unwrap();
    }
    file.seal().unwrap();
    assert_eq!(took(), 22_000, "short times are saved up, not lost");
    let reader = store.open(FileId::log(1)).unwrap();
    let read = |offset, length| reader.read_at(offset, &mut vec![0; length]).unwrap();
    read(0, 100_000);
    assert_eq!(took(), 31_000, "a seek and 1 ms");
    read(100_000, 500_000);
    assert_eq!(took(), 36_000, "goes on where the last one ended");
    read(0, 100_000);
    assert_eq!(took(), 45_000);
}
