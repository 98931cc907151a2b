//! Keys whose last change a power cut could still take back, and the commit that a reply therefore has to wait for.
//!
//! A caller whose replies may not leave before their content is durable calls [`Keyspace::take_needs`] after each request, and holds the
//! reply until [`Keyspace::synced`] has reached that commit. A request needs the commit of its own writes, and the commits of the data that
//! it has read. So readers of other keys need not wait, and no client sees data that may be lost at the next start.

use super::error::{Error, Result};
use super::{Cleaner, Keyspace, Marks, layout};
use sinter_script::sha1::sha1;
use sinterdb::Db;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of changed keys for which memory is kept.
const KEPT: usize = 1 << 14;

/// Changes since the last sync, while anybody wants to know them.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    is_on: bool,
    /// The commit of the last change, by a hash of database and key. Two keys with one hash only wait for each other.
    changed: HashMap<u64, u64>,
    /// The commit in which whole databases were changed last.
    all: u64,
    /// The commit that the current request needs, as far as it is known.
    needs: u64,
    /// Bytes of the turn when `needs` was taken last.
    bytes: usize,
}

impl Unsynced {
    /// A new turn begins.
    pub fn restart(&mut self) {
        self.bytes = 0;
    }
}

impl Keyspace {
    /// Switches the noting of changes on or off.
    pub fn note_unsynced(&mut self, is_on: bool) {
        if self.unsynced.is_on && !is_on {
            self.unsynced.changed = HashMap::new();
        }
        self.unsynced.is_on = is_on;
    }

    /// Forgets changes that are synced by now.
    pub fn forget_synced(&mut self) {
        let synced = self.synced();
        self.unsynced.changed.retain(|_, commit| *commit > synced);
        self.unsynced.changed.shrink_to(KEPT);
    }

    /// The commit that has to be synced before the replies to the requests since the last call are durable; 0: none.
    pub fn take_needs(&mut self) -> u64 {
        let bytes = self.turn.bytes();
        if bytes != self.unsynced.bytes {
            self.unsynced.bytes = bytes;
            self.unsynced.needs = self.next_commit();
        }
        std::mem::take(&mut self.unsynced.needs)
    }

    /// Notes that the request reads something that depends on all keys.
    pub fn need_all(&mut self) {
        self.unsynced.needs = self.unsynced.needs.max(self.position());
    }

    /// Notes that the request needs a commit.
    pub fn need_commit(&mut self, commit: u64) {
        self.unsynced.needs = self.unsynced.needs.max(commit);
    }

    /// The number that the turn's commit will have.
    fn next_commit(&self) -> u64 {
        self.committed() + 1
    }

    /// Number of commits.
    pub fn committed(&self) -> u64 {
        self.marks.committed.load(Ordering::Acquire)
    }

    fn mark(&self, db: usize, key: &[u8]) -> u64 {
        layout::hash(self.seed, key) | (db as u64) << 56
    }

    /// Notes a read of a key.
    pub(super) fn need(&mut self, db: usize, key: &[u8]) {
        if !self.unsynced.is_on {
            return;
        }
        self.unsynced.needs = self.unsynced.needs.max(self.unsynced.all);
        if !self.unsynced.changed.is_empty()
            && let Some(commit) = self.unsynced.changed.get(&self.mark(db, key)).copied()
        {
            self.unsynced.needs = self.unsynced.needs.max(commit);
        }
    }

    /// Notes a change of a key.
    pub(super) fn note_change(&mut self, db: usize, key: &[u8]) {
        if self.unsynced.is_on {
            let (mark, commit) = (self.mark(db, key), self.next_commit());
            self.unsynced.changed.insert(mark, commit);
        }
    }

    /// Notes a change of whole databases.
    pub(super) fn note_change_of_all(&mut self) {
        self.make_all_stale();
        self.unsynced.all = self.next_commit();
        self.unsynced.needs = self.unsynced.all;
    }
}

/// A second log of committed changes, which is to be as durable as the engine's.
pub trait Beside: Send + Sync {
    /// Makes everything written to the log durable, and returns the number of the last commit in it.
    ///
    /// # Errors
    /// A failed sync: any part of the log may be durable, or none.
    fn sync(&self) -> std::result::Result<u64, String>;
}

/// Makes commits durable.
pub struct Syncer {
    pub(super) db: Db,
    pub(super) cleaner: Arc<Cleaner>,
    pub(super) marks: Arc<Marks>,
    pub(super) beside: Option<Arc<dyn Beside>>,
}

impl std::fmt::Debug for Syncer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Syncer({:?})", self.db)
    }
}

impl Syncer {
    /// Makes everything committed so far durable, in the log beside as well if there is one.
    ///
    /// # Errors
    /// Errors of the engine, which end it unless the medium is full, and of the log beside. [`Keyspace::take_sync_failure`] tells of them,
    /// too.
    pub fn sync(&self) -> Result<()> {
        self.sync_all().inspect_err(|error| *self.marks.failure.lock() = Some(error.to_string()))
    }

    fn sync_all(&self) -> Result<()> {
        let _turn = self.cleaner.syncs.lock();
        let upto = self.marks.committed.load(Ordering::Acquire);
        self.cleaner.sync_begins();
        self.db.sync()?;
        self.cleaner.sync_ended();
        // The second log may have later commits, which the engine's sync has not covered: the smaller number counts.
        let beside = self.beside.as_ref().map_or(Ok(upto), |beside| beside.sync().map_err(Error::Beside))?;
        self.marks.synced.fetch_max(upto.min(beside), Ordering::AcqRel);
        Ok(())
    }
}

impl Keyspace {
    /// Sets a second log: from now on, syncs include it, and only commits in it count as synced. Syncers made before do not know of it.
    pub fn set_beside(&mut self, beside: Arc<dyn Beside>) {
        self.beside = Some(beside);
    }

    /// A unique name for these data, for files that belong to them.
    pub fn data_mark(&self) -> String {
        let digest = sha1(&[&b"files beside "[..], &self.seed.to_le_bytes()].concat());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Beside;
    use crate::testing::fresh;
    use parking_lot::Mutex;
    use sinterdb::WriteOptions;
    use std::sync::Arc;

    #[test]
    fn replies_need_what_they_have_read_and_written() {
        let mut keyspace = fresh();
        keyspace.note_unsynced(true);
        keyspace.set_string(0, b"old", b"1", None).unwrap();
        keyspace.commit(&WriteOptions::default()).unwrap();
        keyspace.syncer().sync().unwrap();
        keyspace.forget_synced();
        keyspace.take_needs();
        let before = keyspace.committed();
        assert_eq!(keyspace.synced(), before);
        keyspace.string(0, b"old").unwrap();
        assert_eq!(keyspace.take_needs(), 0);
        // Also before the turn is committed.
        keyspace.set_string(0, b"new", b"1", None).unwrap();
        assert_eq!(keyspace.take_needs(), before + 1);
        keyspace.string(0, b"new").unwrap();
        assert_eq!(keyspace.take_needs(), before + 1);
        keyspace.string(1, b"new").unwrap();
        keyspace.string(0, b"old").unwrap();
        assert_eq!(keyspace.take_needs(), 0);
        keyspace.commit(&WriteOptions::default()).unwrap();
        // The absence of a key, too.
        keyspace.remove(0, b"old").unwrap();
        assert_eq!(keyspace.take_needs(), before + 2);
        keyspace.commit(&WriteOptions::default()).unwrap();
        assert_eq!(keyspace.string(0, b"old").unwrap(), None);
        assert_eq!(keyspace.take_needs(), before + 2);
        keyspace.scan(0, 0, 10, &mut |_, _| {}).unwrap();
        assert_eq!(keyspace.take_needs(), before + 2);
        keyspace.syncer().sync().unwrap();
        keyspace.forget_synced();
        keyspace.string(0, b"old").unwrap();
        assert_eq!(keyspace.take_needs(), 0);
        keyspace.clear_all().unwrap();
        assert_eq!(keyspace.take_needs(), before + 3);
        keyspace.string(0, b"whatever").unwrap();
        assert_eq!(keyspace.take_needs(), before + 3);
    }

    /// A second log whose sync has this result.
    struct Second(Mutex<Result<u64, String>>);

    impl Beside for Second {
        fn sync(&self) -> Result<u64, String> {
            self.0.lock().clone()
        }
    }

    #[test]
    fn what_is_not_in_the_log_beside_is_not_synced() {
        let (mut keyspace, second) = (fresh(), Arc::new(Second(Mutex::new(Ok(0)))));
        keyspace.set_beside(second.clone());
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        keyspace.commit(&WriteOptions::default()).unwrap();
        let committed = keyspace.committed();
        keyspace.syncer().sync().unwrap();
        assert_eq!(keyspace.synced(), 0);
        *second.0.lock() = Err("no".into());
        assert!(keyspace.syncer().sync().is_err());
        assert_eq!((keyspace.synced(), keyspace.take_sync_failure().unwrap().as_str()), (0, "ERR the append-only file: no"));
        *second.0.lock() = Ok(u64::MAX);
        keyspace.syncer().sync().unwrap();
        assert_eq!(keyspace.synced(), committed);
        assert_eq!((keyspace.data_mark(), keyspace.data_mark().len()), (fresh().data_mark(), 40), "of the same seed");
    }

    #[test]
    fn nothing_is_kept_unless_somebody_wants_to_know() {
        let mut keyspace = fresh();
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        let needs = keyspace.take_needs();
        assert_eq!(needs, keyspace.committed() + 1, "a writer needs its own commit all the same");
        keyspace.string(0, b"a").unwrap();
        assert_eq!((keyspace.take_needs(), keyspace.unsynced.changed.len()), (0, 0));
        keyspace.note_unsynced(true);
        keyspace.set_string(0, b"a", b"2", None).unwrap();
        assert_eq!(keyspace.unsynced.changed.len(), 1);
        keyspace.note_unsynced(false);
        assert_eq!(keyspace.unsynced.changed.len(), 0);
    }
}
