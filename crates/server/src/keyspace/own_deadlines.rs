//! Deadlines that clients of a writable replica have set. The primary knows nothing of them, so the replica removes these keys itself, as
//! Redis does. They are in memory only: after a restart such a key goes when a write touches it, or at the replica's promotion.

use super::error::Result;
use super::hot::Purpose;
use super::layout;
use super::{Keyspace, Passed};
use std::collections::BTreeSet;

/// Deadlines of keys that a replica's own clients have set.
#[derive(Debug, Default)]
pub(super) struct OwnDeadlines {
    /// The commands that run are those of such clients.
    is_noting: bool,
    /// Deadline, database and key.
    all: BTreeSet<(u64, usize, Vec<u8>)>,
}

impl OwnDeadlines {
    /// Notes that a key's deadline changes.
    pub fn change(&mut self, db: usize, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if let Some(old) = old.filter(|_| !self.all.is_empty()) {
            self.all.remove(&(old, db, key.to_vec()));
        }
        if let Some(new) = new.filter(|_| self.is_noting) {
            self.all.insert((new, db, key.to_vec()));
        }
    }
}

impl Keyspace {
    /// Says whether the commands that follow are those of a writable replica's own clients.
    pub fn note_own_deadlines(&mut self, is_on: bool) {
        self.own.is_noting = is_on;
    }

    /// Number of deadlines that a replica's own clients have set.
    pub fn own_deadlines(&self) -> usize {
        self.own.all.len()
    }

    /// Forgets the deadlines that a replica's own clients have set: the keys are gone, or the server is no replica any more.
    pub fn forget_own_deadlines(&mut self) {
        self.own = OwnDeadlines::default();
    }

    /// Like [`Keyspace::remove_expired`], for keys and fields whose deadlines a replica's own clients have set.
    pub fn remove_own_expired(&mut self, most: usize) -> Result<usize> {
        self.purpose = Purpose::Removal;
        let (passed, is_noting) = (self.passed, self.own.is_noting);
        // A hash of which other fields are left has another deadline then.
        (self.passed, self.own.is_noting) = (Passed::Removed, true);
        let (mut dealt, mut last) = (0, Ok(1));
        while dealt < most && last.as_ref().is_ok_and(|last| *last > 0) {
            last = self.remove_first_own(most - dealt);
            dealt += last.as_ref().copied().unwrap_or(0);
        }
        (self.passed, self.own.is_noting) = (passed, is_noting);
        last.map(|_| dealt)
    }

    /// Removes the key, or at most `most` due fields, of the first such deadline if it has passed; returns how many deadlines were dealt
    /// with.
    fn remove_first_own(&mut self, most: usize) -> Result<usize> {
        let first = self.own.all.first().filter(|(deadline, ..)| *deadline < self.now);
        let Some((deadline, db, key)) = first.cloned() else { return Ok(0) };
        self.look_up(db, &key)?;
        if self.known.head.is_none_or(|head| head.next_deadline() != Some(deadline)) {
            // The databases were swapped, or the write was dropped.
            self.own.all.pop_first();
            return Ok(1);
        }
        let place = layout::expiry_key(deadline, self.counters.places.of(db), &key);
        self.remove_ended(db, &key, (deadline, &place), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fresh;

    fn set(keyspace: &mut Keyspace, key: &[u8], deadline: u64) {
        keyspace.set_string(0, key, b"1", Some(deadline)).unwrap();
    }

    #[test]
    fn only_keys_of_own_clients_are_removed() {
        let mut keyspace = fresh();
        keyspace.treat_passed(Passed::Hidden);
        let now = keyspace.now();
        set(&mut keyspace, b"primary's", now + 10);
        keyspace.note_own_deadlines(true);
        [&b"a"[..], b"b", b"later", b"without", b"taken"].iter().for_each(|key| set(&mut keyspace, key, now + 10));
        set(&mut keyspace, b"later", now + 1000);
        keyspace.set_string(0, b"without", b"1", None).unwrap();
        keyspace.note_own_deadlines(false);
        // The primary sets it, too: it is the primary's from here on.
        set(&mut keyspace, b"taken", now + 11);
        assert_eq!(keyspace.own_deadlines(), 3);
        keyspace.set_now(now + 10);
        assert_eq!(keyspace.remove_own_expired(10).unwrap(), 0);
        keyspace.set_now(now + 500);
        assert_eq!((keyspace.remove_own_expired(1).unwrap(), keyspace.size(0)), (1, 5));
        assert_eq!((keyspace.remove_own_expired(10).unwrap(), keyspace.size(0), keyspace.own_deadlines()), (1, 4, 1));
        assert!(keyspace.exists(0, b"later").unwrap() && !keyspace.exists(0, b"primary's").unwrap());
        assert_eq!(keyspace.size(0), 4, "ended keys of the primary are hidden still");
        // A deadline that is nowhere any more is forgotten.
        keyspace.swap(0, 1).unwrap();
        keyspace.set_now(now + 2000);
        assert_eq!((keyspace.remove_own_expired(10).unwrap(), keyspace.own_deadlines(), keyspace.size(1)), (1, 0, 4));
        keyspace.note_own_deadlines(true);
        set(&mut keyspace, b"a", now + 5000);
        keyspace.forget_own_deadlines();
        assert_eq!(keyspace.own_deadlines(), 0);
    }
}
