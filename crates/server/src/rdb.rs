//! Redis's format for data in a file (RDB) and for single values (`DUMP`), as bytes, without any keyspace.
//!
//! Reading order: `input` (lengths and strings), `packed` (small collections in one string), `value` and `streams` (values), `skip` (the
//! end of a value), [`Reader`] (a whole file), [`Output`] (writing), `stream_output` (writing streams).
//!
//! Input is untrusted. A claimed length takes no memory: strings grow as their bytes arrive, collections come element by element, and
//! nothing recurses. Every failure is an [`Error`] with its position in the file.
//!
//! Versions 1 to 13 (all of Redis up to 8.6) and 80 (Valkey 9) are read; parts without a counterpart here are refused by name. Only
//! encodings that every Redis since 5.0 reads are written, except for hashes whose fields have deadlines.

mod crc;
mod input;
mod lzf;
mod output;
mod packed;
mod reader;
mod skip;
mod stream_output;
mod streams;
#[cfg(test)]
mod tests;
mod value;

pub use crc::crc64;
pub use input::Input;
pub use output::{END_OF_VALUE, LongValue, Output, Version, long_value, open_value};
pub use reader::{Key, Reader, Record, functions};
pub use stream_output::{Node, Nodes, StreamState, stream_kind};
pub use streams::{StreamElement, StreamEntryId, StreamField};
pub use value::{Element, read_value};

use std::io;

/// The newest version of Redis that is read.
pub const NEWEST: u32 = 13;
/// The version of Valkey that is read. Valkey counts on its own since version 11, and its types from 22 on are its own.
pub const VALKEY: u32 = 80;

/// Whether values of a version are read.
fn is_known(version: u32) -> bool {
    version <= NEWEST || version == VALKEY
}
/// Longest string, bytes: 512 MiB, plus the field of a bitmap that begins at the last bit.
pub const STRING_MAX: u64 = (512 << 20) + 8;

/// Types of values: the byte that stands before a key.
pub mod kind {
    #![expect(missing_docs, reason = "the names say it")]
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const MODULE: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    pub const HASH_DEADLINES_EARLY: u8 = 22;
    pub const HASH_LISTPACK_DEADLINES_EARLY: u8 = 23;
    pub const HASH_DEADLINES: u8 = 24;
    pub const HASH_LISTPACK_DEADLINES: u8 = 25;
    pub const STREAM_4: u8 = 26;
    /// A hash of Valkey whose fields have deadlines. In its files the type is byte 22; this number stands in no file.
    pub const HASH_VALKEY: u8 = 0xf0;
}

/// Type of the value behind a byte, in a version of the format.
pub fn value_kind(byte: u8, version: u32) -> u8 {
    match byte {
        kind::HASH_DEADLINES_EARLY if version == VALKEY => kind::HASH_VALKEY,
        // A byte that is no type.
        kind::HASH_VALKEY => u8::MAX,
        byte => byte,
    }
}

/// Bytes in the place of a type that begin a record other than a key.
pub(crate) mod opcode {
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT: u8 = 244;
    pub const FUNCTION: u8 = 245;
    pub const FUNCTION_EARLY: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const DEADLINE_MS: u8 = 252;
    pub const DEADLINE: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be read. `at` is a position in bytes from the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input ends before it is complete.
    #[error("at byte {at}: it ends in the middle of {what}")]
    Ends {
        /// Position of the end.
        at: u64,
        /// The part that is incomplete.
        what: &'static str,
    },
    /// Bytes that no Redis writes.
    #[error("at byte {at}: {what}")]
    Damaged {
        /// Position up to which the input was read.
        at: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The bytes differ from those that were written.
    #[error("at byte {at}: the checksum is {stored:016x}, and that of the bytes is {computed:016x}")]
    Checksum {
        /// Position of the checksum.
        at: u64,
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// Something that Redis may write and this version does not know.
    #[error("at byte {at}: {what}: not supported")]
    Unsupported {
        /// Position up to which the input was read.
        at: u64,
        /// Description of what is not supported.
        what: String,
    },
    /// The source could not be read.
    #[error("at byte {at}: {error}")]
    Read {
        /// Position up to which the input was read.
        at: u64,
        /// Error of the source.
        error: io::Error,
    },
}
