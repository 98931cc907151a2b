//! What was changed since somebody looked last, for whoever keeps a second log (`append` does).
//!
//! Nothing is traced unless that is wanted. What is traced of keys says only that they changed: what they hold now is read. Of a group it
//! says which of its pending entries changed, as that can be little of much.

use super::changes::Change;
use super::entry::Head;
use super::entry_id::EntryId;
use super::error::Result;
use super::{GroupEdit, Keyspace};

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// A key is gone because its time had come: database and name.
    Expired(usize, Vec<u8>),
    /// A key was made, changed or removed.
    Key(usize, Vec<u8>),
    /// A group of a stream was changed.
    Group(GroupTrace),
}

/// What was changed of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTrace {
    /// Database of the stream.
    pub db: usize,
    /// Its key.
    pub key: Vec<u8>,
    /// The group's name.
    pub name: Vec<u8>,
    /// Consumers that were made.
    pub made: Vec<Vec<u8>>,
    /// Entries that became pending, are so in another way, or are so no more.
    pub pending: Vec<EntryId>,
    /// It was given entries up to another id.
    pub is_moved: bool,
}

impl Keyspace {
    /// Whether changes are traced from now on. Those that nobody has asked for are forgotten.
    pub fn trace(&mut self, is_on: bool) {
        self.traces = is_on.then(Vec::new);
    }

    /// All that was traced since the last call, in order.
    pub fn take_traces(&mut self) -> Vec<Trace> {
        self.traces.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn is_traced(&self) -> bool {
        self.traces.is_some()
    }

    /// The writes that were traced are dropped.
    pub(super) fn forget_traces(&mut self) {
        if let Some(traces) = &mut self.traces {
            traces.clear();
        }
    }

    pub(super) fn trace_key(&mut self, db: usize, key: &[u8], change: Change) {
        let Some(traces) = &mut self.traces else { return };
        match change {
            Change::Expired => traces.push(Trace::Expired(db, key.to_vec())),
            Change::Made | Change::Changed | Change::Removed => traces.push(Trace::Key(db, key.to_vec())),
            // Those come with another one, or change nothing.
            Change::Missed | Change::Trimmed | Change::ConsumerMade => {}
        }
    }

    /// The change of a group has ended.
    pub(super) fn trace_group(&mut self, edit: &mut GroupEdit) {
        let Some(traces) = &mut self.traces else { return };
        let (made, pending) = (std::mem::take(&mut edit.made), std::mem::take(&mut edit.touched));
        let is_moved = (edit.group.last, edit.group.read) != (edit.old.last, edit.old.read);
        if is_moved || !made.is_empty() || !pending.is_empty() {
            let ((db, key), name) = (edit.of, edit.name.to_vec());
            traces.push(Trace::Group(GroupTrace { db, key: key.to_vec(), name, made, pending, is_moved }));
        }
    }

    /// What is kept for a key and what stands behind it in its entry: a string, unless it lies in pieces, or the elements of an inline
    /// collection. Unlike [`Keyspace::find`] it changes nothing, and
    /// sees keys that have ended and were not removed.
    pub fn peek(&mut self, db: usize, key: &[u8]) -> Result<Option<(Head, &[u8])>> {
        self.look_up(db, key)?;
        self.complete()?;
        let body = self.entry.get(self.string_at..).unwrap_or_default();
        Ok(self.known.head.map(|head| (head, if head.is_in_pieces() { &[] } else { body })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fresh;

    #[test]
    fn only_what_is_wanted_is_traced() {
        let mut keyspace = fresh();
        keyspace.set_string(0, b"a", b"1", None).unwrap();
        assert_eq!(keyspace.take_traces(), []);
        keyspace.trace(true);
        keyspace.set_string(3, b"a", b"2", Some(5)).unwrap();
        keyspace.remove(0, b"a").unwrap();
        keyspace.remove(0, b"none").unwrap();
        assert_eq!(keyspace.take_traces(), [Trace::Key(3, b"a".to_vec()), Trace::Key(0, b"a".to_vec())]);
        keyspace.set_now(10);
        let (head, text) = keyspace.peek(3, b"a").unwrap().unwrap();
        assert_eq!((head.deadline, text), (Some(5), &b"2"[..]), "a look removes nothing");
        assert!(keyspace.peek(0, b"a").unwrap().is_none() && keyspace.take_traces().is_empty());
        assert!(!keyspace.exists(3, b"a").unwrap());
        assert_eq!(keyspace.take_traces(), [Trace::Expired(3, b"a".to_vec())]);
        keyspace.set_string(0, b"b", b"1", None).unwrap();
        keyspace.discard();
        assert_eq!(keyspace.take_traces(), []);
        keyspace.trace(false);
        keyspace.set_string(0, b"b", b"1", None).unwrap();
        assert_eq!(keyspace.take_traces(), []);
    }
}
