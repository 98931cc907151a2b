//! Cuts the entries that a merge writes into tables.
//!
//! A table ends before a new user key (never between versions of one) when it is large enough, when it would overlap too many bytes of
//! the level below the output (its later merge would be expensive), or, once it is half full, where a table of that level ends: tables
//! whose ends meet are merged without rewriting neighbours that share only an edge (RocksDB 7.8, `level_compaction_dynamic_file_size`,
//! 12 % fewer bytes written).
//!
//! Range tombstones are cut at the boundaries between tables. Each table gets the part from the end of the table before it to the first key
//! of the table behind it, so that the tables together cover exactly the ranges of the tombstones, even where there are no entries.

use super::collapse::Sink;
use crate::error::{Error, Result};
use crate::key::{Seq, compare, own_time};
use crate::manifest::TableInfo;
use crate::range_del::RangeTombstones;
use std::cmp::Ordering;
use std::sync::Arc;

/// Writes one table.
pub trait TableSink {
    /// The description of a finished table.
    type Done;
    /// Adds an entry; see [`Sink::add`]. `own_time`: the entry's own time, if its age is not that of its number.
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, own_time: Option<u64>) -> Result<()>;
    /// Size so far, bytes.
    fn bytes(&self) -> u64;
    /// Completes the table.
    fn finish(self, tombstones: &RangeTombstones) -> Result<Self::Done>;
}

/// Starts tables.
pub trait TableFactory {
    /// Writer of one table.
    type Table: TableSink;
    /// Starts a table whose smallest key is `first`.
    fn start(&mut self, first: &[u8]) -> Result<Self::Table>;
}

/// Limits at which a table ends.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Size at which a table ends, bytes.
    pub table_bytes: u64,
    /// Bytes of `grandparents` that one table may overlap.
    pub overlap_bytes: u64,
    /// Tables of the level below the output, in key order.
    pub grandparents: &'a [Arc<TableInfo>],
    /// Keys at which new tables begin in any case, ascending.
    pub starts: &'a [Vec<u8>],
}

/// The output of one merge (or of one key range of it): several tables, one after the other.
pub struct Output<'a, F: TableFactory> {
    factory: F,
    limits: Limits<'a>,
    /// Tombstones to be written, within the key range of this output.
    tombstones: RangeTombstones,
    open: Option<F::Table>,
    /// First key behind the last finished table; `None`: no table is finished.
    boundary: Option<Vec<u8>>,
    /// Grandparents that do not end before the current key.
    ahead: &'a [Arc<TableInfo>],
    /// The first of `ahead` is counted in `overlap`.
    counted: bool,
    /// Bytes of grandparents that the open table overlaps.
    overlap: u64,
    last_key: Vec<u8>,
    last_trailer: u64,
    done: Vec<<F::Table as TableSink>::Done>,
}

impl<'a, F: TableFactory> Output<'a, F> {
    /// `tombstones`: the range tombstones to be written, clipped to the key range of this output.
    pub fn new(factory: F, limits: Limits<'a>, tombstones: RangeTombstones) -> Self {
        Output {
            factory,
            tombstones,
            open: None,
            boundary: None,
            ahead: limits.grandparents,
            limits,
            counted: false,
            overlap: 0,
            last_key: Vec::new(),
            last_trailer: 0,
            done: Vec::new(),
        }
    }

    /// Moves past the grandparents that end before `key`. Returns whether the open table should end before `key`.
    fn should_cut(&mut self, key: &[u8]) -> bool {
        let (mut passed, mut begins) = (false, false);
        while let Some((start, rest)) = self.limits.starts.split_first()
            && start.as_slice() <= key
        {
            (self.limits.starts, begins) = (rest, true);
        }
        while let Some((first, rest)) = self.ahead.split_first()
            && first.range.ends_before(key)
        {
            // A grandparent between two keys of the open table counts, too, because the table's range spans it.
            if !self.counted {
                self.overlap += first.bytes;
            }
            (self.ahead, self.counted, passed) = (rest, false, true);
        }
        let mut entered = 0;
        if !self.counted
            && let Some(first) = self.ahead.first()
            && first.range.contains(key)
        {
            (self.counted, entered) = (true, first.bytes);
        }
        let bytes = self.open.as_ref().map_or(0, TableSink::bytes);
        let overlap = self.overlap.saturating_add(entered);
        let cut = self.open.is_some()
            && (begins
                || bytes >= self.limits.table_bytes
                || ((passed || entered > 0) && (overlap > self.limits.overlap_bytes || bytes >= self.limits.table_bytes / 2)));
        self.overlap = match self.open {
            Some(_) if !cut => overlap,
            // A new table overlaps only the grandparent that its first key lies in.
            _ if self.counted => self.ahead.first().map_or(0, |first| first.bytes),
            _ => 0,
        };
        cut
    }

    /// Ends the open table before `key`, the first of the next one.
    #[cold]
    fn cut(&mut self, key: &[u8]) -> Result<()> {
        if let Some(table) = self.open.take() {
            self.done.push(table.finish(&self.tombstones.clip(self.boundary.as_deref(), Some(key)))?);
            self.boundary = Some(key.to_vec());
        }
        Ok(())
    }

    /// Ends the last table; starts one if only tombstones are left to write.
    pub fn finish(mut self) -> Result<Vec<<F::Table as TableSink>::Done>> {
        let rest = self.tombstones.clip(self.boundary.as_deref(), None);
        let table = match (self.open.take(), rest.fragments().first()) {
            (Some(table), _) => table,
            (None, Some(first)) => self.factory.start(&first.start)?,
            (None, None) => return Ok(self.done),
        };
        self.done.push(table.finish(&rest)?);
        Ok(self.done)
    }

    /// The smallest key of a table that begins with the entry `key`.
    fn smallest<'k>(&'k self, key: &'k [u8]) -> &'k [u8] {
        match (&self.boundary, self.tombstones.fragments().first()) {
            (None, Some(first)) => first.start.as_slice().min(key),
            _ => key,
        }
    }
}

impl<F: TableFactory> Output<'_, F> {
    /// [`Sink::add`] of an entry whose age is `own_time`, or else that of its number.
    #[inline]
    pub fn put(
        &mut self,
        key: &[u8],
        trailer: u64,
        value: &[u8],
        (original_seq, own_time): (Seq, Option<u64>),
        first_of_key: bool,
    ) -> Result<()> {
        let started = self.open.is_some() || self.boundary.is_some();
        // Readers take entries out of order for damage, so an error here keeps a bug from writing a table that looks damaged.
        if started && compare(&self.last_key, self.last_trailer, key, trailer) != Ordering::Less {
            return Err(Error::corrupt("compaction output", 0, format!("entries out of order at key '{}'", key.escape_ascii())));
        }
        if first_of_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            if self.should_cut(key) {
                self.cut(key)?;
            }
        }
        self.last_trailer = trailer;
        let table = match &mut self.open {
            Some(table) => table,
            None => {
                let first = self.smallest(key).to_vec();
                let table = self.factory.start(&first)?;
                self.open.insert(table)
            }
        };
        table.add(key, trailer, value, original_seq, own_time)
    }
}

impl<F: TableFactory> Sink for Output<'_, F> {
    #[inline]
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, first_of_key: bool) -> Result<()> {
        self.put(key, trailer, value, (original_seq, own_time(trailer, value)), first_of_key)
    }
}

#[cfg(test)]
mod tests;
