//! From flags to the settings of the database: a base (db_bench's defaults, budgets, or a file), then the flags that were given.

use super::flags::EngineFlags;
use sinterdb::codec::{Codec, Compression};
use sinterdb::db::DEFAULT_FAMILY;
use sinterdb::settings::{Budgets, DbSettings, FamilySettings, OptionsFile, Settings, Style, parse_bytes, parse_compression};
use std::path::Path;

/// What a database is opened with, and what the user should be told about it.
#[derive(Debug)]
pub struct Chosen {
    /// The database.
    pub database: DbSettings,
    /// Its one family.
    pub family: FamilySettings,
    /// Options of an OPTIONS file that have no effect here.
    pub notes: Vec<String>,
}

/// db_bench's word for "the codec's own level".
const DEFAULT_LEVEL: i32 = 32_767;

/// The settings that the flags ask for.
///
/// # Errors
/// Everything that is wrong, one line each.
pub fn choose(flags: &EngineFlags) -> Result<Chosen, Vec<String>> {
    let mut chosen = base(flags)?;
    let mut complaints = Vec::new();
    let mut collect = |result: Result<(), String>| complaints.extend(result.err());
    collect(apply_database(flags, &mut chosen));
    collect(apply_family(flags, &mut chosen.family));
    collect(apply_zero_is_default(flags, &mut chosen));
    collect(apply_compression(flags, &mut chosen.family));
    complaints.extend(chosen.database.validate().err().into_iter().flatten());
    complaints.extend(chosen.family.validate().err().into_iter().flatten());
    if complaints.is_empty() { Ok(chosen) } else { Err(complaints) }
}

fn base(flags: &EngineFlags) -> Result<Chosen, Vec<String>> {
    let plain = |settings: &Settings| Chosen { database: settings.db.clone(), family: settings.family(DEFAULT_FAMILY), notes: Vec::new() };
    if let Some(path) = &flags.options_file {
        let file = OptionsFile::parse(&read(path)?).map_err(|list| in_file(path, list))?;
        let family = file.families.iter().find(|(name, _)| name == DEFAULT_FAMILY).map(|(_, family)| family.clone());
        return Ok(Chosen { database: file.db.clone(), family: family.unwrap_or_default(), notes: in_file(path, file.report()) });
    }
    if let Some(path) = &flags.settings {
        return Ok(plain(&Settings::from_toml(&read(path)?).map_err(|list| in_file(path, list))?));
    }
    if flags.memory.is_some() || flags.space_amplification.is_some() {
        let memory = flags.memory.as_deref().map(parse_bytes).transpose().map_err(|what| vec![format!("memory: {what}")])?;
        let settings = Settings::new(Budgets { memory, space_amplification: flags.space_amplification });
        settings.validate()?;
        return Ok(plain(&settings));
    }
    Ok(db_bench_defaults())
}

/// What db_bench 7.8 runs with if no flag is given (its cache is 8 MiB; later versions have 32).
fn db_bench_defaults() -> Chosen {
    let family = FamilySettings {
        bloom_bits_per_key: 0.0,
        bloom_bits_last_level: 0.0,
        compression: vec![Compression { codec: Codec::Snappy, level: None, dictionary_bytes: 0 }],
        level_compaction_dynamic_level_bytes: false,
        hard_pending_compaction_bytes_limit: 128 << 30,
        ..FamilySettings::default()
    };
    let database = DbSettings { bytes_per_sync: 0, max_total_wal_size: wal_limit(&family), ..DbSettings::default() };
    Chosen { database, family, notes: Vec::new() }
}

/// RocksDB's `max_total_wal_size` of 0.
fn wal_limit(family: &FamilySettings) -> u64 {
    family.write_buffer_size.saturating_mul(family.max_write_buffer_number as u64).saturating_mul(4)
}

fn read(path: &Path) -> Result<String, Vec<String>> {
    std::fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])
}

fn in_file(path: &Path, list: Vec<String>) -> Vec<String> {
    list.into_iter().map(|line| format!("{}: {line}", path.display())).collect()
}

fn apply_database(flags: &EngineFlags, chosen: &mut Chosen) -> Result<(), String> {
    let database = &mut chosen.database;
    let named = [
        ("cache_size", &flags.cache_size),
        ("max_background_jobs", &flags.max_background_jobs),
        ("max_subcompactions", &flags.subcompactions),
        ("bytes_per_sync", &flags.bytes_per_sync),
    ];
    for (name, value) in named {
        value.as_ref().map_or(Ok(()), |value| database.set(name, value))?;
    }
    if let Some(direct) = flags.use_direct_io_for_flush_and_compaction {
        database.use_direct_io_for_flush_and_compaction = direct;
    }
    Ok(())
}

fn apply_family(flags: &EngineFlags, family: &mut FamilySettings) -> Result<(), String> {
    let named = [
        ("block_size", &flags.block_size),
        ("write_buffer_size", &flags.write_buffer_size),
        ("max_write_buffer_number", &flags.max_write_buffer_number),
        ("num_levels", &flags.num_levels),
        ("level0_file_num_compaction_trigger", &flags.level0_file_num_compaction_trigger),
        ("level0_slowdown_writes_trigger", &flags.level0_slowdown_writes_trigger),
        ("level0_stop_writes_trigger", &flags.level0_stop_writes_trigger),
        ("max_bytes_for_level_base", &flags.max_bytes_for_level_base),
        ("max_bytes_for_level_multiplier", &flags.max_bytes_for_level_multiplier),
        ("target_file_size_base", &flags.target_file_size_base),
        ("target_file_size_multiplier", &flags.target_file_size_multiplier),
        ("soft_pending_compaction_bytes_limit", &flags.soft_pending_compaction_bytes_limit),
        ("hard_pending_compaction_bytes_limit", &flags.hard_pending_compaction_bytes_limit),
        ("ttl_seconds", &flags.ttl_seconds),
    ];
    for (name, value) in named {
        value.as_ref().map_or(Ok(()), |value| family.set(name, value))?;
    }
    if let Some(dynamic) = flags.level_compaction_dynamic_level_bytes {
        family.level_compaction_dynamic_level_bytes = dynamic;
    }
    if let Some(bits) = flags.bloom_bits {
        family.bloom_bits_per_key = bits.max(0.0);
        family.bloom_bits_last_level = bits.max(0.0);
    }
    if flags.optimize_filters_for_hits == Some(true) {
        family.bloom_bits_last_level = 0.0;
    }
    match flags.compaction_style.as_deref() {
        None => {}
        Some("0" | "level" | "leveled") => family.style = Style::Leveled,
        Some("1" | "universal") => family.style = Style::Universal,
        Some(other) => return Err(format!("compaction_style: {other:?} is neither 0 (level) nor 1 (universal)")),
    }
    Ok(())
}

/// Flags whose 0 means "the default" in db_bench.
fn apply_zero_is_default(flags: &EngineFlags, chosen: &mut Chosen) -> Result<(), String> {
    let defaults = FamilySettings::default();
    let Chosen { database, family, .. } = chosen;
    let value = |flag: &Option<String>| flag.clone().filter(|text| text.parse() != Ok(0u64));
    let asked_for_zero = |flag: &Option<String>| flag.is_some() && value(flag).is_none();
    let by_default = flags.options_file.is_none() && flags.settings.is_none() && flags.memory.is_none();
    for (name, flag, zero) in [
        ("size_ratio", &flags.universal_size_ratio, u64::from(defaults.size_ratio)),
        ("min_merge_width", &flags.universal_min_merge_width, defaults.min_merge_width as u64),
        ("max_merge_width", &flags.universal_max_merge_width, defaults.max_merge_width as u64),
        (
            "max_size_amplification_percent",
            &flags.universal_max_size_amplification_percent,
            u64::from(defaults.max_size_amplification_percent),
        ),
    ] {
        if flag.is_some() {
            family.set(name, &value(flag).unwrap_or_else(|| zero.to_string()))?;
        }
    }
    match value(&flags.max_compaction_bytes) {
        Some(text) => family.set("max_compaction_bytes", &text)?,
        None if asked_for_zero(&flags.max_compaction_bytes) || by_default => {
            family.max_compaction_bytes = family.target_file_size_base.saturating_mul(25);
        }
        None => {}
    }
    match value(&flags.max_total_wal_size) {
        Some(text) => database.set("max_total_wal_size", &text)?,
        None if asked_for_zero(&flags.max_total_wal_size) || by_default => database.max_total_wal_size = wal_limit(family),
        None => {}
    }
    match value(&flags.db_write_buffer_size) {
        Some(text) => database.set("db_write_buffer_size", &text)?,
        None if asked_for_zero(&flags.db_write_buffer_size) => database.db_write_buffer_size = u64::MAX,
        None => {}
    }
    Ok(())
}

fn apply_compression(flags: &EngineFlags, family: &mut FamilySettings) -> Result<(), String> {
    if flags.compression_type.is_some() && flags.compression_per_level.is_some() {
        return Err("compression_type and compression_per_level exclude each other".into());
    }
    if let Some(name) = &flags.compression_type {
        family.compression = vec![codec(name)?];
    }
    if let Some(list) = &flags.compression_per_level {
        family.compression = list.split([':', ',']).map(codec).collect::<Result<_, _>>()?;
    }
    if let Some(level) = flags.compression_level.filter(|level| *level != DEFAULT_LEVEL) {
        family.compression.iter_mut().filter(|c| c.codec != Codec::None).for_each(|c| c.level = Some(level));
    }
    if let Some(bytes) = flags.compression_max_dict_bytes {
        family.compression.iter_mut().filter(|c| c.codec == Codec::Zstd).for_each(|c| c.dictionary_bytes = bytes);
    }
    if let Some(first) = flags.min_level_to_compress.and_then(|level| usize::try_from(level).ok()) {
        let (plain, levels) = (Compression::default(), family.num_levels.max(first + 1).min(64));
        family.compression = (0..levels).map(|level| if level < first { plain } else { family.compression_at(level) }).collect();
    }
    Ok(())
}

/// One codec by db_bench's name, or by the name it has in OPTIONS files.
fn codec(name: &str) -> Result<Compression, String> {
    let word = name.trim().to_ascii_lowercase();
    let short = match word.as_str() {
        "knocompression" => "none",
        "ksnappycompression" => "snappy",
        "kzlibcompression" => "zlib",
        "kbzip2compression" => "bzip2",
        "klz4compression" => "lz4",
        "kzstd" => "zstd",
        other => other,
    };
    let known = parse_compression(short)?;
    match known[..] {
        [one] => Ok(one),
        _ => Err(format!("{name:?} is not one codec")),
    }
}

/// The effective settings by name, for results.
pub fn listing(database: &DbSettings, family: &FamilySettings) -> std::collections::BTreeMap<String, String> {
    let text = database.to_toml() + &family.to_toml();
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    /// The settings that a command line asks for.
    fn settings(line: &str) -> Result<Chosen, Vec<String>> {
        let command = EngineFlags::augment_args(clap::Command::new("bench"));
        let matches = command.try_get_matches_from(std::iter::once("bench").chain(line.split_whitespace()));
        choose(&EngineFlags::from_arg_matches(&matches.unwrap()).unwrap())
    }

    #[test]
    fn without_flags_it_is_db_bench() {
        let Chosen { database, family, notes } = settings("").unwrap();
        assert_eq!((database.cache_size, database.max_background_jobs, database.bytes_per_sync), (32 << 20, 2, 0));
        assert_eq!(database.max_total_wal_size, 512 << 20);
        assert_eq!((family.write_buffer_size, family.max_write_buffer_number, family.block_size), (64 << 20, 2, 4096));
        assert_eq!((family.bloom_bits_per_key, family.level_compaction_dynamic_level_bytes), (0.0, false));
        assert_eq!((family.max_bytes_for_level_base, family.target_file_size_base), (256 << 20, 64 << 20));
        assert_eq!(family.max_compaction_bytes, 25 * (64 << 20));
        assert_eq!(family.compression.iter().map(|c| c.codec).collect::<Vec<_>>(), [Codec::Snappy]);
        assert!(notes.is_empty());
    }

    #[test]
    fn flags_win() {
        let chosen =
            settings("--compaction_style=universal --bloom_bits=10 --optimize_filters_for_hits --cache_size=1GiB --subcompactions=2");
        let Chosen { database, family, .. } = chosen.unwrap();
        assert_eq!((family.style, family.bloom_bits_per_key, family.bloom_bits_last_level), (Style::Universal, 10.0, 0.0));
        assert_eq!((database.cache_size, database.max_subcompactions), (1 << 30, 2));
        let family =
            settings("--target_file_size_base=8MiB --write_buffer_size=8388608 --max_bytes_for_level_base=33554432").unwrap().family;
        assert_eq!((family.write_buffer_size, family.max_bytes_for_level_base), (8 << 20, 32 << 20));
        assert_eq!(family.max_compaction_bytes, 25 * (8 << 20), "follows the table size, as in RocksDB");
    }

    #[test]
    fn zero_means_the_default_where_it_does_in_db_bench() {
        let line = "--universal_size_ratio=0 --universal_min_merge_width=0 --universal_max_merge_width=0 --max_compaction_bytes=0";
        let Chosen { family, .. } = settings(line).unwrap();
        let defaults = FamilySettings::default();
        assert_eq!((family.size_ratio, family.min_merge_width, family.max_merge_width), (1, 2, defaults.max_merge_width));
        let Chosen { database, family, .. } =
            settings("--universal_size_ratio=7 --max_total_wal_size=0 --db_write_buffer_size=0 --write_buffer_size=1MiB").unwrap();
        assert_eq!((family.size_ratio, database.max_total_wal_size, database.db_write_buffer_size), (7, 8 << 20, u64::MAX));
    }

    #[test]
    fn compression_of_levels() {
        let codecs = |line: &str| settings(line).unwrap().family.compression.iter().map(|c| (c.codec, c.level)).collect::<Vec<_>>();
        assert_eq!(codecs("--compression_type=zstd --compression_level=3"), [(Codec::Zstd, Some(3))]);
        assert_eq!(codecs("--compression_type=zstd --compression_level=32767"), [(Codec::Zstd, None)]);
        let list = [(Codec::None, None), (Codec::None, None), (Codec::Lz4, None)];
        assert_eq!(codecs("--compression_per_level=none:none:lz4"), list);
        assert_eq!(codecs("--compression_per_level=kNoCompression,kNoCompression,kLZ4Compression"), list);
        assert_eq!(
            codecs("--compression_type=lz4 --min_level_to_compress=2")[1..4],
            [(Codec::None, None), (Codec::Lz4, None), (Codec::Lz4, None)]
        );
        assert_eq!(
            settings("--compression_type=zstd --compression_max_dict_bytes=4096").unwrap().family.compression[0].dictionary_bytes,
            4096
        );
        for wrong in ["--compression_type=xpress", "--compression_type=lz4:zstd", "--compression_type=lz4 --compression_per_level=lz4"] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn budgets_and_files_replace_the_defaults_of_db_bench() {
        let family = settings("--memory=1GiB --block_size=8192").unwrap().family;
        assert_eq!((family.block_size, family.bloom_bits_per_key), (8192, FamilySettings::default().bloom_bits_per_key));
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let toml = file("s.toml", "cache_size = \"5MiB\"\n[family.default]\nnum_levels = 5\n");
        let Chosen { database, family, .. } = settings(&format!("--settings={toml} --block_size=1024")).unwrap();
        assert_eq!((database.cache_size, family.num_levels, family.block_size), (5 << 20, 5, 1024));
        let options = file(
            "OPTIONS",
            "[Version]\n  rocksdb_version=7.8.3\n[DBOptions]\n  max_background_jobs=3\n  foo_bar=1\n[CFOptions \"default\"]\n  num_levels=4\n",
        );
        let Chosen { database, family, notes } = settings(&format!("--options_file={options}")).unwrap();
        assert_eq!((database.max_background_jobs, family.num_levels), (3, 4));
        assert!(notes.iter().any(|note| note.contains("foo_bar")), "{notes:?}");
        let wrong = file("bad.toml", "cache_sice = 1\n");
        assert!(settings(&format!("--settings={wrong}")).unwrap_err()[0].contains("bad.toml"));
    }

    #[test]
    fn every_complaint_is_listed_at_once() {
        let complaints = settings("--num_levels=99 --block_size=1").unwrap_err();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }

    #[test]
    fn the_listing_names_every_setting() {
        let Chosen { database, family, .. } = settings("").unwrap();
        let listing = listing(&database, &family);
        assert_eq!(listing["compression"], "snappy");
        assert_eq!(listing["cache_size"], "32MiB");
    }
}
