//! Tests of the work that is due once a second while a job runs.

use super::super::{DEFAULT_FAMILY, Db};
use super::*;
use crate::clock::{Clock, ManualClock};
use crate::operator::{CompactionFilter, Decision};
use crate::settings::{DbSettings, FamilySettings};
use parking_lot::Mutex;
use sinter_storage::store::MemoryStore;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// Takes 10 ms per entry, and notes when the last tick was.
#[derive(Default)]
struct Slow {
    clock: Arc<ManualClock>,
    inner: OnceLock<Weak<Inner>>,
    ticks: Mutex<BTreeSet<u64>>,
}

impl CompactionFilter for Slow {
    fn filter(&self, _level: u8, _key: &[u8], _value: &[u8]) -> Decision {
        self.clock.advance_ns(10_000_000);
        let inner = self.inner.get().and_then(Weak::upgrade).unwrap();
        self.ticks.lock().insert(inner.ticked_ns.load(Ordering::Relaxed));
        Decision::Keep
    }
}

#[test]
fn a_long_compaction_on_the_only_thread_ticks() {
    let (slow, root) = (Arc::new(Slow::default()), tempfile::tempdir().unwrap());
    let family = FamilySettings { level0_file_num_compaction_trigger: 2, ..FamilySettings::default() };
    let builder = Db::builder().settings(DbSettings { max_background_jobs: 1, ..DbSettings::default() }).system_root(root.path());
    let builder = builder.family(DEFAULT_FAMILY, family).compaction_filter(DEFAULT_FAMILY, slow.clone()).clock(slow.clock.clone());
    let db = builder.open_store(Arc::new(MemoryStore::new())).unwrap();
    slow.inner.set(Arc::downgrade(&db.inner)).unwrap();
    for round in 0..2u8 {
        (0..1000u32).for_each(|n| db.put(&n.to_be_bytes(), &[round; 20]).unwrap());
        db.flush().unwrap();
    }
    db.wait_for_compactions().unwrap();
    assert!(slow.clock.monotonic_ns() >= 10_000_000_000, "every key is shown to the filter");
    let ticks = slow.ticks.lock();
    assert!(ticks.len() > 5, "{ticks:?}");
    let apart = ticks.iter().zip(ticks.iter().skip(1)).map(|(a, b)| b - a).min().unwrap();
    assert!(apart >= PERIOD_NS, "not more often than they are due: {ticks:?}");
}
