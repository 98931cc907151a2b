//! A table file whose reads are counted, apart for tables of the last level: what is read there is mostly cold.

use crate::cache::Cache;
use sinter_storage::store::{ReadAt, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct Counted {
    below: Arc<dyn ReadAt>,
    cache: Arc<Cache>,
    last_level: AtomicBool,
}

impl Counted {
    pub fn new(below: Arc<dyn ReadAt>, cache: Arc<Cache>) -> Self {
        Counted { below, cache, last_level: AtomicBool::new(false) }
    }

    /// Where the table stands now.
    pub fn set_last_level(&self, yes: bool) {
        self.last_level.store(yes, Ordering::Relaxed);
    }
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.cache.count_read(self.last_level.load(Ordering::Relaxed), buffer.len() as u64);
        self.below.read_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.below.will_need(offset, length);
    }
}
