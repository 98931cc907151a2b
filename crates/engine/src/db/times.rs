//! The time of the database: when numbers were written, and what is older than a window.
//!
//! A sample of the newest number and the time is taken a hundred times per window of the family with the smallest one, and at each
//! flush, open and close. The thread that ticks takes them; in a database without threads the first write that finds one due does, so
//! that it repeats exactly under a clock that does. No write waits for a sample to become durable: the next edit of the manifest takes
//! it along, and if none comes for a while, the ticking thread writes one. A power cut takes the newest samples only, and what they spoke
//! of then looks as young as the next sample: that of the next open at the latest.

use super::{Inner, Shared};
use crate::manifest::Edit;
use crate::settings::FamilySettings;
use crate::times::Cut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Samples per window.
const PER_WINDOW: u64 = 100;
/// Seconds that a sample waits for an edit that takes it along.
const UNSAVED_SECONDS: u64 = 10;
/// No sample is due: no family tracks time.
const NEVER: u64 = u64::MAX;

/// When samples are taken.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Seconds between two.
    period: AtomicU64,
    /// Unix seconds when the next one is due.
    due: AtomicU64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { period: AtomicU64::new(NEVER), due: AtomicU64::new(NEVER) }
    }
}

impl Inner {
    /// After a change of families or of their settings: how often samples are needed.
    pub(super) fn plan_samples(&self, shared: &Shared) {
        let windows = shared.families.values().map(|core| core.settings.load().window());
        let (period, due) = match windows.filter(|window| *window > 0).min() {
            Some(window) => ((window / PER_WINDOW).max(1), self.clock.unix_seconds()),
            None => (NEVER, NEVER),
        };
        self.sampling.period.store(period, Ordering::Relaxed);
        self.sampling.due.store(due, Ordering::Relaxed);
    }

    /// Takes a sample if one is due.
    #[inline]
    pub(super) fn sample_if_due(&self) {
        let due = self.sampling.due.load(Ordering::Relaxed);
        if due != NEVER && due <= self.clock.unix_seconds() {
            self.take_sample(&mut self.shared.lock());
        }
    }

    /// Notes that what is visible was written by now.
    pub(super) fn take_sample(&self, shared: &mut Shared) {
        // The number first: what becomes visible after it may be written later than the time says.
        let seq = self.visible();
        let now = self.clock.unix_seconds();
        shared.state.note_time(seq, now);
        let period = self.sampling.period.load(Ordering::Relaxed);
        self.sampling.due.store(now.saturating_add(period), Ordering::Relaxed);
    }

    /// The samples that no edit has taken along yet go with this one.
    pub(super) fn take_samples_along(shared: &Shared, edit: &mut Edit) {
        edit.time_samples.extend_from_slice(shared.state.times.above(shared.saved_seq));
    }

    /// Samples that have waited for an edit get one of their own. Without room on the medium they wait on; any other failure has ended
    /// the handle when this returns.
    pub(super) fn save_samples(&self) {
        let mut shared = self.shared.lock();
        let Some((_, oldest)) = shared.state.times.above(shared.saved_seq).first() else { return };
        let is_late = oldest.saturating_add(UNSAVED_SECONDS) <= self.clock.unix_seconds();
        if is_late && !shared.closing && !self.ended.load(Ordering::Acquire) {
            let _ = self.log_edit(&mut shared, &Edit::default());
        }
    }

    /// What was surely written more than so many seconds ago.
    pub(super) fn older_than(&self, shared: &Shared, seconds: u64) -> Option<Cut> {
        // Times are whole seconds: what was written in the very second may be younger by a part of one.
        let limit = self.clock.unix_seconds().checked_sub(seconds)?.checked_sub(1)?;
        Some(shared.state.times.cut(limit))
    }

    /// What has outlived the family's time to live.
    pub(super) fn expired(&self, settings: &FamilySettings) -> Option<Cut> {
        if settings.ttl_seconds == 0 { None } else { self.older_than(&self.shared.lock(), settings.ttl_seconds) }
    }

    /// What is so old that none of the family's settings ask how old, nor would with twice the age that keeps data from the last level.
    pub(super) fn zero_up_to(&self, settings: &FamilySettings) -> Option<Cut> {
        match (settings.ttl_seconds, settings.keeps_numbers_for()) {
            (0, 0) => Some(Cut::ALL),
            (0, seconds) => self.older_than(&self.shared.lock(), seconds),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
