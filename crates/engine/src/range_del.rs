//! Range tombstones, cut into fragments that do not overlap, so that one binary search answers whether a key is covered.
//!
//! Fragmenting is RocksDB's design (`FragmentedRangeTombstoneList`): where tombstones overlap, the pieces between all their ends carry
//! the sequence numbers of every tombstone over them. The result is canonical (touching fragments with equal numbers are one), so the
//! pieces of a clipped set, put together again, equal the set.

use crate::coding::{Decoder, put_bytes, put_varint};
use crate::key::{MAX_SEQ, Seq};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One piece of the key space and the sequence numbers of all range tombstones that cover it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Vec<u8>,
    /// First key after it that is not covered.
    pub end: Vec<u8>,
    /// Newest first, no number twice, never empty.
    pub seqs: Vec<Seq>,
}

impl Fragment {
    /// The newest tombstone `<= snapshot`.
    pub fn newest(&self, snapshot: Seq) -> Option<Seq> {
        self.seqs.iter().copied().find(|&seq| seq <= snapshot)
    }
}

/// Numbers of the tombstones over a key, newest first, and how many tombstones have each.
type OpenTombstones = BTreeMap<Reverse<Seq>, usize>;

/// The newest number up to each snapshot (ascending), and all above the last one; newest first.
fn numbers_seen_at(snapshots: &[Seq], open: &OpenTombstones) -> Vec<Seq> {
    let mut older = snapshots;
    let mut numbers: Vec<Seq> = match older.last() {
        Some(last) => open.range(..Reverse(*last)).map(|(seq, _)| seq.0).collect(),
        None => open.keys().map(|seq| seq.0).collect(),
    };
    while let Some(snapshot) = older.last() {
        let Some((Reverse(newest), _)) = open.range(Reverse(*snapshot)..).next() else { break };
        numbers.push(*newest);
        // Snapshots at or above that number see it, too.
        older = &older[..older.partition_point(|snapshot| snapshot < newest)];
    }
    numbers
}

/// Fragments in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

/// The stretch of keys around a key in which all keys have the same tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// First key; `None`: the smallest there is.
    pub from: Option<&'a [u8]>,
    /// First key after it; `None`: there is none.
    pub to: Option<&'a [u8]>,
    /// The fragment that covers it, if one does.
    pub fragment: Option<&'a Fragment>,
}

impl RangeTombstones {
    /// Cuts arbitrary, overlapping tombstones `(start, end, seq)` into fragments. Empty ranges (`start >= end`) vanish.
    ///
    /// Each fragment has the numbers of all tombstones over it: of `n` tombstones that lie in each other, `n * n / 2` numbers.
    pub fn new(tombstones: impl IntoIterator<Item = (Vec<u8>, Vec<u8>, Seq)>) -> Self {
        RangeTombstones::cut(tombstones, usize::MAX, |open| open.keys().map(|seq| seq.0).collect()).unwrap_or_default()
    }

    /// [`RangeTombstones::new`], or `None` if the fragments would have more than `most` numbers together.
    pub fn of_few_numbers(tombstones: impl IntoIterator<Item = (Vec<u8>, Vec<u8>, Seq)>, most: usize) -> Option<Self> {
        RangeTombstones::cut(tombstones, most, |open| open.keys().map(|seq| seq.0).collect())
    }

    /// Like [`RangeTombstones::new`], for readers at some snapshots (ascending) and after the last of them: of each fragment's numbers, the
    /// newest up to each snapshot, and all above the last one.
    pub fn seen_at(snapshots: &[Seq], tombstones: impl IntoIterator<Item = (Vec<u8>, Vec<u8>, Seq)>) -> Self {
        RangeTombstones::cut(tombstones, usize::MAX, |open| numbers_seen_at(snapshots, open)).unwrap_or_default()
    }

    /// Cuts tombstones into fragments whose numbers `choose` picks from those of all tombstones over the fragment. `None` if these are more
    /// than `most` together.
    fn cut(
        tombstones: impl IntoIterator<Item = (Vec<u8>, Vec<u8>, Seq)>,
        most: usize,
        choose: impl Fn(&OpenTombstones) -> Vec<Seq>,
    ) -> Option<Self> {
        let mut edges: Vec<(Vec<u8>, bool, Seq)> = Vec::new();
        for (start, end, seq) in tombstones {
            if start < end {
                edges.push((start, true, seq));
                edges.push((end, false, seq));
            }
        }
        edges.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut set = RangeTombstones::default();
        let mut open = OpenTombstones::new();
        let mut last: Vec<u8> = Vec::new();
        let mut numbers = 0;
        for (key, opens, seq) in edges {
            if key != last && !open.is_empty() {
                let chosen = choose(&open);
                numbers += chosen.len();
                if numbers > most {
                    return None;
                }
                set.push(last, key.clone(), chosen);
            }
            let count = open.entry(Reverse(seq)).or_default();
            // Edges at one key come in any order: a count may pass below zero and back before the next key.
            *count = if opens { count.wrapping_add(1) } else { count.wrapping_sub(1) };
            if *count == 0 {
                open.remove(&Reverse(seq));
            }
            last = key;
        }
        Some(set)
    }

    /// Several sets as one.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a RangeTombstones>) -> Self {
        let fragments = sets.into_iter().flat_map(|set| &set.fragments);
        RangeTombstones::new(fragments.flat_map(|f| f.seqs.iter().map(|&seq| (f.start.clone(), f.end.clone(), seq))))
    }

    /// Appends a fragment that starts at or after the end of the last one; touching fragments with equal numbers become one.
    fn push(&mut self, start: Vec<u8>, end: Vec<u8>, seqs: Vec<Seq>) {
        match self.fragments.last_mut() {
            Some(last) if last.end == start && last.seqs == seqs => last.end = end,
            _ => self.fragments.push(Fragment { start, end, seqs }),
        }
    }

    /// No tombstones.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in key order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The newest tombstone `<= snapshot` that covers `key`; an entry with a smaller sequence number is deleted.
    #[inline]
    pub fn covering(&self, key: &[u8], snapshot: Seq) -> Option<Seq> {
        if self.fragments.is_empty() {
            return None;
        }
        self.span(key).fragment?.newest(snapshot)
    }

    /// The fragment that covers `key`, or the gap it lies in.
    pub fn span(&self, key: &[u8]) -> Span<'_> {
        let after = self.fragments.partition_point(|f| f.end.as_slice() <= key);
        let before = after.checked_sub(1).map(|i| self.fragments[i].end.as_slice());
        match self.fragments.get(after) {
            None => Span { from: before, to: None, fragment: None },
            Some(f) if f.start.as_slice() > key => Span { from: before, to: Some(&f.start), fragment: None },
            Some(f) => Span { from: Some(&f.start), to: Some(&f.end), fragment: Some(f) },
        }
    }

    /// The part within `[from, to)`; `None` is unbounded.
    pub fn clip(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let first = from.map_or(0, |from| self.fragments.partition_point(|f| f.end.as_slice() <= from));
        let last = to.map_or(self.fragments.len(), |to| self.fragments.partition_point(|f| f.start.as_slice() < to));
        let mut fragments = self.fragments.get(first..last).unwrap_or_default().to_vec();
        if let (Some(from), Some(f)) = (from, fragments.first_mut())
            && f.start.as_slice() < from
        {
            f.start = from.to_vec();
        }
        if let (Some(to), Some(f)) = (to, fragments.last_mut())
            && f.end.as_slice() > to
        {
            f.end = to.to_vec();
        }
        // A range with `from >= to` inside one fragment.
        fragments.retain(|f| f.start < f.end);
        RangeTombstones { fragments }
    }

    /// A copy whose fragments have only the numbers that `keep` leaves of each (newest first in, newest first out).
    pub fn retain(&self, mut keep: impl FnMut(&[Seq]) -> Vec<Seq>) -> Self {
        let mut set = RangeTombstones::default();
        for f in &self.fragments {
            let seqs = keep(&f.seqs);
            if !seqs.is_empty() {
                set.push(f.start.clone(), f.end.clone(), seqs);
            }
        }
        set
    }

    /// Appends the format (docs/engine/format.md): count, then start, end, seqs of each fragment.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.fragments.len() as u64);
        for f in &self.fragments {
            put_bytes(out, &f.start);
            put_bytes(out, &f.end);
            put_varint(out, f.seqs.len() as u64);
            let mut newer = None;
            for &seq in &f.seqs {
                put_varint(out, newer.map_or(seq, |newer: Seq| newer - seq));
                newer = Some(seq);
            }
        }
    }

    /// Reads the format; `None` if it is damaged (order, lengths, empty ranges, trailing bytes are checked).
    pub fn decode(mut from: Decoder<'_>) -> Option<Self> {
        // A count is at most the bytes that are left, and nothing is reserved for it.
        let count = from.length()?;
        let mut set = RangeTombstones::default();
        for _ in 0..count {
            let (start, end) = (from.prefixed()?, from.prefixed()?);
            let ordered = set.fragments.last().is_none_or(|last| last.end.as_slice() <= start);
            if start >= end || !ordered {
                return None;
            }
            let seqs = decode_seqs(&mut from)?;
            set.push(start.to_vec(), end.to_vec(), seqs);
        }
        (from.is_empty() && set.fragments.len() == count).then_some(set)
    }
}

/// The numbers of one fragment: the newest, then how much smaller each next one is.
fn decode_seqs(from: &mut Decoder<'_>) -> Option<Vec<Seq>> {
    let count = from.length()?;
    let mut seqs: Vec<Seq> = Vec::new();
    for _ in 0..count {
        let number = from.varint()?;
        let seq = match seqs.last() {
            None => number,
            Some(_) if number == 0 => return None,
            Some(newer) => newer.checked_sub(number)?,
        };
        if seq > MAX_SEQ {
            return None;
        }
        seqs.push(seq);
    }
    (!seqs.is_empty()).then_some(seqs)
}

#[cfg(test)]
mod tests;
