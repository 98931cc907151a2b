//! The ordered memtable. STUB

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Kind, Seq};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Recycles arena chunks between memtables, so that a new memtable costs no page faults.
#[derive(Debug, Default)]
pub struct ChunkPool {}

/// Point entries of one memtable: an ordered map from (key, trailer) to value. One writer at a time; readers never wait.
#[derive(Debug)]
pub struct Memtable {}

impl Memtable {
    /// An empty memtable that draws its memory from `pool`.
    pub fn new(_pool: Arc<ChunkPool>) -> Arc<Memtable> {
        unimplemented!()
    }

    /// The right to insert. There is one; taking it twice at the same time is a bug of the caller and panics.
    pub fn writer(self: &Arc<Self>) -> MemtableWriter {
        unimplemented!()
    }

    /// Visits the versions of `key` with sequence number `<= snapshot`, newest first, until `visit` breaks.
    pub fn get(&self, _key: &[u8], _snapshot: Seq, _visit: impl FnMut(Seq, Kind, &[u8]) -> ControlFlow<()>) {
        unimplemented!()
    }

    /// Walks all entries. The cursor keeps the memtable alive. Entries inserted after a cursor reached a place may or may not be seen.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        unimplemented!()
    }

    /// Bytes taken from the pool.
    pub fn memory(&self) -> usize {
        unimplemented!()
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        unimplemented!()
    }

    /// No entry was inserted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The one writer of a memtable.
#[derive(Debug)]
pub struct MemtableWriter {}

impl MemtableWriter {
    /// Adds an entry. `(key, seq)` must be new.
    pub fn insert(&mut self, _key: &[u8], _seq: Seq, _kind: Kind, _value: &[u8]) {
        unimplemented!()
    }
}

/// A position in a memtable.
#[derive(Debug)]
pub struct MemtableCursor {}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn seek_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn seek(&mut self, _key: &[u8], _trailer: u64) -> Result<()> {
        unimplemented!()
    }
    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    fn next(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn prev(&mut self) -> Result<()> {
        unimplemented!()
    }
    fn valid(&self) -> bool {
        unimplemented!()
    }
    fn key(&self) -> &[u8] {
        unimplemented!()
    }
    fn trailer(&self) -> u64 {
        unimplemented!()
    }
    fn value(&self) -> &[u8] {
        unimplemented!()
    }
}
