//! What happens by the clock: ticks of the network's thread, and a thread that makes writes durable.

use crate::command::Fsync;
use crate::keyspace::Syncer;
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Keys that are removed in a tick because their time has come; more wait for the next one.
pub(super) const EXPIRED_AT_ONCE: usize = 1000;
/// Seconds in which a client has to authenticate, if it has to.
pub(super) const GREETING_SECONDS: u64 = 10;

/// Milliseconds after which a client that says nothing needs no memory for more.
pub(super) const IDLE_MS: u64 = 1000;

/// Ticks in which all clients are looked at once.
pub(super) const TICKS_PER_ROUND: usize = 10;
/// Clients that are looked at in a tick if there are few.
pub(super) const ROUND_MIN: usize = 64;

/// When the next tick is due.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    next: u64,
    /// Accepting failed, and may work now.
    pub accept_again: bool,
}

impl Ticks {
    /// The time between two ticks.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// A tick is due; the next one is later. A clock that goes back does not stop them.
    pub fn is_due(&mut self, now: u64) -> bool {
        let interval = 100;
        let is_due = now >= self.next || self.next - now > interval;
        if is_due {
            self.next = now + interval;
        }
        is_due
    }
}

/// A thread that syncs, so that clients do not wait for it.
#[derive(Debug)]
pub(super) struct SyncThread {
    /// Milliseconds between two syncs.
    interval: Arc<AtomicU64>,
    /// Sent to: the interval has changed. Dropped: it ends.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Without a wish for durability there is a sync now and then all the same: elements of collections that are gone are kept until one.
fn interval(fsync: Fsync) -> u64 {
    match fsync {
        Fsync::EverySecond => 1000,
        Fsync::Always | Fsync::No => 30_000,
    }
}

impl SyncThread {
    pub fn start(syncer: Syncer, fsync: Fsync, waker: Arc<Waker>) -> io::Result<SyncThread> {
        let shared = Arc::new(AtomicU64::new(interval(fsync)));
        let theirs = shared.clone();
        let (ends, ended) = channel::<()>();
        let work = move || {
            loop {
                let wait = Duration::from_millis(theirs.load(Ordering::Relaxed));
                match ended.recv_timeout(wait) {
                    // The interval is another.
                    Ok(()) => {}
                    Err(RecvTimeoutError::Timeout) => {
                        // A failed sync ends the engine's handle: every later write gets the reason. After a good one somebody may have
                        // waited for it, whom else the next tick would serve.
                        if syncer.sync().is_ok() {
                            let _ = waker.wake();
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("sinter-sync".into()).spawn(work)?;
        Ok(SyncThread { interval: shared, ends: Some(ends), thread: Some(thread) })
    }

    /// The configuration has changed, perhaps. Nobody waits for the end of a longer interval then.
    pub fn set(&self, fsync: Fsync) {
        let interval = interval(fsync);
        if self.interval.swap(interval, Ordering::Relaxed) != interval
            && let Some(thread) = &self.ends
        {
            // It is there until the sender is dropped.
            let _ = thread.send(());
        }
    }

    pub fn stop(&mut self) {
        self.ends.take();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.stop();
    }
}
