//! A store in memory for the tests of the log and the manifest: it remembers every mutating call, and can say what a machine may
//! find after a crash behind any prefix of them. And the seeded random source of those tests.

use sinter_storage::store::{Appender, FileId, Hint, ReadAt, Result, Store, StoreError, StoreLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// SplitMix64.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// A mutating call.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(FileId),
    Append(FileId, Vec<u8>),
    Sync(FileId),
    Delete(FileId),
    SyncNames,
}

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<FileId, Vec<u8>>,
    ops: Vec<Op>,
    /// Mutating calls that still work; the next one fails, and so do all behind it.
    budget: Option<usize>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TestStore(Arc<Mutex<Inner>>);

/// Fate of a file's unsynced bytes in a crash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Lost,
    Kept,
    Half,
    Zeros,
    Junk,
    /// All but the first 16 bytes, which are zero: pages reach the medium in any order.
    Hole,
}

impl Fate {
    pub(crate) const ALL: [Fate; 6] = [Fate::Lost, Fate::Kept, Fate::Half, Fate::Zeros, Fate::Junk, Fate::Hole];

    fn apply(self, tail: &[u8]) -> Vec<u8> {
        match self {
            Fate::Lost => Vec::new(),
            Fate::Kept => tail.to_vec(),
            Fate::Half => tail[..tail.len() / 2].to_vec(),
            Fate::Zeros => vec![0; tail.len()],
            Fate::Junk => Random(tail.len() as u64).bytes(tail.len()),
            Fate::Hole => tail.iter().enumerate().map(|(i, b)| if i < 16 { 0 } else { *b }).collect(),
        }
    }
}

impl TestStore {
    pub(crate) fn with(files: BTreeMap<FileId, Vec<u8>>) -> Self {
        let store = TestStore::default();
        store.inner().files = files;
        store
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn get(&self, id: FileId) -> Vec<u8> {
        self.inner().files[&id].clone()
    }

    pub(crate) fn put(&self, id: FileId, bytes: Vec<u8>) {
        self.inner().files.insert(id, bytes);
    }

    pub(crate) fn files(&self) -> BTreeMap<FileId, Vec<u8>> {
        self.inner().files.clone()
    }

    pub(crate) fn ops(&self) -> Vec<Op> {
        self.inner().ops.clone()
    }

    pub(crate) fn fail_after(&self, calls: usize) {
        self.inner().budget = Some(calls);
    }

    pub(crate) fn heal(&self) {
        self.inner().budget = None;
    }

    fn mutate(&self, what: &'static str, op: Op) -> Result<std::sync::MutexGuard<'_, Inner>> {
        let mut inner = self.inner();
        if let Some(budget) = &mut inner.budget {
            if *budget == 0 {
                return Err(StoreError::store(what, io::Error::other("injected")));
            }
            *budget -= 1;
        }
        inner.ops.push(op);
        Ok(inner)
    }
}

/// Every store that a crash behind `ops` may leave: any subset of the names that were not synced, times a fate for the bytes that
/// were not (one per image, shared by its files). `base` is what was there (and durable) before.
pub(crate) fn crash_images(base: &BTreeMap<FileId, Vec<u8>>, ops: &[Op]) -> Vec<BTreeMap<FileId, Vec<u8>>> {
    let mut bytes: BTreeMap<FileId, (Vec<u8>, usize)> = base.iter().map(|(id, b)| (*id, (b.clone(), b.len()))).collect();
    let mut durable: BTreeMap<FileId, ()> = base.keys().map(|id| (*id, ())).collect();
    let mut open_names: Vec<(FileId, bool)> = Vec::new();
    let set = |names: &mut BTreeMap<FileId, ()>, (id, there): (FileId, bool)| {
        if there {
            names.insert(id, ())
        } else {
            names.remove(&id)
        };
    };
    for op in ops {
        match op {
            Op::Create(id) => {
                bytes.insert(*id, (Vec::new(), 0));
                open_names.push((*id, true));
            }
            Op::Append(id, more) => bytes.get_mut(id).unwrap().0.extend_from_slice(more),
            Op::Sync(id) => {
                let file = bytes.get_mut(id).unwrap();
                file.1 = file.0.len();
            }
            Op::Delete(id) => open_names.push((*id, false)),
            Op::SyncNames => open_names.drain(..).for_each(|name| set(&mut durable, name)),
        }
    }
    let mut images = Vec::new();
    for subset in 0..1u32 << open_names.len() {
        let mut names = durable.clone();
        open_names.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1).for_each(|(_, name)| set(&mut names, *name));
        for fate in Fate::ALL {
            let content = |id: &FileId| {
                let (all, synced) = &bytes[id];
                [&all[..*synced], &fate.apply(&all[*synced..])].concat()
            };
            images.push(names.keys().map(|id| (*id, content(id))).collect());
        }
    }
    images
}

#[derive(Debug)]
struct TestAppender {
    store: TestStore,
    id: FileId,
}

impl Appender for TestAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut inner = self.store.mutate("append", Op::Append(self.id, bytes.to_vec()))?;
        // An unlinked file takes bytes, too; nobody will see them.
        if let Some(file) = inner.files.get_mut(&self.id) {
            file.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.store.mutate("sync", Op::Sync(self.id)).map(drop)
    }

    fn len(&self) -> u64 {
        self.store.inner().files.get(&self.id).map_or(0, |file| file.len() as u64)
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

#[derive(Debug)]
struct TestFile(Vec<u8>);

impl ReadAt for TestFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let from = offset as usize;
        match self.0.get(from..from + buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(StoreError::store("read", io::ErrorKind::UnexpectedEof.into())),
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

#[derive(Debug)]
struct NoLock;
impl StoreLock for NoLock {}

impl Store for TestStore {
    fn create(&self, id: FileId, _hint: &Hint) -> Result<Box<dyn Appender>> {
        if self.inner().files.contains_key(&id) {
            return Err(StoreError::file("create", id, io::ErrorKind::AlreadyExists.into()));
        }
        self.mutate("create", Op::Create(id))?.files.insert(id, Vec::new());
        Ok(Box::new(TestAppender { store: self.clone(), id }))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        match self.inner().files.get(&id) {
            Some(bytes) => Ok(Arc::new(TestFile(bytes.clone()))),
            None => Err(StoreError::file("open", id, io::ErrorKind::NotFound.into())),
        }
    }

    fn delete(&self, id: FileId) -> Result<()> {
        self.mutate("delete", Op::Delete(id))?.files.remove(&id);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        Ok(self.inner().files.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect())
    }

    fn sync_names(&self) -> Result<()> {
        self.mutate("sync names", Op::SyncNames).map(drop)
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        Ok(Box::new(NoLock))
    }
}
