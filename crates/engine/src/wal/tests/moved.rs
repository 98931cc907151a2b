//! Bytes are inserted into a log, removed from it, swapped and doubled: the records behind them have moved.

use super::super::frame::REACH;
use super::*;

/// A log, its payloads, where each record ends, and where the last marker stands.
struct Written {
    bytes: Vec<u8>,
    payloads: Vec<Vec<u8>>,
    ends: Vec<usize>,
    marker: usize,
}

/// `synced` records, each with a sync behind it, and `more` without.
fn written(synced: usize, more: usize, longest: u64) -> Written {
    let (store, mut random) = (TestStore::default(), Random(5));
    let mut log = writer(&store);
    let mut made = Written { bytes: Vec::new(), payloads: Vec::new(), ends: Vec::new(), marker: 0 };
    for n in 0..synced + more {
        let len = 1 + random.below(longest) as usize;
        made.payloads.push(random.bytes(len));
        log.append(&made.payloads[n]).unwrap();
        made.ends.push(log.len() as usize);
        if n < synced {
            made.marker = log.len() as usize;
            log.sync().unwrap();
        }
    }
    made.bytes = store.get(ID);
    made
}

impl Written {
    /// Every synced record is there, or the file is called damaged; true if it is.
    fn judge(&self, what: &str, synced: usize, bytes: Vec<u8>) -> bool {
        match parse_log(bytes, Some(DB), ID) {
            Err(Error::Corrupt { .. }) => true,
            Err(other) => panic!("{what}: {other}"),
            Ok(log) => {
                let kept = payloads(&log);
                assert!(kept.len() >= synced && kept == self.payloads[..kept.len()], "{what}: {} of {synced} records", kept.len());
                false
            }
        }
    }

    /// Records that end at or before `at`.
    fn before(&self, at: usize) -> usize {
        self.ends.iter().filter(|end| **end <= at).count()
    }
}

/// Lengths of what is inserted or removed.
const LENGTHS: [usize; 7] = [1, 2, 15, 16, 700, 4096, REACH];

#[test]
fn bytes_inserted_into_a_synced_log_are_damage() {
    let log = written(200, 0, 120);
    for at in (0..log.bytes.len()).step_by(97) {
        for (n, len) in LENGTHS.into_iter().enumerate() {
            let what = match n % 3 {
                0 => Random(at as u64).bytes(len),
                1 => vec![0; len],
                _ => log.bytes.iter().copied().cycle().skip(at).take(len).collect(),
            };
            let mut bytes = log.bytes.clone();
            drop(bytes.splice(at..at, what));
            let found = log.judge(&format!("{len} bytes at {at}"), 200, bytes);
            assert!(found || at + len >= log.marker, "{len} bytes at {at} went unnoticed");
        }
    }
    // The header's first bytes.
    for at in 0..59 {
        let mut bytes = log.bytes.clone();
        bytes.insert(at, 7);
        assert!(is_corrupt(&parse(&bytes), 0), "a byte at {at}");
    }
}

#[test]
fn bytes_removed_from_a_synced_log_are_damage_while_a_later_marker_stands() {
    let log = written(200, 0, 900);
    assert!(log.bytes.len() > REACH + 4096);
    for at in (0..log.bytes.len()).step_by(811) {
        for len in LENGTHS {
            let end = (at + len).min(log.bytes.len());
            let mut bytes = log.bytes.clone();
            bytes.drain(at..end);
            let proven = if end <= log.marker { 200 } else { log.before(at) };
            let found = log.judge(&format!("{len} bytes from {at} on"), proven, bytes);
            assert!(found || end > log.marker, "{len} bytes from {at} on went unnoticed");
        }
    }
}

#[test]
fn parts_that_were_swapped_or_doubled_are_damage() {
    let log = written(200, 0, 120);
    let mut random = Random(9);
    let mut found = 0;
    for round in 0..300 {
        let mut cuts = [0; 3].map(|_| random.below(log.bytes.len() as u64) as usize);
        cuts.sort_unstable();
        let [a, b, c] = cuts;
        let parts = |order: &[std::ops::Range<usize>]| order.iter().flat_map(|part| log.bytes[part.clone()].to_vec()).collect::<Vec<u8>>();
        let all = log.bytes.len();
        found += usize::from(log.judge(&format!("{round}: {a}..{b}..{c} swapped"), 200, parts(&[0..a, b..c, a..b, c..all])));
        found += usize::from(log.judge(&format!("{round}: {a}..{b} twice"), 200, parts(&[0..b, a..b, b..all])));
    }
    assert!(found > 500, "{found} of 600");
}

#[test]
fn a_tail_that_was_never_synced_may_move() {
    let log = written(20, 60, 200);
    let synced_end = log.marker + marker(VERSION);
    let mut cut = 0;
    for at in (synced_end..log.bytes.len()).step_by(61) {
        for len in LENGTHS {
            let mut bytes = log.bytes.clone();
            drop(bytes.splice(at..at, Random(len as u64).bytes(len)));
            assert!(!log.judge(&format!("{len} bytes at {at}"), log.before(at), bytes.clone()), "{len} bytes at {at}: a false alarm");
            let end = parse(&bytes).unwrap().end;
            // What has moved counts among the records behind the cut.
            let damaged = log.before(at);
            let is_whole = log.ends[damaged - 1].max(synced_end) == at;
            let behind = log.ends.len() - damaged - usize::from(!is_whole);
            assert_eq!(end.cut_records, behind as u64, "{len} bytes at {at}");
            let mut bytes = log.bytes.clone();
            bytes.drain(at..(at + len).min(log.bytes.len()));
            assert!(!log.judge(&format!("{len} bytes from {at} on"), log.before(at), bytes), "{len} bytes from {at} on: a false alarm");
            cut += 1;
        }
    }
    assert!(cut > 500, "{cut}");
}

/// A value may hold a log: the one it is written to, or another. A watermark of this log is true wherever it stands.
#[test]
fn a_copy_of_a_log_in_a_record_is_no_damage() {
    for number in [ID.number, ID.number + 1] {
        let other = TestStore::default();
        let id = FileId::log(number);
        let mut log = LogWriter::create(&other, DB, id, &hint(), b"").unwrap();
        (0..50).for_each(|n: u8| log.append(&[n; 30]).and_then(|()| log.sync()).unwrap());
        let store = TestStore::default();
        let mut log = writer(&store);
        log.append(b"synced").unwrap();
        log.sync().unwrap();
        let good = log.len();
        log.append(&other.get(id)).unwrap();
        let mut bytes = store.get(ID);
        bytes[good as usize + 20] ^= 1;
        // The copy has the number of this log, but this log never had these records: only then is it taken for damage.
        assert_eq!(is_corrupt(&parse(&bytes), good), number == ID.number);
    }
}

#[test]
fn a_record_that_moved_further_than_the_reach_is_junk() {
    let log = written(2, 0, 10);
    for (len, found) in [(REACH, true), (REACH + 1, false)] {
        let mut bytes = log.bytes.clone();
        drop(bytes.splice(59..59, vec![0; len]));
        assert_eq!(is_corrupt(&parse(&bytes), 59), found);
    }
}
