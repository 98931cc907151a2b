//! SinterDB's settings as RocksDB's options. First everything that SinterDB knows too, with its values; then, word for word and by
//! RocksDB's own parser, what is RocksDB's alone.

use crate::asked::{Asked, Stated};
use rocksdb::statistics::StatsLevel;
use rocksdb::{BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Options, UniversalCompactOptions};
use sinter_lab::system::Outcome;
use sinterdb::settings::{Codec, Compression, DbSettings, FamilySettings, Style};
use std::path::Path;
use std::{fs, io};

/// RocksDB's word for "the codec's own level" (`CompressionOptions::kDefaultCompressionLevel`).
const DEFAULT_LEVEL: i32 = 32_767;
/// SinterDB's default effort of zstd. RocksDB's is 3.
const ZSTD_LEVEL: i32 = 1;
/// RocksDB's default of zlib's window bits, which it wants to hear of with every codec.
const WINDOW_BITS: i32 = -14;
/// Samples for a dictionary, as a multiple of its size (include/rocksdb/compression_type.h, `zstd_max_train_bytes`). SinterDB trains too.
const TRAINING: u32 = 100;

/// Options that mean the same to SinterDB and that RocksDB's C interface is not asked for: its parser takes them as they are written.
const VERBATIM: &[&str] = &[
    "cache_index_and_filter_blocks",
    "preserve_internal_time_seconds",
    "preclude_last_level_data_seconds",
    "last_level_temperature",
    "default_write_temperature",
];

/// Options for opening a database.
pub struct Chosen {
    /// The database.
    pub database: Options,
    /// Options of the families by name, in the spec's order.
    pub families: Vec<(String, Options)>,
    /// Settings that RocksDB cannot be told.
    pub ignored: Vec<String>,
}

/// The options that a spec asks for. `cache` is the one block cache of all families; `None`: there is none.
///
/// # Errors
/// An option that RocksDB does not know or whose value it refuses, and codecs that are not built in.
pub fn choose(asked: &Asked, cache: Option<&Cache>) -> Outcome<Chosen> {
    let mut chosen = Chosen { database: database(&asked.database), families: Vec::new(), ignored: Vec::new() };
    for (name, settings) in &asked.families {
        let options = family(settings, cache).map_err(|complaint| format!("[CFOptions \"{name}\"] {complaint}"))?;
        chosen.families.push((name.clone(), options));
    }
    for stated in asked.stated.iter().filter(|stated| !stated.understood || VERBATIM.contains(&stated.entry.key.as_str())) {
        match stated.family() {
            None => apply(&mut chosen.database, stated)?,
            Some(family) => {
                for (_, options) in chosen.families.iter_mut().filter(|(name, _)| name == family) {
                    apply(options, stated)?;
                }
            }
        }
    }
    let ours = asked.stated.iter().filter(|stated| OURS.contains(&stated.entry.key.as_str()));
    chosen.ignored.extend(ours.map(|stated| format!("{stated}: RocksDB has no such setting, or not through its C interface")));
    // Tickers without timers: all that the account needs, and nothing that costs clock reads.
    chosen.database.enable_statistics();
    chosen.database.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    if asked.database.max_background_jobs == 0 {
        chosen
            .ignored
            .push("[DBOptions] max_background_jobs = 0: there are always threads, one for flushes and one for compactions".into());
    }
    Ok(chosen)
}

/// Settings of SinterDB that RocksDB is not told. (`memory_budget` it is: a `WriteBufferManager` charges memtables to the cache.)
const OURS: &[&str] = &["compressed_cache", "ttl_seconds"];

/// RocksDB's own OPTIONS file of an open database.
pub struct Kept(String);

/// Reads the newest OPTIONS file of an open database.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn kept(directory: &Path) -> Outcome<Kept> {
    let paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let files = paths.into_iter().filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-")));
    Ok(Kept(fs::read_to_string(files.max().ok_or("RocksDB has written no OPTIONS file")?)?))
}

impl Kept {
    /// The lines of a section, such as `CFOptions "default"`.
    pub fn section(&self, title: &str) -> impl Iterator<Item = &str> {
        let behind = self.0.split_once(&format!("[{title}]\n")).map_or("", |(_, rest)| rest);
        behind.lines().map(str::trim).take_while(|line| !line.starts_with('['))
    }

    /// Lines of a family's section about compression, in RocksDB's words.
    pub fn compression(&self, family: &str) -> String {
        let section = format!("CFOptions \"{family}\"");
        let lines = || self.section(&section);
        let mut about = vec!["compression=", "compression_per_level=", "compression_opts="];
        if !lines().any(|line| line == "bottommost_compression=kDisableCompressionOption") {
            about.extend(["bottommost_compression=", "bottommost_compression_opts="]);
        }
        let told = lines().filter(|line| about.iter().any(|start| line.starts_with(start)));
        told.map(without_defaults).collect::<Vec<_>>().join(" ")
    }

    /// The option is in its section. RocksDB's parser takes every option in any section, and those of the wrong one do nothing.
    pub fn has(&self, stated: &Stated) -> bool {
        let name = stated.entry.key.split('.').next().unwrap_or_default();
        self.section(&stated.entry.section).any(|line| line.split_once('=').is_some_and(|(known, _)| known == name))
    }
}

/// Reduces a struct of options to level and dictionary, which are all that a spec can ask for.
fn without_defaults(line: &str) -> String {
    let Some((name, members)) = line.split_once("={") else { return line.to_string() };
    let asked = |member: &&str| member.starts_with("level=") || member.starts_with("max_dict_bytes=");
    let asked = members.trim_end_matches('}').split(';').filter(asked);
    format!("{name}={{{}}}", asked.collect::<Vec<_>>().join(";"))
}

/// Options that lead out of the run's directory, where files would be neither counted nor removed.
const ELSEWHERE: &[&str] = &["wal_dir", "db_log_dir", "db_paths", "cf_paths"];

/// Sets one option by its text.
fn apply(options: &mut Options, stated: &Stated) -> Outcome<()> {
    let (name, value) = (&stated.entry.key, &stated.entry.value);
    if ELSEWHERE.contains(&name.as_str()) && !value.is_empty() {
        return Err(format!("{stated}: a run has one directory, medium.directory").into());
    }
    let text = match stated.is_of_tables() {
        true => format!("block_based_table_factory={{{name}={value};}}"),
        false => format!("{name}={value};"),
    };
    *options = options.get_options_from_string(text).map_err(|error| format!("{stated}: RocksDB says: {error}"))?;
    Ok(())
}

fn database(settings: &DbSettings) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(int(settings.max_background_jobs));
    options.set_max_subcompactions(u32::try_from(settings.max_subcompactions).unwrap_or(u32::MAX));
    options.set_use_direct_io_for_flush_and_compaction(settings.use_direct_io_for_flush_and_compaction);
    options.set_bytes_per_sync(settings.bytes_per_sync);
    options.set_max_total_wal_size(settings.max_total_wal_size);
    options.set_db_write_buffer_size(unless_unlimited(settings.db_write_buffer_size));
    options
}

fn family(settings: &FamilySettings, cache: Option<&Cache>) -> Outcome<Options> {
    let mut options = Options::default();
    options.set_write_buffer_size(size(settings.write_buffer_size));
    options.set_max_write_buffer_number(int(settings.max_write_buffer_number));
    options.set_num_levels(int(settings.num_levels));
    options.set_level_zero_file_num_compaction_trigger(int(settings.level0_file_num_compaction_trigger));
    options.set_level_zero_slowdown_writes_trigger(int(settings.level0_slowdown_writes_trigger));
    options.set_level_zero_stop_writes_trigger(int(settings.level0_stop_writes_trigger));
    options.set_max_bytes_for_level_base(settings.max_bytes_for_level_base);
    options.set_max_bytes_for_level_multiplier(settings.max_bytes_for_level_multiplier);
    options.set_level_compaction_dynamic_level_bytes(settings.level_compaction_dynamic_level_bytes);
    options.set_target_file_size_base(settings.target_file_size_base);
    options.set_target_file_size_multiplier(int(settings.target_file_size_multiplier));
    options.set_max_compaction_bytes(settings.max_compaction_bytes);
    options.set_soft_pending_compaction_bytes_limit(unless_unlimited(settings.soft_pending_compaction_bytes_limit));
    options.set_hard_pending_compaction_bytes_limit(unless_unlimited(settings.hard_pending_compaction_bytes_limit));
    options.set_block_based_table_factory(&tables(settings, cache));
    let mut options = options.get_options_from_string(filters(settings))?;
    options.set_optimize_filters_for_hits(settings.bloom_bits_per_key > 0.0 && settings.bloom_bits_last_level == 0.0);
    match settings.style {
        Style::Leveled => options.set_compaction_style(DBCompactionStyle::Level),
        Style::Universal => {
            options.set_compaction_style(DBCompactionStyle::Universal);
            options.set_universal_compaction_options(&universal(settings));
        }
        other => return Err(format!("style: RocksDB is not asked for {other:?}").into()),
    }
    compression(&mut options, settings)?;
    Ok(options)
}

fn tables(settings: &FamilySettings, cache: Option<&Cache>) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_size(settings.block_size as usize);
    match cache {
        Some(cache) => table.set_block_cache(cache),
        None => table.disable_cache(),
    }
    table
}

/// By RocksDB's own parser, because a filter from its C interface does not tell the OPTIONS file how many bits it has.
fn filters(settings: &FamilySettings) -> String {
    let bits = settings.bloom_bits_per_key;
    let filter = if bits > 0.0 { format!("bloomfilter:{bits}:false") } else { "nullptr".into() };
    format!("block_based_table_factory={{filter_policy={filter};}}")
}

fn universal(settings: &FamilySettings) -> UniversalCompactOptions {
    let mut universal = UniversalCompactOptions::default();
    universal.set_size_ratio(int(settings.size_ratio));
    universal.set_min_merge_width(int(settings.min_merge_width));
    universal.set_max_merge_width(int(settings.max_merge_width));
    universal.set_max_size_amplification_percent(int(settings.max_size_amplification_percent));
    universal
}

/// One codec for all levels, or one per level; the last level's own options go where RocksDB has them, to the bottommost one.
fn compression(options: &mut Options, settings: &FamilySettings) -> Outcome<()> {
    if settings.compression.fixed().is_none() {
        return Err("compression: auto is SinterDB's; name a codec".into());
    }
    let levels: Vec<Compression> = (0..settings.num_levels.max(1)).map(|level| settings.compression_at(level)).collect();
    let (last, upper) = levels.split_last().unwrap_or_else(|| unreachable!("there is at least one level"));
    let types = levels.iter().map(|one| codec(one.codec)).collect::<Outcome<Vec<_>>>()?;
    // RocksDB has one effort for all levels but the bottommost. Only zstd's means anything to the codecs here.
    let of_zstd = upper.iter().find(|one| one.codec == Codec::Zstd);
    let effort = of_zstd.or_else(|| upper.iter().find(|one| one.codec != Codec::None)).unwrap_or(last);
    options.set_compression_type(codec(effort.codec)?);
    options.set_compression_options(WINDOW_BITS, level(effort), 0, int(effort.dictionary_bytes));
    options.set_zstd_max_train_bytes(int(effort.dictionary_bytes.saturating_mul(TRAINING)));
    if types.iter().any(|one| *one != types[0]) {
        options.set_compression_per_level(&types);
    }
    if upper.last().is_some_and(|one| one != last) {
        options.set_bottommost_compression_type(codec(last.codec)?);
        options.set_bottommost_compression_options(WINDOW_BITS, level(last), 0, int(last.dictionary_bytes), true);
        options.set_bottommost_zstd_max_train_bytes(int(last.dictionary_bytes.saturating_mul(TRAINING)), true);
    }
    Ok(())
}

fn level(compression: &Compression) -> i32 {
    compression.level.unwrap_or(if compression.codec == Codec::Zstd { ZSTD_LEVEL } else { DEFAULT_LEVEL })
}

fn codec(codec: Codec) -> Outcome<DBCompressionType> {
    Ok(match codec {
        Codec::None => DBCompressionType::None,
        Codec::Snappy => DBCompressionType::Snappy,
        Codec::Lz4 => DBCompressionType::Lz4,
        Codec::Zstd => DBCompressionType::Zstd,
        other => return Err(format!("compression: this RocksDB is built with snappy, lz4 and zstd, not {other:?}").into()),
    })
}

/// A count as RocksDB's `int`; larger numbers become its largest.
fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// RocksDB's "no limit" is 0.
fn unless_unlimited(bytes: u64) -> usize {
    if bytes == u64::MAX { 0 } else { size(bytes) }
}
