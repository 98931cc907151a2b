//! Long strings in steps: an upload is all or nothing, whatever happens meanwhile, and a reader sees one moment.

use super::{commit, stored};
use crate::keyspace::layout::{FamilyKind, PIECE};
use crate::keyspace::long::{HUGE, TOMBSTONES, Tombstones};
use crate::keyspace::{Error, Keyspace, Kind, LONG, Side, Upload};
use crate::testing::{Random, flush_at_rest, fresh, open};
use sinter_storage::store::{CrashMode, MemoryStore};
use std::sync::Arc;

/// A value with zeros in it.
fn value(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut value: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    value.get_mut(10 * PIECE..20 * PIECE).unwrap_or_default().fill(0);
    value
}

/// Gives an upload bytes in parts of odd lengths, each in a commit of its own.
fn upload(keyspace: &mut Keyspace, upload: &mut Upload, bytes: &[u8], random: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (some, behind) = rest.split_at((1 + random.below(1000)).min(rest.len()));
        keyspace.upload(upload, some);
        commit(keyspace);
        rest = behind;
    }
}

fn compact(keyspace: &Keyspace) {
    keyspace.syncer().sync().unwrap();
    keyspace.db().flush().unwrap();
    let elements = keyspace.db().family("elements").unwrap();
    keyspace.db().compact_range(&elements, None, None).unwrap();
}

fn get(keyspace: &mut Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    keyspace.string(0, key).unwrap().map(<[u8]>::to_vec)
}

#[test]
fn an_upload_is_seen_when_it_gets_a_key() {
    let (mut keyspace, mut random) = (fresh(), Random(1));
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3000, 20_000] {
        let new = value(length, length as u64);
        keyspace.set_string(0, b"k", b"old", None).unwrap();
        let mut coming = keyspace.begin_upload().unwrap();
        upload(&mut keyspace, &mut coming, &new, &mut random);
        // A filter that knows of no upload would take these pieces for those of a string that is gone.
        compact(&keyspace);
        assert_eq!(get(&mut keyspace, b"k"), Some(b"old".to_vec()));
        keyspace.set_uploaded(0, b"k", &coming, Some(2_000_000)).unwrap();
        assert_eq!(get(&mut keyspace, b"k"), Some(new.clone()), "{length} in the turn");
        commit(&mut keyspace);
        compact(&keyspace);
        assert_eq!(get(&mut keyspace, b"k"), Some(new), "{length}");
        assert_eq!(keyspace.find(0, b"k").unwrap().unwrap().deadline, Some(2_000_000));
    }
    keyspace.remove(0, b"k").unwrap();
    commit(&mut keyspace);
    compact(&keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 0, "also those that were written over");
}

#[test]
fn an_upload_that_is_not_wanted_leaves_nothing() {
    let (mut keyspace, mut random) = (fresh(), Random(2));
    let mut coming = keyspace.begin_upload().unwrap();
    upload(&mut keyspace, &mut coming, &value(5000, 1), &mut random);
    compact(&keyspace);
    assert!(stored(&keyspace, FamilyKind::Elements) > 250);
    keyspace.drop_upload(&coming);
    compact(&keyspace);
    assert_eq!((stored(&keyspace, FamilyKind::Elements), keyspace.size(0)), (0, 0));
    // A key that cannot be.
    let long = vec![b'k'; 2 << 20];
    assert!(matches!(keyspace.set_string(0, &long, &vec![1; LONG], None), Err(Error::TooLong(_))));
    assert!(keyspace.uploads.is_empty());
}

/// At any moment of an upload the power may fail: the key has its old value or the whole new one, and what came of a value that never got
/// a key goes with the next compaction.
#[test]
fn a_crash_leaves_the_old_value_or_the_new_one() {
    let (old, new) = (value(3000, 3), value(4000, 4));
    for moment in 0..24u64 {
        let (store, mut random) = (Arc::new(MemoryStore::new()), Random(moment));
        let mut keyspace = open(&store, 1);
        keyspace.set_string(0, b"k", b"older", None).unwrap();
        let mut first = keyspace.begin_upload().unwrap();
        keyspace.upload(&mut first, &old);
        keyspace.set_uploaded(0, b"k", &first, None).unwrap();
        commit(&mut keyspace);
        keyspace.syncer().sync().unwrap();
        let mut coming = keyspace.begin_upload().unwrap();
        let parts = new.chunks(new.len() / 20);
        for part in parts.take(moment as usize) {
            keyspace.upload(&mut coming, part);
            commit(&mut keyspace);
            if random.below(4) == 0 {
                compact(&keyspace);
            }
        }
        let is_whole = moment >= 20;
        if is_whole {
            keyspace.set_uploaded(0, b"k", &coming, None).unwrap();
            commit(&mut keyspace);
        }
        if moment % 2 == 1 {
            keyspace.syncer().sync().unwrap();
        }
        let image = Arc::new(store.crash_with(if moment % 4 < 2 { CrashMode::DropUnsynced } else { CrashMode::KeepAll }));
        drop(keyspace);
        let mut after = open(&image, 2);
        let found = get(&mut after, b"k").unwrap();
        assert!(found == old || is_whole && found == new, "moment {moment}: {} bytes", found.len());
        compact(&after);
        assert_eq!(get(&mut after, b"k").unwrap(), found, "moment {moment}");
        let pieces = found.chunks(PIECE).filter(|piece| piece.iter().any(|byte| *byte != 0)).count();
        assert_eq!(stored(&after, FamilyKind::Elements), 1 + pieces, "moment {moment}: pieces of nobody");
    }
}

#[test]
fn removing_everything_spares_what_is_coming_in() {
    let (mut keyspace, mut random) = (fresh(), Random(3));
    let new = value(3000, 5);
    let (mut a, mut b) = (keyspace.begin_upload().unwrap(), keyspace.begin_upload().unwrap());
    keyspace.set_string(0, b"other", &value(LONG, 6), None).unwrap();
    upload(&mut keyspace, &mut a, &new[..1500], &mut random);
    keyspace.upload(&mut b, &new[..1000]);
    keyspace.clear_all().unwrap();
    keyspace.upload(&mut b, &new[1000..]);
    commit(&mut keyspace);
    upload(&mut keyspace, &mut a, &new[1500..], &mut random);
    keyspace.clear(0).unwrap();
    keyspace.set_uploaded(0, b"a", &a, None).unwrap();
    keyspace.set_uploaded(0, b"b", &b, None).unwrap();
    commit(&mut keyspace);
    compact(&keyspace);
    assert_eq!((get(&mut keyspace, b"a"), get(&mut keyspace, b"b"), keyspace.size(0)), (Some(new.clone()), Some(new), 2));
    keyspace.clear_all().unwrap();
    commit(&mut keyspace);
    compact(&keyspace);
    assert_eq!(stored(&keyspace, FamilyKind::Elements), 0);
}

/// A client learns that a batch with a part of its value has failed when its command runs.
#[test]
fn a_value_that_lost_a_part_is_refused() {
    let mut keyspace = fresh();
    keyspace.set_string(0, b"k", b"old", None).unwrap();
    commit(&mut keyspace);
    let mut coming = keyspace.begin_upload().unwrap();
    keyspace.upload(&mut coming, &value(1000, 7));
    keyspace.discard();
    keyspace.upload(&mut coming, &value(1000, 8));
    assert!(keyspace.is_committed(), "the rest is of no use");
    assert!(matches!(keyspace.set_uploaded(0, b"k", &coming, None), Err(Error::Lost)));
    keyspace.drop_upload(&coming);
    commit(&mut keyspace);
    assert_eq!(get(&mut keyspace, b"k"), Some(b"old".to_vec()));
}

#[test]
fn a_reader_sees_one_moment() {
    let mut keyspace = fresh();
    let old = value(LONG + 5, 9);
    keyspace.set_string(0, b"k", &old, None).unwrap();
    for is_committed in [false, true] {
        if is_committed {
            commit(&mut keyspace);
        }
        assert_eq!(keyspace.string_length(0, b"k").unwrap(), Some(old.len() as u64));
        assert!(keyspace.string_reader(6, u64::MAX).is_none(), "what is not long is read at once");
        let mut readers = [keyspace.string_reader(0, u64::MAX).unwrap(), keyspace.string_reader(3, LONG as u64 + 4).unwrap()];
        let expected = [&old[..], &old[3..LONG + 4]];
        for (step, most) in [(0, 1), (1, 1000), (2, 100_000)] {
            let mut read = Vec::new();
            readers[0].read(most, &mut read).unwrap();
            assert_eq!(read.len(), most);
            // The string is changed, then deleted, then removed by a compaction.
            match step {
                0 => keyspace.change_string(0, b"k", |string| string.write(5, b"other").map(|()| true)).unwrap(),
                1 => _ = keyspace.remove(0, b"k").unwrap(),
                _ => compact(&keyspace),
            }
            commit(&mut keyspace);
        }
        for (mut reader, expected) in readers.into_iter().zip(expected) {
            let (mut read, left) = (Vec::new(), reader.left() as usize);
            while reader.left() > 0 {
                reader.read(300_000, &mut read).unwrap();
            }
            assert!(read == expected[expected.len() - left..]);
        }
        keyspace.set_string(0, b"k", &old, None).unwrap();
    }
}

#[test]
fn a_value_that_is_read_once_leaves_the_cache_to_others() {
    let mut keyspace = fresh();
    let mut coming = keyspace.begin_upload().unwrap();
    let bytes = value(100_000, 7);
    keyspace.upload(&mut coming, &bytes);
    commit(&mut keyspace);
    keyspace.db().flush().unwrap();
    let before = keyspace.memory().cache;
    assert_eq!(keyspace.read_upload(&coming).unwrap(), bytes);
    let after = keyspace.memory().cache;
    // Indexes and filters of its tables may have come in.
    assert!(after - before < 50_000, "{before} bytes, then {after}");
    keyspace.drop_upload(&coming);
}

#[test]
fn tables_of_a_huge_string_go_with_it() {
    for replaced in [false, true] {
        let mut keyspace = fresh();
        let (bytes, other) = (value(HUGE as usize, 8), value(HUGE as usize - 1, 9));
        for (key, bytes) in [(b"a", &other), (b"k", &bytes), (b"z", &other)] {
            let mut coming = keyspace.begin_upload().unwrap();
            keyspace.upload(&mut coming, bytes);
            keyspace.set_uploaded(0, key, &coming, None).unwrap();
            commit(&mut keyspace);
        }
        compact(&keyspace);
        let tables = |keyspace: &Keyspace| keyspace.db().stats().live_table_bytes;
        let before = tables(&keyspace);
        if replaced {
            keyspace.set_string(0, b"k", b"new", None).unwrap();
        } else {
            assert!(keyspace.remove(0, b"k").unwrap());
        }
        commit(&mut keyspace);
        keyspace.set_now(keyspace.now() + 60_000);
        flush_at_rest(&mut keyspace);
        let after = tables(&keyspace);
        assert!(after < before * 5 / 6, "{before} bytes, then {after}");
        assert_eq!(get(&mut keyspace, b"k"), replaced.then(|| b"new".to_vec()));
        assert!(get(&mut keyspace, b"a") == Some(other.clone()) && get(&mut keyspace, b"z") == Some(other));
    }
}

#[test]
fn tables_of_elements_go_with_all_keys() {
    let mut keyspace = fresh();
    for key in 0..1000u32 {
        let mut edit = keyspace.edit(0, b"list", Kind::List).unwrap();
        keyspace.push(&mut edit, Side::Right, &value(500, u64::from(key))).unwrap();
        keyspace.finish(&edit);
    }
    commit(&mut keyspace);
    compact(&keyspace);
    let before = keyspace.db().stats().live_table_bytes;
    keyspace.clear_all().unwrap();
    commit(&mut keyspace);
    keyspace.set_now(keyspace.now() + 60_000);
    flush_at_rest(&mut keyspace);
    let after = keyspace.db().stats().live_table_bytes;
    assert!(after < before / 10, "{before} bytes, then {after}");
}

#[test]
fn range_tombstones_come_no_faster_than_one_a_second() {
    let mut tombstones = Tombstones::default();
    let mut taken = |from: u64, to: u64| (from..to).filter(|now| tombstones.take(*now)).count() as u64;
    assert_eq!(taken(1_000_000, 1_000_900), TOMBSTONES);
    assert_eq!(taken(1_000_900, 1_011_000), 10);
    // After a long pause there are no more than at first, and a clock that goes back brings none.
    assert_eq!(taken(9_000_000, 9_000_900), TOMBSTONES);
    assert_eq!(taken(2_000_000, 2_000_900), 0);
}

#[test]
fn tables_that_huge_strings_share_go_with_the_last_of_them() {
    let mut keyspace = fresh();
    let bytes = value(HUGE as usize, 8);
    for key in 0..6u8 {
        let mut coming = keyspace.begin_upload().unwrap();
        keyspace.upload(&mut coming, &bytes);
        keyspace.set_uploaded(0, &[key], &coming, None).unwrap();
    }
    commit(&mut keyspace);
    compact(&keyspace);
    let tables = |keyspace: &Keyspace| keyspace.db().stats().live_table_bytes;
    let before = tables(&keyspace);
    for key in 0..6u8 {
        assert!(keyspace.remove(0, &[key]).unwrap());
    }
    commit(&mut keyspace);
    keyspace.db().flush().unwrap();
    keyspace.db().wait_for_compactions().unwrap();
    let after = tables(&keyspace);
    // Only the tombstones and keys remain.
    assert!(after < before / 10, "{before} bytes, then {after}");
}
