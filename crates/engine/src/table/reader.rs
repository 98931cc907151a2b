//! STUB
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Kind, Seq};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use sinter_storage::store::Store;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How a read treats the cache. Checksums are always verified when bytes come from the medium.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Keep blocks that had to be read.
    pub fill_cache: bool,
    /// Read ahead so many bytes on sequential access; 0: one block at a time.
    pub readahead: usize,
}
impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fill_cache: true, readahead: 0 }
    }
}

/// What a table says about itself. Stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableProperties {}

/// An open table. Cheap to keep: index and filter are read on first use and live in the cache.
#[derive(Debug)]
pub struct Table {}

impl Table {
    /// Opens a table and checks footer and properties against what the manifest says of it.
    pub fn open(_store: &dyn Store, _db: DbId, _info: Arc<TableInfo>, _cache: &Arc<Cache>) -> Result<Arc<Table>> {
        unimplemented!()
    }
    /// What the manifest says.
    pub fn info(&self) -> &Arc<TableInfo> {
        unimplemented!()
    }
    /// The hash of a key, computed once per get and used by filters and block tags of all tables.
    pub fn hash(_key: &[u8]) -> u64 {
        unimplemented!()
    }
    /// Visits the point versions of `key` with sequence number `<= snapshot`, newest first, until `visit` breaks.
    pub fn get(
        &self,
        _key: &[u8],
        _hash: u64,
        _snapshot: Seq,
        _options: ReadOptions,
        _visit: impl FnMut(Seq, Kind, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Starts to fetch into the CPU's caches what `get` will touch first (filter line, index): for batches of gets. Never blocks on the medium.
    pub fn prefetch(&self, _key: &[u8], _hash: u64) {
        unimplemented!()
    }
    /// Its range tombstones; shared and empty for most tables, without reading the medium.
    pub fn range_tombstones(&self) -> Result<Arc<RangeTombstones>> {
        unimplemented!()
    }
    /// A cursor for reads, through the cache.
    pub fn cursor(self: &Arc<Self>, _options: ReadOptions) -> TableCursor {
        unimplemented!()
    }
    /// A forward cursor for compactions: large sequential reads, nothing kept in the cache; only `seek_first`, `seek` and `next` work.
    pub fn scan(self: &Arc<Self>) -> ScanCursor {
        unimplemented!()
    }
    /// User keys that cut the table into about `pieces` pieces of equal bytes (from its index): for splitting compactions.
    pub fn split_points(&self, _pieces: usize) -> Result<Vec<Vec<u8>>> {
        unimplemented!()
    }
    /// Approximate file offset of a key: for sizes of ranges.
    pub fn approximate_offset(&self, _key: &[u8]) -> Result<u64> {
        unimplemented!()
    }
    /// Reads everything and verifies every checksum, the order of keys, and the properties against the contents.
    pub fn verify(self: &Arc<Self>) -> Result<()> {
        unimplemented!()
    }
    /// What the file says about itself.
    pub fn properties(&self) -> Result<TableProperties> {
        unimplemented!()
    }
    /// Forgets its blocks in the cache: the table was deleted.
    pub fn forget(&self) {
        unimplemented!()
    }
}

/// A position in a table.
pub struct TableCursor {}
/// A forward position in a table, for compactions.
pub struct ScanCursor {}

macro_rules! stub_cursor {
    ($name:ty) => {
        impl Cursor for $name {
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
    };
}
stub_cursor!(TableCursor);
stub_cursor!(ScanCursor);
