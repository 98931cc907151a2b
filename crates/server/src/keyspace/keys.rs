//! Operations on keys, whatever type of value they hold.

use super::changes::Change;
use super::cleaner;
use super::delta;
use super::entry::{Head, Kind, LONG, LONGEST_STRING};
use super::error::{Error, Result};
use super::hot::{Part, Purpose};
use super::layout::{self, Bounds, DATABASES, Direction, FamilyKind};
use super::{CHUNK, Keyspace, Passed};
use std::ops::ControlFlow;

/// Bytes of memory that the buffer of the entry keeps after a string was put together from its pieces.
const KEPT: usize = 1 << 20;

/// Largest number of keys for [`Keyspace::expect`]: as many as stay in the processor's caches until they are looked up.
pub const EXPECTED_MAX: usize = 32;

impl Keyspace {
    /// Head of a key; `None` if the key does not exist or its deadline has passed.
    pub fn find(&mut self, db: usize, key: &[u8]) -> Result<Option<Head>> {
        layout::check_key(key)?;
        self.need(db, key);
        self.look_up(db, key)?;
        let Some(head) = &self.known.head else {
            self.lookups.misses += u64::from(self.counts_lookups);
            self.note(db, key, Change::Missed);
            return Ok(None);
        };
        if !self.has_ended(head) && !self.has_due_fields(head) {
            self.lookups.hits += u64::from(self.counts_lookups);
            return Ok(self.known.head);
        }
        let head = *head;
        let is_hidden = self.passed() == Passed::Hidden;
        let is_found = if self.has_ended(&head) {
            if !is_hidden {
                self.delete_elements(&head);
                self.forget(db, key, &head, Change::Expired);
                self.expired.keys += 1;
            }
            false
        } else if is_hidden {
            !self.are_all_due(&self.found(&head))?
        } else {
            self.expire_fields(db, key, &head, usize::MAX)?;
            self.look_up(db, key)?;
            self.known.head.is_some()
        };
        if !is_found {
            self.lookups.misses += u64::from(self.counts_lookups);
            self.note(db, key, Change::Missed);
            return Ok(None);
        }
        self.lookups.hits += u64::from(self.counts_lookups);
        Ok(self.known.head)
    }

    /// Hints that these keys, at most [`EXPECTED_MAX`], will be looked up next, one by one, so that their cache misses overlap.
    pub fn expect<'k>(&mut self, db: usize, keys: impl Iterator<Item = &'k [u8]>) {
        let (place, seed) = (self.counters.places.of(db), self.seed);
        let mut ends = [0; EXPECTED_MAX];
        let mut count = 0;
        self.place.clear();
        for (key, end) in keys.zip(&mut ends) {
            layout::put_entry_key(&mut self.place, seed, place, key);
            *end = self.place.len();
            count += 1;
        }
        let mut entries: [&[u8]; EXPECTED_MAX] = [&[]; EXPECTED_MAX];
        let mut rest = &self.place[..];
        let mut start = 0;
        for (entry, end) in entries.iter_mut().zip(&ends[..count]) {
            (*entry, rest) = rest.split_at(end - start);
            start = *end;
        }
        self.turn.expect(&mut entries[..count]);
    }

    /// Makes the key's entry the known one, if it is not: many commands look, decide, and then write, which looks again.
    pub(super) fn look_up(&mut self, db: usize, key: &[u8]) -> Result<()> {
        self.place.clear();
        layout::put_entry_key(&mut self.place, self.seed, self.counters.places.of(db), key);
        let was_used = self.known.command == self.command;
        if self.known.version == Some(self.turn.version()) && self.known.place == self.place {
            if self.purpose == Purpose::Use && !was_used {
                self.known.command = self.command;
                self.turn.use_entry(&self.place);
            }
            return Ok(());
        }
        self.known.version = None;
        self.known.head = None;
        self.known.part = None;
        self.known.command = self.command;
        if std::mem::take(&mut self.known.is_joined) {
            // A few bytes written may have become a long string.
            self.entry.clear();
            self.entry.shrink_to(KEPT);
        }
        if let Some(part) = self.turn.get_entry(&self.place, &mut self.entry, true, self.purpose)? {
            self.known.part = Some(part);
            let (mut head, string_at) = Head::decode(&self.entry)?;
            if let Part::Start(length) = part {
                head.size = Some(length);
            }
            self.string_at = string_at;
            self.known.head = Some(head);
        }
        std::mem::swap(&mut self.known.place, &mut self.place);
        self.known.version = Some(self.turn.version());
        Ok(())
    }

    /// Reads the string of the known entry, if it was not needed so far.
    pub(super) fn complete(&mut self) -> Result<()> {
        if let Some(Part::Start(_)) = self.known.part {
            let part = self.turn.get_entry(&self.known.place, &mut self.entry, false, Purpose::Look)?;
            // The key was found a moment ago.
            part.ok_or(Error::Damaged("an entry that is known"))?;
            self.known.part = part;
        }
        Ok(())
    }

    /// Head of a key that must hold this type.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds another type.
    pub fn find_kind(&mut self, db: usize, key: &[u8], kind: Kind) -> Result<Option<Head>> {
        match self.find(db, key)? {
            Some(head) if head.kind != kind => Err(Error::WrongType),
            found => Ok(found),
        }
    }

    pub(super) fn has_ended(&self, head: &Head) -> bool {
        self.passed() != Passed::Kept && head.deadline.is_some_and(|deadline| deadline < self.now)
    }

    /// The value of a string.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds something else.
    pub fn string(&mut self, db: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        Ok(if self.find_kind(db, key, Kind::String)?.is_some() { Some(self.found_value()?) } else { None })
    }

    /// The value of the string found last.
    pub fn found_value(&mut self) -> Result<&[u8]> {
        self.complete()?;
        self.join()?;
        Ok(self.entry.get(self.string_at..).unwrap_or_default())
    }

    /// Sets a string, whatever the key holds.
    pub fn set_string(&mut self, db: usize, key: &[u8], value: &[u8], deadline: Option<u64>) -> Result<()> {
        if (LONG as u64..=LONGEST_STRING).contains(&(value.len() as u64)) {
            return self.set_long(db, key, value, deadline);
        }
        let old = self.find(db, key)?;
        self.write(db, key, old.as_ref(), &Head::string(deadline), value);
        Ok(())
    }

    /// Removes a key, whatever it holds, at a cost that does not depend on its size.
    pub fn remove(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        let found = self.find(db, key)?;
        if let Some(head) = &found {
            self.erase(db, key, head);
        }
        Ok(found.is_some())
    }

    /// Sets or removes (`None`) the deadline of a key. False: there is no such key.
    pub fn set_deadline(&mut self, db: usize, key: &[u8], deadline: Option<u64>) -> Result<bool> {
        let Some(old) = self.find(db, key)? else { return Ok(false) };
        let string = self.body(&old)?;
        // Only the head of an inline collection changes.
        self.put(db, key, Some(&old), &Head { deadline, ..old }, &string, Some(b""));
        self.changed(db, key, Change::Changed);
        Ok(true)
    }

    /// Bytes behind the head in the entry that was found last: a string, or the elements of an inline collection.
    pub fn body(&mut self, head: &Head) -> Result<Vec<u8>> {
        if head.id != 0 {
            return Ok(Vec::new());
        }
        self.complete()?;
        Ok(self.entry.get(self.string_at..).unwrap_or_default().to_vec())
    }

    /// Moves a value with its deadline to another key, which loses its old value. Costs the same for any collection.
    pub fn rename(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool> {
        let Some(head) = self.find(from.0, from.1)? else { return Ok(false) };
        if from == to {
            return Ok(true);
        }
        let string = self.body(&head)?;
        let old = self.find(to.0, to.1)?;
        self.write(to.0, to.1, old.as_ref(), &head, &string);
        self.forget(from.0, from.1, &head, Change::Removed);
        Ok(true)
    }

    /// Copies a value with its deadline to another key, which loses its old value.
    pub fn copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<bool> {
        let Some(head) = self.find(from.0, from.1)? else { return Ok(false) };
        let string = self.body(&head)?;
        let old = self.find(to.0, to.1)?;
        let mut copy = head;
        if head.id != 0 {
            copy.id = self.new_id()?;
            self.copy_elements(head.id, copy.id)?;
        }
        self.write(to.0, to.1, old.as_ref(), &copy, &string);
        Ok(true)
    }

    fn copy_elements(&mut self, from: u64, to: u64) -> Result<()> {
        let bounds = layout::elements(from);
        // A copy of many elements must not push other data out of the cache.
        let source = self.turn.of_now(FamilyKind::Elements, &bounds);
        source.walk(FamilyKind::Elements, &bounds, Direction::Forward, &mut |element, value| {
            self.turn.put(FamilyKind::Elements, layout::with_owner(element, to), value);
            ControlFlow::Continue(())
        })
    }

    /// Writes the new value of a key. `old` is the head of the old value; `string` is written behind the new head.
    pub(super) fn write(&mut self, db: usize, key: &[u8], old: Option<&Head>, new: &Head, string: &[u8]) {
        self.put(db, key, old, new, string, None);
        self.changed(db, key, if old.is_none() { Change::Made } else { Change::Changed });
    }

    /// Writes the new value of a key without telling anybody. `body` is a string, or the elements of an inline collection, and `splices`
    /// the changes to the old elements if they are known.
    pub(super) fn put(&mut self, db: usize, key: &[u8], old: Option<&Head>, new: &Head, body: &[u8], splices: Option<&[u8]>) {
        let old_id = old.map_or(0, |old| old.id);
        if old.is_none() {
            self.counters.keys[db] += 1;
        }
        if old_id != new.id {
            old.inspect(|old| self.delete_elements(old));
            if new.id != 0 {
                self.turn.put(FamilyKind::Elements, layout::exists_key(new.id), Vec::new());
            }
        }
        let mut new = Head { deltas: 0, ..new.with_body(body) };
        self.move_deadline(db, key, old, Some(&new));
        self.count_bytes(db, key, old, Some(&new));
        self.place.clear();
        layout::put_entry_key(&mut self.place, self.seed, self.counters.places.of(db), key);
        let deltas = match (old, splices) {
            (Some(old), Some(splices)) if new.is_inline() => delta::deltas(old.deltas, body, splices),
            _ => None,
        };
        let Some(deltas) = deltas else {
            return self.turn.put_with(FamilyKind::Keys, &self.place, |out| new.put(out, body));
        };
        new.deltas = deltas;
        let step = delta::step(&new.encode(b""), splices.unwrap_or_default());
        self.turn.change(&self.place, &step, |out| new.put(out, body));
    }

    /// Removes a key and its value.
    pub(super) fn erase(&mut self, db: usize, key: &[u8], old: &Head) {
        self.delete_elements(old);
        self.forget(db, key, old, Change::Removed);
    }

    /// Removes a key, but not the elements of its value.
    pub(super) fn forget(&mut self, db: usize, key: &[u8], old: &Head, why: Change) {
        self.counters.keys[db] = self.counters.keys[db].saturating_sub(1);
        self.move_deadline(db, key, Some(old), None);
        self.count_bytes(db, key, Some(old), None);
        self.turn.delete(FamilyKind::Keys, layout::entry_key(self.seed, self.counters.places.of(db), key));
        self.changed(db, key, why);
    }

    /// Deletes the elements or pieces of a value; compactions remove them. Id 0 has none.
    pub(super) fn delete_elements(&mut self, of: &Head) {
        if of.id == 0 {
            return;
        }
        if of.is_in_pieces() {
            self.clear_pieces(of.id, of.count);
        }
        self.turn.delete(cleaner::FAMILY, layout::exists_key(of.id));
        self.ranks.forget(of.id);
        self.deleted.push(of.id);
    }

    /// Counts a key among those with deadlines, and writes its entry among the deadlines; `None`: there is no key.
    fn move_deadline(&mut self, db: usize, key: &[u8], old: Option<&Head>, new: Option<&Head>) {
        let count = |counter: &mut u64, has: fn(&Head) -> bool| {
            *counter = (*counter + u64::from(new.is_some_and(has))).saturating_sub(u64::from(old.is_some_and(has)));
        };
        count(&mut self.counters.deadlines[db], |head| head.deadline.is_some());
        count(&mut self.counters.expiring[db], Head::has_field_deadlines);
        let (old, new) = (old.and_then(Head::next_deadline), new.and_then(Head::next_deadline));
        if old == new {
            return;
        }
        self.own.change(db, key, old, new);
        let place = self.counters.places.of(db);
        if let Some(old) = old {
            self.turn.delete(FamilyKind::Keys, layout::expiry_key(old, place, key));
        }
        if let Some(new) = new {
            let expiry = layout::expiry_key(new, place, key);
            self.due.add_key(new, &expiry);
            self.hand.add_deadline(&expiry);
            self.turn.put(FamilyKind::Keys, expiry, Vec::new());
        }
    }

    /// Number of keys in a database, including keys whose deadline has passed and that were not removed yet.
    pub fn size(&self, db: usize) -> u64 {
        self.counters.keys[db]
    }

    /// Number of keys in a database that have a deadline.
    pub fn deadlines(&self, db: usize) -> u64 {
        self.counters.deadlines[db]
    }

    /// Removes all keys of a database. Cheap if the other databases are empty; else each key is looked at.
    pub fn clear(&mut self, db: usize) -> Result<()> {
        self.note_change_of_all();
        self.disturb(|place| place == db)?;
        let is_alone = (0..DATABASES).all(|other| other == db || self.counters.keys[other] == 0);
        if is_alone {
            self.turn.clear(FamilyKind::Keys, self.generation().deadlines());
            self.clear_elements();
        } else {
            self.delete_collections_of(db)?;
        }
        self.turn.clear(FamilyKind::Keys, layout::entries(self.counters.places.of(db), 0));
        self.counters.keys[db] = 0;
        self.counters.deadlines[db] = 0;
        self.counters.expiring[db] = 0;
        self.count_no_bytes(db);
        Ok(())
    }

    /// Removes all keys of all databases.
    pub fn clear_all(&mut self) -> Result<()> {
        self.note_change_of_all();
        self.disturb(|_| true)?;
        self.turn.clear(FamilyKind::Keys, self.generation().entries());
        self.turn.clear(FamilyKind::Keys, self.generation().deadlines());
        self.clear_elements();
        self.counters.keys = [0; DATABASES];
        self.counters.deadlines = [0; DATABASES];
        self.counters.expiring = [0; DATABASES];
        self.counters.bytes = Some([0; DATABASES]);
        Ok(())
    }

    /// Deletes the elements of all collections.
    pub(super) fn clear_elements(&mut self) {
        for bounds in self.elements_in_use() {
            self.turn.clear(FamilyKind::Elements, bounds);
        }
        self.ranks.clear();
        self.all_deleted = true;
    }

    /// Deletes the elements and pieces of the values of a database.
    fn delete_collections_of(&mut self, db: usize) -> Result<()> {
        let place_of = self.counters.places.of(db);
        let mut bounds = layout::entries(place_of, 0);
        loop {
            let chunk = self.heads(&mut bounds)?;
            if chunk.is_empty() {
                return Ok(());
            }
            for (place, head) in &chunk {
                self.delete_elements(head);
                if let (Some(deadline), Some((_, key))) = (head.next_deadline(), layout::split_entry_key(place)) {
                    self.turn.delete(FamilyKind::Keys, layout::expiry_key(deadline, place_of, key));
                }
            }
        }
    }

    /// Heads of the next keys within bounds, each with its engine key, without strings, which may be of any size. Removes the keys from the
    /// bounds.
    pub(super) fn heads(&self, bounds: &mut Bounds) -> Result<Vec<(Vec<u8>, Head)>> {
        let (mut chunk, mut damage) = (Vec::new(), Ok(()));
        self.turn.walk(FamilyKind::Keys, bounds, Direction::Forward, &mut |place, value| {
            match Head::decode(value) {
                Ok((head, _)) => chunk.push((place.to_vec(), head)),
                Err(error) => damage = Err(error),
            }
            if damage.is_err() || chunk.len() == CHUNK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        damage?;
        if let Some((last, _)) = chunk.last() {
            bounds.0 = [last, &b"\0"[..]].concat();
        }
        Ok(chunk)
    }

    /// Removes at most `most` keys and fields of hashes whose deadline has passed, and returns the number of deadlines dealt with. Fewer
    /// than `most`: no more are due.
    pub fn remove_expired(&mut self, most: usize) -> Result<usize> {
        self.purpose = Purpose::Removal;
        // Most of the time nothing is due. A look reads everything before the first deadline in a table, which may be a huge value.
        let Some(before) = self.now.checked_sub(1).filter(|before| most > 0 && *before >= self.due.first) else { return Ok(0) };
        let bounds = self.due.cut_keys(self.generation().deadlines_within(self.due.first, before));
        let due = self.chunk(FamilyKind::Keys, &bounds, Direction::Forward, most)?;
        let (mut dealt, mut last) = (0, self.due.first);
        for (place, _) in &due {
            let (deadline, of, key) = layout::split_expiry_key(place).ok_or(Error::Damaged("a deadline"))?;
            dealt += self.remove_ended(self.counters.places.database(of), key, (deadline, place), most - dealt)?;
            last = deadline;
            self.due.reach_key(place);
            if dealt >= most {
                break;
            }
        }
        // All deadlines before the last one are removed, so the next walk begins there.
        self.due.first = if dealt >= most { last } else { self.first_deadline(self.now)? };
        Ok(dealt)
    }

    /// Removes the key or the due fields, at most `most`, of a deadline that has passed; returns how many deadlines were dealt with.
    pub(super) fn remove_ended(&mut self, db: usize, key: &[u8], (deadline, place): (u64, &[u8]), most: usize) -> Result<usize> {
        self.look_up(db, key)?;
        let mut removed = 1;
        if let Some(head) = self.known.head.filter(|head| !self.has_ended(head) && self.has_due_fields(head)) {
            removed = self.expire_fields(db, key, &head, most)?.max(1);
            self.look_up(db, key)?;
            if removed >= most && self.known.head.is_some_and(|head| self.has_due_fields(&head)) {
                // The other due fields come next time.
                return Ok(removed);
            }
        }
        // Finding a key whose deadline has passed removes the key and its deadline.
        let found = self.find(db, key)?;
        if found.is_some_and(|head| head.next_deadline() != Some(deadline)) {
            self.turn.delete(FamilyKind::Keys, place);
        }
        Ok(removed)
    }

    /// The first deadline from a time on; the largest possible time if there is none.
    fn first_deadline(&self, from: u64) -> Result<u64> {
        let mut first = None;
        self.turn.walk(FamilyKind::Keys, &self.generation().deadlines_within(from, u64::MAX), Direction::Forward, &mut |place, _| {
            first = layout::split_expiry_key(place).map(|(deadline, ..)| deadline);
            ControlFlow::Break(())
        })?;
        Ok(first.unwrap_or(u64::MAX))
    }

    /// Whether a key exists whose deadline has not passed, for commands that need no more.
    pub fn exists(&mut self, db: usize, key: &[u8]) -> Result<bool> {
        Ok(self.find(db, key)?.is_some())
    }

    /// Counts a change of a key, and notes what its reply needs.
    pub(super) fn wrote(&mut self, db: usize, key: &[u8]) {
        self.touched += 1;
        self.note_change(db, key);
    }

    /// Notes a write to the key, and tells the clients that watch or wait for the key.
    pub(super) fn touch(&mut self, db: usize, key: &[u8]) {
        self.wrote(db, key);
        self.watches.touch(db, key);
        self.waits.touch(db, key);
    }

    /// Watches a key: from now on, [`Keyspace::is_disturbed`] says whether it was changed.
    pub fn watch(&mut self, watcher: u64, db: usize, key: &[u8]) -> Result<()> {
        // A key whose deadline has passed is removed first: its removal is no change to the watcher.
        self.find(db, key)?;
        self.watches.add(watcher, db, key);
        Ok(())
    }

    /// Ends all watches of a watcher.
    pub fn unwatch(&mut self, watcher: u64) {
        self.watches.remove(watcher);
    }

    /// Whether a watched key was changed, or its deadline has passed.
    pub fn is_disturbed(&mut self, watcher: u64) -> Result<bool> {
        for (db, key) in self.watches.of(watcher) {
            self.find(db, &key)?;
        }
        Ok(self.watches.is_disturbed(watcher))
    }

    /// Whether a watched key was changed; a deadline that has passed unnoticed does not count.
    pub fn was_disturbed(&self, watcher: u64) -> bool {
        self.watches.is_disturbed(watcher)
    }

    /// Keys of these databases that somebody watches or waits for.
    fn looked_at(&self, concerns: impl Fn(usize) -> bool) -> Vec<(usize, Vec<u8>)> {
        let mut all = self.watches.all();
        all.extend(self.waits.all());
        all.retain(|(db, _)| concerns(*db));
        // Sorted, so that the order does not change from start to start.
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Disturbs the watchers of existing keys in these databases, which are about to be removed.
    pub(super) fn disturb(&mut self, concerns: impl Fn(usize) -> bool) -> Result<()> {
        for (db, key) in self.looked_at(concerns) {
            if self.exists(db, &key)? {
                self.touch(db, &key);
            }
        }
        Ok(())
    }

    /// Swaps the keys of two databases. Costs as much as the keys in them that are watched or waited for.
    pub fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        if a == b {
            return Ok(());
        }
        self.note_change_of_all();
        for (db, key) in self.looked_at(|db| db == a || db == b) {
            // The key disappears, or appears, or both.
            if self.exists(a, &key)? || self.exists(b, &key)? {
                self.touch(db, &key);
            }
        }
        self.counters.places.swap(a, b);
        self.counters.keys.swap(a, b);
        self.counters.deadlines.swap(a, b);
        self.counters.expiring.swap(a, b);
        self.counters.bytes.iter_mut().for_each(|bytes| bytes.swap(a, b));
        self.put_all_counters();
        Ok(())
    }
}
