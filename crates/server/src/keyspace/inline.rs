//! The elements of a small collection as one string of bytes, which lies in its key's entry.
//!
//! An element is a name, with its length as a varint before it; a field of a hash adds its value in this form, a member of a sorted set its
//! score, 8 bytes, as in [`layout::score_order`](super::layout::score_order). The order is Redis's: fields of a hash, members of a set and
//! items of a list in order of addition, members of a sorted set by score and name, and a set of integers ascending.
//!
//! In a hash some of whose fields have deadlines, each field also has its deadline as a varint, 0 for none. The order is Redis's here, too:
//! fields with deadlines first, by deadline and among equal deadlines the one set last first; then fields without.
//!
//! Bytes from the medium may be damaged: each element is checked as it is read.

use super::body::Body;
use super::delta::{DELTAS_FROM, put_splice, replace};
use super::entry::{Form, Head, Kind, Side};
use super::error::{Error, Result};
use super::turn::Visit;
use sinterdb::internal::coding::{Decoder, put_bytes, put_varint, varint_len};
use std::cmp::Ordering;
use std::ops::Range;

const DAMAGED: Error = Error::Damaged("the elements in its entry");
/// Bytes of a score.
const SCORE: usize = 8;

/// An element and its range of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'b> {
    at: usize,
    end: usize,
    pub name: &'b [u8],
    /// Value or score; empty except in hashes and sorted sets.
    pub value: &'b [u8],
    /// Deadline of a field, unix milliseconds; 0: none.
    pub deadline: u64,
}

impl Element<'_> {
    fn range(&self) -> Range<usize> {
        self.at..self.end
    }

    pub fn score(&self) -> u64 {
        self.value.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }
}

/// Name, value and deadline of an element.
type Parts<'b> = (&'b [u8], &'b [u8], u64);

/// Reads elements one by one.
#[derive(Debug)]
pub(super) struct Elements<'b> {
    kind: Kind,
    has_deadlines: bool,
    length: usize,
    from: Decoder<'b>,
}

impl<'b> Elements<'b> {
    /// The next element; `None` behind the last one.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Element<'b>>> {
        if self.from.is_empty() { Ok(None) } else { self.read().map(Some).ok_or(DAMAGED) }
    }

    /// Passes over at most so many elements.
    pub fn pass(&mut self, most: u64) -> Result<()> {
        for _ in 0..most {
            if self.next_parts()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Name, value and deadline of the next element; `None` behind the last one.
    #[inline(always)]
    fn next_parts(&mut self) -> Result<Option<Parts<'b>>> {
        if self.from.is_empty() { Ok(None) } else { self.parts().map(Some).ok_or(DAMAGED) }
    }

    #[inline(always)]
    fn parts(&mut self) -> Option<Parts<'b>> {
        let name = self.from.prefixed()?;
        let value = match self.kind {
            Kind::Hash => self.from.prefixed()?,
            Kind::SortedSet => self.from.bytes(SCORE)?,
            _ => b"",
        };
        let deadline = if self.has_deadlines { self.from.varint()? } else { 0 };
        Some((name, value, deadline))
    }

    #[inline(always)]
    fn read(&mut self) -> Option<Element<'b>> {
        let at = self.length - self.from.rest().len();
        let (name, value, deadline) = self.parts()?;
        Some(Element { at, end: self.length - self.from.rest().len(), name, value, deadline })
    }
}

/// A condition on an element.
type Test<'a> = dyn Fn(&Element) -> bool + 'a;

/// Result of a search for a member: the member, or where it belongs.
enum Spot<'b> {
    Here(Element<'b>),
    Behind(usize),
}

/// Orders integers, as [`parse_integer`](crate::number::parse_integer) reads them, by their digits.
fn integer_order(a: &[u8], b: &[u8]) -> Ordering {
    let by_digits = |a: &[u8], b: &[u8]| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    match (a.first() == Some(&b'-'), b.first() == Some(&b'-')) {
        (false, false) => by_digits(a, b),
        (true, true) => by_digits(b, a),
        (is_negative, other_is) => other_is.cmp(&is_negative),
    }
}

/// Sorts names in the order of a set of integers.
pub fn sort_integers<N: AsRef<[u8]>>(names: &mut [N]) {
    names.sort_unstable_by(|a, b| integer_order(a.as_ref(), b.as_ref()));
}

/// The elements of a small collection, and the changes since they were read.
#[derive(Debug, Clone)]
pub(super) struct Inline {
    kind: Kind,
    is_ascending: bool,
    /// Each field has its deadline behind its value.
    has_deadlines: bool,
    body: Body,
    is_changed: bool,
    /// Changes since the elements were read ([`put_splice`]); `None`: writing all elements takes less.
    splices: Option<Vec<u8>>,
}

impl Inline {
    /// A collection without elements.
    pub fn new(kind: Kind, form: Form) -> Inline {
        let is_ascending = form == Form::Integers;
        Inline { kind, is_ascending, has_deadlines: false, body: Body::default(), is_changed: false, splices: None }
    }

    /// A collection with the elements of an [`Inline::body`].
    pub fn read(head: &Head, body: &[u8]) -> Inline {
        let splices = (body.len() >= DELTAS_FROM).then(Vec::new);
        Inline { body: Body::copy(body), splices, has_deadlines: head.has_field_deadlines(), ..Inline::new(head.kind, head.form) }
    }

    /// The encoded elements.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether elements were added, removed or changed.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Changes since the elements were read, if they are known ([`put_splice`]).
    pub fn splices(&self) -> Option<&[u8]> {
        self.splices.as_deref()
    }

    /// Notes that the elements were written to the entry.
    pub fn was_written(&mut self) {
        (self.is_changed, self.splices) = (false, Some(Vec::new()));
    }

    /// Gives up the ascending order: new elements come last.
    pub fn forget_order(&mut self) {
        self.is_ascending = false;
    }

    /// Bytes of the longest name.
    pub fn longest(&self) -> Result<usize> {
        Ok(self.all()?.iter().map(|element| element.name.len()).max().unwrap_or(0))
    }

    pub fn elements(&self) -> Elements<'_> {
        Elements { kind: self.kind, has_deadlines: self.has_deadlines, length: self.body.len(), from: Decoder::new(&self.body) }
    }

    /// Shows `visit` the elements in order until it breaks.
    pub fn walk(&self, visit: &mut Visit) -> Result<()> {
        let mut elements = self.elements();
        while let Some((name, value, _)) = elements.next_parts()? {
            if visit(name, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows `visit` the elements from a position up to another (excluded), in order or backwards, until it breaks.
    pub fn walk_positions(&self, (from, to): (u64, u64), backward: bool, visit: &mut Visit) -> Result<()> {
        let (mut some, mut elements) = (Vec::new(), self.elements());
        elements.pass(from)?;
        for _ in from..to {
            let Some((name, value, _)) = elements.next_parts()? else { break };
            if backward {
                some.push((name, value));
            } else if visit(name, value).is_break() {
                break;
            }
        }
        let _ = some.iter().rev().try_for_each(|(name, value)| visit(name, value));
        Ok(())
    }

    /// Shows `visit` the members of a sorted set in a range: from the first member for which `is_before` is false to the last one before
    /// `is_up_to_end` turns false. A walk backwards starts at the last member for which `is_up_to_end` is true and ends before `is_before`
    /// turns true. The first `skip` members of the walk are passed over without a test.
    pub fn walk_part(
        &self,
        is_before: impl Fn(u64, &[u8]) -> bool,
        is_up_to_end: impl Fn(u64, &[u8]) -> bool,
        (backward, skip): (bool, u64),
        visit: &mut Visit,
    ) -> Result<()> {
        let mut all = self.all()?;
        // Redis looks at both ends first, which matters where the order of members is not that of names.
        let has_any = all.last().is_some_and(|last| !is_before(last.score(), last.name))
            && all.first().is_some_and(|first| is_up_to_end(first.score(), first.name));
        if !has_any {
            return Ok(());
        }
        let (starts, goes_on): (&Test, &Test) = if backward {
            all.reverse();
            (&|element| is_up_to_end(element.score(), element.name), &|element| !is_before(element.score(), element.name))
        } else {
            (&|element| !is_before(element.score(), element.name), &|element| is_up_to_end(element.score(), element.name))
        };
        let mut inside = all.iter().skip_while(|element| !starts(element)).peekable();
        if inside.peek().is_none_or(|first| !goes_on(first)) {
            return Ok(());
        }
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        for element in inside.skip(skip).take_while(|element| goes_on(element)) {
            if visit(element.name, element.value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Number of elements before the one of this name.
    pub fn position(&self, name: &[u8]) -> Result<Option<u64>> {
        let (mut before, mut elements) = (0, self.elements());
        while let Some(element) = elements.next()? {
            if element.name == name {
                return Ok(Some(before));
            }
            before += 1;
        }
        Ok(None)
    }

    /// All elements.
    pub fn all(&self) -> Result<Vec<Element<'_>>> {
        let (mut all, mut elements) = (Vec::new(), self.elements());
        while let Some(element) = elements.next()? {
            all.push(element);
        }
        Ok(all)
    }

    /// The element at a position.
    pub fn at(&self, position: u64) -> Result<Option<Element<'_>>> {
        let mut elements = self.elements();
        elements.pass(position)?;
        elements.next()
    }

    /// The element of this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<Element<'_>>> {
        match self.spot(name)? {
            Spot::Here(element) => Ok(Some(element)),
            Spot::Behind(_) => Ok(None),
        }
    }

    fn spot(&self, name: &[u8]) -> Result<Spot<'_>> {
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            if element.name == name {
                return Ok(Spot::Here(element));
            }
            if self.is_ascending && integer_order(element.name, name).is_gt() {
                return Ok(Spot::Behind(element.at));
            }
        }
        Ok(Spot::Behind(self.body.len()))
    }

    /// Replaces a range of bytes; every change consists of such steps.
    fn splice(&mut self, range: Range<usize>, new: &[u8]) {
        self.is_changed = true;
        if let Some(splices) = &mut self.splices {
            put_splice(splices, range.clone(), new);
            if splices.len() > self.body.len() {
                self.splices = None;
            }
        }
        replace(&mut self.body, range, new);
    }

    /// Encodes an element.
    fn element(&self, name: &[u8], value: &[u8]) -> Vec<u8> {
        self.field(name, value, 0)
    }

    /// Encodes an element with its deadline.
    fn field(&self, name: &[u8], value: &[u8], deadline: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(3 * varint_len(u64::MAX) + name.len() + value.len());
        put_bytes(&mut out, name);
        match self.kind {
            Kind::Hash => put_bytes(&mut out, value),
            _ => out.extend_from_slice(value),
        }
        if self.has_deadlines {
            put_varint(&mut out, deadline);
        }
        out
    }

    /// Adds a member, or a field with its value, or changes the value of a field, which keeps its position and its deadline; false: it
    /// existed. `None`: it does not exist, and `may_add` is false.
    pub fn set(&mut self, name: &[u8], value: &[u8], may_add: bool) -> Result<Option<bool>> {
        let (range, is_new, deadline) = match self.spot(name)? {
            Spot::Here(element) if element.value == value => return Ok(Some(false)),
            Spot::Here(element) => (element.range(), false, element.deadline),
            Spot::Behind(at) if may_add => (at..at, true, 0),
            Spot::Behind(_) => return Ok(None),
        };
        let new = self.field(name, value, deadline);
        self.splice(range, &new);
        Ok(Some(is_new))
    }

    /// Deadline of a field, 0 if it has none; `None`: there is no such field.
    pub fn deadline(&self, name: &[u8]) -> Result<Option<u64>> {
        Ok(self.find(name)?.map(|element| element.deadline))
    }

    /// The earliest deadline of a field; 0: no field has one.
    pub fn first_deadline(&self) -> Result<u64> {
        Ok(self.elements().next()?.map_or(0, |first| first.deadline))
    }

    /// Sets the deadline of a field (0: none), and moves the field to where it belongs by that: before others with this deadline, as in
    /// Redis, or behind them if it `is_loaded`, so that a file keeps its order. Returns the old deadline. `None`: there is no such field.
    pub fn set_deadline(&mut self, name: &[u8], deadline: u64, is_loaded: bool) -> Result<Option<u64>> {
        if !self.has_deadlines {
            let is_there = self.find(name)?.is_some();
            if !is_there || deadline == 0 {
                return Ok(is_there.then_some(0));
            }
            self.write_deadlines(true)?;
        }
        let is_behind = |other: u64| other == 0 || other > deadline || other == deadline && !is_loaded;
        let (mut found, mut target) = (None, self.body.len());
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            if element.name == name {
                found = Some((element.range(), element.deadline, self.field(name, element.value, deadline)));
            } else if deadline > 0 && target == self.body.len() && is_behind(element.deadline) {
                target = element.at;
            }
        }
        let Some((range, old, new)) = found else { return Ok(None) };
        if old == deadline && (deadline == 0 || target == range.end) {
            return Ok(Some(old));
        }
        if target == range.end {
            self.splice(range, &new);
        } else if target < range.start {
            self.splice(range, b"");
            self.splice(target..target, &new);
        } else {
            self.splice(target..target, &new);
            self.splice(range, b"");
        }
        Ok(Some(old))
    }

    /// Removes the first fields whose deadline is before a time, at most so many; returns their names.
    pub fn remove_due(&mut self, now: u64, most: usize) -> Result<Vec<Vec<u8>>> {
        let (mut names, mut end) = (Vec::new(), 0);
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            if names.len() == most || element.deadline == 0 || element.deadline >= now {
                break;
            }
            names.push(element.name.to_vec());
            end = element.end;
        }
        if end > 0 {
            self.splice(0..end, b"");
        }
        Ok(names)
    }

    /// Writes all fields anew, with deadlines behind their values or, if no field has one, without.
    pub fn write_deadlines(&mut self, has_deadlines: bool) -> Result<()> {
        let mut body = Vec::with_capacity(self.body.len());
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            put_bytes(&mut body, element.name);
            put_bytes(&mut body, element.value);
            if has_deadlines {
                put_varint(&mut body, element.deadline);
            }
        }
        (self.body, self.has_deadlines, self.is_changed, self.splices) = (body.into(), has_deadlines, true, None);
        Ok(())
    }

    /// Removes the element of this name; false: there is none.
    pub fn remove(&mut self, name: &[u8]) -> Result<bool> {
        let Some(range) = self.find(name)?.map(|element| element.range()) else { return Ok(false) };
        self.splice(range, b"");
        Ok(true)
    }

    /// Adds a member of a sorted set, or changes its score; returns the old score. `None`: it does not exist, and `may_add` is false.
    pub fn set_score(&mut self, name: &[u8], score: u64, may_add: bool) -> Result<Option<Option<u64>>> {
        let (mut old, mut target) = (None, self.body.len());
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            if element.name == name {
                old = Some((element.range(), element.score()));
            } else if target == self.body.len() && (element.score(), element.name) > (score, name) {
                target = element.at;
            }
        }
        let new = self.element(name, &score.to_be_bytes());
        match old.clone() {
            Some((_, was)) if was == score => {}
            Some((range, _)) if target == range.end => self.splice(range.end - SCORE..range.end, &score.to_be_bytes()),
            Some((range, _)) if target < range.start => {
                self.splice(range, b"");
                self.splice(target..target, &new);
            }
            Some((range, _)) => {
                self.splice(target..target, &new);
                self.splice(range, b"");
            }
            None if may_add => self.splice(target..target, &new),
            None => return Ok(None),
        }
        Ok(Some(old.map(|(_, score)| score)))
    }

    /// Adds an item at an end of a list.
    pub fn push(&mut self, side: Side, item: &[u8]) {
        let at = if side == Side::Left { 0 } else { self.body.len() };
        let new = self.element(item, b"");
        self.splice(at..at, &new);
    }

    /// Removes at most `most` items at an end of a list that has `count`, and returns them, the outermost first.
    pub fn pop(&mut self, side: Side, most: u64, count: u64) -> Result<Vec<Vec<u8>>> {
        let (skip, most) = if side == Side::Left { (0, most) } else { (count.saturating_sub(most), u64::MAX) };
        let (mut popped, mut range) = (Vec::new(), 0..0);
        let mut elements = self.elements();
        elements.pass(skip)?;
        while let Some(element) = elements.next()? {
            if popped.is_empty() {
                range.start = element.at;
            }
            if popped.len() as u64 == most {
                break;
            }
            popped.push(element.name.to_vec());
            range.end = element.end;
        }
        if side == Side::Right {
            popped.reverse();
        }
        if !popped.is_empty() {
            self.splice(range, b"");
        }
        Ok(popped)
    }

    /// Replaces the item at a position; false: there is none.
    pub fn set_at(&mut self, position: u64, item: &[u8]) -> Result<bool> {
        let Some(range) = self.at(position)?.map(|element| element.range()) else { return Ok(false) };
        let new = self.element(item, b"");
        self.splice(range, &new);
        Ok(true)
    }

    /// Inserts an item before or behind the first one that equals `pivot`; false: there is none.
    pub fn insert(&mut self, pivot: &[u8], behind: bool, item: &[u8]) -> Result<bool> {
        let Some(range) = self.find(pivot)?.map(|element| element.range()) else { return Ok(false) };
        let (at, new) = (if behind { range.end } else { range.start }, self.element(item, b""));
        self.splice(at..at, &new);
        Ok(true)
    }

    /// Removes items equal to `item`, at most `most`: the first ones, or the last ones if `from_right`. Returns their number.
    pub fn remove_items(&mut self, item: &[u8], most: u64, from_right: bool) -> Result<u64> {
        let mut found: Vec<Range<usize>> = self.all()?.iter().filter(|element| element.name == item).map(Element::range).collect();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(found.len());
        if from_right {
            found.drain(..found.len() - most);
        } else {
            found.truncate(most);
        }
        // From the end, so that the items before stay in place.
        found.into_iter().rev().for_each(|range| self.splice(range, b""));
        Ok(most as u64)
    }

    /// Keeps the elements from a position up to another (excluded).
    pub fn trim(&mut self, from: u64, to: u64) -> Result<()> {
        let (mut position, mut kept) = (0, 0..0);
        let mut elements = self.elements();
        while let Some(element) = elements.next()? {
            if position == from {
                kept = element.at..element.at;
            }
            if position >= from && position < to {
                kept.end = element.end;
            }
            position += 1;
        }
        if kept.end < self.body.len() {
            self.splice(kept.end..self.body.len(), b"");
        }
        if kept.start > 0 {
            self.splice(0..kept.start, b"");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::delta::Deltas;
    use super::super::entry::FieldDeadlines;
    use super::*;
    use crate::testing::Random;
    use sinterdb::operator::MergeOperator;
    use std::ops::ControlFlow;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn pairs(inline: &Inline) -> Pairs {
        inline.all().unwrap().iter().map(|element| (element.name.to_vec(), element.value.to_vec())).collect()
    }

    fn place(model: &Pairs, name: &[u8]) -> Option<usize> {
        model.iter().position(|pair| pair.0 == name)
    }

    /// One random change of a hash, a set or a sorted set, and of its model.
    fn change(inline: &mut Inline, model: &mut Pairs, random: &mut Random) {
        let number = random.below(400) as i64 - 200;
        let name = if inline.is_ascending { number.to_string().into_bytes() } else { random.bytes(3, b"ab\0") };
        let (old, may_add) = (place(model, &name), random.below(10) > 0);
        if random.below(3) == 0 {
            assert_eq!(inline.remove(&name).unwrap(), old.is_some());
            old.into_iter().for_each(|at| drop(model.remove(at)));
        } else if inline.kind == Kind::SortedSet {
            let score = random.below(6) as u64;
            let was = inline.set_score(&name, score, may_add).unwrap();
            let old_score = old.map(|at| u64::from_be_bytes(*model[at].1.first_chunk().unwrap()));
            assert_eq!(was, (old.is_some() || may_add).then_some(old_score));
            old.into_iter().for_each(|at| drop(model.remove(at)));
            if was.is_some() {
                model.push((name, score.to_be_bytes().to_vec()));
                model.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
            }
        } else {
            let value = if inline.kind == Kind::Hash { random.bytes(200, b"xyz") } else { Vec::new() };
            let is_new = inline.set(&name, &value, may_add).unwrap();
            assert_eq!(is_new, (old.is_some() || may_add).then_some(old.is_none()));
            match old {
                Some(at) => model[at].1 = value,
                None if may_add => model.push((name, value)),
                None => {}
            }
            if inline.is_ascending {
                model.sort_by_key(|pair| parse(&pair.0));
            }
        }
    }

    fn parse(name: &[u8]) -> i64 {
        crate::number::parse_integer(name).unwrap()
    }

    /// One random change of a list and of its model.
    fn change_list(inline: &mut Inline, model: &mut Pairs, random: &mut Random) {
        let item = [vec![b'x'; random.below(2) * 30], random.bytes(1, b"ab")].concat();
        let at = random.below(model.len() + 1);
        let pair = (item.clone(), Vec::new());
        let behind = random.below(2) == 1;
        match random.below(9) {
            0 | 1 => {
                inline.push(Side::Right, &item);
                model.push(pair);
            }
            2 | 3 => {
                inline.push(Side::Left, &item);
                model.insert(0, pair);
            }
            4 => {
                let most = at.min(3);
                let (side, popped) = match behind {
                    true => (Side::Right, model.split_off(model.len() - most).into_iter().rev().collect::<Vec<_>>()),
                    false => (Side::Left, model.drain(..most).collect()),
                };
                let count = (model.len() + most) as u64;
                assert_eq!(inline.pop(side, most as u64, count).unwrap(), popped.into_iter().map(|pair| pair.0).collect::<Vec<_>>());
            }
            5 => {
                assert_eq!(inline.set_at(at as u64, &item).unwrap(), at < model.len());
                model.get_mut(at).into_iter().for_each(|old| old.0.clone_from(&item));
            }
            6 => {
                let pivot = place(model, b"a");
                assert_eq!(inline.insert(b"a", behind, &item).unwrap(), pivot.is_some());
                pivot.into_iter().for_each(|pivot| model.insert(pivot + usize::from(behind), pair.clone()));
            }
            7 => {
                let mut equal: Vec<usize> = (0..model.len()).filter(|n| model[*n].0 == item).collect();
                let most = at % 4;
                equal = if behind { equal.into_iter().rev().take(most).collect() } else { equal.into_iter().take(most).collect() };
                equal.sort_unstable();
                assert_eq!(inline.remove_items(&item, most as u64, behind).unwrap(), equal.len() as u64);
                equal.iter().rev().for_each(|n| drop(model.remove(*n)));
            }
            _ if random.below(4) == 0 => {
                let to = random.below(model.len() + 1);
                inline.trim(at as u64, to as u64).unwrap();
                *model = model.get(at..to).unwrap_or_default().to_vec();
            }
            _ => {}
        }
    }

    /// Checks that the splices turn the bytes that were read into the present ones.
    fn check_splices(inline: &Inline, before: &[u8]) {
        let head = |body: &[u8]| Head { form: Form::Inline, ..Head::collection(Kind::Hash, 0) }.encode(body);
        if let Some(splices) = inline.splices() {
            let step = super::super::delta::step(&head(b""), splices);
            assert_eq!(Deltas.full_merge(b"", Some(&head(before)), &[&step]).unwrap(), head(inline.body()));
        }
    }

    #[test]
    fn elements_do_what_vectors_do() {
        let all = [
            (Kind::Hash, Form::Inline),
            (Kind::Set, Form::Inline),
            (Kind::Set, Form::Integers),
            (Kind::SortedSet, Form::Inline),
            (Kind::List, Form::Inline),
        ];
        for (seed, (kind, form)) in (0..).zip(all) {
            let mut random = Random(seed);
            let (mut inline, mut model, mut kept) = (Inline::new(kind, form), Pairs::new(), 0);
            for round in 0..400 {
                let before = inline.body().to_vec();
                for _ in 0..random.below(5) {
                    let change = if kind == Kind::List { change_list } else { change };
                    change(&mut inline, &mut model, &mut random);
                }
                assert_eq!(pairs(&inline), model, "{kind:?} {form:?}, round {round}");
                assert!(inline.is_changed() || inline.body() == before);
                check_splices(&inline, &before);
                kept += u32::from(inline.is_changed() && inline.splices().is_some());
                inline = Inline::read(&Head { form, ..Head::collection(kind, 0) }, inline.body());
                let (from, to) = (random.below(model.len() + 1), random.below(model.len() + 2));
                for backward in [false, true] {
                    let mut walked = Vec::new();
                    let mut visit = |name: &[u8], value: &[u8]| {
                        walked.push((name.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    };
                    inline.walk_positions((from as u64, to as u64), backward, &mut visit).unwrap();
                    let mut some = model.get(from..to.min(model.len())).unwrap_or_default().to_vec();
                    if backward {
                        some.reverse();
                    }
                    assert_eq!(walked, some);
                }
                let at = inline.at(from as u64).unwrap();
                assert_eq!(at.map(|element| element.name), model.get(from).map(|pair| &pair.0[..]));
            }
            assert!(kept > 10, "{kind:?}: changes of {kept} rounds were kept");
        }
    }

    #[test]
    fn parts_of_sorted_sets_are_walked_as_redis_does() {
        let mut inline = Inline::new(Kind::SortedSet, Form::Inline);
        for (name, score) in [("one", 1), ("two", 2), ("three", 3), ("a", 4)] {
            inline.set_score(name.as_bytes(), score, true).unwrap();
        }
        let walk = |from: &str, to: &str, backward| {
            let mut walked = Vec::new();
            let mut visit = |name: &[u8], _: &[u8]| {
                walked.push(String::from_utf8(name.to_vec()).unwrap());
                ControlFlow::Continue(())
            };
            inline.walk_part(|_, name| name < from.as_bytes(), |_, name| name <= to.as_bytes(), (backward, 0), &mut visit).unwrap();
            walked.join(" ")
        };
        assert_eq!((walk("a", "z", false), walk("a", "z", true)), ("one two three a".into(), "a three two one".into()));
        assert_eq!((walk("b", "u", false), walk("b", "u", true)), ("".into(), "".into()), "the last one is before");
        assert_eq!((walk("a", "p", false), walk("a", "s", true)), ("one".into(), "a three two one".into()));
        assert_eq!(inline.position(b"three").unwrap(), Some(2));
        assert_eq!(inline.position(b"x").unwrap(), None);
    }

    #[test]
    fn integers_ascend() {
        let mut names: Vec<String> = [i64::MIN, -10, -9, -1, 0, 1, 9, 10, 11, 100, i64::MAX].map(|number| number.to_string()).into();
        let expected = names.clone();
        names.reverse();
        sort_integers(&mut names);
        assert_eq!(names, expected);
    }

    /// Any bytes are either read or reported as damaged.
    #[test]
    fn damage_is_noticed() {
        let mut random = Random(5);
        let mut wrong = 0;
        for round in 0..20_000 {
            let kind = [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List][round % 4];
            let fields = FieldDeadlines { count: (round / 4 % 2) as u64 * u64::from(kind == Kind::Hash), first: 1 };
            let head = Head { form: Form::Inline, fields, ..Head::collection(kind, 0) };
            let mut inline = Inline::read(&head, &random.bytes(40, b"\0\x01\x02\x09a\xff"));
            wrong += u32::from(inline.all().is_err());
            let name = random.bytes(3, b"\0a");
            for n in 0..3 {
                let _ = inline.find(&name).and(inline.at(n).map(drop)).and(inline.position(&name).map(drop));
                let _ = match kind {
                    Kind::SortedSet => inline.set_score(&name, n, true).map(drop),
                    Kind::List => {
                        inline.pop(Side::Right, n, 3).map(drop).and(inline.trim(n, 2)).and(inline.remove_items(&name, 1, true).map(drop))
                    }
                    Kind::Hash if n == 1 => inline.set_deadline(&name, 9, false).map(drop).and(inline.remove_due(5, 2).map(drop)),
                    _ => inline.set(&name, b"", true).map(drop).and(inline.remove(&name).map(drop)),
                };
            }
        }
        assert!(wrong > 1000, "{wrong} of 20000 were damaged");
    }
}
