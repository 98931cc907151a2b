//! Admission of writes: near the end of the medium they wait for work that frees space, and get an error once there is none.
//!
//! A write other than a deletion waits before it takes the lead, and keeps nobody from deleting. The leader of a group waits where the
//! memtables with that group would not fit into tables: a database that is opened again writes these before anything else, with the log
//! still there; without space for them a full medium could never be opened for writing again.

use super::{Inner, Primary, Shared, no_space};
use crate::db::family::FamilyCore;
use crate::db::insert::WriteState;
use crate::error::{Error, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait of a write for space that compactions may free.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Longest such wait of a deletion that else would be refused, and of any write on a medium that frees bytes only in units, where one merge
/// may free nothing yet: in this time a merge of some hundred megabytes ends, and one that a full medium has space for is no larger.
const LONG_PATIENCE_NS: u64 = 10_000_000_000;

/// Bytes for edits of the manifest, beside what a new one takes.
const MANIFEST_EDITS: u64 = 16 << 10;

/// Near the end of the medium, a memtable is written to a table once it is this part of a full one.
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
        // Deletions free nothing before they are in a table.
        if self.holds_deletions() {
            self.flush_all()?;
            if self.await_free(until_ns, has_space)? {
                return Ok(());
            }
        }
        Err(no_space("write"))
    }

    /// Deletions in memory that are worth a flush: of ranges, or some others, once in a while.
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

    /// Admits a group of writes of so many bytes to log and memtables. Full memtables have been switched.
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
        // Once, until another merge begins or ends: one that goes on for long must not hold every write up.
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
        // Output of a merge that does not end is deleted when the database is opened again. And flushes may have taken more than was
        // foreseen for them, where the medium has units: deletions free that again.
        if within(LONG_PATIENCE_NS, false)? { Ok(()) } else { Err(no_space("write")) }
    }

    /// True if a memtable is large enough, or holds deletions that free enough, for a flush near the end of the medium. Flushes of single
    /// writes would use up the last free space: each table takes a block at least, and so does each log segment.
    fn is_worth_flushing(&self) -> bool {
        let is_large = |core: &FamilyCore| core.view.load().mem.memory() >= self.memtable_limit(core) / FLUSHED_PART;
        self.shared.lock().families.values().any(|core| is_large(core)) || self.holds_deletions()
    }

    /// Waits until `fits`, as long as work that runs or is due may free space, but not for ever where no data can be demoted: nobody else
    /// writes while the leader waits. A merge that begins takes space that was seen free, and gives it back with more: the wait goes on.
    pub(super) fn await_free(&self, until_ns: u64, fits: impl Fn(&Inner, &Shared) -> bool) -> Result<bool> {
        let is_late =
            |inner: &Inner, shared: &Shared| inner.clock.monotonic_ns() >= until_ns && (inner.is_scarce() || inner.demotable(shared) == 0);
        let is_over = |inner: &Inner, shared: &Shared| is_late(inner, shared) || (inner.is_idle(shared) && !inner.may_move(shared));
        loop {
            // A flush may find space where a merge did not.
            let is_refused = match self.wait_until(|inner, shared| fits(inner, shared) || is_over(inner, shared)) {
                Ok(()) => false,
                Err(Error::NoSpace(_)) => true,
                Err(error) => return Err(error),
            };
            // Inputs merged meanwhile are free once their deletion is durable.
            self.sync_deletions()?;
            let shared = self.shared.lock();
            let does_fit = fits(self, &shared);
            if does_fit || is_refused || is_over(self, &shared) {
                return Ok(does_fit);
            }
        }
    }

    /// Returns whether tables of all that memtables hold, with `bytes` more, fit into the free space, beside what merges need if asked for;
    /// notes how much longer the log may become before somebody looks again.
    fn note_log_limit(&self, shared: &Shared, bytes: u64, beside_merges: bool) -> bool {
        let Some(Primary { free, reserved, reserve, .. }) = self.survey(shared) else {
            self.space.log_limit.store(u64::MAX, Ordering::Release);
            return true;
        };
        let log = self.logs.bytes();
        // The log may be longer: it also has flushed or dropped data of one family beside unflushed data of another.
        let views = shared.families.values().map(|core| core.view.load());
        let memory = views.fold(0u64, |sum, view| view.mems().fold(sum, |sum, mem| sum.saturating_add(mem.memory() as u64)));
        let held = log.min(memory).saturating_add(bytes);
        let manifest = shared.manifest.as_ref().map_or(0, |manifest| manifest.len()).saturating_add(MANIFEST_EDITS);
        let reserved = if beside_merges { reserved } else { 0 };
        // Where space is scarce, half of what the next merge needs, too: it frees what deletions have hidden.
        let least = if beside_merges && self.is_scarce() { reserve.flushes.midpoint(reserve.merges) } else { 0 };
        // Tables with their indexes and filters, and the write in the log.
        let needed = [held / 8, bytes, manifest, reserve.least(), reserved].into_iter().fold(held, u64::saturating_add).max(least);
        // Each byte of the slack takes one in the log and one in a table, and others write, too.
        let more = free.checked_sub(needed).map(|slack| slack / 3);
        self.space.log_limit.store(log.saturating_add(more.map_or(0, |more| bytes.saturating_add(more))), Ordering::Release);
        more.is_some()
    }

    /// Looks at the medium of the log again, after a change of its use.
    pub(in crate::db) fn review_log_limit(&self, shared: &Shared) {
        self.note_log_limit(shared, 0, true);
    }

    /// Waits after a job or a write that found no space: true if there may be some now.
    pub(in crate::db) fn await_demotion(&self, error: &Error) -> Result<bool> {
        let mut shared = self.shared.lock();
        if self.inline() {
            let Some(job) = self.next_demotion(&mut shared) else { return Ok(false) };
            drop(shared);
            return self.run_job(job).map(|()| true);
        }
        // The threads look for a demotion as long as `blocked` says that there is no space.
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
