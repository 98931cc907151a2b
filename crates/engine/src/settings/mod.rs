//! Settings: plain data, with the consequences of each written beside it. STUB for loading, validation, budgets.

use crate::codec::{Codec, Compression};

/// Settings of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct DbSettings {
    /// Block cache, bytes: data blocks, indexes and filters together.
    pub cache_size: u64,
    /// Threads for flushes and compactions. 0: the writing thread does the work itself, in order (tests, tools).
    pub max_background_jobs: usize,
    /// Key ranges into which one large compaction may be split.
    pub max_subcompactions: usize,
    /// Write tables past the page cache.
    pub use_direct_io_for_flush_and_compaction: bool,
    /// Ask for writeback every so many bytes of a table.
    pub bytes_per_sync: u64,
    /// Flush the oldest family when all live log segments together exceed this.
    pub max_total_wal_size: u64,
    /// Memtables of all families together may hold this much.
    pub db_write_buffer_size: u64,
}

/// Shape of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Memtable size, bytes.
    pub write_buffer_size: u64,
    /// Memtables, the active one included, before writers wait.
    pub max_write_buffer_number: usize,
    /// Shape of the tree.
    pub style: Style,
    /// Uncompressed size of a data block, bytes.
    pub block_size: u32,
    /// Filter bits per key; 0 for no filter.
    pub bloom_bits_per_key: f64,
    /// Filter bits per key on the last level, where a filter helps only absent keys.
    pub bloom_bits_last_level: f64,
    /// Per level; the last entry repeats for deeper ones.
    pub compression: Vec<Compression>,
    /// Levels of the tree.
    pub num_levels: usize,
    /// Runs on level 0 that start a compaction (universal: runs in all).
    pub level0_file_num_compaction_trigger: usize,
    /// Runs on level 0 at which writers are slowed down.
    pub level0_slowdown_writes_trigger: usize,
    /// Runs on level 0 at which writers wait.
    pub level0_stop_writes_trigger: usize,
    /// Leveled: target size of the base level, bytes.
    pub max_bytes_for_level_base: u64,
    /// Leveled: each level is so many times larger than the one above.
    pub max_bytes_for_level_multiplier: f64,
    /// Leveled: base level and targets follow the size of the last level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Size of a table, bytes.
    pub target_file_size_base: u64,
    /// Tables of level i+1 are so many times larger than those of level i.
    pub target_file_size_multiplier: u32,
    /// Largest input of one leveled compaction, bytes.
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
    /// Entries older than this may vanish; 0: never. A promise to keep at least that long, not to remove at once.
    pub ttl_seconds: u64,
}

impl Default for DbSettings {
    fn default() -> Self {
        DbSettings {
            cache_size: 32 << 20,
            max_background_jobs: 2,
            max_subcompactions: 1,
            use_direct_io_for_flush_and_compaction: false,
            bytes_per_sync: 1 << 20,
            max_total_wal_size: 1 << 30,
            db_write_buffer_size: u64::MAX,
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
            bloom_bits_last_level: 10.0,
            compression: vec![Compression { codec: Codec::Lz4, level: None, dictionary_bytes: 0 }],
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
        }
    }
}

impl FamilySettings {
    /// The compression of a level.
    pub fn compression_at(&self, level: usize) -> Compression {
        self.compression.get(level).or(self.compression.last()).copied().unwrap_or_default()
    }
}
