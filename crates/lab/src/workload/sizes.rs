//! Sizes of values.

use super::random::Xoshiro256PlusPlus;

/// Sizes of values. A size is drawn for each write from the writer's stream, whatever the key: a key's values differ in size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueSizes {
    /// All values have this size.
    Fixed(usize),
    /// Sizes from the first to the second, all equally frequent.
    Uniform(usize, usize),
    /// Generalised Pareto with location 0, rounded up and cut at `most`, as db_bench's `mixgraph` draws it.
    Pareto {
        /// Scale, bytes.
        scale: f64,
        /// Shape; 0 is the exponential distribution.
        shape: f64,
        /// Largest.
        most: usize,
    },
}

impl ValueSizes {
    /// Largest possible size.
    pub fn most(&self) -> usize {
        match *self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Uniform(_, most) | ValueSizes::Pareto { most, .. } => most,
        }
    }

    /// The next size.
    #[inline]
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        match *self {
            ValueSizes::Fixed(size) => size,
            ValueSizes::Uniform(least, most) => least + random.below((most - least) as u64 + 1) as usize,
            ValueSizes::Pareto { scale, shape, most } => {
                // 1 - u is never 0, so the logarithm is finite.
                let log = -(1.0 - random.unit()).ln();
                let size = if shape == 0.0 { scale * log } else { scale / shape * (shape * log).exp_m1() };
                // A cast stops at the largest number that fits.
                (size.ceil() as usize).min(most)
            }
        }
    }
}
