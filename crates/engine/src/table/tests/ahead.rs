//! What the medium is told of cursors that go on.

use super::support::{DB, Memory, Random, Row, build, options};
use crate::cache::Cache;
use crate::cursor::Cursor;
use crate::key::{Kind, MAX_SEQ, trailer};
use crate::range_del::RangeTombstones;
use crate::table::{ReadOptions, ReadTimes, Table};
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
