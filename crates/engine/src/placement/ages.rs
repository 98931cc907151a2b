//! Something counted by age. An age here is a number of writes: how many sequence numbers were given out since. It needs no clock, it does
//! not care about one that jumps, and it is what a merge compares. Buckets are a quarter of an octave wide, so that a share read from
//! them is off by little and 57 octaves fit into two kilobytes.

use crate::coding::{Decoder, put_varint};
use crate::key::MAX_SEQ;

/// Buckets per octave, as a power of two.
const PER_OCTAVE_LOG2: u32 = 2;
/// Ages of 1 to [`MAX_SEQ`].
pub const BUCKETS: usize = (MAX_SEQ.ilog2() as usize + 1) << PER_OCTAVE_LOG2;

/// The bucket of an age. What is younger than one write counts as one write old.
#[inline]
pub fn bucket(age: u64) -> usize {
    let age = age.clamp(1, MAX_SEQ);
    let octave = age.ilog2();
    let quarter = (age << PER_OCTAVE_LOG2 >> octave) & ((1 << PER_OCTAVE_LOG2) - 1);
    ((octave << PER_OCTAVE_LOG2) as usize) | quarter as usize
}

/// The age at which a bucket begins.
fn start(bucket: usize) -> f64 {
    let (octave, quarter) = (bucket >> PER_OCTAVE_LOG2, bucket & ((1 << PER_OCTAVE_LOG2) - 1));
    (1.0 + quarter as f64 / f64::from(1 << PER_OCTAVE_LOG2)) * (octave as f64).exp2()
}

/// Weights by age.
#[derive(Debug, Clone, PartialEq)]
pub struct Ages {
    weights: Box<[f64; BUCKETS]>,
}

impl Default for Ages {
    fn default() -> Self {
        Ages { weights: Box::new([0.0; BUCKETS]) }
    }
}

impl Ages {
    /// Adds to the bucket of an age.
    #[inline]
    pub fn add(&mut self, age: u64, weight: f64) {
        self.weights[bucket(age)] += weight;
    }

    /// Adds to one bucket.
    pub fn add_to_bucket(&mut self, bucket: usize, weight: f64) {
        if let Some(to) = self.weights.get_mut(bucket) {
            *to += weight;
        }
    }

    /// Adds a weight that is spread evenly over the ages `[from, to)`.
    pub fn spread(&mut self, from: f64, to: f64, weight: f64) {
        let (from, to) = (from.max(1.0), to.max(from.max(1.0) + 1.0));
        let first = bucket(from as u64);
        for bucket in first..BUCKETS {
            let (low, high) = (start(bucket).max(from), start(bucket + 1).min(to));
            // The last bucket takes what is beyond all of them.
            let part = if bucket + 1 == BUCKETS { to.max(low) - low } else { high - low };
            if part > 0.0 {
                self.weights[bucket] += weight * (part / (to - from));
            }
            if to <= start(bucket + 1) {
                break;
            }
        }
    }

    /// Adds all that `other` has, made `shift` writes older and multiplied by `factor`.
    pub fn add_aged(&mut self, other: &Ages, shift: u64, factor: f64) {
        for (bucket, weight) in other.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            if shift == 0 {
                self.weights[bucket] += weight * factor;
            } else {
                self.spread(start(bucket) + shift as f64, start(bucket + 1) + shift as f64, weight * factor);
            }
        }
    }

    /// Multiplies everything.
    pub fn scale(&mut self, factor: f64) {
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
    }

    /// Multiplies each bucket by the share that `part` has of `whole` there, where `whole` has anything.
    pub fn scale_by(&mut self, part: &Ages, whole: &Ages) {
        for (weight, (part, whole)) in self.weights.iter_mut().zip(part.weights.iter().zip(whole.weights.iter())) {
            if *whole > 0.0 {
                *weight *= (part / whole).min(1.0);
            }
        }
    }

    /// Everything.
    pub fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// What is younger than an age; within a bucket everything is taken to be spread evenly.
    pub fn younger(&self, age: u64) -> f64 {
        if age > MAX_SEQ {
            return self.total();
        }
        let at = bucket(age);
        let (low, high) = (start(at), start(at + 1));
        let part = ((age as f64 - low) / (high - low)).clamp(0.0, 1.0);
        self.weights[..at].iter().sum::<f64>() + self.weights[at] * part
    }

    /// The largest age below which there is no more than `weight`; `u64::MAX` if that is everything.
    pub fn reach(&self, weight: f64) -> u64 {
        let mut below = 0.0;
        for (bucket, here) in self.weights.iter().enumerate() {
            if below + here > weight {
                let (low, high) = (start(bucket), start(bucket + 1));
                return (low + (high - low) * ((weight - below) / here).clamp(0.0, 1.0)) as u64;
            }
            below += here;
        }
        u64::MAX
    }

    /// The smallest age below which there is at least `weight`, rounded up to whole writes.
    pub fn least(&self, weight: f64) -> u64 {
        let mut below = 0.0;
        for (bucket, here) in self.weights.iter().enumerate() {
            if *here > 0.0 && below + here >= weight {
                let (low, high) = (start(bucket), start(bucket + 1));
                return (low + (high - low) * ((weight - below) / here).clamp(0.0, 1.0)).ceil() as u64;
            }
            below += here;
        }
        u64::MAX
    }

    /// Appends the format: the number of buckets that hold something, and for each how many were skipped before it and its weight rounded
    /// to a whole number, as varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let full = || self.weights.iter().enumerate().map(|(bucket, weight)| (bucket, weight.round() as u64)).filter(|(_, w)| *w > 0);
        put_varint(out, full().count() as u64);
        let mut next = 0;
        for (bucket, weight) in full() {
            put_varint(out, (bucket - next) as u64);
            put_varint(out, weight);
            next = bucket + 1;
        }
    }

    /// Reads the format; `None` if it is damaged.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Ages> {
        let mut ages = Ages::default();
        let full = usize::try_from(from.varint()?).ok().filter(|full| *full <= BUCKETS)?;
        let mut next = 0usize;
        for _ in 0..full {
            let bucket = next.checked_add(usize::try_from(from.varint()?).ok()?)?;
            *ages.weights.get_mut(bucket)? = from.varint()? as f64;
            next = bucket + 1;
        }
        Some(ages)
    }
}

#[cfg(test)]
mod tests;
