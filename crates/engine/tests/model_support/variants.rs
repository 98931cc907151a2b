//! Settings under which the same operations must give the same history.

use sinter_storage::store::Temperature;
use sinterdb::settings::{Codec, Codecs, Compression, DbSettings, FamilySettings, Preclude, Style};

/// Kind of store that holds the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    Memory,
    /// Memory with a cold tier.
    Tiers,
    Directory,
    /// An emulated zoned drive.
    Zones,
}

/// One way to run the operations.
#[derive(Debug, Clone)]
pub struct Variant {
    pub name: &'static str,
    pub place: StoreKind,
    pub db: DbSettings,
    pub family: FamilySettings,
    /// Most puts carry a time of their own, which no reader must notice.
    pub timed: bool,
}

/// The store of a variant that names none: memory, or the one that `SINTER_TEST_STORE` names.
fn usual_place() -> StoreKind {
    match std::env::var("SINTER_TEST_STORE").unwrap_or_default().as_str() {
        "" | "memory" => StoreKind::Memory,
        "dir" => StoreKind::Directory,
        "zones" => StoreKind::Zones,
        other => panic!("SINTER_TEST_STORE={other}: must be memory, dir or zones"),
    }
}

type Edit = fn(&mut Variant);

/// Small enough that a few thousand operations fill several levels.
fn base(name: &'static str) -> Variant {
    let db = DbSettings { max_background_jobs: 0, cache_size: 1 << 20, ..DbSettings::default() };
    let family = FamilySettings {
        write_buffer_size: 16 << 10,
        block_size: 1024,
        num_levels: 5,
        max_bytes_for_level_base: 64 << 10,
        max_bytes_for_level_multiplier: 3.0,
        target_file_size_base: 16 << 10,
        max_compaction_bytes: 1 << 20,
        ..FamilySettings::default()
    };
    Variant { name, place: usual_place(), db, family, timed: false }
}

fn codec(codec: Codec, dictionary_bytes: u32) -> Codecs {
    Compression { codec, level: None, dictionary_bytes }.into()
}

const EDITS: &[(&str, Edit)] = &[
    ("leveled", |_| {}),
    ("leveled, fixed levels", |v| v.family.level_compaction_dynamic_level_bytes = false),
    ("universal", |v| v.family.style = Style::Universal),
    ("universal, wide merges", |v| {
        v.family.style = Style::Universal;
        (v.family.size_ratio, v.family.min_merge_width, v.family.max_size_amplification_percent) = (60, 4, 1000);
    }),
    ("universal, little space", |v| {
        v.family.style = Style::Universal;
        (v.family.max_merge_width, v.family.max_size_amplification_percent) = (3, 25);
    }),
    ("no codec", |v| v.family.compression = codec(Codec::None, 0)),
    ("snappy", |v| v.family.compression = codec(Codec::Snappy, 0)),
    ("zstd", |v| v.family.compression = codec(Codec::Zstd, 0)),
    ("zstd with dictionaries", |v| v.family.compression = codec(Codec::Zstd, 4096)),
    ("zlib", |v| v.family.compression = codec(Codec::Zlib, 0)),
    ("bzip2", |v| v.family.compression = codec(Codec::Bzip2, 0)),
    ("a codec per level", |v| {
        let list = [Codec::None, Codec::Lz4, Codec::Zstd].map(|codec| Compression { codec, ..Compression::default() });
        v.family.compression = list.to_vec().into();
    }),
    ("codecs that the engine chooses", |v| v.family.compression = Codecs::Auto),
    ("blocks of 64 bytes", |v| v.family.block_size = 64),
    ("blocks of 64 KiB", |v| v.family.block_size = 64 << 10),
    ("no filter", |v| (v.family.bloom_bits_per_key, v.family.bloom_bits_last_level) = (0.0, 0.0)),
    ("no filter on the last level", |v| (v.family.bloom_bits_per_key, v.family.bloom_bits_last_level) = (4.0, 0.0)),
    ("no cache", |v| v.db.cache_size = 0),
    ("a tiny cache", |v| v.db.cache_size = 16 << 10),
    ("few open files", |v| (v.db.max_open_files, v.db.cache_size) = (3, 64 << 10)),
    ("a large cache", |v| v.db.cache_size = 256 << 20),
    ("placed by age", |v| placed(v, Style::Leveled, 300)),
    ("placed by age, soon old", |v| {
        placed(v, Style::Leveled, 1);
        (v.family.level_compaction_dynamic_level_bytes, v.db.max_subcompactions) = (false, 4);
    }),
    ("placed by age, never old", |v| placed(v, Style::Leveled, 1_000_000)),
    ("universal, placed by age", |v| placed(v, Style::Universal, 300)),
    ("universal, placed by age, soon old", |v| {
        placed(v, Style::Universal, 1);
        (v.family.max_size_amplification_percent, v.db.max_subcompactions) = (50, 4);
    }),
    ("universal, placed by age, never old", |v| placed(v, Style::Universal, 1_000_000)),
    ("placed by age, times of their own", |v| {
        placed(v, Style::Leveled, 300);
        v.timed = true;
    }),
    ("universal, placed by age, times of their own", |v| {
        placed(v, Style::Universal, 300);
        v.timed = true;
    }),
    ("placed by an age that the engine finds", |v| {
        placed(v, Style::Leveled, 0);
        v.family.preclude_last_level_data_seconds = Preclude::Auto;
    }),
    ("universal, placed by an age that the engine finds, times of their own", |v| {
        placed(v, Style::Universal, 0);
        (v.family.preclude_last_level_data_seconds, v.timed) = (Preclude::Auto, true);
    }),
    ("placed by age, background threads", |v| {
        placed(v, Style::Universal, 300);
        (v.db.max_background_jobs, v.db.max_subcompactions) = (3, 2);
    }),
    ("subcompactions", |v| v.db.max_subcompactions = 4),
    ("two levels", |v| v.family.num_levels = 2),
    ("eight levels", |v| {
        v.family.num_levels = 8;
        v.family.max_bytes_for_level_multiplier = 2.0;
    }),
    ("tiny memtables", |v| (v.family.write_buffer_size, v.family.target_file_size_base) = (4096, 8192)),
    ("large memtables", |v| v.family.write_buffer_size = 4 << 20),
    ("a short log", |v| v.db.max_total_wal_size = 32 << 10),
    ("every run is merged at once", |v| v.family.level0_file_num_compaction_trigger = 1),
    ("times of their own", |v| v.timed = true),
    ("ages are tracked", |v| v.family.preserve_internal_time_seconds = 2000),
    ("universal, ages are tracked, times of their own", |v| {
        (v.family.style, v.family.preserve_internal_time_seconds, v.timed) = (Style::Universal, 500, true);
    }),
    ("background threads", |v| (v.db.max_background_jobs, v.db.max_subcompactions) = (2, 2)),
    ("a cold tier", |v| tiered(v, Style::Leveled)),
    ("universal, a cold tier", |v| tiered(v, Style::Universal)),
    ("a cold tier for the last level", |v| {
        placed(v, Style::Universal, 300);
        v.place = StoreKind::Tiers;
    }),
    ("a cold tier, background threads", |v| {
        tiered(v, Style::Leveled);
        (v.db.max_background_jobs, v.db.max_subcompactions) = (3, 2);
    }),
    ("a directory", |v| {
        v.place = StoreKind::Directory;
        v.family.write_buffer_size = 256 << 10;
    }),
    ("a directory past the page cache", |v| {
        v.place = StoreKind::Directory;
        v.db.use_direct_io_for_flush_and_compaction = true;
        v.family.write_buffer_size = 256 << 10;
    }),
    ("zones", |v| v.place = StoreKind::Zones),
];

/// Tables older than some minutes move to the cold tier as they are.
fn tiered(variant: &mut Variant, style: Style) {
    (variant.place, variant.family.style) = (StoreKind::Tiers, style);
    variant.family.temperature_ages = "hot 5m, cold".parse().unwrap();
}

/// Data older than so many seconds sinks to the last level.
fn placed(variant: &mut Variant, style: Style, seconds: u64) {
    variant.family.style = style;
    variant.family.preclude_last_level_data_seconds = Preclude::Seconds(seconds);
    (variant.family.last_level_temperature, variant.family.default_write_temperature) = (Temperature::Cold, Temperature::Hot);
}

/// All variants.
pub fn variants() -> Vec<Variant> {
    let edited = |(name, edit): &(&'static str, Edit)| {
        let mut variant = base(name);
        edit(&mut variant);
        variant
    };
    EDITS.iter().map(edited).collect()
}

/// A change of an open family, drawn from `what`.
pub fn changed(settings: &FamilySettings, what: u64) -> FamilySettings {
    let mut new = settings.clone();
    let pick = (what >> 8) as usize;
    match what % 10 {
        0..=2 => new.style = if settings.style == Style::Leveled { Style::Universal } else { Style::Leveled },
        3 => new.block_size = [64, 512, 4096, 32 << 10][pick % 4],
        4 => new.compression = Codec::ALL.get(pick % 7).map_or(Codecs::Auto, |one| codec(*one, 0)),
        5 => new.write_buffer_size = [8 << 10, 32 << 10, 1 << 20][pick % 3],
        6 => new.level_compaction_dynamic_level_bytes = !settings.level_compaction_dynamic_level_bytes,
        7 | 8 if settings.num_levels > 2 => {
            let ages = [0, 20, 1000, 100_000].map(Preclude::Seconds);
            new.preclude_last_level_data_seconds = ages.get(pick % 5).copied().unwrap_or(Preclude::Auto);
        }
        _ => (new.bloom_bits_per_key, new.level0_file_num_compaction_trigger) = ([0.0, 10.0][pick % 2], 2 + pick % 5),
    }
    new
}
