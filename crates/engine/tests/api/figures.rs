//! Figures: ledger, tickers, properties, stalls.

use super::*;
use sinter_storage::store::{Calls, EIO, Fault, FaultStore, Medium, Operation, Throttle};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use sinterdb::clock::SystemClock;
use std::time::Duration;

/// A ticker by RocksDB's name.
pub fn ticker(db: &Db, name: &str) -> u64 {
    db.stats().tickers.iter().find(|t| t.0 == name).unwrap_or_else(|| panic!("no ticker {name}")).1
}

/// Writes, overwrites, compacts and reads, so that everything has something to count.
fn busy_db() -> Db {
    let settings = DbSettings { cache_size: 64 << 10, ..inline() };
    let db = try_open(&new_store(), builder().settings(settings).family("default", small())).unwrap();
    for round in 0..3 {
        fill(&db, 3000, 60 + round);
        (0..3000).step_by(7).for_each(|n| drop(db.get(&key(n)).unwrap()));
    }
    let wanted: Vec<Vec<u8>> = (0..100).map(key).collect();
    db.multi_get(&db.default_family(), &wanted.iter().map(Vec::as_slice).collect::<Vec<_>>(), &ReadOptions::default()).unwrap();
    assert_eq!(db.iter().count(), 3000);
    let mut iterator = db.iter();
    iterator.seek_last().unwrap();
    iterator.retreat().unwrap();
    db.sync().unwrap();
    db
}

#[test]
fn tickers_have_the_names_of_rocksdb_and_move() {
    let db = busy_db();
    let silent: Vec<&str> = [
        "rocksdb.bytes.written",
        "rocksdb.number.keys.written",
        "rocksdb.flush.write.bytes",
        "rocksdb.compact.write.bytes",
        "rocksdb.compact.read.bytes",
        "rocksdb.wal.bytes",
        "rocksdb.wal.synced",
        "rocksdb.write.self",
        "rocksdb.last.level.read.bytes",
        "rocksdb.non.last.level.read.bytes",
        "rocksdb.number.keys.read",
        "rocksdb.bytes.read",
        "rocksdb.number.db.seek",
        "rocksdb.number.db.next",
        "rocksdb.number.db.prev",
        "rocksdb.number.multiget.get",
        "rocksdb.number.multiget.keys.read",
        "rocksdb.memtable.hit",
        "rocksdb.memtable.miss",
        "rocksdb.l2andup.hit",
    ]
    .into_iter()
    .filter(|name| ticker(&db, name) == 0)
    .collect();
    assert!(silent.is_empty(), "do not move: {silent:?}");
    let user = 3 * 3000 * (9 + 61);
    assert_eq!(ticker(&db, "rocksdb.bytes.written"), user);
    assert_eq!(ticker(&db, "rocksdb.number.keys.written"), 9000);
    assert_eq!(ticker(&db, "rocksdb.number.multiget.keys.read"), 100);
}

#[test]
fn the_dump_has_all_that_the_figures_have() {
    let stats = busy_db().stats();
    let dump = stats.dump();
    let lines: Vec<(&str, &str)> = dump.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let tickers = stats.tickers.iter().map(|(name, value)| (*name, format!("COUNT : {value}")));
    let (counts, distributions) = lines.split_at(stats.tickers.len());
    assert!(tickers.eq(counts.iter().map(|(name, value)| (*name, value.to_string()))), "{dump}");
    assert!(stats.histograms.iter().map(|h| h.0).eq(distributions.iter().map(|line| line.0)), "{dump}");
    assert!(lines.iter().any(|line| line.0 == "rocksdb.block.cache.miss" && line.1 != "COUNT : 0"), "{dump}");
}

#[test]
fn no_ticker_is_listed_that_nothing_feeds() {
    let db = busy_db();
    db.delete_range(&key(0), &key(100)).unwrap();
    db.compact_range(&db.default_family(), None, None).unwrap();
    db.get(b"absent").unwrap();
    // These count what does not happen here.
    let quiet = [
        "stall",
        "write.other",
        "ttl",
        "marked",
        "cancelled",
        "failures",
        "mismatch",
        "hit",
        "drop.user",
        "compressed",
        "sinterdb.compression",
        ".file.read.",
        "sinterdb.tier",
        "sinterdb.placed",
        "sinterdb.zones",
        "sinterdb.limits.unknown",
        "without.thread",
    ];
    let silent: Vec<_> =
        db.stats().tickers.into_iter().filter(|t| t.1 == 0 && !quiet.iter().any(|q| t.0.contains(q))).map(|t| t.0).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn the_ledger_explains_every_byte() {
    let db = busy_db();
    db.check_ledger().unwrap();
    let stats = db.stats();
    let amplification = stats.ledger.write_amplification();
    assert!(amplification > 2.0 && amplification < 30.0, "log and flush alone write twice: {amplification}");
    let space = stats.store_bytes as f64 / (3000.0 * 70.0);
    assert!(space > 0.9 && space < 4.0, "space amplification {space}");
    assert_eq!(stats.ledger.total(), stats.meter.total_written());
}

#[test]
fn each_family_has_its_share() {
    let db = small_db();
    let other = db.create_family("other", small()).unwrap();
    fill(&db, 1000, 50);
    (0..3000).for_each(|n| db.put_with(&other, &key(n), &noise(n, 50), &WriteOptions::default()).unwrap());
    let shares = db.stats().ledger.by_family();
    assert_eq!(shares.iter().map(|s| (s.family, s.user_keys, s.user_bytes)).collect::<Vec<_>>(), [(0, 1000, 59_000), (1, 3000, 177_000)]);
    assert!(shares[1].wal_bytes > 2 * shares[0].wal_bytes && shares[0].own_bytes > 0);
}

#[test]
fn properties_have_the_names_of_rocksdb() {
    let db = busy_db();
    let family = db.default_family();
    let number = |name: &str| db.property(&family, name).unwrap_or_else(|| panic!("no property {name}")).parse::<u64>().unwrap();
    let _snapshot = db.snapshot();
    assert_eq!(number("rocksdb.num-snapshots"), 1);
    assert_eq!(number("rocksdb.block-cache-capacity"), 64 << 10);
    assert!(number("rocksdb.block-cache-usage") <= 64 << 10);
    assert!(number("rocksdb.live-sst-files-size") > 100_000);
    assert!(number("rocksdb.estimate-live-data-size") > 100_000);
    assert!((2500..12_000).contains(&number("rocksdb.estimate-num-keys")));
    assert!(number("rocksdb.cur-size-all-mem-tables") >= number("rocksdb.cur-size-active-mem-table"));
    for zero in ["num-immutable-mem-table", "background-errors", "is-write-stopped", "num-running-compactions", "num-running-flushes"] {
        assert_eq!(number(&format!("rocksdb.{zero}")), 0, "{zero}");
    }
    let files: u64 = (0..7).map(|level| number(&format!("rocksdb.num-files-at-level{level}"))).sum();
    assert_eq!(files, db.version(&family).unwrap().tables().count() as u64);
    assert!(db.property(&family, "rocksdb.levelstats").unwrap().contains("Level Files Size(MB)"));
    for unknown in ["rocksdb.nonsense", "", "rocksdb.num-files-at-level7", "rocksdb.num-files-at-levelx"] {
        assert_eq!(db.property(&family, unknown), None, "{unknown:?}");
    }
}

/// A cache that is smaller than the indexes, and reads of everything in turn: each part is evicted before it is used again.
#[test]
fn indexes_and_filters_stay_unless_they_count_in_the_cache() {
    // No limits of this process are found there.
    let nothing = tempfile::tempdir().unwrap();
    for counts in [false, true] {
        let settings = DbSettings { cache_size: 2 << 10, cache_index_and_filter_blocks: counts, ..inline() };
        let builder = builder().system_root(nothing.path()).settings(settings).family("default", small());
        let db = try_open(&new_store(), builder).unwrap();
        fill(&db, 3000, 50);
        db.compact_range(&db.default_family(), None, None).unwrap();
        let number = |name: &str| db.property(&db.default_family(), name).unwrap().parse::<u64>().unwrap();
        let misses = || ticker(&db, "rocksdb.block.cache.index.miss");
        let read = || (0..3000).for_each(|n| assert!(db.get(&key(n)).unwrap().is_some()));
        read();
        let first = misses();
        read();
        let tables = db.version(&db.default_family()).unwrap().tables().count() as u64;
        assert!(tables > 5 && number("rocksdb.block-cache-usage") <= 2 << 10);
        let held = number("rocksdb.estimate-table-readers-mem");
        if counts {
            assert!(misses() > first && held == 0, "{held}");
        } else {
            assert!(misses() == first && held > tables * 100, "{held}");
        }
        db.delete_range(b"", b"\xff\xff").unwrap();
        db.compact_range(&db.default_family(), None, None).unwrap();
        assert_eq!(number("rocksdb.estimate-table-readers-mem"), 0, "their tables are gone");
    }
}

#[test]
fn writers_that_had_to_wait_are_counted() {
    let medium = Medium { read_mb_per_s: 0.0, write_mb_per_s: 4.0, seek: Duration::ZERO };
    let slow = Throttle::new(memory(), medium);
    let settings = FamilySettings { max_write_buffer_number: 2, ..small() };
    let db = Db::builder().clock(Arc::new(SystemClock::default())).family("default", settings);
    let db = db.settings(DbSettings { max_background_jobs: 2, ..inline() }).open_store(Arc::new(slow)).unwrap();
    for n in 0..4000 {
        db.put_with(&db.default_family(), &key(n), &noise(n, 100), &NO_WAL).unwrap();
    }
    let stats = db.stats();
    assert!(stats.stalls > 0 && stats.stall_ns >= stats.longest_stall_ns && stats.longest_stall_ns > 0);
    let lost = (stats.stall_ns / 1000).checked_sub(ticker(&db, "rocksdb.stall.micros")).unwrap();
    assert!(lost <= stats.stalls, "whole microseconds of each: {lost}");
}

#[test]
fn nobody_waits_for_a_tree_in_order() {
    let db = open(&new_store());
    fill(&db, 1000, 100);
    let stats = db.stats();
    assert_eq!((stats.stalls, stats.stall_ns, stats.longest_stall_ns), (0, 0, 0));
}

#[test]
fn verify_reads_everything_and_names_the_damage() {
    let store = memory();
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    fill(&db, 2000, 100);
    db.flush().unwrap();
    assert!(db.verify().unwrap().is_empty());
    let table = store.list().unwrap().into_iter().map(|f| f.0).find(|f| f.to_string().ends_with("sst")).unwrap();
    store.corrupt(table, 100, |byte| *byte ^= 1).unwrap();
    let damage = db.verify().unwrap();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!((damage[0].file.as_str(), damage[0].family.as_deref()), (table.to_string().as_str(), Some("default")));
    assert!(damage[0].key_range.is_some() && damage[0].offset.is_some_and(|o| o <= 100));
}

#[test]
fn a_failed_sync_ends_the_handle_for_writing() {
    let below = memory();
    let store = Arc::new(FaultStore::new(below.clone()));
    let db = builder().settings(inline()).open_store(store.clone()).unwrap();
    db.put_with(&db.default_family(), b"before", b"v", &SYNC).unwrap();
    store.inject(Fault::once(Calls::Only(Operation::Sync), store.count(Operation::Sync), EIO));
    assert!(matches!(db.put_with(&db.default_family(), b"k", b"v", &SYNC), Err(Error::Io(_))));
    assert!(matches!(db.put(b"k", b"v"), Err(Error::Closed(why)) if why.contains("sync")));
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"v");
    drop(db);
    assert_eq!(open(&Arc::new(below.clone_image())).get(b"before").unwrap().unwrap(), b"v");
}

/// The accounts go on below the files: bytes appended, framed, padded, moved and noted add up to the bytes written to the drive.
#[test]
fn a_drive_is_written_what_the_books_say() {
    let geometry = Geometry { block: 4096, zones: 40, zone_size: 128 << 10, max_open: Some(8), max_active: Some(8), conventional: 0 };
    let drive = Arc::new(Emulator::memory(geometry, 100 << 10).unwrap());
    let options = Options { background: false, ..Options::default() };
    let store = Arc::new(ZonedStore::format(drive.clone(), VolumeId([1; 16]), options).unwrap());
    let db = try_open(&store, builder().settings(inline()).family("default", small())).unwrap();
    for round in 0..30 {
        (0..400).for_each(|n| db.put(&key(n * 7 % 1000), &noise(round * 400 + n, 200)).unwrap());
    }
    db.flush().unwrap();
    db.sync().unwrap();
    let (stats, activity) = (db.stats(), drive.activity());
    let beneath = stats.beneath.unwrap();
    assert_eq!(beneath.device(), activity.written + activity.padded, "{beneath:?}");
    assert_eq!(beneath.lines().iter().map(|line| line.1).sum::<u64>(), beneath.device());
    let appended = stats.ledger.total();
    assert!(beneath.files <= appended && beneath.files > appended / 2, "{} of {appended} bytes", beneath.files);
    assert!(beneath.padding > 0 && beneath.framing > 0 && beneath.metadata > 0 && beneath.resets > 0, "{beneath:?}");
    let ticker = |name: &str| stats.tickers.iter().find(|ticker| ticker.0 == name).map(|ticker| ticker.1);
    assert_eq!(ticker("sinterdb.zones.device.bytes"), Some(beneath.device()));
    assert_eq!(ticker("sinterdb.zones.reset.count"), Some(beneath.resets));
    let text = db.property(&db.default_family(), "sinterdb.zones").unwrap();
    assert!(text.contains(&format!("device: {} bytes\n", beneath.device())) && text.contains(" of 38 zones in use"), "{text}");
    db.check_ledger().unwrap();
    let db = open(&memory());
    assert!(db.stats().beneath.is_none() && db.property(&db.default_family(), "sinterdb.zones").is_none());
}
