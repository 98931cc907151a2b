//! Sorted sets: each member twice, once by its name with its score, once in the order of scores and names.
//!
//! Scores and names are found by a search. A rank is found by counting from the nearer end (`counting`), so `ZRANK` and a range by rank
//! cost as much as the members up to there.

use super::entry::{Head, Kind};
use super::error::{Error, Result};
use super::layout::{self, Room, score_of, score_order};
use super::turn::Direction;
use super::{Edit, Keyspace};
use std::ops::ControlFlow;

/// One end of a range of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    /// The score; not NaN.
    pub score: f64,
    /// The score itself is outside.
    pub is_open: bool,
}

/// One end of a range of names among members of the same score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LexBound {
    /// Before all names.
    Lowest,
    /// Behind all names.
    Highest,
    /// This name, which is inside.
    Closed(Vec<u8>),
    /// This name, which is outside.
    Open(Vec<u8>),
}

/// What a walk over a sorted set calls for each member and its score.
type VisitScored<'a> = dyn FnMut(&[u8], f64) -> ControlFlow<()> + 'a;

/// The score that stands beside a member of a sorted set where members are scanned.
pub fn decode_score(bytes: &[u8]) -> Result<f64> {
    bytes.try_into().map(|bytes| score_of(u64::from_be_bytes(bytes))).map_err(|_| Error::Damaged("a score"))
}

fn direction(backward: bool) -> Direction {
    if backward { Direction::Backward } else { Direction::Forward }
}

impl LexBound {
    /// The first engine key inside a range that starts here, or behind one that ends here.
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
}

impl Keyspace {
    /// The score of a member.
    pub fn score(&self, head: &Head, member: &[u8]) -> Result<Option<f64>> {
        self.member(head, member)?.map(|bytes| decode_score(&bytes)).transpose()
    }

    /// Adds a member, or gives it another score; not NaN. Gives the score that it had.
    pub fn set_score(&mut self, edit: &mut Edit, member: &[u8], score: f64) -> Result<Option<f64>> {
        let old = self.score(&edit.head, member)?;
        let order = score_order(score);
        if let Some(old) = old {
            if score_order(old) == order {
                return Ok(Some(old));
            }
            self.turn.delete(Room::Elements, layout::score_key(edit.head.id, score_order(old), member));
        }
        self.set_member(edit, member, &order.to_be_bytes(), old.is_none());
        self.turn.put(Room::Elements, layout::score_key(edit.head.id, order, member), Vec::new());
        Ok(old)
    }

    /// Removes a member; gives the score that it had.
    pub fn remove_scored(&mut self, edit: &mut Edit, member: &[u8]) -> Result<Option<f64>> {
        let old = self.score(&edit.head, member)?;
        if let Some(old) = old {
            self.turn.delete(Room::Elements, layout::score_key(edit.head.id, score_order(old), member));
            self.delete_member(edit, member);
        }
        Ok(old)
    }

    fn walk_order(&self, bounds: &layout::Bounds, direction: Direction, visit: &mut VisitScored) -> Result<()> {
        self.turn.walk(Room::Elements, bounds, direction, &mut |place, _| match layout::split_score_key(place) {
            Some((order, member)) => visit(member, score_of(order)),
            None => ControlFlow::Continue(()),
        })
    }

    /// Shows `visit` the members whose score is in a range, in order or backwards, until it breaks.
    pub fn walk_scores(&self, head: &Head, range: (ScoreBound, ScoreBound), backward: bool, visit: &mut VisitScored) -> Result<()> {
        let (min, max) = range;
        let from = score_order(min.score) + u64::from(min.is_open);
        let to = score_order(max.score) + u64::from(!max.is_open);
        let bounds = (layout::score_key(head.id, from, b""), layout::score_key(head.id, to, b""));
        self.walk_order(&bounds, direction(backward), visit)
    }

    /// Shows `visit` the members whose name is in a range, in order or backwards, until it breaks. All members are taken to have the
    /// score of the first one.
    pub fn walk_lex(&self, head: &Head, range: (&LexBound, &LexBound), backward: bool, visit: &mut VisitScored) -> Result<()> {
        let mut first = None;
        self.walk_order(&layout::scores(head.id), Direction::Forward, &mut |_, score| {
            first = Some(score_order(score));
            ControlFlow::Break(())
        })?;
        let Some(order) = first else { return Ok(()) };
        let bounds = match range {
            (LexBound::Highest, _) | (_, LexBound::Lowest) => return Ok(()),
            (min, max) => (min.place(head, order, true), max.place(head, order, false)),
        };
        self.walk_order(&bounds, direction(backward), visit)
    }

    /// Shows `visit` the members from a rank up to another (excluded), counted from the lowest score, in order or backwards.
    pub fn walk_ranks(&self, head: &Head, ranks: (u64, u64), backward: bool, visit: &mut VisitScored) -> Result<()> {
        let (from, to) = (ranks.0, ranks.1.min(head.count));
        if from >= to {
            return Ok(());
        }
        let whole = layout::scores(head.id);
        let Some(start) = self.place_at(&whole, if backward { to - 1 } else { from }, head.count)? else { return Ok(()) };
        let (lower, upper) = whole;
        let bounds = if backward { (lower, [&start[..], b"\0"].concat()) } else { (start, upper) };
        let mut left = to - from;
        self.walk_order(&bounds, direction(backward), &mut |member, score| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            visit(member, score)
        })
    }

    /// How many members come before this one, and its score.
    pub fn rank(&self, head: &Head, member: &[u8]) -> Result<Option<(u64, f64)>> {
        let Some(score) = self.score(head, member)? else { return Ok(None) };
        let target = layout::score_key(head.id, score_order(score), member);
        Ok(Some((self.count_before(&layout::scores(head.id), &target, head.count)?, score)))
    }

    /// The members of a set or a sorted set with their scores; those of a set have the score 1.
    pub fn walk_scored_or_set(&self, head: &Head, visit: &mut VisitScored) -> Result<()> {
        match head.kind {
            Kind::Set => self.walk_members(head, &mut |member, _| visit(member, 1.0)),
            Kind::SortedSet => self.walk_order(&layout::scores(head.id), Direction::Forward, visit),
            _ => Err(Error::WrongType),
        }
    }
}
