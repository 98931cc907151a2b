//! Views: memtables and open tables of a family at one moment, immutable behind one `Arc`. Readers load a view without a lock and without
//! touching a shared counter.

use super::media::Media;
use super::mem::Mem;
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::key::{self, Seq};
use crate::manifest::{KeyRange, TableInfo, Version};
use crate::range_del::{Fragment, RangeTombstones};
use crate::run_cursor::TableSource;
use crate::table::{ReadOptions, ReadTimes, Table, TableCursor};
use sinter_storage::store::FileId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Most numbers in the pieces of range tombstones for which these are searched for tables that they hide as a whole.
const HIDING_MOST: usize = 1024;

/// One run with its tables open.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub tables: Vec<Arc<Table>>,
    /// `key::prefix` of each table's largest key, together in memory: finding the table of a key touches few cache lines.
    largest: Vec<u64>,
}

impl OpenRun {
    fn new(tables: Vec<Arc<Table>>) -> Self {
        let largest = tables.iter().map(|t| key::prefix(&t.info().range.largest)).collect();
        OpenRun { tables, largest }
    }

    /// The only table that can hold `key`.
    #[inline]
    pub fn table_for(&self, user_key: &[u8], prefix: u64) -> Option<&Arc<Table>> {
        if let [only] = self.tables.as_slice() {
            return only.info().range.contains(user_key).then_some(only);
        }
        let mut at = self.largest.partition_point(|l| *l < prefix);
        // Equal prefixes say nothing: compare whole keys.
        while self.largest.get(at) == Some(&prefix) && self.tables[at].info().range.ends_before(user_key) {
            at += 1;
        }
        self.tables.get(at).filter(|t| t.info().range.smallest.as_slice() <= user_key)
    }

    /// The tables that can have keys within the bounds (lower included, upper excluded).
    pub fn within(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Range<usize> {
        let from = lower.map_or(0, |lower| self.tables.partition_point(|t| t.info().range.ends_before(lower)));
        let to = upper.map_or(self.tables.len(), |upper| self.tables.partition_point(|t| t.info().range.smallest.as_slice() < upper));
        from..to.max(from)
    }
}

/// Tables of a run for a [`crate::run_cursor::RunCursor`] of user reads.
pub(crate) struct ReadTables {
    pub run: Arc<OpenRun>,
    /// Indexes of the tables to read.
    pub tables: Range<usize>,
    pub options: ReadOptions,
}

impl TableSource for ReadTables {
    type Cursor = TableCursor;

    fn len(&self) -> usize {
        self.tables.len()
    }

    fn range(&self, index: usize) -> &KeyRange {
        &self.run.tables[self.tables.start + index].info().range
    }

    fn open(&self, index: usize) -> Result<TableCursor> {
        Ok(self.run.tables[self.tables.start + index].cursor(self.options))
    }
}

/// A version with its tables open.
#[derive(Debug)]
pub(crate) struct OpenTree {
    pub version: Arc<Version>,
    /// Runs of each level, newest first, as in the version.
    pub levels: Vec<Vec<Arc<OpenRun>>>,
    tables: HashMap<u64, Arc<Table>>,
    /// Some table has range tombstones.
    pub range_tombstones: bool,
    /// Tables of which nothing can be seen since a number, because range tombstones of others cover all of them.
    pub hidden: HashMap<u64, Seq>,
    /// The newest number that an entry with number 0 may once have had.
    pub zeroed_seq: Seq,
}

/// Opens the tables of a tree.
pub(crate) struct TableOpener<'a> {
    pub media: &'a Media,
    pub db: DbId,
    pub cache: &'a Arc<Cache>,
    /// Times of reads, which tables note.
    pub times: &'a Arc<ReadTimes>,
    /// A damaged or missing table is no error before it is read ([`Table::broken`]). Only for handles that never write: a
    /// compaction must not take such a tree for the whole.
    pub tolerant: bool,
    /// Tables that were opened before, by callers that did not want to do it here.
    pub opened: &'a [Arc<Table>],
}

impl TableOpener<'_> {
    pub fn open(&self, info: &Arc<TableInfo>) -> Result<Arc<Table>> {
        if let Some(table) = self.opened.iter().find(|table| table.info().number == info.number) {
            return Ok(Arc::clone(table));
        }
        let opened = Table::open(&*self.media.store, self.db, info.clone(), self.cache).map_err(|error| match error {
            // A table that the manifest names and the store does not have is damage, not a failure of the medium.
            Error::Io(reason) if reason.is_not_found() => Error::corrupt(FileId::table(info.number), 0, "the table is missing"),
            error => error,
        });
        match opened {
            Err(error @ Error::Corrupt { .. }) if self.tolerant => Ok(Table::broken(self.db, info.clone(), self.cache, error)),
            Ok(table) => {
                // Now, so that nobody waits for it under a lock. Damage is told to readers.
                let _ = table.range_tombstones();
                self.media.latencies(info.number).into_iter().for_each(|latencies| table.set_latencies(latencies));
                Ok(table)
            }
            opened => opened,
        }
    }
}

impl OpenTree {
    /// Opens the tables of `version`, taking over those that `old` has open.
    pub fn open(version: Arc<Version>, old: Option<&OpenTree>, opener: &TableOpener<'_>) -> Result<OpenTree> {
        let mut tables = HashMap::new();
        let mut levels = Vec::with_capacity(version.levels.len());
        for (level, runs) in version.levels.iter().enumerate() {
            let mut open_runs = Vec::with_capacity(runs.len());
            for run in runs {
                let mut open = Vec::with_capacity(run.tables.len());
                for info in &run.tables {
                    let table = match old.and_then(|t| t.tables.get(&info.number)) {
                        Some(table) => table.clone(),
                        None => opener.open(info)?,
                    };
                    table.set_last_level(level + 1 == version.levels.len());
                    table.set_read_times(opener.times);
                    tables.insert(info.number, table.clone());
                    open.push(table);
                }
                open_runs.push(Arc::new(OpenRun::new(open)));
            }
            levels.push(open_runs);
        }
        Ok(OpenTree::from_parts(version, levels, tables))
    }

    /// A tree of tables that are open.
    pub fn from_parts(version: Arc<Version>, levels: Vec<Vec<Arc<OpenRun>>>, tables: HashMap<u64, Arc<Table>>) -> OpenTree {
        let range_tombstones = tables.values().any(|t| t.info().range_tombstones != 0);
        let hidden = if range_tombstones { hidden(&tables) } else { HashMap::new() };
        let zeroed_seq = tables.values().map(|table| table.zeroed_seq()).max().unwrap_or(0);
        OpenTree { version, levels, tables, range_tombstones, hidden, zeroed_seq }
    }

    /// An open table.
    pub fn table(&self, number: u64) -> Option<&Arc<Table>> {
        self.tables.get(&number)
    }

    /// All open tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Tables of this tree that are not in `next`.
    pub fn gone(&self, next: &OpenTree) -> Vec<Arc<Table>> {
        self.tables.iter().filter(|(number, _)| !next.tables.contains_key(number)).map(|(_, t)| t.clone()).collect()
    }

    /// Sum of the sizes of all tables.
    pub fn bytes(&self) -> u64 {
        self.version.tables().map(|(_, _, t): (_, _, &Arc<TableInfo>)| t.bytes).sum()
    }
}

/// See [`OpenTree::hidden`]: one tombstone over everything does away with all tables without a byte written (Pebble's delete-only
/// compactions). Where tombstones are many and small, merges find what they hide.
fn hidden(tables: &HashMap<u64, Arc<Table>>) -> HashMap<u64, Seq> {
    let sets = || tables.values().filter_map(|table| table.known_tombstones());
    if sets().flat_map(RangeTombstones::fragments).map(|fragment| fragment.seqs.len()).sum::<usize>() > HIDING_MOST {
        return HashMap::new();
    }
    let all = RangeTombstones::union(sets());
    let hides = |table: &Arc<Table>| {
        let info = table.info();
        Some((info.number, hidden_since(all.fragments(), &info.range, info.max_seq)?))
    };
    tables.values().filter_map(hides).collect()
}

/// The number from which on nothing is seen of a range in which no entry is newer than `newest`.
fn hidden_since(fragments: &[Fragment], range: &KeyRange, newest: Seq) -> Option<Seq> {
    let first = fragments.partition_point(|fragment| fragment.end <= range.smallest);
    let (mut reached, mut since) = (&range.smallest, 0);
    for fragment in &fragments[first..] {
        if fragment.start > *reached {
            return None;
        }
        since = since.max(fragment.seqs.iter().copied().filter(|seq| *seq > newest).min()?);
        reached = &fragment.end;
        if range.ends_before(reached) {
            return Some(since);
        }
    }
    None
}

/// State of a family at one moment, as readers see it.
#[derive(Debug)]
pub(crate) struct View {
    /// The memtable that is being written.
    pub mem: Arc<Mem>,
    /// Full memtables waiting for their flush, newest first.
    pub full: Vec<Arc<Mem>>,
    pub tree: Arc<OpenTree>,
}

impl View {
    /// Memtables, newest first.
    pub fn mems(&self) -> impl Iterator<Item = &Arc<Mem>> {
        std::iter::once(&self.mem).chain(&self.full)
    }
}
