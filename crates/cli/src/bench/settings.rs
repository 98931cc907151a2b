//! From flags to the settings of the database: a base (db_bench's defaults, budgets, a file, or the settings of an existing database), then
//! the given flags.

use super::flags::EngineFlags;
use sinter_storage::store::{Medium, Temperature};
use sinterdb::DEFAULT_FAMILY;
use sinterdb::internal::settings::{parse_bytes, parse_compression};
use sinterdb::settings::{Budgets, Codec, Codecs, Compression, DbSettings, FamilySettings, OptionsFile, Settings, Style};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Chosen settings of a database, and notes for the user.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The database.
    pub database: DbSettings,
    /// Settings of the database's only family.
    pub family: FamilySettings,
    /// Options of an OPTIONS file that have no effect here.
    pub notes: Vec<String>,
    /// Tiers that simulate a slow medium.
    pub slow: BTreeMap<Temperature, Medium>,
}

/// Codecs that are not built in, by all their names.
const REPLACED: [&str; 4] = ["lz4hc", "xpress", "klz4hccompression", "kxpresscompression"];
/// Note about their replacement, as for those in OPTIONS files.
const OTHER_CODEC: &str = "this codec is not built in: lz4 is used instead";
/// db_bench's word for "the codec's own level".
const DEFAULT_LEVEL: i32 = 32_767;

/// The settings that the flags ask for. `stored`: the settings of an existing database that is kept.
///
/// # Errors
/// All errors, one line each.
pub fn choose(flags: &EngineFlags, stored: Option<&Settings>) -> Result<Chosen, Vec<String>> {
    let mut chosen = base(flags, stored)?;
    let mut complaints = Vec::new();
    let mut collect = |result: Result<(), String>| complaints.extend(result.err());
    collect(apply_database(flags, &mut chosen));
    collect(apply_family(flags, &mut chosen.family));
    collect(apply_zero_is_default(flags, stored.is_some(), &mut chosen));
    collect(apply_compression(flags, &mut chosen));
    collect(apply_tiers(flags, &mut chosen));
    chosen.notes.extend(note_of_order(&chosen));
    complaints.extend(chosen.database.validate().err().into_iter().flatten());
    complaints.extend(chosen.family.validate().err().into_iter().flatten());
    if complaints.is_empty() { Ok(chosen) } else { Err(complaints) }
}

fn base(flags: &EngineFlags, stored: Option<&Settings>) -> Result<Chosen, Vec<String>> {
    let plain = |settings: &Settings| {
        let (database, family) = (settings.db.clone(), settings.family(DEFAULT_FAMILY));
        Chosen { database, family, ..Chosen::default() }
    };
    if let Some(path) = &flags.options_file {
        let file = OptionsFile::parse(&read(path)?).map_err(|list| in_file(path, list))?;
        let family = file.families.iter().find(|(name, _)| name == DEFAULT_FAMILY).map(|(_, family)| family.clone());
        let notes = in_file(path, file.report());
        return Ok(Chosen { database: file.db.clone(), family: family.unwrap_or_default(), notes, ..Chosen::default() });
    }
    if let Some(path) = &flags.settings {
        return Ok(plain(&Settings::from_toml(&read(path)?).map_err(|list| in_file(path, list))?));
    }
    if flags.memory.is_some() || flags.space_amplification.is_some() {
        let memory = flags.memory.as_deref().map(parse_bytes).transpose().map_err(|what| vec![format!("memory: {what}")])?;
        let budgets = Budgets { memory, space_amplification: flags.space_amplification };
        Settings::new(budgets).validate()?;
        // An existing database keeps its settings, except those that follow from the budgets.
        let mut chosen = plain(stored.unwrap_or(&Settings::default()));
        budgets.set_db(&mut chosen.database);
        budgets.set_family(&mut chosen.family);
        return Ok(chosen);
    }
    Ok(stored.map_or_else(db_bench_defaults, plain))
}

/// A note if a slow tier will stay empty for long.
fn note_of_order(chosen: &Chosen) -> Option<String> {
    let family = &chosen.family;
    let sinks = family.preclude_last_level_data_seconds.is_on() && chosen.database.tiers.named().next().is_some();
    let waits = family.style == Style::Leveled && !family.level_compaction_dynamic_level_bytes;
    (sinks && waits).then(|| {
        "level_compaction_dynamic_level_bytes is false: the last level, where old data go, stays empty until the levels above are full"
            .into()
    })
}

/// db_bench 7.8's settings if no flag is given (its cache is 8 MiB; later versions have 32).
fn db_bench_defaults() -> Chosen {
    let family = FamilySettings {
        bloom_bits_per_key: 0.0,
        bloom_bits_last_level: 0.0,
        compression: Compression { codec: Codec::Snappy, level: None, dictionary_bytes: 0 }.into(),
        level_compaction_dynamic_level_bytes: false,
        hard_pending_compaction_bytes_limit: 128 << 30,
        ..FamilySettings::default()
    };
    let database = DbSettings { max_total_wal_size: wal_limit(&family), ..DbSettings::default() };
    Chosen { database, family, ..Chosen::default() }
}

/// The limit that RocksDB's `max_total_wal_size` of 0 stands for.
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
    let is_zero = |size: &String| parse_bytes(size) == Ok(0);
    if flags.memory.is_some() && flags.memory_budget.as_ref().is_some_and(|budget| !is_zero(budget)) {
        return Err(
            "memory and memory_budget exclude each other, unless memory_budget is 0: then the parts of memory stay as they are".into()
        );
    }
    if [&flags.cache_size, &flags.write_buffer_size, &flags.db_write_buffer_size].iter().any(|size| size.is_some()) {
        // Explicit sizes are not changed later.
        database.memory_budget = 0;
    }
    let named = [
        ("cache_size", &flags.cache_size),
        ("compressed_cache", &flags.compressed_cache),
        ("memory_budget", &flags.memory_budget),
        ("max_background_jobs", &flags.max_background_jobs),
        ("max_subcompactions", &flags.subcompactions),
        ("bytes_per_sync", &flags.bytes_per_sync),
    ];
    for (name, value) in named {
        value.as_ref().map_or(Ok(()), |value| database.set(name, value))?;
    }
    if let Some(count) = flags.cache_index_and_filter_blocks {
        database.cache_index_and_filter_blocks = count;
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
        ("preserve_internal_time_seconds", &flags.preserve_internal_time_seconds),
        ("fast_tier_budget", &flags.fast_tier_budget),
        ("temperature_ages", &flags.temperature_ages),
        ("preclude_last_level_data_seconds", &flags.preclude_last_level_data_seconds),
        ("untimed_data", &flags.untimed_data),
        ("last_level_temperature", &flags.last_level_temperature),
        ("default_write_temperature", &flags.default_write_temperature),
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
fn apply_zero_is_default(flags: &EngineFlags, is_stored: bool, chosen: &mut Chosen) -> Result<(), String> {
    let defaults = FamilySettings::default();
    let Chosen { database, family, .. } = chosen;
    let value = |flag: &Option<String>| flag.clone().filter(|text| text.parse() != Ok(0u64));
    let asked_for_zero = |flag: &Option<String>| flag.is_some() && value(flag).is_none();
    let by_default = flags.options_file.is_none() && flags.settings.is_none() && flags.memory.is_none();
    // An existing database keeps its settings, except those that follow from a given flag.
    let follows = |given: &[&Option<String>]| by_default && (!is_stored || given.iter().any(|flag| flag.is_some()));
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
        None if asked_for_zero(&flags.max_compaction_bytes) || follows(&[&flags.target_file_size_base]) => {
            family.max_compaction_bytes = family.target_file_size_base.saturating_mul(25);
        }
        None => {}
    }
    match value(&flags.max_total_wal_size) {
        Some(text) => database.set("max_total_wal_size", &text)?,
        None if asked_for_zero(&flags.max_total_wal_size) || follows(&[&flags.write_buffer_size, &flags.max_write_buffer_number]) => {
            database.max_total_wal_size = wal_limit(family);
        }
        None => {}
    }
    match value(&flags.db_write_buffer_size) {
        Some(text) => database.set("db_write_buffer_size", &text)?,
        None if asked_for_zero(&flags.db_write_buffer_size) => database.db_write_buffer_size = u64::MAX,
        None => {}
    }
    Ok(())
}

/// Sets the directories of tiers, and the media that they simulate.
fn apply_tiers(flags: &EngineFlags, chosen: &mut Chosen) -> Result<(), String> {
    if !flags.tier.is_empty() {
        chosen.database.set("tiers", &flags.tier.join(", "))?;
    }
    for model in &flags.tier_model {
        let (temperature, medium) = parse_model(model)
            .ok_or_else(|| format!("tier_model: {model:?} is not TEMPERATURE=MILLISECONDS,MB_PER_S, as in cold=8,150"))?;
        if !chosen.database.tiers.named().any(|(named, _)| named == temperature) {
            return Err(format!("tier_model: there is no tier {} (--tier {0}=DIRECTORY)", temperature.name()));
        }
        chosen.slow.insert(temperature, medium);
    }
    Ok(())
}

fn parse_model(text: &str) -> Option<(Temperature, Medium)> {
    let (name, numbers) = text.split_once('=')?;
    let (seek, rate) = numbers.split_once(',')?;
    let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0 && *n < 1e9);
    let (seek, rate): (f64, f64) = (number(seek)?, number(rate)?);
    let medium = Medium { read_mb_per_s: rate, write_mb_per_s: rate, seek: Duration::from_secs_f64(seek / 1000.0) };
    Some((Temperature::from_name(name.trim())?, medium))
}

fn apply_compression(flags: &EngineFlags, chosen: &mut Chosen) -> Result<(), String> {
    let Chosen { family, notes, .. } = chosen;
    if flags.compression_type.is_some() && flags.compression_per_level.is_some() {
        return Err("compression_type and compression_per_level exclude each other".into());
    }
    if let Some(name) = &flags.compression_type {
        let one = || codec(name).map_err(|what| format!("compression_type: {what}, or auto"));
        family.compression = if name.trim() == "auto" { Codecs::Auto } else { one()?.into() };
    }
    if let Some(list) = &flags.compression_per_level {
        family.compression = per_level(list).map_err(|what| format!("compression_per_level: {what}"))?;
    }
    for (flag, given) in [("compression_type", &flags.compression_type), ("compression_per_level", &flags.compression_per_level)] {
        let is_replaced = |text: &String| {
            text.split(|c: char| ":,".contains(c) || c.is_whitespace()).any(|name| REPLACED.contains(&name.to_ascii_lowercase().as_str()))
        };
        notes.extend(given.as_ref().filter(|text| is_replaced(text)).map(|text| format!("{flag} = {text}: {OTHER_CODEC}")));
    }
    if let Some(first) = flags.min_level_to_compress.and_then(|level| usize::try_from(level).ok()) {
        by_hand(family, "min_level_to_compress")?;
        let (plain, levels) = (Compression::default(), family.num_levels.min(64));
        if first > levels {
            return Err(format!("min_level_to_compress = {first}: allowed up to num_levels = {levels}, which compresses none"));
        }
        let list: Vec<_> = (0..levels).map(|level| if level < first { plain } else { family.compression_at(level) }).collect();
        family.compression = list.into();
    }
    if let Some(level) = flags.compression_level.filter(|level| *level != DEFAULT_LEVEL) {
        of_codecs(family, "compression_level", |codec| codec.levels().is_some(), |c| c.level = Some(level))?;
    }
    if let Some(bytes) = flags.compression_max_dict_bytes.filter(|bytes| *bytes > 0) {
        of_codecs(family, "compression_max_dict_bytes", |codec| codec == Codec::Zstd, |c| c.dictionary_bytes = bytes)?;
    }
    Ok(())
}

/// Changes the entries of the codec list that `flag` applies to; an error if there is none.
fn of_codecs(
    family: &mut FamilySettings,
    flag: &str,
    takes: impl Fn(Codec) -> bool,
    change: impl Fn(&mut Compression),
) -> Result<(), String> {
    let mut taking = by_hand(family, flag)?.iter_mut().filter(|entry| takes(entry.codec)).peekable();
    if taking.peek().is_none() {
        return Err(format!("{flag}: no level has a codec that takes it"));
    }
    taking.for_each(change);
    Ok(())
}

/// The codec list that `flag` changes; an error if compression is auto.
fn by_hand<'a>(family: &'a mut FamilySettings, flag: &str) -> Result<&'a mut Vec<Compression>, String> {
    match &mut family.compression {
        Codecs::Fixed(list) => Ok(list),
        _ => Err(format!("{flag}: compression is auto, which chooses by itself")),
    }
}

/// Parses a codec list. Entries with blanks or commas between them, as in settings files, can have options (`zstd:3:dict=16KiB`), as can a
/// single entry; entries with colons between them, as in OPTIONS files, are names only.
fn per_level(list: &str) -> Result<Codecs, String> {
    let is_blank = |c: char| c == ',' || c.is_whitespace();
    let short = |entry: &str| {
        let (name, options) = entry.find(':').map_or((entry, ""), |colon| entry.split_at(colon));
        short_name(name) + options
    };
    if !list.trim().contains(is_blank) {
        // One codec with options, or several names.
        let one = codec(&short(list.trim()));
        return Ok(Codecs::Fixed(one.map_or_else(|_| list.split(':').map(codec).collect(), |one| Ok(vec![one]))?));
    }
    let pieces = list.split(',').map(|piece| piece.split_whitespace().map(short).collect::<Vec<_>>().join(" "));
    parse_compression(&pieces.collect::<Vec<_>>().join(","))
}

/// One codec by db_bench's name, or by the name it has in OPTIONS files.
fn codec(name: &str) -> Result<Compression, String> {
    match parse_compression(&short_name(name))?.fixed() {
        Some([one]) => Ok(*one),
        _ if name.trim() == "auto" => Err("auto is for all levels (--compression_type=auto)".into()),
        _ => Err(format!("{name:?} is not one codec")),
    }
}

/// A codec's name in settings files.
fn short_name(name: &str) -> String {
    let word = name.trim().to_ascii_lowercase();
    let short = match word.as_str() {
        "knocompression" => "none",
        "ksnappycompression" => "snappy",
        "kzlibcompression" => "zlib",
        "kbzip2compression" => "bzip2",
        "klz4compression" => "lz4",
        other if REPLACED.contains(&other) => "lz4",
        "kzstd" | "kzstdnotfinalcompression" => "zstd",
        other => other,
    };
    short.to_string()
}

/// Settings in TOML as pairs of name and value. (A value with `#` cannot stand in a spec, where it would begin a comment.)
pub fn listing(toml: &str) -> BTreeMap<String, String> {
    let pairs = toml.lines().filter(|line| !line.contains('#')).filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string())).collect()
}

#[cfg(test)]
mod tests;
