//! Writing a log: one append to the file per record, from one buffer that is reused.

use super::frame::{RECORD_HEADER, Salts};
use super::header::{self, MAX_EXTRA, VERSION};
use crate::checksum::DbId;
use crate::error::{Error, Result};
use sinter_storage::store::{Appender, FileId, Hint, Store, StoreError, SyncBeside};

/// No record may end behind this offset: watermarks are 32 bits wide, and a marker must still fit.
pub const MAX_LOG: u64 = u32::MAX as u64 - RECORD_HEADER as u64;

/// A buffer with more capacity than this, bytes, is freed after its record. Smaller ones are kept while the segment is written: if the
/// allocator mapped a new buffer for each record of 2 MB, page faults would take a quarter of the processor time.
const KEEP_BUFFER: usize = 4 << 20;

/// Writes one log file. After a failed append or sync the writer refuses further calls, because the content of the file is unknown and a
/// second try could acknowledge bytes that the first one lost. One exception: after an append that found no space, a sync is allowed.
pub struct LogWriter {
    out: Box<dyn Appender>,
    id: FileId,
    salts: Salts,
    buffer: Vec<u8>,
    len: u64,
    synced: u64,
    /// Something other than the last marker has been appended since the last sync.
    dirty: bool,
    failed: Option<String>,
    /// An append found no space: only a sync of the records before it is allowed.
    torn: bool,
}

impl LogWriter {
    /// Creates the file and appends its header with the content `extra` (at most 64 KiB). Neither the bytes nor the name are durable yet.
    /// `Invalid` if `extra` is too long; otherwise errors of the store.
    pub fn create(store: &dyn Store, db: DbId, id: FileId, hint: &Hint, extra: &[u8]) -> Result<Self> {
        Self::create_as(VERSION, store, db, id, hint, extra)
    }

    /// [`LogWriter::create`] in the form of a version; tests write old ones.
    pub(crate) fn create_as(version: u16, store: &dyn Store, db: DbId, id: FileId, hint: &Hint, extra: &[u8]) -> Result<Self> {
        if extra.len() > MAX_EXTRA {
            return Err(Error::invalid(format!(
                "the header of {id} has {} bytes of content, at most {MAX_EXTRA} are allowed",
                extra.len()
            )));
        }
        let mut buffer = Vec::new();
        header::encode(version, &db, id, extra, &mut buffer);
        let mut out = store.create(id, hint)?;
        out.append(&buffer)?;
        let len = buffer.len() as u64;
        Ok(LogWriter { out, id, salts: Salts::new(&db, id, version), buffer, len, synced: 0, dirty: true, failed: None, torn: false })
    }

    /// Appends one record with one write; the bytes are in the kernel when this returns. `Invalid` for an empty payload and for a record
    /// that would end behind [`MAX_LOG`], and then the writer stays usable; any other error ends the writer.
    #[inline]
    pub fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.append_with(|out| out.extend_from_slice(payload))
    }

    /// [`LogWriter::append`] of the concatenation of `parts`.
    #[inline]
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.append_with(|out| parts.iter().for_each(|part| out.extend_from_slice(part)))
    }

    /// [`LogWriter::append`] of the bytes that `build` adds to the end of the given buffer; it must not change the bytes before.
    #[inline]
    pub fn append_with(&mut self, build: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.check_alive()?;
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; RECORD_HEADER]);
        build(&mut self.buffer);
        if self.buffer.len() <= RECORD_HEADER {
            return Err(Error::invalid(format!("an empty record for {}", self.id)));
        }
        if self.len + self.buffer.len() as u64 > MAX_LOG {
            return Err(Error::invalid(format!("{} is full: it has {} bytes, the record {}", self.id, self.len, self.buffer.len())));
        }
        self.dirty = true;
        self.write()
    }

    /// Makes all records durable, then appends a marker with the new watermark, which is not synced itself. Does nothing if no record was
    /// appended since the last sync. Any error ends the writer; then no record since the last good sync may be acknowledged as durable.
    pub fn sync(&mut self) -> Result<()> {
        if !self.torn {
            self.check_alive()?;
        }
        if !self.dirty {
            return Ok(());
        }
        let outcome = self.out.sync();
        if let Err(error) = self.note(outcome) {
            self.torn = false;
            return Err(error);
        }
        self.synced = self.len;
        self.dirty = false;
        if self.torn {
            return Ok(());
        }
        self.mark()
    }

    /// A sync of all records so far that can run while more are appended, and the length to pass to [`LogWriter::synced_beside`] after it
    /// succeeded. `None` if the store cannot do that. After a failed sync the writer must not be used.
    pub fn sync_beside(&self) -> Option<(SyncBeside, u64)> {
        let alive = self.failed.is_none();
        alive.then(|| self.out.sync_beside()).flatten().map(|sync| (sync, self.len))
    }

    /// Notes that the first `end` bytes are durable. Later records carry that watermark; if there are none yet, appends a marker.
    pub fn synced_beside(&mut self, end: u64) -> Result<()> {
        if end <= self.synced {
            return Ok(());
        }
        self.synced = end;
        if self.len > end || self.failed.is_some() {
            return Ok(());
        }
        self.dirty = false;
        self.mark()
    }

    /// Appends a marker: a record without payload that carries the watermark.
    fn mark(&mut self) -> Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; RECORD_HEADER]);
        self.write()
    }

    /// Returns whether a record has been appended since the last sync.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Closes the file and removes zeros that were written ahead. Makes nothing durable.
    pub fn close(self) -> Result<()> {
        self.check_alive()?;
        Ok(self.out.close()?)
    }

    /// File length so far, bytes.
    #[expect(clippy::len_without_is_empty, reason = "a log has its header from the start")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Length up to the end of the last record, bytes: without a marker behind it, which need not become durable.
    pub fn records_len(&self) -> u64 {
        if self.dirty { self.len } else { self.synced }
    }

    /// Bytes known to be durable; 0 before the first sync.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Returns whether an append or a sync failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Id of the file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Pretends that the file is `len` bytes long.
    #[cfg(test)]
    pub(super) fn pretend_len(&mut self, len: u64) {
        self.len = len;
    }

    /// Completes the record in the buffer and appends it. Lengths are below [`MAX_LOG`] or a marker behind it, so they fit 32 bits.
    #[inline]
    fn write(&mut self) -> Result<()> {
        let start = self.salts.seal(self.len as u32, self.synced as u32, &mut self.buffer);
        let record = self.buffer.get(start..).unwrap_or_default();
        let written = record.len() as u64;
        let outcome = self.out.append(record);
        self.torn = outcome.as_ref().is_err_and(StoreError::is_no_space);
        self.note(outcome)?;
        self.len += written;
        if self.buffer.capacity() > KEEP_BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    #[inline]
    fn check_alive(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(Error::Closed(format!("{} failed before: {why}", self.id))),
        }
    }

    #[inline]
    fn note(&mut self, outcome: sinter_storage::store::Result<()>) -> Result<()> {
        outcome.map_err(|error| {
            self.failed = Some(error.to_string());
            error.into()
        })
    }
}
