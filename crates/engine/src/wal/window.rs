//! A window over a file that moves along as the file is read: a log may be longer than memory.

use super::frame::{RECORD_HEADER, header_at};
use crate::error::{Error, Result};
use sinter_storage::store::{FileId, FileKind, ReadAt};
use std::io::ErrorKind;

/// Bytes read at once. Longer records are read whole. Tests use a small odd number, so that records cross the boundary everywhere.
const PIECE: usize = if cfg!(test) { 61 } else { 1 << 20 };

/// Bytes compared with zeros at once.
const CHUNK: usize = 256;

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

pub(super) struct LogWindow<'a> {
    file: &'a dyn ReadAt,
    /// The file may become shorter, because another process removes the zeros at the end of a segment.
    may_shrink: bool,
    len: usize,
    /// Offset of `bytes` in the file.
    at: usize,
    bytes: Vec<u8>,
}

impl<'a> LogWindow<'a> {
    pub fn new(file: &'a dyn ReadAt, id: FileId) -> Result<Self> {
        let len = usize::try_from(file.len()).map_err(|_| Error::corrupt(id, 0, "the file is longer than can be addressed"))?;
        Ok(LogWindow { file, may_shrink: id.kind == FileKind::Log, len, at: 0, bytes: Vec::new() })
    }

    /// Length of the file when the window was made, or less if the file became shorter.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Drops the bytes in memory, so that they are read from the file again.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// `n` bytes from `offset`; `None` if the file ends before.
    #[inline]
    pub fn get(&mut self, offset: usize, n: usize) -> Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(n).filter(|end| *end <= self.len) else { return Ok(None) };
        if offset < self.at || end > self.at + self.bytes.len() {
            self.fill(offset, n)?;
        }
        Ok(self.bytes.get(offset - self.at..end - self.at))
    }

    /// The bytes where a record's header may stand, zeros behind the end of the file; `None` at that end.
    #[inline]
    pub fn header(&mut self, offset: usize) -> Result<Option<[u8; RECORD_HEADER]>> {
        let left = |len: usize| len.saturating_sub(offset).min(RECORD_HEADER);
        let before = left(self.len);
        let header = self.get(offset, before)?.and_then(header_at);
        if header.is_some() || left(self.len) == before {
            return Ok(header);
        }
        Ok(self.get(offset, left(self.len))?.and_then(header_at))
    }

    /// Offset, `from` or later, at which the zeros at the end of the file begin.
    pub fn end_of_data(&mut self, from: usize) -> Result<usize> {
        let mut end = self.len;
        while end > from {
            let start = end.saturating_sub(PIECE).max(from);
            let Some(bytes) = self.get(start, end - start)? else {
                end = end.min(self.len);
                continue;
            };
            let zeros: usize = bytes.rchunks(CHUNK).take_while(|chunk| is_zero(chunk)).map(<[u8]>::len).sum();
            let rest = &bytes[..bytes.len() - zeros];
            if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
                return Ok(start + last + 1);
            }
            end = start;
        }
        Ok(from)
    }

    /// Offset of the first byte that is not zero, `from` or later.
    pub fn end_of_zeros(&mut self, from: usize) -> Result<usize> {
        let mut at = from;
        while at < self.len {
            let known = (self.at + self.bytes.len()).checked_sub(at).filter(|known| *known > 0 && at >= self.at);
            let Some(bytes) = self.get(at, known.unwrap_or(PIECE.min(self.len - at)))? else { continue };
            let zeros: usize = bytes.chunks(CHUNK).take_while(|chunk| is_zero(chunk)).map(<[u8]>::len).sum();
            if let Some(first) = bytes[zeros..].iter().position(|byte| *byte != 0) {
                return Ok(at + zeros + first);
            }
            at += bytes.len().max(1);
        }
        Ok(self.len)
    }

    /// Reads `n` bytes from `offset`, and more behind them. Reads none if the file has become so short that it ends before them.
    fn fill(&mut self, offset: usize, n: usize) -> Result<()> {
        let mut again = self.may_shrink;
        loop {
            let want = n.max(PIECE.min(self.len - offset));
            if self.bytes.capacity() > want.max(PIECE) {
                // Frees the memory of an earlier long record.
                self.bytes = Vec::new();
            }
            self.bytes.resize(want, 0);
            self.at = offset;
            let Err(error) = self.file.read_at(offset as u64, &mut self.bytes) else { return Ok(()) };
            self.bytes.clear();
            if !self.may_shrink || error.source.kind() != ErrorKind::UnexpectedEof {
                return Err(error.into());
            }
            let len = usize::try_from(self.file.len()).map_or(self.len, |len| len.min(self.len));
            if len == self.len && !again {
                return Err(error.into());
            }
            // A file that became shorter may have grown again since.
            again &= len < self.len;
            self.len = len;
            if offset.checked_add(n).is_none_or(|end| end > len) {
                return Ok(());
            }
        }
    }
}
