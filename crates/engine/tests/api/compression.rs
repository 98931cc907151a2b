//! Codecs that the engine chooses.

use super::*;
use sinterdb::internal::cache::Cache;
use sinterdb::internal::checksum::DbId;
use sinterdb::internal::table::{Table, TableProperties};
use sinterdb::settings::{Codec, Codecs};
use std::path::Path;

const MINUTE: u64 = 60;

fn auto() -> FamilySettings {
    FamilySettings { compression: Codecs::Auto, write_buffer_size: 4 << 20, ..FamilySettings::default() }
}

/// Makes believe that the machine has two processors, of which this part was idle since it started.
fn set_machine(root: &Path, seconds: u64, idle_percent: u64) {
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // The engine may read it meanwhile, and must not find half of it.
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    };
    let (idle, busy) = (seconds * idle_percent, seconds * (100 - idle_percent));
    put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("proc/self/cgroup", "0::/\n");
    put("proc/thread-self/status", "Cpus_allowed_list:\t0-1\n");
    put("proc/stat", &format!("cpu 1 2 3 4\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu1 {busy} 0 0 {idle} 0 0 0 0 0 0\n"));
}

/// Hexadecimal digits without order: no match for lz4, half the size for zstd.
fn digits(seed: usize) -> Vec<u8> {
    noise(seed, 150).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// The properties of all tables, newest first, with their levels.
fn tables(db: &Db, store: &TestStore) -> Vec<(usize, TableProperties)> {
    let version = db.version(&db.default_family()).unwrap();
    let mut infos: Vec<_> = version.tables().map(|(level, _, info)| (level, info.clone())).collect();
    infos.sort_by_key(|(_, info)| std::cmp::Reverse(info.number));
    let open = |info| Table::open(store, DbId([7; 16]), info, &Cache::new(0)).unwrap().properties().unwrap();
    infos.into_iter().map(|(level, info)| (level, open(info))).collect()
}

/// Overwrites everything again and again over hours, on a machine with idle processors, until nothing moves any more: the codec of the
/// newest table of the last level, and the engine's own words.
fn settle(idle_percent: u64, value: impl Fn(usize) -> Vec<u8>) -> (Codec, String) {
    let root = tempfile::tempdir().unwrap();
    set_machine(root.path(), 100, idle_percent);
    let (store, clock) = (new_store(), Arc::new(ManualClock::default()));
    let builder = Db::builder().clock(clock.clone()).identity([7; 16]).system_root(root.path()).family("default", auto());
    let db = try_open(&store, builder).unwrap();
    for round in 1..=40u64 {
        // In this order: a machine whose processors count nothing while time passes has none to spare.
        set_machine(root.path(), 100 + round * 10 * MINUTE, idle_percent);
        clock.advance_ns(10 * MINUTE * 1_000_000_000);
        (0..500).for_each(|n| db.put(&key(n), &value(n + round as usize * 1000)).unwrap());
        db.flush().unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
    }
    let words = db.property(&db.default_family(), "sinterdb.compression").unwrap();
    let last = tables(&db, &store).into_iter().next().unwrap();
    assert_eq!(last.0, 6, "{words}");
    assert!(last.1.chosen.starts_with(&format!("auto {}: ", format!("{:?}", last.1.codec).to_lowercase())), "{}", last.1.chosen);
    db.close().unwrap();
    (last.1.codec, words)
}

#[test]
fn cold_data_are_made_small_where_processors_are_free() {
    let (codec, words) = settle(90, digits);
    assert_eq!(codec, Codec::Zstd, "{words}");
    assert!(words.contains("level 6: zstd since "), "{words}");
}

#[test]
fn no_processor_is_taken_where_none_is_free() {
    let (codec, words) = settle(0, digits);
    assert_eq!(codec, Codec::None, "{words}");
}

#[test]
fn data_that_do_not_shrink_are_not_compressed() {
    let (codec, words) = settle(90, |seed| noise(seed, 300));
    assert_eq!(codec, Codec::None, "{words}");
    assert!(words.contains("level 6: none since ") && words.contains("zstd 1.000 at "), "{words}");
}

#[test]
fn without_threads_choices_repeat_exactly_whatever_the_time() {
    let run = |advance: u64| {
        let (store, clock) = (new_store(), Arc::new(ManualClock::default()));
        // Times of the same width on the medium.
        clock.set_unix_seconds(1_700_000_000);
        let family = FamilySettings { compression: Codecs::Auto, ..small() };
        let settings = DbSettings { max_subcompactions: 3, cache_size: 0, ..inline() };
        let db =
            try_open(&store, Db::builder().clock(clock.clone()).identity([7; 16]).settings(settings).family("default", family)).unwrap();
        for round in 0..4 {
            for n in 0..1000 {
                clock.advance_ns(advance);
                db.put(&key(n * 7 % 1000), &digits(n + round)).unwrap();
                db.get(&key(n / 3)).unwrap();
            }
        }
        let words = db.property(&db.default_family(), "sinterdb.compression").unwrap();
        let mut after = "";
        let but_times: Vec<&str> = words.split(' ').filter(|word| std::mem::replace(&mut after, *word) != "since").collect();
        let version = db.version(&db.default_family()).unwrap();
        let tables: Vec<_> = version.tables().map(|(level, _, info)| (level, info.number, info.bytes, info.raw_bytes)).collect();
        (but_times.join(" "), tables)
    };
    let first = run(0);
    assert!(first.0.contains("samples took 0.000 ms") && !first.0.starts_with("0 samples"), "{}", first.0);
    assert_eq!(first, run(77_777_777));
}

#[test]
fn the_setting_can_be_changed_while_open_and_rewrites_nothing() {
    let store = new_store();
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    let family = db.default_family();
    (0..200).for_each(|n| db.put(&key(n), &digits(n)).unwrap());
    db.flush().unwrap();
    assert_eq!(db.property(&family, "sinterdb.compression").unwrap(), "lz4\n");
    let before: Vec<_> = tables(&db, &store).into_iter().map(|(_, properties)| properties).collect();
    assert!(before.iter().all(|properties| properties.codec == Codec::Lz4 && properties.chosen.is_empty()));
    db.change_family_settings(&family, FamilySettings { compression: Codecs::Auto, ..small() }).unwrap();
    let after: Vec<_> = tables(&db, &store).into_iter().map(|(_, properties)| properties).collect();
    assert_eq!(before, after);
    db.put(b"more", b"x").unwrap();
    db.flush().unwrap();
    assert!(tables(&db, &store)[0].1.chosen.starts_with("auto none: nothing is known yet"));
    db.close().unwrap();
    let db = try_open(&store, builder()).unwrap();
    assert_eq!(db.family_settings(&db.default_family()).unwrap().compression, Codecs::Auto, "it is stored");
}

#[test]
fn what_choosing_costs_is_in_the_statistics() {
    let family = FamilySettings { compression: Codecs::Auto, ..small() };
    let db = try_open(&new_store(), builder().settings(inline()).family("default", family)).unwrap();
    fill(&db, 2000, 100);
    assert!(figures::ticker(&db, "sinterdb.compression.samples") > 0);
    assert_eq!(figures::ticker(&db, "sinterdb.compression.sample.micros"), 0, "nothing is timed without threads");
}
