//! Records: 16 bytes of header (`header_check | payload_check | payload_len | synced`, all u32) and the payload. The header has a
//! checksum of its own, so that a flipped length is found out before anything is read by it.

use crate::checksum::{DbId, Salt};
use sinter_storage::store::{FileId, FileKind};

/// Bytes of a record before its payload.
pub const RECORD_HEADER: usize = 16;

/// The salts of one log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Salts {
    header: Salt,
    payload: Salt,
}

/// A record whose header is right and which lies wholly in the file; the payload has not been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub synced: u32,
    /// Length of the payload.
    pub len: usize,
    /// Where the next record starts.
    pub end: usize,
    payload_check: u32,
}

impl Salts {
    /// Record headers of a manifest are not bound to the database: if the file header, which says what database it is, is gone,
    /// then the watermarks behind it must still be found. Payloads always are.
    pub fn new(db: &DbId, id: FileId) -> Self {
        let header_db = if id.kind == FileKind::Manifest { &DbId([0; 16]) } else { db };
        Salts { header: Salt::new(header_db, id), payload: Salt::new(db, id) }
    }

    /// Fills in the first 16 bytes of `record`, behind which the payload stands already.
    #[inline]
    pub fn seal(self, offset: u32, synced: u32, record: &mut [u8]) {
        let Some((header, payload)) = record.split_first_chunk_mut::<RECORD_HEADER>() else { return };
        let offset = u64::from(offset);
        header[4..8].copy_from_slice(&self.payload.checksum32(offset + RECORD_HEADER as u64, payload).to_le_bytes());
        header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&synced.to_le_bytes());
        let check = self.header.checksum32(offset, &header[4..]);
        header[..4].copy_from_slice(&check.to_le_bytes());
    }

    /// A header at `offset` that is right and claims `len` bytes of payload.
    #[cfg(test)]
    pub fn claim(self, offset: u32, len: u32) -> [u8; RECORD_HEADER] {
        let mut header = [0; RECORD_HEADER];
        header[8..12].copy_from_slice(&len.to_le_bytes());
        let check = self.header.checksum32(u64::from(offset), &header[4..]);
        header[..4].copy_from_slice(&check.to_le_bytes());
        header
    }

    /// The record whose header stands at `offset` of a file of `file_len` bytes. Cheap to refuse: a scan asks this at every byte.
    #[inline]
    pub fn record(self, header: &[u8; RECORD_HEADER], offset: usize, file_len: usize) -> Option<Record> {
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (check, payload_check, len, synced) = (word(0), word(4), word(8) as usize, word(12));
        let room = file_len.checked_sub(offset + RECORD_HEADER)?;
        // No writer knows of durable bytes behind the record it is writing.
        if len > room || synced as usize > offset || self.header.checksum32(offset as u64, &header[4..]) != check {
            return None;
        }
        Some(Record { synced, len, end: offset + RECORD_HEADER + len, payload_check })
    }

    /// The payload of the record at `offset` is what was written.
    pub fn payload_is_good(self, offset: usize, record: &Record, payload: &[u8]) -> bool {
        self.payload.checksum32((offset + RECORD_HEADER) as u64, payload) == record.payload_check
    }
}
