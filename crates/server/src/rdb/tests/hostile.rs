//! Bytes that no Redis has written: every one of them is an error that says where it is, and none takes memory that it only claims to need.

use super::super::streams::FIELDS_MAX;
use super::values::one_of_each;
use super::*;
use crate::testing::Random;

fn whole() -> Vec<u8> {
    let mut body = b"\xfa\x03abc\x03def\xfe\x00\xfb\x14\x00".to_vec();
    let of_redis = one_of_each().into_iter().filter(|(of, _)| *of != kind::HASH_VALKEY);
    for (n, (of, value)) in of_redis.enumerate() {
        body.push(of);
        body.extend(string(n.to_string().as_bytes()));
        body.extend(value);
    }
    file(12, &body)
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let bytes = whole();
    assert!(read_file(&bytes).is_ok());
    for end in 0..bytes.len() {
        match read_file(&bytes[..end]) {
            Err(Error::Ends { at, .. }) => assert!(at <= end as u64, "cut at {end}: said {at}"),
            other => panic!("cut at {end}: {other:?}"),
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = whole();
    // Below version 5 there is no checksum, so a flip that makes such a version may pass.
    for at in (0..5).chain(9..bytes.len()) {
        for bit in 0..8 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            assert!(read_file(&wrong).is_err(), "byte {at}, bit {bit}");
        }
    }
}

/// Without a checksum that would notice: any result but a panic, and no end outside the bytes.
#[test]
fn values_with_anything_in_them_do_not_panic() {
    let mut random = Random(7);
    for (of, value) in one_of_each() {
        for _ in 0..4000 {
            let mut wrong = value.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(wrong.len());
                wrong[at] = if random.below(2) == 0 { random.below(256) as u8 } else { wrong[at] ^ 1 << random.below(8) };
            }
            let _ = skip_value(&mut Input::new(&wrong[..]), of);
            let mut input = Input::new(&wrong[..]);
            let mut elements = 0;
            let _ = read_value::<_, Error>(&mut input, of, &mut |_| {
                elements += 1;
                Ok(())
            });
            assert!(elements <= 300 * wrong.len(), "type {of}: {elements} elements of {} bytes", wrong.len());
        }
    }
}

#[test]
fn claims_take_no_memory() {
    for claim in [1u64 << 20, 1 << 29, (1 << 29) + 1, 1 << 31, 1 << 40, 1 << 63, u64::MAX] {
        let claimed = [&b"\x81"[..], &claim.to_be_bytes()].concat();
        for of in 0..=kind::STREAM_3 {
            for behind in [&b""[..], b"\x01a", b"\x02\x01a"] {
                assert!(read(of, &[&claimed[..], behind].concat()).is_err(), "type {of}, {claim}");
            }
        }
        let mut out = Vec::new();
        let error = Input::new(&[&claimed[..], b"abc"].concat()[..]).string(&mut out).unwrap_err();
        assert_eq!(matches!(error, Error::Ends { .. }), claim <= STRING_MAX, "{error}");
        assert!(out.capacity() < 4096, "{} bytes for a claim of {claim}", out.capacity());
        // A compressed string with such a length: of its compressed bytes, then of the decoded ones.
        for packed in [[b"\xc3", &claimed[..], b"\x0f\x00x"].concat(), [b"\xc3\x02", &claimed[..], b"\x00x"].concat()] {
            let mut out = Vec::new();
            assert!(Input::new(&packed[..]).string(&mut out).is_err());
            assert!(out.capacity() < 4096);
        }
    }
}

/// A string of a few megabytes in a file can be half a gigabyte of small fields, and these many gigabytes in memory.
#[test]
fn entries_have_no_more_fields_than_requests() {
    let node = |fields: u64| {
        let ones = std::iter::repeat_n(Part::Number(1), fields as usize);
        let parts: Vec<Part> = [0, 0, fields as i64].map(Part::Number).into_iter().chain(ones).chain([Part::Number(0)]).collect();
        [&b"\x01"[..], &string(&[0; 16]), &string(&listpack(&parts)), b"\0\0\0\0"].concat()
    };
    assert_eq!(read(kind::STREAM, &node(FIELDS_MAX)).map(|found| found.len()).ok(), Some(1));
    assert!(matches!(read(kind::STREAM, &node(FIELDS_MAX + 1)), Err(Error::Damaged { .. })));
}

#[test]
fn headers_of_packs_that_claim_more_than_there_is() {
    let parts = [text("a"), Part::Number(1)];
    for (of, good) in [(kind::LIST_ZIPLIST, ziplist(&parts)), (kind::SET_LISTPACK, listpack(&parts))] {
        for end in 0..good.len() {
            assert!(matches!(read(of, &string(&good[..end])), Err(Error::Damaged { .. })), "type {of} cut at {end}");
        }
        for at in 0..4 {
            let mut wrong = good.clone();
            wrong[at] = 0xff;
            assert!(matches!(read(of, &string(&wrong)), Err(Error::Damaged { .. })), "type {of}, byte {at}");
        }
        assert!(read(of, &string(&[&good[..], b"\xff"].concat())).is_err(), "type {of} with more behind it");
    }
    // The last entry of a ziplist is elsewhere.
    for last in [0, 10, 12, 14, 100, u32::MAX] {
        let mut wrong = ziplist(&parts);
        wrong[4..8].copy_from_slice(&last.to_le_bytes());
        assert!(matches!(read(kind::LIST_ZIPLIST, &string(&wrong)), Err(Error::Damaged { .. })), "at {last}");
    }
}
