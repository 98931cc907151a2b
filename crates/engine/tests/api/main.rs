//! The database's promises to programs, one behaviour per test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod beside;
mod bytes;
mod callbacks;
mod codecs;
mod compaction;
mod compression;
mod damage;
mod expiry;
mod families;
mod figures;
mod full;
mod many;
mod moments;
mod open;
mod placement;
mod range_deletes;
mod read;
mod recovery;
mod slow_media;
mod small_drives;
mod store;
mod tiering;
mod tiers;
mod timed;
mod write;

use sinter_storage::store::{MemoryStore, Store};
use sinterdb::clock::ManualClock;
use sinterdb::operator::MergeOperator;
use sinterdb::settings::{DbSettings, FamilySettings};
use sinterdb::{Builder, Db, Durability, Error, Family, ReadOptions, WriteOptions};
use std::sync::Arc;
use store::{TestStore, new_store};

const SYNC: WriteOptions = WriteOptions::new(Durability::Sync);
const NO_WAL: WriteOptions = WriteOptions::new(Durability::NoWal);

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// No threads: everything happens in the calling one, in order.
fn inline() -> DbSettings {
    DbSettings { max_background_jobs: 0, ..DbSettings::default() }
}

/// Small memtables and tables, so that little data makes a tree.
fn small() -> FamilySettings {
    FamilySettings {
        write_buffer_size: 16 << 10,
        target_file_size_base: 16 << 10,
        max_bytes_for_level_base: 64 << 10,
        max_compaction_bytes: 1 << 20,
        ..FamilySettings::default()
    }
}

fn builder() -> Builder {
    Db::builder().clock(Arc::new(ManualClock::default())).identity([7; 16])
}

fn open(store: &Arc<impl Store + 'static>) -> Db {
    try_open(store, builder().settings(inline())).unwrap()
}

fn try_open(store: &Arc<impl Store + 'static>, builder: Builder) -> Result<Db, Error> {
    builder.open_store(Arc::clone(store) as Arc<dyn Store>)
}

/// A new database with a small tree.
fn small_db() -> Db {
    try_open(&new_store(), builder().settings(inline()).family("default", small())).unwrap()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Bytes that do not compress.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 | 1 << 40;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Keys `0..count` with values of `len` bytes.
fn fill(db: &Db, count: usize, len: usize) {
    (0..count).for_each(|n| db.put(&key(n), &noise(n, len)).unwrap());
}

fn all(db: &Db, family: &Family) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter_with(family, ReadOptions::default()).unwrap().collect::<Result<_, _>>().unwrap()
}

fn keys(db: &Db) -> Vec<String> {
    db.iter().map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

fn invalid<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Invalid(what)) => what,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

/// Joins operands with commas; refuses an operand `bad`.
struct Join;

impl MergeOperator for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        (!operands.contains(&&b"bad"[..])).then(|| parts.join(&b','))
    }
}
