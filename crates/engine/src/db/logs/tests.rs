use super::super::Db;
use crate::settings::DbSettings;
use sinter_storage::store::MemoryStore;
use std::sync::Arc;

#[test]
fn a_segment_that_a_writer_retired_meanwhile_is_told_to_the_manifest_once() {
    let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
    let db = Db::builder().settings(settings).open_store(Arc::new(MemoryStore::new())).unwrap();
    db.put(b"k", b"v").unwrap();
    let inner = &db.inner;
    let (number, synced) = {
        let mut state = inner.write_state.lock();
        let log = state.log.as_ref().unwrap();
        let begun = (log.id().number, log.records_len());
        // The sync beside writers has begun. A writer starts the next segment, and another sync comes first.
        inner.start_log(&mut state, 0).unwrap();
        begun
    };
    inner.sync_retired().unwrap();
    assert_eq!(inner.logs.synced(), [(number, synced)]);
    inner.activate(number, synced).unwrap();
    db.sync().unwrap();
    db.close().unwrap();
}
