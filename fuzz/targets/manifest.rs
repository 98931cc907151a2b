//! Manifests: edits from any bytes are refused or understood, a state stays whole under all of them, and a state written as one
//! edit comes back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinter_storage::store::{FileId, MemoryStore};
use sinterdb::internal::checksum::DbId;
use sinterdb::internal::compaction::check_shape;
use sinterdb::internal::manifest::{
    Change, Edit, KeyRange, ManifestLog, ManifestState, NewFamily, RunLocation, TableChange, TableInfo, load,
};
use sinterdb_fuzz::{Input, put_piece, seed};
use std::sync::Arc;

const DB: DbId = DbId([7; 16]);

/// Applies an edit; what is refused changes nothing, what is taken leaves a tree in shape.
fn apply(state: &mut ManifestState, edit: &Edit) {
    let before = state.clone();
    match state.apply(edit) {
        Err(_) => assert_eq!(*state, before, "a refused edit changed the state"),
        Ok(()) => state.families.values().for_each(|f| check_shape(&f.version).expect("a tree out of shape")),
    }
}

fn edits(mut input: Input) {
    let mut state = ManifestState::new(DB);
    while !input.0.is_empty() {
        let Some(edit) = Edit::decode(input.piece()) else { continue };
        let mut encoded = Vec::new();
        edit.encode(&mut encoded);
        assert_eq!(Edit::decode(&encoded).as_ref(), Some(&edit), "an edit does not read back");
        apply(&mut state, &edit);
    }
    let mut copy = ManifestState::new(DB);
    copy.apply(&state.snapshot_edit()).expect("a state as one edit");
    assert_eq!(copy, state, "a state does not come back from one edit");
    let store = MemoryStore::new();
    ManifestLog::create(&store, 3, &state).expect("a manifest");
    // Loading counts the manifest's own number as used.
    state.next_number = state.next_number.max(4);
    assert_eq!(load(&store).expect("a manifest that was just written").state, Some(state));
}

fn seeds() -> Vec<Vec<u8>> {
    let table = |number, key: &str| TableInfo {
        number,
        bytes: 4096,
        range: KeyRange::closed(key, format!("{key}z")),
        min_seq: 5,
        max_seq: 9,
        entries: 20,
        ..TableInfo::default()
    };
    let family =
        |id, name: &str| NewFamily { id, name: name.into(), settings: "block_size = 4096".into(), operator: String::new(), num_levels: 4 };
    let change = |change| TableChange { family: 0, change };
    let place = |level, run| RunLocation { level, run };
    let list = [
        Edit { new_families: vec![family(0, "default"), family(1, "other")], db_settings: Some(String::new()), ..Edit::default() },
        Edit {
            tables: vec![
                change(Change::Add { to: place(0, 8), table: Arc::new(table(7, "a")) }),
                change(Change::Add { to: place(1, 0), table: Arc::new(table(5, "k")) }),
            ],
            new_logs: vec![9],
            flushed_logs: vec![(0, 9), (1, 9)],
            last_seq: Some(10),
            next_number: Some(10),
            time_samples: vec![(10, 1_700_000_000)],
            ..Edit::default()
        },
        Edit {
            tables: vec![
                change(Change::Move { from: place(0, 8), to: place(1, 0), number: 7 }),
                change(Change::Remove { from: place(1, 0), number: 5 }),
            ],
            dropped_families: vec![1],
            ..Edit::default()
        },
    ];
    let mut input = vec![1];
    let mut state = ManifestState::new(DB);
    for edit in &list {
        let mut encoded = Vec::new();
        edit.encode(&mut encoded);
        put_piece(&mut input, &encoded);
        state.apply(edit).expect("a good edit");
    }
    let store = MemoryStore::new();
    ManifestLog::create(&store, 1, &state).expect("a manifest");
    let mut file = vec![0];
    file.extend(store.bytes(FileId::manifest(1)).expect("its bytes"));
    vec![input, file]
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let mut input = Input(data);
    if input.byte() & 1 == 1 {
        return edits(input);
    }
    let store = MemoryStore::new();
    store.replace(FileId::manifest(1), input.0.to_vec());
    if let Ok(loaded) = load(&store)
        && let Some(state) = loaded.state
    {
        state.families.values().for_each(|f| check_shape(&f.version).expect("a tree out of shape"));
    }
});
