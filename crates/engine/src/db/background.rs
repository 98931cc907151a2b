//! The threads behind a database: one for flushes, the rest for compactions, and one for moves if there are tiers. The only place that
//! starts threads which outlive a job.

use super::jobs::{PanicGuard, Takes};
use super::{Inner, end};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Idle threads look again after so long: lack of space, time to live and clocks give no signal.
const IDLE: Duration = Duration::from_secs(1);

/// The running threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// Starts the threads that the settings ask for.
    pub fn start(&self, inner: &Arc<Inner>) -> Result<()> {
        let jobs = inner.settings.max_background_jobs;
        if jobs == 0 {
            return Ok(());
        }
        let first = if jobs == 1 { Takes::Jobs } else { Takes::Flushes };
        let moves = inner.media.tiers.as_ref().map(|_| Takes::Moves);
        let takes = std::iter::once(first).chain(std::iter::repeat_n(Takes::Compactions, jobs - 1)).chain(moves);
        let mut handles = self.handles.lock();
        for (n, takes) in takes.enumerate() {
            let weak = Arc::downgrade(inner);
            let what = match takes {
                Takes::Compactions => "compact",
                Takes::Moves => "move",
                Takes::Flushes | Takes::Jobs | Takes::All => "flush",
            };
            let name = format!("sinterdb-{what}{n}");
            let spawned = Builder::new().name(name).spawn(move || work(&weak, takes));
            handles.push(spawned.map_err(|e| Error::invalid(format!("a background thread cannot be started: {e}")))?);
        }
        Ok(())
    }

    /// Waits for all threads to end; they must have been told to.
    pub fn join(&self) {
        let handles = std::mem::take(&mut *self.handles.lock());
        // A thread that panicked has noted it ([`PanicGuard`]).
        handles.into_iter().for_each(|handle| drop(handle.join()));
    }
}

/// Closes a database whose last handle went within code of the user: the job or the write that called it has to end first. If no thread
/// can be started, writing ends and the store stays locked.
pub(super) fn close_beside(inner: &Arc<Inner>) {
    let closed = inner.clone();
    if Builder::new().name("sinterdb-close".into()).spawn(move || drop(closed.shut_down())).is_err() {
        inner.end.stop_jobs.store(true, Ordering::Release);
        inner.end.set(end::CLOSED);
    }
}

/// A thread's life. The last handle to go ends it ([`super::Handle`]).
fn work(weak: &Weak<Inner>, takes: Takes) {
    while let Some(inner) = weak.upgrade() {
        let _guard = PanicGuard { inner: &inner, jobs: 0 };
        if matches!(takes, Takes::Flushes | Takes::Jobs) {
            inner.tick();
        }
        let mut shared = inner.shared.lock();
        if shared.closing {
            return;
        }
        match inner.next_job(&mut shared, takes) {
            Some(job) => {
                drop(shared);
                if inner.run_job(job).is_err() {
                    // Lack of space: try again later rather than at once.
                    inner.work.wait_for(&mut inner.shared.lock(), IDLE);
                }
            }
            None => {
                let is_idle = inner.work.wait_for(&mut shared, IDLE).timed_out();
                drop(shared);
                inner.obsolete.clear();
                if is_idle {
                    inner.delete_doomed();
                    inner.pool.release();
                }
            }
        }
    }
}
