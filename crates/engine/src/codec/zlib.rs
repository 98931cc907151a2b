//! Zlib (deflate), by `flate2`.

use super::whole;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::cell::RefCell;

/// A reused stream, and its level.
#[derive(Default)]
pub struct Packer(Option<(i32, Compress)>);

impl Packer {
    /// The length of the compressed form, which is put into `out`; `None` if it does not fit.
    pub fn compress(&mut self, level: Option<i32>, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let level = level.unwrap_or(6);
        if self.0.as_ref().is_none_or(|(l, _)| *l != level) {
            let effort = Compression::new(level.clamp(0, 9).unsigned_abs());
            self.0 = Some((level, Compress::new(effort, true)));
        }
        let stream = &mut self.0.as_mut()?.1;
        stream.reset();
        let status = stream.compress(input, out, FlushCompress::Finish).ok()?;
        (status == Status::StreamEnd).then(|| usize::try_from(stream.total_out()).ok())?
    }
}

thread_local! {
    static STREAM: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// The length of what came out.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    STREAM.with_borrow_mut(|stream| {
        let stream = stream.get_or_insert_with(|| Decompress::new(true));
        stream.reset(true);
        let status = stream.decompress(input, out, FlushDecompress::Finish).ok()?;
        whole(status == Status::StreamEnd, stream.total_in(), stream.total_out(), input)
    })
}
