//! Settings: plain data, with the consequences of each written beside it. Parts (cache, clock, operators) are passed to the builder.
//!
//! 1. `Budgets` (memory, space amplification) give the defaults; fields that are written out win.
//! 2. They are read from TOML, from RocksDB's OPTIONS files or set one by one, and every complaint is listed at once.
//! 3. The effective values are printed in full, stored beside the data, and parse back to the same.

mod budget;
mod codecs;
mod compressed_cache;
pub(crate) mod confined;
mod field;
mod preclude;
pub(crate) mod reference;
mod rocksdb;
pub(crate) mod size;
mod tier_budget;
mod tiers;
mod toml;
mod validate;

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;

pub use crate::codec::{Codec, Compression};
pub use budget::{Budgets, DEFAULT_MEMORY};
pub use codecs::Codecs;
pub use compressed_cache::CompressedCache;
pub use preclude::{Preclude, UntimedData};
pub use rocksdb::{OptionEntry, OptionsFile, WithoutEffect};
pub use tier_budget::TierBudget;
pub use tiers::{TemperatureAges, TierPaths};

pub(crate) use confined::{Confined, confine};
pub(crate) use size::{format_bytes, format_compression, format_seconds};

use sinter_storage::store::Temperature;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything a settings file can say: budgets, the database, and column families by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Budgets from which the defaults of settings that are not written follow.
    pub budgets: Budgets,
    /// The database.
    pub db: DbSettings,
    /// The families that are named; others follow from the budgets.
    pub families: BTreeMap<String, FamilySettings>,
}

impl Settings {
    /// The settings that follow from budgets alone.
    pub fn new(budgets: Budgets) -> Self {
        Settings { budgets, db: budgets.db(), families: BTreeMap::new() }
    }

    /// The settings of a family, whether it is named or not.
    pub fn family(&self, name: &str) -> FamilySettings {
        self.families.get(name).cloned().unwrap_or_else(|| self.budgets.family())
    }

    /// Checks budgets, database and all families.
    ///
    /// # Errors
    /// All complaints; those of a family start with its name.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut complaints = self.budgets.complaints();
        complaints.extend(self.db.validate().err().into_iter().flatten());
        for (name, family) in &self.families {
            let list = family.validate().err().into_iter().flatten();
            complaints.extend(list.map(|complaint| format!("family.{}: {complaint}", size::shorten(name))));
        }
        validate::finish(complaints)
    }
}

/// Settings of a database. What follows from larger and smaller values stands in docs/engine/settings.md.
#[derive(Debug, Clone, PartialEq)]
pub struct DbSettings {
    /// Size of the block cache, bytes: data blocks, and with `cache_index_and_filter_blocks` indexes and filters.
    pub cache_size: u64,
    /// Indexes and filters are parts of the cache and are evicted when others are used more; otherwise those that were used once stay in
    /// memory beside it as long as their tables live. With a budget, or a limit of the process's memory, they are always parts of it.
    pub cache_index_and_filter_blocks: bool,
    /// Part of the block cache that holds compressed blocks. Moves only in a database with background threads, unless it is a share.
    pub compressed_cache: CompressedCache,
    /// Bytes that memtables and cache share by a division that moves; 0: sizes stay as they are.
    pub memory_budget: u64,
    /// Threads for flushes and compactions. 0: the writing thread does the work itself, in order (tests, tools).
    pub max_background_jobs: usize,
    /// Key ranges into which one large compaction may be split; each is worked on by a thread. 1: never split.
    pub max_subcompactions: usize,
    /// Write tables past the page cache, which is left to others; new tables are then cold.
    pub use_direct_io_for_flush_and_compaction: bool,
    /// Bytes of a table after which writeback is asked for each time; 0: never, and the final sync may delay other writes.
    pub bytes_per_sync: u64,
    /// Flush the oldest family when all live log segments together exceed this, bytes. Bounds the time of a recovery.
    pub max_total_wal_size: u64,
    /// Memtables of all families together may hold this much, bytes; `u64::MAX`: no limit.
    pub db_write_buffer_size: u64,
    /// Files that stay open to be read; 0: as many as the process's limit allows when the database is opened.
    pub max_open_files: u64,
    /// Further directories for tables, by temperature.
    pub tiers: TierPaths,
}

/// Shape of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Style {
    /// One run per level, sizes growing by a factor.
    #[default]
    Leveled,
    /// Several runs of any age, merged by similar size.
    Universal,
}

/// Settings of a column family. All can be changed while open except `num_levels`.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilySettings {
    /// Memtable size, bytes. Larger: fewer flushes, lower write amplification, longer recovery.
    pub write_buffer_size: u64,
    /// Memtables, the active one included, before writers wait. Each may take `write_buffer_size`.
    pub max_write_buffer_number: usize,
    /// Shape of the tree.
    pub style: Style,
    /// Uncompressed size of a data block, bytes. Larger: better compression, smaller index, dearer misses.
    pub block_size: u32,
    /// Filter bits per key; 0 for no filter. 10 bits: about 1 % useless block reads.
    pub bloom_bits_per_key: f64,
    /// Filter bits per key on the last level, where a filter helps only absent keys.
    pub bloom_bits_last_level: f64,
    /// Compression per level, or left to the engine.
    pub compression: Codecs,
    /// Levels of the tree, level 0 included. Fixed when the family is created.
    pub num_levels: usize,
    /// Runs on level 0 that start a compaction (universal: runs in all).
    pub level0_file_num_compaction_trigger: usize,
    /// Runs on level 0 at which writers are slowed down.
    pub level0_slowdown_writes_trigger: usize,
    /// Runs on level 0 at which writers wait.
    pub level0_stop_writes_trigger: usize,
    /// Leveled: target size of the base level, bytes.
    pub max_bytes_for_level_base: u64,
    /// Leveled: ratio of the sizes of a level and the one above.
    pub max_bytes_for_level_multiplier: f64,
    /// Leveled: base level and targets follow the size of the last level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Size of a table, bytes.
    pub target_file_size_base: u64,
    /// Ratio of the sizes of tables on level i+1 and on level i.
    pub target_file_size_multiplier: u32,
    /// Largest input of one leveled compaction, bytes. Smaller: more cuts between tables, less temporary space.
    pub max_compaction_bytes: u64,
    /// Compaction debt, bytes, at which writers are slowed down.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Compaction debt, bytes, at which writers wait.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Universal: percent by which a run may be larger than all newer ones together and still join them.
    pub size_ratio: u32,
    /// Universal: fewest runs in one merge.
    pub min_merge_width: usize,
    /// Universal: most runs in one merge.
    pub max_merge_width: usize,
    /// Universal: dead bytes allowed above the last run, percent of its size.
    pub max_size_amplification_percent: u32,
    /// Entries older than this are gone for readers, and compactions remove them; 0: never. No entry expires early; it expires late by at
    /// most a hundredth of this and a few seconds.
    pub ttl_seconds: u64,
    /// Entries younger than this keep their sequence numbers, and with them their age; 0: no entry does.
    pub preserve_internal_time_seconds: u64,
    /// Temperature of data by its age. Takes precedence over the temperatures of levels.
    pub temperature_ages: TemperatureAges,
    /// Amount of data that merges may leave on the fast tier if the engine chooses the age up to which data stays there.
    pub fast_tier_budget: TierBudget,
    /// Data younger than this stays above the last level, older data is demoted to it as compactions come by.
    pub preclude_last_level_data_seconds: Preclude,
    /// Age of data whose sequence number was dropped while ages were not tracked, where a fixed age places data.
    pub untimed_data: UntimedData,
    /// Temperature of tables that are written to the last level; `Unknown`: that of all other tables, or, where age places data and no
    /// setting gives temperatures by age, that of the coldest tier ([`FamilySettings::on_tiers`]).
    pub last_level_temperature: Temperature,
    /// Temperature of all other tables when they are written.
    pub default_write_temperature: Temperature,
}

impl DbSettings {
    /// The size of a memtable in families that follow the memory as it is divided: half of what all memtables may hold, as far as a
    /// memtable may be told to have that. `None`: sizes stay.
    pub(crate) fn moving_write_buffer(&self) -> Option<u64> {
        let half = (self.db_write_buffer_size / 2).clamp(FamilySettings::WRITE_BUFFER_LEAST, FamilySettings::WRITE_BUFFER_MOST);
        (self.memory_budget > 0 && self.db_write_buffer_size < u64::MAX).then_some(half)
    }
}

impl Default for DbSettings {
    fn default() -> Self {
        DbSettings {
            cache_size: 32 << 20,
            cache_index_and_filter_blocks: false,
            compressed_cache: CompressedCache::Off,
            memory_budget: 0,
            max_background_jobs: 2,
            max_subcompactions: 1,
            use_direct_io_for_flush_and_compaction: false,
            bytes_per_sync: 1 << 20,
            max_total_wal_size: 1 << 30,
            db_write_buffer_size: u64::MAX,
            max_open_files: 0,
            tiers: TierPaths::Stored,
        }
    }
}

impl Default for FamilySettings {
    fn default() -> Self {
        FamilySettings {
            write_buffer_size: 64 << 20,
            max_write_buffer_number: 2,
            style: Style::Leveled,
            block_size: 4096,
            bloom_bits_per_key: 10.0,
            bloom_bits_last_level: 6.0,
            compression: Codec::usual().into(),
            num_levels: 7,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            max_bytes_for_level_base: 256 << 20,
            max_bytes_for_level_multiplier: 10.0,
            level_compaction_dynamic_level_bytes: true,
            target_file_size_base: 64 << 20,
            target_file_size_multiplier: 1,
            max_compaction_bytes: 25 * (64 << 20),
            soft_pending_compaction_bytes_limit: 64 << 30,
            hard_pending_compaction_bytes_limit: 256 << 30,
            size_ratio: 1,
            min_merge_width: 2,
            max_merge_width: usize::MAX,
            max_size_amplification_percent: 200,
            ttl_seconds: 0,
            preserve_internal_time_seconds: 0,
            temperature_ages: TemperatureAges::default(),
            fast_tier_budget: TierBudget::default(),
            preclude_last_level_data_seconds: Preclude::Seconds(0),
            untimed_data: UntimedData::Young,
            last_level_temperature: Temperature::Unknown,
            default_write_temperature: Temperature::Unknown,
        }
    }
}

impl FamilySettings {
    /// The least that [`FamilySettings::write_buffer_size`] may be, bytes: smaller memtables are flushed at almost every batch.
    pub const WRITE_BUFFER_LEAST: u64 = 4 << 10;
    /// The most, bytes: larger memtables take minutes to replay.
    pub const WRITE_BUFFER_MOST: u64 = 2 << 30;

    /// For how long, seconds, the age of an entry must be known; 0: not at all.
    pub(crate) fn window(&self) -> u64 {
        let preserve = self.preserve_internal_time_seconds.max(self.temperature_ages.oldest()).max(self.ttl_seconds);
        let Preclude::Seconds(preclude) = self.preclude_last_level_data_seconds else { return preserve };
        preserve.max(preclude)
    }

    /// For how long, seconds, entries keep their numbers on the last level; 0: not at all. An entry that lost its number cannot be told
    /// from the newest such entry, so an age may grow only as far as there are numbers: to twice its present value. A little more is kept,
    /// because times are known to a hundredth.
    pub(crate) fn keeps_numbers_for(&self) -> u64 {
        let Preclude::Seconds(age) = self.preclude_last_level_data_seconds else { return self.window() };
        self.window().max(age.saturating_mul(2).saturating_add(age / 32))
    }

    /// The compression of a level as the settings have it ([`Codecs::at`]).
    pub fn compression_at(&self, level: usize) -> Compression {
        self.compression.at(level)
    }

    /// Data goes to the last level by its age: the level above it keeps what is too young.
    #[doc(hidden)]
    pub fn places_by_age(&self) -> bool {
        self.preclude_last_level_data_seconds.is_on() && self.num_levels >= Preclude::LEAST_LEVELS
    }

    /// The temperature of tables that are written to a level.
    pub(crate) fn temperature_at(&self, level: usize) -> Temperature {
        self.temperature_of_last(level).unwrap_or(self.default_write_temperature)
    }

    /// Temperature that a table of a level should have at `now`, if its newest write was at `newest` and it was written as `written`: by
    /// its age, if settings give temperatures by age; else the last level has its temperature however a table came there, and all others
    /// keep theirs.
    #[doc(hidden)]
    pub fn temperature_of(&self, level: usize, newest: u64, written: Temperature, now: u64) -> Temperature {
        self.temperature_ages.at(newest, now).or(self.temperature_of_last(level)).unwrap_or(written)
    }

    /// Temperature of the last level if the settings name none: where age places data, that of the database's coldest tier, so that naming
    /// a slow directory and an age is enough. Hot is not taken, because it is no place for old data.
    #[doc(hidden)]
    pub fn last_level_by(&self, tiers: impl Iterator<Item = Temperature>) -> Option<Temperature> {
        let is_open = self.last_level_temperature == Temperature::Unknown && self.temperature_ages == TemperatureAges::default();
        tiers.max().filter(|coldest| is_open && self.places_by_age() && *coldest > Temperature::Hot)
    }

    /// The settings with a last level's temperature filled in from the database's tiers, if they leave it open.
    #[must_use]
    #[doc(hidden)]
    pub fn on_tiers(self: Arc<Self>, tiers: impl Iterator<Item = Temperature>) -> Arc<Self> {
        let Some(last_level_temperature) = self.last_level_by(tiers) else { return self };
        Arc::new(FamilySettings { last_level_temperature, ..(*self).clone() })
    }

    fn temperature_of_last(&self, level: usize) -> Option<Temperature> {
        Some(self.last_level_temperature).filter(|last| level + 1 >= self.num_levels && *last != Temperature::Unknown)
    }
}
