//! Two budgets from which the other settings follow. A pure function: the same budgets give the same settings everywhere.
//!
//! **memory** is split between memtables, which buy write amplification, and the cache, which buys reads. By the optimum
//! `e * ln(data / memtable)` of leveled trees (Callaghan, smalldatum 2018-12) a doubled memtable saves about 1.9 writes per byte however
//! large the data are, and what is written is often read soon, so two memtables get four fifths (study `memory-and-limits`, part B) up to
//! [`Budgets::MEMTABLE_MOST`] each. The rest is the cache's.
//!
//! That is where a database starts. Stated alone, the memory is a budget of which parts move to where they save more time while the
//! database works (`memory_split`); sizes that are written out win, and nothing moves.
//!
//! **space_amplification** is the allowed size on disk per live byte, at its peak. With slack `s` above one:
//! * leveled with dynamic level sizes keeps at most `1/(T-1)` of the last level above it, so `T = 1 + 1/s`. Going below `T = 4` adds levels
//!   faster than it saves rewriting (the average cost `(T+1)/2 / ln T` is lowest there), so more slack
//!   than 1/3 buys a leveled tree nothing;
//! * universal writes each byte a few times only, but a full merge needs a second copy while it runs. From 2.5 on that copy fits,
//!   and what remains beyond two is the share of dead bytes that may wait for it.

use super::{DbSettings, FamilySettings, Style};

/// Memory if none is stated: two memtables of 64 MiB and a cache of 32 MiB, RocksDB's defaults.
pub const DEFAULT_MEMORY: u64 = 160 << 20;
/// From here on a full copy during a merge fits into the space budget.
const UNIVERSAL_FROM: f64 = 2.5;
/// Below it, more levels cost more than narrower ones save.
const MULTIPLIER_MIN: f64 = 4.0;

/// Resources that the user is ready to spend. `None`: not stated, so the settings' own defaults hold.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budgets {
    /// Bytes for memtables, block cache, indexes and filters together; 1 MiB to 1 PiB.
    pub memory: Option<u64>,
    /// Allowed size on disk divided by the size of live data, compactions included; 1.1 to 10. Holds for trees much larger than
    /// `max_bytes_for_level_base`.
    pub space_amplification: Option<f64>,
}

impl Budgets {
    /// The largest memtable, bytes, that follows from a budget. There are two, together as long as the log may be by default
    /// (`max_total_wal_size`), which is replayed after a crash.
    pub const MEMTABLE_MOST: u64 = 512 << 20;
    /// The least that memtables and cache can share, bytes.
    pub const MEMORY_LEAST: u64 = 1 << 20;

    /// Defaults of the database under these budgets.
    pub fn db(&self) -> DbSettings {
        let mut db = DbSettings::default();
        self.set_db(&mut db);
        db
    }

    /// Sets the settings that follow from these budgets; all others stay.
    pub fn set_db(&self, db: &mut DbSettings) {
        let Some(memory) = self.memory else { return };
        let memtables = 2 * write_buffer(memory);
        db.cache_size = memory.saturating_sub(memtables);
        db.db_write_buffer_size = memtables.max(4096);
        db.memory_budget = memory.max(Self::MEMORY_LEAST);
        db.cache_index_and_filter_blocks = true;
        // Beside a shorter log they would never fill.
        db.max_total_wal_size = db.max_total_wal_size.max(db.db_write_buffer_size);
    }

    /// Defaults of a column family under these budgets.
    pub fn family(&self) -> FamilySettings {
        let mut family = FamilySettings::default();
        self.set_family(&mut family);
        family
    }

    /// Sets the settings that follow from these budgets; all others stay.
    pub fn set_family(&self, family: &mut FamilySettings) {
        if let Some(memory) = self.memory {
            family.write_buffer_size = write_buffer(memory);
            // RocksDB's proportions: a table holds a memtable, the base level holds what starts a compaction out of level 0.
            family.target_file_size_base = family.write_buffer_size.clamp(2 << 20, 64 << 20);
            family.max_bytes_for_level_base = 4 * family.write_buffer_size.max(2 << 20);
            family.max_compaction_bytes = 25 * family.target_file_size_base;
        }
        if let Some(space) = self.space_amplification {
            if space >= UNIVERSAL_FROM {
                family.style = Style::Universal;
                family.max_size_amplification_percent = percent(space - 2.0);
            } else {
                // The levels that the bound is about.
                (family.style, family.level_compaction_dynamic_level_bytes) = (Style::Leveled, true);
                family.max_bytes_for_level_multiplier = multiplier(space);
            }
        }
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if let Some(memory) = self.memory.filter(|m| !(Self::MEMORY_LEAST..=1 << 50).contains(m)) {
            complaints.push(format!(
                "memory = {}: allowed 1MiB to 1PiB (1024TiB), it is shared by memtables and cache",
                super::format_bytes(memory)
            ));
        }
        if let Some(space) = self.space_amplification.filter(|s| !(1.1..=10.0).contains(s)) {
            complaints
                .push(format!("space_amplification = {space}: allowed 1.1 to 10, below it almost every write would rewrite the tree"));
        }
        complaints
    }
}

/// Size of one memtable, of which there are two.
fn write_buffer(memory: u64) -> u64 {
    (memory / 5 * 2).clamp(4096, Budgets::MEMTABLE_MOST)
}

/// Size factor between levels for leveled trees.
fn multiplier(space: f64) -> f64 {
    // To a tenth: 1.1 means 11, not 10.999999999999991.
    let exact = 1.0 + 1.0 / (space - 1.0).max(0.1);
    (exact * 10.0).round().max(MULTIPLIER_MIN * 10.0) / 10.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "budgets are below 10, so percents fit")]
fn percent(share: f64) -> u32 {
    (share * 100.0).round().clamp(1.0, 10_000.0) as u32
}
