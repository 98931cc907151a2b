//! SinterDB's settings as fjall's, as far as fjall has them.

use crate::asked::{Asked, Stated};
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, DatabaseBuilder, KeyspaceCreateOptions};
use sinterdb::settings::{Codec, DbSettings, FamilySettings, Style};
use std::path::Path;
use std::sync::Arc;

/// Levels of fjall's trees (lsm-tree, `Config::level_count`).
const LEVELS: usize = 7;
/// Least limit of the journals (fjall's builder asserts it).
const LEAST_JOURNALS: u64 = 64 << 20;
/// Threads, so that one can flush while another compacts, which the others have whatever they are told.
const LEAST_WORKERS: usize = 2;
/// The commonest reason.
const NONE: &str = "fjall has no such setting";

/// Options for opening the database. `wal`: every write is in the kernel before it returns (fjall's default, `PersistMode::Buffer`).
pub fn database(asked: &Asked, wal: bool, directory: &Path) -> DatabaseBuilder<Database> {
    let settings = &asked.database;
    Database::builder(directory)
        .cache_size(settings.cache_size)
        .worker_threads(settings.max_background_jobs.max(LEAST_WORKERS))
        .max_journaling_size(settings.max_total_wal_size.max(LEAST_JOURNALS))
        .manual_journal_persist(!wal)
        // By default values of 4 KiB and more are compressed there with LZ4, which no other engine does in its log.
        .journal_compression(CompressionType::None)
}

/// Options for creating a keyspace.
pub fn keyspace(settings: &FamilySettings, wal: bool) -> KeyspaceCreateOptions {
    let codecs: Vec<CompressionType> = (0..LEVELS).map(|level| codec(settings.compression_at(level).codec)).collect();
    let levels = Leveled::default()
        .with_l0_threshold(trigger(settings))
        .with_table_target_size(table_bytes(settings))
        .with_level_ratio_policy(vec![settings.max_bytes_for_level_multiplier as f32]);
    KeyspaceCreateOptions::default()
        .manual_journal_persist(!wal)
        .max_memtable_size(settings.write_buffer_size)
        .data_block_size_policy(BlockSizePolicy::all(settings.block_size))
        .data_block_compression_policy(CompressionPolicy::new(codecs))
        .filter_policy(filters(settings))
        .compaction_strategy(Arc::new(levels))
}

fn codec(codec: Codec) -> CompressionType {
    if codec == Codec::None { CompressionType::None } else { CompressionType::Lz4 }
}

fn filters(settings: &FamilySettings) -> FilterPolicy {
    let filter = |bits: f64| match bits > 0.0 {
        true => FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits as f32)),
        false => FilterPolicyEntry::None,
    };
    let mut levels = vec![filter(settings.bloom_bits_per_key); LEVELS - 1];
    levels.push(filter(settings.bloom_bits_last_level.min(settings.bloom_bits_per_key)));
    FilterPolicy::new(levels)
}

fn trigger(settings: &FamilySettings) -> u8 {
    u8::try_from(settings.level0_file_num_compaction_trigger).unwrap_or(u8::MAX)
}

/// Level 1 of fjall holds as many tables as start a compaction of level 0. Its size decides what compactions cost, so it is kept, and the
/// size of tables gives way.
fn table_bytes(settings: &FamilySettings) -> u64 {
    (settings.max_bytes_for_level_base / u64::from(trigger(settings))).max(1)
}

/// Settings of the spec that fjall cannot follow, each with the reason.
pub fn ignored(asked: &Asked, wal: bool) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for stated in &asked.stated {
        list.extend(why_not(stated, asked).map(|why| format!("{stated}: {why}")));
    }
    if !wal {
        list.push("wal = false: the journal is always written; writes return before it has reached the kernel".into());
    }
    list
}

/// Why fjall does not do what a setting says; `None`: it does.
fn why_not(stated: &Stated, asked: &Asked) -> Option<&'static str> {
    if !stated.understood {
        return Some(NONE);
    }
    let Some(family) = stated.family() else { return why_not_database(&stated.entry.key, &asked.database) };
    asked.families.iter().find(|(name, _)| name == family).and_then(|(_, settings)| why_not_family(&stated.entry.key, settings))
}

fn why_not_database(name: &str, settings: &DbSettings) -> Option<&'static str> {
    match name {
        "max_background_jobs" | "max_background_compactions" | "max_background_flushes" => {
            (settings.max_background_jobs < LEAST_WORKERS).then_some("there are always two workers, one of which prefers flushes")
        }
        "use_direct_io_for_flush_and_compaction" => settings.use_direct_io_for_flush_and_compaction.then_some(NONE),
        "max_total_wal_size" => (settings.max_total_wal_size < LEAST_JOURNALS).then_some("journals may always take 64 MiB"),
        _ => Some(NONE),
    }
}

fn why_not_family(name: &str, settings: &FamilySettings) -> Option<&'static str> {
    match name {
        "write_buffer_size" | "block_size" | "block_cache" | "filter_policy" | "optimize_filters_for_hits" | "comparator" => None,
        "max_bytes_for_level_base" | "max_bytes_for_level_multiplier" => None,
        "level0_file_num_compaction_trigger" => {
            (usize::from(trigger(settings)) != settings.level0_file_num_compaction_trigger).then_some("at most 255")
        }
        "target_file_size_base" => (table_bytes(settings) != settings.target_file_size_base)
            .then_some("tables are max_bytes_for_level_base / level0_file_num_compaction_trigger large"),
        "compaction_style" => (settings.style != Style::Leveled).then_some("compaction is always leveled"),
        "num_levels" => (settings.num_levels != LEVELS).then_some("there are always 7 levels"),
        "level_compaction_dynamic_level_bytes" => {
            (!settings.level_compaction_dynamic_level_bytes).then_some("levels are always filled from the last one")
        }
        "compression" | "compression_per_level" | "bottommost_compression" => {
            let known = |codec| matches!(codec, Codec::None | Codec::Lz4);
            let is_known = settings.compression.fixed().is_some_and(|list| list.iter().all(|one| known(one.codec)));
            (!is_known).then_some("there are only none and LZ4; other codecs become LZ4")
        }
        _ => Some(NONE),
    }
}
