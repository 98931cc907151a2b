//! One job as the choice of codecs sees it: what it is about to write, has written, and how long that took.

use super::{Auto, Level};
use crate::codec::Compression;
use crate::cpu::thread_ns;
use sinter_storage::store::{Appender, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A job under way. What it will bring to a level counts as written from the start, so that its first table has the codec that suits
/// the job: a level may have been written little to, or not at all.
#[derive(Debug)]
pub struct Work {
    auto: Arc<Auto>,
    level: usize,
    /// What it was expected to bring and has not yet.
    left: AtomicU64,
}

impl Auto {
    /// A job begins that will bring so many bytes of keys and values to a level, as far as that is known. To be followed by a review.
    pub fn begin_work(self: &Arc<Self>, level: usize, raw_bytes: u64) -> Work {
        let mut state = self.state.lock();
        let at = state.level(level);
        at.coming = at.coming.saturating_add(raw_bytes);
        let is_asked = at.is_mostly_coming();
        state.is_asked |= is_asked;
        Work { auto: Arc::clone(self), level, left: AtomicU64::new(raw_bytes) }
    }
}

impl Level {
    /// So much of what is coming has come, or will not.
    fn comes(&mut self, bytes: u64) {
        self.coming = self.coming.saturating_sub(bytes);
    }
}

impl Work {
    /// [`Auto::choice`].
    pub fn choice(&self, level: usize) -> (Compression, String) {
        self.auto.choice(level)
    }

    /// The choice that it works for.
    pub fn auto(&self) -> &Auto {
        &self.auto
    }

    /// A table was written to a level, with so many bytes of keys and values.
    pub fn wrote(&self, level: usize, raw_bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(raw_bytes));
        let was_left = if level == self.level { self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) } else { Ok(0) };
        let mut state = self.auto.state.lock();
        state.sealed = true;
        let level = state.level(level);
        level.comes(was_left.unwrap_or(0).min(raw_bytes));
        level.written += raw_bytes as f64;
        level.unsampled = level.unsampled.saturating_add(raw_bytes);
    }

    /// Makes a table's file note how long it takes to be written.
    pub fn timed(&self, file: Box<dyn Appender>) -> Box<dyn Appender> {
        let auto = &self.auto;
        if auto.measures { Box::new(Timed { file, auto: Arc::clone(auto), bytes: 0, busy_ns: 0, wait_ns: 0 }) } else { file }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What was merged away, or a job that failed.
        let left = *self.left.get_mut();
        self.auto.state.lock().level(self.level).comes(left);
    }
}

/// A file that notes how long it takes to be written.
struct Timed {
    file: Box<dyn Appender>,
    auto: Arc<Auto>,
    bytes: u64,
    busy_ns: u64,
    wait_ns: u64,
}

/// What `work` gives, its nanoseconds of this thread's processor, and those in which it waited.
pub(in crate::compaction) fn timed<T>(auto: &Auto, work: impl FnOnce() -> T) -> (T, u64, u64) {
    let (start, busy) = (auto.now(), thread_ns());
    let result = work();
    // A clock that tests move may stand still meanwhile.
    let passed = auto.now().saturating_sub(start);
    let busy = thread_ns().saturating_sub(busy).min(passed);
    (result, busy, passed - busy)
}

impl Appender for Timed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (result, busy, wait) = timed(&self.auto, || self.file.append(bytes));
        self.busy_ns += busy;
        self.wait_ns += wait;
        self.bytes += bytes.len() as u64;
        result
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        let Timed { file, auto, bytes, busy_ns, wait_ns } = *self;
        let (result, busy, wait) = timed(&auto, || file.seal());
        let mut state = auto.state.lock();
        let appended = &mut state.appended;
        appended.bytes += bytes as f64;
        appended.busy_ns += (busy_ns + busy) as f64;
        appended.wait_ns += (wait_ns + wait) as f64;
        result
    }
}
