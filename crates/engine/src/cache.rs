//! The block cache: one byte budget over data blocks of all tables, and over their indexes and filters if these count.
//!
//! There is no hash table. Every table owns a [`CacheSlot`] per part (data block, index or filter), so a lookup is an array access and a
//! lock-free load (arc-swap: no shared counter is written on a hit). Only misses take the mutex. It guards the list of resident parts, a
//! CLOCK in its second-chance form (Corbató 1968). The evictor takes the oldest part in the list. A part that was used since the list last
//! came to it has lives: it loses one and goes to the back of the list. A part without lives is evicted. Data blocks have at most one life
//! and start with none, so a scan that reads each block once evicts only its own blocks; indexes and filters have several lives.
//!
//! The list has weak references to tables. Whoever empties a slot, the evictor or [`Cache::forget`], subtracts its bytes, exactly once.
//!
//! Indexes and filters may be kept outside of the budget for as long as their table lives: then they are not in the list.
//!
//! A share of the budget may hold data blocks in compressed form, behind a lock that is taken only when a slot is empty. As in 2Q (Johnson
//! and Shasha, VLDB 1994), a block from the medium enters this share first, as the compressed bytes that were read; the second use
//! decompresses the block into its slot. Blocks that the CLOCK evicts are compressed again and return to this share, as in RocksDB's
//! `CompressedSecondaryCache`. A block is either in its slot or in the compressed share. [`split`] divides the budget between the two by
//! the time that each saves.

mod packed;
mod queue;
pub mod split;
mod watch;

pub use packed::Packed;
pub use watch::Signals;

use crate::clock::{Clock as Time, ManualClock};
use crate::slab;
use arc_swap::{ArcSwapOption, Guard};
use packed::{Below, is_probed, is_watched};
use parking_lot::Mutex;
use sinter_storage::store::Temperature;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use watch::Watch;

/// Kind of a table's part: decides its lives and its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A data block.
    Data = 0,
    /// An index.
    Index = 1,
    /// A filter.
    Filter = 2,
}

impl Part {
    /// Lives of a part after a use.
    fn lives(self) -> u8 {
        match self {
            Part::Data => 1,
            Part::Index | Part::Filter => 4,
        }
    }
}

/// A part in memory, with its size, kind and lives.
#[derive(Debug)]
pub struct Cached<T> {
    value: T,
    bytes: u64,
    part: Part,
    lives: AtomicU8,
}

impl<T> Cached<T> {
    /// Wraps a part that takes `bytes` of memory.
    pub fn new(part: Part, value: T, bytes: usize) -> Arc<Self> {
        let lives = if part == Part::Data { 0 } else { part.lives() };
        let overhead = size_of::<Cached<()>>() + size_of::<Resident>() + 2 * size_of::<usize>();
        Arc::new(Cached { value, bytes: (bytes + overhead) as u64, part, lives: AtomicU8::new(lives) })
    }
}

impl<T> Deref for Cached<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Cached<T> {
    /// Bytes of memory, bookkeeping included.
    pub fn memory(&self) -> u64 {
        self.bytes
    }
}

/// A block that can be compressed in memory.
pub trait Stored: Send + Sync {
    /// The block's uncompressed bytes.
    fn stored(&self) -> &[u8];
}

impl<T: Stored> Stored for Cached<T> {
    fn stored(&self) -> &[u8] {
        self.value.stored()
    }
}

/// Holds one part of one table, or nothing.
#[derive(Debug)]
pub struct CacheSlot<T>(ArcSwapOption<Cached<T>>);

impl<T> Default for CacheSlot<T> {
    fn default() -> Self {
        CacheSlot(ArcSwapOption::empty())
    }
}

impl<T> CacheSlot<T> {
    /// The part if it is resident. Marks it as used, without a lock, and without a shared write if it is marked already.
    #[inline]
    pub fn load(&self) -> Guard<Option<Arc<Cached<T>>>> {
        let guard = self.0.load();
        if let Some(cached) = guard.as_ref() {
            let lives = cached.part.lives();
            if cached.lives.load(Relaxed) != lives {
                cached.lives.store(lives, Relaxed);
            }
        }
        guard
    }

    /// Takes a life from the part. False if the part has none, or the slot is empty.
    pub fn take_life(&self) -> bool {
        self.0.load().as_ref().is_some_and(|cached| {
            let lives = cached.lives.load(Relaxed);
            cached.lives.store(lives.saturating_sub(1), Relaxed);
            lives > 0
        })
    }

    /// Empties the slot.
    pub fn take(&self) -> Option<Arc<Cached<T>>> {
        self.0.swap(None)
    }
}

/// A part taken out of a slot: its bytes of memory, and the block if it was a data block.
pub type Taken = (u64, Option<Arc<dyn Stored>>);

/// Sums of the parts taken out of all slots of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleared {
    /// Index and filter: bytes of memory, and number of full slots.
    pub outer: (u64, usize),
    /// Data blocks: bytes of memory, and number of full slots.
    pub blocks: (u64, usize),
}

impl Cleared {
    /// Adds a part that a slot had, if any.
    pub fn add<T>(&mut self, part: Option<Arc<Cached<T>>>) {
        let Some(part) = part else { return };
        let sum = if part.part == Part::Data { &mut self.blocks } else { &mut self.outer };
        *sum = (sum.0 + part.bytes, sum.1 + 1);
    }
}

/// The slots of one table. The table chooses their numbers.
pub trait Slots: Send + Sync + fmt::Debug {
    /// The number of the table, which no other table ever has.
    fn number(&self) -> u64;
    /// [`CacheSlot::take_life`] of one slot.
    fn take_life(&self, slot: u32) -> bool;
    /// [`CacheSlot::take`] of one slot.
    fn take(&self, slot: u32) -> Option<Taken>;
    /// Empties all slots.
    fn clear_all(&self) -> Cleared;
    /// The table was deleted: none of its parts may be kept any more.
    fn is_closed(&self) -> bool;
    /// Makes [`Slots::is_closed`] true from now on.
    fn close(&self);
}

/// One entry of the CLOCK.
#[derive(Debug)]
struct Resident {
    table: Weak<dyn Slots>,
    slot: u32,
}

#[derive(Debug, Default)]
struct Clock {
    /// Oldest first. May have entries whose slot is already empty.
    list: VecDeque<Resident>,
    /// Approximate number of entries that [`Cache::forget`] emptied.
    stale: usize,
}

/// A part that was evicted.
struct Victim {
    table: Arc<dyn Slots>,
    slot: u32,
    taken: Taken,
}

impl Victim {
    fn key(&self) -> (u64, u32) {
        (self.table.number(), self.slot)
    }
}

/// Most bytes evicted under one hold of the lock when the budget shrinks: bounds how long readers that miss wait.
const BATCH: u64 = 256 << 10;
/// Longest time that a reader waits for the lock to keep a part. The lock is usually held for some microseconds.
const PATIENCE: Duration = Duration::from_millis(1);

/// Reads of tables from the medium.
#[derive(Debug, Default)]
struct Reads {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Reads {
    fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Number and bytes.
    fn get(&self) -> (u64, u64) {
        (self.count.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// A byte budget shared by data blocks of all tables, and by their indexes and filters if `counts_all`.
#[derive(Debug)]
pub struct Cache {
    /// Budgets of uncompressed parts and of compressed blocks, bytes; their sum is the whole budget.
    plain_capacity: AtomicU64,
    packed_capacity: AtomicU64,
    used: AtomicU64,
    packed_used: AtomicU64,
    /// Indexes and filters count in the budget. Otherwise they stay in memory, and count in `outside`.
    counts_all: bool,
    outside: AtomicU64,
    misses: [AtomicU64; 3],
    reads: [Reads; 2],
    reads_by_temperature: [Reads; Temperature::ALL.len()],
    clock: Mutex<Clock>,
    below: Mutex<Below>,
    /// Share of the budget for compressed blocks; remembered while the capacity is 0. Locked while the capacities change.
    packed_share: Mutex<f64>,
    watch: Watch,
    time: Arc<dyn Time>,
}

impl Cache {
    /// A cache of `capacity` bytes; 0 keeps nothing.
    pub fn new(capacity: u64) -> Arc<Cache> {
        Self::with(capacity, true, Arc::new(ManualClock::default()))
    }

    /// [`Cache::new`] with a clock to measure the cost of misses. `counts_all`: indexes and filters count in the capacity; otherwise they
    /// stay outside of it.
    pub fn with(capacity: u64, counts_all: bool, time: Arc<dyn Time>) -> Arc<Cache> {
        Arc::new(Cache {
            plain_capacity: AtomicU64::new(capacity),
            packed_capacity: AtomicU64::new(0),
            used: AtomicU64::new(0),
            packed_used: AtomicU64::new(0),
            counts_all,
            outside: AtomicU64::new(0),
            misses: Default::default(),
            reads: Default::default(),
            reads_by_temperature: Default::default(),
            clock: Mutex::default(),
            below: Mutex::default(),
            packed_share: Mutex::default(),
            watch: Watch::default(),
            time,
        })
    }

    /// The budget, bytes.
    pub fn capacity(&self) -> u64 {
        self.plain_capacity() + self.packed_capacity()
    }

    /// The budget of everything that is not compressed, bytes.
    pub fn plain_capacity(&self) -> u64 {
        self.plain_capacity.load(Relaxed)
    }

    /// The budget of compressed blocks, bytes.
    pub fn packed_capacity(&self) -> u64 {
        self.packed_capacity.load(Relaxed)
    }

    /// Changes the budget, keeps the proportion of its two parts, and evicts down to it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
    pub fn set_capacity(&self, bytes: u64) {
        let share = self.packed_share.lock();
        self.divide(bytes, (bytes as f64 * *share) as u64);
    }

    /// Changes the budget, of which `packed` bytes are for compressed blocks; evicts down to it.
    pub fn resize(&self, capacity: u64, packed: u64) {
        let mut share = self.packed_share.lock();
        let packed = packed.min(capacity);
        *share = packed as f64 / capacity.max(1) as f64;
        self.divide(capacity, packed);
    }

    /// [`Cache::resize`] for callers that hold the lock of the share.
    fn divide(&self, capacity: u64, packed: u64) {
        let plain = capacity.saturating_sub(packed);
        let before = self.plain_capacity();
        if packed < self.packed_capacity() {
            self.packed_capacity.store(packed, Relaxed);
            self.shrink_packed(&mut self.below.lock());
        }
        self.plain_capacity.fetch_min(plain, Relaxed);
        // The compressed share grows only as the other shrinks, so that both together never exceed the budget.
        loop {
            let mut left = Vec::new();
            let fits = self.make_room(&mut self.clock.lock(), 0, BATCH, &mut left);
            let free = capacity.saturating_sub(self.plain_used().max(plain));
            self.packed_capacity.fetch_max(packed.min(free), Relaxed);
            self.demote(left, None);
            if fits {
                break;
            }
        }
        self.packed_capacity.store(packed, Relaxed);
        self.plain_capacity.store(plain, Relaxed);
        if plain < before {
            slab::trim();
        }
    }

    /// Bytes of indexes and filters that are held outside of the budget.
    pub fn outside(&self) -> u64 {
        self.outside.load(Relaxed)
    }

    /// Bytes held now, bookkeeping included, in both parts.
    pub fn used(&self) -> u64 {
        self.plain_used() + self.packed_used()
    }

    /// Bytes of compressed blocks held now, bookkeeping included.
    pub fn packed_used(&self) -> u64 {
        self.packed_used.load(Relaxed)
    }

    /// Bytes of everything that is not compressed held now, bookkeeping included.
    pub fn plain_used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Number of reads of this kind of part from the medium. Hits are not counted, because a counter that all readers share would cost more
    /// than the lookup; they are the gets minus the misses.
    pub fn misses(&self, part: Part) -> u64 {
        self.misses[part as usize].load(Relaxed)
    }

    /// Counts a read from the medium.
    pub fn count_miss(&self, part: Part) {
        self.misses[part as usize].fetch_add(1, Relaxed);
    }

    /// Number and bytes of reads of tables from the medium, by readers and compactions: of tables of the last level, or of all others.
    pub fn reads(&self, last_level: bool) -> (u64, u64) {
        self.reads[usize::from(last_level)].get()
    }

    /// Number and bytes of reads from the medium of tables that were written as data of `temperature`.
    pub fn reads_of(&self, temperature: Temperature) -> (u64, u64) {
        self.reads_by_temperature[temperature as usize].get()
    }

    /// Counts a read of a table from the medium.
    pub fn count_read(&self, last_level: bool, temperature: Temperature, bytes: u64) {
        self.reads[usize::from(last_level)].add(bytes);
        if temperature != Temperature::Unknown {
            self.reads_by_temperature[temperature as usize].add(bytes);
        }
    }

    /// Notes that a part is not in the cache and will be read from the medium.
    pub fn missed(&self, part: Part, table: &dyn Slots, slot: u32) {
        self.count_miss(part);
        let key = (table.number(), slot);
        if is_watched(key) && self.below.lock().ghosts.take(key).is_some() {
            self.watch.add(&self.watch.ghost_hits, 1);
        }
    }

    /// Returns whether the cache holds a block in compressed form.
    pub fn holds_packed(&self, table: &dyn Slots, slot: u32) -> bool {
        self.packs() && self.below.lock().packed.holds((table.number(), slot))
    }

    /// Takes out a compressed block, for the caller to decompress and keep ([`Cache::keep`]).
    pub fn take_packed(&self, table: &dyn Slots, slot: u32) -> Option<Packed> {
        if self.packed_capacity() == 0 {
            return None;
        }
        let mut below = self.below.lock();
        let packed = below.packed.take((table.number(), slot))?;
        self.packed_used.store(below.packed.bytes(), Relaxed);
        drop(below);
        self.watch.add(&self.watch.unpacked, 1);
        Some(packed)
    }

    /// Returns whether blocks from the medium enter the cache in compressed form.
    pub fn packs(&self) -> bool {
        self.packed_capacity() > 0
    }

    /// Keeps a block from the medium in compressed form, unless its table was forgotten or another reader has kept the block.
    pub fn keep_packed<T>(&self, table: &dyn Slots, number: u32, slot: &CacheSlot<T>, packed: Packed) {
        let mut below = self.below.lock();
        if packed.memory() <= self.packed_capacity() && !table.is_closed() && slot.0.load().is_none() {
            below.packed.put((table.number(), number), packed.memory(), packed);
            self.shrink_packed(&mut below);
        }
    }

    /// Keeps a part from the medium in its slot. Does nothing if the part is larger than the budget of uncompressed parts, if its table was
    /// forgotten, if another reader was faster, or if the lock is not free soon.
    pub fn keep<T>(&self, table: &Arc<impl Slots + 'static>, number: u32, slot: &CacheSlot<T>, part: &Arc<Cached<T>>) {
        let mut left = Vec::new();
        // If the holder of the lock has lost its processor, dropping the part costs less than waiting.
        let Some(mut clock) = self.clock.try_lock_for(PATIENCE) else { return };
        if table.is_closed() || slot.0.load().is_some() {
            return;
        }
        if part.part != Part::Data && !self.counts_all {
            slot.0.store(Some(Arc::clone(part)));
            self.outside.fetch_add(part.bytes, Relaxed);
            return;
        }
        if part.bytes > self.plain_capacity.load(Relaxed) {
            return;
        }
        // Evicts no more than the size of the new part. If the budget was made smaller, `divide` evicts the rest.
        self.make_room(&mut clock, part.bytes, part.bytes, &mut left);
        slot.0.store(Some(Arc::clone(part)));
        self.used.fetch_add(part.bytes, Relaxed);
        let weak: Weak<dyn Slots> = Arc::downgrade(table) as Weak<dyn Slots>;
        clock.list.push_back(Resident { table: weak, slot: number });
        drop(clock);
        self.demote(left, Some((table.number(), number)));
    }

    /// Removes all parts of a table, and keeps none from now on.
    pub fn forget(&self, table: &dyn Slots) {
        let mut clock = self.clock.lock();
        table.close();
        let Cleared { outer, blocks } = table.clear_all();
        self.used.fetch_sub(blocks.0, Relaxed);
        (if self.counts_all { &self.used } else { &self.outside }).fetch_sub(outer.0, Relaxed);
        clock.stale += blocks.1 + if self.counts_all { outer.1 } else { 0 };
        // Amortised: each sweep removes at least as many entries as it keeps.
        if clock.stale * 2 > clock.list.len() {
            clock.list.retain(|resident| resident.table.upgrade().is_some_and(|table| !table.is_closed()));
            clock.stale = 0;
        }
        drop(clock);
        // The table is closed before its compressed blocks are removed, so no reader can add one afterwards.
        let mut below = self.below.lock();
        below.forget(table.number());
        self.packed_used.store(below.packed.bytes(), Relaxed);
    }

    /// Evicts parts until `bytes` more fit, or until `most` bytes were evicted: then returns false, because more may have to go. Adds
    /// evicted parts that are to be compressed or watched to `left`.
    fn make_room(&self, clock: &mut Clock, bytes: u64, most: u64, left: &mut Vec<Victim>) -> bool {
        // Readers may renew lives as fast as they are taken here, so after a few rounds lives no longer protect a part.
        let mut mercy = clock.list.len() * usize::from(Part::Index.lives() + 1);
        let (mut evicted, mut spared) = (0, 0);
        let packs = self.packs();
        while self.plain_used() + bytes > self.plain_capacity.load(Relaxed) {
            if evicted >= most {
                break;
            }
            let Some(resident) = clock.list.pop_front() else { break };
            let Some(table) = resident.table.upgrade() else { continue };
            if mercy > 0 && table.take_life(resident.slot) {
                mercy -= 1;
                spared += 1;
                clock.list.push_back(resident);
            } else if let Some(taken) = table.take(resident.slot) {
                evicted += taken.0;
                self.used.fetch_sub(taken.0, Relaxed);
                if packs || is_watched((table.number(), resident.slot)) {
                    left.push(Victim { table, slot: resident.slot, taken });
                }
            }
        }
        if spared > 0 {
            self.watch.add(&self.watch.spared, spared);
        }
        evicted < most
    }

    /// Compresses evicted blocks, without holding a lock, and keeps them in the compressed share; notes those that leave the cache.
    /// `entered`: a block that is now in its slot, and is removed from the compressed share.
    fn demote(&self, left: Vec<Victim>, entered: Option<(u64, u32)>) {
        let packs = self.packs();
        if left.is_empty() && !packs {
            return;
        }
        let pack = |victim: &Victim| {
            let block = victim.taken.1.as_ref().filter(|_| packs || is_probed(victim.key()))?;
            let packed = Packed::pack(block.stored());
            self.watch.shrunk(victim.taken.0, packed.as_ref().map_or(victim.taken.0, Packed::memory));
            packed.filter(|_| packs)
        };
        let left: Vec<(Victim, Option<Packed>)> = left.into_iter().map(|victim| (pack(&victim), victim)).map(|(p, v)| (v, p)).collect();
        let mut below = self.below.lock();
        if let Some(key) = entered {
            below.packed.take(key);
        }
        for (victim, packed) in left {
            let key = victim.key();
            if victim.table.is_closed() {
                continue;
            }
            match packed.filter(|packed| packed.memory() <= self.packed_capacity()) {
                Some(packed) => below.packed.put(key, packed.memory(), packed),
                None => below.gone(key, victim.taken.0, self.window()),
            }
        }
        self.shrink_packed(&mut below);
    }

    fn shrink_packed(&self, below: &mut Below) {
        below.shrink(self.packed_capacity(), self.window());
        self.packed_used.store(below.packed.bytes(), Relaxed);
    }

    /// Bytes of blocks that left the cache and are still remembered by name.
    fn window(&self) -> u64 {
        self.capacity() / 2
    }

    /// The time now, if the cost of a miss of this block is to be measured.
    pub fn timer(&self, table: &dyn Slots, slot: u32) -> Option<u64> {
        is_watched((table.number(), slot)).then(|| self.time.monotonic_ns())
    }

    /// Notes the end of a miss that began at `start`: the block takes `raw` bytes in memory and `stored` bytes on the medium.
    pub fn time_miss(&self, start: u64, raw: u64, stored: u64) {
        self.watch.miss.add(self.time.monotonic_ns().saturating_sub(start));
        if stored < raw - raw / 8 {
            self.watch.shrunk(raw, stored + packed::OVERHEAD);
        }
    }

    /// Notes the end of a hit of a compressed block that began at `start`, decompression and evictions included.
    pub fn time_unpacked(&self, start: u64) {
        self.watch.unpack.add(self.time.monotonic_ns().saturating_sub(start));
    }

    /// Everything counted so far.
    pub fn signals(&self) -> Signals {
        let ghosts = self.below.lock().ghosts.bytes();
        self.watch.signals(self, self.time.monotonic_ns(), ghosts)
    }
}

#[cfg(test)]
mod tests;
