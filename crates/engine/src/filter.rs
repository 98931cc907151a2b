//! A Bloom filter whose probes for one key all fall into one cache line (64 bytes), so that a lookup costs one cache miss (Putze, Sanders,
//! Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007; the same idea as RocksDB's FastLocalBloom). At 10 bits per key it
//! makes six probes and answers wrongly for about 1 % of absent keys. The lines are the format.

use xxhash_rust::xxh3::xxh3_64;

/// The hash of a user key that chooses the filter's bits: part of the format.
#[inline(always)]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// 512 bits. Bit `i` is bit `i % 64` of word `i / 64`; words are little-endian in the file.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Line([u64; 8]);

/// Bytes of one line.
pub const LINE_BYTES: usize = 64;

/// An approximate set of keys: "maybe there" or "certainly not".
#[derive(Debug)]
pub struct Filter {
    probes: u32,
    lines: Box<[Line]>,
}

/// Hashes in one piece of [`Hashes`]: 64 KiB of them.
const PIECE: usize = 8 << 10;

/// Hashes of the keys that a filter is made of, in pieces. One vector would be copied each time it grows, and an allocator keeps the
/// megabytes that it leaves behind.
#[derive(Debug, Default)]
pub struct Hashes {
    pieces: Vec<Vec<u64>>,
}

impl Hashes {
    /// Adds the hash of a key.
    #[inline]
    pub fn push(&mut self, hash: u64) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(hash),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(hash);
                self.pieces.push(piece);
            }
        }
    }

    /// Number of hashes.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// Returns whether there is no hash.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// Probes at a number of bits per key: RocksDB's table for cache-local filters (`util/bloom_impl.h`, `FastLocalBloomImpl`), which has fewer
/// probes than a standard filter would, because lines fill unevenly.
fn probes(bits_per_key: f64) -> u32 {
    const STEPS: [f64; 12] = [2.08, 3.58, 5.1, 6.64, 8.3, 10.07, 11.72, 14.001, 16.05, 18.3, 22.001, 25.501];
    let step = STEPS.iter().position(|limit| bits_per_key <= *limit).unwrap_or(STEPS.len());
    step as u32 + 1
}

/// The line of a hash: its upper half, scaled. The probes use the lower half, block tags the top byte.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Visits the bits of a hash within its line: nine bits of a multiplicative sequence each.
#[inline(always)]
fn each_probe(hash: u64, probes: u32, mut visit: impl FnMut(usize, u64)) {
    let mut x = hash as u32;
    for _ in 0..probes {
        let bit = x >> 23;
        visit((bit >> 6) as usize & 7, 1 << (bit & 63));
        x = x.wrapping_mul(0x9E37_79B9);
    }
}

impl Filter {
    /// Bytes [`Filter::build`] will make.
    pub fn encoded_len(keys: usize, bits_per_key: f64) -> usize {
        lines_for(keys, bits_per_key) * LINE_BYTES + 1
    }

    /// Appends the format for these key hashes: the number of probes (one byte), then the lines.
    pub fn build(hashes: &Hashes, bits_per_key: f64, out: &mut Vec<u8>) {
        let probes = probes(bits_per_key);
        out.reserve(Filter::encoded_len(hashes.len(), bits_per_key));
        out.push(probes as u8);
        let start = out.len();
        out.resize(start + lines_for(hashes.len(), bits_per_key) * LINE_BYTES, 0);
        let lines = out[start..].as_chunks_mut::<LINE_BYTES>().0;
        for &hash in hashes.pieces.iter().flatten() {
            let words = lines[line_of(hash, lines.len())].as_chunks_mut::<8>().0;
            each_probe(hash, probes, |word, bit| words[word] = (u64::from_le_bytes(words[word]) | bit).to_le_bytes());
        }
    }

    /// Reads the format; `None` if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&probes, lines) = bytes.split_first()?;
        let (chunks, rest) = lines.as_chunks::<LINE_BYTES>();
        if probes == 0 || probes > 64 || chunks.is_empty() || !rest.is_empty() || u32::try_from(chunks.len()).is_err() {
            return None;
        }
        let line = |chunk: &[u8; LINE_BYTES]| {
            let mut words = [0; 8];
            for (word, bytes) in words.iter_mut().zip(chunk.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            Line(words)
        };
        Some(Filter { probes: u32::from(probes), lines: chunks.iter().map(line).collect() })
    }

    /// False if the key of this hash is certainly absent.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.line(hash) else { return true };
        let mut missing = 0;
        each_probe(hash, self.probes, |word, bit| missing |= !line.0[word] & bit);
        missing == 0
    }

    /// All that [`Filter::may_contain`] will touch: for fetching it into the CPU's cache early.
    #[inline]
    pub fn line(&self, hash: u64) -> Option<&Line> {
        self.lines.get(line_of(hash, self.lines.len()))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES + size_of::<Self>()
    }
}

/// Number of lines for `keys` keys, at least one.
fn lines_for(keys: usize, bits_per_key: f64) -> usize {
    ((keys as f64 * bits_per_key / 512.0).ceil() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(n: u64, salt: u64) -> Vec<u64> {
        (0..n).map(|i| hash(&(i ^ salt << 40).to_le_bytes())).collect()
    }

    fn build(hashes: &[u64], bits_per_key: f64) -> Vec<u8> {
        let (mut all, mut bytes) = (Hashes::default(), Vec::new());
        hashes.iter().for_each(|hash| all.push(*hash));
        assert_eq!((all.len(), all.is_empty()), (hashes.len(), hashes.is_empty()));
        Filter::build(&all, bits_per_key, &mut bytes);
        bytes
    }

    #[test]
    fn no_false_negatives_and_the_expected_false_positives() {
        for (bits, worst) in [(1.0, 0.7), (4.0, 0.20), (10.0, 0.0125), (16.0, 0.002), (30.0, 0.0005), (100.0, 0.0002)] {
            for n in [1, 51, 52, 1000, 50_000] {
                let keys = hashes(n, 0);
                let bytes = build(&keys, bits);
                assert_eq!(bytes.len(), Filter::encoded_len(keys.len(), bits));
                let filter = Filter::decode(&bytes).unwrap();
                assert!(keys.iter().all(|h| filter.may_contain(*h)), "{bits} {n}");
                if n == 50_000 {
                    let wrong = hashes(100_000, 1).iter().filter(|h| filter.may_contain(**h)).count() as f64 / 1e5;
                    assert!(wrong <= worst, "{bits} bits: {wrong}");
                }
            }
        }
    }

    #[test]
    fn damaged_forms_are_refused() {
        let mut bytes = build(&hashes(100, 0), 10.0);
        assert!(Filter::decode(&[]).is_none());
        assert!(Filter::decode(&bytes[..1]).is_none());
        assert!(Filter::decode(&bytes[..bytes.len() - 1]).is_none());
        bytes[0] = 0;
        assert!(Filter::decode(&bytes).is_none());
        bytes[0] = 255;
        assert!(Filter::decode(&bytes).is_none());
    }
}
