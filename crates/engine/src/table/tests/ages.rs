//! Ages of entries in a table's properties.

use super::support::{DB, Memory, options};
use crate::cache::Cache;
use crate::error::Error;
use crate::key::{Kind, Seq, put_timed, trailer};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use crate::table::{Table, TableBuilder, TableProperties};
use crate::tiering::age::TimeMap;
use sinter_storage::store::{Cause, FileId, Hint, Store};
use std::sync::Arc;

/// An entry: the number that it has, the one that it had, the time that it carries.
type Entry = (Seq, Seq, Option<u64>);

fn build(entries: &[Entry], tombstone: Option<Seq>, known: (u64, u64), map: &TimeMap) -> (TableInfo, TableProperties) {
    let (store, id) = (Memory::default(), FileId::table(9));
    let mut builder = TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).unwrap(), options(4096));
    builder.set_times(4711, Arc::new(map.clone()));
    for (n, (seq, original, time)) in entries.iter().enumerate() {
        let mut stored = Vec::new();
        let kind = if time.is_some() { Kind::TimedValue } else { Kind::Value };
        match time {
            Some(time) => put_timed(&mut stored, *time, b"v"),
            None => stored.push(b'v'),
        }
        builder.add(&[n as u8], trailer(*seq, kind), &stored, *original).unwrap();
    }
    let info = builder.finish(&RangeTombstones::new(tombstone.map(|seq| (vec![0], vec![9], seq))), known).unwrap();
    let table = Table::open(&store, DB, Arc::new(info.clone()), &Cache::new(0)).unwrap();
    table.verify().unwrap();
    assert_eq!(table.zeroed_seq(), table.properties().unwrap().zeroed_seq.unwrap());
    (info, table.properties().unwrap())
}

#[test]
fn times_are_as_close_as_numbers_allow() {
    let mut map = TimeMap::default();
    (1..=9).for_each(|n| map.add(10 * n, 100 * n));
    let none = TimeMap::default();
    let plain = |seq| (seq, seq, None);
    let times = |entries: &[Entry], tombstone, known, map| {
        let (info, _) = build(entries, tombstone, known, map);
        (info.oldest_time, info.newest_time)
    };
    assert_eq!(times(&[plain(25), plain(31)], None, (50, 950), &none), (50, 950), "nothing is known of numbers");
    assert_eq!(times(&[plain(25), plain(31)], None, (50, 950), &map), (200, 400));
    assert_eq!(times(&[plain(25), plain(31)], None, (250, 350), &map), (250, 350));
    assert_eq!(times(&[plain(25), plain(31)], None, (0, 0), &map), (200, 400), "numbers say what was not known");
    assert_eq!(times(&[plain(5), plain(95)], None, (0, 0), &map), (0, 0));
    assert_eq!(times(&[plain(25)], Some(77), (50, 950), &map), (200, 800), "a range tombstone is an entry");
    assert_eq!(times(&[plain(25), (0, 31, None)], None, (50, 950), &map), (50, 400), "a number that was lost may have been any");
    // Times of their own.
    assert_eq!(times(&[(25, 25, Some(7)), (26, 26, Some(5000))], None, (50, 950), &map), (7, 5000));
    assert_eq!(times(&[plain(25), (85, 85, Some(300))], None, (50, 950), &map), (200, 300), "the second is not as young as its number");
    assert_eq!(times(&[plain(25), (31, 31, Some(5000))], None, (50, 950), &none), (50, 5000), "it must not expire with the others");
    assert_eq!(times(&[plain(25), (31, 31, Some(5000))], None, (0, 0), &none), (0, 0), "the first may be still younger");
}

#[test]
fn a_table_tells_what_was_zeroed_and_when_it_was_written() {
    let map = TimeMap::default();
    let (_, properties) = build(&[(25, 25, None), (31, 31, None)], None, (0, 0), &map);
    assert_eq!((properties.zeroed_seq, properties.created), (Some(0), 4711));
    let (_, properties) = build(&[(0, 25, None), (0, 14, None), (31, 31, None)], None, (0, 0), &map);
    assert_eq!((properties.zeroed_seq, properties.min_seq, properties.max_seq), (Some(25), 14, 31));
    let (_, properties) = build(&[(0, 0, None), (0, 0, None)], None, (0, 0), &map);
    assert_eq!((properties.zeroed_seq, properties.min_seq, properties.max_seq), (Some(0), 0, 0), "older than every number");
}

#[test]
fn a_timed_value_without_a_time_is_refused() {
    let (store, id) = (Memory::default(), FileId::table(9));
    let mut builder = TableBuilder::new(DB, id, store.create(id, &Hint::new(Cause::Flush)).unwrap(), options(4096));
    for stored in [&b""[..], b"\x80", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"] {
        assert!(matches!(builder.add(b"k", trailer(9, Kind::TimedValue), stored, 9), Err(Error::Invalid(_))));
    }
}
