//! Key numbers (the order of keys) and key bytes (their encoding).

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

    /// A buffer for [`KeyCoder::write`]: one per thread, reused for every key.
    pub fn buffer(&self) -> Vec<u8> {
        vec![b'0'; self.size]
    }

    /// Writes inserted key `number`: it lies next to the loaded key `neighbour`, so that inserts are spread over the key space as YCSB's
    /// hashed ones are. Keys need 16 bytes; the next [`KeyCoder::write`] wants [`KeyCoder::pad`] first.
    #[inline]
    pub fn write_inserted(&self, neighbour: u64, number: u64, buffer: &mut [u8]) {
        self.write(neighbour, buffer);
        buffer[8..16].copy_from_slice(&number.to_be_bytes());
    }

    /// Writes the padding again.
    #[inline]
    pub fn pad(&self, buffer: &mut [u8]) {
        buffer[8..16].fill(b'0');
    }

    /// Writes key `number` into a buffer of [`KeyCoder::buffer`]; the padding stays as it is.
    #[inline]
    pub fn write(&self, number: u64, buffer: &mut [u8]) {
        let bytes = number.to_be_bytes();
        let filled = self.size.min(8);
        buffer[..filled].copy_from_slice(&bytes[8 - filled..]);
    }
}

/// Distribution of key numbers over `0..num`.
#[derive(Debug, Clone)]
pub enum Distribution {
    /// 0, 1, 2, ... (from 0 again behind the last).
    Sequential,
    /// Each key once, in random order.
    Unique(Permutation),
    /// All keys equally often.
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
    stride: u64,
}

impl KeyStream {
    /// The stream of one thread over keys `0..num` (`num` at least 1).
    pub fn new(num: u64, distribution: Distribution, seed: u64, stream: u64) -> Self {
        KeyStream { num: num.max(1), distribution, random: Xoshiro256PlusPlus::stream(seed, stream), position: 0, stride: 1 }
    }

    /// Restricts the stream to the share of one of `threads` threads (numbered from 0): of `Sequential` and `Unique` each gets every
    /// `threads`-th key, so that together they meet each key once. Draws of the other distributions are independent anyway.
    pub fn share(mut self, thread: u64, threads: u64) -> Self {
        (self.position, self.stride) = (thread % self.num, threads);
        self
    }

    /// The next key number.
    #[inline]
    pub fn next_key(&mut self) -> u64 {
        match &self.distribution {
            Distribution::Uniform => self.random.below(self.num),
            Distribution::Sequential => step(&mut self.position, self.stride, self.num),
            Distribution::Unique(permutation) => permutation.apply(step(&mut self.position, self.stride, self.num)),
            Distribution::Zipf(zipf, permutation) => permutation.apply(zipf.draw(&mut self.random)),
            Distribution::Exponential(range) => exponential(self.random.next_u64(), *range, self.num),
        }
    }
}

/// Returns the position and moves it on, around `0..num`.
#[inline]
fn step(position: &mut u64, stride: u64, num: u64) -> u64 {
    let (now, left) = (*position, num - *position);
    *position = if stride < left { now + stride } else { (stride - left) % num };
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
