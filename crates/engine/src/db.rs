//! The database: open, write, read, flush, compact.
//!
//! Reading order: `write` (one page), `gate` (where writers wait), `logs` (log segments), `read`, `view` (what readers see), `jobs` (the
//! work of background threads as data), `schedule` (how it is chosen and done), `publish` (the one place where the tree changes),
//! `obsolete` (what readers may still hold of it), `recover` and `open`. Locks, in the order in which they may be taken: the lead of the
//! write queue, `write_state`, `Logs::turn`, `shared`, `retired`; everything else is a leaf.

mod admin;
mod background;
mod batch;
mod builder;
mod callback;
mod checkpoint;
mod codec_review;
mod confined;
mod cutoff_review;
mod damage;
mod division;
mod end;
mod family;
mod gate;
mod insert;
mod iterator;
mod jobs;
mod logs;
mod media;
mod mem;
mod mover;
mod obsolete;
mod open;
mod open_full;
mod properties;
mod publish;
mod queue;
mod read;
mod read_only;
mod records;
mod recover;
mod schedule;
mod snapshot;
mod space;
mod sync;
#[cfg(test)]
mod tests;
mod tick;
mod tier_stores;
mod time_samples;
mod verify;
mod view;
mod write;
mod write_options;

pub use crate::key::{MAX_KEY, MAX_VALUE};
pub use batch::{MAX_BATCH, Operation, WriteBatch};
pub use builder::Builder;
pub use family::Family;
pub use iterator::DbIterator;
pub use media::TierStats;
pub use properties::Stats;
pub use read::ReadOptions;
pub use read_only::{Held, Seen, see};
pub use records::Records;
pub use recover::{Cut, RecoveryReport};
pub use snapshot::Snapshot;
pub use space::reserve;
pub use tier_stores::{FoundTiers, find_tiers};
pub use verify::{Damage, verify_files};
pub use write_options::{Durability, WriteOptions};

use crate::cache::Cache;
use crate::checksum::DbId;
use crate::clock::Clock;
use crate::compaction::throttle::Throttle;
use crate::cpu::CpuRoom;
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::ledger::{Ledger, Statistics};
use crate::manifest::{ManifestLog, ManifestState};
use crate::memtable::ChunkPool;
use crate::pacing::Pace;
use crate::settings::DbSettings;
use crate::table::Packers;
use crate::tiering::fallback::Placer;
use background::Threads;
use confined::MemoryWatch;
use damage::Damaged;
use division::Division;
use end::End;
use family::FamilyCore;
use gate::Pressure;
use insert::WriteState;
use jobs::Jobs;
use logs::Logs;
use media::Media;
use mover::Moves;
use obsolete::Obsolete;
use parking_lot::{Condvar, Mutex};
use queue::WriteQueue;
use sinter_storage::store::{FileId, Store, StoreLock};
use snapshot::Snapshots;
use space::FreeSpace;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use time_samples::Sampling;

/// The name of the family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

/// An open database; cheap to clone. The last handle to go closes it, but cannot report errors: prefer [`Db::close`].
///
/// Code that the database calls (a merge operator, a compaction filter, a clock) may hold a handle. [`crate::operator`] and
/// [`crate::clock`] say which methods work there; the others give [`Error::Invalid`] at once.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Handle>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.inner.db)
    }
}

/// State that all handles, threads and iterators of a database share.
struct Inner {
    /// Differs between all handles of a process, of the same database too.
    handle: u64,
    /// The process that opened the database.
    process: u32,
    /// All stores of [`Media`] as one.
    store: Arc<dyn Store>,
    media: Media,
    placer: Arc<Placer>,
    moves: Moves,
    db: DbId,
    settings: DbSettings,
    /// A [`TrackedClock`](crate::clock::TrackedClock): its seconds never go back.
    clock: Arc<dyn Clock>,
    /// The CPU that this process may use; not measured in a database without threads.
    cpu: Arc<CpuRoom>,
    memory: MemoryWatch,
    /// Pauses that compactions make.
    throttle: Throttle,
    cache: Arc<Cache>,
    division: Division,
    pool: Arc<ChunkPool>,
    ledger: Arc<Ledger>,
    statistics: Arc<Statistics>,
    default_family: Family,
    queue: WriteQueue,
    write_state: Mutex<WriteState>,
    shared: Mutex<Shared>,
    /// Something changed that a waiting writer or `flush` may wait for.
    changed: Condvar,
    /// There may be work for the background threads.
    work: Condvar,
    threads: Threads,
    packers: Arc<Packers>,
    snapshots: Arc<Snapshots>,
    /// Writes up to this number are visible.
    visible: AtomicU64,
    next_number: AtomicU64,
    pressure: Pressure,
    /// Time when [`Inner::tick`] last did something.
    ticked_ns: AtomicU64,
    sampling: Sampling,
    logs: Logs,
    obsolete: Obsolete,
    end: End,
    /// The manifest may hold an edit that was reported as failed.
    torn_manifest: AtomicBool,
    space: FreeSpace,
    /// Files were deleted since names were last synced.
    deleted: AtomicBool,
    recovery: Mutex<RecoveryReport>,
    /// Locks on the stores, held until the database is closed.
    locks: Mutex<Vec<Box<dyn StoreLock>>>,
}

/// State that background jobs and administrative calls change, under one lock.
struct Shared {
    state: ManifestState,
    /// `None` for a read-only database.
    manifest: Option<ManifestLog>,
    /// The manifest has the samples of the time up to this number.
    saved_seq: Seq,
    families: BTreeMap<u32, Arc<FamilyCore>>,
    jobs: Jobs,
    /// Tables that compactions leave alone, by number.
    damaged: BTreeMap<u64, Damaged>,
    /// Families whose writers are held back, and their pace.
    slow: BTreeMap<u32, Pace>,
    /// Background work fails for lack of space.
    blocked: Option<Error>,
    /// Background work failed for good.
    failed: Option<Error>,
    closing: bool,
    /// Files that nothing refers to, to be deleted.
    doomed: Vec<FileId>,
    /// Checkpoints that are being linked: nothing is deleted meanwhile.
    hold_deletes: usize,
}

impl Shared {
    fn new(state: ManifestState, manifest: Option<ManifestLog>) -> Self {
        Shared {
            saved_seq: state.times.newest().map_or(0, |newest| newest.0),
            state,
            manifest,
            families: BTreeMap::new(),
            jobs: Jobs::default(),
            damaged: BTreeMap::new(),
            slow: BTreeMap::new(),
            blocked: None,
            failed: None,
            closing: false,
            doomed: Vec::new(),
            hold_deletes: 0,
        }
    }
}

/// Parts of an open database besides its state.
struct Parts {
    media: Media,
    placer: Arc<Placer>,
    locks: Vec<Box<dyn StoreLock>>,
    pool: Arc<ChunkPool>,
    cache: Arc<Cache>,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    cpu: Arc<CpuRoom>,
    memory: MemoryWatch,
    settings: DbSettings,
    default_family: Family,
    next_number: u64,
}

impl Inner {
    fn new(parts: Parts, state: &ManifestState) -> Self {
        Inner {
            handle: parts.default_family.core.handle,
            process: std::process::id(),
            store: parts.media.store.clone(),
            media: parts.media,
            placer: parts.placer,
            moves: Moves::default(),
            db: state.db,
            division: Division::new(&parts.settings),
            settings: parts.settings,
            clock: parts.clock,
            cpu: parts.cpu,
            memory: parts.memory,
            throttle: Throttle::default(),
            cache: parts.cache,
            pool: parts.pool,
            logs: Logs::new(&parts.ledger),
            ledger: parts.ledger,
            statistics: Arc::new(Statistics::default()),
            default_family: parts.default_family,
            queue: WriteQueue::default(),
            write_state: Mutex::new(WriteState::new(0)),
            shared: Mutex::new(Shared::new(state.clone(), None)),
            changed: Condvar::new(),
            work: Condvar::new(),
            threads: Threads::default(),
            packers: Arc::default(),
            snapshots: Arc::default(),
            visible: AtomicU64::new(0),
            next_number: AtomicU64::new(parts.next_number),
            pressure: Pressure::default(),
            ticked_ns: AtomicU64::new(0),
            sampling: Sampling::default(),
            obsolete: Obsolete::default(),
            end: End::default(),
            torn_manifest: AtomicBool::new(false),
            space: FreeSpace::default(),
            deleted: AtomicBool::new(false),
            recovery: Mutex::default(),
            locks: Mutex::new(parts.locks),
        }
    }

    /// Writes up to this number are visible.
    #[inline]
    fn visible(&self) -> Seq {
        self.visible.load(Ordering::Acquire)
    }

    /// A file number that was never used.
    fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Numbers below this have been given out.
    fn peek_number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// Returns whether the writer does the work, for lack of background threads.
    fn inline(&self) -> bool {
        self.settings.max_background_jobs == 0
    }

    /// Refuses calls that write or wait within code of the user for which this database waits.
    #[inline]
    fn check_outside(&self) -> Result<()> {
        callback::check_outside(self.handle)
    }

    /// Refuses a family that was dropped, or that is another database's: numbers of families mean nothing there. Refuses all within a
    /// clock.
    fn check_family(&self, family: &Family) -> Result<()> {
        callback::check_readable()?;
        let core = &family.core;
        if core.handle != self.handle {
            return Err(Error::invalid(format!("column family {:?} belongs to another open database", core.name)));
        }
        if core.dropped.load(Ordering::Acquire) {
            return Err(Error::invalid(format!("column family {:?} was dropped", core.name)));
        }
        Ok(())
    }

    /// Stops all work, makes what is in the log durable and lets the next opener in.
    fn shut_down(&self) -> Result<()> {
        self.shut_down_in(std::process::id())
    }

    /// [`Inner::shut_down`] in this process. In a forked child it does nothing: files and lock are the parent's, and the child has none of
    /// the threads.
    fn shut_down_in(&self, process: u32) -> Result<()> {
        if process != self.process {
            return Err(Error::Closed("the database belongs to the process that opened it".into()));
        }
        // Unlogged writes would be lost although the close was clean.
        let flushed = if self.logs.unlogged.load(Ordering::Acquire) && !self.end.is_over() { self.flush_all() } else { Ok(()) };
        self.shared.lock().closing = true;
        self.end.stop_jobs.store(true, Ordering::Release);
        self.work.notify_all();
        self.changed.notify_all();
        self.threads.join();
        self.set_by_hand(true);
        self.packers.end();
        self.obsolete.clear();
        if !self.end.is_over() {
            self.delete_doomed();
        }
        let synced = self.lead_in_turn(|state| {
            if self.end.is_over() {
                // A thread that was writing or syncing when the handle ended may not go on beside the next opener.
                drop(self.logs.turn.lock());
                return Ok(());
            }
            // Unflushed data must not look as young as the next open.
            self.take_sample(&mut self.shared.lock());
            let synced = self.sync_log(state).and_then(|()| {
                let recorded = self.record_log_lengths(state);
                if let Some(log) = state.log.take() {
                    self.close_segment(log);
                }
                recorded
            });
            self.end.set(end::CLOSED);
            synced
        });
        let mut shared = self.shared.lock();
        // Manual compactions run in the threads of their callers; they have been told to stop.
        while shared.jobs.running > 0 {
            self.changed.wait_for(&mut shared, Duration::from_millis(100));
        }
        // Nothing will be created, logged or deleted any more that the next opener could not bear.
        self.locks.lock().clear();
        shared.failed.clone().map_or(synced, Err).and(flushed).and(self.check_undamaged(&shared, None))
    }
}

/// State that the clones of a [`Db`] share. Threads hold `Inner` while they wait for work, so the end of the last handle has to be noticed
/// here: it stops them, and then nothing keeps the store locked.
struct Handle(Arc<Inner>);

impl std::ops::Deref for Handle {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left who could be told of an error; `Db::close` reports them.
        match self.check_outside() {
            Ok(()) => drop(self.shut_down()),
            Err(_) => background::close_beside(&self.0),
        }
    }
}

impl Db {
    /// Opens the database in a directory with default settings, creating it if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder().open(path)
    }

    /// More ways to open.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The report of recovery when the database was opened, with the parts that it cut. A read-only open tells what an open for writing
    /// would cut.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.recovery.lock().clone()
    }

    /// A moment to read at, across all families.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.take_snapshot()
    }

    /// The family that always exists.
    pub fn default_family(&self) -> Family {
        self.inner.default_family.clone()
    }

    /// A family by name.
    pub fn family(&self, name: &str) -> Option<Family> {
        self.families().into_iter().find(|f| f.name() == name)
    }

    /// All families, by id.
    pub fn families(&self) -> Vec<Family> {
        if !callback::is_readable() {
            return Vec::new();
        }
        self.inner.shared.lock().families.values().map(|core| Family { core: core.clone() }).collect()
    }

    /// Syncs the log, stops the threads and closes the database for all handles; reads through them go on working. A failure of
    /// background work that nobody was told of is reported here, damaged tables that compactions met included. Memtables are not flushed,
    /// because the log has them, unless they hold unlogged writes.
    pub fn close(self) -> Result<()> {
        self.inner.check_outside()?;
        self.inner.shut_down()
    }
}
