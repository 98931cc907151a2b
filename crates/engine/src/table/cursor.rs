//! Walks a table through the cache, in both directions. It holds the index and its current block, so eviction does not disturb it.

use super::block::{Block, Position};
use super::index::Index;
use super::reader::{Held, ReadOptions, Table};
use crate::cache::Cached;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::Seq;
use std::fmt;
use std::sync::Arc;

/// A position in a table.
pub struct TableCursor {
    table: Arc<Table>,
    options: ReadOptions,
    index: Option<Arc<Cached<Index>>>,
    /// The current block; `None` if the cursor stands nowhere.
    block: Option<Arc<Cached<Block>>>,
    /// Number of the last block; stays when the cursor moves on, to recognise sequential reading.
    number: usize,
    position: Position,
    /// Part of the file that was read ahead last, still compressed: decompressed it may take a thousand times its length.
    ahead: Ahead,
    announced: Announced,
}

/// A part of a table's file.
#[derive(Default)]
struct Ahead {
    start: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    /// A frame at this offset, if all of it is there.
    fn frame(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)
    }
}

/// Prefetches requested from the medium for a cursor that goes through blocks in order: RocksDB's automatic read-ahead, as a hint.
#[derive(Default)]
struct Announced {
    /// Blocks in order so far.
    streak: u32,
    /// Length of the last prefetch, bytes.
    window: u64,
    /// End of the last prefetch, in the file.
    end: u64,
}

impl Announced {
    /// So many blocks in order are taken for a scan.
    const STREAK: u32 = 2;
    const FIRST: u64 = 8 << 10;
    const MOST: u64 = 256 << 10;

    /// The next part to prefetch (offset, length) before the medium is read up to `end`; half a window before the last one is used up.
    fn next(&mut self, end: u64) -> Option<(u64, u64)> {
        if self.streak < Self::STREAK || end.saturating_add(self.window / 2) < self.end {
            return None;
        }
        let start = self.end.max(end);
        self.window = (self.window * 2).clamp(Self::FIRST, Self::MOST);
        self.end = start.saturating_add(self.window);
        Some((start, self.window))
    }
}

impl fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCursor").field("valid", &self.valid()).field("position", &self.position).finish_non_exhaustive()
    }
}

impl Table {
    /// A cursor for reads, through the cache.
    pub fn cursor(self: &Arc<Self>, options: ReadOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, options: ReadOptions) -> Self {
        TableCursor {
            table,
            options,
            index: None,
            block: None,
            number: 0,
            position: Position::default(),
            ahead: Ahead::default(),
            announced: Announced::default(),
        }
    }

    fn index(&mut self) -> Result<Arc<Cached<Index>>> {
        if let Some(index) = &self.index {
            return Ok(Arc::clone(index));
        }
        let index = self.table.index()?.into_arc();
        self.index = Some(Arc::clone(&index));
        Ok(index)
    }

    /// Makes `number` the current block; the cursor stands nowhere until a position is set.
    fn load(&mut self, index: &Index, number: usize) -> Result<Arc<Cached<Block>>> {
        let sequential = self.block.take().is_some() && number == self.number + 1;
        self.number = number;
        match sequential {
            true => self.announced.streak = self.announced.streak.saturating_add(1),
            false => self.announced = Announced::default(),
        }
        if let Some(block) = self.table.resident_block(number).map(Held::into_arc) {
            return Ok(block);
        }
        if let Some(block) = self.table.unpack_block(number)? {
            return Ok(block);
        }
        let (offset, length) = index.extent(number);
        if self.ahead.frame(offset, length).is_none() {
            self.ahead = Ahead::default();
            if sequential && self.options.readahead > 0 {
                self.read_ahead(index, number)?;
            } else if let Some((start, length)) = self.announced.next(offset.saturating_add(length)) {
                self.table.frames.file.will_need(start, length);
            }
        }
        let Some(frame) = self.ahead.frame(offset, length) else { return self.table.load_block(index, number, self.options) };
        let (block, packed) = self.table.parse_block(number, offset, frame, self.options)?;
        if self.options.fill_cache {
            self.table.keep_block(number, &block, packed);
        }
        if self.ahead.end() == offset.saturating_add(length) {
            self.ahead = Ahead::default();
        }
        Ok(block)
    }

    /// Reads about `readahead` bytes from a block on, up to one that the cache does not have; nothing if that would be this block alone.
    fn read_ahead(&mut self, index: &Index, number: usize) -> Result<()> {
        let (start, wanted) = (index.extent(number).0, self.options.readahead as u64);
        let end = |block: usize| index.extent(block).0 + index.extent(block).1 - start;
        let more = (number + 1..index.len()).take_while(|block| end(*block) <= wanted);
        if let Some(last) = more.filter(|block| !self.table.holds_block(*block)).last() {
            let bytes = self.table.frames.read(start, self.table.length(start, end(last))?)?;
            self.ahead = Ahead { start, bytes };
        }
        Ok(())
    }

    /// Stands on an entry of a block that was loaded.
    fn stand(&mut self, index: &Index, block: Arc<Cached<Block>>, entry: usize) -> Result<()> {
        if self.position.enter(&block, entry).is_none() {
            return Err(self.table.damaged_block(index, self.number));
        }
        self.block = Some(block);
        Ok(())
    }

    /// To the first entry of block `number`, or nowhere past the last one.
    fn enter_first(&mut self, number: usize) -> Result<()> {
        let index = self.index()?;
        if number >= index.len() {
            self.block = None;
            return Ok(());
        }
        let block = self.load(&index, number)?;
        self.stand(&index, block, 0)
    }

    /// To the last entry of the block before `number`, or nowhere before the first one.
    fn enter_last_before(&mut self, number: usize) -> Result<()> {
        let index = self.index()?;
        let Some(number) = number.checked_sub(1) else {
            self.block = None;
            return Ok(());
        };
        let block = self.load(&index, number)?;
        let last = block.count() - 1;
        self.stand(&index, block, last)
    }

    /// Moves to entry `entry` of the current block.
    fn go(&mut self, entry: usize) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        match self.position.go(block, entry) {
            Some(()) => Ok(()),
            None => self.damaged(),
        }
    }

    /// The current block has a damaged entry: the cursor stands nowhere.
    #[cold]
    fn damaged(&mut self) -> Result<()> {
        self.block = None;
        let index = self.index()?;
        Err(self.table.damaged_block(&index, self.number))
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.enter_first(0)
    }

    fn seek_last(&mut self) -> Result<()> {
        let blocks = self.index()?.len();
        self.enter_last_before(blocks)
    }

    fn seek(&mut self, key: &[u8], trailer: u64) -> Result<()> {
        let index = self.index()?;
        // More than one block only where the versions of one key go on.
        for number in index.find(key)..index.len() {
            let block = match self.block.take() {
                Some(block) if self.number == number => block,
                before => {
                    self.block = before;
                    self.load(&index, number)?
                }
            };
            let Some(entry) = block.lower_bound(key, trailer) else {
                return Err(self.table.damaged_block(&index, number));
            };
            if entry < block.count() {
                return self.stand(&index, block, entry);
            }
            self.block = Some(block);
        }
        self.block = None;
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let index = self.index()?;
        let number = index.find(key);
        if number < index.len() {
            let block = self.load(&index, number)?;
            // Versions of `key` itself sort at or after its largest trailer.
            let Some(entry) = block.lower_bound(key, u64::MAX) else {
                return Err(self.table.damaged_block(&index, number));
            };
            if let Some(entry) = entry.checked_sub(1) {
                return self.stand(&index, block, entry);
            }
        }
        self.enter_last_before(number)
    }

    fn pass(&mut self, to: &[u8], newest: Seq) -> Result<bool> {
        let is_older = self.table.info().max_seq < newest && self.valid() && self.key() < to;
        if is_older {
            self.seek(to, u64::MAX)?;
        }
        Ok(is_older)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(block) = &self.block
            && self.position.index() + 1 < block.count()
        {
            return match self.position.advance(block.layout(), block.data()) {
                Some(()) => Ok(()),
                None => self.damaged(),
            };
        }
        self.enter_first(self.number + 1)
    }

    fn prev(&mut self) -> Result<()> {
        match self.position.index().checked_sub(1) {
            Some(entry) => self.go(entry),
            None => self.enter_last_before(self.number),
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.block.is_some()
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
        self.block.as_ref().map(|block| self.position.value(block.data())).unwrap_or_default()
    }
}
