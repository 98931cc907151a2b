use super::frame::Salts;
use super::testing::{Random, TestStore};
use super::*;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use sinter_storage::store::{Cause, FileId, Hint};

mod moved;
mod zeros;

const DB: DbId = DbId(*b"sixteen byte id!");
const ID: FileId = FileId { kind: sinter_storage::store::FileKind::Log, number: 7 };

fn hint() -> Hint {
    Hint::new(Cause::Wal)
}

fn writer(store: &TestStore) -> LogWriter {
    LogWriter::create(store, DB, ID, &hint(), b"first words").unwrap()
}

/// All versions that are read.
const VERSIONS: std::ops::RangeInclusive<u16> = header::OLDEST..=VERSION;

fn writer_as(version: u16, store: &TestStore) -> LogWriter {
    LogWriter::create_as(version, store, DB, ID, &hint(), b"first words").unwrap()
}

/// Bytes of a marker.
fn marker(version: u16) -> usize {
    if version < 3 { 16 } else { 13 }
}

fn parse(bytes: &[u8]) -> Result<Log> {
    parse_log(bytes.to_vec(), Some(DB), ID)
}

fn payloads(log: &Log) -> Vec<Vec<u8>> {
    log.records().map(|(_, payload)| payload.to_vec()).collect()
}

/// Length without the zeros at the end, which are no part of a log, unless of its good part.
fn data_len(bytes: &[u8], end: &LogEnd) -> u64 {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1).max(end.good)
}

fn is_corrupt(outcome: &Result<Log>, at: u64) -> bool {
    matches!(outcome, Err(Error::Corrupt { offset, .. }) if *offset == at)
}

/// Three groups of records, each synced; the bytes, the payloads, and the length before the last marker.
fn synced_log(version: u16) -> (Vec<u8>, Vec<Vec<u8>>, usize) {
    let store = TestStore::default();
    let mut log = writer_as(version, &store);
    let mut random = Random(11);
    let mut written = Vec::new();
    let mut before_marker = 0;
    for group in 0..3 {
        for _ in 0..=group {
            let n = 1 + random.below(40) as usize;
            let payload = random.bytes(n);
            log.append(&payload).unwrap();
            written.push(payload);
        }
        before_marker = log.len() as usize;
        log.sync().unwrap();
    }
    (store.get(ID), written, before_marker)
}

#[test]
fn golden_bytes() {
    for (version, golden, second, good) in [(3, GOLDEN, 82, 100), (2, GOLDEN_2, 88, 109), (1, GOLDEN_1, 88, 109)] {
        let store = TestStore::default();
        let mut log = LogWriter::create_as(version, &store, DB, ID, &hint(), b"xyz").unwrap();
        log.append(b"hello").unwrap();
        log.sync().unwrap();
        log.append_parts(&[b"wor", b"", b"ld"]).unwrap();
        let hex: String = store.get(ID).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, golden, "version {version}");
        let log = parse(&unhex(golden)).unwrap();
        assert_eq!(log.records().collect::<Vec<_>>(), [(51, &b"hello"[..]), (second, &b"world"[..])]);
        assert_eq!((log.extra.as_deref(), log.db), (Some(&b"xyz"[..]), Some(DB)));
        let synced = second - marker(version) as u64;
        assert_eq!(log.end, LogEnd { good, cut_bytes: 0, cut_records: 0, synced });
    }
    assert_eq!(VERSION, 3);
}

#[test]
fn a_log_of_each_version_is_judged_alike() {
    // Damage of the header, of the first record, and of the last one, which is not synced.
    for (golden, last) in [(GOLDEN, 82), (GOLDEN_2, 88), (GOLDEN_1, 88)] {
        let whole = unhex(golden);
        let (end, synced) = (whole.len(), parse(&whole).unwrap().end.synced);
        for (at, offset) in [(9, Some(0)), (45, Some(0)), (51, Some(51)), (63, Some(51)), (last + 2, None), (end - 1, None)] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let cut = LogEnd { good: last as u64, cut_bytes: (end - last) as u64, cut_records: 0, synced };
            match offset {
                Some(offset) => assert!(is_corrupt(&parse(&bytes), offset), "byte {at}"),
                None => assert_eq!(parse(&bytes).unwrap().end, cut, "byte {at}"),
            }
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Header: magic, version 3, kind 1, 3 bytes of extra, database, number 7, extra, checksum. Then a record, a marker (69 bytes are
/// synced), a record that says so, too.
const GOLDEN: &str = concat!(
    "53494e54524c4f47",
    "0300",
    "0100",
    "03000000",
    "7369787465656e206279746520696421",
    "0700000000000000",
    "78797a",
    "12e349fd17fffabe",
    "9ecd72e6",
    "9614c90b",
    "00000000",
    "05",
    "68656c6c6f",
    "8184f50f",
    "e36d12f9",
    "45000000",
    "00",
    "c0c4c94f",
    "69a8a3a4",
    "45000000",
    "05",
    "776f726c64",
);

/// The golden bytes of version 2: 72 bytes are synced.
const GOLDEN_2: &str = concat!(
    "53494e54524c4f47",
    "0200",
    "0100",
    "03000000",
    "7369787465656e206279746520696421",
    "0700000000000000",
    "78797a",
    "0b5619651d978083",
    "366e6b6b",
    "2f9c62ce",
    "05000000",
    "00000000",
    "68656c6c6f",
    "4c577f11",
    "fbc2303f",
    "00000000",
    "48000000",
    "2f12494b",
    "8b06fb9b",
    "05000000",
    "48000000",
    "776f726c64",
);

/// The golden bytes of version 1.
const GOLDEN_1: &str = concat!(
    "53494e54524c4f47",
    "0100",
    "0100",
    "03000000",
    "7369787465656e206279746520696421",
    "0700000000000000",
    "78797a",
    "3959195da559fcc1",
    "b2dc70c3",
    "2f9c62ce",
    "05000000",
    "00000000",
    "68656c6c6f",
    "e5f8f023",
    "fbc2303f",
    "00000000",
    "48000000",
    "8217ba68",
    "8b06fb9b",
    "05000000",
    "48000000",
    "776f726c64",
);

#[test]
fn the_writer_keeps_count() {
    let store = TestStore::default();
    let mut log = writer(&store);
    assert_eq!((log.synced(), log.len(), log.id()), (0, 59, ID));
    log.append(b"a").unwrap();
    log.sync().unwrap();
    assert_eq!((log.synced(), log.len()), (73, 86));
    log.sync().unwrap();
    assert_eq!((log.synced(), log.len()), (73, 86), "nothing new: no second marker");
    log.append_with(|out| out.extend_from_slice(b"bc")).unwrap();
    assert!(matches!(log.append(b""), Err(Error::Invalid(_))));
    assert!(matches!(log.append_with(Vec::clear), Err(Error::Invalid(_))));
    log.append(&vec![9; 3 << 20]).unwrap();
    log.append(b"small again").unwrap();
    log.sync().unwrap();
    assert_eq!(log.len(), store.get(ID).len() as u64);
    log.close().unwrap();
    let log = read_log(&store, Some(DB), ID).unwrap();
    assert_eq!(payloads(&log), [b"a".to_vec(), b"bc".to_vec(), vec![9; 3 << 20], b"small again".to_vec()]);
    assert_eq!(log.end.synced, log.end.good - marker(VERSION) as u64);
}

#[test]
fn a_log_ends_before_four_gigabytes() {
    let store = TestStore::default();
    let mut log = writer(&store);
    log.pretend_len(MAX_LOG - 21);
    assert!(matches!(log.append(b"12345"), Err(Error::Invalid(_))));
    log.append(b"1234").unwrap();
    assert_eq!(log.len(), MAX_LOG - 4);
    log.sync().unwrap();
    assert!(log.len() <= u64::from(u32::MAX));
    assert!(matches!(LogWriter::create(&store, DB, FileId::log(8), &hint(), &[0; MAX_EXTRA + 1]), Err(Error::Invalid(_))));
    LogWriter::create(&store, DB, FileId::log(9), &hint(), &[0; MAX_EXTRA]).unwrap();
    assert_eq!(read_log(&store, None, FileId::log(9)).unwrap().extra.unwrap().len(), MAX_EXTRA);
}

#[test]
fn the_writer_is_dead_after_a_failure() {
    // Calls: append, sync, marker.
    for calls in 0..3 {
        let store = TestStore::default();
        let mut log = writer(&store);
        store.fail_after(calls);
        let outcome = log.append(b"a").and_then(|()| log.sync());
        assert!(matches!(outcome, Err(Error::Io(_))), "{outcome:?}");
        store.heal();
        assert!(matches!(log.append(b"b"), Err(Error::Closed(_))));
        assert!(matches!(log.sync(), Err(Error::Closed(_))));
        assert_eq!(payloads(&read_log(&store, Some(DB), ID).unwrap()).len(), calls.min(1));
        assert!(matches!(log.close(), Err(Error::Closed(_))));
    }
}

#[test]
fn random_logs_round_trip() {
    for seed in 0..200 {
        let random = &mut Random(seed);
        let store = TestStore::default();
        let mut log = writer(&store);
        let mut written = Vec::new();
        for _ in 0..random.below(30) {
            if random.below(4) == 0 {
                log.sync().unwrap();
            } else {
                let n = 1 + random.below(200) as usize;
                written.push(random.bytes(n));
                log.append(written.last().unwrap()).unwrap();
            }
        }
        let synced = log.synced();
        let read = read_log(&store, Some(DB), ID).unwrap();
        assert_eq!(payloads(&read), written, "seed {seed}");
        let end = LogEnd { good: log.len(), cut_bytes: 0, cut_records: 0, synced: read.end.synced };
        assert_eq!(read.end, end, "seed {seed}");
        assert_eq!(read.end.synced, synced, "seed {seed}: the last marker says it");
    }
}

#[test]
fn every_flip_of_a_synced_log_is_found() {
    VERSIONS.for_each(every_flip_is_found);
}

fn every_flip_is_found(version: u16) {
    let (good, written, before_marker) = synced_log(version);
    let whole = payloads(&parse(&good).unwrap());
    assert_eq!(whole, written);
    for at in 0..good.len() {
        for mask in [1u8, 2, 4, 8, 16, 32, 64, 128, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= mask;
            for db in [Some(DB), None] {
                match parse_log(bytes.clone(), db, ID) {
                    Err(Error::Corrupt { file, offset, .. }) => {
                        assert_eq!(file, "000007.log");
                        assert!(offset <= at as u64, "byte {at}: blamed {offset}");
                    }
                    Err(other) => panic!("byte {at}: {other}"),
                    Ok(log) => {
                        // With no database to expect, a log whose header is damaged has no salt; manifests do (see there).
                        let unreadable = db.is_none() && at < 59;
                        assert!(unreadable || payloads(&log) == written, "byte {at} ^ {mask} lost records");
                        assert!(unreadable || at >= before_marker, "byte {at} ^ {mask} went unnoticed");
                        assert!(log.end.cut_bytes > 0);
                    }
                }
            }
        }
    }
}

#[test]
fn zeroed_and_foreign_pieces_of_a_synced_log_are_found() {
    VERSIONS.for_each(zeroed_and_foreign_pieces_are_found);
}

fn zeroed_and_foreign_pieces_are_found(version: u16) {
    let (good, _, before_marker) = synced_log(version);
    for at in 0..before_marker {
        for len in [1, 7, 16, 64] {
            let to = (at + len).min(before_marker);
            let mut bytes = good.clone();
            bytes[at..to].fill(0);
            assert!(bytes == good || matches!(parse(&bytes), Err(Error::Corrupt { .. })), "zeros at {at}..{to}");
            let mut bytes = good.clone();
            bytes.copy_within(0..to - at, at);
            assert!(bytes == good || matches!(parse(&bytes), Err(Error::Corrupt { .. })), "a copy at {at}..{to}");
        }
    }
}

#[test]
fn every_truncation_keeps_a_prefix_and_reports_the_rest() {
    for version in VERSIONS {
        let (good, written, _) = synced_log(version);
        for len in 0..good.len() {
            let log = parse(&good[..len]).unwrap();
            let kept = payloads(&log);
            assert_eq!(kept, written[..kept.len()]);
            assert_eq!(log.end.good + log.end.cut_bytes, data_len(&good[..len], &log.end));
            assert_eq!(log.extra.is_some(), len >= 59, "{len}");
        }
    }
}

/// Synced records, then three that are not.
fn log_with_tail(version: u16) -> (Vec<u8>, usize) {
    let store = TestStore::default();
    let mut log = writer_as(version, &store);
    log.append(b"synced").unwrap();
    log.sync().unwrap();
    let tail = log.len() as usize;
    [&b"one"[..], b"two two", b"three"].iter().for_each(|payload| log.append(payload).unwrap());
    (store.get(ID), tail)
}

#[test]
fn an_unsynced_tail_may_be_torn_at_any_byte() {
    VERSIONS.for_each(a_tail_may_be_torn_at_any_byte);
}

fn a_tail_may_be_torn_at_any_byte(version: u16) {
    let (good, tail) = log_with_tail(version);
    let synced = (tail - marker(version)) as u64;
    let all = payloads(&parse(&good).unwrap());
    let mut random = Random(5);
    for at in tail..good.len() {
        let junk = random.bytes(good.len() - at);
        for (bytes, what) in [
            (good[..at].to_vec(), "cut"),
            ([&good[..at], &vec![0; good.len() - at][..]].concat(), "zeros"),
            ([&good[..at], &vec![0; 5000][..]].concat(), "more zeros"),
            ([&good[..at], &junk[..]].concat(), "junk"),
            ([&good[..at], &[good[at] ^ 1], &good[at + 1..]].concat(), "a flip"),
        ] {
            let log = parse(&bytes).unwrap_or_else(|error| panic!("{what} at {at}: {error}"));
            let kept = payloads(&log);
            assert!(!kept.is_empty() && kept.len() < 4 && kept == all[..kept.len()], "{what} at {at}");
            assert_eq!(log.end.good + log.end.cut_bytes, data_len(&bytes, &log.end), "{what} at {at}");
            assert_eq!(log.end.synced, synced, "{what} at {at}");
            let whole_records_behind = if what == "a flip" { 3 - kept.len() as u64 } else { 0 };
            assert_eq!(log.end.cut_records, whole_records_behind, "{what} at {at}");
        }
    }
}

#[test]
fn records_right_behind_a_damaged_marker_are_counted() {
    for version in VERSIONS {
        let (mut bytes, tail) = log_with_tail(version);
        let before = tail - marker(version);
        bytes[before] ^= 1;
        let log = parse(&bytes).unwrap();
        assert_eq!((log.records().count(), log.end.cut_records, log.end.good), (1, 3, before as u64));
    }
}

/// Every record has the watermark: records that were not synced prove what was, also where rot has taken the marker.
#[test]
fn records_behind_a_damaged_marker_prove_what_was_synced() {
    for version in VERSIONS {
        let (good, tail) = log_with_tail(version);
        let first = 59;
        for last in 1..4 {
            // Of the records behind the marker only one is left.
            let ends: Vec<usize> = parse(&good).unwrap().records().map(|(offset, _)| offset as usize).chain([good.len()]).collect();
            let mut bytes = good.clone();
            bytes[first..ends[last]].fill(0x55);
            bytes[ends[last + 1]..].fill(0);
            assert!(is_corrupt(&parse(&bytes), first as u64), "version {version}, record {last} of {tail}");
        }
    }
}

#[test]
fn zeros_behind_the_last_record_are_the_end() {
    for (version, zeros) in VERSIONS.flat_map(|version| [1, 15, 16, 17, 60, 61, 62, 4096, 100_000].map(|zeros| (version, zeros))) {
        let (good, tail) = log_with_tail(version);
        let end = LogEnd { good: good.len() as u64, cut_bytes: 0, cut_records: 0, synced: (tail - marker(version)) as u64 };
        let mut bytes = [&good[..], &vec![0; zeros]].concat();
        let log = parse(&bytes).unwrap();
        assert_eq!(log.end, end, "version {version}, {zeros}");
        assert_eq!(log.records().count(), 4, "version {version}, {zeros}");
        // The body of a record whose header was never written.
        bytes.extend_from_slice(b"body");
        let end = LogEnd { cut_bytes: zeros as u64 + 4, ..end };
        assert_eq!(parse(&bytes).unwrap().end, end, "version {version}, {zeros}");
        bytes.extend_from_slice(&vec![0; zeros]);
        assert_eq!(parse(&bytes).unwrap().end, end, "version {version}, {zeros}");
    }
    let empty = LogEnd { good: 0, cut_bytes: 0, cut_records: 0, synced: 0 };
    assert_eq!(parse(&[0; 5000]).unwrap().end, empty);
}

/// Nothing is written ahead of a manifest, so zeros there are what a crash left of a write.
#[test]
fn zeros_behind_a_manifest_are_cut_bytes() {
    let (store, id) = (TestStore::default(), FileId::manifest(7));
    let mut log = LogWriter::create(&store, DB, id, &hint(), b"").unwrap();
    log.append(b"state").unwrap();
    let bytes = [store.get(id), vec![0; 100]].concat();
    assert_eq!(parse_log(bytes, Some(DB), id).unwrap().end.cut_bytes, 100);
}

/// Pages of a mapped log reach the medium in any order; those that did not are zeros. A watermark behind such a page tells.
#[test]
fn a_lost_page_is_the_end_or_damage() {
    let store = TestStore::default();
    let mut log = writer(&store);
    let mut ends = Vec::new();
    for n in 0..200u32 {
        log.append(&Random(u64::from(n)).bytes(150)).unwrap();
        ends.push(log.len() as usize);
        if n == 60 {
            log.sync().unwrap();
        }
    }
    let good = store.get(ID);
    for page in 0..good.len().div_ceil(4096) {
        let mut bytes = good.clone();
        let lost = page * 4096..((page + 1) * 4096).min(good.len());
        bytes[lost.clone()].fill(0);
        bytes.extend_from_slice(&[0; 8192]);
        match parse(&bytes) {
            Err(Error::Corrupt { .. }) => assert!(lost.start < ends[60], "page {page} was synced"),
            other => {
                let log = other.unwrap();
                assert!(lost.start >= ends[60], "page {page} was synced, and nobody noticed");
                assert_eq!(log.records().count(), ends.iter().filter(|end| **end <= lost.start).count(), "page {page}");
                assert_eq!(log.end.good + log.end.cut_bytes, data_len(&bytes, &log.end), "page {page}");
            }
        }
    }
}

#[test]
fn a_torn_header_is_the_end_of_a_log_that_was_never_synced() {
    let store = TestStore::default();
    let mut log = writer(&store);
    log.append(b"one").unwrap();
    log.append(b"two").unwrap();
    let mut bytes = store.get(ID);
    bytes[..59].fill(0);
    let torn = parse(&bytes).unwrap();
    assert_eq!((torn.extra.clone(), torn.records().count()), (None, 0));
    assert_eq!(torn.end, LogEnd { good: 0, cut_bytes: bytes.len() as u64, cut_records: 2, synced: 0 });
    log.sync().unwrap();
    let mut bytes = store.get(ID);
    bytes[..59].fill(0);
    assert!(is_corrupt(&parse(&bytes), 0));
}

#[test]
fn a_log_that_belongs_elsewhere_is_refused() {
    let (bytes, _, _) = synced_log(VERSION);
    let other = DbId([1; 16]);
    assert!(is_corrupt(&parse_log(bytes.clone(), Some(other), ID), 0));
    assert!(is_corrupt(&parse_log(bytes.clone(), Some(DB), FileId::log(8)), 0));
    assert!(is_corrupt(&parse_log(bytes.clone(), None, FileId::manifest(7)), 0));
    let message = parse_log(bytes, Some(other), ID).unwrap_err().to_string();
    assert!(message.contains("belongs to database") && message.contains("000007.log"), "{message}");
}

#[test]
fn records_of_another_log_are_no_records_here() {
    // The same payloads at the same offsets: of another number, of another database. Swapped in behind the header, record by record.
    let (good, _, before_marker) = synced_log(VERSION);
    for (db, number) in [(DB, 8), (DbId([1; 16]), 7)] {
        let store = TestStore::default();
        let mut log = LogWriter::create(&store, db, FileId::log(number), &hint(), b"first words").unwrap();
        parse(&good).unwrap().records().for_each(|(_, payload)| log.append(payload).unwrap());
        log.sync().unwrap();
        let foreign = store.get(FileId::log(number));
        let first_record = 59..59 + marker(VERSION) + 8;
        let mut bytes = good.clone();
        bytes[first_record.clone()].copy_from_slice(&foreign[first_record]);
        assert!(is_corrupt(&parse(&bytes), 59));
        let log = parse(&[&good[..59], &foreign[59..]].concat()).unwrap();
        assert_eq!((log.records().count(), log.end.cut_records, log.end.cut_bytes), (0, 0, data_len(&foreign, &log.end) - 59));
        // Behind a good end, too, the foreign bytes are nothing.
        let mut bytes = good.clone();
        bytes.extend_from_slice(foreign.get(good.len()..).unwrap_or_default());
        bytes.truncate(bytes.len().max(before_marker));
        assert_eq!(payloads(&parse(&bytes).unwrap()), payloads(&parse(&good).unwrap()));
    }
}

#[test]
fn a_newer_format_is_refused_and_not_cut() {
    let mut bytes = Vec::new();
    header::encode(4, &DB, ID, b"", &mut bytes);
    let message = parse(&bytes).unwrap_err().to_string();
    assert!(message.contains("format version 4"), "{message}");
}

#[test]
fn a_long_tail_is_read_in_linear_time() {
    let (good, tail) = log_with_tail(VERSION);
    let salts = Salts::new(&DB, ID, VERSION);
    let len = 64 << 20;
    let mut random = Random(3);
    let words: Vec<u8> = (0..len / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    // Right headers, one behind the other, each of which claims all of the rest, which is not its payload.
    let mut nested = good[..tail].to_vec();
    let end = tail + (4 << 20);
    while nested.len() + 16 < end {
        let at = nested.len();
        nested.extend_from_slice(&salts.claim(at as u32, (end - at - 16) as u32));
    }
    nested.resize(end, 0);
    for (what, bytes) in [
        ("junk", [&good[..tail], &words[..]].concat()),
        ("zeros", [&good[..tail], &vec![0; len][..]].concat()),
        ("small words", [&good[..tail], &[1, 0, 0, 0].repeat(len / 4)[..]].concat()),
        ("nested headers", nested),
    ] {
        // A scan that looked at a tail more than a few times would not end within a day.
        let log = parse_log(bytes, Some(DB), ID).unwrap();
        assert_eq!(log.end.good, tail as u64, "{what}");
    }
}

#[test]
fn arbitrary_bytes_are_never_a_panic() {
    let (good, _, _) = synced_log(VERSION);
    for seed in 0..3000 {
        let random = &mut Random(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.extend_from_slice(&random.bytes(20)),
                _ => drop(bytes.splice(at..at, [0, 0, 0, 0xff])),
            }
        }
        if let Ok(log) = parse(&bytes) {
            let kept = payloads(&log);
            assert_eq!(log.end.good + log.end.cut_bytes, data_len(&bytes, &log.end), "seed {seed}");
            let whole = payloads(&parse(&good).unwrap());
            assert!(kept.len() <= whole.len() && kept == whole[..kept.len()], "seed {seed}");
        }
    }
}
