use super::support::{DB, Memory, Random, Row, build, options, random_rows, table};
use crate::cache::{Cache, Part};
use crate::codec::{Codec, Compression};
use crate::cursor::Cursor;
use crate::key::{self, Kind, MAX_SEQ, Seq, trailer};
use crate::range_del::RangeTombstones;
use crate::table::{ReadOptions, Table, TableBuilder, TableOptions};
use sinter_storage::store::{Cause, FileId, Hint, Store};
use std::ops::ControlFlow;
use std::sync::Arc;

fn get(table: &Table, key: &[u8], snapshot: Seq, limit: usize) -> Vec<(u64, Vec<u8>)> {
    let mut seen = Vec::new();
    let hash = Table::hash(key);
    table.prefetch(hash);
    table.prefetch_block(key, hash);
    table
        .get(key, hash, snapshot, ReadOptions::default(), |seq, kind, value| {
            seen.push((trailer(seq, kind), value.to_vec()));
            if seen.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    seen
}

fn model_get(rows: &[Row], key: &[u8], snapshot: Seq, limit: usize) -> Vec<(u64, Vec<u8>)> {
    let from = rows.partition_point(|r| r.0.as_slice() < key);
    let versions = rows[from..].iter().take_while(|r| r.0 == key).filter(|r| key::seq_of(r.1) <= snapshot);
    versions.take(limit).map(|r| (r.1, r.2.clone())).collect()
}

/// The cursor stands where the model says.
fn stands(cursor: &impl Cursor, rows: &[Row], at: Option<usize>, what: &str) {
    assert_eq!(cursor.valid(), at.is_some(), "{what} {at:?}");
    if let Some(at) = at {
        let (key, trailer, value) = &rows[at];
        assert_eq!((cursor.key(), cursor.trailer()), (key.as_slice(), *trailer), "{what}");
        assert!(cursor.value() == value.as_slice(), "{what}");
    }
}

fn some_key(random: &mut Random, rows: &[Row]) -> Vec<u8> {
    let mut key = rows[random.below(rows.len() as u64) as usize].0.clone();
    match random.below(5) {
        0 => key.push(0),
        1 => drop(key.pop()),
        2 => {
            if let Some(last) = key.last_mut() {
                *last = last.wrapping_add(1);
            }
        }
        _ => {}
    }
    key
}

fn walk(random: &mut Random, rows: &[Row], table: &Arc<Table>) {
    let read = ReadOptions { fill_cache: random.below(3) > 0, readahead: [0, 1, 5000, 1 << 20][random.below(4) as usize] };
    let mut cursor = table.cursor(read);
    assert!(!cursor.valid());
    let mut at = None;
    for step in 0..200 {
        let key = some_key(random, rows);
        match random.below(12) {
            0 => {
                cursor.seek_first().unwrap();
                at = Some(0);
            }
            1 => {
                cursor.seek_last().unwrap();
                at = Some(rows.len() - 1);
            }
            2 => {
                cursor.seek_before(&key).unwrap();
                at = rows.partition_point(|r| r.0 < key).checked_sub(1);
            }
            3 => {
                let upper = key::upper(random.below(1 << 30));
                cursor.seek(&key, upper).unwrap();
                let index = rows.partition_point(|r| key::compare(&r.0, r.1, &key, upper).is_lt());
                at = (index < rows.len()).then_some(index);
            }
            n => {
                for _ in 0..random.below(30) {
                    let Some(now) = at else { break };
                    if n < 8 {
                        cursor.next().unwrap();
                        at = (now + 1 < rows.len()).then_some(now + 1);
                    } else {
                        cursor.prev().unwrap();
                        at = now.checked_sub(1);
                    }
                }
            }
        }
        stands(&cursor, rows, at, &format!("step {step}"));
    }
}

fn scan(random: &mut Random, rows: &[Row], table: &Arc<Table>) {
    let mut cursor = table.scan();
    cursor.seek_first().unwrap();
    for at in 0..rows.len() {
        stands(&cursor, rows, Some(at), "scan");
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    let key = some_key(random, rows);
    cursor.seek(&key, u64::MAX).unwrap();
    for at in rows.partition_point(|r| r.0 < key)..rows.len() {
        stands(&cursor, rows, Some(at), "scan from a key");
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    assert!(cursor.seek_last().is_err());
}

fn check(random: &mut Random, rows: &[Row], options: TableOptions, cache: &Arc<Cache>) {
    let table = table(rows, options, cache);
    table.verify().unwrap();
    for (key, trailer, _) in rows.iter().step_by(1 + rows.len() / 500) {
        for snapshot in [MAX_SEQ, trailer >> 8, (trailer >> 8).saturating_sub(1)] {
            for limit in [1, usize::MAX] {
                assert_eq!(get(&table, key, snapshot, limit), model_get(rows, key, snapshot, limit), "{key:?} {snapshot}");
            }
        }
    }
    for _ in 0..100 {
        let key = some_key(random, rows);
        assert_eq!(get(&table, &key, MAX_SEQ, 99), model_get(rows, &key, MAX_SEQ, 99), "{key:?}");
    }
    walk(random, rows, &table);
    scan(random, rows, &table);
    let points = table.split_points(4).unwrap();
    assert!(points.len() < 4 && points.is_sorted());
    let mut before = 0;
    for key in &points {
        let offset = table.approximate_offset(key).unwrap();
        assert!(offset >= before && offset <= table.info().bytes);
        before = offset;
    }
}

#[test]
fn tables_are_the_rows() {
    for seed in 0..80u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let n = 1 + random.below([3, 50, 1000][seed as usize % 3]) as usize;
        let rows = random_rows(&mut random, n);
        let options = TableOptions {
            block_size: [1, 64, 300, 4096, 16384, 70_000][random.below(6) as usize],
            bloom_bits_per_key: [0.0, 0.5, 10.0, 20.0][random.below(4) as usize],
            compression: Compression {
                codec: Codec::ALL[random.below(6) as usize],
                level: None,
                dictionary_bytes: [0, 0, 300, 4096][random.below(4) as usize],
            },
        };
        println!("{options:?}");
        let cache = Cache::new([0, 3000, 100_000, 1 << 30][random.below(4) as usize]);
        check(&mut random, &rows, options, &cache);
        assert_eq!(cache.used(), 0, "the table is gone");
    }
}

#[test]
fn big_values_and_many_versions() {
    let mut rows: Vec<Row> = vec![
        (b"a".to_vec(), trailer(5, Kind::Value), vec![1; 3 << 20]),
        (b"b".to_vec(), trailer(6, Kind::Value), b"small".to_vec()),
        (b"c".to_vec(), trailer(7, Kind::Value), (0..5_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect()),
    ];
    rows.extend((1..3000u64).rev().map(|seq| (b"many".to_vec(), trailer(seq, Kind::Merge), seq.to_le_bytes().to_vec())));
    rows.push((b"z".to_vec(), trailer(1, Kind::Delete), vec![]));
    for codec in Codec::ALL {
        let options = TableOptions { compression: Compression { codec, ..Default::default() }, ..options(1024) };
        let cache = Cache::new(20 << 20);
        let table = table(&rows, options, &cache);
        table.verify().unwrap();
        for snapshot in [0, 1, 1500, 2999, MAX_SEQ] {
            for key in [&b"a"[..], b"b", b"c", b"many", b"z"] {
                assert!(get(&table, key, snapshot, 9999) == model_get(&rows, key, snapshot, 9999));
            }
        }
        scan(&mut Random(1), &rows, &table);
        let mut cursor = table.cursor(ReadOptions::default());
        cursor.seek_before(b"z").unwrap();
        assert_eq!(cursor.trailer() >> 8, 1);
        cursor.seek_before(b"many").unwrap();
        assert_eq!(cursor.key(), b"c");
    }
}

#[test]
fn dictionaries_shrink_similar_blocks() {
    let rows: Vec<Row> = (0..20_000u64)
        .map(|i| {
            let value = format!("{{\"name\":\"user {}\",\"mail\":\"{:x}@example.org\",\"score\":{}}}", i * 7919 % 10007, i * i, i % 13);
            (format!("user{i:07}").into_bytes(), trailer(i, Kind::Value), value.into_bytes())
        })
        .collect();
    let store = Memory::default();
    let mut sizes = Vec::new();
    for (number, dictionary_bytes) in [(1, 0), (2, 8192), (3, 64 << 20)] {
        let compression = Compression { codec: Codec::Zstd, level: None, dictionary_bytes };
        let info = build(&store, number, &rows, TableOptions { compression, ..options(1024) }, &RangeTombstones::default()).unwrap();
        sizes.push(info.bytes);
        let table = Table::open(&store, DB, Arc::new(info), &Cache::new(1 << 20)).unwrap();
        assert_eq!(table.properties().unwrap().dictionary_bytes > 0, dictionary_bytes > 0);
        table.verify().unwrap();
        scan(&mut Random(1), &rows, &table);
        assert_eq!(get(&table, &rows[77].0, MAX_SEQ, 1), vec![(rows[77].1, rows[77].2.clone())]);
    }
    assert!(sizes[1] < sizes[0] * 9 / 10 && sizes[2] < sizes[0], "{sizes:?}");
}

#[test]
fn info_and_properties_say_what_was_written() {
    let store = Memory::default();
    let rows: Vec<Row> = vec![
        (b"b".to_vec(), trailer(50, Kind::Value), b"one".to_vec()),
        (b"c".to_vec(), trailer(40, Kind::Delete), vec![]),
        (b"d".to_vec(), trailer(60, Kind::Merge), b"+".to_vec()),
    ];
    let tombstones = RangeTombstones::new([(b"a".to_vec(), b"d".to_vec(), 30), (b"e".to_vec(), b"f".to_vec(), 70)]);
    let info = build(&store, 9, &rows, options(4096), &tombstones).unwrap();
    assert_eq!((info.entries, info.tombstones, info.merges, info.range_tombstones, info.raw_bytes), (3, 1, 1, 2, 7));
    assert_eq!((info.min_seq, info.max_seq, info.oldest_time, info.newest_time), (30, 70, 11, 22));
    assert_eq!((info.range.smallest.as_slice(), info.range.largest.as_slice(), info.range.end_exclusive), (&b"a"[..], &b"f"[..], true));
    assert_eq!(info.bytes, store.list().unwrap()[0].1);
    let table = Table::open(&store, DB, Arc::new(info.clone()), &Cache::new(1 << 20)).unwrap();
    assert_eq!(*table.range_tombstones().unwrap(), tombstones);
    let p = table.properties().unwrap();
    assert_eq!((p.data_blocks, p.filter_millibits, p.codec, p.range), (1, 10_000, Codec::None, info.range));
    table.verify().unwrap();

    // Tombstones alone; nothing at all.
    let info = build(&store, 10, &[], options(4096), &tombstones).unwrap();
    assert_eq!((info.entries, info.min_seq, info.range.smallest.as_slice()), (0, 30, &b"a"[..]));
    let table = Table::open(&store, DB, Arc::new(info), &Cache::new(1 << 20)).unwrap();
    table.verify().unwrap();
    assert!(get(&table, b"b", MAX_SEQ, 9).is_empty());
    let mut cursor = table.cursor(ReadOptions::default());
    for seek in [Cursor::seek_first, Cursor::seek_last] {
        seek(&mut cursor).unwrap();
        assert!(!cursor.valid());
    }
    cursor.seek_before(b"x").unwrap();
    assert!(!cursor.valid());
    let info = build(&store, 11, &[], options(4096), &RangeTombstones::default()).unwrap();
    assert_eq!((info.min_seq, info.max_seq), (0, 0));
    Table::open(&store, DB, Arc::new(info), &Cache::new(0)).unwrap().verify().unwrap();
}

#[test]
fn the_builder_refuses_disorder() {
    let store = Memory::default();
    let id = FileId::table(1);
    let new = || TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).unwrap(), options(1));
    let value = |seq| trailer(seq, Kind::Value);
    for (key, second) in [(&b"b"[..], value(5)), (b"b", value(6)), (b"a", value(1)), (b"", value(1))] {
        let mut builder = new();
        builder.add(b"b", value(5), b"", 5).unwrap();
        assert!(builder.add(key, second, b"", 1).is_err(), "{key:?} {second}");
    }
    assert!(new().add(b"a", trailer(1, Kind::RangeDelete), b"b", 1).is_err());
    assert!(new().add(b"a", 1 << 8 | 200, b"b", 1).is_err());
    let mut builder = new();
    builder.add(b"", value(5), b"", 5).unwrap();
    assert!(builder.add(b"", value(5), b"", 5).is_err());
}

#[test]
fn a_small_cache_under_two_threads() {
    let rows: Vec<Row> = (0..5000u64).map(|i| (i.to_be_bytes().to_vec(), trailer(i, Kind::Value), vec![i as u8; 60])).collect();
    for capacity in [0, 4000, 40_000, 1 << 20] {
        let cache = Cache::new(capacity);
        let table = table(&rows, options(1000), &cache);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let (rows, table, cache) = (&rows, &table, &cache);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for i in 0..3000 {
                        let (key, trailer, value) = &rows[random.below(5000) as usize];
                        assert_eq!(get(table, key, MAX_SEQ, 1), vec![(*trailer, value.clone())]);
                        assert!(cache.used() <= capacity);
                        if i % 1000 == 0 {
                            walk(&mut random, rows, table);
                        }
                    }
                });
            }
        });
        if capacity == 1 << 20 {
            let misses = || [Part::Data, Part::Index, Part::Filter].map(|part| cache.misses(part));
            let read_all = || rows.iter().for_each(|row| assert_eq!(get(&table, &row.0, MAX_SEQ, 1).len(), 1));
            read_all();
            let before = misses();
            assert!(before[1] <= 4 && before[2] <= 2, "{before:?}");
            read_all();
            assert_eq!(misses(), before, "all of it fits");
        }
        table.forget();
        assert_eq!(cache.used(), 0);
        assert_eq!(get(&table, &rows[5].0, MAX_SEQ, 1).len(), 1, "a forgotten table still answers");
        assert_eq!(cache.used(), 0);
    }
}
