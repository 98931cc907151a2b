//! One budget of memory for memtables, the block cache, hot keys and ranks.

use super::error::Result;
use super::{ELEMENTS, HotCounts, Keyspace};
use crate::system;
use sinterdb::DEFAULT_FAMILY;
use sinterdb::settings::{Budgets, FamilySettings, Settings};

/// Hot keys get one byte for so many of the engine's. A byte brings more there than in the block cache, which holds each of them with its
/// block; but blocks of collections, and all filters and indexes, are in the cache alone.
const BYTES_OF_ENGINE: u64 = 3;
/// Without a budget, hot keys and ranks together get one part of so many of the machine's memory, as far as there are keys for it, and at
/// least [`WITHOUT_BUDGET`]. The block cache gets as much: it fills only with blocks that are read, and where indexes and filters do not
/// fit, each lookup reads them again.
const PARTS_OF_MACHINE: u64 = 8;
const WITHOUT_BUDGET: u64 = 32 << 20;
/// Upper limit for hot keys and ranks; the rest of a larger budget is the engine's.
const MOST: u64 = 4 << 30;
/// With a known memory limit of the process, hot keys and ranks get at most one part of so many of the engine's limit.
const PARTS_OF_LIMIT: u64 = 8;
/// Ranks of sorted sets get one part of so many of the bytes for hot keys: at a byte per member, enough for a great many members.
const PARTS_OF_HOT: u64 = 16;

/// Bits of filters for each key, in the last level and above it. Nearly every command looks for its key before it writes, a new key as
/// well, and would wait for a block of each table whose filter is wrong: 1 in 200 is in the last level, 1 in 1000 in any of the runs above
/// it, which have a tenth of the keys.
const LAST_FILTER_BITS: f64 = 12.0;
const FILTER_BITS: f64 = 18.0;

/// Bytes of large batches after which memtables are flushed before they are full, once no large batch has come for so many milliseconds.
/// Nothing else would free their memory before the next writes; a flush costs little beside so many bytes. After deletions of collections:
/// bytes in memtables.
const BULK: u64 = 16 << 20;
const REST_MS: u64 = 2000;
/// Bytes of a large batch.
const LARGE: usize = 32 << 10;

/// Large batches and large deletions since the last flush for them.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    bytes: u64,
    /// Collections or databases were deleted, whose elements may still be in memtables.
    deletes: bool,
    /// When the last large batch or deletion came, unix milliseconds.
    last: u64,
}

impl Bulk {
    /// Notes the commit of a batch of so many bytes.
    pub fn add(&mut self, bytes: usize, now: u64) {
        if bytes >= LARGE {
            self.bytes = self.bytes.saturating_add(bytes as u64);
            self.last = now;
        }
    }

    /// Notes the commit of a batch that deletes collections or databases.
    pub fn delete(&mut self, now: u64) {
        (self.deletes, self.last) = (true, now);
    }

    /// Notes the deletion of a huge string or a database by a range tombstone: tables that it covers are dropped once the tombstone is in a
    /// table itself.
    pub fn delete_range(&mut self, now: u64) {
        (self.bytes, self.last) = (BULK, now);
    }
}

/// The least budget, bytes.
pub const MEMORY_MIN: u64 = 2 << 20;
/// The largest budget, bytes.
pub const MEMORY_MAX: u64 = 1 << 50;

/// Memory in use, by purpose, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Data in memtables.
    pub memtables: u64,
    /// Blocks, indexes and filters of tables.
    pub cache: u64,
    /// Entries of keys that are read often.
    pub hot: u64,
    /// Number of entries of keys that are read often.
    pub hot_entries: usize,
    /// Lookups of keys among the entries that are read often.
    pub hot_counts: HotCounts,
    /// The ranks of places in large sorted sets.
    pub ranks: u64,
}

impl Memory {
    /// Sum of all memory.
    pub fn used(&self) -> u64 {
        [self.cache, self.hot, self.ranks].into_iter().fold(self.memtables, u64::saturating_add)
    }
}

/// Bytes for hot keys and ranks beside an engine with a budget of `engine` bytes; 0: no budget.
fn beside(engine: u64) -> u64 {
    if engine == 0 { without_budget() } else { (engine / BYTES_OF_ENGINE).min(MOST) }
}

/// Bytes that hot keys and ranks get without a budget; the block cache gets as many.
fn without_budget() -> u64 {
    (system::memory_bytes() / PARTS_OF_MACHINE).clamp(WITHOUT_BUDGET, MOST)
}

/// The engine's part of a budget; `None`: there is no budget.
fn engine_memory(budget: u64) -> Option<u64> {
    (budget > 0).then(|| budget - (budget / (BYTES_OF_ENGINE + 1)).min(MOST))
}

/// Settings of the engine under a budget for the whole keyspace; 0: no budget.
pub fn engine_settings(budget: u64) -> Settings {
    let mut settings = Settings::new(Budgets { memory: engine_memory(budget), ..Budgets::default() });
    if budget == 0 {
        settings.db.cache_size = without_budget();
        settings.db.cache_index_and_filter_blocks = true;
    }
    for name in [DEFAULT_FAMILY, ELEMENTS] {
        let (bloom_bits_per_key, bloom_bits_last_level) = (FILTER_BITS, LAST_FILTER_BITS);
        let family = FamilySettings { bloom_bits_per_key, bloom_bits_last_level, ..settings.family(name) };
        settings.families.insert(name.to_owned(), family);
    }
    settings
}

impl Keyspace {
    /// Limits memtables, block cache, hot keys and ranks to so many bytes together, at least [`MEMORY_MIN`]. 0: each gets what it has
    /// without a budget, but memtables keep the size that they were opened with. Memtables that are being flushed come on top.
    ///
    /// # Errors
    /// Errors of the engine: hot keys keep their limit then, but the engine may have the new budget already, if it failed to flush
    /// memtables that are too large for it.
    pub fn set_memory(&mut self, bytes: u64) -> Result<()> {
        let engine = engine_memory(bytes);
        match engine {
            Some(bytes) => self.db().change_memory_budget(bytes)?,
            None => self.db().change_cache_size(without_budget())?,
        }
        self.keep_hot(engine.unwrap_or(0));
        Ok(())
    }

    /// Begins to flush memtables that large batches have filled, or that hold range tombstones or many deleted elements, if no large batch
    /// has come for a while. Called regularly.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn flush_at_rest(&mut self) -> Result<()> {
        let is_due = self.bulk.bytes >= BULK || self.bulk.deletes;
        if !is_due || self.now.abs_diff(self.bulk.last) < REST_MS || self.is_underway() || self.would_wait() {
            return Ok(());
        }
        if self.bulk.bytes < BULK && self.db().memory_used().0 < BULK {
            self.bulk.deletes = false;
            return Ok(());
        }
        self.bulk = Bulk::default();
        Ok(self.db().begin_flush()?)
    }

    /// Sets the limits of hot keys and ranks beside an engine with such a budget.
    pub(super) fn keep_hot(&mut self, engine: u64) {
        let most = self.db().memory_room().map_or(u64::MAX, |room| room / PARTS_OF_LIMIT);
        let both = beside(engine).min(most);
        let ranks = both / PARTS_OF_HOT;
        self.turn.keep_hot(both - ranks);
        self.ranks.set_capacity(ranks);
    }

    /// Limits hot keys to so many bytes.
    #[cfg(test)]
    pub(crate) fn keep_hot_bytes(&mut self, bytes: u64) {
        self.turn.keep_hot(bytes);
    }

    /// Memory in use, by purpose.
    pub fn memory(&self) -> Memory {
        let (db, hot) = (self.db(), self.turn.hot());
        let (memtables, cache) = db.memory_used();
        Memory { memtables, cache, hot: hot.used(), hot_entries: hot.len(), hot_counts: hot.counts, ranks: self.ranks.used() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Kind, Side};
    use crate::testing::{Random, flush_at_rest};
    use sinter_storage::store::MemoryStore;
    use sinterdb::WriteOptions;
    use std::sync::Arc;

    fn open(budget: u64) -> Keyspace {
        Keyspace::open(Arc::new(MemoryStore::new()), &engine_settings(budget), 42).unwrap()
    }

    #[test]
    fn a_budget_is_divided_whole() {
        for budget in [MEMORY_MIN, MEMORY_MIN + 1, 100 << 20, 16 << 30, (16 << 30) + 5, MEMORY_MAX] {
            let engine = engine_memory(budget).unwrap();
            let sum = engine + beside(engine);
            assert!(sum <= budget && sum + 1 >= budget, "{budget}");
        }
        assert!(engine_memory(0).is_none() && (WITHOUT_BUDGET..=MOST).contains(&beside(0)));
    }

    /// Memory stays within the budget and, on top of it, the memtables that are being flushed: at most as much as memtables may have.
    #[test]
    fn memory_stays_within_its_budget() {
        let budget = 16 << 20;
        let mut keyspace = open(budget);
        let number = |keyspace: &Keyspace, name: &str| -> u64 {
            keyspace.db().property(&keyspace.db().default_family(), name).unwrap().parse().unwrap()
        };
        let mut random = Random(1);
        let mut most = 0;
        for step in 0..150_000 {
            let name = format!("key{}", random.below(300) * random.below(300));
            if step % 2 == 0 {
                let value = random.bytes(900, b"abcdefgh");
                keyspace.set_string(0, name.as_bytes(), &value, None).unwrap();
            } else {
                keyspace.string(0, name.as_bytes()).unwrap();
            }
            if step % 50 == 0 {
                keyspace.commit(&WriteOptions::default()).unwrap();
                let held = keyspace.memory();
                let on_top = number(&keyspace, "sinterdb.memtable-capacity");
                assert!(held.used() <= budget + on_top, "{held:?} at {step}");
                assert!(held.hot <= budget / 4 && on_top < budget, "{held:?} at {step}");
                most = most.max(held.hot);
            }
        }
        assert!(most > budget / 8, "hot keys have used only {most} bytes");
        assert!(keyspace.memory().hot_counts.hits > 10_000);
        keyspace.db().flush().unwrap();
        let held = keyspace.memory();
        assert!(held.used() <= budget && held.memtables < budget / 16, "{held:?}");
        keyspace.set_memory(MEMORY_MIN).unwrap();
        let held = keyspace.memory();
        assert!(held.used() <= MEMORY_MIN, "{held:?}");
        assert!(keyspace.set_memory(1).is_err());
        keyspace.set_memory(0).unwrap();
        let capacity = |keyspace: &Keyspace| {
            let family = keyspace.db().default_family();
            (keyspace.turn.hot().capacity(), keyspace.db().property(&family, "rocksdb.block-cache-capacity").unwrap())
        };
        assert_eq!(capacity(&keyspace), capacity(&open(0)));
        keyspace.close().unwrap();
    }

    #[test]
    fn a_bulk_of_writes_leaves_no_memtables_behind() {
        let mut keyspace = open(0);
        keyspace.set_now(1_000_000);
        for n in 0..20u8 {
            keyspace.set_string(0, &[n], &vec![n + 1; 1 << 20], None).unwrap();
            keyspace.commit(&WriteOptions::default()).unwrap();
        }
        let filled = keyspace.memory().memtables;
        assert!(filled > BULK, "{filled}");
        keyspace.set_now(1_000_000 + REST_MS - 1);
        keyspace.flush_at_rest().unwrap();
        keyspace.set_string(0, b"small", b"1", None).unwrap();
        keyspace.commit(&WriteOptions::default()).unwrap();
        assert!(keyspace.memory().memtables >= filled, "there may be more");
        keyspace.set_now(1_000_000 + REST_MS);
        flush_at_rest(&mut keyspace);
        let left = keyspace.memory().memtables;
        assert!(left < 4 << 20, "{left} of {filled}");
        assert_eq!(keyspace.string(0, b"small").unwrap(), Some(&b"1"[..]));
        keyspace.close().unwrap();
    }

    #[test]
    fn a_deleted_collection_leaves_no_memtables_behind() {
        for everything in [false, true] {
            let mut keyspace = open(0);
            keyspace.set_now(1_000_000);
            let element = vec![7; LARGE / 2];
            for _ in 0..2 * BULK as usize / LARGE {
                let mut edit = keyspace.edit(0, b"list", Kind::List).unwrap();
                keyspace.push(&mut edit, Side::Right, &element).unwrap();
                keyspace.finish(&edit);
                keyspace.commit(&WriteOptions::default()).unwrap();
            }
            keyspace.set_string(0, b"k", &element, None).unwrap();
            keyspace.commit(&WriteOptions::default()).unwrap();
            let filled = keyspace.memory().memtables;
            assert!(filled > BULK, "{filled}");
            keyspace.set_now(2_000_000);
            flush_at_rest(&mut keyspace);
            assert!(keyspace.memory().memtables >= filled, "nothing is deleted");
            if everything {
                keyspace.clear_all().unwrap()
            } else {
                assert!(keyspace.remove(0, b"list").unwrap())
            }
            keyspace.commit(&WriteOptions::default()).unwrap();
            keyspace.set_now(2_000_000 + REST_MS);
            flush_at_rest(&mut keyspace);
            let left = keyspace.memory().memtables;
            assert!(left < 1 << 20, "{left} of {filled}");
            assert_eq!(keyspace.string(0, b"k").unwrap().is_some(), !everything);
            keyspace.close().unwrap();
        }
    }

    #[test]
    fn a_new_key_hardly_ever_reads_a_block() {
        let mut keyspace = open(4 << 20);
        let mut random = Random(3);
        for n in 0..50_000 {
            keyspace.set_string(0, format!("old{n}").as_bytes(), &random.bytes(200, b"0123456789abcdef"), None).unwrap();
            if n % 100 == 0 {
                keyspace.commit(&WriteOptions::default()).unwrap();
            }
        }
        keyspace.commit(&WriteOptions::default()).unwrap();
        keyspace.db().compact_range(&keyspace.db().default_family(), None, None).unwrap();
        let missed = |keyspace: &Keyspace| {
            let tickers = keyspace.db().stats().tickers;
            tickers.iter().find(|(name, _)| *name == "rocksdb.block.cache.data.miss").unwrap().1
        };
        let before = missed(&keyspace);
        for n in 0..50_000 {
            assert!(keyspace.string(0, format!("new{n}").as_bytes()).unwrap().is_none());
        }
        let read = missed(&keyspace) - before;
        assert!((50..500).contains(&read), "{read} blocks for 50,000 keys");
        keyspace.close().unwrap();
    }
}
