//! One file: its pieces in zones, the bytes held back in memory, and its readers.

use super::failed;
use super::format::{About, Range};
use super::volume::Volume;
use crate::store::{FileId, FileKind, ReadAt, Result, StoreError};
use parking_lot::RwLock;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The zone of bytes that are lost: reading them is an error.
pub(super) const HOLE: u32 = u32::MAX;

/// Consecutive bytes of a file that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset in the file.
    pub(super) offset: u64,
    pub(super) zone: u32,
    /// Offset in the zone.
    pub(super) at: u64,
    pub(super) len: u64,
}

/// The bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Ascending and without gaps.
    pub(super) pieces: Vec<Piece>,
    /// Bytes in pieces.
    pub(super) written: u64,
    /// Bytes behind the pieces that are not with the drive yet.
    pub(super) held: Vec<u8>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    /// Adds a piece for bytes behind the last one. Neighbours become one.
    pub(super) fn push(&mut self, zone: u32, at: u64, len: u64) {
        let offset = self.written;
        self.written += len;
        match self.pieces.last_mut() {
            Some(last) if last.zone == zone && zone != HOLE && last.at + last.len == at => last.len += len,
            _ => self.pieces.push(Piece { offset, zone, at, len }),
        }
    }

    /// Ranges of a table for the metadata.
    pub(super) fn ranges(&self) -> Vec<Range> {
        self.pieces.iter().map(|piece| Range { zone: piece.zone, at: piece.at, len: piece.len }).collect()
    }

    /// Zones of the pieces, each once.
    pub(super) fn zones(&self) -> Vec<u32> {
        let mut zones: Vec<u32> = self.pieces.iter().map(|piece| piece.zone).filter(|zone| *zone != HOLE).collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    }

    /// The pieces that `length` bytes from `offset` on lie in.
    fn covering(&self, offset: u64, length: u64) -> &[Piece] {
        let end = offset + length;
        let first = self.pieces.partition_point(|piece| piece.offset + piece.len <= offset);
        let last = self.pieces.partition_point(|piece| piece.offset < end);
        self.pieces.get(first..last).unwrap_or_default()
    }
}

/// A file, reachable by its name, its readers and its appender alike. The last of them gives back its space, if it is deleted.
pub(super) struct Cell {
    pub(super) id: FileId,
    pub(super) about: About,
    pub(super) content: RwLock<Content>,
    /// The file's creation has gone to the log.
    pub(super) announced: Arc<AtomicBool>,
    /// The file's deletion is durable.
    doomed: AtomicBool,
    volume: Weak<Volume>,
}

impl Cell {
    pub(super) fn new(id: FileId, about: About, content: Content, announced: bool, volume: &Arc<Volume>) -> Arc<Self> {
        Arc::new(Cell {
            id,
            about,
            content: RwLock::new(content),
            announced: Arc::new(AtomicBool::new(announced)),
            doomed: AtomicBool::new(false),
            volume: Arc::downgrade(volume),
        })
    }

    /// Kept as frames that describe themselves, so that a sync needs no metadata: files of many small syncs.
    pub(super) fn framed(id: FileId) -> bool {
        matches!(id.kind, FileKind::Manifest | FileKind::Log)
    }

    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if *self.doomed.get_mut()
            && let Some(volume) = self.volume.upgrade()
        {
            volume.release(self.id, self.content.get_mut().zones());
        }
    }
}

/// Reads a file at any offset, although the drive reads whole blocks.
pub(super) struct Reader {
    pub(super) cell: Arc<Cell>,
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
        // Held until all is read: the collector, which moves the bytes, waits for it before their old place may be reset.
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
