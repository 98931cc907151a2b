//! One memtable of a family: point entries in the ordered memtable, range tombstones beside it.

use crate::cursor::Cursor;
use crate::key::{Kind, MAX_SEQ, Seq};
use crate::manifest::Version;
use crate::memtable::{ChunkPool, LeafHint, Memtable, MemtableWriter};
use crate::range_del::RangeTombstones;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Memory of one range tombstone beside its keys: its place in the list and its share of the fragments.
const TOMBSTONE_OVERHEAD: usize = 128;

/// Sequence numbers per tombstone up to which all readers share fragments with all numbers: as much memory as [`TOMBSTONE_OVERHEAD`].
const SHARED_NUMBERS: usize = 16;
/// Sequence numbers up to which they do so, however few the tombstones are.
const SHARED_NUMBERS_MIN: usize = 4 << 10;

/// A range tombstone as it was written: first key, first key after it that stays, sequence number.
type RawTombstone = (Vec<u8>, Vec<u8>, Seq);

/// A memtable with what the engine needs to know of it.
#[derive(Debug)]
pub(crate) struct Mem {
    pub points: Arc<Memtable>,
    /// The oldest log segment that may hold entries of the memtable.
    pub log: u64,
    /// Unix seconds when it was created: its entries are not older.
    pub created: u64,
    raw: Mutex<Vec<RawTombstone>>,
    count: AtomicUsize,
    tombstone_bytes: AtomicUsize,
    /// Some entry deletes.
    deletes: AtomicBool,
    /// The number of the newest range tombstone.
    newest_tombstone: AtomicU64,
    /// So many range tombstones lie over each other that readers no longer share fragments with all numbers.
    is_deep: AtomicBool,
    /// Fragments for readers that see all range tombstones, or for all readers. Built when a reader first needs them: writes stay cheap.
    built: ArcSwap<Fragments>,
    /// Fragments for the last reader at an older snapshot, while `is_deep`.
    built_older: ArcSwap<Fragments>,
}

/// Fragments of range tombstones, and which readers may use them.
#[derive(Debug)]
struct Fragments {
    /// Number of tombstones, the first of the memtable, that they are made of.
    count: usize,
    /// Numbers of the readers that may use them.
    readers: RangeInclusive<Seq>,
    set: Arc<RangeTombstones>,
}

impl Fragments {
    fn none() -> Self {
        Fragments { count: 0, readers: 0..=MAX_SEQ, set: Arc::default() }
    }

    /// Returns whether a reader at `seq` of a memtable with `count` tombstones may use them. Later tombstones have larger numbers, so that
    /// fragments for readers before some tombstone stay right.
    fn serves(&self, seq: Seq, count: usize) -> bool {
        self.readers.contains(&seq) && (self.count >= count || *self.readers.end() < MAX_SEQ)
    }
}

impl Mem {
    pub fn new(pool: &Arc<ChunkPool>, log: u64, created: u64) -> Arc<Self> {
        Arc::new(Mem {
            points: Memtable::new(pool.clone()),
            log,
            created,
            raw: Mutex::default(),
            count: AtomicUsize::new(0),
            tombstone_bytes: AtomicUsize::new(0),
            deletes: AtomicBool::new(false),
            newest_tombstone: AtomicU64::new(0),
            is_deep: AtomicBool::new(false),
            built: ArcSwap::from_pointee(Fragments::none()),
            built_older: ArcSwap::from_pointee(Fragments::none()),
        })
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.points.memory() + self.tombstone_bytes.load(Ordering::Relaxed)
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.count.load(Ordering::Acquire) == 0
    }

    /// Entries and range tombstones.
    pub fn len(&self) -> u64 {
        self.points.len() + self.count.load(Ordering::Acquire) as u64
    }

    /// Some entry deletes: hidden data can be dropped once the memtable is in a table.
    pub fn deletes(&self) -> bool {
        self.deletes.load(Ordering::Relaxed)
    }

    pub fn has_tombstones(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    /// The memtable's range tombstones as of now, for a reader at `seq`.
    pub fn tombstones(&self, seq: Seq) -> Arc<RangeTombstones> {
        let count = self.count.load(Ordering::Acquire);
        let is_older = self.is_deep.load(Ordering::Relaxed) && seq < self.newest_tombstone.load(Ordering::Relaxed);
        let slot = if is_older { &self.built_older } else { &self.built };
        let built = slot.load();
        if built.serves(seq, count) {
            return built.set.clone();
        }
        drop(built);
        let raw = self.raw.lock();
        // Another reader may have built them while this one waited.
        let built = slot.load();
        if built.serves(seq, raw.len()) {
            return built.set.clone();
        }
        let fresh = Arc::new(self.build(&raw, seq));
        slot.store(fresh.clone());
        fresh.set.clone()
    }

    /// Fragments for a reader at `seq`, and for others if possible.
    fn build(&self, raw: &[RawTombstone], seq: Seq) -> Fragments {
        let count = raw.len();
        if !self.is_deep.load(Ordering::Relaxed) {
            let most = SHARED_NUMBERS_MIN.max(SHARED_NUMBERS * count);
            if let Some(all) = RangeTombstones::of_few_numbers(raw.iter().cloned(), most) {
                return Fragments { count, readers: 0..=MAX_SEQ, set: Arc::new(all) };
            }
            self.is_deep.store(true, Ordering::Relaxed);
        }
        let numbers = || raw.iter().map(|tombstone| tombstone.2);
        let first = numbers().filter(|number| *number <= seq).max().unwrap_or(0);
        let last = numbers().filter(|number| *number > seq).min().map_or(MAX_SEQ, |next| next - 1);
        let seen = raw.iter().filter(|tombstone| tombstone.2 <= seq).cloned();
        Fragments { count, readers: first..=last, set: Arc::new(RangeTombstones::seen_at(&[seq], seen)) }
    }

    /// The first key after all point entries; empty if there are none.
    pub fn behind_points(&self) -> Vec<u8> {
        let mut cursor = self.points.cursor();
        // A cursor over memory does not fail.
        if cursor.seek_last().is_err() || !cursor.valid() {
            return Vec::new();
        }
        successor(cursor.key())
    }

    fn add_tombstone(&self, from: &[u8], to: &[u8], seq: Seq) {
        let mut raw = self.raw.lock();
        raw.push((from.to_vec(), to.to_vec(), seq));
        self.newest_tombstone.fetch_max(seq, Ordering::Relaxed);
        self.tombstone_bytes.fetch_add(from.len() + to.len() + TOMBSTONE_OVERHEAD, Ordering::Relaxed);
        self.count.store(raw.len(), Ordering::Release);
    }
}

/// The range tombstones of memtables, for readers at snapshots (ascending) and after the last of them.
pub(super) fn tombstones_seen_at(mems: &[Arc<Mem>], snapshots: &[Seq]) -> RangeTombstones {
    let mems = mems.iter().filter(|mem| mem.has_tombstones());
    RangeTombstones::seen_at(snapshots, mems.flat_map(|mem| mem.raw.lock().clone()))
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first key after all point entries in a tree; empty if there are none.
pub(super) fn behind_tables(version: &Version) -> Vec<u8> {
    let last = version.levels.iter().flatten().filter_map(|run| run.tables.last()).map(|table| &table.range);
    let ends = last.map(|range| if range.end_exclusive { range.largest.clone() } else { successor(&range.largest) });
    ends.max().unwrap_or_default()
}

/// The right to write to a [`Mem`]; the leader of the write queue has it.
#[derive(Debug)]
pub(crate) struct MemWriter {
    pub mem: Arc<Mem>,
    pub points: MemtableWriter,
}

impl MemWriter {
    pub fn new(mem: Arc<Mem>) -> Self {
        MemWriter { points: mem.points.writer(), mem }
    }

    /// Adds one operation that is not [`Kind::RangeDeleteFrom`].
    pub fn insert(&mut self, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        self.insert_at(None, key, seq, kind, value);
    }

    /// Like [`MemWriter::insert`], at the place that `points` has given for the key if there is one.
    #[inline]
    pub fn insert_at(&mut self, place: Option<LeafHint>, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        if kind.deletes() {
            self.mem.deletes.store(true, Ordering::Relaxed);
            if kind.is_range() {
                // An empty range deletes nothing; it only uses up its number. So does an inverted one, which an old log may have.
                if key < value {
                    self.mem.add_tombstone(key, value, seq);
                }
                return;
            }
        }
        self.points.insert_at(place, key, seq, kind, value);
    }
}

#[cfg(test)]
mod tests;
