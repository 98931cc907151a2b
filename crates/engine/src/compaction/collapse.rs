//! Decides which entries of a sorted stream survive a merge.
//!
//! **Stripes.** Readers exist only at live snapshots; the newest visible number counts as the last snapshot. The snapshots divide the
//! sequence numbers into stripes: a stripe is all numbers above one snapshot up to and including the next. Readers see only the state at
//! the end of a stripe, so the newest version of each key and stripe is enough. Example: with snapshots 5 and 9, versions 6 and 8 of a key
//! lie in one stripe, and 6 is dropped.
//!
//! 1. An entry is dropped if a newer value or tombstone of its key, or a range tombstone over it, lies in the same stripe. Of several
//!    range tombstones over one fragment and in one stripe the newest is kept.
//! 2. Numbers above the last snapshot belong to no stripe: a snapshot may still be taken between any two of them. All such entries are
//!    kept, or none if the output is a copy as of the last snapshot (`Rules::is_copy`).
//! 3. In the oldest stripe of a bottommost merge (nothing older than the inputs exists for their keys), tombstones of both sorts have
//!    nothing left to hide and are dropped, and values get sequence number 0, which compresses to nothing. Rule 1 drops what a range
//!    tombstone hides in the same pass, so no entry with number 0 can come under an older tombstone later. Numbers are kept if the family
//!    has a time to live, and if they are younger than the time that the family tracks.
//! 4. Merge operands of one key and stripe are folded: onto the value below them in the stripe; onto nothing if a tombstone is below them
//!    or a bottommost merge has nothing below them; otherwise into one operand, if the operator can. Operands that the operator refuses to
//!    fold stay as they are, and so do all operands of a family without an operator.
//! 5. The compaction filter judges a version only if it is the newest of its key in the last stripe. No live snapshot but "now" sees that
//!    version, so the filter changes nothing that a snapshot reads. A version that the filter removes becomes a tombstone, which rule 3 may
//!    drop. The time to live judges every version in the last stripe: an expired one becomes a tombstone, too.
//! 6. References to separated values are kept as they are, and hide older versions as values do.
//! 7. A value with a time of its own is treated as a value by the rules above, and its age is that time, not its number. Where rule 3
//!    zeroes its number, the value loses its time, too, and from then on counts as old as other entries zeroed at that moment. A folded
//!    value is as old as its newest operand. In a family with a time to live, only versions that expire at the same moment are folded, so
//!    that each operand, and the value below, expires at its own time whenever compactions run.
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
    /// Live snapshots, ascending, then the newest visible number, even if it equals the newest snapshot: otherwise the filter would judge
    /// versions that this snapshot sees.
    pub snapshots: &'a [Seq],
    /// The output is for readers at these snapshots alone: entries and tombstones newer than the last snapshot are dropped.
    pub is_copy: bool,
    /// Nothing older than the inputs exists in their key range.
    pub bottommost: bool,
    /// Entries as old as this may lose their sequence number; `None`: none may.
    pub zero_up_to: Option<Cut>,
    /// Entries as old as this have outlived the family's time to live.
    pub expired: Option<Cut>,
    /// Sequence numbers, ascending, between which entries may expire at different moments; `None`: nothing expires.
    pub apart: Option<&'a [Seq]>,
    /// The number that entries with number 0 count as: the newest that any of them may have had.
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
    /// The stripe of a number: the index of the oldest snapshot that sees the number; `snapshots.len()` if none does.
    #[inline]
    fn stripe(&self, seq: Seq) -> usize {
        match self.snapshots.first() {
            Some(&oldest) if seq <= oldest => 0,
            _ => self.snapshots.partition_point(|&snapshot| snapshot < seq),
        }
    }

    /// Rule 3: returns whether tombstones of this stripe hide nothing.
    #[inline]
    fn droppable(&self, stripe: usize) -> bool {
        self.bottommost && stripe == 0 && !self.snapshots.is_empty()
    }

    /// Returns whether this is the last stripe, which no live snapshot but "now" sees.
    #[inline]
    fn is_last(&self, stripe: usize) -> bool {
        stripe + 1 == self.snapshots.len()
    }

    /// Returns whether two versions of a key expire at the same moment for every reader. False if the older one has lost its number.
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
    /// Adds the next entry in order. `original_seq` is its number before zeroing. `first_of_key`: no version of the key came before; only
    /// before such an entry may a table end.
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

/// Sends the surviving entries of `input` within the user keys `[from, to)` to `sink`, with pauses. `None` if the job was stopped.
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

/// The range tombstone fragment over the current key. Keys ascend, so fragments before the current key are dropped from the front.
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
    /// The current user key.
    key: Vec<u8>,
    /// The stripe of the last value or tombstone of the key: older versions in this stripe are hidden.
    shadow: Option<usize>,
    /// The stripe in which operands of the key were written unfolded: the version below them is not the newest of its stripe.
    unfolded: Option<usize>,
    /// The sequence number of the entry before the current one.
    newer: Seq,
    /// Counts of replaced values, by their age at the replacement.
    replaced: Option<Ages>,
    /// Newest first.
    operands: Operands,
    output: Output<'a, S>,
}

/// Age of a value: its number, and a time of its own where it has one.
#[derive(Clone, Copy)]
struct Age {
    seq: Seq,
    /// The value's own time, unix seconds.
    own_time: Option<u64>,
}

/// The base to which merge operands of one stripe apply.
enum Base {
    /// The value at the input's position.
    Value,
    /// Nothing: the key did not exist.
    Absent,
    /// Not known to this merge: the base is in an older stripe or on a deeper level.
    Unknown,
}

impl<C: Cursor, S: Sink> Collapse<'_, C, S> {
    /// Merges the whole input. False if the job was stopped.
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

    /// Handles the input's current entry, and for an operand also the operands behind it.
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
                // Reports an unreadable time as damage even if nothing below needs the time.
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

    /// Rule 5: returns whether the filter judges the version.
    #[inline]
    fn is_judged(&self, stripe: usize) -> bool {
        self.rules.filter.is_some() && self.rules.is_last(stripe) && self.unfolded != Some(stripe)
    }

    /// Rule 5: returns whether the version has expired for all readers that see it.
    #[inline]
    fn is_over(&self, age: Age, stripe: usize) -> bool {
        let expired = |cut: Cut| cut.covers(self.original(age.seq), age.own_time);
        self.rules.expired.is_some_and(|cut| self.rules.is_last(stripe) && expired(cut))
    }

    #[inline]
    fn original(&self, seq: Seq) -> Seq {
        if seq == 0 { self.rules.zeroed_seq } else { seq }
    }

    /// The original number of a value that is to be zeroed; `None` if its number stays. For a value with a time of its own, at most the
    /// newest number that may be zeroed.
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

    /// Lets the filter judge a value, `folded` or else the input's, and writes the result.
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

    /// Rule 4: folds the operands of a stripe that expire together, beginning with the newest. Leaves the input on the first entry behind
    /// these operands.
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

    /// Collects the operands of one stripe that expire together from the input, newest first. Returns the base below them.
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
