//! Syncs that several threads ask for at once: one serves all that asked before it began.

use parking_lot::{Condvar, Mutex};

/// Combines concurrent syncs of one thing, for example a drive or the names of a directory, into one. The system reports a failure once and
/// may drop what was written before, and a later sync would still report success; so after a failed one all others fail, too.
#[derive(Debug, Default)]
pub struct CombinedSync {
    turns: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// Number of syncs that have begun, and the number of the last one that has ended.
    begun: u64,
    done: u64,
    running: bool,
    failed: bool,
    /// Number of threads that wait for the end of the running sync.
    waiting: usize,
}

impl CombinedSync {
    /// Returns after a sync that began after this call, in this thread or in another one.
    ///
    /// # Errors
    /// The error of the sync in the thread that ran it; `earlier` in all others, and for ever.
    pub fn sync<E>(&self, earlier: impl FnOnce() -> E, run: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut turns = self.turns.lock();
        let mine = turns.begun + 1;
        loop {
            if turns.failed {
                return Err(earlier());
            }
            if turns.done >= mine {
                return Ok(());
            }
            if !turns.running {
                break;
            }
            turns.waiting += 1;
            self.ended.wait(&mut turns);
            turns.waiting -= 1;
        }
        turns.begun += 1;
        turns.running = true;
        let number = turns.begun;
        drop(turns);
        let outcome = run();
        let mut turns = self.turns.lock();
        turns.running = false;
        turns.failed |= outcome.is_err();
        turns.done = number;
        self.ended.notify_all();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Threads that ask while a sync runs wait for one more, which may cover what they wrote; if the running one fails, so do they.
    #[test]
    fn one_sync_serves_all_that_asked_before_it_began() {
        for outcome in [Ok(()), Err("this one")] {
            let (sync, runs, gate) = (CombinedSync::default(), AtomicU32::new(0), Barrier::new(2));
            let count = || {
                runs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            let (served, all) = if outcome.is_ok() { (Ok(()), 2) } else { (Err("earlier"), 1) };
            std::thread::scope(|scope| {
                let first = scope.spawn(|| {
                    sync.sync(
                        || "earlier",
                        || {
                            count()?;
                            gate.wait();
                            outcome
                        },
                    )
                });
                while !sync.turns.lock().running {
                    std::thread::yield_now();
                }
                let others: Vec<_> = (0..4).map(|_| scope.spawn(|| sync.sync(|| "earlier", count))).collect();
                while sync.turns.lock().waiting < others.len() {
                    std::thread::yield_now();
                }
                gate.wait();
                assert_eq!(first.join().unwrap(), outcome);
                others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), served));
            });
            assert_eq!(runs.load(Ordering::Relaxed), all);
            assert_eq!(sync.sync(|| "earlier", count), served);
        }
    }
}
