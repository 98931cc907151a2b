//! One running job as input to the choice of codecs: bytes it is about to write, bytes it has written, and the time of the writes.

use super::{Auto, Level};
use crate::codec::Compression;
use crate::cpu::{self, Transfer};
use sinter_storage::store::{Appender, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A running job. The bytes that a compaction will write count from its start, so that even its first table gets a codec that suits the
/// job, although the level may have been written to little before, or not at all.
#[derive(Debug)]
pub struct Announced {
    auto: Arc<Auto>,
    to: usize,
    /// Bytes before compression that the job was expected to write and has not written yet.
    left: AtomicU64,
}

impl Auto {
    /// Notes that a job begins which merges `inputs`, levels and bytes before compression, into level `to`; a flush has none. The caller
    /// should request a review afterwards.
    pub fn announce(self: &Arc<Self>, to: usize, inputs: &[(usize, u64)]) -> Announced {
        let all = inputs.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        let mut state = self.state.lock();
        let level = state.level(to);
        level.coming = level.coming.saturating_add(all);
        Announced { auto: Arc::clone(self), to, left: AtomicU64::new(all) }
    }
}

#[cfg(test)]
impl Auto {
    /// Bytes that running compactions have yet to write to each level.
    #[cfg(test)]
    pub fn coming(&self) -> Vec<u64> {
        self.state.lock().levels.iter().map(|level| level.coming).collect()
    }
}

impl Level {
    /// Subtracts bytes from those to come: they were written, or never will be.
    fn comes(&mut self, bytes: u64) {
        self.coming = self.coming.saturating_sub(bytes);
    }
}

impl Announced {
    /// [`Auto::choice`].
    pub fn choice(&self, level: usize) -> (Compression, String) {
        self.auto.choice(level)
    }

    /// The choice of codecs that the job reports to.
    pub fn auto(&self) -> &Auto {
        &self.auto
    }

    /// Notes that the job wrote a table of so many bytes of keys and values to a level.
    pub fn wrote(&self, level: usize, raw_bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(raw_bytes));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        let mut state = self.auto.state.lock();
        // Bytes that go to the level above, as young data, were also expected on level `to`.
        state.level(self.to).comes(left.min(raw_bytes));
        let level = state.level(level);
        level.written += raw_bytes as f64;
        level.unsampled = level.unsampled.saturating_add(raw_bytes);
        let compress_ns = level.effects[level.chosen].compress_ns * raw_bytes as f64;
        state.compress_ns += compress_ns;
    }

    /// Wraps a table's file so that its writes are timed.
    pub fn timed(&self, file: Box<dyn Appender>) -> Box<dyn Appender> {
        let auto = &self.auto;
        if auto.measures { Box::new(Timed { file, auto: Arc::clone(auto), taken: Transfer::default() }) } else { file }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // The bytes left are those that merging dropped, or all of a failed job.
        self.auto.state.lock().level(self.to).comes(*self.left.get_mut());
    }
}

/// A file whose writes are timed.
struct Timed {
    file: Box<dyn Appender>,
    auto: Arc<Auto>,
    taken: Transfer,
}

/// [`cpu::timed`] if `auto` measures; otherwise runs `work` and reports no time.
pub(in crate::compaction) fn timed<T>(auto: &Auto, work: impl FnOnce() -> T) -> (T, u64, u64) {
    if auto.measures { cpu::timed(&*auto.clock, work) } else { (work(), 0, 0) }
}

impl Appender for Timed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (result, busy, wait) = timed(&self.auto, || self.file.append(bytes));
        self.taken.add(Transfer { bytes: bytes.len() as f64, busy_ns: busy as f64, wait_ns: wait as f64 });
        result
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        let Timed { file, auto, mut taken } = *self;
        let (result, busy, wait) = timed(&auto, || file.seal());
        taken.add(Transfer { bytes: 0.0, busy_ns: busy as f64, wait_ns: wait as f64 });
        auto.state.lock().appended.add(taken);
        result
    }
}
