//! Tables: a damaged file gives errors, never a panic or a wrong answer. Three ways in: any bytes as a file; a file whose checksums are
//! made good again, so that what lies behind them is reached; and any bytes as a block or an index.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_storage::store::{Cause, FileId, Hint, MemoryStore, Store};
use sinterdb::internal::cache::Cache;
use sinterdb::internal::checksum::{DbId, Salt};
use sinterdb::internal::cursor::Cursor;
use sinterdb::internal::key::{Kind, MAX_SEQ, trailer};
use sinterdb::internal::manifest::{Change, Edit, RunLocation, TableChange, TableInfo};
use sinterdb::internal::range_del::RangeTombstones;
use sinterdb::internal::table::block::{Block, Position};
use sinterdb::internal::table::index::Index;
use sinterdb::internal::table::{ReadOptions, Table, TableBuilder, TableOptions};
use sinterdb::settings::{Codec, Compression};
use sinterdb_fuzz::{Input, put_piece, seed};
use std::ops::ControlFlow;
use std::sync::Arc;

const DB: DbId = DbId([7; 16]);
const FOOTER: usize = 100;
/// A walk ends after so many entries: a good table of this size has fewer.
const STEPS: usize = 70_000;

fn u64_at(bytes: &[u8], at: usize) -> usize {
    let number = bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Makes the checksum of the frame in `from..to` good.
fn mend(bytes: &mut [u8], salt: Salt, from: usize, to: usize) {
    let Some(frame) = bytes.get_mut(from..to).filter(|frame| frame.len() > 8) else { return };
    let (body, stored) = frame.split_at_mut(to - from - 8);
    stored.copy_from_slice(&salt.checksum(from as u64, body).to_le_bytes());
}

/// Makes the checksums of footer and sections good, and that of the data as if they were one block; gives back the footer's.
fn mend_all(bytes: &mut [u8], salt: Salt) -> u64 {
    let Some(footer) = bytes.len().checked_sub(FOOTER) else { return 0 };
    let mut start = u64_at(bytes, footer + 36);
    mend(bytes, salt, 0, start);
    for section in 0..5 {
        let end = start.saturating_add(u64_at(bytes, footer + 44 + 8 * section));
        mend(bytes, salt, start, end.min(footer));
        start = end.min(footer);
    }
    mend(bytes, salt, footer, footer + FOOTER);
    u64_at(bytes, footer + FOOTER - 8) as u64
}

/// Reads a table in every way; all may fail, none may panic or go on for ever.
fn read(store: &MemoryStore, info: TableInfo) {
    read_through(store, info.clone(), 0, 0);
    read_through(store, info, 1 << 19, 4096);
}

/// A cache that keeps so much of its MiB packed, walks that read so far ahead.
fn read_through(store: &MemoryStore, info: TableInfo, packed: u64, readahead: usize) {
    let cache = Cache::new(1 << 20);
    cache.resize(1 << 20, packed);
    let keys = [info.range.smallest.clone(), info.range.largest.clone(), b"key0007".to_vec(), Vec::new(), vec![0xff; 9]];
    let Ok(table) = Table::open(store, DB, Arc::new(info), &cache) else { return };
    for key in &keys {
        table.prefetch(Table::hash(key));
        let _ = table.get(key, Table::hash(key), MAX_SEQ, ReadOptions::default(), |_, _, _| ControlFlow::Continue(()));
        table.prefetch_block(key, Table::hash(key));
        let _ = table.approximate_offset(key);
    }
    for fill_cache in [false, true] {
        let mut cursor = table.cursor(ReadOptions { fill_cache, readahead });
        let mut result = cursor.seek_first();
        let mut steps = 0;
        while result.is_ok() && cursor.valid() {
            let _ = (cursor.key().len(), cursor.trailer(), cursor.value().len());
            result = cursor.next();
            steps += 1;
            assert!(steps < STEPS, "a walk without end");
        }
    }
    for key in &keys {
        let mut cursor = table.cursor(ReadOptions { fill_cache: false, readahead });
        let _ = cursor.seek(key, trailer(MAX_SEQ, Kind::Value));
        let _ = cursor.seek_before(key);
        let mut steps = 0;
        while cursor.valid() && cursor.prev().is_ok() {
            steps += 1;
            assert!(steps < STEPS, "a walk without end");
        }
    }
    let mut scan = table.scan();
    let mut steps = 0;
    let mut result = scan.seek_first();
    while result.is_ok() && scan.valid() {
        result = scan.next();
        steps += 1;
        assert!(steps < STEPS, "a scan without end");
    }
    let _ = (table.split_points(4), table.range_tombstones(), table.properties(), table.verify());
}

fn file(mut input: Input, mended: bool) {
    let Some(Edit { tables, .. }) = Edit::decode(input.piece()) else { return };
    let Some(TableChange { change: Change::Add { table, .. }, .. }) = tables.into_iter().next() else { return };
    let mut info = TableInfo::clone(&table);
    let id = FileId::table(info.number);
    let mut bytes = input.0.to_vec();
    if mended {
        info.bytes = bytes.len() as u64;
        info.identity = mend_all(&mut bytes, Salt::new(&DB, id));
    }
    let store = MemoryStore::new();
    store.replace(id, bytes);
    read(&store, info);
}

fn block(mut input: Input) {
    let key = input.piece();
    let data = input.0;
    if let Some(block) = Block::parse(data) {
        let (layout, data) = (block.layout(), block.data());
        let _ = block.get(key, MAX_SEQ, |_, _, _| ControlFlow::Continue(()));
        let _ = block.lower_bound(key, trailer(9, Kind::Value));
        let mut at = Position::default();
        at.start(layout, data).expect("a block that parses has a first entry");
        for n in 1..layout.count() {
            at.advance(layout, data).expect("every entry was checked");
            let scanned = (at.key().to_vec(), at.trailer(), at.end());
            at.enter(&block, n).expect("every offset was checked");
            assert_eq!(scanned, (at.key().to_vec(), at.trailer(), at.end()));
        }
        assert_eq!(at.end(), data.len());
    }
    if let Some(index) = Index::decode(data, data.len() as u64, 1 << 20) {
        let at = index.find(key);
        assert!(at <= index.len());
        let mut last = Vec::new();
        for block in 0..index.len() {
            let mut separator = Vec::new();
            index.separator(block, &mut separator);
            assert!(last <= separator, "separators out of order");
            assert!(index.extent(block).0 + index.extent(block).1 <= data.len() as u64);
            assert!((block < at) == (*separator < *key), "block {at} found, but {block} ends at {separator:?}");
            last = separator;
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let codecs = [(Codec::None, 0), (Codec::Lz4, 0), (Codec::Zstd, 512), (Codec::Zlib, 0), (Codec::Snappy, 0), (Codec::Bzip2, 0)];
    let mut seeds = Vec::new();
    for (n, (codec, dictionary_bytes)) in codecs.into_iter().enumerate() {
        for block_size in [300, 1 << 16] {
            let store = MemoryStore::new();
            let id = FileId::table(4);
            let options =
                TableOptions { block_size, bloom_bits_per_key: 10.0, compression: Compression { codec, level: None, dictionary_bytes } };
            let mut builder = TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).expect("a file"), options);
            for key in 0..60_u64 {
                let name = format!("key{key:04}").into_bytes();
                let kind = if key % 9 == 0 { Kind::Delete } else { Kind::Value };
                let value = if kind == Kind::Delete { Vec::new() } else { format!("value {key} ").into_bytes().repeat(3) };
                builder.add(&name, trailer(key + 1, kind), &value, key + 1).expect("an entry");
            }
            let tombstones = RangeTombstones::new((0..n as u64).map(|t| (vec![b'a', t as u8], vec![b'm', t as u8], 100 + t)));
            let info = builder.finish(&tombstones, (1, 2)).expect("a table");
            let change = Change::Add { to: RunLocation { level: 0, run: 1 }, table: Arc::new(info) };
            let mut edit = Vec::new();
            Edit { tables: vec![TableChange { family: 0, change }], ..Edit::default() }.encode(&mut edit);
            for way in 0..2 {
                let mut seed = vec![way];
                put_piece(&mut seed, &edit);
                seed.extend(store.bytes(id).expect("its bytes"));
                seeds.push(seed);
            }
        }
    }
    // Data blocks that are not compressed stand at the start of a file.
    let plain: Vec<u8> = seeds[2][1..].to_vec();
    let mut input = Input(&plain);
    input.piece();
    let mut seed = vec![2];
    put_piece(&mut seed, b"key0007");
    seed.extend_from_slice(input.0);
    seeds.push(seed);
    seeds
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    match input.byte() % 3 {
        0 => file(input, false),
        1 => file(input, true),
        _ => block(input),
    }
});
