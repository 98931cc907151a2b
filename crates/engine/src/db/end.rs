//! The end of a handle: nothing more is written through it. It was closed, a failure ended it, or it was opened read-only.

use crate::error::Error;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reason of an end without a failure.
pub(super) const CLOSED: &str = "the database was closed";

/// Whether the handle has ended, and why.
#[derive(Default)]
pub(super) struct End {
    is_over: AtomicBool,
    reason: Mutex<Option<String>>,
    /// Tells running jobs to stop.
    pub stop_jobs: AtomicBool,
}

impl End {
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends the handle. The first reason stays.
    pub fn set(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.into());
        self.is_over.store(true, Ordering::Release);
    }

    /// The error that the handle gives after its end.
    #[cold]
    pub fn error(&self) -> Error {
        Error::Closed(self.reason.lock().as_deref().unwrap_or(CLOSED).into())
    }
}
