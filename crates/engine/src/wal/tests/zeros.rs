//! Zeros are no record, wherever a log begins them: a file may have them behind its last record.

use super::super::frame::{RECORD_HEADER, header_at};
use super::*;
use sinter_storage::store::{self, ReadAt, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A header of zeros has the right check in one place of each log from version 2 on.
#[test]
fn zeros_are_no_record_even_where_their_check_is_right() {
    for version in 2..=VERSION {
        for number in 0..20 {
            let salts = Salts::new(&DB, FileId::log(number), version);
            let at = salts.place_of_zeros();
            assert_eq!(salts.record(&[0; RECORD_HEADER], at, usize::MAX), None, "version {version}, log {number}, byte {at}");
        }
    }
}

/// The first 16 bytes of a record are the last to reach the medium: without them it is none, and neither is what follows.
#[test]
fn a_record_without_its_first_bytes_is_none() {
    for len in [1, 5, 127, 128, 16_383, 16_384, 2 << 20, (2 << 20) + 1, 3 << 20] {
        let store = TestStore::default();
        let mut log = writer(&store);
        log.append(b"synced").unwrap();
        log.sync().unwrap();
        let before = log.len() as usize;
        log.append(&vec![7; len]).unwrap();
        let mut bytes = store.get(ID);
        let end = bytes.len().min(before + 16);
        bytes[before..end].fill(0);
        let log = parse(&bytes).unwrap();
        assert_eq!((log.records().count(), log.end.good), (1, before as u64), "{len} bytes");
    }
}

#[test]
fn a_header_at_the_end_of_a_file_is_read_with_zeros_behind_it() {
    assert_eq!(header_at(b""), None);
    let header = header_at(b"ab").unwrap();
    assert_eq!((&header[..2], &header[2..]), (&b"ab"[..], &[0; RECORD_HEADER - 2][..]));
}

/// A file that changes after so many reads.
#[derive(Debug)]
struct Changing {
    before: Vec<u8>,
    after: Vec<u8>,
    reads_left: AtomicUsize,
}

impl Changing {
    fn new(before: &[u8], after: &[u8], reads: usize) -> Self {
        Changing { before: before.to_vec(), after: after.to_vec(), reads_left: AtomicUsize::new(reads) }
    }

    fn now(&self) -> &[u8] {
        if self.reads_left.load(Ordering::Relaxed) > 0 { &self.before } else { &self.after }
    }
}

impl ReadAt for Changing {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> store::Result<()> {
        let bytes = self.now().get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        let outcome = match bytes {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(StoreError::read(ID, offset, std::io::ErrorKind::UnexpectedEof.into())),
        };
        let left = self.reads_left.load(Ordering::Relaxed);
        self.reads_left.store(left.saturating_sub(1), Ordering::Relaxed);
        outcome
    }

    fn len(&self) -> u64 {
        self.now().len() as u64
    }
}

/// A log that is synced after some of its records, and its length behind each record.
fn growing_log() -> (Vec<u8>, Vec<usize>) {
    let store = TestStore::default();
    let mut log = writer(&store);
    let mut ends = vec![0, log.len() as usize];
    for n in 0..9 {
        log.append(&Random(n).bytes(5 + n as usize * 3)).unwrap();
        ends.push(log.len() as usize);
        if n % 3 == 2 {
            log.sync().unwrap();
            ends.push(log.len() as usize);
        }
    }
    (store.get(ID), ends)
}

fn with_zeros(bytes: &[u8], len: usize) -> Vec<u8> {
    [bytes, &vec![0; len.saturating_sub(bytes.len())]].concat()
}

/// Surveys and walks a log of the first `from` bytes of a growing log that turns into one of its first `to`, after any number of reads.
fn survey_while_it_changes(ends: &[usize], from: (usize, &[u8]), to: (usize, &[u8])) {
    for reads in 0..16 {
        let file = Changing::new(from.1, to.1, reads);
        let what = format!("{} of {} to {} of {} bytes after {reads} reads", from.0, from.1.len(), to.0, to.1.len());
        let survey = survey_file(&file, Some(DB), ID).unwrap_or_else(|error| panic!("{what}: {error}"));
        let good = survey.end.good as usize;
        assert_eq!((survey.end.cut_bytes, survey.end.cut_records), (0, 0), "{what}: {survey:?}");
        assert!(ends.contains(&good) && good <= to.0 && good >= from.0, "{what}: {survey:?}");
        let mut records = 0;
        let count = |_, _: &[u8]| {
            records += 1;
            Ok(())
        };
        walk_log(&file, &survey, ID, u64::MAX, count).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(records, survey.records, "{what}");
    }
}

/// A survey beside a writer finds records, and an end that is no cut, whenever the zeros behind them become further records.
#[test]
fn zeros_may_become_records_while_a_log_is_read() {
    let (all, ends) = growing_log();
    for (from, to) in ends.iter().enumerate().flat_map(|(at, from)| ends[at..].iter().map(move |to| (*from, *to))) {
        // The file is longer than all records, or ends in the midst of later ones.
        for len in [from, from + 7, from + 64, all.len(), all.len() + 300] {
            let (before, after) = (with_zeros(&all[..from], len), with_zeros(&all[..to], len));
            survey_while_it_changes(&ends, (from, &before), (to, &after));
        }
    }
}

/// A writer gives back the zeros behind its records when it seals the segment, or finds no space for more of them.
#[test]
fn a_log_may_become_shorter_while_it_is_read() {
    let (all, ends) = growing_log();
    for (from, to) in ends.iter().enumerate().flat_map(|(at, from)| ends[at..].iter().map(move |to| (*from, *to))) {
        for len in [from + 7, from + 64, all.len() + 300] {
            survey_while_it_changes(&ends, (from, &with_zeros(&all[..from], len)), (to, &all[..to]));
        }
    }
}

/// A manifest does not become shorter: whatever cuts it is damage. Neither does a log become shorter than its records.
#[test]
fn a_read_behind_the_end_of_a_file_that_keeps_its_length_is_an_error() {
    let file = Short { claimed: 100, there: 50 };
    for id in [ID, FileId::manifest(7)] {
        let error = survey_file(&file, Some(DB), id).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}

/// A file that has fewer bytes than it says.
#[derive(Debug)]
struct Short {
    claimed: u64,
    there: u64,
}

impl ReadAt for Short {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> store::Result<()> {
        buffer.fill(1);
        let is_there = offset + buffer.len() as u64 <= self.there;
        if is_there { Ok(()) } else { Err(StoreError::read(ID, offset, std::io::ErrorKind::UnexpectedEof.into())) }
    }

    fn len(&self) -> u64 {
        self.claimed
    }
}
