//! The flags of `sinter bench`: db_bench's names and defaults.

use crate::flags::boolean;
use clap::Args;
use sinter_lab::bench::{BenchConfig, Workload, parse_workloads};
use sinterdb::internal::settings::parse_bytes;
use std::path::PathBuf;

/// db_bench's flags. Sizes may carry a unit (64MiB). A flag that is not here is an error, never ignored.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case", args_override_self = true, allow_negative_numbers = true)]
pub struct BenchFlags {
    /// Comma-separated workloads; `[Xn]` behind one repeats it n times.
    #[arg(long, default_value = "fillseq,fillrandom,overwrite,readrandom,readseq,readreverse,seekrandom,stats")]
    pub benchmarks: String,
    /// Keys are numbered from 0 to this; also the operations per thread.
    #[arg(long, default_value_t = 1_000_000)]
    pub num: u64,
    /// Reads per thread; negative: num.
    #[arg(long, default_value_t = -1)]
    pub reads: i64,
    /// Writes per thread; negative or 0: num.
    #[arg(long, default_value_t = -1)]
    pub writes: i64,
    /// Deletes per thread; negative: num.
    #[arg(long, default_value_t = -1)]
    pub deletes: i64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 16)]
    pub key_size: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    pub value_size: usize,
    /// Values compress to this part of their size.
    #[arg(long, default_value_t = 0.5)]
    pub compression_ratio: f64,
    /// Threads per workload.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds after which random workloads end, instead of by count; 0: by count.
    #[arg(long, default_value_t = 0)]
    pub duration: u64,
    /// Seed of all keys. (db_bench's 0 means the time of day; here every run can be repeated.)
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Entries per write, keys per multi-get.
    #[arg(long, default_value_t = 1)]
    pub batch_size: u64,
    /// Entries read behind each seek.
    #[arg(long, default_value_t = 0)]
    pub seek_nexts: u64,
    /// Percent of reads in readrandomwriterandom.
    #[arg(long, default_value_t = 90)]
    pub readwritepercent: u64,
    /// Random reads draw keys by exp(-range * u), as db_bench; 0: uniform.
    #[arg(long, default_value_t = 0.0)]
    pub read_random_exp_range: f64,
    /// Random reads and updates draw keys by Zipf's law with this exponent; 0: uniform.
    #[arg(long, default_value_t = 0.0)]
    pub zipf_alpha: f64,
    /// Loads, overwrite, updaterandom and the writer beside readers write so many bytes per second in all; 0: as fast as they can.
    #[arg(long, default_value = "0", value_parser = parse_bytes)]
    pub benchmark_write_rate_limit: u64,
    /// Directory of the database, emptied first unless use_existing_db, or zoned:DRIVE for the volume on a zoned drive. Default: a new
    /// directory in $TMPDIR or here, removed at the end.
    #[arg(long, visible_alias = "store")]
    pub db: Option<PathBuf>,
    #[command(flatten)]
    pub switches: Switches,
    /// Latencies: absent, one line; given, the distribution too; --histogram=0, no operation is timed.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub histogram: Option<bool>,
    /// Write the results as JSON to this file; `-`: to stdout, and the text to stderr.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Settings of the database.
    #[command(flatten)]
    pub engine: EngineFlags,
}

/// True or false; `--sync` alone is true, `--sync=0` is false.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct Switches {
    /// Work on the database that is there; loads (fill...) are skipped.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub use_existing_db: bool,
    /// Write without a log.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub disable_wal: bool,
    /// Every write is durable before it returns.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub sync: bool,
    /// Print all counters at the end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub statistics: bool,
    /// Keep the default directory, which is removed otherwise.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub keep: bool,
}

/// Settings of the database. Unless a budget or a file is given, those not named have db_bench's defaults.
#[derive(Debug, Default, Args)]
#[command(rename_all = "snake_case", next_help_heading = "Database")]
pub struct EngineFlags {
    /// A RocksDB OPTIONS file, read before the flags. What has no effect here is reported.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings", "memory", "space_amplification"])]
    pub options_file: Option<PathBuf>,
    /// A SinterDB settings file (TOML), read before the flags.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["memory", "space_amplification"])]
    pub settings: Option<PathBuf>,
    /// Budget: bytes for memtables and cache together.
    #[arg(long)]
    pub memory: Option<String>,
    /// Budget: size on disk per live byte.
    #[arg(long)]
    pub space_amplification: Option<f64>,
    /// 0 or level, 1 or universal [default: 0].
    #[arg(long)]
    pub compaction_style: Option<String>,
    /// none, snappy, lz4, zstd, zlib, bzip2, or auto: the engine chooses for each level [default: snappy].
    #[arg(long)]
    pub compression_type: Option<String>,
    /// One compression per level from level 0 on; the last repeats. Separated by blanks or `,`, and then each may have options
    /// (`zstd:3:dict=16KiB`), or by `:`.
    #[arg(long)]
    pub compression_per_level: Option<String>,
    /// Effort of the codec; 32767: its default.
    #[arg(long)]
    pub compression_level: Option<i32>,
    /// Zstd: bytes of a dictionary per table.
    #[arg(long)]
    pub compression_max_dict_bytes: Option<u32>,
    /// Levels above this one are not compressed; negative: all are.
    #[arg(long)]
    pub min_level_to_compress: Option<i64>,
    /// Filter bits per key; negative: no filter, db_bench's default.
    #[arg(long)]
    pub bloom_bits: Option<f64>,
    /// No filter on the last level.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub optimize_filters_for_hits: Option<bool>,
    /// Block cache, bytes [default: 32MiB].
    #[arg(long)]
    pub cache_size: Option<String>,
    /// Indexes and filters are in the block cache.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub cache_index_and_filter_blocks: Option<bool>,
    /// A directory, or zoned:DRIVE, for tables of a temperature, as in cold=/mnt/slow (hot, warm, cool, cold, ice); may be repeated.
    #[arg(long, value_name = "TEMPERATURE=DIRECTORY")]
    pub tier: Vec<String>,
    /// Makes a tier as slow as a medium with that seek and throughput, as in cold=8,150; may be repeated (docs/engine/tiering.md).
    #[arg(long, value_name = "TEMPERATURE=MILLISECONDS,MB_PER_S")]
    pub tier_model: Vec<String>,
    /// How warm data is by its age, as in "hot 1h, warm 7d, cold" [default: off].
    #[arg(long)]
    pub temperature_ages: Option<String>,
    /// Of the block cache, for compressed blocks: auto, off, or a share as in 0.25 [default: off].
    #[arg(long)]
    pub compressed_cache: Option<String>,
    /// Bytes that memtables and cache share and that move between them; 0, the only one beside --memory: none move [default: --memory].
    #[arg(long)]
    pub memory_budget: Option<String>,
    /// Bytes of a block [default: 4096].
    #[arg(long)]
    pub block_size: Option<String>,
    /// Bytes of a memtable [default: 64MiB].
    #[arg(long)]
    pub write_buffer_size: Option<String>,
    /// Memtables before writers wait [default: 2].
    #[arg(long)]
    pub max_write_buffer_number: Option<String>,
    /// All memtables together, bytes; 0: no limit.
    #[arg(long)]
    pub db_write_buffer_size: Option<String>,
    /// All logs together, bytes; 0: four times the memtables.
    #[arg(long)]
    pub max_total_wal_size: Option<String>,
    /// Levels [default: 7].
    #[arg(long)]
    pub num_levels: Option<String>,
    /// Runs on level 0 that start a compaction [default: 4].
    #[arg(long)]
    pub level0_file_num_compaction_trigger: Option<String>,
    /// Runs on level 0 that slow writers down [default: 20].
    #[arg(long)]
    pub level0_slowdown_writes_trigger: Option<String>,
    /// Runs on level 0 that stop writers [default: 36].
    #[arg(long)]
    pub level0_stop_writes_trigger: Option<String>,
    /// Bytes of the base level [default: 256MiB].
    #[arg(long)]
    pub max_bytes_for_level_base: Option<String>,
    /// Size ratio of levels [default: 10].
    #[arg(long)]
    pub max_bytes_for_level_multiplier: Option<String>,
    /// Level sizes follow the last level [default: false, as in db_bench].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub level_compaction_dynamic_level_bytes: Option<bool>,
    /// Bytes of a table [default: 64MiB].
    #[arg(long)]
    pub target_file_size_base: Option<String>,
    /// Tables grow by this factor per level [default: 1].
    #[arg(long)]
    pub target_file_size_multiplier: Option<String>,
    /// Input of one compaction, bytes; 0: 25 tables.
    #[arg(long)]
    pub max_compaction_bytes: Option<String>,
    /// Debt that slows writers down, bytes [default: 64GiB].
    #[arg(long)]
    pub soft_pending_compaction_bytes_limit: Option<String>,
    /// Debt that stops writers, bytes [default: 128GiB].
    #[arg(long)]
    pub hard_pending_compaction_bytes_limit: Option<String>,
    /// Universal: size ratio, percent; 0: default (1).
    #[arg(long)]
    pub universal_size_ratio: Option<String>,
    /// Universal: fewest runs in a merge; 0: default (2).
    #[arg(long)]
    pub universal_min_merge_width: Option<String>,
    /// Universal: most runs in a merge; 0: no limit.
    #[arg(long)]
    pub universal_max_merge_width: Option<String>,
    /// Universal: dead bytes allowed, percent; 0: default (200).
    #[arg(long)]
    pub universal_max_size_amplification_percent: Option<String>,
    /// Entries may vanish after so many seconds; 0: never.
    #[arg(long, alias = "ttl")]
    pub ttl_seconds: Option<String>,
    /// The age of entries is known for so many seconds; 0: not at all.
    #[arg(long)]
    pub preserve_internal_time_seconds: Option<String>,
    /// With preclude_last_level_data_seconds = auto: how much may be kept on the fast tier, bytes or a share as in 25%.
    #[arg(long)]
    pub fast_tier_budget: Option<String>,
    /// Data younger than so many seconds stays above the last level; 0: age does not place data.
    #[arg(long)]
    pub preclude_last_level_data_seconds: Option<String>,
    /// Age of data written while ages were not tracked, with a fixed preclude_last_level_data_seconds: young or old.
    #[arg(long)]
    pub untimed_data: Option<String>,
    /// Temperature of tables that are written to the last level.
    #[arg(long)]
    pub last_level_temperature: Option<String>,
    /// Temperature of all other tables when they are written.
    #[arg(long)]
    pub default_write_temperature: Option<String>,
    /// Threads for flushes and compactions [default: 2].
    #[arg(long)]
    pub max_background_jobs: Option<String>,
    /// Key ranges of one compaction [default: 1].
    #[arg(long)]
    pub subcompactions: Option<String>,
    /// Ask for writeback every so many bytes of a table; 0: never.
    #[arg(long)]
    pub bytes_per_sync: Option<String>,
    /// Write tables past the page cache.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    pub use_direct_io_for_flush_and_compaction: Option<bool>,
}

impl BenchFlags {
    /// The workloads and their parameters.
    ///
    /// # Errors
    /// All errors in the flags.
    pub fn plan(&self) -> Result<(Vec<Workload>, BenchConfig), Vec<String>> {
        let config = BenchConfig {
            num: self.num,
            reads: u64::try_from(self.reads).ok(),
            writes: u64::try_from(self.writes).ok(),
            deletes: u64::try_from(self.deletes).ok(),
            key_size: self.key_size,
            value_size: self.value_size,
            compression_ratio: self.compression_ratio,
            threads: self.threads,
            duration: self.duration,
            seed: self.seed,
            batch_size: self.batch_size,
            seek_nexts: self.seek_nexts,
            readwritepercent: self.readwritepercent,
            zipf_alpha: self.zipf_alpha,
            read_random_exp_range: self.read_random_exp_range,
            use_existing_db: self.switches.use_existing_db,
            sync: self.switches.sync,
            benchmark_write_rate_limit: self.benchmark_write_rate_limit,
            time_operations: self.histogram != Some(false),
        };
        let mut complaints = config.validate();
        if self.switches.sync && self.switches.disable_wal {
            complaints.push("sync and disable_wal exclude each other".into());
        }
        match parse_workloads(&self.benchmarks) {
            Ok(workloads) if complaints.is_empty() => return Ok((workloads, config)),
            Ok(_) => {}
            Err(complaint) => complaints.push(complaint),
        }
        Err(complaints)
    }
}
