//! Snapshots: moments to read at, and the list of them that compactions respect.

use crate::key::Seq;
use crate::tiering::age::Cut;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The expired entries of one moment: a cut for each family with a time to live.
pub(crate) type Cuts = Vec<(u32, Cut)>;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    /// Identity of the next snapshot.
    id: u64,
    snapshots: BTreeMap<(Seq, u64), Arc<Cuts>>,
}

impl Snapshots {
    /// Takes a snapshot. `now` gives the visible number and what has expired, and is asked under the lock: a compaction that lists
    /// snapshots sees either this one or a smaller visible number, so it cannot drop what this snapshot needs. What a compaction takes for
    /// expired was told to readers before it lists them.
    pub fn take(self: &Arc<Self>, now: impl FnOnce() -> (Seq, Arc<Cuts>)) -> Snapshot {
        let mut live = self.live.lock();
        let (seq, cuts) = now();
        let id = live.id;
        live.id += 1;
        live.snapshots.insert((seq, id), cuts.clone());
        Snapshot { held: Arc::new(Held { seq, id, cuts, list: self.clone() }) }
    }

    /// The cuts of all live snapshots that have one for a family.
    pub fn cuts(&self, family: u32) -> Vec<Cut> {
        self.live.lock().snapshots.values().filter_map(|cuts| cut_of(cuts, family)).collect()
    }

    /// Live snapshots ascending, then the visible number, even if it is that of the newest snapshot: readers of "now" come last.
    pub fn list(&self, visible: impl FnOnce() -> Seq) -> Vec<Seq> {
        let live = self.live.lock();
        let now = visible();
        let mut all: Vec<Seq> = live.snapshots.keys().map(|key| key.0).collect();
        all.dedup();
        all.push(now);
        all
    }

    /// Number of live snapshots.
    pub fn count(&self) -> usize {
        self.live.lock().snapshots.len()
    }
}

fn cut_of(cuts: &Cuts, family: u32) -> Option<Cut> {
    cuts.iter().find(|(id, _)| *id == family).map(|(_, cut)| *cut)
}

#[derive(Debug)]
struct Held {
    seq: Seq,
    id: u64,
    cuts: Arc<Cuts>,
    list: Arc<Snapshots>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.list.live.lock().snapshots.remove(&(self.seq, self.id));
    }
}

/// A moment to read at, across all families; released when the last clone is dropped. It sees the entries that had not expired when it was
/// taken.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    /// Everything up to this sequence number is visible.
    pub fn seq(&self) -> Seq {
        self.held.seq
    }

    /// The entries of a family that had expired when the snapshot was taken; `None`: the family had no time to live.
    pub(crate) fn cut(&self, family: u32) -> Option<Cut> {
        cut_of(&self.held.cuts, family)
    }

    /// Taken from this database.
    pub(crate) fn belongs_to(&self, list: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.held.list, list)
    }
}
