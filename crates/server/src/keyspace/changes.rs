//! What became of keys, for those who want to be told of it by name (the command's part of that is in `command/events.rs`).
//!
//! Nothing is noted unless somebody asks; then all is noted in order until it is taken.

use super::Keyspace;

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Made,
    /// What it holds, or its deadline, is another.
    Changed,
    /// It is gone.
    Removed,
    /// It is gone because its time had come.
    Expired,
    /// It was looked for and not found.
    Missed,
    /// A stream was made shorter by what added an entry to it.
    Trimmed,
    /// A group of a stream has a consumer that it did not have.
    ConsumerMade,
}

/// Database, key, and what became of it.
pub type Noted = (usize, Vec<u8>, Change);

impl Keyspace {
    /// Notes changes from now on, if it did not do so already.
    pub fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// All that was noted; notes nothing more.
    pub fn take_changes(&mut self) -> Vec<Noted> {
        self.changes.take().unwrap_or_default()
    }

    /// Notes and traces what became of a key, if that is wanted.
    pub fn note(&mut self, db: usize, key: &[u8], change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push((db, key.to_vec(), change));
        }
        self.trace_key(db, key, change);
    }

    /// A key was changed: all are told who want to know.
    pub(super) fn changed(&mut self, db: usize, key: &[u8], change: Change) {
        self.note(db, key, change);
        self.touch(db, key);
    }
}
