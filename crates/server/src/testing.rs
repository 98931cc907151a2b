//! Helpers shared by tests.

use crate::keyspace::Keyspace;
use sinter_storage::store::{MemoryStore, Store};
use sinterdb::settings::{DbSettings, FamilySettings, Settings};
use std::sync::Arc;

#[path = "../tests/common/certificates.rs"]
pub mod certificates;
#[path = "../tests/common/commands.rs"]
pub mod commands;
#[path = "../tests/common/shapes.rs"]
pub mod shapes;

/// A small random generator, so that a failure repeats from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n.max(1)
    }

    pub fn bytes(&mut self, most: usize, of: &[u8]) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| of[self.below(of.len())]).collect()
    }
}

/// Settings under which a few hundred writes flush and compact, in the thread that writes.
pub fn small_settings() -> Settings {
    let family = FamilySettings {
        write_buffer_size: 64 << 10,
        target_file_size_base: 16 << 10,
        max_bytes_for_level_base: 64 << 10,
        max_compaction_bytes: 1 << 20,
        ..FamilySettings::default()
    };
    let mut settings = Settings { db: DbSettings { max_background_jobs: 0, ..DbSettings::default() }, ..Settings::default() };
    for name in ["default", "elements"] {
        settings.families.insert(name.into(), family.clone());
    }
    settings
}

/// A keyspace in a store.
pub fn open(store: &Arc<MemoryStore>, random: u64) -> Keyspace {
    let store: Arc<dyn Store> = store.clone();
    Keyspace::open(store, &small_settings(), random).unwrap()
}

/// A keyspace in a new store.
pub fn fresh() -> Keyspace {
    let mut keyspace = open(&Arc::new(MemoryStore::new()), 42);
    keyspace.set_now(1_000_000);
    keyspace
}

/// Runs [`Keyspace::flush_at_rest`] and all compactions. A commit returns before its batch is in the memtables; until it is there, nothing
/// would be flushed.
pub fn flush_at_rest(keyspace: &mut Keyspace) {
    while keyspace.is_underway() {
        std::thread::yield_now();
    }
    keyspace.flush_at_rest().unwrap();
    keyspace.db().wait_for_compactions().unwrap();
}
