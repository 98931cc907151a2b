//! Which keys hold what a power cut could still take back, and which commit a reply therefore has to wait for.
//!
//! Whoever wants no reply to leave before what it tells of is durable asks [`Keyspace::take_needs`] after each request, and holds the
//! reply until [`Keyspace::synced`] has come so far. A request needs the commit that its own writes will be in, and those of what it has
//! read. So readers of other keys need not wait, and nobody is shown what may be gone after the next start.

use super::{Keyspace, layout};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Changed keys that need no new memory.
const KEPT: usize = 1 << 14;

/// What has changed since the last sync, while anybody wants to know.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    is_on: bool,
    /// By database and hash of the key: the commit that its last change is in. Two keys of one hash only wait for each other.
    changed: HashMap<u64, u64>,
    /// The commit in which whole databases were changed last.
    all: u64,
    /// What the current request needs, as far as it is known.
    needs: u64,
    /// Bytes that the turn had when that was taken last.
    bytes: usize,
}

impl Unsynced {
    /// The turn begins anew.
    pub fn restart(&mut self) {
        self.bytes = 0;
    }
}

impl Keyspace {
    /// Whether changes are noted from now on.
    pub fn note_unsynced(&mut self, is_on: bool) {
        if self.unsynced.is_on && !is_on {
            self.unsynced.changed = HashMap::new();
        }
        self.unsynced.is_on = is_on;
    }

    /// Forgets what is synced by now.
    pub fn forget_synced(&mut self) {
        let synced = self.synced();
        self.unsynced.changed.retain(|_, commit| *commit > synced);
        self.unsynced.changed.shrink_to(KEPT);
    }

    /// The commit that has to be synced before what the requests since the last call have to say is durable; 0: none.
    pub fn take_needs(&mut self) -> u64 {
        let bytes = self.turn.bytes();
        if bytes != self.unsynced.bytes {
            self.unsynced.bytes = bytes;
            self.unsynced.needs = self.next_commit();
        }
        std::mem::take(&mut self.unsynced.needs)
    }

    /// The request reads what depends on all keys.
    pub fn need_all(&mut self) {
        self.unsynced.needs = self.unsynced.needs.max(self.position());
    }

    /// The number that the turn's commit will have.
    fn next_commit(&self) -> u64 {
        self.committed() + 1
    }

    /// How many commits there were.
    pub fn committed(&self) -> u64 {
        self.marks.committed.load(Ordering::Acquire)
    }

    fn mark(&self, db: usize, key: &[u8]) -> u64 {
        layout::hash(self.seed, key) | (db as u64) << 56
    }

    /// A key is read.
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

    /// A key is changed.
    pub(super) fn note_change(&mut self, db: usize, key: &[u8]) {
        if self.unsynced.is_on {
            let (mark, commit) = (self.mark(db, key), self.next_commit());
            self.unsynced.changed.insert(mark, commit);
        }
    }

    /// Whole databases are changed.
    pub(super) fn note_change_of_all(&mut self) {
        self.unsynced.all = self.next_commit();
        self.unsynced.needs = self.unsynced.all;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::fresh;
    use sinterdb::db::WriteOptions;

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
        // That something is not there, too.
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
