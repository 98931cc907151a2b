//! Ranks of members, in memory: in large sorted sets by score, and in collections with few members left among many removed ones by the hash
//! of the name, so that one can be picked without passing over the removed ones.
//!
//! Ranks cannot be stored without rewriting them for every member behind a change. So a set has an *outline*: its order is divided into
//! pieces, with the start and the number of members of each. The rank of a member is the sum of the pieces before its own, plus a walk
//! through part of its own.
//!
//! **Made on demand.** A set begins as one piece. A lookup in a piece that is too long walks through the piece and cuts it. So the first
//! lookup passes over all members, a later one only over members added to its piece since; a write only counts, and reads nothing.
//!
//! **In step with the turn.** Outlines count all writes of the turn, as reads see them: every write to an entry of the order is reported
//! ([`Ranks::added`], [`Ranks::removed`]). The outline of a deleted collection is forgotten, and its id never comes again. When a turn is
//! dropped, or its batch fails, all outlines are forgotten ([`Ranks::clear`]). Forgetting an outline is always right, and costs a walk over
//! all members.
//!
//! **Bounded.** The outlines that were unused for the longest time are dropped first. Pieces are longer where one outline would take too
//! much.

use super::Keyspace;
use super::entry::Head;
use super::error::Result;
use super::layout::{self, Bounds, Direction, FamilyKind};
use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::mem;
use std::ops::ControlFlow;

/// Members of a piece by score when it is cut, if memory allows; a piece with twice as many is cut again. Tests have many pieces.
pub(super) const PIECE: u64 = if cfg!(test) { 8 } else { 64 };
/// An outline is dropped when its pieces have on average less than one part in so many of their intended members.
const SPARSE: u64 = 4;
/// Pieces of a group when it is divided; a group with twice as many is divided again.
const GROUP: usize = if cfg!(test) { 4 } else { 128 };

/// Largest memory of a piece without its name, bytes: vectors may have twice the capacity that they need. And the memory of an outline
/// beside.
const PIECE_BYTES: u64 = 2 * size_of::<RankPiece>() as u64;
const OUTLINE_BYTES: u64 = 256;
/// Largest memory of a name beside its own bytes.
const NAME_BYTES: u64 = 24;

/// An order of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Order {
    /// By score and name, in a sorted set.
    Scores,
    /// By the hash of the name, and the name.
    Hashes,
}

/// Key of an order: a score, as [`layout::score_order`] has it, or a hash, and a name.
pub(super) type OrderKey<'a> = (u64, &'a [u8]);

impl Order {
    fn key(self, id: u64, place: OrderKey) -> Vec<u8> {
        match self {
            Order::Scores => layout::score_key(id, place.0, place.1),
            Order::Hashes => layout::hashed_key(id, place.0, place.1),
        }
    }

    fn split(self, key: &[u8]) -> Option<OrderKey<'_>> {
        match self {
            Order::Scores => layout::split_score_key(key),
            Order::Hashes => layout::split_member_key(key),
        }
    }

    fn whole(self, id: u64) -> Bounds {
        match self {
            Order::Scores => layout::scores(id),
            Order::Hashes => layout::members(id, 0),
        }
    }
}

/// The members from a start up to the start of the next piece.
#[derive(Debug)]
pub(super) struct RankPiece {
    /// Start of the piece: not a member, but the shortest key that separates its first member from the one before.
    number: u64,
    name: Box<[u8]>,
    members: u64,
}

impl RankPiece {
    fn start(&self) -> OrderKey<'_> {
        (self.number, &self.name)
    }

    fn bytes(&self) -> u64 {
        let name = self.name.len() as u64;
        PIECE_BYTES + if name > 0 { name + NAME_BYTES } else { 0 }
    }

    /// A piece without members that starts behind the key `last` and contains the key `next`.
    fn between(last: OrderKey, next: OrderKey) -> RankPiece {
        let same = last.1.iter().zip(next.1).take_while(|(a, b)| a == b).count();
        let name = if last.0 == next.0 { next.1.get(..=same).unwrap_or(next.1) } else { b"" };
        RankPiece { number: next.0, name: name.into(), members: 0 }
    }
}

/// Consecutive pieces, at least one. Groups keep both their own pieces and the number of all groups small.
#[derive(Debug)]
struct PieceGroup {
    members: u64,
    pieces: Vec<RankPiece>,
}

impl PieceGroup {
    fn new(pieces: Vec<RankPiece>) -> PieceGroup {
        PieceGroup { members: pieces.iter().map(|piece| piece.members).sum(), pieces }
    }

    fn start(&self) -> OrderKey<'_> {
        self.pieces.first().map_or((0, b""), RankPiece::start)
    }
}

/// Location of a piece: its group, and its index there.
type Spot = (usize, usize);

/// A piece that was found.
#[derive(Debug)]
pub(super) struct Found {
    spot: Spot,
    pub bounds: Bounds,
    /// Number of members in the pieces before it.
    pub before: u64,
    pub members: u64,
}

/// The pieces of a collection in an order. No member lies before the first one.
#[derive(Debug)]
pub(super) struct Outline {
    of: (u64, Order),
    /// Intended number of members of a piece.
    length: u64,
    members: u64,
    groups: Vec<PieceGroup>,
    pieces: u64,
    bytes: u64,
    /// When the outline was used last.
    look: u64,
}

/// Index of the count in which a position lies, or of the last one, and the sum of the counts before.
fn locate(counts: impl Iterator<Item = u64>, position: u64) -> (usize, u64) {
    let (mut found, mut before) = ((0, 0), 0);
    for (number, count) in counts.enumerate() {
        found = (number, before);
        before += count;
        if position < before {
            break;
        }
    }
    found
}

impl Outline {
    /// An outline of one piece.
    fn new(of: (u64, Order), length: u64, members: u64) -> Outline {
        let piece = RankPiece { number: 0, name: Box::default(), members };
        let bytes = OUTLINE_BYTES + piece.bytes();
        Outline { of, length, members, groups: vec![PieceGroup::new(vec![piece])], pieces: 1, bytes, look: 0 }
    }

    fn spot(&self, place: OrderKey) -> Spot {
        let group = self.groups.partition_point(|group| group.start() <= place).saturating_sub(1);
        let piece = self.groups[group].pieces.partition_point(|piece| piece.start() <= place).saturating_sub(1);
        (group, piece)
    }

    fn found(&self, spot: Spot, before: u64) -> Found {
        let (id, order) = self.of;
        let pieces = &self.groups[spot.0].pieces;
        let next = pieces.get(spot.1 + 1).or_else(|| self.groups.get(spot.0 + 1)?.pieces.first());
        let from = order.key(id, pieces[spot.1].start());
        let to = next.map_or_else(|| order.whole(id).1, |next| order.key(id, next.start()));
        Found { spot, bounds: (from, to), before, members: pieces[spot.1].members }
    }

    /// Key at which a found piece starts.
    fn start(&self, found: &Found) -> OrderKey<'_> {
        self.groups[found.spot.0].pieces[found.spot.1].start()
    }

    /// The piece that contains a key.
    pub fn around(&self, place: OrderKey) -> Found {
        let spot = self.spot(place);
        let groups: u64 = self.groups[..spot.0].iter().map(|group| group.members).sum();
        let pieces: u64 = self.groups[spot.0].pieces[..spot.1].iter().map(|piece| piece.members).sum();
        self.found(spot, groups + pieces)
    }

    /// The piece that contains the member at a position.
    pub fn at(&self, position: u64) -> Found {
        let (group, groups) = locate(self.groups.iter().map(|group| group.members), position);
        let (piece, pieces) = locate(self.groups[group].pieces.iter().map(|piece| piece.members), position - groups);
        self.found((group, piece), groups + pieces)
    }

    /// Replaces a found piece by several.
    fn cut(&mut self, found: &Found, cuts: Vec<RankPiece>) {
        if cuts.is_empty() {
            return;
        }
        let (at, piece) = found.spot;
        let group = &mut self.groups[at];
        self.bytes -= group.pieces[piece].bytes();
        self.bytes += cuts.iter().map(RankPiece::bytes).sum::<u64>();
        self.pieces += cuts.len() as u64 - 1;
        group.pieces.splice(piece..=piece, cuts);
        let mut pieces = mem::take(&mut group.pieces).into_iter();
        let divided: Vec<PieceGroup> = if pieces.len() > 2 * GROUP {
            let chunks = iter::from_fn(|| Some(pieces.by_ref().take(GROUP).collect()).filter(|chunk: &Vec<RankPiece>| !chunk.is_empty()));
            chunks.map(PieceGroup::new).collect()
        } else {
            vec![PieceGroup::new(pieces.collect())]
        };
        self.groups.splice(at..=at, divided);
        self.members = self.groups.iter().map(|group| group.members).sum();
    }

    fn add(&mut self, place: OrderKey) {
        let (at, piece) = self.spot(place);
        let group = &mut self.groups[at];
        let piece = &mut group.pieces[piece];
        self.members += 1;
        group.members += 1;
        piece.members += 1;
        if place < piece.start() {
            self.bytes -= piece.bytes();
            (piece.number, piece.name) = (place.0, place.1.into());
            self.bytes += piece.bytes();
        }
    }

    /// Counts a removed member; false: the outline is not worth keeping, or wrong.
    fn remove(&mut self, place: OrderKey) -> bool {
        let (at, piece) = self.spot(place);
        let group = &mut self.groups[at];
        if group.pieces[piece].members == 0 {
            return false;
        }
        self.members -= 1;
        group.members -= 1;
        group.pieces[piece].members -= 1;
        if group.pieces[piece].members == 0 && self.pieces > 1 {
            // The piece before it extends up to the next one then.
            self.bytes -= group.pieces.remove(piece).bytes();
            self.pieces -= 1;
            if group.pieces.is_empty() {
                self.groups.remove(at);
            }
        }
        self.members * SPARSE >= self.pieces * self.length
    }
}

/// Cuts a piece whose members are passed to it in order.
#[derive(Debug)]
struct Cutter {
    length: u64,
    pieces: Vec<RankPiece>,
    /// Lower bound for the start of the next piece: the start of the whole, or the last member of a piece that is full (excluded).
    last: (u64, Vec<u8>),
}

impl Cutter {
    /// A cutter for `members` members.
    fn new(start: OrderKey, members: u64, length: u64) -> Cutter {
        let length = members.div_ceil((members / length).max(1));
        Cutter { length, pieces: Vec::new(), last: (start.0, start.1.to_vec()) }
    }

    fn pass(&mut self, place: OrderKey) {
        if self.pieces.last().is_none_or(|piece| piece.members >= self.length) {
            self.pieces.push(RankPiece::between((self.last.0, &self.last.1), place));
        }
        let Some(piece) = self.pieces.last_mut() else { return };
        piece.members += 1;
        if piece.members == self.length {
            self.last = (place.0, place.1.to_vec());
        }
    }
}

/// The outlines of collections.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    capacity: u64,
    used: u64,
    outlines: HashMap<(u64, Order), Outline>,
    /// The set and order of each outline, by when the outline was used last.
    looks: BTreeMap<u64, (u64, Order)>,
    look: u64,
}

impl Ranks {
    /// Limit of the memory of all outlines, bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sets the limit of the memory of all outlines.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.trim();
    }

    /// Memory of all outlines, bytes.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn has(&self, id: u64, order: Order) -> bool {
        self.outlines.contains_key(&(id, order))
    }

    /// Intended number of members of a piece, for a collection of `members` members.
    fn length(&self, order: Order, members: u64) -> u64 {
        // Where removed elements lie between members, each member is worth a piece.
        let wanted = if order == Order::Scores { PIECE } else { 1 };
        // One outline gets at most half of the memory.
        wanted.max(2 * members / (self.capacity / PIECE_BYTES).max(1))
    }

    /// Takes out the outline of a collection that has so many members, or begins one. The caller puts it back, except after an error.
    fn take(&mut self, of: (u64, Order), members: u64) -> Outline {
        let found = self.remove(of).filter(|outline| outline.members == members);
        found.unwrap_or_else(|| Outline::new(of, self.length(of.1, members), members))
    }

    fn keep(&mut self, outline: Outline) {
        self.look += 1;
        self.used += outline.bytes;
        self.looks.insert(self.look, outline.of);
        self.outlines.insert(outline.of, Outline { look: self.look, ..outline });
        self.trim();
    }

    fn trim(&mut self) {
        while self.used > self.capacity {
            let Some((_, of)) = self.looks.pop_first() else { return };
            self.remove(of);
        }
    }

    fn remove(&mut self, of: (u64, Order)) -> Option<Outline> {
        let outline = self.outlines.remove(&of)?;
        self.looks.remove(&outline.look);
        self.used -= outline.bytes;
        Some(outline)
    }

    /// An entry was written in an order where there was none.
    pub fn added(&mut self, id: u64, order: Order, place: OrderKey) {
        let Some(outline) = self.outlines.get_mut(&(id, order)) else { return };
        self.used -= outline.bytes;
        outline.add(place);
        self.used += outline.bytes;
    }

    /// An entry of an order was deleted.
    pub fn removed(&mut self, id: u64, order: Order, place: OrderKey) {
        let Some(outline) = self.outlines.get_mut(&(id, order)) else { return };
        self.used -= outline.bytes;
        let stays = outline.remove(place);
        self.used += outline.bytes;
        if !stays {
            self.remove((id, order));
        }
    }

    /// Forgets the outlines of a collection that is deleted, or whose elements are unknown.
    pub fn forget(&mut self, id: u64) {
        self.remove((id, Order::Scores));
        self.remove((id, Order::Hashes));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Ranks { capacity: self.capacity, look: self.look, ..Ranks::default() };
    }
}

impl Keyspace {
    /// The piece that `find` gives, cut if it was too long.
    pub(super) fn piece(&mut self, head: &Head, order: Order, find: impl Fn(&Outline) -> Found) -> Result<Found> {
        let mut outline = self.ranks.take((head.id, order), head.count);
        let mut found = find(&outline);
        // A new outline says nothing of where its members begin.
        if outline.look == 0 || found.members >= 2 * outline.length {
            let mut cutter = Cutter::new(outline.start(&found), found.members, outline.length);
            self.turn.walk(FamilyKind::Elements, &found.bounds, Direction::Forward, &mut |key, _| {
                order.split(key).into_iter().for_each(|place| cutter.pass(place));
                ControlFlow::Continue(())
            })?;
            outline.cut(&found, cutter.pieces);
            found = find(&outline);
        }
        self.ranks.keep(outline);
        Ok(found)
    }
}

#[cfg(test)]
impl Ranks {
    /// Ids of the collections that have outlines.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.outlines.keys().map(|of| of.0)
    }

    /// The outline of a set, if there is one, is that of these members, and all sums are right.
    pub fn check(&self, id: u64, order: Order, members: &[(u64, Vec<u8>)], what: &str) {
        let bytes: u64 = self.outlines.values().map(|outline| outline.bytes).sum();
        assert_eq!((self.used, self.looks.len()), (bytes, self.outlines.len()), "{what}");
        let Some(outline) = self.outlines.get(&(id, order)) else { return };
        let pieces: Vec<&RankPiece> = outline.groups.iter().flat_map(|group| &group.pieces).collect();
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes()).sum();
        assert_eq!((outline.pieces, outline.bytes), (pieces.len() as u64, bytes + OUTLINE_BYTES), "{what}");
        assert!(pieces.is_sorted_by(|a, b| a.start() < b.start()), "{what}");
        assert!(outline.groups.iter().all(|group| group.pieces.len() <= 2 * GROUP), "{what}");
        let mut rest = members.iter().map(|(number, name)| (*number, &name[..])).peekable();
        assert!(rest.peek().is_none_or(|first| pieces[0].start() <= *first), "{what}");
        for group in &outline.groups {
            let sum: u64 = group.pieces.iter().map(|piece| piece.members).sum();
            assert!(group.members == sum && !group.pieces.is_empty(), "{what}");
        }
        for (piece, next) in pieces.iter().zip(pieces.iter().skip(1).map(Some).chain([None])) {
            let mut count = 0;
            while rest.next_if(|member| next.is_none_or(|next| *member < next.start())).is_some() {
                count += 1;
            }
            assert_eq!(piece.members, count, "{what}");
        }
        assert_eq!(outline.members, members.len() as u64, "{what}");
    }
}
