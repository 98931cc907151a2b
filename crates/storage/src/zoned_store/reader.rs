//! Reads of one file, from its zones and from the bytes held back in memory.

use super::failed;
use super::file::{HOLE, Piece};
use super::volume::{SharedFile, Volume};
use crate::store::{ReadAt, Result, StoreError};
use std::sync::Arc;
use std::{fmt, io};

/// Reads a file at any offset, although the drive reads whole blocks.
pub(super) struct Reader {
    pub(super) cell: Arc<SharedFile>,
    pub(super) volume: Arc<Volume>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.cell.id)
    }
}

impl Reader {
    fn error(&self, offset: u64, source: io::Error) -> StoreError {
        StoreError::read(self.cell.id, offset, source)
    }

    fn read_piece(&self, piece: &Piece, skip: u64, buffer: &mut [u8]) -> Result<()> {
        if piece.zone == HOLE {
            let what = "bytes that were durable are damaged on the drive";
            return Err(self.error(piece.offset + skip, io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        read(&self.volume, piece.zone, piece.at + skip, buffer).map_err(|e| self.error(piece.offset + skip, e.source))
    }
}

/// Fills `buffer` from byte `at` of a zone.
pub(super) fn read(volume: &Volume, zone: u32, at: u64, buffer: &mut [u8]) -> Result<()> {
    let skip = (at % volume.block) as usize;
    if skip == 0 && (buffer.len() as u64).is_multiple_of(volume.block) {
        return volume.device.read(zone, at, buffer).map_err(|e| failed("read", e));
    }
    let whole = (skip + buffer.len()).next_multiple_of(volume.block as usize);
    let mut blocks = vec![0; whole];
    volume.device.read(zone, at - skip as u64, &mut blocks).map_err(|e| failed("read", e))?;
    buffer.copy_from_slice(&blocks[skip..skip + buffer.len()]);
    Ok(())
}

impl ReadAt for Reader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // Locked until all bytes are read: a collector that moves them waits for this lock before their old zone may be reset.
        let content = self.cell.content.read();
        let length = buffer.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > content.len()) {
            return Err(self.error(offset, io::ErrorKind::UnexpectedEof.into()));
        }
        if buffer.is_empty() {
            return Ok(());
        }
        let in_pieces = content.written.saturating_sub(offset).min(length);
        let (mut rest, tail) = buffer.split_at_mut(in_pieces as usize);
        let mut at = offset;
        for piece in content.covering(offset, in_pieces) {
            let skip = at - piece.offset;
            let (now, later) = rest.split_at_mut(((piece.len - skip) as usize).min(rest.len()));
            self.read_piece(piece, skip, now)?;
            at += now.len() as u64;
            rest = later;
        }
        if !tail.is_empty() {
            let from = (at.max(offset) - content.written) as usize;
            tail.copy_from_slice(&content.held[from..from + tail.len()]);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.cell.content.read().len()
    }
}
