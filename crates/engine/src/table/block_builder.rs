//! Builds one data block (layout: see `block.rs`). Entries are staged, because the common prefix and the base sequence number, which
//! stand first, are known last; all buffers are reused.

use super::block::coded_trailer;
use crate::coding::{put_varint, varint_len};
use crate::key::Seq;

/// About how many bytes an entry's three varints take.
const USUAL_HEAD: usize = 5;
/// At most how many: of two lengths below 4 GiB and a trailer.
const LONGEST_HEAD: usize = 20;

/// An entry whose key and value stand in the staging area.
#[derive(Debug, Clone, Copy)]
struct Staged {
    key: u32,
    value: u32,
    trailer: u64,
}

/// Collects the entries of a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    /// Key and value of each entry, one after another.
    bytes: Vec<u8>,
    entries: Vec<Staged>,
    /// Offset of the last key in `bytes`.
    last: usize,
    /// Length of the prefix that all keys share.
    prefix: usize,
    /// Smallest sequence number but 0.
    base: Option<Seq>,
}

impl BlockBuilder {
    /// Adds an entry whose key shares its first `shared` bytes with the one before. Lengths are below 4 GiB.
    #[inline]
    pub fn add(&mut self, key: &[u8], shared: usize, trailer: u64, value: &[u8]) {
        self.prefix = if self.entries.is_empty() { key.len() } else { self.prefix.min(shared) };
        let seq = trailer >> 8;
        if seq != 0 {
            self.base = Some(self.base.map_or(seq, |base| base.min(seq)));
        }
        self.last = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push(Staged { key: key.len() as u32, value: value.len() as u32, trailer });
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
        self.prefix + self.bytes.len() - self.prefix * n + USUAL_HEAD * (n + 1)
    }

    /// Appends the block to `out` and starts the next one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let n = self.entries.len();
        let base = self.base.take().unwrap_or(0);
        out.reserve(self.prefix + self.bytes.len() + LONGEST_HEAD * (n + 1));
        put_varint(out, n as u64);
        put_varint(out, self.prefix as u64);
        put_varint(out, base);
        out.extend_from_slice(&self.bytes[..self.prefix]);
        let mut at = 0;
        for entry in &self.entries {
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
