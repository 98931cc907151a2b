//! Records: 16 bytes of header (`header_check | payload_check | payload_len | synced`, all u32) and the payload. The header has a
//! checksum of its own, so that a flipped length is found out before anything is read by it.
//!
//! From version 2 on, the header's checksum says where the record was written: it is the checksum of the other fields xor the offset. A
//! reader gets the offset back by one xor, and recognises a record that stands elsewhere because bytes before it were inserted or removed.

use crate::checksum::{DbId, Salt};
use sinter_storage::store::{FileId, FileKind};

/// Bytes of a record before its payload.
pub const RECORD_HEADER: usize = 16;

/// Bytes that a record may have moved and still be recognised. At this reach, random bytes pass for the header of a moved record once in
/// 32,768 times that their lengths fit, before the payload's checksum is asked.
pub const REACH: usize = 64 << 10;

/// The salts of one log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Salts {
    header: Salt,
    payload: Salt,
    version: u16,
}

/// A record whose header is right and which lies wholly in the file; the payload has not been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub synced: u32,
    /// Length of the payload.
    pub len: usize,
    /// Where the next record starts.
    pub end: usize,
    /// Where the record was written: at most [`REACH`] from where it stands.
    pub origin: usize,
    payload_check: u32,
}

impl Salts {
    /// Record headers of a manifest are not bound to the database: if the file header, which says what database it is, is gone,
    /// then the watermarks behind it must still be found. Payloads always are.
    pub fn new(db: &DbId, id: FileId, version: u16) -> Self {
        let header_db = if id.kind == FileKind::Manifest { &DbId([0; 16]) } else { db };
        Salts { header: Salt::new(header_db, id), payload: Salt::new(db, id), version }
    }

    /// Fills in the first 16 bytes of `record`, behind which the payload stands already.
    #[inline]
    pub fn seal(self, offset: u32, synced: u32, record: &mut [u8]) {
        let Some((header, payload)) = record.split_first_chunk_mut::<RECORD_HEADER>() else { return };
        header[4..8].copy_from_slice(&self.payload.checksum32(u64::from(offset) + RECORD_HEADER as u64, payload).to_le_bytes());
        header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&synced.to_le_bytes());
        let check = self.header_check(offset, &header[4..]);
        header[..4].copy_from_slice(&check.to_le_bytes());
    }

    /// The check of a header written at `offset`.
    #[inline]
    fn header_check(self, offset: u32, fields: &[u8]) -> u32 {
        match self.version {
            1 => self.header.checksum32(u64::from(offset), fields),
            _ => self.header.checksum32(0, fields) ^ offset,
        }
    }

    /// A header at `offset` that is right and claims `len` bytes of payload.
    #[cfg(test)]
    pub fn claim(self, offset: u32, len: u32) -> [u8; RECORD_HEADER] {
        let mut header = [0; RECORD_HEADER];
        header[8..12].copy_from_slice(&len.to_le_bytes());
        let check = self.header_check(offset, &header[4..]);
        header[..4].copy_from_slice(&check.to_le_bytes());
        header
    }

    /// The record that was written at `offset` of a file of `file_len` bytes and whose header still stands there.
    #[inline]
    pub fn record(self, header: &[u8; RECORD_HEADER], offset: usize, file_len: usize) -> Option<Record> {
        self.found(header, offset, file_len).filter(|record| record.origin == offset)
    }

    /// The record whose header stands at `offset`, there or up to [`REACH`] away from where it was written. Cheap to refuse: a scan asks
    /// this at every byte.
    #[inline]
    pub fn found(self, header: &[u8; RECORD_HEADER], offset: usize, file_len: usize) -> Option<Record> {
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (check, payload_check, len, synced) = (word(0), word(4), word(8) as usize, word(12));
        let room = file_len.checked_sub(offset + RECORD_HEADER)?;
        if len > room || synced as usize > offset + REACH {
            return None;
        }
        let origin = match self.version {
            1 => u32::try_from(offset).ok().filter(|offset| self.header_check(*offset, &header[4..]) == check)?,
            _ => self.header_check(0, &header[4..]) ^ check,
        };
        // No writer knows of durable bytes behind the record it is writing.
        if (origin as usize).abs_diff(offset) > REACH || synced > origin {
            return None;
        }
        Some(Record { synced, len, end: offset + RECORD_HEADER + len, origin: origin as usize, payload_check })
    }

    /// The payload of the record is what was written.
    pub fn payload_is_good(self, record: &Record, payload: &[u8]) -> bool {
        self.payload.checksum32((record.origin + RECORD_HEADER) as u64, payload) == record.payload_check
    }
}
