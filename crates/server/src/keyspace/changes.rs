//! Changes of keys, for clients that subscribe to them by name (`command/events.rs` sends the events).
//!
//! Nothing is noted unless somebody asks; then every change is noted in order until the list is taken.

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

impl Keyspace {
    /// Notes changes from now on.
    pub fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Takes all noted changes; notes nothing more.
    pub fn take_changes(&mut self) -> Vec<Noted> {
        self.changes.take().unwrap_or_default()
    }

    /// Notes and traces a change of a key, if somebody wants that.
    pub fn note(&mut self, db: usize, key: &[u8], change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push((db, key.to_vec(), change));
        }
        self.trace_key(db, key, change);
    }

    /// Notes a change of a key, and tells the clients that watch or wait for it.
    pub(super) fn changed(&mut self, db: usize, key: &[u8], change: Change) {
        self.note(db, key, change);
        self.touch(db, key);
    }
}
