//! The slots of one table: where its index, filter and data blocks are while the cache keeps them.

use super::block::Block;
use super::index::Index;
use crate::cache::{CacheSlot, Cleared, Slots, Stored, Taken};
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
    pub index: CacheSlot<Index>,
    pub filter: CacheSlot<Filter>,
    /// Eight bytes per data block, taken when the first block is read through the cache: a table that is only compacted needs none.
    blocks: OnceLock<Box<[CacheSlot<Block>]>>,
    count: usize,
    number: u64,
    closed: AtomicBool,
}

impl Resident {
    /// The slots of the table of that number with `count` data blocks; `count` fits `u32` easily.
    pub fn new(number: u64, count: usize) -> Self {
        let (index, filter, blocks, closed) = (CacheSlot::default(), CacheSlot::default(), OnceLock::new(), AtomicBool::new(false));
        Resident { index, filter, blocks, count, number, closed }
    }

    /// The slot of a data block, `None` past the last one.
    #[inline]
    pub fn block(&self, block: usize) -> Option<&CacheSlot<Block>> {
        self.blocks.get_or_init(|| (0..self.count).map(|_| CacheSlot::default()).collect()).get(block)
    }

    /// The number of a data block's slot.
    pub fn slot_of(block: usize) -> u32 {
        FIRST_BLOCK + block as u32
    }
}

impl Stored for Block {
    fn stored(&self) -> &[u8] {
        Block::stored(self)
    }
}

impl Slots for Resident {
    fn number(&self) -> u64 {
        self.number
    }

    fn take_life(&self, slot: u32) -> bool {
        match slot {
            INDEX => self.index.take_life(),
            FILTER => self.filter.take_life(),
            _ => self.block((slot - FIRST_BLOCK) as usize).is_some_and(CacheSlot::take_life),
        }
    }

    fn take(&self, slot: u32) -> Option<Taken> {
        match slot {
            INDEX => self.index.take().map(|index| (index.memory(), None)),
            FILTER => self.filter.take().map(|filter| (filter.memory(), None)),
            _ => {
                let block = self.block((slot - FIRST_BLOCK) as usize)?.take()?;
                Some((block.memory(), Some(block)))
            }
        }
    }

    fn clear_all(&self) -> Cleared {
        let mut cleared = Cleared::default();
        cleared.add(self.index.take());
        cleared.add(self.filter.take());
        self.blocks.get().into_iter().flatten().for_each(|slot| cleared.add(slot.take()));
        cleared
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
