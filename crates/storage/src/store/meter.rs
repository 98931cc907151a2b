//! A wrapper that counts what a store is asked to write and read: the outside view that the engine's write ledger is checked against.

use super::{Appender, Beneath, Cause, FileId, Hint, ReadAt, Result, Shared, Store, StoreLock, SyncBeside};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a store since its meter was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeterSnapshot {
    /// Bytes appended, by column family and cause of the file's creation.
    pub written: BTreeMap<(u32, Cause), u64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls of `read_at`.
    pub reads: u64,
    /// Files created, links not among them.
    pub created: u64,
    /// Files removed.
    pub deleted: u64,
    /// Syncs and seals of files.
    pub syncs: u64,
    /// Syncs of names.
    pub name_syncs: u64,
}

impl MeterSnapshot {
    /// Bytes appended, all together.
    pub fn total_written(&self) -> u64 {
        self.written.values().sum()
    }

    /// Sums of both stores.
    #[must_use]
    pub fn and(mut self, other: &MeterSnapshot) -> Self {
        for (line, bytes) in &other.written {
            *self.written.entry(*line).or_default() += bytes;
        }
        self.read_bytes += other.read_bytes;
        self.reads += other.reads;
        self.created += other.created;
        self.deleted += other.deleted;
        self.syncs += other.syncs;
        self.name_syncs += other.name_syncs;
        self
    }
}

#[derive(Debug, Default)]
struct Counters {
    /// One counter per line, found once per file and then shared, so that an append takes no lock.
    written: Mutex<BTreeMap<(u32, Cause), Arc<AtomicU64>>>,
    read_bytes: AtomicU64,
    reads: AtomicU64,
    created: AtomicU64,
    deleted: AtomicU64,
    syncs: AtomicU64,
    name_syncs: AtomicU64,
}

impl Counters {
    fn line(&self, hint: &Hint) -> Arc<AtomicU64> {
        Arc::clone(self.written.lock().entry((hint.family, hint.cause)).or_default())
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Counts calls that succeeded. A link into another store ([`Shared::Linked`]) writes nothing; a copy counts here with its bytes, read
/// and written, although another store receives them: this one's owner asked for it.
#[derive(Debug)]
pub struct Meter {
    below: Arc<dyn Store>,
    counters: Arc<Counters>,
}

impl Meter {
    /// A meter with all counters at 0.
    pub fn new(below: Arc<dyn Store>) -> Self {
        Meter { below, counters: Arc::default() }
    }

    /// All counters. They are read one after the other, so calls in flight may be in one and not in another.
    pub fn snapshot(&self) -> MeterSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &*self.counters;
        MeterSnapshot {
            written: c.written.lock().iter().map(|(&line, n)| (line, get(n))).filter(|(_, n)| *n > 0).collect(),
            read_bytes: get(&c.read_bytes),
            reads: get(&c.reads),
            created: get(&c.created),
            deleted: get(&c.deleted),
            syncs: get(&c.syncs),
            name_syncs: get(&c.name_syncs),
        }
    }

    /// Bytes appended so far, all together.
    pub fn total_written(&self) -> u64 {
        self.counters.written.lock().values().map(|n| n.load(Ordering::Relaxed)).sum()
    }
}

impl Store for Meter {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        let below = self.below.create(id, hint)?;
        add(&self.counters.created, 1);
        Ok(Box::new(MeterAppender { below, written: self.counters.line(hint), counters: Arc::clone(&self.counters) }))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(MeterReader { below: self.below.open(id)?, counters: Arc::clone(&self.counters) }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        self.below.delete(id)?;
        add(&self.counters.deleted, 1);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.below.list()
    }

    fn sync_names(&self) -> Result<()> {
        self.below.sync_names()?;
        add(&self.counters.name_syncs, 1);
        Ok(())
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

    fn pinned_bytes(&self) -> u64 {
        self.below.pinned_bytes()
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        let shared = self.below.share(id, target, hint)?;
        if let Shared::Copied(bytes) = shared {
            add(&self.counters.line(hint), bytes);
            add(&self.counters.read_bytes, bytes);
            add(&self.counters.created, 1);
        }
        Ok(shared)
    }
}

struct MeterAppender {
    below: Box<dyn Appender>,
    written: Arc<AtomicU64>,
    counters: Arc<Counters>,
}

impl Appender for MeterAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.below.append(bytes)?;
        add(&self.written, bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.below.sync()?;
        add(&self.counters.syncs, 1);
        Ok(())
    }

    fn sync_beside(&self) -> Option<SyncBeside> {
        let (below, counters) = (self.below.sync_beside()?, Arc::clone(&self.counters));
        Some(Box::new(move || {
            below()?;
            add(&counters.syncs, 1);
            Ok(())
        }))
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn seal(self: Box<Self>) -> Result<()> {
        self.below.seal()?;
        add(&self.counters.syncs, 1);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.below.close()
    }
}

#[derive(Debug)]
struct MeterReader {
    below: Arc<dyn ReadAt>,
    counters: Arc<Counters>,
}

impl ReadAt for MeterReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)?;
        add(&self.counters.read_bytes, buffer.len() as u64);
        add(&self.counters.reads, 1);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.below.will_need(offset, length);
    }

    fn holds_descriptor(&self) -> bool {
        self.below.holds_descriptor()
    }
}
