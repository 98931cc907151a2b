//! The reserve of a medium, for work that frees space: plain arithmetic, for the database itself and for tools that tell people what a
//! medium can hold.

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

/// Free bytes that each kind of work leaves to the more urgent kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// For units that logs and manifests may pin: flushes leave them free. Without space for its manifest a database ends.
    pub log: u64,
    /// `log`, and the bytes that the log and flushes of memtables take: merges leave them free.
    pub flushes: u64,
    /// `flushes`, and the bytes that merges take: writes other than deletions leave them free.
    pub merges: u64,
}

impl Reserve {
    /// Reserves `pinned` bytes in units, twice `memtables` for the log and for tables on their way, and `merged` bytes for merges.
    pub fn of(pinned: u64, memtables: u64, merged: u64) -> Self {
        let flushes = memtables.saturating_mul(2).saturating_add(pinned);
        Reserve { log: pinned, flushes, merges: flushes.saturating_add(merged) }
    }

    /// Free bytes that deletions leave, and the last merge that is tried: half of `log`. If that merge left all of it, deletions that have
    /// taken the rest would never be merged.
    pub fn least(self) -> u64 {
        self.log / 2
    }

    /// The reserve on a medium of `size` bytes for files: no more than a quarter of the medium.
    pub fn within(self, size: u64) -> Self {
        let (quarter, most) = (size / 4, size / 8);
        if self.merges <= quarter {
            return self;
        }
        Reserve { log: self.log.min(most), flushes: self.flushes.min(most), merges: quarter }
    }

    /// Reserve of a database with one family and the default settings on a medium of `size` bytes for files in units of `unit`, of which
    /// logs and manifests hold `held` bytes now.
    pub fn by_default(size: u64, unit: u64, held: u64) -> Self {
        let (family, largest) = (FamilySettings::default(), largest(size, unit));
        let (memtable, table) = (family.write_buffer_size.min(largest), family.target_file_size_base.min(largest));
        let memtables = memtable.saturating_mul(family.max_write_buffer_number as u64);
        Reserve::of(pinned(unit, held), memtables, (memtable + table).saturating_mul(MERGED))
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
/// bytes for files, and overwrite without end: without what units, logs and merges take, also where less is reserved, without a unit that
/// is dead in part, and with one part of outdated values above the last level for each `max_bytes_for_level_multiplier` parts on it.
pub fn storable(size: u64, unit: u64) -> u64 {
    let reserve = Reserve::by_default(size, unit, 0);
    let left = size.saturating_sub(reserve.merges.saturating_add(unit));
    // Where less is reserved than is needed, a merge may have to wait for a unit that is not free in time.
    let left = if reserve.within(size) == reserve { left } else { left / 4 * 3 };
    let outdated = 1.0 / FamilySettings::default().max_bytes_for_level_multiplier;
    (left as f64 / (1.0 + outdated)) as u64
}

/// Bytes of the log from which on the memtables of its oldest segment are written to tables, where memtables and tables may be as large as
/// `largest`.
#[inline]
pub fn log_limit(settings: &DbSettings, largest: u64) -> u64 {
    settings.max_total_wal_size.min(largest.saturating_mul(LOG))
}
