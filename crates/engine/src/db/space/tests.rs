//! Tests of the reserved space.

use crate::db::Builder;
use crate::settings::{DbSettings, FamilySettings};
use sinter_storage::store::MemoryStore;
use std::cell::Cell;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Bytes that merges and that writes leave free in a database of so many families with the default settings, with so many bytes free.
fn reserved(db_write_buffer_size: u64, families: usize, free: u64) -> (u64, u64) {
    let settings = DbSettings { db_write_buffer_size, max_background_jobs: 0, ..DbSettings::default() };
    let db = Builder::default().settings(settings).open_store(Arc::new(MemoryStore::new())).unwrap();
    (1..families).for_each(|n| drop(db.create_family(&n.to_string(), FamilySettings::default()).unwrap()));
    let reserve = db.inner.primary_reserve(&db.inner.shared.lock(), free);
    (reserve.flushes, reserve.merges)
}

#[test]
fn the_reserve_goes_by_what_memtables_hold_together() {
    let one = reserved(u64::MAX, 1, u64::MAX);
    assert_eq!(one, (256 * MIB, 640 * MIB));
    // A merge at a time is enough, whatever the number of families.
    assert_eq!(reserved(u64::MAX, 4, u64::MAX), (4 * one.0, 3 * one.0 + one.1));
    assert_eq!(reserved(16 * MIB, 4, u64::MAX), (32 * MIB, 32 * MIB + one.1 - one.0));
}

#[test]
fn a_small_medium_reserves_a_quarter() {
    assert_eq!(reserved(u64::MAX, 4, 400 * MIB), (50 * MIB, 100 * MIB));
    assert_eq!(reserved(u64::MAX, 1, 0), (0, 0));
}

/// A merge takes the space that a waiting write has just seen free: the write waits until that merge has given it back.
#[test]
fn a_write_waits_for_space_that_a_merge_took_from_it() {
    let db = Builder::default().open_store(Arc::new(MemoryStore::new())).unwrap();
    // As if a merge ran.
    db.inner.shared.lock().jobs.running += 1;
    let looks = Cell::new(0);
    let is_free = db.inner.await_free(u64::MAX, |_, _| {
        looks.set(looks.get() + 1);
        looks.get() != 2
    });
    db.inner.shared.lock().jobs.running -= 1;
    assert!(is_free.unwrap(), "after {} looks", looks.get());
    db.close().unwrap();
}
