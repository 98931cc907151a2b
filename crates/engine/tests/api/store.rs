//! The store that a test runs on: a directory, or what `SINTER_TEST_STORE` says. Tests that damage files, cut the power or fill the
//! medium ask for memory themselves.

use sinter_storage::store::{Appender, Beneath, DirStore, FileId, Hint, MemoryStore, ReadAt, Result, Shared, Store, StoreLock};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// An empty store of the kind that was asked for.
#[derive(Debug)]
pub struct TestStore {
    below: Box<dyn Store>,
    _home: Option<TempDir>,
}

/// 128 MiB in zones that hold a few small tables.
fn volume() -> ZonedStore {
    let geometry = Geometry { block: 4096, zones: 512, zone_size: 256 << 10, max_open: Some(14), max_active: Some(14), conventional: 0 };
    let drive = Arc::new(Emulator::memory(geometry, 240 << 10).unwrap());
    ZonedStore::format(drive, VolumeId([5; 16]), Options { background: false, ..Options::default() }).unwrap()
}

pub fn new_store() -> Arc<TestStore> {
    let kind = std::env::var("SINTER_TEST_STORE").unwrap_or_default();
    let (below, home): (Box<dyn Store>, _) = match kind.as_str() {
        "memory" => (Box::new(MemoryStore::new()), None),
        "zones" => (Box::new(volume()), None),
        "" | "dir" => {
            let home = tempfile::tempdir().unwrap();
            (Box::new(DirStore::open(home.path(), true).unwrap()), Some(home))
        }
        other => panic!("SINTER_TEST_STORE={other}: must be memory, dir or zones"),
    };
    Arc::new(TestStore { below, _home: home })
}

impl Store for TestStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        self.below.create(id, hint)
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        self.below.open(id)
    }

    fn delete(&self, id: FileId) -> Result<()> {
        self.below.delete(id)
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.below.list()
    }

    fn sync_names(&self) -> Result<()> {
        self.below.sync_names()
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.below.free_bytes()
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        self.below.lock()
    }

    fn directory(&self) -> Option<&Path> {
        self.below.directory()
    }

    fn beneath(&self) -> Option<Beneath> {
        self.below.beneath()
    }

    fn unit(&self) -> u64 {
        self.below.unit()
    }

    fn check_there(&self) -> Result<()> {
        self.below.check_there()
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        self.below.sync_file(id)
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        self.below.share(id, target, hint)
    }
}
