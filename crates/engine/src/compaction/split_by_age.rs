//! Two outputs behind one sink: young entries of a merge into the last level go to tables one level higher.
//!
//! Newer versions of a key always end up above older ones, because entries and range tombstones are divided at the same sequence number,
//! and where the upper level is not free everything goes to the last.
//!
//! The age of two sorts of versions differs from what their number says: versions whose number was zeroed, and values with a time of their
//! own. Such a version goes to the level of its age only if no order is violated. Once a version of a key went to the lower level, all
//! older ones follow. A version that is promoted against its number must not have a newer range tombstone on the lower level, and one that
//! is demoted against its number must not have an older range tombstone on the upper level.

use super::collapse::Sink;
use super::output::{Limits, Output, TableFactory, TableSink};
use super::young::Span;
use crate::error::Result;
use crate::key::{MAX_SEQ, Seq, own_time, seq_of};
use crate::range_del::RangeTombstones;
use crate::tiering::age::Cut;

/// Destination of the entries that go one level higher.
pub struct Upper<'a, F> {
    /// Entries as old as this, or older, go to the lower output.
    pub old: Cut,
    /// Entries with a zeroed number count as old. Set if the engine chooses the cut, because then every younger number is kept, and if the
    /// family has `untimed_data = old`.
    pub zeroed_is_old: bool,
    /// Key ranges in which the upper output may write, in key order.
    pub spans: &'a [Span],
    /// Makes the tables of the upper output.
    pub factory: F,
    /// Limits at which these tables end.
    pub limits: Limits<'a>,
}

/// Entries of a merge with an upper output, counted by destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Entries that went to the level above the last.
    pub hot: u64,
    /// Entries that went to the last level because they are old.
    pub cold: u64,
    /// Entries that went to the last level although they may be young: the level above has other tables there, or its medium no space.
    pub sunk: u64,
}

impl Placed {
    /// Adds the counts of another part of the merge.
    pub fn add(&mut self, other: Placed) {
        self.hot += other.hot;
        self.cold += other.cold;
        self.sunk += other.sunk;
    }
}

/// The tables of both outputs, in key order.
pub struct Routed<T> {
    /// The upper ones.
    pub hot: Vec<T>,
    /// The lower ones.
    pub cold: Vec<T>,
    /// Counts of entries by destination.
    pub placed: Placed,
}

/// The output of one merge (or of one key range of it), to one level or two.
pub struct Router<'a, F: TableFactory> {
    lower: Output<'a, F>,
    upper: Option<Rising<'a, F>>,
}

/// The upper output: a sequence of [`Output`]s, one for each span.
struct Rising<'a, F: TableFactory> {
    to: Upper<'a, F>,
    /// Range tombstones of the upper output, within the spans.
    tombstones: RangeTombstones,
    /// Range tombstones of the lower output.
    below: RangeTombstones,
    open: Option<Output<'a, F>>,
    done: Vec<<F::Table as TableSink>::Done>,
    placed: Placed,
    /// Destinations of the current key's versions so far.
    key: OneKey,
}

/// Destinations of the versions of one key.
#[derive(Default)]
struct OneKey {
    /// A version went to the upper output.
    rose: bool,
    /// A version went to the lower output.
    fell: bool,
    /// The key lies in a span, so its versions may go to the upper output; `None`: not looked up yet.
    free: Option<bool>,
}

impl<'a, F: TableFactory + Clone> Router<'a, F> {
    /// `tombstones`: all range tombstones to be written, clipped to the key range of this output.
    pub fn new(factory: F, limits: Limits<'a>, tombstones: RangeTombstones, upper: Option<Upper<'a, F>>) -> Self {
        let Some(to) = upper else { return Router { lower: Output::new(factory, limits, tombstones), upper: None } };
        let (above, below) = divide(&tombstones, to.old.seq, to.spans);
        let lower = Output::new(factory, limits, below.clone());
        let (open, done, placed, key) = (None, Vec::new(), Placed::default(), OneKey::default());
        Router { lower, upper: Some(Rising { to, tombstones: above, below, open, done, placed, key }) }
    }

    /// Ends the last tables.
    pub fn finish(self) -> Result<Routed<<F::Table as TableSink>::Done>> {
        let (hot, placed) = match self.upper {
            Some(upper) => upper.finish()?,
            None => (Vec::new(), Placed::default()),
        };
        Ok(Routed { hot, cold: self.lower.finish()?, placed })
    }
}

impl<'a, F: TableFactory + Clone> Rising<'a, F> {
    /// Returns whether the version goes to the upper output. `young`: by its age it should; `by_number`: by its number it should.
    fn rises(&mut self, key: &[u8], trailer: u64, young: bool, by_number: bool) -> Result<bool> {
        if self.key.fell || !self.is_free(key)? {
            return Ok(false);
        }
        let seq = seq_of(trailer);
        Ok(match (young, by_number) {
            (true, true) if seq > 0 => true,
            (true, _) => self.below.covering(key, MAX_SEQ).is_none_or(|tombstone| tombstone < seq),
            (false, _) => self.tombstones.covering(key, seq.saturating_sub(1)).is_some(),
        })
    }

    /// Returns whether the key lies in a span.
    fn is_free(&mut self, key: &[u8]) -> Result<bool> {
        if let Some(free) = self.key.free {
            return Ok(free);
        }
        while let [first, ..] = self.to.spans
            && first.ends_before(key)
        {
            self.end_span()?;
        }
        let free = self.to.spans.first().is_some_and(|span| span.contains(key));
        self.key.free = Some(free);
        Ok(free)
    }

    /// The output of the current span, which is the first of those left.
    fn open(&mut self) -> &mut Output<'a, F> {
        let Rising { to, tombstones, open, .. } = self;
        open.get_or_insert_with(|| {
            let (from, end) = to.spans.first().map_or((None, None), |span| (span.from.as_deref(), span.to.as_deref()));
            Output::new(to.factory.clone(), to.limits, tombstones.clip(from, end))
        })
    }

    /// Ends the current span, which may have range tombstones and no entries, and goes on to the next one.
    fn end_span(&mut self) -> Result<()> {
        if self.open.is_some() || !self.tombstones.is_empty() {
            self.open();
        }
        if let Some(open) = self.open.take() {
            self.done.extend(open.finish()?);
        }
        self.to.spans = self.to.spans.get(1..).unwrap_or_default();
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<<F::Table as TableSink>::Done>, Placed)> {
        while !self.to.spans.is_empty() {
            self.end_span()?;
        }
        Ok((self.done, self.placed))
    }
}

impl<F: TableFactory + Clone> Sink for Router<'_, F> {
    #[inline]
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, first_of_key: bool) -> Result<()> {
        let Some(upper) = &mut self.upper else { return self.lower.add(key, trailer, value, original_seq, first_of_key) };
        if first_of_key {
            upper.key = OneKey::default();
        }
        let counts_as = if upper.to.zeroed_is_old && seq_of(trailer) == 0 { 0 } else { original_seq };
        let by_number = counts_as > upper.to.old.seq;
        let own_time = own_time(trailer, value);
        let young = !upper.to.old.covers(counts_as, own_time);
        if (young || by_number) && upper.rises(key, trailer, young, by_number)? {
            upper.placed.hot += 1;
            let first = !std::mem::replace(&mut upper.key.rose, true);
            // An old entry that stays above because of an older range tombstone takes its age from its number here. Otherwise it would make
            // the table ripe, and the table would be merged before the tombstone is old.
            return upper.open().put(key, trailer, value, (original_seq, own_time.filter(|_| young)), first);
        }
        if young {
            upper.placed.sunk += 1;
        } else {
            upper.placed.cold += 1;
        }
        let first = !std::mem::replace(&mut upper.key.fell, true);
        self.lower.put(key, trailer, value, (original_seq, own_time), first)
    }
}

/// Divides range tombstones into those of the upper output and those of the lower output.
fn divide(tombstones: &RangeTombstones, after: Seq, spans: &[Span]) -> (RangeTombstones, RangeTombstones) {
    let newer = tombstones.retain(|seqs| seqs.iter().copied().filter(|seq| *seq > after).collect());
    if newer.is_empty() {
        return (newer, tombstones.clone());
    }
    let above: Vec<_> = spans.iter().map(|span| newer.clip(span.from.as_deref(), span.to.as_deref())).collect();
    let mut below = vec![tombstones.retain(|seqs| seqs.iter().copied().filter(|seq| *seq <= after).collect())];
    // Newer tombstones between the spans go to the lower output, too.
    let mut end = Some(None);
    for span in spans {
        if let (Some(end), Some(from)) = (end, span.from.as_deref()) {
            below.push(newer.clip(end, Some(from)));
        }
        end = span.to.as_deref().map(Some);
    }
    if let Some(end) = end {
        below.push(newer.clip(end, None));
    }
    (RangeTombstones::union(&above), RangeTombstones::union(&below))
}

#[cfg(test)]
mod tests;
