//! The use of a drive's bytes, and reservations of free ones: parts that add up to the drive.

use sinter_storage::store::Store;
use sinter_storage::zoned_store::{Shares, ZonedStore};
use sinterdb::internal::db::reserve::{Reserve, storable};

/// The bytes of a drive by purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    shares: Shares,
    /// Reserved for the collector's copies.
    collector: u64,
    /// Reserved for logs and manifests, beyond the zones that they have.
    logs: u64,
    /// Reserved for memtables: for their log and the tables of their flush.
    flushes: u64,
    /// Reserved for compactions.
    compactions: u64,
    /// Available for tables.
    pub available: u64,
    /// Bytes of live tables that a database with the default settings can hold on the volume and overwrite, if it is empty.
    pub storable: u64,
}

/// The part of `storable` that remains if few zones may be active: logs and manifests then lie among tables and keep zones from being
/// emptied.
fn shared(storable: u64, max_active: Option<u32>) -> u64 {
    match max_active {
        Some(..=3) => storable / 6,
        Some(4) => storable / 2,
        Some(5) => storable / 4 * 3,
        _ => storable,
    }
}

impl Space {
    /// The space of a volume; `free`: bytes that files can take.
    pub fn of(store: &ZonedStore, free: u64) -> Self {
        let (shares, unit) = (store.shares(), store.unit());
        let reserve = Reserve::by_default(free + shares.tables, unit, shares.pinned).within(free + shares.tables);
        let mut left = shares.free;
        let mut take = |bytes: u64| {
            let taken = bytes.min(left);
            left -= taken;
            taken
        };
        let collector = take(shares.free - free);
        let logs = take(reserve.log);
        let flushes = take(reserve.flushes - reserve.log);
        let compactions = take(reserve.merges - reserve.flushes);
        let storable = shared(storable(free, unit), store.geometry().max_active);
        Space { shares, collector, logs, flushes, compactions, available: left, storable }
    }

    /// Name, JSON name, and bytes of each part.
    pub fn parts(&self) -> [(&'static str, &'static str, u64); 10] {
        let Space { shares, .. } = self;
        [
            ("metadata of the volume", "metadata", shares.metadata),
            ("cannot be written", "unusable", shares.unusable),
            ("tables", "tables", shares.tables),
            ("zones with logs and manifests", "logs", shares.pinned),
            ("dead, too little of a zone to collect", "stranded", shares.stranded),
            ("reserved for the collector", "reserved_collector", self.collector),
            ("reserved for logs and manifests", "reserved_logs", self.logs),
            ("reserved for flushes and their log", "reserved_flushes", self.flushes),
            ("reserved for compactions", "reserved_compactions", self.compactions),
            ("available for tables", "available", self.available),
        ]
    }

    /// Bytes of the drive.
    pub fn all(&self) -> u64 {
        self.shares.total()
    }

    /// Bytes reserved in all.
    pub fn reserved(&self) -> u64 {
        self.collector + self.logs + self.flushes + self.compactions
    }
}
