//! A store on a zoned drive: files and metadata together, with no other file system. `docs/engine/zones.md` has the idea,
//! `docs/engine/format.md` the bytes.
//!
//! Reading order: `format` and `catalog` (the metadata as bytes and as data), `journal` (the metadata log), `file` and `slot` (the bytes of
//! a file and of a zone), `volume` (shared state, and the order in which things become durable), `reader` and `appender` (reading and
//! writing), `place` (how a zone is found; `allocate` and `reset` are the policies), `collect` (the collector, with the policy `victim`),
//! `recover`, `check`, `entries`, `usage`.

mod allocate;
mod appender;
mod catalog;
mod check;
mod collect;
mod entries;
mod figures;
mod file;
mod flusher;
mod format;
mod journal;
mod lives;
mod place;
mod reader;
mod recover;
mod reset;
mod slot;
mod usage;
mod victim;
mod volume;

pub use allocate::{Allocation, Choice, Resources, Want, ZoneView};
pub use check::{ZoneEntry, ZoneMap};
pub use entries::{Extent, FileEntry};
pub use figures::{Figures, Shares, Written};
pub use format::{About, KeyRange, VolumeId};
pub use journal::JournalFigures;
pub use reset::{Dead, Reset, Space};
pub use slot::Condition;
pub use victim::{Collection, Victim};

use crate::store::{Appender, Beneath, FileId, FileKind, Hint, Lifetime, ReadAt, Result, Store, StoreError, StoreLock};
use crate::zoned::{Geometry, Streams, ZoneError, ZonedDevice};
use appender::ZonedAppender;
use file::FileBytes;
use format::KEY_PREFIX;
use reader::Reader;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::{fmt, io};
use volume::{SharedFile, Volume};

/// Options of an opened volume. The drive does not keep them: they may differ each time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Policy for the zone that a file is written into.
    pub allocation: Allocation,
    /// Policy for resetting dead zones.
    pub reset: Reset,
    /// Policy for the zone that the collector empties first.
    pub collection: Collection,
    /// Empty zones that only the collector may take. At least one and at most an eighth of the zones for files.
    pub reserve: u32,
    /// Bytes that the collector may move per byte that the host writes, as long as no writer waits for space.
    pub pace: f64,
    /// If the policy finds no zone for a file, the file goes to another zone, or waits for the collector. False: writing fails, as with
    /// ZenFS.
    pub fallback: bool,
    /// The engine learns the size of a zone ([`Store::unit`]), so that its compactions empty zones.
    pub tells: bool,
    /// A thread resets zones and collects. False: callers that sync names or need space do it themselves, in order, so that everything
    /// repeats exactly.
    pub background: bool,
}

/// Bytes that files take in zones, and bytes that there are for them. The files fit if `needed` is at most `room`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// Bytes that the files take, with frames, whole blocks, and zones that logs and manifests do not share.
    pub needed: u64,
    /// Bytes of zones for files.
    pub room: u64,
}

impl VolumeId {
    /// A random one, from the system.
    pub fn random() -> Result<Self> {
        let mut id = [0; 16];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut source| io::Read::read_exact(&mut source, &mut id));
        read.map_err(|e| StoreError::store("read /dev/urandom", e))?;
        Ok(VolumeId(id))
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allocation: Allocation::Sinter,
            reset: Reset::Sinter,
            collection: Collection::Greedy,
            reserve: 2,
            pace: 1.0,
            fallback: true,
            tells: true,
            background: true,
        }
    }
}

impl Options {
    /// The reserve with `zones` zones for files. At least one zone: if tables took the last zone, the collector could empty none, the
    /// manifest would find no space, and nothing could be deleted any more.
    fn kept_reserve(&self, zones: u32) -> u32 {
        self.reserve.min(zones / 8).max(1)
    }
}

/// Converts an error of the drive to one of the store.
fn failed(operation: &'static str, error: ZoneError) -> StoreError {
    let kind = error.source.as_ref().map_or(io::ErrorKind::Other, io::Error::kind);
    StoreError::store(operation, io::Error::new(kind, error))
}

fn corrupt(why: &str) -> StoreError {
    StoreError::store("open", io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The kernel's number of a lifetime. A table of unknown lifetime gets the number of a medium one.
fn lifetime(id: FileId, hint: &Hint) -> u8 {
    match hint.lifetime {
        Lifetime::Unknown if id.kind == FileKind::Table => 3,
        Lifetime::Unknown => 0,
        Lifetime::Short => 2,
        Lifetime::Medium => 3,
        Lifetime::Long => 4,
        Lifetime::Extreme => 5,
    }
}

/// The lifetime with this kernel number.
fn of_number(number: u8) -> Lifetime {
    match number {
        2 => Lifetime::Short,
        3 => Lifetime::Medium,
        4 => Lifetime::Long,
        5 => Lifetime::Extreme,
        _ => Lifetime::Unknown,
    }
}

/// An open volume. It is closed when the store and all its appenders have been dropped, in whatever order.
struct Session {
    volume: Arc<Volume>,
    stop: Arc<AtomicBool>,
    /// The thread that resets and collects.
    thread: Option<JoinHandle<()>>,
    /// Lock of the drive, because opening a volume writes, and two of them would overwrite each other's metadata. Dropped last.
    _drive: Box<dyn StoreLock>,
}

impl Drop for Session {
    fn drop(&mut self) {
        {
            let _state = self.volume.state.lock();
            self.stop.store(true, Ordering::Release);
            self.volume.kept.store(false, Ordering::Release);
        }
        self.volume.wake();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
        // Nobody relies on names that were not synced. They are written all the same, so that closing a volume keeps them as a directory
        // would.
        drop(self.volume.commit_durably());
    }
}

/// The main loop of the volume's thread: resets zones and collects. Ends after an error, because the volume takes no more changes then.
fn keep(volume: &Volume, stop: &AtomicBool) {
    while volume.tidy().is_ok() {
        let mut state = volume.state.lock();
        if stop.load(Ordering::Acquire) {
            return;
        }
        if state.due.is_empty() && !state.wants_collection(&volume.options) {
            volume.work.wait(&mut state);
        }
        if stop.load(Ordering::Acquire) {
            return;
        }
    }
}

/// A volume on a zoned drive. When the store and its last appender are dropped, pending metadata is written and the thread ends; readers
/// stay usable.
pub struct ZonedStore {
    volume: Arc<Volume>,
    session: Arc<Session>,
}

/// The lock of a database on the volume.
#[derive(Debug)]
struct Claim {
    claimed: Arc<AtomicBool>,
}

impl StoreLock for Claim {}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claimed.store(false, Ordering::Release);
    }
}

impl ZonedStore {
    /// Makes an empty volume on a drive and opens it; all data on the drive is lost. `id` should be random. `Unsupported` if the drive has
    /// too few zones, too small ones, or allows too few active ones; locked ([`StoreError::is_locked`]) if a volume on it is open.
    pub fn format(device: Arc<dyn ZonedDevice>, id: VolumeId, options: Options) -> Result<Self> {
        let drive = device.lock()?;
        Self::start(recover::format(&device, id, options)?, drive)
    }

    /// Checks whether a volume fits on a drive of this shape with zones of this capacity: `Unsupported` if not.
    pub fn check_shape(geometry: &Geometry, capacity: u64) -> Result<()> {
        recover::check_shape(geometry, capacity)
    }

    /// Computes whether files of these lengths would fit on an empty volume on the drive; changes nothing. `StorageFull` if the metadata
    /// cannot hold so many files.
    pub fn fit_on(device: &Arc<dyn ZonedDevice>, options: Options, files: &[(FileId, u64)]) -> Result<Fit> {
        recover::fit_on(device, options, files)
    }

    /// [`ZonedStore::format`] of a drive without data: an empty drive, or one with a volume without files. Leaves any other drive as it is
    /// and returns `AlreadyExists`, with a description of its content.
    pub fn format_unused(device: Arc<dyn ZonedDevice>, id: VolumeId, options: Options) -> Result<Self> {
        let drive = device.lock()?;
        recover::check_unused(&device)?;
        Self::start(recover::format(&device, id, options)?, drive)
    }

    /// Opens the volume on a drive. `NotFound` if there is none, `InvalidData` if its metadata is damaged, locked
    /// ([`StoreError::is_locked`]) if it is open already. A volume whose metadata cannot be written opens for reading; calls that would
    /// change it return the reason.
    pub fn open(device: Arc<dyn ZonedDevice>, options: Options) -> Result<Self> {
        let drive = device.lock()?;
        Self::start(recover::open(&device, options)?, drive)
    }

    fn start(volume: Arc<Volume>, drive: Box<dyn StoreLock>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut session = Session { volume: Arc::clone(&volume), stop: Arc::clone(&stop), thread: None, _drive: drive };
        if volume.options.background {
            let kept = Arc::clone(&volume);
            let thread = Builder::new().name("sinterdb-zones".into()).spawn(move || keep(&kept, &stop));
            session.thread = Some(thread.map_err(|e| StoreError::store("open", e))?);
            volume.kept.store(true, Ordering::Release);
        }
        Ok(ZonedStore { volume, session: Arc::new(session) })
    }

    /// The identity that the volume was formatted with.
    pub fn id(&self) -> VolumeId {
        self.volume.id
    }

    /// Counters since the volume was opened.
    pub fn figures(&self) -> Figures {
        self.volume.figures()
    }

    /// Waits until deletions are durable, no dead zone waits for its reset, and the collector has nothing to do, so that counters no longer
    /// depend on the progress of the thread.
    pub fn settle(&self) -> Result<()> {
        self.volume.rest()
    }

    /// The present division of the drive's bytes.
    pub fn shares(&self) -> Shares {
        self.volume.shares()
    }

    /// Options of the volume, with the actual reserve.
    pub fn options(&self) -> Options {
        self.volume.options
    }

    /// The shape of the drive.
    pub fn geometry(&self) -> &Geometry {
        self.volume.device.geometry()
    }

    /// The write streams of the drive.
    pub fn streams(&self) -> Streams {
        self.volume.device.streams()
    }

    /// All files, by name.
    pub fn files(&self) -> Vec<FileEntry> {
        self.volume.files()
    }

    /// All zones as they are now.
    pub fn map(&self) -> Result<ZoneMap> {
        self.volume.map()
    }

    /// Verifies the metadata, the frames of logs and the state in memory against the drive. Returns one line per complaint. Nothing may be
    /// written meanwhile. The bytes of tables are not checked: the engine verifies their checksums.
    pub fn check(&self) -> Result<Vec<String>> {
        self.volume.check()
    }

    /// Resets dead zones that are due, and collects if space is short. For a store without a thread.
    pub fn tidy(&self) -> Result<()> {
        self.volume.tidy()
    }

    /// Empties the zone that the collector's rule picks. False if no zone is worth it, or there is no space for its live bytes.
    pub fn collect(&self) -> Result<bool> {
        self.volume.collect()
    }
}

impl fmt::Debug for ZonedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.volume.state.lock();
        let files = state.catalog.files.iter().map(|(id, record)| format!("{id}: {:?}", record.place));
        f.debug_set().entries(files).finish()
    }
}

impl Store for ZonedStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        let error = |kind: io::ErrorKind| StoreError::file("create", id, kind.into());
        self.volume.check_alive("create").map_err(|e| StoreError { file: Some(id), ..e })?;
        let mut state = self.volume.state.lock();
        if state.names.contains_key(&id) {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        // Half of a metadata region is kept free for edits, so that deletions always find space.
        if state.catalog.snapshot_bytes() > self.volume.snapshot_limit / 2 {
            let why = "the metadata takes half of its region";
            return Err(StoreError::file("create", id, io::Error::new(io::ErrorKind::StorageFull, why)));
        }
        let cut = |key: &[u8]| key[..key.len().min(KEY_PREFIX)].to_vec();
        let keys = hint.key_range.as_ref().map(|(smallest, largest)| (cut(smallest), cut(largest)));
        let (born, level, family) = (state.clock, hint.level, hint.family);
        let death = born.saturating_add(state.lives.expect(family, level, keys.as_ref()));
        let about = About { lifetime: lifetime(id, hint), level, family, born, death, keys };
        let cell = SharedFile::new(id, about, FileBytes::default(), false, &self.volume);
        state.enter(Arc::clone(&cell));
        drop(state);
        Ok(Box::new(ZonedAppender::new(Arc::clone(&self.session), cell, hint.cause)))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        let cell = self.volume.state.lock().names.get(&id).cloned();
        let cell = cell.ok_or_else(|| StoreError::file("open", id, io::ErrorKind::NotFound.into()))?;
        Ok(Arc::new(Reader { cell, volume: Arc::clone(&self.volume) }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        let mut state = self.volume.state.lock();
        let cell = state.names.get(&id).cloned();
        state.leave(cell.ok_or_else(|| StoreError::file("delete", id, io::ErrorKind::NotFound.into()))?);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        let cells: Vec<Arc<SharedFile>> = self.volume.state.lock().names.values().cloned().collect();
        Ok(cells.iter().map(|cell| (cell.id, cell.content.read().len())).collect())
    }

    fn sync_names(&self) -> Result<()> {
        let named = |e: StoreError| StoreError { operation: "sync names", ..e };
        self.volume.commit_durably().map_err(named)?;
        if !self.volume.options.background {
            self.volume.tidy().map_err(named)?;
        }
        Ok(())
    }

    /// Counts dead bytes as free if the collector can free them.
    fn free_bytes(&self) -> Result<Option<u64>> {
        let state = self.volume.state.lock();
        let usable = |slot: &&slot::ZoneSlot| matches!(slot.condition, Condition::Empty | Condition::Open | Condition::Full);
        let (mut free, mut largest) = (0u64, 0u64);
        for slot in state.zones.iter().filter(usable) {
            free += slot.free();
            largest = largest.max(slot.capacity);
        }
        Ok(Some(free.saturating_sub(u64::from(self.volume.options.reserve) * largest)))
    }

    fn beneath(&self) -> Option<Beneath> {
        Some(self.volume.beneath())
    }

    fn unit(&self) -> u64 {
        let state = self.volume.state.lock();
        let files = state.zones.iter().filter(|slot| self.volume.options.tells && slot.condition != Condition::Reserved);
        files.map(|slot| slot.capacity).max().unwrap_or(0)
    }

    fn pinned_bytes(&self) -> u64 {
        self.volume.state.lock().zones.iter().map(slot::ZoneSlot::pinned).sum()
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        let claimed = &self.volume.claimed;
        if claimed.swap(true, Ordering::AcqRel) {
            return Err(StoreError::store("lock", io::ErrorKind::WouldBlock.into()));
        }
        Ok(Box::new(Claim { claimed: Arc::clone(claimed) }))
    }
}
