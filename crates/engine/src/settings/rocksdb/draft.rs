//! Settings in the making: options arrive in any order and are joined when all are there.

use super::super::field::{DB, FAMILY, Field};
use super::super::size::{parse_bytes, parse_count, shorten};
use super::super::{Codecs, DbSettings, FamilySettings, Preclude, Style};
use super::known;
use crate::codec::{Codec, Compression};
use sinter_storage::store::Temperature;

/// Result of reading one option.
pub(super) enum Verdict {
    Used,
    /// Used, but not as it is written.
    Otherwise(&'static str),
    NoEffect(&'static str),
    Unknown,
}

type Outcome = Result<Verdict, String>;

/// The database's part.
#[derive(Default)]
pub(super) struct DbDraft {
    settings: DbSettings,
    max_background_compactions: Option<u64>,
    max_background_flushes: Option<u64>,
    /// RocksDB: 0 means four times the memtables of all families.
    wal_follows_memtables: bool,
    /// The largest cache of any family: here they share one.
    cache_size: Option<u64>,
}

impl DbDraft {
    pub(super) fn take(&mut self, key: &str, value: &str) -> Outcome {
        match key {
            "max_background_compactions" => self.max_background_compactions = optional(value)?,
            "max_background_flushes" => self.max_background_flushes = optional(value)?,
            "max_total_wal_size" if value == "0" => self.wal_follows_memtables = true,
            // RocksDB: all stay open. Here, as many as the process may have.
            "max_open_files" if value == "-1" => self.settings.max_open_files = 0,
            "db_write_buffer_size" if value == "0" => self.settings.db_write_buffer_size = u64::MAX,
            _ => return direct(DB, "", &mut self.settings, key, value),
        }
        Ok(Verdict::Used)
    }

    pub(super) fn finish(mut self, families: &[(String, FamilySettings)]) -> DbSettings {
        if self.max_background_compactions.is_some() || self.max_background_flushes.is_some() {
            // As RocksDB's GetBGJobLimits: the older pair of options wins, each counting at least one.
            let jobs = [self.max_background_compactions, self.max_background_flushes].map(|n| n.unwrap_or(1).max(1));
            self.settings.max_background_jobs = usize::try_from(jobs[0].saturating_add(jobs[1])).unwrap_or(usize::MAX);
        }
        if self.wal_follows_memtables {
            let memtables = |f: &FamilySettings| f.write_buffer_size.saturating_mul(f.max_write_buffer_number as u64);
            let all = families.iter().fold(0u64, |sum, (_, family)| sum.saturating_add(memtables(family)));
            self.settings.max_total_wal_size = all.saturating_mul(4);
        }
        if let Some(bytes) = self.cache_size {
            self.settings.cache_size = bytes;
        }
        self.settings
    }
}

/// Codec options, for all levels or the last.
#[derive(Clone, Default)]
struct Effort {
    enabled: bool,
    level: Option<i32>,
    dictionary_bytes: u32,
}

/// A family's part.
#[derive(Clone, Default)]
pub(super) struct FamilyDraft {
    settings: FamilySettings,
    codec: Option<Codec>,
    /// `compression=auto`, a value that RocksDB does not have, so that a file can ask for it.
    auto: bool,
    per_level: Vec<Codec>,
    last: Option<Codec>,
    effort: Effort,
    last_effort: Effort,
    filters_for_hits: bool,
    no_slowdown: bool,
    no_stop: bool,
    compaction_follows_table: bool,
}

/// Marks the options of table sections in the table of fields.
pub(super) const TABLE: &str = "BlockBasedTable.";

const OTHER_CODEC: &str = "this codec is not built in: lz4 is used instead";
const NO_SUCH_LEVELS: &str = "num_levels is less: entries beyond it are left out";
const TOO_FLAT: &str = "age places data from num_levels = 3 on: taken as preserve_internal_time_seconds";
const LAST_LEVEL: &str = "it holds for the last of num_levels, which data reach with level_compaction_dynamic_level_bytes=true; \
                         in RocksDB it holds for the deepest that has data";
const NO_LEVELS: &str = "only zstd and zlib take a level, and -1 is zlib's default";
const NO_DICTIONARIES: &str = "only zstd uses dictionaries";

impl FamilyDraft {
    /// An option of a CFOptions section.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Outcome {
        match key {
            "compaction_style" => return self.style(value),
            "comparator" => {
                return match value {
                    "leveldb.BytewiseComparator" | "nullptr" => Ok(Verdict::Used),
                    other => Err(format!("`{}`: keys are always ordered bytewise", shorten(other))),
                };
            }
            "optimize_filters_for_hits" => self.filters_for_hits = flag(value)?,
            "level0_slowdown_writes_trigger" if value.starts_with('-') => self.no_slowdown = optional(value)?.is_none(),
            "level0_stop_writes_trigger" if value.starts_with('-') => self.no_stop = optional(value)?.is_none(),
            "soft_pending_compaction_bytes_limit" if value == "0" => self.settings.soft_pending_compaction_bytes_limit = u64::MAX,
            "hard_pending_compaction_bytes_limit" if value == "0" => self.settings.hard_pending_compaction_bytes_limit = u64::MAX,
            "max_compaction_bytes" if value == "0" => self.compaction_follows_table = true,
            "compression" | "compression_per_level" | "bottommost_compression" => return self.codecs(key, value),
            // Its name before RocksDB 7.
            "last_level_temperature" | "bottommost_temperature" => self.settings.last_level_temperature = temperature(value)?,
            "default_write_temperature" => self.settings.default_write_temperature = temperature(value)?,
            _ => {
                if let Some(member) = key.strip_prefix("compression_opts.") {
                    return effort(&mut self.effort, member, value);
                }
                if let Some(member) = key.strip_prefix("bottommost_compression_opts.") {
                    return effort(&mut self.last_effort, member, value);
                }
                return direct(FAMILY, "", &mut self.settings, key, value);
            }
        }
        Ok(Verdict::Used)
    }

    /// An option of a BlockBasedTable section.
    pub(super) fn take_table(&mut self, db: &mut DbDraft, key: &str, value: &str) -> Outcome {
        match key {
            "filter_policy" => self.filter(value),
            "block_cache" => match cache_capacity(value)? {
                Some(bytes) => {
                    db.cache_size = Some(db.cache_size.unwrap_or(0).max(bytes));
                    Ok(Verdict::Used)
                }
                None => Ok(Verdict::NoEffect("it does not say how large; see cache_size")),
            },
            // One cache for all families: if one wants it, it holds these of all.
            "cache_index_and_filter_blocks" => {
                db.settings.cache_index_and_filter_blocks |= flag(value)?;
                Ok(Verdict::Used)
            }
            _ => direct(FAMILY, TABLE, &mut self.settings, key, value),
        }
    }

    fn style(&mut self, value: &str) -> Outcome {
        self.settings.style = match value {
            "kCompactionStyleLevel" => Style::Leveled,
            "kCompactionStyleUniversal" => Style::Universal,
            other => return Err(format!("`{}`: there are kCompactionStyleLevel and kCompactionStyleUniversal", shorten(other))),
        };
        Ok(Verdict::Used)
    }

    fn codecs(&mut self, key: &str, value: &str) -> Outcome {
        let mut replaced = false;
        let mut read = |name: &str| {
            let (codec, exact) = codec(name)?;
            replaced |= !exact;
            Ok::<_, String>(codec)
        };
        match key {
            "compression" if value == "auto" => self.auto = true,
            "compression" => self.codec = Some(read(value)?),
            "bottommost_compression" => self.last = if value == "kDisableCompressionOption" { None } else { Some(read(value)?) },
            _ => {
                let names = value.split(':').map(str::trim).take(64).filter(|_| !value.trim().is_empty());
                self.per_level = names.map(read).collect::<Result<_, _>>()?;
            }
        }
        Ok(if replaced { Verdict::Otherwise(OTHER_CODEC) } else { Verdict::Used })
    }

    fn filter(&mut self, value: &str) -> Outcome {
        let value = value.trim_start_matches('{').trim_start_matches("id=");
        let mut parts = value.split([':', ';', '}']);
        let bits = match parts.next().unwrap_or_default() {
            "nullptr" | "" => 0.0,
            "bloomfilter" | "ribbonfilter" | "rocksdb.internal.FastLocalBloomFilter" => {
                let bits = parts.next().unwrap_or_default();
                bits.parse().map_err(|_| format!("`{}` is not a number of bits per key", shorten(bits)))?
            }
            "rocksdb.BuiltinBloomFilter" => return Ok(Verdict::NoEffect("it does not say how many bits; see bloom_bits_per_key")),
            other => return Err(format!("`{}` is not a filter that is known here", shorten(other))),
        };
        self.settings.bloom_bits_per_key = bits;
        self.settings.bloom_bits_last_level = bits;
        Ok(Verdict::Used)
    }

    /// Members of the codec options that somebody set and without which all levels would be compressed in the same way, with the reason.
    pub(super) fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let now = self.clone().finish().compression;
        let changes_nothing = |change: fn(&mut Self)| {
            let mut draft = self.clone();
            change(&mut draft);
            draft.finish().compression == now
        };
        let (upper, last) = (&self.effort, &self.last_effort);
        let of_last = |why: &'static str| if last.enabled { why } else { "it counts with enabled=true only" };
        let mut found = Vec::new();
        let mut note = |is_set: bool, key: &'static str, without: fn(&mut Self), why: &'static str| {
            if is_set && changes_nothing(without) {
                found.push((key, why));
            }
        };
        note(upper.level.is_some(), "compression_opts.level", |d| d.effort.level = None, NO_LEVELS);
        note(upper.dictionary_bytes > 0, "compression_opts.max_dict_bytes", |d| d.effort.dictionary_bytes = 0, NO_DICTIONARIES);
        let (level, dictionary) = ("bottommost_compression_opts.level", "bottommost_compression_opts.max_dict_bytes");
        note(last.level.is_some(), level, |d| d.last_effort.level = None, of_last(NO_LEVELS));
        note(last.dictionary_bytes > 0, dictionary, |d| d.last_effort.dictionary_bytes = 0, of_last(NO_DICTIONARIES));
        found
    }

    /// Options that are used in part only, with the reason.
    pub(super) fn in_part(&self) -> Vec<(&'static str, &'static str)> {
        let parts = [
            (self.per_level.len() > self.settings.num_levels).then_some(("compression_per_level", NO_SUCH_LEVELS)),
            self.is_too_flat().then_some(("preclude_last_level_data_seconds", TOO_FLAT)),
            (self.last.is_some() && self.misses_last_level()).then_some(("bottommost_compression", LAST_LEVEL)),
            (self.last_effort.enabled && self.misses_last_level()).then_some(("bottommost_compression_opts.enabled", LAST_LEVEL)),
        ];
        parts.into_iter().flatten().collect()
    }

    /// The last of all levels has a codec of its own, and is not where data end.
    fn misses_last_level(&self) -> bool {
        let without = FamilyDraft { last: None, last_effort: Effort::default(), ..self.clone() };
        let is_static = self.settings.style == Style::Leveled && !self.settings.level_compaction_dynamic_level_bytes;
        is_static && self.clone().finish().compression_at(usize::MAX) != without.finish().compression_at(usize::MAX)
    }

    /// Age is to place data in a tree without a level for what is young. RocksDB places nothing there, and goes on telling ages.
    fn is_too_flat(&self) -> bool {
        self.settings.preclude_last_level_data_seconds.is_on() && !self.settings.places_by_age()
    }

    /// A complaint about options that cannot be combined.
    pub(super) fn conflict(&self) -> Option<String> {
        let names_last = self.last.is_some() || self.last_effort.enabled;
        let names_effort = self.effort.level.is_some() || self.effort.dictionary_bytes > 0;
        (self.is_auto() && (names_last || names_effort)).then(|| {
            "compression = auto leaves all levels to the engine, so there can be no bottommost_compression \
             (kDisableCompressionOption), no bottommost_compression_opts (enabled=false), and neither level (32767) nor max_dict_bytes (0) \
             in compression_opts beside it"
                .into()
        })
    }

    pub(super) fn finish(mut self) -> FamilySettings {
        if self.is_too_flat() {
            if let Preclude::Seconds(age) = self.settings.preclude_last_level_data_seconds {
                self.settings.preserve_internal_time_seconds = self.settings.preserve_internal_time_seconds.max(age);
            }
            self.settings.preclude_last_level_data_seconds = Preclude::default();
        }
        if self.filters_for_hits {
            self.settings.bloom_bits_last_level = 0.0;
        }
        if self.no_stop {
            self.settings.level0_stop_writes_trigger = usize::MAX;
        }
        if self.no_slowdown {
            self.settings.level0_slowdown_writes_trigger = self.settings.level0_stop_writes_trigger;
        }
        if self.compaction_follows_table {
            self.settings.max_compaction_bytes = self.settings.target_file_size_base.saturating_mul(25);
        }
        self.compression();
        self.settings
    }

    /// The engine chooses: it was asked to, and no list takes the place of that.
    fn is_auto(&self) -> bool {
        self.auto && self.per_level.is_empty()
    }

    /// Joins the codec options into one list. RocksDB's per-level list wins over the single codec (and over `auto`); the last
    /// level may have its own.
    fn compression(&mut self) {
        if self.is_auto() {
            self.settings.compression = Codecs::Auto;
            return;
        }
        let with = |codec: Codec, effort: &Effort| Compression {
            codec,
            // -1, which files of RocksDB 5 have, is zlib's own name for its default.
            level: effort.level.filter(|level| codec == Codec::Zstd || codec == Codec::Zlib && *level != -1),
            dictionary_bytes: if codec == Codec::Zstd { effort.dictionary_bytes } else { 0 },
        };
        let levels = self.settings.num_levels.clamp(1, 64);
        let fallback = self.codec.unwrap_or(self.settings.compression_at(0).codec);
        let mut list = if self.per_level.is_empty() { vec![fallback] } else { std::mem::take(&mut self.per_level) };
        list.truncate(levels);
        let deepest = list.last().copied().unwrap_or(fallback);
        let mut codecs: Vec<Compression> = list.into_iter().map(|codec| with(codec, &self.effort)).collect();
        if self.last.is_some() || self.last_effort.enabled {
            let effort = if self.last_effort.enabled { &self.last_effort } else { &self.effort };
            codecs.resize(levels - 1, with(deepest, &self.effort));
            codecs.push(with(self.last.unwrap_or(deepest), effort));
        }
        self.settings.compression = codecs.into();
    }
}

/// Options with the same meaning on both sides go straight through the table of fields, all others to the list of known ones. Settings
/// that RocksDB does not have go by their own names, so that a file can ask for them.
fn direct<S>(fields: &[Field<S>], prefix: &str, settings: &mut S, key: &str, value: &str) -> Outcome {
    // A table's option is none of a family's, however it is spelled.
    let same = |f: &&Field<S>| f.rocksdb.strip_prefix(prefix) == Some(key) && !key.starts_with(TABLE);
    let ours_alone = |f: &&Field<S>| f.rocksdb.is_empty() && prefix.is_empty() && f.name == key;
    if let Some(field) = fields.iter().find(|f| same(f) || ours_alone(f)) {
        field.set_text(settings, value)?;
        return Ok(Verdict::Used);
    }
    Ok(known::why(key).map_or(Verdict::Unknown, Verdict::NoEffect))
}

/// `kWarm`: the name here with another beginning.
fn temperature(value: &str) -> Result<Temperature, String> {
    let same = |temperature: &Temperature| value.strip_prefix('k').is_some_and(|name| name.eq_ignore_ascii_case(temperature.name()));
    Temperature::ALL.into_iter().find(same).ok_or_else(|| format!("`{}` is not a temperature", shorten(value)))
}

fn effort(effort: &mut Effort, member: &str, value: &str) -> Outcome {
    match member {
        // 32767 is CompressionOptions::kDefaultCompressionLevel.
        "level" => effort.level = Some(value.parse().map_err(|_| not_number(value))?).filter(|level| *level != 32_767),
        "max_dict_bytes" => effort.dictionary_bytes = value.parse().map_err(|_| not_number(value))?,
        "enabled" => effort.enabled = flag(value)?,
        _ => return Ok(known::why_member(member).map_or(Verdict::Unknown, Verdict::NoEffect)),
    }
    Ok(Verdict::Used)
}

/// The codec of a name, and whether it is that very one.
fn codec(name: &str) -> Result<(Codec, bool), String> {
    Ok(match name {
        "kNoCompression" => (Codec::None, true),
        "kSnappyCompression" => (Codec::Snappy, true),
        "kZlibCompression" => (Codec::Zlib, true),
        "kBZip2Compression" => (Codec::Bzip2, true),
        "kLZ4Compression" => (Codec::Lz4, true),
        "kLZ4HCCompression" | "kXpressCompression" => (Codec::Lz4, false),
        "kZSTD" | "kZSTDNotFinalCompression" => (Codec::Zstd, true),
        other => return Err(format!("`{}` is not a compression type", shorten(other))),
    })
}

/// A whole number, or `None` where RocksDB writes a negative one for "not set".
fn optional(value: &str) -> Result<Option<u64>, String> {
    match value.parse::<i64>() {
        Ok(number) => Ok(u64::try_from(number).ok()),
        Err(_) => parse_count(value).map(Some),
    }
}

/// The capacity in `8388608` or `{capacity=8388608;...}`; `None` if only a kind of cache is named.
fn cache_capacity(value: &str) -> Result<Option<u64>, String> {
    let inside = value.trim_start_matches('{').trim_end_matches('}');
    let member = inside.split(';').find_map(|m| m.trim().strip_prefix("capacity="));
    match member {
        Some(capacity) => parse_bytes(capacity).map(Some),
        None if value.starts_with(|c: char| c.is_ascii_digit()) => parse_bytes(value).map(Some),
        None => Ok(None),
    }
}

fn flag(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("`{}` is neither true nor false", shorten(value)))
}

fn not_number(value: &str) -> String {
    format!("`{}` is not a whole number that fits", shorten(value))
}
