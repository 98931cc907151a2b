//! Changes of keys, for clients that subscribe to them by name (`command/events.rs` sends the events).
//!
//! Nothing is noted unless somebody asks; then every change is noted in order until the list is taken. A second list has the keys of which
//! clients' copies are stale (`command/tracking.rs` tells the clients). It has no misses of keys, and no changes for which Redis sends no
//! invalidation.

use super::Keyspace;

/// A change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The key did not exist before.
    Made,
    /// The value or the deadline of the key changed.
    Changed,
    /// The key was removed.
    Removed,
    /// The key was removed because its deadline had passed.
    Expired,
    /// The key was removed because all data took too many bytes.
    Evicted,
    /// Fields of a hash were removed because their deadlines had passed.
    FieldsExpired,
    /// The key, a hash, was removed because the deadlines of all its fields had passed.
    Emptied,
    /// Fields of a hash were removed because a command gave them a deadline that had passed; comes with another change.
    FieldsRemoved,
    /// The key was looked for and not found.
    Missed,
    /// A stream was shortened by the command that added an entry to it.
    Trimmed,
    /// A group of a stream got a new consumer.
    ConsumerMade,
}

/// Database, key, and change.
pub type Noted = (usize, Vec<u8>, Change);

/// Keys of which a copy that a client keeps has become stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// A key of this name, in any database.
    Key {
        /// The name.
        key: Vec<u8>,
        /// The key was removed because its deadline had passed.
        has_ended: bool,
    },
    /// All keys.
    All,
}

impl Keyspace {
    /// Notes changes from now on; misses of keys only if they are wanted, as a command may look for very many keys.
    pub fn note_changes(&mut self, wants_misses: bool) {
        self.changes.get_or_insert_default();
        self.notes_misses = wants_misses;
    }

    /// Takes all noted changes; notes nothing more.
    pub fn take_changes(&mut self) -> Vec<Noted> {
        self.changes.take().unwrap_or_default()
    }

    /// Notes and traces a change of a key, if somebody wants that.
    pub fn note(&mut self, db: usize, key: &[u8], change: Change) {
        let is_wanted = self.notes_misses || change != Change::Missed;
        if let Some(changes) = self.changes.as_mut().filter(|_| is_wanted) {
            changes.push((db, key.to_vec(), change));
        }
        self.trace_key(db, key, change);
    }

    /// Notes a change of a key, and tells the clients that watch or wait for it.
    pub(super) fn changed(&mut self, db: usize, key: &[u8], change: Change) {
        self.note(db, key, change);
        self.make_stale(key, change == Change::Expired);
        self.touch(db, key);
    }

    /// Switches the noting of stale keys on or off. When it is switched off, the noted keys are dropped.
    pub fn note_stale(&mut self, is_on: bool) {
        if is_on {
            self.stale.get_or_insert_default();
        } else {
            self.stale = None;
        }
    }

    /// Takes the stale keys since the last call, in order.
    pub fn take_stale(&mut self) -> Vec<Stale> {
        self.stale.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes that copies of a key are stale.
    pub(super) fn make_stale(&mut self, key: &[u8], has_ended: bool) {
        if let Some(stale) = &mut self.stale {
            stale.push(Stale::Key { key: key.to_vec(), has_ended });
        }
    }

    /// Notes that copies of all keys are stale.
    pub(super) fn make_all_stale(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.push(Stale::All);
        }
    }

    /// Drops the stale keys of writes that are dropped.
    pub(super) fn forget_stale(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fresh;

    fn key(name: &[u8], has_ended: bool) -> Stale {
        Stale::Key { key: name.to_vec(), has_ended }
    }

    #[test]
    fn stale_keys_are_noted_while_somebody_wants_them() {
        let mut keyspace = fresh();
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        assert_eq!(keyspace.take_stale(), []);
        keyspace.note_stale(true);
        keyspace.set_string(1, b"b", b"1", Some(keyspace.now() + 5)).unwrap();
        keyspace.note_stale(true);
        assert!(!keyspace.exists(0, b"none").unwrap());
        keyspace.rename((0, b"a"), (0, b"c")).unwrap();
        assert_eq!(keyspace.take_stale(), [key(b"b", false), key(b"c", false), key(b"a", false)]);
        keyspace.set_now(keyspace.now() + 10);
        assert_eq!(keyspace.remove_expired(10).unwrap(), 1);
        keyspace.swap(3, 3).unwrap();
        assert_eq!(keyspace.take_stale(), [key(b"b", true)]);
        keyspace.swap(0, 1).unwrap();
        keyspace.clear(5).unwrap();
        keyspace.clear_all().unwrap();
        assert_eq!(keyspace.take_stale(), [Stale::All, Stale::All, Stale::All]);
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        keyspace.discard();
        assert_eq!(keyspace.take_stale(), []);
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        keyspace.note_stale(false);
        assert_eq!(keyspace.take_stale(), []);
    }

    #[test]
    fn misses_are_noted_only_if_they_are_wanted() {
        let mut keyspace = fresh();
        for (wants_misses, misses) in [(false, 0), (true, 1)] {
            keyspace.note_changes(wants_misses);
            assert!(!keyspace.exists(0, b"none").unwrap());
            keyspace.set_string(0, b"a", b"1", None).unwrap();
            assert!(keyspace.remove(0, b"a").unwrap());
            let noted: Vec<Change> = keyspace.take_changes().into_iter().map(|(_, _, change)| change).collect();
            assert_eq!(noted.iter().filter(|change| **change != Change::Missed).count(), 2);
            assert_eq!(noted.iter().filter(|change| **change == Change::Missed).count(), 2 * misses);
        }
    }

    /// A flush disturbs watchers key by key, and makes copies of all keys stale at once.
    #[test]
    fn a_flush_is_one_note_whoever_watches() {
        let mut keyspace = fresh();
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        keyspace.watch(7, 0, b"a").unwrap();
        keyspace.note_stale(true);
        keyspace.clear_all().unwrap();
        assert!(keyspace.was_disturbed(7));
        assert_eq!(keyspace.take_stale(), [Stale::All]);
    }
}
