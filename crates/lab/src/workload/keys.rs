//! Key numbers (which key comes next) and key bytes (what it looks like).

use super::permutation::Permutation;
use super::random::Xoshiro256PlusPlus;
use super::zipf::Zipf;

/// Writes key numbers as db_bench's `GenerateKeyFromInt` does without prefixes: the number big-endian in the first 8 bytes (the low
/// bytes of it in a shorter key), then `0` characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCoder {
    size: usize,
}

impl KeyCoder {
    /// Keys of `size` bytes.
    pub fn new(size: usize) -> Self {
        KeyCoder { size }
    }

    /// A buffer for [`KeyCoder::write`]: one per thread, used for every key.
    pub fn buffer(&self) -> Vec<u8> {
        vec![b'0'; self.size]
    }

    /// Writes key `number` into a buffer of [`KeyCoder::buffer`]; the padding stays as it is.
    #[inline]
    pub fn write(&self, number: u64, buffer: &mut [u8]) {
        let bytes = number.to_be_bytes();
        let filled = self.size.min(8);
        buffer[..filled].copy_from_slice(&bytes[8 - filled..]);
    }
}

/// How key numbers are drawn from `0..num`.
#[derive(Debug, Clone)]
pub enum Distribution {
    /// 0, 1, 2, ... (from 0 again behind the last).
    Sequential,
    /// Each key once, in random order.
    Unique(Permutation),
    /// All keys alike.
    Uniform,
    /// Few keys often: exact Zipf ranks, spread over the key space by a permutation.
    Zipf(Zipf, Permutation),
    /// db_bench's `--read_random_exp_range`: `exp(-range * u) * num`, spread by a multiplication.
    Exponential(f64),
}

/// An endless stream of key numbers: a pure function of (num, distribution, seed, stream).
#[derive(Debug, Clone)]
pub struct KeyStream {
    num: u64,
    distribution: Distribution,
    random: Xoshiro256PlusPlus,
    position: u64,
}

impl KeyStream {
    /// The stream of one thread over keys `0..num` (`num` at least 1).
    pub fn new(num: u64, distribution: Distribution, seed: u64, stream: u64) -> Self {
        KeyStream { num: num.max(1), distribution, random: Xoshiro256PlusPlus::stream(seed, stream), position: 0 }
    }

    /// The next key number.
    #[inline]
    pub fn next_key(&mut self) -> u64 {
        match &self.distribution {
            Distribution::Uniform => self.random.below(self.num),
            Distribution::Sequential => step(&mut self.position, self.num),
            Distribution::Unique(permutation) => permutation.apply(step(&mut self.position, self.num)),
            Distribution::Zipf(zipf, permutation) => permutation.apply(zipf.draw(&mut self.random)),
            Distribution::Exponential(range) => exponential(self.random.next_u64(), *range, self.num),
        }
    }
}

/// The position, which then moves on around `0..num`.
#[inline]
fn step(position: &mut u64, num: u64) -> u64 {
    let now = *position;
    *position = if now + 1 == num { 0 } else { now + 1 };
    now
}

/// db_bench's `GetRandomKey` for a range above 0. The product overflows as it does there.
fn exponential(word: u64, range: f64, num: u64) -> u64 {
    const BIG: u64 = 1 << 62;
    const SPREAD: u64 = 0x5bd1_e995;
    let order = -((word % BIG) as f64 / BIG as f64) * range;
    let near = (order.exp() * num as f64) as u64;
    near.wrapping_mul(SPREAD) % num
}
