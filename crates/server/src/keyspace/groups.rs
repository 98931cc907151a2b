//! Groups of a stream: the entries delivered to their consumers and not acknowledged yet.
//!
//! A delivered entry is *pending*: it is stored once among its group's pending entries by id, with its consumer, and once among its
//! consumer's. Both counts are exact. A group is opened to be changed, like a collection: changes to it and to its consumers are kept in
//! the [`GroupEdit`] and written once.

use super::changes::Change;
use super::entry::Head;
use super::entry_id::{ENTRY_ID, EntryId};
use super::error::{Error, Result};
use super::layout::{self, Direction, FamilyKind, GroupPlace, check_member};
use super::{Keyspace, RANGE_FROM};
use sinterdb::internal::coding::{Decoder, put_varint};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const DAMAGED: Error = Error::Damaged("a group of a stream");

/// A group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerGroup {
    /// The stream's id, and the number that the group was given when it was made.
    place: GroupPlace,
    /// The id up to which entries were delivered.
    pub last: EntryId,
    /// Number of the stream's entries up to `last`, deleted ones included; `None`: unknown.
    pub read: Option<u64>,
    /// Number of pending entries.
    pub pending: u64,
    /// Number of consumers.
    pub consumers: u64,
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Name of the consumer, unique in the group.
    pub name: Vec<u8>,
    /// When the consumer last asked for something, unix milliseconds.
    pub seen: u64,
    /// Number of the consumer's pending entries.
    pub pending: u64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// The number of the consumer.
    pub consumer: u64,
    /// When the entry was delivered last, unix milliseconds.
    pub delivered: u64,
    /// Number of deliveries of the entry.
    pub deliveries: u64,
}

/// A group that is being changed. [`Keyspace::finish_group`] writes the changes.
#[derive(Debug)]
#[must_use = "what was changed must be finished"]
pub struct GroupEdit<'n> {
    /// Database and key of the stream.
    pub(super) of: (usize, &'n [u8]),
    pub(super) name: &'n [u8],
    pub(super) old: ConsumerGroup,
    /// The group with all changes made so far.
    pub group: ConsumerGroup,
    /// Consumers that have changed, by number.
    consumers: BTreeMap<u64, Consumer>,
    /// New consumers and changed pending entries, if changes are traced.
    pub(super) made: Vec<Vec<u8>>,
    pub(super) touched: Vec<EntryId>,
}

/// A group that is being restored from elsewhere: first its pending entries, then its consumers, each followed by its own pending entries.
/// The stream does not have the group before [`Keyspace::finish_new_group`].
#[derive(Debug)]
#[must_use = "what was put in must be finished"]
pub struct NewGroup {
    name: Vec<u8>,
    group: ConsumerGroup,
    /// The consumer that was added last.
    consumer: Option<(u64, Consumer)>,
    /// Number of pending entries without a consumer so far.
    unowned: u64,
}

/// Consumer number of pending entries that no consumer has yet.
const NOBODY: u64 = 0;

/// Callback of a walk over pending entries, called for each of them.
type VisitPending<'a> = dyn FnMut(EntryId, Pending) -> ControlFlow<()> + 'a;

impl Head {
    /// Whether an entry from `id` on may have been deleted other than by a trim.
    fn has_gap_from(&self, id: EntryId) -> bool {
        let deleted = self.stream.max_deleted;
        self.count > 0 && deleted != EntryId::MIN && self.stream.first <= deleted && id <= deleted
    }

    /// Number of entries added up to `id`, deleted ones included; `None`: unknown.
    pub fn added_up_to(&self, id: EntryId) -> Option<u64> {
        let stream = &self.stream;
        if stream.added == 0 || id == stream.last || self.count == 0 && id < stream.last {
            return Some(stream.added);
        }
        let has_gaps = stream.max_deleted != EntryId::MIN && stream.max_deleted >= stream.first;
        if id > stream.last || id > stream.first || has_gaps {
            return None;
        }
        Some(stream.added.wrapping_sub(self.count).wrapping_add(u64::from(id == stream.first)))
    }

    /// Number of entries yet to be delivered to a group; `None`: unknown.
    pub fn lag(&self, group: &ConsumerGroup) -> Option<i64> {
        let known = group.read.filter(|_| !self.has_gap_from(group.last));
        let read = if self.stream.added == 0 { Some(0) } else { known.or_else(|| self.added_up_to(group.last)) };
        // More may be set as read than were ever added.
        read.map(|read| (self.stream.added as i64).wrapping_sub(read as i64))
    }
}

impl ConsumerGroup {
    /// Advances the group to an entry that was delivered.
    pub fn advance(&mut self, head: &Head, id: EntryId) {
        if id <= self.last {
            return;
        }
        self.read = match self.read {
            Some(read) if !head.has_gap_from(id) => Some(read.wrapping_add(1)),
            read if head.stream.added == 0 => read,
            _ => head.added_up_to(id),
        };
        self.last = id;
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        put_varint(&mut out, self.place.1);
        out.extend_from_slice(&self.last.bytes());
        for number in [self.read.map_or(0, |read| read.saturating_add(1)), self.pending, self.consumers] {
            put_varint(&mut out, number);
        }
        out
    }

    fn decode(stream: u64, bytes: &[u8]) -> Result<ConsumerGroup> {
        let read = || {
            let mut from = Decoder::new(bytes);
            let place = (stream, from.varint()?);
            let last = EntryId::from_bytes(from.bytes(ENTRY_ID)?)?;
            let group =
                ConsumerGroup { place, last, read: from.varint()?.checked_sub(1), pending: from.varint()?, consumers: from.varint()? };
            from.is_empty().then_some(group)
        };
        read().ok_or(DAMAGED)
    }
}

impl Consumer {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.name.len());
        put_varint(&mut out, self.seen);
        put_varint(&mut out, self.pending);
        out.extend_from_slice(&self.name);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Consumer> {
        let mut from = Decoder::new(bytes);
        let numbers = from.varint().zip(from.varint());
        numbers.map(|(seen, pending)| Consumer { name: from.rest().to_vec(), seen, pending }).ok_or(DAMAGED)
    }
}

impl Pending {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(14);
        for number in [self.consumer, self.delivered, self.deliveries] {
            put_varint(&mut out, number);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Pending> {
        let read = || {
            let mut from = Decoder::new(bytes);
            let pending = Pending { consumer: from.varint()?, delivered: from.varint()?, deliveries: from.varint()? };
            from.is_empty().then_some(pending)
        };
        read().ok_or(DAMAGED)
    }
}

/// Reading groups.
impl Keyspace {
    fn element(&self, place: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.turn.get(FamilyKind::Elements, place, &mut out)?.then_some(out))
    }

    /// A group of a stream.
    pub fn group(&self, head: &Head, name: &[u8]) -> Result<Option<ConsumerGroup>> {
        check_member(name)?;
        self.element(&layout::group_key(head.id, name))?.map(|bytes| ConsumerGroup::decode(head.id, &bytes)).transpose()
    }

    /// All groups of a stream by name.
    pub fn groups(&self, head: &Head) -> Result<Vec<(Vec<u8>, ConsumerGroup)>> {
        let mut all = Vec::new();
        self.turn.walk(FamilyKind::Elements, &layout::groups(head.id), Direction::Forward, &mut |place, value| {
            all.push((layout::split_group_key(place).unwrap_or_default().to_vec(), ConsumerGroup::decode(head.id, value)));
            ControlFlow::Continue(())
        })?;
        all.into_iter().map(|(name, group)| Ok((name, group?))).collect()
    }

    /// The number of a consumer.
    pub fn consumer_number(&self, group: &ConsumerGroup, name: &[u8]) -> Result<Option<u64>> {
        check_member(name)?;
        let number = |bytes: Vec<u8>| Decoder::new(&bytes).varint().ok_or(DAMAGED);
        self.element(&layout::consumer_name_key(group.place, name))?.map(number).transpose()
    }

    /// A consumer by its number.
    pub fn consumer(&self, group: &ConsumerGroup, number: u64) -> Result<Consumer> {
        let bytes = self.element(&layout::consumer_key(group.place, number))?.ok_or(DAMAGED)?;
        Consumer::decode(&bytes)
    }

    /// All consumers of a group with their numbers, by name.
    pub fn consumers(&self, group: &ConsumerGroup) -> Result<Vec<(u64, Consumer)>> {
        let mut numbers = Vec::new();
        self.turn.walk(FamilyKind::Elements, &layout::consumer_names(group.place), Direction::Forward, &mut |_, value| {
            numbers.push(Decoder::new(value).varint().ok_or(DAMAGED));
            ControlFlow::Continue(())
        })?;
        numbers.into_iter().map(|number| number.and_then(|number| Ok((number, self.consumer(group, number)?)))).collect()
    }

    /// A pending entry.
    pub fn pending(&self, group: &ConsumerGroup, id: EntryId) -> Result<Option<Pending>> {
        self.element(&layout::pending_key(group.place, id))?.map(|bytes| Pending::decode(&bytes)).transpose()
    }

    /// Shows `visit` the pending entries of a group, or of one of its consumers, from one id up to and including another, until it breaks.
    pub fn walk_pending(
        &self,
        group: &ConsumerGroup,
        owner: Option<u64>,
        range: (EntryId, EntryId),
        visit: &mut VisitPending,
    ) -> Result<()> {
        let bounds = match owner {
            None => layout::pending(group.place, range.0, range.1),
            Some(consumer) => layout::owned(group.place, consumer, range.0, range.1),
        };
        let mut outcome = Ok(());
        self.turn.walk(FamilyKind::Elements, &bounds, Direction::Forward, &mut |place, value| {
            let found = layout::split_entry_id(place).ok_or(DAMAGED).and_then(|id| {
                let pending = if owner.is_none() { Pending::decode(value)? } else { self.pending(group, id)?.ok_or(DAMAGED)? };
                Ok((id, pending))
            });
            match found {
                Ok((id, pending)) => visit(id, pending),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        outcome
    }

    /// The lowest and the highest id that is pending in a group.
    pub fn pending_edges(&self, group: &ConsumerGroup) -> Result<Option<(EntryId, EntryId)>> {
        let bounds = layout::pending(group.place, EntryId::MIN, EntryId::MAX);
        let edge = |direction| {
            let mut found = None;
            self.turn.walk(FamilyKind::Elements, &bounds, direction, &mut |place, _| {
                found = layout::split_entry_id(place);
                ControlFlow::Break(())
            })?;
            Ok::<_, Error>(found)
        };
        Ok(edge(Direction::Forward)?.zip(edge(Direction::Backward)?))
    }
}

/// Restoring groups.
impl Keyspace {
    /// Begins a group; `None`: there is one of this name.
    pub fn new_group(&mut self, head: &Head, name: &[u8], last: EntryId, read: Option<u64>) -> Result<Option<NewGroup>> {
        if self.group(head, name)?.is_some() {
            return Ok(None);
        }
        let group = ConsumerGroup { place: (head.id, self.new_id()?), last, read, pending: 0, consumers: 0 };
        Ok(Some(NewGroup { name: name.to_vec(), group, consumer: None, unowned: 0 }))
    }

    /// Adds a pending entry, which the group does not have yet.
    pub fn add_pending(&mut self, new: &mut NewGroup, id: EntryId, delivered: u64, deliveries: u64) {
        let pending = Pending { consumer: NOBODY, delivered, deliveries };
        self.turn.put(FamilyKind::Elements, layout::pending_key(new.group.place, id), pending.encode());
        new.group.pending += 1;
        new.unowned += 1;
    }

    /// Adds a consumer; false: there is one of this name.
    pub fn add_new_consumer(&mut self, new: &mut NewGroup, name: &[u8], seen: u64) -> Result<bool> {
        self.put_new_consumer(new);
        if self.consumer_number(&new.group, name)?.is_some() {
            return Ok(false);
        }
        let number = self.put_consumer_name(&new.group, name)?;
        new.consumer = Some((number, Consumer { name: name.to_vec(), seen, pending: 0 }));
        new.group.consumers += 1;
        Ok(true)
    }

    /// Gives a pending entry to the consumer added last; false: the entry is not pending or has a consumer.
    pub fn own_pending(&mut self, new: &mut NewGroup, id: EntryId) -> Result<bool> {
        let found = self.pending(&new.group, id)?.filter(|pending| pending.consumer == NOBODY);
        let (Some(pending), Some((number, consumer))) = (found, &mut new.consumer) else { return Ok(false) };
        let place = new.group.place;
        consumer.pending += 1;
        new.unowned = new.unowned.saturating_sub(1);
        self.turn.put(FamilyKind::Elements, layout::pending_key(place, id), Pending { consumer: *number, ..pending }.encode());
        self.turn.put(FamilyKind::Elements, layout::owned_key(place, *number, id), Vec::new());
        Ok(true)
    }

    fn put_new_consumer(&mut self, new: &mut NewGroup) {
        if let Some((number, consumer)) = new.consumer.take() {
            self.turn.put(FamilyKind::Elements, layout::consumer_key(new.group.place, number), consumer.encode());
        }
    }

    /// Gives the group to its stream; false, and nothing is done: it has pending entries without a consumer.
    pub fn finish_new_group(&mut self, mut new: NewGroup) -> bool {
        self.put_new_consumer(&mut new);
        let is_whole = new.unowned == 0;
        if is_whole {
            self.turn.put(FamilyKind::Elements, layout::group_key(new.group.place.0, &new.name), new.group.encode());
        }
        is_whole
    }

    /// Assigns a number to a new consumer.
    fn put_consumer_name(&mut self, group: &ConsumerGroup, name: &[u8]) -> Result<u64> {
        let number = self.new_id()?;
        let mut value = Vec::with_capacity(7);
        put_varint(&mut value, number);
        self.turn.put(FamilyKind::Elements, layout::consumer_name_key(group.place, name), value);
        Ok(number)
    }
}

/// Changing groups.
impl Keyspace {
    /// Makes a group; the caller has seen that there is none of this name.
    pub fn create_group(&mut self, head: &Head, name: &[u8], last: EntryId, read: Option<u64>) -> Result<()> {
        let group = ConsumerGroup { place: (head.id, self.new_id()?), last, read, pending: 0, consumers: 0 };
        self.turn.put(FamilyKind::Elements, layout::group_key(head.id, name), group.encode());
        Ok(())
    }

    /// Removes a group and everything that belongs to it. Counts as a change of the key: clients that wait for the group's entries must
    /// hear of it.
    pub fn remove_group(&mut self, (db, key): (usize, &[u8]), name: &[u8], group: &ConsumerGroup) -> Result<()> {
        self.make_stale(key, false);
        self.touch(db, key);
        self.turn.delete(FamilyKind::Elements, layout::group_key(group.place.0, name));
        let whole = layout::all_grouped(group.place);
        // Pending entries and consumers are stored twice each.
        if group.pending.saturating_add(group.consumers).saturating_mul(2) > RANGE_FROM {
            self.turn.clear(FamilyKind::Elements, whole);
            return Ok(());
        }
        for place in self.places(&whole, u64::MAX)? {
            self.turn.delete(FamilyKind::Elements, place);
        }
        Ok(())
    }

    /// Begins to change a group of the stream at a key; `None`: there is none of this name.
    pub fn edit_group<'n>(&self, of: (usize, &'n [u8]), head: &Head, name: &'n [u8]) -> Result<Option<GroupEdit<'n>>> {
        let found = self.group(head, name)?;
        let begin = |group| GroupEdit { of, name, old: group, group, consumers: BTreeMap::new(), made: Vec::new(), touched: Vec::new() };
        Ok(found.map(begin))
    }

    /// Ends the change of a group.
    pub fn finish_group(&mut self, mut edit: GroupEdit) {
        self.trace_group(&mut edit);
        let place = edit.group.place;
        if edit.group != edit.old {
            self.turn.put(FamilyKind::Elements, layout::group_key(place.0, edit.name), edit.group.encode());
        }
        for (number, consumer) in edit.consumers {
            self.turn.put(FamilyKind::Elements, layout::consumer_key(place, number), consumer.encode());
        }
    }

    /// Loads a consumer that is about to change.
    fn change<'e>(&self, edit: &'e mut GroupEdit, number: u64) -> Result<&'e mut Consumer> {
        let consumer = match edit.consumers.remove(&number) {
            Some(consumer) => consumer,
            None => self.consumer(&edit.group, number)?,
        };
        Ok(edit.consumers.entry(number).or_insert(consumer))
    }

    fn add_consumer(&mut self, edit: &mut GroupEdit, name: &[u8]) -> Result<u64> {
        let number = self.put_consumer_name(&edit.group, name)?;
        self.note(edit.of.0, edit.of.1, Change::ConsumerMade);
        if self.is_traced() {
            edit.made.push(name.to_vec());
        }
        edit.consumers.insert(number, Consumer { name: name.to_vec(), seen: self.now, pending: 0 });
        edit.group.consumers += 1;
        Ok(number)
    }

    /// Makes a consumer; false: there is one of this name.
    pub fn create_consumer(&mut self, edit: &mut GroupEdit, name: &[u8]) -> Result<bool> {
        let is_new = self.consumer_number(&edit.group, name)?.is_none();
        if is_new {
            self.add_consumer(edit, name)?;
        }
        Ok(is_new)
    }

    /// The number of a consumer that asks for something, creating it if there is none.
    pub fn see_consumer(&mut self, edit: &mut GroupEdit, name: &[u8]) -> Result<u64> {
        let Some(number) = self.consumer_number(&edit.group, name)? else { return self.add_consumer(edit, name) };
        self.change(edit, number)?.seen = self.now;
        Ok(number)
    }

    /// Removes a consumer with its pending entries, and returns their number. `None`: there is no consumer of this name.
    pub fn remove_consumer(&mut self, edit: &mut GroupEdit, name: &[u8]) -> Result<Option<u64>> {
        let Some(number) = self.consumer_number(&edit.group, name)? else { return Ok(None) };
        let place = edit.group.place;
        let owned = self.places(&layout::owned(place, number, EntryId::MIN, EntryId::MAX), u64::MAX)?;
        let count = owned.len() as u64;
        for owned in owned {
            let id = layout::split_entry_id(&owned).ok_or(DAMAGED)?;
            self.turn.delete(FamilyKind::Elements, layout::pending_key(place, id));
            self.turn.delete(FamilyKind::Elements, owned);
        }
        self.turn.delete(FamilyKind::Elements, layout::consumer_name_key(place, name));
        self.turn.delete(FamilyKind::Elements, layout::consumer_key(place, number));
        edit.consumers.remove(&number);
        edit.group.pending = edit.group.pending.saturating_sub(count);
        edit.group.consumers = edit.group.consumers.saturating_sub(1);
        Ok(Some(count))
    }

    /// Makes an entry pending, or changes it; `old` is its present state.
    pub fn set_pending(&mut self, edit: &mut GroupEdit, id: EntryId, old: Option<Pending>, new: Pending) -> Result<()> {
        if self.is_traced() {
            edit.touched.push(id);
        }
        let place = edit.group.place;
        if old.is_none() {
            edit.group.pending += 1;
        }
        if old.map(|old| old.consumer) != Some(new.consumer) {
            if let Some(old) = old {
                self.disown(edit, id, old.consumer)?;
            }
            self.turn.put(FamilyKind::Elements, layout::owned_key(place, new.consumer, id), Vec::new());
            self.change(edit, new.consumer)?.pending += 1;
        }
        self.turn.put(FamilyKind::Elements, layout::pending_key(place, id), new.encode());
        Ok(())
    }

    fn disown(&mut self, edit: &mut GroupEdit, id: EntryId, consumer: u64) -> Result<()> {
        self.turn.delete(FamilyKind::Elements, layout::owned_key(edit.group.place, consumer, id));
        let consumer = self.change(edit, consumer)?;
        consumer.pending = consumer.pending.saturating_sub(1);
        Ok(())
    }

    /// Makes an entry not pending; `old` is its present state.
    pub fn remove_pending(&mut self, edit: &mut GroupEdit, id: EntryId, old: Pending) -> Result<()> {
        if self.is_traced() {
            edit.touched.push(id);
        }
        self.disown(edit, id, old.consumer)?;
        self.turn.delete(FamilyKind::Elements, layout::pending_key(edit.group.place, id));
        edit.group.pending = edit.group.pending.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Kind, StreamHead};
    use super::*;

    #[test]
    fn golden_bytes() {
        let group = ConsumerGroup { place: (7, 300), last: EntryId::new(1, 2), read: Some(4), pending: 5, consumers: 6 };
        let bytes = group.encode();
        assert_eq!(bytes, b"\xac\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x05\x05\x06");
        assert_eq!(ConsumerGroup::decode(7, &bytes).unwrap(), group);
        let unknown = ConsumerGroup { read: None, ..group };
        assert_eq!(ConsumerGroup::decode(7, &unknown.encode()).unwrap(), unknown);
        let consumer = Consumer { name: b"me".to_vec(), seen: 300, pending: 1 };
        assert_eq!(consumer.encode(), b"\xac\x02\x01me");
        assert_eq!(Consumer::decode(&consumer.encode()).unwrap(), consumer);
        let pending = Pending { consumer: 1, delivered: 300, deliveries: 2 };
        assert_eq!(pending.encode(), b"\x01\xac\x02\x02");
        assert_eq!(Pending::decode(&pending.encode()).unwrap(), pending);
    }

    #[test]
    fn damage_is_noticed() {
        let group = ConsumerGroup { place: (7, 300), last: EntryId::MAX, read: Some(4), pending: 5, consumers: 6 }.encode();
        for end in 0..group.len() {
            assert!(ConsumerGroup::decode(7, &group[..end]).is_err(), "cut at {end}");
        }
        assert!(ConsumerGroup::decode(7, &[&group[..], b"\0"].concat()).is_err());
        assert!(
            Consumer::decode(b"\x01").is_err() && Pending::decode(b"\x01\x02").is_err() && Pending::decode(b"\x01\x02\x03\x04").is_err()
        );
    }

    #[test]
    fn the_lag_is_told_where_it_is_known() {
        let stream = StreamHead { first: EntryId::new(3, 0), last: EntryId::new(9, 0), max_deleted: EntryId::MIN, added: 10 };
        let head = Head { count: 5, stream, ..Head::collection(Kind::Stream, 1) };
        let group = |ms, read| ConsumerGroup { place: (1, 2), last: EntryId::new(ms, 0), read, pending: 0, consumers: 0 };
        assert_eq!(head.lag(&group(0, None)), Some(5), "before all entries");
        assert_eq!(head.lag(&group(3, None)), Some(4), "at the first one");
        assert_eq!(head.lag(&group(4, None)), None);
        assert_eq!(head.lag(&group(4, Some(7))), Some(3));
        assert_eq!((head.lag(&group(9, None)), head.lag(&group(10, None))), (Some(0), None));
        let mut gap = head;
        gap.stream.max_deleted = EntryId::new(6, 0);
        assert_eq!((gap.lag(&group(4, Some(7))), gap.lag(&group(7, Some(7)))), (None, Some(3)));
        assert_eq!((gap.lag(&group(0, None)), gap.lag(&group(9, None))), (None, Some(0)));
        gap.count = 0;
        assert_eq!((gap.lag(&group(4, None)), gap.lag(&group(10, None))), (Some(0), None));
        let fresh = Head::collection(Kind::Stream, 1);
        assert_eq!((fresh.lag(&group(0, None)), fresh.lag(&group(10, Some(3)))), (Some(0), Some(0)));
        let mut moved = group(3, Some(6));
        moved.advance(&head, EntryId::new(4, 0));
        assert_eq!((moved.last, moved.read), (EntryId::new(4, 0), Some(7)));
        moved.advance(&gap, EntryId::new(4, 0));
        assert_eq!(moved.read, Some(7), "it was delivered before");
    }
}
