//! Decides which entries of a sorted stream survive a merge.
//!
//! **Stripes.** Readers exist only at the live snapshots (the newest visible number is the last of them). They cut the sequence numbers
//! into stripes: all numbers above one snapshot up to and including the next. A reader at a snapshot cannot tell apart what happened
//! within one stripe, only how it ended. So of each key and stripe the newest version is enough:
//!
//! 1. An entry is dropped if a newer value or tombstone of its key, or a range tombstone over it, lies in the same stripe. Of several
//!    range tombstones over one fragment and in one stripe the newest is kept.
//! 2. Numbers above the last snapshot belong to no stripe: a snapshot may still be taken between any two of them. All are kept, unless the
//!    output is a copy as of the last snapshot (`Rules::is_copy`): then none is.
//! 3. In the oldest stripe at the bottom (nothing older than the inputs exists for their keys) tombstones of both sorts have nothing
//!    left to hide and go, and values get sequence number 0, which compresses to nothing. Rule 1 drops what a range tombstone hides in
//!    the same pass, so no entry with number 0 can fall under an older tombstone later. Numbers stay while the family has a time to live,
//!    and while they are younger than the time that it tracks.
//! 4. Merge operands of one key and stripe are folded: onto the value below them in the stripe; onto nothing if a tombstone ends the
//!    stripe or the history ends at the bottom; else into one operand, where the operator can. What it refuses stays as it is, and so
//!    do all operands of a family without an operator.
//! 5. The compaction filter judges only a version that is the newest of its key in the last stripe: no snapshot but "now" sees it, so no
//!    snapshot changes under its reader. What it removes becomes a tombstone, which rule 3 may drop. The time to live judges every
//!    version in the last stripe: one that has expired is as good as a tombstone for its readers, and becomes one.
//! 6. References to separated values are kept as they are, and hide older versions as values do.
//! 7. A value with a time of its own is a value in all of the above, and as old as that time, whatever its number. Where rule 3 takes its
//!    number it loses its time, too, and counts from then on as being as old as what loses its number at that moment. A fold is as old
//!    as its newest operand. In a family with a time to live only what expires at the same moment is folded: each operand and what they
//!    stand on lives for its own time, whenever compactions come by.
//!
//! Nothing here knows files: entries come from a [`Cursor`] and go to a [`Sink`].

use super::throttle::Rests;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{Kind, Seq, kind_of, own_time, put_timed, seq_of, trailer};
use crate::operator::{CompactionFilter, Decision, MergeOperator};
use crate::range_del::{Fragment, RangeTombstones};
use crate::tiering::age::Cut;
use crate::tiering::auto_cutoff::{Ages, Heat, heat};
use crate::visible::{Operands, shown, user_value};
use std::cmp::Ordering;

/// Conditions under which a merge drops entries.
pub struct Rules<'a> {
    /// Live snapshots, ascending, the newest visible number last (also if it equals the newest snapshot: the filter must spare that).
    pub snapshots: &'a [Seq],
    /// The output is for readers at these snapshots alone: entries and tombstones newer than the last one are dropped, not kept.
    pub is_copy: bool,
    /// Nothing older than the inputs exists in their key range.
    pub bottommost: bool,
    /// Entries as old as this need no sequence number any more; `None`: all do.
    pub zero_up_to: Option<Cut>,
    /// Entries as old as this have outlived the family's time to live.
    pub expired: Option<Cut>,
    /// Numbers, ascending, that tell entries apart which may expire at different moments; `None`: nothing expires.
    pub apart: Option<&'a [Seq]>,
    /// The number that an entry with number 0 counts as: the newest that it may once have had.
    pub zeroed_seq: Seq,
    /// The family's merge operator.
    pub merge: Option<&'a dyn MergeOperator>,
    /// The family's compaction filter.
    pub filter: Option<&'a dyn CompactionFilter>,
    /// The level written to, for the filter.
    pub level: u8,
    /// Collects the ages at which newer versions replaced values; `None`: nobody needs them.
    pub heat: Option<&'a Heat>,
}

impl Rules<'_> {
    /// The stripe of a number: the index of the oldest snapshot that sees it; the number of snapshots if none does.
    #[inline]
    fn stripe(&self, seq: Seq) -> usize {
        match self.snapshots.first() {
            Some(&oldest) if seq <= oldest => 0,
            _ => self.snapshots.partition_point(|&snapshot| snapshot < seq),
        }
    }

    /// A tombstone of this stripe hides nothing.
    #[inline]
    fn droppable(&self, stripe: usize) -> bool {
        self.bottommost && stripe == 0 && !self.snapshots.is_empty()
    }

    /// The stripe that only "now" sees.
    #[inline]
    fn is_last(&self, stripe: usize) -> bool {
        stripe + 1 == self.snapshots.len()
    }

    /// Two versions of a key expire at the same moment for every reader. What has lost its number is by itself.
    fn expire_together(&self, newer: Seq, older: Seq) -> bool {
        let Some(apart) = self.apart else { return true };
        let below = |seq: Seq| apart.partition_point(|number| *number < seq);
        older > 0 && below(newer) == below(older)
    }

    /// The range tombstones that a merge writes.
    pub fn surviving(&self, tombstones: &RangeTombstones) -> RangeTombstones {
        tombstones.retain(|seqs| {
            let mut last = None;
            let mut kept = seqs.to_vec();
            kept.retain(|&seq| {
                let stripe = self.stripe(seq);
                let is_unseen = stripe == self.snapshots.len();
                let repeated = last == Some(stripe) && !is_unseen;
                last = Some(stripe);
                !(repeated || self.droppable(stripe) || is_unseen && self.is_copy)
            });
            kept
        })
    }
}

/// Destination of the surviving entries.
pub trait Sink {
    /// The next entry in order. `original_seq` is its number before zeroing; `first_of_key` says that no version of the key came before:
    /// only here may a table end.
    fn add(&mut self, key: &[u8], trailer: u64, value: &[u8], original_seq: Seq, first_of_key: bool) -> Result<()>;
}

/// How many entries went in and came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read.
    pub entries_in: u64,
    /// Written.
    pub entries_out: u64,
}

/// Sends what survives of `input` within the user keys `[from, to)` to `sink`, with rests on the way. `None` if it was stopped.
///
/// # Errors
/// Those of input and sink; [`Error::Corrupt`] if entries come out of order or are of an unknown kind.
pub fn collapse<C: Cursor, S: Sink>(
    mut input: C,
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    tombstones: &RangeTombstones,
    rules: &Rules<'_>,
    mut rests: Rests<'_>,
    sink: &mut S,
) -> Result<Option<Counts>> {
    match from {
        Some(from) => input.seek(from, u64::MAX)?,
        None => input.seek_first()?,
    }
    let sweep = Sweep { fragments: tombstones.fragments(), over: None };
    let output = Output { sink, first: true, counts: Counts::default() };
    let mut collapse = Collapse {
        input,
        rules,
        sweep,
        key: Vec::new(),
        shadow: None,
        unfolded: None,
        newer: 0,
        replaced: rules.heat.map(|_| Ages::default()),
        operands: Operands::default(),
        output,
    };
    let done = collapse.run(to, &mut rests)?;
    if let (Some(heat), Some(ages), true) = (rules.heat, &collapse.replaced, done) {
        heat.replaced(ages);
    }
    Ok(done.then_some(collapse.output.counts))
}

/// The fragment over the key worked on. Keys ascend, so fragments that lie behind are dropped from the front.
struct Sweep<'a> {
    fragments: &'a [Fragment],
    over: Option<&'a Fragment>,
}

impl Sweep<'_> {
    #[inline]
    fn to(&mut self, key: &[u8]) {
        while let Some((first, rest)) = self.fragments.split_first() {
            if first.end.as_slice() > key {
                self.over = (first.start.as_slice() <= key).then_some(first);
                return;
            }
            (self.fragments, self.over) = (rest, None);
        }
    }
}

struct Output<'a, S> {
    sink: &'a mut S,
    first: bool,
    counts: Counts,
}

impl<S: Sink> Output<'_, S> {
    #[inline]
    fn put(&mut self, key: &[u8], trailer: u64, value: &[u8], original: Seq) -> Result<()> {
        self.counts.entries_out += 1;
        self.sink.add(key, trailer, value, original, std::mem::take(&mut self.first))
    }
}

struct Collapse<'a, C, S> {
    input: C,
    rules: &'a Rules<'a>,
    sweep: Sweep<'a>,
    /// The user key worked on.
    key: Vec<u8>,
    /// The stripe of the last value or tombstone of the key: older versions in it are hidden.
    shadow: Option<usize>,
    /// The stripe in which operands of the key were written as they are: the version below them is not the newest.
    unfolded: Option<usize>,
    /// The number of the version of the key that was met last.
    newer: Seq,
    /// Values that newer versions replaced, by their ages then.
    replaced: Option<Ages>,
    /// Newest first.
    operands: Operands,
    output: Output<'a, S>,
}

/// Age of a value: its number, and a time of its own where it has one.
#[derive(Clone, Copy)]
struct Age {
    seq: Seq,
    /// The time that it carries itself.
    own_time: Option<u64>,
}

/// The base to which merge operands of one stripe apply.
enum Base {
    /// The value at which the input stands.
    Value,
    /// Nothing: the key did not exist.
    Absent,
    /// Unknown here: older stripes or deeper levels have it.
    Unknown,
}

impl<C: Cursor, S: Sink> Collapse<'_, C, S> {
    /// False if it was stopped.
    fn run(&mut self, to: Option<&[u8]>, rests: &mut Rests<'_>) -> Result<bool> {
        let mut started = false;
        let mut look = 0;
        while self.input.valid() {
            if self.output.counts.entries_in >= look {
                let Some(entries) = rests.look() else { return Ok(false) };
                look = self.output.counts.entries_in + entries;
            }
            match self.input.key().cmp(self.key.as_slice()) {
                Ordering::Equal if started => {}
                Ordering::Less => {
                    return Err(Error::corrupt("entries", 0, format!("key {} after {}", shown(self.input.key()), shown(&self.key))));
                }
                _ => {
                    if to.is_some_and(|to| to <= self.input.key()) {
                        break;
                    }
                    started = true;
                    self.begin_key();
                }
            }
            self.entry()?;
        }
        Ok(true)
    }

    #[inline]
    fn begin_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.input.key());
        self.sweep.to(&self.key);
        (self.shadow, self.unfolded, self.output.first) = (None, None, true);
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        self.output.counts.entries_in += 1;
        self.input.next()
    }

    /// Works off the input's entry (and, for operands, those after it).
    #[inline]
    fn entry(&mut self) -> Result<()> {
        let here = self.input.trailer();
        let seq = seq_of(here);
        let stripe = self.rules.stripe(seq);
        let newer = std::mem::replace(&mut self.newer, seq);
        if self.hidden(seq, stripe) {
            let is_value = matches!(kind_of(here), Some(Kind::Value | Kind::TimedValue));
            if let Some(replaced) = self.replaced.as_mut().filter(|_| is_value && self.shadow == Some(stripe)) {
                replaced.add(heat::age(seq, newer), 1.0);
            }
            return self.step();
        }
        match kind_of(here) {
            Some(kind @ (Kind::Value | Kind::TimedValue)) => {
                self.shadow = Some(stripe);
                // A time that cannot be read is damage, whether the value is judged or not.
                user_value(kind, &self.key, self.input.value())?;
                let age = Age { seq, own_time: own_time(here, self.input.value()) };
                if self.is_over(age, stripe) {
                    self.put_tombstone(seq, stripe)?;
                } else if self.is_judged(stripe) {
                    self.judge(age, stripe, None)?;
                } else {
                    self.put_value(age, stripe)?;
                }
            }
            Some(Kind::Delete) => {
                self.shadow = Some(stripe);
                self.put_tombstone(seq, stripe)?;
            }
            Some(Kind::ValueReference) => {
                self.shadow = Some(stripe);
                self.output.put(&self.key, here, self.input.value(), self.original(seq))?;
            }
            Some(Kind::Merge) => return self.merge(seq, stripe),
            Some(Kind::RangeDelete | Kind::RangeDeleteFrom) | None => {
                return Err(Error::corrupt("entries", 0, format!("version of kind {} of key {}", here as u8, shown(&self.key))));
            }
        }
        self.step()
    }

    /// Rules 1 and 2.
    #[inline]
    fn hidden(&self, seq: Seq, stripe: usize) -> bool {
        let Some(&snapshot) = self.rules.snapshots.get(stripe) else { return self.rules.is_copy };
        self.shadow == Some(stripe) || self.sweep.over.is_some_and(|f| f.newest(snapshot).is_some_and(|newest| newest > seq))
    }

    /// Rule 5: the filter judges the version.
    #[inline]
    fn is_judged(&self, stripe: usize) -> bool {
        self.rules.filter.is_some() && self.rules.is_last(stripe) && self.unfolded != Some(stripe)
    }

    /// Rule 5: the version has expired, for all readers that see it.
    #[inline]
    fn is_over(&self, age: Age, stripe: usize) -> bool {
        let expired = |cut: Cut| cut.covers(self.original(age.seq), age.own_time);
        self.rules.expired.is_some_and(|cut| self.rules.is_last(stripe) && expired(cut))
    }

    #[inline]
    fn original(&self, seq: Seq) -> Seq {
        if seq == 0 { self.rules.zeroed_seq } else { seq }
    }

    /// The number that a value loses, if any: its own, or, if it carries its own time, at most the newest one as old as that.
    #[inline]
    fn zeroed(&self, age: Age, stripe: usize) -> Option<Seq> {
        let cut = self.rules.zero_up_to.filter(|cut| self.rules.droppable(stripe) && cut.covers(age.seq, age.own_time))?;
        let original = self.original(age.seq);
        Some(if age.own_time.is_some() { original.min(cut.seq) } else { original })
    }

    /// Writes the input's value.
    #[inline]
    fn put_value(&mut self, age: Age, stripe: usize) -> Result<()> {
        let (here, stored) = (self.input.trailer(), self.input.value());
        match self.zeroed(age, stripe) {
            None => self.output.put(&self.key, here, stored, self.original(age.seq)),
            Some(original) => {
                let kind = kind_of(here).unwrap_or(Kind::Value);
                self.output.put(&self.key, trailer(0, Kind::Value), user_value(kind, &self.key, stored)?, original)
            }
        }
    }

    /// Writes a value that takes the place of the input's.
    fn put_new(&mut self, age: Age, stripe: usize, value: &[u8]) -> Result<()> {
        if let Some(original) = self.zeroed(age, stripe) {
            return self.output.put(&self.key, trailer(0, Kind::Value), value, original);
        }
        let original = self.original(age.seq);
        let Some(time) = age.own_time else { return self.output.put(&self.key, trailer(age.seq, Kind::Value), value, original) };
        let mut stored = Vec::new();
        put_timed(&mut stored, time, value);
        self.output.put(&self.key, trailer(age.seq, Kind::TimedValue), &stored, original)
    }

    fn put_tombstone(&mut self, seq: Seq, stripe: usize) -> Result<()> {
        if self.rules.droppable(stripe) {
            return Ok(());
        }
        self.output.put(&self.key, trailer(seq, Kind::Delete), &[], self.original(seq))
    }

    /// Writes what the filter leaves of a value: a folded one, or the input's.
    fn judge(&mut self, age: Age, stripe: usize, folded: Option<&[u8]>) -> Result<()> {
        let value = match folded {
            Some(folded) => folded,
            None => self.input_value()?,
        };
        let decision = self.rules.filter.map_or(Decision::Keep, |filter| filter.filter(self.rules.level, &self.key, value));
        match (decision, folded) {
            (Decision::Keep, None) => self.put_value(age, stripe),
            (Decision::Keep, Some(folded)) => self.put_new(age, stripe, folded),
            (Decision::Change(value), _) => self.put_new(age, stripe, &value),
            (Decision::Remove, _) => self.put_tombstone(age.seq, stripe),
        }
    }

    /// The input's value as a user sees it.
    fn input_value(&self) -> Result<&[u8]> {
        let kind = kind_of(self.input.trailer()).unwrap_or(Kind::Value);
        user_value(kind, &self.key, self.input.value())
    }

    /// Rule 4, from the newest operand of a stripe (or of those that expire together) on. Leaves the input on the first entry that is not
    /// one of the operands.
    fn merge(&mut self, newest: Seq, stripe: usize) -> Result<()> {
        let age = Age { seq: newest, own_time: None };
        if self.is_over(age, stripe) {
            self.shadow = Some(stripe);
            self.put_tombstone(newest, stripe)?;
            return self.step();
        }
        let merge = match self.rules.merge {
            Some(merge) if stripe < self.rules.snapshots.len() => merge,
            _ => {
                self.unfolded = Some(stripe);
                self.output.put(&self.key, self.input.trailer(), self.input.value(), newest)?;
                return self.step();
            }
        };
        let mut seqs = Vec::new();
        let base = self.collect(stripe, &mut seqs)?;
        let operands: Vec<&[u8]> = self.operands.iter().rev().collect();
        let folded = match base {
            Base::Value => merge.full_merge(&self.key, Some(self.input_value()?), &operands),
            Base::Absent => merge.full_merge(&self.key, None, &operands),
            Base::Unknown => None,
        };
        if let Some(value) = folded {
            self.shadow = Some(stripe);
            return if self.is_judged(stripe) { self.judge(age, stripe, Some(&value)) } else { self.put_new(age, stripe, &value) };
        }
        self.unfolded = Some(stripe);
        let partial = match base {
            Base::Unknown if operands.len() > 1 => merge.partial_merge(&self.key, &operands),
            _ => None,
        };
        if let Some(operand) = partial {
            return self.output.put(&self.key, trailer(newest, Kind::Merge), &operand, newest);
        }
        for (seq, operand) in seqs.into_iter().zip(self.operands.iter()) {
            self.output.put(&self.key, trailer(seq, Kind::Merge), operand, seq)?;
        }
        Ok(())
    }

    /// Takes the operands of one stripe that expire together from the input, newest first, and finds out what they stand on.
    fn collect(&mut self, stripe: usize, seqs: &mut Vec<Seq>) -> Result<Base> {
        let newest = seq_of(self.input.trailer());
        self.operands.clear();
        loop {
            self.operands.push(self.input.value());
            seqs.push(seq_of(self.input.trailer()));
            self.step()?;
            if !self.input.valid() || self.input.key() != self.key {
                return Ok(if self.rules.droppable(0) { Base::Absent } else { Base::Unknown });
            }
            let seq = seq_of(self.input.trailer());
            if self.rules.stripe(seq) != stripe {
                return Ok(Base::Unknown);
            }
            if self.hidden(seq, stripe) {
                return Ok(Base::Absent);
            }
            let age = Age { seq, own_time: own_time(self.input.trailer(), self.input.value()) };
            if self.is_over(age, stripe) {
                return Ok(Base::Absent);
            }
            let is_together = self.rules.expire_together(newest, seq);
            match kind_of(self.input.trailer()) {
                Some(Kind::Merge) if is_together => {}
                Some(Kind::Value) if is_together => return Ok(Base::Value),
                Some(Kind::TimedValue) if self.rules.apart.is_none() => return Ok(Base::Value),
                Some(Kind::Delete) => return Ok(Base::Absent),
                _ => return Ok(Base::Unknown),
            }
        }
    }
}

#[cfg(test)]
mod tests;
