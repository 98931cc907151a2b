//! One memtable of a family: point entries in the ordered memtable, range tombstones beside it.

use crate::cursor::Cursor;
use crate::key::{Kind, Seq};
use crate::manifest::Version;
use crate::memtable::{ChunkPool, LeafHint, Memtable, MemtableWriter};
use crate::range_del::RangeTombstones;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Memory of one range tombstone beside its keys: its place in the list and its share of the fragments.
const TOMBSTONE_OVERHEAD: usize = 128;

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
    /// Fragments of the first `n` raw tombstones. Built when a reader first needs them: writes stay cheap.
    built: ArcSwap<(usize, Arc<RangeTombstones>)>,
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
            built: ArcSwap::from_pointee((0, Arc::default())),
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

    /// The memtable's range tombstones as of now.
    pub fn tombstones(&self) -> Arc<RangeTombstones> {
        let count = self.count.load(Ordering::Acquire);
        let built = self.built.load();
        if built.0 >= count {
            return built.1.clone();
        }
        let raw = self.raw.lock();
        let fresh = Arc::new(RangeTombstones::new(raw.iter().cloned()));
        self.built.store(Arc::new((raw.len(), fresh.clone())));
        fresh
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
        self.tombstone_bytes.fetch_add(from.len() + to.len() + TOMBSTONE_OVERHEAD, Ordering::Relaxed);
        self.count.store(raw.len(), Ordering::Release);
    }
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
