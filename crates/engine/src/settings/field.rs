//! The table of all settings: what each is called here and in RocksDB, how it is read and printed, its bounds and what follows from it.
//! Reading, printing, validation and the reference page all walk this table, so that none of them can forget a field.

use super::size::{format_bytes, format_compression, format_seconds, parse_bytes, parse_compression, parse_count, parse_seconds, shorten};
use super::{Codecs, CompressedCache, DbSettings, FamilySettings, Preclude, Style, TemperatureAges, TierBudget, TierPaths, UntimedData};
use sinter_storage::store::Temperature;

/// One setting of `S`.
pub(super) struct Field<S: 'static> {
    pub name: &'static str,
    /// RocksDB's option, or empty. Options of the table sections carry the prefix `BlockBasedTable.`.
    pub rocksdb: &'static str,
    /// Effect of a larger or smaller value.
    pub effect: &'static str,
    /// Reason of the bounds.
    pub limit: &'static str,
    pub kind: Kind<S>,
}

/// Notation of a whole number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Seconds,
    Count,
}

/// The type of a setting with its access.
pub(super) enum Kind<S: 'static> {
    /// `set` returns false if the value does not fit the field.
    Whole {
        unit: Unit,
        min: u64,
        max: u64,
        get: fn(&S) -> u64,
        set: fn(&mut S, u64) -> bool,
    },
    Real {
        min: f64,
        max: f64,
        get: fn(&S) -> f64,
        set: fn(&mut S, f64),
    },
    Flag {
        get: fn(&S) -> bool,
        set: fn(&mut S, bool),
    },
    /// One of a few words; `get` and `set` count them from 0.
    Word {
        words: &'static [&'static str],
        get: fn(&S) -> usize,
        set: fn(&mut S, usize),
    },
    CompressedCache {
        get: fn(&S) -> CompressedCache,
        set: fn(&mut S, CompressedCache),
    },
    TierBudget {
        get: fn(&S) -> TierBudget,
        set: fn(&mut S, TierBudget),
    },
    Compression {
        get: fn(&S) -> &Codecs,
        set: fn(&mut S, Codecs),
    },
    Preclude {
        get: fn(&S) -> Preclude,
        set: fn(&mut S, Preclude),
    },
    Temperature {
        get: fn(&S) -> Temperature,
        set: fn(&mut S, Temperature),
    },
    /// A list with a form of its own, which is right once it is read.
    List {
        form: &'static str,
        get: fn(&S) -> String,
        set: fn(&mut S, &str) -> Result<(), String>,
    },
}

impl Unit {
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Unit::Bytes => parse_bytes(text),
            Unit::Seconds => parse_seconds(text),
            Unit::Count => parse_count(text),
        }
    }

    pub(super) fn format(self, value: u64) -> String {
        match self {
            Unit::Seconds => format_seconds(value),
            Unit::Count if value != u64::MAX => value.to_string(),
            Unit::Bytes | Unit::Count => format_bytes(value),
        }
    }
}

impl<S> Field<S> {
    /// Sets the field from text; bounds are checked later, all at once.
    pub(super) fn set_text(&self, settings: &mut S, text: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Whole { unit, set, .. } => {
                let value = unit.parse(text)?;
                if !set(settings, value) {
                    return Err(format!("{} does not fit", shorten(text)));
                }
            }
            Kind::Real { set, .. } => {
                let value = text.trim().parse().map_err(|_| format!("`{}` is not a number", shorten(text)))?;
                set(settings, value);
            }
            Kind::Flag { set, .. } => match text.trim() {
                "true" => set(settings, true),
                "false" => set(settings, false),
                _ => return Err(format!("`{}` is neither true nor false", shorten(text))),
            },
            Kind::Word { words, set, .. } => {
                let known = words.iter().position(|word| *word == text.trim());
                set(settings, known.ok_or_else(|| format!("`{}` is none of {}", shorten(text), words.join(", ")))?);
            }
            Kind::CompressedCache { set, .. } => set(settings, CompressedCache::parse(text)?),
            Kind::TierBudget { set, .. } => set(settings, TierBudget::parse(text)?),
            Kind::Compression { set, .. } => set(settings, parse_compression(text)?),
            Kind::Preclude { set, .. } => set(settings, Preclude::parse(text)?),
            Kind::Temperature { set, .. } => {
                let known = Temperature::from_name(text.trim());
                set(settings, known.ok_or_else(|| format!("`{}` is none of {}", shorten(text), temperatures()))?);
            }
            Kind::List { set, .. } => set(settings, text)?,
        }
        Ok(())
    }

    /// The value as `set_text` reads it.
    pub(super) fn text(&self, settings: &S) -> String {
        match &self.kind {
            Kind::Whole { unit, get, .. } => unit.format(get(settings)),
            Kind::Real { get, .. } => format!("{:?}", get(settings)),
            Kind::Flag { get, .. } => get(settings).to_string(),
            Kind::Word { words, get, .. } => words.get(get(settings)).copied().unwrap_or_default().into(),
            Kind::CompressedCache { get, .. } => get(settings).text(),
            Kind::TierBudget { get, .. } => get(settings).text(),
            Kind::Compression { get, .. } => format_compression(get(settings)),
            Kind::Preclude { get, .. } => get(settings).text(),
            Kind::Temperature { get, .. } => get(settings).name().into(),
            Kind::List { get, .. } => get(settings),
        }
    }

    /// The allowed values, for people.
    pub(super) fn range(&self) -> String {
        match &self.kind {
            Kind::Whole { unit, min, max, .. } => format!("{} to {}", unit.format(*min), unit.format(*max)),
            Kind::Real { min, max, .. } => format!("{min} to {max}"),
            Kind::Flag { .. } => "true, false".into(),
            Kind::Word { words, .. } => words.join(", "),
            Kind::CompressedCache { .. } => format!("auto, off, or a share up to {}", CompressedCache::MOST),
            Kind::TierBudget { .. } => "64KiB and more, or a share up to 100%".into(),
            Kind::Compression { .. } => "auto, or 1 to 16 entries codec[:level][:dict=SIZE]".into(),
            Kind::Preclude { .. } => format!("auto, or 0 to {}", format_seconds(Preclude::MOST)),
            Kind::Temperature { .. } => temperatures(),
            Kind::List { form, .. } => (*form).into(),
        }
    }
}

/// All temperatures, for people.
fn temperatures() -> String {
    Temperature::ALL.map(Temperature::name).join(", ")
}

macro_rules! whole {
    ($name:ident, $unit:ident, $min:expr, $max:expr, $rocksdb:expr, $effect:expr, $limit:expr $(,)?) => {
        Field {
            name: stringify!($name),
            rocksdb: $rocksdb,
            effect: $effect,
            limit: $limit,
            kind: Kind::Whole {
                unit: Unit::$unit,
                min: $min,
                max: $max,
                get: |s| s.$name as u64,
                set: |s, value| value.try_into().map(|v| s.$name = v).is_ok(),
            },
        }
    };
}

macro_rules! plain {
    ($name:ident, $kind:ident { $($bound:ident: $value:expr),* }, $rocksdb:expr, $effect:expr, $limit:expr $(,)?) => {
        Field {
            name: stringify!($name),
            rocksdb: $rocksdb,
            effect: $effect,
            limit: $limit,
            kind: Kind::$kind { $($bound: $value,)* get: |s| s.$name, set: |s, value| s.$name = value },
        }
    };
}

macro_rules! words {
    ($name:ident, $enum:ident { $($word:ident: $variant:ident),* }, $rocksdb:expr, $effect:expr $(,)?) => {
        Field {
            name: stringify!($name),
            rocksdb: $rocksdb,
            effect: $effect,
            limit: "",
            kind: Kind::Word {
                words: &[$(stringify!($word)),*],
                get: |s| [$($enum::$variant),*].iter().position(|known| *known == s.$name).unwrap_or(0),
                set: |s, at| s.$name = [$($enum::$variant),*].get(at).copied().unwrap_or_default(),
            },
        }
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const MAX: u64 = u64::MAX;

/// Settings of a database.
pub(super) static DB: &[Field<DbSettings>] = &[
    whole!(
        cache_size,
        Bytes,
        0,
        1024 * TIB,
        "BlockBasedTable.block_cache",
        "Larger: fewer reads of the medium. Smaller: less memory.",
        "more than a pebibyte is a slip of the pen",
    ),
    plain!(
        cache_index_and_filter_blocks,
        Flag {},
        "BlockBasedTable.cache_index_and_filter_blocks",
        "True: the cache bounds indexes and filters, too, and where they do not fit each read reads some again. False: those in use stay \
         in memory beside the cache, a hundredth of the data with blocks of 4 KiB, except where memory is a budget or limited.",
        "",
    ),
    plain!(
        compressed_cache,
        CompressedCache {},
        "",
        "How much of the cache holds compressed blocks: more of the data is in memory, and a hit there costs a decompression. off: none. \
         auto: what saves most, measured once a second, which is none where the page cache has the data.",
        "the rest holds indexes, filters and the blocks in use",
    ),
    whole!(
        memory_budget,
        Bytes,
        0,
        1024 * TIB,
        "",
        "Memtables and cache share these bytes, and once a second some move to where they save more time; cache_size, \
         db_write_buffer_size and write_buffer_size are where they start. 0: sizes stay as they are; otherwise 1 MiB at least.",
        "more than a pebibyte is a slip of the pen",
    ),
    whole!(
        max_background_jobs,
        Count,
        0,
        256,
        "max_background_jobs",
        "Larger: writers wait less for compactions, readers share the processor with more of them. 0: the writer does the work.",
        "each job is a thread, with one more that appends to its tables",
    ),
    whole!(
        max_subcompactions,
        Count,
        1,
        256,
        "max_subcompactions",
        "Larger: a large compaction ends sooner and leaves smaller tables at the cuts. 1: compactions are never split.",
        "each part is a thread, and at least one does the work",
    ),
    plain!(
        use_direct_io_for_flush_and_compaction,
        Flag {},
        "use_direct_io_for_flush_and_compaction",
        "True: the page cache is left to others, and new tables are read from the medium at first. False: new tables are in the \
         page cache.",
        "",
    ),
    whole!(
        bytes_per_sync,
        Bytes,
        0,
        TIB,
        "bytes_per_sync",
        "Smaller: writeback is spread evenly, with more system calls. Larger, or 0 (never): bursts at the final sync delay others.",
        "a table never grows beyond that",
    ),
    whole!(
        max_total_wal_size,
        Bytes,
        4 * KIB,
        MAX,
        "max_total_wal_size",
        "Larger: slow families flush full memtables, recovery replays more log. Smaller: short recovery, more small tables.",
        "the log must hold at least a few batches",
    ),
    whole!(
        db_write_buffer_size,
        Bytes,
        4 * KIB,
        MAX,
        "db_write_buffer_size",
        "Larger: many families may fill their memtables. Smaller: memory is bounded whatever the number of families, flushes are smaller.",
        "the memtables must hold at least a few batches",
    ),
    whole!(
        max_open_files,
        Count,
        0,
        1 << 30,
        "max_open_files",
        "Larger: fewer tables are opened again to be read. Smaller: more descriptors are left to others. 0: the soft limit of the process \
         (ulimit -n) when the database is opened, less a quarter, 32 at least.",
        "no system has as many descriptors",
    ),
    Field {
        name: "tiers",
        rocksdb: "",
        effect: "Tables lie in these directories, or in volumes on zoned drives, by temperature; a temperature without one uses the next \
                 hotter one, the hottest the database's own. stored: those that the database has. A list attaches what is new and detaches \
                 what it does not name.",
        limit: "",
        kind: Kind::List {
            form: "stored, none, or entries TEMPERATURE=DIRECTORY or TEMPERATURE=zoned:DRIVE",
            get: |s| s.tiers.text(),
            set: |s, text| TierPaths::parse(text).map(|tiers| s.tiers = tiers),
        },
    },
];

/// Settings of a column family.
pub(super) static FAMILY: &[Field<FamilySettings>] = &[
    whole!(
        write_buffer_size,
        Bytes,
        FamilySettings::WRITE_BUFFER_LEAST,
        FamilySettings::WRITE_BUFFER_MOST,
        "write_buffer_size",
        "Larger: fewer flushes, lower write amplification. Smaller: less memory, shorter recovery.",
        "smaller ones flush at almost every batch, larger ones take minutes to replay",
    ),
    whole!(
        max_write_buffer_number,
        Count,
        2,
        64,
        "max_write_buffer_number",
        "Larger: bursts pass without a wait, memory grows by one write buffer each. Smaller: writers wait sooner.",
        "one memtable is written while another is flushed",
    ),
    words!(
        style,
        Style { leveled: Leveled, universal: Universal },
        "compaction_style",
        "leveled: little space, fast reads, each byte is rewritten often. universal: a fraction of the writes, twice the space.",
    ),
    whole!(
        block_size,
        Bytes,
        64,
        16 * MIB,
        "BlockBasedTable.block_size",
        "Larger: better compression, smaller index. Smaller: a point read that misses the cache reads and decompresses less.",
        "an index entry costs tens of bytes per block, and one block is read into memory whole",
    ),
    plain!(
        bloom_bits_per_key,
        Real { min: 0.0, max: 64.0 },
        "BlockBasedTable.filter_policy",
        "Larger: fewer useless block reads (10 bits: about 1 %), more memory. 0: no filter, every run is searched.",
        "beyond it the false positive rate does not fall any more",
    ),
    plain!(
        bloom_bits_last_level,
        Real { min: 0.0, max: 64.0 },
        "optimize_filters_for_hits",
        "Like bloom_bits_per_key, for the last level, which holds most keys. Smaller: saves most filter memory, costs block reads for \
         absent keys only.",
        "beyond it the false positive rate does not fall any more",
    ),
    Field {
        name: "compression",
        rocksdb: "compression_per_level",
        effect: "Per level from 0, the last repeats. Stronger: less space and fewer bytes written, more processor time per compaction \
                 and miss. auto: the engine chooses per level.",
        limit: "a tree has at most 16 levels",
        kind: Kind::Compression { get: |s| &s.compression, set: |s, value| s.compression = value },
    },
    whole!(
        num_levels,
        Count,
        2,
        16,
        "num_levels",
        "Larger: holds more data at the same multiplier. Fixed when the family is created.",
        "level 0 needs one below it, and 16 levels hold more than any medium",
    ),
    whole!(
        level0_file_num_compaction_trigger,
        Count,
        1,
        10_000,
        "level0_file_num_compaction_trigger",
        "Larger: lower write amplification, more runs to search per read. Smaller: the reverse. \
         (Leveled, under a load: up to halfway to `level0_slowdown_writes_trigger`.)",
        "each run is searched by every read",
    ),
    whole!(
        level0_slowdown_writes_trigger,
        Count,
        1,
        MAX,
        "level0_slowdown_writes_trigger",
        "Larger: bursts run at full speed for longer, reads get slower. Smaller: writers are paced sooner.",
        "it stands between the compaction trigger and the stop trigger",
    ),
    whole!(
        level0_stop_writes_trigger,
        Count,
        1,
        MAX,
        "level0_stop_writes_trigger",
        "Larger: writers wait later, and reads may have to search that many runs.",
        "it is not below the slowdown trigger",
    ),
    whole!(
        max_bytes_for_level_base,
        Bytes,
        4 * KIB,
        1024 * TIB,
        "max_bytes_for_level_base",
        "Larger: fewer levels, larger merges out of level 0. Best near trigger x write_buffer_size, where both cost the same.",
        "a level holds at least a table, and no medium holds more than a pebibyte",
    ),
    plain!(
        max_bytes_for_level_multiplier,
        Real { min: 1.1, max: 1000.0 },
        "max_bytes_for_level_multiplier",
        "Larger: fewer levels, less dead data (about 1/(multiplier-1) of the live), more rewriting per level. Smaller: the reverse.",
        "levels must grow downwards",
    ),
    plain!(
        level_compaction_dynamic_level_bytes,
        Flag {},
        "level_compaction_dynamic_level_bytes",
        "True: level targets follow the last level, which bounds dead data. False: fixed targets; a small last level may double the space.",
        "",
    ),
    whole!(
        target_file_size_base,
        Bytes,
        4 * KIB,
        TIB,
        "target_file_size_base",
        "Larger: fewer files and less overhead each. Smaller: finer compactions, space is given back sooner.",
        "every table costs a file, an index and a filter",
    ),
    whole!(
        target_file_size_multiplier,
        Count,
        1,
        1000,
        "target_file_size_multiplier",
        "Larger: fewer files on deep levels, coarser compactions there.",
        "tables do not shrink downwards",
    ),
    whole!(
        max_compaction_bytes,
        Bytes,
        4 * KIB,
        MAX,
        "max_compaction_bytes",
        "Larger: fewer cuts between tables, longer compactions and more temporary space. Smaller: the reverse.",
        "a compaction must be able to take one table",
    ),
    whole!(
        soft_pending_compaction_bytes_limit,
        Bytes,
        4 * KIB,
        MAX,
        "soft_pending_compaction_bytes_limit",
        "Larger: bursts run at full speed for longer and leave more dead data meanwhile. Smaller: writers are paced sooner.",
        "some debt is always there",
    ),
    whole!(
        hard_pending_compaction_bytes_limit,
        Bytes,
        4 * KIB,
        MAX,
        "hard_pending_compaction_bytes_limit",
        "Larger: writers wait later; space may exceed its budget by that much.",
        "it is not below the soft limit",
    ),
    whole!(
        size_ratio,
        Count,
        0,
        10_000,
        "compaction_options_universal.size_ratio",
        "Universal. Larger: runs of unlike size are merged too: fewer runs, more rewriting.",
        "it is a percentage",
    ),
    whole!(
        min_merge_width,
        Count,
        2,
        MAX,
        "compaction_options_universal.min_merge_width",
        "Universal. Larger: each merge saves more runs, and more runs wait for one.",
        "merging one run changes nothing",
    ),
    whole!(
        max_merge_width,
        Count,
        2,
        MAX,
        "compaction_options_universal.max_merge_width",
        "Universal. Smaller: shorter merges, bytes are rewritten more often.",
        "it is not below min_merge_width",
    ),
    whole!(
        max_size_amplification_percent,
        Count,
        1,
        u32::MAX as u64,
        "compaction_options_universal.max_size_amplification_percent",
        "Universal. Larger: full merges are rarer, more dead data. A full merge needs as much again while it runs.",
        "0 would merge everything at every flush",
    ),
    whole!(
        ttl_seconds,
        Seconds,
        0,
        100 * 365 * 86_400,
        "",
        "Larger: entries stay longer. Older ones are gone for readers, and compactions remove them. 0: never. (RocksDB's removes none.)",
        "a century is for ever",
    ),
    whole!(
        preserve_internal_time_seconds,
        Seconds,
        0,
        100 * 365 * 86_400,
        "preserve_internal_time_seconds",
        "Larger: the age of older entries is known, to a hundredth of this. Entries that are younger keep their sequence numbers on the \
         last level, a few bytes each. 0: ages are not tracked.",
        "a century is for ever",
    ),
    Field {
        name: "temperature_ages",
        rocksdb: "",
        effect: "Temperature of a table: that of the first entry whose age its newest write has not reached, else that of the last. \
                 Tables that need no merge move as they are. off: the level decides.",
        limit: "",
        kind: Kind::List {
            form: "off, or entries TEMPERATURE AGE, ever colder and older, the last without an age",
            get: |s| s.temperature_ages.text(),
            set: |s, text| TemperatureAges::parse(text).map(|ages| s.temperature_ages = ages),
        },
    },
    plain!(
        fast_tier_budget,
        TierBudget {},
        "",
        "For preclude_last_level_data_seconds = auto, and without effect otherwise: how much of the family's data merges may keep above \
         the last level. Larger: more reads are answered by the fast tier. What is written between two merges comes on top.",
        "fewer bytes hold no table (a share has a percent sign, as in 25%), and there is no more than all",
    ),
    plain!(
        preclude_last_level_data_seconds,
        Preclude {},
        "preclude_last_level_data_seconds",
        "Data younger than this stays above the last level, older data is demoted to it as compactions run. Larger: more of the data is on \
         the levels above. 0: age does not place data. auto: the engine finds the age.",
        "a century is for ever",
    ),
    words!(
        untimed_data,
        UntimedData { young: Young, old: Old },
        "",
        "With a fixed preclude_last_level_data_seconds: age of data whose number a compaction dropped while ages were not tracked. \
         young: as young as the newest that it may be, so that none is demoted too early, and a merge may promote much of the last level. \
         old: it stays on the last level, as in RocksDB.",
    ),
    plain!(
        last_level_temperature,
        Temperature {},
        "last_level_temperature",
        "Temperature of tables on the last level, which decides their tier. unknown: that of the coldest tier, where \
         preclude_last_level_data_seconds is on and temperature_ages off; else default_write_temperature.",
        "",
    ),
    plain!(
        default_write_temperature,
        Temperature {},
        "default_write_temperature",
        "Temperature of tables on all other levels when they are written. A table that moves to another level keeps its own, except on the \
         last level.",
        "",
    ),
];

/// The name in `names` nearest to `word`, by edit distance.
pub(super) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    names.min_by_key(|name| distance(&word, name))
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, ca) in a.iter().enumerate() {
            let replace = diagonal + usize::from(*ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[a.len()]
}
