//! Signals that end the server: Ctrl-C (SIGINT), SIGTERM and SIGHUP.

use nix::sys::signal::{SigSet, Signal, raise};
use sinter_server::net::{EndedBy, Stopper};
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

/// A thread that receives the signals.
pub struct Signals {
    stopper: Arc<OnceLock<Stopper>>,
}

impl Signals {
    /// Starts the thread. No other thread may run yet: threads that are started later inherit that these signals are blocked. Until there
    /// is a server to stop, a signal ends the process.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn receive() -> io::Result<Signals> {
        let all: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        all.thread_block()?;
        let stopper = Arc::<OnceLock<Stopper>>::default();
        let theirs = stopper.clone();
        let wait = move || {
            while let Ok(signal) = all.wait() {
                match theirs.get() {
                    Some(stopper) if signal == Signal::SIGINT => stopper.stop_by(EndedBy::Interrupt),
                    Some(stopper) => stopper.stop_by(EndedBy::Termination),
                    None => {
                        // The signal's own action ends the process.
                        let _ = all.thread_unblock();
                        let _ = raise(signal);
                    }
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(Signals { stopper })
    }

    /// Names the server that signals stop from now on.
    pub fn stop(&self, stopper: Stopper) {
        let _ = self.stopper.set(stopper);
    }
}
