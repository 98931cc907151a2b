//! Writes: their survival in crashes, groups, batches, limits.

use super::*;
use sinter_storage::store::{CrashMode, FaultStore, Operation};
use sinterdb::{MAX_KEY, MAX_VALUE, WriteBatch};
use std::time::Duration;

/// Opens the database after the process died and the machine did not.
fn killed(store: &Arc<MemoryStore>) -> Db {
    open(&Arc::new(store.clone_image()))
}

/// Opens the database after a power cut that took all unsynced bytes.
fn unplugged(store: &Arc<MemoryStore>) -> Db {
    open(&Arc::new(store.crash_with(CrashMode::DropUnsynced)))
}

#[test]
fn a_synced_write_survives_a_power_cut() {
    let store = memory();
    let db = open(&store);
    db.put_with(&db.default_family(), b"k", b"v", &SYNC).unwrap();
    assert_eq!(unplugged(&store).get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn a_buffered_write_survives_the_process_but_not_the_machine() {
    let store = memory();
    let db = open(&store);
    db.put(b"k", b"v").unwrap();
    assert_eq!(killed(&store).get(b"k").unwrap().unwrap(), b"v");
    assert_eq!(unplugged(&store).get(b"k").unwrap(), None);
}

#[test]
fn an_unlogged_write_survives_only_from_the_next_flush_on() {
    let store = memory();
    let db = open(&store);
    db.put_with(&db.default_family(), b"k", b"v", &NO_WAL).unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    assert_eq!(killed(&store).get(b"k").unwrap(), None);
    db.flush().unwrap();
    assert_eq!(unplugged(&store).get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn sync_covers_all_buffered_writes_before_it() {
    let store = memory();
    let db = open(&store);
    fill(&db, 100, 10);
    db.sync().unwrap();
    db.put(b"later", b"").unwrap();
    let after = unplugged(&store);
    assert_eq!(keys(&after).len(), 100);
    assert_eq!(after.get(b"later").unwrap(), None);
}

#[test]
fn what_survives_a_power_cut_is_a_prefix_of_the_writes() {
    let store = memory();
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    for n in 0..600 {
        let options = if n % 97 == 96 { SYNC } else { WriteOptions::default() };
        db.put_with(&db.default_family(), &key(n), &noise(n, 100), &options).unwrap();
    }
    for seed in 0..100 {
        let found = keys(&open(&Arc::new(store.crash_with(seed)))).len();
        let after = open(&Arc::new(store.crash_with(seed)));
        assert!(found >= 97 * 6, "seed {seed}: {found} entries");
        (0..found).for_each(|n| assert_eq!(after.get(&key(n)).unwrap(), Some(noise(n, 100)), "seed {seed}, entry {n} of {found}"));
    }
}

#[test]
fn writers_share_syncs() {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let memory = memory();
    let slow = FaultStore::new(memory.clone());
    slow.on_call(Some(Arc::new(|_, operation| {
        if operation == Operation::Sync {
            std::thread::sleep(Duration::from_millis(2));
        }
    })));
    let db = builder().settings(inline()).open_store(Arc::new(slow)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = db.clone();
            scope.spawn(move || {
                (0..EACH).for_each(|n| db.put_with(&db.default_family(), &key(writer * EACH + n), b"v", &SYNC).unwrap());
            });
        }
    });
    let syncs = figures::ticker(&db, "rocksdb.wal.synced");
    let groups = figures::ticker(&db, "rocksdb.write.self");
    let writes = (WRITERS * EACH) as u64;
    assert!(syncs < writes && syncs > 0, "{syncs} syncs for {writes} writes");
    assert_eq!(groups, syncs, "a group that wants a sync has exactly one");
    assert!(figures::ticker(&db, "rocksdb.write.other") > 0);
    assert_eq!(keys(&unplugged(&memory)).len(), WRITERS * EACH);
}

#[test]
fn a_batch_over_families_survives_whole_or_not_at_all() {
    let store = memory();
    let db = open(&store);
    let other = db.create_family("other", FamilySettings::default()).unwrap();
    for n in 0..50 {
        let mut batch = WriteBatch::new();
        batch.put(&key(n), &noise(n, 700));
        batch.put_in(&other, &key(n), b"twin");
        batch.delete_in(&other, &key(n.wrapping_sub(1)));
        db.write(&mut batch, &WriteOptions::default()).unwrap();
        assert!(batch.is_empty(), "a written batch is emptied");
    }
    for seed in 0..200 {
        let after = open(&Arc::new(store.crash_with(seed)));
        let count = keys(&after).len();
        let twins = after.family("other").map(|family| all(&after, &family)).unwrap_or_default();
        let expected: Vec<_> = count.checked_sub(1).map(|last| (key(last), b"twin".to_vec())).into_iter().collect();
        assert_eq!(twins, expected, "seed {seed}: a torn batch");
    }
}

#[test]
fn operations_of_a_batch_apply_in_order() {
    let db = open(&new_store());
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    batch.put(b"a", b"2");
    batch.delete(b"a");
    batch.put(b"b", b"1");
    batch.delete_range(b"a", b"z");
    batch.put(b"c", b"1");
    assert_eq!(batch.len(), 6);
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    assert_eq!(keys(&db), ["c"]);
}

#[test]
fn a_refused_batch_changes_nothing_and_harms_nobody() {
    let db = open(&new_store());
    let gone = db.create_family("gone", FamilySettings::default()).unwrap();
    db.drop_family(&gone).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    batch.put_in(&gone, b"b", b"2");
    assert!(invalid(db.write(&mut batch, &WriteOptions::default())).contains("dropped"));
    assert_eq!(db.get(b"a").unwrap(), None);
    db.put(b"a", b"3").unwrap();
    assert_eq!(db.get(b"a").unwrap().unwrap(), b"3");
}

#[test]
fn a_merge_needs_an_operator() {
    let db = open(&new_store());
    assert!(invalid(db.merge(b"k", b"1")).contains("no merge operator"));
    let mut batch = WriteBatch::new();
    batch.merge(b"k", b"1");
    assert!(invalid(db.write(&mut batch, &WriteOptions::default())).contains("no merge operator"));
    assert_eq!(db.get(b"k").unwrap(), None);
}

#[test]
fn keys_and_values_over_the_limits_are_refused() {
    let db = open(&new_store());
    // Zeroed memory that nobody touches costs nothing.
    let huge = vec![0u8; MAX_VALUE + 1];
    assert!(invalid(db.put(&huge[..=MAX_KEY], b"")).contains("1 MiB"));
    assert!(invalid(db.put(b"k", &huge)).contains("1 GiB"));
    assert!(invalid(db.delete_range(b"a", &huge[..=MAX_KEY])).contains("1 MiB"));
    let mut batch = WriteBatch::new();
    batch.put(b"small", b"");
    batch.put(&huge[..=MAX_KEY], b"");
    assert!(batch.bytes() < 100, "an operation over the limit takes no memory");
    assert!(invalid(db.write(&mut batch, &WriteOptions::default())).contains("1 MiB"));
    assert_eq!(db.get(b"small").unwrap(), None);
}

#[test]
fn the_longest_key_and_a_large_value_are_fine() {
    let db = small_db();
    let longest = noise(1, MAX_KEY);
    let large = noise(2, 5 << 20);
    db.put(&longest, b"v").unwrap();
    db.put(b"large", &large).unwrap();
    db.put(b"", b"empty key").unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    assert_eq!(db.get(&longest).unwrap().unwrap(), b"v");
    assert!(db.get(b"large").unwrap().unwrap() == large);
    assert_eq!(db.get(b"").unwrap().unwrap(), b"empty key");
}

#[test]
fn a_full_medium_refuses_writes_until_there_is_room() {
    let store = memory();
    let db = open(&store);
    db.put(b"before", b"v").unwrap();
    store.set_capacity(Some(store.list().unwrap().iter().map(|f| f.1).sum()));
    assert!(matches!(db.put(b"k", &noise(1, 10_000)), Err(Error::NoSpace(_))));
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"v");
    assert_eq!(db.get(b"k").unwrap(), None);
    store.set_capacity(None);
    db.put(b"k", b"again").unwrap();
    db.sync().unwrap();
    let after = unplugged(&store);
    assert_eq!((after.get(b"before").unwrap().unwrap(), after.get(b"k").unwrap().unwrap()), (b"v".to_vec(), b"again".to_vec()));
}

/// A write that the full medium refused does not affect the flush that comes when there is space.
#[test]
fn a_refused_write_does_not_make_the_next_flush_fail() {
    let store = memory();
    let db = try_open(&store, builder()).unwrap();
    db.put(b"before", b"v").unwrap();
    store.set_capacity(Some(store.list().unwrap().iter().map(|f| f.1).sum()));
    assert!(matches!(db.put(b"k", &noise(1, 10_000)), Err(Error::NoSpace(_))));
    store.set_capacity(None);
    db.flush().unwrap();
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"v");
}

#[test]
fn a_closed_database_refuses_writes_and_goes_on_reading() {
    let store = memory();
    let db = open(&store);
    db.put(b"k", b"v").unwrap();
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.put(b"k", b"w"), Err(Error::Closed(_))));
    assert!(matches!(other.flush(), Err(Error::Closed(_))));
    assert_eq!(other.get(b"k").unwrap().unwrap(), b"v");
    assert_eq!(unplugged(&store).get(b"k").unwrap().unwrap(), b"v", "close syncs the log");
}
