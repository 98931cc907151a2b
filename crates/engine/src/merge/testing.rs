//! A cursor over a plain list and a generator of histories, for tests of everything that walks cursors.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{Kind, Seq, compare, put_timed, trailer};
use std::cmp::Ordering;
use std::sync::Arc;

/// Key, trailer, value.
pub type Entry = (Vec<u8>, u64, Vec<u8>);

/// Start, end, sequence number of a range tombstone.
pub type Range = (Vec<u8>, Vec<u8>, Seq);

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Keys that share prefixes, are prefixes of each other, are empty, or are runs of 0xff.
    pub fn key(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => vec![0xff; self.below(11) as usize],
            1 => vec![0; self.below(11) as usize],
            2..5 => format!("shared-prefix-{}", self.below(6)).into_bytes(),
            5 => b"shared-prefix-"[..self.below(15) as usize].to_vec(),
            _ => vec![b'a' + self.below(12) as u8],
        }
    }
}

/// Walks a sorted list. The `fail_at`-th move from now fails.
#[derive(Clone)]
pub struct VecCursor {
    entries: Arc<Vec<Entry>>,
    at: Option<usize>,
    pub fail_at: Option<u64>,
}

impl VecCursor {
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(order);
        VecCursor { entries: Arc::new(entries), at: None, fail_at: None }
    }

    fn to(&mut self, at: Option<usize>) -> Result<()> {
        self.at = None;
        if let Some(n) = &mut self.fail_at {
            if *n == 0 {
                return Err(Error::corrupt("test", 0, "told to fail"));
            }
            *n -= 1;
        }
        self.at = at.filter(|&i| i < self.entries.len());
        Ok(())
    }

    fn here(&self) -> &Entry {
        &self.entries[self.at.expect("only on a valid cursor")]
    }
}

/// The order of entries.
pub fn order(a: &Entry, b: &Entry) -> Ordering {
    compare(&a.0, a.1, &b.0, b.1)
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.to(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.to(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        self.to(Some(self.entries.partition_point(|e| compare(&e.0, e.1, key, trailer) == Ordering::Less)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.to(self.entries.partition_point(|e| e.0.as_slice() < key).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.to(Some(self.at.expect("only on a valid cursor") + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.to(self.at.expect("only on a valid cursor").checked_sub(1))
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.here().0
    }
    fn trailer(&self) -> u64 {
        self.here().1
    }
    fn value(&self) -> &[u8] {
        &self.here().2
    }
}

/// A merge operator that appends; refuses operands that hold `!`, and folds without a base only if `partial`.
pub struct Append {
    pub partial: bool,
}

impl crate::operator::MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }
    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = operands.concat();
        (!all.contains(&b'!')).then(|| [base.unwrap_or(b"-"), &all].concat())
    }
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.partial.then(|| operands.concat())
    }
}

/// Writes in commit order, number `i` has sequence number `i + 1`.
#[derive(Debug, Clone)]
pub enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// A random history.
pub fn history(rng: &mut Rng, writes: u64, merges: bool, ranges: bool) -> Vec<Write> {
    (0..writes)
        .map(|i| match rng.below(12) {
            0..2 => Write::Delete(rng.key()),
            2..6 if merges => Write::Merge(rng.key(), format!("+{i}").into_bytes()),
            6 if ranges => Write::DeleteRange(rng.key(), rng.key()),
            _ => Write::Put(rng.key(), format!("v{i}").into_bytes()),
        })
        .collect()
}

/// The time of its own that a put of this number has: every third has one, 5 to 255.
pub fn time_of(seq: Seq) -> Option<u64> {
    seq.is_multiple_of(3).then_some(5 + seq * 7919 % 251)
}

/// The point entries and range tombstones of the writes `from..to` of a history.
pub fn entries(history: &[Write], from: usize, to: usize) -> (Vec<Entry>, Vec<Range>) {
    let (mut points, mut ranges) = (Vec::new(), Vec::new());
    for (i, write) in history.iter().enumerate().take(to).skip(from) {
        let seq = i as Seq + 1;
        match write.clone() {
            Write::Put(k, v) => points.push(match time_of(seq) {
                Some(time) => {
                    let mut stored = Vec::new();
                    put_timed(&mut stored, time, &v);
                    (k, trailer(seq, Kind::TimedValue), stored)
                }
                None => (k, trailer(seq, Kind::Value), v),
            }),
            Write::Delete(k) => points.push((k, trailer(seq, Kind::Delete), Vec::new())),
            Write::Merge(k, v) => points.push((k, trailer(seq, Kind::Merge), v)),
            Write::DeleteRange(a, b) => ranges.push((a, b, seq)),
        }
    }
    (points, ranges)
}

/// The map that a reader at `snapshot` sees: the history replayed.
pub fn replay(history: &[Write], snapshot: Seq) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    let mut map = std::collections::BTreeMap::new();
    for write in history.iter().take(snapshot as usize) {
        match write.clone() {
            Write::Put(k, v) => drop(map.insert(k, v)),
            Write::Delete(k) => drop(map.remove(&k)),
            Write::Merge(k, v) => map.entry(k).or_insert_with(|| b"-".to_vec()).extend(v),
            Write::DeleteRange(a, b) => map.retain(|k, _| *k < a || *k >= b),
        }
    }
    map
}
