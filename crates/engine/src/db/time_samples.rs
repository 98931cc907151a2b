//! The time of the database: when numbers were written, and which entries are older than a window.
//!
//! A sample of the newest number and the time is taken a hundred times per window of the family with the smallest one, and at each
//! flush, open and close. The thread that ticks takes them; in a database without threads the first write that finds one due does, so
//! that it repeats exactly under a clock that does. No write waits for a sample to become durable: the next edit of the manifest takes
//! it along, and if none comes for a while, the ticking thread writes one. A power cut takes the newest samples only, and what they spoke
//! of then looks as young as the next sample: that of the next open at the latest.
//!
//! The entries that have outlived their time to live are worked out once a second, as one number and one time per family, by the thread
//! that ticks or, where there is none, by readers. Readers, snapshots and compactions go by these: a compaction removes nothing that was
//! not told to readers before, so that a snapshot that it does not know has seen as much or more expire.

use super::family::FamilyCore;
use super::snapshot::{Cuts, Snapshot};
use super::view::View;
use super::{Inner, Shared};
use crate::key::Seq;
use crate::manifest::Edit;
use crate::settings::FamilySettings;
use crate::tiering::age::{Cut, Expiry};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Samples per window.
const PER_WINDOW: u64 = 100;
/// Seconds that a sample waits for an edit that takes it along.
const UNSAVED_SECONDS: u64 = 10;
/// No sample is due: no family tracks time.
const NEVER: u64 = u64::MAX;

/// Schedule of samples of the time and of looks for expired entries.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Seconds between two samples.
    period: AtomicU64,
    /// Unix seconds when the next sample is due.
    due: AtomicU64,
    /// Nobody looks at the clock once a second: there are no threads, or none any more. Readers do it.
    by_hand: AtomicBool,
    /// Unix seconds of the last look for expired entries.
    looked: AtomicU64,
    /// The entries that had expired at that look, for snapshots; empty where no family has a time to live.
    cuts: ArcSwap<Cuts>,
    /// Unix seconds of the newest write, noted before it is visible, without threads and with a time to live; 0: not known.
    written: AtomicU64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            period: AtomicU64::new(NEVER),
            due: AtomicU64::new(NEVER),
            by_hand: AtomicBool::new(true),
            looked: AtomicU64::new(0),
            cuts: ArcSwap::default(),
            written: AtomicU64::new(0),
        }
    }
}

impl Inner {
    /// Works out how often samples are needed, after a change of families or of their settings.
    pub(super) fn plan_samples(&self, shared: &mut Shared) {
        let windows = shared.families.values().map(|core| core.settings.load().window());
        let (period, due) = match windows.filter(|window| *window > 0).min() {
            Some(window) => ((window / PER_WINDOW).max(1), self.clock.unix_seconds()),
            None => (NEVER, NEVER),
        };
        self.sampling.period.store(period, Ordering::Relaxed);
        self.sampling.due.store(due, Ordering::Relaxed);
        self.note_outlived(shared);
        if !self.sampling.cuts.load().is_empty() {
            // Without threads, the next look may come late.
            self.take_sample(shared);
        }
    }

    /// Whether a thread looks at the clock, so that readers need not.
    pub(super) fn set_by_hand(&self, yes: bool) {
        self.sampling.by_hand.store(yes, Ordering::Release);
    }

    /// Takes a sample if one is due.
    #[inline]
    pub(super) fn sample_if_due(&self) {
        let due = self.sampling.due.load(Ordering::Relaxed);
        if due != NEVER && due <= self.clock.unix_seconds() {
            self.take_sample(&mut self.shared.lock());
        }
    }

    /// Notes that all visible writes were made by now.
    pub(super) fn take_sample(&self, shared: &mut Shared) {
        // The number first: writes that become visible after it may be later than the time says.
        let seq = self.visible();
        let now = self.clock.unix_seconds();
        let written = self.sampling.written.load(Ordering::Acquire);
        shared.state.note_time(seq, if written == 0 { now } else { written });
        let period = self.sampling.period.load(Ordering::Relaxed);
        self.sampling.due.store(now.saturating_add(period), Ordering::Relaxed);
    }

    /// Adds the samples that no edit has taken along yet to this one.
    pub(super) fn take_samples_along(shared: &Shared, edit: &mut Edit) {
        edit.time_samples.extend_from_slice(shared.state.times.above(shared.saved_seq));
    }

    /// Samples that have waited for an edit get one of their own. Without room on the medium they wait on; any other failure has ended
    /// the handle when this returns.
    pub(super) fn save_samples(&self) {
        let mut shared = self.shared.lock();
        let Some((_, oldest)) = shared.state.times.above(shared.saved_seq).first() else { return };
        let is_late = oldest.saturating_add(UNSAVED_SECONDS) <= self.clock.unix_seconds();
        if is_late && !shared.closing && !self.end.is_over() {
            let _ = self.log_edit(&mut shared, &Edit::default());
        }
    }

    /// Entries that were surely written more than so many seconds ago.
    pub(super) fn older_than(&self, shared: &Shared, seconds: u64) -> Option<Cut> {
        // Times are whole seconds: entries written in the very second may be younger by a part of one.
        let limit = self.clock.unix_seconds().checked_sub(seconds)?.checked_sub(1)?;
        Some(shared.state.times.cut(limit))
    }

    /// Notes the time of the write that is about to be made visible, in a database without threads in which a family has a time to live.
    pub(super) fn note_write(&self) {
        if !self.sampling.cuts.load().is_empty() {
            self.sampling.written.store(self.clock.unix_seconds(), Ordering::Release);
        }
    }

    /// Works out which entries have outlived their time to live by now, and tells readers.
    pub(super) fn note_outlived(&self, shared: &Shared) {
        self.sampling.looked.store(self.clock.unix_seconds(), Ordering::Relaxed);
        let mut cuts = Cuts::new();
        for core in shared.families.values() {
            let seconds = core.settings.load().ttl_seconds;
            let cut = (seconds > 0).then(|| self.older_than(shared, seconds).unwrap_or(Cut::NONE));
            core.outlived.set(cut);
            cuts.extend(cut.map(|cut| (core.id, cut)));
        }
        let before = self.sampling.cuts.load();
        if before.is_empty() != cuts.is_empty() {
            // Entries written without a note of their time may be as young as now.
            self.sampling.written.store(0, Ordering::Release);
        }
        if !before.is_empty() || !cuts.is_empty() {
            self.sampling.cuts.store(Arc::new(cuts));
        }
    }

    /// Looks for expired entries, once a second where threads run.
    pub(super) fn watch_outlived(&self) {
        if !self.sampling.cuts.load().is_empty() {
            self.note_outlived(&self.shared.lock());
        }
    }

    /// Looks at the clock for a reader, if nobody else does.
    #[inline]
    fn look_by_hand(&self) {
        let is_late = || self.sampling.looked.load(Ordering::Relaxed) < self.clock.unix_seconds();
        if self.sampling.by_hand.load(Ordering::Acquire) && is_late() {
            self.sample_if_due();
            self.note_outlived(&self.shared.lock());
        }
    }

    /// The entries of a family that have expired for a reader. The view must have been loaded before: readers had been told of all that a
    /// compaction has removed by then.
    #[inline]
    pub(super) fn expiry(&self, core: &FamilyCore, view: &View, snapshot: Option<&Snapshot>) -> Option<Expiry> {
        let cut = match snapshot {
            Some(snapshot) => snapshot.cut(core.id)?,
            None if !core.outlived.is_on() => return None,
            None => {
                self.look_by_hand();
                core.outlived.cut()
            }
        };
        Some(Expiry::new(cut, view.tree.zeroed_seq))
    }

    /// Takes a snapshot of the visible number and of the expired entries.
    pub(super) fn take_snapshot(&self) -> Snapshot {
        if !self.sampling.cuts.load().is_empty() {
            self.look_by_hand();
        }
        self.snapshots.take(|| (self.visible(), self.sampling.cuts.load_full()))
    }

    /// The entries that compactions of a family may take for expired. Readers have been told; snapshots have to be listed after this.
    pub(super) fn outlived(&self, shared: &Shared, core: &FamilyCore) -> Option<Cut> {
        if !core.outlived.is_on() {
            return None;
        }
        if self.sampling.looked.load(Ordering::Relaxed) < self.clock.unix_seconds() {
            self.note_outlived(shared);
        }
        Some(core.outlived.cut())
    }

    /// Numbers that tell entries of a family apart which may expire at different moments: between two neighbours, all expire at one, for
    /// all readers there are and will be. `None`: nothing expires.
    pub(super) fn apart(&self, shared: &Shared, core: &FamilyCore, cut: Option<Cut>) -> Option<Vec<Seq>> {
        let snapshots = self.snapshots.cuts(core.id);
        if cut.is_none() && snapshots.is_empty() {
            return None;
        }
        let samples = shared.state.times.samples().iter().map(|sample| sample.0);
        let mut apart: Vec<Seq> = samples.chain(cut.iter().chain(&snapshots).map(|cut| cut.seq)).collect();
        apart.sort_unstable();
        apart.dedup();
        Some(apart)
    }

    /// Entries so old that no setting of the family asks for their age, nor would with twice the age that keeps data from the last level.
    pub(super) fn zero_up_to(&self, core: &FamilyCore, settings: &FamilySettings) -> Option<Cut> {
        // A snapshot keeps the time to live that it was taken with, and asks for ages although the family has none any more.
        if !self.snapshots.cuts(core.id).is_empty() {
            return None;
        }
        match (settings.ttl_seconds, settings.keeps_numbers_for()) {
            (0, 0) => Some(Cut::ALL),
            (0, seconds) => self.older_than(&self.shared.lock(), seconds),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
