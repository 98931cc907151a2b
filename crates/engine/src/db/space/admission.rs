//! Keeps the log from filling its medium: space is left for the manifest, and for the tables of all that memtables hold. A database that is
//! opened again writes these before anything else, with the log still there; without space for them a full medium could never be opened for
//! writing again.

use super::limit::LITTLE_PINNED;
use super::{Inner, Shared, no_space};
use crate::compaction::PickEnv;
use crate::db::family::FamilyCore;
use crate::db::insert::WriteState;
use crate::error::{Error, Result};
use crate::settings::FamilySettings;
use sinter_storage::store::Temperature;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait of a write for space that compactions may free.
pub(in crate::db) const PATIENCE_NS: u64 = 1_000_000_000;

/// Longest such wait of a write that is no deletion, on a medium that frees bytes only in units, where one merge may free nothing yet: in
/// this time a merge of some hundred megabytes ends, and one that the medium has space for is no larger.
const UNIT_PATIENCE_NS: u64 = 10_000_000_000;

/// Bytes for edits of the manifest, beside what a new one takes.
const MANIFEST_EDITS: u64 = 16 << 10;

/// Longest wait of a deletion for merges that have reserved the space it needs. It could only be refused.
const LONG_PATIENCE_NS: u64 = 60_000_000_000;

/// Near the end of the medium, a memtable is written to a table once it is this part of a full one.
const FLUSHED_PART: usize = 8;

/// Bytes of log after which a write looks again whether demotion still frees the space that is missing.
const LOOK_BYTES: u64 = 64 << 10;

/// Space needed besides that for the contents of memtables.
struct Beside {
    /// Reservations of running merges count.
    reservations: bool,
    /// Divisor of the bytes that units may pin; 1: all of them count.
    pinned_part: u64,
}

impl Beside {
    const MERGES: Beside = Beside { reservations: true, pinned_part: 1 };
    const NOTHING: Beside = Beside { reservations: false, pinned_part: 1 };
    const LITTLE: Beside = Beside { reservations: false, pinned_part: LITTLE_PINNED };
}

impl Inner {
    /// Checks the space for a write that is no deletion. It waits for some before it takes the lead, and keeps nobody from deleting.
    #[inline]
    pub(in crate::db) fn admit(&self, is_deletion: impl FnOnce() -> bool) -> Result<()> {
        if !self.is_scarce() || is_deletion() { Ok(()) } else { self.await_space() }
    }

    #[cold]
    fn await_space(&self) -> Result<()> {
        self.sync_deletions()?;
        let is_at_rest = |inner: &Inner, shared: &Shared| inner.is_idle(shared) && !inner.may_move(shared);
        let patience = if self.media.primary().unit() > 0 { UNIT_PATIENCE_NS } else { PATIENCE_NS };
        let until = self.clock.monotonic_ns().saturating_add(patience);
        let wait = || {
            let is_hopeless = |inner: &Inner, shared: &Shared| inner.clock.monotonic_ns() >= until || is_at_rest(inner, shared);
            self.wait_until(|inner, shared| inner.note_space(shared) || is_hopeless(inner, shared))?;
            if self.is_scarce() {
                // Inputs merged meanwhile are free once their deletion is durable.
                self.sync_deletions()?;
                self.note_space(&self.shared.lock());
            }
            Ok::<_, Error>(())
        };
        wait()?;
        if self.is_scarce() && self.holds_deletions() {
            // Deletions free nothing before they are in a table.
            self.flush_all()?;
            wait()?;
        }
        if self.is_scarce() {
            return Err(no_space("write"));
        }
        // The space may have come from elsewhere: files may have been deleted.
        self.refresh_waiting(&mut self.shared.lock());
        Ok(())
    }

    /// Deletions in memory that are worth a flush: of ranges, or some others, once in a while.
    pub(in crate::db) fn holds_deletions(&self) -> bool {
        let mems: Vec<_> = self.shared.lock().families.values().map(|core| core.view.load().mem.clone()).collect();
        let (now, before) = (self.clock.monotonic_ns(), self.space.flushed_deletions_ns.load(Ordering::Relaxed));
        let is_worth_it = mems.iter().any(|mem| mem.has_tombstones())
            || (now.saturating_sub(before) >= PATIENCE_NS && mems.iter().any(|mem| mem.deletes()));
        if is_worth_it {
            self.space.flushed_deletions_ns.store(now, Ordering::Relaxed);
        }
        is_worth_it
    }

    /// The family's writers have to wait until data was demoted or, on one medium, until merges have dropped what was deleted so far: these
    /// merges need the space themselves.
    pub(in crate::db) fn awaits_space(&self, shared: &Shared, core: &FamilyCore) -> bool {
        if self.is_scarce()
            && let Some(free) = self.free()
        {
            let kept = self.reserve(shared, free);
            return free < kept.flushes.midpoint(kept.merges);
        }
        let kept =
            |env: &PickEnv<'_>| self.bytes_of_memtables(env.settings).saturating_add(self.space.reservations.on(Temperature::Unknown));
        let is_blocked = matches!(shared.blocked, Some(Error::NoSpace(_)));
        let is_full = |env: &PickEnv<'_>| env.two_media && self.free().is_some_and(|free| is_blocked || free < kept(env));
        self.media.tiers.is_some() && self.with_env(shared, core, is_full) && self.may_demote(shared)
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
        while shared.blocked.is_some() && !shared.closing && !self.ended.load(Ordering::Acquire) && self.may_demote(&shared) {
            self.work.notify_all();
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
        }
        let is_demoted = shared.blocked.is_none();
        if is_first {
            shared.blocked = None;
        }
        Ok(is_demoted)
    }

    /// Bytes that stay free on the fast medium: for a memtable in the log, and for those on their way to a table.
    pub(in crate::db) fn bytes_of_memtables(&self, settings: &FamilySettings) -> u64 {
        self.within_medium(settings.write_buffer_size).saturating_mul(1 + settings.max_write_buffer_number.max(2) as u64)
    }

    /// Near the end of the fast medium, the log leaves room for a new manifest.
    #[inline]
    pub(in crate::db) fn admit_to_log(&self, bytes: u64) -> Result<()> {
        match self.space.left_by_log.load(Ordering::Acquire) {
            0 => Ok(()),
            kept => self.admit_beside(kept.saturating_add(bytes)),
        }
    }

    #[cold]
    fn admit_beside(&self, bytes: u64) -> Result<()> {
        let free = self.media.primary().free_bytes()?;
        if free.is_some_and(|free| free < bytes) { Err(no_space("append to the log")) } else { Ok(()) }
    }

    /// Near the end of the medium, memtables hold no more than fits into tables. Full ones are written first.
    #[inline]
    pub(in crate::db) fn check_flushable(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let log = self.log_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if log <= self.space.log_limit.load(Ordering::Acquire) { Ok(()) } else { self.make_flushable(state, bytes) }
    }

    #[cold]
    fn make_flushable(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        // Once, until another one begins: one that goes on for long must not hold every write up.
        if !self.space.has_waited.load(Ordering::Acquire) {
            if self.is_flushable_within(PATIENCE_NS, bytes, &Beside::MERGES)? {
                return Ok(());
            }
            self.space.has_waited.store(true, Ordering::Release);
        }
        if self.note_flushable(&self.shared.lock(), bytes, &Beside::NOTHING)? {
            return Ok(());
        }
        if !self.is_worth_flushing() && self.is_flushable_within(LONG_PATIENCE_NS, bytes, &Beside::LITTLE)? {
            return Ok(());
        }
        self.switch_all(state)?;
        self.wait_until(|_, shared| shared.families.values().all(|core| core.view.load().full.is_empty()))?;
        // Output of a merge that does not end is deleted when the database is opened again. And flushes may have taken more than was
        // foreseen for them, where the medium has units: deletions free that again, and are the last to be refused.
        if self.is_flushable_within(LONG_PATIENCE_NS, bytes, &Beside::LITTLE)? { Ok(()) } else { Err(no_space("write")) }
    }

    /// True if a memtable is large enough, or holds deletions that free enough, for a flush near the end of the medium. Flushes of single
    /// writes would use up the last free space: each table takes a block at least, and so does each log segment.
    fn is_worth_flushing(&self) -> bool {
        let is_large = |core: &FamilyCore| core.view.load().mem.memory() >= self.memtable_limit(core) / FLUSHED_PART;
        self.shared.lock().families.values().any(|core| is_large(core)) || self.holds_deletions()
    }

    /// Waits for running merges, which free what they replaced, but not for ever, since nobody else writes meanwhile.
    fn is_flushable_within(&self, patience_ns: u64, bytes: u64, beside: &Beside) -> Result<bool> {
        let until = self.clock.monotonic_ns().saturating_add(patience_ns);
        let is_over = |inner: &Inner, shared: &Shared| inner.clock.monotonic_ns() >= until || inner.is_idle(shared);
        let is_flushable = |inner: &Inner, shared: &Shared| inner.note_flushable(shared, bytes, beside);
        match self.wait_until(|inner, shared| is_flushable(inner, shared).unwrap_or(true) || is_over(inner, shared)) {
            // A flush may find room where a merge did not.
            Ok(()) | Err(Error::NoSpace(_)) => {}
            Err(error) => return Err(error),
        }
        self.sync_deletions()?;
        is_flushable(self, &self.shared.lock())
    }

    /// Returns whether tables of all that memtables hold, with `bytes` more, and `beside` fit into the free space; notes how much longer
    /// the log may become before somebody looks again.
    fn note_flushable(&self, shared: &Shared, bytes: u64, beside: &Beside) -> Result<bool> {
        let Some(free) = self.media.primary().free_bytes()? else {
            self.space.log_limit.store(u64::MAX, Ordering::Release);
            return Ok(true);
        };
        let log = self.log_bytes.load(Ordering::Relaxed);
        // The log may be longer: it also has flushed or dropped data of one family beside unflushed data of another.
        let memory = |shared: &Shared| {
            let views = shared.families.values().map(|core| core.view.load());
            views.fold(0u64, |sum, view| view.mems().fold(sum, |sum, mem| sum.saturating_add(mem.memory() as u64)))
        };
        let held = log.min(memory(shared)).saturating_add(bytes);
        // Tables with their indexes and filters, and the write in the log.
        let kept = self.bytes_of_manifest(shared).saturating_add(self.reserve(shared, free).log / beside.pinned_part);
        let claimed = if beside.reservations { self.space.reservations.on(Temperature::Unknown) } else { 0 };
        let needed = [held / 8, bytes, kept, claimed].into_iter().fold(held, u64::saturating_add);
        // Each byte of the slack takes one in the log and one in a table, and others write, too. Missing space makes data sink.
        let more = free.checked_sub(needed).map(|slack| slack / 3).or_else(|| (self.demotable(shared) > 0).then_some(LOOK_BYTES));
        self.space.log_limit.store(log.saturating_add(more.map_or(0, |more| bytes.saturating_add(more))), Ordering::Release);
        Ok(more.is_some())
    }

    /// Bytes of a new manifest and of edits.
    fn bytes_of_manifest(&self, shared: &Shared) -> u64 {
        shared.manifest.as_ref().map_or(0, |manifest| manifest.len()).saturating_add(MANIFEST_EDITS)
    }

    /// Looks whether the medium of the log is nearly full: whether its use and running jobs could fill it before somebody looks again.
    pub(in crate::db) fn note_log_space(&self, shared: &Shared) {
        // If it cannot be asked, the next write asks, and is told why not.
        if self.note_flushable(shared, 0, &Beside::MERGES).is_err() {
            self.space.log_limit.store(0, Ordering::Release);
        }
        if self.media.tiers.is_none() {
            return;
        }
        let kept = self.bytes_of_manifest(shared);
        let reserves = shared.families.values().map(|core| self.bytes_of_memtables(&core.settings.load()));
        let soon = reserves.fold(self.space.reservations.on(Temperature::Unknown), u64::saturating_add).saturating_add(kept);
        let is_near = self.media.primary().free_bytes().ok().flatten().is_some_and(|free| free < soon.saturating_mul(2));
        // Where nothing can be demoted, the reservation has this effect.
        self.space.left_by_log.store(if is_near && self.demotable(shared) > 0 { kept } else { 0 }, Ordering::Release);
    }
}
