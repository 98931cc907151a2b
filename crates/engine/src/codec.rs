//! Block compression. STUB
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// The algorithm of a compressed block; the number is part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Codec {
    /// Stored as it is.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4 block format.
    Lz4 = 2,
    /// Zstandard.
    Zstd = 3,
    /// Zlib (deflate).
    Zlib = 4,
    /// Bzip2.
    Bzip2 = 5,
}

/// A codec and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Compression {
    /// The algorithm.
    pub codec: Codec,
    /// Effort, in the codec's own scale; `None`: its default (zstd 1, zlib 6, bzip2 9).
    pub level: Option<i32>,
    /// Zstd only: size of a dictionary trained per table; 0 for none.
    pub dictionary_bytes: u32,
}

/// Compresses blocks with reused contexts.
#[derive(Default)]
pub struct Compressor {}
impl Compressor {
    /// Appends the compressed form of `input` to `out`; false (and `out` unchanged) if it did not shrink by an eighth.
    pub fn compress(&mut self, _how: Compression, _dictionary: &[u8], _input: &[u8], _out: &mut Vec<u8>) -> Result<bool> {
        unimplemented!()
    }
}
/// Decompresses into `out` (cleared first), which must become exactly `raw_len` bytes; `None` if the bytes are not valid.
pub fn decompress(_codec: Codec, _dictionary: &[u8], _input: &[u8], _raw_len: usize, _out: &mut Vec<u8>) -> Option<()> {
    unimplemented!()
}
