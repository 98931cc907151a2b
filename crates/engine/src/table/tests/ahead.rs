//! Prefetch hints of cursors that read on.

use super::support::{DB, Memory, Random, Row, build, options};
use crate::cache::Cache;
use crate::clock::SystemClock;
use crate::codec::{Codec, Compression};
use crate::cpu::Transfer;
use crate::cursor::Cursor;
use crate::key::{Kind, MAX_SEQ, trailer};
use crate::range_del::RangeTombstones;
use crate::table::{ReadOptions, ReadTimes, Table, TableOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

/// 2 MB that do not shrink.
fn rows() -> Vec<Row> {
    let mut random = Random(3);
    let mut value = || (0..8).flat_map(|_| random.next().to_le_bytes()).collect();
    (0..30_000u64).map(|i| (format!("key{i:06}").into_bytes(), trailer(i + 1, Kind::Value), value())).collect()
}

#[test]
fn a_cursor_that_goes_on_is_announced_in_growing_windows_without_gap_or_overlap() {
    let rows = rows();
    let store = Memory::default();
    let info = Arc::new(build(&store, 5, &rows, options(1000), &RangeTombstones::default()).unwrap());
    let bytes = info.bytes;
    assert!(bytes > 1 << 20, "{bytes}");
    let table = Table::open(&store, DB, info, &Cache::new(0)).unwrap();
    let mut cursor = table.cursor(ReadOptions::default());
    cursor.seek_first().unwrap();
    let mut entries = 0;
    while cursor.valid() {
        entries += 1;
        cursor.next().unwrap();
    }
    assert_eq!(entries, rows.len());
    let announced = std::mem::take(&mut *store.announced.lock());
    let windows: Vec<u64> = announced.iter().map(|(_, length)| length >> 10).collect();
    assert_eq!(windows[..6], [8, 16, 32, 64, 128, 256]);
    assert!(windows[6..].iter().all(|kib| *kib == 256), "{windows:?}");
    assert!(announced.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{announced:?}");
    assert!(announced[0].0 < 8000, "after three blocks of 1000 bytes: {announced:?}");
    let (start, length) = announced[announced.len() - 1];
    assert!(start < bytes && start + length + (256 << 10) > bytes, "to the end");
}

#[test]
fn reads_without_order_announce_nothing() {
    let rows = rows();
    let store = Memory::default();
    let info = Arc::new(build(&store, 5, &rows, options(1000), &RangeTombstones::default()).unwrap());
    let table = Table::open(&store, DB, info, &Cache::new(0)).unwrap();
    let mut cursor = table.cursor(ReadOptions::default());
    for at in (0..rows.len()).step_by(997) {
        cursor.seek(&rows[at].0, trailer(MAX_SEQ, Kind::Value)).unwrap();
        cursor.next().unwrap();
    }
    assert_eq!(*store.announced.lock(), []);
    // In order, but what is there already needs no announcement.
    let cache = Cache::new(64 << 20);
    let table = Table::open(&store, DB, Arc::clone(table.info()), &cache).unwrap();
    for _ in 0..2 {
        let mut cursor = table.cursor(ReadOptions::default());
        cursor.seek_first().unwrap();
        store.announced.lock().clear();
        while cursor.valid() {
            cursor.next().unwrap();
        }
    }
    assert_eq!(*store.announced.lock(), []);
}

#[test]
fn blocks_of_a_batch_are_announced_where_reads_wait_often() {
    let rows = rows();
    let store = Memory::default();
    let info = Arc::new(build(&store, 5, &rows, options(1000), &RangeTombstones::default()).unwrap());
    let times = Arc::new(ReadTimes::new(None));
    let table = Table::open(&store, DB, info, &Cache::new(64 << 20)).unwrap();
    table.set_read_times(&times);
    let get = |key: &[u8]| {
        table.get(key, Table::hash(key), MAX_SEQ, ReadOptions::default(), |_, _, _| ControlFlow::Break(())).unwrap();
    };
    let expected = |key: &[u8]| {
        let maybe = table.prefetch_block(key, Table::hash(key));
        (maybe, store.announced.lock().drain(..).count())
    };
    let (key, other, absent, last) = (&rows[100].0[..], &rows[20_000].0[..], &b"key100000"[..], &b"z"[..]);
    (0..1000).for_each(|_| times.note(700));
    // Neither filter nor index are known; then they are, and reads are fast.
    assert_eq!(expected(key), (true, 0));
    get(key);
    assert_eq!(expected(other), (true, 0));
    (0..100).for_each(|_| times.note(100_000));
    assert_eq!(expected(other), (true, 1));
    get(other);
    assert_eq!(expected(other), (true, 0), "the cache has it");
    assert_eq!(expected(absent), (false, 0), "the filter knows");
    assert!(expected(last).1 == 0, "behind the table's end");
    // They wait less often because they are announced, until hardly any does.
    (0..200).for_each(|_| times.note(700));
    assert_eq!(expected(&rows[5000].0), (true, 1));
    (0..1000).for_each(|_| times.note(700));
    assert_eq!(expected(&rows[5000].0), (true, 0));
}

/// Reads of merges are timed, prefetches included; walks of users do not count among them.
#[test]
fn reads_of_merges_are_timed_for_themselves() {
    let rows = rows();
    let store = Memory::default();
    let info = Arc::new(build(&store, 5, &rows, options(1000), &RangeTombstones::default()).unwrap());
    let bytes = info.bytes as f64;
    let times = Arc::new(ReadTimes::new(Some(Arc::new(SystemClock::default()))));
    let table = Table::open(&store, DB, info, &Cache::new(0)).unwrap();
    table.set_read_times(&times);
    let mut cursor = table.cursor(ReadOptions { readahead: 1 << 20, ..ReadOptions::default() });
    cursor.seek_first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
    assert_eq!(times.take_in_order(), Transfer::default());
    let mut scan = table.scan();
    scan.seek_first().unwrap();
    while scan.valid() {
        scan.next().unwrap();
    }
    let taken = times.take_in_order();
    assert!((0.9 * bytes..=bytes).contains(&taken.bytes), "{taken:?} of {bytes}");
    assert!(taken.busy_ns + taken.wait_ns > 0.0, "{taken:?}");
    assert_eq!(times.take_in_order(), Transfer::default());
}

/// A walk that leaves out some blocks of what it read ahead goes on with the rest.
#[test]
fn what_was_read_ahead_is_read_once() {
    let rows = rows();
    let store = Memory::default();
    let info = Arc::new(build(&store, 5, &rows, options(1000), &RangeTombstones::default()).unwrap());
    let bytes = info.bytes;
    let table = Table::open(&store, DB, info, &Cache::new(0)).unwrap();
    let mut cursor = table.cursor(ReadOptions { readahead: 64 << 10, ..ReadOptions::default() });
    cursor.seek_first().unwrap();
    cursor.next().unwrap();
    store.read.lock().clear();
    for (n, (key, trailer, value)) in rows.iter().enumerate().skip(1).filter(|(n, _)| n / 100 % 2 == 0) {
        if n % 100 == 0 {
            cursor.seek(key, *trailer).unwrap();
        }
        assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_slice()));
        cursor.next().unwrap();
    }
    let read = store.read.lock();
    let all: u64 = read.iter().map(|(_, length)| length).sum();
    assert!(read.len() < 100 && all < bytes * 3 / 2, "{} reads, {all} of {bytes} bytes", read.len());
}

#[test]
fn what_the_cache_has_packed_is_not_announced() {
    let rows: Vec<Row> = rows().into_iter().map(|(key, trailer, _)| (key, trailer, vec![7; 64])).collect();
    let store = Memory::default();
    let compression = Compression { codec: Codec::Lz4, ..Compression::default() };
    let info = Arc::new(build(&store, 5, &rows, TableOptions { compression, ..options(1000) }, &RangeTombstones::default()).unwrap());
    let cache = Cache::new(0);
    cache.resize(16 << 20, 16 << 20);
    let table = Table::open(&store, DB, info, &cache).unwrap();
    let walk = || {
        let mut cursor = table.cursor(ReadOptions { fill_cache: true, readahead: 0 });
        cursor.seek_first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
        store.announced.lock().drain(..).count()
    };
    assert!(walk() > 0);
    assert_eq!(walk(), 0);
}
