//! Redis's file format: any bytes, as a file and as a single value, give records or an error, and no more elements than they can hold.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_server::rdb::{Element, Error, Input, Output, Reader, Record, Version, crc64, kind, open_value, read_value};
use sinterdb_fuzz::seed;

/// Elements that a byte can stand for: LZF makes at most 88 of one, and an element takes a byte.
const PER_BYTE: usize = 300;

/// A file, or what comes behind the head of one whose version has no checksum.
fn file(bytes: &[u8]) -> usize {
    let mut elements = 0;
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    loop {
        match reader.record() {
            Err(_) | Ok(Record::End) => return elements,
            Ok(Record::Key(key)) if key.name.len() % 2 == 0 => {
                let read = reader.value::<Error>(&mut |_| {
                    elements += 1;
                    Ok(())
                });
                if read.is_err() {
                    return elements;
                }
            }
            Ok(_) => elements += 1,
        }
    }
}

/// A value as `DUMP` gives it.
fn wrapped(of: u8, bytes: &[u8]) -> Vec<u8> {
    let mut payload = [&[of][..], bytes, &[9, 0]].concat();
    let crc = crc64(0, &payload).to_le_bytes();
    payload.extend(crc);
    payload
}

fn value(of: u8, bytes: &[u8]) -> usize {
    let mut elements = 0;
    let mut input = Input::new(bytes);
    let read = read_value::<_, Error>(&mut input, of, &mut |element| {
        if let Element::Scored(_, score) = element {
            assert!(!score.is_nan(), "a score that is no number");
        }
        elements += 1;
        Ok(())
    });
    assert!(input.position() <= bytes.len() as u64, "more than there was");
    if read.is_ok() {
        let payload = wrapped(of, bytes);
        assert_eq!(open_value(&payload), payload.get(..=bytes.len()), "what is inside is another");
    }
    // Whatever it is.
    let _ = open_value(bytes);
    elements
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vec![
        b"\x01\x00\x03abc".to_vec(),
        b"\x01\x00\xc3\x05\x0f\x00x\xe0\x05\x00".to_vec(),
        b"\x01\x0a\x10\x10\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\xf2\xff".to_vec(),
        b"\x01\x14\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff".to_vec(),
        b"\x01\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0".to_vec(),
        b"\x01\x09\x08\x01\x01a\x01\x01b?\xff".to_vec(),
    ];
    let mut out = Output::new(Vec::new());
    let written = out
        .head(Version::Nine)
        .and_then(|()| out.aux("a", "b"))
        .and_then(|()| out.database(0, 1, 0))
        .and_then(|()| out.key(kind::SET, b"key", Some(5)))
        .and_then(|()| out.length(1))
        .and_then(|()| out.string(b"member"));
    if written.is_ok()
        && let Ok(bytes) = out.end()
    {
        all.push([&[0][..], &bytes].concat());
        all.push([&[2][..], &bytes[9..]].concat());
    }
    all
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else { return };
    let elements = match mode % 3 {
        0 => {
            // Its checksum made right, so that damage is looked for further on.
            let mut whole = bytes.to_vec();
            if let Some(end) = whole.len().checked_sub(8) {
                let crc = crc64(0, &whole[..end]).to_le_bytes();
                whole[end..].copy_from_slice(&crc);
            }
            file(&whole)
        }
        1 => bytes.split_first().map_or(0, |(of, bytes)| value(*of, bytes)),
        _ => file(&[&b"REDIS0004"[..], bytes].concat()),
    };
    assert!(elements <= PER_BYTE * (bytes.len() + 16), "{elements} elements of {} bytes", bytes.len());
});
