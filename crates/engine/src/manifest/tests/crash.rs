//! The manifest on a medium that crashes, fails, tears and rots.

use super::*;
use crate::error::Error;
use crate::wal::testing::{Op, TestStore, crash_images};
use sinter_storage::store::{Cause, FileId, Hint, Store};
use std::collections::BTreeMap;

type Files = BTreeMap<FileId, Vec<u8>>;

/// A database that is being used, and what may be found after a crash: each state with the calls after which it may be there, and
/// after which it must.
struct Run {
    store: TestStore,
    state: ManifestState,
    log: Option<ManifestLog>,
    history: Vec<(usize, usize, ManifestState)>,
    random: Random,
}

impl Run {
    fn new(seed: u64, files: Files) -> Self {
        Run { store: TestStore::with(files), state: ManifestState::new(DB), log: None, history: Vec::new(), random: Random(seed) }
    }

    /// Opens like a database: loads and replaces the manifest, and makes a log segment, so that the store is in use.
    fn open(&mut self) {
        let loaded = load(&self.store).unwrap();
        let from = self.store.ops().len();
        let first = loaded.state.is_none();
        self.state = loaded.state.clone().unwrap_or(ManifestState::new(DB));
        let number = loaded.next_number;
        self.state.next_number = number + 1;
        self.log = Some(loaded.start(&self.store, number, &self.state).unwrap());
        self.note(from);
        if first {
            let id = FileId::log(self.state.next_number);
            self.store.create(id, &Hint::new(Cause::Wal)).unwrap().sync().unwrap();
            self.store.sync_names().unwrap();
            self.append(Edit { new_logs: vec![id.number], new_families: vec![new_family(0, "default")], ..Edit::default() });
        }
    }

    fn append(&mut self, edit: Edit) {
        let from = self.store.ops().len();
        self.state.apply(&edit).unwrap();
        self.log.as_mut().unwrap().append(&edit).unwrap();
        self.note(from);
    }

    fn steps(&mut self, n: usize) {
        for _ in 0..n {
            let edit = random_step(&mut self.random, &self.state);
            self.append(edit);
        }
    }

    fn rotate(&mut self) {
        let from = self.store.ops().len();
        let number = self.state.next_number;
        self.state.next_number += 1;
        self.log.as_mut().unwrap().rotate(&self.store, number, &self.state).unwrap();
        self.note(from);
    }

    fn note(&mut self, from: usize) {
        self.history.push((from, self.store.ops().len(), self.state.clone()));
    }
}

/// States are compared without the counter that also rises with orphans.
fn same(a: &ManifestState, b: &ManifestState) -> bool {
    ManifestState { next_number: 0, ..a.clone() } == ManifestState { next_number: 0, ..b.clone() }
}

/// After `ops` calls, `found` is what was acknowledged last, or what was under way.
fn check(history: &[(usize, usize, ManifestState)], ops: usize, found: Option<&ManifestState>, before: Option<&ManifestState>, what: &str) {
    let acknowledged = history.iter().rposition(|(_, done, _)| *done <= ops);
    let mut allowed: Vec<&ManifestState> =
        history.iter().skip(acknowledged.unwrap_or(0)).filter(|h| h.0 < ops || h.1 <= ops).map(|h| &h.2).collect();
    match found {
        None => assert!(acknowledged.is_none() && before.is_none(), "{what}: the database is gone"),
        Some(found) => {
            if acknowledged.is_none() {
                allowed.extend(before);
            }
            assert!(allowed.iter().any(|state| same(state, found)), "{what}: neither what was acknowledged nor what was under way");
        }
    }
}

#[test]
fn a_crash_behind_any_call_loses_nothing_that_was_acknowledged() {
    let mut images = 0;
    for seed in 0..3 {
        let mut run = Run::new(seed, Files::new());
        run.open();
        run.steps(3);
        run.rotate();
        run.steps(2);
        run.open();
        run.steps(1);
        run.rotate();
        run.rotate();
        let ops = run.store.ops();
        for crash in 0..=ops.len() {
            for image in crash_images(&Files::new(), &ops[..crash]) {
                images += 1;
                let what = format!("seed {seed}, crash behind call {crash} ({:?})", crash.checked_sub(1).map(|i| short(&ops[i])));
                let loaded = load(&TestStore::with(image.clone())).unwrap_or_else(|error| panic!("{what}: {error}: {:?}", image.keys()));
                check(&run.history, crash, loaded.state.as_ref(), None, &what);
            }
        }
    }
    assert!(images > 1000, "{images}");
}

#[test]
fn a_crash_during_recovery_from_a_crash_loses_nothing_either() {
    let mut run = Run::new(9, Files::new());
    run.open();
    run.steps(2);
    run.rotate();
    run.steps(1);
    let ops = run.store.ops();
    let mut images = 0;
    for crash in 0..=ops.len() {
        for image in crash_images(&Files::new(), &ops[..crash]) {
            let before = load(&TestStore::with(image.clone())).unwrap().state;
            let mut again = Run::new(crash as u64, image.clone());
            again.open();
            again.steps(1);
            let more = again.store.ops();
            for second in 0..=more.len() {
                for second_image in crash_images(&image, &more[..second]) {
                    images += 1;
                    let what = format!("crash behind call {crash}, then behind {second} of the recovery");
                    let loaded = load(&TestStore::with(second_image)).unwrap_or_else(|error| panic!("{what}: {error}"));
                    check(&again.history, second, loaded.state.as_ref(), before.as_ref(), &what);
                }
            }
        }
    }
    assert!(images > 20_000, "{images}");
}

fn short(op: &Op) -> String {
    let text = format!("{op:?}");
    text.chars().take(60).collect()
}

#[test]
fn a_failed_call_can_be_followed_by_another_rotation() {
    // Calls of a rotation: create, two appends, sync, marker, names, delete, names.
    for calls in 0..10 {
        let mut run = Run::new(4, Files::new());
        run.open();
        run.steps(3);
        run.store.fail_after(calls);
        let number = run.state.next_number;
        run.state.next_number += 2;
        let outcome = run.log.as_mut().unwrap().rotate(&run.store, number, &run.state);
        assert_eq!(outcome.is_ok(), calls >= 8, "{calls}");
        run.store.heal();
        let (edit, from) = (random_step(&mut run.random, &run.state), run.store.ops().len());
        if run.log.as_mut().unwrap().append(&edit).is_ok() {
            run.state.apply(&edit).unwrap();
            run.note(from);
        } else {
            assert!((6..8).contains(&calls), "{calls}: before the new one is whole, the old one goes on");
            run.note(from);
        }
        run.rotate();
        run.steps(1);
        let ops = run.store.ops();
        for crash in from..=ops.len() {
            for image in crash_images(&Files::new(), &ops[..crash]) {
                let what = format!("{calls} good calls, crash behind call {crash}");
                let loaded = load(&TestStore::with(image)).unwrap_or_else(|error| panic!("{what}: {error}"));
                check(&run.history, crash, loaded.state.as_ref(), None, &what);
            }
        }
    }
}

#[test]
fn a_failed_append_ends_the_log_until_it_is_rotated() {
    for calls in 0..3 {
        let mut run = Run::new(5, Files::new());
        run.open();
        let edit = Edit { db_settings: Some("never acknowledged".into()), ..Edit::default() };
        run.store.fail_after(calls);
        assert!(matches!(run.log.as_mut().unwrap().append(&edit), Err(Error::Io(_))));
        run.store.heal();
        assert!(matches!(run.log.as_mut().unwrap().append(&edit), Err(Error::Closed(_))));
        run.rotate();
        run.steps(1);
        assert!(same(&load(&run.store).unwrap().state.unwrap(), &run.state));
    }
}

#[test]
fn every_flip_of_a_manifest_is_found_or_harmless() {
    let mut run = Run::new(6, Files::new());
    run.open();
    run.steps(6);
    let id = run.log.as_ref().unwrap().id();
    let expected = load(&run.store).unwrap().state;
    let (good, all) = (run.store.get(id), run.store.files());
    let marker = 13;
    let before_marker = good.len() - marker;
    // With the log segment beside it, and alone: a damaged manifest must not look like no database.
    let alone: Files = [(id, good.clone())].into();
    for files in [all, alone] {
        let store = TestStore::with(files);
        for at in 0..good.len() {
            for mask in [1u8, 2, 4, 8, 16, 32, 64, 128, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= mask;
                store.put(id, bytes);
                match load(&store) {
                    Err(Error::Corrupt { file, offset, .. }) => {
                        assert_eq!(file, id.to_string());
                        assert!(offset <= at as u64);
                    }
                    Err(other) => panic!("byte {at}: {other}"),
                    Ok(loaded) => {
                        assert!(at >= before_marker, "byte {at} ^ {mask} went unnoticed");
                        assert_eq!((loaded.end.cut_bytes, loaded.end.cut_records), (marker as u64, 0));
                        assert!(loaded.state.zip(expected.clone()).is_some_and(|(a, b)| same(&a, &b)));
                    }
                }
            }
        }
        for from in (0..before_marker).step_by(64) {
            let mut bytes = good.clone();
            bytes[from..before_marker.min(from + 512)].fill(0);
            store.put(id, bytes);
            assert!(matches!(load(&store), Err(Error::Corrupt { .. })), "zeros from {from}");
        }
    }
}

#[test]
fn a_torn_edit_is_cut_and_reported_and_nothing_is_written_behind_it() {
    let mut run = Run::new(7, Files::new());
    run.open();
    run.steps(2);
    let acknowledged = run.state.clone();
    let id = run.log.as_ref().unwrap().id();
    let before = run.store.get(id);
    run.append(Edit { db_settings: Some("torn".into()), ..Edit::default() });
    let whole = run.store.get(id);
    for len in before.len() + 1..whole.len() - 16 {
        let store = TestStore::with(run.store.files());
        store.put(id, whole[..len].to_vec());
        let loaded = load(&store).unwrap();
        let found = loaded.state.clone().unwrap();
        let complete = len >= whole.len() - 16;
        assert!(same(&found, if complete { &run.state } else { &acknowledged }), "{len}");
        assert_eq!(loaded.end.cut_bytes, (len - before.len()) as u64);
        let mut log = loaded.start(&store, loaded.next_number, &found).unwrap();
        log.append(&Edit { db_settings: Some("next".into()), ..Edit::default() }).unwrap();
        assert_eq!(load(&store).unwrap().state.unwrap().settings, "next");
        assert!(!store.files().contains_key(&id));
    }
}

#[test]
fn manifests_that_are_missing_or_out_of_place_are_errors() {
    let corrupt = |files: Files, word: &str| {
        let message = load(&TestStore::with(files)).expect_err(word).to_string();
        assert!(message.starts_with("corrupt") && message.contains(word), "{message}");
    };
    let mut run = Run::new(8, Files::new());
    assert_eq!(load(&run.store).unwrap().state, None);
    run.open();
    let id = run.log.as_ref().unwrap().id();
    let all = run.store.files();
    let good = all[&id].clone();
    let log = *all.keys().find(|id| id.kind == sinter_storage::store::FileKind::Log).unwrap();
    corrupt([(log, Vec::new())].into(), "missing");
    corrupt([(FileId::table(3), Vec::new())].into(), "missing");
    corrupt([(log, Vec::new()), (id, Vec::new())].into(), "first state");
    corrupt([(log, Vec::new()), (id, good[..60].to_vec())].into(), "first state");
    // Under another name, below and above the real one.
    corrupt([(FileId::manifest(id.number + 50), good.clone())].into(), "belongs to");
    corrupt([all.clone(), [(FileId::manifest(900), good.clone())].into()].into_iter().flatten().collect(), "belongs to");
    // The first states of two databases cannot be mixed either: the older file beside the newer, used one.
    run.steps(2);
    let old = run.store.get(id);
    run.rotate();
    run.steps(1);
    let both: Files = [run.store.files(), [(id, old)].into()].into_iter().flatten().collect();
    corrupt(both, "older manifest");
    // A file that somebody else made would use up the numbers of all later ones.
    for number in [1 << 62, u64::MAX - 1, u64::MAX] {
        for strange in [FileId::table(number), FileId::log(number)] {
            let files = [all.clone(), [(strange, Vec::new())].into()].into_iter().flatten().collect();
            let message = load(&TestStore::with(files)).expect_err("a strange number").to_string();
            assert!(message.contains(&strange.to_string()), "{message}");
        }
    }
    // Torn leftovers with nothing in use are no database, and are removed by the first start.
    let torn: Files = [(FileId::manifest(4), vec![1, 2, 3]), (FileId::manifest(9), Vec::new())].into();
    let store = TestStore::with(torn);
    let loaded = load(&store).unwrap();
    assert_eq!((loaded.state.clone(), loaded.next_number), (None, 10));
    loaded.start(&store, 10, &ManifestState::new(DB)).unwrap();
    assert_eq!(store.files().keys().copied().collect::<Vec<_>>(), [FileId::manifest(10)]);
    assert_eq!(load(&store).unwrap().state.map(|s| s.next_number), Some(11));
}

#[test]
fn a_record_with_a_good_checksum_and_a_wrong_content_is_damage() {
    for records in [&[&[2u8][..]][..], &[&[1], &[1]], &[&[1], &[9]], &[&[1], &[2, 0x01, 1, 5]], &[&[1], &[2, 0x7f, 0]]] {
        let store = TestStore::default();
        let id = FileId::manifest(1);
        let mut log = crate::wal::LogWriter::create(&store, DB, id, &Hint::new(Cause::Manifest), &[]).unwrap();
        records.iter().for_each(|record| log.append(record).unwrap());
        log.sync().unwrap();
        let outcome = load(&store);
        assert!(matches!(&outcome, Err(Error::Corrupt { file, .. }) if *file == id.to_string()), "{records:?}: {outcome:?}");
    }
}

#[test]
fn a_long_history_asks_for_a_rotation() {
    let mut run = Run::new(10, Files::new());
    run.open();
    assert!(!run.log.as_ref().unwrap().should_rotate(ROTATE_BYTES));
    let settings = "x".repeat(200 << 10);
    for _ in 0..6 {
        run.append(Edit { db_settings: Some(settings.clone()), ..Edit::default() });
    }
    assert!(run.log.as_ref().unwrap().should_rotate(ROTATE_BYTES));
    run.rotate();
    let log = run.log.as_ref().unwrap();
    assert!(!log.should_rotate(ROTATE_BYTES) && log.len() < 300 << 10);
    assert_eq!(load(&run.store).unwrap().edits, 0);
}
