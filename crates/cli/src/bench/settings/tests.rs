use super::*;
use clap::{Args, FromArgMatches};
use sinterdb::internal::settings::format_compression;

/// The settings that a command line asks for.
fn settings(line: &str) -> Result<Chosen, Vec<String>> {
    let command = EngineFlags::augment_args(clap::Command::new("bench"));
    let matches = command.try_get_matches_from(std::iter::once("bench").chain(line.split_whitespace()));
    choose(&EngineFlags::from_arg_matches(&matches.unwrap()).unwrap(), None)
}

#[test]
fn without_flags_it_is_db_bench() {
    let Chosen { database, family, notes, .. } = settings("").unwrap();
    assert_eq!((database.cache_size, database.max_background_jobs, database.bytes_per_sync), (32 << 20, 2, 1 << 20));
    assert_eq!(database.max_total_wal_size, 512 << 20);
    assert_eq!((family.write_buffer_size, family.max_write_buffer_number, family.block_size), (64 << 20, 2, 4096));
    assert_eq!((family.bloom_bits_per_key, family.level_compaction_dynamic_level_bytes), (0.0, false));
    assert_eq!((family.max_bytes_for_level_base, family.target_file_size_base), (256 << 20, 64 << 20));
    assert_eq!(family.max_compaction_bytes, 25 * (64 << 20));
    assert_eq!(family.compression.fixed().unwrap().iter().map(|c| c.codec).collect::<Vec<_>>(), [Codec::Snappy]);
    assert!(notes.is_empty());
}

#[test]
fn an_existing_database_goes_on_as_it_is() {
    let mut stored = Settings::default();
    let family = FamilySettings { compression: Codecs::Auto, bloom_bits_per_key: 7.0, ..FamilySettings::default() };
    stored.families.insert(DEFAULT_FAMILY.into(), family.clone());
    stored.db.cache_size = 3 << 20;
    stored.db.max_total_wal_size = 77 << 20;
    let choose = |line: &str| {
        let matches = EngineFlags::augment_args(clap::Command::new("bench"))
            .get_matches_from(std::iter::once("bench").chain(line.split_whitespace()));
        choose(&EngineFlags::from_arg_matches(&matches).unwrap(), Some(&stored)).unwrap()
    };
    let plain = choose("");
    assert_eq!((plain.family, &plain.database), (family, &stored.db));
    let flagged = choose("--bloom_bits=10 --compression_type=lz4");
    assert_eq!((flagged.family.bloom_bits_per_key, flagged.database.cache_size), (10.0, 3 << 20));
    assert_ne!(flagged.family.compression, Codecs::Auto);
    // With budgets, the settings that follow from them.
    let Chosen { database, family, .. } = choose("--memory=64MiB");
    assert_eq!((&family.compression, family.bloom_bits_per_key, database.max_total_wal_size), (&Codecs::Auto, 7.0, 77 << 20));
    let budget = Budgets { memory: Some(64 << 20), ..Budgets::default() };
    assert_eq!((database.cache_size, database.memory_budget), (budget.db().cache_size, 64 << 20));
    assert_eq!(family.write_buffer_size, budget.family().write_buffer_size);
    assert_eq!(choose("--memory=1GiB").database.max_total_wal_size, choose("--memory=1GiB").database.db_write_buffer_size);
    assert_eq!(choose("--target_file_size_base=4GiB").family.max_compaction_bytes, 100 << 30);
    assert_eq!(choose("--write_buffer_size=32MiB").database.max_total_wal_size, 256 << 20);
    let spacious = choose("--space_amplification=3");
    assert_eq!((spacious.family.style, spacious.family.compression), (Style::Universal, Codecs::Auto));
    // A settings file sets everything.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(&path, "[family.default]\nnum_levels = 5\n").unwrap();
    assert_ne!(choose(&format!("--settings={}", path.display())).family.compression, Codecs::Auto);
}

#[test]
fn a_slow_tier_that_stays_empty_is_told() {
    let line = "--tier cold=/mnt/slow --preclude_last_level_data_seconds=60";
    let notes = |more: &str| settings(&[line, more].join(" ")).unwrap().notes;
    assert!(notes("")[0].contains("level_compaction_dynamic_level_bytes"));
    for told in ["--level_compaction_dynamic_level_bytes=true", "--compaction_style=universal"] {
        assert_eq!(notes(told), [""; 0]);
    }
}

#[test]
fn flags_win() {
    let chosen = settings("--compaction_style=universal --bloom_bits=10 --optimize_filters_for_hits --cache_size=1GiB --subcompactions=2");
    let Chosen { database, family, .. } = chosen.unwrap();
    assert_eq!((family.style, family.bloom_bits_per_key, family.bloom_bits_last_level), (Style::Universal, 10.0, 0.0));
    assert_eq!((database.cache_size, database.max_subcompactions), (1 << 30, 2));
    let family = settings("--target_file_size_base=8MiB --write_buffer_size=8388608 --max_bytes_for_level_base=33554432").unwrap().family;
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
    let list = |line: &str| settings(line).unwrap().family.compression.fixed().unwrap().to_vec();
    let codecs = |line: &str| list(line).iter().map(|c| (c.codec, c.level)).collect::<Vec<_>>();
    assert_eq!(codecs("--compression_type=zstd --compression_level=3"), [(Codec::Zstd, Some(3))]);
    assert_eq!(codecs("--compression_type=zstd --compression_level=32767"), [(Codec::Zstd, None)]);
    let three = [(Codec::None, None), (Codec::None, None), (Codec::Lz4, None)];
    assert_eq!(codecs("--compression_per_level=none:none:lz4"), three);
    for one in ["zstd:3:dict=16KiB", "kZSTD:3:dict=16KiB"] {
        let wanted = [Compression { codec: Codec::Zstd, level: Some(3), dictionary_bytes: 16 << 10 }];
        assert_eq!(list(&format!("--compression_per_level={one}")), wanted);
    }
    assert_eq!(codecs("--compression_per_level=kNoCompression,kNoCompression,kLZ4Compression"), three);
    assert_eq!(
        codecs("--compression_type=lz4 --min_level_to_compress=2")[1..4],
        [(Codec::None, None), (Codec::Lz4, None), (Codec::Lz4, None)]
    );
    assert_eq!(list("--compression_type=zstd --compression_max_dict_bytes=4096")[0].dictionary_bytes, 4096);
    assert_eq!(settings("--compression_type=auto").unwrap().family.compression, Codecs::Auto);
    // Codecs of RocksDB that are not built in become lz4, as in OPTIONS files, and a note says so.
    for (line, codec) in [("--compression_type=lz4hc", Codec::Lz4), ("--compression_per_level=kXpressCompression:zstd", Codec::Lz4)] {
        assert_eq!(codecs(line)[0], (codec, None));
        assert!(settings(line).unwrap().notes[0].ends_with("lz4 is used instead"), "{line}");
    }
    for wrong in ["--compression_type=brotli", "--compression_type=lz4:zstd", "--compression_type=lz4 --compression_per_level=lz4"]
        .into_iter()
        .chain(["--compression_per_level=none:auto", "--compression_type=auto --compression_level=3"])
        .chain(["--compression_type=auto --min_level_to_compress=2", "--compression_type=auto --compression_max_dict_bytes=9"])
    {
        let complaints = settings(wrong).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].contains("compress"), "{wrong}: {complaints:?}");
    }
}

/// Entries with blanks or commas between them are a list as in settings files, with options.
#[test]
fn compression_of_levels_as_in_settings_files() {
    let list = |value: &str| {
        let flags = EngineFlags { compression_per_level: Some(value.to_string()), ..EngineFlags::default() };
        choose(&flags, None).map(|chosen| format_compression(&chosen.family.compression))
    };
    for (value, expected) in [
        ("none none lz4 lz4 zstd zstd zstd", "none none lz4 lz4 zstd zstd zstd"),
        ("none, LZ4,zstd:3", "none lz4 zstd:3"),
        (" kNoCompression kZSTD:3:dict=16KiB ", "none zstd:3:dict=16KiB"),
        (" kNoCompression:kZSTD ", "none zstd"),
    ] {
        assert_eq!(list(value).as_deref(), Ok(expected), "{value}");
    }
    for wrong in [
        "none auto",
        "none lz4:zstd",
        "none zstd:many",
        ", ",
        "none,lz4,,zstd",
        "none,",
        "none::zstd",
        "zstd:dict=1KiB:dict=2KiB",
        "auto",
        "",
    ] {
        let complaints = list(wrong).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].starts_with("compression_per_level: "), "{wrong}: {complaints:?}");
    }
}

/// A level of effort applies to those codecs of a list that have one, and is refused if none has.
#[test]
fn efforts_go_to_the_codecs_that_take_them() {
    let list = |line: &str| settings(line).map(|chosen| format_compression(&chosen.family.compression));
    let mixed = "--compression_per_level=none:lz4:zstd:zlib";
    assert_eq!(list(&format!("{mixed} --compression_level=5")).as_deref(), Ok("none lz4 zstd:5 zlib:5"));
    assert_eq!(list(&format!("{mixed} --compression_max_dict_bytes=4096")).as_deref(), Ok("none lz4 zstd:dict=4KiB zlib"));
    assert_eq!(list(&format!("{mixed} --compression_level=32767 --compression_max_dict_bytes=0")).as_deref(), Ok("none lz4 zstd zlib"));
    for (line, complaint) in [
        ("--compression_per_level=none:lz4:snappy --compression_level=5", "compression_level: no level has a codec that takes it"),
        ("--compression_level=5", "compression_level: no level has a codec that takes it"),
        (
            "--compression_per_level=none:lz4:zlib --compression_max_dict_bytes=4096",
            "compression_max_dict_bytes: no level has a codec that takes it",
        ),
        ("--compression_type=zstd --compression_max_dict_bytes=255", "compression of level 0: dict=255: allowed from 256 on"),
        ("--compression_per_level=none:lz4:zstd --num_levels=2", "compression has 3 entries: allowed 1 to num_levels = 2"),
        ("--min_level_to_compress=8", "min_level_to_compress = 8: allowed up to num_levels = 7"),
    ] {
        let complaints = list(line).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].starts_with(complaint), "{line}: {complaints:?}");
    }
    assert_eq!(list("--min_level_to_compress=7 --compression_type=lz4").as_deref(), Ok("none none none none none none none"));
}

#[test]
fn there_is_one_budget_of_memory() {
    let memory = |line: &str| settings(line).map(|Chosen { database, .. }| (database.memory_budget, database.cache_size));
    let parts = Budgets { memory: Some(1 << 30), ..Budgets::default() }.db();
    assert_eq!(memory("--memory=1GiB"), Ok((1 << 30, parts.cache_size)));
    assert_eq!(memory("--memory=1GiB --memory_budget=0"), Ok((0, parts.cache_size)), "nothing moves");
    assert_eq!(memory("--memory_budget=1GiB"), Ok((1 << 30, DbSettings::default().cache_size)));
    for second in ["1GiB", "2GiB", "a"] {
        let complaints = memory(&format!("--memory=1GiB --memory_budget={second}")).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].starts_with("memory and memory_budget exclude each other"), "{complaints:?}");
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
    let Chosen { database, family, notes, .. } = settings(&format!("--options_file={options}")).unwrap();
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
    assert_eq!(listing(&family.to_toml())["compression"], "snappy");
    assert_eq!(listing(&database.to_toml())["cache_size"], "32MiB");
}

#[test]
fn tiers_are_directories_and_may_be_slow() {
    let Chosen { database, .. } = settings("--tier cold=zoned:zones.img,reserve=5 --tier=ice=tape").unwrap();
    assert!(database.to_toml().contains("tiers = \"cold=zoned:zones.img,reserve=5, ice=tape\"\n"), "{}", database.to_toml());
    let Chosen { database, family, slow, .. } =
        settings("--tier cold=/slow --tier=ice=tape --tier_model cold=8.5,150 --temperature_ages=cold").unwrap();
    assert!(database.to_toml().contains("tiers = \"cold=/slow, ice=tape\"\n"), "{}", database.to_toml());
    assert!(family.to_toml().contains("temperature_ages = \"cold\"\n"), "{}", family.to_toml());
    let medium = Medium { read_mb_per_s: 150.0, write_mb_per_s: 150.0, seek: Duration::from_micros(8500) };
    assert_eq!(slow, BTreeMap::from([(Temperature::Cold, medium)]));
    for (line, part) in [
        ("--tier=/slow", "not TEMPERATURE=DIRECTORY"),
        ("--tier=tepid=/slow", "tepid"),
        ("--tier=cold=/a --tier=cold=/b", "two directories"),
        ("--tier=cold=zoned:zones.img,allocation=best", "must be one of zenfs, "),
        ("--tier_model=cold=8,150", "there is no tier cold"),
        ("--tier=cold=/slow --tier_model=cold=8", "as in cold=8,150"),
        ("--tier=cold=/slow --tier_model=cold=-1,150", "as in cold=8,150"),
        ("--tier=cold=/slow --tier_model=cold=nan,150", "as in cold=8,150"),
        ("--temperature_ages=hot", ""),
        ("--temperature_ages=hot,cold", "nothing can come behind it"),
    ] {
        match settings(line) {
            Ok(_) => assert!(part.is_empty(), "{line}"),
            Err(complaints) => assert!(!part.is_empty() && complaints.join("; ").contains(part), "{line}: {complaints:?}"),
        }
    }
}
