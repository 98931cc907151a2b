//! A keyed bijection of `0..n`: spreads popular ranks over the key space, and gives every key once in random order without the
//! array of `n` numbers that a shuffle needs.

use super::random::mix;

/// A permutation of `0..n`. Rounds of xor-shift and odd multiplication permute the next power of two; results outside `0..n` are
/// permuted again until they fall inside (cycle walking; Black, Rogaway, CT-RSA 2002), on average less than twice.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); 4],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `key`.
    pub fn new(n: u64, key: u64) -> Self {
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(1);
        let mask = u64::MAX >> (u64::BITS - bits);
        let rounds = std::array::from_fn(|i| {
            let word = mix(key.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            (word, mix(word) | 1)
        });
        Permutation { n, mask, shift: bits.div_ceil(2), rounds }
    }

    /// Returns the image of `x`, which must be below `n`.
    #[inline]
    pub fn apply(&self, mut x: u64) -> u64 {
        debug_assert!(x < self.n);
        loop {
            for (add, multiply) in self.rounds {
                x = x.wrapping_add(add) & self.mask;
                x ^= x >> self.shift;
                x = x.wrapping_mul(multiply) & self.mask;
            }
            x ^= x >> self.shift;
            if x < self.n {
                return x;
            }
        }
    }
}
