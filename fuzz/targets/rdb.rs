//! Redis's file format: any bytes, as a file and as a single value, give records or an error, and no more elements than they can hold. A
//! value that a key can have can be dumped, and the dump is that of the same value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_server::keyspace::Keyspace;
use sinter_server::persist::{Pieces, dump, load};
use sinter_server::rdb::{Element, Error, Input, Nodes, Output, Reader, Record, StreamElement, StreamEntryId, StreamState, Version};
use sinter_server::rdb::{crc64, kind, open_value, read_value};
use sinter_storage::store::MemoryStore;
use sinterdb::settings::{DbSettings, Settings};
use sinterdb_fuzz::seed;
use std::cell::RefCell;
use std::sync::Arc;

/// Elements that a byte can stand for: LZF makes at most 88 of one, and an element takes a byte.
const PER_BYTE: usize = 300;
/// Bytes of elements up to which a value is put into a keyspace.
const LOADED_MAX: usize = 8 << 20;

thread_local! {
    /// Nothing is ever committed to it.
    static KEYSPACE: RefCell<Keyspace> = RefCell::new(keyspace());
}

fn keyspace() -> Keyspace {
    let settings = Settings { db: DbSettings { max_background_jobs: 0, ..DbSettings::default() }, ..Settings::default() };
    Keyspace::open(Arc::new(MemoryStore::new()), &settings, 1).expect("an empty store can be opened")
}

/// Puts a value into a key; its dump.
fn restored(keyspace: &mut Keyspace, of: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    let loaded = load(keyspace, (0, b"key"), None, Pieces::Whole, |visit| read_value(&mut Input::new(bytes), of, visit));
    if !loaded.ok()? {
        return None;
    }
    let head = keyspace.find(0, b"key").expect("what was loaded can be read").expect("what was loaded is there");
    let body = keyspace.body(&head).expect("what was loaded can be read");
    let payload = dump(keyspace, &head, &body).expect("what was loaded can be dumped");
    open_value(&payload).map(|(value, _)| value.to_vec())
}

/// Bytes of an element.
fn size(element: &Element) -> usize {
    match element {
        Element::Text(text) | Element::Item(text) | Element::Member(text) | Element::Scored(text, _) => text.len(),
        Element::Field(field, value, _) => field.len() + value.len(),
        Element::Stream(StreamElement::Entry { fields, .. }) => fields.iter().map(|(field, value)| 4 + field.len() + value.len()).sum(),
        Element::Stream(StreamElement::Group { name, .. } | StreamElement::Consumer { name, .. }) => name.len(),
        Element::Stream(_) => 0,
    }
}

/// A value into a key and out again, twice.
fn key(of: u8, bytes: &[u8]) {
    let mut total = 0usize;
    let read = read_value::<_, Error>(&mut Input::new(bytes), of, &mut |element| {
        total = total.saturating_add(64 + size(&element));
        Ok(())
    });
    if read.is_err() || total > LOADED_MAX {
        return;
    }
    KEYSPACE.with_borrow_mut(|keyspace| {
        let Some(first) = restored(keyspace, of, bytes) else { return keyspace.discard() };
        let (of, bytes) = first.split_first().expect("a dump has a type");
        let second = restored(keyspace, *of, bytes);
        assert!(second.as_ref() == Some(&first), "two dumps of the same differ");
        keyspace.discard();
    });
}

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
        assert_eq!(open_value(&payload).map(|(value, _)| value), payload.get(..=bytes.len()), "what is inside is another");
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
        b"\x03\x18\x09\0\0\0\0\0\0\0\x02\x05\x01a\x01b\0\x01c\x01d".to_vec(),
        b"\x03\x19\x09\0\0\0\0\0\0\0\x0e\x0e\0\0\0\x03\0\x81a\x02\x05\x01\x09\x01\xff".to_vec(),
        b"\x03\xf0\x01\x01a\x01b\x05\0\0\0\0\0\0\0".to_vec(),
    ];
    all.extend(stream_seed().map(|value| [&[3][..], &value].concat()));
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

/// A stream with a group.
fn stream_seed() -> Option<Vec<u8>> {
    let id = |ms| StreamEntryId { ms, seq: 0 };
    let mut nodes = Nodes::default();
    nodes.add(id(1), &[("a", "b")]);
    nodes.add(id(2), &[("a", "1")]);
    let (node, version) = (nodes.end()?, Version::Eleven);
    let state = StreamState { length: 2, first: id(1), last: id(2), max_deleted: id(0), added: 2 };
    let mut out = Output::new(Vec::new());
    out.kind(kind::STREAM_3)
        .and_then(|()| out.length(1))
        .and_then(|()| out.stream_node(&node))
        .and_then(|()| out.stream_state(version, &state))
        .and_then(|()| out.length(1))
        .and_then(|()| out.stream_group(version, b"group", id(1), Some(1)))
        .and_then(|()| out.length(1))
        .and_then(|()| out.stream_pending(id(1), 5, 1))
        .and_then(|()| out.length(1))
        .and_then(|()| out.stream_consumer(version, b"me", 5, Some(5)))
        .and_then(|()| out.length(1))
        .and_then(|()| out.stream_owned(id(1)))
        .ok()?;
    open_value(&out.end_of_value(version).ok()?).map(|(value, _)| value.to_vec())
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let Some((mode, bytes)) = data.split_first() else { return };
    let elements = match mode % 4 {
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
        3 => {
            bytes.split_first().into_iter().for_each(|(of, bytes)| key(*of, bytes));
            0
        }
        _ => file(&[&b"REDIS0004"[..], bytes].concat()),
    };
    assert!(elements <= PER_BYTE * (bytes.len() + 16), "{elements} elements of {} bytes", bytes.len());
});
