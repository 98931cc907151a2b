//! Snapshots: moments to read at, and the list of them that compactions respect.

use crate::key::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Seq, usize>>,
}

impl Snapshots {
    /// Takes a snapshot. `visible` is read under the lock: a compaction that lists snapshots sees either this one or a smaller
    /// visible number, so it cannot drop what this snapshot needs.
    pub fn take(self: &Arc<Self>, visible: impl FnOnce() -> Seq) -> Snapshot {
        let mut live = self.live.lock();
        let seq = visible();
        *live.entry(seq).or_insert(0) += 1;
        Snapshot { held: Arc::new(Held { seq, list: self.clone() }) }
    }

    /// Live snapshots ascending, then the visible number, even if it is that of the newest snapshot: who reads "now" comes last.
    pub fn list(&self, visible: impl FnOnce() -> Seq) -> Vec<Seq> {
        let live = self.live.lock();
        let now = visible();
        let mut all: Vec<Seq> = live.keys().copied().collect();
        all.push(now);
        all
    }

    /// Number of live snapshots.
    pub fn count(&self) -> usize {
        self.live.lock().values().sum()
    }
}

#[derive(Debug)]
struct Held {
    seq: Seq,
    list: Arc<Snapshots>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(count) = live.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seq);
            }
        }
    }
}

/// A moment to read at, across all families; released when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    /// Everything up to this sequence number is visible.
    pub fn seq(&self) -> Seq {
        self.held.seq
    }

    /// Taken from this database.
    pub(crate) fn belongs_to(&self, list: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.held.list, list)
    }
}
