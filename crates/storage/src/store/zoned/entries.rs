//! The files of a volume as plain data: what each is, and where it lies.

use super::file::{Cell, HOLE};
use super::format::About;
use super::volume::Volume;
use crate::store::FileId;
use std::sync::Arc;

/// A file, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub id: FileId,
    /// What is known of it since its creation.
    pub about: About,
    /// Its bytes.
    pub length: u64,
    /// Where they lie, in order. What is held back in memory lies nowhere yet.
    pub extents: Vec<Extent>,
}

impl FileEntry {
    /// Bytes that were durable and can no more be read.
    pub fn lost(&self) -> u64 {
        self.extents.iter().filter(|extent| extent.zone.is_none()).map(|extent| extent.len).sum()
    }
}

/// Consecutive bytes of a file that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where they stand in the file.
    pub offset: u64,
    /// In which zone they lie; `None`: they are lost.
    pub zone: Option<u32>,
    /// Where they lie in it, bytes from its start.
    pub at: u64,
    /// How many they are.
    pub len: u64,
}

impl Volume {
    /// All files, by name.
    pub(super) fn files(&self) -> Vec<FileEntry> {
        let cells: Vec<Arc<Cell>> = self.state.lock().names.values().cloned().collect();
        let entry = |cell: &Arc<Cell>| {
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
