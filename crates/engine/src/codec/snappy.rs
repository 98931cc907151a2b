//! Snappy, by `snap`.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

/// A reused encoder.
#[derive(Default)]
pub struct Packer(Option<Encoder>);

impl Packer {
    /// The length of the compressed form, which is put into `out`. There is one level.
    pub fn compress(&mut self, _level: Option<i32>, input: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.get_or_insert_with(Encoder::new).compress(input, out).ok()
    }
}

/// The longest compressed form of `input` bytes.
pub fn most(input: usize) -> usize {
    max_compress_len(input)
}

/// The length of what came out.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    (decompress_len(input).ok()? == out.len()).then_some(())?;
    Decoder::new().decompress(input, out).ok()
}
