//! Zeros are no record, wherever a log begins them: a file may have them behind its last record.

use super::super::frame::{RECORD_HEADER, header_at};
use super::*;

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
