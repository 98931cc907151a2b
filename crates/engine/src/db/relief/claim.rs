//! Space reservations of running merges on the primary medium, so that no two of them count on the same space.

use crate::compaction::{PickEnv, Plan, Young};
use sinter_storage::store::{Appender, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that one merge may still write to the primary medium.
pub type Claim = Arc<AtomicU64>;

/// Space reservations of running merges, keyed by their first input table.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<u64, Claim>);

impl Claims {
    /// Adds the reservation of a merge that begins and may write so many bytes.
    pub fn add(&mut self, plan: &Plan, bytes: u64) {
        self.0.extend(plan.tables().next().map(|first| (first.number, Arc::new(AtomicU64::new(bytes)))));
    }

    /// The reservation of a job, if it merges.
    pub fn of(&self, plan: &Plan) -> Option<Claim> {
        plan.tables().next().and_then(|first| self.0.get(&first.number).cloned())
    }

    /// Removes the reservation of a job that has ended.
    pub fn remove(&mut self, plan: &Plan) {
        plan.tables().next().and_then(|first| self.0.remove(&first.number));
    }

    /// Nothing is being merged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all reservations together.
    pub fn left(&self) -> u64 {
        self.0.values().fold(0, |sum, claim| sum.saturating_add(claim.load(Relaxed)))
    }
}

/// Bytes that a merge may write to the primary medium at most: no more than it reads, and of output to a last level that lies elsewhere
/// only the part too young for that.
pub fn most(env: &PickEnv<'_>, plan: &Plan) -> u64 {
    if !env.two_media || plan.output_level + 1 < env.settings.num_levels {
        return plan.bytes();
    }
    let Some(hot) = plan.hot.as_ref().filter(|hot| !hot.spans.is_empty()) else { return 0 };
    let young = Young { after: hot.old.seq, since: hot.old.time };
    plan.tables().map(|table| table.bytes.saturating_sub(young.due(table))).fold(0, u64::saturating_add)
}

/// A file on the primary medium that a merge writes: bytes written there leave its reservation.
pub struct Claimed {
    /// The file.
    pub file: Box<dyn Appender>,
    /// The merge's reservation.
    pub claim: Claim,
}

impl Appender for Claimed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        let _ = self.claim.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(bytes.len() as u64)));
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
