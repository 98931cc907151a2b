//! Deadlines of the fields of hashes.
//!
//! The head of a hash has the number of its fields with a deadline and the earliest of these deadlines ([`FieldDeadlines`]). An inline hash
//! has each deadline beside its field (`inline`). Any other hash has two engine keys for each deadline: one in the order of deadlines, and
//! one by the name of the field (`layout`). The value of a field lies in one place with and without a deadline.
//!
//! No reader sees a field whose deadline has passed: a command that finds the hash first removes such fields. So reads of fields, walks,
//! sizes and positions need not check deadlines, except where nobody removes anything, on replicas and while writes are paused
//! ([`Passed::Hidden`]): there, readers pass over such fields. [`Keyspace::remove_expired`] removes due fields of hashes that no command
//! finds; the hash stands among the deadlines of keys with its earliest deadline, so no search is needed. A hash of which all fields are
//! due is removed as a whole, whatever its size. Walks over all keys show a hash until its due fields are removed.

use super::changes::Change;
use super::collection::{Collection, Edit};
use super::entry::{FieldDeadlines, Head};
use super::error::{Error, Result};
use super::layout::{self, Direction, FamilyKind};
use super::passed::Passed;
use super::trace::Trace;
use super::{CHUNK, Keyspace};
use std::ops::ControlFlow;

/// The latest deadline that a field may have: as in Redis, 46 bits of milliseconds, in the year 4199.
pub const FIELD_DEADLINE_MAX: u64 = (1 << 46) - 1;

const DAMAGED: Error = Error::Damaged("the deadlines of the fields of a hash");

/// Callback of a walk over fields, called with name, value, and deadline (0: none).
pub type VisitField<'a> = dyn FnMut(&[u8], &[u8], u64) -> ControlFlow<()> + 'a;

impl Keyspace {
    /// Whether a hash has due fields, i.e. fields whose deadline has passed.
    pub(super) fn has_due_fields(&self, head: &Head) -> bool {
        head.fields.count > 0 && head.fields.first < self.now && self.passed() != Passed::Kept
    }

    /// Whether readers of a hash have to pass over due fields, which nobody removes.
    pub(super) fn hides_fields(&self, head: &Head) -> bool {
        self.passed() == Passed::Hidden && self.has_due_fields(head)
    }

    /// Whether a field of a hash that is not inline has to be passed over: its deadline has passed, and nobody removes it.
    pub(super) fn is_hidden(&self, head: &Collection, field: &[u8]) -> Result<bool> {
        Ok(self.hides_fields(head) && (1..self.now).contains(&self.deadline_of(head, field)?))
    }

    /// The collection whose entry was read last, without the due fields of an inline hash if nobody removes them. Those of a larger hash
    /// are passed over when it is read, but its count includes them: see [`Keyspace::without_hidden`].
    pub(super) fn shown(&self, head: &Head) -> Result<Collection> {
        let found = self.found(head);
        if found.inline.is_some() { self.without_hidden(found) } else { Ok(found) }
    }

    /// The collection with the number of those fields that readers see. Takes a walk over the due fields of a hash if nobody removes them.
    pub fn without_hidden(&self, mut found: Collection) -> Result<Collection> {
        if !self.hides_fields(&found) {
            return Ok(found);
        }
        let mut due = 0;
        if let Some(inline) = &mut found.inline {
            due = inline.remove_due(self.now, usize::MAX)?.len() as u64;
            found.fields.count = found.fields.count.saturating_sub(due);
        } else {
            let bounds = layout::dues(found.id, found.fields.first, self.now);
            self.turn.walk(FamilyKind::Elements, &bounds, Direction::Forward, &mut |_, _| {
                due += 1;
                ControlFlow::Continue(())
            })?;
        }
        found.count = found.count.saturating_sub(due);
        Ok(found)
    }

    /// Number of hashes in a database with deadlines of fields.
    pub fn expiring(&self, db: usize) -> u64 {
        self.counters.expiring[db]
    }

    /// Deadline of a field that exists; 0: it has none.
    fn deadline_of(&self, head: &Collection, field: &[u8]) -> Result<u64> {
        if head.fields.count == 0 {
            return Ok(0);
        }
        if let Some(inline) = &head.inline {
            return Ok(inline.deadline(field)?.unwrap_or(0));
        }
        let mut out = Vec::new();
        if !self.turn.get(FamilyKind::Elements, &layout::field_deadline_key(head.id, self.seed, field), &mut out)? {
            return Ok(0);
        }
        let deadline = out.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| DAMAGED)?;
        if deadline > 0 { Ok(deadline) } else { Err(DAMAGED) }
    }

    /// Deadline of a field, unix milliseconds. `None`: there is no such field; `Some(None)`: it has no deadline.
    pub fn field_deadline(&self, head: &Collection, field: &[u8]) -> Result<Option<Option<u64>>> {
        if !self.has_member(head, field)? {
            return Ok(None);
        }
        let deadline = self.deadline_of(head, field)?;
        Ok(Some(Some(deadline).filter(|deadline| *deadline > 0)))
    }

    /// Sets or removes (`None`) the deadline of a field that exists.
    pub fn set_field_deadline(&mut self, edit: &mut Edit, field: &[u8], deadline: Option<u64>) -> Result<()> {
        self.give_deadline(edit, field, deadline, false)
    }

    /// Adds a field of a hash that is loaded from a file; false if it was there already.
    pub fn load_field(&mut self, edit: &mut Edit, field: &[u8], value: &[u8], deadline: Option<u64>) -> Result<bool> {
        let is_new = self.set_field(edit, field, value)?;
        if is_new && deadline.is_some() {
            self.give_deadline(edit, field, deadline, true)?;
        }
        Ok(is_new)
    }

    fn give_deadline(&mut self, edit: &mut Edit, field: &[u8], deadline: Option<u64>, is_loaded: bool) -> Result<()> {
        let new = deadline.map_or(0, |deadline| deadline.clamp(1, FIELD_DEADLINE_MAX));
        let old = match &mut edit.head.inline {
            Some(inline) => inline.set_deadline(field, new, is_loaded)?.unwrap_or(new),
            None => {
                let old = self.deadline_of(&edit.head, field)?;
                self.move_field_deadline(edit.head.id, field, old, new);
                old
            }
        };
        self.count_field_deadline(edit, old, new)
    }

    /// Replaces the engine keys of a field's deadline `old` by those of `new`; 0: no deadline.
    pub(super) fn move_field_deadline(&mut self, id: u64, field: &[u8], old: u64, new: u64) {
        if old == new {
            return;
        }
        if old > 0 {
            self.turn.delete(FamilyKind::Elements, layout::due_key(id, old, field));
        }
        let by_name = layout::field_deadline_key(id, self.seed, field);
        if new > 0 {
            let due = layout::due_key(id, new, field);
            self.due.add_field(id, &due);
            self.turn.put(FamilyKind::Elements, due, b"");
            self.turn.put(FamilyKind::Elements, by_name, new.to_be_bytes());
        } else {
            self.turn.delete(FamilyKind::Elements, by_name);
        }
    }

    /// Updates number and earliest deadline in the head after a field's deadline has changed from `old` to `new`; 0: no deadline.
    pub(super) fn count_field_deadline(&mut self, edit: &mut Edit, old: u64, new: u64) -> Result<()> {
        if old == new {
            return Ok(());
        }
        let before = edit.head.fields;
        edit.head.fields.count = (before.count + u64::from(new > 0)).saturating_sub(u64::from(old > 0));
        if edit.head.inline.is_none() && new > 0 && (before.first == 0 || new <= before.first) {
            edit.head.fields.first = new;
            return Ok(());
        }
        if edit.head.inline.is_none() && edit.head.fields.count > 0 && old != before.first {
            return Ok(());
        }
        self.find_first_deadline(edit)
    }

    /// Finds the earliest deadline, which is not before the one in the head, and sets it there. If no deadline is left, removes all data on
    /// deadlines from the head.
    fn find_first_deadline(&mut self, edit: &mut Edit) -> Result<()> {
        let (id, fields) = (edit.head.id, edit.head.fields);
        if fields.count == 0 {
            edit.head.fields = FieldDeadlines::default();
            return edit.head.inline.as_mut().map_or(Ok(()), |inline| inline.write_deadlines(false));
        }
        edit.head.fields.first = match &edit.head.inline {
            Some(inline) => inline.first_deadline()?,
            None => {
                let bounds = self.due.cut_fields(id, layout::all_dues(id, fields.first));
                let found = self.chunk(FamilyKind::Elements, &bounds, Direction::Forward, 1)?;
                let (place, _) = found.first().ok_or(DAMAGED)?;
                self.due.reach_field(id, place);
                layout::split_due_key(place).map_or(0, |(deadline, _)| deadline)
            }
        };
        if edit.head.fields.first > 0 { Ok(()) } else { Err(DAMAGED) }
    }

    /// Shows `visit` all fields with their deadlines until it breaks, like [`Keyspace::walk_members`].
    pub fn walk_fields(&self, head: &Collection, visit: &mut VisitField) -> Result<()> {
        if let Some(inline) = &head.inline {
            let mut elements = inline.elements();
            while let Some(field) = elements.next()? {
                if visit(field.name, field.value, field.deadline).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let mut damage = Ok(());
        self.walk_members(head, &mut |field, value| match self.deadline_of(head, field) {
            Ok(deadline) => visit(field, value, deadline),
            Err(error) => {
                damage = Err(error);
                ControlFlow::Break(())
            }
        })?;
        damage
    }

    /// Removes due fields of the hash found last, at most `most`, and the hash if no field is left. Returns the number of removed fields,
    /// or 1 for a hash that is removed as a whole.
    #[cold]
    pub(super) fn expire_fields(&mut self, db: usize, key: &[u8], old: &Head, most: usize) -> Result<usize> {
        let mut edit = Edit { db, key, old: Some(*old), head: self.found(old) };
        let mut names = Vec::new();
        let count = if edit.head.inline.is_none() && self.are_all_due(&edit.head)? {
            edit.head.count = 0;
            self.expired.fields += old.count;
            1
        } else {
            let count = self.remove_due(&mut edit, most, &mut names)?;
            self.find_first_deadline(&mut edit)?;
            self.expired.fields += count as u64;
            count
        };
        if edit.head.is_gone() {
            self.delete_elements(old);
            self.forget(db, key, old, Change::Emptied);
            return Ok(count);
        }
        let (body, splices) = edit.head.parts();
        self.put(db, key, Some(old), &edit.head, body, splices);
        if let Some(traces) = &mut self.traces {
            traces.push(Trace::Fields(db, key.to_vec(), names));
        }
        self.changed(db, key, Change::FieldsExpired);
        Ok(count)
    }

    /// Whether all fields of a hash are due.
    pub(super) fn are_all_due(&self, head: &Collection) -> Result<bool> {
        if head.fields.count < head.count {
            return Ok(false);
        }
        if let Some(inline) = &head.inline {
            let (mut elements, mut last) = (inline.elements(), 0);
            while let Some(element) = elements.next()? {
                last = element.deadline.max(last);
            }
            return Ok(last < self.now);
        }
        let mut last = u64::MAX;
        self.turn.walk(FamilyKind::Elements, &layout::all_dues(head.id, head.fields.first), Direction::Backward, &mut |place, _| {
            last = layout::split_due_key(place).map_or(u64::MAX, |(deadline, _)| deadline);
            ControlFlow::Break(())
        })?;
        Ok(last < self.now)
    }

    /// Removes due fields, at most `most`; returns their number. Adds their names to `names` if traces need them.
    fn remove_due(&mut self, edit: &mut Edit, most: usize, names: &mut Vec<Vec<u8>>) -> Result<usize> {
        if let Some(inline) = &mut edit.head.inline {
            *names = inline.remove_due(self.now, most)?;
            let count = names.len() as u64;
            edit.head.count = edit.head.count.saturating_sub(count);
            edit.head.fields.count = edit.head.fields.count.saturating_sub(count);
            return Ok(names.len());
        }
        let mut removed = 0;
        loop {
            let asked = CHUNK.min(most - removed);
            let bounds = self.due.cut_fields(edit.head.id, layout::dues(edit.head.id, edit.head.fields.first, self.now));
            let due = self.chunk(FamilyKind::Elements, &bounds, Direction::Forward, asked)?;
            for (place, _) in &due {
                let (deadline, field) = layout::split_due_key(place).ok_or(DAMAGED)?;
                self.move_field_deadline(edit.head.id, field, deadline, 0);
                let value = self.member(&edit.head, field)?.map_or(0, |value| value.len());
                self.delete_member(edit, field, value);
                // No earlier deadline is left.
                edit.head.fields.first = deadline;
                self.due.reach_field(edit.head.id, place);
                if self.is_traced() {
                    names.push(field.to_vec());
                }
            }
            removed += due.len();
            edit.head.fields.count = edit.head.fields.count.saturating_sub(due.len() as u64);
            if due.len() < asked || removed == most {
                return Ok(removed);
            }
        }
    }
}
