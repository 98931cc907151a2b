//! Replacement of all keys at once: a *successor*, a second keyspace on the same engine, is filled while the first one stays as it is, and
//! one batch puts it in the first one's place.
//!
//! Nothing of the successor can be found through the first keyspace: its databases and deadlines lie in the other generation of places
//! (`layout`), and its collections have ids that the first one does not use. Its counters are in a setting of their own, which is durable
//! before anything else of it is written. A start that finds this setting knows that the successor is not whole. The last batch removes, by
//! ranges, either the first keyspace or the successor, and the setting with it.
//!
//! Memory for this does not grow with the number of keys, and it works alike on directories and zones. The medium needs space for both.

use super::due::Due;
use super::error::{Error, Result};
use super::eviction::Hand;
use super::layout::{self, DatabaseBytes, FamilyKind, Ids};
use super::{Counters, Keyspace, NO_IDS, StreamPosition};
use sinter_storage::store::Store;
use sinterdb::internal::coding::Decoder;
use sinterdb::settings::Settings;
use sinterdb::{Durability, WriteOptions};
use std::sync::Arc;

/// Setting that a successor has instead of its counters: its first id, 8 bytes, and the counters.
const SUCCESSOR: &[u8] = b"successor";
/// Setting that marks the successor as a copy of another server's keys: a start removes such an unfinished successor, and the keys stay.
const COPY: &[u8] = b"copy";
/// Ids reserved for the first keyspace while its successor is filled. Each attempt, also one that fails, uses up so many of the 2^48 ids:
/// there are enough for a million.
const IDS_MEANWHILE: u64 = 1 << 28;

/// Ids and counters of a successor that has not become the keyspace yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfinished {
    ids: Ids,
    counters: Counters,
}

impl Keyspace {
    /// Opens the keyspace in a store like [`Keyspace::open`], after it has removed the rest of an import that was cut short; returns
    /// whether there was one.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn open_abandoning(store: Arc<dyn Store>, settings: &Settings, random: u64) -> Result<(Keyspace, bool)> {
        let mut keyspace = Keyspace::open_any(store, settings, random)?;
        let left = keyspace.unfinished()?;
        if let Some(left) = &left {
            keyspace.remove_successor(left)?;
        }
        Ok((keyspace, left.is_some()))
    }

    /// Begins an empty keyspace that is to replace this one; [`Keyspace::adopt`] or [`Keyspace::abandon_successor`] ends it. Until then the
    /// store cannot be opened again ([`Error::Unfinished`]).
    ///
    /// # Errors
    /// There is a successor already; errors of the engine.
    pub fn begin_successor(&mut self) -> Result<Keyspace> {
        self.begin_next(false)
    }

    /// [`Keyspace::begin_successor`] for a copy of another server's keys: if the process ends before it is whole, a start removes it.
    ///
    /// # Errors
    /// There is a successor already; errors of the engine.
    pub fn begin_copy(&mut self) -> Result<Keyspace> {
        self.begin_next(true)
    }

    fn begin_next(&mut self, is_copy: bool) -> Result<Keyspace> {
        if self.has_successor {
            return Err(Error::Unfinished);
        }
        // Removes what a failed attempt has left.
        self.remove_rest()?;
        let first = self.counters.ids.saturating_add(IDS_MEANWHILE);
        if first > layout::ID_MAX {
            return Err(Error::NoIds(NO_IDS));
        }
        self.commit(&WriteOptions::default())?;
        let random = self.random();
        let mut next = Keyspace::new(self.turn.beside(), self.cleaner.clone(), random);
        next.seed = self.seed;
        next.now = self.now;
        next.thresholds = self.thresholds;
        next.is_successor = true;
        next.ids = first..layout::ID_MAX + 1;
        next.last_id = first - 1;
        next.counters = Counters { ids: first - 1, places: DatabaseBytes::of_generation(self.generation().other()), ..Counters::NONE };
        next.turn.keep_hot(self.turn.hot().capacity());
        next.ranks.set_capacity(self.ranks.capacity());
        // The counters are durable before anything else of the successor is written, in case the machine fails later.
        next.put_counters();
        if is_copy {
            next.turn.put(FamilyKind::Keys, layout::setting_key(COPY), b"");
        } else {
            next.turn.delete(FamilyKind::Keys, layout::setting_key(COPY));
        }
        next.commit(&WriteOptions::new(Durability::Sync))?;
        next.turn.catch_up();
        self.ids.end = first;
        self.has_successor = true;
        Ok(next)
    }

    /// Replaces all keys and libraries by a whole successor, durably; the new keys are those of a replication stream at a position, or of
    /// none. A log beside the engine's is not told of it.
    ///
    /// # Errors
    /// Errors of the engine: the keys stay as they are. A start finds all of the old keys and an unfinished successor, or all of the new
    /// ones.
    pub fn adopt(&mut self, next: Keyspace, position: Option<StreamPosition>) -> Result<()> {
        self.has_successor = false;
        let result = self.take_over(next, position);
        if result.is_err() {
            self.discard();
            // If that fails, too, the rest is removed when the next successor begins.
            let _ = self.remove_rest();
        }
        result
    }

    fn take_over(&mut self, mut next: Keyspace, position: Option<StreamPosition>) -> Result<()> {
        next.commit(&WriteOptions::default())?;
        let (counters, last_id) = (next.committed.clone(), next.last_id);
        // Waits for the successor's thread to end its work.
        drop(next);
        match position {
            Some(position) => self.begin_stream(position)?,
            None => self.end_stream(),
        }
        self.note_change_of_all();
        self.disturb(|_| true)?;
        let old = self.generation();
        self.turn.clear(FamilyKind::Keys, old.entries());
        self.turn.clear(FamilyKind::Keys, old.deadlines());
        self.clear_elements();
        self.clear_libraries()?;
        for (name, code) in self.take_next_libraries()? {
            self.put_library(&name, &code);
        }
        self.end_successor();
        self.counters = counters;
        self.put_all_counters();
        self.due = Due::default();
        self.hand = Hand::default();
        self.forget_own_deadlines();
        self.disturb(|_| true)?;
        self.commit(&WriteOptions::new(Durability::Sync))?;
        self.ids.end = layout::ID_MAX + 1;
        self.last_id = last_id;
        Ok(())
    }

    /// Removes a successor, whole or not: the keys stay as they are.
    ///
    /// # Errors
    /// Errors of the engine; a start finds all keys, and perhaps the successor.
    pub fn abandon_successor(&mut self, next: Keyspace) -> Result<()> {
        drop(next);
        self.has_successor = false;
        self.remove_rest()
    }

    /// Removes what is there of a successor that was lost with the thread that filled it.
    ///
    /// # Errors
    /// Like [`Keyspace::abandon_successor`].
    pub fn abandon_lost(&mut self) -> Result<()> {
        self.has_successor = false;
        self.remove_rest()
    }

    /// Removes what is there of a successor that nobody fills any more.
    pub(super) fn remove_rest(&mut self) -> Result<()> {
        self.unfinished()?.map_or(Ok(()), |left| self.remove_successor(&left))
    }

    /// Whether there is an unfinished successor that is a copy of another server's keys, so that a start may drop it.
    pub(super) fn has_rest_of_copy(&self) -> Result<bool> {
        Ok(self.setting(COPY)?.is_some())
    }

    fn end_successor(&mut self) {
        self.turn.delete(FamilyKind::Keys, layout::setting_key(SUCCESSOR));
        self.turn.delete(FamilyKind::Keys, layout::setting_key(COPY));
    }

    /// Reads the ids and counters of an unfinished successor; `None`: there is none.
    pub(super) fn unfinished(&self) -> Result<Option<Unfinished>> {
        let Some(bytes) = self.setting(SUCCESSOR)? else { return Ok(None) };
        let mut from = Decoder::new(&bytes);
        let read = from.u64().zip(Counters::decode(from.rest()));
        let (first, counters) = read.ok_or(Error::Damaged("the counters of an import"))?;
        if counters.places.generation() == self.generation() || first <= self.counters.ids {
            return Err(Error::Damaged("an import into the keys that are there"));
        }
        Ok(Some(Unfinished { ids: first..layout::ID_MAX + 1, counters }))
    }

    /// The setting of a successor: its name and its value.
    pub(super) fn encode_successor(&self) -> (&'static [u8], Vec<u8>) {
        (SUCCESSOR, [&self.ids.start.to_le_bytes()[..], &self.counters.encode()].concat())
    }

    fn remove_successor(&mut self, left: &Unfinished) -> Result<()> {
        let places = left.counters.places.generation();
        self.turn.clear(FamilyKind::Keys, places.entries());
        self.turn.clear(FamilyKind::Keys, places.deadlines());
        self.turn.clear(FamilyKind::Elements, layout::elements_of(&left.ids));
        self.all_deleted = true;
        self.take_next_libraries()?;
        self.end_successor();
        // No id is used again. If none was used, none is lost: a synchronisation that fails at its start may be tried for ever.
        if left.counters.ids >= left.ids.start {
            self.counters.ids = self.counters.ids.max(left.counters.ids);
        }
        self.commit(&WriteOptions::new(Durability::Sync))?;
        self.ids.end = layout::ID_MAX + 1;
        self.last_id = self.counters.ids;
        Ok(())
    }
}
