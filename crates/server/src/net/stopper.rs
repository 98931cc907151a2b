//! The order to end the server, from other threads.

use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The sender of an order to end the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The program itself.
    Program,
    /// Ctrl-C (SIGINT).
    Interrupt,
    /// SIGTERM, as from a service manager.
    Termination,
}

impl EndedBy {
    /// All senders; the order of each has its position here plus one, and 0 is no order.
    const ALL: [EndedBy; 3] = [EndedBy::Program, EndedBy::Interrupt, EndedBy::Termination];

    fn of(order: u8) -> Option<EndedBy> {
        Self::ALL.get(usize::from(order).checked_sub(1)?).copied()
    }
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    waker: Arc<Waker>,
    order: Arc<AtomicU8>,
}

impl Stopper {
    pub(super) fn new(waker: Arc<Waker>) -> Stopper {
        Stopper { waker, order: Arc::default() }
    }

    /// Wakes the event loop, also for other threads.
    pub(super) fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Ends the server after the current event-loop iteration: closes the clients and then the data.
    pub fn stop(&self) {
        self.stop_by(EndedBy::Program);
    }

    /// Ends the server like [`Stopper::stop`]; the configuration says whether an end by a signal waits for replicas.
    pub fn stop_by(&self, sender: EndedBy) {
        self.order.store(sender as u8 + 1, Ordering::Release);
        // The server looks at the order at least ten times a second anyway.
        let _ = self.waker.wake();
    }

    /// Whether there is an order that was not taken.
    pub(super) fn has_order(&self) -> bool {
        EndedBy::of(self.order.load(Ordering::Acquire)).is_some()
    }

    /// Takes the order.
    pub(super) fn take(&self) -> Option<EndedBy> {
        EndedBy::of(self.order.swap(0, Ordering::AcqRel))
    }
}
