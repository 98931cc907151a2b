//! Walks a table forward for compactions: large sequential reads into one reused buffer, blocks decoded in place, nothing kept in the
//! cache (compaction would wash out what readers use).

use super::block::{Layout, Position};
use super::frame::Frame;
use super::index::Index;
use super::reader::Table;
use crate::cache::Cached;
use crate::codec::Codec;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key;
use memmap2::MmapMut;
use sinter_storage::store::StoreError;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Bytes per read. Larger reads gain nothing more; smaller buffers stay in the CPU's cache.
const PIECE: u64 = 256 << 10;

/// Memory that goes back to the system when dropped: a merge has such a buffer for each input, opens and closes many, and an allocator
/// keeps them, in one heap per thread.
#[derive(Default)]
struct Buffer(Option<MmapMut>);

impl Buffer {
    /// Makes it at least `length` bytes long, which must not be 0. The contents are lost if it grows.
    fn grow(&mut self, length: usize) -> Result<()> {
        if self.len() < length {
            self.0 = None;
            self.0 = Some(MmapMut::map_anon(length).map_err(|error| StoreError::store("map memory", error))?);
        }
        Ok(())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

/// A forward position in a table, for compactions.
pub struct ScanCursor {
    table: Arc<Table>,
    index: Option<Arc<Cached<Index>>>,
    /// The blocks that were read last, as they are in the file.
    read: Buffer,
    /// Start in `read` and verified frame of each block there.
    frames: Vec<(usize, Frame)>,
    /// The current block decompressed, if it is compressed. One at a time: a piece may hold a thousand times its length.
    unpacked: Vec<u8>,
    compressed: bool,
    /// Number of the first block of the piece.
    first: usize,
    /// The current block, counted from `first`.
    current: usize,
    /// Payload of the current block: in `unpacked` if `compressed`, else in `read`.
    payload: (usize, usize),
    layout: Layout,
    position: Position,
    valid: bool,
    /// Folds the checksums of all blocks read: for verification.
    pub(super) digest: u64,
}

impl fmt::Debug for ScanCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanCursor").field("valid", &self.valid).field("position", &self.position).finish_non_exhaustive()
    }
}

impl Table {
    /// A forward cursor for compactions: large sequential reads, nothing kept in the cache; only `seek_first`, `seek` and `next` work.
    pub fn scan(self: &Arc<Self>) -> ScanCursor {
        ScanCursor::new(Arc::clone(self))
    }
}

impl ScanCursor {
    pub(super) fn new(table: Arc<Table>) -> Self {
        ScanCursor {
            table,
            index: None,
            read: Buffer::default(),
            frames: Vec::new(),
            unpacked: Vec::new(),
            compressed: false,
            first: 0,
            current: 0,
            payload: (0, 0),
            layout: Layout::default(),
            position: Position::default(),
            valid: false,
            digest: 0,
        }
    }

    /// Bytes of the current block.
    #[inline(always)]
    fn data(&self) -> &[u8] {
        let all: &[u8] = if self.compressed { &self.unpacked } else { &self.read };
        all.get(self.payload.0..self.payload.1).unwrap_or_default()
    }

    /// The current block's number.
    pub(super) fn block(&self) -> usize {
        self.first + self.current
    }

    /// The current entry's number in its block.
    pub(super) fn entry(&self) -> usize {
        self.position.index()
    }

    pub(super) fn index(&mut self) -> Result<Arc<Cached<Index>>> {
        if let Some(index) = &self.index {
            return Ok(Arc::clone(index));
        }
        let index = self.table.index_for_scan()?;
        self.index = Some(Arc::clone(&index));
        Ok(index)
    }

    /// Makes block `number` the current one, reading the next piece if it is not in this one. False past the last block.
    fn load(&mut self, number: usize) -> Result<bool> {
        self.valid = false;
        let index = self.index()?;
        if number >= index.len() {
            return Ok(false);
        }
        if number < self.first || number >= self.first + self.frames.len() {
            self.read_piece(&index, number)?;
        }
        self.current = number - self.first;
        self.unpack(&index, number)?;
        self.layout = Layout::parse(self.data()).ok_or_else(|| self.table.damaged_block(&index, number))?;
        Ok(true)
    }

    /// Reads and verifies the blocks from `first` on.
    fn read_piece(&mut self, index: &Index, first: usize) -> Result<()> {
        self.frames.clear();
        self.first = first;
        let start = index.extent(first).0;
        let end_of = |block: usize| index.extent(block).0 + index.extent(block).1;
        let last = (first + 1..index.len()).take_while(|block| end_of(*block) - start <= PIECE).last().unwrap_or(first);
        let length = self.table.length(start, end_of(last) - start)?;
        self.read.grow(length.max(PIECE as usize))?;
        let next = (last + 1 < index.len()).then(|| (end_of(last), PIECE));
        self.table.file.read_in_order(start, &mut self.read[..length], next)?;
        for block in first..=last {
            let (offset, length) = index.extent(block);
            let at = (offset - start) as usize;
            let frame = self.table.frames.verify(offset, &self.read[at..at + length as usize])?;
            self.digest = super::footer::fold(self.digest, frame.checksum);
            self.frames.push((at, frame));
        }
        Ok(())
    }

    /// Makes the payload of block `number`, which has been read, the current one.
    fn unpack(&mut self, index: &Index, number: usize) -> Result<()> {
        let (at, frame) = &self.frames[self.current];
        self.compressed = frame.codec != Codec::None;
        if !self.compressed {
            self.payload = (at + frame.payload.start, at + frame.payload.end);
            return Ok(());
        }
        if self.unpacked.len() < frame.raw {
            self.unpacked.resize(frame.raw, 0);
        }
        let dictionary = self.table.dictionary()?;
        self.payload = (0, frame.raw);
        self.table.frames.unpack(index.extent(number).0, frame, &self.read[*at..], dictionary, &mut self.unpacked[..frame.raw])
    }

    /// Moves to the first entry of the current block.
    fn start(&mut self) -> Result<()> {
        let data: &[u8] = if self.compressed { &self.unpacked } else { &self.read };
        let data = data.get(self.payload.0..self.payload.1).unwrap_or_default();
        self.valid = self.position.start(&self.layout, data).is_some();
        if self.valid { Ok(()) } else { self.damaged() }
    }

    #[cold]
    fn damaged(&mut self) -> Result<()> {
        self.valid = false;
        let index = self.index()?;
        Err(self.table.damaged_block(&index, self.first + self.current))
    }

    /// Moves to the first entry of the next block.
    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        if self.position.end() != self.data().len() {
            return self.damaged();
        }
        if self.load(self.first + self.current + 1)? { self.start() } else { Ok(()) }
    }

    #[cold]
    fn only_forward<T>() -> Result<T> {
        Err(Error::invalid("a compaction's cursor only moves forward"))
    }
}

impl Cursor for ScanCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.digest = 0;
        self.frames.clear();
        if self.load(0)? { self.start() } else { Ok(()) }
    }

    fn seek_last(&mut self) -> Result<()> {
        Self::only_forward()
    }

    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        let number = self.index()?.find(key);
        if !self.load(number)? {
            return Ok(());
        }
        self.start()?;
        while self.valid && key::compare(self.key(), self.trailer(), key, trailer) == Ordering::Less {
            self.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, _key: &[u8]) -> Result<()> {
        Self::only_forward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.position.index() + 1 >= self.layout.count() {
            return self.next_block();
        }
        let data: &[u8] = if self.compressed { &self.unpacked } else { &self.read };
        let data = data.get(self.payload.0..self.payload.1).unwrap_or_default();
        if self.position.advance(&self.layout, data).is_some() { Ok(()) } else { self.damaged() }
    }

    fn prev(&mut self) -> Result<()> {
        Self::only_forward()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.position.key()
    }

    #[inline]
    fn trailer(&self) -> u64 {
        self.position.trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.position.value(self.data())
    }
}
