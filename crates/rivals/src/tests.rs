//! Both engines do what a map does, are told what the spec says, and say what they cannot be told.

use crate::fjall_db::Fjall;
use crate::rocks_db::Rocks;
use crate::rocks_db::options::{Kept, kept};
use sinter_lab::drive::Engine;
use sinter_lab::run::{EngineSpec, FamilySpec, TierSpec};
use sinter_lab::system::{Outcome, Scan, Session, System};
use sinter_lab::workload::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn spec(database: &[(&str, &str)], families: &[(&str, &[(&str, &str)])]) -> EngineSpec {
    let families = families.iter().map(|(name, pairs)| FamilySpec { name: (*name).into(), settings: settings(pairs) }).collect();
    EngineSpec { name: "any".into(), database: settings(database), families, wal: true, ..EngineSpec::default() }
}

/// Two families with memtables so small that everything happens.
fn small() -> EngineSpec {
    let pairs: &[(&str, &str)] = &[
        ("write_buffer_size", "65536"),
        ("target_file_size_base", "65536"),
        ("max_bytes_for_level_base", "262144"),
        ("block_size", "1024"),
    ];
    spec(&[], &[("default", pairs), ("second", pairs)])
}

/// Random operations on two families against two maps.
struct Walk<S> {
    session: S,
    maps: [Map; 2],
    random: Xoshiro256PlusPlus,
}

impl<S: Session> Walk<S> {
    fn key(&mut self) -> Vec<u8> {
        format!("key{:05}", self.random.below(3000)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let (length, byte) = (self.random.below(300), self.random.below(256) as u8);
        vec![byte; length as usize]
    }

    fn put(&mut self, family: usize, staged: bool) -> Outcome<()> {
        let (key, value) = (self.key(), self.value());
        if staged {
            self.session.stage_put(&key, &value);
        } else {
            self.session.put(&key, &value)?;
        }
        self.maps[family].insert(key, value);
        Ok(())
    }

    fn delete(&mut self, family: usize, staged: bool) -> Outcome<()> {
        let key = self.key();
        if staged {
            self.session.stage_delete(&key);
        } else {
            self.session.delete(&key)?;
        }
        self.maps[family].remove(&key);
        Ok(())
    }

    fn step(&mut self) -> Outcome<()> {
        let family = self.random.below(2) as usize;
        self.session.choose(family);
        match self.random.below(10) {
            0..=3 => self.put(family, false)?,
            4 => self.delete(family, false)?,
            5 => {
                for _ in 0..self.random.below(8) {
                    self.put(family, true)?;
                    self.delete(family, true)?;
                }
                self.session.commit()?;
            }
            6 | 7 => {
                let (key, mut out) = (self.key(), b"what was there".to_vec());
                let there = self.session.get(&key, &mut out)?;
                assert_eq!(there.then_some(&out), self.maps[family].get(&key));
            }
            8 => {
                let keys: Vec<Vec<u8>> = (0..10).map(|_| self.key()).collect();
                let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                self.session.multi_get(&asked, |value| found.push(value.to_vec()))?;
                let expected: Vec<Vec<u8>> = keys.iter().filter_map(|key| self.maps[family].get(key).cloned()).collect();
                assert_eq!(found, expected);
            }
            _ => self.scan(family)?,
        }
        Ok(())
    }

    /// A seek, then steps in both directions.
    fn scan(&mut self, family: usize) -> Outcome<()> {
        let key = self.key();
        let steps: Vec<bool> = (0..self.random.below(12)).map(|_| self.random.below(3) > 0).collect();
        let entries: Vec<(&[u8], &[u8])> = self.maps[family].iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let mut at = entries.partition_point(|(k, _)| *k < key.as_slice());
        let mut scan = self.session.scan()?;
        scan.seek(&key)?;
        assert_eq!(scan.entry(), entries.get(at).copied());
        for forward in steps {
            if at == entries.len() || (at == 0 && !forward) {
                break;
            }
            at = if forward { at + 1 } else { at - 1 };
            if forward {
                scan.advance()?;
            } else {
                scan.retreat()?;
            }
            assert_eq!(scan.entry(), entries.get(at).copied());
        }
        Ok(())
    }

    /// Everything, from both ends.
    fn compare_all(&mut self) -> Outcome<()> {
        for (family, map) in self.maps.iter().enumerate() {
            self.session.choose(family);
            let mut scan = self.session.scan()?;
            scan.seek_first()?;
            for (key, value) in map {
                assert_eq!(scan.entry(), Some((key.as_slice(), value.as_slice())));
                scan.advance()?;
            }
            assert_eq!(scan.entry(), None);
            scan.seek_last()?;
            for (key, value) in map.iter().rev() {
                assert_eq!(scan.entry(), Some((key.as_slice(), value.as_slice())));
                scan.retreat()?;
            }
            assert_eq!(scan.entry(), None);
        }
        Ok(())
    }
}

fn walk<E: Engine>(engine: &E, spec: &EngineSpec, sync: bool, steps: u64) {
    let directory = tempfile::tempdir().unwrap();
    let opened = engine.open(spec, directory.path()).unwrap();
    let system = opened.system;
    let mut walk = Walk { session: system.session(sync), maps: [Map::new(), Map::new()], random: Xoshiro256PlusPlus::new(7) };
    for step in 0..steps {
        walk.step().unwrap_or_else(|failure| panic!("step {step}: {failure}"));
        match step * 10 / steps {
            2 if step * 10 % steps == 0 => system.flush().unwrap(),
            5 if step * 10 % steps == 0 => system.compact().unwrap(),
            7 if step * 10 % steps == 0 => system.wait_for_compactions().unwrap(),
            _ => {}
        }
    }
    system.flush().unwrap();
    system.wait_for_compactions().unwrap();
    walk.compare_all().unwrap();
    let figures = system.figures().unwrap();
    assert!(figures.live_table_bytes > 0, "{figures:?}");
    let levels: Vec<_> = (0..2).flat_map(|family| system.levels(family).unwrap()).collect();
    assert!(levels.iter().all(|level| (level.files > 0) == (level.bytes > 0) && level.runs <= level.files), "{levels:?}");
    assert_eq!(levels.iter().map(|level| level.bytes).sum::<u64>(), figures.live_table_bytes);
    assert!(!system.counters().unwrap().tickers.is_empty());
    drop(walk);
    system.close().unwrap();
}

#[test]
fn rocksdb_is_a_map() {
    walk(&Rocks, &small(), false, 20_000);
}

#[test]
fn fjall_is_a_map() {
    walk(&Fjall, &small(), false, 20_000);
}

#[test]
fn writes_without_a_log_and_synced_writes_work() {
    let unlogged = EngineSpec { wal: false, ..small() };
    walk(&Rocks, &unlogged, false, 2_000);
    walk(&Fjall, &unlogged, false, 2_000);
    walk(&Rocks, &unlogged, true, 100);
    walk(&Fjall, &small(), true, 100);
    walk(&Rocks, &small(), true, 100);
}

#[test]
fn a_write_reaches_the_kernel_before_it_is_acknowledged() {
    let written = |path: &Path, extension: &str| {
        let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let logs: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == extension)).collect();
        assert_eq!(logs.len(), 1, "{logs:?}");
        let text = std::fs::read(&logs[0]).unwrap();
        text.windows(6).any(|window| window == b"needle")
    };
    let (rocks, fjall) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let opened = Rocks.open(&spec(&[], &[("default", &[])]), rocks.path()).unwrap();
    opened.system.session(false).put(b"key", b"needle").unwrap();
    assert!(written(rocks.path(), "log"));
    let opened = Fjall.open(&spec(&[], &[("default", &[])]), fjall.path()).unwrap();
    opened.system.session(false).put(b"key", b"needle").unwrap();
    assert!(written(fjall.path(), "jnl"));
    let unlogged = EngineSpec { wal: false, ..spec(&[], &[("default", &[])]) };
    let fjall = tempfile::tempdir().unwrap();
    let opened = Fjall.open(&unlogged, fjall.path()).unwrap();
    opened.system.session(false).put(b"key", b"needle").unwrap();
    assert!(!written(fjall.path(), "jnl"), "without a log no write waits for one");
}

#[track_caller]
fn assert_lines(kept: &Kept, section: &str, lines: &[&str]) {
    let inside: Vec<&str> = kept.section(section).collect();
    for line in lines {
        assert!(inside.contains(line), "{line} is not in {inside:?}");
    }
}

#[test]
fn rocksdb_is_opened_with_what_the_spec_says() {
    let directory = tempfile::tempdir().unwrap();
    let database: &[(&str, &str)] = &[("max_background_jobs", "3"), ("bytes_per_sync", "65536"), ("wal_bytes_per_sync", "4096")];
    let hot: &[(&str, &str)] = &[
        ("write_buffer_size", "1048576"),
        ("compaction_style", "kCompactionStyleUniversal"),
        ("compaction_options_universal.size_ratio", "7"),
        ("compression", "kZSTD"),
        ("compression_opts.level", "5"),
        ("compaction_pri", "kOldestLargestSeqFirst"),
        ("block_size", "8192"),
        ("block_restart_interval", "8"),
        ("cache_index_and_filter_blocks", "true"),
        ("filter_policy", "nullptr"),
    ];
    let opened =
        Rocks.open(&spec(database, &[("hot", hot), ("default", &[("bottommost_compression", "kZSTD")])]), directory.path()).unwrap();
    assert_eq!(opened.ignored_settings, [""; 0]);
    assert!(opened.version.starts_with("rocksdb 11."), "{}", opened.version);
    let kept = kept(directory.path()).unwrap();
    let (_, version) = opened.version.split_once(' ').unwrap();
    assert_lines(&kept, "Version", &[&format!("rocksdb_version={version}")]);
    assert_lines(&kept, "DBOptions", &["max_background_jobs=3", "bytes_per_sync=65536", "wal_bytes_per_sync=4096"]);
    let mut hot = kept.section("CFOptions \"hot\"");
    assert!(hot.any(|line| line.starts_with("compaction_options_universal=") && line.contains("size_ratio=7;")));
    let lines = ["write_buffer_size=1048576", "compaction_style=kCompactionStyleUniversal", "compression=kZSTD"];
    assert_lines(&kept, "CFOptions \"hot\"", &lines);
    assert_lines(&kept, "CFOptions \"hot\"", &["compaction_pri=kOldestLargestSeqFirst"]);
    let table = ["block_size=8192", "block_restart_interval=8", "cache_index_and_filter_blocks=true", "filter_policy=nullptr"];
    assert_lines(&kept, "TableOptions/BlockBasedTable \"hot\"", &table);
    // What was not said is as in SinterDB.
    let defaults = ["write_buffer_size=67108864", "compression=kLZ4Compression", "level_compaction_dynamic_level_bytes=true"];
    assert_lines(&kept, "CFOptions \"default\"", &defaults);
    assert_lines(&kept, "CFOptions \"default\"", &["bottommost_compression=kZSTD", "max_compaction_bytes=1677721600"]);
    let table = ["block_size=4096", "filter_policy=bloomfilter:10:false", "block_restart_interval=16"];
    assert_lines(&kept, "TableOptions/BlockBasedTable \"default\"", &table);
}

/// Codecs by level, and zstd's effort though it is not the first codec that compresses.
#[test]
fn rocksdb_compresses_each_level_as_it_is_told() {
    let told = |pairs: &[(&str, &str)]| {
        let directory = tempfile::tempdir().unwrap();
        let opened = Rocks.open(&spec(&[], &[("default", pairs)]), directory.path()).unwrap();
        assert_eq!(opened.ignored_settings, [""; 0]);
        opened.compression["default"].clone()
    };
    let levels = "kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kZSTD:kZSTD:kZSTD";
    let had = told(&[("compression", "kZSTD"), ("compression_per_level", levels), ("compression_opts.level", "3")]);
    assert!(had.contains(&format!("compression_per_level={levels}")) && had.contains("level=3"), "{had}");
    let had = told(&[("compression", "kZSTD")]);
    assert!(had.contains("compression=kZSTD") && had.contains("level=1"), "SinterDB's default effort: {had}");
    let had = told(&[("compression", "kNoCompression")]);
    assert!(had.contains("compression=kNoCompression"), "{had}");
}

/// All families share the cache that the spec asks for, also where RocksDB's parser had a hand in the options of tables.
#[test]
fn rocksdb_reads_through_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let family: &[(&str, &str)] = &[("block_cache", "1048576"), ("block_restart_interval", "8")];
    let opened = Rocks.open(&spec(&[], &[("default", family), ("second", family)]), directory.path()).unwrap();
    let (system, keys) = (opened.system, 20_000_u32);
    let mut session = system.session(false);
    let cached = || system.figures().unwrap().cache_bytes;
    for family in 0..2 {
        session.choose(family);
        for key in 0..keys {
            session.put(&key.to_be_bytes(), &[7; 100]).unwrap();
        }
        system.flush().unwrap();
        let before = cached();
        let mut out = Vec::new();
        for key in (0..keys).step_by(100) {
            assert!(session.get(&key.to_be_bytes(), &mut out).unwrap());
        }
        assert!(cached() > before, "family {family}");
    }
    assert!(cached() <= 1 << 20);
}

/// A budget of memory is a cache that memtables are charged to.
#[test]
fn rocksdb_charges_memtables_to_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let database = &[("memory_budget", "16777216"), ("db_write_buffer_size", "8388608"), ("compressed_cache", "0.25")];
    let opened = Rocks.open(&spec(database, &[("default", &[("write_buffer_size", "4194304")])]), directory.path()).unwrap();
    let ignored = &opened.ignored_settings;
    assert!(matches!(&ignored[..], [line] if line.starts_with("[DBOptions] compressed_cache = 0.25: ")), "{ignored:?}");
    let cached = || opened.system.figures().unwrap().cache_bytes;
    let before = cached();
    let mut session = opened.system.session(false);
    (0..2000u64).for_each(|key| session.put(&key.to_be_bytes(), &[7; 1000]).unwrap());
    assert!(cached() >= before + (1 << 20), "{before} to {}", cached());
}

fn complaint<E: Engine>(engine: &E, spec: &EngineSpec) -> String {
    let directory = tempfile::tempdir().unwrap();
    match engine.open(spec, directory.path()) {
        Ok(_) => panic!("it was opened"),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn a_bad_value_is_an_error_that_names_it() {
    let bad = spec(&[], &[("default", &[("block_size", "large")])]);
    for text in [complaint(&Rocks, &bad), complaint(&Fjall, &bad)] {
        assert!(text.contains("block_size") && !text.contains('\n'), "{text}");
    }
    let text = complaint(&Rocks, &spec(&[], &[("default", &[("compaction_pri", "kWorst")])]));
    assert!(text.contains("[CFOptions \"default\"] compaction_pri = kWorst") && !text.contains('\n'), "{text}");
    let text = complaint(&Rocks, &spec(&[("max_open_fils", "9")], &[("default", &[])]));
    assert!(text.contains("[DBOptions] max_open_fils = 9"), "{text}");
    for (name, value) in [("wal_dir", "/tmp"), ("db_log_dir", "/tmp"), ("db_paths", "{{path=/tmp;target_size=1;}}")] {
        let text = complaint(&Rocks, &spec(&[(name, value)], &[("default", &[])]));
        assert!(text.starts_with(&format!("[DBOptions] {name} = ")) && text.contains("medium.directory"), "{text}");
    }
    let text = complaint(&Rocks, &spec(&[], &[("default", &[("compression", "kZlibCompression")])]));
    assert!(text.contains("[CFOptions \"default\"] compression: ") && text.contains("Zlib"), "{text}");
}

#[test]
fn fjall_names_what_it_ignores() {
    let ignored = |spec: &EngineSpec| {
        let directory = tempfile::tempdir().unwrap();
        Fjall.open(spec, directory.path()).unwrap().ignored_settings
    };
    assert_eq!(ignored(&spec(&[], &[("default", &[])])), [""; 0]);
    let understood: &[(&str, &str)] = &[
        ("write_buffer_size", "1048576"),
        ("compression", "kNoCompression"),
        ("compaction_style", "kCompactionStyleLevel"),
        ("num_levels", "7"),
        ("max_bytes_for_level_base", "1048576"),
        ("max_bytes_for_level_multiplier", "4"),
        ("target_file_size_base", "262144"),
        ("level0_file_num_compaction_trigger", "4"),
        ("level_compaction_dynamic_level_bytes", "true"),
        ("block_size", "8192"),
        ("filter_policy", "bloomfilter:12"),
        ("block_cache", "1048576"),
    ];
    let database = &[("max_background_jobs", "2"), ("max_total_wal_size", "67108864"), ("use_direct_io_for_flush_and_compaction", "false")];
    assert_eq!(ignored(&spec(database, &[("default", understood)])), [""; 0]);
    let others: &[(&str, &str)] = &[
        ("compression", "kSnappyCompression"),
        ("compaction_style", "kCompactionStyleUniversal"),
        ("num_levels", "5"),
        ("target_file_size_base", "1048576"),
        ("level_compaction_dynamic_level_bytes", "false"),
        ("level0_stop_writes_trigger", "40"),
        ("block_restart_interval", "8"),
    ];
    let unlogged = EngineSpec { wal: false, ..spec(&[("bytes_per_sync", "0"), ("max_background_jobs", "1")], &[("cold", others)]) };
    let ignored = ignored(&unlogged);
    assert_eq!(ignored.len(), 2 + others.len() + 1, "{ignored:?}");
    for (name, value) in others {
        assert!(ignored.iter().any(|line| line.contains(&format!("\"cold\"] {name} = {value}: "))), "{name} in {ignored:?}");
    }
    for start in ["[DBOptions] bytes_per_sync = 0: ", "[DBOptions] max_background_jobs = 1: ", "wal = false: "] {
        assert!(ignored.iter().any(|line| line.starts_with(start)), "{start} in {ignored:?}");
    }
}

#[test]
fn rocksdb_names_what_it_ignores() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Rocks.open(&spec(&[("max_background_jobs", "0")], &[("default", &[])]), directory.path()).unwrap();
    assert!(matches!(&opened.ignored_settings[..], [line] if line.starts_with("[DBOptions] max_background_jobs = 0: ")));
}

/// Settings that only SinterDB can be told are reported as ignored by all others.
#[test]
fn a_clock_and_tiers_are_sinterdbs_alone() {
    let tier = TierSpec { temperature: "cold".into(), directory: None, model: None };
    let asked = EngineSpec { operations_per_clock_second: Some(10.0), tiers: vec![tier], ..spec(&[], &[("default", &[])]) };
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let rocks = Rocks.open(&asked, directories[0].path()).unwrap().ignored_settings;
    let fjall = Fjall.open(&asked, directories[1].path()).unwrap().ignored_settings;
    for ignored in [rocks, fjall] {
        let expected = ["operations_per_clock_second = 10: ", "tiers: cold: "];
        assert_eq!(ignored.len(), expected.len(), "{ignored:?}");
        assert!(ignored.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{ignored:?}");
    }
}

/// The settings reach RocksDB, by whatever way: what is young stays off the last level, and what has no age lies on it.
#[test]
fn rocksdb_keeps_young_data_off_the_last_level() {
    let last_level = |age: &str| {
        let directory = tempfile::tempdir().unwrap();
        let pairs: &[(&str, &str)] = &[
            ("compaction_style", "kCompactionStyleUniversal"),
            ("num_levels", "3"),
            ("preserve_internal_time_seconds", age),
            ("preclude_last_level_data_seconds", age),
            ("last_level_temperature", "kCold"),
        ];
        let opened = Rocks.open(&spec(&[], &[("default", pairs)]), directory.path()).unwrap();
        assert_eq!(opened.ignored_settings, [""; 0]);
        let kept = kept(directory.path()).unwrap();
        assert_lines(&kept, "CFOptions \"default\"", &[&format!("preclude_last_level_data_seconds={age}"), "last_level_temperature=kCold"]);
        fill(&opened.system, 2);
        opened.system.compact().unwrap();
        opened.system.levels(0).unwrap().get(2).map_or(0, |level| level.files)
    };
    assert_eq!(last_level("1000000"), 0);
    assert!(last_level("0") > 0);
}

/// RocksDB's parser takes an option of the database in a family's section, and the other way round, and does nothing with it.
#[test]
fn rocksdb_names_settings_in_the_wrong_section() {
    let directory = tempfile::tempdir().unwrap();
    let database = &[("write_buffer_size", "1048576"), ("max_open_files", "100")];
    let family: &[(&str, &str)] = &[("max_open_files", "100"), ("ttl", "1000"), ("block_restart_interval", "8")];
    let opened = Rocks.open(&spec(database, &[("default", family)]), directory.path()).unwrap();
    let expected = ["[DBOptions] write_buffer_size = 1048576: ", "[CFOptions \"default\"] max_open_files = 100: "];
    let ignored = opened.ignored_settings;
    assert_eq!(ignored.len(), expected.len(), "{ignored:?}");
    assert!(expected.iter().all(|start| ignored.iter().any(|line| line.starts_with(start))), "{ignored:?}");
}

fn written<T: System>(system: &T) -> u64 {
    system.figures().unwrap().written.iter().map(|(_, bytes)| bytes).sum()
}

#[test]
fn rocksdb_compacts_what_is_on_the_last_level_too() {
    let directory = tempfile::tempdir().unwrap();
    let system = Rocks.open(&small(), directory.path()).unwrap().system;
    fill(&system, 1);
    system.compact().unwrap();
    let (before, live) = (written(&system), system.figures().unwrap().live_table_bytes);
    system.compact().unwrap();
    assert!(written(&system) - before > live / 2, "{live} bytes are rewritten");
}

/// Writes the same keys to the first family, a number of times.
fn fill<T: System>(system: &T, times: u8) {
    let mut session = system.session(false);
    let mut random = Xoshiro256PlusPlus::new(5);
    for time in 0..times {
        for key in 0..10_000_u32 {
            let value: Vec<u8> = (0..100).map(|_| random.below(256) as u8 ^ time).collect();
            session.put(&key.to_be_bytes(), &value).unwrap();
        }
    }
}

/// All directories of tables below a directory of fjall, but for that of its own keyspace of names.
fn table_directories(directory: &Path) -> Vec<PathBuf> {
    let below = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let keyspaces = below(&directory.join("keyspaces")).into_iter().filter(|path| !path.ends_with("0"));
    keyspaces.map(|keyspace| keyspace.join("tables")).filter(|path| path.is_dir()).collect()
}

#[test]
fn fjall_has_removed_what_compactions_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let system = Fjall.open(&small(), directory.path()).unwrap().system;
    fill(&system, 3);
    let assert_nothing_else = || {
        let there = table_directories(directory.path()).into_iter().flat_map(|path| std::fs::read_dir(path).unwrap()).count();
        let live: usize = (0..2).flat_map(|family| system.levels(family).unwrap()).map(|level| level.files).sum();
        assert_eq!(there, live, "tables");
    };
    system.flush().unwrap();
    system.wait_for_compactions().unwrap();
    assert_nothing_else();
    system.compact().unwrap();
    assert_nothing_else();
    let mut out = Vec::new();
    assert!(system.session(false).get(&7_u32.to_be_bytes(), &mut out).unwrap());
}

/// Flushes fail as on a full disk, and writers must not wait for them for ever.
#[test]
#[expect(clippy::disallowed_methods, reason = "a scope would wait for ever for a writer that does")]
fn fjall_whose_workers_failed_fails() {
    let directory = tempfile::tempdir().unwrap();
    let system = Arc::new(Fjall.open(&small(), directory.path()).unwrap().system);
    for path in table_directories(directory.path()) {
        std::fs::remove_dir_all(path).unwrap();
    }
    let writer = thread::spawn({
        let system = Arc::clone(&system);
        move || {
            let mut session = system.session(false);
            (0..u32::MAX).find_map(|key| session.put(&key.to_be_bytes(), &[1; 1000]).err()).map(|failure| failure.to_string())
        }
    });
    let mut told = None;
    for _ in 0..6000 {
        told = told.or(system.figures().err());
        if writer.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(writer.is_finished(), "it waits for ever; figures say {told:?}");
    assert!(writer.join().unwrap().is_some());
    assert!(system.flush().is_err());
}

#[test]
fn fjalls_journal_is_not_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let system = Fjall.open(&spec(&[], &[("default", &[])]), directory.path()).unwrap().system;
    system.session(false).put(b"key", &b"needle".repeat(1000)).unwrap();
    let journal = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).collect::<Vec<_>>();
    let text = std::fs::read(&journal[0]).unwrap();
    assert_eq!(text.windows(6).filter(|window| window == b"needle").count(), 1000);
}
