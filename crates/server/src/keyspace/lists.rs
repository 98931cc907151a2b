//! Lists: items at consecutive indexes, in a window that moves as both ends are pushed and popped.
//!
//! A *position* counts from the first item; an *index* is the number of an item in the engine, for lists that are not inline. Such a list
//! gives access to any position at the same cost; a change in the middle moves the items of the shorter side by one.

use super::collection::Collection;
use super::entry::{Head, Side};
use super::error::{Error, Result};
use super::layout::{self, Direction, FamilyKind};
use super::turn::Visit;
use super::{CHUNK, Edit, Keyspace, RANGE_FROM};
use std::ops::ControlFlow;

impl Head {
    /// The index of a position.
    fn index(&self, position: u64) -> Result<u64> {
        self.first.checked_add(position).ok_or(Error::Damaged("a list's indexes have run out"))
    }
}

impl Keyspace {
    /// Adds an item at an end.
    pub fn push(&mut self, edit: &mut Edit, side: Side, value: &[u8]) -> Result<()> {
        self.make_space(edit, 1, value.len())?;
        if let Some(inline) = &mut edit.head.inline {
            inline.push(side, value);
            edit.head.count += 1;
            return Ok(());
        }
        let index = match side {
            Side::Left => edit.head.first.checked_sub(1).ok_or(Error::Damaged("a list's indexes have run out"))?,
            Side::Right => edit.head.index(edit.head.count)?,
        };
        self.turn.put(FamilyKind::Elements, layout::item_key(edit.head.id, index), value);
        edit.head.resize(value.len(), 0);
        edit.head.count += 1;
        if side == Side::Left {
            edit.head.first = index;
        }
        Ok(())
    }

    /// Removes at most `most` items at an end, the outermost first.
    pub fn pop(&mut self, edit: &mut Edit, side: Side, most: u64) -> Result<Vec<Vec<u8>>> {
        let count = edit.head.count;
        let mut popped = Vec::new();
        if let Some(inline) = &mut edit.head.inline {
            popped = inline.pop(side, most, count)?;
            edit.head.count = count.saturating_sub(popped.len() as u64);
        } else {
            while (popped.len() as u64) < most {
                let Some(item) = self.pop_one(edit, side)? else { break };
                popped.push(item);
            }
        }
        Ok(popped)
    }

    /// Removes the item at an end of a list that is not inline.
    fn pop_one(&mut self, edit: &mut Edit, side: Side) -> Result<Option<Vec<u8>>> {
        let Some(last) = edit.head.count.checked_sub(1) else { return Ok(None) };
        let position = if side == Side::Left { 0 } else { last };
        let value = self.item(&edit.head, position)?.ok_or(Error::Damaged("an item of a list is missing"))?;
        self.turn.delete(FamilyKind::Elements, layout::item_key(edit.head.id, edit.head.index(position)?));
        edit.head.resize(0, value.len());
        edit.head.count = last;
        if side == Side::Left {
            edit.head.first += 1;
        }
        Ok(Some(value))
    }

    /// The item at a position.
    pub fn item(&self, head: &Collection, position: u64) -> Result<Option<Vec<u8>>> {
        if position >= head.count {
            return Ok(None);
        }
        if let Some(inline) = &head.inline {
            return Ok(inline.at(position)?.map(|element| element.name.to_vec()));
        }
        let mut out = Vec::new();
        let found = self.turn.get(FamilyKind::Elements, &layout::item_key(head.id, head.index(position)?), &mut out)?;
        Ok(found.then_some(out))
    }

    /// Replaces the item at a position; false: there is none.
    pub fn set_item(&mut self, edit: &mut Edit, position: u64, value: &[u8]) -> Result<bool> {
        if position >= edit.head.count {
            return Ok(false);
        }
        self.make_space(edit, 0, value.len())?;
        if let Some(inline) = &mut edit.head.inline {
            return inline.set_at(position, value);
        }
        let old = self.item(&edit.head, position)?.map_or(0, |old| old.len());
        self.put_item(&edit.head, position, value.to_vec())?;
        edit.head.resize(value.len(), old);
        Ok(true)
    }

    fn put_item(&mut self, head: &Head, position: u64, value: Vec<u8>) -> Result<()> {
        self.turn.put(FamilyKind::Elements, layout::item_key(head.id, head.index(position)?), value);
        Ok(())
    }

    /// Shows `visit` the items from a position up to another (excluded), until it breaks; on demand backwards from the last of them.
    pub fn walk_items(
        &self,
        head: &Collection,
        positions: (u64, u64),
        backward: bool,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let (from, to) = (positions.0.min(head.count), positions.1.min(head.count));
        if from >= to {
            return Ok(());
        }
        if let Some(inline) = &head.inline {
            return inline.walk_positions((from, to), backward, &mut |item, _| visit(item));
        }
        let bounds = layout::items(head.id, head.index(from)?, head.index(to)?);
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let visit: &mut Visit = &mut |_, value| visit(value);
        self.turn.walk(FamilyKind::Elements, &bounds, direction, visit)
    }

    /// The items from a position up to another (excluded), in order.
    fn some_items(&self, head: &Collection, from: u64, to: u64) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        self.walk_items(head, (from, to), false, &mut |value| {
            found.push(value.to_vec());
            ControlFlow::Continue(())
        })?;
        if found.len() as u64 != to.saturating_sub(from) { Err(Error::Damaged("an item of a list is missing")) } else { Ok(found) }
    }

    /// Keeps the items from a position up to another (excluded).
    pub fn trim(&mut self, edit: &mut Edit, from: u64, to: u64) -> Result<()> {
        let to = to.min(edit.head.count);
        let from = from.min(to);
        if let Some(inline) = &mut edit.head.inline {
            inline.trim(from, to)?;
            edit.head.count = to - from;
            return Ok(());
        }
        let count = edit.head.count;
        if edit.head.size.is_some() {
            // The smaller part is looked at.
            let is_most_kept = to - from > count / 2;
            let (gone, kept) = if is_most_kept {
                (self.item_bytes(&edit.head, 0, from)? + self.item_bytes(&edit.head, to, count)?, 0)
            } else {
                edit.head.size = Some(0);
                (0, self.item_bytes(&edit.head, from, to)?)
            };
            edit.head.resize(kept, gone);
        }
        self.drop_items(&edit.head, to, count)?;
        self.drop_items(&edit.head, 0, from)?;
        edit.head.first = edit.head.index(from)?;
        edit.head.count = to - from;
        Ok(())
    }

    /// Bytes of the items from a position up to another (excluded).
    fn item_bytes(&self, head: &Head, from: u64, to: u64) -> Result<usize> {
        self.bytes_within(&layout::items(head.id, head.index(from)?, head.index(to)?), 0)
    }

    /// Removes the items at these positions; the caller moves the window.
    fn drop_items(&mut self, head: &Collection, from: u64, to: u64) -> Result<()> {
        if to.saturating_sub(from) > RANGE_FROM {
            self.turn.clear(FamilyKind::Elements, layout::items(head.id, head.index(from)?, head.index(to)?));
            return Ok(());
        }
        for position in from..to {
            self.turn.delete(FamilyKind::Elements, layout::item_key(head.id, head.index(position)?));
        }
        Ok(())
    }

    /// Removes items equal to `value`, at most `most`: the first ones, or the last ones if `from_right`. Returns their number.
    pub fn remove_items(&mut self, edit: &mut Edit, value: &[u8], most: u64, from_right: bool) -> Result<u64> {
        if let Some(inline) = &mut edit.head.inline {
            let removed = inline.remove_items(value, most, from_right)?;
            edit.head.count = edit.head.count.saturating_sub(removed);
            return Ok(removed);
        }
        let mut found = Vec::new();
        let count = edit.head.count;
        let mut passed = 0;
        self.walk_items(&edit.head, (0, count), from_right, &mut |item| {
            if item == value {
                found.push(if from_right { count - 1 - passed } else { passed });
            }
            passed += 1;
            if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        found.sort_unstable();
        let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else { return Ok(0) };
        edit.head.resize(0, found.len() * value.len());
        if count - first <= last + 1 {
            self.close_from_right(edit, &found, first)?;
        } else {
            self.close_from_left(edit, &found, last)?;
        }
        Ok(found.len() as u64)
    }

    /// Closes gaps by moving items behind the first gap to the left.
    fn close_from_right(&mut self, edit: &mut Edit, gaps: &[u64], first: u64) -> Result<()> {
        let count = edit.head.count;
        let mut target = first;
        let mut next = first;
        while next < count {
            let to = count.min(next + CHUNK as u64);
            let items = self.some_items(&edit.head, next, to)?;
            for (position, item) in (next..).zip(items) {
                if gaps.binary_search(&position).is_err() {
                    self.put_item(&edit.head, target, item)?;
                    target += 1;
                }
            }
            next = to;
        }
        self.drop_items(&edit.head, target, count)?;
        edit.head.count = target;
        Ok(())
    }

    /// Closes gaps by moving items before the last gap to the right.
    fn close_from_left(&mut self, edit: &mut Edit, gaps: &[u64], last: u64) -> Result<()> {
        // The position behind the next one to fill.
        let mut target = last + 1;
        let mut next = last + 1;
        while next > 0 {
            let from = next.saturating_sub(CHUNK as u64);
            let items = self.some_items(&edit.head, from, next)?;
            for (position, item) in (from..next).rev().zip(items.into_iter().rev()) {
                if gaps.binary_search(&position).is_err() {
                    target -= 1;
                    self.put_item(&edit.head, target, item)?;
                }
            }
            next = from;
        }
        self.drop_items(&edit.head, 0, target)?;
        edit.head.first = edit.head.index(target)?;
        edit.head.count -= target;
        Ok(())
    }

    /// Inserts an item before or behind the first one that equals `pivot`; false: there is none.
    pub fn insert_item(&mut self, edit: &mut Edit, pivot: &[u8], behind: bool, value: &[u8]) -> Result<bool> {
        if let Some(inline) = &edit.head.inline
            && inline.find(pivot)?.is_none()
        {
            return Ok(false);
        }
        self.make_space(edit, 1, value.len())?;
        if let Some(inline) = &mut edit.head.inline {
            let is_found = inline.insert(pivot, behind, value)?;
            edit.head.count += u64::from(is_found);
            return Ok(is_found);
        }
        let (mut at, mut is_found) = (0u64, false);
        self.walk_items(&edit.head, (0, edit.head.count), false, &mut |item| {
            is_found = item == pivot;
            if is_found {
                return ControlFlow::Break(());
            }
            at += 1;
            ControlFlow::Continue(())
        })?;
        if !is_found {
            return Ok(false);
        }
        at += u64::from(behind);
        if at <= edit.head.count / 2 {
            self.open_to_left(edit, at)?
        } else {
            self.open_to_right(edit, at)?
        }
        self.put_item(&edit.head, at, value.to_vec())?;
        edit.head.resize(value.len(), 0);
        Ok(true)
    }

    /// Frees a position for an item by moving the items before it.
    fn open_to_left(&mut self, edit: &mut Edit, at: u64) -> Result<()> {
        let old = edit.head.clone();
        edit.head.first = old.first.checked_sub(1).ok_or(Error::Damaged("a list's indexes have run out"))?;
        edit.head.count += 1;
        let mut next = 0;
        while next < at {
            let to = at.min(next + CHUNK as u64);
            for (position, item) in (next..).zip(self.some_items(&old, next, to)?) {
                self.put_item(&edit.head, position, item)?;
            }
            next = to;
        }
        Ok(())
    }

    /// Frees a position for an item by moving the items from there on.
    fn open_to_right(&mut self, edit: &mut Edit, at: u64) -> Result<()> {
        let old = edit.head.clone();
        edit.head.count += 1;
        let mut next = old.count;
        while next > at {
            let from = at.max(next.saturating_sub(CHUNK as u64));
            let items = self.some_items(&old, from, next)?;
            for (position, item) in (from..next).zip(items) {
                self.put_item(&edit.head, position + 1, item)?;
            }
            next = from;
        }
        Ok(())
    }
}
