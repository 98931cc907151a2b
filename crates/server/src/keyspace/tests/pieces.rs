//! Strings that are changed in part, against plain ones.

use super::super::layout::{FamilyKind, PIECE};
use super::super::pieces::PIECES_FROM;
use super::super::{Error, Head, Keyspace, Kind, StringEdit};
use super::{commit, get, stored};
use crate::testing::{Random, fresh, open};
use sinter_storage::store::MemoryStore;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

fn write(keyspace: &mut Keyspace, key: &[u8], at: u64, bytes: &[u8]) {
    let change = |string: &mut StringEdit| {
        string.grow(at + bytes.len() as u64);
        string.write(at, bytes)?;
        Ok(true)
    };
    keyspace.change_string(0, key, change).unwrap();
}

fn head(keyspace: &mut Keyspace, key: &[u8]) -> Head {
    keyspace.find(0, key).unwrap().unwrap()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn change(keyspace: &mut Keyspace, model: &mut Model, random: &mut Random) {
    let (key, other) = (random.bytes(1, b"abc"), random.bytes(1, b"abc"));
    match random.below(16) {
        0 => {
            let value = random.bytes(200, b"xyz\0");
            keyspace.set_string(0, &key, &value, None).unwrap();
            model.insert(key, value);
        }
        1 => assert_eq!(keyspace.remove(0, &key).unwrap(), model.remove(&key).is_some()),
        2 => {
            assert_eq!(keyspace.rename((0, &key), (0, &other)).unwrap(), model.contains_key(&key));
            let held = model.remove(&key);
            model.extend(held.map(|held| (other, held)));
        }
        3 if key != other => {
            assert_eq!(keyspace.copy((0, &key), (0, &other)).unwrap(), model.contains_key(&key));
            let held = model.get(&key).cloned();
            model.extend(held.map(|held| (other, held)));
        }
        4 => assert_eq!(keyspace.set_deadline(0, &key, None).unwrap(), model.contains_key(&key)),
        _ => {
            let (at, bytes) = (random.below(500), random.bytes(3 * PIECE, b"\0\0\0x"));
            let mut seen = vec![1; 7];
            let edit = |string: &mut StringEdit| {
                string.read(at as u64, &mut seen)?;
                string.grow((at + bytes.len()) as u64);
                string.write(at as u64, &bytes)?;
                Ok(true)
            };
            keyspace.change_string(0, &key, edit).unwrap();
            let value = model.entry(key).or_default();
            let before: Vec<u8> = (at..at + 7).map(|at| value.get(at).copied().unwrap_or(0)).collect();
            assert_eq!(seen, before);
            value.resize(value.len().max(at + bytes.len()), 0);
            value[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

fn check(keyspace: &mut Keyspace, model: &Model, random: &mut Random) {
    for key in [&b""[..], b"a", b"b", b"c"] {
        let value = model.get(key);
        let length = value.map(|value| value.len() as u64);
        assert_eq!(keyspace.string_length(0, key).unwrap(), length);
        let (from, to) = (random.below(700), random.below(700));
        let part = value.and_then(|value| value.get(from..to.min(value.len()))).unwrap_or_default();
        assert_eq!(keyspace.string_part(from as u64, to as u64).unwrap(), part, "{key:?} {from} {to}");
        if from < to {
            let (mut walked, least) = (Vec::new(), random.below(100));
            keyspace
                .walk_string(from as u64, to as u64, &mut |at, bytes| {
                    assert_eq!(at, (from + walked.len()) as u64);
                    walked.extend_from_slice(bytes);
                    if walked.len() > least { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap();
            assert!(part.starts_with(&walked) && walked.len() >= part.len().min(least), "{key:?} {from} {to}");
        }
        assert_eq!(get(keyspace, key).as_ref(), value, "{key:?}");
        // A string joined from its pieces is found again.
        assert_eq!((get(keyspace, key).as_ref(), keyspace.string_length(0, key).unwrap()), (value, length));
    }
}

#[test]
fn random_changes_do_what_they_do_to_plain_strings() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let store = Arc::new(MemoryStore::new());
        let mut keyspace = open(&store, seed);
        let (mut model, mut committed) = (Model::new(), Model::new());
        for _ in 0..150 {
            (0..random.below(6)).for_each(|_| change(&mut keyspace, &mut model, &mut random));
            match random.below(8) {
                0 => {
                    keyspace.discard();
                    model = committed.clone();
                }
                1 if random.below(4) == 0 => {
                    keyspace.close().unwrap();
                    keyspace = open(&store, seed);
                }
                2..6 => commit(&mut keyspace),
                _ => {}
            }
            if keyspace.is_committed() {
                committed = model.clone();
            }
            check(&mut keyspace, &model, &mut random);
        }
    }
}

#[test]
fn a_long_string_takes_what_was_written_to_it() {
    let mut keyspace = fresh();
    write(&mut keyspace, b"sparse", 400 << 20, b"x");
    assert_eq!((keyspace.string_length(0, b"sparse").unwrap(), stored(&keyspace, FamilyKind::Elements)), (Some((400 << 20) + 1), 2));
    assert!(keyspace.uncommitted() < 200);
    commit(&mut keyspace);
    keyspace.string_length(0, b"sparse").unwrap();
    assert_eq!(&*keyspace.string_part((400 << 20) - 1, u64::MAX).unwrap(), b"\0x");
    // A piece that becomes zeros is removed, and another write of zeros costs nothing.
    write(&mut keyspace, b"sparse", 400 << 20, b"\0");
    write(&mut keyspace, b"sparse", 9, &[0; 5 * PIECE]);
    commit(&mut keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 1, "it exists");
    assert_eq!(head(&mut keyspace, b"sparse").kind, Kind::String);
    // A change of some bytes writes a piece, not the string.
    keyspace.set_string(0, b"long", &[b'l'; 1000 * PIECE], Some(5_000_000)).unwrap();
    commit(&mut keyspace);
    assert!(!head(&mut keyspace, b"long").is_in_pieces());
    write(&mut keyspace, b"long", 5, b"!");
    commit(&mut keyspace);
    let first = head(&mut keyspace, b"long");
    assert_eq!((first.is_in_pieces(), first.count, first.deadline), (true, 1000 * PIECE as u64, Some(5_000_000)));
    write(&mut keyspace, b"long", 999 * PIECE as u64 - 1, b"??");
    assert!(keyspace.uncommitted() < 5 * PIECE + 100, "{}", keyspace.uncommitted());
    assert_eq!(head(&mut keyspace, b"long"), first);
    commit(&mut keyspace);
    // Setting it takes the pieces away, as deleting it does.
    keyspace.set_string(0, b"long", b"short", None).unwrap();
    assert!(!head(&mut keyspace, b"long").is_in_pieces() && keyspace.remove(0, b"sparse").unwrap());
    commit(&mut keyspace);
    keyspace.syncer().sync().unwrap();
    keyspace.db().flush().unwrap();
    let elements = keyspace.db().family("elements").unwrap();
    keyspace.db().compact_range(&elements, None, None).unwrap();
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 0);
}

#[test]
fn a_string_lies_in_pieces_from_a_length_on() {
    let mut keyspace = fresh();
    for (length, is_in_pieces) in [(PIECES_FROM - 1, false), (PIECES_FROM, true)] {
        write(&mut keyspace, b"a", length - 1, b"x");
        assert_eq!(head(&mut keyspace, b"a").is_in_pieces(), is_in_pieces, "{length}");
    }
    // A change that only reads changes nothing.
    keyspace.set_string(0, b"b", &[b'b'; 200], None).unwrap();
    commit(&mut keyspace);
    keyspace.change_string(0, b"b", |string| string.read(3, &mut [0; 4]).map(|()| false)).unwrap();
    assert!(keyspace.is_committed() && !head(&mut keyspace, b"b").is_in_pieces());
    // Nor does what fails.
    let failed = keyspace.change_string(0, b"b", |string| {
        string.grow(1000);
        Err(Error::TooLong("this"))
    });
    assert!(matches!(failed, Err(Error::TooLong(_))) && keyspace.is_committed());
    assert_eq!(get(&mut keyspace, b"b"), Some(vec![b'b'; 200]));
}
