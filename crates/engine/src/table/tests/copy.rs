//! A copy under another number is what a builder would have written under that number.

use super::support::{DB, Memory, Random, Row, build, options, random_rows};
use crate::cache::Cache;
use crate::codec::{Codec, Compression};
use crate::error::{Error, Result};
use crate::key::{Kind, trailer};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use crate::table::{Table, TableOptions};
use sinter_storage::store::{Cause, FileId, Hint, Store};
use std::cell::Cell;
use std::sync::Arc;

fn copy(store: &Memory, info: &TableInfo, to: u64) -> Result<Option<TableInfo>> {
    let table = Table::open(store, DB, Arc::new(info.clone()), &Cache::new(1 << 20))?;
    let out = store.create(FileId::table(to), &Hint::new(Cause::Flush))?;
    table.copy(FileId::table(to), out, &|| true)
}

fn bytes(store: &Memory, number: u64) -> Arc<Vec<u8>> {
    store.files.lock()[&FileId::table(number)].clone()
}

#[test]
fn a_copy_is_what_a_builder_would_have_written() {
    let codecs = [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Snappy, Codec::Zlib, Codec::Bzip2];
    for seed in 0..60u64 {
        let mut random = Random(seed);
        let rows = match seed % 10 {
            0 => Vec::new(),
            _ => {
                let n = [1, 30, 700, 4000][random.below(4) as usize];
                random_rows(&mut random, n)
            }
        };
        let dictionary_bytes = if seed % 3 == 0 { 1000 } else { 0 };
        let codec = codecs[seed as usize % codecs.len()];
        let compression = Compression { codec, level: None, dictionary_bytes: if codec == Codec::Zstd { dictionary_bytes } else { 0 } };
        let bloom_bits_per_key = [0.0, 10.0][random.below(2) as usize];
        let block_size = [100, 4096, 100_000][random.below(3) as usize];
        let options = TableOptions { compression, bloom_bits_per_key, block_size };
        let tombstones = match random.below(2) {
            0 if !rows.is_empty() => RangeTombstones::default(),
            _ => RangeTombstones::new([(b"a".to_vec(), b"b".to_vec(), 7), (b"aa".to_vec(), b"c".to_vec(), 3)]),
        };
        let store = Memory::default();
        let info = build(&store, 5, &rows, options, &tombstones).unwrap();
        let copied = copy(&store, &info, 77_777_777).unwrap().expect("nobody stopped it");
        let built = Memory::default();
        let expected = build(&built, 77_777_777, &rows, options, &tombstones).unwrap();
        assert_eq!(copied, expected, "seed {seed}");
        assert!(bytes(&store, 77_777_777) == bytes(&built, 77_777_777), "seed {seed}: {options:?}");
        Table::open(&store, DB, Arc::new(copied), &Cache::new(1 << 20)).unwrap().verify().unwrap();
    }
}

fn large() -> (Memory, TableInfo) {
    let rows: Vec<Row> =
        (0..5000u64).map(|i| (i.to_be_bytes().to_vec(), trailer(i + 1, Kind::Value), vec![(i % 251) as u8; 1000])).collect();
    let store = Memory::default();
    let info = build(&store, 5, &rows, options(4096), &RangeTombstones::default()).unwrap();
    (store, info)
}

#[test]
fn large_tables_are_copied_in_pieces_and_can_be_stopped_between() {
    let (store, info) = large();
    assert!(info.bytes > 4 << 20);
    let pieces = Cell::new(0);
    let table = Table::open(&store, DB, Arc::new(info.clone()), &Cache::new(1 << 20)).unwrap();
    let attempt = |to: u64, most: usize| {
        pieces.set(0);
        let out = store.create(FileId::table(to), &Hint::new(Cause::Flush)).unwrap();
        let goes_on = || {
            pieces.set(pieces.get() + 1);
            pieces.get() <= most
        };
        table.copy(FileId::table(to), out, &goes_on).unwrap()
    };
    assert!(attempt(6, usize::MAX).is_some() && pieces.get() >= 4, "{}", pieces.get());
    for most in 0..3 {
        assert!(attempt(7, most).is_none());
        assert!(!store.files.lock().contains_key(&FileId::table(7)), "not sealed");
    }
}

#[test]
fn damage_of_the_source_is_told_and_never_copied() {
    let rows: Vec<Row> = (0..120u64).map(|i| (format!("key{i:04}").into_bytes(), trailer(i + 1, Kind::Value), vec![b'x'; 20])).collect();
    let tombstones = RangeTombstones::new([(b"key0100".to_vec(), b"key0102".to_vec(), 1)]);
    for compression in [Compression::default(), Compression { codec: Codec::Lz4, level: None, dictionary_bytes: 0 }] {
        let store = Memory::default();
        let info = build(&store, 5, &rows, TableOptions { compression, ..options(500) }, &tombstones).unwrap();
        let good = bytes(&store, 5);
        for at in 0..good.len() {
            let mut bad = (*good).clone();
            bad[at] ^= 1 << (at % 8);
            store.files.lock().insert(FileId::table(5), Arc::new(bad));
            let error = copy(&store, &info, 6).expect_err("every byte is read");
            assert!(matches!(&error, Error::Corrupt { file, .. } if file == "000005.sst"), "byte {at}: {error}");
            assert!(!store.files.lock().contains_key(&FileId::table(6)), "byte {at}");
        }
    }
}

/// Each block is right by itself; only the digest tells that one was exchanged for an older one of the same place.
#[test]
fn blocks_of_an_older_table_of_that_number_are_noticed() {
    let rows = |value: u8| -> Vec<Row> {
        (0..60u64).map(|i| (format!("key{i:04}").into_bytes(), trailer(i + 1, Kind::Value), vec![value; 20])).collect()
    };
    let (store, other) = (Memory::default(), Memory::default());
    let info = build(&store, 5, &rows(b'x'), options(500), &RangeTombstones::default()).unwrap();
    build(&other, 5, &rows(b'y'), options(500), &RangeTombstones::default()).unwrap();
    let (good, old) = (bytes(&store, 5), bytes(&other, 5));
    let mut digests = 0;
    for end in 300..900 {
        let mixed = [&old[..end], &good[end..]].concat();
        store.files.lock().insert(FileId::table(5), Arc::new(mixed));
        let error = copy(&store, &info, 6).expect_err("mixed");
        digests += usize::from(error.to_string().contains("not the ones the footer was written for"));
    }
    assert!(digests > 0, "no cut was at the end of a block");
}
