use super::*;
use crate::db::write_options::{Durability, WriteOptions};
use crate::db::{Db, WriteBatch};
use crate::key::{Kind, split_timed};
use crate::wal::{LogWriter, VERSION, parse_log};
use sinter_storage::store::{Cause, FileId, FileKind, Hint, MemoryStore, Store};
use std::sync::Arc;

fn op<'a>(family: u32, kind: Kind, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation { family, kind, key, value }
}

fn batch() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"v");
    batch.delete(b"kk");
    batch.push(300, Kind::Merge, b"m", b"+1");
    batch.delete_range(b"a", b"b");
    batch.put_at(b"k", b"v", 300);
    batch.push(300, Kind::RangeDeleteFrom, b"f", b"");
    batch
}

/// The operations of [`batch`] as docs/engine/format.md has them: a value, a delete, an operand of family 300, a range, a value with a
/// time, a range without an end of family 300.
const OPERATIONS: &[u8] = b"\x01\x01k\x01v\x00\x02kk\x82\xac\x02\x01m\x02+1\x03\x01a\x01b\x05\x01k\x03\xac\x02v\x86\xac\x02\x01f";

fn group(number: Option<Seq>, batch: &WriteBatch) -> Vec<u8> {
    let mut record = Vec::new();
    put_group(&mut record, number, batch.len() as u64);
    record.extend_from_slice(batch.encoded());
    record
}

fn single(number: Option<Seq>, operation: &Operation<'_>) -> Vec<u8> {
    let mut record = Vec::new();
    put_single(&mut record, number, operation);
    record
}

#[test]
fn golden_bytes_of_groups() {
    assert_eq!(group(None, &batch()), [b"\x00\x06", OPERATIONS].concat());
    assert_eq!(group(Some(200), &batch()), [b"\x20\xc8\x01\x06", OPERATIONS].concat());
}

#[test]
fn golden_bytes_of_single_operations() {
    for (operation, bytes) in [
        (op(0, Kind::Value, b"k", b"v"), &b"\x41\x01kv"[..]),
        (op(0, Kind::Delete, b"kk", b""), b"\x40\x02kk"),
        (op(300, Kind::Merge, b"m", b"+1"), b"\xc2\xac\x02\x01m+1"),
        (op(0, Kind::RangeDelete, b"a", b"b"), b"\x43\x01ab"),
        (op(0, Kind::TimedValue, b"k", b"\xac\x02v"), b"\x45\x01k\xac\x02v"),
        (op(300, Kind::RangeDeleteFrom, b"f", b""), b"\xc6\xac\x02\x01f"),
        (op(0, Kind::Value, b"", b""), b"\x41\x00"),
    ] {
        assert_eq!(single(None, &operation), bytes);
        assert_eq!(Records::new(3, 7).operations(bytes), Some(vec![(7, operation)]));
        let numbered = single(Some(200), &operation);
        assert_eq!(numbered, [&[bytes[0] | 0x20, 0xc8, 0x01], &bytes[1..]].concat());
        assert_eq!(Records::new(3, 7).operations(&numbered), Some(vec![(200, operation)]));
    }
}

#[test]
fn numbers_follow_from_the_record_before() {
    let mut records = Records::new(3, 7);
    let mut first = |record: &[u8]| {
        let next = records.next();
        (next, records.operations(record).unwrap()[0].0)
    };
    assert_eq!(first(&group(None, &batch())), (7, 7));
    assert_eq!(first(&single(None, &op(0, Kind::Value, b"k", b"v"))), (13, 13));
    assert_eq!(first(&group(Some(20), &batch())), (14, 20));
    assert_eq!(first(&single(None, &op(0, Kind::Value, b"k", b"v"))), (26, 26));
    // A number that was used before is for the reader to refuse.
    assert_eq!(first(&single(Some(3), &op(0, Kind::Value, b"k", b"v"))), (27, 3));
    assert_eq!(first(&single(None, &op(0, Kind::Value, b"k", b"v"))), (27, 27));
}

#[test]
fn records_of_old_versions_have_their_numbers() {
    let record = [b"\xc8\x01\x06", OPERATIONS].concat();
    for version in [1, 2] {
        let mut records = Records::new(version, 7);
        let list = records.operations(&record).unwrap();
        assert_eq!((list.len(), list[0].0, list[5].0, records.next()), (6, 200, 205, 7));
        // A timed value whose time goes beyond its end.
        assert_eq!(records.operations(b"\x01\x01\x05\x01k\x01\xac"), None);
        assert_eq!(records.operations(b"\x01\x01\x05\x01k\x00"), None);
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let too_large = [&b"\x20\xff\xff\xff\xff\xff\xff\xff\x7f\x02"[..], b"\x00\x01k\x00\x01k"].concat();
    for bytes in [
        &b""[..],
        b"\x01\x01kv",
        b"\x80\x01k",
        b"\x10\x01",
        b"\x20\x01",
        b"\x40\x01kv",
        b"\x41\x02k",
        b"\x44\x01kv",
        b"\x45\x01k\xac",
        b"\x45\x01k",
        b"\x47\x01k",
        b"\x50\x01k",
        &too_large,
    ] {
        assert_eq!(Records::new(3, 1).operations(bytes), None, "{bytes:?}");
    }
}

#[test]
fn every_truncation_of_a_group_is_noticed() {
    let record = group(Some(1 << 40), &batch());
    for end in 0..record.len() {
        assert_eq!(Records::new(3, 1).operations(&record[..end]), None, "a record cut at {end} passed");
    }
    let whole = Records::new(3, 1).operations(&record).unwrap();
    let numbers: Vec<_> = whole.iter().take(3).map(|(seq, operation)| (*seq, operation.family)).collect();
    assert_eq!(numbers, [(1 << 40, 0), ((1 << 40) + 1, 0), ((1 << 40) + 2, 300)]);
}

/// The file as an earlier version would have written it: the same records, those of a log with their numbers and counts.
fn as_written_by(version: u16, id: FileId, bytes: Vec<u8>) -> Vec<u8> {
    let log = parse_log(bytes, None, id).unwrap();
    let extra = log.extra.clone().unwrap();
    let store = MemoryStore::new();
    let mut old = LogWriter::create_as(version, &store, log.db.unwrap(), id, &Hint::new(Cause::Wal), &extra).unwrap();
    let mut records = Records::new(VERSION, Chain::decode(&extra).map_or(0, |chain| chain.first));
    for (_, payload) in log.records() {
        if id.kind == FileKind::Manifest {
            old.append(payload).unwrap();
            continue;
        }
        let list = records.operations(payload).unwrap();
        let mut batch = WriteBatch::new();
        for (_, Operation { family, kind, key, value }) in &list {
            match split_timed(value).filter(|_| *kind == Kind::TimedValue) {
                Some((time, value)) => batch.push_value(*family, *kind, key, Some(time), value),
                None => batch.push(*family, *kind, key, value),
            }
        }
        let mut head = Vec::new();
        [list[0].0, list.len() as u64].into_iter().for_each(|n| put_varint(&mut head, n));
        old.append_parts(&[&head, batch.encoded()]).unwrap();
    }
    old.sync().unwrap();
    store.bytes(id).unwrap()
}

#[test]
fn a_database_of_an_old_version_opens() {
    let store = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(store.clone()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put_at(b"b", b"2", 1_000_000).unwrap();
    db.put(b"c", b"3").unwrap();
    db.put_with(&db.default_family(), b"lost", b"", &WriteOptions::new(Durability::NoWal)).unwrap();
    db.delete(b"a").unwrap();
    let mut several = batch_of_default();
    db.write(&mut several, &WriteOptions::new(Durability::Sync)).unwrap();
    let image = store.clone_image();
    drop(db);
    for version in [1, 2, VERSION] {
        let old = Arc::new(image.clone_image());
        let files = old.list().unwrap();
        for (id, _) in files.into_iter().filter(|(id, _)| matches!(id.kind, FileKind::Log | FileKind::Manifest)) {
            if version < VERSION {
                old.replace(id, as_written_by(version, id, old.bytes(id).unwrap()));
            }
        }
        for _ in 0..2 {
            let db = Db::builder().create_if_missing(false).open_store(old.clone()).unwrap();
            let get = |key: &[u8]| db.get(key).unwrap().map(|value| value.to_vec());
            let values = [b"a", b"b", b"c", b"x", b"y"].map(|key| get(key));
            assert_eq!(values, [None, Some(b"2".to_vec()), None, None, Some(b"5".to_vec())], "version {version}");
            assert_eq!(db.recovery().cut_bytes, 0, "version {version}");
        }
    }
}

fn batch_of_default() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(b"x", b"4");
    batch.put(b"y", b"5");
    batch.delete(b"c");
    batch.delete_range(b"w", b"xx");
    batch
}

/// A record of one put has 13 or 14 bytes of header, a head, and the length of the key; behind unlogged writes, its number, too.
#[test]
fn a_put_takes_fifteen_bytes_beside_key_and_value() {
    let store = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(store.clone()).unwrap();
    let log = || store.list().unwrap().iter().filter(|(id, _)| id.kind == FileKind::Log).map(|(_, len)| *len).sum::<u64>();
    let key = [7; 16];
    for (len, beside) in [(1, 15), (100, 15), (109, 15), (110, 16), (1024, 16)] {
        let before = log();
        db.put(&key, &vec![1; len]).unwrap();
        assert_eq!(log() - before, (16 + len) as u64 + beside, "{len}");
    }
    db.put_with(&db.default_family(), b"unlogged", b"", &WriteOptions::new(Durability::NoWal)).unwrap();
    let before = log();
    db.put(&key, &[1; 100]).unwrap();
    assert_eq!(log() - before, 16 + 100 + 16, "its number is below 128");
}

#[test]
fn a_number_that_was_used_before_is_damage() {
    let store = Arc::new(MemoryStore::new());
    let db = Db::builder().open_store(store.clone()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put(b"b", b"2").unwrap();
    let image = store.clone_image();
    let id = image.list().unwrap().into_iter().map(|file| file.0).find(|id| id.kind == FileKind::Log).unwrap();
    let log = parse_log(image.bytes(id).unwrap(), None, id).unwrap();
    for (number, is_good) in [(2, false), (3, true), (9, true)] {
        let files = MemoryStore::new();
        let mut copy = LogWriter::create(&files, log.db.unwrap(), id, &Hint::new(Cause::Wal), log.extra.as_ref().unwrap()).unwrap();
        log.records().for_each(|(_, payload)| copy.append(payload).unwrap());
        copy.append(&single(Some(number), &op(0, Kind::Value, b"a", b"3"))).unwrap();
        let changed = image.clone_image();
        changed.replace(id, files.bytes(id).unwrap());
        let opened = Db::builder().create_if_missing(false).open_store(Arc::new(changed));
        assert_eq!(opened.is_ok(), is_good, "{number}");
    }
}
