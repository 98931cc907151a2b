//! In place of a codec that is not built in: nothing is compressed, and nothing decompresses.

/// Compresses nothing.
#[derive(Default)]
pub struct Packer;

impl Packer {
    /// `None`.
    pub fn compress(&mut self, _level: Option<i32>, _input: &[u8], _out: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Upper bound of compressed bytes: 0, because nothing is compressed.
#[cfg(not(all(feature = "lz4", feature = "snappy")))]
pub fn most(_input: usize) -> usize {
    0
}

/// `None`.
pub fn decompress(_input: &[u8], _out: &mut [u8]) -> Option<usize> {
    None
}
