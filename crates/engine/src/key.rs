//! Versions of keys. An entry is a user key, a 64-bit *trailer* (sequence number and kind) and a value. Entries are ordered by user
//! key ascending, then trailer descending, so the newest version of a key comes first.

use crate::coding::{Decoder, put_varint};
use std::cmp::Ordering;

/// The number of a write. Every entry of every batch gets its own, in commit order.
pub type Seq = u64;

/// The largest sequence number: 56 bits, because a trailer keeps 8 bits for the kind.
pub const MAX_SEQ: Seq = (1 << 56) - 1;

/// Largest key, bytes: keys are copied into index and manifest.
pub const MAX_KEY: usize = 1 << 20;
/// Largest value, bytes.
pub const MAX_VALUE: usize = 1 << 30;

/// Meaning of an entry for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The key is gone.
    Delete = 0,
    /// The key has this value.
    Value = 1,
    /// An operand for the family's merge operator.
    Merge = 2,
    /// All older entries from this key up to (not including) the end key in the value are gone. Never among point entries.
    RangeDelete = 3,
    /// Reserved in the format: the value is a reference to bytes kept elsewhere.
    ValueReference = 4,
    /// The key has a value that was written with a time of its own: a varint before the value, unix seconds ([`put_timed`]).
    TimedValue = 5,
    /// All older entries from this key on are gone. Only in batches and logs: a memtable has [`Kind::RangeDelete`] for it, with the end
    /// behind the largest key that is older.
    RangeDeleteFrom = 6,
}

impl Kind {
    /// The kind of a format byte.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            0 => Kind::Delete,
            1 => Kind::Value,
            2 => Kind::Merge,
            3 => Kind::RangeDelete,
            4 => Kind::ValueReference,
            5 => Kind::TimedValue,
            6 => Kind::RangeDeleteFrom,
            _ => return None,
        })
    }

    /// The kind deletes older entries and stores nothing.
    pub fn deletes(self) -> bool {
        matches!(self, Kind::Delete | Kind::RangeDelete | Kind::RangeDeleteFrom)
    }

    /// The kind deletes a range of keys; it never stands among point entries.
    pub fn is_range(self) -> bool {
        matches!(self, Kind::RangeDelete | Kind::RangeDeleteFrom)
    }

    /// Nothing follows the key in a batch.
    pub fn is_bare(self) -> bool {
        matches!(self, Kind::Delete | Kind::RangeDeleteFrom)
    }
}

/// Sequence number and kind in one word, so that descending trailers are newest first.
pub fn trailer(seq: Seq, kind: Kind) -> u64 {
    debug_assert!(seq <= MAX_SEQ);
    seq << 8 | kind as u64
}

/// The sequence number of a trailer.
pub fn seq_of(trailer: u64) -> Seq {
    trailer >> 8
}

/// The kind of a trailer; `None` if the byte is unknown (damage, or a newer format).
pub fn kind_of(trailer: u64) -> Option<Kind> {
    Kind::from_byte(trailer as u8)
}

/// The largest trailer a reader at `snapshot` may see: a search from `(key, upper(snapshot))` finds the newest visible version.
pub fn upper(snapshot: Seq) -> u64 {
    snapshot << 8 | 0xff
}

/// The order of entries.
pub fn compare(a_key: &[u8], a_trailer: u64, b_key: &[u8], b_trailer: u64) -> Ordering {
    a_key.cmp(b_key).then(b_trailer.cmp(&a_trailer))
}

/// Appends what a [`Kind::TimedValue`] stores.
pub fn put_timed(out: &mut Vec<u8>, unix_seconds: u64, value: &[u8]) {
    put_varint(out, unix_seconds);
    out.extend_from_slice(value);
}

/// Time and value of what a [`Kind::TimedValue`] stores; `None` if it is damaged.
pub fn split_timed(stored: &[u8]) -> Option<(u64, &[u8])> {
    let mut from = Decoder::new(stored);
    Some((from.varint()?, from.rest()))
}

/// The time that an entry carries itself, unix seconds. All others have that of their sequence number.
#[inline]
pub fn own_time(trailer: u64, stored: &[u8]) -> Option<u64> {
    if trailer as u8 == Kind::TimedValue as u8 { Some(split_timed(stored)?.0) } else { None }
}

/// The first eight bytes of a key as a big-endian number, zero-filled: if two prefixes differ, the keys compare as they do.
#[inline]
pub fn prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0u8; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}
