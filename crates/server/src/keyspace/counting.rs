//! Positions in a range of elements whose number is known, counted from the nearer end.
//!
//! Positions cannot be stored without rewriting them for every element behind a change. So they are counted, from both ends in turns or
//! from the end that is known to be nearer. Where that would take long and happens often, `ranks` knows positions in between.

use super::Keyspace;
use super::error::Result;
use super::layout::{Bounds, Direction, FamilyKind};
use std::ops::ControlFlow;

/// Elements that are counted from one end before the other end is tried.
pub(super) const STRIDE: u64 = if cfg!(test) { 16 } else { 512 };

impl Keyspace {
    /// Counts up to `most` elements, at least one, and removes them from the bounds.
    pub(super) fn pass(&self, bounds: &mut Bounds, direction: Direction, most: u64) -> Result<u64> {
        let (mut passed, mut last) = (0, Vec::new());
        self.turn.walk(FamilyKind::Elements, bounds, direction, &mut |place, _| {
            passed += 1;
            if passed < most {
                return ControlFlow::Continue(());
            }
            last = place.to_vec();
            ControlFlow::Break(())
        })?;
        if passed == most {
            match direction {
                Direction::Forward => bounds.0 = [&last[..], b"\0"].concat(),
                Direction::Backward => bounds.1 = last,
            }
        }
        Ok(passed)
    }

    /// Number of elements of `whole`, which has `total`, that come before an engine key.
    pub(super) fn count_before(&self, whole: &Bounds, place: &[u8], total: u64) -> Result<u64> {
        let mut before = (whole.0.clone(), place.to_vec());
        let mut behind = (place.to_vec(), whole.1.clone());
        // From both ends in turns, until one of them gets there.
        let (mut low, mut high) = (0, 0);
        loop {
            let passed = self.pass(&mut before, Direction::Forward, STRIDE)?;
            low += passed;
            if passed < STRIDE {
                return Ok(low);
            }
            let passed = self.pass(&mut behind, Direction::Backward, STRIDE)?;
            high += passed;
            if passed < STRIDE {
                return Ok(total.saturating_sub(high));
            }
        }
    }

    /// Like `count_before`, but gives up unless the key is within [`STRIDE`] elements of one of the ends.
    pub(super) fn count_near(&self, whole: &Bounds, place: &[u8], total: u64) -> Result<Option<u64>> {
        let low = self.pass(&mut (whole.0.clone(), place.to_vec()), Direction::Forward, STRIDE)?;
        if low < STRIDE {
            return Ok(Some(low));
        }
        let high = self.pass(&mut (place.to_vec(), whole.1.clone()), Direction::Backward, STRIDE)?;
        Ok((high < STRIDE).then(|| total.saturating_sub(high)))
    }

    /// Engine key of the element at a position in `whole`, which has `total` elements.
    pub(super) fn place_at(&self, whole: &Bounds, position: u64, total: u64) -> Result<Option<Vec<u8>>> {
        let Some(from_end) = total.checked_sub(1).and_then(|last| last.checked_sub(position)) else { return Ok(None) };
        let (direction, skip) = if position <= from_end { (Direction::Forward, position) } else { (Direction::Backward, from_end) };
        let (mut passed, mut found) = (0, None);
        self.turn.walk(FamilyKind::Elements, whole, direction, &mut |place, _| {
            if passed < skip {
                passed += 1;
                return ControlFlow::Continue(());
            }
            found = Some(place.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Engine keys of the first elements within bounds, at most `most`.
    pub(super) fn places(&self, bounds: &Bounds, most: u64) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        self.turn.walk(FamilyKind::Elements, bounds, Direction::Forward, &mut |place, _| {
            found.push(place.to_vec());
            if found.len() as u64 == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(found)
    }
}
