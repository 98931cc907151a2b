//! Streams as values: out and in again, and what is wrong with one that is put in.

use super::{LoadError, Pieces, dump, load};
use crate::keyspace::{EntryId, Keyspace, Kind, Pending, encode_fields};
use crate::rdb::{Input, Nodes, Output, StreamEntryId, StreamState, Version, kind, open_value, read_value};
use crate::testing::{Random, fresh};

const KEY: (usize, &[u8]) = (0, b"k");

/// Loads what `DUMP` gave; false: nothing was loaded.
fn restore(keyspace: &mut Keyspace, value: &[u8]) -> Result<bool, LoadError> {
    load(keyspace, KEY, None, Pieces::Whole, |visit| {
        let mut input = Input::new(value);
        let of = input.byte()?;
        read_value(&mut input, of, visit)
    })
}

fn dumped(keyspace: &mut Keyspace) -> Vec<u8> {
    let head = keyspace.find(KEY.0, KEY.1).unwrap().unwrap();
    let body = keyspace.body(&head).unwrap();
    let payload = dump(keyspace, &head, &body).unwrap();
    open_value(&payload).unwrap().0.to_vec()
}

/// A stream with two groups, in the dump's bytes.
fn stream() -> Vec<u8> {
    let mut keyspace = fresh();
    let mut edit = keyspace.edit(KEY.0, KEY.1, Kind::Stream).unwrap();
    for n in 1..250 {
        keyspace.append(&mut edit, EntryId::new(n, 1), encode_fields(&[b"f", b"value", b"g", n.to_string().as_bytes()]));
    }
    keyspace.remove_entries(&mut edit, &[EntryId::new(3, 1)]).unwrap();
    keyspace.finish(&edit);
    for name in [&b"one"[..], b"two"] {
        keyspace.create_group(&edit.head, name, EntryId::new(9, 1), None).unwrap();
        let mut group = keyspace.edit_group(KEY, &edit.head, name).unwrap().unwrap();
        for (n, consumer) in [&b"a"[..], b"b", b"a"].into_iter().enumerate() {
            let number = keyspace.see_consumer(&mut group, consumer).unwrap();
            let pending = Pending { consumer: number, delivered: 5, deliveries: 1 };
            keyspace.set_pending(&mut group, EntryId::new(n as u64, 1), None, pending).unwrap();
        }
        keyspace.finish_group(group);
    }
    dumped(&mut keyspace)
}

#[test]
fn a_dump_that_is_restored_is_the_same_dump() {
    let value = stream();
    assert_eq!(value[0], kind::STREAM_2);
    let mut keyspace = fresh();
    assert!(restore(&mut keyspace, &value).unwrap());
    assert!(dumped(&mut keyspace) == value);
}

/// Without a checksum that would notice: an error that changes nothing, or a stream that can be read.
#[test]
fn streams_with_anything_in_them() {
    let (good, mut random) = (stream(), Random(5));
    let mut keyspace = fresh();
    keyspace.set_string(KEY.0, KEY.1, b"before", None).unwrap();
    let mut loaded = 0;
    for _ in 0..1000 {
        let mut wrong = good.clone();
        for _ in 0..=random.below(2) {
            // The part behind the entries is the smaller one.
            let at = if random.below(3) == 0 { random.below(wrong.len()) } else { wrong.len() - 1 - random.below(300) };
            wrong[at] = if random.below(2) == 0 { random.below(256) as u8 } else { wrong[at] ^ 1 << random.below(8) };
        }
        wrong[0] = kind::STREAM_2;
        match restore(&mut keyspace, &wrong) {
            Ok(is_there) => {
                assert!(is_there);
                let value = dumped(&mut keyspace);
                assert!(restore(&mut keyspace, &value).unwrap() && dumped(&mut keyspace) == value);
                keyspace.set_string(KEY.0, KEY.1, b"before", None).unwrap();
                loaded += 1;
            }
            Err(LoadError::Keyspace(error)) => panic!("{error}"),
            Err(_) => assert_eq!(keyspace.string(KEY.0, KEY.1).unwrap(), Some(&b"before"[..])),
        }
    }
    assert!((33..967).contains(&loaded), "{loaded} were loaded");
}

/// A group: its name, its pending entries, and by consumer those that it has.
type Parts<'a> = (&'a str, &'a [u64], &'a [(&'a str, &'a [u64])]);

/// A stream without entries and one group after the other.
fn groups(groups: &[Parts]) -> Vec<u8> {
    let id = |ms: u64| StreamEntryId { ms, seq: 0 };
    let mut out = Output::new(Vec::new());
    out.kind(kind::STREAM).unwrap();
    out.length(0).unwrap();
    out.stream_state(Version::Nine, &StreamState::default()).unwrap();
    out.length(groups.len() as u64).unwrap();
    for (name, pending, consumers) in groups {
        out.stream_group(Version::Nine, name.as_bytes(), id(0), None).unwrap();
        out.length(pending.len() as u64).unwrap();
        pending.iter().for_each(|ms| out.stream_pending(id(*ms), 1, 1).unwrap());
        out.length(consumers.len() as u64).unwrap();
        for (name, owned) in *consumers {
            out.stream_consumer(Version::Nine, name.as_bytes(), 1, None).unwrap();
            out.length(owned.len() as u64).unwrap();
            owned.iter().for_each(|ms| out.stream_owned(id(*ms)).unwrap());
        }
    }
    open_value(&out.end_of_value(Version::Nine).unwrap()).unwrap().0.to_vec()
}

#[test]
fn groups_that_contradict_themselves() {
    let mut keyspace = fresh();
    let mut restored = |value: &[Parts]| restore(&mut keyspace, &groups(value));
    assert!(restored(&[("g", &[1, 2], &[("a", &[2]), ("b", &[1])]), ("h", &[], &[("a", &[])])]).unwrap());
    for (wrong, is_twice) in [
        (restored(&[("g", &[], &[]), ("g", &[], &[])]), true),
        (restored(&[("g", &[], &[("a", &[]), ("a", &[])])]), true),
        // Owned by two, and by nobody.
        (restored(&[("g", &[1, 2], &[("a", &[1]), ("b", &[1])])]), false),
        // Not pending.
        (restored(&[("g", &[1], &[("a", &[3])])]), false),
    ] {
        match wrong.unwrap_err() {
            LoadError::Twice => assert!(is_twice),
            LoadError::Unowned => assert!(!is_twice),
            other => panic!("{other}"),
        }
    }
}

/// Names of fields that a node has once may be meant for very many entries.
#[test]
fn a_small_value_that_stands_for_a_large_one() {
    let field = "x".repeat(1 << 20);
    let mut out = Output::new(Vec::new());
    out.kind(kind::STREAM).unwrap();
    let count = 700;
    let mut nodes = Nodes::default();
    let mut all = Vec::new();
    for n in 0..count {
        all.extend(nodes.add(StreamEntryId { ms: n + 1, seq: 0 }, &[(field.as_str(), "")]));
    }
    all.extend(nodes.end());
    out.length(all.len() as u64).unwrap();
    all.iter().for_each(|node| out.stream_node(node).unwrap());
    let state = StreamState { length: count, last: StreamEntryId { ms: count, seq: 0 }, ..StreamState::default() };
    out.stream_state(Version::Nine, &state).unwrap();
    out.length(0).unwrap();
    let value = open_value(&out.end_of_value(Version::Nine).unwrap()).unwrap().0.to_vec();
    assert!(value.len() < 10 << 20, "{} bytes", value.len());
    let mut keyspace = fresh();
    assert!(matches!(restore(&mut keyspace, &value), Err(LoadError::TooLarge)));
    assert!(keyspace.is_committed() && keyspace.find(KEY.0, KEY.1).unwrap().is_none());
}
