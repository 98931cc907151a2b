//! One memtable of a family: point entries in the ordered memtable, range tombstones beside it.

mod tombstones;

use crate::cursor::Cursor;
use crate::key::{Kind, Seq};
use crate::manifest::Version;
use crate::memtable::{ChunkPool, LeafHint, Memtable, MemtableWriter};
use crate::range_del::RangeTombstones;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tombstones::MemTombstones;

/// A memtable with what the engine needs to know of it.
#[derive(Debug)]
pub(crate) struct Mem {
    pub points: Arc<Memtable>,
    /// The oldest log segment that may hold entries of the memtable.
    pub log: u64,
    /// Unix seconds when it was created: its entries are not older.
    pub created: u64,
    tombstones: MemTombstones,
    /// Some entry deletes.
    deletes: AtomicBool,
}

impl Mem {
    pub fn new(pool: &Arc<ChunkPool>, log: u64, created: u64) -> Arc<Self> {
        Arc::new(Mem {
            points: Memtable::new(pool.clone()),
            log,
            created,
            tombstones: MemTombstones::default(),
            deletes: AtomicBool::new(false),
        })
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.points.memory() + self.tombstones.memory()
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && !self.has_tombstones()
    }

    /// Entries and range tombstones.
    pub fn len(&self) -> u64 {
        self.points.len() + self.tombstones.len() as u64
    }

    /// Some entry deletes: hidden data can be dropped once the memtable is in a table.
    pub fn deletes(&self) -> bool {
        self.deletes.load(Ordering::Relaxed)
    }

    pub fn has_tombstones(&self) -> bool {
        self.tombstones.len() != 0
    }

    /// The range tombstones that a reader at `seq` sees, in sets.
    pub fn tombstones(&self, seq: Seq) -> Vec<Arc<RangeTombstones>> {
        self.tombstones.seen_at(seq)
    }

    /// The number of the newest range tombstone over `key` that a reader at `seq` sees.
    pub fn covering(&self, key: &[u8], seq: Seq) -> Option<Seq> {
        self.tombstones.covering(key, seq)
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
}

/// The range tombstones of memtables, for readers at snapshots (ascending) and after the last of them.
pub(super) fn tombstones_seen_at(mems: &[Arc<Mem>], snapshots: &[Seq]) -> RangeTombstones {
    let mems = mems.iter().filter(|mem| mem.has_tombstones());
    RangeTombstones::seen_at(snapshots, mems.flat_map(|mem| mem.tombstones.all()))
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
                    self.mem.tombstones.add(key, value, seq);
                }
                return;
            }
        }
        self.points.insert_at(place, key, seq, kind, value);
    }
}
