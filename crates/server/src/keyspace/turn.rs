//! The writes of a turn: kept in memory until they become one batch of the engine, and seen by all reads meanwhile.
//!
//! A turn is the work of one event-loop iteration: many commands of many clients. Their writes share one record of the log. Two writes of
//! the same key become one. Until [`Turn::commit`] nothing is in the engine, so a turn that cannot be finished is dropped as a whole.
//!
//! A large batch is given to the engine by a thread of its own (`committer`). It counts as committed once it is in the log; the next read
//! of the engine waits until it can be found there.

mod walk;

pub(super) use walk::Visit;

use super::backlog::Backlog;
use super::committer::Committer;
use super::dead_ranges::DeadRanges;
use super::error::Result;
use super::hot::{Counting, Hot, Part, Purpose};
use super::layout::{Bounds, FamilyKind};
use super::written::Written;
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::{Db, Family, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use std::cell::{Cell, OnceCell, RefCell};

/// Smallest batch that goes through the committer's thread, bytes: inserting it takes ten times as long as waking the thread. Tests have
/// batches on both sides of the limit.
const LARGE: usize = if cfg!(test) { 256 } else { 32 << 10 };

/// Bytes of the replication stream for which a turn keeps memory.
const KEPT_STREAM: usize = 1 << 20;

/// Whether a range lies within another.
fn covers(whole: &Bounds, part: &Bounds) -> bool {
    whole.0 <= part.0 && part.1 <= whole.1
}

/// One family of the engine, and the writes to it in this turn.
struct FamilyWrites {
    family: Family,
    written: Written,
    /// Ranges that were removed before anything in `written`.
    cleared: Vec<Bounds>,
}

impl FamilyWrites {
    fn new(family: Family) -> Self {
        FamilyWrites { family, written: Written::new(), cleared: Vec::new() }
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|(from, to)| from.as_slice() <= key && key < to.as_slice())
    }

    /// Whether a key that this turn has changed exists, with its value in `out`; `None`, and `out` empty: the turn has not changed the key.
    fn changed(&self, key: &[u8], out: &mut Vec<u8>) -> Option<bool> {
        out.clear();
        match self.written.get(key) {
            Some(written) => {
                out.extend_from_slice(written.unwrap_or_default());
                Some(written.is_some())
            }
            None => self.is_cleared(key).then_some(false),
        }
    }

    fn is_untouched(&self) -> bool {
        self.written.is_empty() && self.cleared.is_empty()
    }

    /// Frees the memory of the writes, of which there are none now.
    fn give_back(&mut self) {
        self.written = Written::new();
    }

    fn reset(&mut self) {
        self.written.clear();
        self.cleared.clear();
    }
}

pub(super) struct Turn {
    /// The engine, read through [`Turn::db`].
    engine: Db,
    keys: FamilyWrites,
    elements: FamilyWrites,
    backlog: Backlog,
    batch: WriteBatch,
    /// Thread for large batches, started for the first of them if there is a processor for it.
    committer: OnceCell<Option<Committer>>,
    /// Whether the last batch given to the committer may not be in the memtables yet, so that reads have to wait for it.
    is_behind: Cell<bool>,
    /// Nanoseconds for which reads have waited for such batches.
    waited: Cell<u64>,
    /// Bytes of the batch that the committer was given last.
    underway: usize,
    /// Bytes of keys, values and ranges that were written.
    bytes: usize,
    /// Counted up whenever anything is written or dropped.
    version: u64,
    /// Options for reads of the engine.
    read: ReadOptions,
    /// Committed entries of keys that are read often.
    hot: Hot,
    /// Ranges of elements that hold nothing.
    pub(super) dead: RefCell<DeadRanges>,
}

impl Turn {
    pub fn new(engine: Db, keys: Family, elements: Family) -> Self {
        let (keys, elements) = (FamilyWrites::new(keys), FamilyWrites::new(elements));
        let (batch, read, hot) = (WriteBatch::new(), ReadOptions::default(), Hot::default());
        Turn {
            engine,
            keys,
            elements,
            backlog: Backlog::default(),
            batch,
            committer: OnceCell::new(),
            is_behind: Cell::new(false),
            waited: Cell::new(0),
            underway: 0,
            bytes: 0,
            version: 0,
            read,
            hot,
            dead: RefCell::default(),
        }
    }

    /// A turn without writes, over the engine's data at a moment. Its reads of much data do not push other data out of the cache.
    pub fn at(&self, snapshot: Snapshot) -> Turn {
        let mut turn = self.beside();
        turn.read = ReadOptions { snapshot: Some(snapshot), fill_cache: false, ..ReadOptions::default() };
        turn
    }

    /// A copy of this turn to read from: the engine's data as this turn sees them and, within some bounds, the changes of this turn.
    pub fn of_now(&self, family: FamilyKind, bounds: &Bounds) -> Turn {
        let mut turn = self.at(self.read.snapshot.clone().unwrap_or_else(|| self.db().snapshot()));
        let (from, to) = (bounds.0.as_slice(), bounds.1.as_slice());
        let (writes, writes_then) = (self.writes(family), turn.writes_mut(family));
        writes_then.cleared.clone_from(&writes.cleared);
        for (key, value) in writes.written.iter().filter(|(key, _)| from <= *key && *key < to) {
            match value {
                Some(value) => _ = writes_then.written.put(key, |out| out.extend_from_slice(value)),
                None => writes_then.written.delete(key),
            }
        }
        turn
    }

    /// A turn without writes, for another keyspace on the same engine.
    pub fn beside(&self) -> Turn {
        Turn::new(self.engine.clone(), self.keys.family.clone(), self.elements.family.clone())
    }

    /// The engine, with everything that was committed.
    pub fn db(&self) -> &Db {
        self.catch_up();
        &self.engine
    }

    /// The engine, perhaps without what was committed last.
    pub fn engine(&self) -> &Db {
        &self.engine
    }

    /// Whether a commit would wait for a flush, if the batch that the committer inserts counts as inserted.
    pub fn would_wait(&self) -> bool {
        let underway = if self.is_behind.get() { self.underway } else { 0 };
        let would_wait = |family: &Family| self.engine.would_wait(family, underway);
        would_wait(&self.keys.family) || would_wait(&self.elements.family) || self.backlog.families().iter().any(would_wait)
    }

    /// Whether a batch is on its way into the memtables: a read of the engine would wait for it.
    pub fn is_underway(&self) -> bool {
        self.is_behind.get() && self.committer.get().is_some_and(|committer| committer.as_ref().is_some_and(Committer::is_underway))
    }

    /// Frees the memory that is kept from one turn for the next, if nothing is written in this one.
    pub fn give_back(&mut self) {
        if !self.is_empty() {
            return;
        }
        self.keys.give_back();
        self.elements.give_back();
        self.backlog.give_back();
        self.batch = WriteBatch::new();
        if let Some(Some(committer)) = self.committer.get() {
            committer.give_back();
        }
    }

    /// Whether range tombstones are among the writes.
    pub fn deletes_ranges(&self) -> bool {
        !(self.keys.cleared.is_empty() && self.elements.cleared.is_empty())
    }

    /// Waits until all reads, those of other keyspaces on the engine as well, find everything that was committed here.
    pub fn catch_up(&self) {
        if self.is_behind.take()
            && let Some(Some(committer)) = self.committer.get()
        {
            let clock = SystemClock::default();
            committer.end();
            self.waited.set(self.waited.get() + clock.monotonic_ns());
        }
    }

    /// Nanoseconds for which reads of the engine have waited for earlier commits.
    pub fn waited(&self) -> u64 {
        self.waited.get()
    }

    fn writes(&self, family: FamilyKind) -> &FamilyWrites {
        match family {
            FamilyKind::Keys => &self.keys,
            FamilyKind::Elements => &self.elements,
        }
    }

    fn writes_mut(&mut self, family: FamilyKind) -> &mut FamilyWrites {
        match family {
            FamilyKind::Keys => &mut self.keys,
            FamilyKind::Elements => &mut self.elements,
        }
    }

    /// Whether nothing was written in this turn.
    pub fn is_empty(&self) -> bool {
        self.keys.is_untouched() && self.elements.is_untouched() && self.backlog.is_untouched()
    }

    /// Bytes that were written in this turn, overwritten ones included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stored bytes of the replication stream.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    pub fn backlog_mut(&mut self) -> &mut Backlog {
        &mut self.backlog
    }

    /// Adds bytes to a part of the stored stream, at an offset behind those of this turn.
    pub fn feed(&mut self, part: usize, at: u64, bytes: &[u8]) {
        self.backlog.feed(part, at, bytes);
        self.bytes += bytes.len();
    }

    /// Number that changes whenever reads may find other data.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Limits the memory of the cache of hot entries, bytes; a change of the limit empties the cache.
    pub fn keep_hot(&mut self, bytes: u64) {
        if bytes != self.hot.capacity() {
            self.hot.begin_anew(bytes);
        }
    }

    pub fn hot(&self) -> &Hot {
        &self.hot
    }

    /// Sets the time of uses of keys, unix milliseconds.
    pub fn set_now(&mut self, unix_ms: u64) {
        self.hot.clock.set(unix_ms);
    }

    /// Sets how uses of keys are counted.
    pub fn set_counting(&mut self, counting: Counting) {
        self.hot.clock.counting = counting;
    }

    /// Notes the use of a key.
    pub fn use_entry(&mut self, key: &[u8]) {
        self.hot.use_entry(key);
    }

    /// Whether this turn has written a key's entry.
    pub fn is_written(&self, key: &[u8]) -> bool {
        self.keys.written.get(key).is_some()
    }

    /// Sets whether blocks that reads load stay in the cache; returns what was set before.
    pub fn fill_cache(&mut self, fills: bool) -> bool {
        std::mem::replace(&mut self.read.fill_cache, fills)
    }

    /// Reads the value of a key into `out`; false, and `out` empty: there is none.
    pub fn get(&self, family: FamilyKind, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        match self.writes(family).changed(key, out) {
            Some(found) => Ok(found),
            None => Ok(self.db().get_into(&self.writes(family).family, key, &self.read, out)?),
        }
    }

    /// Prefetches entries that will be looked up next, those of the hot cache and those of the engine. Changes the order of `keys`.
    pub fn expect(&self, keys: &mut [&[u8]]) {
        keys.iter().for_each(|key| self.hot.expect(key));
        let mut absent = 0;
        for at in 0..keys.len() {
            if !self.hot.expect_entry(keys[at]) {
                keys.swap(at, absent);
                absent += 1;
            }
        }
        if absent > 0 {
            // The engine may lack the last commit: no prefetch is worth a wait for it.
            self.engine.expect(&self.keys.family, &keys[..absent]);
        }
    }

    /// Like [`Turn::get`], for entries of keys: entries that are read often are cached. With `start_is_enough`, `out` may get only the
    /// bytes before a long string.
    pub fn get_entry(&mut self, key: &[u8], out: &mut Vec<u8>, start_is_enough: bool, purpose: Purpose) -> Result<Option<Part>> {
        if let Some(found) = self.keys.changed(key, out) {
            return Ok(found.then_some(Part::Whole));
        }
        let hot = self.hot.get(key, out, purpose);
        if hot == Some(Part::Whole) || hot.is_some() && start_is_enough {
            return Ok(hot);
        }
        let found = self.db().get_into(&self.keys.family, key, &self.read, out)?;
        if found && hot.is_none() {
            self.hot.missed(key, out, purpose);
        }
        Ok(found.then_some(Part::Whole))
    }

    pub fn put(&mut self, family: FamilyKind, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_with(family, key, |out| out.extend_from_slice(value.as_ref()));
    }

    /// Writes a value that `value` appends to the bytes that it gets.
    pub fn put_with(&mut self, family: FamilyKind, key: impl AsRef<[u8]>, value: impl FnOnce(&mut Vec<u8>)) {
        if family == FamilyKind::Elements {
            self.dead.get_mut().cut(key.as_ref());
        }
        self.bytes += self.writes_mut(family).written.put(key.as_ref(), value);
        self.version += 1;
    }

    /// Changes a part of a key's value: `step` turns the engine's value into the one that `value` puts. If the turn has written the whole
    /// value before, it writes the whole value again.
    pub fn change(&mut self, key: &[u8], step: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        let is_whole = self.keys.is_cleared(key);
        self.bytes += self.keys.written.change(key, step, is_whole, value);
        self.version += 1;
    }

    pub fn delete(&mut self, family: FamilyKind, key: impl AsRef<[u8]>) {
        self.bytes += key.as_ref().len();
        self.version += 1;
        self.writes_mut(family).written.delete(key.as_ref());
    }

    /// Removes a range of keys. Removing a range repeatedly takes no more memory.
    pub fn clear(&mut self, family: FamilyKind, bounds: Bounds) {
        self.version += 1;
        let writes = self.writes_mut(family);
        writes.written.take_back(&bounds.0, &bounds.1);
        if writes.cleared.iter().any(|other| covers(other, &bounds)) {
            return;
        }
        writes.cleared.retain(|other| !covers(&bounds, other));
        let bytes = bounds.0.len() + bounds.1.len();
        writes.cleared.push(bounds);
        self.bytes += bytes;
    }

    /// Withdraws all writes of this turn to a range that was empty before.
    pub fn forget(&mut self, family: FamilyKind, bounds: &Bounds) {
        self.version += 1;
        self.writes_mut(family).written.take_back(&bounds.0, &bounds.1);
        if self.is_empty() {
            self.bytes = 0;
        }
    }

    /// Commits all writes as one batch. After an error none of them is in the engine, or it is not known which (a failed sync); the turn is
    /// over either way.
    pub fn commit(&mut self, options: &WriteOptions) -> Result<()> {
        self.version += 1;
        self.batch.clear();
        self.bytes = 0;
        for writes in [&self.keys, &self.elements] {
            for (from, to) in &writes.cleared {
                self.batch.delete_range_in(&writes.family, from, to);
            }
            for (key, value, steps) in writes.written.iter_with_steps() {
                match (value, steps) {
                    (Some(_), Some(steps)) => self.batch.merge_in(&writes.family, key, steps),
                    (Some(value), None) => self.batch.put_in(&writes.family, key, value),
                    (None, _) => self.batch.delete_in(&writes.family, key),
                }
            }
        }
        self.backlog.write(&mut self.batch);
        let is_large = self.batch.bytes() >= LARGE;
        let committer = is_large.then(|| self.committer.get_or_init(|| Committer::beside(&self.engine)).as_ref()).flatten();
        if let Some(committer) = committer {
            self.underway = self.batch.bytes();
            committer.begin(&mut self.batch, *options);
            self.is_behind.set(true);
        }
        // Ranges of keys are removed only with a whole database.
        if !self.keys.cleared.is_empty() {
            self.hot.clear();
        }
        self.hot.wrote_all(self.keys.written.iter());
        let result = match committer {
            Some(committer) => committer.logged(),
            None => {
                self.catch_up();
                self.engine.write(&mut self.batch, options)
            }
        };
        if result.is_err() {
            // Entries that were not committed must not be found among the hot keys, and keys that were not removed after all are there.
            self.hot.clear();
            self.dead.get_mut().clear();
        }
        self.keys.reset();
        self.elements.reset();
        self.backlog.reset(KEPT_STREAM);
        Ok(result?)
    }

    /// Drops all writes.
    pub fn discard(&mut self) {
        self.keys.reset();
        self.elements.reset();
        self.backlog.reset(KEPT_STREAM);
        // Keys that the turn had removed are there again.
        self.dead.get_mut().clear();
        self.version += 1;
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fresh;

    /// Bytes of memory that are kept for the writes of the next turn.
    fn kept(turn: &Turn) -> usize {
        turn.keys.written.kept() + turn.elements.written.kept() + turn.batch.memory()
    }

    #[test]
    fn memory_of_large_turns_is_given_back_between_turns() {
        let mut keyspace = fresh();
        for round in 0..2u8 {
            let turn = &mut keyspace.turn;
            for number in 0..1000u16 {
                turn.put(FamilyKind::Elements, number.to_be_bytes(), vec![round; 4096]);
                turn.put(FamilyKind::Keys, number.to_be_bytes(), [round]);
            }
            let key = 7u16.to_be_bytes();
            turn.give_back();
            let mut out = Vec::new();
            assert!(turn.get(FamilyKind::Elements, &key, &mut out).unwrap(), "what is not committed stays");
            turn.commit(&WriteOptions::default()).unwrap();
            turn.catch_up();
            assert!(kept(turn) > 4_000_000, "nothing is kept: {}", kept(turn));
            turn.give_back();
            assert!(kept(turn) < 16 << 10, "{}", kept(turn));
            assert!(turn.get(FamilyKind::Elements, &key, &mut out).unwrap() && out == vec![round; 4096]);
        }
    }
}
