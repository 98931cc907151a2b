//! The range tombstones of a memtable, cut into fragments when a reader needs them.
//!
//! Writes append to a list. Readers use *parts* of the list, each cut into fragments once. When a reader finds tombstones that no part has,
//! it makes a part of them, together with those parts at the end of the list that are less than twice as long. So each part is at least
//! twice as long as the next, a reader looks at few of them, and a tombstone is cut again only when its part grows by half or more, however
//! often writes and reads take turns.

use crate::key::{MAX_SEQ, Seq};
use crate::range_del::RangeTombstones;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of one range tombstone beside its keys: its place in the list and its share of the fragments.
const OVERHEAD: usize = 128;

/// Sequence numbers per tombstone up to which all readers share fragments with all numbers: as much memory as [`OVERHEAD`].
const SHARED_NUMBERS: usize = 16;
/// Sequence numbers up to which they do so, however few the tombstones are.
const SHARED_NUMBERS_MIN: usize = 4 << 10;

/// A range tombstone as it was written: first key, first key after it that stays, sequence number.
type RawTombstone = (Vec<u8>, Vec<u8>, Seq);

/// All range tombstones of a memtable.
#[derive(Debug, Default)]
pub(super) struct MemTombstones {
    raw: Mutex<Vec<RawTombstone>>,
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// Parts of the list, from its start; the last tombstones may be in none.
    parts: ArcSwap<Vec<Arc<Part>>>,
}

/// Tombstones that were written one after another, cut into fragments.
#[derive(Debug)]
struct Part {
    /// Indexes in the list.
    from: usize,
    to: usize,
    /// Number of the newest tombstone.
    newest: Seq,
    /// Fragments for all readers, or for those who see all tombstones.
    set: Arc<RangeTombstones>,
    /// Fragments for the last reader that does not see all tombstones, if so many of these lie over each other that readers do not share
    /// fragments with all numbers.
    older: Option<ArcSwap<Older>>,
}

/// Fragments for readers who see the same tombstones, and not all of them.
#[derive(Debug)]
struct Older {
    /// Numbers of the readers that may use them.
    readers: RangeInclusive<Seq>,
    set: Arc<RangeTombstones>,
}

impl Part {
    fn new(raw: &[RawTombstone], from: usize) -> Self {
        let some = &raw[from..];
        let newest = some.iter().map(|tombstone| tombstone.2).max().unwrap_or(0);
        let most = SHARED_NUMBERS_MIN.max(SHARED_NUMBERS * some.len());
        let (set, older) = match RangeTombstones::of_few_numbers(some.iter().cloned(), most) {
            Some(all) => (all, None),
            None => {
                let none = Older { readers: RangeInclusive::new(1, 0), set: Arc::default() };
                (RangeTombstones::seen_at(&[newest], some.iter().cloned()), Some(ArcSwap::from_pointee(none)))
            }
        };
        Part { from, to: raw.len(), newest, set: Arc::new(set), older }
    }

    /// Fragments for a reader at `seq`.
    fn seen_at(&self, seq: Seq, raw: &Mutex<Vec<RawTombstone>>) -> Arc<RangeTombstones> {
        let Some(older) = self.older.as_ref().filter(|_| seq < self.newest) else { return Arc::clone(&self.set) };
        let serves = || {
            let built = older.load();
            built.readers.contains(&seq).then(|| Arc::clone(&built.set))
        };
        if let Some(set) = serves() {
            return set;
        }
        let raw = raw.lock();
        // Another reader may have built them while this one waited.
        if let Some(set) = serves() {
            return set;
        }
        let some = &raw[self.from..self.to];
        let numbers = || some.iter().map(|tombstone| tombstone.2);
        let first = numbers().filter(|number| *number <= seq).max().unwrap_or(0);
        let last = numbers().filter(|number| *number > seq).min().map_or(MAX_SEQ, |next| next - 1);
        let seen = some.iter().filter(|tombstone| tombstone.2 <= seq).cloned();
        let set = Arc::new(RangeTombstones::seen_at(&[seq], seen));
        older.store(Arc::new(Older { readers: first..=last, set: Arc::clone(&set) }));
        set
    }
}

impl MemTombstones {
    /// Number of range tombstones.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds a range tombstone. Its number is larger than those before it.
    pub fn add(&self, from: &[u8], to: &[u8], seq: Seq) {
        let mut raw = self.raw.lock();
        raw.push((from.to_vec(), to.to_vec(), seq));
        self.bytes.fetch_add(from.len() + to.len() + OVERHEAD, Ordering::Relaxed);
        self.count.store(raw.len(), Ordering::Release);
    }

    /// All range tombstones.
    pub fn all(&self) -> Vec<RawTombstone> {
        self.raw.lock().clone()
    }

    /// The number of the newest range tombstone over `key` that a reader at `seq` sees.
    pub fn covering(&self, key: &[u8], seq: Seq) -> Option<Seq> {
        self.parts(seq).iter().filter_map(|part| part.seen_at(seq, &self.raw).covering(key, seq)).max()
    }

    /// The range tombstones that a reader at `seq` sees, in sets.
    pub fn seen_at(&self, seq: Seq) -> Vec<Arc<RangeTombstones>> {
        self.parts(seq).iter().map(|part| part.seen_at(seq, &self.raw)).collect()
    }

    /// Parts with all tombstones that a reader at `seq` sees.
    fn parts(&self, seq: Seq) -> Arc<Vec<Arc<Part>>> {
        let parts = self.parts.load_full();
        let is_enough = |parts: &[Arc<Part>], count| parts.last().is_some_and(|last| last.to >= count || last.newest >= seq);
        if is_enough(&parts, self.len()) {
            return parts;
        }
        let raw = self.raw.lock();
        let mut parts = self.parts.load_full();
        if !raw.is_empty() && !is_enough(&parts, raw.len()) {
            let changed = Arc::make_mut(&mut parts);
            let mut from = changed.last().map_or(0, |last| last.to);
            while let Some(last) = changed.pop_if(|last| last.to - last.from < 2 * (raw.len() - from)) {
                from = last.from;
            }
            changed.push(Arc::new(Part::new(&raw, from)));
            self.parts.store(Arc::clone(&parts));
        }
        parts
    }
}

#[cfg(test)]
mod tests;
