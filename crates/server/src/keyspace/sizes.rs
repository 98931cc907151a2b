//! Bytes of keys and values, exact for each database: they change in the batch that changes what they count.
//!
//! A key counts with the bytes of its name and of its value: the length of a string, zeros that are not stored included; the encoded
//! elements of an inline collection (`inline`); members, fields with their values, and items of other collections; 8 bytes for a score;
//! entries of streams as they are stored, with their ids. Groups of streams, deadlines of keys and of fields of large hashes, and the
//! engine's own data do not count.
//!
//! The size of a string or of an inline collection follows from its entry. The entry of any other collection has it (`entry`), so removing
//! a collection costs the same for any size. Earlier versions have not counted: then [`Keyspace::count_all_bytes`] reads all keys once.

use super::Keyspace;
use super::entry::{Head, Kind};
use super::entry_id::ENTRY_ID;
use super::error::Result;
use super::layout::{self, Bounds, DATABASES, Direction, FamilyKind};
use sinterdb::WriteOptions;
use std::ops::ControlFlow;

/// Bytes of the score of a member of a sorted set.
pub(super) const SCORE_BYTES: usize = 8;
/// Bytes of rewritten entries after which the count commits them.
const BATCH: usize = 1 << 20;

impl Keyspace {
    /// Bytes of all keys and their values; `None`: they are not counted.
    pub fn data_bytes(&self) -> Option<u64> {
        self.counters.bytes.map(|bytes| bytes.into_iter().fold(0, u64::saturating_add))
    }

    /// Counts the change of a key and its value.
    pub(super) fn count_bytes(&mut self, db: usize, key: &[u8], old: Option<&Head>, new: Option<&Head>) {
        let of = |head: Option<&Head>| head.map_or(0, |head| head.size.unwrap_or(0).saturating_add(key.len() as u64));
        if let Some(bytes) = &mut self.counters.bytes {
            bytes[db] = bytes[db].saturating_add(of(new)).saturating_sub(of(old));
        }
    }

    /// Notes that a database is empty.
    pub(super) fn count_no_bytes(&mut self, db: usize) {
        self.counters.bytes.iter_mut().for_each(|bytes| bytes[db] = 0);
        if self.counters.keys == [0; DATABASES] {
            self.counters.bytes = Some([0; DATABASES]);
        }
    }

    /// Bytes of the values of the elements within bounds, and so many bytes for each of them.
    pub(super) fn bytes_within(&self, bounds: &Bounds, each: usize) -> Result<usize> {
        let mut sum = 0usize;
        self.turn.walk(FamilyKind::Elements, bounds, Direction::Forward, &mut |_, value| {
            sum = sum.saturating_add(value.len()).saturating_add(each);
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    /// Bytes of the elements of a collection that lie in engine keys of their own, counted one by one.
    fn element_bytes(&self, head: &Head) -> Result<usize> {
        match head.kind {
            Kind::List => self.bytes_within(&layout::items(head.id, head.first, head.first.saturating_add(head.count)), 0),
            Kind::Stream => self.bytes_within(&head.entries(), ENTRY_ID),
            _ => {
                let mut sum = 0usize;
                self.turn.walk(FamilyKind::Elements, &layout::members(head.id, 0), Direction::Forward, &mut |place, value| {
                    let name = layout::split_member_key(place).map_or(0, |(_, name)| name.len());
                    sum = sum.saturating_add(name).saturating_add(value.len());
                    ControlFlow::Continue(())
                })?;
                Ok(sum)
            }
        }
    }

    /// Counts the bytes of all keys, if an earlier version has written them, and commits the result. Takes as long as reading all keys, and
    /// the elements of the collections whose size is unknown. False: they were counted already.
    pub fn count_all_bytes(&mut self) -> Result<bool> {
        if self.counters.bytes.is_some() {
            return Ok(false);
        }
        let mut all = [0u64; DATABASES];
        for (db, bytes) in all.iter_mut().enumerate() {
            let mut bounds = layout::entries(self.counters.places.of(db), 0);
            loop {
                let chunk = self.heads(&mut bounds)?;
                if chunk.is_empty() {
                    break;
                }
                for (place, head) in chunk {
                    let size = self.known_size(&place, &head)?;
                    let name = layout::split_entry_key(&place).map_or(0, |(_, name)| name.len() as u64);
                    *bytes = bytes.saturating_add(size).saturating_add(name);
                }
            }
        }
        self.counters.bytes = Some(all);
        self.put_all_counters();
        self.commit(&WriteOptions::default())?;
        Ok(true)
    }

    /// Size of a value; one that is unknown is counted and written to the key's entry.
    fn known_size(&mut self, place: &[u8], head: &Head) -> Result<u64> {
        if let Some(size) = head.size {
            return Ok(size);
        }
        let size = self.element_bytes(head)? as u64;
        self.turn.put(FamilyKind::Keys, place, Head { size: Some(size), ..*head }.encode(b""));
        if self.turn.bytes() >= BATCH {
            self.commit(&WriteOptions::default())?;
        }
        Ok(size)
    }

    /// Checks that the counted bytes of each database are those of its keys.
    #[cfg(test)]
    pub(crate) fn check_bytes(&self) {
        for db in 0..DATABASES {
            let (mut bounds, mut sum) = (layout::entries(self.counters.places.of(db), 0), 0);
            loop {
                let chunk = self.heads(&mut bounds).unwrap();
                if chunk.is_empty() {
                    break;
                }
                for (place, head) in chunk {
                    let size = match head.id == 0 || head.is_in_pieces() {
                        true => head.size,
                        false => Some(self.element_bytes(&head).unwrap() as u64),
                    };
                    assert_eq!(head.size, size, "{head:?}");
                    sum += size.unwrap() + layout::split_entry_key(&place).unwrap().1.len() as u64;
                }
            }
            assert_eq!(self.counters.bytes.map(|bytes| bytes[db]), Some(sum), "database {db}");
        }
    }

    /// Commits like a program of version 5, which leaves the count as it is.
    #[cfg(test)]
    pub(crate) fn leave_bytes(&mut self) {
        self.turn.put(FamilyKind::Keys, layout::setting_key(b"format"), 5u64.to_le_bytes());
        self.counters.bytes = self.committed.bytes;
        self.commit(&WriteOptions::default()).unwrap();
    }

    /// Makes the keyspace one of an earlier version, which has not counted bytes.
    #[cfg(test)]
    pub(crate) fn forget_bytes(&mut self) {
        for db in 0..DATABASES {
            let mut bounds = layout::entries(self.counters.places.of(db), 0);
            for (place, head) in self.heads(&mut bounds).unwrap() {
                if head.id != 0 && !head.is_in_pieces() {
                    self.turn.put(FamilyKind::Keys, place, Head { size: None, ..head }.encode(b""));
                }
            }
        }
        self.turn.delete(FamilyKind::Keys, layout::setting_key(super::BYTES));
        self.counters.bytes = None;
    }
}
