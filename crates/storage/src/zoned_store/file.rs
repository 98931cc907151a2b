//! The bytes of one file: its pieces in zones, and the bytes held back in memory.

use super::format::Range;
use crate::store::{FileId, FileKind};

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
pub(super) struct FileBytes {
    /// Ascending and without gaps.
    pub(super) pieces: Vec<Piece>,
    /// Bytes in pieces.
    pub(super) written: u64,
    /// Bytes behind the pieces that are not with the drive yet.
    pub(super) held: Vec<u8>,
}

impl FileBytes {
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
    pub(super) fn covering(&self, offset: u64, length: u64) -> &[Piece] {
        let end = offset + length;
        let first = self.pieces.partition_point(|piece| piece.offset + piece.len <= offset);
        let last = self.pieces.partition_point(|piece| piece.offset < end);
        self.pieces.get(first..last).unwrap_or_default()
    }
}

/// Whether a file is kept as frames that describe themselves, so that a sync needs no metadata: files of many small syncs.
pub(super) fn is_framed(id: FileId) -> bool {
    matches!(id.kind, FileKind::Manifest | FileKind::Log)
}
