//! Helpers: threads that compress data blocks for tables under construction while processors are idle; one set per open database.
//!
//! A table's [`BatchWindow`](super::window::BatchWindow) submits batches of blocks and takes them back in order. If no
//! helper has begun a batch, the table's own thread takes it back and compresses it. So a table never depends on helpers, and waits only
//! for a helper that is working on its oldest batch.
//!
//! The number of helpers allowed to work is set once a second by the number of idle processors. Helpers run at a low priority of the
//! operating system and get only the time that other threads leave; if that is next to nothing, no batches are given to them.

use crate::codec::{Codec, Compression, Compressor, Trained};
use crate::cpu::thread_ns;
use crate::error::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::process::nice;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Niceness of helpers: in competition with a normal thread they get a tenth of the time.
const NICE: i32 = 10;
/// Least idle part of a processor for which a helper is worthwhile.
const LEAST: f64 = 0.15;

thread_local! {
    /// Compression contexts are costly to set up, so each thread keeps one set for all tables.
    static COMPRESSOR: RefCell<Compressor> = RefCell::default();
}

/// Consecutive blocks of a table.
pub(super) struct Batch {
    how: Compression,
    dictionary: Option<Arc<Trained>>,
    /// The blocks, one after another.
    pub raw: Vec<u8>,
    /// End of each block in `raw`.
    ends: Vec<usize>,
    /// The blocks that shrank, compressed, one after another.
    packed: Vec<u8>,
    /// End of each block in `packed`; a block that did not shrink takes no bytes.
    packed_ends: Vec<usize>,
}

/// Piece `n` of pieces that stand one after another.
fn piece<'a>(bytes: &'a [u8], ends: &[usize], n: usize) -> &'a [u8] {
    let start = n.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[n]]
}

impl Batch {
    pub fn new(how: Compression, dictionary: Option<Arc<Trained>>) -> Self {
        Batch { how, dictionary, raw: Vec::new(), ends: Vec::new(), packed: Vec::new(), packed_ends: Vec::new() }
    }

    /// Ends a block: the bytes that were appended to `raw` since the last one. Returns their number.
    pub fn end_block(&mut self) -> usize {
        let start = self.ends.last().copied().unwrap_or(0);
        self.ends.push(self.raw.len());
        self.raw.len() - start
    }

    pub fn is_packed(&self) -> bool {
        self.packed_ends.len() == self.ends.len()
    }

    /// Compresses, on this thread, the blocks that are not compressed yet. A panic becomes the error `Closed`, which ends the job.
    pub fn pack(&mut self) -> Result<()> {
        catch_unwind(AssertUnwindSafe(|| COMPRESSOR.with_borrow_mut(|compressor| self.pack_with(compressor)))).map_err(|_| {
            COMPRESSOR.set(Compressor::default());
            Error::Closed("compressing a block panicked".into())
        })
    }

    fn pack_with(&mut self, compressor: &mut Compressor) {
        for n in self.packed_ends.len()..self.ends.len() {
            let raw = piece(&self.raw, &self.ends, n);
            if u32::try_from(raw.len()).is_ok() {
                compressor.compress(self.how, self.dictionary.as_deref(), raw, &mut self.packed);
            }
            self.packed_ends.push(self.packed.len());
        }
    }

    /// Compresses the batch if that has not been done.
    pub fn into_packed(mut self) -> Result<Self> {
        self.pack().map(|()| self)
    }

    /// The payload of each block, with codec and raw length if it is compressed. The batch must have been packed.
    pub fn blocks(&self) -> impl Iterator<Item = (&[u8], Option<(Codec, u32)>)> {
        (0..self.ends.len()).map(|n| {
            let (raw, packed) = (piece(&self.raw, &self.ends, n), piece(&self.packed, &self.packed_ends, n));
            if packed.is_empty() { (raw, None) } else { (packed, Some((self.how.codec, raw.len() as u32))) }
        })
    }

    /// Removes all blocks, so that the batch can be used again.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.ends.clear();
        self.packed.clear();
        self.packed_ends.clear();
    }
}

/// Slot in which a batch comes back from the helpers.
#[derive(Default)]
pub(super) struct BatchSlot {
    packed: Mutex<Option<Result<Batch>>>,
    ready: Condvar,
}

impl BatchSlot {
    fn put(&self, batch: Result<Batch>) {
        *self.packed.lock() = Some(batch);
        self.ready.notify_one();
    }

    /// The batch if it has come back.
    pub fn try_take(&self) -> Option<Result<Batch>> {
        self.packed.lock().take()
    }

    /// Waits for the batch. Only if [`Packers::reclaim`] did not return it, because a helper has it.
    pub fn take(&self) -> Result<Batch> {
        let mut packed = self.packed.lock();
        loop {
            match packed.take() {
                Some(batch) => return batch,
                None => self.ready.wait(&mut packed),
            }
        }
    }
}

/// The helpers of a database and the batches that wait for one. No helper works before the first [`Packers::look`].
#[derive(Default)]
pub struct Packers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<BatchQueue>,
    /// Wakes helpers when there may be work.
    work: Condvar,
    /// Number of helpers that may work at once.
    allowed: AtomicUsize,
    /// Processor time of helpers since the last reading, nanoseconds.
    spent_ns: AtomicU64,
}

#[derive(Default)]
struct BatchQueue {
    /// Batches that nobody has begun, oldest first.
    batches: VecDeque<(Arc<BatchSlot>, Batch)>,
    helpers: Vec<JoinHandle<()>>,
    /// Number of helpers that work on a batch.
    working: usize,
    closing: bool,
}

impl fmt::Debug for Packers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.shared.queue.lock().batches.len();
        f.debug_struct("Packers").field("allowed", &self.shared.allowed).field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl Packers {
    /// Sets the number of helpers that may work from now on: at most one less than `cpus`, the number of processors that this process may
    /// use, because the job itself needs one. `idle`: number of processors that were idle during the last `elapsed`. Both may be fractions.
    /// Time that helpers used counts as idle; otherwise their number would swing between none and all.
    pub fn look(&self, idle: f64, cpus: f64, elapsed: Duration) {
        let spent = self.shared.spent_ns.swap(0, Ordering::Relaxed) as f64 / elapsed.as_nanos().max(1) as f64;
        let most = (cpus.ceil() - 1.0).max(0.0);
        let allowed = (idle + spent - LEAST).ceil().clamp(0.0, most);
        self.shared.allowed.store(allowed as usize, Ordering::Relaxed);
    }

    /// Returns whether any helper may work.
    pub(super) fn may_help(&self) -> bool {
        self.shared.allowed.load(Ordering::Relaxed) > 0
    }

    /// Queues a batch for a helper, or for the caller, who may take it back.
    pub(super) fn submit(&self, batch: Batch) -> Arc<BatchSlot> {
        let slot = Arc::new(BatchSlot::default());
        let mut queue = self.shared.queue.lock();
        queue.batches.push_back((Arc::clone(&slot), batch));
        if queue.working < self.shared.allowed.load(Ordering::Relaxed) && !queue.closing {
            if queue.working < queue.helpers.len() {
                self.shared.work.notify_one();
            } else {
                let shared = Arc::clone(&self.shared);
                // If no thread can be started, the caller compresses the batch itself.
                queue.helpers.extend(Builder::new().name("sinterdb-pack".into()).spawn(move || help(&shared)));
            }
        }
        slot
    }

    /// Takes back a batch that no helper has begun; `None` if a helper has it.
    pub(super) fn reclaim(&self, slot: &Arc<BatchSlot>) -> Option<Batch> {
        let mut queue = self.shared.queue.lock();
        let at = queue.batches.iter().position(|(other, _)| Arc::ptr_eq(other, slot))?;
        queue.batches.remove(at).map(|(_, batch)| batch)
    }

    /// Ends the helpers, each after its current batch. Tables under construction go on without them.
    pub fn end(&self) {
        let helpers = {
            let mut queue = self.shared.queue.lock();
            queue.closing = true;
            std::mem::take(&mut queue.helpers)
        };
        self.shared.work.notify_all();
        // A helper cannot have panicked, because `Batch::pack` catches panics.
        helpers.into_iter().for_each(|helper| drop(helper.join()));
    }
}

impl Drop for Packers {
    fn drop(&mut self) {
        self.end();
    }
}

/// The main loop of a helper.
fn help(shared: &Shared) {
    // Lowering the own priority is always permitted.
    let _ = nice(NICE);
    let mut queue = shared.queue.lock();
    while !queue.closing {
        let may_work = queue.working < shared.allowed.load(Ordering::Relaxed);
        let Some((slot, batch)) = may_work.then(|| queue.batches.pop_front()).flatten() else {
            shared.work.wait(&mut queue);
            continue;
        };
        queue.working += 1;
        MutexGuard::unlocked(&mut queue, || {
            let before = thread_ns();
            slot.put(batch.into_packed());
            shared.spent_ns.fetch_add(thread_ns().saturating_sub(before), Ordering::Relaxed);
        });
        queue.working -= 1;
    }
}
