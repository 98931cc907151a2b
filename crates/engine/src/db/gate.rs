//! The gate that the leader passes before each group of writes: the leader waits while compactions are behind, switches full memtables,
//! and checks that there is enough free space (`space::admission`).

use super::family::FamilyCore;
use super::insert::WriteState;
use super::mem::{Mem, MemWriter};
use super::view::View;
use super::{Inner, Shared};
use crate::error::{Error, Result};
use crate::ledger::{Histogram, Ticker};
use crate::pacing::{self, Pace, PaceInput};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A delayed writer sleeps once it owes this time, nanoseconds: shorter sleeps cost more than they delay.
const SLEEP_NS: u64 = 1_000_000;
/// A log segment longer than this, bytes, gets a successor even if no memtable is full: with the largest group added, a segment stays below
/// the limit of the log format (4 GiB).
const LONGEST_LOG: u64 = 1 << 31;
/// Longest sleep of a delayed writer for one group, nanoseconds. A change of the pressure ends a sleep early.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// Degree to which writers are held back, as one word that each write checks.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// 0: writers are free; `u64::MAX`: writers stop; otherwise bytes per second.
    rate: AtomicU64,
    /// Nanoseconds that delayed writers have yet to sleep.
    owed: AtomicU64,
    pub stall_ns: AtomicU64,
    pub longest_ns: AtomicU64,
    pub stalls: AtomicU64,
}

const STOP: u64 = u64::MAX;

impl Pressure {
    pub fn set(&self, pace: &Pace) {
        let rate = match pace {
            Pace::Free => 0,
            Pace::Delay { bytes_per_second } => (*bytes_per_second).clamp(1, STOP - 1),
            Pace::Stop(_) => STOP,
        };
        self.rate.store(rate, Ordering::Release);
        if rate == 0 {
            self.owed.store(0, Ordering::Relaxed);
        }
    }

    /// No writer is held back.
    pub fn is_free(&self) -> bool {
        self.rate.load(Ordering::Acquire) == 0
    }

    fn stalled(&self, ns: u64) {
        self.stall_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Called by the leader before each group: holds it back as long as the tree is behind or space is short, and switches full memtables.
    #[inline]
    pub(super) fn pass_gate(&self, state: &mut WriteState, bytes: usize) -> Result<()> {
        if self.pressure.rate.load(Ordering::Acquire) != 0 {
            self.hold_back(bytes as u64)?;
        }
        while let Some(id) = state.full.pop() {
            if let Err(error) = self.switch(state, id) {
                state.full.push(id);
                return Err(error);
            }
        }
        self.admit_group(state, bytes as u64)?;
        if self.logs.bytes() > self.division.log(&self.settings) {
            self.switch_oldest(state)?;
        }
        if state.log.as_ref().is_some_and(|log| log.len() > LONGEST_LOG) {
            self.start_log(state, 0)?;
        }
        if self.division.memtables() == u64::MAX { Ok(()) } else { self.switch_largest(state, bytes as u64) }
    }

    #[cold]
    fn hold_back(&self, bytes: u64) -> Result<()> {
        if self.inline() {
            return self.run_pending();
        }
        let rate = self.pressure.rate.load(Ordering::Acquire);
        if rate == STOP {
            let may_go = |inner: &Inner| inner.pressure.rate.load(Ordering::Acquire) != STOP;
            // Writers go on if no job can improve the tree, for example because the triggers give the picker nothing to do.
            return self.wait_until(|inner, shared| may_go(inner) || inner.is_idle(shared));
        }
        if rate == 0 {
            return Ok(());
        }
        let cost = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        let owed = self.pressure.owed.fetch_add(cost, Ordering::Relaxed) + cost;
        if owed < SLEEP_NS {
            return Ok(());
        }
        self.pressure.owed.store(0, Ordering::Relaxed);
        let start = self.clock.monotonic_ns();
        let mut shared = self.shared.lock();
        self.changed.wait_for(&mut shared, Duration::from_nanos(owed.min(LONGEST_SLEEP_NS)));
        drop(shared);
        self.count_stall(start);
        Ok(())
    }

    fn count_stall(&self, start: u64) {
        let ns = self.clock.monotonic_ns().saturating_sub(start);
        self.pressure.stalled(ns);
        self.statistics.add(Ticker::StallMicros, ns / 1000);
        self.statistics.record(Histogram::WriteStall, ns);
    }

    /// Waits for background work until `ready`. Returns the error of background work that found no space, unless a demotion may free some.
    /// Without background threads, runs pending jobs and returns without checking again.
    pub(super) fn wait_until(&self, ready: impl Fn(&Inner, &Shared) -> bool) -> Result<()> {
        let start = self.clock.monotonic_ns();
        let mut shared = self.shared.lock();
        let mut waited = false;
        let result = loop {
            if ready(self, &shared) {
                break Ok(());
            }
            if let Err(error) = self.check_writable() {
                break Err(error);
            }
            if shared.closing {
                // Background threads have ended or are about to, and the thread that closes waits for this writer.
                break Err(Error::Closed("the database is being closed".into()));
            }
            if self.inline() {
                drop(shared);
                return self.run_pending();
            }
            if let Some(error) = &shared.blocked
                && !self.may_demote(&shared)
            {
                break Err(error.clone());
            }
            waited = true;
            self.work.notify_all();
            shared.jobs.awaited += 1;
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
            shared.jobs.awaited -= 1;
        };
        drop(shared);
        if waited {
            self.count_stall(start);
        }
        result
    }

    /// Returns whether the next write to a family would wait for a flush once `bytes` more are written: the active memtable would be full,
    /// and no further full memtable is allowed. False if the write would get an error instead, and without background threads.
    pub(super) fn would_wait(&self, core: &FamilyCore, bytes: usize) -> bool {
        let view = core.view.load();
        let most = core.settings.load().max_write_buffer_number.max(2);
        let is_full = view.full.len() + 1 >= most && view.mem.memory().saturating_add(bytes) >= self.memtable_limit(core);
        if !is_full || self.inline() || self.check_writable().is_err() {
            return false;
        }
        let shared = self.shared.lock();
        shared.blocked.is_none() && !shared.closing
    }

    /// Declares the active memtable of a family full and starts a new one, with a new log segment.
    pub(super) fn switch(&self, state: &mut WriteState, id: u32) -> Result<()> {
        self.switch_each(state, &[id])?;
        if let Some(writer) = state.family(id) {
            writer.core.filled_ns.store(self.clock.monotonic_ns(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// [`Inner::switch`] of several families, with one new log segment for all of them.
    fn switch_each(&self, state: &mut WriteState, ids: &[u32]) -> Result<()> {
        let cores = ids.iter().filter_map(|id| Some(state.family(*id)?.core.clone()));
        let cores: Vec<_> = cores.filter(|core| !core.view.load().mem.is_empty()).collect();
        if cores.is_empty() {
            return Ok(());
        }
        for core in &cores {
            let most = core.settings.load().max_write_buffer_number.max(2);
            self.wait_until(|_, _| core.view.load().full.len() + 1 < most)?;
        }
        self.start_log(state, 0)?;
        cores.iter().for_each(|core| self.replace_memtable(state, core));
        if self.inline() { self.run_pending() } else { Ok(()) }
    }

    /// Moves the active memtable to the full ones and installs a new one. A new log segment must have been started before.
    fn replace_memtable(&self, state: &mut WriteState, core: &Arc<FamilyCore>) {
        let log = state.log.as_ref().map_or(0, |l| l.id().number);
        let mem = Mem::new(&self.pool, log, self.clock.unix_seconds());
        let limit = self.memtable_limit(core);
        let mut shared = self.shared.lock();
        let old = core.view.load_full();
        let mut full = Vec::with_capacity(old.full.len() + 1);
        full.push(old.mem.clone());
        full.extend(old.full.iter().cloned());
        core.view.store(Arc::new(View { mem: mem.clone(), full, tree: old.tree.clone() }));
        state.active = state.active.saturating_sub(old.mem.memory() as u64);
        if let Some(writer) = state.family(core.id) {
            writer.mem = MemWriter::new(mem);
            writer.limit = limit;
        }
        self.refresh_pressure(&mut shared, core);
        self.work.notify_all();
    }

    /// Switches the memtables of all families that have data in them.
    pub(super) fn switch_all(&self, state: &mut WriteState) -> Result<()> {
        let ids: Vec<u32> = state.families.iter().flatten().map(|w| w.core.id).collect();
        self.switch_each(state, &ids)
    }

    /// Shortens a log that is too long: switches the family whose active memtable needs the oldest segment.
    fn switch_oldest(&self, state: &mut WriteState) -> Result<()> {
        let active = state.log.as_ref().map_or(u64::MAX, |l| l.id().number);
        let candidates = state.families.iter().flatten().map(|w| (&w.mem.mem, w.core.id));
        let oldest = candidates.filter(|(mem, _)| !mem.is_empty() && mem.log < active).min_by_key(|(mem, _)| mem.log);
        let flushed = state.families.iter().flatten().filter_map(|w| w.core.view.load().full.last().map(|mem| mem.log)).min();
        match oldest {
            // A pending flush will free the oldest segment, which may be enough (RocksDB: `getting_flushed`).
            Some((mem, _)) if flushed.is_some_and(|log| log < mem.log) => Ok(()),
            Some((_, id)) => self.switch(state, id),
            None if state.log.as_ref().is_some_and(|l| l.len() > self.division.log(&self.settings)) => self.switch_all(state),
            None => Ok(()),
        }
    }

    /// Switches the family with the largest active memtable if `bytes` more would bring all active memtables above seven eighths of their
    /// budget. Waits for a flush only if that family may not have another full memtable.
    pub(super) fn switch_largest(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let limit = self.division.memtables();
        let sizes = || state.families.iter().flatten().map(|w| (w.mem.mem.memory() as u64, w.core.id));
        debug_assert_eq!(state.active, sizes().map(|s| s.0).sum::<u64>());
        // RocksDB's rule (write_buffer_manager.h): the eighth that is left takes the writes that come while flushes run.
        if state.active + bytes <= limit / 8 * 7 {
            return Ok(());
        }
        sizes().max().map_or(Ok(()), |(_, id)| self.switch(state, id))
    }

    /// Computes the pressure on writers anew after a change of one family's view, settings or jobs.
    pub(super) fn refresh_pressure(&self, shared: &mut MutexGuard<'_, Shared>, core: &FamilyCore) {
        self.review_log_limit(shared);
        self.refresh_pace(shared, core);
    }

    /// [`Inner::refresh_pressure`] without the limit of the log, which depends on all families.
    pub(super) fn refresh_pace(&self, shared: &mut MutexGuard<'_, Shared>, core: &FamilyCore) {
        let view = core.view.load();
        let pace = pacing::pace(&PaceInput::of(&view.tree.version, &core.settings.load(), view.full.len()));
        // A family that no compaction can improve does not stop the writers of other families; its own writes are refused.
        let stuck = matches!(pace, Pace::Stop(_)) && self.is_stuck(shared, core);
        core.stuck.store(stuck, Ordering::Release);
        if stuck || pace == Pace::Free || core.dropped.load(Ordering::Acquire) {
            shared.slow.remove(&core.id);
        } else {
            shared.slow.insert(core.id, pace);
        }
        self.pressure.set(shared.slow.values().max().unwrap_or(&Pace::Free));
        self.changed.notify_all();
    }

    /// Updates pressure and free space after a job of a family.
    pub(super) fn refresh_after(&self, shared: &mut MutexGuard<'_, Shared>, core: &FamilyCore) {
        self.note_space(shared);
        self.refresh_pressure(shared, core);
    }

    /// Returns whether all writes wait, or writes other than deletions find no space.
    pub(super) fn writes_stopped(&self) -> bool {
        self.pressure.rate.load(Ordering::Acquire) == STOP || self.is_scarce()
    }

    /// Rate to which writers are delayed, bytes per second; 0 if they are free or stopped.
    pub(super) fn delayed_rate(&self) -> u64 {
        Some(self.pressure.rate.load(Ordering::Acquire)).filter(|r| *r != STOP).unwrap_or(0)
    }

    /// Returns an error once the handle has ended.
    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.end.is_over() { Err(self.end.error()) } else { Ok(()) }
    }

    /// Ends the handle for writing: no further write is acknowledged. Returns `error`, the cause.
    pub(super) fn poison(&self, what: &str, error: Error) -> Error {
        self.end.set(&format!("ended by a failed {what}: {error}; reopen the database"));
        self.changed.notify_all();
        self.work.notify_all();
        error
    }
}
