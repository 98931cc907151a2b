//! Opens for writing on a medium that is full. Opening takes space: for tables of the log's contents, a new manifest, and a new log
//! segment. The old files are deleted only afterwards, so that a crash on the way loses nothing.

use super::Inner;
use crate::error::{Error, Result};
use crate::manifest::{Loaded, ManifestState};
use sinter_storage::store::{FileId, FileKind, StoreError};
use std::io;

/// Bytes for the footers of tables and the header of a log segment.
const BESIDE: u64 = 64 << 10;

impl Inner {
    /// Bytes that opening takes at most: as many as the log has, and as the manifest has.
    fn needed_to_open(&self, loaded: &Loaded, state: &ManifestState) -> Result<u64> {
        let needed = state.needed_log();
        let files = self.media.primary().list()?;
        let counts = |id: &FileId| Some(*id) == loaded.live || (id.kind == FileKind::Log && id.number >= needed);
        let counted = files.into_iter().filter(|(id, _)| counts(id)).map(|(_, bytes)| bytes);
        Ok(counted.fold(BESIDE, u64::saturating_add))
    }

    /// Deletes files that the manifest does not need, where space is scarce. Before that the manifest is made durable as it was read: an
    /// older end, which a power cut might bring back, could need other files.
    pub(super) fn make_room_to_open(&self, loaded: &Loaded, state: &ManifestState) -> Result<()> {
        let free = self.media.primary().free_bytes()?.unwrap_or(u64::MAX);
        if free >= self.needed_to_open(loaded, state)? {
            return Ok(());
        }
        match loaded.make_durable(self.media.primary()) {
            Ok(true) => {
                loaded.delete_others(&*self.store)?;
                self.delete_leftovers(state)?;
                // A medium may count as free only files whose deletion is durable.
                Ok(self.store.sync_names()?)
            }
            Ok(false) | Err(Error::NoSpace(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds to the error of an open that found no space how many bytes it takes.
    pub(super) fn tell_room_to_open(&self, error: Error, loaded: &Loaded, state: &ManifestState) -> Error {
        let Error::NoSpace(source) = &error else { return error };
        let (Ok(needed), Ok(free)) = (self.needed_to_open(loaded, state), self.media.primary().free_bytes()) else { return error };
        let free = free.map_or_else(String::new, |free| format!(", {free} are free"));
        let what = format!("opening for writing takes up to {needed} bytes{free}; opening to read takes none ({source})");
        StoreError::store("open", io::Error::new(io::ErrorKind::StorageFull, what)).into()
    }
}
