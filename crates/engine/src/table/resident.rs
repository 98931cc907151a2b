//! The slots of one table: where its index, filter and data blocks are while the cache keeps them.

use super::block::Block;
use super::index::Index;
use crate::cache::{Slot, Slots};
use crate::filter::Filter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Slot number of the index.
pub(super) const INDEX: u32 = 0;
/// Slot number of the filter.
pub(super) const FILTER: u32 = 1;
/// Slot number of the first data block.
const FIRST_BLOCK: u32 = 2;

#[derive(Debug)]
pub(super) struct Resident {
    pub index: Slot<Index>,
    pub filter: Slot<Filter>,
    /// Eight bytes per data block, taken when the first block is read through the cache: a table that is only compacted needs none.
    blocks: OnceLock<Box<[Slot<Block>]>>,
    count: usize,
    closed: AtomicBool,
}

impl Resident {
    /// For a table of `count` data blocks, which fit `u32` with room to spare.
    pub fn new(count: usize) -> Self {
        Resident { index: Slot::default(), filter: Slot::default(), blocks: OnceLock::new(), count, closed: AtomicBool::new(false) }
    }

    /// The slot of a data block, `None` past the last one.
    #[inline]
    pub fn block(&self, block: usize) -> Option<&Slot<Block>> {
        self.blocks.get_or_init(|| (0..self.count).map(|_| Slot::default()).collect()).get(block)
    }

    /// The number of a data block's slot.
    pub fn number(block: usize) -> u32 {
        FIRST_BLOCK + block as u32
    }
}

impl Slots for Resident {
    fn take_life(&self, slot: u32) -> bool {
        match slot {
            INDEX => self.index.take_life(),
            FILTER => self.filter.take_life(),
            _ => self.block((slot - FIRST_BLOCK) as usize).is_some_and(Slot::take_life),
        }
    }

    fn clear(&self, slot: u32) -> u64 {
        match slot {
            INDEX => self.index.clear(),
            FILTER => self.filter.clear(),
            _ => self.block((slot - FIRST_BLOCK) as usize).map_or(0, Slot::clear),
        }
    }

    fn clear_all(&self) -> (u64, usize) {
        let parts = [self.index.clear(), self.filter.clear()];
        let blocks = self.blocks.get().into_iter().flatten().map(Slot::clear);
        parts.into_iter().chain(blocks).filter(|bytes| *bytes > 0).fold((0, 0), |(sum, n), bytes| (sum + bytes, n + 1))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
