//! Threads that begin at one moment, or not at all.

use crate::system::{Failure, Outcome};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{PoisonError, RwLock};
use std::thread::{self, Builder};

/// Gate at which a thread waits until all threads are there.
pub(super) struct Gate<'a> {
    /// Moment at which the gate opened; locked by the starter of the threads until it opens the gate or fails.
    opened: &'a RwLock<Option<u64>>,
    /// Nothing is sent: dropping it says that the thread is there, or will never be.
    arrived: Sender<()>,
}

impl Gate<'_> {
    /// Waits for the other threads. Returns the moment at which all begin; `None` if one could not be started, so that none begins.
    pub fn pass(self) -> Option<u64> {
        drop(self.arrived);
        *self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does `work` on a thread of each builder. Work after [`Gate::pass`] begins on all threads together, at the moment that `now` gives. The
/// first thread that fails raises `halt`, which ends the others soon; all are waited for.
///
/// # Errors
/// A thread that cannot be started, and the first failure or panic in the order of threads.
pub(super) fn together<T: Send>(
    builders: impl Iterator<Item = Builder>,
    now: impl FnOnce() -> u64,
    halt: &AtomicBool,
    work: impl Fn(usize, Gate<'_>) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    let (opened, (arrived, arrivals)) = (RwLock::new(None), channel());
    let attempt = |thread: usize, gate: Gate<'_>| {
        let outcome = caught(|| work(thread, gate));
        if outcome.is_err() {
            halt.store(true, Ordering::Relaxed);
        }
        outcome
    };
    thread::scope(|scope| {
        // Dropped without a moment when this returns early: waiting threads then end at once.
        let mut moment = opened.write().unwrap_or_else(PoisonError::into_inner);
        let mut handles = Vec::new();
        for (thread, builder) in builders.enumerate() {
            let (attempt, gate) = (&attempt, Gate { opened: &opened, arrived: arrived.clone() });
            let handle = builder.spawn_scoped(scope, move || attempt(thread, gate));
            handles.push(handle.map_err(|error| format!("thread {} cannot be started: {error}", thread + 1))?);
        }
        drop(arrived);
        // An error: all senders are gone.
        let _ = arrivals.recv();
        *moment = Some(now());
        drop(moment);
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|panic| Err(panicked(&*panic)))).collect()
    })
}

/// Calls `work`, and turns a panic into a failure with its message. Data left half done by a panic must not be read again, except counters
/// that are whole at any moment.
pub(super) fn caught<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// A panic as a failure.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", message.unwrap_or("without a message")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn builders(threads: usize) -> impl Iterator<Item = Builder> {
        (0..threads).map(|_| Builder::new())
    }

    #[test]
    fn all_begin_when_the_last_one_is_there() {
        let (there, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = |thread: usize, gate: Gate<'_>| {
            there.fetch_add(1, Ordering::SeqCst);
            Ok((thread, gate.pass()))
        };
        let begun = together(builders(5), || there.load(Ordering::SeqCst) as u64, &halt, work).unwrap();
        assert_eq!(begun, (0..5).map(|thread| (thread, Some(5))).collect::<Vec<_>>());
        assert!(!halt.into_inner());
    }

    #[test]
    fn none_begins_if_one_cannot_be_started() {
        let (begun, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = |_: usize, gate: Gate<'_>| {
            begun.fetch_add(gate.pass().map_or(0, |_| 1), Ordering::SeqCst);
            Ok(())
        };
        // No address space can hold such a stack.
        let builders = builders(3).chain([Builder::new().stack_size(1 << 60)]);
        let failure = together(builders, || 0, &halt, work).unwrap_err().to_string();
        assert!(failure.starts_with("thread 4 cannot be started: "), "{failure}");
        assert_eq!(begun.into_inner(), 0);
    }

    #[test]
    fn a_failure_ends_the_others() {
        for early in [false, true] {
            for panic in [false, true] {
                let halt = AtomicBool::new(false);
                let work = |thread: usize, gate: Gate<'_>| -> Outcome<()> {
                    if thread != 1 {
                        gate.pass();
                        while !halt.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                        return Ok(());
                    }
                    if !early {
                        gate.pass();
                    }
                    assert!(!panic, "a {}", "message");
                    Err("a message".into())
                };
                let failure = together(builders(3), || 0, &halt, work).unwrap_err().to_string();
                assert_eq!(failure, if panic { "panicked: a message" } else { "a message" });
            }
        }
    }
}
