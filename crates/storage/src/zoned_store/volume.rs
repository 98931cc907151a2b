//! The shared parts of a volume's files: its metadata, its zones, and the order in which things become durable.
//!
//! Locks, in the order in which they may be taken: the metadata log, then the state; the content of a file before either. The write
//! pointer of a zone is a lock of its own, under which nothing but the drive is called. Nobody calls the drive under the state's lock.
//!
//! Every change of metadata is an edit: taken into the catalog in memory and put behind the edits that wait for the log, in one step.
//! The log takes all that wait, so what is durable is always a prefix of the edits:
//!
//! * A file's creation is an edit. A crash before it is in the log is fine because the name was not synced.
//! * Where a table lies is an edit once its bytes are with the drive, and one flush then makes both durable. A crash before that may leave
//!   the edit and not the bytes, which is fine because nobody was told that they are durable: recovery takes what there is.
//! * A log file says only in which zone its frames begin, before the flush that makes the first of them durable. Its end is found from the
//!   frames themselves.
//! * A deletion is an edit; the space counts as dead once it is flushed and the last reader has closed, and only then may the zone be
//!   reset. A crash before is fine because everything is still there.
//! * The collector flushes its copies before the edit that points to them, and that edit before the space of the originals counts as dead.

use super::catalog::Catalog;
use super::figures::Figures;
use super::file::Content;
use super::format::{About, Edit, FileLocation, VolumeId};
use super::journal::{Journal, Layout};
use super::lives::Lives;
use super::slot::Slot;
use super::{Options, failed};
use crate::store::{FileId, Result, StoreError};
use crate::zoned::ZonedDevice;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A file, reachable by its name, its readers and its appender alike. The last of them gives back its space, if it is deleted.
pub(super) struct Cell {
    pub(super) id: FileId,
    pub(super) about: About,
    pub(super) content: RwLock<Content>,
    /// The file's creation has gone to the log.
    pub(super) announced: Arc<AtomicBool>,
    /// The file's deletion is durable.
    doomed: AtomicBool,
    volume: Weak<Volume>,
}

impl Cell {
    pub(super) fn new(id: FileId, about: About, content: Content, announced: bool, volume: &Arc<Volume>) -> Arc<Self> {
        Arc::new(Cell {
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

impl Drop for Cell {
    fn drop(&mut self) {
        if *self.doomed.get_mut()
            && let Some(volume) = self.volume.upgrade()
        {
            volume.release(self.id, self.content.get_mut().zones());
        }
    }
}

/// Everything that changes.
pub(super) struct State {
    pub(super) catalog: Catalog,
    pub(super) names: BTreeMap<FileId, Arc<Cell>>,
    pub(super) zones: Vec<Slot>,
    /// Edits that wait for the log, encoded.
    pending: Vec<u8>,
    /// Set when the creations that wait now go to the log.
    announced: Vec<Arc<AtomicBool>>,
    /// Files whose deletion waits for the log.
    leaving: Vec<Arc<Cell>>,
    /// Files whose deletion is in the log, in the frame of that sequence, and not flushed yet.
    left: Vec<(u64, Arc<Cell>)>,
    /// Bytes that the host has written in the volume's life: its clock.
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
    pub(super) fn new(catalog: Catalog, zones: Vec<Slot>) -> Self {
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

    /// Takes an edit in, here and, with the next frame, in the log.
    pub(super) fn log(&mut self, edit: &Edit) {
        let fits = self.catalog.apply(edit);
        debug_assert_eq!(fits, Ok(()), "{edit:?}");
        edit.encode(&mut self.pending);
    }

    /// Says where a file lies, if it still has a name.
    pub(super) fn lies(&mut self, id: FileId, place: FileLocation) {
        if self.catalog.files.contains_key(&id) {
            self.log(&Edit::Lies { id, place });
        }
    }

    /// A new name. `announced` is set when the log has it.
    pub(super) fn enter(&mut self, cell: Arc<Cell>) {
        self.log(&Edit::Create { id: cell.id, about: cell.about.clone() });
        self.announced.push(Arc::clone(&cell.announced));
        self.names.insert(cell.id, cell);
    }

    /// Takes a name away.
    pub(super) fn leave(&mut self, cell: Arc<Cell>) {
        self.lives.observe(&cell.about, self.clock);
        self.log(&Edit::Delete { id: cell.id });
        self.names.remove(&cell.id);
        self.leaving.push(cell);
    }

    /// Deletions of which the drive does not know for sure yet.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty() || !self.left.is_empty()
    }

    /// Notes that space may have become free.
    pub(super) fn stir(&mut self) {
        self.epoch += 1;
    }

    /// Takes the edits that go to the log now. The creations among them count as announced from here on, so that whoever changes such a
    /// file makes an edit of its own; set under the lock, so that nobody falls between the two.
    fn take_pending(&mut self) -> (Vec<u8>, Vec<Arc<Cell>>) {
        self.announced.drain(..).for_each(|announced| announced.store(true, Ordering::Release));
        self.catalog.clock = self.clock;
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.leaving))
    }
}

/// One flush of the drive for all who wait for one.
#[derive(Default)]
struct Flusher {
    turns: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Default)]
struct Turns {
    begun: u64,
    done: u64,
    running: bool,
    failed: bool,
}

impl Flusher {
    /// Returns when a flush that began after this call has ended. After one that failed there is no other.
    fn flush(&self, device: &dyn ZonedDevice) -> Result<()> {
        let mut turns = self.turns.lock();
        let mine = turns.begun + 1;
        loop {
            if turns.failed {
                return Err(StoreError::store("flush", io::Error::other("an earlier flush of the drive failed")));
            }
            if turns.done >= mine {
                return Ok(());
            }
            if turns.running {
                self.ended.wait(&mut turns);
                continue;
            }
            turns.begun += 1;
            turns.running = true;
            let number = turns.begun;
            drop(turns);
            let outcome = device.flush();
            turns = self.turns.lock();
            turns.running = false;
            turns.failed |= outcome.is_err();
            turns.done = number;
            self.ended.notify_all();
            return outcome.map_err(|e| failed("flush", e));
        }
    }
}

pub(super) struct Volume {
    pub(super) device: Arc<dyn ZonedDevice>,
    pub(super) id: VolumeId,
    pub(super) layout: Layout,
    pub(super) block: u64,
    pub(super) options: Options,
    pub(super) state: Mutex<State>,
    /// The epoch has gone on, or the collector has given up.
    pub(super) room: Condvar,
    /// There is something to reset or to collect.
    pub(super) work: Condvar,
    journal: Mutex<Journal>,
    /// Longest snapshot, bytes.
    pub(super) snapshot_limit: usize,
    flusher: Flusher,
    /// The write pointer of each zone.
    pub(super) heads: Vec<Mutex<u64>>,
    /// Why there are no more changes: the metadata could not be written, or a flush failed, so that the drive cannot be trusted any more.
    dead: OnceLock<String>,
    /// A thread resets and collects.
    pub(super) kept: AtomicBool,
    /// A database has it.
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
        let snapshot_limit = journal.snapshot_limit()?;
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
            flusher: Flusher::default(),
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
            // Writers that found the volume alive under this lock wait by now, and are woken. The journal may be held, which comes before
            // it.
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
        // A failed write ends the zone and with it the region; the other one takes over.
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

    fn roll(&self, journal: &mut Journal, mut leaving: Vec<Arc<Cell>>) -> Result<()> {
        let worn = self.outcome(journal.to_empty())?;
        let snapshot = {
            let mut state = self.state.lock();
            // The snapshot counts the resets that come with it. If there is a crash before it is whole, some were not counted.
            state.catalog.wear(worn);
            // The catalog has them, and the snapshot with it.
            leaving.extend(state.take_pending().1);
            state.catalog.snapshot(self.device.geometry(), self.layout.zones)
        };
        self.outcome(journal.roll(&snapshot))?;
        self.logged(journal, leaving);
        Ok(())
    }

    fn logged(&self, journal: &Journal, leaving: Vec<Arc<Cell>>) {
        let sequence = journal.sequence();
        let mut state = self.state.lock();
        state.figures.journal = journal.figures;
        state.left.extend(leaving.into_iter().map(|cell| (sequence, cell)));
    }

    /// Makes everything durable that is with the drive. Deletions that became durable by it free their space.
    pub(super) fn flush(&self) -> Result<()> {
        self.check_alive("flush")?;
        let (generation, end, sequence) = {
            let journal = self.journal.lock();
            (journal.generation(), journal.end(), journal.sequence())
        };
        self.outcome(self.flusher.flush(&*self.device))?;
        self.journal.lock().flushed(generation, end);
        let gone: Vec<Arc<Cell>> = {
            let mut state = self.state.lock();
            // Ascending, since frames are written one after the other.
            let flushed = state.left.partition_point(|(deleted, _)| *deleted <= sequence);
            state.left.drain(..flushed).map(|(_, cell)| cell).collect()
        };
        // Dropped outside the lock: the last one to let go of a file takes it to give its space back.
        gone.iter().for_each(|cell| cell.doom());
        drop(gone);
        Ok(())
    }

    /// [`Volume::commit`] and [`Volume::flush`].
    pub(super) fn commit_durably(&self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    /// Gives back the space of a file that nobody can reach any more.
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

    /// Ends the wait for free space, one way or the other.
    pub(super) fn wake(&self) {
        self.room.notify_all();
        self.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::{Emulator, Geometry};
    use crate::zoned_store::recover;
    use std::time::Duration;

    /// A flush fails while a writer is about to wait for room: it asked whether the volume is alive and does not wait yet. It was not
    /// woken.
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
}
