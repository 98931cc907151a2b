//! Writing: the encodings that every Redis since 5.0 reads.

use super::input::Input;
use super::{crc64, is_known, kind, opcode};
use crate::number::parse_integer;
use std::io::{self, Write};

/// The version that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// Version 9, which every Redis since 5.0 reads.
    #[default]
    Nine,
    /// Version 10 of Redis 7.0, the first one that holds everything known of a stream.
    Ten,
    /// Version 11 of Redis 7.2.
    Eleven,
    /// Version 12 of Redis 7.4 and 8, the first one that holds deadlines of fields.
    Twelve,
    /// Version 80 of Valkey 9, which holds deadlines of fields in a form of its own.
    Eighty,
}

impl Version {
    /// Number of the version.
    pub fn number(self) -> u16 {
        match self {
            Version::Nine => 9,
            Version::Ten => 10,
            Version::Eleven => 11,
            Version::Twelve => 12,
            Version::Eighty => 80,
        }
    }
}

/// A target of bytes and their checksum so far. The target should be buffered: it is given single bytes.
#[derive(Debug)]
pub struct Output<W> {
    to: W,
    crc: u64,
}

impl<W: Write> Output<W> {
    /// Appends to `to`.
    pub fn new(to: W) -> Self {
        Output { to, crc: 0 }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc64(self.crc, bytes);
        self.to.write_all(bytes)
    }

    /// Writes the head of a file.
    pub fn head(&mut self, version: Version) -> io::Result<()> {
        let name = if version == Version::Eighty { "VALKEY" } else { "REDIS0" };
        self.bytes(format!("{name}{:03}", version.number()).as_bytes())
    }

    /// Writes a property of the writer.
    pub fn aux(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.bytes(&[opcode::AUX])?;
        self.string(name.as_bytes())?;
        self.string(value.as_bytes())
    }

    /// Begins a database, with hints on its numbers of keys and deadlines.
    pub fn database(&mut self, db: u64, keys: u64, deadlines: u64) -> io::Result<()> {
        self.bytes(&[opcode::DATABASE])?;
        self.length(db)?;
        self.bytes(&[opcode::SIZES])?;
        self.length(keys)?;
        self.length(deadlines)
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.bytes(&[opcode::FUNCTION])?;
        self.string(code)
    }

    /// Writes the head of a key, before its value: its deadline (unix milliseconds), type and name.
    pub fn key(&mut self, kind: u8, name: &[u8], deadline: Option<u64>) -> io::Result<()> {
        if let Some(deadline) = deadline {
            self.bytes(&[opcode::DEADLINE_MS])?;
            // The format has a signed number here.
            self.bytes(&deadline.min(i64::MAX.unsigned_abs()).to_le_bytes())?;
        }
        self.kind(kind)?;
        self.string(name)
    }

    /// Writes the type of the value that follows.
    pub fn kind(&mut self, kind: u8) -> io::Result<()> {
        self.bytes(&[if kind == kind::HASH_VALKEY { kind::HASH_DEADLINES_EARLY } else { kind }])
    }

    /// Writes a time.
    pub fn time(&mut self, unix_ms: u64) -> io::Result<()> {
        self.bytes(&unix_ms.to_le_bytes())
    }

    /// Writes a field with its value and its deadline (0: none) in a hash of a type with deadlines, of which `first` is the earliest.
    pub fn field(&mut self, kind: u8, (field, value): (&[u8], &[u8]), deadline: u64, first: u64) -> io::Result<()> {
        if kind == kind::HASH_DEADLINES {
            // Distance from the earliest deadline, plus one, as 0 stands for none.
            self.length(if deadline == 0 { 0 } else { deadline.saturating_sub(first).saturating_add(1) })?;
        }
        self.string(field)?;
        self.string(value)?;
        match (kind, deadline) {
            (kind::HASH_VALKEY, 0) => self.bytes(&(-1i64).to_le_bytes()),
            (kind::HASH_VALKEY, deadline) => self.time(deadline),
            _ => Ok(()),
        }
    }

    /// Writes a length or count.
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match (u16::try_from(length), u32::try_from(length)) {
            // Both are below 64: a byte.
            (Ok(short), _) if short < 1 << 6 => self.bytes(&[short as u8]),
            (Ok(short), _) if short < 1 << 14 => self.bytes(&(short | 1 << 14).to_be_bytes()),
            (_, Ok(middle)) => {
                self.bytes(&[0x80])?;
                self.bytes(&middle.to_be_bytes())
            }
            _ => {
                self.bytes(&[0x81])?;
                self.bytes(&length.to_be_bytes())
            }
        }
    }

    /// Writes a string; a short decimal number is written in binary.
    pub fn string(&mut self, text: &[u8]) -> io::Result<()> {
        let number = if text.len() <= 11 { parse_integer(text).and_then(|number| i32::try_from(number).ok()) } else { None };
        let Some(number) = number else {
            self.length(text.len() as u64)?;
            return self.bytes(text);
        };
        if let Ok(number) = i8::try_from(number) {
            self.bytes(&[0xc0, number.cast_unsigned()])
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes(&[0xc1])?;
            self.bytes(&number.to_le_bytes())
        } else {
            self.bytes(&[0xc2])?;
            self.bytes(&number.to_le_bytes())
        }
    }

    /// Writes a part of a string, behind its [`Output::length`] and the parts before.
    pub fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes(bytes)
    }

    /// Writes a score.
    pub fn score(&mut self, score: f64) -> io::Result<()> {
        self.bytes(&score.to_le_bytes())
    }

    /// Flushes the target.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes the end of a file, and returns the target, which may still have to be flushed.
    pub fn end(mut self) -> io::Result<W> {
        self.bytes(&[opcode::END])?;
        self.to.write_all(&self.crc.to_le_bytes())?;
        Ok(self.to)
    }

    /// Returns the target as it is.
    pub fn into_inner(self) -> W {
        self.to
    }

    /// Writes the end of a single value, as in `DUMP`.
    pub fn end_of_value(mut self, version: Version) -> io::Result<W> {
        self.bytes(&version.number().to_le_bytes())?;
        self.to.write_all(&self.crc.to_le_bytes())?;
        Ok(self.to)
    }
}

/// Bytes of the end of a single value: the version and the checksum.
pub const END_OF_VALUE: u64 = 10;

/// A single value that is an unencoded string, described by its first and last bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongValue {
    /// Start and end of the string.
    pub string: (u64, u64),
    /// Checksum of the bytes before the string.
    pub crc: u64,
    /// The version, and the checksum of everything before that checksum.
    end: [u8; END_OF_VALUE as usize],
}

impl LongValue {
    /// Whether `crc`, the checksum of everything up to the end of the string, proves the value undamaged and its version known.
    pub fn is_whole(&self, crc: u64) -> bool {
        let (version, stored) = self.end.split_at(2);
        let version: [u8; 2] = version.try_into().unwrap_or_default();
        is_known(u16::from_le_bytes(version).into()) && stored == crc64(crc, &version).to_le_bytes()
    }
}

/// A value of `length` bytes written with [`Output::end_of_value`], if it is an unencoded string. `start` and `end` are its first and last
/// ten bytes.
pub fn long_value(length: u64, start: &[u8], end: &[u8]) -> Option<LongValue> {
    let mut input = Input::new(start);
    let of = input.byte().ok()?;
    let bytes = input.length().ok()?;
    let from = input.position();
    let is_all = from.checked_add(bytes).and_then(|to| to.checked_add(END_OF_VALUE)) == Some(length);
    (of == kind::STRING && is_all).then_some(LongValue { string: (from, from + bytes), crc: input.crc(), end: end.try_into().ok()? })
}

/// The value inside a payload written with [`Output::end_of_value`], and the version; `None`: it is damaged, of an unknown version, or no
/// payload.
pub fn open_value(payload: &[u8]) -> Option<(&[u8], u32)> {
    let (checked, crc) = payload.split_last_chunk::<8>()?;
    let (value, version) = checked.split_last_chunk::<2>()?;
    let version = u16::from_le_bytes(*version).into();
    (is_known(version) && u64::from_le_bytes(*crc) == crc64(0, checked)).then_some((value, version))
}
