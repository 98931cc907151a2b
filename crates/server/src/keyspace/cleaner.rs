//! Removes the elements of deleted collections during compactions.
//!
//! The deletion of a collection removes its key and the entry that says that it exists; its elements stay until a compaction asks this
//! filter about them. One rule keeps that safe. An element removed by a filter cannot come back once the compaction has ended, but a
//! deletion that has not been synced may be undone by a power cut. So elements are kept until a sync that began after the deletion has
//! succeeded; ids for which that is not known are *held*. The id of an upload (`long`) is held, too, until reads find the entry that says
//! that the string exists: its pieces are stored before that entry.

use super::layout::{FamilyKind, exists_key, owner};
use parking_lot::{Mutex, RwLock};
use sinterdb::operator::{CompactionFilter, Decision};
use sinterdb::{Db, Family, ReadOptions};
use std::collections::HashSet;

/// The family whose filter this is.
pub(super) const FAMILY: FamilyKind = FamilyKind::Elements;

#[derive(Default)]
struct Held {
    /// Ids about to be deleted: a sync that begins now does not cover the deletion yet.
    coming: HashSet<u64>,
    /// Ids deleted since the last sync began.
    fresh: HashSet<u64>,
    /// Ids deleted before a sync began that has not ended.
    syncing: HashSet<u64>,
    /// Like `coming`, `fresh` and `syncing`, for a deletion of everything.
    all_coming: bool,
    all_fresh: bool,
    all_syncing: bool,
    /// Ids of strings that are being uploaded.
    uploads: HashSet<u64>,
    /// The id asked about last, if its collection is deleted. Ids are not used again, so the result stays true.
    gone: Option<u64>,
}

impl Held {
    fn holds(&self, id: u64) -> bool {
        let all = self.all_coming || self.all_fresh || self.all_syncing;
        all || [&self.coming, &self.fresh, &self.syncing].into_iter().any(|held| held.contains(&id))
    }
}

/// The compaction filter of the elements.
#[derive(Default)]
pub(super) struct Cleaner {
    /// Database and elements family in which existence is looked up; `None` before the database is open and while it is closed: then
    /// everything is kept.
    db: RwLock<Option<(Db, Family)>>,
    held: Mutex<Held>,
    /// Held during a sync, so that the ids covered by one sync are not taken for those of another.
    pub syncs: Mutex<()>,
}

impl Cleaner {
    /// Gives the filter the database, which is open now.
    pub fn attach(&self, db: Db, elements: Family) {
        *self.db.write() = Some((db, elements));
    }

    /// Drops the handle of the database, which could not be closed otherwise.
    pub fn detach(&self) {
        self.db.write().take();
    }

    /// Announces the deletion of these collections: their elements are kept until a sync has covered it.
    pub fn hold(&self, ids: &[u64]) {
        self.held.lock().coming.extend(ids);
    }

    /// Announces the deletion of everything.
    pub fn hold_all(&self) {
        self.held.lock().all_coming = true;
    }

    /// The announced deletions are committed, or will not happen: a sync that begins now covers them.
    pub fn committed(&self) {
        let mut held = self.held.lock();
        let coming = std::mem::take(&mut held.coming);
        held.fresh.extend(coming);
        held.all_fresh |= std::mem::take(&mut held.all_coming);
    }

    /// Notes the begin of a sync, which covers all deletions committed before.
    pub fn sync_begins(&self) {
        let mut held = self.held.lock();
        let fresh = std::mem::take(&mut held.fresh);
        held.syncing.extend(fresh);
        held.all_syncing |= std::mem::take(&mut held.all_fresh);
    }

    /// Notes the successful end of the sync.
    pub fn sync_ended(&self) {
        let mut held = self.held.lock();
        held.syncing.clear();
        held.all_syncing = false;
    }

    /// Holds an id whose pieces will come without the entry that says that it exists.
    pub fn begin_upload(&self, id: u64) {
        self.held.lock().uploads.insert(id);
    }

    /// Releases ids of uploads: reads find their entries, or nobody ever will.
    pub fn end_uploads(&self, ids: &[u64]) {
        let mut held = self.held.lock();
        ids.iter().for_each(|id| _ = held.uploads.remove(id));
    }

    fn is_gone(&self, id: u64) -> bool {
        {
            let held = self.held.lock();
            // Looked at before the entry is read: an upload is released only when reads find its entry.
            if held.gone == Some(id) || held.uploads.contains(&id) {
                return held.gone == Some(id);
            }
        }
        let db = self.db.read();
        let Some((db, elements)) = db.as_ref() else { return false };
        let mut out = Vec::new();
        // An element whose collection cannot be read is kept.
        let exists = db.get_into(elements, &exists_key(id), &ReadOptions::default(), &mut out).unwrap_or(true);
        // Looked at after the entry was read: an id is held before reads can see its deletion.
        let mut held = self.held.lock();
        let is_gone = !exists && !held.holds(id);
        if is_gone {
            held.gone = Some(id);
        }
        is_gone
    }
}

impl CompactionFilter for Cleaner {
    fn filter(&self, _level: u8, key: &[u8], _value: &[u8]) -> Decision {
        match owner(key) {
            Some((id, false)) if self.is_gone(id) => Decision::Remove,
            _ => Decision::Keep,
        }
    }
}
