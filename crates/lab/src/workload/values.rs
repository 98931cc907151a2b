//! Values of a stated compressibility, made like db_bench's `RandomGenerator`: slices of one pool of 100-byte pieces, each piece a
//! random string repeated until it is full.

use super::random::Xoshiro256PlusPlus;

/// Bytes of one piece.
const PIECE: usize = 100;
/// The pool is larger than every codec's window that matters here (snappy, lz4: 64 KiB), so that repeats are not free.
const POOL: usize = 1 << 20;

/// The bytes that all values are cut from; shared by threads, read only.
#[derive(Debug)]
pub struct ValuePool {
    bytes: Vec<u8>,
    value_size: usize,
}

impl ValuePool {
    /// A pool for values of `value_size` bytes that compress to about `ratio` of their size (1: not at all; values below two pieces
    /// less well, because the string that repeats is `ratio` of a piece long). It does not depend on the seed of a run, as in db_bench.
    pub fn new(value_size: usize, ratio: f64) -> Self {
        let mut random = Xoshiro256PlusPlus::new(301);
        let unique = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        let mut bytes = Vec::with_capacity(POOL.max(value_size) + PIECE);
        while bytes.len() < POOL.max(value_size) {
            let start = bytes.len();
            bytes.extend((0..unique).map(|_| b' ' + random.below(95) as u8));
            for i in unique..PIECE {
                bytes.push(bytes[start + i % unique]);
            }
        }
        ValuePool { bytes, value_size }
    }

    /// Largest size of values of the pool, bytes.
    pub fn value_size(&self) -> usize {
        self.value_size
    }

    /// Values for one thread, from the start of the pool.
    pub fn values(&self) -> Values<'_> {
        Values { pool: self, position: 0 }
    }
}

/// One thread's walk through the pool.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    pool: &'a ValuePool,
    position: usize,
}

impl<'a> Values<'a> {
    /// The next value: a slice of the pool, nothing is copied.
    #[inline]
    pub fn next_value(&mut self) -> &'a [u8] {
        self.of_size(self.pool.value_size)
    }

    /// The next value of `size` bytes, at most the pool's largest size.
    #[inline]
    pub fn of_size(&mut self, size: usize) -> &'a [u8] {
        if self.position + size > self.pool.bytes.len() {
            self.position = 0;
        }
        let start = self.position;
        self.position += size;
        &self.pool.bytes[start..start + size]
    }
}
