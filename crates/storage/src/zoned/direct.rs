//! A block device past the page cache, for memory that lies anywhere.

use super::memory::{Pool, is_aligned};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The largest piece of a read or write.
pub(super) const PIECE: usize = 1 << 20;

/// An open block device. Offsets and lengths are whole blocks.
pub(super) struct Direct {
    pub(super) file: File,
    /// Bytes that go out at once.
    piece: usize,
    buffers: Pool,
}

impl Direct {
    pub(super) fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
    }

    /// `file` as [`Direct::open`] gives it.
    pub(super) fn new(file: File, piece: usize) -> Self {
        Direct { file, piece, buffers: Pool::new(piece) }
    }

    pub(super) fn piece(&self) -> usize {
        self.piece
    }

    /// Writes piece by piece, one after the other.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_by(at, bytes, |piece, at| self.file.write_all_at(piece, at))
    }

    /// Writes by `write`, which is given aligned memory and an offset of the device.
    pub(super) fn write_by(&self, mut at: u64, bytes: &[u8], write: impl Fn(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        for piece in bytes.chunks(self.piece) {
            if is_aligned(piece) {
                write(piece, at)?;
            } else {
                self.buffers.with(|buffer| {
                    let copy = &mut buffer[..piece.len()];
                    copy.copy_from_slice(piece);
                    write(copy, at)
                })?;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    pub(super) fn read(&self, mut at: u64, bytes: &mut [u8]) -> io::Result<()> {
        for piece in bytes.chunks_mut(self.piece) {
            if is_aligned(piece) {
                self.file.read_exact_at(piece, at)?;
            } else {
                self.buffers.with(|buffer| {
                    let copy = &mut buffer[..piece.len()];
                    self.file.read_exact_at(copy, at)?;
                    piece.copy_from_slice(copy);
                    io::Result::Ok(())
                })?;
            }
            at += piece.len() as u64;
        }
        Ok(())
    }
}
