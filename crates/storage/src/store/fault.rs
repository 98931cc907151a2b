//! A wrapper that counts calls and makes chosen ones fail, and that calls back before every mutating call so that a test can take a
//! crash image there.

use super::{Appender, Beneath, FileId, Hint, ReadAt, Result, Shared, Store, StoreError, StoreLock, SyncBeside};
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The medium failed.
pub const EIO: i32 = libc::EIO;

/// The process has no descriptor left.
pub const EMFILE: i32 = libc::EMFILE;

/// The medium is full.
pub const ENOSPC: i32 = libc::ENOSPC;

/// A counted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Operation {
    /// [`Store::create`]
    Create,
    /// [`Appender::append`]
    Append,
    /// [`Appender::sync`]
    Sync,
    /// [`Appender::seal`]
    Seal,
    /// [`Appender::close`]
    Close,
    /// [`Store::delete`]
    Delete,
    /// [`Store::sync_names`]
    SyncNames,
    /// [`Store::share`], as one call however it is done
    Share,
    /// [`Store::open`]
    Open,
    /// [`ReadAt::read_at`]
    Read,
    /// [`Store::list`]
    List,
}

impl Operation {
    /// Every operation, in order.
    pub const ALL: [Operation; 11] = [
        Operation::Create,
        Operation::Append,
        Operation::Sync,
        Operation::Seal,
        Operation::Close,
        Operation::Delete,
        Operation::SyncNames,
        Operation::Share,
        Operation::Open,
        Operation::Read,
        Operation::List,
    ];

    /// True if the call changes what is on the medium.
    pub fn mutates(self) -> bool {
        !matches!(self, Operation::Open | Operation::Read | Operation::List)
    }

    fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Append => "append",
            Operation::Sync => "sync",
            Operation::Seal => "seal",
            Operation::Close => "close",
            Operation::Delete => "delete",
            Operation::SyncNames => "sync names",
            Operation::Share => "share",
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::List => "list",
        }
    }
}

/// The calls that a fault counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// All calls that change the medium.
    Mutating,
    /// All calls that do not change the medium.
    Reading,
    /// Calls of one operation.
    Only(Operation),
}

/// A call that is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Calls that are counted.
    pub calls: Calls,
    /// Number of counted calls that succeed first, from the wrapper's creation on (0: the first one fails).
    pub at: u64,
    /// All later calls fail too.
    pub sticky: bool,
    /// The system's error number, such as [`EIO`] or [`ENOSPC`].
    pub errno: i32,
    /// Bytes of a failing append that still reach the file.
    pub torn: u64,
}

impl Fault {
    /// Only the call with index `at` fails.
    pub fn once(calls: Calls, at: u64, errno: i32) -> Self {
        Fault { calls, at, sticky: false, errno, torn: 0 }
    }

    /// The call with index `at` and all later ones fail.
    pub fn from(calls: Calls, at: u64, errno: i32) -> Self {
        Fault { sticky: true, ..Fault::once(calls, at, errno) }
    }

    /// Makes a failing append leave the first `bytes` of its bytes in the file.
    pub fn torn(self, bytes: u64) -> Self {
        Fault { torn: bytes, ..self }
    }
}

/// Called with the index (from 0) and kind of each mutating call, before it reaches the store below.
pub type Hook = Arc<dyn Fn(u64, Operation) + Send + Sync>;

#[derive(Default)]
struct Plan {
    counts: [AtomicU64; Operation::ALL.len()],
    mutating: AtomicU64,
    reading: AtomicU64,
    faults: Mutex<Vec<Fault>>,
    hook: Mutex<Option<Hook>>,
}

impl Plan {
    /// Counts the call; the fault that hits it, if one does.
    fn enter(&self, operation: Operation) -> std::result::Result<(), Fault> {
        let nth = self.counts[operation as usize].fetch_add(1, Ordering::Relaxed);
        let class = if operation.mutates() { &self.mutating } else { &self.reading };
        let index = class.fetch_add(1, Ordering::Relaxed);
        if operation.mutates() {
            // The hook runs outside the lock: it may well look at the store.
            let hook = self.hook.lock().clone();
            if let Some(hook) = hook {
                hook(index, operation);
            }
        }
        let hits = |fault: &&Fault| {
            let at = match fault.calls {
                Calls::Mutating if operation.mutates() => index,
                Calls::Reading if !operation.mutates() => index,
                Calls::Only(only) if only == operation => nth,
                _ => return false,
            };
            at == fault.at || (fault.sticky && at > fault.at)
        };
        self.faults.lock().iter().find(hits).map_or(Ok(()), |fault| Err(*fault))
    }

    fn check(&self, operation: Operation, file: Option<FileId>) -> Result<()> {
        self.enter(operation).map_err(|fault| error(operation, file, fault))
    }
}

fn error(operation: Operation, file: Option<FileId>, fault: Fault) -> StoreError {
    StoreError { file, ..StoreError::store(operation.name(), io::Error::from_raw_os_error(fault.errno)) }
}

/// Counts and fails calls of the store below. A failed call does not reach it (a torn append in part), so that after a failed sync the
/// bytes are still unsynced there; the appender refuses then what the contract says, and does not count it.
/// `lock`, `free_bytes` and hints are passed on uncounted.
pub struct FaultStore {
    below: Arc<dyn Store>,
    plan: Arc<Plan>,
}

impl FaultStore {
    /// Nothing fails until told.
    pub fn new(below: Arc<dyn Store>) -> Self {
        FaultStore { below, plan: Arc::default() }
    }

    /// Adds a fault to those planned.
    pub fn inject(&self, fault: Fault) {
        self.plan.faults.lock().push(fault);
    }

    /// Forgets all planned faults: the medium works again. Dead appenders stay dead.
    pub fn clear(&self) {
        self.plan.faults.lock().clear();
    }

    /// Sets or removes what is called before each mutating call.
    pub fn on_call(&self, hook: Option<Hook>) {
        *self.plan.hook.lock() = hook;
    }

    /// Mutating calls so far: the index of the next one.
    pub fn mutating_calls(&self) -> u64 {
        self.plan.mutating.load(Ordering::Relaxed)
    }

    /// Reading calls so far: the index of the next one.
    pub fn reading_calls(&self) -> u64 {
        self.plan.reading.load(Ordering::Relaxed)
    }

    /// Calls of one operation so far.
    pub fn count(&self, operation: Operation) -> u64 {
        self.plan.counts[operation as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("below", &self.below).field("faults", &*self.plan.faults.lock()).finish_non_exhaustive()
    }
}

impl Store for FaultStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        self.plan.check(Operation::Create, Some(id))?;
        let below = self.below.create(id, hint)?;
        Ok(Box::new(FaultAppender { id, below, plan: Arc::clone(&self.plan), failed: None }))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        self.plan.check(Operation::Open, Some(id))?;
        Ok(Arc::new(FaultReader { id, below: self.below.open(id)?, plan: Arc::clone(&self.plan) }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        self.plan.check(Operation::Delete, Some(id))?;
        self.below.delete(id)
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.plan.check(Operation::List, None)?;
        self.below.list()
    }

    fn sync_names(&self) -> Result<()> {
        self.plan.check(Operation::SyncNames, None)?;
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

    fn pinned_bytes(&self) -> u64 {
        self.below.pinned_bytes()
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        self.plan.check(Operation::Share, Some(id))?;
        self.below.share(id, target, hint)
    }
}

struct FaultAppender {
    id: FileId,
    below: Box<dyn Appender>,
    plan: Arc<Plan>,
    failed: Option<Operation>,
}

impl FaultAppender {
    fn enter(&mut self, operation: Operation) -> std::result::Result<(), (StoreError, u64)> {
        if self.failed.is_some_and(|failed| failed != Operation::Append || operation != Operation::Sync) {
            return Err((StoreError::dead(operation.name(), self.id), 0));
        }
        self.plan.enter(operation).map_err(|fault| {
            self.failed = Some(operation);
            (error(operation, Some(self.id), fault), fault.torn)
        })
    }
}

impl Appender for FaultAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err((error, torn)) = self.enter(Operation::Append) {
            let arrived = bytes.len().min(usize::try_from(torn).unwrap_or(usize::MAX));
            if arrived > 0 {
                self.below.append(&bytes[..arrived])?;
            }
            return Err(error);
        }
        self.below.append(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.enter(Operation::Sync).map_err(|(error, _)| error)?;
        self.below.sync()
    }

    fn sync_beside(&self) -> Option<SyncBeside> {
        let (below, plan, id) = (self.below.sync_beside()?, Arc::clone(&self.plan), self.id);
        Some(Box::new(move || {
            plan.check(Operation::Sync, Some(id))?;
            below()
        }))
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        self.enter(Operation::Seal).map_err(|(error, _)| error)?;
        self.below.seal()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.enter(Operation::Close).map_err(|(error, _)| error)?;
        self.below.close()
    }
}

#[derive(Debug)]
struct FaultReader {
    id: FileId,
    below: Arc<dyn ReadAt>,
    plan: Arc<Plan>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.faults.lock().iter()).finish()
    }
}

impl ReadAt for FaultReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.plan.check(Operation::Read, Some(self.id))?;
        self.below.read_at(offset, buffer)
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
