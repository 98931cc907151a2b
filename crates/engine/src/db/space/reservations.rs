//! Space reservations of running merges, so that no two of them count on the same space.

use crate::compaction::Plan;
use parking_lot::Mutex;
use sinter_storage::store::{Appender, Result, Temperature};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that one merge may still write to a medium.
pub type Reservation = Arc<AtomicU64>;

/// Space reservations of running merges, keyed by their first input table and the medium.
#[derive(Debug, Default)]
pub struct Reservations(Mutex<BTreeMap<(u64, Temperature), Reservation>>);

/// Number of the first table that a merge reads.
fn first(plan: &Plan) -> u64 {
    plan.tables().next().map_or(0, |table| table.number)
}

impl Reservations {
    /// Adds the reservation of a merge that begins and may write `bytes` to a medium.
    pub fn add(&self, plan: &Plan, place: Temperature, bytes: u64) {
        self.0.lock().insert((first(plan), place), Arc::new(AtomicU64::new(bytes)));
    }

    /// The reservation of a merge on a medium.
    pub fn of(&self, plan: &Plan, place: Temperature) -> Option<Reservation> {
        self.0.lock().get(&(first(plan), place)).cloned()
    }

    /// Removes the reservations of a job that has ended.
    pub fn remove(&self, plan: &Plan) {
        self.0.lock().retain(|(number, _), _| *number != first(plan));
    }

    /// No merge has a reservation.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Bytes of all reservations on a medium.
    pub fn on(&self, place: Temperature) -> u64 {
        let all = self.0.lock();
        all.iter().filter(|((_, on), _)| *on == place).fold(0, |sum, (_, bytes)| sum.saturating_add(bytes.load(Relaxed)))
    }
}

/// A file that a merge writes. Each append reduces the merge's reservation by the bytes written, which the medium no longer counts as free.
pub struct Reserved {
    /// The file.
    pub file: Box<dyn Appender>,
    /// The merge's reservation on the medium of the file.
    pub reservation: Reservation,
}

impl Appender for Reserved {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        let _ = self.reservation.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(bytes.len() as u64)));
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        self.file.seal()
    }
}
