//! Something counted by age. An age here is a number of writes: how many sequence numbers were given out since. It needs no clock, it does
//! not care about one that jumps, and it is what a merge compares. Buckets are a quarter of an octave wide, so that a share read from
//! them is off by little and 57 octaves fit into two kilobytes.

use crate::key::MAX_SEQ;

/// Buckets per octave, as a power of two.
const PER_OCTAVE_LOG2: u32 = 2;
/// Ages of 1 to [`MAX_SEQ`].
pub const BUCKETS: usize = (MAX_SEQ.ilog2() as usize + 1) << PER_OCTAVE_LOG2;

/// The bucket of an age. Entries younger than one write count as one write old.
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

    /// Adds all that `other` has.
    pub fn add_all(&mut self, other: &Ages) {
        self.weights.iter_mut().zip(other.weights.iter()).for_each(|(weight, other)| *weight += other);
    }

    /// Multiplies everything.
    pub fn scale(&mut self, factor: f64) {
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
    }

    /// Everything.
    pub fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Weight of everything younger than an age, taken to be spread evenly within a bucket.
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
}

#[cfg(test)]
mod tests;
