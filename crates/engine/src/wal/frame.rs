//! Records: a header (`header_check | payload_check | synced`, all u32, and the length of the payload as a varint: 13 to 17 bytes) and the
//! payload. The header has a checksum of its own, so that a flipped length is found out before anything is read by it. Versions 1 and 2
//! have 16 bytes of header: `header_check | payload_check | payload_len | synced`, all u32.
//!
//! From version 2 on, the header's checksum says where the record was written: it is the checksum of the other fields xor the offset. A
//! reader gets the offset back by one xor, and recognises a record that stands elsewhere because bytes before it were inserted or removed.
//!
//! Zeros are no record: a marker has a watermark, and any other record a length, both within the first 16 bytes.

use crate::checksum::{DbId, Salt};
use crate::coding::Decoder;
use sinter_storage::store::{FileId, FileKind};

/// Most bytes of a record before its payload.
pub const RECORD_HEADER: usize = 17;

/// Bytes of a record before the length of its payload.
const BEFORE_LENGTH: usize = 12;

/// The last version whose headers have 16 bytes.
const LAST_FIXED: u16 = 2;

/// Farthest distance, bytes, from where a record was written at which it is still recognised. With this reach, random bytes whose lengths
/// fit pass for the header of a moved record once in 32,768 times; then the payload's checksum decides.
pub const REACH: usize = 64 << 10;

/// The salts of one log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Salts {
    header: Salt,
    payload: Salt,
    version: u16,
}

/// A record with a valid header that lies wholly in the file; the payload has not been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub synced: u32,
    /// Length of the header.
    pub header: usize,
    /// Length of the payload.
    pub len: usize,
    /// Start of the next record.
    pub end: usize,
    /// Offset at which the record was written: at most [`REACH`] from where it stands.
    pub origin: usize,
    payload_check: u32,
}

/// The first [`RECORD_HEADER`] bytes of `bytes`, padded with zeros; `None` if `bytes` is empty.
#[inline]
pub(super) fn header_at(bytes: &[u8]) -> Option<[u8; RECORD_HEADER]> {
    if let Some(whole) = bytes.first_chunk() {
        return Some(*whole);
    }
    let mut header = [0; RECORD_HEADER];
    header[..bytes.len()].copy_from_slice(bytes);
    (!bytes.is_empty()).then_some(header)
}

/// The lengths of a record's header and payload, as the header claims.
#[inline]
pub(super) fn lengths(version: u16, header: &[u8; RECORD_HEADER]) -> Option<(usize, usize)> {
    if version <= LAST_FIXED {
        return Some((16, u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize));
    }
    let mut from = Decoder::new(&header[BEFORE_LENGTH..]);
    let len = u32::try_from(from.varint()?).ok()?;
    Some((RECORD_HEADER - from.rest().len(), len as usize))
}

impl Salts {
    /// The salts of a file. Record headers of a manifest are not bound to the database: if the file header, which names the database, is
    /// damaged, the watermarks behind it must still be found. Payloads are always bound to the database.
    pub fn new(db: &DbId, id: FileId, version: u16) -> Self {
        let header_db = if id.kind == FileKind::Manifest { &DbId([0; 16]) } else { db };
        Salts { header: Salt::new(header_db, id), payload: Salt::new(db, id), version }
    }

    /// Writes the header in front of the payload, which stands in `record` behind [`RECORD_HEADER`] bytes. Returns where the header begins.
    #[inline]
    pub fn seal(self, offset: u32, synced: u32, record: &mut [u8]) -> usize {
        let Some((space, payload)) = record.split_first_chunk_mut::<RECORD_HEADER>() else { return 0 };
        let (mut header, len) = self.header(synced, payload.len() as u32);
        header[4..8].copy_from_slice(&self.payload_check(offset as usize + len, payload).to_le_bytes());
        let check = self.header_check(offset, &header[4..len]);
        header[..4].copy_from_slice(&check.to_le_bytes());
        space[RECORD_HEADER - len..].copy_from_slice(&header[..len]);
        RECORD_HEADER - len
    }

    /// A header without its checks, and its length.
    #[inline]
    fn header(self, synced: u32, payload_len: u32) -> ([u8; RECORD_HEADER], usize) {
        let mut header = [0; RECORD_HEADER];
        if cfg!(test) && self.version <= LAST_FIXED {
            header[8..12].copy_from_slice(&payload_len.to_le_bytes());
            header[12..16].copy_from_slice(&synced.to_le_bytes());
            return (header, 16);
        }
        header[8..12].copy_from_slice(&synced.to_le_bytes());
        let mut len = BEFORE_LENGTH;
        let mut rest = payload_len;
        while rest >= 0x80 {
            header[len] = rest as u8 | 0x80;
            rest >>= 7;
            len += 1;
        }
        header[len] = rest as u8;
        (header, len + 1)
    }

    #[inline]
    fn payload_check(self, at: usize, payload: &[u8]) -> u32 {
        self.payload.checksum32(at as u64, payload)
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
    pub fn claim(self, offset: u32, len: u32) -> Vec<u8> {
        let (mut header, header_len) = self.header(0, len);
        let check = self.header_check(offset, &header[4..header_len]);
        header[..4].copy_from_slice(&check.to_le_bytes());
        header[..header_len].to_vec()
    }

    /// Offset at which a header of zeros has the right check.
    #[cfg(test)]
    pub fn place_of_zeros(self) -> usize {
        let (_, len) = self.header(0, 0);
        self.header_check(0, &vec![0; len - 4]) as usize
    }

    /// The record that was written at `offset` of a file of `file_len` bytes and whose header still stands there.
    #[inline]
    pub fn record(self, header: &[u8; RECORD_HEADER], offset: usize, file_len: usize) -> Option<Record> {
        self.found(header, offset, file_len).filter(|record| record.origin == offset)
    }

    /// The record whose header stands at `offset`, at most [`REACH`] from where it was written. Refusing is cheap, because a scan calls
    /// this at every byte.
    #[inline]
    pub fn found(self, header: &[u8; RECORD_HEADER], offset: usize, file_len: usize) -> Option<Record> {
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let (check, payload_check) = (word(0), word(4));
        let (header_len, len) = lengths(self.version, header)?;
        let synced = word(if self.version <= LAST_FIXED { 12 } else { 8 });
        let room = file_len.checked_sub(offset + header_len)?;
        if len > room || synced as usize > offset + REACH || (len == 0 && synced == 0) {
            return None;
        }
        let fields = &header[4..header_len];
        let origin = match self.version {
            1 => u32::try_from(offset).ok().filter(|offset| self.header_check(*offset, fields) == check)?,
            _ => self.header_check(0, fields) ^ check,
        };
        // No writer knows of durable bytes behind the record it is writing.
        if (origin as usize).abs_diff(offset) > REACH || synced > origin {
            return None;
        }
        Some(Record { synced, header: header_len, len, end: offset + header_len + len, origin: origin as usize, payload_check })
    }

    /// Returns whether the payload of the record is what was written.
    pub fn payload_is_good(self, record: &Record, payload: &[u8]) -> bool {
        self.payload_check(record.origin + record.header, payload) == record.payload_check
    }
}
