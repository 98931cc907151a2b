//! A store in memory that can crash: it remembers what was synced, what was only appended, and which names were made or removed
//! since the last `sync_names`, and builds every state that a power cut could leave behind.
//!
//! The model is that of the crash-consistency literature (ALICE, OSDI'14; CrashMonkey, OSDI'18; LazyFS, VLDB'24) cut down to a seam
//! without renames and writes in place: synced bytes stay; of the rest any prefix, any set of blocks or nothing; a name that was not
//! synced may show any of the states it went through since.

mod content;
mod crash;

pub use crash::{CrashMode, Fate, Tail, Unsynced};

use super::{Appender, Cause, FileId, FileKind, Hint, ReadAt, Result, Store, StoreError, StoreLock, SyncBeside};
use content::{FileState, SharedBytes};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One file, reachable by its name, its readers and its appender alike. Compared by address.
type Cell = Arc<RwLock<FileState>>;

#[derive(Default)]
struct Names {
    live: BTreeMap<FileId, Cell>,
    /// For names changed since the last sync: their earlier states, the durable one first.
    pending: BTreeMap<FileId, Vec<Option<Cell>>>,
    capacity: Option<u64>,
    /// Zeros are written ahead of logs up to a multiple of this, bytes; 0: none are.
    ahead: u64,
}

impl Names {
    fn used(&self) -> u64 {
        self.live.values().map(|cell| cell.read().content.len()).sum()
    }

    fn free(&self) -> Option<u64> {
        self.capacity.map(|capacity| capacity.saturating_sub(self.used()))
    }

    fn cell(&self, operation: &'static str, id: FileId) -> Result<&Cell> {
        self.live.get(&id).ok_or_else(|| StoreError::file(operation, id, io::ErrorKind::NotFound.into()))
    }
}

#[derive(Default)]
struct Inner {
    /// Every change of names and bytes happens under this lock, so that an image is one instant of the whole store.
    names: Mutex<Names>,
    locked: AtomicBool,
}

/// The crashable store. Cheap to copy for an image: bytes are shared until one side changes them.
pub struct MemoryStore {
    inner: Arc<Inner>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store without a capacity limit.
    pub fn new() -> Self {
        MemoryStore { inner: Arc::default() }
    }

    fn from_names(names: Names) -> Self {
        MemoryStore { inner: Arc::new(Inner { names: Mutex::new(names), locked: AtomicBool::new(false) }) }
    }

    /// Limits the bytes in all named files together; an append past it writes what fits and fails with ENOSPC. `None`: no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.inner.names.lock().capacity = bytes;
    }

    /// From now on logs are created as a directory has them by memory map: zeros are written ahead of them, up to a multiple of `bytes`,
    /// where the capacity allows that. A crash leaves any of their pages, and zeros in the place of the others. 0: as other files.
    pub fn set_ahead(&self, bytes: u64) {
        self.inner.names.lock().ahead = bytes;
    }

    /// A copy of the exact state, with synced and pending bytes, unlocked and without appenders: the state after the process died and the
    /// machine did not. Crashing the image later is a power cut after that.
    pub fn clone_image(&self) -> MemoryStore {
        let names = self.inner.names.lock();
        let mut copies: HashMap<*const RwLock<FileState>, Cell> = HashMap::new();
        let mut copy = |cell: &Cell| {
            let new = || Arc::new(RwLock::new(cell.read().clone()));
            Arc::clone(copies.entry(Arc::as_ptr(cell)).or_insert_with(new))
        };
        let live = names.live.iter().map(|(&id, cell)| (id, copy(cell))).collect();
        let mut states = |states: &Vec<Option<Cell>>| states.iter().map(|state| state.as_ref().map(&mut copy)).collect();
        let pending = names.pending.iter().map(|(&id, earlier)| (id, states(earlier))).collect();
        MemoryStore::from_names(Names { live, pending, capacity: names.capacity, ahead: names.ahead })
    }

    /// The store after a power cut at this instant, in which `fate` decides what happened to everything not synced. This store is not
    /// changed. In the new one all that is left is durable, and it is not locked.
    pub fn crash(&self, fate: &mut dyn Fate) -> MemoryStore {
        let names = self.inner.names.lock();
        let mut live = BTreeMap::new();
        let mut survive = |id: FileId, cell: &Cell, fate: &mut dyn Fate| {
            let state = cell.read().after_crash(id, fate);
            live.insert(id, Arc::new(RwLock::new(state)));
        };
        for (&id, cell) in &names.live {
            if !names.pending.contains_key(&id) {
                survive(id, cell, fate);
            }
        }
        for (&id, earlier) in &names.pending {
            let now = names.live.get(&id);
            let chosen = fate.name(id, earlier.len() + 1).min(earlier.len());
            if let Some(cell) = earlier.get(chosen).map_or(now, Option::as_ref) {
                survive(id, cell, fate);
            }
        }
        MemoryStore::from_names(Names { live, pending: BTreeMap::new(), capacity: names.capacity, ahead: names.ahead })
    }

    /// [`MemoryStore::crash`] with a ready-made fate; a `u64` is the seed of a random one.
    pub fn crash_with(&self, mode: impl Into<CrashMode>) -> MemoryStore {
        self.crash(&mut *mode.into().fate())
    }

    /// The whole contents of a file, for damage tests. Fails if there is none.
    pub fn bytes(&self, id: FileId) -> Result<Vec<u8>> {
        Ok(self.inner.names.lock().cell("bytes", id)?.read().content.suffix(0))
    }

    /// Puts a durable file in place of whatever has this name; open readers keep the old one.
    pub fn replace(&self, id: FileId, bytes: Vec<u8>) {
        let mut names = self.inner.names.lock();
        names.pending.remove(&id);
        names.live.insert(id, Arc::new(RwLock::new(FileState::durable(SharedBytes::of(&bytes)))));
    }

    /// Changes one byte in place, below open readers as well. Fails if there is no such file or byte.
    pub fn corrupt(&self, id: FileId, offset: u64, change: impl FnOnce(&mut u8)) -> Result<()> {
        let names = self.inner.names.lock();
        let mut file = names.cell("corrupt", id)?.write();
        let byte = file.content.byte_mut(offset);
        change(byte.ok_or_else(|| StoreError::file("corrupt", id, io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }

    /// Loses a file for good, durably. Fails if there is none.
    pub fn remove(&self, id: FileId) -> Result<()> {
        let mut names = self.inner.names.lock();
        names.cell("remove", id)?;
        names.pending.remove(&id);
        names.live.remove(&id);
        Ok(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.inner.names.lock();
        let files = names.live.iter().map(|(id, cell)| {
            let file = cell.read();
            let pending = if names.pending.contains_key(id) { ", name not synced" } else { "" };
            format!("{id}: {} of {} bytes synced{pending}", file.synced, file.len)
        });
        f.debug_set().entries(files).finish()
    }
}

impl Store for MemoryStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        let mut names = self.inner.names.lock();
        if names.live.contains_key(&id) {
            return Err(StoreError::file("create", id, io::ErrorKind::AlreadyExists.into()));
        }
        let cell = Cell::default();
        names.pending.entry(id).or_default().push(None);
        names.live.insert(id, Arc::clone(&cell));
        let is_mapped = id.kind == FileKind::Log && hint.cause == Cause::Wal;
        let ahead = if is_mapped { names.ahead } else { 0 };
        Ok(Box::new(MemoryAppender { id, inner: Arc::clone(&self.inner), cell, ahead, torn: false }))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        let cell = Arc::clone(self.inner.names.lock().cell("open", id)?);
        Ok(Arc::new(MemoryReader { id, cell }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        let mut names = self.inner.names.lock();
        let old = Arc::clone(names.cell("delete", id)?);
        names.pending.entry(id).or_default().push(Some(old));
        names.live.remove(&id);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        Ok(self.inner.names.lock().live.iter().map(|(&id, cell)| (id, cell.read().content.len())).collect())
    }

    fn sync_names(&self) -> Result<()> {
        self.inner.names.lock().pending.clear();
        Ok(())
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        let names = self.inner.names.lock();
        let missing = || StoreError::file("sync", id, io::ErrorKind::NotFound.into());
        names.live.get(&id).ok_or_else(missing)?.write().sync();
        Ok(true)
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(self.inner.names.lock().free())
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        if self.inner.locked.swap(true, Ordering::AcqRel) {
            return Err(StoreError::store("lock", io::ErrorKind::WouldBlock.into()));
        }
        Ok(Box::new(MemoryLock { inner: Arc::clone(&self.inner) }))
    }
}

struct MemoryLock {
    inner: Arc<Inner>,
}

impl StoreLock for MemoryLock {}

impl fmt::Debug for MemoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryLock")
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.inner.locked.store(false, Ordering::Release);
    }
}

struct MemoryAppender {
    id: FileId,
    inner: Arc<Inner>,
    cell: Cell,
    /// See [`Names::ahead`].
    ahead: u64,
    torn: bool,
}

impl Appender for MemoryAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.torn {
            return Err(StoreError::dead("append", self.id));
        }
        let names = self.inner.names.lock();
        let free = names.free().unwrap_or(u64::MAX);
        let mut file = self.cell.write();
        let end = file.len + bytes.len() as u64;
        if self.ahead > 0 && end > file.content.len() {
            let end = end.next_multiple_of(self.ahead);
            if end - file.content.len() <= free {
                file.write_ahead(end);
            } else {
                self.ahead = 0;
            }
        }
        let room = free.saturating_add(file.ahead());
        if self.ahead == 0 {
            file.cut();
        }
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        file.append(&bytes[..fits]);
        drop(file);
        if fits < bytes.len() {
            self.torn = true;
            return Err(StoreError::file("append", self.id, io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let _instant = self.inner.names.lock();
        self.cell.write().sync();
        Ok(())
    }

    fn sync_beside(&self) -> Option<SyncBeside> {
        let (inner, cell, len) = (Arc::clone(&self.inner), Arc::clone(&self.cell), self.len());
        Some(Box::new(move || {
            let _instant = inner.names.lock();
            cell.write().sync_to(len);
            Ok(())
        }))
    }

    fn len(&self) -> u64 {
        self.cell.read().len
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        if self.torn {
            return Err(StoreError::dead("seal", self.id));
        }
        {
            let _instant = self.inner.names.lock();
            self.cell.write().cut();
        }
        self.sync().map_err(|e| StoreError { operation: "seal", ..e })
    }

    fn close(self: Box<Self>) -> Result<()> {
        let _instant = self.inner.names.lock();
        self.cell.write().cut();
        Ok(())
    }
}

struct MemoryReader {
    id: FileId,
    cell: Cell,
}

impl fmt::Debug for MemoryReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryReader({})", self.id)
    }
}

impl ReadAt for MemoryReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.cell.read().content.read(offset, buffer) {
            return Ok(());
        }
        Err(StoreError::read(self.id, offset, io::ErrorKind::UnexpectedEof.into()))
    }

    /// True like for a file of a directory, so that tests meet the closing and opening of such files.
    fn holds_descriptor(&self) -> bool {
        true
    }

    fn len(&self) -> u64 {
        self.cell.read().content.len()
    }
}
