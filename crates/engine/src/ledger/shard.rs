//! A place for each thread to count in. A counter that all cores add to moves its cache line at every read operation; here each live
//! thread owns a slot, and only it writes there, so an add is a load and a store without a locked instruction.
//!
//! 1. A thread takes the lowest free of 63 slots at its first count and gives it back when it ends.
//! 2. Taking (acquire) follows giving back (release), so the next owner sees what the last one counted and goes on from there.
//! 3. Threads beyond 63, and counts during a thread's end, go to the last slot, which is shared and therefore added to atomically.

use std::sync::atomic::{AtomicU64, Ordering};

/// Slots, the shared one included.
pub(super) const SLOTS: usize = 64;
const SHARED: usize = SLOTS - 1;

/// Bit set of the slots that are taken.
static TAKEN: AtomicU64 = AtomicU64::new(1 << SHARED);

/// The right to write to a slot alone.
struct Owned(usize);

impl Owned {
    fn take() -> Owned {
        let lowest = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        match TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest) {
            Ok(before) => Owned((!before).trailing_zeros() as usize),
            Err(_) => Owned(SHARED),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

thread_local! {
    static SLOT: Owned = Owned::take();
}

/// The slot of the current thread.
pub(super) fn slot() -> usize {
    SLOT.try_with(|owned| owned.0).unwrap_or(SHARED)
}

/// Adds to a counter in slot `slot`, which must be this thread's; the sum.
pub(super) fn add(counter: &AtomicU64, slot: usize, n: u64) -> u64 {
    if slot == SHARED {
        return counter.fetch_add(n, Ordering::Relaxed).wrapping_add(n);
    }
    let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
    counter.store(sum, Ordering::Relaxed);
    sum
}

/// Raises a maximum in slot `slot`, which must be this thread's.
pub(super) fn raise(counter: &AtomicU64, slot: usize, value: u64) {
    if slot == SHARED {
        counter.fetch_max(value, Ordering::Relaxed);
    } else if value > counter.load(Ordering::Relaxed) {
        counter.store(value, Ordering::Relaxed);
    }
}
