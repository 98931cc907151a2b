//! The queue of writers. One thread leads at a time; the others leave their batches with it. A leader commits its own batch together with
//! all that wait (group commit, as LevelDB's writer queue), so that they share one log record and one sync.
//!
//! Waking a sleeping thread costs about 20 us on small machines, as much as 100 writes. So a leader does not hand the lead over at once:
//! it commits up to [`ROUNDS`] further groups for others while batches wait. A waiting thread spins for a few microseconds, then yields
//! the processor some times, because the leader may be waiting for it, and only then sleeps.

use super::batch::WriteBatch;
use super::sync::{AtomicU8, Condvar, Mutex, pause};
use super::write_options::WriteOptions;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Groups that one leader commits for others before it passes the lead on: bounds how long a writer works for others. Under shuttle, which
/// explores short schedules, the lead changes hands sooner.
const ROUNDS: usize = if cfg!(shuttle) { 1 } else { 4 };
/// Checks of the state before the first yield; each pauses for some 10 to 40 ns.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 200 };
/// Checks of the state before sleeping. Each follows a yield, which takes some hundred nanoseconds, or longer if another thread runs.
const YIELDS: u32 = if cfg!(shuttle) { 0 } else { 100 };

const WAITING: u8 = 0;
const DONE: u8 = 1;
const LEAD: u8 = 2;

/// A thread that waits in the queue, with the batch that it leaves with the leader, if any.
pub(crate) struct Waiter {
    state: AtomicU8,
    slot: Mutex<Slot>,
    wake: Condvar,
}

#[derive(Default)]
struct Slot {
    work: Option<(WriteBatch, WriteOptions)>,
    result: Option<Result<()>>,
    sleeping: bool,
}

impl Waiter {
    fn set(&self, state: u8, result: Option<Result<()>>) {
        let mut slot = self.slot.lock();
        if result.is_some() {
            slot.result = result;
        }
        self.state.store(state, Ordering::Release);
        if slot.sleeping {
            self.wake.notify_one();
        }
    }

    fn wait(&self) -> u8 {
        for look in 0..SPINS + YIELDS {
            let state = self.state.load(Ordering::Acquire);
            if state != WAITING {
                return state;
            }
            if look < SPINS { pause() } else { std::thread::yield_now() }
        }
        let mut slot = self.slot.lock();
        while self.state.load(Ordering::Acquire) == WAITING {
            slot.sleeping = true;
            self.wake.wait(&mut slot);
        }
        self.state.load(Ordering::Acquire)
    }

    /// Tells the writer the result of its batch.
    pub fn finish(&self, result: Result<()>) {
        self.set(DONE, Some(result));
    }
}

#[derive(Default)]
struct Inner {
    led: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// The queue of writers of one database.
#[derive(Default)]
pub(crate) struct WriteQueue {
    inner: Mutex<Inner>,
}

/// Result of [`WriteQueue::join`].
pub(crate) enum Joined {
    /// The caller leads, with its batch back.
    Leader(WriteBatch),
    /// A leader committed the batch.
    Done(Result<()>),
}

/// A batch that the leader took over, and the thread that waits for it.
pub(crate) struct Guest {
    pub batch: WriteBatch,
    pub options: WriteOptions,
    pub waiter: Arc<Waiter>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Only a panic of the leader leaves a guest without a result; the guest must not wait forever.
        if self.waiter.state.load(Ordering::Relaxed) == WAITING {
            self.waiter.finish(Err(Error::Closed("the writer that led the group panicked".into())));
        }
    }
}

impl WriteQueue {
    /// Takes the lead if nobody has it.
    pub fn try_lead(&self) -> bool {
        let mut inner = self.inner.lock();
        !std::mem::replace(&mut inner.led, true)
    }

    /// Returns whether somebody has the lead.
    #[cfg(test)]
    pub fn is_led(&self) -> bool {
        self.inner.lock().led
    }

    /// Waits for the lead without leaving a batch (memtable switches, family changes).
    pub fn lead(&self) {
        let waiter = {
            let mut inner = self.inner.lock();
            if !inner.led {
                inner.led = true;
                return;
            }
            Self::enqueue(&mut inner, None)
        };
        waiter.wait();
    }

    /// Leaves a batch with the leader and waits for the result, or becomes the leader.
    pub fn join(&self, batch: WriteBatch, options: WriteOptions) -> Joined {
        let waiter = {
            let mut inner = self.inner.lock();
            if !inner.led {
                inner.led = true;
                return Joined::Leader(batch);
            }
            Self::enqueue(&mut inner, Some((batch, options)))
        };
        let state = waiter.wait();
        let mut slot = waiter.slot.lock();
        if state == LEAD {
            return Joined::Leader(slot.work.take().map(|w| w.0).unwrap_or_default());
        }
        Joined::Done(slot.result.take().unwrap_or(Ok(())))
    }

    fn enqueue(inner: &mut Inner, work: Option<(WriteBatch, WriteOptions)>) -> Arc<Waiter> {
        let slot = Mutex::new(Slot { work, ..Slot::default() });
        let waiter = Arc::new(Waiter { state: AtomicU8::new(WAITING), slot, wake: Condvar::new() });
        inner.waiting.push_back(waiter.clone());
        waiter
    }

    /// Moves waiting batches to `guests`: at most `bytes` in all, but the first batch whatever its size. Stops before a thread that waits
    /// for the lead itself.
    pub fn take(&self, guests: &mut Vec<Guest>, bytes: usize) {
        let mut inner = self.inner.lock();
        let mut room = bytes;
        while let Some(front) = inner.waiting.front() {
            let work = {
                let mut slot = front.slot.lock();
                match &slot.work {
                    Some((batch, _)) if batch.bytes() <= room || guests.is_empty() => slot.work.take(),
                    _ => None,
                }
            };
            let Some((batch, options)) = work else { break };
            room = room.saturating_sub(batch.bytes());
            if let Some(waiter) = inner.waiting.pop_front() {
                guests.push(Guest { batch, options, waiter });
            }
        }
    }

    /// Gives the lead away. True: the caller keeps the lead, because batches wait and `round` is below [`ROUNDS`].
    pub fn leave(&self, round: usize) -> bool {
        let mut inner = self.inner.lock();
        match inner.waiting.front() {
            None => inner.led = false,
            Some(front) => {
                if round < ROUNDS && front.slot.lock().work.is_some() {
                    return true;
                }
                if let Some(next) = inner.waiting.pop_front() {
                    next.set(LEAD, None);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
