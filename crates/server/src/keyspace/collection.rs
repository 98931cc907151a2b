//! Collections, and which of them lie in their key's entry.
//!
//! A collection is *inline* up to the sizes that Redis has for its compact encodings ([`Thresholds`]): its elements lie in its key's entry
//! (`inline`), in Redis's order, and one lookup in the engine, or among the hot keys, finds all of them. A collection that grows larger
//! becomes engine keys, one for each element, and stays so. A small collection of an older format becomes inline when it is changed.

use super::Keyspace;
use super::changes::Change;
use super::entry::{Form, Head, Kind, Side};
use super::error::Result;
use super::inline::Inline;
use super::layout::{self, Direction, score_order};
use crate::number::parse_integer;
use std::ops::{ControlFlow, Deref, DerefMut};

/// Bytes of the elements of an inline collection, at most: a change may write them all.
const BODY_MAX: usize = 128 << 10;
/// Bytes of the elements of an inline list for `list-max-listpack-size` from -1 down, and their limit where the setting is a number of
/// elements.
const LIST_BYTES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const COUNTED_LIST_BYTES: u64 = 8 << 10;

/// Largest number of elements of an inline collection, and of bytes of each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Elements.
    pub elements: u64,
    /// Bytes of the longest name or value.
    pub bytes: u64,
}

/// Sizes up to which collections are inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Hashes.
    pub hash: Limit,
    /// Sets that do not consist of integers alone.
    pub set: Limit,
    /// Members of sets of integers.
    pub integers: u64,
    /// Sorted sets.
    pub sorted_set: Limit,
    /// Items of a list; negative: from -1, 4 KiB, doubling with each step down to -5.
    pub list: i64,
}

impl Default for Thresholds {
    fn default() -> Self {
        let small = Limit { elements: 128, bytes: 64 };
        Thresholds { hash: Limit { elements: 512, bytes: 64 }, set: small, integers: 512, sorted_set: small, list: -2 }
    }
}

impl Limit {
    fn admits(&self, count: u64, name: &[u8], value: &[u8]) -> bool {
        count < self.elements && name.len().max(value.len()) as u64 <= self.bytes
    }
}

impl Thresholds {
    /// Whether a list of so many items and bytes may be inline.
    fn admits_list(&self, count: u64, bytes: usize) -> bool {
        let (most, most_bytes) = match usize::try_from(self.list.unsigned_abs()) {
            Ok(step) if self.list < 0 => (u64::MAX, LIST_BYTES[step.min(LIST_BYTES.len()) - 1]),
            _ => (self.list.max(1).unsigned_abs(), COUNTED_LIST_BYTES),
        };
        count <= most && bytes as u64 <= most_bytes
    }

    /// Whether a collection of so many elements may be inline, if they are short.
    fn admits_count(&self, kind: Kind, count: u64) -> bool {
        match kind {
            Kind::List => self.admits_list(count, usize::try_from(count).unwrap_or(usize::MAX)),
            Kind::Set => count <= self.set.elements.max(self.integers),
            Kind::SortedSet => count <= self.sorted_set.elements,
            _ => count <= self.hash.elements,
        }
    }

    /// Adds a member without a value, or a field with a value, or changes the value of a field; true: the member or field is new. `None`,
    /// and nothing has changed: the collection would be too large to be inline, or is not inline.
    fn put(&self, collection: &mut Collection, name: &[u8], value: &[u8]) -> Result<Option<bool>> {
        let Collection { head, inline: Some(inline) } = collection else { return Ok(None) };
        let has_space = inline.body().len() + name.len() + value.len() <= BODY_MAX;
        let (may_change, may_add) = match head.form {
            Form::Integers if parse_integer(name).is_some() => (true, has_space && head.count < self.integers),
            Form::Integers => {
                if !has_space || !self.set.admits(head.count, name, b"") || inline.longest()? as u64 > self.set.bytes {
                    return Ok(None);
                }
                head.form = Form::Inline;
                inline.forget_order();
                (true, true)
            }
            _ if head.kind == Kind::Set => (true, has_space && self.set.admits(head.count, name, b"")),
            // Another value may be too long as well.
            _ => (has_space && self.hash.admits(head.count.saturating_sub(1), name, value), self.hash.admits(head.count, name, value)),
        };
        let is_new = if may_change { inline.set(name, value, may_add)? } else { None };
        head.count += u64::from(is_new == Some(true));
        Ok(is_new)
    }

    /// Sets the score of a member of a sorted set; `Some` has the old score. `None` means the same as for [`Thresholds::put`].
    fn put_score(&self, collection: &mut Collection, name: &[u8], score: u64) -> Result<Option<Option<u64>>> {
        let Collection { head, inline: Some(inline) } = collection else { return Ok(None) };
        let may_add = inline.body().len() + name.len() <= BODY_MAX && self.sorted_set.admits(head.count, name, b"");
        let old = inline.set_score(name, score, may_add)?;
        head.count += u64::from(old == Some(None));
        Ok(old)
    }
}

/// A collection as it was found: its head and, if it is inline, its elements.
#[derive(Debug, Clone)]
pub struct Collection {
    head: Head,
    pub(super) inline: Option<Inline>,
}

impl Deref for Collection {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl DerefMut for Collection {
    fn deref_mut(&mut self) -> &mut Head {
        &mut self.head
    }
}

impl Collection {
    /// A collection that a walk over keys has found, with the bytes behind its head.
    pub fn found(head: &Head, body: &[u8]) -> Collection {
        Collection { head: *head, inline: head.is_inline().then(|| Inline::read(head, body)) }
    }

    /// Elements of an inline collection and, if they are known, the changes since they were read, as [`Keyspace::put`] takes them.
    pub(super) fn parts(&self) -> (&[u8], Option<&[u8]>) {
        self.inline.as_ref().map_or((b"", None), |inline| (inline.body(), inline.splices()))
    }

    /// Bytes of the elements of an inline collection.
    pub(super) fn bytes(&self) -> usize {
        self.inline.as_ref().map_or(0, |inline| inline.body().len())
    }

    /// An inline collection without elements.
    fn empty(kind: Kind) -> Collection {
        // A set is a set of integers until it gets another member.
        let form = if kind == Kind::Set { Form::Integers } else { Form::Inline };
        Collection { head: Head { form, ..Head::collection(kind, 0) }, inline: Some(Inline::new(kind, form)) }
    }
}

/// A collection that is being changed. [`Keyspace::finish`] writes the changes.
#[derive(Debug)]
#[must_use = "what was changed must be finished"]
pub struct Edit<'k> {
    pub(super) db: usize,
    pub(super) key: &'k [u8],
    pub(super) old: Option<Head>,
    /// The collection with all changes so far.
    pub head: Collection,
}

impl Edit<'_> {
    /// The collection existed when the edit began.
    pub fn existed(&self) -> bool {
        self.old.is_some()
    }
}

impl Keyspace {
    /// Sets the sizes up to which collections are inline. A larger collection changes its form when something is added to it.
    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// The collection at a key whose deadline has not passed; for a string, only the head that [`Keyspace::find`] gives.
    pub fn find_collection(&mut self, db: usize, key: &[u8]) -> Result<Option<Collection>> {
        self.find(db, key)?.map(|head| self.shown(&head)).transpose()
    }

    /// [`Keyspace::find_collection`] of a key that must hold this type.
    ///
    /// # Errors
    /// `WrongType` if the key holds another type.
    pub fn collection(&mut self, db: usize, key: &[u8], kind: Kind) -> Result<Option<Collection>> {
        self.find_kind(db, key, kind)?.map(|head| self.shown(&head)).transpose()
    }

    /// The collection whose entry was read last.
    pub(super) fn found(&self, head: &Head) -> Collection {
        Collection::found(head, self.entry.get(self.string_at..).unwrap_or_default())
    }

    /// Begins to change the collection at a key, creating it if there is none.
    ///
    /// # Errors
    /// `WrongType` if the key holds something else.
    pub fn edit<'k>(&mut self, db: usize, key: &'k [u8], kind: Kind) -> Result<Edit<'k>> {
        let old = self.find_kind(db, key, kind)?;
        let head = match &old {
            None => self.begin(kind)?,
            Some(head) if head.form == Form::Plain && kind != Kind::Stream => self.convert(head)?,
            Some(head) => self.found(head),
        };
        Ok(Edit { db, key, old, head })
    }

    /// A collection without elements.
    pub(super) fn begin(&mut self, kind: Kind) -> Result<Collection> {
        Ok(match kind {
            Kind::Stream => Collection { head: Head::collection(kind, self.new_id()?), inline: None },
            kind => Collection::empty(kind),
        })
    }

    /// Converts a collection of an older format to an inline one, in its present order, if it is small enough.
    fn convert(&self, old: &Head) -> Result<Collection> {
        let thresholds = &self.thresholds;
        let elements = Collection { head: Head { form: Form::Elements, ..*old }, inline: None };
        if !thresholds.admits_count(old.kind, old.count) {
            return Ok(elements);
        }
        let mut new = Collection::empty(old.kind);
        new.head.deadline = old.deadline;
        let mut failed = Ok(true);
        // Stops at the first element that does not fit.
        let mut step = |result: Result<bool>| {
            let flow = if matches!(result, Ok(true)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            failed = result;
            flow
        };
        match old.kind {
            Kind::List => self.walk_items(&elements, (0, old.count), false, &mut |item| {
                let fits = thresholds.admits_list(new.head.count + 1, new.bytes() + item.len());
                if let Some(inline) = new.inline.as_mut().filter(|_| fits) {
                    inline.push(Side::Right, item);
                    new.head.count += 1;
                }
                step(Ok(fits))
            })?,
            Kind::SortedSet => self.walk_order(&layout::scores(old.id), Direction::Forward, &mut |member, score| {
                step(thresholds.put_score(&mut new, member, score_order(score)).map(|old| old.is_some()))
            })?,
            _ => {
                self.walk_members(&elements, &mut |name, value| step(thresholds.put(&mut new, name, value).map(|is_new| is_new.is_some())))?
            }
        }
        Ok(if failed? { new } else { elements })
    }

    /// Adds a member without a value, or a field with a value, to an inline collection, or changes the value of a field; true: the member
    /// or field is new. `None`: the collection is not inline, or not any longer.
    pub(super) fn put_inline(&mut self, edit: &mut Edit, name: &[u8], value: &[u8]) -> Result<Option<bool>> {
        let is_new = self.thresholds.put(&mut edit.head, name, value)?;
        if is_new.is_none() {
            self.spread(edit)?;
        }
        Ok(is_new)
    }

    /// Sets the score of a member of an inline sorted set; `Some` has the old score. `None` means the same as for [`Keyspace::put_inline`].
    pub(super) fn put_score_inline(&mut self, edit: &mut Edit, name: &[u8], score: u64) -> Result<Option<Option<u64>>> {
        let old = self.thresholds.put_score(&mut edit.head, name, score)?;
        if old.is_none() {
            self.spread(edit)?;
        }
        Ok(old)
    }

    /// Turns an inline list into engine keys if it would be too large with so many more items and bytes.
    pub(super) fn make_space(&mut self, edit: &mut Edit, items: u64, bytes: usize) -> Result<()> {
        if edit.head.inline.is_some() && !self.thresholds.admits_list(edit.head.count + items, edit.head.bytes() + bytes) {
            self.spread(edit)?;
        }
        Ok(())
    }

    /// Turns the elements of an inline collection into engine keys.
    fn spread(&mut self, edit: &mut Edit) -> Result<()> {
        if edit.head.inline.is_none() {
            return Ok(());
        }
        let (id, deadline, kind, fields) = (self.new_id()?, edit.head.deadline, edit.head.kind, edit.head.fields);
        let Some(inline) = edit.head.inline.take() else { return Ok(()) };
        edit.head.head = Head { form: Form::Elements, deadline, fields, ..Head::collection(kind, id) };
        let mut elements = inline.elements();
        while let Some(element) = elements.next()? {
            match kind {
                Kind::List => self.push(edit, Side::Right, element.name)?,
                Kind::SortedSet => self.set_order(edit, element.name, layout::score_of(element.score()), None),
                _ => {
                    self.set_member(edit, element.name, element.value, None);
                    if element.deadline > 0 {
                        self.move_field_deadline(id, element.name, 0, element.deadline);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the change of a collection: without elements it is removed, unless it is a stream.
    pub fn finish(&mut self, edit: &Edit) {
        let new = &edit.head;
        let is_same = edit.old == Some(new.head) && !new.inline.as_ref().is_some_and(Inline::is_changed);
        match &edit.old {
            None if new.is_gone() => {}
            Some(old) if new.is_gone() => self.erase(edit.db, edit.key, old),
            Some(_) if is_same => self.changed(edit.db, edit.key, Change::Changed),
            old => {
                let (body, splices) = new.parts();
                self.put(edit.db, edit.key, old.as_ref(), &new.head, body, splices);
                self.changed(edit.db, edit.key, if old.is_none() { Change::Made } else { Change::Changed });
            }
        }
    }

    /// Ends a change to a stream's properties that is no change to clients that watch it or wait for it.
    pub fn finish_unwatched(&mut self, edit: &Edit) {
        self.put(edit.db, edit.key, edit.old.as_ref(), &edit.head, b"", None);
        self.note(edit.db, edit.key, Change::Changed);
        self.wrote(edit.db, edit.key);
    }
}
