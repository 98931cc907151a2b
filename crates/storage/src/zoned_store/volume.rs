//! The state that all files of a volume share: metadata, zones, and the order in which things become durable.
//!
//! Locks, in the order in which they may be taken: the content of a file, the metadata log, the state. The write pointer of a zone is a
//! lock of its own, under which only the drive is called. The drive is never called under the state's lock.
//!
//! Every change of metadata is an edit. In one step it is applied to the catalog in memory and appended to the edits that wait for the
//! metadata log. Each write to the log takes all waiting edits, so the durable edits are always a prefix:
//!
//! * A file's creation is an edit. A crash before it is in the log is fine because the name was not synced.
//! * The location of a table is an edit, made once the drive has the bytes; one flush makes both durable. A crash before the flush may
//!   leave the edit without the bytes. This is fine because nobody was told that they are durable; recovery takes the bytes that are there.
//! * The location of a log file is an edit that says only in which zone its frames begin, made before the flush that makes the first frame
//!   durable. Recovery finds the end of the log from the frames themselves.
//! * A deletion is an edit. The space counts as dead once the edit is flushed and the last reader has closed; only then may the zone be
//!   reset. A crash before that is fine because everything is still there.
//! * The collector flushes its copies before the edit that points to them, and flushes that edit before the originals count as dead.

use super::Options;
use super::catalog::Catalog;
use super::figures::Figures;
use super::file::FileBytes;
use super::flusher::Flusher;
use super::format::{About, Edit, FileLocation, VolumeId};
use super::journal::{Journal, Layout};
use super::lives::Lives;
use super::slot::ZoneSlot;
use crate::store::{FileId, Result, StoreError};
use crate::zoned::ZonedDevice;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A file, shared by its name, its readers and its appender. When a deleted file is dropped by the last of them, its space becomes dead.
pub(super) struct SharedFile {
    pub(super) id: FileId,
    pub(super) about: About,
    pub(super) content: RwLock<FileBytes>,
    /// The file's creation has been written to the metadata log.
    pub(super) announced: Arc<AtomicBool>,
    /// The file's deletion is durable.
    doomed: AtomicBool,
    volume: Weak<Volume>,
}

impl SharedFile {
    pub(super) fn new(id: FileId, about: About, content: FileBytes, announced: bool, volume: &Arc<Volume>) -> Arc<Self> {
        Arc::new(SharedFile {
            id,
            about,
            content: RwLock::new(content),
            announced: Arc::new(AtomicBool::new(announced)),
            doomed: AtomicBool::new(false),
            volume: Arc::downgrade(volume),
        })
    }

    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if *self.doomed.get_mut()
            && let Some(volume) = self.volume.upgrade()
        {
            volume.release(self.id, self.content.get_mut().zones());
        }
    }
}

/// The volume's state that changes while it is open.
pub(super) struct State {
    pub(super) catalog: Catalog,
    pub(super) names: BTreeMap<FileId, Arc<SharedFile>>,
    pub(super) zones: Vec<ZoneSlot>,
    /// Edits that wait for the log, encoded.
    pending: Vec<u8>,
    /// Flags of files whose creation waits for the log; set when it is written.
    announced: Vec<Arc<AtomicBool>>,
    /// Files whose deletion waits for the log.
    leaving: Vec<Arc<SharedFile>>,
    /// Files whose deletion is in the log but not flushed, with the sequence of its frame.
    left: Vec<(u64, Arc<SharedFile>)>,
    /// The volume's clock: bytes that the host has written since the volume was formatted.
    pub(super) clock: u64,
    /// Dead zones that are to be reset.
    pub(super) due: Vec<u32>,
    /// Counts events that may have freed space.
    pub(super) epoch: u64,
    /// The epoch in which the collector last found nothing to do.
    pub(super) idle: Option<u64>,
    /// Number of writers that wait for free space.
    pub(super) waiting: u32,
    /// Bytes that the collector may still move before the next byte of the host.
    pub(super) credit: f64,
    pub(super) lives: Lives,
    pub(super) figures: Figures,
}

impl State {
    pub(super) fn new(catalog: Catalog, zones: Vec<ZoneSlot>) -> Self {
        State {
            clock: catalog.clock,
            catalog,
            names: BTreeMap::new(),
            zones,
            pending: Vec::new(),
            announced: Vec::new(),
            leaving: Vec::new(),
            left: Vec::new(),
            due: Vec::new(),
            epoch: 0,
            idle: None,
            waiting: 0,
            credit: 0.0,
            lives: Lives::default(),
            figures: Figures::default(),
        }
    }

    /// Applies an edit to the catalog and queues it for the next frame of the log.
    pub(super) fn log(&mut self, edit: &Edit) {
        let fits = self.catalog.apply(edit);
        debug_assert_eq!(fits, Ok(()), "{edit:?}");
        edit.encode(&mut self.pending);
    }

    /// Records the location of a file, if the file is not deleted.
    pub(super) fn lies(&mut self, id: FileId, place: FileLocation) {
        if self.catalog.files.contains_key(&id) {
            self.log(&Edit::Lies { id, place });
        }
    }

    /// Adds a new file. Its flag `announced` is set when the creation is written to the log.
    pub(super) fn enter(&mut self, cell: Arc<SharedFile>) {
        self.log(&Edit::Create { id: cell.id, about: cell.about.clone() });
        self.announced.push(Arc::clone(&cell.announced));
        self.names.insert(cell.id, cell);
    }

    /// Deletes a file's name.
    pub(super) fn leave(&mut self, cell: Arc<SharedFile>) {
        self.lives.observe(&cell.about, self.clock);
        self.log(&Edit::Delete { id: cell.id });
        self.names.remove(&cell.id);
        self.leaving.push(cell);
    }

    /// Returns whether there are deletions that are not durable yet.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty() || !self.left.is_empty()
    }

    /// Notes that space may have become free.
    pub(super) fn stir(&mut self) {
        self.epoch += 1;
    }

    /// Takes the edits that will be written to the log now, and the files that they delete. Marks the creations among them as announced
    /// under the state's lock, so that a later change of such a file knows that it has to be committed by itself.
    fn take_pending(&mut self) -> (Vec<u8>, Vec<Arc<SharedFile>>) {
        self.announced.drain(..).for_each(|announced| announced.store(true, Ordering::Release));
        self.catalog.clock = self.clock;
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.leaving))
    }
}

pub(super) struct Volume {
    pub(super) device: Arc<dyn ZonedDevice>,
    pub(super) id: VolumeId,
    pub(super) layout: Layout,
    pub(super) block: u64,
    pub(super) options: Options,
    pub(super) state: Mutex<State>,
    /// Signals that the epoch has advanced, or that the collector found nothing to do.
    pub(super) room: Condvar,
    /// There is something to reset or to collect.
    pub(super) work: Condvar,
    journal: Mutex<Journal>,
    /// Longest snapshot, bytes.
    pub(super) snapshot_limit: usize,
    flusher: Arc<Flusher>,
    /// The write pointer of each zone.
    pub(super) heads: Vec<Mutex<u64>>,
    /// The reason why the volume takes no more changes: the metadata could not be written, or a flush failed.
    dead: OnceLock<String>,
    /// A thread resets and collects.
    pub(super) kept: AtomicBool,
    /// A database has locked the volume.
    pub(super) claimed: Arc<AtomicBool>,
}

impl Volume {
    pub(super) fn new(
        device: Arc<dyn ZonedDevice>,
        id: VolumeId,
        layout: Layout,
        options: Options,
        state: State,
        journal: Journal,
    ) -> Result<Self> {
        let (snapshot_limit, flusher) = (journal.snapshot_limit()?, journal.flusher());
        let reserve = options.kept_reserve(state.space().zones);
        let options = Options { reserve, ..options };
        let heads = state.zones.iter().map(|slot| Mutex::new(slot.written)).collect();
        let block = u64::from(device.geometry().block);
        for (zone, note) in (0..).zip(&state.catalog.zones) {
            device.destine(zone, note.lifetime);
        }
        Ok(Volume {
            device,
            id,
            layout,
            block,
            options,
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
            journal: Mutex::new(journal),
            snapshot_limit,
            flusher,
            heads,
            dead: OnceLock::new(),
            kept: AtomicBool::new(false),
            claimed: Arc::default(),
        })
    }

    pub(super) fn check_alive(&self, operation: &'static str) -> Result<()> {
        match self.dead.get() {
            Some(why) => {
                Err(StoreError::store(operation, io::Error::other(format!("the volume can only be read since this failed: {why}"))))
            }
            None => Ok(()),
        }
    }

    fn outcome<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.dead.get_or_init(|| error.to_string());
            // A writer that found the volume alive holds this lock until it waits. Taking the lock once makes sure that it is woken. The
            // caller may hold the lock of the journal, which comes first in the order.
            drop(self.state.lock());
            self.room.notify_all();
        }
        outcome
    }

    /// Writes the edits that wait into the log; durable after the next flush.
    pub(super) fn commit(&self) -> Result<()> {
        let mut journal = self.journal.lock();
        self.check_alive("write metadata")?;
        let (edits, leaving) = self.state.lock().take_pending();
        if edits.is_empty() {
            return Ok(());
        }
        // After a failed write nothing more can be appended to the region, so the log changes to the other one.
        if !journal.append(&edits).unwrap_or(false) {
            return self.roll(&mut journal, leaving);
        }
        self.logged(&journal, leaving);
        Ok(())
    }

    /// Writes a snapshot of everything into the other region, durably.
    pub(super) fn checkpoint(&self) -> Result<()> {
        let mut journal = self.journal.lock();
        self.roll(&mut journal, Vec::new())
    }

    fn roll(&self, journal: &mut Journal, mut leaving: Vec<Arc<SharedFile>>) -> Result<()> {
        let worn = self.outcome(journal.to_empty())?;
        let snapshot = {
            let mut state = self.state.lock();
            // The snapshot includes the wear of the resets that `Journal::roll` is about to make. After a crash before the snapshot is
            // whole, some of them are not counted.
            state.catalog.wear(worn);
            // The pending edits themselves are dropped: the catalog has them, and so has the snapshot.
            leaving.extend(state.take_pending().1);
            state.catalog.snapshot(self.device.geometry(), self.layout.zones)
        };
        self.outcome(journal.roll(&snapshot))?;
        self.logged(journal, leaving);
        Ok(())
    }

    fn logged(&self, journal: &Journal, leaving: Vec<Arc<SharedFile>>) {
        let sequence = journal.sequence();
        let mut state = self.state.lock();
        state.figures.journal = journal.figures;
        state.left.extend(leaving.into_iter().map(|cell| (sequence, cell)));
    }

    /// Makes everything durable that was written to the drive. Space of files whose deletion became durable counts as dead.
    pub(super) fn flush(&self) -> Result<()> {
        self.check_alive("flush")?;
        let (generation, end, sequence) = {
            let journal = self.journal.lock();
            (journal.generation(), journal.end(), journal.sequence())
        };
        self.outcome(self.flusher.flush(&*self.device))?;
        self.journal.lock().flushed(generation, end);
        let gone: Vec<Arc<SharedFile>> = {
            let mut state = self.state.lock();
            // Ascending, since frames are written one after the other.
            let flushed = state.left.partition_point(|(deleted, _)| *deleted <= sequence);
            state.left.drain(..flushed).map(|(_, cell)| cell).collect()
        };
        // Dropped without the state's lock, because dropping the last reference to a file takes it.
        gone.iter().for_each(|cell| cell.doom());
        drop(gone);
        Ok(())
    }

    /// [`Volume::commit`] and [`Volume::flush`].
    pub(super) fn commit_durably(&self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// Turns the space of a deleted file without readers into dead space.
    pub(super) fn release(&self, file: FileId, zones: impl IntoIterator<Item = u32>) {
        let mut state = self.state.lock();
        for zone in zones {
            if let Some(slot) = state.zones.get_mut(zone as usize) {
                slot.remove(file);
            }
            self.consider(&mut state, zone);
        }
        state.stir();
        drop(state);
        self.room.notify_all();
        self.work.notify_one();
    }

    /// Wakes writers that wait for space, and the volume's thread.
    pub(super) fn wake(&self) {
        self.room.notify_all();
        self.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::{Emulator, Geometry, ZoneErrorKind, ZoneFault};
    use crate::zoned_store::recover;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// A flush fails between a writer's check that the volume is alive and its wait for space: the writer must be woken.
    #[test]
    fn a_failure_wakes_who_is_about_to_wait() {
        let geometry = Geometry { block: 512, zones: 24, zone_size: 64 << 10, max_open: None, max_active: None, conventional: 0 };
        let device: Arc<dyn ZonedDevice> = Arc::new(Emulator::memory(geometry, 64 << 10).unwrap());
        let volume = recover::format(&device, VolumeId([7; 16]), Options::default()).unwrap();
        std::thread::scope(|scope| {
            let mut state = volume.state.lock();
            let failing = scope.spawn(|| volume.outcome::<()>(Err(StoreError::store("flush", io::Error::other("it failed")))));
            while volume.check_alive("append").is_ok() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            let waited = volume.room.wait_for(&mut state, Duration::from_secs(60));
            drop(state);
            assert!(!waited.timed_out(), "nobody woke the writer");
            assert!(failing.join().unwrap().is_err());
        });
    }

    /// After a failed flush the drive may have dropped data, and the next flush of the drive reports success. Between the failure of the
    /// log and [`Volume::outcome`], which ends the volume, nobody else may flush.
    #[test]
    fn a_failed_flush_of_the_log_fails_all_later_flushes() {
        let geometry = Geometry { block: 512, zones: 24, zone_size: 64 << 10, max_open: None, max_active: None, conventional: 0 };
        for nth in 0..2 {
            let emulator = Arc::new(Emulator::memory(geometry.clone(), 64 << 10).unwrap());
            let device: Arc<dyn ZonedDevice> = emulator.clone();
            let volume = recover::format(&device, VolumeId([7; 16]), Options::default()).unwrap();
            let flushes = AtomicUsize::new(0);
            emulator.set_hook(Some(Arc::new(move |call| {
                let fails = call.operation == "flush" && flushes.fetch_add(1, Ordering::Relaxed) == nth;
                fails.then_some(ZoneFault::Refuse(ZoneErrorKind::Io))
            })));
            let snapshot = volume.state.lock().catalog.snapshot(&geometry, volume.layout.zones);
            volume.journal.lock().roll(&snapshot).unwrap_err();
            assert!(volume.check_alive("flush").is_ok());
            volume.flush().unwrap_err();
            assert!(volume.check_alive("flush").is_err());
        }
    }
}
