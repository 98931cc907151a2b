//! Records when the numbers of a run were given out, and checks that the times a database keeps for them can be true. Data may look younger
//! than they are; data that look older go to a slow medium, or away, too early.

use crate::machine::Machine;
use parking_lot::Mutex;
use sinterdb::Db;
use sinterdb::clock::{Clock, ManualClock};
use sinterdb::internal::key::Seq;
use sinterdb::internal::manifest;
use std::sync::Arc;

/// True times of one run.
#[derive(Default)]
pub struct Moments {
    /// Clock of the run, and of the databases that recover from its crashes.
    pub clock: Arc<ManualClock>,
    /// A number and a time: numbers up to it were given out by then, and all others not before.
    known: Mutex<Vec<(Seq, u64)>>,
}

impl Moments {
    pub fn note(&self, db: &Db) {
        let now = (db.snapshot().seq(), self.clock.unix_seconds());
        let mut known = self.known.lock();
        if known.last() != Some(&now) {
            known.push(now);
        }
    }

    /// A number up to `seq` was given out after `time`.
    fn is_later(&self, seq: Seq, time: u64) -> Option<(Seq, u64)> {
        self.known.lock().iter().copied().find(|(known, then)| *known < seq && *then > time)
    }

    /// A number from `seq` up to `last` was given out before `time`.
    fn is_earlier(&self, seq: Seq, last: Seq, time: u64) -> Option<(Seq, u64)> {
        self.known.lock().iter().copied().find(|(known, then)| (*known).min(last) >= seq && *then < time)
    }

    /// Checks that the samples in the manifest, and the times of tables whose entries have no times of their own, can all be true. Returns
    /// the number checked.
    pub fn check(&self, image: &Machine, db: &Db) -> Result<usize, String> {
        let state = manifest::load(&*image.primary).map_err(|error| format!("manifest: {error}"))?.state.ok_or("there is no manifest")?;
        // Numbers that the crash took are given out again.
        let last = db.snapshot().seq();
        let samples = state.times.samples();
        for &(seq, time) in samples {
            if let Some(known) = self.is_later(seq, time).or_else(|| self.is_earlier(seq.saturating_add(1), last, time)) {
                return Err(format!("sample {:?} of {samples:?} contradicts {known:?}", (seq, time)));
            }
        }
        for family in db.families() {
            let version = db.version(&family).map_err(|error| error.to_string())?;
            for (_, _, table) in version.tables().filter(|(_, _, table)| table.timed.is_none()) {
                let newest = (table.newest_time > 0).then(|| self.is_later(table.max_seq, table.newest_time)).flatten();
                let oldest = (table.oldest_time > 0).then(|| self.is_earlier(table.min_seq, last, table.oldest_time)).flatten();
                if let Some(known) = newest.or(oldest) {
                    return Err(format!("times of table {table:?} contradict {known:?}"));
                }
            }
        }
        Ok(samples.len())
    }
}
