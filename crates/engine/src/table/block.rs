//! Data blocks. A stored block is only its entries. The index that makes it searchable without scanning, a tag and an offset per entry, is
//! derived when a block enters memory: that takes less than decompressing the block, and the three bytes per entry do not compress.
//! A scan for a compaction needs no index and decodes stored blocks in place.
//!
//! ```text
//! stored      varint entries, varint length of the common prefix, varint base sequence number
//!             common prefix of all keys
//!             entries: varint suffix length, varint value length, varint trailer, suffix, value
//!
//! in memory   tags: one byte per entry, a hash of its suffix, zero-filled to a multiple of 16
//!             offsets: where each entry starts, counted from the first tag; u16, or u32 if one needs it
//!             the stored block
//! ```
//!
//! The trailer's lowest bit is 0 for a value, else three more bits are the kind. The rest is 0 for sequence number 0 (so that an entry
//! below all snapshots costs one byte), else the distance from the base sequence number plus one.
//!
//! * A get compares tags sixteen at a time and touches an entry only on a match: one in 256 entries matches by chance. (A scan of
//!   restart intervals, as in LevelDB, costs ten times as much in dependent cache misses.)
//! * An ordered search is a binary search over the offsets, comparing suffixes.
//! * A scan decodes the entries one after another.
//!
//! Every access is checked against the bytes: a block that did not come from the builder gives `None`, never a panic.

use super::search;
use crate::coding::Decoder;
use crate::key::{self, Kind, MAX_SEQ, Seq};
use crate::prefetch;
use crate::slab::Bytes;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Number of tags that are compared at once.
const GROUP: usize = 16;
/// Least number of bytes of an entry's three varints.
const LEAST_ENTRY: usize = 3;

/// The tag of an entry: a hash of its suffix, by multiplication, eight bytes at a time. The last eight bytes overlap those before, so that
/// no byte is handled alone except in suffixes below eight bytes. A general hash of the whole key takes twice as long for a block.
#[inline(always)]
fn tag(suffix: &[u8]) -> u8 {
    // 2^64 divided by the golden ratio, as in Fibonacci hashing (Knuth, "The Art of Computer Programming", volume 3, 6.4).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = (hash ^ word).wrapping_mul(SPREAD);
        product ^ product >> 32
    };
    let (words, rest) = suffix.as_chunks::<8>();
    let hash = words.iter().fold(suffix.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = match suffix.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    (mix(hash, last).wrapping_mul(SPREAD) >> 56) as u8
}

/// Sequence number and kind as an entry has them: see the module. The sequence number is 0 or at least `base`.
#[inline]
pub(super) fn coded_trailer(trailer: u64, base: Seq) -> u64 {
    let (seq, kind) = (trailer >> 8, trailer & 0x7);
    let distance = if seq == 0 { 0 } else { seq - base + 1 };
    if kind == Kind::Value as u64 { distance << 1 } else { distance << 4 | kind << 1 | 1 }
}

/// Positions of the pieces of a stored block. Apart from the bytes, because a scan decodes blocks inside a larger buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    base: Seq,
    // 32 bits each: a cache of millions of blocks has one of these per block.
    count: u32,
    prefix: u32,
    entries: u32,
}

/// One entry of a block. The key is the block's prefix and this suffix.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The key without the block's prefix.
    pub suffix: &'a [u8],
    /// Sequence number and kind.
    pub trailer: u64,
    /// The value.
    pub value: &'a [u8],
    /// Offset of the value.
    value_at: usize,
}

impl Layout {
    /// Reads the head of a stored block; `None` if the pieces do not fit the bytes. The entries are checked when they are used.
    pub fn parse(stored: &[u8]) -> Option<Layout> {
        let mut head = Decoder::new(stored);
        let (count, prefix, base) = (head.length()?, head.length()?, head.varint()?);
        let at = stored.len() - head.rest().len();
        let entries = at.checked_add(prefix)?;
        let room = stored.len().checked_sub(entries)?;
        // A block of 4 GiB is not one of ours: the builder takes no such entry.
        u32::try_from(stored.len()).ok().filter(|_| count > 0 && count <= room / LEAST_ENTRY && base <= MAX_SEQ)?;
        Some(Layout { base, count: count as u32, prefix: at as u32, entries: entries as u32 })
    }

    /// Number of entries, at least one.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Offset of the first entry's offset in a block in memory: behind the tags.
    #[inline]
    fn offsets(&self) -> usize {
        self.count().next_multiple_of(GROUP)
    }

    /// The prefix that all keys share.
    #[inline]
    pub fn prefix<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        data.get(self.prefix as usize..self.entries as usize).unwrap_or_default()
    }

    /// The entry that starts at `at`.
    #[inline(always)]
    fn entry_at<'a>(&self, data: &'a [u8], at: usize) -> Option<Entry<'a>> {
        let rest = data.get(at..)?;
        let (head, suffix_len, value_len, coded) = match rest.first_chunk::<8>().and_then(|head| short_head(u64::from_le_bytes(*head))) {
            Some(head) => head,
            None => long_head(rest)?,
        };
        let suffix_end = head.checked_add(suffix_len)?;
        let value_end = suffix_end.checked_add(value_len)?;
        let suffix = rest.get(head..suffix_end)?;
        let value = rest.get(suffix_end..value_end)?;
        let (distance, kind) = if coded & 1 == 0 { (coded >> 1, Kind::Value as u64) } else { (coded >> 4, coded >> 1 & 0x7) };
        let seq = if distance == 0 { 0 } else { self.base + (distance - 1) };
        (seq <= MAX_SEQ && kind <= Kind::TimedValue as u64).then_some(())?;
        Some(Entry { suffix, trailer: seq << 8 | kind, value, value_at: at + suffix_end })
    }
}

/// Head length, suffix length, value length and coded trailer, where the lengths take one byte each and the trailer at most five: nearly
/// always, and without a loop.
#[inline(always)]
fn short_head(word: u64) -> Option<(usize, usize, usize, u64)> {
    if word & 0x8080 != 0 {
        return None;
    }
    let rest = word >> 16;
    let stop = !rest & 0x80_8080_8080;
    if stop == 0 {
        return None;
    }
    let bits = stop.trailing_zeros() + 1;
    let x = rest & ((1 << bits) - 1);
    let coded = (x & 0x7f) | (x >> 1 & 0x3f80) | (x >> 2 & 0x1f_c000) | (x >> 3 & 0xfe0_0000) | (x >> 4 & 0x7_f000_0000);
    Some((2 + (bits >> 3) as usize, (word & 0x7f) as usize, (word >> 8 & 0x7f) as usize, coded))
}

/// Decodes any head, slowly: its length, suffix length, value length and coded trailer.
fn long_head(rest: &[u8]) -> Option<(usize, usize, usize, u64)> {
    let mut head = Decoder::new(rest);
    let suffix = head.length()?;
    let value = head.length()?;
    let coded = head.varint()?;
    Some((rest.len() - head.rest().len(), suffix, value, coded))
}

/// A data block in memory.
#[derive(Debug)]
pub struct Block {
    data: Bytes,
    layout: Layout,
    /// Offsets are `u32`, else `u16`.
    wide: bool,
}

impl Block {
    /// Derives tags and offsets of a stored (decompressed) block, and with it checks every entry; `None` if it is damaged.
    pub fn parse(stored: &[u8]) -> Option<Block> {
        let head = Layout::parse(stored)?;
        // No overflow: an entry has at least three bytes, so there are fewer entries than bytes.
        let (count, offsets) = (head.count(), head.offsets());
        let narrow = offsets + 2 * count;
        let wide = narrow + stored.len() > usize::from(u16::MAX);
        let front = if wide { offsets + 4 * count } else { narrow };
        let mut data = Bytes::new(u32::try_from(front + stored.len()).ok()?);
        data[..front].fill(0);
        data[front..].copy_from_slice(stored);
        let layout = Layout { prefix: head.prefix + front as u32, entries: head.entries + front as u32, ..head };
        let mut at = layout.entries as usize;
        for index in 0..count {
            let entry = layout.entry_at(&data, at)?;
            let tag = tag(entry.suffix);
            let start = std::mem::replace(&mut at, entry.value_at + entry.value.len());
            data[index] = tag;
            if wide {
                data[offsets + 4 * index..][..4].copy_from_slice(&u32::try_from(start).ok()?.to_le_bytes());
            } else {
                data[offsets + 2 * index..][..2].copy_from_slice(&(start as u16).to_le_bytes());
            }
        }
        (at == data.len()).then(|| Block { data, layout, wide })
    }

    /// Positions of the block's pieces.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All bytes of the block in memory.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The stored block that it was made from.
    pub fn stored(&self) -> &[u8] {
        let front = self.layout.offsets() + self.count() * if self.wide { 4 } else { 2 };
        self.data.get(front..).unwrap_or_default()
    }

    /// Number of entries, at least one.
    #[inline]
    pub fn count(&self) -> usize {
        self.layout.count()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.data.footprint() + size_of::<Self>()
    }

    /// Starts to load what a get touches first.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch::item(&self.data, 0);
        prefetch::item(&self.data, 64);
        prefetch::item(&self.data, 128);
    }

    /// The tags, filled up.
    #[inline]
    fn tag_groups(&self) -> &[[u8; GROUP]] {
        self.data.get(..self.layout.offsets()).unwrap_or_default().as_chunks().0
    }

    /// Offset of entry `index`.
    #[inline]
    fn offset(&self, index: usize) -> Option<usize> {
        if index >= self.count() {
            return None;
        }
        let offsets = self.layout.offsets();
        Some(if self.wide {
            u32::from_le_bytes(*self.data.get(offsets + 4 * index..)?.first_chunk()?) as usize
        } else {
            usize::from(u16::from_le_bytes(*self.data.get(offsets + 2 * index..)?.first_chunk()?))
        })
    }

    /// Entry `index`.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<Entry<'_>> {
        self.layout.entry_at(&self.data, self.offset(index)?)
    }

    /// The first entry at or after `(key, trailer)`; the number of entries if there is none.
    pub fn lower_bound(&self, key: &[u8], trailer: u64) -> Option<usize> {
        let prefix = self.layout.prefix(&self.data);
        let Some(suffix) = key.strip_prefix(prefix) else {
            return Some(if key < prefix { 0 } else { self.count() });
        };
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(middle)?;
            if key::compare(entry.suffix, entry.trailer, suffix, trailer) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    /// Visits the versions of `key` with sequence number `<= snapshot`, newest first. `Continue` if the last entry of the block is such a
    /// version, that is, if the next block may have more.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: Seq, mut visit: impl FnMut(Seq, Kind, &[u8]) -> ControlFlow<()>) -> Option<ControlFlow<()>> {
        let Some(suffix) = key.strip_prefix(self.layout.prefix(&self.data)) else { return Some(ControlFlow::Break(())) };
        let tag = tag(suffix);
        let count = self.count();
        for (group, tags) in self.tag_groups().iter().enumerate() {
            let mut matches = search::matches(tags, tag);
            while matches != 0 {
                let index = group * GROUP + matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if index >= count {
                    break;
                }
                let at = self.offset(index)?;
                // The rest of the entry is fetched while its head is waited for.
                prefetch::item(&self.data, at + 64);
                let entry = self.layout.entry_at(&self.data, at)?;
                if entry.suffix != suffix {
                    continue;
                }
                let seq = key::seq_of(entry.trailer);
                if seq <= snapshot && visit(seq, key::kind_of(entry.trailer)?, entry.value).is_break() {
                    return Some(ControlFlow::Break(()));
                }
                if index + 1 == count {
                    return Some(ControlFlow::Continue(()));
                }
            }
        }
        Some(ControlFlow::Break(()))
    }
}

/// A position in a block, with the whole key in one piece.
#[derive(Debug, Default)]
pub struct Position {
    key: Vec<u8>,
    prefix: usize,
    trailer: u64,
    value: (usize, usize),
    index: usize,
}

impl Position {
    /// Moves to the first entry of a block, stored or in memory, that it may not have been in before; `None` if the block is damaged.
    pub fn start(&mut self, layout: &Layout, data: &[u8]) -> Option<()> {
        self.share(layout.prefix(data));
        self.set(0, layout.entry_at(data, layout.entries as usize)?);
        Some(())
    }

    /// Moves to entry `index` of a block that it may not have been in before; `None` if it has no such entry.
    pub fn enter(&mut self, block: &Block, index: usize) -> Option<()> {
        self.share(block.layout.prefix(&block.data));
        self.go(block, index)
    }

    /// Moves to another entry of the same block.
    pub fn go(&mut self, block: &Block, index: usize) -> Option<()> {
        self.set(index, block.entry(index)?);
        Some(())
    }

    /// Moves to the next entry of the same block, which must have one: entries stand one after another.
    #[inline(always)]
    pub fn advance(&mut self, layout: &Layout, data: &[u8]) -> Option<()> {
        self.set(self.index + 1, layout.entry_at(data, self.value.1)?);
        Some(())
    }

    fn share(&mut self, prefix: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(prefix);
        self.prefix = prefix.len();
    }

    #[inline(always)]
    fn set(&mut self, index: usize, entry: Entry<'_>) {
        self.key.truncate(self.prefix);
        self.key.extend_from_slice(entry.suffix);
        self.trailer = entry.trailer;
        self.value = (entry.value_at, entry.value_at + entry.value.len());
        self.index = index;
    }

    /// The entry's number in its block.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// End of the entry: the next one's start, or the end of the block.
    #[inline]
    pub fn end(&self) -> usize {
        self.value.1
    }

    /// The user key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Sequence number and kind.
    #[inline]
    pub fn trailer(&self) -> u64 {
        self.trailer
    }

    /// The value, out of the block's bytes.
    #[inline]
    pub fn value<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        data.get(self.value.0..self.value.1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
