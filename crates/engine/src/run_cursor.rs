//! A cursor over a run: sorted tables that share no key, opened when the walk reaches them.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::Seq;
use crate::manifest::KeyRange;

/// The tables of a run, in key order.
pub trait TableSource {
    /// Cursor over one table.
    type Cursor: Cursor;
    /// Number of tables.
    fn len(&self) -> usize;
    /// No tables.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The keys of table `i`, range tombstones included.
    fn range(&self, i: usize) -> &KeyRange;
    /// A cursor of table `i`, standing nowhere.
    fn open(&self, i: usize) -> Result<Self::Cursor>;
}

/// The tables of a run as one cursor. At most one table is open; a table without point entries (range tombstones only) is passed by.
pub struct RunCursor<S: TableSource> {
    source: S,
    /// The open table.
    at: usize,
    cursor: Option<S::Cursor>,
}

impl<S: TableSource> RunCursor<S> {
    /// Stands nowhere; opens nothing yet.
    pub fn new(source: S) -> Self {
        RunCursor { source, at: 0, cursor: None }
    }

    /// Opens table `i`, if it is not the open one, and moves in it. Past either end the cursor stands nowhere.
    fn enter(&mut self, i: usize, place: impl FnOnce(&mut S::Cursor) -> Result<()>) -> Result<()> {
        let cursor = match self.cursor.take() {
            Some(cursor) if self.at == i => cursor,
            _ if i < self.source.len() => self.source.open(i)?,
            _ => return Ok(()),
        };
        self.at = i;
        // An error drops the table's cursor: this one then stands nowhere too.
        place(self.cursor.insert(cursor)).inspect_err(|_| self.cursor = None)
    }

    /// From the end of a table to the next entry in a later one.
    fn forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|c| !c.valid()) {
            self.enter(self.at + 1, S::Cursor::seek_first)?;
        }
        Ok(())
    }

    /// From the beginning of a table to the last entry in an earlier one.
    fn backward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|c| !c.valid()) {
            let before = self.at.checked_sub(1).unwrap_or(self.source.len());
            self.enter(before, S::Cursor::seek_last)?;
        }
        Ok(())
    }

    /// The first table for which `before` is false.
    fn search(&self, before: impl Fn(&KeyRange) -> bool) -> usize {
        let (mut from, mut to) = (0, self.source.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if before(self.source.range(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

impl<S: TableSource> Cursor for RunCursor<S> {
    fn seek_first(&mut self) -> Result<()> {
        self.enter(0, S::Cursor::seek_first)?;
        self.forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        // An empty run has no last table; table 0 of none is past the end.
        self.enter(self.source.len().saturating_sub(1), S::Cursor::seek_last)?;
        self.backward()
    }

    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        let i = self.search(|range| range.ends_before(key));
        self.enter(i, |cursor| cursor.seek(key, trailer))?;
        self.forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.search(|range| range.smallest.as_slice() < key);
        self.enter(after.checked_sub(1).unwrap_or(self.source.len()), |cursor| cursor.seek_before(key))?;
        self.backward()
    }

    #[inline]
    fn pass(&mut self, to: &[u8], newest: Seq) -> Result<bool> {
        let mut has_moved = false;
        while let Some(cursor) = &mut self.cursor
            && cursor.valid()
            && cursor.pass(to, newest).inspect_err(|_| self.cursor = None)?
        {
            has_moved = true;
            self.forward()?;
        }
        Ok(has_moved)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if let Err(error) = cursor.next() {
            self.cursor = None;
            return Err(error);
        }
        if cursor.valid() { Ok(()) } else { self.forward() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if let Err(error) = cursor.prev() {
            self.cursor = None;
            return Err(error);
        }
        if cursor.valid() { Ok(()) } else { self.backward() }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(|c| c.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], |c| c.key())
    }

    #[inline]
    fn trailer(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |c| c.trailer())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], |c| c.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, compare, trailer};
    use crate::merge::testing::{Entry, Rng, VecCursor, order};
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::rc::Rc;

    struct Tables {
        tables: Vec<(KeyRange, VecCursor)>,
        opened: Rc<Cell<usize>>,
    }

    impl TableSource for Tables {
        type Cursor = VecCursor;
        fn len(&self) -> usize {
            self.tables.len()
        }
        fn range(&self, i: usize) -> &KeyRange {
            &self.tables[i].0
        }
        fn open(&self, i: usize) -> Result<VecCursor> {
            self.opened.set(self.opened.get() + 1);
            Ok(self.tables[i].1.clone())
        }
    }

    /// Cuts a random list at random keys; ends are sometimes open (the next table's first key), some tables have no entries.
    fn random(rng: &mut Rng) -> (Tables, Vec<Entry>) {
        let mut model: Vec<Entry> = (0..rng.below(60)).map(|seq| (rng.key(), trailer(seq, Kind::Value), vec![])).collect();
        model.sort_by(order);
        let mut cuts: Vec<Vec<u8>> = (0..rng.below(8)).map(|_| rng.key()).collect();
        cuts.push(Vec::new());
        cuts.sort();
        cuts.dedup();
        cuts.push(vec![0xff; 20]);
        let mut tables = Vec::new();
        for w in cuts.windows(2) {
            let part: Vec<Entry> = model.iter().filter(|e| w[0] <= e.0 && e.0 < w[1]).cloned().collect();
            let range = match (part.first(), part.last()) {
                (Some(first), Some(last)) if rng.one_in(2) => KeyRange::closed(first.0.clone(), last.0.clone()),
                (None, _) if rng.one_in(2) => continue,
                _ => KeyRange { smallest: w[0].clone(), largest: w[1].clone(), end_exclusive: true },
            };
            tables.push((range, VecCursor::new(part)));
        }
        (Tables { tables, opened: Rc::default() }, model)
    }

    #[test]
    fn walks_like_one_table() {
        for seed in 0..800 {
            let mut rng = Rng(seed);
            let (tables, model) = random(&mut rng);
            let mut run = RunCursor::new(tables);
            let mut at: Option<usize> = None;
            for _ in 0..60 {
                match rng.below(12) {
                    0 => {
                        run.seek_first().unwrap();
                        at = Some(0);
                    }
                    1 => {
                        run.seek_last().unwrap();
                        at = model.len().checked_sub(1);
                    }
                    2..4 => {
                        let (key, t) = (rng.key(), trailer(rng.below(60), Kind::Value));
                        run.seek(&key, t).unwrap();
                        at = Some(model.partition_point(|e| compare(&e.0, e.1, &key, t) == Ordering::Less));
                    }
                    4..6 => {
                        let key = rng.key();
                        run.seek_before(&key).unwrap();
                        at = model.partition_point(|e| e.0 < key).checked_sub(1);
                    }
                    n if run.valid() && n % 2 == 0 => {
                        run.next().unwrap();
                        at = at.map(|i| i + 1);
                    }
                    _ if run.valid() => {
                        run.prev().unwrap();
                        at = at.and_then(|i| i.checked_sub(1));
                    }
                    _ => {}
                }
                let expected = at.and_then(|i| model.get(i));
                assert_eq!(run.valid(), expected.is_some(), "seed {seed}");
                if let Some(e) = expected {
                    assert_eq!((run.key(), run.trailer()), (&e.0[..], e.1), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn opens_only_the_tables_it_reaches() {
        let table = |from: u8, to: u8| {
            let entries = (from..=to).map(|k| (vec![k], trailer(1, Kind::Value), vec![])).collect();
            (KeyRange::closed(vec![from], vec![to]), VecCursor::new(entries))
        };
        let opened = Rc::new(Cell::new(0));
        let tables = Tables { tables: vec![table(0, 9), table(10, 19), table(20, 29)], opened: opened.clone() };
        let mut run = RunCursor::new(tables);
        run.seek(&[12], u64::MAX).unwrap();
        run.seek(&[15], u64::MAX).unwrap();
        assert_eq!((run.key(), opened.get()), (&[15][..], 1), "seeks within the open table open nothing");
        run.seek_before(&[10]).unwrap();
        assert_eq!((run.key(), opened.get()), (&[9][..], 2));
    }
}
