//! Admission of writes: on a nearly full medium, a write waits for work that frees space, and gets an error once there is no such work.
//!
//! A write other than a deletion waits before it takes the lead, so that deletions can go on. The leader of a group waits if the
//! memtables, with that group, could not all be flushed. The reason is recovery: it flushes the memtables before it deletes the log, and a
//! medium without space for both could never be opened for writing again.

use super::{Inner, Primary, Shared, no_space};
use crate::db::family::FamilyCore;
use crate::db::insert::WriteState;
use crate::error::{Error, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait of a write for space that compactions may free.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Longest wait before a deletion is refused, and of any write on a medium that frees space in units, where a single merge may free
/// nothing. A merge of some hundred megabytes ends in this time, and a full medium has no space for larger ones.
const LONG_PATIENCE_NS: u64 = 10_000_000_000;

/// Bytes for edits of the manifest, beside what a new one takes.
const MANIFEST_EDITS: u64 = 16 << 10;

/// On a nearly full medium, a memtable is flushed early only if it has at least this part (one in 8) of its full size.
const FLUSHED_PART: usize = 8;

impl Inner {
    /// Admits a write, before it takes the lead.
    #[inline]
    pub(in crate::db) fn admit(&self, is_deletion: impl FnOnce() -> bool) -> Result<()> {
        if !self.is_scarce() || is_deletion() { Ok(()) } else { self.await_space() }
    }

    #[cold]
    fn await_space(&self) -> Result<()> {
        let patience = if self.media.primary().unit() > 0 { LONG_PATIENCE_NS } else { PATIENCE_NS };
        let until_ns = self.clock.monotonic_ns().saturating_add(patience);
        let has_space = Inner::note_space;
        self.sync_deletions()?;
        if self.await_free(until_ns, has_space)? {
            return Ok(());
        }
        // Deletions in a memtable free nothing; compactions apply them once they are in a table.
        if self.holds_deletions() {
            self.flush_all()?;
            if self.await_free(until_ns, has_space)? {
                return Ok(());
            }
        }
        Err(no_space("write"))
    }

    /// Returns whether memtables hold deletions worth a flush: range deletions always, other deletions once per [`PATIENCE_NS`].
    fn holds_deletions(&self) -> bool {
        let mems: Vec<_> = self.shared.lock().families.values().map(|core| core.view.load().mem.clone()).collect();
        let (now, before) = (self.clock.monotonic_ns(), self.space.flushed_deletions_ns.load(Ordering::Relaxed));
        let is_worth_it = mems.iter().any(|mem| mem.has_tombstones())
            || (now.saturating_sub(before) >= PATIENCE_NS && mems.iter().any(|mem| mem.deletes()));
        if is_worth_it {
            self.space.flushed_deletions_ns.store(now, Ordering::Relaxed);
        }
        is_worth_it
    }

    /// Admits a group of writes of `bytes` to log and memtables. Full memtables have been switched.
    #[inline]
    pub(in crate::db) fn admit_group(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let log = self.logs.bytes().saturating_add(bytes);
        if log <= self.space.log_limit.load(Ordering::Acquire) { Ok(()) } else { self.extend_log(state, bytes) }
    }

    #[cold]
    fn extend_log(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let within = |patience_ns: u64, beside_merges: bool| {
            let until_ns = self.clock.monotonic_ns().saturating_add(patience_ns);
            self.await_free(until_ns, |inner, shared| inner.note_log_limit(shared, bytes, beside_merges))
        };
        // Only one write waits for the running merges, until another merge begins or ends: a long merge must not delay every write.
        if !self.space.has_waited.load(Ordering::Acquire) {
            if within(PATIENCE_NS, true)? {
                return Ok(());
            }
            self.space.has_waited.store(true, Ordering::Release);
        }
        if self.note_log_limit(&self.shared.lock(), bytes, false) || (!self.is_worth_flushing() && within(LONG_PATIENCE_NS, false)?) {
            return Ok(());
        }
        self.switch_all(state)?;
        self.wait_until(|_, shared| shared.families.values().all(|core| core.view.load().full.is_empty()))?;
        // Reservations of merges do not count here: after a crash, the output of an unfinished merge is deleted at the next open. On a
        // medium with units flushes may have taken more than estimated; deletions of files free that again.
        if within(LONG_PATIENCE_NS, false)? { Ok(()) } else { Err(no_space("write")) }
    }

    /// Returns whether a memtable is worth a flush on a nearly full medium: it is large enough, or holds deletions. Flushes of single
    /// writes would use up the last free space, because each table and each log segment takes at least one block.
    fn is_worth_flushing(&self) -> bool {
        let is_large = |core: &FamilyCore| core.view.load().mem.memory() >= self.memtable_limit(core) / FLUSHED_PART;
        self.shared.lock().families.values().any(|core| is_large(core)) || self.holds_deletions()
    }

    /// Waits until `fits` holds, and returns whether it does. Gives up when no running or due work can free space; also after `until_ns`,
    /// unless data can still be demoted, because no other thread writes while the leader waits.
    pub(super) fn await_free(&self, until_ns: u64, fits: impl Fn(&Inner, &Shared) -> bool) -> Result<bool> {
        let is_late =
            |inner: &Inner, shared: &Shared| inner.clock.monotonic_ns() >= until_ns && (inner.is_scarce() || inner.demotable(shared) == 0);
        let is_over = |inner: &Inner, shared: &Shared| is_late(inner, shared) || (inner.is_idle(shared) && !inner.may_move(shared));
        loop {
            // `fits` is checked once more after the error of a background job: a flush may find space where a merge did not.
            let is_refused = match self.wait_until(|inner, shared| fits(inner, shared) || is_over(inner, shared)) {
                Ok(()) => false,
                Err(Error::NoSpace(_)) => true,
                Err(error) => return Err(error),
            };
            // The medium may count deleted inputs of merges as free only once their deletion is durable.
            self.sync_deletions()?;
            let shared = self.shared.lock();
            let does_fit = fits(self, &shared);
            if does_fit || is_refused || is_over(self, &shared) {
                return Ok(does_fit);
            }
        }
    }

    /// Returns whether a flush of all memtables, with `bytes` more in them, would fit into the free space; if `beside_merges`, in addition
    /// to the reservations of running merges. Sets `log_limit`, the length of the log up to which this need not be computed again.
    fn note_log_limit(&self, shared: &Shared, bytes: u64, beside_merges: bool) -> bool {
        let Some(Primary { free, reserved, reserve, .. }) = self.survey(shared) else {
            self.space.log_limit.store(u64::MAX, Ordering::Release);
            return true;
        };
        let log = self.logs.bytes();
        // Unflushed bytes are the smaller of log and memtables: a segment with unflushed data of one family also holds flushed data of
        // others.
        let views = shared.families.values().map(|core| core.view.load());
        let memory = views.fold(0u64, |sum, view| view.mems().fold(sum, |sum, mem| sum.saturating_add(mem.memory() as u64)));
        let held = log.min(memory).saturating_add(bytes);
        let manifest = shared.manifest.as_ref().map_or(0, |manifest| manifest.len()).saturating_add(MANIFEST_EDITS);
        let reserved = if beside_merges { reserved } else { 0 };
        // Where space is scarce, half of the space of a merge stays free as well: the merge drops what deletions hide.
        let least = if beside_merges && self.is_scarce() { reserve.flushes.midpoint(reserve.merges) } else { 0 };
        // An eighth for indexes and filters of the tables, then the write in the log, and the rest.
        let needed = [held / 8, bytes, manifest, reserve.least(), reserved].into_iter().fold(held, u64::saturating_add).max(least);
        // A byte written takes one byte in the log and one in a table; a third is left for other programs on the medium.
        let more = free.checked_sub(needed).map(|slack| slack / 3);
        self.space.log_limit.store(log.saturating_add(more.map_or(0, |more| bytes.saturating_add(more))), Ordering::Release);
        more.is_some()
    }

    /// Computes `log_limit` anew, after a change that may have taken or freed space.
    pub(in crate::db) fn review_log_limit(&self, shared: &Shared) {
        self.note_log_limit(shared, 0, true);
    }

    /// Waits for a demotion after a job or a write found no space. Returns true if space may have become free.
    pub(in crate::db) fn await_demotion(&self, error: &Error) -> Result<bool> {
        let mut shared = self.shared.lock();
        if self.inline() {
            let Some(job) = self.next_demotion(&mut shared) else { return Ok(false) };
            drop(shared);
            return self.run_job(job).map(|()| true);
        }
        // Background threads look for a demotion as long as `blocked` is set.
        let is_first = shared.blocked.is_none();
        shared.blocked.get_or_insert_with(|| error.clone());
        while shared.blocked.is_some() && !shared.closing && !self.end.is_over() && self.may_demote(&shared) {
            self.work.notify_all();
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
        }
        let is_demoted = shared.blocked.is_none();
        if is_first {
            shared.blocked = None;
        }
        Ok(is_demoted)
    }
}
