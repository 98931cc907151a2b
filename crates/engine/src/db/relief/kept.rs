//! Space that a database reserves on its medium for work that frees space: plain arithmetic, for the database itself and for tools that
//! tell people what a medium can hold.

use crate::settings::{DbSettings, FamilySettings};

/// Units that a database may pin on a medium that frees space in units: two by manifests while one is replaced by the next, two by logs.
const PINNED: u64 = 4;

/// Number of the largest tables that a medium holds.
const PARTS: u64 = 32;

/// Number of the largest tables that a medium of units holds. It is the database's alone, and memtables, their log and merges take a
/// twelfth of it.
const PARTS_OF_UNITS: u64 = 128;

/// Bytes that memtables and tables may have however small the medium is.
const SMALLEST: u64 = 64 << 10;

/// Size of all memtables together, in memtables of the largest size that the medium has space for.
pub const MEMTABLES: u64 = 2;

/// Length of the log, in such memtables: those that are written to, and those that wait for their flush.
pub const LOG: u64 = 4;

/// Size of a merge of a table of level 0 with those below, as a multiple of a memtable and a table together.
pub const MERGED: u64 = 3;

/// Reserved bytes of the one medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBack {
    /// Reserved for the units that may be pinned: without space for its manifest a database ends.
    pub pinned: u64,
    /// `pinned`, and the bytes that the log and flushes need: not for merges.
    pub from_merges: u64,
    /// `from_merges`, and the bytes that merges need: not for writes.
    pub from_writes: u64,
}

impl KeptBack {
    /// Reserves `pinned` bytes in units, twice `memtables` for the log and for tables on their way, and `merged` bytes for merges.
    pub fn of(pinned: u64, memtables: u64, merged: u64) -> Self {
        let from_merges = memtables.saturating_mul(2).saturating_add(pinned);
        KeptBack { pinned, from_merges, from_writes: from_merges.saturating_add(merged) }
    }

    /// The part of it that a medium of `size` bytes for files reserves: no more than a quarter of the medium.
    pub fn within(self, size: u64) -> Self {
        let (quarter, most) = (size / 4, size / 8);
        if self.from_writes <= quarter {
            return self;
        }
        KeptBack { pinned: self.pinned.min(most), from_merges: self.from_merges.min(most), from_writes: quarter }
    }

    /// Reservation of a database with one family and the default settings on a medium of `size` bytes for files in units of `unit`, of
    /// which logs and manifests hold `held` bytes now.
    pub fn by_default(size: u64, unit: u64, held: u64) -> Self {
        let (family, largest) = (FamilySettings::default(), largest(size, unit));
        let (memtable, table) = (family.write_buffer_size.min(largest), family.target_file_size_base.min(largest));
        let memtables = memtable.saturating_mul(family.max_write_buffer_number as u64);
        KeptBack::of(pinned(unit, held), memtables, (memtable + table).saturating_mul(MERGED))
    }
}

/// Bytes of the largest memtable or table on a medium of `size` bytes that frees space in units of `unit`.
pub fn largest(size: u64, unit: u64) -> u64 {
    (size / if unit > 0 { PARTS_OF_UNITS } else { PARTS }).max(SMALLEST)
}

/// Bytes of units that logs and manifests may still pin if they hold `held` already.
pub fn pinned(unit: u64, held: u64) -> u64 {
    unit.saturating_mul(PINNED).saturating_sub(held)
}

/// Bytes of tables, live and not replaced by newer ones, that a database with the default settings can hold on an empty medium of `size`
/// bytes for files, and overwrite without end: without what units, logs and merges take, also where less is kept back, without a unit
/// that is dead in part, and with one part of outdated values above the last level for each `max_bytes_for_level_multiplier` parts on it.
pub fn storable(size: u64, unit: u64) -> u64 {
    let kept = KeptBack::by_default(size, unit, 0);
    let left = size.saturating_sub(kept.from_writes.saturating_add(unit));
    // Where less is kept back than is needed, a merge may have to wait for a unit that is not free in time.
    let left = if kept.within(size) == kept { left } else { left / 4 * 3 };
    let outdated = 1.0 / FamilySettings::default().max_bytes_for_level_multiplier;
    (left as f64 / (1.0 + outdated)) as u64
}

/// Bytes of the log from which on the memtables of its oldest segment are written to tables, where memtables and tables may be as large as
/// `largest`.
#[inline]
pub fn log_limit(settings: &DbSettings, largest: u64) -> u64 {
    settings.max_total_wal_size.min(largest.saturating_mul(LOG))
}
