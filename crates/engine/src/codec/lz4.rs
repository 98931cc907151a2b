//! LZ4 block format, by `lz4_flex`.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

/// Hash tables, for inputs below 64 KiB, and for all others: a table that has grown for one large input would pack small ones differently.
#[derive(Default)]
pub struct Packer([Option<CompressTable>; 2]);

impl Packer {
    /// The length of the compressed form, which is put into `out`. There is one level.
    pub fn compress(&mut self, _level: Option<i32>, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let large = input.len() >= usize::from(u16::MAX);
        compress_into_with_table(input, out, self.0[usize::from(large)].get_or_insert_default()).ok()
    }
}

/// The longest compressed form of `input` bytes.
pub fn most(input: usize) -> usize {
    get_maximum_output_size(input)
}

/// The length of what came out.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    decompress_into(input, out).ok()
}
