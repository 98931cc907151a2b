//! The block cache: one byte budget over data blocks, indexes and filters of all tables.
//!
//! There is no hash table. Every table owns a [`Slot`] per part, so a lookup is an array access and a lock-free load (arc-swap: no shared
//! counter is written on a hit). Only misses take the mutex: it guards the list of resident parts, a CLOCK in its second-chance form
//! (Corbató 1968): the oldest part goes, unless it was touched since it last came up, which costs it one of its lives and sends it to the
//! back. Data blocks have one life and start with none, so a scan that touches each block once washes out itself; indexes and filters
//! have several.
//!
//! The list knows tables only weakly: bytes are taken back by whoever empties a slot, the evictor or [`Cache::forget`], exactly once.

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// What a part of a table is, for lives and counters.
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
    /// Lives of a part that is being used.
    fn lives(self) -> u8 {
        match self {
            Part::Data => 1,
            Part::Index | Part::Filter => 4,
        }
    }
}

/// A part in memory, with what the cache must know of it.
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

/// The place of one part of one table.
#[derive(Debug)]
pub struct Slot<T>(ArcSwapOption<Cached<T>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot(ArcSwapOption::empty())
    }
}

impl<T> Slot<T> {
    /// The part if it is resident; marks it used. No lock, no shared write unless the mark was missing.
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

    /// Takes a life; false if there was none to take, or nothing is here.
    pub fn take_life(&self) -> bool {
        self.0.load().as_ref().is_some_and(|cached| {
            let lives = cached.lives.load(Relaxed);
            cached.lives.store(lives.saturating_sub(1), Relaxed);
            lives > 0
        })
    }

    /// Empties the slot; the bytes it held.
    pub fn clear(&self) -> u64 {
        self.0.swap(None).map_or(0, |cached| cached.bytes)
    }
}

/// The slots of one table, numbered as the table likes.
pub trait Slots: Send + Sync + fmt::Debug {
    /// [`Slot::take_life`] of one slot.
    fn take_life(&self, slot: u32) -> bool;
    /// [`Slot::clear`] of one slot.
    fn clear(&self, slot: u32) -> u64;
    /// Empties all slots: the bytes they held, and how many were full.
    fn clear_all(&self) -> (u64, usize);
    /// The table was deleted: nothing more is to be kept for it.
    fn is_closed(&self) -> bool;
    /// From now on [`Slots::is_closed`].
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
    /// Oldest first. May hold entries whose slot is empty by now.
    list: VecDeque<Resident>,
    /// How many entries [`Cache::forget`] emptied, about.
    stale: usize,
}

/// Reads of tables from the medium.
#[derive(Debug, Default)]
struct Reads {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// A byte budget shared by data blocks, indexes and filters of all tables.
#[derive(Debug)]
pub struct Cache {
    capacity: AtomicU64,
    used: AtomicU64,
    misses: [AtomicU64; 3],
    reads: [Reads; 2],
    clock: Mutex<Clock>,
}

impl Cache {
    /// A cache of `capacity` bytes; 0 keeps nothing.
    pub fn new(capacity: u64) -> Arc<Cache> {
        Arc::new(Cache {
            capacity: AtomicU64::new(capacity),
            used: AtomicU64::new(0),
            misses: Default::default(),
            reads: Default::default(),
            clock: Mutex::default(),
        })
    }

    /// The budget, bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Relaxed)
    }

    /// Changes the budget; evicts down to it.
    pub fn set_capacity(&self, bytes: u64) {
        let mut clock = self.clock.lock();
        self.capacity.store(bytes, Relaxed);
        self.make_room(&mut clock, 0);
    }

    /// Bytes held now, bookkeeping included.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// How often a part had to be read from the medium. (Hits are not counted: a counter that all readers share would cost more than the
    /// lookup. Gets minus misses says the same.)
    pub fn misses(&self, part: Part) -> u64 {
        self.misses[part as usize].load(Relaxed)
    }

    /// Counts a read from the medium.
    pub fn count_miss(&self, part: Part) {
        self.misses[part as usize].fetch_add(1, Relaxed);
    }

    /// Reads of tables from the medium, by readers and compactions, and their bytes: of tables of the last level, or of all others.
    pub fn reads(&self, last_level: bool) -> (u64, u64) {
        let reads = &self.reads[usize::from(last_level)];
        (reads.count.load(Relaxed), reads.bytes.load(Relaxed))
    }

    /// Counts a read of a table from the medium.
    pub fn count_read(&self, last_level: bool, bytes: u64) {
        let reads = &self.reads[usize::from(last_level)];
        reads.count.fetch_add(1, Relaxed);
        reads.bytes.fetch_add(bytes, Relaxed);
    }

    /// Keeps a part that had to be read, in its slot. Not if it is larger than the whole budget, if its table was forgotten, or if another
    /// reader was faster.
    pub fn keep<T>(&self, table: &Arc<impl Slots + 'static>, number: u32, slot: &Slot<T>, part: &Arc<Cached<T>>) {
        let mut clock = self.clock.lock();
        if part.bytes > self.capacity() || table.is_closed() || slot.0.load().is_some() {
            return;
        }
        self.make_room(&mut clock, part.bytes);
        slot.0.store(Some(Arc::clone(part)));
        self.used.fetch_add(part.bytes, Relaxed);
        let table: Weak<dyn Slots> = Arc::downgrade(table) as Weak<dyn Slots>;
        clock.list.push_back(Resident { table, slot: number });
    }

    /// Forgets all parts of a table, and keeps no more of them.
    pub fn forget(&self, table: &dyn Slots) {
        let mut clock = self.clock.lock();
        table.close();
        let (bytes, count) = table.clear_all();
        self.used.fetch_sub(bytes, Relaxed);
        clock.stale += count;
        // Amortised: each sweep removes as many entries as it keeps.
        if clock.stale * 2 > clock.list.len() {
            clock.list.retain(|resident| resident.table.upgrade().is_some_and(|table| !table.is_closed()));
            clock.stale = 0;
        }
    }

    /// Evicts until `bytes` more fit.
    fn make_room(&self, clock: &mut Clock, bytes: u64) {
        // Readers may give lives back while we take them: after a few rounds they no longer help.
        let mut mercy = clock.list.len() * usize::from(Part::Index.lives() + 1);
        while self.used() + bytes > self.capacity() {
            let Some(resident) = clock.list.pop_front() else { return };
            let Some(table) = resident.table.upgrade() else { continue };
            if mercy > 0 && table.take_life(resident.slot) {
                mercy -= 1;
                clock.list.push_back(resident);
            } else {
                self.used.fetch_sub(table.clear(resident.slot), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
