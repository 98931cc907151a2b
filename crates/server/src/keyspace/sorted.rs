//! Sorted sets: each member is stored twice, once by name with its score, once in the order of scores and names.
//!
//! Scores and names are found by a search, ranks by counting: near an end from there (`counting`), elsewhere from the nearest place with a
//! known rank (`ranks`).

use super::collection::Collection;
use super::counting::STRIDE;
use super::entry::{Head, Kind};
use super::error::{Error, Result};
use super::layout::{self, Bounds, Direction, FamilyKind, score_of, score_order};
use super::ranks::{Order, PIECE};
use super::sizes::SCORE_BYTES;
use super::{Edit, Keyspace};
use std::ops::ControlFlow;

/// Value of a member with the score -0 in the order of scores; other members have an empty value.
const NEGATIVE_ZERO: &[u8] = b"-";

/// One end of a range of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    /// The score; not NaN.
    pub score: f64,
    /// The range excludes the score.
    pub is_open: bool,
}

/// One end of a range of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LexBound {
    /// Before all names.
    Lowest,
    /// Behind all names.
    Highest,
    /// A name that the range includes.
    Closed(Vec<u8>),
    /// A name that the range excludes.
    Open(Vec<u8>),
}

/// Callback of a walk over a sorted set, called for each member and its score.
type VisitScored<'a> = dyn FnMut(&[u8], f64) -> ControlFlow<()> + 'a;

/// The score that stands beside a member of a sorted set where members are scanned.
pub fn decode_score(bytes: &[u8]) -> Result<f64> {
    bytes.try_into().map(|bytes| score_of(u64::from_be_bytes(bytes))).map_err(|_| Error::Damaged("a score"))
}

/// The lowest score in a range and the first one above the range, as [`score_order`] has them.
fn score_span((min, max): (ScoreBound, ScoreBound)) -> (u64, u64) {
    (score_order(min.score) + u64::from(min.is_open), score_order(max.score) + u64::from(!max.is_open))
}

/// Callback for elements of an entry that calls `visit` with each member and its score.
fn scored(visit: &mut VisitScored) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    move |member, score| match score.first_chunk() {
        Some(bytes) => visit(member, score_of(u64::from_be_bytes(*bytes))),
        None => ControlFlow::Continue(()),
    }
}

/// Callback that counts its calls.
fn counter(count: &mut u64) -> impl FnMut(&[u8], f64) -> ControlFlow<()> {
    move |_, _| {
        *count += 1;
        ControlFlow::Continue(())
    }
}

fn direction(backward: bool) -> Direction {
    if backward { Direction::Backward } else { Direction::Forward }
}

impl LexBound {
    /// First engine key in a range that starts at this bound, or behind a range that ends at it.
    fn place(&self, head: &Head, order: u64, is_start: bool) -> Vec<u8> {
        let key = |name: &[u8], more: bool| {
            let mut key = layout::score_key(head.id, order, name);
            if more {
                key.push(0);
            }
            key
        };
        match self {
            LexBound::Lowest => key(b"", false),
            LexBound::Highest => layout::score_key(head.id, order + 1, b""),
            LexBound::Closed(name) => key(name, !is_start),
            LexBound::Open(name) => key(name, is_start),
        }
    }

    /// Whether a range that starts at this bound may include the name.
    fn lets_start(&self, name: &[u8]) -> bool {
        match self {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Closed(first) => name >= first.as_slice(),
            LexBound::Open(before) => name > before.as_slice(),
        }
    }

    /// Whether a range that ends at this bound may include the name.
    fn lets_end(&self, name: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Closed(last) => name <= last.as_slice(),
            LexBound::Open(behind) => name < behind.as_slice(),
        }
    }
}

/// Location of the members of a range of names.
enum LexPlace {
    Nowhere,
    /// All members have one score: exactly those between these engine keys.
    Between(Bounds),
    /// Names are in no order, as scores differ.
    Scattered,
}

impl Keyspace {
    /// The score of a member.
    pub fn score(&self, head: &Collection, member: &[u8]) -> Result<Option<f64>> {
        self.member(head, member)?.map(|bytes| decode_score(&bytes)).transpose()
    }

    /// Adds a member, or changes its score, which must not be NaN. Returns the old score.
    pub fn set_score(&mut self, edit: &mut Edit, member: &[u8], score: f64) -> Result<Option<f64>> {
        layout::check_member(member)?;
        if let Some(old) = self.put_score_inline(edit, member, score_order(score))? {
            return Ok(old.map(score_of));
        }
        let old = self.score(&edit.head, member)?;
        // The sign of a zero stays that of the old score.
        if old != Some(score) {
            self.set_order(edit, member, score, old);
        }
        Ok(old)
    }

    /// Writes a member of a set that is not inline; `old` is its old score.
    pub(super) fn set_order(&mut self, edit: &mut Edit, member: &[u8], score: f64, old: Option<f64>) {
        if let Some(old) = old {
            self.delete_order(edit.head.id, score_order(old), member);
        }
        let (order, number) = (score_order(score), layout::score_number(score));
        self.set_member(edit, member, &number.to_be_bytes(), old.map(|_| SCORE_BYTES));
        let sign = if number == order { Vec::new() } else { NEGATIVE_ZERO.to_vec() };
        self.turn.put(FamilyKind::Elements, layout::score_key(edit.head.id, order, member), sign);
        self.ranks.added(edit.head.id, Order::Scores, (order, member));
    }

    /// Removes a member and returns its score.
    pub fn remove_scored(&mut self, edit: &mut Edit, member: &[u8]) -> Result<Option<f64>> {
        let old = self.score(&edit.head, member)?;
        if edit.head.inline.is_some() {
            self.remove_member(edit, member)?;
        } else if let Some(old) = old {
            self.delete_order(edit.head.id, score_order(old), member);
            self.delete_member(edit, member, SCORE_BYTES);
        }
        Ok(old)
    }

    fn delete_order(&mut self, id: u64, order: u64, member: &[u8]) {
        self.turn.delete(FamilyKind::Elements, layout::score_key(id, order, member));
        self.ranks.removed(id, Order::Scores, (order, member));
    }

    pub(super) fn walk_order(&self, bounds: &Bounds, direction: Direction, visit: &mut VisitScored) -> Result<()> {
        self.turn.walk(FamilyKind::Elements, bounds, direction, &mut |place, sign| match layout::split_score_key(place) {
            Some((order, member)) => visit(member, if sign.is_empty() { score_of(order) } else { -0.0 }),
            None => ControlFlow::Continue(()),
        })
    }

    /// Engine keys of the members whose score is in a range.
    fn score_bounds(head: &Head, (min, max): (ScoreBound, ScoreBound)) -> Bounds {
        let (from, to) = score_span((min, max));
        (layout::score_key(head.id, from, b""), layout::score_key(head.id, to, b""))
    }

    /// The first or the last member and its score.
    fn end(&self, head: &Head, direction: Direction) -> Result<Option<(Vec<u8>, f64)>> {
        let mut found = None;
        self.walk_order(&layout::scores(head.id), direction, &mut |member, score| {
            found = Some((member.to_vec(), score));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Location of the members of a range of names. Like in Redis, a range that starts behind the last member or ends before the first is
    /// empty, whatever lies between.
    fn lex_place(&self, head: &Head, (min, max): (&LexBound, &LexBound)) -> Result<LexPlace> {
        let ends = (self.end(head, Direction::Forward)?, self.end(head, Direction::Backward)?);
        let (Some((first, low)), Some((last, high))) = ends else { return Ok(LexPlace::Nowhere) };
        if !max.lets_end(&first) || !min.lets_start(&last) {
            return Ok(LexPlace::Nowhere);
        }
        let (low, high) = (score_order(low), score_order(high));
        Ok(if low == high { LexPlace::Between((min.place(head, low, true), max.place(head, high, false))) } else { LexPlace::Scattered })
    }

    /// Shows `visit` the members whose score is in a range, in order or backwards, until it breaks.
    pub fn walk_scores(&self, head: &Collection, range: (ScoreBound, ScoreBound), backward: bool, visit: &mut VisitScored) -> Result<()> {
        if let Some(inline) = &head.inline {
            let (from, to) = score_span(range);
            return inline.walk_part(|order, _| order < from, |order, _| order < to, (backward, 0), &mut scored(visit));
        }
        self.walk_order(&Self::score_bounds(head, range), direction(backward), visit)
    }

    /// Shows `visit` the members in a range of names, in order or backwards, until it breaks. The range goes by the order of scores: from
    /// the first member that is not below the minimum to the first that is above the maximum. The first `skip` members are passed over
    /// without a look at their names.
    pub fn walk_lex(
        &self,
        head: &Collection,
        range: (&LexBound, &LexBound),
        backward: bool,
        mut skip: u64,
        visit: &mut VisitScored,
    ) -> Result<()> {
        if let Some(inline) = &head.inline {
            let (min, max) = range;
            return inline.walk_part(|_, name| !min.lets_start(name), |_, name| max.lets_end(name), (backward, skip), &mut scored(visit));
        }
        let (bounds, mut is_inside) = match self.lex_place(head, range)? {
            LexPlace::Nowhere => return Ok(()),
            LexPlace::Between(bounds) => (bounds, true),
            LexPlace::Scattered => (layout::scores(head.id), false),
        };
        let is_ordered = is_inside;
        let starts = |name: &[u8]| if backward { range.1.lets_end(name) } else { range.0.lets_start(name) };
        let goes_on = |name: &[u8]| is_ordered || if backward { range.0.lets_start(name) } else { range.1.lets_end(name) };
        self.walk_order(&bounds, direction(backward), &mut |member, score| {
            if !is_inside {
                if !starts(member) {
                    return ControlFlow::Continue(());
                }
                if !goes_on(member) {
                    return ControlFlow::Break(());
                }
                is_inside = true;
            }
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            if goes_on(member) { visit(member, score) } else { ControlFlow::Break(()) }
        })
    }

    /// Number of members with a score in a range.
    pub fn count_scores(&mut self, head: &Collection, range: (ScoreBound, ScoreBound)) -> Result<u64> {
        if head.inline.is_some() {
            let mut count = 0;
            self.walk_scores(head, range, false, &mut counter(&mut count))?;
            return Ok(count);
        }
        self.count_within(head, &Self::score_bounds(head, range))
    }

    /// Number of members in a range of names, as [`Keyspace::walk_lex`] shows them.
    pub fn count_lex(&mut self, head: &Collection, range: (&LexBound, &LexBound)) -> Result<u64> {
        if head.inline.is_none()
            && let LexPlace::Between(bounds) = self.lex_place(head, range)?
        {
            return self.count_within(head, &bounds);
        }
        let mut count = 0;
        self.walk_lex(head, range, false, 0, &mut counter(&mut count))?;
        Ok(count)
    }

    fn count_within(&mut self, head: &Head, bounds: &Bounds) -> Result<u64> {
        let few = self.few(head);
        let counted = self.pass(&mut bounds.clone(), Direction::Forward, few)?;
        if counted < few {
            return Ok(counted);
        }
        Ok(self.members_before(head, &bounds.1)?.saturating_sub(self.members_before(head, &bounds.0)?))
    }

    /// Shows `visit` the members from a rank up to another (excluded), counted from the lowest score, in order or backwards.
    pub fn walk_ranks(&mut self, head: &Collection, ranks: (u64, u64), backward: bool, visit: &mut VisitScored) -> Result<()> {
        let (from, to) = (ranks.0, ranks.1.min(head.count));
        if from >= to {
            return Ok(());
        }
        if let Some(inline) = &head.inline {
            return inline.walk_positions((from, to), backward, &mut scored(visit));
        }
        let (bounds, mut skip) = self.walk_from(head, if backward { to - 1 } else { from }, backward)?;
        let mut left = to - from;
        self.walk_order(&bounds, direction(backward), &mut |member, score| {
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            left -= 1;
            let flow = visit(member, score);
            if left == 0 { ControlFlow::Break(()) } else { flow }
        })
    }

    /// Engine keys to walk over to begin at a rank, and the number of members to pass over first.
    fn walk_from(&mut self, head: &Head, rank: u64, backward: bool) -> Result<(Bounds, u64)> {
        let whole = layout::scores(head.id);
        let behind = (head.count - 1).saturating_sub(rank);
        let (skip, rest) = if backward { (behind, rank) } else { (rank, behind) };
        let few = self.few(head);
        if skip < few {
            return Ok((whole, skip));
        }
        let (part, skip) = if rest < few {
            let Some(place) = self.place_at(&whole, rank, head.count)? else { return Ok((Bounds::default(), 0)) };
            let next = [&place[..], b"\0"].concat();
            ((place, next), 0)
        } else {
            let found = self.piece(head, Order::Scores, |outline| outline.at(rank))?;
            let before = rank.saturating_sub(found.before);
            (found.bounds, if backward { found.members.saturating_sub(before + 1) } else { before })
        };
        Ok((if backward { (whole.0, part.1) } else { (part.0, whole.1) }, skip))
    }

    /// Rank of a member, and its score.
    pub fn rank(&mut self, head: &Collection, member: &[u8]) -> Result<Option<(u64, f64)>> {
        let Some(score) = self.score(head, member)? else { return Ok(None) };
        if let Some(inline) = &head.inline {
            return Ok(inline.position(member)?.map(|rank| (rank, score)));
        }
        let place = layout::score_key(head.id, score_order(score), member);
        Ok(Some((self.members_before(head, &place)?, score)))
    }

    /// Number of members before an engine key.
    fn members_before(&mut self, head: &Head, place: &[u8]) -> Result<u64> {
        if !self.ranks.has(head.id, Order::Scores)
            && let Some(near) = self.count_near(&layout::scores(head.id), place, head.count)?
        {
            return Ok(near);
        }
        let place_of = layout::split_score_key(place).ok_or(Error::Damaged("a place in a sorted set"))?;
        let found = self.piece(head, Order::Scores, |outline| outline.around(place_of))?;
        let mut part = (found.bounds.0, place.to_vec());
        Ok(found.before + self.pass(&mut part, Direction::Forward, u64::MAX)?)
    }

    /// Number of members up to which counting is preferred to an outline: larger while there is no outline, so that clients that only ask
    /// for members at an end never need one.
    fn few(&self, head: &Head) -> u64 {
        if self.ranks.has(head.id, Order::Scores) { PIECE } else { STRIDE }
    }

    /// The score of a member of a sorted set, or 1 for a member of a set.
    pub fn score_or_set(&self, head: &Collection, member: &[u8]) -> Result<Option<f64>> {
        match head.kind {
            Kind::Set => Ok(self.has_member(head, member)?.then_some(1.0)),
            Kind::SortedSet => self.score(head, member),
            _ => Err(Error::WrongType),
        }
    }

    /// Shows `visit` the members of a set or a sorted set with their scores; members of a set have the score 1.
    pub fn walk_scored_or_set(&self, head: &Collection, visit: &mut VisitScored) -> Result<()> {
        match head.kind {
            Kind::Set => self.walk_members(head, &mut |member, _| visit(member, 1.0)),
            Kind::SortedSet if head.inline.is_some() => self.walk_members(head, &mut scored(visit)),
            Kind::SortedSet => self.walk_order(&layout::scores(head.id), Direction::Forward, visit),
            _ => Err(Error::WrongType),
        }
    }
}
