//! Blocks in compressed form, and what is known of blocks that are in neither part.

use super::queue::{Key, Queue};
use crate::codec::{Codec, Compression, Compressor};
use std::cell::RefCell;

/// Memory of a compressed block beside its bytes: its entries in the two steps of the map and in the list, and the unused part of hash
/// tables.
pub(super) const OVERHEAD: u64 = 128;

/// A compressed block in memory. Its bytes were verified before they came here.
#[derive(Debug)]
pub struct Packed {
    /// Codec of the bytes; needs the table's dictionary if the table has one.
    pub codec: Codec,
    /// Length when decompressed, bytes.
    pub raw: u32,
    /// The compressed bytes.
    pub bytes: Box<[u8]>,
}

impl Packed {
    /// The compressed payload of a block that came from the medium: packing it again would cost more than the copy.
    pub fn of(codec: Codec, raw: usize, payload: &[u8]) -> Option<Packed> {
        Some(Packed { codec, raw: u32::try_from(raw).ok()?, bytes: payload.into() })
    }

    /// Packs a stored block with LZ4, of all codecs the one that is unpacked fastest (0.5 us for 4 KB). `None` if it does not shrink by
    /// an eighth: then reading it again is the better bargain.
    pub fn pack(stored: &[u8]) -> Option<Packed> {
        thread_local! {
            static PACKER: RefCell<Compressor> = RefCell::default();
        }
        const LZ4: Compression = Compression { codec: Codec::Lz4, level: None, dictionary_bytes: 0 };
        let raw = u32::try_from(stored.len()).ok()?;
        let mut bytes = Vec::new();
        let shrank = PACKER.with_borrow_mut(|compressor| compressor.compress(LZ4, None, stored, &mut bytes));
        shrank.then(|| Packed { codec: Codec::Lz4, raw, bytes: bytes.into_boxed_slice() })
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD
    }
}

/// The cache below its uncompressed part, under one lock that only misses take.
#[derive(Debug, Default)]
pub(super) struct Below {
    pub packed: Queue<Packed>,
    /// Blocks that left both parts, one in [`WATCHED`] of them; they count for the bytes that they took uncompressed.
    pub ghosts: Queue<()>,
}

/// One block in so many is watched after it left the cache, chosen by the hash of its name: the watched blocks stand for all (Waldspurger
/// et al., "Efficient MRC Construction with SHARDS", FAST 2015), and the others cost nothing.
pub(super) const WATCHED: u64 = 8;

/// The block is one of those that are watched.
pub(super) fn is_watched(key: Key) -> bool {
    mix(key) >> 32 & (WATCHED - 1) == 0
}

/// The block is one of the watched blocks that are compressed only to learn how far they shrink.
pub(super) fn is_probed(key: Key) -> bool {
    mix(key) >> 32 & (8 * WATCHED - 1) == 0
}

fn mix((table, slot): Key) -> u64 {
    let x = table.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(slot);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 29
}

impl Below {
    /// Notes that a block is in neither part any more, and forgets the oldest such blocks beyond `window` bytes.
    pub fn gone(&mut self, key: Key, bytes: u64, window: u64) {
        if is_watched(key) {
            self.ghosts.put(key, bytes, ());
        }
        while self.ghosts.bytes() > window / WATCHED {
            self.ghosts.pop();
        }
    }

    /// Removes the oldest compressed blocks beyond `capacity`.
    pub fn shrink(&mut self, capacity: u64, window: u64) {
        while self.packed.bytes() > capacity {
            let Some((key, _, packed)) = self.packed.pop() else { return };
            self.gone(key, u64::from(packed.raw), window);
        }
    }

    /// Forgets everything of a table.
    pub fn forget(&mut self, table: u64) {
        self.packed.forget(table);
        self.ghosts.forget(table);
    }
}
