//! Keeps the log from filling its medium: space is left for the manifest, and for the tables of all that memtables hold. A database that is
//! opened again writes these before anything else, with the log still there; without space for them a full medium could never be opened for
//! writing again.

use super::family::FamilyCore;
use super::insert::WriteState;
use super::relief::{LITTLE_PINNED, PATIENCE_NS, no_room};
use super::{Inner, Shared};
use crate::error::{Error, Result};
use std::sync::atomic::Ordering;

/// Bytes for edits of the manifest, beside what a new one takes.
const MANIFEST_ROOM: u64 = 16 << 10;

/// Longest wait of a deletion for merges that have reserved the space it needs. It could only be refused.
const LONG_PATIENCE_NS: u64 = 60_000_000_000;

/// Near the end of the medium, a memtable is written to a table once it is this part of a full one.
const FLUSHED_PART: usize = 8;

/// Bytes of log after which a write looks again whether demotion still frees the space that is missing.
const LOOK_BYTES: u64 = 64 << 10;

/// Space needed besides that for the contents of memtables.
struct Beside {
    /// Reservations of running merges count.
    claims: bool,
    /// Divisor of the bytes that units may pin; 1: all of them count.
    pinned_part: u64,
}

impl Beside {
    const MERGES: Beside = Beside { claims: true, pinned_part: 1 };
    const NOTHING: Beside = Beside { claims: false, pinned_part: 1 };
    const LITTLE: Beside = Beside { claims: false, pinned_part: LITTLE_PINNED };
}

impl Inner {
    /// Near the end of the fast medium, the log leaves room for a new manifest.
    #[inline]
    pub(super) fn check_log_room(&self, bytes: u64) -> Result<()> {
        match self.kept_from_log.load(Ordering::Acquire) {
            0 => Ok(()),
            kept => self.check_room_beside(kept.saturating_add(bytes)),
        }
    }

    #[cold]
    fn check_room_beside(&self, bytes: u64) -> Result<()> {
        let free = self.media.primary().free_bytes()?;
        if free.is_some_and(|free| free < bytes) { Err(no_room("append to the log")) } else { Ok(()) }
    }

    /// Near the end of the medium, memtables hold no more than fits into tables. Full ones are written first.
    #[inline]
    pub(super) fn check_flushable(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let log = self.log_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if log <= self.flushable.load(Ordering::Acquire) { Ok(()) } else { self.make_flushable(state, bytes) }
    }

    #[cold]
    fn make_flushable(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        // Once, until another one begins: one that goes on for long must not hold every write up.
        if !self.waited_for_merges.load(Ordering::Acquire) {
            if self.is_flushable_within(PATIENCE_NS, bytes, &Beside::MERGES)? {
                return Ok(());
            }
            self.waited_for_merges.store(true, Ordering::Release);
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
        if self.is_flushable_within(LONG_PATIENCE_NS, bytes, &Beside::LITTLE)? { Ok(()) } else { Err(no_room("write")) }
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
            self.flushable.store(u64::MAX, Ordering::Release);
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
        let kept = self.manifest_room(shared).saturating_add(self.kept_back(shared, free).pinned / beside.pinned_part);
        let claimed = if beside.claims { shared.claims.left() } else { 0 };
        let needed = [held / 8, bytes, kept, claimed].into_iter().fold(held, u64::saturating_add);
        // Each byte of the slack takes one in the log and one in a table, and others write, too. Missing space makes data sink.
        let sinks = || self.media.tiers.is_some() && self.sinks(shared);
        let more = free.checked_sub(needed).map(|slack| slack / 3).or_else(|| sinks().then_some(LOOK_BYTES));
        self.flushable.store(log.saturating_add(more.map_or(0, |more| bytes.saturating_add(more))), Ordering::Release);
        Ok(more.is_some())
    }

    /// Notes that a merge has reserved space: the next write looks whether there is still enough for it.
    pub(super) fn note_claim(&self) {
        self.flushable.store(0, Ordering::Release);
        self.waited_for_merges.store(false, Ordering::Release);
    }

    /// Bytes of a new manifest and of edits.
    fn manifest_room(&self, shared: &Shared) -> u64 {
        shared.manifest.as_ref().map_or(0, |manifest| manifest.len()).saturating_add(MANIFEST_ROOM)
    }

    /// Looks whether the medium of the log is nearly full: whether its use and running jobs could fill it before somebody looks again.
    pub(super) fn note_log_room(&self, shared: &Shared) {
        // If it cannot be asked, the next write asks, and is told why not.
        if self.note_flushable(shared, 0, &Beside::MERGES).is_err() {
            self.flushable.store(0, Ordering::Release);
        }
        if self.media.tiers.is_none() {
            return;
        }
        let kept = self.manifest_room(shared);
        let reserves = shared.families.values().map(|core| self.reserve(&core.settings.load()));
        let soon = reserves.fold(shared.claims.left(), u64::saturating_add).saturating_add(kept);
        let is_near = self.media.primary().free_bytes().ok().flatten().is_some_and(|free| free < soon.saturating_mul(2));
        // Where nothing can be demoted, the reservation has this effect.
        self.kept_from_log.store(if is_near && self.sinks(shared) { kept } else { 0 }, Ordering::Release);
    }
}
