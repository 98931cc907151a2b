//! The index of a table: the end of each data block, and a separator per block, a short key `>=` all keys of its block and `<` all keys of
//! the next one (or the key itself, if its versions go on in the next block).
//!
//! In the file separators are prefix-compressed. In memory the prefix that all separators share is cut off, and the next eight bytes of
//! each are kept as big-endian numbers in Eytzinger order (the breadth-first order of a binary tree): the first levels stay in the CPU's
//! cache, one cache line holds the eight great-grandchildren of a node, and it is fetched three levels ahead, so that misses overlap
//! (Khuong, Morin: "Array Layouts for Comparison-Based Searching", 2017). Equal numbers are told apart by the whole separators.

use crate::coding::{Decoder, put_varint};
use crate::key;
use crate::prefetch;

/// Eight numbers in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Collects block lengths and separators.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    /// Separators, one after another.
    separators: Vec<u8>,
    /// End of each separator.
    ends: Vec<usize>,
    /// Bytes of each block in the file.
    lengths: Vec<u64>,
}

/// A short key `s` with `last <= s < next`; `next` is the next key after `last` or equal to it.
fn separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    let shared = shared_prefix(last, next);
    // `next` up to its first differing byte is larger than `last`, and smaller than `next` unless it is all of it.
    if shared + 1 < next.len() && shared + 1 < last.len() { &next[..shared + 1] } else { last }
}

/// Length of the common prefix.
#[inline]
pub(super) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a8, b8) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut shared = 0;
    for (x, y) in a8.iter().zip(b8) {
        let different = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if different != 0 {
            return shared + (different.trailing_zeros() / 8) as usize;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(x, y)| x == y).count()
}

impl IndexBuilder {
    /// The separator after the last key of a block; `next` is the first key of the next block, if there is one.
    pub fn add_separator(&mut self, last: &[u8], next: Option<&[u8]>) {
        self.separators.extend_from_slice(next.map_or(last, |next| separator(last, next)));
        self.ends.push(self.separators.len());
    }

    /// The length of a block in the file. Blocks come in the order of their separators, perhaps later.
    pub fn add_block(&mut self, length: u64) {
        self.lengths.push(length);
    }

    /// Blocks so far.
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// About how large the encoded form will be.
    pub fn estimate(&self) -> usize {
        self.separators.len() + 4 * self.ends.len() + 16
    }

    fn separators(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, &end| Some(&self.separators[std::mem::replace(start, end)..end]))
    }

    /// Appends the format: number of blocks, common prefix, then for each block its length, how many bytes its separator (without the
    /// common prefix) shares with the one before, and the rest of the separator.
    pub fn finish(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ends.len() as u64);
        let first = self.separators().next().unwrap_or_default();
        let prefix = self.separators().fold(first.len(), |prefix, s| prefix.min(shared_prefix(first, s)));
        put_varint(out, prefix as u64);
        out.extend_from_slice(&first[..prefix]);
        let mut before: &[u8] = &[];
        for (separator, length) in self.separators().zip(&self.lengths) {
            let separator = &separator[prefix..];
            let shared = shared_prefix(before, separator);
            put_varint(out, *length);
            put_varint(out, shared as u64);
            put_varint(out, (separator.len() - shared) as u64);
            out.extend_from_slice(&separator[shared..]);
            before = separator;
        }
    }
}

/// The index in memory.
#[derive(Debug)]
pub struct Index {
    prefix: Vec<u8>,
    /// Numbers in Eytzinger order from 1 on; the rest of the last line is unused.
    numbers: Box<[Line]>,
    /// The block of each place in Eytzinger order.
    ranks: Box<[u32]>,
    /// End of each block in the file; a block starts where the one before ends.
    block_ends: Box<[u64]>,
    /// Separators without the prefix, one after another.
    separators: Box<[u8]>,
    separator_ends: Box<[usize]>,
}

impl Index {
    /// Reads the format; `None` if it is damaged: lengths, order and the total length of the data blocks are checked. Each separator is a
    /// prefix of a key of its block, so together they take at most `key_bytes`, the keys of the table: as they are prefix-compressed, they
    /// could claim the square of what they take in the file.
    pub fn decode(bytes: &[u8], data_end: u64, key_bytes: u64) -> Option<Index> {
        let mut from = Decoder::new(bytes);
        // A block takes at least three bytes here: the claimed count is bounded by what is there.
        let count = from.length().filter(|n| u32::try_from(*n).is_ok())?;
        let prefix = from.prefixed()?.to_vec();
        (count <= from.rest().len() / 3).then_some(())?;
        let (mut block_ends, mut separator_ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut separators, mut before, mut end) = (Vec::new(), 0..0, 0u64);
        for _ in 0..count {
            let length = from.varint()?;
            end = end.checked_add(length).filter(|_| length > 0)?;
            block_ends.push(end);
            let shared = usize::try_from(from.varint()?).ok().filter(|shared| *shared <= before.len())?;
            let rest = from.prefixed()?;
            let start = separators.len();
            ((start + shared + rest.len()) as u64 <= key_bytes).then_some(())?;
            separators.extend_from_within(before.start..before.start + shared);
            separators.extend_from_slice(rest);
            let ordered = separators[before.clone()] <= separators[start..];
            ordered.then_some(())?;
            before = start..separators.len();
            separator_ends.push(separators.len());
        }
        (end == data_end && from.is_empty()).then_some(())?;
        let mut index = Index {
            prefix,
            numbers: vec![Line([0; 8]); count / 8 + 1].into(),
            ranks: vec![0; count + 1].into(),
            block_ends: block_ends.into(),
            separators: separators.into(),
            separator_ends: separator_ends.into(),
        };
        index.fill(1, &mut 0);
        Some(index)
    }

    /// Puts the sorted numbers into the subtree at `place`, in order. The depth is the logarithm of their number.
    fn fill(&mut self, place: usize, next: &mut usize) {
        if place <= self.len() {
            self.fill(2 * place, next);
            self.numbers[place / 8].0[place % 8] = key::prefix(self.suffix(*next));
            self.ranks[place] = *next as u32;
            *next += 1;
            self.fill(2 * place + 1, next);
        }
    }

    /// The table has no data blocks.
    pub fn is_empty(&self) -> bool {
        self.block_ends.is_empty()
    }

    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.block_ends.len()
    }

    /// Separator `block` without the common prefix.
    fn suffix(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.separator_ends[block - 1] };
        &self.separators[start..self.separator_ends[block]]
    }

    /// The separator of a block, appended to `out`.
    pub fn separator(&self, block: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(self.suffix(block));
    }

    /// Offset and length of a block in the file. Only for `block < len()`.
    pub fn extent(&self, block: usize) -> (u64, u64) {
        let start = if block == 0 { 0 } else { self.block_ends[block - 1] };
        (start, self.block_ends[block] - start)
    }

    /// The place in Eytzinger order of the first number `>= x`; 0 if there is none.
    #[inline(always)]
    fn place(&self, x: u64) -> usize {
        let n = self.len();
        let mut place = 1;
        while place <= n {
            // Line `place` holds places 8 * place to 8 * place + 7.
            prefetch::item(&self.numbers, place);
            place = 2 * place + usize::from(self.numbers[place / 8].0[place % 8] < x);
        }
        // Undo the steps to the right after the last one to the left, and that one.
        place >> (place.trailing_ones() + 1)
    }

    /// The first block whose separator is `>= key`: the only one where `key` can start. `len()` if there is none.
    #[inline]
    pub fn find(&self, key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix.as_slice()) else {
            return if key < self.prefix.as_slice() { 0 } else { self.len() };
        };
        let x = key::prefix(suffix);
        let place = self.place(x);
        if place == 0 {
            return self.len();
        }
        let block = self.ranks[place] as usize;
        if self.numbers[place / 8].0[place % 8] > x { block } else { self.find_among_equals(block, x, suffix) }
    }

    /// Finds the block like `find`, among the blocks from `first` on whose number is `x`.
    fn find_among_equals(&self, first: usize, x: u64, suffix: &[u8]) -> usize {
        let end = x.checked_add(1).map(|x| self.place(x)).filter(|place| *place != 0);
        let (mut low, mut high) = (first, end.map_or(self.len(), |place| self.ranks[place] as usize));
        while low < high {
            let middle = low.midpoint(high);
            if self.suffix(middle) < suffix {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Starts to load the first levels into the CPU's cache.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::item(&self.numbers, 0);
        prefetch::item(&self.numbers, 1);
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.prefix.len() + self.numbers.len() * 64 + self.len() * (4 + 8 + 8) + self.separators.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(keys: &[Vec<u8>]) -> (Index, Vec<u8>) {
        let mut builder = IndexBuilder::default();
        for (i, key) in keys.iter().enumerate() {
            builder.add_separator(key, None);
            builder.add_block(i as u64 + 1);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let end = keys.len() as u64 * (keys.len() as u64 + 1) / 2;
        let key_bytes = keys.iter().map(|key| key.len() as u64).sum();
        (Index::decode(&bytes, end, key_bytes).unwrap(), bytes)
    }

    #[test]
    fn find_is_the_lower_bound() {
        let mut seed = 9u64;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for round in 0..300 {
            let alphabet: &[u8] = [&b"\0\xff"[..], b"ab", b"\0\x01\x7f\x80\xff"][round % 3];
            let common = vec![alphabet[0]; random(20) as usize];
            let mut key = |longest| {
                let tail: Vec<u8> = (0..random(longest)).map(|_| alphabet[random(alphabet.len() as u64) as usize]).collect();
                [common.clone(), tail].concat()
            };
            let mut keys: Vec<Vec<u8>> = (0..round).map(|_| key(14)).collect();
            keys.sort();
            let (index, _) = build(&keys);
            assert_eq!(index.len(), keys.len());
            let mut probes: Vec<Vec<u8>> = (0..50).map(|_| key(16)).chain(keys.clone()).collect();
            probes.extend([vec![], vec![0], vec![255; 30], b"a".to_vec(), common[..common.len() / 2].to_vec()]);
            for probe in probes {
                assert_eq!(index.find(&probe), keys.partition_point(|k| *k < probe), "round {round} {probe:?}");
            }
            for (i, key) in keys.iter().enumerate() {
                let mut separator = Vec::new();
                index.separator(i, &mut separator);
                assert_eq!(&separator, key);
                assert_eq!(index.extent(i), ((i * (i + 1) / 2) as u64, i as u64 + 1));
            }
        }
    }

    #[test]
    fn separators_separate() {
        let keys: [&[u8]; 12] =
            [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0b", b"aa", b"ab", b"abcdefghijkl", b"abcdefghijkz", b"b", b"\xff\xff\xff"];
        for (i, last) in keys.iter().enumerate() {
            for next in &keys[i..] {
                let s = separator(last, next);
                assert!(*last <= s && (s < *next || last == next), "{last:?} {s:?} {next:?}");
                assert!(s.len() <= last.len());
            }
        }
        assert_eq!(separator(b"abcdefg", b"abzzzzz"), b"abz");
    }

    #[test]
    fn damaged_forms_are_refused_or_read() {
        let keys: Vec<Vec<u8>> = (0..40u8).map(|i| vec![7, 7, i, i]).collect();
        let (_, bytes) = build(&keys);
        for n in 0..bytes.len() {
            assert!(Index::decode(&bytes[..n], 820, 160).is_none(), "{n}");
            for flip in [1, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[n] ^= flip;
                if let Some(index) = Index::decode(&bytes, 820, 160) {
                    index.find(&keys[7]);
                }
            }
        }
        assert!(Index::decode(&bytes, 821, 160).is_none());
        assert!(Index::decode(&[0xff; 12], 0, 160).is_none());
    }

    #[test]
    fn separators_do_not_claim_more_than_the_keys() {
        // A long separator, and a thousand that repeat it: 13 KB that would become 10 MB.
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 1001);
        put_varint(&mut bytes, 0);
        for shared in std::iter::once(0).chain(std::iter::repeat_n(10_000, 1000)) {
            put_varint(&mut bytes, 1);
            put_varint(&mut bytes, shared);
            put_varint(&mut bytes, 10_000 - shared);
            bytes.resize(bytes.len() + (10_000 - shared) as usize, b'k');
        }
        assert!(Index::decode(&bytes, 1001, 10_010_000).is_some_and(|index| index.find(b"k") == 0));
        assert!(Index::decode(&bytes, 1001, 10_009_999).is_none());
        assert!(Index::decode(&bytes, 1001, 20_000).is_none());
    }
}
