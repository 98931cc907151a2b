//! The atomics of the memtable: the standard ones, or shuttle's when a test explores schedules (`--cfg shuttle`).

pub(super) use std::sync::atomic::Ordering;

#[cfg(shuttle)]
pub(super) use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(not(shuttle))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

/// How often a reader spins before it offers its core, in case the writer it collided with waits for one.
#[cfg(not(shuttle))]
const SPINS: u32 = 64;

/// Lets some time pass before attempt number `attempt + 1` to read a node that was being written.
#[cfg(not(shuttle))]
pub(super) fn relax(attempt: u32) {
    if attempt < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// Lets another thread of the explored schedule run.
#[cfg(shuttle)]
pub(super) fn relax(_attempt: u32) {
    shuttle::thread::yield_now();
}
