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

/// Keys with passed deadlines are removed so many at a time, for so many nanoseconds; while there are more, the removal goes on so many
/// milliseconds after the iteration's begin. So it takes at most a fifth of the thread's time; in Redis, a quarter.
pub(super) const EXPIRED_AT_ONCE: usize = 200;
pub(super) const EXPIRING_NS: u64 = 2_000_000;
pub(super) const EXPIRING_PAUSE_MS: u64 = 10;
/// Seconds in which a client has to end its handshake, if it uses TLS, and to authenticate, if it has to.
pub(super) const GREETING_SECONDS: u64 = 10;

/// Milliseconds of silence after which a client's spare memory is freed.
pub(super) const IDLE_MS: u64 = 1000;

/// Number of ticks in which each client is looked at once.
pub(super) const TICKS_PER_ROUND: usize = 10;
/// Smallest number of clients that are looked at in a tick.
pub(super) const ROUND_MIN: usize = 64;

/// Times of the next tick and of the next removal of keys.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    next: u64,
    /// When keys with passed deadlines are next looked for, if before the next tick.
    pub expiry: Option<u64>,
    /// When removing such keys failed, unix milliseconds, if it has since it was last tried.
    pub failed: Option<u64>,
    /// Accepting failed, and may work now.
    pub accept_again: bool,
}

impl Ticks {
    /// The time between two ticks.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Whether a tick is due; sets the next one. A clock that goes back does not stop ticks.
    pub fn is_due(&mut self, now: u64) -> bool {
        let interval = 100;
        let is_due = now >= self.next || self.next - now > interval;
        if is_due {
            self.next = now + interval;
        }
        is_due
    }

    /// Whether removing keys with passed deadlines is due: with the tick, or before.
    pub fn expires(&mut self, now: u64) -> bool {
        let is_early = self.expiry.is_some_and(|at| now >= at);
        let is_due = is_early || now >= self.next || self.next - now > 100;
        if is_due {
            self.expiry = None;
        }
        is_due
    }
}

/// A thread that syncs, so that clients do not wait for it: after an interval, and on request. Commits made while it syncs share the next
/// sync.
#[derive(Debug)]
pub(super) struct SyncThread {
    shared: Arc<Wishes>,
    /// Channel for requests to sync. When it is dropped, the thread ends.
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

/// Interval between syncs, milliseconds. Data are synced even with `appendfsync no`, as elements of deleted collections are kept until a
/// sync.
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
                // Cleared before the sync takes the number of the last commit: a later commit asks again.
                theirs.is_asked.swap(false, Ordering::AcqRel);
                // The keyspace has the result. The waker lets clients go on that wait for it; otherwise the next tick would.
                let _ = syncer.sync();
                let _ = waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name("sinter-sync".into()).spawn(work)?;
        Ok(SyncThread { shared, orders: Some(orders), thread: Some(thread) })
    }

    /// Asks for a sync of everything committed by now.
    pub fn ask(&self) {
        if let Some(orders) = &self.orders
            && !self.shared.is_asked.swap(true, Ordering::AcqRel)
        {
            // A thread that has ended has panicked; joining it will tell.
            let _ = orders.send(());
        }
    }

    /// Applies a perhaps changed configuration; a longer interval that has begun is cut short.
    pub fn set(&self, fsync: Fsync) {
        let interval = interval(fsync);
        if self.shared.interval.swap(interval, Ordering::Relaxed) != interval {
            self.ask();
        }
    }

    pub fn stop(&mut self) {
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.stop();
    }
}
