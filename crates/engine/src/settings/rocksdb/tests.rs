//! Real OPTIONS files, options in combination, and hostile texts.

use super::super::tests::mutate;
use super::super::{Preclude, Style, format_compression};
use super::*;
use sinter_storage::store::Temperature;
use std::fmt::Write as _;

/// Written by RocksDB 7.8.3's db_bench.
const REAL: &str = include_str!("../../../testdata/options/rocksdb-7.8.3.ini");

/// Written by RocksDB 11.8.1's db_bench.
const NEW: &str = include_str!("../../../testdata/options/rocksdb-11.8.1.ini");

fn file(db: &str, family: &str, table: &str) -> String {
    format!(
        "[Version]\nrocksdb_version=9.1.0\n[DBOptions]\n{db}\n[CFOptions \"default\"]\n{family}\n\
         [TableOptions/BlockBasedTable \"default\"]\n{table}\n"
    )
}

fn family(family: &str, table: &str) -> FamilySettings {
    OptionsFile::parse(&file("", family, table)).unwrap().families.remove(0).1
}

#[test]
fn every_option_of_a_real_file_is_classified() {
    let file = OptionsFile::parse(REAL).unwrap();
    assert_eq!(file.unknown, vec![]);
    let used: Vec<&str> = file.used.iter().map(|e| e.key.as_str()).collect();
    let expected = [
        "bytes_per_sync max_background_jobs max_background_flushes max_open_files max_subcompactions max_background_compactions",
        "max_total_wal_size",
        "use_direct_io_for_flush_and_compaction db_write_buffer_size",
        "compression_opts.enabled compression_opts.max_dict_bytes compression_opts.level",
        "target_file_size_multiplier write_buffer_size max_write_buffer_number",
        "bottommost_compression_opts.enabled bottommost_compression_opts.max_dict_bytes bottommost_compression_opts.level",
        "level0_stop_writes_trigger level0_slowdown_writes_trigger hard_pending_compaction_bytes_limit soft_pending_compaction_bytes_limit",
        "target_file_size_base level0_file_num_compaction_trigger max_compaction_bytes max_bytes_for_level_base",
        "last_level_temperature",
        "max_bytes_for_level_multiplier compression",
        "compaction_options_universal.max_size_amplification_percent compaction_options_universal.max_merge_width",
        "compaction_options_universal.min_merge_width compaction_options_universal.size_ratio",
        "bottommost_compression preserve_internal_time_seconds preclude_last_level_data_seconds num_levels",
        "optimize_filters_for_hits level_compaction_dynamic_level_bytes compaction_style comparator",
        "filter_policy cache_index_and_filter_blocks block_size",
    ];
    assert_eq!(used, expected.join(" ").split_whitespace().collect::<Vec<_>>());
    // Structs that are cut: 9 + 9 + 8 members for 3 lines.
    let lines = REAL.lines().filter(|l| !l.starts_with('#') && l.contains('=')).count();
    assert_eq!(file.used.len() + file.without_effect.len(), lines - 3 + 9 + 9 + 8);
    assert_eq!(file.report(), Vec::<String>::new(), "nobody asked db_bench for anything special");
    let ttl = file.without_effect.iter().find(|w| w.entry.key == "ttl").unwrap();
    assert_eq!((ttl.entry.value.as_str(), ttl.entry.section.as_str()), ("2592000", "CFOptions \"default\""));
}

#[test]
fn every_option_of_a_newer_file_is_known() {
    let file = OptionsFile::parse(NEW).unwrap();
    assert_eq!((file.unknown.as_slice(), file.report()), (&[][..], Vec::<String>::new()));
}

#[test]
fn settings_that_rocksdb_does_not_have_go_by_their_names() {
    let text = file("compressed_cache=0.25\nmemory_budget=64MiB", "ttl_seconds=30d", "");
    let read = OptionsFile::parse(&text).unwrap();
    assert_eq!((read.db.compressed_cache, read.db.memory_budget), (crate::settings::CompressedCache::Share(0.25), 64 << 20));
    let tiered = OptionsFile::parse(&file("tiers=cold=/slow", "temperature_ages=hot 1h, cold\nfast_tier_budget=10%", "")).unwrap();
    assert_eq!((tiered.db.tiers, tiered.unknown), ("cold=/slow".parse().unwrap(), vec![]));
    assert_eq!(tiered.families[0].1.temperature_ages, "hot 1h, cold".parse().unwrap());
    assert_eq!((read.families[0].1.ttl_seconds, read.report()), (30 * 86_400, Vec::<String>::new()));
    let untimed = OptionsFile::parse(&file("", "untimed_data=old", "")).unwrap();
    assert_eq!((untimed.families[0].1.untimed_data, untimed.unknown), (crate::settings::UntimedData::Old, vec![]));
    let elsewhere = OptionsFile::parse(&file("cache_size=1", "memory_budget=1", "compressed_cache=auto")).unwrap();
    assert_eq!((elsewhere.unknown.len(), elsewhere.db), (3, DbSettings::default()), "they have a section, and others have RocksDB's name");
    assert!(OptionsFile::parse(&file("compressed_cache=0.95", "", "")).is_err());
}

#[test]
fn a_real_file_gives_what_it_says() {
    let file = OptionsFile::parse(REAL).unwrap();
    let expected = FamilySettings {
        compression: crate::codec::Compression { codec: crate::codec::Codec::Snappy, level: None, dictionary_bytes: 0 }.into(),
        bloom_bits_per_key: 0.0,
        bloom_bits_last_level: 0.0,
        level_compaction_dynamic_level_bytes: false,
        hard_pending_compaction_bytes_limit: 128 << 30,
        max_merge_width: u32::MAX as usize,
        ..FamilySettings::default()
    };
    assert_eq!(file.families, vec![("default".to_string(), expected)]);
    assert_eq!(file.db, DbSettings { bytes_per_sync: 0, max_total_wal_size: 512 << 20, ..DbSettings::default() });
}

#[test]
fn options_that_mean_something_together() {
    let compressed = |text: &str| format_compression(&family(text, "").compression);
    assert_eq!(compressed("compression=kZSTD\ncompression_opts={level=5;max_dict_bytes=16384;strategy=0}"), "zstd:5:dict=16KiB");
    let opts = "compression_opts={level=7}\nnum_levels=4\n";
    assert_eq!(compressed(&format!("{opts}compression=kLZ4Compression\nbottommost_compression=kZSTD")), "lz4 lz4 lz4 zstd:7");
    assert_eq!(
        compressed(&format!("{opts}compression_per_level=kNoCompression:kZSTD\nbottommost_compression_opts={{level=19;enabled=true;}}")),
        "none zstd:7 zstd:7 zstd:19"
    );
    assert_eq!(compressed("compression_per_level=kNoCompression:kNoCompression:kSnappyCompression\ncompression=kZSTD"), "none none snappy");
    assert_eq!(compressed("compression=kZlibCompression\ncompression_opts=-14:6:0:0"), "zlib:6");
    assert_eq!(compressed("compression=auto\ncompression_opts={level=32767}"), "auto");
    assert_eq!(compressed("compression=auto\ncompression_per_level=kNoCompression:kZSTD"), "none zstd");
    assert_eq!(compressed("compression=kZSTD\nbottommost_compression_opts=-14:3:0:0:0:true\nnum_levels=2"), "zstd zstd:3");
    let f = family(
        "optimize_filters_for_hits=true\nlevel0_slowdown_writes_trigger=-1\nmax_compaction_bytes=0",
        "filter_policy=bloomfilter:9.5:false",
    );
    assert_eq!((f.bloom_bits_per_key, f.bloom_bits_last_level), (9.5, 0.0));
    assert_eq!((f.level0_slowdown_writes_trigger, f.max_compaction_bytes), (36, 25 * (64 << 20)));
    assert_eq!(family("", "filter_policy={id=ribbonfilter:8:-1;}").bloom_bits_per_key, 8.0);
    let f = family("last_level_temperature=kCold\ndefault_write_temperature=kHot\npreclude_last_level_data_seconds=259200", "");
    assert_eq!((f.last_level_temperature, f.default_write_temperature), (Temperature::Cold, Temperature::Hot));
    assert_eq!(f.preclude_last_level_data_seconds, Preclude::Seconds(259_200));
    assert_eq!(family("bottommost_temperature=kIce", "").last_level_temperature, Temperature::Ice);
    let f = family(
        "compaction_style=kCompactionStyleUniversal\ncompaction_options_universal={size_ratio=5;max_read_amp=-1;}",
        "block_size=16384",
    );
    assert_eq!((f.style, f.size_ratio, f.block_size), (Style::Universal, 5, 16384));
    let db = |text: &str, table: &str| OptionsFile::parse(&file(text, "", table)).unwrap().db;
    assert_eq!(db("max_background_jobs=8\nmax_background_compactions=4\nmax_background_flushes=-1", "").max_background_jobs, 5);
    assert_eq!(db("max_background_jobs=8", "block_cache={capacity=1048576;num_shard_bits=4}").cache_size, 1 << 20);
    assert_eq!(db("db_write_buffer_size=0\nmax_total_wal_size=8388608", "").max_total_wal_size, 8 << 20);
}

/// RocksDB takes an age for the last level at any number of levels, so the file must be read at any.
#[test]
fn an_age_for_the_last_level_of_a_flat_tree_is_only_kept() {
    for (levels, preserve, expected) in [(2, 0, 3600), (2, 10, 3600), (2, 7200, 7200)] {
        let text = format!("preclude_last_level_data_seconds=3600\nnum_levels={levels}\npreserve_internal_time_seconds={preserve}");
        let file = OptionsFile::parse(&file("", &text, "")).unwrap();
        let family = &file.families[0].1;
        assert_eq!((family.preclude_last_level_data_seconds, family.preserve_internal_time_seconds), (Preclude::Seconds(0), expected));
        let told = file.report();
        assert!(told.len() == 1 && told[0].contains("preclude_last_level_data_seconds = 3600: age places data from num_levels = 3 on"));
    }
    assert_eq!(family("preclude_last_level_data_seconds=3600\nnum_levels=3", "").preclude_last_level_data_seconds, Preclude::Seconds(3600));
    let f = family("preclude_last_level_data_seconds=auto\nnum_levels=2", "");
    assert_eq!((f.preclude_last_level_data_seconds, f.preserve_internal_time_seconds), (Preclude::Seconds(0), 0));
}

/// Values that are out of range, or contradict other options, are reported with the lines of all options involved.
#[test]
fn values_out_of_range_have_their_lines() {
    for (db, family, table, beginning) in [
        ("", "num_levels=1", "", "line 6: CFOptions \"default\": num_levels = 1"),
        (
            "",
            "ttl=0\ncompression=kZSTD\ncompression_opts={level=99;}",
            "",
            "line 7, 8: CFOptions \"default\": compression of level 0: zstd:99",
        ),
        ("", "", "block_size=1", "line 8: CFOptions \"default\": block_size = 1"),
        ("", "compaction_options_universal={size_ratio=999999999;}", "", "line 6: CFOptions \"default\": size_ratio = 999999999"),
        ("", "level0_file_num_compaction_trigger=50", "", "line 6: CFOptions \"default\": level0_slowdown_writes_trigger = 20"),
        ("", "", "block_cache=9999999999999999", "line 8: cache_size = "),
        ("max_background_compactions=500", "", "", "line 4: max_background_jobs = "),
        ("ttl=0\nmemory_budget=5", "", "", "line 5: memory_budget = 5"),
        ("", "compression_per_level=kNoCompression::kZSTD", "", "line 6: compression_per_level: `` is not a compression type"),
    ] {
        let complaints = OptionsFile::parse(&file(db, family, table)).unwrap_err();
        assert!(complaints.len() == 1 && complaints[0].starts_with(beginning), "{beginning}: {complaints:?}");
    }
}

/// A file that leaves all levels to the engine can name neither the codec of one nor an effort, whichever line comes first.
#[test]
fn codecs_by_hand_beside_auto_are_refused() {
    let refused = |text: &str| OptionsFile::parse(&file("", text, "")).unwrap_err().join("\n");
    for text in [
        "compression=auto\nbottommost_compression=kZSTD",
        "bottommost_compression=kNoCompression\ncompression=auto",
        "compression=auto\nbottommost_compression_opts={level=19;enabled=true;}",
        "compression=auto\ncompression_opts={level=19;}",
        "compression_opts={max_dict_bytes=16384;level=32767;}\ncompression=auto",
    ] {
        let complaint = refused(text);
        assert!(complaint.contains(": CFOptions \"default\": compression = auto") && complaint.contains("bottommost_"), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    let compressed = |text: &str| format_compression(&family(text, "").compression);
    // What RocksDB writes where nothing of the kind was asked for.
    let quiet =
        "compression=auto\nbottommost_compression=kDisableCompressionOption\nbottommost_compression_opts={level=32767;enabled=false;}";
    assert_eq!(compressed(quiet), "auto");
    assert_eq!(compressed("compression=auto\ncompression_opts={level=32767;max_dict_bytes=0;enabled=false;}"), "auto");
    let listed = "compression=auto\ncompression_per_level=kNoCompression:kLZ4Compression\nbottommost_compression=kZSTD\nnum_levels=3";
    assert_eq!(compressed(listed), "none lz4 zstd", "a list takes the place of auto");
}

#[test]
fn what_has_no_effect_or_is_unknown_is_reported() {
    let text = file(
        "paranoid_checks=false # by the way\nfrobnicate=3\nBlockBasedTable.block_cache=5",
        "ttl=60\ncompression=kLZ4HCCompression\nprefix_extractor=rocksdb.FixedPrefix.8\nmerge_operator={id=max;}\n\
         compression_opts={level=32767;shine=1}",
        "block_size=8192\nformat_version=6\n[TableOptions/PlainTable \"x\"]\nuser_key_len=8\n[Extra]\na=b",
    );
    let report = OptionsFile::parse(&text).unwrap().report().join("\n");
    for expected in [
        "line 4: [DBOptions] paranoid_checks = false: no effect: verification",
        "line 8: [CFOptions \"default\"] ttl = 60: no effect: RocksDB's ttl only compacts",
        "compression = kLZ4HCCompression: this codec is not built in: lz4 is used instead",
        "prefix_extractor = rocksdb.FixedPrefix.8: no effect: no such feature",
        "merge_operator = {id=max;}: no effect: operators and filters are passed",
        "user_key_len = 8: no effect: there is one kind of table",
        "frobnicate = 3: unknown option",
        "BlockBasedTable.block_cache = 5: unknown option",
        "compression_opts.shine = 1: unknown option",
        "line 19: [Extra] a = b: unknown option",
    ] {
        assert!(report.contains(expected), "{expected} not in\n{report}");
    }
    assert_eq!(report.lines().count(), 10, "{report}");
}

/// Levels and dictionaries of codecs that have none: told, wherever the codec is named.
#[test]
fn efforts_of_codecs_that_take_none_are_reported() {
    let report = |family: &str| OptionsFile::parse(&file("", family, "")).unwrap().report().join("\n");
    for codec in ["kLZ4Compression", "kSnappyCompression", "kNoCompression", "kBZip2Compression"] {
        let told = report(&format!("compression_opts={{level=5;max_dict_bytes=16384}}\ncompression={codec}"));
        assert!(told.contains("[CFOptions \"default\"] compression_opts.level = 5: no effect: only zstd and zlib take a level"), "{told}");
        assert!(told.contains("compression_opts.max_dict_bytes = 16384: no effect: only zstd"), "{told}");
    }
    assert!(report("compression_opts={level=5}").contains("no effect"), "the codec of those who say nothing has none either");
    assert!(report("compression=kZlibCompression\ncompression_opts={max_dict_bytes=9;level=5}").contains("only zstd"));
    assert!(report("bottommost_compression_opts={level=19}\nbottommost_compression=kZSTD").contains("it counts with enabled=true only"));
    let last = "bottommost_compression_opts={level=19;enabled=true;}";
    assert!(report(&format!("{last}\nbottommost_compression=kLZ4Compression")).contains("only zstd and zlib take a level"));
    for quiet in [
        "compression=kZSTD\ncompression_opts={level=5;max_dict_bytes=16384}",
        "compression=kLZ4Compression\ncompression_opts={level=32767;max_dict_bytes=0}",
        "compression_per_level=kNoCompression:kLZ4Compression:kZSTD\ncompression_opts={level=5}",
        "compression=kLZ4Compression\nbottommost_compression=kZSTD\ncompression_opts={level=5}",
        "compression=kLZ4Compression\nbottommost_compression=kZSTD\nbottommost_compression_opts={level=19;enabled=true;}",
        "compression=kZSTD\nbottommost_compression_opts={level=19;enabled=true;}",
    ] {
        assert_eq!(report(quiet), "", "{quiet}");
    }
}

/// Options that are applied differently from what is written are reported, and are among the used ones.
#[test]
fn codecs_that_are_applied_otherwise_are_reported() {
    let read = |text: &str| OptionsFile::parse(&file("", text, "")).unwrap();
    let compressed = |file: &OptionsFile| format_compression(&file.families[0].1.compression);
    let of_last = |lines: &str| {
        let file = read(lines);
        file.otherwise.iter().map(|(option, _)| option.key.clone()).collect::<Vec<_>>()
    };
    let fixed = "level_compaction_dynamic_level_bytes=false\ncompression=kZSTD";
    assert_eq!(of_last("compression=kLZ4Compression\nbottommost_compression=kZSTD"), [""; 0], "data end on the last level");
    assert_eq!(of_last(&format!("{fixed}\nbottommost_compression=kZSTD")), [""; 0], "it is as the others");
    assert_eq!(of_last(&format!("{fixed}\nbottommost_compression=kLZ4Compression")), ["bottommost_compression"]);
    let effort = "bottommost_compression_opts={level=19;enabled=true;}";
    assert_eq!(of_last(&format!("{fixed}\n{effort}")), ["bottommost_compression_opts.enabled"]);
    let other = read("compression=kZSTD\nbottommost_compression=kLZ4HCCompression\nnum_levels=3");
    assert_eq!(compressed(&other), "zstd zstd lz4");
    let told =
        "line 7: [CFOptions \"default\"] bottommost_compression = kLZ4HCCompression: this codec is not built in: lz4 is used instead";
    assert_eq!(other.report(), [told]);
    assert!(other.used.iter().any(|option| option.key == "bottommost_compression") && other.without_effect.len() == 1, "the version");
    let long = read("compression_per_level=kNoCompression:kLZ4Compression:kZSTD:kZSTD\nnum_levels=3");
    assert_eq!(compressed(&long), "none lz4 zstd");
    let report = long.report();
    assert!(report.len() == 1 && report[0].ends_with(": num_levels is less: entries beyond it are left out"), "{report:?}");
    assert_eq!(read("num_levels=3\ncompression_per_level=kNoCompression:kLZ4Compression:kZSTD").report(), [""; 0]);
    let both = read("num_levels=2\ncompression_per_level=kNoCompression:kXpressCompression:kZSTD").report();
    assert!(both.len() == 2 && both.iter().all(|line| line.starts_with("line 7: ")), "{both:?}");
}

/// -1 is zlib's own name for its default, and in files of RocksDB 5; zstd has a level of that name.
#[test]
fn a_level_of_minus_one_is_zlibs_default() {
    let compressed = |text: &str| format_compression(&family(text, "").compression);
    assert_eq!(compressed("compression=kZlibCompression\ncompression_opts=-14:-1:0:0"), "zlib");
    assert_eq!(compressed("compression=kZlibCompression\ncompression_opts={level=-1}"), "zlib");
    assert_eq!(compressed("compression=kZlibCompression\ncompression_opts={level=1}"), "zlib:1");
    assert_eq!(compressed("compression=kZSTD\ncompression_opts={level=-1}"), "zstd:-1");
    let refused = OptionsFile::parse(&file("", "compression=kZlibCompression\ncompression_opts={level=-2}", "")).unwrap_err();
    assert!(refused[0].contains("zlib:-2: allowed 0 to 9"), "{refused:?}");
}

#[test]
fn all_mistakes_are_listed_with_lines() {
    let complaints = OptionsFile::parse(&file(
        "max_background_jobs=many",
        "write_buffer_size=1\ncompaction_style=kCompactionStyleFIFO\ncomparator=rocksdb.ReverseBytewiseComparator\n\
         compression_opts={level=x;a={}\ncompression=kGzip\nnum_levels\nttl=1\nttl=2\nlevel0_stop_writes_trigger=5",
        "filter_policy=cuckoo:3",
    ));
    let all = complaints.unwrap_err().join("\n");
    for expected in [
        "line 4: max_background_jobs: `many` is not a whole number",
        "line 7: compaction_style: `kCompactionStyleFIFO`",
        "line 8: comparator: `rocksdb.ReverseBytewiseComparator`: keys are always ordered bytewise",
        "line 9: braces do not match",
        "line 10: compression: `kGzip`",
        "line 11: neither a section nor key=value",
        "line 13: ttl stands twice",
        "line 16: filter_policy: `cuckoo`",
        "CFOptions \"default\": write_buffer_size = 1: allowed 4KiB to 2GiB",
        "CFOptions \"default\": level0_stop_writes_trigger = 5: must not be below",
    ] {
        assert!(all.contains(expected), "{expected} not in\n{all}");
    }
    assert_eq!(all.lines().count(), 10, "{all}");
    for (text, expected) in [
        ("", "no section [CFOptions \"default\"]"),
        ("[DBOptions]\n", "no section"),
        ("x=1", "line 1: an option before the first section"),
        ("[CFOptions]\n", "needs a column family in quotes"),
        ("[CFOptions \"a]\n", "closing quote"),
        ("[DBOptions\n", "closing bracket"),
        ("[DBOptions]\n[DBOptions]\n", "line 2: section DBOptions stands twice"),
        ("[DBOptions]\n=3\n", "without a name"),
    ] {
        let complaints = OptionsFile::parse(text).unwrap_err().join("\n");
        assert!(complaints.contains(expected), "{text}: {complaints}");
    }
}

#[test]
fn hostile_options_end_in_complaints_or_valid_settings() {
    mutate(REAL, 2000, |text, seed| match OptionsFile::parse(text) {
        Ok(file) => {
            assert_eq!(file.db.validate(), Ok(()), "seed {seed}");
            assert!(file.families.iter().all(|(_, family)| family.validate().is_ok()), "seed {seed}");
        }
        Err(complaints) => assert!((1..=COMPLAINTS_MAX).contains(&complaints.len()), "seed {seed}"),
    });
    let deep = format!("[CFOptions \"default\"]\ncompression_opts={}{}", "{".repeat(200_000), "}".repeat(200_000));
    assert!(OptionsFile::parse(&deep).is_err());
    assert!(OptionsFile::parse(&"[DBOptions]\n".repeat(50_000)).unwrap_err().len() <= COMPLAINTS_MAX);
    assert!(OptionsFile::parse(&"x".repeat(2 << 20)).is_err());
    let mut many = String::from("[DBOptions]\n");
    (0..100_000).for_each(|i| writeln!(many, "{i}=").unwrap());
    assert!(OptionsFile::parse(&many).unwrap_err()[0].contains("more than 1024 options"));
    let levels = format!("[CFOptions \"default\"]\nnum_levels=18446744073709551615\ncompression_per_level={}", "kZSTD:".repeat(1000));
    assert!(OptionsFile::parse(&levels).is_err());
}
