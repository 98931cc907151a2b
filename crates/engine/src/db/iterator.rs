//! Iterators: the merge of all sources of a view, seen at one moment.

use super::family::{Family, FamilyCore};
use super::read::{Moment, ReadOptions};
use super::view::{ReadTables, View};
use super::{Db, Inner, callback};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{Seq, seq_of};
use crate::ledger::Ticker;
use crate::manifest::KeyRange;
use crate::memtable::MemtableCursor;
use crate::merge::Merge;
use crate::run_cursor::RunCursor;
use crate::table::TableCursor;
use crate::tiering::auto_cutoff::heat;
use crate::visible::VisibleCursor;
use std::sync::Arc;

/// A source of a scan. An enum, so that the merge makes no virtual calls.
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Table(TableCursor),
    Run(RunCursor<ReadTables>),
}

macro_rules! forward {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Table($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    fn seek_first(&mut self) -> Result<()> {
        forward!(self, c => c.seek_first())
    }
    fn seek_last(&mut self) -> Result<()> {
        forward!(self, c => c.seek_last())
    }
    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        forward!(self, c => c.seek(key, trailer))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        forward!(self, c => c.seek_before(key))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        forward!(self, c => c.next())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        forward!(self, c => c.prev())
    }
    fn pass(&mut self, to: &[u8], newest: Seq) -> Result<bool> {
        forward!(self, c => c.pass(to, newest))
    }
    #[inline]
    fn valid(&self) -> bool {
        forward!(self, c => c.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        forward!(self, c => c.key())
    }
    #[inline]
    fn trailer(&self) -> u64 {
        forward!(self, c => c.trailer())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        forward!(self, c => c.value())
    }
}

/// Walks the keys of a family as they were when it was made. Keeps memtables and tables of that moment alive: drop it when done.
///
/// As a Rust `Iterator` it yields `Result<(key, value)>` going forward from its position (from the first key, if it was not moved yet).
pub struct DbIterator {
    inner: Arc<Inner>,
    /// The family, in which ages of found versions are counted.
    core: Arc<FamilyCore>,
    cursor: VisibleCursor<Merge<Source>>,
    /// Number of memtables, which are the first sources.
    memtables: usize,
    started: bool,
    /// The current entry was not yet returned by `next`.
    fresh: bool,
    failed: bool,
    /// Steps to the next and to the previous key, counted in the statistics when the iterator is dropped: a shared counter takes as long
    /// as a step.
    steps: [u64; 2],
    /// Reason why the iterator could not be made; returned by the first call.
    broken: Option<Error>,
}

/// The smallest key greater than all keys that start with `prefix`; `None` if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Bounds of a scan: the tighter of the explicit ones and those of the prefix.
fn bounds(options: &ReadOptions) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let Some(prefix) = &options.prefix else { return (options.lower.clone(), options.upper.clone()) };
    let lower = options.lower.clone().filter(|l| l > prefix).unwrap_or_else(|| prefix.clone());
    let upper = match (prefix_end(prefix), options.upper.clone()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    (Some(lower), upper)
}

/// Returns whether a table of `range` can have keys or tombstones within the bounds.
fn meets(range: &KeyRange, lower: Option<&[u8]>, upper: Option<&[u8]>) -> bool {
    !lower.is_some_and(|lower| range.ends_before(lower)) && upper.is_none_or(|upper| range.smallest.as_slice() < upper)
}

/// Sources with keys within the bounds; tables outside are not touched, however damaged they are.
fn sources(view: &View, options: &ReadOptions, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Vec<Source> {
    let runs = view.tree.levels.iter().flatten().map(|run| (run, run.within(lower, upper))).filter(|(_, tables)| !tables.is_empty());
    let mut all = Vec::with_capacity(1 + view.full.len() + view.tree.levels.iter().map(Vec::len).sum::<usize>());
    all.extend(view.mems().filter(|m| !m.points.is_empty()).map(|m| Source::Memtable(m.points.cursor())));
    let options = options.table();
    all.extend(runs.map(|(run, tables)| match &run.tables[tables.clone()] {
        [only] => Source::Table(only.cursor(options)),
        _ => Source::Run(RunCursor::new(ReadTables { run: run.clone(), tables, options })),
    }));
    all
}

impl Db {
    /// Walks the default family. A failure to start comes as the first item (or from the first seek).
    pub fn iter(&self) -> DbIterator {
        self.iter_with(&self.inner.default_family, ReadOptions::default()).unwrap_or_else(|error| DbIterator {
            inner: Arc::clone(&self.inner),
            core: Arc::clone(&self.inner.default_family.core),
            cursor: VisibleCursor::new(Merge::new(Vec::new()), Vec::new(), 0, None, None, None),
            memtables: 0,
            started: false,
            fresh: false,
            failed: false,
            steps: [0; 2],
            broken: Some(error),
        })
    }

    /// Walks a family, within bounds, at a snapshot.
    pub fn iter_with(&self, family: &Family, options: ReadOptions) -> Result<DbIterator> {
        self.inner.check_family(family)?;
        self.inner.statistics.add(Ticker::NumIteratorCreated, 1);
        let view = family.core.view.load_full();
        let moment = self.inner.moment(&family.core, &view, &options)?;
        DbIterator::new(Arc::clone(&self.inner), family, &view, moment, &options)
    }
}

impl DbIterator {
    fn new(inner: Arc<Inner>, family: &Family, view: &View, moment: Moment, options: &ReadOptions) -> Result<Self> {
        let (lower, upper) = bounds(options);
        let (from, to) = (lower.as_deref(), upper.as_deref());
        let mut tombstones = Vec::new();
        view.mems().filter(|m| m.has_tombstones()).for_each(|m| tombstones.extend(m.tombstones(moment.seq)));
        if view.tree.range_tombstones {
            for table in view.tree.tables().filter(|t| t.info().range_tombstones != 0 && meets(&t.info().range, from, to)) {
                tombstones.push(table.range_tombstones()?);
            }
        }
        let sources = sources(view, options, from, to);
        let memtables = sources.iter().take_while(|source| matches!(source, Source::Memtable(_))).count();
        let core = Arc::clone(&family.core);
        let cursor = VisibleCursor::new(Merge::new(sources), tombstones, moment.seq, family.core.merge.clone(), lower, upper);
        let cursor = cursor.with_expiry(moment.expiry).with_patience(options.patience);
        Ok(DbIterator { inner, core, cursor, memtables, started: false, fresh: false, failed: false, steps: [0; 2], broken: None })
    }

    /// Moves the cursor. The iterator counts as failed until `go` has succeeded.
    #[inline(always)]
    fn move_cursor(&mut self, go: impl FnOnce(&mut VisibleCursor<Merge<Source>>) -> Result<()>) -> Result<()> {
        (self.started, self.fresh, self.failed) = (true, true, true);
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        go(&mut self.cursor)?;
        self.failed = false;
        Ok(())
    }

    /// A failed move leaves some sources moved and others not: only a seek puts them in step again.
    #[inline(always)]
    fn step_cursor(&mut self, go: impl FnOnce(&mut VisibleCursor<Merge<Source>>) -> Result<()>) -> Result<()> {
        if self.failed { Ok(()) } else { self.move_cursor(go) }
    }

    fn seek_cursor(&mut self, go: impl FnOnce(&mut VisibleCursor<Merge<Source>>) -> Result<()>) -> Result<()> {
        let nth = self.inner.statistics.count(Ticker::NumberDbSeek);
        self.move_cursor(|cursor| callback::check_readable().and_then(|()| go(cursor)))?;
        // Ages that steps meet are not counted: a scan reads the blocks of all tiers on its way, whatever is in them.
        if heat::is_sampled(nth) {
            self.note_age();
        }
        Ok(())
    }

    /// Counts the age of the current version, if a table has it.
    #[cold]
    fn note_age(&self) {
        if let Some(merge) = self.cursor.inner().filter(|merge| merge.source() >= self.memtables) {
            self.core.placement.heat().read(seq_of(merge.trailer()), self.core.newest());
        }
    }

    /// Moves to the first key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.seek_cursor(VisibleCursor::seek_first)
    }

    /// Moves to the last key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.seek_cursor(VisibleCursor::seek_last)
    }

    /// Moves to the first key `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_cursor(|cursor| cursor.seek(key))
    }

    /// Moves to the last key `<= key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.seek_cursor(|cursor| cursor.seek_for_prev(key))
    }

    /// Moves to the next key; does nothing where the iterator stands on none, as after a move that failed.
    pub fn advance(&mut self) -> Result<()> {
        self.steps[0] += 1;
        self.step_cursor(VisibleCursor::next)
    }

    /// Moves to the previous key; does nothing where the iterator stands on none, as after a move that failed.
    pub fn retreat(&mut self) -> Result<()> {
        self.steps[1] += 1;
        self.step_cursor(VisibleCursor::prev)
    }

    /// Stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        !self.failed && self.cursor.valid()
    }

    /// The current key; empty where the iterator stands on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.cursor.key() } else { b"" }
    }

    /// The dead key at which [`ReadOptions::patience`] ended, from which another iterator can go on. `None`: it has not ended.
    pub fn stopped_at(&self) -> Option<&[u8]> {
        self.cursor.stopped_at().filter(|_| !self.failed)
    }

    /// Number of dead keys (deleted or expired ones) that the iterator has passed over since it was made, in both directions: a reader that
    /// counts them can begin its next walk behind a long row of them. Keys under a range delete over which the iterator seeks do not count.
    pub fn passed(&self) -> u64 {
        self.cursor.passed()
    }

    /// The current value; empty where the iterator stands on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.cursor.value() } else { b"" }
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        let [forward, backward] = self.steps;
        self.inner.statistics.add_all(&[(Ticker::NumberDbNext, forward), (Ticker::NumberDbPrev, backward)]);
    }
}

impl Iterator for DbIterator {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let moved = match (self.started, self.fresh) {
            (false, _) => self.seek_first(),
            (true, true) => Ok(()),
            (true, false) => self.advance(),
        };
        self.fresh = false;
        match moved {
            Err(error) => Some(Err(error)),
            Ok(()) => self.valid().then(|| Ok((self.key().to_vec(), self.value().to_vec()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_outside() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
