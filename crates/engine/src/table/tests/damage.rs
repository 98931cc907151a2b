use super::support::{DB, Memory, Random, Row, build, options, random_rows};
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::codec::{Codec, Compression};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{Kind, MAX_SEQ, trailer};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use crate::table::{ReadOptions, Table, TableOptions};
use sinter_storage::store::FileId;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Everything a table answers: gets of all keys, all rows in both directions and by scan, its tombstones.
fn read_all(store: &Memory, info: &Arc<TableInfo>, rows: &[Row]) -> Result<()> {
    let table = Table::open(store, DB, Arc::clone(info), &Cache::new(1 << 20))?;
    for (key, trailer, value) in rows {
        let mut found = false;
        table.get(key, Table::hash(key), MAX_SEQ, ReadOptions::default(), |seq, kind, v| {
            found |= (seq << 8 | kind as u64) == *trailer && v == value.as_slice();
            ControlFlow::Continue(())
        })?;
        assert!(found, "silent loss");
    }
    table.range_tombstones()?;
    let (mut forward, mut scan) = (table.cursor(ReadOptions { readahead: 900, ..Default::default() }), table.scan());
    forward.seek_first()?;
    scan.seek_first()?;
    for (key, trailer, value) in rows {
        assert!(forward.valid() && scan.valid(), "silent loss");
        assert_eq!((forward.key(), forward.trailer(), forward.value()), (key.as_slice(), *trailer, value.as_slice()));
        assert_eq!((scan.key(), scan.trailer(), scan.value()), (key.as_slice(), *trailer, value.as_slice()));
        forward.next()?;
        scan.next()?;
    }
    assert!(!forward.valid() && !scan.valid());
    Ok(())
}

/// An error that names the file.
fn is_corrupt(error: &Error, number: u64) -> bool {
    matches!(error, Error::Corrupt { file, .. } if *file == FileId::table(number).to_string())
}

fn small_table(codec: Codec, dictionary_bytes: u32) -> (Memory, Arc<TableInfo>, Vec<Row>) {
    let rows: Vec<Row> = (0..120u64)
        .map(|i| (format!("key{:04}", i * 3).into_bytes(), trailer(i + 1, Kind::Value), vec![b'a' + (i % 7) as u8; 5 + (i % 40) as usize]))
        .collect();
    let store = Memory::default();
    let compression = Compression { codec, level: None, dictionary_bytes };
    let tombstones = RangeTombstones::new([(b"key0100".to_vec(), b"key0102".to_vec(), 1)]);
    let info = build(&store, 5, &rows, TableOptions { compression, ..options(500) }, &tombstones).unwrap();
    let info = Arc::new(info);
    read_all(&store, &info, &rows).unwrap();
    (store, info, rows)
}

#[test]
fn every_flipped_byte_is_found() {
    for (codec, dictionary) in [(Codec::None, 0), (Codec::Lz4, 0), (Codec::Zstd, 256)] {
        let (store, info, rows) = small_table(codec, dictionary);
        let id = FileId::table(5);
        let good = store.files.lock()[&id].clone();
        for at in 0..good.len() {
            let mut bytes = (*good).clone();
            bytes[at] ^= 1 << (at % 8);
            store.files.lock().insert(id, Arc::new(bytes));
            if let Err(error) = read_all(&store, &info, &rows) {
                assert!(is_corrupt(&error, 5), "byte {at}: {error}");
            }
            let verified = Table::open(&store, DB, Arc::clone(&info), &Cache::new(1 << 20)).and_then(|table| table.verify());
            assert!(is_corrupt(&verified.expect_err("verify sees every byte"), 5), "byte {at}");
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let (store, info, _) = small_table(Codec::None, 0);
    let id = FileId::table(5);
    let good = store.files.lock()[&id].clone();
    for length in 0..good.len() {
        store.files.lock().insert(id, Arc::new(good[..length].to_vec()));
        let error = Table::open(&store, DB, Arc::clone(&info), &Cache::new(0)).expect_err("truncated");
        assert!(is_corrupt(&error, 5), "{length}: {error}");
        // The same where the manifest believes the short length.
        let short = Arc::new(TableInfo { bytes: length as u64, ..(*info).clone() });
        let error = Table::open(&store, DB, short, &Cache::new(0)).expect_err("truncated");
        assert!(is_corrupt(&error, 5), "{length}: {error}");
    }
    let longer = [&good[..], &[0; 10]].concat();
    store.files.lock().insert(id, Arc::new(longer));
    assert!(Table::open(&store, DB, info, &Cache::new(0)).is_err());
}

#[test]
fn files_in_the_wrong_place_are_found() {
    let (store, info, rows) = small_table(Codec::None, 0);
    let good = store.files.lock()[&FileId::table(5)].clone();
    let cache = Cache::new(0);
    // Under another number; in another database.
    store.files.lock().insert(FileId::table(6), Arc::clone(&good));
    let other = Arc::new(TableInfo { number: 6, ..(*info).clone() });
    assert!(is_corrupt(&Table::open(&store, DB, other, &cache).expect_err("misplaced"), 6));
    assert!(is_corrupt(&Table::open(&store, DbId([8; 16]), Arc::clone(&info), &cache).expect_err("foreign"), 5));
    // Another table of the same name and length: only one value byte differs.
    let mut rows = rows;
    rows[50].2[0] ^= 1;
    let tombstones = RangeTombstones::new([(b"key0100".to_vec(), b"key0102".to_vec(), 1)]);
    let stale = build(&store, 5, &rows, options(500), &tombstones).unwrap();
    assert_eq!(stale.bytes, info.bytes);
    assert!(is_corrupt(&Table::open(&store, DB, Arc::clone(&info), &cache).expect_err("stale"), 5));
    // A manifest that says something else.
    let wrong = Arc::new(TableInfo { entries: stale.entries + 1, ..stale });
    assert!(is_corrupt(&Table::open(&store, DB, wrong, &cache).expect_err("contradiction"), 5));
    store.files.lock().clear();
    assert!(matches!(Table::open(&store, DB, info, &cache), Err(Error::Io(_))));
}

#[test]
fn swapped_and_zeroed_blocks_are_found() {
    for seed in 0..30u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let rows = random_rows(&mut random, 300);
        let store = Memory::default();
        let info = Arc::new(build(&store, 5, &rows, options(400), &RangeTombstones::default()).unwrap());
        let id = FileId::table(5);
        let good = store.files.lock()[&id].clone();
        for _ in 0..30 {
            let mut bytes = (*good).clone();
            let n = 1 + random.below(bytes.len() as u64 / 2) as usize;
            let (from, to) = (random.below((bytes.len() - n) as u64) as usize, random.below((bytes.len() - n) as u64) as usize);
            if random.below(2) == 0 {
                bytes.copy_within(from..from + n, to)
            } else {
                bytes[to..to + n].fill(0)
            }
            if bytes == *good {
                continue;
            }
            store.files.lock().insert(id, Arc::new(bytes));
            let result = read_all(&store, &info, &rows);
            let verified = Table::open(&store, DB, Arc::clone(&info), &Cache::new(1 << 20)).and_then(|table| table.verify());
            assert!(verified.is_err_and(|error| is_corrupt(&error, 5)));
            assert!(result.is_ok() || result.is_err_and(|error| is_corrupt(&error, 5)));
        }
    }
}
