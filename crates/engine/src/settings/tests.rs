//! Round trips, complaints, budgets.

mod documentation;

use super::size::{parse_bytes, parse_compression, parse_count, parse_seconds};
use super::*;

fn codec(text: &str) -> Codecs {
    parse_compression(text).unwrap()
}

/// Valid settings of all kinds from a seed.
fn random_family(random: &mut impl FnMut(u64) -> u64) -> FamilySettings {
    let lists = ["none", "lz4", "none none snappy zstd:3", "zstd:-5:dict=16KiB bzip2:9", "zlib:6,zlib", "zstd:22:dict=1000", "auto"];
    let trigger = 1 + random(10) as usize;
    let soft = 4096 + random(1 << 40);
    let table = 4096 + random(1 << 30);
    let levels = 2 + random(14) as usize;
    let mut fitting = lists.map(codec).to_vec();
    fitting.retain(|codecs| codecs.fixed().is_none_or(|list| list.len() <= levels));
    let preclude = match random(4) * u64::from(levels > 2) {
        0 | 1 => Preclude::Seconds(random(2) * random(86_400 * 365) * u64::from(levels > 2)),
        _ => Preclude::Auto,
    };
    FamilySettings {
        write_buffer_size: 4096 + random(1 << 30),
        max_write_buffer_number: 2 + random(62) as usize,
        style: if random(2) == 0 { Style::Leveled } else { Style::Universal },
        block_size: 64 + random(1 << 20) as u32,
        bloom_bits_per_key: random(6400) as f64 / 100.0,
        bloom_bits_last_level: random(64) as f64,
        compression: fitting.swap_remove(random(fitting.len() as u64) as usize),
        num_levels: levels,
        level0_file_num_compaction_trigger: trigger,
        level0_slowdown_writes_trigger: trigger + random(5) as usize,
        level0_stop_writes_trigger: if random(4) == 0 { usize::MAX } else { trigger + 5 },
        max_bytes_for_level_base: 4096 << random(30),
        max_bytes_for_level_multiplier: 1.1 + random(1000) as f64 / 7.0,
        level_compaction_dynamic_level_bytes: random(2) == 0,
        target_file_size_base: table,
        target_file_size_multiplier: 1 + random(9) as u32,
        max_compaction_bytes: if random(4) == 0 { u64::MAX } else { table + random(1 << 40) },
        soft_pending_compaction_bytes_limit: soft,
        hard_pending_compaction_bytes_limit: soft + random(2) * 7,
        size_ratio: random(200) as u32,
        min_merge_width: 2 + random(3) as usize,
        max_merge_width: if random(2) == 0 { usize::MAX } else { 5 + random(5) as usize },
        max_size_amplification_percent: 1 + random(u64::from(u32::MAX) - 1) as u32,
        ttl_seconds: random(4) * random(86_400 * 365),
        preserve_internal_time_seconds: random(2) * random(86_400 * 365),
        temperature_ages: ["off", "cold", "hot 1h, warm 7d, cold", "warm 77, ice"][random(4) as usize].parse().unwrap(),
        fast_tier_budget: match random(3) {
            _ if preclude != Preclude::Auto => TierBudget::default(),
            0 => TierBudget::Bytes(1 + random(1 << 50)),
            1 => TierBudget::Bytes(u64::MAX),
            _ => TierBudget::Percent((1 + random(700)) as f64 / 7.0),
        },
        preclude_last_level_data_seconds: preclude,
        untimed_data: if random(2) == 0 { UntimedData::Young } else { UntimedData::Old },
        last_level_temperature: Temperature::ALL[random(6) as usize],
        default_write_temperature: Temperature::ALL[random(6) as usize],
    }
}

fn random_source(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

#[test]
fn defaults_are_valid_and_what_no_budget_and_the_default_memory_give() {
    let none = Budgets::default();
    assert_eq!((none.db(), none.family()), (DbSettings::default(), FamilySettings::default()));
    let stated = Budgets { memory: Some(DEFAULT_MEMORY), space_amplification: None };
    assert_eq!(stated.family(), FamilySettings::default());
    assert_eq!(stated.db().cache_size, DbSettings::default().cache_size);
    assert_eq!(Settings::default().validate(), Ok(()));
    assert_eq!(FamilySettings::default().validate(), Ok(()));
    assert_eq!(Settings::new(none), Settings::default());
}

#[test]
fn random_settings_survive_text() {
    for seed in 0..2000 {
        let mut random = random_source(seed);
        let family = random_family(&mut random);
        assert_eq!(family.validate(), Ok(()), "seed {seed}");
        assert_eq!(FamilySettings::from_toml(&family.to_toml()).as_ref(), Ok(&family), "seed {seed}\n{}", family.to_toml());
        assert_eq!(FamilySettings::from_stored(&family.to_toml()), Ok((family.clone(), vec![])), "seed {seed}");
        let parts = [CompressedCache::Off, CompressedCache::Auto, CompressedCache::Share((1 + random(899)) as f64 / 1000.0)];
        let db = DbSettings {
            cache_size: random(1 << 45),
            cache_index_and_filter_blocks: random(2) == 0,
            compressed_cache: parts[random(3) as usize],
            memory_budget: random(2) * (Budgets::MEMORY_LEAST + random(1 << 40)),
            max_background_jobs: random(257) as usize,
            max_subcompactions: 1 + random(256) as usize,
            use_direct_io_for_flush_and_compaction: random(2) == 0,
            bytes_per_sync: random(3) << random(38),
            max_total_wal_size: 4096 + random(1 << 40),
            db_write_buffer_size: if random(2) == 0 { u64::MAX } else { 4096 << random(20) },
            max_open_files: random(1 << 30),
            tiers: ["stored", "none", "cold=/mnt/slow", r#"hot=/a "b"\c, ice=/tape=1"#][random(4) as usize].parse().unwrap(),
        };
        assert_eq!(DbSettings::from_toml(&db.to_toml()).as_ref(), Ok(&db), "seed {seed}");
        let memory = (random(2) == 0).then(|| (1 << 20) + random(1 << 40));
        let space = (random(2) == 0).then(|| 1.1 + random(89) as f64 / 10.0);
        let names = ["default", "a b", "quo\"te\\", "tab\t\u{7f}new\nline", "naïve", "1.5", ""];
        let families = names.iter().map(|name| (name.to_string(), random_family(&mut random))).collect();
        let settings = Settings { budgets: Budgets { memory, space_amplification: space }, db, families };
        assert_eq!(Settings::from_toml(&settings.to_toml()).as_ref(), Ok(&settings), "seed {seed}\n{}", settings.to_toml());
    }
}

#[test]
fn a_tier_budget_is_bytes_or_a_share() {
    let read = |age: &str, text: &str| {
        let text = format!("preclude_last_level_data_seconds = {age}\nfast_tier_budget = {text}");
        FamilySettings::from_toml(&text).map(|settings| settings.fast_tier_budget)
    };
    let parsed = |text: &str| read("\"auto\"", text);
    assert_eq!([parsed("\"25%\""), parsed("\" 25.0 % \"")], [const { Ok(TierBudget::Percent(25.0)) }; 2]);
    assert_eq!([parsed("\"10GiB\""), parsed("10737418240")], [const { Ok(TierBudget::Bytes(10 << 30)) }; 2]);
    assert_eq!(parsed("\"unlimited\""), Ok(TierBudget::Bytes(u64::MAX)));
    for bad in ["\"0%\"", "\"101%\"", "\"-1%\"", "\"nan%\"", "\"%\"", "\"much\"", "0", "\"\""] {
        assert!(parsed(bad).is_err_and(|complaints| complaints.concat().contains("fast_tier_budget")), "{bad}");
    }
    for age in ["0", "\"1h\""] {
        // Whoever changes `auto` to an age while the database is open would have to take back what is stored of the budget first.
        assert_eq!(read(age, "\"10GiB\""), Ok(TierBudget::Bytes(10 << 30)), "it bounds nothing, and is kept");
    }
    assert_eq!(TierBudget::Percent(25.0).of(1000.0), 250.0);
    assert_eq!(TierBudget::Bytes(10).of(1000.0), 10.0);
    assert!(TierBudget::Bytes(u64::MAX).of(1000.0).is_infinite());
}

#[test]
fn a_file_with_budgets_fields_and_families() {
    let text = r#"
        memory = "1GiB"            # budgets first
        space_amplification = 1.25
        max_background_jobs = 4
        bytes_per_sync = "512K"
        [family.default]
        write_buffer_size = "16MB"
        compression = ["none", "none", "lz4", "zstd:3:dict=16KB"]
        ttl_seconds = "30d"
        [family.cold]
        compression = "auto"
        max_merge_width = "unlimited"
        block_size = 0x4000
    "#;
    let settings = Settings::from_toml(text).unwrap();
    assert_eq!((settings.db.max_background_jobs, settings.db.bytes_per_sync), (4, 512 << 10));
    assert_eq!(settings.db.cache_size, (1 << 30) - 2 * 429_496_728, "a fifth");
    let (default, cold) = (settings.family("default"), settings.family("cold"));
    assert_eq!((default.write_buffer_size, default.ttl_seconds), (16_000_000, 30 * 86_400));
    assert_eq!(default.compression_at(3), Compression { codec: Codec::Zstd, level: Some(3), dictionary_bytes: 16_000 });
    assert_eq!(default.compression_at(9), default.compression_at(3));
    assert_eq!((cold.compression.clone(), cold.compression_at(5).codec), (Codecs::Auto, Codec::Lz4));
    assert_eq!((cold.block_size, cold.max_merge_width, cold.max_bytes_for_level_multiplier), (16_384, usize::MAX, 5.0));
    assert_eq!(settings.family("unnamed"), settings.budgets.family());
}

#[test]
fn memory_alone_is_a_budget_and_sizes_that_are_written_out_stay() {
    let budget = |text: &str| Settings::from_toml(text).unwrap().db.memory_budget;
    assert_eq!(budget("memory = \"1GiB\""), 1 << 30);
    assert_eq!(budget("memory = \"1GiB\"\nmax_background_jobs = 4\n[family.a]\nblock_size = 8192"), 1 << 30);
    assert_eq!(budget(""), 0);
    for size in ["cache_size = \"1MiB\"", "db_write_buffer_size = \"1MiB\"", "[family.a]\nwrite_buffer_size = \"1MiB\""] {
        assert_eq!(budget(&format!("memory = \"1GiB\"\n{size}")), 0, "{size}");
    }
    assert_eq!(budget("cache_size = \"1MiB\"\nmemory_budget = \"1GiB\"\ndb_write_buffer_size = \"16MiB\""), 1 << 30);
}

#[test]
fn the_compressed_part_of_the_cache_is_a_word_or_a_share() {
    let parsed = |text: &str| Settings::from_toml(&format!("compressed_cache = {text}")).map(|settings| settings.db.compressed_cache);
    assert_eq!(parsed("\"auto\""), Ok(CompressedCache::Auto));
    assert_eq!([parsed("\"off\""), parsed("0"), parsed("0.0")], [const { Ok(CompressedCache::Off) }; 3]);
    assert_eq!([parsed("0.25"), parsed("\"0.25\"")], [const { Ok(CompressedCache::Share(0.25)) }; 2]);
    for bad in ["1", "0.95", "-0.1", "nan", "inf", "\"some\"", "\"25%\""] {
        let complaint = parsed(bad).unwrap_err().join("\n");
        assert!(complaint.contains("compressed_cache"), "{bad}: {complaint}");
    }
}

#[test]
fn untimed_data_is_young_or_old() {
    let parsed = |text: &str| FamilySettings::from_toml(&format!("untimed_data = \"{text}\"")).map(|settings| settings.untimed_data);
    assert_eq!(
        (parsed("young"), parsed("old"), FamilySettings::default().untimed_data),
        (Ok(UntimedData::Young), Ok(UntimedData::Old), UntimedData::Young)
    );
    assert!(parsed("cold").is_err_and(|complaints| complaints.concat().contains("`cold` is none of young, old")));
}

#[test]
fn all_complaints_of_a_file_come_at_once_with_lines() {
    let text = "memory = \"much\"\ncache_sizes = 1\nmax_subcompactions = 0\nbytes_per_sync = 1979-05-27\n\
        [family.a]\nwirte_buffer_size = 5\nblock_size = -1\nstyle = \"tree\"\ncompression = \"zstd:99 brotli\"\nnum_levels = 99\n\
        [family]\nb = 3\n";
    let complaints = Settings::from_toml(text).unwrap_err().join("\n");
    for expected in [
        "line 1: memory: `much` is not a size",
        "line 2: unknown key `cache_sizes`; the nearest known one is `cache_size`",
        "line 4: bytes_per_sync: must be a plain value, not a datetime",
        "line 6: unknown key `wirte_buffer_size`; the nearest known one is `write_buffer_size`",
        "line 7: block_size: `-1` is not a size",
        "line 8: style: `tree` is none of leveled, universal",
        "line 9: compression: `brotli` is not a codec",
        "line 12: family.b: must be a table",
        "line 3: max_subcompactions = 0: allowed 1 to 256, because",
        "line 10: family.a: num_levels = 99: allowed 2 to 16, because",
    ] {
        assert!(complaints.contains(expected), "{expected} not in\n{complaints}");
    }
    let lines: Vec<&str> = complaints.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(lines, [1, 2, 3, 4, 6, 7, 8, 9, 10, 12].map(|line| format!("line {line}")), "{complaints}");
    let syntax = Settings::from_toml("cache_size = 1\ncache_size = = 2\n").unwrap_err();
    assert!(syntax[0].starts_with("line 2: "), "{syntax:?}");
    assert!(Settings::from_toml("cache_size = 1\ncache_size = 2\n").is_err(), "a key that stands twice");
    assert!(Settings::from_toml("family = 3").unwrap_err()[0].contains("[family.NAME]"));
}

#[test]
fn values_out_of_bounds_have_the_line_on_which_they_stand() {
    let complaints = |text: &str| Settings::from_toml(text).unwrap_err().join("\n");
    assert!(complaints("\nmemory = 5").starts_with("line 2: memory = 5: allowed"));
    assert!(complaints("\n\nmemory_budget = \"1023KiB\"").starts_with("line 3: memory_budget = 1023KiB: allowed 0 and 1MiB to"));
    assert!(complaints("tiers = \"cold=\"").starts_with("line 1: tiers: "));
    assert!(complaints("memory = \"1GiB\"\nmemory_budget = \"512MiB\"").starts_with("line 2: memory_budget: memory says another one"));
    let sizes = "cache_size = \"100MiB\"\ndb_write_buffer_size = \"800MiB\"";
    assert!(complaints(&format!("memory = \"1GiB\"\nmemory_budget = \"512MiB\"\n{sizes}")).starts_with("line 2: memory_budget: "));
    for list in ["\"none,,zstd\"", "[\"\", \"zstd\"]", "\"none,\""] {
        let complaints = complaints(&format!("[family.a]\ncompression = {list}"));
        assert!(complaints.starts_with("line 2: compression: an entry is empty"), "{complaints}");
    }
    assert!(complaints("[family.a]\ncompression = \"zstd:dict=1KiB:dict=2KiB\"").contains("has two dictionaries"));
    let two = complaints(
        "[family.b]\nsize_ratio = 1\nblock_size = 1\n[family.a]\nsoft_pending_compaction_bytes_limit = \"1TiB\"\nblock_size = 2",
    );
    let expected = [
        "line 3: family.b: block_size = 1: ",
        "line 6: family.a: block_size = 2: ",
        // The other one of the two is written.
        "family.a: hard_pending_compaction_bytes_limit = 256GiB: must not be below soft_",
    ];
    assert!(two.lines().zip(expected).all(|(line, expected)| line.starts_with(expected)) && two.lines().count() == 3, "{two}");
    let family = FamilySettings::from_toml("\ncompression = \"lz4:3\"").unwrap_err();
    assert!(family[0].starts_with("line 2: compression of level 0: "), "{family:?}");
}

#[test]
fn settings_of_families_at_the_top_are_told_where_they_belong() {
    let complaints = Settings::from_toml("cache_size = 1\nblock_size = 4096\nblock_sizes = 4096").unwrap_err();
    let expected = [
        "line 2: `block_size` is a setting of a column family: it stands below `[family.default]`, or another name",
        "line 3: unknown key `block_sizes`; the nearest known one is `cache_size`",
    ];
    assert_eq!(complaints, expected);
    let database = Settings::from_toml("[family.default]\ncache_size = 1").unwrap_err();
    assert!(database[0].starts_with("line 2: unknown key `cache_size`; the nearest known one is"), "{database:?}");
    let alone = DbSettings::from_toml("block_size = 4096").unwrap_err();
    assert!(alone[0].starts_with("line 1: unknown key `block_size`"), "{alone:?}");
}

/// Refused where they are written; a database that was created when they were not opens.
#[test]
fn codecs_that_have_no_effect_are_refused() {
    let family = |text: &str| format!("num_levels = 3\ncompression = \"{text}\"");
    let refused = |text: &str| FamilySettings::from_toml(&family(text)).unwrap_err().join("\n");
    let stored = |text: &str| format_compression(&FamilySettings::from_stored(&family(text)).unwrap().0.compression);
    let too_long = refused("none lz4 zstd zstd:3");
    assert_eq!(too_long, "line 2: compression has 4 entries: allowed 1 to num_levels = 3, this tree has no more levels");
    assert_eq!(stored("none lz4 zstd zstd:3"), "none lz4 zstd");
    for size in [1, 255] {
        let complaint = refused(&format!("lz4 zstd:dict={size}"));
        let expected = format!("line 2: compression of level 1: dict={size}: allowed from 256 on, zstd makes no smaller ones");
        assert_eq!(complaint, expected);
        assert_eq!(stored(&format!("lz4 zstd:dict={size}")), "lz4 zstd");
    }
    for good in ["none lz4 zstd", "zstd:dict=256"] {
        assert_eq!(FamilySettings::from_toml(&family(good)).map(|family| format_compression(&family.compression)).as_deref(), Ok(good));
        assert_eq!(stored(good), good);
    }
    assert_eq!(stored("auto"), "auto");
}

#[test]
fn a_memory_budget_has_room_for_a_memtable() {
    let with = |memory_budget: u64| DbSettings { memory_budget, ..DbSettings::default() }.validate();
    for bad in [1, 4096, (1 << 20) - 1] {
        let complaints = with(bad).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].starts_with("memory_budget = "), "{complaints:?}");
        assert!(complaints[0].contains("allowed 0 and 1MiB to 1024TiB"), "{complaints:?}");
    }
    for good in [0, 1 << 20, (1 << 20) + 1, 1 << 50] {
        assert_eq!(with(good), Ok(()));
    }
}

#[test]
fn every_bound_is_complained_about_at_once() {
    let bad = DbSettings {
        cache_size: u64::MAX,
        max_background_jobs: 1000,
        max_subcompactions: 0,
        bytes_per_sync: u64::MAX,
        max_total_wal_size: 0,
        db_write_buffer_size: 1,
        ..DbSettings::default()
    };
    assert_eq!(bad.validate().unwrap_err().len(), 6);
    let bad = FamilySettings {
        write_buffer_size: 0,
        max_write_buffer_number: 1,
        block_size: 63,
        bloom_bits_per_key: f64::NAN,
        bloom_bits_last_level: -1.0,
        compression: codec("lz4:3 zstd:30 zlib:10 bzip2:0 lz4:dict=5 zstd:dict=2MiB"),
        num_levels: 1,
        level0_file_num_compaction_trigger: 0,
        level0_slowdown_writes_trigger: 30,
        level0_stop_writes_trigger: 20,
        max_bytes_for_level_base: 1,
        max_bytes_for_level_multiplier: 1.0,
        target_file_size_base: 1 << 41,
        target_file_size_multiplier: 0,
        max_compaction_bytes: 4096,
        soft_pending_compaction_bytes_limit: 8192,
        hard_pending_compaction_bytes_limit: 4096,
        size_ratio: 10_001,
        min_merge_width: 1,
        max_merge_width: 0,
        max_size_amplification_percent: 0,
        ttl_seconds: u64::MAX,
        preserve_internal_time_seconds: u64::MAX,
        fast_tier_budget: TierBudget::Percent(0.0),
        preclude_last_level_data_seconds: Preclude::Seconds(u64::MAX),
        ..FamilySettings::default()
    };
    let complaints = bad.validate().unwrap_err();
    let all = complaints.join("\n");
    // These cannot hold a wrong value.
    let is_always_right = |f: &&field::Field<_>| {
        use field::Kind::{Flag, List, Temperature, Word};
        matches!(f.kind, Flag { .. } | Word { .. } | List { .. } | Temperature { .. })
    };
    for field in field::FAMILY.iter().filter(|f| !is_always_right(f)) {
        assert!(all.contains(field.name), "{} not in\n{all}", field.name);
    }
    assert_eq!(complaints.iter().filter(|c| c.starts_with("compression of level")).count(), 6, "{all}");
    assert!(
        complaints.iter().all(|c| c.contains("allowed") || c.contains("must not") || c.contains("only") || c.contains("write lz4")),
        "{all}"
    );
    let empty = FamilySettings { compression: Vec::new().into(), ..FamilySettings::default() };
    assert_eq!(empty.validate().unwrap_err().len(), 1);
    let reversed = FamilySettings { level0_slowdown_writes_trigger: 3, ..FamilySettings::default() };
    let complaint = reversed.validate().unwrap_err().join("\n");
    assert!(
        complaint.starts_with("level0_slowdown_writes_trigger = 3: must not be below level0_file_num_compaction_trigger = 4"),
        "{complaint}"
    );
}

#[test]
fn the_age_that_keeps_data_off_the_last_level_is_a_duration() {
    let parsed = |text: &str| FamilySettings::from_toml(&format!("preclude_last_level_data_seconds = {text}"));
    let age = |text: &str| parsed(text).unwrap().preclude_last_level_data_seconds;
    assert_eq!([age("0"), age("\"1h\""), age("90")], [0, 3600, 90].map(Preclude::Seconds));
    assert_eq!(age("\"auto\""), Preclude::Auto);
    let wrong = parsed("\"soon\"").unwrap_err();
    assert!(wrong[0].contains("`soon` is not a duration") && wrong[0].contains("not `auto`"), "{wrong:?}");
    let two = FamilySettings { num_levels: 2, ..FamilySettings::default() };
    assert_eq!((two.validate(), two.places_by_age()), (Ok(()), false));
    let young = FamilySettings { preclude_last_level_data_seconds: Preclude::Seconds(1), ..two };
    assert!(young.validate().unwrap_err()[0].contains("from num_levels = 3 on"));
    assert!(FamilySettings { num_levels: 3, ..young }.places_by_age());
}

#[test]
fn temperatures_are_words() {
    let parsed = |text: &str| FamilySettings::from_toml(&format!("last_level_temperature = \"{text}\""));
    for temperature in Temperature::ALL {
        assert_eq!(parsed(temperature.name()).unwrap().last_level_temperature, temperature);
    }
    assert!(parsed("tepid").unwrap_err()[0].contains("`tepid` is none of unknown, hot, warm, cool, cold, ice"));
    let family = FamilySettings { default_write_temperature: Temperature::Hot, num_levels: 4, ..FamilySettings::default() };
    assert_eq!([0, 2, 3].map(|level| family.temperature_at(level)), [Temperature::Hot; 3]);
    let family = FamilySettings { last_level_temperature: Temperature::Cold, ..family };
    assert_eq!([0, 2, 3].map(|level| family.temperature_at(level)), [Temperature::Hot, Temperature::Hot, Temperature::Cold]);
}

#[test]
fn bounds_themselves_are_allowed_and_one_beyond_is_not() {
    for field in field::DB {
        let field::Kind::Whole { min, max, set, .. } = &field.kind else { continue };
        for (value, good) in [(Some(*min), true), (Some(*max), true), (min.checked_sub(1), false), (max.checked_add(1), false)] {
            let mut db = DbSettings::default();
            let Some(value) = value else { continue };
            assert!(set(&mut db, value));
            assert_eq!(db.validate().is_ok(), good, "{} = {value}", field.name);
        }
    }
}

#[test]
fn stored_text_of_a_newer_version_opens_with_warnings() {
    let text = FamilySettings::default().to_toml() + "tiering_age = \"3d\"\n[future]\nx = 1\n";
    let (settings, warnings) = FamilySettings::from_stored(&text).unwrap();
    assert_eq!(settings, FamilySettings::default());
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("future") && warnings[1].contains("tiering_age"));
    assert!(FamilySettings::from_stored("block_size = \"wide\"").is_err());
    assert!(DbSettings::from_toml("tiering_age = 1").unwrap_err()[0].starts_with("line 1: unknown key"));
}

#[test]
fn single_fields_are_set_by_name() {
    let mut family = FamilySettings::default();
    family.set("write_buffer_size", "8MiB").unwrap();
    family.set("style", "universal").unwrap();
    assert_eq!((family.write_buffer_size, family.style), (8 << 20, Style::Universal));
    assert!(family.set("write_bufer_size", "1").unwrap_err().contains("`write_buffer_size`"));
    assert!(family.set("block_size", "5GiB").unwrap_err().contains("does not fit"));
}

#[test]
fn budgets_give_valid_settings_that_grow_with_them() {
    let mut previous: Option<(DbSettings, FamilySettings)> = None;
    for step in 0..600u32 {
        let memory = ((1u64 << 20) as f64 * 1.035f64.powf(f64::from(step))) as u64;
        let budgets = Budgets { memory: Some(memory), space_amplification: None };
        let (db, family) = (budgets.db(), budgets.family());
        assert_eq!((db.validate(), family.validate()), (Ok(()), Ok(())), "{memory}");
        let memtables = family.write_buffer_size * family.max_write_buffer_number as u64;
        assert_eq!(db.cache_size + memtables, memory, "the budget is spent, and not more");
        assert_eq!(db.db_write_buffer_size, memtables);
        if let Some((old_db, old_family)) = &previous {
            assert!(db.cache_size >= old_db.cache_size && family.write_buffer_size >= old_family.write_buffer_size, "{memory}");
        }
        previous = Some((db, family));
    }
    let mut multiplier = f64::MAX;
    let mut dead = 0;
    for tenth in 110..=1000 {
        let family = Budgets { memory: None, space_amplification: Some(f64::from(tenth) / 100.0) }.family();
        assert_eq!(family.validate(), Ok(()), "{tenth}");
        if family.style == Style::Leveled {
            assert!(family.max_bytes_for_level_multiplier <= multiplier && dead == 0, "{tenth}");
            multiplier = family.max_bytes_for_level_multiplier;
            let bound = 1.0 + 1.0 / (multiplier - 1.0);
            assert!(bound <= f64::from(tenth) / 100.0 + 0.005, "{tenth}: {bound}");
        } else {
            assert!(family.max_size_amplification_percent >= dead, "{tenth}");
            dead = family.max_size_amplification_percent;
            assert_eq!(dead + 200, tenth, "a second copy and the dead bytes fill the budget");
        }
    }
    assert_eq!(multiplier, 4.0);
    for bad in [Budgets { memory: Some(1), space_amplification: None }, Budgets { memory: None, space_amplification: Some(f64::NAN) }] {
        assert_eq!(Settings::new(bad).validate().unwrap_err().len(), 1);
    }
}

#[test]
fn sizes_as_people_write_them() {
    let good = [("0", 0), ("4096", 4096), ("1_000", 1000), ("64MB", 64_000_000), ("64M", 64 << 20), ("1GiB", 1 << 30), ("1.5gib", 3 << 29)];
    for (text, bytes) in good {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
    assert_eq!(parse_bytes(" 16 KiB "), Ok(16 << 10));
    assert_eq!(parse_bytes("Unlimited"), Ok(u64::MAX));
    for bad in ["", "MB", "-1", "1XB", "1.2.3", "1.", ".5", "99999999999999999999", "16777216TiB", "1e3", "４", "1 2", "1.0000000000"] {
        assert!(parse_bytes(bad).is_err(), "{bad}");
    }
    assert_eq!((parse_seconds("15m"), parse_seconds("2w"), parse_seconds("7")), (Ok(900), Ok(1_209_600), Ok(7)));
    assert!(parse_seconds("3 months").is_err() && parse_count("1.5").is_err());
    let mut random = random_source(7);
    for _ in 0..10_000 {
        let value = random(u64::MAX) >> random(64) << random(64);
        assert_eq!(parse_bytes(&format_bytes(value)), Ok(value));
        assert_eq!(parse_seconds(&format_seconds(value)), Ok(value));
    }
    let list = codec("none none lz4 zstd:3:dict=16KB");
    assert_eq!(format_compression(&list), "none none lz4 zstd:3:dict=16000");
    assert_eq!((codec(" auto "), format_compression(&Codecs::Auto)), (Codecs::Auto, "auto".to_string()));
    for bad in
        ["auto lz4", "none auto", "auto:3", "Auto", "gzip", "zstd:fast", "zstd:1:2", "zstd:dict=", "zstd:dict=5GiB", &"lz4 ".repeat(17)]
    {
        assert!(parse_compression(bad).is_err(), "{bad}");
    }
}

#[test]
fn hostile_settings_end_in_complaints() {
    let base = Settings { families: [("default".into(), FamilySettings::default())].into(), ..Settings::default() }.to_toml();
    mutate(&base, 2000, |text, seed| {
        if let Ok(settings) = Settings::from_toml(text) {
            assert_eq!(Settings::from_toml(&settings.to_toml()), Ok(settings), "seed {seed}");
        }
    });
    assert!(Settings::from_toml(&"[".repeat(100_000)).is_err());
    assert!(Settings::from_toml(&format!("cache_size = {}", "[".repeat(100_000))).is_err());
    assert!(Settings::from_toml(&"x = 1\n".repeat(1 << 18)).unwrap_err().len() <= 101);
}

/// Calls `check` with texts that are damaged in a few places.
pub(super) fn mutate(base: &str, rounds: u64, mut check: impl FnMut(&str, u64)) {
    let pieces =
        ["{", "}", ";", "=", "[", "]", "\"", "#", "\\", "\n", ":", "-1", "18446744073709551616", "nullptr", "é", "\0", "1e308", ""];
    for seed in 0..rounds {
        let mut random = random_source(seed);
        let mut text: Vec<char> = base.chars().collect();
        for _ in 0..=random(4) {
            if text.is_empty() {
                break;
            }
            let at = random(text.len() as u64) as usize;
            let end = (at + random(20) as usize).min(text.len());
            match random(4) {
                0 => text.truncate(at.max(1)),
                1 => drop(text.splice(at..end, pieces[random(18) as usize].chars())),
                2 => drop(text.splice(at..at, pieces[random(18) as usize].chars())),
                _ => {
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = random(text.len() as u64) as usize;
                    text.splice(to..to, copy);
                }
            }
        }
        check(&text.iter().collect::<String>(), seed);
    }
}
