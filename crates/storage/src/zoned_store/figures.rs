//! Counters of a volume since it was opened, for the ledger.

use super::journal::JournalFigures;
use crate::store::{Beneath, ByLifetime, Cause, ZonesNow};
use std::collections::BTreeMap;

/// Bytes that went to zones, all of them whole blocks: data, framing and padding together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of files.
    pub data: u64,
    /// Heads of frames.
    pub framing: u64,
    /// Unused ends of blocks.
    pub padding: u64,
}

impl Written {
    /// All bytes together.
    pub fn total(&self) -> u64 {
        self.data + self.framing + self.padding
    }

    pub(super) fn add(&mut self, other: Written) {
        self.data += other.data;
        self.framing += other.framing;
        self.padding += other.padding;
    }
}

/// Counters of one opening of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that the host wrote, by the cause in the hint.
    pub host: BTreeMap<Cause, Written>,
    /// Bytes that the collector wrote again.
    pub moved: Written,
    /// Zones that the collector emptied, by their lifetime.
    pub collected: ByLifetime,
    /// Dead bytes in zones that the collector emptied, by the lifetime of their files.
    pub collected_dead: ByLifetime,
    /// Tables that the collector moved.
    pub moved_tables: u64,
    /// Resets of zones of files, by the lifetime of the zone.
    pub resets: ByLifetime,
    /// Resets of zones into which a log was written since their last reset.
    pub log_resets: u64,
    /// Capacity that had not been written when its zone was reset, bytes.
    pub reset_unwritten: u64,
    /// Zones finished early.
    pub finishes: u64,
    /// Capacity lost by finishing early, bytes: the drive writes it.
    pub finish_padding: u64,
    /// Zones in which a write failed.
    pub failed_zones: u64,
    /// Number of times that a writer had to wait for free space.
    pub waits: u64,
    /// Number of times that a file went to a zone that its policy would not have chosen, because there was no other.
    pub fallbacks: u64,
    /// The metadata log.
    pub journal: JournalFigures,
}

impl Figures {
    /// Bytes that the host wrote to zones of files.
    pub fn host_total(&self) -> u64 {
        self.host.values().map(Written::total).sum()
    }

    /// Bytes written to the drive, without those that the drive pads by itself.
    pub fn device_total(&self) -> u64 {
        self.host_total() + self.moved.total() + self.journal.bytes
    }

    /// The figures as lines that add up to the bytes written to the drive.
    pub fn beneath(&self, zones: ZonesNow) -> Beneath {
        let of_host = |part: fn(&Written) -> u64| self.host.values().map(part).sum::<u64>();
        Beneath {
            files: of_host(|w| w.data),
            framing: of_host(|w| w.framing),
            padding: of_host(|w| w.padding),
            moved: self.moved.total(),
            metadata: self.journal.bytes,
            finishing: self.finish_padding,
            finishes: self.finishes,
            resets: self.resets.total() + self.journal.resets,
            metadata_resets: self.journal.resets,
            resets_by_lifetime: self.resets,
            log_resets: self.log_resets,
            reset_unwritten: self.reset_unwritten,
            collected: self.collected.total(),
            collected_by_lifetime: self.collected,
            collected_dead: self.collected_dead,
            moved_tables: self.moved_tables,
            waits: self.waits,
            fallbacks: self.fallbacks,
            failed: self.failed_zones,
            zones,
        }
    }
}

/// Division of the bytes of all zones: the parts add up to the whole drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// Bytes in zones of the metadata.
    pub metadata: u64,
    /// Bytes in zones that cannot be written: read-only, offline or conventional ones; without bytes of tables.
    pub unusable: u64,
    /// Bytes of tables, to whole blocks.
    pub tables: u64,
    /// Bytes in zones with logs and manifests, without bytes that can be written there and bytes of tables.
    pub pinned: u64,
    /// Dead bytes of zones with so few of them that the collector leaves them.
    pub stranded: u64,
    /// Bytes that can be written, and bytes that the collector can free.
    pub free: u64,
}

impl Shares {
    /// Sum of the parts.
    pub fn total(&self) -> u64 {
        self.metadata + self.unusable + self.tables + self.pinned + self.stranded + self.free
    }
}
