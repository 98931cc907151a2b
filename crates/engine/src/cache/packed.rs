//! Blocks in compressed form, and names of blocks that have left the cache.

use super::queue::{BlockQueue, Key};
use crate::codec::{Codec, Compression, Compressor};
use std::cell::RefCell;

/// Estimated memory of a compressed block beside its bytes: its entries in the maps and the list of a [`BlockQueue`], and the unused part
/// of hash tables.
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
    /// Wraps the compressed payload of a block from the medium: copying it costs less than compressing the block again.
    pub fn of(codec: Codec, raw: usize, payload: &[u8]) -> Option<Packed> {
        Some(Packed { codec, raw: u32::try_from(raw).ok()?, bytes: payload.into() })
    }

    /// Compresses a block with LZ4, which decompresses fastest of all codecs (0.5 us for 4 KB). `None` if the block does not shrink by an
    /// eighth: then reading it again costs less than keeping it.
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
    pub packed: BlockQueue<Packed>,
    /// Names of blocks that left the cache, one in [`WATCHED`]; each counts for its uncompressed bytes.
    pub ghosts: BlockQueue<()>,
}

/// One block in this many is watched after it left the cache, chosen by the hash of its name. The watched blocks are a sample of all
/// (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015); the others cost nothing.
pub(super) const WATCHED: u64 = 8;

/// Returns whether the block is watched.
pub(super) fn is_watched(key: Key) -> bool {
    mix(key) >> 32 & (WATCHED - 1) == 0
}

/// Returns whether the block is a probe: one watched block in eight is compressed on eviction even if no compressed block is kept, to
/// measure how far blocks shrink.
pub(super) fn is_probed(key: Key) -> bool {
    mix(key) >> 32 & (8 * WATCHED - 1) == 0
}

fn mix((table, slot): Key) -> u64 {
    let x = table.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(slot);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 29
}

impl Below {
    /// Notes that a block left the cache, and forgets the oldest such blocks beyond `window` bytes.
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
