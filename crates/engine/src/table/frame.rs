//! The frame around every block of a table file:
//!
//! ```text
//! payload
//! u32   raw length       only if the codec is not 0
//! u8    codec
//! u64   checksum of all before, at this offset of this file of this database
//! ```
//!
//! The checksum is verified before anything else is believed. A claimed raw length must be one that the codec can reach, and no more than
//! the table's largest block has as far as its properties know, or, in tables that do not say, than all blocks together: memory is taken
//! for nothing else.

use crate::cache::Packed;
use crate::checksum::Salt;
use crate::codec::{self, Codec, Dictionary};
use crate::error::{Error, Result};
use sinter_storage::store::{FileId, ReadAt};
use std::cell::RefCell;
use std::ops::Range;
use std::thread::LocalKey;

/// Ends the frame of the payload that starts at `start` of `buffer` and will stand at `offset` of the file; its checksum.
pub(super) fn seal(salt: Salt, offset: u64, buffer: &mut Vec<u8>, start: usize, packed: Option<(Codec, u32)>) -> u64 {
    if let Some((_, raw)) = packed {
        buffer.extend_from_slice(&raw.to_le_bytes());
    }
    buffer.push(packed.map_or(Codec::None, |(codec, _)| codec) as u8);
    let checksum = salt.checksum(offset, &buffer[start..]);
    buffer.extend_from_slice(&checksum.to_le_bytes());
    checksum
}

/// A verified frame.
#[derive(Debug)]
pub(super) struct Frame {
    /// The payload, counted from the start of the frame.
    pub payload: Range<usize>,
    /// Compression of the payload.
    pub codec: Codec,
    /// Length of the payload when decompressed, bytes.
    pub raw: usize,
    /// Checksum of the frame.
    pub checksum: u64,
}

/// A verified frame's contents.
pub(super) struct Lent<'a> {
    /// The payload, decompressed.
    pub raw: &'a [u8],
    /// Codec and payload as they stand in the file, if it is compressed.
    pub packed: Option<(Codec, &'a [u8])>,
}

/// One file to read frames from.
#[derive(Debug)]
pub(super) struct Frames {
    pub id: FileId,
    pub file: std::sync::Arc<dyn ReadAt>,
    pub salt: Salt,
    /// Most bytes that a data block may claim to have when decompressed; 0 until the bound is known.
    pub most_raw: u64,
}

impl Frames {
    /// Damage in this file.
    pub fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(self.id, offset, what)
    }

    /// Verifies the frame that was read from `offset`.
    pub fn verify(&self, offset: u64, frame: &[u8]) -> Result<Frame> {
        let Some((body, stored)) = frame.split_last_chunk::<8>() else {
            return Err(self.corrupt(offset, "a block is shorter than its trailer"));
        };
        let checksum = u64::from_le_bytes(*stored);
        if self.salt.checksum(offset, body) != checksum {
            return Err(self.corrupt(offset, "the checksum of a block does not match"));
        }
        let Some((&codec, body)) = body.split_last() else {
            return Err(self.corrupt(offset, "a block is shorter than its trailer"));
        };
        let Some(codec) = Codec::from_byte(codec) else {
            return Err(self.corrupt(offset, "a block has an unknown codec"));
        };
        if codec == Codec::None {
            return Ok(Frame { payload: 0..body.len(), codec, raw: body.len(), checksum });
        }
        let (payload, raw) = body
            .split_last_chunk::<4>()
            .map(|(payload, raw)| (payload, u32::from_le_bytes(*raw) as usize))
            .filter(|(payload, raw)| codec.plausible(payload.len(), *raw) && *raw as u64 <= self.most_raw)
            .ok_or_else(|| self.corrupt(offset, "a block claims an impossible length"))?;
        Ok(Frame { payload: 0..payload.len(), codec, raw, checksum })
    }

    /// Decompresses a verified frame into `out`, which is as long as its raw length.
    pub fn unpack(&self, offset: u64, frame: &Frame, bytes: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Result<()> {
        if let Some(missing) = frame.codec.missing() {
            return Err(Error::invalid(format!("{} at offset {offset}: {missing}", self.id)));
        }
        bytes
            .get(frame.payload.clone())
            .and_then(|payload| codec::decompress(frame.codec, dictionary, payload, out))
            .ok_or_else(|| self.corrupt(offset, "a block does not decompress"))
    }

    /// Reads bytes of the file. `length` has been checked against the file's own length.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The payload of a frame that has been read and is not compressed, in a vector of its own.
    pub fn plain(&self, offset: u64, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let frame = self.verify(offset, &bytes)?;
        if frame.codec != Codec::None {
            return Err(self.corrupt(offset, "a section is compressed"));
        }
        bytes.truncate(frame.raw);
        Ok(bytes)
    }

    /// Verifies a frame that has been read and lends its decompressed payload to `use_it`, with codec and payload as they were read if it
    /// is compressed.
    pub fn lend<T>(&self, offset: u64, bytes: &[u8], dictionary: Option<&Dictionary>, use_it: impl FnOnce(Lent<'_>) -> T) -> Result<T> {
        let frame = self.verify(offset, bytes)?;
        let payload = bytes.get(frame.payload.clone()).unwrap_or_default();
        if frame.codec == Codec::None {
            return Ok(use_it(Lent { raw: payload, packed: None }));
        }
        with_scratch(&UNPACKED, frame.raw, |raw| {
            self.unpack(offset, &frame, bytes, dictionary, raw)?;
            Ok(use_it(Lent { raw, packed: Some((frame.codec, payload)) }))
        })
    }

    /// Reads a frame and lends it as [`Frames::lend`] does. `length` has been checked against the file's own length.
    pub fn read_and_lend<T>(
        &self,
        offset: u64,
        length: usize,
        dictionary: Option<&Dictionary>,
        use_it: impl FnOnce(Lent<'_>) -> T,
    ) -> Result<T> {
        with_scratch(&READ, length, |bytes| {
            self.file.read_at(offset, bytes)?;
            self.lend(offset, bytes, dictionary, use_it)
        })
    }
}

/// Decompresses a block that the cache kept compressed and lends it to `use_it`; `None` if it does not decompress.
pub(super) fn lend_packed<T>(packed: &Packed, dictionary: Option<&Dictionary>, use_it: impl FnOnce(&[u8]) -> T) -> Option<T> {
    with_scratch(&UNPACKED, packed.raw as usize, |raw| {
        codec::decompress(packed.codec, dictionary, &packed.bytes, raw)?;
        Some(use_it(raw))
    })
}

thread_local! {
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static UNPACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers than this are not kept by their thread.
const KEPT: usize = 1 << 20;

/// Lends a buffer of `length` bytes with any contents. Each thread keeps its own: two allocations per block that misses the cache were a
/// tenth of the miss.
fn with_scratch<T>(scratch: &'static LocalKey<RefCell<Vec<u8>>>, length: usize, use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    scratch.with_borrow_mut(|buffer| {
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let result = use_it(&mut buffer[..length]);
        if buffer.len() > KEPT {
            *buffer = Vec::new();
        }
        result
    })
}
