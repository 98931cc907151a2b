//! Builds one data block (layout: see `block.rs`). Entries are staged, because the common prefix and the base sequence number, which
//! stand first, are known last; all buffers are reused.

use super::block::{GROUP, HEADER, KIND_BITS, tag};
use crate::coding::varint_len;
use crate::key::Seq;

/// An entry whose key and value stand in the staging area.
#[derive(Debug, Clone, Copy)]
struct Staged {
    key: u32,
    value: u32,
    trailer: u64,
    tag: u8,
}

/// Collects the entries of a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    /// Key and value of each entry, one after another.
    bytes: Vec<u8>,
    entries: Vec<Staged>,
    /// Where the last key starts in `bytes`.
    last: usize,
    /// Length of the prefix that all keys share.
    prefix: usize,
    /// Smallest sequence number but 0.
    base: Option<Seq>,
}

impl BlockBuilder {
    /// Adds an entry whose key shares its first `shared` bytes with the one before. Lengths are below 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], shared: usize, trailer: u64, value: &[u8], hash: u64) {
        self.prefix = if self.entries.is_empty() { key.len() } else { self.prefix.min(shared) };
        let seq = trailer >> 8;
        if seq != 0 {
            self.base = Some(self.base.map_or(seq, |base| base.min(seq)));
        }
        self.last = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push(Staged { key: key.len() as u32, value: value.len() as u32, trailer, tag: tag(hash) });
    }

    /// Nothing was added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last key added.
    #[inline]
    pub fn last_key(&self) -> Option<&[u8]> {
        let key = self.entries.last()?.key as usize;
        self.bytes.get(self.last..self.last + key)
    }

    /// About how large the block is now.
    #[inline]
    pub fn estimate(&self) -> usize {
        let n = self.entries.len();
        HEADER + GROUP / 2 + self.prefix + self.bytes.len() - self.prefix * n + 7 * n
    }

    /// Appends the block to `out` and starts the next one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let n = self.entries.len();
        let base = self.base.take().unwrap_or(0);
        let last = self.entries.last().map_or(0, |last| last.key as usize + last.value as usize);
        let tags = n.next_multiple_of(GROUP);
        // The last entry starts below this.
        let most = HEADER + self.prefix + tags + 4 * n + (self.bytes.len() - last) + 20 * n;
        let wide = most > usize::from(u16::MAX);
        let start = out.len();
        out.reserve(most + last + 20);
        out.extend_from_slice(&((n as u32) << 1 | u32::from(wide)).to_le_bytes());
        out.extend_from_slice(&(self.prefix as u32).to_le_bytes());
        out.extend_from_slice(&base.to_le_bytes());
        out.extend_from_slice(&self.bytes[..self.prefix]);
        out.extend(self.entries.iter().map(|entry| entry.tag));
        out.resize(start + HEADER + self.prefix + tags, 0);
        let mut offset = out.len();
        let width = if wide { 4 } else { 2 };
        out.resize(offset + width * n, 0);
        let mut at = 0;
        for entry in &self.entries {
            let position = ((out.len() - start) as u32).to_le_bytes();
            out[offset..offset + width].copy_from_slice(&position[..width]);
            offset += width;
            let (key, value) = (entry.key as usize, entry.value as usize);
            put_head(out, key - self.prefix, value, coded_trailer(entry.trailer, base));
            out.extend_from_slice(&self.bytes[at + self.prefix..at + key + value]);
            at += key + value;
        }
        self.entries.clear();
        self.bytes.clear();
        self.prefix = 0;
    }
}

/// Kind in the low bits; sequence number 0 as 0, others as distance from the base plus one.
#[inline]
fn coded_trailer(trailer: u64, base: Seq) -> u64 {
    let (seq, kind) = (trailer >> 8, trailer & ((1 << KIND_BITS) - 1));
    if seq == 0 { kind } else { (seq - base + 1) << KIND_BITS | kind }
}

/// Appends the three varints before an entry's bytes, through one small array: one copy instead of up to twenty pushes.
#[inline]
fn put_head(out: &mut Vec<u8>, suffix: usize, value: usize, coded: u64) {
    let mut head = [0u8; 32];
    let mut n = 0;
    for mut number in [suffix as u64, value as u64, coded] {
        while number >= 0x80 {
            head[n] = number as u8 | 0x80;
            number >>= 7;
            n += 1;
        }
        head[n] = number as u8;
        n += 1;
    }
    debug_assert_eq!(n, varint_len(suffix as u64) + varint_len(value as u64) + varint_len(coded));
    out.extend_from_slice(&head[..n]);
}
