//! The framed log: one format for the write-ahead log and the manifest. STUB

use crate::checksum::DbId;
use crate::error::Result;
use sinter_storage::store::{FileId, Hint, Store};

/// Writes one log file.
pub struct LogWriter {}

impl LogWriter {
    /// Creates the file and appends its header with `extra` (at most 64 KiB; the log's own first words). Not yet durable.
    pub fn create(_store: &dyn Store, _db: DbId, _id: FileId, _hint: &Hint, _extra: &[u8]) -> Result<Self> {
        unimplemented!()
    }
    /// Appends one record (one write to the medium). In the kernel when it returns.
    pub fn append(&mut self, _payload: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Makes all records durable, then appends a watermark that says so (the watermark itself is not synced).
    /// After an error the writer refuses everything.
    pub fn sync(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// File length so far, bytes.
    pub fn len(&self) -> u64 {
        unimplemented!()
    }
    /// Which file.
    pub fn id(&self) -> FileId {
        unimplemented!()
    }
}

/// How a log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// Length of the good part, bytes.
    pub good: u64,
    /// Unsynced bytes behind it that were cut; 0 for a clean end.
    pub cut_bytes: u64,
    /// Records found in the cut part (valid ones behind the first damage).
    pub cut_records: u64,
    /// Largest synced watermark seen.
    pub synced: u64,
}

/// One log file, read whole. Damage below the synced watermark is `Corrupt`; above it the tail is cut and reported in `end`.
pub struct Log {
    /// What [`LogWriter::create`] was given; `None` if the (never synced) header was torn: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// Offset and payload of each record, in order.
    pub records: Vec<(u64, Vec<u8>)>,
    /// How it ended.
    pub end: LogEnd,
}

/// Reads a log file.
pub fn read_log(_store: &dyn Store, _db: Option<DbId>, _id: FileId) -> Result<Log> {
    unimplemented!()
}
