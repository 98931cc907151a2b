//! A file that books its own bytes.

use sinter_storage::store::{Appender, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file whose bytes are in the ledger as soon as they are written.
pub(super) struct Accounted {
    pub file: Box<dyn Appender>,
    pub line: Arc<AtomicU64>,
}

impl Appender for Accounted {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.line.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        self.file.seal()
    }
}
