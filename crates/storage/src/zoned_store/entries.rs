//! The files of a volume as plain data, with their extents.

use super::file::HOLE;
use super::format::About;
use super::volume::{SharedFile, Volume};
use crate::store::FileId;
use std::sync::Arc;

/// A file, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Name of the file.
    pub id: FileId,
    /// Facts known since the file's creation.
    pub about: About,
    /// Length, bytes.
    pub length: u64,
    /// Extents of the bytes, in order. Bytes held back in memory have none yet.
    pub extents: Vec<Extent>,
}

impl FileEntry {
    /// Number of bytes that were durable and can no longer be read.
    pub fn lost(&self) -> u64 {
        self.extents.iter().filter(|extent| extent.zone.is_none()).map(|extent| extent.len).sum()
    }
}

/// Consecutive bytes of a file that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Zone of the bytes; `None`: they are lost.
    pub zone: Option<u32>,
    /// Offset in the zone, bytes.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Volume {
    /// All files, by name.
    pub(super) fn files(&self) -> Vec<FileEntry> {
        let cells: Vec<Arc<SharedFile>> = self.state.lock().names.values().cloned().collect();
        let entry = |cell: &Arc<SharedFile>| {
            let content = cell.content.read();
            let extents = content.pieces.iter().map(|piece| Extent {
                offset: piece.offset,
                zone: (piece.zone != HOLE).then_some(piece.zone),
                at: piece.at,
                len: piece.len,
            });
            FileEntry { id: cell.id, about: cell.about.clone(), length: content.len(), extents: extents.collect() }
        };
        cells.iter().map(entry).collect()
    }
}
