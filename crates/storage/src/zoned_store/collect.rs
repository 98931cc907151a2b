//! The collector: empties zones with dead bytes when space is short, by moving their live files. `victim` picks the zone.
//!
//! Copies are flushed before the metadata points to them, and the metadata is flushed before the originals count as dead. A crash before
//! the first flush is fine because nothing points to the copies; a crash before the second is fine because both copies hold the bytes.
//!
//! Only sealed tables are moved. A zone with a log in it waits until the log is gone.

use super::allocate::Want;
use super::figures::Written;
use super::file::{FileBytes, Piece, is_framed};
use super::format::FileLocation;
use super::reader::read;
use super::slot::{Condition, ZoneSlot};
use super::victim::{Collection, Victim, ZENFS_START};
use super::volume::{SharedFile, State, Volume};
use super::{Options, failed, of_number};
use crate::store::{ByLifetime, FileId, Lifetime, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes copied at once.
const COPY: usize = 1 << 20;

/// Interval at which `rest` checks the state again.
const LOOK: Duration = Duration::from_millis(100);

/// Number of zones in which a copy may fail before the collector gives up.
const ATTEMPTS: u32 = 3;

/// A file being moved, with its pieces after the move.
struct Moved {
    cell: Arc<SharedFile>,
    pieces: Vec<Piece>,
}

/// Destination of copies.
struct CopyTarget<'a> {
    volume: &'a Volume,
    zone: Option<u32>,
}

impl Drop for CopyTarget<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl State {
    fn victims(&self) -> Vec<Victim> {
        let movable = |id: &FileId| !is_framed(*id) && self.names.get(id).is_some_and(|cell| self.is_sealed(cell));
        let free = |slot: &ZoneSlot| slot.writers == 0 && !slot.busy && !slot.stuck && slot.valid > 0;
        let used = |slot: &ZoneSlot| matches!(slot.condition, Condition::Open | Condition::Full | Condition::Ended);
        let zones = (0u32..).zip(&self.zones).filter(|(_, slot)| used(slot) && free(slot));
        zones
            .filter(|(_, slot)| slot.tenants.keys().all(movable))
            .map(|(zone, slot)| Victim {
                zone,
                // A zone that is not full gains only its written bytes.
                capacity: if slot.condition == Condition::Open { slot.written } else { slot.capacity },
                valid: slot.valid,
                full: slot.condition != Condition::Open,
                age: self.clock.saturating_sub(slot.touched),
                left: (slot.death as u64).saturating_sub(self.clock),
            })
            .collect()
    }

    /// Dead bytes in the zone, by the lifetime of the files that they belonged to.
    fn dead_of(&self, zone: u32) -> ByLifetime {
        let Some(slot) = self.zones.get(zone as usize) else { return ByLifetime::default() };
        let mut living = ByLifetime::default();
        for (id, bytes) in &slot.tenants {
            living.add(self.names.get(id).map_or(Lifetime::Unknown, |cell| of_number(cell.about.lifetime)), *bytes);
        }
        slot.filled.since(&living)
    }

    fn is_sealed(&self, cell: &SharedFile) -> bool {
        self.catalog.files.get(&cell.id).is_some_and(|record| record.place.sealed)
    }

    /// ZenFS's measure of free space: unwritten bytes as a share of the sum of unwritten bytes, live bytes, and dead bytes in full zones.
    fn free_share(&self) -> f64 {
        let (free, taken) = self.zones.iter().fold((0, 0), |(free, taken), slot| match slot.condition {
            Condition::Empty => (free + slot.capacity, taken),
            Condition::Open => (free + slot.room(), taken + slot.valid),
            Condition::Full | Condition::Ended => (free, taken + slot.capacity),
            Condition::ReadOnly | Condition::Offline | Condition::Reserved => (free, taken),
        });
        free as f64 / (free + taken).max(1) as f64
    }

    /// Returns whether the collector should work: a writer waits, or space is short and the pace allows another move. Not if the collector
    /// found nothing to do and nothing has changed since.
    pub(super) fn wants_collection(&self, options: &Options) -> bool {
        let space = self.space();
        let low = options.reserve.saturating_add((space.zones / 32).max(1));
        let short = match options.collection {
            Collection::Zenfs => self.free_share() <= ZENFS_START,
            _ => space.empty <= low,
        };
        self.idle != Some(self.epoch) && (self.waiting > 0 || short && self.credit > 0.0)
    }
}

impl Volume {
    /// Empties one zone. False if no zone is worth it, or there is no space for its live bytes.
    pub(super) fn collect(&self) -> Result<bool> {
        self.check_alive("collect")?;
        let (zone, cells, dead) = {
            let mut state = self.state.lock();
            let Some(zone) = self.options.collection.victim(&state.victims(), state.free_share()) else { return Ok(false) };
            let dead = state.dead_of(zone);
            let Some(slot) = state.zones.get_mut(zone as usize) else { return Ok(false) };
            slot.busy = true;
            let tenants: Vec<FileId> = slot.tenants.keys().copied().collect();
            let cells: Vec<Arc<SharedFile>> = tenants.iter().filter_map(|id| state.names.get(id).cloned()).collect();
            (zone, cells, dead)
        };
        let outcome = self.empty_zone(zone, &cells);
        let mut state = self.state.lock();
        if let Some(slot) = state.zones.get_mut(zone as usize) {
            slot.busy = false;
            // A zone that failed for lack of space may be tried again later; any other failure would be repeated.
            slot.stuck = outcome.as_ref().is_err_and(|error| !error.is_no_space());
        }
        if outcome.is_ok() {
            let lifetime = state.catalog.zones.get(zone as usize).map_or(0, |note| note.lifetime);
            state.figures.collected.add(of_number(lifetime), 1);
            dead.lines().for_each(|(lifetime, bytes)| state.figures.collected_dead.add(lifetime, bytes));
            state.figures.moved_tables += cells.len() as u64;
            state.due.push(zone);
            state.stir();
        }
        drop(state);
        // Dropped without the state's lock: for a file deleted meanwhile, dropping the last reference frees its space and takes the lock.
        drop(cells);
        self.reset_due();
        self.check_alive("collect")?;
        Ok(outcome.is_ok())
    }

    fn empty_zone(&self, zone: u32, cells: &[Arc<SharedFile>]) -> Result<()> {
        let mut target = CopyTarget { volume: self, zone: None };
        let mut moved = Vec::new();
        let copied = cells.iter().try_for_each(|cell| {
            moved.push(Moved { cell: Arc::clone(cell), pieces: Vec::new() });
            match moved.last_mut() {
                Some(moved) => target.copy(zone, moved),
                None => Ok(()),
            }
        });
        let copied = copied.and_then(|()| self.flush());
        if let Err(error) = copied {
            moved.iter().for_each(|moved| self.recount(&moved.cell, &moved.pieces));
            return Err(error);
        }
        for Moved { cell, pieces } in &moved {
            // Waits for readers of the old place; later readers read the new one.
            let mut content = cell.content.write();
            let old = std::mem::replace(&mut content.pieces, pieces.clone());
            let place = FileLocation { sealed: true, length: content.written, ranges: content.ranges() };
            drop(content);
            self.state.lock().lies(cell.id, place);
            // The old place stays counted until the metadata is durable, because the zone is busy.
            self.recount(cell, &old);
        }
        self.commit_durably()
    }

    /// Counts anew the bytes of a file in each zone of its present pieces and of its `old` ones.
    fn recount(&self, cell: &SharedFile, old: &[Piece]) {
        let content = cell.content.read();
        let mut zones: BTreeSet<u32> = content.zones().into_iter().collect();
        zones.extend(old.iter().map(|piece| piece.zone));
        let mut state = self.state.lock();
        for zone in zones {
            let here = content.pieces.iter().filter(|piece| piece.zone == zone);
            let bytes = here.map(|piece| piece.len.next_multiple_of(self.block)).sum();
            if let Some(slot) = state.zones.get_mut(zone as usize) {
                slot.set(cell.id, bytes);
            }
        }
    }

    /// Resets zones that are due, and collects while space is short.
    pub(super) fn tidy(&self) -> Result<()> {
        self.reset_due();
        while self.state.lock().wants_collection(&self.options) {
            if !self.collect()? {
                let mut state = self.state.lock();
                state.idle = Some(state.epoch);
                drop(state);
                self.room.notify_all();
            }
        }
        Ok(())
    }
}

impl Volume {
    /// Makes deletions durable and waits until the thread has no more work; does the work itself if there is no thread.
    pub(super) fn rest(&self) -> Result<()> {
        self.commit_durably()?;
        if !self.kept.load(Ordering::Acquire) {
            return self.tidy();
        }
        let mut state = self.state.lock();
        while state.zones.iter().any(|slot| slot.busy) || !state.due.is_empty() || state.wants_collection(&self.options) {
            self.check_alive("settle")?;
            self.work.notify_all();
            self.room.wait_for(&mut state, LOOK);
        }
        Ok(())
    }
}

impl CopyTarget<'_> {
    fn leave(&mut self) {
        if let Some(zone) = self.zone.take() {
            self.volume.leave(zone, true);
        }
    }

    /// Copies the bytes that a file has in `zone` to other zones.
    fn copy(&mut self, zone: u32, moved: &mut Moved) -> Result<()> {
        let pieces = moved.cell.content.read().pieces.clone();
        let mut fresh = FileBytes::default();
        let mut buffer = Vec::new();
        for piece in pieces {
            if piece.zone != zone {
                fresh.push(piece.zone, piece.at, piece.len);
                continue;
            }
            let mut done = 0;
            while done < piece.len {
                let part = usize::try_from(piece.len - done).unwrap_or(COPY).min(COPY);
                let block = self.volume.block as usize;
                buffer.resize(part.next_multiple_of(block), 0);
                read(self.volume, zone, piece.at + done, &mut buffer)?;
                if let Some(padding) = buffer.get_mut(part..) {
                    padding.fill(0);
                }
                let placed = self.write(&moved.cell, &buffer, part as u64, &mut fresh);
                moved.pieces.clone_from(&fresh.pieces);
                placed?;
                done += part as u64;
            }
        }
        moved.pieces = fresh.pieces;
        Ok(())
    }

    /// Writes whole blocks, of which `data` bytes belong to the file.
    fn write(&mut self, cell: &SharedFile, mut blocks: &[u8], mut data: u64, fresh: &mut FileBytes) -> Result<()> {
        let volume = self.volume;
        let mut attempts = 0;
        while !blocks.is_empty() {
            let zone = self.zone(cell)?;
            let Some(head) = volume.heads.get(zone as usize) else { return Err(super::place::no_space("collect")) };
            let capacity = volume.state.lock().zones.get(zone as usize).map_or(0, |slot| slot.capacity);
            let mut head = head.lock();
            let at = *head;
            let (now, later) = blocks.split_at(blocks.len().min(usize::try_from(capacity.saturating_sub(at)).unwrap_or(usize::MAX)));
            if now.is_empty() {
                drop(head);
                self.leave();
                continue;
            }
            if let Err(error) = volume.device.write(zone, at, now) {
                drop(head);
                attempts += 1;
                volume.end_zone(zone);
                self.leave();
                if attempts == ATTEMPTS {
                    return Err(failed("collect", error));
                }
                continue;
            }
            *head += now.len() as u64;
            let end = *head;
            drop(head);
            let bytes = data.min(now.len() as u64);
            let written = Written { data: bytes, framing: 0, padding: now.len() as u64 - bytes };
            volume.wrote(zone, cell, None, written, end);
            fresh.push(zone, at, bytes);
            (blocks, data) = (later, data - bytes);
        }
        Ok(())
    }

    fn zone(&mut self, cell: &SharedFile) -> Result<u32> {
        if let Some(zone) = self.zone {
            return Ok(zone);
        }
        let about = &cell.about;
        let now = self.volume.state.lock().clock;
        let (lifetime, level) = (about.lifetime, about.level);
        // A file that outlived its expected death is expected to live as long again as it has lived.
        let death = about.death.max(now + now.saturating_sub(about.born));
        let life = death.saturating_sub(about.born);
        let zone = self.volume.acquire(&Want { lifetime, level, log: false, moving: true, now, death, life })?;
        self.zone = Some(zone);
        Ok(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Cause, Hint, Store};
    use crate::zoned::{Emulator, Geometry, ZonedDevice};
    use crate::zoned_store::{Allocation, Reset, VolumeId, ZonedStore};

    fn store(background: bool) -> ZonedStore {
        let geometry = Geometry { block: 512, zones: 24, zone_size: 64 << 10, max_open: None, max_active: None, conventional: 0 };
        let device: Arc<dyn ZonedDevice> = Arc::new(Emulator::memory(geometry, 64 << 10).unwrap());
        let (allocation, reset) = (Allocation::Zenfs { tokens: true }, Reset::Eager);
        ZonedStore::format(device, VolumeId([7; 16]), Options { allocation, reset, background, ..Options::default() }).unwrap()
    }

    fn put(store: &ZonedStore, id: FileId, lifetime: Lifetime, length: usize) {
        let mut file = store.create(id, &Hint { lifetime, ..Hint::new(Cause::Flush) }).unwrap();
        file.append(&vec![1; length]).unwrap();
        file.seal().unwrap();
    }

    /// ZenFS puts files beside longer lives, so one zone has files of three lifetimes.
    #[test]
    fn a_collected_zone_is_counted_by_lifetimes() {
        let store = store(false);
        let [first, second, third] = [1, 2, 3].map(FileId::table);
        put(&store, first, Lifetime::Extreme, 40 << 10);
        put(&store, second, Lifetime::Medium, 3 << 10);
        put(&store, third, Lifetime::Long, 5 << 10);
        [second, third].into_iter().for_each(|id| store.delete(id).unwrap());
        store.sync_names().unwrap();
        assert!(store.volume.collect().unwrap());
        let figures = store.figures();
        let dead = [Lifetime::Medium, Lifetime::Long, Lifetime::Extreme].map(|lifetime| figures.collected_dead.of(lifetime));
        assert_eq!(dead, [3 << 10, 5 << 10, 0]);
        assert_eq!((figures.collected.of(Lifetime::Extreme), figures.collected.total()), (1, 1));
        assert_eq!((figures.moved_tables, figures.moved.total()), (1, 40 << 10));
        assert_eq!((figures.resets.of(Lifetime::Extreme), figures.resets.total(), figures.log_resets), (1, 1, 0));
    }

    /// The log lies in a zone whose first file was a table.
    #[test]
    fn a_zone_with_a_log_is_counted_whatever_its_lifetime() {
        let store = store(false);
        let (table, log) = (FileId::table(1), FileId::log(1));
        put(&store, table, Lifetime::Medium, 3 << 10);
        put(&store, log, Lifetime::Short, 3 << 10);
        store.delete(log).unwrap();
        store.sync_names().unwrap();
        assert_eq!(store.figures().resets.total(), 0);
        store.delete(table).unwrap();
        store.sync_names().unwrap();
        let figures = store.figures();
        assert_eq!((figures.resets.of(Lifetime::Medium), figures.resets.of(Lifetime::Short), figures.log_resets), (1, 0, 1));
        put(&store, FileId::table(2), Lifetime::Medium, 3 << 10);
        store.delete(FileId::table(2)).unwrap();
        store.sync_names().unwrap();
        assert_eq!((store.figures().resets.total(), store.figures().log_resets), (2, 1), "the log was there before the reset");
    }

    #[test]
    fn a_settled_store_has_reset_what_was_due() {
        let store = store(true);
        for number in 1..=20 {
            put(&store, FileId::table(number), Lifetime::Medium, 60 << 10);
            store.delete(FileId::table(number)).unwrap();
            store.settle().unwrap();
            assert_eq!(store.figures().resets.total(), number);
        }
    }
}
