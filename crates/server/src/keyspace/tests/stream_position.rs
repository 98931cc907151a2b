//! The replication stream in the keyspace: offset and data agree, and stored bytes have no hole, whatever ends the process.

use super::{commit, few, get, stored};
use crate::keyspace::backlog::BACKLOG;
use crate::keyspace::layout::{FamilyKind, ID_MAX};
use crate::keyspace::{Error, Keyspace, Kind, StreamId, StreamPosition};
use crate::testing::{Random, fresh, open, small_settings};
use parking_lot::Mutex;
use sinter_storage::store::{CrashMode, FaultStore, MemoryStore, Store};
use sinterdb::ledger::Ticker;
use sinterdb::{Durability, WriteOptions};
use std::sync::Arc;

fn id(letter: u8) -> StreamId {
    StreamId::parse(&[letter; 40]).unwrap()
}

/// Byte of the stream at an offset.
fn byte(offset: u64) -> u8 {
    (offset * 31 % 251) as u8
}

fn bytes(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(byte).collect()
}

/// A turn that feeds so many bytes, and sets a key to the offset behind them.
fn feed(keyspace: &mut Keyspace, count: usize) {
    let from = keyspace.stream().unwrap().offset;
    let to = from + count as u64;
    keyspace.feed(&bytes(from, from + count as u64 / 3), Some(3));
    keyspace.feed(&bytes(from + count as u64 / 3, to), Some((to % 16) as usize));
    keyspace.set_string(0, b"offset", to.to_string().as_bytes(), None).unwrap();
}

fn read(keyspace: &Keyspace, from: u64, most: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        keyspace.read_backlog(from + before as u64, most - before, &mut out)?;
        if out.len() == before || out.len() == most {
            return Ok(out);
        }
    }
}

/// Checks that data, offset and stored bytes agree.
fn check(keyspace: &mut Keyspace, about: &str) {
    let position = *keyspace.stream().unwrap();
    let (start, end) = (keyspace.backlog_start(), position.offset);
    let of_data = get(keyspace, b"offset").map(|text| String::from_utf8(text).unwrap());
    assert_eq!(of_data.unwrap_or_else(|| "0".into()), end.to_string(), "{about}");
    if end > start {
        assert_eq!(position.db, Some((end % 16) as usize), "{about}");
    }
    assert!(read(keyspace, start, usize::MAX).unwrap() == bytes(start, end), "{about}: {start} to {end}");
    for from in [start, (start + end) / 2, end.saturating_sub(1).max(start), end] {
        let some = read(keyspace, from, 150).unwrap();
        assert!(some == bytes(from, end.min(from + 150)), "{about}: from {from} of {start} to {end}");
    }
    if start > 0 {
        assert!(matches!(read(keyspace, start - 1, 10), Err(Error::Damaged(_))), "{about}: before {start}");
    }
}

#[test]
fn the_setting_is_as_the_format_says() {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = open(&store, 1);
    assert!(keyspace.stream().is_none() && keyspace.db().family("backlog-0").is_none());
    // Without a stream nothing is fed.
    keyspace.feed(b"abc", None);
    keyspace.note_amid(true);
    keyspace.change_stream_id(id(b'x'));
    assert!(keyspace.is_committed() && keyspace.stream().is_none());
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0x0102)).unwrap();
    commit(&mut keyspace);
    let starts = [&[2, 1, 0, 0, 0, 0, 0, 0][..], &[255; 16]].concat();
    let expected = [&[b'a'; 40][..], &[2, 1, 0, 0, 0, 0, 0, 0], &starts, &[255, 0]].concat();
    assert_eq!(keyspace.setting(b"stream").unwrap(), Some(expected));
    keyspace.feed(b"xyz", Some(2));
    commit(&mut keyspace);
    keyspace.change_stream_id(id(b'b'));
    commit(&mut keyspace);
    let end = [5, 1, 0, 0, 0, 0, 0, 0];
    let expected = [&[b'b'; 40][..], &end, &starts, &[2, 0], &[b'a'; 40], &end].concat();
    assert_eq!(keyspace.setting(b"stream").unwrap().as_ref(), Some(&expected));
    keyspace.close().unwrap();
    let mut keyspace = open(&store, 2);
    let position = StreamPosition { id: id(b'b'), offset: 0x0105, second: Some((id(b'a'), 0x0105)), db: Some(2) };
    assert_eq!((keyspace.stream(), keyspace.backlog_start()), (Some(&position), 0x0102));
    assert_eq!(read(&keyspace, 0x0103, 1).unwrap(), b"y");
    // What cannot be read is refused.
    let mut unknown = expected.clone();
    unknown[73] = 4;
    for damaged in
        [&expected[..73], &expected[..74 + 40], &[&expected[..], b"\0"].concat()[..], &[&b"-"[..], &expected[1..]].concat()[..], &unknown]
    {
        keyspace.turn.put(super::FamilyKind::Keys, super::layout::setting_key(b"stream"), damaged);
        assert!(matches!(keyspace.load_stream(), Err(Error::Damaged(_))));
    }
    keyspace.discard();
    keyspace.end_stream();
    commit(&mut keyspace);
    assert!(keyspace.stream().is_none() && keyspace.setting(b"stream").unwrap().is_none());
    keyspace.close().unwrap();
    let mut keyspace = open(&store, 3);
    assert!(keyspace.stream().is_none());
    // A later stream finds nothing of this one.
    keyspace.begin_stream(StreamPosition::new(id(b'c'), 0)).unwrap();
    commit(&mut keyspace);
    assert_eq!([0, 1, 2].map(|part| keyspace.turn.backlog().end(part, keyspace.db()).unwrap()), [None; 3]);
    drop(keyspace);
    let store: Arc<dyn Store> = store;
    assert_eq!(Keyspace::open_to_read(store).unwrap().stream(), Some(&StreamPosition::new(id(b'c'), 0)));
}

#[test]
fn what_is_dropped_was_not_fed() {
    let mut keyspace = fresh();
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    feed(&mut keyspace, 10);
    commit(&mut keyspace);
    let before = *keyspace.stream().unwrap();
    feed(&mut keyspace, 200);
    assert_eq!(keyspace.stream().unwrap().offset, 210);
    assert!(read(&keyspace, 0, usize::MAX).unwrap() == bytes(0, 10), "what is not committed is not sent");
    keyspace.change_stream_id(id(b'b'));
    keyspace.discard();
    assert_eq!(keyspace.stream(), Some(&before));
    keyspace.begin_stream(StreamPosition::new(id(b'c'), 77)).unwrap();
    keyspace.discard();
    check(&mut keyspace, "after a begin that was dropped");
    keyspace.end_stream();
    keyspace.discard();
    feed(&mut keyspace, 300);
    commit(&mut keyspace);
    check(&mut keyspace, "after all");
}

#[test]
fn a_restart_knows_whether_the_stream_ends_amid_a_string() {
    let store = Arc::new(MemoryStore::new());
    for is_amid in [false, true, false] {
        let mut keyspace = open(&store, 1);
        if keyspace.stream().is_none() {
            keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
        }
        feed(&mut keyspace, 50);
        keyspace.note_amid(is_amid);
        commit(&mut keyspace);
        // It is not known before something is fed.
        keyspace.note_amid(!is_amid);
        drop(keyspace);
        assert_eq!(open(&store, 2).is_amid(), is_amid);
    }
}

/// A primary may know the stream by its second id only while nobody has heard of the present one and nothing has come since; a restart
/// keeps that in mind.
#[test]
fn the_second_id_counts_while_nobody_has_heard_of_the_first_one() {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = open(&store, 1);
    keyspace.hide_stream_id();
    assert_eq!(keyspace.stream_elsewhere(), None);
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    feed(&mut keyspace, 10);
    commit(&mut keyspace);
    // The id of a primary is known to others, also a new one.
    keyspace.change_stream_id(id(b'b'));
    assert_eq!(keyspace.stream_elsewhere(), Some((id(b'b'), 10)));
    // Ids of this server's own, one after the other.
    for letter in [b'c', b'd'] {
        keyspace.change_stream_id(id(letter));
        keyspace.hide_stream_id();
        commit(&mut keyspace);
        keyspace.close().unwrap();
        keyspace = open(&store, 1);
        let position = StreamPosition { id: id(letter), offset: 10, second: Some((id(b'b'), 10)), db: Some(10) };
        assert_eq!((keyspace.stream(), keyspace.stream_elsewhere()), (Some(&position), Some((id(b'b'), 10))));
    }
    assert_eq!(keyspace.setting(b"stream").unwrap().unwrap()[73], 2);
    keyspace.tell_stream_id();
    assert_eq!(keyspace.stream_elsewhere(), Some((id(b'd'), 10)));
    keyspace.discard();
    assert_eq!(keyspace.stream_elsewhere(), Some((id(b'b'), 10)));
    feed(&mut keyspace, 5);
    assert_eq!(keyspace.stream_elsewhere(), Some((id(b'd'), 15)), "the other stream has no such bytes");
    keyspace.tell_stream_id();
    commit(&mut keyspace);
    keyspace.change_stream_id(id(b'e'));
    assert_eq!(keyspace.stream().unwrap().second, Some((id(b'd'), 15)));
}

/// The ids of the last eight streams are known after a restart, each up to its end; older ones are forgotten.
#[test]
fn earlier_ids_are_known() {
    let store = Arc::new(MemoryStore::new());
    let mut keyspace = open(&store, 1);
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    for letter in b'b'..=b'j' {
        feed(&mut keyspace, 10);
        keyspace.change_stream_id(id(letter));
    }
    commit(&mut keyspace);
    let ends = |keyspace: &Keyspace| (b'A'..=b'K').map(|letter| keyspace.same_until(&[letter; 40])).collect::<Vec<_>>();
    let known = ends(&keyspace);
    let expected: Vec<_> = [None].into_iter().chain((2..=9).map(|n| Some(10 * n))).chain([Some(90), None]).collect();
    assert_eq!(known, expected);
    keyspace.change_stream_id(id(b'k'));
    assert_eq!((keyspace.same_until(&[b'b'; 40]), keyspace.same_until(&[b'k'; 40])), (None, Some(90)));
    keyspace.discard();
    let setting = keyspace.setting(b"stream").unwrap().unwrap();
    keyspace.close().unwrap();
    let mut keyspace = open(&store, 2);
    assert_eq!((ends(&keyspace), setting.len()), (known, 74 + 8 * 48));
    keyspace.turn.put(super::FamilyKind::Keys, super::layout::setting_key(b"stream"), [&setting[..], &setting[74..74 + 48]].concat());
    assert!(matches!(keyspace.load_stream(), Err(Error::Damaged(_))), "a ninth one is none of this format");
}

/// Random turns, some of them dropped, with trims, new ids and restarts in between.
#[test]
fn the_stream_agrees_with_a_model() {
    for seed in 0..8 {
        let (mut random, store) = (Random(seed), Arc::new(MemoryStore::new()));
        let mut keyspace = open(&store, 1);
        keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
        commit(&mut keyspace);
        for step in 0..400 {
            let (before, start) = (*keyspace.stream().unwrap(), keyspace.backlog_start());
            let about = format!("seed {seed}, step {step}");
            match random.below(12) {
                0 => {
                    let keep_from = start + random.below((before.offset - start) as usize + 1) as u64;
                    keyspace.turn_backlog(1000, keep_from).unwrap();
                    assert!((start..=keep_from).contains(&keyspace.backlog_start()), "{about}");
                }
                1 => {
                    keyspace.close().unwrap();
                    keyspace = open(&store, 1);
                    assert_eq!((keyspace.stream(), keyspace.backlog_start()), (Some(&before), start), "{about}");
                }
                2 => {
                    let new = id(b'a' + (step % 26) as u8);
                    keyspace.change_stream_id(new);
                    assert_eq!(keyspace.stream().unwrap().second, Some((before.id, before.offset)), "{about}");
                }
                3 => keyspace.db().flush().unwrap(),
                4 => keyspace.db().compact_range(&keyspace.db().family("backlog-1").unwrap(), None, None).unwrap(),
                _ => {}
            }
            if random.below(3) > 0 {
                let count = [1, 30, 100, 1000, 4000][random.below(5)];
                feed(&mut keyspace, count);
            }
            if random.below(5) == 0 {
                assert!(read(&keyspace, before.offset, 10).unwrap().is_empty(), "{about}");
                keyspace.discard();
                assert_eq!((keyspace.stream(), keyspace.backlog_start()), (Some(&before), start), "{about}");
            } else {
                commit(&mut keyspace);
            }
            check(&mut keyspace, &about);
        }
    }
}

/// The engine moves tables of stored bytes as they are, and drops those of old bytes without a look into them. It reads one again for each
/// part: the one with the tombstone.
#[test]
fn stored_bytes_are_written_once() {
    const KEPT: u64 = 1 << 20;
    let mut keyspace = fresh();
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    let mut most = 0u64;
    for round in 0..2000u64 {
        let end = keyspace.stream().unwrap().offset;
        keyspace.turn_backlog(KEPT / 2, end.saturating_sub(KEPT)).unwrap();
        feed(&mut keyspace, 4000);
        commit(&mut keyspace);
        let stored = keyspace.stream().unwrap().offset - keyspace.backlog_start();
        assert!(stored >= KEPT.min(4000 * (round + 1)) && stored <= KEPT * 3 / 2 + 3 * 4000, "{stored} after {round}");
        let size = |name: &str| -> u64 {
            let family = keyspace.db().family(name).unwrap();
            keyspace.db().property(&family, "rocksdb.total-sst-files-size").unwrap().parse().unwrap()
        };
        most = most.max(BACKLOG.iter().map(|name| size(name)).sum());
    }
    check(&mut keyspace, "at the end");
    let read = keyspace.db().statistics().ticker(Ticker::CompactReadBytes);
    assert!(read < 1_000_000 && most < KEPT * 2, "{read} of 8,000,000 bytes were read again, and {most} stored");
}

/// Keeps possible contents of the medium after each call that changes it.
struct Watched {
    faults: Arc<FaultStore>,
    images: Arc<Mutex<Vec<MemoryStore>>>,
}

impl Watched {
    fn new() -> Watched {
        let memory = Arc::new(MemoryStore::new());
        let faults = Arc::new(FaultStore::new(memory.clone()));
        Watched { faults, images: Arc::default() }.watch(memory)
    }

    fn watch(self, memory: Arc<MemoryStore>) -> Watched {
        let images = self.images.clone();
        self.faults.on_call(Some(Arc::new(move |n, _| {
            let mut images = images.lock();
            images.push(memory.crash_with(CrashMode::DropUnsynced));
            images.push(memory.crash_with(CrashMode::KeepAll));
            images.push(memory.crash_with(n));
        })));
        self
    }

    fn open(&self) -> Keyspace {
        Keyspace::open(self.faults.clone(), &small_settings(), 42).unwrap()
    }

    fn take(&self) -> Vec<MemoryStore> {
        std::mem::take(&mut self.images.lock())
    }
}

/// A power cut at each call of the medium, while the stream goes on, is trimmed, and gets a new id.
#[test]
fn a_power_cut_leaves_data_and_offset_in_agreement() {
    let watched = Watched::new();
    let mut keyspace = watched.open();
    let (mut random, mut cuts) = (Random(5), 0);
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    commit(&mut keyspace);
    for image in watched.take() {
        let after = Keyspace::open(Arc::new(image), &small_settings(), 42).unwrap();
        assert!(after.stream().is_none_or(|position| *position == StreamPosition::new(id(b'a'), 0)));
    }
    for round in 0..16u64 {
        let synced = keyspace.stream().unwrap().offset;
        keyspace.syncer().sync().unwrap();
        watched.take();
        for turn in 0..6 {
            let count = [40, 500, 3000][random.below(3)];
            feed(&mut keyspace, count);
            if turn == 3 {
                commit(&mut keyspace);
                let end = keyspace.stream().unwrap().offset;
                keyspace.turn_backlog(5000, end.saturating_sub(10_000)).unwrap();
            }
            if turn == 4 && round % 7 == 0 {
                keyspace.change_stream_id(id(b'a' + (round / 7) as u8));
            }
            let durability = if turn == 5 { Durability::Sync } else { Durability::Buffered };
            keyspace.commit(&WriteOptions::new(durability)).unwrap();
        }
        if round % 5 == 4 {
            keyspace.db().flush().unwrap();
        }
        for image in watched.take() {
            let mut after = Keyspace::open(Arc::new(image), &small_settings(), 42).unwrap();
            assert!(after.stream().unwrap().offset >= synced, "round {round}");
            check(&mut after, &format!("round {round}"));
            // It goes on from there.
            feed(&mut after, 200);
            commit(&mut after);
            check(&mut after, &format!("round {round}, gone on with"));
            cuts += 1;
        }
    }
    assert!(cuts > 400, "{cuts}");
}

/// A power cut at each call while a copy of another server's keys replaces the keys: all of the old ones at the old position, or all of the
/// new ones at the new position; nothing has to be abandoned by hand.
#[test]
fn a_copy_comes_with_its_position() {
    for (moment, has_stream) in [(0, true), (1, false)] {
        let watched = Watched::new();
        let mut keyspace = watched.open();
        keyspace.set_string(0, b"which", b"old", None).unwrap();
        if has_stream {
            keyspace.begin_stream(StreamPosition::new(id(b'a'), 1000)).unwrap();
            keyspace.feed(&bytes(1000, 1400), Some(1));
        }
        keyspace.commit(&WriteOptions::new(Durability::Sync)).unwrap();
        let old = keyspace.stream().copied();
        watched.take();
        let mut next = keyspace.begin_copy().unwrap();
        assert!(matches!(keyspace.begin_copy(), Err(Error::Unfinished)));
        for n in 0..300u32 {
            let mut edit = next.edit(0, b"s", Kind::Set).unwrap();
            next.add_member(&mut edit, &n.to_le_bytes()).unwrap();
            next.finish(&edit);
            next.set_string(1, &n.to_le_bytes(), &[1; 100], None).unwrap();
            commit(&mut next);
        }
        next.set_string(0, b"which", b"new", None).unwrap();
        let new = StreamPosition { id: id(b'b'), offset: 500, second: Some((id(b'c'), 400)), db: Some(9) };
        keyspace.adopt(next, Some(new)).unwrap();
        assert_eq!((keyspace.stream(), keyspace.backlog_start(), keyspace.size(1)), (Some(&new), 500, 300));
        keyspace.feed(&bytes(500, 600), Some(4));
        commit(&mut keyspace);
        assert!(read(&keyspace, 500, 1000).unwrap() == bytes(500, 600));
        keyspace.close().unwrap();
        let mut seen = [0; 2];
        for image in watched.take() {
            let store = Arc::new(image);
            Keyspace::open_to_read(store.clone()).unwrap();
            let mut after = Keyspace::open(store, &small_settings(), 42).unwrap();
            let is_new = get(&mut after, b"which").unwrap() == b"new";
            seen[usize::from(is_new)] += 1;
            let position = after.stream().copied();
            if is_new {
                let end = position.unwrap().offset;
                assert_eq!((position.unwrap().id, position.unwrap().second, after.size(1)), (new.id, new.second, 300));
                assert!(end == 500 || end == 600);
                assert!(read(&after, 500, 1000).unwrap() == bytes(500, end));
            } else {
                assert_eq!((position, after.size(0), after.size(1)), (old, 1, 0), "moment {moment}");
            }
            // Nothing is left of the copy, so another one can begin.
            let next = after.begin_copy().unwrap();
            after.abandon_successor(next).unwrap();
        }
        assert!(seen[0] > 50 && seen[1] > 2, "{seen:?}");
    }
}

/// A copy that is given up costs no ids unless it has used some; those are not used again.
#[test]
fn a_copy_without_ids_costs_none() {
    let mut keyspace = fresh();
    let (before, mut firsts) = (keyspace.counters.ids, Vec::new());
    for uses_ids in [false, false, true, false] {
        let mut next = keyspace.begin_copy().unwrap();
        firsts.push(next.ids.start);
        if uses_ids {
            next.new_id().unwrap();
        }
        next.set_string(0, b"k", b"1", None).unwrap();
        commit(&mut next);
        keyspace.abandon_successor(next).unwrap();
        assert_eq!(keyspace.counters.ids > before, firsts.len() > 2);
    }
    assert!(firsts[0] == firsts[1] && firsts[1] == firsts[2] && firsts[2] < firsts[3], "{firsts:?}");
}

/// Two values never share an id, and so their elements: once all ids are used up, new values that need one are refused. While a copy is
/// filled, the keyspace has the ids below those of the copy; afterwards it has all again.
#[test]
fn values_that_find_no_id_are_refused() {
    fn add(keyspace: &mut Keyspace, key: &[u8]) -> Result<bool, Error> {
        let mut edit = keyspace.edit(0, key, Kind::Set)?;
        let added = keyspace.add_member(&mut edit, key)?;
        keyspace.finish(&edit);
        Ok(added)
    }
    fn refuses(keyspace: &mut Keyspace, advice: &str) {
        let before = (keyspace.size(0), stored(keyspace, FamilyKind::Elements));
        let why = add(keyspace, b"new").unwrap_err().to_string();
        assert!(why.starts_with("ERR all ids") && why.contains(advice), "{why}");
        assert!(matches!(keyspace.copy((0, b"first"), (0, b"new")), Err(Error::NoIds(_))));
        assert!(matches!(keyspace.edit(0, b"new", Kind::Stream), Err(Error::NoIds(_))));
        assert!(matches!(keyspace.begin_upload(), Err(Error::NoIds(_))));
        assert_eq!((keyspace.size(0), stored(keyspace, FamilyKind::Elements)), before);
    }
    let mut keyspace = fresh();
    keyspace.set_thresholds(few(0));
    let next = keyspace.begin_copy().unwrap();
    keyspace.last_id = keyspace.ids.end - 2;
    assert!(add(&mut keyspace, b"first").unwrap());
    refuses(&mut keyspace, "wait for the end");
    keyspace.abandon_successor(next).unwrap();
    assert!(add(&mut keyspace, b"second").unwrap());
    keyspace.last_id = ID_MAX - 1;
    assert!(add(&mut keyspace, b"third").unwrap());
    refuses(&mut keyspace, "export the keys");
    assert!(matches!(keyspace.begin_copy(), Err(Error::NoIds(_))));
}

/// An import says nothing of a stream, so the keyspace takes part in none afterwards: replicas must not go on from an old offset.
#[test]
fn an_import_ends_the_stream() {
    let mut keyspace = fresh();
    keyspace.begin_stream(StreamPosition::new(id(b'a'), 0)).unwrap();
    feed(&mut keyspace, 100);
    commit(&mut keyspace);
    let next = keyspace.begin_successor().unwrap();
    keyspace.adopt(next, None).unwrap();
    assert!(keyspace.stream().is_none() && keyspace.size(0) == 0);
}
