//! Bzip2, by the crate of that name.

use super::whole;
use ::bzip2::{Action, Compress, Compression, Decompress, Status};

/// Nothing is reused: the library has no reset.
#[derive(Default)]
pub struct Packer;

impl Packer {
    /// The length of the compressed form, which is put into `out`; `None` if it does not fit.
    pub fn compress(&mut self, level: Option<i32>, input: &[u8], out: &mut [u8]) -> Option<usize> {
        // A level is the size of bzip2's own blocks in 100 KB: more than the input needs only costs memory, 8 MB at 9.
        let most = u32::try_from(input.len().div_ceil(100_000)).unwrap_or(9).clamp(1, 9);
        let level = level.unwrap_or(9).clamp(1, 9).unsigned_abs().min(most);
        let mut stream = Compress::new(Compression::new(level), 0);
        let status = stream.compress(input, out, Action::Finish).ok()?;
        (status == Status::StreamEnd).then(|| usize::try_from(stream.total_out()).ok())?
    }
}

/// The length of what came out.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut stream = Decompress::new(false);
    let status = stream.decompress(input, out).ok()?;
    whole(status == Status::StreamEnd, stream.total_in(), stream.total_out(), input)
}
