//! Changes since somebody looked last, for the keeper of a second log (`append`).
//!
//! Nothing is traced unless somebody asks. The trace of a key says only that it changed; its present value is read from the key. The trace
//! of a group says which of its pending entries changed, as they can be few of many.

use super::changes::Change;
use super::entry::Head;
use super::entry_id::EntryId;
use super::error::Result;
use super::{GroupEdit, Keyspace};

/// A change to the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// A key was removed because its deadline had passed, or was evicted: database and name.
    Expired(usize, Vec<u8>),
    /// Fields of a hash were removed because their deadlines had passed: database, key, and fields. The hash has others left.
    Fields(usize, Vec<u8>, Vec<Vec<u8>>),
    /// A key was made, changed or removed.
    Key(usize, Vec<u8>),
    /// A group of a stream was changed.
    Group(GroupTrace),
}

/// A change to a group of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupTrace {
    /// Database of the stream.
    pub db: usize,
    /// Key of the stream.
    pub key: Vec<u8>,
    /// The group's name.
    pub name: Vec<u8>,
    /// Consumers that were made.
    pub made: Vec<Vec<u8>>,
    /// Entries that became pending, changed as pending entries, or are no longer pending.
    pub pending: Vec<EntryId>,
    /// The group's last delivered id or its number of read entries has changed.
    pub is_moved: bool,
}

impl Keyspace {
    /// Switches the tracing of changes on or off. Traces that nobody has taken are forgotten.
    pub fn trace(&mut self, is_on: bool) {
        self.traces = is_on.then(Vec::new);
    }

    /// Takes all traces since the last call, in order.
    pub fn take_traces(&mut self) -> Vec<Trace> {
        self.traces.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All traces since the last [`Keyspace::take_traces`], in order.
    pub fn traces(&self) -> &[Trace] {
        self.traces.as_deref().unwrap_or_default()
    }

    pub(super) fn is_traced(&self) -> bool {
        self.traces.is_some()
    }

    /// Drops all traces.
    pub fn forget_traces(&mut self) {
        let Some(traces) = &mut self.traces else { return };
        if let [Trace::Key(_, key)] = &mut traces[..] {
            // Its memory is good for the next one.
            self.spare_key = std::mem::take(key);
        }
        traces.clear();
    }

    pub(super) fn trace_key(&mut self, db: usize, key: &[u8], change: Change) {
        let Some(traces) = &mut self.traces else { return };
        match change {
            Change::Expired | Change::Emptied | Change::Evicted => traces.push(Trace::Expired(db, key.to_vec())),
            Change::Made | Change::Changed | Change::Removed => {
                let mut name = std::mem::take(&mut self.spare_key);
                name.clear();
                name.extend_from_slice(key);
                traces.push(Trace::Key(db, name));
            }
            // These changes come with another one, or change nothing.
            Change::FieldsExpired | Change::FieldsRemoved | Change::Missed | Change::Trimmed | Change::ConsumerMade => {}
        }
    }

    /// Traces the change of a group, which has ended.
    pub(super) fn trace_group(&mut self, edit: &mut GroupEdit) {
        let Some(traces) = &mut self.traces else { return };
        let (made, pending) = (std::mem::take(&mut edit.made), std::mem::take(&mut edit.touched));
        let is_moved = (edit.group.last, edit.group.read) != (edit.old.last, edit.old.read);
        if is_moved || !made.is_empty() || !pending.is_empty() {
            let ((db, key), name) = (edit.of, edit.name.to_vec());
            traces.push(Trace::Group(GroupTrace { db, key: key.to_vec(), name, made, pending, is_moved }));
        }
    }

    /// Head of a key, and the bytes behind the head in its entry: a string, unless it lies in pieces, or the elements of an inline
    /// collection. Unlike [`Keyspace::find`], changes no data and sees keys whose deadline has passed but that were not removed yet.
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
