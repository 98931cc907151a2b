//! STUB
use crate::checksum::DbId;
use crate::codec::Compression;
use crate::error::Result;
use crate::key::Seq;
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use sinter_storage::store::{Appender, FileId};

/// How a table is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableOptions {
    /// Uncompressed size of a data block, bytes.
    pub block_size: u32,
    /// Filter bits per key; 0 for none.
    pub bloom_bits_per_key: f64,
    /// Compression of data blocks.
    pub compression: Compression,
}

/// Writes one table, entries in order.
pub struct TableBuilder {}

impl TableBuilder {
    /// Starts a table on an empty file.
    pub fn new(_db: DbId, _id: FileId, _out: Box<dyn Appender>, _options: TableOptions) -> Self {
        unimplemented!()
    }
    /// Adds an entry, greater than the last one by (key asc, trailer desc). `original_seq` counts into the table's sequence range, where
    /// `trailer` may have been zeroed.
    pub fn add(&mut self, _key: &[u8], _trailer: u64, _value: &[u8], _original_seq: Seq) -> Result<()> {
        unimplemented!()
    }
    /// Bytes written or about to be.
    pub fn estimated_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Point entries added.
    pub fn entries(&self) -> u64 {
        unimplemented!()
    }
    /// Writes range tombstones, index, filter, properties and footer, and seals the file (durable; its name is not yet). `times` are the
    /// oldest and newest write time, unix seconds. The range of the result covers the tombstones.
    pub fn finish(self, _tombstones: &RangeTombstones, _times: (u64, u64)) -> Result<TableInfo> {
        unimplemented!()
    }
}
