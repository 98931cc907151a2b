//! Ranges of engine keys that are known to hold nothing, so that walks do not pass over the same removed keys again and again.
//!
//! Members that are taken from an end of a sorted set, or entries that a consumer group has acknowledged, stay in the engine as removed
//! keys until a flush and a merge drop them. A queue of 1,000 members through which a million have gone has up to a million of them before
//! its first member. A walk that passed over many removed keys notes their range here, and the next walk begins behind it.
//!
//! **In step with the turn.** A range holds nothing that reads of the turn see: each write of a key takes the key out of its range
//! ([`DeadRanges::cut`]). When a turn is dropped, or its batch fails, all ranges are forgotten. Forgetting a range is always right, and
//! costs one walk over it.

use super::layout::{Bounds, Direction};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;

/// Removed keys in a row from which on their range is noted: to begin a walk behind a range costs about as much as to pass over so many.
pub(super) const NOTED: u64 = if cfg!(test) { 3 } else { 64 };
/// Memory of all ranges, bytes: with more, all are forgotten.
const CAPACITY: usize = 1 << 20;
/// Memory of a range beside the bytes of its ends.
const RANGE_BYTES: usize = 128;

/// Part of a walk's bounds between two ranges that are known to hold nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LivePart {
    pub bounds: Bounds,
    /// A range that is known to hold nothing lies before it, or behind it.
    pub is_beside_dead: bool,
}

/// Ranges that are known to hold nothing: apart from one another, and none empty.
#[derive(Debug, Default)]
pub(super) struct DeadRanges {
    /// Ends (excluded) by starts (included).
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl DeadRanges {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Forgets all ranges.
    pub fn clear(&mut self) {
        *self = DeadRanges::default();
    }

    fn insert(&mut self, from: Vec<u8>, to: Vec<u8>) {
        self.bytes += from.len() + to.len() + RANGE_BYTES;
        self.ranges.insert(from, to);
    }

    fn remove(&mut self, from: &[u8]) -> Option<Bounds> {
        let (from, to) = self.ranges.remove_entry(from)?;
        self.bytes -= from.len() + to.len() + RANGE_BYTES;
        Some((from, to))
    }

    /// The last range that starts before a key.
    fn before(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).next_back()
    }

    /// The last range that starts at a key or before it.
    fn around(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    /// Notes that a range holds nothing.
    pub fn note(&mut self, (mut from, mut to): Bounds) {
        if from >= to {
            return;
        }
        // What overlaps it, or touches it, becomes one range with it.
        while let Some(start) = self.around(&to).filter(|(_, end)| **end >= from).map(|(start, _)| start.clone()) {
            let Some(other) = self.remove(&start) else { break };
            from = from.min(other.0);
            to = to.max(other.1);
        }
        self.insert(from, to);
        if self.bytes > CAPACITY {
            self.clear();
        }
    }

    /// A key is written.
    pub fn cut(&mut self, key: &[u8]) {
        let Some((start, end)) = self.around(key) else { return };
        if end.as_slice() <= key {
            return;
        }
        let start = start.clone();
        let Some((from, to)) = self.remove(&start) else { return };
        if from.as_slice() < key {
            self.insert(from, key.to_vec());
        }
        let behind = successor(key);
        if behind < to {
            self.insert(behind, to);
        }
    }

    /// Takes from `rest` the next part, in the direction of a walk, of which it is not known that it holds nothing.
    pub fn next_part(&self, rest: &mut Bounds, direction: Direction) -> Option<LivePart> {
        let whole = rest.clone();
        let (mut from, mut to) = mem::take(rest);
        match direction {
            Direction::Forward => {
                if let Some((_, end)) = self.around(&from).filter(|(_, end)| **end > from) {
                    from.clone_from(end);
                }
                if let Some((start, _)) = self.ranges.range::<Vec<u8>, _>(&from..).next().filter(|(start, _)| **start < to) {
                    *rest = (start.clone(), mem::replace(&mut to, start.clone()));
                }
            }
            Direction::Backward => {
                if let Some((start, _)) = self.before(&to).filter(|(_, end)| **end >= to) {
                    to.clone_from(start);
                }
                if let Some((_, end)) = self.before(&to).filter(|(_, end)| **end > from) {
                    *rest = (mem::replace(&mut from, end.clone()), end.clone());
                }
            }
        }
        let is_beside_dead = from > whole.0 || to < whole.1;
        (from < to).then_some(LivePart { bounds: (from, to), is_beside_dead })
    }
}

#[cfg(test)]
impl DeadRanges {
    /// All ranges.
    pub fn all(&self) -> Vec<Bounds> {
        self.ranges.iter().map(|(from, to)| (from.clone(), to.clone())).collect()
    }
}

/// The first key behind a key.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Keys of the model: all strings of one and two letters of a small alphabet, so that ranges meet often.
    fn keys() -> Vec<Vec<u8>> {
        let one = (b'a'..=b'f').map(|letter| vec![letter]);
        let two = (b'a'..=b'f').flat_map(|letter| (b'a'..=b'f').map(move |other| vec![letter, other]));
        let mut keys: Vec<Vec<u8>> = one.chain(two).collect();
        keys.sort();
        keys
    }

    fn parts(dead: &DeadRanges, bounds: &Bounds, direction: Direction) -> Vec<Bounds> {
        let mut rest = bounds.clone();
        std::iter::from_fn(|| dead.next_part(&mut rest, direction)).map(|part| part.bounds).collect()
    }

    #[test]
    fn parts_are_what_is_not_known_to_hold_nothing() {
        let keys = keys();
        let mut random = Random(1);
        for _ in 0..200 {
            let mut dead = DeadRanges::default();
            let mut is_dead = vec![false; keys.len()];
            for _ in 0..random.below(40) {
                let at = random.below(keys.len());
                if random.below(2) == 0 {
                    let to = at + random.below(keys.len() - at);
                    dead.note((keys[at].clone(), keys[to].clone()));
                    is_dead[at..to].fill(true);
                } else {
                    dead.cut(&keys[at]);
                    is_dead[at] = false;
                }
                let (from, to) = (random.below(keys.len()), random.below(keys.len()));
                let bounds = (keys[from].clone(), keys[to].clone());
                let forward = parts(&dead, &bounds, Direction::Forward);
                let mut backward = parts(&dead, &bounds, Direction::Backward);
                backward.reverse();
                assert_eq!(forward, backward);
                assert!(forward.windows(2).all(|pair| pair[0].1 < pair[1].0));
                for number in 0..keys.len() {
                    let is_in = forward.iter().any(|part| part.0 <= keys[number] && keys[number] < part.1);
                    let is_live = (from..to).contains(&number) && !is_dead[number];
                    assert!(!is_live || is_in, "{:?} is left out", keys[number]);
                    assert!(is_live || !is_in, "{:?} is not known", keys[number]);
                }
            }
            let bytes: usize = dead.ranges.iter().map(|(from, to)| from.len() + to.len() + RANGE_BYTES).sum();
            assert_eq!(dead.bytes, bytes);
        }
    }

    #[test]
    fn too_many_ranges_are_forgotten() {
        let mut dead = DeadRanges::default();
        for number in 0..100_000u64 {
            dead.note(((2 * number).to_be_bytes().to_vec(), (2 * number + 1).to_be_bytes().to_vec()));
            assert!(dead.bytes <= CAPACITY);
        }
    }
}
