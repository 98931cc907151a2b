//! Samples: now and then a block's worth of the entries that a job writes is compressed and decompressed with every candidate. Only times
//! and sizes are kept: they tell what each codec costs and gains with this data on this machine.

use super::auto_codecs::{Auto, timed};
use super::codec_choice::{CANDIDATES, COUNT, Trial};
use crate::codec::{Codec, Compressor, decompress};

/// Least bytes of entries between two samples. A sample takes some fifty microseconds, a merge about one nanosecond per byte.
const SPACING: u64 = 2 << 20;
/// Bytes of entries per nanosecond that a sample took: it is a hundredth of the job's time where a merge writes 1.4 GB/s.
const BYTES_PER_NS: u64 = 140;
/// Bytes of entries before the first sample of a table whose level was sampled recently: much smaller tables are not worth the setup of the
/// codecs.
const FIRST: u64 = 256 << 10;
/// Largest sample. Larger blocks compress hardly better, and take long.
const LARGEST: usize = 64 << 10;

/// Runs `work`. Returns its result and its processor time in nanoseconds, without waits for a processor. Where the kernel counts processor
/// time in ticks, returns the elapsed time without those waits.
fn cost<T>(auto: &Auto, work: impl FnOnce() -> T) -> (T, u64) {
    let (result, busy, wait) = timed(auto, work);
    (result, if busy > 0 { busy } else { wait })
}

/// Takes samples of the entries of one table.
pub struct Sampler<'a> {
    auto: &'a Auto,
    level: usize,
    /// Bytes of entries until the next sample begins; below 0 while one is being taken.
    left: i64,
    size: usize,
    sample: Vec<u8>,
    /// The first key of the sample.
    first: Vec<u8>,
    compressor: Compressor,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl<'a> Sampler<'a> {
    /// Samples a table of `level` with blocks of `block_size` bytes.
    pub fn new(auto: &'a Auto, level: usize, block_size: u32) -> Self {
        Sampler {
            auto,
            level,
            left: if auto.unsampled(level).is_none_or(|bytes| bytes >= SPACING) { 0 } else { FIRST as i64 },
            size: (block_size as usize).min(LARGEST),
            sample: Vec::new(),
            first: Vec::new(),
            compressor: Compressor::default(),
            packed: Vec::new(),
            unpacked: Vec::new(),
        }
    }

    /// Takes note of an entry that goes into the table.
    #[inline]
    pub fn see(&mut self, key: &[u8], value: &[u8]) {
        self.left -= (key.len() + value.len()) as i64;
        if self.left <= 0 {
            self.take(key, value);
        }
    }

    /// Adds an entry to the sample, similar to its form in a block: without the prefix that the keys share, with three bytes of numbers.
    #[cold]
    fn take(&mut self, key: &[u8], value: &[u8]) {
        if self.sample.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        let shared = self.first.iter().zip(key).take_while(|(a, b)| a == b).count();
        self.sample.extend_from_slice(&[(key.len() - shared) as u8, value.len() as u8, (value.len() >> 8) as u8]);
        self.sample.extend_from_slice(&key[shared..]);
        self.sample.extend_from_slice(&value[..value.len().min(LARGEST)]);
        if self.sample.len() >= self.size {
            self.measure();
        }
    }

    /// Tries all candidates on the sample.
    fn measure(&mut self) {
        let started = self.auto.now();
        // The first run only warms the processor's caches: blocks are compressed many in a row.
        self.trials();
        let trials = self.trials();
        self.sample.clear();
        let spent = self.auto.now().saturating_sub(started);
        self.auto.learn(self.level, trials, spent);
        self.left = i64::try_from(spent.saturating_mul(BYTES_PER_NS).max(SPACING)).unwrap_or(i64::MAX);
    }

    fn trials(&mut self) -> [Trial; COUNT] {
        let auto = self.auto;
        // The cost of reading the clock; the least of three, in case one was interrupted.
        let clock = (0..3).map(|_| cost(auto, || ()).1).min().unwrap_or(0);
        CANDIDATES.map(|candidate| {
            if candidate.codec == Codec::None || !candidate.codec.is_built_in() {
                return Trial { ratio: 1.0, ns: None };
            }
            self.packed.clear();
            let (shrinks, compress) = cost(auto, || self.compressor.compress(candidate, None, &self.sample, &mut self.packed));
            self.unpacked.resize(self.sample.len(), 0);
            let unpack = || decompress(candidate.codec, None, &self.packed, &mut self.unpacked).is_some();
            let (comes_back, decompress) = if shrinks { cost(auto, unpack) } else { (false, 0) };
            let bytes = self.sample.len() as f64;
            let ratio = if comes_back { self.packed.len() as f64 / bytes } else { 1.0 };
            let per_byte = |ns: u64| ns.saturating_sub(clock) as f64 / bytes;
            let ns = (compress > clock).then(|| (per_byte(compress), per_byte(decompress)));
            Trial { ratio, ns }
        })
    }
}
