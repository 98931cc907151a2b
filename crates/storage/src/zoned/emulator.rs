//! A zoned drive that is none: states, limits and errors as the command set has them, in memory, in a sparse file or on a block device.
//!
//! 1. `rules` decides what a call does to states and pointers; it knows no bytes.
//! 2. Each zone has a lane, which is locked for a call from beginning to end; calls on one zone are served one after the other, calls on
//!    different zones meet only in the rules. A lane is locked before the rules, never after.
//! 3. In memory, each lane keeps what happened since the last flush, so that every state that a power cut may leave can be made
//!    (`crash`). In a file or on a device, states and pointers are kept beside the bytes (`image`; `medium` is what it lies on).
//! 4. Time passes in a sleep that is passed in, by published figures (`latency`); without one nothing waits.

mod content;
mod crash;
mod image;
mod latency;
mod medium;
mod rules;

pub use crash::{Unflushed, ZoneFate};
pub use latency::Latency;

use super::{Geometry, Result, Streams, Zone, ZoneError, ZoneErrorKind, ZoneState, ZonedDevice};
use crate::store::{self, CrashMode, EIO, Sleep, StoreError, StoreLock};
use content::ZoneBytes;
use crash::History;
use image::{Boot, Durable, Image};
use latency::{Owed, Pace};
use parking_lot::{Mutex, RwLock};
use rules::{Rules, ZoneRecord};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A call that is about to reach the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Name of the method of [`ZonedDevice`].
    pub operation: &'static str,
    /// Zone; `None` for a flush.
    pub zone: Option<u32>,
    /// Bytes that the call carries.
    pub length: u64,
}

impl Call {
    /// True if the call may change the bytes on the drive, or how many of them are durable.
    pub fn mutates(&self) -> bool {
        self.operation != "read"
    }
}

/// Fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneFault {
    /// The call does nothing and fails.
    Refuse(ZoneErrorKind),
    /// Bytes of a write or an append that arrive, cut to whole blocks; then the call fails with [`ZoneErrorKind::Io`]. Any other call
    /// happens in full and fails.
    Cut(u64),
}

/// Asked before every call but reports, with nothing locked.
pub type ZoneHook = Arc<dyn Fn(&Call) -> Option<ZoneFault> + Send + Sync>;

/// Counters of a drive since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes written and appended.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes with which finishing filled zones.
    pub padded: u64,
    /// Zones that were finished before they were full.
    pub finishes: u64,
    /// Zones that were emptied; resets of empty zones do not count.
    pub resets: u64,
    /// Bytes of capacity that were not written when their zone was emptied; bytes that finishing filled count as written.
    pub unwritten_at_reset: u64,
    /// Flushes.
    pub flushes: u64,
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    read: AtomicU64,
    padded: AtomicU64,
    finishes: AtomicU64,
    resets: AtomicU64,
    unwritten_at_reset: AtomicU64,
    flushes: AtomicU64,
}

/// One zone's bytes and its past since the last flush; both empty for a drive in a file.
#[derive(Default)]
struct Lane {
    content: ZoneBytes,
    history: History,
    owed: Owed,
}

/// States of all zones, and their durable part (in a file).
struct States {
    rules: Rules,
    durable: Vec<Durable>,
}

/// The emulated drive.
pub struct Emulator {
    geometry: Geometry,
    lanes: Vec<RwLock<Lane>>,
    states: Mutex<States>,
    image: Option<Image>,
    counters: Counters,
    pace: Option<Pace>,
    hook: Mutex<Option<ZoneHook>>,
    locked: Arc<AtomicBool>,
}

fn check_shape(geometry: &Geometry, capacity: u64) -> io::Result<()> {
    let Geometry { block, zones, zone_size, max_open, max_active, conventional } = *geometry;
    let complaint = if !block.is_power_of_two() || !(512..=65_536).contains(&block) {
        "a block is a power of two from 512 to 65,536 bytes"
    } else if zones == 0 || conventional > zones {
        "a drive has at least one zone, and no more conventional ones than all"
    } else if zone_size == 0 || !zone_size.is_multiple_of(u64::from(block)) {
        "zones are whole blocks"
    } else if u64::from(zones).checked_mul(zone_size).is_none_or(|all| i64::try_from(all).is_err()) {
        "a drive has less than 8 EiB"
    } else if capacity == 0 || capacity > zone_size || !capacity.is_multiple_of(u64::from(block)) {
        "the capacity is whole blocks, at most the size of a zone"
    } else if max_open == Some(0) || max_active == Some(0) {
        "at least one zone can be open"
    } else if max_active.is_some_and(|active| max_open.is_some_and(|open| open > active)) {
        "no more zones can be open than active"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, complaint))
}

impl Emulator {
    /// An empty drive in memory, all zones of one capacity (in bytes). Fails if the shape is impossible.
    pub fn memory(geometry: Geometry, capacity: u64) -> store::Result<Self> {
        check_shape(&geometry, capacity).map_err(|e| StoreError::store("make emulated drive", e))?;
        let rules = Rules::new(&geometry, capacity);
        Ok(Emulator::new(geometry, rules, Vec::new(), None))
    }

    /// An empty drive in the sparse file `path` and a small one beside it, neither of which may exist.
    pub fn create(path: impl AsRef<Path>, geometry: Geometry, capacity: u64) -> store::Result<Self> {
        let path = path.as_ref();
        check_shape(&geometry, capacity).map_err(|e| StoreError::store("make emulated drive", e))?;
        let rules = Rules::new(&geometry, capacity);
        let image = Image::create(path, &geometry, rules.records()).map_err(|e| StoreError::store("make emulated drive", e))?;
        let durable = vec![Durable::default(); geometry.zones as usize];
        Ok(Emulator::new(geometry, rules, durable, Some(image)))
    }

    /// An empty drive on the block device `path`, which has no zones of its own. Unless `over`, nothing may be on the device
    /// (`AlreadyExists`); it must be large enough for the zones and what is kept of them (`InvalidInput`), and nobody else may have it
    /// ([`StoreError::is_locked`]).
    pub fn create_on(path: impl AsRef<Path>, geometry: Geometry, capacity: u64, over: bool) -> store::Result<Self> {
        let path = path.as_ref();
        check_shape(&geometry, capacity).map_err(|e| StoreError::store("make emulated drive", e))?;
        let rules = Rules::new(&geometry, capacity);
        let image = Image::create_on(path, &geometry, rules.records(), over).map_err(|e| unopened("make emulated drive", path, e))?;
        let durable = vec![Durable::default(); geometry.zones as usize];
        Ok(Emulator::new(geometry, rules, durable, Some(image)))
    }

    /// Leaves it to the system when the drive's files are written: everything is there if this process dies, and anything may be lost if
    /// the machine does. For measurements, whose drives nobody opens again.
    #[must_use]
    pub fn unsynced(mut self) -> Self {
        if let Some(image) = &mut self.image {
            image.synced = false;
        }
        self
    }

    /// The drive in the file or on the device `path`, switched on: no zone is open. Bytes that were not flushed are lost if the machine
    /// went down since. One process has it at a time; [`StoreError::is_locked`] if that is another.
    pub fn open(path: impl AsRef<Path>) -> store::Result<Self> {
        let boot = image::this_boot(path.as_ref()).map_err(|e| unopened("open emulated drive", path.as_ref(), e))?;
        Emulator::open_at(path.as_ref(), &boot)
    }

    /// [`Emulator::open`] as if the machine had gone down since: with what was flushed, and resets, and nothing else.
    pub fn open_after_power_cut(path: impl AsRef<Path>) -> store::Result<Self> {
        let mut boot = image::this_boot(path.as_ref()).map_err(|e| unopened("open emulated drive", path.as_ref(), e))?;
        // Another boot to the drive, which then is opened once more with the true one.
        boot[0] = !boot[0];
        drop(Emulator::open_at(path.as_ref(), &boot)?);
        Emulator::open(path)
    }

    /// Whether `path` is such a drive: a file by the header of the one beside it, even if its own bytes are missing, a device by its own.
    pub fn is_image(path: impl AsRef<Path>) -> bool {
        image::is_image(path.as_ref())
    }

    /// Removes the drive in the file `path`, which must be one ([`Emulator::is_image`]), damaged or not, and not in use; a device is
    /// none any more.
    pub fn remove(path: impl AsRef<Path>) -> store::Result<()> {
        let path = path.as_ref();
        let (held, _bytes) = image::hold(path).map_err(|e| unopened("open emulated drive", path, e))?;
        image::remove(path, &held).map_err(|e| explain("remove emulated drive", path, e))
    }

    fn open_at(path: &Path, boot: &Boot) -> store::Result<Self> {
        let (image, geometry, zones) = Image::open(path, boot).map_err(|e| unopened("open emulated drive", path, e))?;
        let (records, durable): (Vec<_>, Vec<_>) = zones.into_iter().unzip();
        let rules = Rules::restore(&geometry, records);
        Ok(Emulator::new(geometry, rules, durable, Some(image)))
    }

    fn new(geometry: Geometry, rules: Rules, durable: Vec<Durable>, image: Option<Image>) -> Self {
        Emulator {
            lanes: (0..geometry.zones).map(|_| RwLock::default()).collect(),
            geometry,
            states: Mutex::new(States { rules, durable }),
            image,
            counters: Counters::default(),
            pace: None,
            hook: Mutex::new(None),
            locked: Arc::default(),
        }
    }

    /// Makes the drive as slow as a real one: the time of its commands passes in `sleep`, in the calling thread.
    pub fn with_latency(mut self, latency: Latency, sleep: Sleep) -> Self {
        self.pace = Some(Pace::new(latency, sleep));
        self
    }

    /// Sets the hook that is called before every call, or removes it.
    pub fn set_hook(&self, hook: Option<ZoneHook>) {
        *self.hook.lock() = hook;
    }

    /// Breaks a zone for good: [`ZoneState::ReadOnly`] or [`ZoneState::Offline`]. Any other state is refused.
    pub fn break_zone(&self, zone: u32, state: ZoneState) -> Result<()> {
        self.geometry.check_zones("break", zone, 1)?;
        if !matches!(state, ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(ZoneError::refused(ZoneErrorKind::InvalidTransition, "break", zone));
        }
        let _lane = self.lane(zone).write();
        self.change("break", zone, |rules| {
            rules.damage(zone, state);
            Ok(())
        })
    }

    /// Counters since the drive was opened.
    pub fn activity(&self) -> Activity {
        let Counters { written, read, padded, finishes, resets, unwritten_at_reset, flushes } = &self.counters;
        Activity {
            written: written.load(Relaxed),
            read: read.load(Relaxed),
            padded: padded.load(Relaxed),
            finishes: finishes.load(Relaxed),
            resets: resets.load(Relaxed),
            unwritten_at_reset: unwritten_at_reset.load(Relaxed),
            flushes: flushes.load(Relaxed),
        }
    }

    /// How often a zone was emptied since the drive was made; 0 for one that is not there.
    pub fn wear(&self, zone: u32) -> u32 {
        self.states.lock().rules.records().get(zone as usize).map_or(0, |record| record.resets)
    }

    /// The exact state, with what is flushed and what is not: a drive that nobody has opened. Fails for a drive in a file.
    pub fn clone_image(&self) -> store::Result<Emulator> {
        self.copy(|_, record, lane| (record.after_power_cycle(), lane.content.clone(), lane.history.clone()))
    }

    /// The drive after a power cut at this instant, in which `fate` decides how much survives of what was not flushed. This drive is
    /// not changed. In the new one all that is left is durable. Fails for a drive in a file.
    ///
    /// What is left is a state that the drive can be in: where lost resets and finishes would leave more zones active than it can have,
    /// those of the lowest zones are not lost.
    pub fn crash(&self, fate: &mut dyn ZoneFate) -> store::Result<Emulator> {
        let block = u64::from(self.geometry.block);
        let mut active = 0;
        let crashed = self.copy(|zone, record, lane| {
            let steps = lane.history.unflushed(zone).map_or(0, |unflushed| fate.survivors(&unflushed).min(unflushed.steps()));
            let (left, content) = lane.history.after(record, &lane.content, steps, block);
            let left = left.after_power_cycle();
            active += u32::from(left.state.is_active());
            (left, content, History::default())
        })?;
        let Some(max_active) = self.geometry.max_active.filter(|max| active > *max) else { return Ok(crashed) };
        self.copy(|zone, record, lane| {
            let now = record.after_power_cycle();
            let left = *crashed.states.lock().rules.record(zone);
            if active > max_active && left.state.is_active() && !now.state.is_active() {
                active -= 1;
                return (now, lane.content.clone(), History::default());
            }
            (left, crashed.lane(zone).read().content.clone(), History::default())
        })
    }

    /// [`Emulator::crash`] with a ready-made fate; a `u64` is the seed of a random one.
    pub fn crash_with(&self, mode: impl Into<CrashMode>) -> store::Result<Emulator> {
        self.crash(&mut *crash::fate(mode.into()))
    }

    /// A new drive made of each zone at one instant.
    fn copy(&self, mut zone: impl FnMut(u32, ZoneRecord, &Lane) -> (ZoneRecord, ZoneBytes, History)) -> store::Result<Emulator> {
        if self.image.is_some() {
            return Err(StoreError::store("copy emulated drive", io::ErrorKind::Unsupported.into()));
        }
        let lanes: Vec<_> = self.lanes.iter().map(RwLock::read).collect();
        let records = self.states.lock().rules.records().to_vec();
        let mut copies = Vec::with_capacity(lanes.len());
        let mut left = Vec::with_capacity(lanes.len());
        for (index, (lane, record)) in (0..).zip(lanes.iter().zip(records)) {
            let (record, content, history) = zone(index, record, lane);
            left.push(record);
            copies.push(RwLock::new(Lane { content, history, owed: Owed::default() }));
        }
        let rules = Rules::restore(&self.geometry, left);
        let mut copy = Emulator::new(self.geometry.clone(), rules, Vec::new(), None);
        copy.lanes = copies;
        Ok(copy)
    }

    fn lane(&self, zone: u32) -> &RwLock<Lane> {
        &self.lanes[zone as usize]
    }

    /// Asks the hook. `Ok` says how many bytes of a write are to arrive, if not all.
    fn ask(&self, operation: &'static str, zone: Option<u32>, length: u64) -> Result<Option<u64>> {
        let Some(hook) = self.hook.lock().clone() else { return Ok(None) };
        match hook(&Call { operation, zone, length }) {
            None => Ok(None),
            Some(ZoneFault::Refuse(ZoneErrorKind::Io)) => Err(injected(operation, zone)),
            Some(ZoneFault::Refuse(kind)) => Err(ZoneError { kind, zone, operation, source: None }),
            Some(ZoneFault::Cut(bytes)) => Ok(Some(bytes / u64::from(self.geometry.block) * u64::from(self.geometry.block))),
        }
    }

    /// Lets the rules change a zone, and writes down what changed, also when they refuse: an eviction stays.
    fn change<T>(
        &self,
        operation: &'static str,
        zone: u32,
        change: impl FnOnce(&mut Rules) -> std::result::Result<T, ZoneErrorKind>,
    ) -> Result<T> {
        let mut states = self.states.lock();
        let States { rules, durable } = &mut *states;
        let result = change(rules).map_err(|kind| ZoneError::refused(kind, operation, zone));
        let mut kept = Ok(());
        for (touched, record) in rules.take_touched() {
            if let Some(image) = &self.image {
                let durable = &mut durable[touched as usize];
                // A reset: nothing of the zone is to be found again.
                durable.data = durable.data.min(record.data);
                durable.full &= record.state == ZoneState::Full;
                kept = kept.and(image.write_record(touched, &record, *durable));
            }
        }
        kept.map_err(|e| ZoneError::io(operation, Some(zone), e))?;
        result
    }

    fn put(&self, operation: &'static str, zone: u32, at: Option<u64>, bytes: &[u8]) -> Result<u64> {
        self.geometry.check_blocks(operation, zone, at.unwrap_or(0), bytes.len())?;
        let length = bytes.len() as u64;
        let cut = self.ask(operation, Some(zone), length)?;
        let mut lane = self.lane(zone).write();
        let (before, at) = self.change(operation, zone, |rules| {
            let before = *rules.record(zone);
            rules.begin_write(zone, at, length).map(|at| (before, at))
        })?;
        let arrived = cut.map_or(length, |cut| cut.min(length));
        // Not more than `bytes.len()`, so the conversion loses nothing.
        let arriving = &bytes[..arrived as usize];
        match &self.image {
            Some(image) => image.write(zone, at, arriving).map_err(|e| ZoneError::io(operation, Some(zone), e))?,
            None => lane.content.write(at, arriving),
        }
        self.change(operation, zone, |rules| {
            rules.advance(zone, arrived);
            Ok(())
        })?;
        if self.image.is_none() && arrived > 0 {
            lane.history.written(before, arrived / u64::from(self.geometry.block));
        }
        self.counters.written.fetch_add(arrived, Relaxed);
        if let Some(pace) = &self.pace {
            pace.write(&mut lane.owed, operation == "append", !before.state.is_open(), length);
        }
        if cut.is_some() { Err(injected(operation, Some(zone))) } else { Ok(at) }
    }

    /// A command about the whole of a zone: `change` says whether it did something, `then` does the rest.
    fn manage(
        &self,
        operation: &'static str,
        zone: u32,
        change: impl FnOnce(&mut Rules) -> std::result::Result<bool, ZoneErrorKind>,
        then: impl FnOnce(&mut Lane, ZoneRecord) -> io::Result<()>,
        time: impl FnOnce(&Latency, &ZoneRecord) -> std::time::Duration,
    ) -> Result<()> {
        self.geometry.check_zones(operation, zone, 1)?;
        let cut = self.ask(operation, Some(zone), 0)?;
        let mut lane = self.lane(zone).write();
        let (before, changed) = self.change(operation, zone, |rules| {
            let before = *rules.record(zone);
            change(rules).map(|changed| (before, changed))
        })?;
        if changed {
            then(&mut lane, before).map_err(|e| ZoneError::io(operation, Some(zone), e))?;
        }
        if let Some(pace) = &self.pace {
            pace.zone(&mut lane.owed, time(&pace.latency, &before));
        }
        if cut.is_some() { Err(injected(operation, Some(zone))) } else { Ok(()) }
    }

    /// Bytes first, then the counts that vouch for them.
    fn flush_image(&self, image: &Image) -> io::Result<()> {
        let seen: Vec<ZoneRecord> = self.states.lock().rules.records().to_vec();
        image.sync_bytes()?;
        let mut states = self.states.lock();
        let States { rules, durable } = &mut *states;
        for (zone, ((seen, record), durable)) in (0..).zip(seen.iter().zip(rules.records()).zip(durable)) {
            // Another flush may have begun later and ended before.
            let known = durable.or_more(Durable { data: seen.data, full: seen.state == ZoneState::Full });
            // The zone was emptied in the meantime: the bytes seen are gone.
            if seen.resets == record.resets && known != *durable {
                *durable = known;
                image.write_record(zone, record, known)?;
            }
        }
        drop(states);
        image.sync_states()
    }
}

fn injected(operation: &'static str, zone: Option<u32>) -> ZoneError {
    ZoneError::io(operation, zone, io::Error::from_raw_os_error(EIO))
}

fn unopened(operation: &'static str, path: &Path, e: io::Error) -> StoreError {
    let operation = if e.kind() == io::ErrorKind::WouldBlock { "lock" } else { operation };
    explain(operation, path, e)
}

fn explain(operation: &'static str, path: &Path, e: io::Error) -> StoreError {
    StoreError::store(operation, e).named(path.display())
}

impl ZonedDevice for Emulator {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: u32, count: u32) -> Result<Vec<Zone>> {
        self.geometry.check_zones("report", first, count)?;
        let states = self.states.lock();
        Ok((first..first + count).map(|zone| states.rules.report(zone)).collect())
    }

    fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> Result<()> {
        self.put("write", zone, Some(at), bytes).map(|_| ())
    }

    fn append(&self, zone: u32, bytes: &[u8]) -> Result<u64> {
        self.put("append", zone, None, bytes)
    }

    fn read(&self, zone: u32, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.geometry.check_blocks("read", zone, at, buffer.len())?;
        let length = buffer.len() as u64;
        let cut = self.ask("read", Some(zone), length)?;
        let lane = self.lane(zone).read();
        let data = {
            let states = self.states.lock();
            states.rules.check_read(zone, at, length).map_err(|kind| ZoneError::refused(kind, "read", zone))?;
            states.rules.record(zone).data
        };
        // At most the buffer's length, so the conversion loses nothing.
        let known = data.saturating_sub(at).min(length) as usize;
        let (written, rest) = buffer.split_at_mut(known);
        match &self.image {
            Some(image) => image.read(zone, at, written).map_err(|e| ZoneError::io("read", Some(zone), e))?,
            None => lane.content.read(at, written),
        }
        rest.fill(0);
        drop(lane);
        self.counters.read.fetch_add(length, Relaxed);
        if let Some(pace) = &self.pace {
            pace.read(length, u64::from(self.geometry.block));
        }
        if cut.is_some() { Err(injected("read", Some(zone))) } else { Ok(()) }
    }

    fn reset(&self, zone: u32) -> Result<()> {
        let empty = |lane: &mut Lane, before: ZoneRecord| {
            match &self.image {
                Some(image) => {
                    image.sync_states()?;
                    image.discard(zone);
                }
                None => {
                    let content = std::mem::take(&mut lane.content);
                    lane.history.reset(before, content);
                }
            }
            let written = if before.state == ZoneState::Full { before.capacity } else { before.data };
            self.counters.resets.fetch_add(1, Relaxed);
            self.counters.unwritten_at_reset.fetch_add(before.capacity - written, Relaxed);
            Ok(())
        };
        self.manage("reset", zone, |rules| rules.reset(zone), empty, Latency::reset_of)
    }

    fn finish(&self, zone: u32) -> Result<()> {
        let fill = |lane: &mut Lane, before: ZoneRecord| {
            if self.image.is_none() {
                lane.history.finished(before);
            }
            self.counters.finishes.fetch_add(1, Relaxed);
            self.counters.padded.fetch_add(before.capacity - before.data, Relaxed);
            Ok(())
        };
        self.manage("finish", zone, |rules| rules.finish(zone), fill, Latency::finish_of)
    }

    fn open(&self, zone: u32) -> Result<()> {
        self.manage("open", zone, |rules| rules.open(zone).map(|()| false), |_, _| Ok(()), |latency, _| latency.open)
    }

    fn close(&self, zone: u32) -> Result<()> {
        self.manage("close", zone, |rules| rules.close(zone).map(|()| false), |_, _| Ok(()), |latency, _| latency.close)
    }

    fn flush(&self) -> Result<()> {
        let cut = self.ask("flush", None, 0)?;
        match &self.image {
            Some(image) => self.flush_image(image).map_err(|e| ZoneError::io("flush", None, e))?,
            None => self.lanes.iter().for_each(|lane| lane.write().history.flush()),
        }
        self.counters.flushes.fetch_add(1, Relaxed);
        if let Some(pace) = &self.pace {
            pace.pass(pace.latency.flush);
        }
        if cut.is_some() { Err(injected("flush", None)) } else { Ok(()) }
    }

    fn destine(&self, zone: u32, lifetime: u8) {
        if let Some(image) = &self.image {
            image.destine(zone, lifetime);
        }
    }

    fn streams(&self) -> Streams {
        self.image.as_ref().map(Image::streams).unwrap_or_default()
    }

    fn lock(&self) -> store::Result<Box<dyn StoreLock>> {
        if self.locked.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return Err(StoreError::store("lock", io::ErrorKind::WouldBlock.into()));
        }
        Ok(Box::new(EmulatorLock { locked: Arc::clone(&self.locked) }))
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.states.lock();
        let count = |state| states.rules.records().iter().filter(|record| record.state == state).count();
        let mut list = f.debug_struct("Emulator");
        list.field("geometry", &self.geometry);
        for state in ZoneState::ALL {
            list.field(&format!("{state:?}"), &count(state));
        }
        list.finish()
    }
}

struct EmulatorLock {
    locked: Arc<AtomicBool>,
}

impl StoreLock for EmulatorLock {}

impl fmt::Debug for EmulatorLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmulatorLock")
    }
}

impl Drop for EmulatorLock {
    fn drop(&mut self) {
        self.locked.store(false, std::sync::atomic::Ordering::Release);
    }
}
