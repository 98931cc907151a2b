//! Lengths and strings, read one after the other from any source.

use super::lzf;
use super::{Error, Result, STRING_MAX, crc64};
use crate::number::integer_text;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Meaning of the first bytes of a string or of a count.
enum Prefix {
    /// A length.
    Length(u64),
    /// A string in another encoding than its bytes.
    Encoded(u8),
}

/// Encodings of strings: numbers of one, two and four bytes, and LZF.
const INTEGER_8: u8 = 0;
const INTEGER_16: u8 = 1;
const INTEGER_32: u8 = 2;
const LZF: u8 = 3;
/// Bytes that are skipped at once.
const SKIPPED_AT_ONCE: usize = 4 << 10;

/// A source of bytes and the position in it. The source should be buffered: it is asked for single bytes.
#[derive(Debug)]
pub struct Input<R> {
    from: R,
    at: u64,
    crc: u64,
    /// Compressed bytes of the string that was read last.
    packed: Vec<u8>,
}

impl<R: Read> Input<R> {
    /// Reads `from` its current position, which counts as byte 0.
    pub fn new(from: R) -> Self {
        Input { from, at: 0, crc: 0, packed: Vec::new() }
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Checksum of all bytes read so far.
    pub(super) fn crc(&self) -> u64 {
        self.crc
    }

    /// The source, behind the bytes read.
    pub fn into_inner(self) -> R {
        self.from
    }

    pub(super) fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { at: self.at, what }
    }

    pub(super) fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { at: self.at, what: what.into() }
    }

    fn took(&mut self, bytes: &[u8]) {
        self.crc = crc64(self.crc, bytes);
        self.at += bytes.len() as u64;
    }

    /// Reads `N` bytes; `what` names them in errors.
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        match self.from.read_exact(&mut bytes) {
            Ok(()) => {
                self.took(&bytes);
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Error::Ends { at: self.at, what }),
            Err(error) => Err(Error::Read { at: self.at, error }),
        }
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>("a record")?[0])
    }

    /// Reads `count` bytes into `out`, which grows as they arrive.
    fn bytes(&mut self, count: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if count > STRING_MAX {
            return Err(self.damaged("a string longer than 512 MiB"));
        }
        let read = self.from.by_ref().take(count).read_to_end(out);
        self.took(out);
        read.map_err(|error| Error::Read { at: self.at, error })?;
        if (out.len() as u64) < count {
            return Err(Error::Ends { at: self.at, what: "a string" });
        }
        Ok(())
    }

    fn prefix(&mut self) -> Result<Prefix> {
        const WHAT: &str = "a length";
        let [first] = self.array(WHAT)?;
        Ok(match first {
            0x00..=0x3f => Prefix::Length(first.into()),
            0x40..=0x7f => {
                let [second] = self.array(WHAT)?;
                Prefix::Length(u64::from(first & 0x3f) << 8 | u64::from(second))
            }
            0x80 => Prefix::Length(u32::from_be_bytes(self.array(WHAT)?).into()),
            0x81 => Prefix::Length(u64::from_be_bytes(self.array(WHAT)?)),
            0xc0..=0xff => Prefix::Encoded(first & 0x3f),
            _ => return Err(self.damaged("a length of no known form")),
        })
    }

    /// Reads a length or count.
    pub(super) fn length(&mut self) -> Result<u64> {
        match self.prefix()? {
            Prefix::Length(length) => Ok(length),
            Prefix::Encoded(_) => Err(self.damaged("a string where a number should be")),
        }
    }

    /// Reads a string into `out`, reusing its memory.
    pub(super) fn string(&mut self, out: &mut Vec<u8>) -> Result<()> {
        const WHAT: &str = "a number";
        let number: i64 = match self.prefix()? {
            Prefix::Length(length) => return self.bytes(length, out),
            Prefix::Encoded(INTEGER_8) => i8::from_le_bytes(self.array(WHAT)?).into(),
            Prefix::Encoded(INTEGER_16) => i16::from_le_bytes(self.array(WHAT)?).into(),
            Prefix::Encoded(INTEGER_32) => i32::from_le_bytes(self.array(WHAT)?).into(),
            Prefix::Encoded(LZF) => return self.compressed(out),
            Prefix::Encoded(_) => return Err(self.damaged("a string of no known encoding")),
        };
        out.clear();
        out.extend_from_slice(&integer_text(number));
        Ok(())
    }

    fn compressed(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (packed_length, length) = (self.length()?, self.length()?);
        let length = usize::try_from(length).ok().filter(|length| *length as u64 <= STRING_MAX);
        let length = length.ok_or_else(|| self.damaged("a string longer than 512 MiB"))?;
        let mut packed = std::mem::take(&mut self.packed);
        self.bytes(packed_length, &mut packed)?;
        let decoded = lzf::decode(&packed, length, out);
        self.packed = packed;
        decoded.ok_or_else(|| self.damaged("a compressed string that cannot be decompressed"))
    }

    /// Skips a string, whatever its bytes are.
    pub(super) fn skip_string(&mut self) -> Result<()> {
        match self.prefix()? {
            Prefix::Length(length) => self.skip(length),
            Prefix::Encoded(INTEGER_8) => self.skip(1),
            Prefix::Encoded(INTEGER_16) => self.skip(2),
            Prefix::Encoded(INTEGER_32) => self.skip(4),
            Prefix::Encoded(LZF) => {
                let packed = self.length()?;
                self.length()?;
                self.skip(packed)
            }
            Prefix::Encoded(_) => Err(self.damaged("a string of no known encoding")),
        }
    }

    /// Skips so many bytes.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<()> {
        let mut buffer = [0; SKIPPED_AT_ONCE];
        while count > 0 {
            let most = usize::try_from(count).unwrap_or(usize::MAX).min(SKIPPED_AT_ONCE);
            let piece = buffer.get_mut(..most).unwrap_or_default();
            let read = match self.from.read(piece) {
                Ok(0) => return Err(Error::Ends { at: self.at, what: "a value" }),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::Read { at: self.at, error }),
            };
            self.took(piece.get(..read).unwrap_or_default());
            count -= read as u64;
        }
        Ok(())
    }

    /// The present position, to return to.
    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.at, crc: self.crc }
    }
}

/// A position in an [`Input`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    at: u64,
    crc: u64,
}

impl<R: Read + Seek> Input<R> {
    /// Returns to a position, so that the bytes from there are read again.
    pub(super) fn return_to(&mut self, mark: Mark) -> Result<()> {
        let back = i64::try_from(self.at - mark.at).map_err(io::Error::other);
        let moved = back.and_then(|back| self.from.seek(SeekFrom::Current(-back)));
        moved.map_err(|error| Error::Read { at: self.at, error })?;
        (self.at, self.crc) = (mark.at, mark.crc);
        Ok(())
    }
}
