//! Pure descriptions of the tree. Pickers and the manifest work on these; nothing here touches a file.

use crate::key::Seq;
use sinter_storage::store::Temperature;
use std::sync::Arc;

/// A closed range of user keys, or one that is open at its upper end (a range tombstone's end is not included).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key, or the end of the last range tombstone.
    pub largest: Vec<u8>,
    /// `largest` itself is not in the range.
    pub end_exclusive: bool,
}

impl KeyRange {
    /// The closed range.
    pub fn closed(smallest: impl Into<Vec<u8>>, largest: impl Into<Vec<u8>>) -> Self {
        KeyRange { smallest: smallest.into(), largest: largest.into(), end_exclusive: false }
    }

    /// The range ends before `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.largest.as_slice().cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.end_exclusive,
            std::cmp::Ordering::Greater => false,
        }
    }

    /// `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() <= key && !self.ends_before(key)
    }

    /// Both have a key in common.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    /// Grows to cover `other` too.
    pub fn extend(&mut self, other: &KeyRange) {
        if other.smallest < self.smallest {
            self.smallest.clone_from(&other.smallest);
        }
        match other.largest.cmp(&self.largest) {
            std::cmp::Ordering::Greater => {
                self.largest.clone_from(&other.largest);
                self.end_exclusive = other.end_exclusive;
            }
            std::cmp::Ordering::Equal => self.end_exclusive &= other.end_exclusive,
            std::cmp::Ordering::Less => {}
        }
    }
}

/// Facts about a table that are known without opening it. Stored in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableInfo {
    /// File number.
    pub number: u64,
    /// File size, bytes.
    pub bytes: u64,
    /// Checksum of the footer's content: a file of the same name and size that is not this one is found out at open.
    pub identity: u64,
    /// All user keys, range tombstones included.
    pub range: KeyRange,
    /// Oldest sequence number ever in the table's entries (before zeroing).
    pub min_seq: Seq,
    /// Newest sequence number ever in the table's entries (before zeroing).
    pub max_seq: Seq,
    /// Point entries, tombstones included.
    pub entries: u64,
    /// Point tombstones.
    pub tombstones: u64,
    /// Range tombstones (fragments).
    pub range_tombstones: u64,
    /// Merge operands.
    pub merges: u64,
    /// User key and value bytes before compression.
    pub raw_bytes: u64,
    /// Oldest write time of the entries, unix seconds; 0 if unknown.
    pub oldest_time: u64,
    /// Newest write time of the entries, unix seconds; 0 if unknown.
    pub newest_time: u64,
    /// Temperature of the store that holds the table.
    pub temperature: Temperature,
    /// Bytes that hide nothing: when they were written, nothing older lay below for their keys, and nothing ever will.
    pub settled: u64,
    /// Entries with a time of their own; `None`: all are as old as their numbers say.
    pub timed: Option<OwnTimes>,
}

/// Ages of a table's entries if some of them have a time of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnTimes {
    /// Number of entries with a time of their own.
    pub entries: u64,
    /// The oldest and the newest of their times, unix seconds; the first is larger if there are none.
    pub times: (u64, u64),
    /// Oldest and newest number of all other entries; the first is larger if there are none.
    pub others: (Seq, Seq),
}

impl TableInfo {
    /// The table has tombstones or range tombstones.
    pub fn deletes(&self) -> bool {
        self.tombstones > 0 || self.range_tombstones > 0
    }

    /// Oldest and newest number of what is as old as its number.
    pub fn by_number(&self) -> Option<(Seq, Seq)> {
        let seqs = self.timed.map_or((self.min_seq, self.max_seq), |timed| timed.others);
        (seqs.0 <= seqs.1).then_some(seqs)
    }

    /// Oldest and newest time that entries go by, unix seconds.
    pub fn by_time(&self) -> Option<(u64, u64)> {
        self.timed.map(|timed| timed.times).filter(|times| times.0 <= times.1)
    }
}

/// Tables that do not overlap, in key order. Two tables of a run never share a user key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Age order within a level: a larger number is newer data. 0 for a level that is one run by construction (leveled).
    pub number: u64,
    /// Sorted by smallest key.
    pub tables: Vec<Arc<TableInfo>>,
}

impl Run {
    /// Sum of file sizes.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.bytes).sum()
    }

    /// The tables that share a key with `range`: a contiguous piece.
    pub fn overlapping(&self, range: &KeyRange) -> &[Arc<TableInfo>] {
        let from = self.tables.partition_point(|t| t.range.ends_before(&range.smallest));
        let to = self.tables.partition_point(|t| !range.ends_before(&t.range.smallest)).max(from);
        &self.tables[from..to]
    }
}

/// The runs of one level, newest first.
pub type LevelRuns = Vec<Run>;

/// A family's tree: for each level its runs, newest first. Everything on level i is newer than everything on level i+1 for the same
/// key. Immutable; edits make new ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// Index = level. Always `num_levels` long.
    pub levels: Vec<LevelRuns>,
}

impl Version {
    /// An empty tree.
    pub fn empty(num_levels: usize) -> Self {
        Version { levels: vec![Vec::new(); num_levels] }
    }

    /// Sum of file sizes on a level.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |runs| runs.iter().map(Run::bytes).sum())
    }

    /// All tables with their level and run number.
    pub fn tables(&self) -> impl Iterator<Item = (usize, u64, &Arc<TableInfo>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)))
            .flat_map(|(level, run)| run.tables.iter().map(move |t| (level, run.number, t)))
    }

    /// The deepest level that has a table.
    pub fn deepest(&self) -> Option<usize> {
        self.levels.iter().rposition(|runs| !runs.is_empty())
    }
}
