//! K-way merge of cursors: a tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1) whose nodes hold the first eight bytes of
//! the key as a number. A step compares numbers and exchanges nodes without a branch, because no branch predictor learns which source wins;
//! only equal numbers lead to a comparison of whole keys.
//!
//! Walking backwards uses the same tree over inverted numbers.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Seq, compare, prefix};
use std::cmp::Ordering;

/// A player: a source, and the number that its current key begins with, inverted when walking backwards. Exhausted sources have the largest
/// number, so that they lose; a real key with that number ties, and a tie is decided by the whole keys.
#[derive(Clone, Copy)]
struct Node {
    prefix: u64,
    source: u32,
}

/// A match that has not been played while the tree is built.
const UNPLAYED: Node = Node { prefix: 0, source: u32::MAX };

const FORWARD: u64 = 0;
const BACKWARD: u64 = u64::MAX;

/// Several cursors as one. Sources are given newest first; entries come in (key asc, trailer desc) order; equal (key, trailer) from two
/// sources come in source order.
pub struct Merge<C> {
    sources: Vec<C>,
    /// Match `i` is between the winners of `2i` and `2i + 1`; source `s` plays first in match `(s + k) / 2`. Match 0 is unused.
    losers: Vec<Node>,
    /// The winner.
    top: usize,
    /// The winner stands on an entry.
    standing: bool,
    /// `FORWARD` or `BACKWARD`: mask with which numbers are inverted.
    flip: u64,
    /// Number of bytes that all keys begin with. The numbers are taken from the bytes behind these.
    shared: usize,
}

impl<C: Cursor> Merge<C> {
    /// Merges `sources`, newest first.
    pub fn new(sources: Vec<C>) -> Self {
        Merge::sharing(sources, 0)
    }

    /// Merges `sources`, newest first, whose keys all begin with the same `shared` bytes. Example: keys like `user00001234` would all tie
    /// in their first eight bytes.
    pub fn sharing(sources: Vec<C>, shared: usize) -> Self {
        let losers = vec![UNPLAYED; sources.len()];
        Merge { sources, losers, top: 0, standing: false, flip: FORWARD, shared }
    }

    /// The source that the current entry comes from: its place in the list given to [`Merge::new`].
    pub fn source(&self) -> usize {
        self.top
    }

    #[inline]
    fn leaf(&self, source: usize) -> Node {
        let cursor = &self.sources[source];
        let prefix = if cursor.valid() { prefix(cursor.key().get(self.shared..).unwrap_or_default()) ^ self.flip } else { u64::MAX };
        Node { prefix, source: source as u32 }
    }

    /// Returns whether `a` comes before `b`; their numbers are equal.
    #[inline(never)]
    fn wins_tie(&self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.sources[a as usize], &self.sources[b as usize]);
        if !(x.valid() && y.valid()) {
            return x.valid();
        }
        let order = compare(x.key(), x.trailer(), y.key(), y.trailer()).then(a.cmp(&b));
        order == if self.flip == FORWARD { Ordering::Less } else { Ordering::Greater }
    }

    /// Plays match `i`: the loser stays, the winner is returned.
    #[inline]
    fn play(&mut self, i: usize, node: Node) -> Node {
        let other = self.losers[i];
        let other_wins = if other.prefix == node.prefix { self.wins_tie(other.source, node.source) } else { other.prefix < node.prefix };
        let mask = u64::from(other_wins).wrapping_neg();
        let prefix = (other.prefix ^ node.prefix) & mask;
        let source = (other.source ^ node.source) & mask as u32;
        self.losers[i] = Node { prefix: other.prefix ^ prefix, source: other.source ^ source };
        Node { prefix: node.prefix ^ prefix, source: node.source ^ source }
    }

    /// Plays all matches of the winner again, after its source has moved.
    #[inline]
    fn replay(&mut self) {
        if let [only] = &self.sources[..] {
            self.standing = only.valid();
            return;
        }
        let mut node = self.leaf(self.top);
        let mut i = (self.top + self.sources.len()) / 2;
        while i > 0 {
            node = self.play(i, node);
            i /= 2;
        }
        self.crown(node);
    }

    #[inline]
    fn crown(&mut self, winner: Node) {
        self.top = winner.source as usize;
        self.standing = self.sources[self.top].valid();
    }

    /// Plays all matches. The first player to arrive at a match waits there for the second.
    fn build(&mut self) {
        self.losers.fill(UNPLAYED);
        for source in 0..self.sources.len() {
            let mut node = self.leaf(source);
            let mut i = (source + self.sources.len()) / 2;
            while i > 0 && self.losers[i].source != UNPLAYED.source {
                node = self.play(i, node);
                i /= 2;
            }
            if i > 0 {
                self.losers[i] = node;
            } else {
                self.crown(node);
            }
        }
    }

    /// Moves every source and builds the tree.
    fn place(&mut self, flip: u64, mut place: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.standing = false;
        self.flip = flip;
        self.sources.iter_mut().try_for_each(&mut place)?;
        self.build();
        Ok(())
    }

    /// Takes one step against the direction of the tree. All other sources stand on one side of the current entry; they are moved to the
    /// other side by a seek.
    #[cold]
    fn turn(&mut self, flip: u64) -> Result<()> {
        self.standing = false;
        self.flip = flip;
        let (newer, rest) = self.sources.split_at_mut(self.top);
        let Some((current, older)) = rest.split_first_mut() else { return Ok(()) };
        let (key, trailer) = (current.key(), current.trailer());
        let others = newer.iter_mut().map(|s| (s, true)).chain(older.iter_mut().map(|s| (s, false)));
        for (source, is_newer) in others {
            source.seek(key, trailer)?;
            // An equal entry comes before the current one if its source is newer.
            let before = is_newer && source.valid() && source.trailer() == trailer && source.key() == key;
            match (flip == BACKWARD, before) {
                (true, true) | (false, false) => {}
                (false, true) => source.next()?,
                (true, false) if source.valid() => source.prev()?,
                (true, false) => source.seek_last()?,
            }
        }
        if flip == BACKWARD {
            current.prev()?
        } else {
            current.next()?
        };
        self.build();
        Ok(())
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.place(FORWARD, C::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place(BACKWARD, C::seek_last)
    }

    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        self.place(FORWARD, |source| source.seek(key, trailer))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.place(BACKWARD, |source| source.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.standing);
        if self.flip != FORWARD {
            return self.turn(FORWARD);
        }
        if let Err(error) = self.sources[self.top].next() {
            self.standing = false;
            return Err(error);
        }
        self.replay();
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.standing);
        if self.flip != BACKWARD {
            return self.turn(BACKWARD);
        }
        if let Err(error) = self.sources[self.top].prev() {
            self.standing = false;
            return Err(error);
        }
        self.replay();
        Ok(())
    }

    fn pass(&mut self, to: &[u8], newest: Seq) -> Result<bool> {
        if self.flip != FORWARD {
            return Ok(false);
        }
        // After an error the cursor stands nowhere.
        let was_standing = std::mem::replace(&mut self.standing, false);
        let mut has_moved = false;
        for source in self.sources.iter_mut().filter(|source| source.valid() && source.key() < to) {
            has_moved |= source.pass(to, newest)?;
        }
        if has_moved {
            self.build();
        } else {
            self.standing = was_standing;
        }
        Ok(has_moved)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.standing
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.top].key()
    }

    #[inline]
    fn trailer(&self) -> u64 {
        self.sources[self.top].trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.top].value()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
