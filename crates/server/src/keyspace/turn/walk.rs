//! Walks over the keys that a turn sees, those of the engine and those that the turn has written. Walks over the elements of a collection
//! leave out ranges that are known to hold nothing, and note those that they find ([`DeadRanges`](super::super::dead_ranges::DeadRanges)).

use super::super::dead_ranges::{self, NOTED};
use super::super::error::Result;
use super::super::layout::{self, Bounds, Direction, FamilyKind};
use super::super::written::{PrefixedKey, Written};
use super::{FamilyWrites, Turn, covers};
use sinterdb::{DbIterator, ReadOptions};
use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::ControlFlow;

/// Callback of a walk, called for each key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// How a walk over a part of its bounds ended.
#[derive(Debug, PartialEq, Eq)]
enum PartEnd {
    /// All keys were shown.
    Whole,
    /// The callback broke.
    Broken,
    /// The walk ran out of patience at this dead key.
    Stopped(Vec<u8>),
}

impl PartEnd {
    fn stopped(self) -> Option<Vec<u8>> {
        if let PartEnd::Stopped(key) = self { Some(key) } else { None }
    }
}

impl Turn {
    /// Shows `visit` the keys within `bounds` in order, until it breaks.
    pub fn walk(&self, family: FamilyKind, bounds: &Bounds, direction: Direction, visit: &mut Visit) -> Result<()> {
        self.walk_some(family, bounds, direction, usize::MAX, visit).map(drop)
    }

    /// Like [`Turn::walk`], but a forward walk passes over at most `patience` dead keys of the engine in a part of the bounds between
    /// ranges that are known to hold nothing, and returns the key at which it stopped.
    pub fn walk_some(
        &self,
        family: FamilyKind,
        bounds: &Bounds,
        direction: Direction,
        patience: usize,
        visit: &mut Visit,
    ) -> Result<Option<Vec<u8>>> {
        if bounds.0 >= bounds.1 {
            return Ok(None);
        }
        if family == FamilyKind::Keys || self.dead.borrow().is_empty() {
            return Ok(self.walk_part(family, (bounds, false), direction, patience, visit)?.stopped());
        }
        let mut rest = bounds.clone();
        loop {
            let next = self.dead.borrow().next_part(&mut rest, direction);
            let Some(part) = next else { return Ok(None) };
            let end = self.walk_part(family, (&part.bounds, part.is_beside_dead), direction, patience, visit)?;
            if end != PartEnd::Whole {
                return Ok(end.stopped());
            }
        }
    }

    /// Walks over bounds; the flag says whether a range that is known to hold nothing lies beside them.
    fn walk_part(
        &self,
        family: FamilyKind,
        (bounds, is_beside_dead): (&Bounds, bool),
        direction: Direction,
        patience: usize,
        visit: &mut Visit,
    ) -> Result<PartEnd> {
        let writes = self.writes(family);
        let range = writes.written.order().range(PrefixedKey::new(bounds.0.as_slice())..PrefixedKey::new(bounds.1.as_slice()));
        let mut written = Peek { written: &writes.written, range, direction };
        let mut fresh = written.next();
        let mut stored = self.stored(writes, bounds, direction, patience)?;
        // Another keyspace on the engine may write between collections.
        let notes = family == FamilyKind::Elements && layout::is_of_one_collection(bounds);
        let mut row = DeadRow { bounds, is_beside_dead, direction, last: None, passed: 0, removed: 0, before: 0 };
        let note = |range: Option<Bounds>| {
            range.filter(|_| notes).into_iter().for_each(|range| self.dead.borrow_mut().note(range));
        };
        loop {
            let is_valid = stored.as_ref().is_some_and(DbIterator::valid);
            row.passed = stored.as_ref().map_or(0, DbIterator::passed);
            if !is_valid
                && let Some(stop) = stored.as_ref().and_then(DbIterator::stopped_at)
                && fresh.as_ref().is_none_or(|(key, _)| stop <= *key)
            {
                note(row.before(stop));
                return Ok(PartEnd::Stopped(stop.to_vec()));
            }
            let order = match (stored.as_ref().filter(|_| is_valid), &fresh) {
                (None, None) => {
                    note(row.end());
                    return Ok(PartEnd::Whole);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(stored), Some((key, _))) => direction.order(stored.key(), key),
            };
            let live = match (&stored, &fresh) {
                (Some(stored), _) if order == Ordering::Less => {
                    Some((stored.key(), stored.value())).filter(|(key, _)| !writes.is_cleared(key))
                }
                (_, Some((key, value))) => value.map(|value| (*key, value)),
                _ => None,
            };
            match live {
                None => row.removed += 1,
                Some((key, value)) => {
                    note(row.before(key));
                    if visit(key, value).is_break() {
                        return Ok(PartEnd::Broken);
                    }
                    row.begin(key);
                }
            }
            if order != Ordering::Greater
                && let Some(stored) = &mut stored
            {
                direction.step(stored)?;
            }
            if order != Ordering::Less {
                fresh = written.next();
            }
        }
    }

    /// The engine's part of a walk, at its start; `None`: the turn has removed the whole range.
    fn stored(&self, writes: &FamilyWrites, bounds: &Bounds, direction: Direction, patience: usize) -> Result<Option<DbIterator>> {
        if writes.cleared.iter().any(|cleared| covers(cleared, bounds)) {
            return Ok(None);
        }
        let options = ReadOptions { lower: Some(bounds.0.clone()), upper: Some(bounds.1.clone()), patience, ..self.read.clone() };
        let mut stored = self.db().iter_with(&writes.family, options)?;
        match direction {
            Direction::Forward => stored.seek_first()?,
            Direction::Backward => stored.seek_last()?,
        }
        Ok(Some(stored))
    }
}

impl Direction {
    /// The order in which a walk meets two keys.
    fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }

    fn step(self, iterator: &mut DbIterator) -> Result<()> {
        match self {
            Direction::Forward => iterator.advance()?,
            Direction::Backward => iterator.retreat()?,
        }
        Ok(())
    }
}

/// The row of dead keys that a walk passes over at the moment: keys that are removed in the engine, or by the turn.
struct DeadRow<'a> {
    /// Bounds of the walk.
    bounds: &'a Bounds,
    /// A range that is known to hold nothing lies beside them.
    is_beside_dead: bool,
    direction: Direction,
    /// The live key before the row, in the direction of the walk; `None`: the row begins the walk.
    last: Option<Vec<u8>>,
    /// Dead keys that the engine's iterator has passed over, and those that the turn has removed, since the walk began.
    passed: u64,
    removed: u64,
    /// Sum of both when the row began.
    before: u64,
}

impl DeadRow<'_> {
    /// A row begins behind a live key.
    fn begin(&mut self, key: &[u8]) {
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.before = self.passed + self.removed;
    }

    /// The range of the row that ends at a key, if the row is worth noting.
    fn before(&self, key: &[u8]) -> Option<Bounds> {
        (self.passed + self.removed - self.before >= NOTED).then(|| match self.direction {
            Direction::Forward => (self.start(), key.to_vec()),
            Direction::Backward => (dead_ranges::successor(key), self.start()),
        })
    }

    /// The range of the row that ends the walk. Between ranges without keys any row is worth noting: they become one.
    fn end(&self) -> Option<Bounds> {
        let joins = self.is_beside_dead && self.last.is_none();
        (joins || self.passed + self.removed - self.before >= NOTED).then(|| match self.direction {
            Direction::Forward => (self.start(), self.bounds.1.clone()),
            Direction::Backward => (self.bounds.0.clone(), self.start()),
        })
    }

    /// The end of the row at which the walk came to it.
    fn start(&self) -> Vec<u8> {
        match (&self.last, self.direction) {
            (Some(last), Direction::Forward) => dead_ranges::successor(last),
            (Some(last), Direction::Backward) => last.clone(),
            (None, Direction::Forward) => self.bounds.0.clone(),
            (None, Direction::Backward) => self.bounds.1.clone(),
        }
    }
}

/// Written keys in the order of a walk.
struct Peek<'a> {
    written: &'a Written,
    range: btree_map::Range<'a, PrefixedKey<'a>, usize>,
    direction: Direction,
}

impl<'a> Peek<'a> {
    fn next(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let next = match self.direction {
            Direction::Forward => self.range.next(),
            Direction::Backward => self.range.next_back(),
        };
        next.map(|(key, number)| (key.bytes.as_ref(), self.written.value(*number).flatten()))
    }
}

#[cfg(test)]
impl Turn {
    /// Asserts that ranges that are known to hold nothing hold nothing; returns them.
    pub fn check_dead(&self, what: &str) -> Vec<Bounds> {
        let ranges = self.dead.borrow().all();
        for range in &ranges {
            self.walk_part(FamilyKind::Elements, (range, false), Direction::Forward, usize::MAX, &mut |key, _| panic!("{what}: {key:?}"))
                .unwrap();
        }
        ranges
    }
}
