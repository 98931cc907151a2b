//! Walks over keys and members in steps, between which anything may happen, and random keys.
//!
//! Keys and members are ordered by their hashes. A cursor is the upper 53 bits of a hash, as many as a double holds: some clients read
//! cursors as doubles. All elements that share these bits are shown in one step, so a step begins where the last one ended, and an element
//! that exists from the first step to the last is shown once, whatever is added and removed around it.
//!
//! Removed elements stay in the engine until a compaction. A step passes over some of them and then ends, with few elements or none.

use super::collection::Collection;
use super::entry::Head;
use super::error::Result;
use super::layout::{self, Bounds, Direction, FamilyKind};
use super::{Keyspace, turn};
use std::ops::ControlFlow;

/// Bits of a hash that are not in a cursor.
const REST: u32 = layout::HASH_MAX.count_ones() - 53;
/// Dead entries that a step passes over for each requested element, and the number that is always allowed.
const DEAD_EACH: usize = 10;
pub(super) const DEAD_MIN: usize = if cfg!(test) { 10 } else { 1000 };
/// Number of entries behind a random hash among which one is picked, to even out the different sizes of gaps between hashes.
const PICK_AMONG: u64 = 16;
/// Number of random hashes at which a key is looked for, the last time for as long as it takes.
const LOOKS: u32 = 100;

/// Finds the hash and the name in an engine key.
type Split = fn(&[u8]) -> Option<(u64, &[u8])>;

/// One sort of entries, described for a step of a scan.
struct Sort<F: Fn(u64) -> Bounds> {
    family: FamilyKind,
    /// Engine keys of all entries from a hash on.
    from: F,
    split: Split,
}

impl Keyspace {
    /// Shows `visit` about `count` keys of a database from `cursor` on, and returns the cursor for the next call; 0 is the start and the
    /// end. A key that exists from the first call to the last is shown once.
    pub fn scan(&mut self, db: usize, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &Head)) -> Result<u64> {
        self.need_all();
        let place = self.counters.places.of(db);
        let keys = Sort { family: FamilyKind::Keys, from: |hash| layout::entries(place, hash), split: layout::split_entry_key };
        let mut damage = Ok(());
        let next = self.step(&keys, cursor, count, &mut |key, value| match Head::decode(value) {
            Ok((head, _)) => {
                if !self.has_ended(&head) {
                    visit(key, &head);
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                damage = Err(error);
                ControlFlow::Break(())
            }
        })?;
        damage.map(|()| next)
    }

    /// Shows `visit` about `count` members from `cursor` on, and returns the cursor for the next call, like [`Keyspace::scan`]; an inline
    /// collection is shown all at once.
    pub fn scan_members(&self, head: &Collection, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        if let Some(inline) = &head.inline {
            inline.walk(&mut |member, value| {
                visit(member, value);
                ControlFlow::Continue(())
            })?;
            return Ok(0);
        }
        let members = Sort { family: FamilyKind::Elements, from: |hash| layout::members(head.id, hash), split: layout::split_member_key };
        let mut damage = Ok(());
        let next = self.step(&members, cursor, count, &mut |member, value| {
            match self.is_hidden(head, member) {
                Ok(true) => {}
                Ok(false) => visit(member, value),
                Err(error) => {
                    damage = Err(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        damage.map(|()| next)
    }

    fn step(&self, sort: &Sort<impl Fn(u64) -> Bounds>, cursor: u64, count: usize, visit: &mut turn::Visit) -> Result<u64> {
        let (mut from, to) = (sort.from)(cursor.saturating_mul(1 << REST));
        let patience = count.saturating_mul(DEAD_EACH).max(DEAD_MIN);
        // `last` is the cursor of the element shown last.
        let (mut seen, mut last, mut next) = (0, cursor, 0);
        loop {
            let stop = self.turn.walk_some(sort.family, &(from, to.clone()), Direction::Forward, patience, &mut |place, value| {
                let Some((hash, name)) = (sort.split)(place) else { return ControlFlow::Continue(()) };
                let at = hash >> REST;
                if seen >= count && at != last {
                    next = at;
                    return ControlFlow::Break(());
                }
                seen += 1;
                last = at;
                visit(name, value)
            })?;
            let Some(place) = stop else { return Ok(next) };
            match (sort.split)(&place).map(|(hash, _)| hash >> REST).filter(|at| *at > last) {
                Some(at) => return Ok(at),
                // A cursor for this position would show elements of this step again.
                None => from = place,
            }
        }
    }

    /// A random key of a database; `None` if it is empty, or if all looks found only keys whose deadline has passed.
    pub fn random_key(&mut self, db: usize) -> Result<Option<Vec<u8>>> {
        for look in 1..=LOOKS {
            if self.size(db) == 0 {
                return Ok(None);
            }
            let patience = if look < LOOKS { DEAD_MIN } else { usize::MAX };
            let mut left = 1 + self.random_below(PICK_AMONG.min(self.size(db)));
            let mut found = None;
            // Behind the last key comes the first.
            for from in [self.random() & layout::HASH_MAX, 0] {
                let bounds = layout::entries(self.counters.places.of(db), from);
                let stop = self.turn.walk_some(FamilyKind::Keys, &bounds, Direction::Forward, patience, &mut |place, _| {
                    found = layout::split_entry_key(place).map(|(_, key)| key.to_vec());
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                if left == 0 || stop.is_some() {
                    break;
                }
            }
            if let Some(key) = found
                && self.find(db, &key)?.is_some()
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}
