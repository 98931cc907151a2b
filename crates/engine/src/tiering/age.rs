//! When sequence numbers were written, as samples of a number and a time.
//!
//! A sample (n, t) says that numbers up to n were written at or before t, and numbers above n at or after t. Times are those of a
//! `TrackedClock`, whole unix seconds. Between two samples nothing more is known, and whoever asks gets the answer that makes data
//! younger: a lost sample never makes them older than they are.
//!
//! Samples are kept the denser the newer they are. A gap between two is a hundredth of its age or less, unless they were taken farther
//! apart. Thus a window of any length is known to a hundredth of itself, and their number grows with the logarithm of the time covered.

use crate::coding::{Decoder, put_varint};
use crate::key::{Kind, MAX_SEQ, Seq, seq_of, split_timed};

/// A gap between samples may be this part of its age.
const RESOLUTION: u64 = 100;
/// Most samples in a table.
pub const MAX_IN_TABLE: usize = 100;
/// A table's samples take fewer bytes than this.
pub const MAX_BYTES_IN_TABLE: usize = 1024;

/// A sequence number and a unix time in seconds.
pub type Sample = (Seq, u64);

/// A moment in the past, as a number and as a time: it covers entries written at or before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Numbers up to this one; 0: none is known to be so old.
    pub seq: Seq,
    /// Unix seconds, for entries that carry a time of their own.
    pub time: u64,
}

impl Cut {
    /// Before it lies nothing.
    pub const NONE: Cut = Cut { seq: 0, time: 0 };
    /// Before it lies everything.
    pub const ALL: Cut = Cut { seq: MAX_SEQ, time: u64::MAX };

    /// An entry was written at or before the moment: one with its own time (see [`crate::key::own_time`]) by that, any other by the number
    /// that it had before it was zeroed.
    #[inline]
    pub fn covers(&self, original_seq: Seq, own_time: Option<u64>) -> bool {
        own_time.map_or(original_seq <= self.seq, |time| time <= self.time)
    }
}

/// Tells which entries have expired for one reader of a family with a time to live.
#[derive(Debug, Clone, Copy)]
pub struct Expiry {
    cut: Cut,
    /// The least number that counts: 1 where entries with number 0 may be younger than the cut.
    from: Seq,
}

impl Expiry {
    /// Entries older than `cut` have expired. An entry with number 0 counts as `zeroed_seq`.
    pub fn new(cut: Cut, zeroed_seq: Seq) -> Self {
        Expiry { cut, from: Seq::from(cut.seq == 0 || zeroed_seq > cut.seq) }
    }

    /// An entry has expired. One whose time is damaged has not, so that its reader gets the error.
    #[inline]
    pub fn covers(&self, trailer: u64, stored: &[u8]) -> bool {
        if trailer as u8 == Kind::TimedValue as u8 {
            return split_timed(stored).is_some_and(|(time, _)| time <= self.cut.time);
        }
        (self.from..=self.cut.seq).contains(&seq_of(trailer))
    }
}

/// Samples of the time at which sequence numbers were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeMap {
    /// Ascending, no number and no time twice.
    samples: Vec<Sample>,
}

impl TimeMap {
    /// Notes that numbers up to `seq` were written at or before `time`. A time that is not later than the newest one counts as that: the
    /// numbers are then younger than they were said to be. Numbers up to the newest sample's are known already.
    pub fn add(&mut self, seq: Seq, time: u64) {
        match self.samples.last_mut() {
            Some(last) if seq <= last.0 => return,
            Some(last) if time <= last.1 => last.0 = seq,
            _ => self.samples.push((seq, time)),
        }
        self.thin(RESOLUTION);
    }

    /// The newest number that was surely written at or before `time`.
    pub fn seq_at(&self, time: u64) -> Option<Seq> {
        let later = self.samples.partition_point(|sample| sample.1 <= time);
        Some(self.samples.get(later.checked_sub(1)?)?.0)
    }

    /// The moment `time` in numbers.
    pub fn cut(&self, time: u64) -> Cut {
        Cut { seq: self.seq_at(time).unwrap_or(0), time }
    }

    /// A time at or after which `seq` was written; `None` if it is older than all that is known.
    pub fn not_before(&self, seq: Seq) -> Option<u64> {
        let after = self.samples.partition_point(|sample| sample.0 < seq);
        Some(self.samples.get(after.checked_sub(1)?)?.1)
    }

    /// A time at or before which `seq` was written; `None` if it is newer than all that is known.
    pub fn not_after(&self, seq: Seq) -> Option<u64> {
        Some(self.samples.get(self.samples.partition_point(|sample| sample.0 < seq))?.1)
    }

    /// All samples, ascending.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The newest sample.
    pub fn newest(&self) -> Option<Sample> {
        self.samples.last().copied()
    }

    /// The samples of numbers above `seq`.
    pub fn above(&self, seq: Seq) -> &[Sample] {
        &self.samples[self.samples.partition_point(|sample| sample.0 <= seq)..]
    }

    /// The samples that concern the numbers `min..=max`, few enough for a table: too many are thinned, so that gaps are larger parts of
    /// their age.
    pub fn within(&self, min: Seq, max: Seq) -> TimeMap {
        let from = self.samples.partition_point(|sample| sample.0 < min).saturating_sub(1);
        let to = self.samples.partition_point(|sample| sample.0 < max);
        let mut samples: Vec<Sample> = self.samples[from..to.max(from)].to_vec();
        // The first one that covers all numbers says nothing here of larger ones.
        samples.extend(self.samples.get(to).map(|&(_, time)| (max, time)));
        let mut map = TimeMap { samples };
        let mut parts = RESOLUTION;
        while !map.fits_table() {
            if parts > 1 {
                parts /= 2;
                map.thin(parts);
            } else {
                // Every other one goes; the newest stays.
                let mut keep = map.samples.len().is_multiple_of(2);
                map.samples.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
        }
        map
    }

    fn fits_table(&self) -> bool {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        self.samples.len() <= MAX_IN_TABLE && bytes.len() < MAX_BYTES_IN_TABLE
    }

    /// Drops samples whose neighbours lie within a gap of one part in `parts` of its age. Another call drops nothing more, and neither does
    /// building the map again from its samples, oldest first: the allowed gap only grows.
    fn thin(&mut self, parts: u64) {
        let samples = &mut self.samples;
        let (Some(newest), Some(now)) = (samples.len().checked_sub(1), samples.last().map(|sample| sample.1)) else { return };
        // Samples that stay gather at the end.
        let mut kept = newest;
        for i in (1..newest).rev() {
            let (before, after) = (samples[i - 1].1, samples[kept].1);
            if after - before > (now - after) / parts {
                kept -= 1;
                samples[kept] = samples[i];
            }
        }
        if newest > 0 {
            kept -= 1;
            samples[kept] = samples[0];
        }
        samples.drain(..kept);
    }

    /// Appends the bytes: the number of samples, then of each what its number and time are more than those before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.samples.len() as u64);
        let mut last = (0, 0);
        for &(seq, time) in &self.samples {
            put_varint(out, seq - last.0);
            put_varint(out, time - last.1);
            last = (seq, time);
        }
    }

    /// Reads the bytes, all of them; `None` if they are damaged.
    pub fn decode(bytes: &[u8]) -> Option<TimeMap> {
        let mut from = Decoder::new(bytes);
        let count = from.length()?;
        let mut samples: Vec<Sample> = Vec::with_capacity(count);
        for _ in 0..count {
            let (seq, time) = (from.varint()?, from.varint()?);
            let sample = match samples.last() {
                Some(last) if seq > 0 && time > 0 => (last.0.checked_add(seq)?, last.1.checked_add(time)?),
                Some(_) => return None,
                None => (seq, time),
            };
            samples.push(Some(sample).filter(|sample| sample.0 <= MAX_SEQ)?);
        }
        from.is_empty().then_some(TimeMap { samples })
    }
}

#[cfg(test)]
mod tests;
