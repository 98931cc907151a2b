//! One zone of a volume: its condition, and the files that lie in it.

use super::file::is_framed;
use super::format::About;
use super::of_number;
use super::victim::WORTH;
use crate::store::{ByLifetime, FileId, FileKind};
use std::collections::BTreeMap;

/// Condition of a zone: the operations that it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is written.
    Empty,
    /// Partly written: counts towards the drive's limit of active zones.
    Open,
    /// Written to its capacity, or finished.
    Full,
    /// A write into the zone failed, and so did finishing it. The zone can be read, and is reset once it is dead.
    Ended,
    /// The drive does not take writes or resets.
    ReadOnly,
    /// The drive has lost the zone.
    Offline,
    /// Holds metadata, or is a conventional zone: not for files.
    Reserved,
}

/// A zone in use.
#[derive(Debug, Clone)]
pub(super) struct ZoneSlot {
    pub(super) condition: Condition,
    pub(super) capacity: u64,
    /// Bytes up to the write pointer; for a finished zone, up to where it was before the finish.
    pub(super) written: u64,
    /// Bytes in the zone by file, padding included.
    pub(super) tenants: BTreeMap<FileId, u64>,
    /// Sum of the bytes of `tenants`.
    pub(super) valid: u64,
    /// Bytes written since the last reset, by the lifetime of their files; without bytes that were already dead when the volume was
    /// opened.
    pub(super) filled: ByLifetime,
    /// A log was written into the zone since its last reset.
    pub(super) logged: bool,
    /// Number of files that are being written into the zone.
    pub(super) writers: u32,
    /// Number of writers that are moves by the collector. While it is not 0, no other file may begin to be written here: such a file would
    /// use up a zone of the reserve.
    pub(super) movers: u32,
    /// The zone is being reset, finished or emptied.
    pub(super) busy: bool,
    /// A table is about to be written beside logs; the metadata has to say so durably first.
    pub(super) mixing: bool,
    /// Emptying the zone failed: a file in it cannot be read, or the drive did not reset the zone. Once all its files are dead, the thread
    /// tries to reset it again; writers that need space do not.
    pub(super) stuck: bool,
    /// The volume's clock at the last write.
    pub(super) touched: u64,
    /// Expected clock at the death of the files in the zone, averaged over their bytes.
    pub(super) death: f64,
    /// Expected life of the files in the zone, averaged over their bytes.
    pub(super) life: f64,
}

impl ZoneSlot {
    pub(super) fn is_dead(&self) -> bool {
        let holds = matches!(self.condition, Condition::Open | Condition::Full | Condition::Ended);
        holds && self.valid == 0 && self.writers == 0 && !self.busy
    }

    pub(super) fn room(&self) -> u64 {
        if self.condition == Condition::Open || self.condition == Condition::Empty { self.capacity - self.written } else { 0 }
    }

    /// Bytes that are not free because a log or a manifest lies in the zone, without bytes of tables.
    pub(super) fn pinned(&self) -> u64 {
        // File ids sort by kind: manifests come first, then logs.
        match self.tenants.keys().next().map(|id| id.kind) {
            Some(FileKind::Manifest | FileKind::Log) => self.capacity.saturating_sub(self.free()).saturating_sub(self.tables()),
            _ => 0,
        }
    }

    /// Bytes of tables in the zone.
    pub(super) fn tables(&self) -> u64 {
        self.tenants.iter().filter(|(id, _)| !is_framed(**id)).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes that files can get: unwritten ones, and dead ones if the collector can empty the zone and the zone is worth it. None in a zone
    /// with a manifest, because such a zone takes no other file.
    pub(super) fn free(&self) -> u64 {
        let dead = self.capacity.saturating_sub(self.room()).saturating_sub(self.valid);
        // File ids sort by kind: manifests come first, then logs.
        match self.tenants.keys().next().map(|id| id.kind) {
            Some(FileKind::Manifest) => 0,
            Some(FileKind::Log) => self.room(),
            _ if self.stuck || dead < self.capacity / WORTH => self.room(),
            _ => self.room() + dead,
        }
    }

    /// Adds `bytes` of a file that were written to the zone, or found there at the open.
    pub(super) fn add(&mut self, file: FileId, bytes: u64, about: &About) {
        self.filled.add(of_number(about.lifetime), bytes);
        self.logged |= file.kind == FileKind::Log;
        *self.tenants.entry(file).or_default() += bytes;
        self.valid += bytes;
        if self.valid > 0 {
            let share = bytes as f64 / self.valid as f64;
            self.death += (about.death as f64 - self.death) * share;
            self.life += (about.death.saturating_sub(about.born) as f64 - self.life) * share;
        }
    }

    /// Sets the bytes that a file has in the zone.
    pub(super) fn set(&mut self, file: FileId, bytes: u64) {
        self.remove(file);
        if bytes > 0 {
            self.tenants.insert(file, bytes);
            self.valid += bytes;
        }
    }

    /// Removes a file that no longer has bytes in the zone.
    pub(super) fn remove(&mut self, file: FileId) {
        self.valid -= self.tenants.remove(&file).unwrap_or(0);
    }
}
