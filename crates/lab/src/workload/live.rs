//! Counts the keys that exist, for the denominator of space amplification. Streams are pure, so the keys of a workload are drawn again
//! after it instead of being watched during it.

/// A set of key numbers, one bit each.
#[derive(Debug)]
pub struct LiveKeys {
    words: Vec<u64>,
    count: u64,
}

/// Largest number of keys that can be tracked: half a GiB of bits.
const MOST: u64 = 1 << 32;

impl LiveKeys {
    /// An empty set for keys `0..num`; `None` if they are too many to track.
    pub fn new(num: u64) -> Option<Self> {
        (num <= MOST).then(|| LiveKeys { words: vec![0; (num / 64 + 1) as usize], count: 0 })
    }

    /// Keys that exist.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Marks key number `key`, below the `num` of [`LiveKeys::new`], as written (`present`) or deleted.
    #[inline]
    pub fn set(&mut self, key: u64, present: bool) {
        let (word, bit) = (&mut self.words[(key / 64) as usize], 1u64 << (key % 64));
        if (*word & bit != 0) == present {
            return;
        }
        *word ^= bit;
        self.count = if present { self.count + 1 } else { self.count - 1 };
    }
}
