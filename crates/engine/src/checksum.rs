//! Position-bound checksums. One algorithm everywhere: XXH3-64 of the bytes, mixed with where they belong (database, file, offset),
//! so that a valid block in the wrong place is as wrong as a damaged one.

use crate::coding::Decoder;
use sinter_storage::store::FileId;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// The identity of a database, drawn at random when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DbId(pub [u8; 16]);

impl fmt::Display for DbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl DbId {
    /// Reads an identity from a format.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(DbId(*from.bytes(16)?.first_chunk()?))
    }
}

/// The place-dependent part of the checksums of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(u64);

/// A bijection on 64 bits with good avalanche (the finaliser of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Salt {
    /// The salt of one file of one database.
    pub fn new(db: &DbId, file: FileId) -> Self {
        let mut bytes = [0u8; 25];
        bytes[..16].copy_from_slice(&db.0);
        bytes[16] = file.kind as u8;
        bytes[17..].copy_from_slice(&file.number.to_le_bytes());
        Salt(xxh3_64(&bytes))
    }

    /// The checksum of `bytes` that stand at `offset` of this file.
    #[inline]
    pub fn checksum(self, offset: u64, bytes: &[u8]) -> u64 {
        mix(xxh3_64(bytes) ^ mix(self.0.wrapping_add(offset)))
    }

    /// The low half of [`Salt::checksum`], where four bytes are enough (short records).
    #[inline]
    pub fn checksum32(self, offset: u64, bytes: &[u8]) -> u32 {
        self.checksum(offset, bytes) as u32
    }
}
