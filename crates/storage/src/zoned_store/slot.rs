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
    /// Partly written: holds one of the drive's active places.
    Open,
    /// Written to its capacity, or finished.
    Full,
    /// A write into it failed, and the drive did not finish it either: read, and reset once it is dead.
    Ended,
    /// The drive does not take writes or resets.
    ReadOnly,
    /// The drive lost it.
    Offline,
    /// Holds metadata, or is written at random: not for files.
    Reserved,
}

/// A zone in use.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) condition: Condition,
    pub(super) capacity: u64,
    /// Bytes to the write pointer; before a finish, if it was finished.
    pub(super) written: u64,
    /// Bytes of each file that lie here, padding among them.
    pub(super) tenants: BTreeMap<FileId, u64>,
    /// Sum of the bytes of `tenants`.
    pub(super) valid: u64,
    /// Bytes written since the last reset, by the lifetime of their files; bytes that were dead when the volume was opened are not
    /// known.
    pub(super) filled: ByLifetime,
    /// A log was written into the zone since its last reset.
    pub(super) logged: bool,
    /// Files that are being written into it.
    pub(super) writers: u32,
    /// Files among the writers that the collector moves here. Meanwhile nobody else may begin to write: a zone of the reserve that others
    /// fill would not be given back.
    pub(super) movers: u32,
    /// The zone is being reset, finished or emptied.
    pub(super) busy: bool,
    /// Tables come beside logs here, which the metadata has to say durably first.
    pub(super) mixing: bool,
    /// The zone could not be emptied: something in it cannot be read, or the drive did not reset it. Once everything in it is dead, resets
    /// of due zones try again; writers that need space do not.
    pub(super) stuck: bool,
    /// The clock at the last write.
    pub(super) touched: u64,
    /// Clock when the files in the zone die, on average over their bytes.
    pub(super) death: f64,
    /// Life of the files in the zone, on average over their bytes.
    pub(super) life: f64,
}

impl Slot {
    pub(super) fn is_dead(&self) -> bool {
        let holds = matches!(self.condition, Condition::Open | Condition::Full | Condition::Ended);
        holds && self.valid == 0 && self.writers == 0 && !self.busy
    }

    pub(super) fn room(&self) -> u64 {
        if self.condition == Condition::Open || self.condition == Condition::Empty { self.capacity - self.written } else { 0 }
    }

    /// Bytes that are not free because a log or a manifest lies here, without those of tables.
    pub(super) fn pinned(&self) -> u64 {
        // Manifests are the first kind of file there is, and logs the next.
        match self.tenants.keys().next().map(|id| id.kind) {
            Some(FileKind::Manifest | FileKind::Log) => self.capacity.saturating_sub(self.free()).saturating_sub(self.tables()),
            _ => 0,
        }
    }

    /// Bytes of tables that lie here.
    pub(super) fn tables(&self) -> u64 {
        self.tenants.iter().filter(|(id, _)| !is_framed(**id)).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes that files can get: unwritten ones, and dead ones if the collector can empty the zone and finds it worth the cost. A zone with
    /// a manifest takes no other file.
    pub(super) fn free(&self) -> u64 {
        let dead = self.capacity.saturating_sub(self.room()).saturating_sub(self.valid);
        // Manifests are the first kind of file there is, and logs the next.
        match self.tenants.keys().next().map(|id| id.kind) {
            Some(FileKind::Manifest) => 0,
            Some(FileKind::Log) => self.room(),
            _ if self.stuck || dead < self.capacity / WORTH => self.room(),
            _ => self.room() + dead,
        }
    }

    /// Adds `bytes` of a file that were written here, or found here.
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

    /// Sets the bytes of the file here.
    pub(super) fn set(&mut self, file: FileId, bytes: u64) {
        self.remove(file);
        if bytes > 0 {
            self.tenants.insert(file, bytes);
            self.valid += bytes;
        }
    }

    /// The file does not lie here any more.
    pub(super) fn remove(&mut self, file: FileId) {
        self.valid -= self.tenants.remove(&file).unwrap_or(0);
    }
}
