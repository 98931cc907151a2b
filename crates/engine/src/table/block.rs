//! One data block in memory: an array of tags and an array of offsets in front of the entries, so that a search touches only what it
//! needs (research: a scan of restart intervals, as in LevelDB, costs ten times as much in dependent cache misses).
//!
//! ```text
//! 0   u32   entries << 1 | wide            wide: offsets are u32, else u16
//! 4   u32   length of the common prefix
//! 8   u64   base sequence number
//! 16        common prefix of all keys
//!           tags: one byte of each key's hash, zero-filled to a multiple of 16
//!           offsets: where each entry starts, counted from the start of the block
//!           entries: varint suffix length, varint value length, varint trailer, suffix, value
//! ```
//!
//! The trailer's low three bits are the kind. The rest is 0 for sequence number 0 (so that an entry below all snapshots costs one byte),
//! else the distance from the base sequence number plus one.
//!
//! * A get compares tags sixteen at a time and touches an entry only on a match: one in 256 entries matches by chance.
//! * An ordered search is a binary search over the offsets, comparing suffixes.
//! * A scan decodes the entries one after another and never looks at tags or offsets.
//!
//! Every access is checked against the bytes: a block that did not come from the builder gives `None`, never a panic.

use super::search;
use crate::coding::Decoder;
use crate::key::{self, Kind, MAX_SEQ, Seq};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Bytes before the common prefix.
pub(super) const HEADER: usize = 16;
/// Tags are compared in groups of so many.
pub(super) const GROUP: usize = 16;
/// Bits of the coded trailer that hold the kind.
pub(super) const KIND_BITS: u32 = 3;

/// The tag of a key hash: its top byte.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// Where the pieces of a block are. Apart from the bytes, because a scan decodes blocks inside a larger buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    count: u32,
    wide: bool,
    tags: usize,
    offsets: usize,
    base: Seq,
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
    /// Where the value starts.
    value_at: usize,
}

impl Layout {
    /// Reads the head of a block; `None` if the pieces do not fit the bytes. The entries are checked when they are used.
    pub fn parse(data: &[u8]) -> Option<Layout> {
        let mut head = Decoder::new(data);
        let (count, prefix, base) = (head.u32()?, head.u32()?, head.u64()?);
        let (count, wide) = (count >> 1, count & 1 == 1);
        let tags = HEADER.checked_add(usize::try_from(prefix).ok()?)?;
        let offsets = tags.checked_add(usize::try_from(count).ok()?.checked_next_multiple_of(GROUP)?)?;
        let width = if wide { 4 } else { 2 };
        let entries = offsets.checked_add(usize::try_from(count).ok()?.checked_mul(width)?)?;
        (count > 0 && base <= MAX_SEQ && entries <= data.len()).then_some(Layout { count, wide, tags, offsets, base })
    }

    /// Number of entries, at least one.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The prefix that all keys share.
    #[inline]
    pub fn prefix<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        data.get(HEADER..self.tags).unwrap_or_default()
    }

    /// The tags, filled up.
    #[inline]
    fn tag_groups<'a>(&self, data: &'a [u8]) -> &'a [[u8; GROUP]] {
        data.get(self.tags..self.offsets).unwrap_or_default().as_chunks().0
    }

    /// Where entry `index` starts.
    #[inline]
    fn offset(&self, data: &[u8], index: usize) -> Option<usize> {
        if index >= self.count() {
            return None;
        }
        Some(if self.wide {
            u32::from_le_bytes(*data.get(self.offsets + 4 * index..)?.first_chunk()?) as usize
        } else {
            usize::from(u16::from_le_bytes(*data.get(self.offsets + 2 * index..)?.first_chunk()?))
        })
    }

    /// Entry `index`.
    #[inline]
    pub fn entry<'a>(&self, data: &'a [u8], index: usize) -> Option<Entry<'a>> {
        self.entry_at(data, self.offset(data, index)?)
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
        let kind = coded & ((1 << KIND_BITS) - 1);
        let distance = coded >> KIND_BITS;
        let seq = if distance == 0 { 0 } else { self.base + (distance - 1) };
        (seq <= MAX_SEQ && kind <= Kind::ValueReference as u64).then_some(())?;
        Some(Entry { suffix, trailer: seq << 8 | kind, value, value_at: at + suffix_end })
    }

    /// The first entry at or after `(key, trailer)`; the number of entries if there is none.
    pub fn lower_bound(&self, data: &[u8], key: &[u8], trailer: u64) -> Option<usize> {
        let prefix = self.prefix(data);
        let Some(suffix) = key.strip_prefix(prefix) else {
            return Some(if key < prefix { 0 } else { self.count() });
        };
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(data, middle)?;
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
    pub fn get(
        &self,
        data: &[u8],
        key: &[u8],
        hash: u64,
        snapshot: Seq,
        mut visit: impl FnMut(Seq, Kind, &[u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let Some(suffix) = key.strip_prefix(self.prefix(data)) else { return Some(ControlFlow::Break(())) };
        let tag = tag(hash);
        let count = self.count();
        for (group, tags) in self.tag_groups(data).iter().enumerate() {
            let mut matches = search::matches(tags, tag);
            while matches != 0 {
                let index = group * GROUP + matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if index >= count {
                    break;
                }
                let at = self.offset(data, index)?;
                // The rest of the entry is fetched while its head is waited for.
                search::prefetch_at(data, at + 64);
                let entry = self.entry_at(data, at)?;
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

    /// The tag stored for entry `index` is the one of this hash.
    pub fn has_tag(&self, data: &[u8], index: usize, hash: u64) -> bool {
        index < self.count() && data.get(self.tags + index) == Some(&tag(hash))
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

/// The same for any head.
fn long_head(rest: &[u8]) -> Option<(usize, usize, usize, u64)> {
    let mut head = Decoder::new(rest);
    let suffix = head.length()?;
    let value = head.length()?;
    let coded = head.varint()?;
    Some((rest.len() - head.rest().len(), suffix, value, coded))
}

/// A data block that owns its bytes.
#[derive(Debug)]
pub struct Block {
    data: Vec<u8>,
    layout: Layout,
}

impl Block {
    /// Takes the (decompressed) bytes of a block; `None` if the head does not fit them.
    pub fn parse(data: Vec<u8>) -> Option<Block> {
        let layout = Layout::parse(&data)?;
        Some(Block { data, layout })
    }

    /// Where its pieces are.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.data.capacity() + size_of::<Self>()
    }

    /// Starts to load what a get touches first.
    #[inline]
    pub(super) fn prefetch(&self) {
        search::prefetch_at(&self.data, 0);
        search::prefetch_at(&self.data, 64);
        search::prefetch_at(&self.data, 128);
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
    /// Moves to entry `index` of a block that it may not have been in before; `None` if the block is damaged.
    pub fn enter(&mut self, layout: &Layout, data: &[u8], index: usize) -> Option<()> {
        self.key.clear();
        self.key.extend_from_slice(layout.prefix(data));
        self.prefix = self.key.len();
        self.set(index, layout.entry(data, index)?);
        Some(())
    }

    /// Moves to another entry of the same block.
    pub fn go(&mut self, layout: &Layout, data: &[u8], index: usize) -> Option<()> {
        self.set(index, layout.entry(data, index)?);
        Some(())
    }

    /// Moves to the next entry of the same block, which must have one: entries stand one after another.
    #[inline(always)]
    pub fn advance(&mut self, layout: &Layout, data: &[u8]) -> Option<()> {
        self.set(self.index + 1, layout.entry_at(data, self.value.1)?);
        Some(())
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
