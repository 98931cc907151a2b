//! Counts the keys that exist, by family. The requests of a phase are drawn again after the phase instead of being watched during it. With
//! one thread the count is exact; with several, puts and deletes of one key may have happened in another order.

use super::requests::{Key, Operation, Plan, Request};
use crate::workload::LiveKeys;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Mask of request numbers at which the stop flag is checked.
const LOOK_MASK: u64 = (1 << 16) - 1;

/// A family's keys.
struct Family {
    loaded: LiveKeys,
    inserted: u64,
    /// Numbers of inserted keys that were deleted again.
    deleted: HashSet<u64>,
}

impl Family {
    fn count(&self) -> u64 {
        self.loaded.count() + self.inserted - self.deleted.len() as u64
    }

    fn set(&mut self, key: Key, present: bool) {
        match key {
            Key::Loaded(number) => self.loaded.set(number, present),
            Key::Inserted { number, .. } if present => _ = self.deleted.remove(&number),
            Key::Inserted { number, .. } => _ = self.deleted.insert(number),
        }
    }
}

/// Live keys of all families; `None` for a family whose keys are unknown.
pub(super) struct Alive {
    families: Vec<Option<Family>>,
    keys: u64,
    /// Bytes and number of the values drawn so far: sizes do not depend on keys, so that their mean is that of the live values.
    value_bytes: u64,
    values: u64,
}

impl Alive {
    /// Empty families, for `keys` loaded keys each.
    pub fn new(families: usize, keys: u64) -> Self {
        let family = || LiveKeys::new(keys).map(|loaded| Family { loaded, inserted: 0, deleted: HashSet::new() });
        Alive { families: (0..families).map(|_| family()).collect(), keys, value_bytes: 0, values: 0 }
    }

    /// Marks the keys of all families as unknown.
    pub fn forget(&mut self) {
        self.families.fill_with(|| None);
    }

    /// Replays the `operations` requests of each thread of a plan. Keys left by commands of servers are unknown. False if `stop` was raised
    /// before the end.
    pub fn replay(&mut self, plan: &Plan, operations: &[u64], stop: &AtomicBool) -> bool {
        if plan.families(|operation| operation == Operation::Command).next().is_some() {
            self.forget();
        }
        let full = |family: &Option<Family>| family.as_ref().is_none_or(|family| family.loaded.count() == self.keys);
        let deletes_or_inserts = |operation| matches!(operation, Operation::Delete | Operation::Insert);
        // Where all keys exist, puts change nothing.
        let changed = plan.families(deletes_or_inserts).next().is_some()
            || plan.families(Operation::writes_value).any(|family| !full(&self.families[family]));
        if !changed {
            return true;
        }
        for (thread, &count) in operations.iter().enumerate() {
            let mut requests = plan.requests(thread);
            let whole = match requests.only() {
                Some(only) if !only.operation.writes_value() && only.operation != Operation::Delete => true,
                Some(mut only) => self.repeat(count, stop, || only.next_request()),
                None => self.repeat(count, stop, || requests.next_request()),
            };
            if !whole {
                return false;
            }
        }
        true
    }

    /// Replays `count` requests; false if `stop` was raised before the end.
    fn repeat(&mut self, count: u64, stop: &AtomicBool, mut next_request: impl FnMut() -> Request) -> bool {
        for nth in 0..count {
            if nth & LOOK_MASK == 0 && stop.load(Ordering::Relaxed) {
                return false;
            }
            let request = next_request();
            if request.operation.writes_value() {
                self.value_bytes += request.size as u64;
                self.values += 1;
            }
            let Some(family) = &mut self.families[request.family] else { continue };
            match request.operation {
                Operation::Insert => family.inserted += 1,
                Operation::Put | Operation::ReadModifyWrite => family.set(request.key, true),
                Operation::Delete => family.set(request.key, false),
                _ => {}
            }
        }
        true
    }

    /// Number of live keys, all families together.
    pub fn keys(&self) -> Option<u64> {
        self.families.iter().map(|family| family.as_ref().map(Family::count)).sum()
    }

    /// Bytes of the live keys and their values: exact for values of one size, else by the mean size of those written.
    pub fn bytes(&self, key_size: usize) -> Option<u64> {
        let mean = if self.values == 0 { 0.0 } else { self.value_bytes as f64 / self.values as f64 };
        self.keys().map(|keys| (keys as f64 * (key_size as f64 + mean)).round() as u64)
    }
}
