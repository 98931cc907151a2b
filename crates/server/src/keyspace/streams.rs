//! Streams: entries in the order of their ids.
//!
//! The head has the first and the last id, so a walk starts and ends at existing entries, not among entries deleted before or behind them.
//! Groups of consumers are in `groups`.

use super::entry::Head;
use super::entry_id::{ENTRY_ID, EntryId};
use super::error::{Error, Result};
use super::layout::{self, Bounds, Direction, FamilyKind};
use super::{Edit, Keyspace, RANGE_FROM};
use sinterdb::internal::coding::{Decoder, put_bytes, put_varint};
use std::ops::ControlFlow;

const DAMAGED: Error = Error::Damaged("the entries of a stream");

/// Callback of a walk over a stream, called for each entry with its id and the bytes that [`fields`] reads.
type VisitEntry<'a> = dyn FnMut(EntryId, &[u8]) -> ControlFlow<()> + 'a;

/// Entries that a trim keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// So many entries at the end.
    Newest(u64),
    /// Entries with this id or a larger one.
    From(EntryId),
}

/// A trim that may keep more than requested: it removes whole blocks of entries, counted from the first entry ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Entries in a block; 0: one block has all.
    pub size: u64,
    /// Largest number of entries to remove.
    pub limit: u64,
}

impl Blocks {
    /// Number of entries to remove, of the first `most` ones.
    fn cut(&self, most: u64, head: &Head) -> u64 {
        let most = most.min(self.limit);
        if most == head.count {
            return most;
        }
        let gone = head.stream.added.saturating_sub(head.count);
        let end = gone.saturating_add(most).checked_div(self.size).unwrap_or(0).saturating_mul(self.size);
        end.saturating_sub(gone)
    }
}

/// Encodes an entry for the engine: fields and values, one after the other.
pub fn encode_fields(pairs: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(pairs.iter().map(|text| text.len() + 2).sum::<usize>() + 2);
    put_varint(&mut out, pairs.len() as u64 / 2);
    pairs.iter().for_each(|text| put_bytes(&mut out, text));
    out
}

/// The fields and values of an entry, one after the other.
pub fn fields(entry: &[u8]) -> Result<Vec<&[u8]>> {
    let read = || {
        let mut from = Decoder::new(entry);
        // Each text takes a byte at least: a number that fits the remaining bytes takes no more memory than they allow.
        let texts = from.length()?.checked_mul(2)?;
        let all: Vec<&[u8]> = (0..texts).map(|_| from.prefixed()).collect::<Option<_>>()?;
        from.is_empty().then_some(all)
    };
    read().ok_or(DAMAGED)
}

impl Head {
    pub(super) fn entries(&self) -> Bounds {
        layout::stream_entries(self.id, self.stream.first, self.stream.last)
    }
}

impl Keyspace {
    /// Adds an entry behind all others: the caller has an id larger than the last one.
    pub fn append(&mut self, edit: &mut Edit, id: EntryId, entry: Vec<u8>) {
        let head = &mut edit.head;
        head.resize(ENTRY_ID + entry.len(), 0);
        self.turn.put(FamilyKind::Elements, layout::stream_key(head.id, id), entry);
        if head.count == 0 {
            head.stream.first = id;
        }
        head.count += 1;
        head.stream.added = head.stream.added.wrapping_add(1);
        head.stream.last = id;
    }

    /// Shows `visit` the entries from one id up to and including another, in order or backwards, until it breaks.
    pub fn walk_entries(&self, head: &Head, range: (EntryId, EntryId), backward: bool, visit: &mut VisitEntry) -> Result<()> {
        let (from, to) = (range.0.max(head.stream.first), range.1.min(head.stream.last));
        if head.count == 0 || from > to {
            return Ok(());
        }
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        self.turn.walk(FamilyKind::Elements, &layout::stream_entries(head.id, from, to), direction, &mut |place, entry| {
            match layout::split_entry_id(place) {
                Some(id) => visit(id, entry),
                None => ControlFlow::Continue(()),
            }
        })
    }

    /// The fields and values of an entry, for [`fields`] to read; `None`: there is no such entry.
    pub fn entry(&self, head: &Head, id: EntryId) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.turn.get(FamilyKind::Elements, &layout::stream_key(head.id, id), &mut out)?.then_some(out))
    }

    /// The id of the first entry, or of the last one.
    fn edge(&self, head: &Head, backward: bool) -> Result<Option<EntryId>> {
        let mut found = None;
        self.walk_entries(head, (EntryId::MIN, EntryId::MAX), backward, &mut |id, _| {
            found = Some(id);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The id of the last entry that exists.
    pub fn last_entry(&self, head: &Head) -> Result<Option<EntryId>> {
        self.edge(head, true)
    }

    /// Removes entries; returns the number of those that existed.
    pub fn remove_entries(&mut self, edit: &mut Edit, ids: &[EntryId]) -> Result<u64> {
        let mut removed = 0;
        let mut first_is_gone = false;
        for id in ids {
            let Some(entry) = self.entry(&edit.head, *id)? else { continue };
            self.turn.delete(FamilyKind::Elements, layout::stream_key(edit.head.id, *id));
            removed += 1;
            let head = &mut edit.head;
            head.resize(0, ENTRY_ID + entry.len());
            head.count = head.count.saturating_sub(1);
            head.stream.max_deleted = head.stream.max_deleted.max(*id);
            first_is_gone |= *id == head.stream.first;
        }
        if edit.head.count == 0 {
            edit.head.stream.first = EntryId::MIN;
        } else if first_is_gone {
            edit.head.stream.first = self.edge(&edit.head, false)?.ok_or(DAMAGED)?;
        }
        Ok(removed)
    }

    /// Number of entries that a trim removes, and the end of their range if it is known.
    fn to_trim(&self, head: &Head, keep: Keep, blocks: Option<Blocks>) -> Result<(u64, Option<Vec<u8>>)> {
        if head.count == 0 {
            return Ok((0, None));
        }
        let (wanted, end) = match (keep, blocks) {
            (Keep::Newest(kept), _) => (head.count.saturating_sub(kept), None),
            (Keep::From(id), None) => {
                let place = layout::stream_key(head.id, id);
                (self.count_before(&head.entries(), &place, head.count)?, Some(place))
            }
            (Keep::From(id), Some(Blocks { limit, .. })) => {
                let (first, end) = head.entries();
                let mut before = (first, end.min(layout::stream_key(head.id, id)));
                (self.pass(&mut before, Direction::Forward, limit.max(1))?, None)
            }
        };
        Ok((blocks.map_or(wanted, |blocks| blocks.cut(wanted, head)), end))
    }

    /// Number of entries that [`Keyspace::trim_entries`] would remove.
    pub fn count_to_trim(&self, head: &Head, keep: Keep, blocks: Option<Blocks>) -> Result<u64> {
        self.to_trim(head, keep, blocks).map(|(count, _)| count)
    }

    /// Removes the first entries except those to be kept, or fewer in whole blocks. Returns their number.
    pub fn trim_entries(&mut self, edit: &mut Edit, keep: Keep, blocks: Option<Blocks>) -> Result<u64> {
        let (removed, end) = self.to_trim(&edit.head, keep, blocks)?;
        if removed > 0 {
            self.remove_first(edit, removed, end)?;
        }
        Ok(removed)
    }

    /// Removes the first `count` entries; `end` is behind them, if it is known.
    fn remove_first(&mut self, edit: &mut Edit, count: u64, end: Option<Vec<u8>>) -> Result<()> {
        let whole = edit.head.entries();
        let mut next = None;
        if count <= RANGE_FROM {
            let (mut places, mut bytes) = (Vec::new(), 0usize);
            self.turn.walk(FamilyKind::Elements, &whole, Direction::Forward, &mut |place, entry| {
                if places.len() as u64 == count {
                    next = Some(place.to_vec());
                    return ControlFlow::Break(());
                }
                bytes = bytes.saturating_add(ENTRY_ID + entry.len());
                places.push(place.to_vec());
                ControlFlow::Continue(())
            })?;
            edit.head.resize(0, bytes);
            places.into_iter().for_each(|place| self.turn.delete(FamilyKind::Elements, place));
        } else if count < edit.head.count {
            let end = match end {
                Some(end) => end,
                None => self.place_at(&whole, count, edit.head.count)?.ok_or(DAMAGED)?,
            };
            let (gone, kept) = ((whole.0, end.clone()), (end, whole.1));
            if edit.head.size.is_some() {
                // The smaller part is looked at.
                edit.head.size = match edit.head.size {
                    Some(size) if count < edit.head.count / 2 => Some(size.saturating_sub(self.bytes_within(&gone, ENTRY_ID)? as u64)),
                    _ => Some(self.bytes_within(&kept, ENTRY_ID)? as u64),
                };
            }
            next = self.places(&kept, 1)?.pop();
            self.turn.clear(FamilyKind::Elements, gone);
        } else {
            edit.head.size = edit.head.size.map(|_| 0);
            self.turn.clear(FamilyKind::Elements, whole);
        }
        edit.head.count = edit.head.count.saturating_sub(count);
        edit.head.stream.first = match next {
            Some(place) => layout::split_entry_id(&place).ok_or(DAMAGED)?,
            None if edit.head.count == 0 => EntryId::MIN,
            None => return Err(DAMAGED),
        };
        Ok(())
    }
}
