//! The ordered memtable: a B+tree of 64-way nodes over an arena that holds keys and values. Inserting allocates nothing per entry, and a
//! step of a walk is a step in an array. (A skip list pays a dependent cache miss per level: six times slower to insert, twenty times
//! to walk.) One writer at a time; readers take no lock and never keep the writer waiting.
//!
//! `arena` is the memory, `node` one node and its version check, `tree` the readers' descent, `insert` the writer.

mod arena;
mod insert;
mod node;
mod sync;
#[cfg(test)]
mod tests;
mod tree;

pub use arena::ChunkPool;
pub use insert::LeafHint;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{self, Kind, Seq};
use arena::{Arena, Entry};
use insert::Writer;
use node::SearchKey;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use sync::{AtomicU64, Ordering};
use tree::{BPlusTree, Goal, LeafCopy};

/// Number of entries ahead of a cursor that are prefetched into the processor's cache.
const AHEAD: usize = 8;

/// Point entries of one memtable: an ordered map from (key, trailer) to value. One writer at a time; readers never wait for a lock.
#[derive(Debug)]
pub struct Memtable {
    tree: BPlusTree,
    len: AtomicU64,
    /// The writer's state; `None` while a [`MemtableWriter`] has it.
    writer: Mutex<Option<Writer>>,
}

impl Memtable {
    /// An empty memtable that draws its memory from `pool`, from the first insertion on, and gives it back when dropped.
    pub fn new(pool: Arc<ChunkPool>) -> Arc<Memtable> {
        let (arena, fill) = Arena::new(pool);
        Arc::new(Memtable { tree: BPlusTree::new(arena), len: AtomicU64::new(0), writer: Mutex::new(Some(Writer::new(fill))) })
    }

    /// The writer of the memtable. Panics if another one exists.
    pub fn writer(self: &Arc<Self>) -> MemtableWriter {
        let writer = self.writer.lock().take();
        MemtableWriter { memtable: Arc::clone(self), writer: Some(writer.expect("a memtable has one writer at a time")) }
    }

    /// Visits the versions of `key` with sequence number `<= snapshot`, newest first, until `visit` breaks. The values live as long as
    /// the memtable. Entries inserted meanwhile may or may not be visited.
    pub fn get<'a>(&'a self, key: &[u8], snapshot: Seq, mut visit: impl FnMut(Seq, Kind, &'a [u8]) -> ControlFlow<()>) {
        let mut visit =
            |entry: Entry<'a>| entry.key == key && visit(key::seq_of(entry.trailer), kind(entry.trailer), entry.value).is_continue();
        // Most searches end with the newest version, so it is read without copying its leaf.
        let Some(newest) = self.tree.first_at_or_after(SearchKey { key, trailer: key::upper(snapshot) }) else { return };
        let newest = self.tree.entry(newest);
        if !visit(newest) || newest.trailer == 0 {
            return;
        }
        let mut found = self.tree.leaf(Goal::AtOrAfter(SearchKey { key, trailer: newest.trailer - 1 }));
        while let Some((leaf, mut at)) = found {
            while let Some(entry) = leaf.entry(at) {
                if !visit(self.tree.entry(entry)) {
                    return;
                }
                at += 1;
            }
            found = self.tree.leaf_after(&leaf).map(|leaf| (leaf, 0));
        }
    }

    /// Prefetches the leaf in which `key` would be. The first step before a lookup.
    pub fn expect(&self, key: &[u8]) {
        self.tree.expect(newest(key));
    }

    /// Prefetches the newest entry of `key`, if there is one. The second step, some time after [`Memtable::expect`].
    pub fn expect_entry(&self, key: &[u8]) {
        self.tree.expect_entry(newest(key));
    }

    /// A cursor over all entries, which keeps the memtable alive. It may or may not see entries inserted after its creation.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor { memtable: Arc::clone(self), leaf: LeafCopy::EMPTY, at: 0 }
    }

    /// Bytes used by entries, nodes and unused ends of finished chunks. Never falls. Up to two chunks (2 MiB) more are allocated.
    pub fn memory(&self) -> usize {
        self.tree.arena.used()
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether no entry was inserted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The position before all versions of a key.
fn newest(key: &[u8]) -> SearchKey<'_> {
    SearchKey { key, trailer: u64::MAX }
}

fn kind(trailer: u64) -> Kind {
    key::kind_of(trailer).expect("entries are inserted with a kind")
}

/// The one writer of a memtable.
#[derive(Debug)]
pub struct MemtableWriter {
    memtable: Arc<Memtable>,
    /// `Some` until dropped.
    writer: Option<Writer>,
}

impl MemtableWriter {
    /// Prefetches the leaf into which the newest version of `key` will be inserted, and returns the leaf for
    /// [`MemtableWriter::insert_at`]. The first step before an insertion.
    pub fn expect(&self, key: &[u8]) -> Option<LeafHint> {
        self.memtable.tree.place(self.writer.as_ref()?, newest(key))
    }

    /// Prefetches the entry with which the key will be compared. The second step, some time after [`MemtableWriter::expect`].
    pub fn expect_entry(&self, place: LeafHint, key: &[u8]) {
        self.writer.iter().for_each(|writer| self.memtable.tree.expect_at(writer, place, newest(key)));
    }

    /// Adds an entry. `(key, seq)` must be new. Panics if a length does not fit 32 bits, or if the memtable uses up its 32-bit references
    /// (at 8 to 32 GiB, depending on the sizes of the entries).
    pub fn insert(&mut self, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        self.insert_at(None, key, seq, kind, value);
    }

    /// Adds the newest version of a key to the leaf that [`MemtableWriter::expect`] returned for it, if the hint is still valid. Panics as
    /// `insert` does.
    pub fn insert_at(&mut self, place: Option<LeafHint>, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        let writer = self.writer.as_mut().expect("a writer is kept until the drop");
        self.memtable.tree.insert(writer, place, key, key::trailer(seq, kind), value);
        // Only the writer stores, so no read-modify-write is needed.
        self.memtable.len.store(self.memtable.len.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Drop for MemtableWriter {
    fn drop(&mut self) {
        *self.memtable.writer.lock() = self.writer.take();
    }
}

/// A position in a memtable. The cursor holds a copy of its leaf's references, so later insertions and splits do not affect it.
#[derive(Debug)]
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    leaf: LeafCopy,
    at: usize,
}

impl MemtableCursor {
    /// Moves to slot `at` of a leaf, or to the first entry of the next leaf if the slot is empty.
    fn enter(&mut self, found: Option<(LeafCopy, usize)>) {
        (self.leaf, self.at) = found.unwrap_or((LeafCopy::EMPTY, 0));
        if self.leaf.entry(self.at).is_none() {
            self.at = 0;
            self.leaf = self.memtable.tree.leaf_after(&self.leaf).unwrap_or(LeafCopy::EMPTY);
        }
        (self.at..self.at + AHEAD).for_each(|at| self.prefetch(at));
    }

    /// Moves to the entry before slot `at` of a leaf.
    fn enter_before(&mut self, found: Option<(LeafCopy, usize)>) {
        let before = found.and_then(|(leaf, at)| Some((leaf, at.checked_sub(1)?)));
        (self.leaf, self.at) = before.unwrap_or((LeafCopy::EMPTY, 0));
    }

    #[inline]
    fn prefetch(&self, at: usize) {
        if let Some(entry) = self.leaf.entry(at) {
            self.memtable.tree.arena.prefetch(entry);
        }
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        self.memtable.tree.entry(self.leaf.entry(self.at).expect("only asked of a valid cursor"))
    }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.enter(self.memtable.tree.leaf(Goal::First));
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.enter_before(self.memtable.tree.leaf(Goal::End));
        Ok(())
    }

    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        self.enter(self.memtable.tree.leaf(Goal::AtOrAfter(SearchKey { key, trailer })));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.enter_before(self.memtable.tree.leaf(Goal::Before(SearchKey { key, trailer: u64::MAX })));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        if self.leaf.entry(self.at).is_some() {
            self.prefetch(self.at + AHEAD);
        } else {
            let next = self.memtable.tree.leaf_after(&self.leaf);
            self.enter(next.map(|leaf| (leaf, 0)));
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if let Some(before) = self.at.checked_sub(1) {
            self.at = before;
            self.at.checked_sub(AHEAD).into_iter().for_each(|at| self.prefetch(at));
        } else {
            let Entry { key, trailer, .. } = self.entry();
            let before = self.memtable.tree.leaf(Goal::Before(SearchKey { key, trailer }));
            self.enter_before(before);
        }
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.leaf.entry(self.at).is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key
    }

    #[inline]
    fn trailer(&self) -> u64 {
        self.entry().trailer
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value
    }
}
