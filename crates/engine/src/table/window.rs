//! The data blocks of one table on their way through compression. Blocks gather to batches, a bounded number of which are under way at a
//! time, and come back in order.
//!
//! The bytes of a file do not depend on who compressed a batch or when: batches are cut by size, the window is drained exactly when it is
//! full, and its content counts by the ratio of the blocks that came out of it.

use super::pack::{Batch, BatchSlot, Packers};
use crate::codec::{Compression, Trained};
use crate::error::Result;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

/// Raw bytes of a batch: worth a thread's wake, 20 µs. As much of a table goes block by block before, so that its ratio is known and
/// small tables have no window.
pub(super) const BATCH: usize = 64 << 10;
/// Raw bytes of batches under way: four of them and a little. A block that is larger than this is alone.
pub(super) const WINDOW: usize = 5 * BATCH;
/// Buffers larger than this are not used again.
const KEPT: usize = 2 * BATCH;

/// A batch under way.
enum Pending {
    Packed(Batch),
    Shared(Arc<BatchSlot>),
}

/// See the module. Holds at most [`WINDOW`] and two batches of raw bytes, or one block if that is more, and about as much again of
/// compressed ones.
pub(super) struct BatchWindow {
    packers: Arc<Packers>,
    how: Compression,
    dictionary: Option<Arc<Trained>>,
    /// Batch that gathers blocks.
    next: Batch,
    /// Batches under way, oldest first.
    batches: VecDeque<Pending>,
    /// Empty batches to be used again.
    free: Vec<Batch>,
    /// Raw bytes of `next` and `batches`.
    pending: usize,
    /// Raw bytes of the blocks that are written.
    raw: u64,
    /// Their bytes in the file.
    written: u64,
    /// About how many bytes `pending` will be in the file.
    estimate: u64,
}

impl BatchWindow {
    pub fn new(how: Compression) -> Self {
        BatchWindow {
            packers: Arc::default(),
            next: Batch::new(how, None),
            how,
            dictionary: None,
            batches: VecDeque::new(),
            free: Vec::new(),
            pending: 0,
            raw: 0,
            written: 0,
            estimate: 0,
        }
    }

    /// Lets threads help.
    pub fn share(&mut self, packers: &Arc<Packers>) {
        self.packers = Arc::clone(packers);
    }

    /// For the blocks to come; there was none yet.
    pub fn use_dictionary(&mut self, dictionary: Option<Trained>) {
        self.dictionary = dictionary.map(Arc::new);
        self.next = Batch::new(self.how, self.dictionary.clone());
    }

    /// The dictionary in use.
    pub fn dictionary(&self) -> Option<Arc<Trained>> {
        self.dictionary.clone()
    }

    /// Buffer to which the next block is appended.
    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.next.raw
    }

    /// Estimated bytes that the blocks in the window will take in the file.
    pub fn estimate(&self) -> u64 {
        self.estimate
    }

    /// Ends a block: the bytes that were appended. Errors: `Closed` if compressing panicked.
    pub fn end_block(&mut self) -> Result<()> {
        self.pending += self.next.end_block();
        let alone = self.raw < BATCH as u64;
        if alone || !self.packers.may_help() {
            // While it is in the core's cache.
            self.next.pack()?;
        }
        if alone || self.next.raw.len() >= BATCH {
            self.hand_over();
        }
        self.update_estimate();
        Ok(())
    }

    fn hand_over(&mut self) {
        let fresh = self.free.pop().unwrap_or_else(|| Batch::new(self.how, self.dictionary.clone()));
        let batch = mem::replace(&mut self.next, fresh);
        let pending = if batch.is_packed() { Pending::Packed(batch) } else { Pending::Shared(self.packers.submit(batch)) };
        self.batches.push_back(pending);
    }

    /// The oldest batch, compressed, if it is to be written now: because the window is full, or because of `all`. To be given back by
    /// [`BatchWindow::written`]. Errors: `Closed` if compressing it panicked.
    pub fn take(&mut self, all: bool) -> Result<Option<Batch>> {
        if all && !self.next.raw.is_empty() {
            self.hand_over();
        }
        let room = if self.raw < BATCH as u64 { 0 } else { WINDOW };
        if !all && self.pending - self.next.raw.len() <= room {
            return Ok(None);
        }
        match self.batches.pop_front() {
            Some(Pending::Packed(batch)) => Ok(Some(batch)),
            Some(Pending::Shared(slot)) => self.take_back(&slot).map(Some),
            None => Ok(None),
        }
    }

    /// Takes back a batch that was handed over. While a helper works on it, a later one is compressed here.
    fn take_back(&mut self, slot: &Arc<BatchSlot>) -> Result<Batch> {
        if let Some(batch) = self.packers.reclaim(slot) {
            return batch.into_packed();
        }
        loop {
            if let Some(batch) = slot.try_take() {
                return batch;
            }
            let unbegun = self.batches.iter_mut().find_map(|pending| match pending {
                Pending::Shared(later) => self.packers.reclaim(later).map(|batch| (pending, batch)),
                Pending::Packed(_) => None,
            });
            let Some((pending, batch)) = unbegun else { return slot.take() };
            *pending = Pending::Packed(batch.into_packed()?);
        }
    }

    /// The blocks of a batch take `bytes` in the file.
    pub fn written(&mut self, mut batch: Batch, bytes: u64) {
        self.pending -= batch.raw.len();
        self.raw += batch.raw.len() as u64;
        self.written += bytes;
        batch.clear();
        if batch.raw.capacity() <= KEPT {
            self.free.push(batch);
        }
        self.update_estimate();
    }

    fn update_estimate(&mut self) {
        let scaled = u128::from(self.written) * self.pending as u128 / u128::from(self.raw.max(1));
        self.estimate = if self.raw == 0 { self.pending as u64 } else { scaled as u64 };
    }
}

impl Drop for BatchWindow {
    /// Nobody needs what is left of a table that is given up.
    fn drop(&mut self) {
        for pending in &self.batches {
            if let Pending::Shared(slot) = pending {
                drop(self.packers.reclaim(slot));
            }
        }
    }
}
