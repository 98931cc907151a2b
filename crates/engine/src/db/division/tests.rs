//! Memory that moves, in a database whose medium takes simulated time.

use super::super::{DEFAULT_FAMILY, Db};
use crate::clock::{Clock, ManualClock};
use crate::error::Error;
use crate::settings::{Budgets, CompressedCache, DbSettings, FamilySettings};
use sinter_storage::store::{Medium, MemoryStore, Store, Throttle};
use std::sync::Arc;
use std::time::Duration;

const MEMORY: u64 = 4 << 20;
const KEYS: u64 = 30_000;

/// A medium with reads of 200 us, a clock that they move, and a database over them.
fn open(memory: &Arc<MemoryStore>, settings: DbSettings) -> (Arc<ManualClock>, Db) {
    let clock = Arc::new(ManualClock::default());
    let medium = Medium { read_mb_per_s: 0.0, write_mb_per_s: 0.0, seek: Duration::from_micros(200) };
    let moved = clock.clone();
    let sleep = Arc::new(move |time: Duration| moved.advance_ns(u64::try_from(time.as_nanos()).unwrap()));
    let store: Arc<dyn Store> = Arc::new(Throttle::with_sleep(memory.clone(), medium, sleep));
    let budgets = Budgets { memory: Some(MEMORY), space_amplification: None };
    let db = Db::builder().clock(clock.clone()).settings(settings).family(DEFAULT_FAMILY, budgets.family()).open_store(store).unwrap();
    (clock, db)
}

fn budgeted() -> DbSettings {
    Budgets { memory: Some(MEMORY), space_amplification: None }.db()
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    format!("{n}/{}", "some value ".repeat(20)).into_bytes()
}

fn fill(db: &Db) {
    (0..KEYS).for_each(|n| db.put(&key(n), &value(n)).unwrap());
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
}

/// Reads at random, a second of simulated time, and lets the memory be divided again.
fn read_a_second(db: &Db, clock: &ManualClock, state: &mut u64) {
    for _ in 0..2000 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = (*state >> 33) % KEYS;
        assert_eq!(db.get(&key(n)).unwrap(), Some(value(n)));
    }
    clock.advance_ns(600_000_000);
    db.inner.divide_memory();
    db.inner.watch_limits(clock.monotonic_ns());
    let memtables = db.inner.division.memtables();
    assert!(db.inner.cache.capacity() + memtables <= MEMORY);
    assert!(db.inner.cache.used() <= db.inner.cache.capacity());
}

fn number(db: &Db, property: &str) -> u64 {
    db.property(&db.default_family(), property).unwrap().parse().unwrap()
}

#[test]
fn readers_get_the_bytes_of_memtables_and_recovery_bears_it() {
    let memory = Arc::new(MemoryStore::new());
    let (clock, db) = open(&memory, budgeted());
    fill(&db);
    let start = number(&db, "sinterdb.memtable-capacity");
    assert_eq!(start, budgeted().db_write_buffer_size);
    let mut state = 1;
    for _ in 0..100 {
        read_a_second(&db, &clock, &mut state);
    }
    let now = number(&db, "sinterdb.memtable-capacity");
    let lines = db.property(&db.default_family(), "sinterdb.memory-split").unwrap();
    assert!(now <= MEMORY / 16, "{now}\n{lines}");
    assert!(number(&db, "rocksdb.block-cache-capacity") >= MEMORY - MEMORY / 8, "{lines}");
    assert!(lines.contains("memtables: ") && lines.contains("memtables and cache: "), "{lines}");
    // The next memtable is as small as was decided; that it was larger when it is recovered, or smaller, does not matter.
    for n in 0..KEYS / 4 {
        db.put(&key(n), &value(n + 1)).unwrap();
        assert!(db.stats().memtable_bytes < start, "{n}");
    }
    drop(db);
    let (_, db) = open(&memory, budgeted());
    for n in 0..KEYS {
        assert_eq!(db.get(&key(n)).unwrap(), Some(value(if n < KEYS / 4 { n + 1 } else { n })));
    }
}

#[test]
fn a_slow_medium_makes_the_cache_pack() {
    let memory = Arc::new(MemoryStore::new());
    let settings = DbSettings { compressed_cache: CompressedCache::Auto, memory_budget: 0, ..budgeted() };
    let (clock, db) = open(&memory, settings);
    fill(&db);
    let mut state = 1;
    for _ in 0..60 {
        read_a_second(&db, &clock, &mut state);
    }
    let lines = db.property(&db.default_family(), "sinterdb.memory-split").unwrap();
    assert!(number(&db, "sinterdb.compressed-cache-capacity") > db.inner.cache.capacity() / 8, "{lines}");
    assert!(number(&db, "sinterdb.compressed-cache-usage") > 0, "{lines}");
    assert!(lines.contains("parts of the cache: "), "{lines}");
    assert_eq!(number(&db, "sinterdb.memtable-capacity"), budgeted().db_write_buffer_size, "no budget: memtables stay");
    let hits = db.stats().tickers.iter().find(|t| t.0 == "rocksdb.compressed.secondary.cache.hits").unwrap().1;
    assert!(hits > 1000, "{hits}");
}

#[test]
fn nothing_moves_without_threads() {
    let memory = Arc::new(MemoryStore::new());
    let settings = DbSettings { compressed_cache: CompressedCache::Auto, max_background_jobs: 0, ..budgeted() };
    let (clock, db) = open(&memory, settings);
    fill(&db);
    let before = (db.inner.division.memtables(), db.inner.cache.capacity(), 0);
    let mut state = 1;
    for _ in 0..20 {
        read_a_second(&db, &clock, &mut state);
    }
    assert_eq!((db.inner.division.memtables(), db.inner.cache.capacity(), db.inner.cache.packed_capacity()), before);
}

#[test]
fn a_share_is_there_from_the_start_and_a_family_keeps_a_size_of_its_own() {
    let memory = Arc::new(MemoryStore::new());
    let settings = DbSettings { compressed_cache: CompressedCache::Share(0.25), max_background_jobs: 0, ..budgeted() };
    let (_, db) = open(&memory, settings);
    let capacity = db.inner.cache.capacity();
    assert_eq!((capacity, db.inner.cache.packed_capacity()), (budgeted().cache_size, capacity / 4));
    let mut own = Budgets { memory: Some(MEMORY), space_amplification: None }.family();
    own.write_buffer_size = 100 << 10;
    let family = db.create_family("own", own).unwrap();
    db.inner.division.memtables.store(1 << 20, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(db.inner.memtable_limit(&family.core), 100 << 10);
    assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, budgeted().db_write_buffer_size / 2, "nothing moves here");
}

/// Largest size of a family's next memtable once all together have 1 MiB.
fn limit_of_a_mebibyte(db: &Db, family: &str) -> usize {
    db.inner.division.memtables.store(1 << 20, std::sync::atomic::Ordering::Relaxed);
    db.inner.memtable_limit(&db.family(family).unwrap().core)
}

#[test]
fn a_family_that_nobody_named_has_its_part_of_the_budget() {
    let db = Db::builder().settings(budgeted()).open_store(Arc::new(MemoryStore::new())).unwrap();
    assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, budgeted().db_write_buffer_size / 2);
    assert_eq!(limit_of_a_mebibyte(&db, DEFAULT_FAMILY), 512 << 10);
}

#[test]
fn families_follow_a_budget_that_a_reopen_changes() {
    let memory = Arc::new(MemoryStore::new());
    let family = Budgets { memory: Some(MEMORY), space_amplification: None }.family();
    let (_, db) = open(&memory, budgeted());
    db.create_family("moves", family.clone()).unwrap();
    db.create_family("own", FamilySettings { write_buffer_size: 100 << 10, ..family }).unwrap();
    db.close().unwrap();
    let budgets = Budgets { memory: Some(2 * MEMORY), space_amplification: None };
    let half = budgets.db().db_write_buffer_size / 2;
    // The second time, nothing is given at all.
    for builder in [Db::builder().settings(budgets.db()), Db::builder()] {
        let db = builder.open_store(memory.clone()).unwrap();
        for name in [DEFAULT_FAMILY, "moves"] {
            assert_eq!(db.family_settings(&db.family(name).unwrap()).unwrap().write_buffer_size, half, "{name}");
            assert_eq!(limit_of_a_mebibyte(&db, name), 512 << 10, "{name}");
        }
        assert_eq!(limit_of_a_mebibyte(&db, "own"), 100 << 10);
        db.close().unwrap();
    }
    // Sizes that are stated instead of a budget leave the families theirs.
    let fixed = DbSettings { memory_budget: 0, db_write_buffer_size: 1 << 20, ..budgets.db() };
    let db = Db::builder().settings(fixed).open_store(memory).unwrap();
    assert_eq!(db.inner.memtable_limit(&db.family("moves").unwrap().core) as u64, half);
}

/// A budget that stands alone, as `memory_budget` in a file may, is divided as `memory` is: memtables at once, the cache after
/// a second.
#[test]
fn a_budget_alone_divides_itself() {
    let open = |settings: DbSettings| {
        let builder = Db::builder().settings(settings).clock(Arc::new(ManualClock::default()));
        builder.open_store(Arc::new(MemoryStore::new())).unwrap()
    };
    for budget in [Budgets::MEMORY_LEAST, MEMORY, 16 * MEMORY] {
        let whole = Budgets { memory: Some(budget), space_amplification: None }.db();
        let dbs = [open(whole.clone()), open(DbSettings { memory_budget: budget, ..DbSettings::default() })];
        let parts = |db: &Db| {
            let limit = db.inner.memtable_limit(&db.default_family().core) as u64;
            (db.inner.division.memtables(), db.inner.cache.capacity(), limit)
        };
        for db in &dbs {
            assert_eq!(db.inner.division.memtables(), whole.db_write_buffer_size, "{budget}");
            db.inner.divide_memory();
            db.inner.watch_memory();
        }
        assert_eq!(parts(&dbs[0]), parts(&dbs[1]), "{budget}");
        assert_eq!(parts(&dbs[1]), (whole.db_write_buffer_size, whole.cache_size, whole.db_write_buffer_size / 2), "{budget}");
    }
}

#[test]
fn families_that_stated_no_size_follow_a_budget_that_comes_later() {
    let memory = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(memory.clone()).unwrap();
    db.create_family("moves", FamilySettings::default()).unwrap();
    db.create_family("own", FamilySettings { write_buffer_size: 100 << 10, ..FamilySettings::default() }).unwrap();
    db.close().unwrap();
    let db = Db::builder().settings(budgeted()).open_store(memory).unwrap();
    for name in [DEFAULT_FAMILY, "moves"] {
        assert_eq!(limit_of_a_mebibyte(&db, name), 512 << 10, "{name}");
    }
    assert_eq!(limit_of_a_mebibyte(&db, "own"), 100 << 10);
}

/// Half of the bytes for all memtables may be less than a memtable may have, or more.
#[test]
fn a_budget_opens_whatever_half_of_its_memtables_is() {
    let memory = Arc::new(MemoryStore::new());
    Db::builder().open_store(memory.clone()).unwrap().close().unwrap();
    for (db_write_buffer_size, size) in [(4096, FamilySettings::WRITE_BUFFER_LEAST), (8 << 30, FamilySettings::WRITE_BUFFER_MOST)] {
        let settings = DbSettings { memory_budget: 16 << 30, db_write_buffer_size, ..DbSettings::default() };
        for store in [memory.clone(), Arc::new(MemoryStore::new())] {
            let builder = Db::builder().settings(settings.clone()).clock(Arc::new(ManualClock::default()));
            let db = builder.open_store(store).unwrap();
            assert_eq!(db.family_settings(&db.default_family()).unwrap().write_buffer_size, size);
            assert_eq!(limit_of_a_mebibyte(&db, DEFAULT_FAMILY), 512 << 10);
            db.inner.division.memtables.store(8 << 30, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, FamilySettings::WRITE_BUFFER_MOST);
            db.close().unwrap();
        }
    }
}

#[test]
fn memtables_beyond_the_budget_leave_the_cache_something() {
    let memory = Arc::new(MemoryStore::new());
    let (clock, db) = open(&memory, budgeted());
    fill(&db);
    let mut state = 1;
    read_a_second(&db, &clock, &mut state);
    assert!(db.inner.cache.used() > 0);
    // One value larger than everything: it is taken, and flushed with the next write.
    db.put(b"large", &vec![7; 2 * MEMORY as usize]).unwrap();
    assert!(db.stats().memtable_bytes > MEMORY);
    clock.advance_ns(1_000_000_000);
    db.inner.divide_memory();
    db.inner.watch_limits(clock.monotonic_ns());
    assert_eq!(db.inner.cache.capacity(), MEMORY / 16);
    assert!(db.inner.cache.used() > 0);
}

#[test]
fn a_budget_changes_while_the_database_is_open() {
    for jobs in [0, 2] {
        let memory = Arc::new(MemoryStore::new());
        let (clock, db) = open(&memory, DbSettings { max_background_jobs: jobs, ..budgeted() });
        db.create_family("own", FamilySettings { write_buffer_size: 100 << 10, ..FamilySettings::default() }).unwrap();
        fill(&db);
        for budget in [16 * MEMORY, MEMORY / 2, 2 * MEMORY] {
            db.change_memory_budget(budget).unwrap();
            let memtables = db.inner.division.memtables();
            assert!(memtables > budget / 2 && memtables + db.inner.cache.capacity() <= budget, "{memtables} of {budget}");
            assert!(db.inner.cache.used() <= db.inner.cache.capacity());
            if jobs > 0 {
                assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, memtables / 2);
                clock.advance_ns(1_000_000_000);
                db.inner.divide_memory();
                db.inner.watch_limits(clock.monotonic_ns());
                assert!(db.inner.division.memtables() + db.inner.cache.capacity() <= budget);
            }
            assert_eq!(db.inner.memtable_limit(&db.family("own").unwrap().core), 100 << 10);
        }
        db.change_cache_size(3 * MEMORY).unwrap();
        assert_eq!((db.inner.division.memtables(), db.inner.cache.capacity()), (u64::MAX, 3 * MEMORY));
        let own = db.family_settings(&db.default_family()).unwrap().write_buffer_size;
        assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, own);
        for wrong in [0, 1, 1000, (1 << 50) + 1] {
            assert!(matches!(db.change_memory_budget(wrong), Err(Error::Invalid(_))), "{wrong}");
        }
        assert_eq!(db.inner.division.memtables(), u64::MAX);
        (0..KEYS).for_each(|n| assert_eq!(db.get(&key(n)).unwrap(), Some(value(n))));
    }
}

/// A memtable that is too large for a new budget would stay if nobody wrote.
#[test]
fn memtables_that_are_too_large_for_a_new_budget_are_flushed() {
    let db = Db::builder().clock(Arc::new(ManualClock::default())).open_store(Arc::new(MemoryStore::new())).unwrap();
    (0..KEYS).for_each(|n| db.put(&key(n), &value(n)).unwrap());
    assert!(db.stats().memtable_bytes > MEMORY, "the default is larger");
    db.change_memory_budget(MEMORY).unwrap();
    assert_eq!(db.inner.memtable_limit(&db.default_family().core) as u64, db.inner.division.memtables() / 2, "it follows");
    db.wait_for_compactions().unwrap();
    assert!(db.stats().memtable_bytes < MEMORY / 16);
    (0..KEYS).for_each(|n| assert_eq!(db.get(&key(n)).unwrap(), Some(value(n))));
}

#[test]
fn the_division_can_be_asked_for_while_it_changes() {
    let db = Db::builder().clock(Arc::new(ManualClock::default())).open_store(Arc::new(MemoryStore::new())).unwrap();
    let cache = &db.inner.cache;
    cache.resize(0, 0);
    std::thread::scope(|scope| {
        let asks = || (0..20_000).for_each(|_| assert!(db.inner.memory_lines().contains("cache, uncompressed: 0, 0 in use")));
        let (asking, mut bytes) = (scope.spawn(asks), 0);
        while !asking.is_finished() {
            bytes ^= 1 << 20;
            cache.resize(bytes, bytes);
        }
    });
}

/// Every write asks whether all memtables together hold too much, so their sum is kept.
#[test]
fn the_sum_of_all_memtables_is_kept_whatever_becomes_of_families() {
    let builder = Db::builder().settings(budgeted()).clock(Arc::new(ManualClock::default()));
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    let check = || {
        let state = db.inner.write_state.lock();
        let sum: usize = state.families.iter().flatten().map(|writer| writer.mem.mem.memory()).sum();
        assert_eq!(state.active, sum as u64);
        sum
    };
    let others = ["dropped", "kept"].map(|name| db.create_family(name, FamilySettings::default()).unwrap());
    for family in [&db.default_family(), &others[0], &others[1]] {
        let before = check();
        (0..100).for_each(|n| db.put_with(family, &key(n), &value(n), &Default::default()).unwrap());
        db.delete_range_with(family, b"a", b"b", &Default::default()).unwrap();
        assert!(check() > before + 20_000);
    }
    let before = check();
    db.drop_family(&others[0]).unwrap();
    assert!(check() < before);
    db.flush().unwrap();
    assert_eq!(check(), 0);
    // Beyond what all may hold: the largest is flushed.
    (0..KEYS).for_each(|n| db.put_with(&others[1], &key(n), &value(n), &Default::default()).unwrap());
    assert!(check() < MEMORY as usize);
}
