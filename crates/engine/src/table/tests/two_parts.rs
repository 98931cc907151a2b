//! Tables through a cache with a compressed part.

use super::support::{DB, Memory, Random, Row, build, options, random_rows};
use crate::cache::{Cache, Part};
use crate::codec::{Codec, Compression};
use crate::cursor::Cursor;
use crate::error::Error;
use crate::key::{Kind, MAX_SEQ, trailer};
use crate::range_del::RangeTombstones;
use crate::table::{ReadOptions, Table, TableOptions};
use sinter_storage::store::FileId;
use std::ops::ControlFlow;
use std::sync::Arc;

fn rows() -> Vec<Row> {
    let value = |i: u64| format!("{i}{}", "value ".repeat(5)).into_bytes();
    (0..4000u64).map(|i| (format!("key{i:06}").into_bytes(), trailer(i + 1, Kind::Value), value(i))).collect()
}

fn written(codec: Codec, dictionary_bytes: u32, rows: &[Row]) -> (Memory, Arc<crate::manifest::TableInfo>) {
    let store = Memory::default();
    let compression = Compression { codec, level: None, dictionary_bytes };
    let info = build(&store, 5, rows, TableOptions { compression, ..options(1000) }, &RangeTombstones::default()).unwrap();
    (store, Arc::new(info))
}

fn value(table: &Table, key: &[u8], options: ReadOptions) -> Result<Option<Vec<u8>>, Error> {
    let mut found = None;
    table.get(key, Table::hash(key), MAX_SEQ, options, |_, _, value| {
        found = Some(value.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// A cache of which so many bytes are for packed blocks.
fn cache(plain: u64, packed: u64) -> Arc<Cache> {
    let cache = Cache::new(0);
    cache.resize(plain + packed, packed);
    cache
}

#[test]
fn every_codec_reads_back_from_both_parts() {
    let rows = rows();
    for (codec, dictionary) in Codec::ALL.into_iter().map(|codec| (codec, 0)).chain([(Codec::Zstd, 2000)]) {
        let (store, info) = written(codec, dictionary, &rows);
        let cache = cache(60_000, 30_000);
        let table = Table::open(&store, DB, Arc::clone(&info), &cache).unwrap();
        let mut random = Random(7);
        for _ in 0..20_000 {
            // Mostly the first hundreds.
            let at = (random.below(4000) * random.below(4000) / 4000 * random.below(4000) / 4000) as usize;
            let (key, _, expected) = &rows[at];
            let fill_cache = random.below(10) > 0;
            assert_eq!(value(&table, key, ReadOptions { fill_cache, readahead: 0 }).unwrap().as_ref(), Some(expected), "{codec:?}");
            assert!(cache.used() <= 90_000 && cache.packed_used() <= 30_000);
        }
        assert!(cache.signals().unpacked > 500, "{codec:?}: {:?}", cache.signals());
        let mut cursor = table.cursor(ReadOptions { fill_cache: true, readahead: 3000 });
        cursor.seek_first().unwrap();
        for (key, _, expected) in &rows {
            assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), expected.as_slice()), "{codec:?}");
            cursor.next().unwrap();
        }
        table.forget();
        assert_eq!(cache.used(), 0);
    }
}

#[test]
fn reads_that_do_not_fill_the_cache_leave_it_as_it_is() {
    let rows = rows();
    let (store, info) = written(Codec::Lz4, 0, &rows);
    let cache = cache(1 << 20, 1 << 20);
    let table = Table::open(&store, DB, info, &cache).unwrap();
    let read = |fill_cache| assert!(value(&table, &rows[77].0, ReadOptions { fill_cache, readahead: 0 }).unwrap().is_some());
    read(false);
    assert_eq!(cache.packed_used(), 0);
    read(true);
    assert!(cache.packed_used() > 0);
    let misses = cache.misses(Part::Data);
    read(false);
    assert_eq!((cache.packed_used(), cache.misses(Part::Data)), (0, misses), "in use again, at no cost");
}

#[test]
fn what_the_packed_part_has_no_room_for_lies_in_the_other() {
    let rows = rows();
    let (store, info) = written(Codec::Lz4, 0, &rows);
    let cache = cache(1 << 20, 100);
    let table = Table::open(&store, DB, info, &cache).unwrap();
    for _ in 0..3 {
        assert!(value(&table, &rows[77].0, ReadOptions::default()).unwrap().is_some());
    }
    assert_eq!((cache.packed_used(), cache.misses(Part::Data)), (0, 1));
}

/// A kept block is served whatever the file holds afterwards, and a damaged block is not kept.
#[test]
fn only_verified_blocks_are_kept() {
    let rows = rows();
    let (store, info) = written(Codec::Zstd, 0, &rows);
    let damaged = Memory::default();
    let id = FileId::table(5);
    let mut bytes = Vec::clone(&store.files.lock()[&id]);
    // In the first data block.
    bytes[20] ^= 1;
    damaged.files.lock().insert(id, Arc::new(bytes));
    let cache = cache(1 << 20, 1 << 20);
    let table = Table::open(&damaged, DB, Arc::clone(&info), &cache).unwrap();
    for _ in 0..3 {
        assert!(matches!(value(&table, &rows[0].0, ReadOptions::default()), Err(Error::Corrupt { .. })));
        assert_eq!(cache.packed_used(), 0);
    }
    assert!(value(&table, &rows[3999].0, ReadOptions::default()).unwrap().is_some());
    assert!(cache.packed_used() > 0);
}

#[test]
fn random_tables_under_random_divisions() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let rows = random_rows(&mut random, 300);
        let codec = Codec::ALL[random.below(6) as usize];
        let (store, info) = written(codec, 0, &rows);
        let capacity = [5000, 50_000, 1 << 20][random.below(3) as usize];
        let cache = cache(capacity, 0);
        let table = Table::open(&store, DB, info, &cache).unwrap();
        for i in 0..3000 {
            if i % 100 == 0 {
                cache.resize(capacity, random.below(capacity));
            }
            let (key, ..) = &rows[random.below(rows.len() as u64) as usize];
            let newest = rows.iter().find(|row| row.0 == *key).map(|row| row.2.clone());
            assert_eq!(value(&table, key, ReadOptions::default()).unwrap(), newest, "seed {seed}");
            assert!(cache.used() <= capacity, "seed {seed}");
        }
    }
}

/// Reads all rows in order and gives the number of blocks that had to be read from the medium.
fn scan(table: &Arc<Table>, cache: &Cache, rows: &[Row], options: ReadOptions) -> u64 {
    let before = cache.misses(Part::Data);
    let mut cursor = table.cursor(options);
    cursor.seek_first().unwrap();
    for (key, _, expected) in rows {
        assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), expected.as_slice()));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cache.misses(Part::Data) - before
}

#[test]
fn reading_ahead_fills_both_parts_as_reading_one_by_one_does() {
    let rows = rows();
    for codec in [Codec::None, Codec::Zstd] {
        let (store, info) = written(codec, 0, &rows);
        let filled = [0, 5000].map(|readahead| {
            let cache = cache(1 << 20, 1 << 20);
            let table = Table::open(&store, DB, Arc::clone(&info), &cache).unwrap();
            let misses = scan(&table, &cache, &rows, ReadOptions { fill_cache: true, readahead });
            (misses, cache.packed_used(), cache.used())
        });
        assert_eq!(filled[0], filled[1], "{codec:?}");
        assert_eq!(filled[0].1 > 0, codec == Codec::Zstd);
    }
}

#[test]
fn what_is_packed_is_not_read_again_to_read_ahead() {
    let rows = rows();
    let (store, info) = written(Codec::Zstd, 0, &rows);
    let cache = cache(1 << 20, 1 << 20);
    let table = Table::open(&store, DB, info, &cache).unwrap();
    let blocks = scan(&table, &cache, &rows, ReadOptions { fill_cache: true, readahead: 0 });
    assert!(blocks > 100 && cache.packed_used() > 0);
    assert_eq!(scan(&table, &cache, &rows, ReadOptions { fill_cache: false, readahead: 5000 }), 0);
    assert_eq!(cache.packed_used(), 0, "in use, each in one part");
}

/// Blocks that the cache has here and there are neither read again nor counted as misses.
#[test]
fn reading_ahead_leaves_out_what_the_cache_has() {
    let rows = rows();
    for codec in [Codec::None, Codec::Zstd] {
        let (store, info) = written(codec, 0, &rows);
        let open = || {
            let cache = cache(1 << 20, 1 << 20);
            (Table::open(&store, DB, Arc::clone(&info), &cache).unwrap(), cache)
        };
        let (table, empty) = open();
        let blocks = scan(&table, &empty, &rows, ReadOptions { fill_cache: true, readahead: 0 });
        let (table, cache) = open();
        for row in rows.iter().step_by(150) {
            assert!(value(&table, &row.0, ReadOptions::default()).unwrap().is_some());
        }
        let known = cache.misses(Part::Data);
        assert!(known > 10 && known < blocks / 2, "{known} of {blocks}");
        let ahead = ReadOptions { fill_cache: true, readahead: 5000 };
        assert_eq!(known + scan(&table, &cache, &rows, ahead), blocks, "{codec:?}");
        assert_eq!(scan(&table, &cache, &rows, ahead), 0, "{codec:?}");
    }
}
