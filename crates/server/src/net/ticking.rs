//! Work that is due by the clock: ticks of the network's thread, and a thread that makes writes durable.

use crate::command::Fsync;
use crate::keyspace::Syncer;
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Keys that are removed at once because their time has come, again and again for so long as long as there are more; then other work has
/// its turn until so many milliseconds later. So a wave of them takes a fifth of the thread's time, and Redis's a quarter.
pub(super) const EXPIRED_AT_ONCE: usize = 200;
pub(super) const EXPIRING_NS: u64 = 2_000_000;
pub(super) const EXPIRING_PAUSE_MS: u64 = 10;
/// Seconds in which a client has to end its handshake, if it comes with TLS, and to authenticate, if it has to.
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
    /// When keys whose time has come are looked for, unless that is later than the next tick.
    pub expiry: Option<u64>,
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

    /// Keys whose time has come are due, too: with the tick, or before.
    pub fn expires(&mut self, now: u64) -> bool {
        let is_early = self.expiry.is_some_and(|at| now >= at);
        let is_due = is_early || now >= self.next || self.next - now > 100;
        if is_due {
            self.expiry = None;
        }
        is_due
    }
}

/// A thread that syncs, so that clients do not wait for it: after so much time, and when it is asked to. Whatever is committed while it
/// syncs shares the next one.
#[derive(Debug)]
pub(super) struct SyncThread {
    shared: Arc<Wishes>,
    /// Asks for a sync. Dropped: the thread ends.
    orders: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the sync thread.
#[derive(Debug)]
struct Wishes {
    /// Milliseconds between two syncs.
    interval: AtomicU64,
    /// A sync was asked for and has not begun.
    is_asked: AtomicBool,
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
        let shared = Arc::new(Wishes { interval: AtomicU64::new(interval(fsync)), is_asked: AtomicBool::new(false) });
        let theirs = shared.clone();
        let (orders, ordered) = channel::<()>();
        let work = move || {
            loop {
                let wait = Duration::from_millis(theirs.interval.load(Ordering::Relaxed));
                if ordered.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                // Before the sync looks what is committed: who commits later asks again.
                theirs.is_asked.swap(false, Ordering::AcqRel);
                // The keyspace knows how it went. Somebody may have waited for it, whom else the next tick would serve.
                let _ = syncer.sync();
                let _ = waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name("sinter-sync".into()).spawn(work)?;
        Ok(SyncThread { shared, orders: Some(orders), thread: Some(thread) })
    }

    /// Wants a sync of what is committed by now.
    pub fn ask(&self) {
        if let Some(orders) = &self.orders
            && !self.shared.is_asked.swap(true, Ordering::AcqRel)
        {
            // A thread that is gone has panicked; ending it will tell.
            let _ = orders.send(());
        }
    }

    /// The configuration has changed, perhaps. Nobody waits for the end of a longer interval then.
    pub fn set(&self, fsync: Fsync) {
        let interval = interval(fsync);
        if self.shared.interval.swap(interval, Ordering::Relaxed) != interval {
            self.ask();
        }
    }

    pub fn stop(&mut self) {
        self.orders.take();
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
