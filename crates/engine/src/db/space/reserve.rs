//! The reserve of a medium for work that frees space, as plain arithmetic: for the database, and for tools that compute how much a medium
//! can hold.

use crate::settings::{DbSettings, FamilySettings};

/// Units that a database may pin on a medium that frees space in units (zones): two for manifests, while one replaces the other, and two
/// for logs.
const PINNED: u64 = 4;

/// A table is at most this part of its medium: one in 32.
const PARTS: u64 = 32;

/// A table is at most this part of a medium that frees space in units: one in 128. Such a medium belongs to the database alone, and
/// memtables, their log and merges together take a twelfth of it.
const PARTS_OF_UNITS: u64 = 128;

/// Lower bound of the largest memtable and table, bytes, for tiny media.
const SMALLEST: u64 = 64 << 10;

/// Size of all memtables together, in memtables of the size [`largest`].
pub const MEMTABLES: u64 = 2;

/// Length of the log, in memtables of the size [`largest`]: active ones, and full ones that wait for their flush.
pub const LOG: u64 = 4;

/// Size of a merge of a table of level 0 with those below, as a multiple of a memtable and a table together.
pub const MERGED: u64 = 3;

/// Free bytes that each kind of work must leave for the more urgent kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes of units that logs and manifests may pin. Flushes leave them free, because a database that cannot write its manifest ends.
    pub log: u64,
    /// `log` plus the bytes that the log and flushes of memtables take. Merges leave them free.
    pub flushes: u64,
    /// `flushes` plus the bytes that merges take. Writes other than deletions leave them free.
    pub merges: u64,
}

impl Reserve {
    /// Reserves `pinned` bytes in units, twice `memtables` for the log and for tables on their way, and `merged` bytes for merges.
    pub fn of(pinned: u64, memtables: u64, merged: u64) -> Self {
        let flushes = memtables.saturating_mul(2).saturating_add(pinned);
        Reserve { log: pinned, flushes, merges: flushes.saturating_add(merged) }
    }

    /// Free bytes that deletions, and a merge of last resort, must leave: half of `log`. If such a merge had to leave all of `log`,
    /// deletions that use up the space could never be merged, and nothing would become free.
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

/// Bytes of units that logs and manifests may pin in addition to the `held` bytes that they pin already.
pub fn pinned(unit: u64, held: u64) -> u64 {
    unit.saturating_mul(PINNED).saturating_sub(held)
}

/// Bytes of live data that a database with the default settings can hold, and overwrite forever, on a medium with `size` bytes for files.
/// Subtracted are the reserve, one partly obsolete unit, and outdated values above the last level: one byte for every
/// `max_bytes_for_level_multiplier` bytes on it.
pub fn storable(size: u64, unit: u64) -> u64 {
    let reserve = Reserve::by_default(size, unit, 0);
    let left = size.saturating_sub(reserve.merges.saturating_add(unit));
    // On a small medium, which caps the reserve, a merge may find no free unit in time: a quarter of the space stays unused.
    let left = if reserve.within(size) == reserve { left } else { left / 4 * 3 };
    let outdated = 1.0 / FamilySettings::default().max_bytes_for_level_multiplier;
    (left as f64 / (1.0 + outdated)) as u64
}

/// Length of the log, bytes, beyond which the memtables of its oldest segment are flushed; `largest` is the size of the largest memtable.
#[inline]
pub fn log_limit(settings: &DbSettings, largest: u64) -> u64 {
    settings.max_total_wal_size.min(largest.saturating_mul(LOG))
}
