//! Making and opening a volume.
//!
//! Opening reads the metadata and the drive's write pointers. Bytes of a table beyond a write pointer were never acknowledged and are cut.
//! A log that was being written is read frame by frame, from where the metadata says that its frames begin. Cuts and the ends of such logs
//! are written to the metadata before anything else. A crash before that is complete is fine because the next open finds the same metadata
//! and makes the same cuts. If the metadata cannot be written, the volume opens for reading.

use super::appender::LOG_HELD_BACK;
use super::catalog::{Catalog, FileRecord, size_of};
use super::file::{FileBytes, HOLE, is_framed};
use super::format::{DataHead, FileLocation, HEAD, OPEN, Range, Salt, VolumeId, ZoneNote};
use super::journal::{Journal, Layout};
use super::place::METADATA_PLACES;
use super::slot::{Condition, ZoneSlot};
use super::volume::{SharedFile, State, Volume};
use super::{Fit, Options, corrupt, failed};
use crate::store::{ByLifetime, FileId, FileKind, Result, StoreError};
use crate::zoned::{Geometry, ZoneState, ZonedDevice};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Bytes read at once while the frames of a log are searched.
const WINDOW: usize = 1 << 20;

/// Fewest zones for files with which an existing volume is opened.
const ZONES_LEAST: u32 = 3;

/// Fewest zones for files with which a volume is made. The log, the manifest and its successor, the tables of two levels and the reserve
/// each occupy some zones, and files of different lifetimes occupy others. With fewer zones a database may find no space for deletions or
/// for its manifest, and then it could never free any.
const ZONES_MADE: u32 = 18;

/// A region must hold this many times the metadata of an empty volume: files add metadata, and snapshots may fill only half of a region.
const ROOM_LEAST: usize = 8;

fn unfit(why: String) -> StoreError {
    StoreError::store("open", io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Layout of the metadata of a new volume on such a drive; an error if the drive is unfit.
fn layout_to_make(geometry: &Geometry) -> Result<Layout> {
    checked(Layout::new(geometry), geometry, ZONES_MADE)
}

/// Layout of the metadata of the volume on the drive, if there is one.
fn layout(device: &dyn ZonedDevice) -> Result<Layout> {
    checked(Layout::found(device)?, device.geometry(), ZONES_LEAST)
}

/// Returns the layout if it leaves at least `least` zones for files, and the drive allows enough active zones.
fn checked(layout: Layout, geometry: &Geometry, least: u32) -> Result<Layout> {
    if layout.data().saturating_add(least) > geometry.zones {
        let why = format!("{} zones are too few: {} are for metadata, and files need {least}", geometry.zones, layout.data());
        return Err(unfit(why));
    }
    if let Some(limit) = geometry.max_active.filter(|limit| *limit <= METADATA_PLACES) {
        return Err(unfit(format!("only {limit} zones may be active; the metadata needs {METADATA_PLACES} and files one")));
    }
    Ok(layout)
}

/// The zones as the drive reports them.
fn slots(device: &dyn ZonedDevice, layout: &Layout) -> Result<Vec<ZoneSlot>> {
    let found = device.report(0, device.geometry().zones).map_err(|e| failed("report", e))?;
    let slot = |(number, zone): (u32, crate::zoned::Zone)| {
        let condition = match zone.state {
            _ if number < layout.data() => Condition::Reserved,
            ZoneState::Empty => Condition::Empty,
            ZoneState::Full => Condition::Full,
            ZoneState::ReadOnly => Condition::ReadOnly,
            ZoneState::Offline => Condition::Offline,
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => Condition::Open,
        };
        let written = match condition {
            Condition::Full | Condition::ReadOnly => zone.capacity,
            Condition::Offline => 0,
            _ => zone.written,
        };
        let (tenants, capacity) = (BTreeMap::new(), zone.capacity);
        let (valid, writers, movers, touched, death, life) = (0, 0, 0, 0, 0.0, 0.0);
        let [logged, busy, mixing, stuck] = [false; 4];
        let filled = ByLifetime::default();
        ZoneSlot {
            condition,
            capacity,
            written,
            tenants,
            valid,
            filled,
            logged,
            writers,
            movers,
            busy,
            mixing,
            stuck,
            touched,
            death,
            life,
        }
    };
    Ok((0u32..).zip(found).map(slot).collect())
}

/// Checks whether a volume can be made on a drive of this shape, whose zones have this capacity.
pub(super) fn check_shape(geometry: &Geometry, capacity: u64) -> Result<()> {
    let region = u64::from(layout_to_make(geometry)?.zones).saturating_mul(capacity);
    let room = usize::try_from(region).unwrap_or(usize::MAX).saturating_sub(HEAD);
    check_region(&Catalog::new(geometry.zones), room)
}

/// Checks that a region with space for snapshots of `room` bytes is large enough ([`ROOM_LEAST`]) for this catalog of an empty volume.
fn check_region(catalog: &Catalog, room: usize) -> Result<()> {
    let empty = catalog.snapshot_bytes();
    if empty.saturating_mul(ROOM_LEAST) > room {
        return Err(unfit(format!("the zones for metadata are too small: {room} bytes, of which an empty volume takes {empty}")));
    }
    Ok(())
}

/// Space that files would take on an empty volume on the drive, and space that the volume has for them.
pub(super) fn fit_on(device: &Arc<dyn ZonedDevice>, options: Options, files: &[(FileId, u64)]) -> Result<Fit> {
    let (geometry, layout) = (device.geometry(), layout_to_make(device.geometry())?);
    let catalog = Catalog::new(geometry.zones);
    let limit = Journal::new(device, &layout, VolumeId([0; 16]))?.snapshot_limit()?;
    check_region(&catalog, limit)?;
    let is_reserved = |slot: &ZoneSlot| slot.condition == Condition::Reserved;
    let slots: Vec<ZoneSlot> = slots(&**device, &layout)?.into_iter().filter(|slot| !is_reserved(slot)).collect();
    let reserve = options.kept_reserve(slots.len() as u32);
    let usable = || slots.iter().filter(|slot| !matches!(slot.condition, Condition::ReadOnly | Condition::Offline)).map(|s| s.capacity);
    let zone = usable().max().unwrap_or(0);
    let room = usable().sum::<u64>().saturating_sub(u64::from(reserve) * zone);
    let (block, zone) = (u64::from(geometry.block), zone.max(1));
    let [mut tables, mut logs, mut manifests] = [0u64; 3];
    let mut metadata = catalog.snapshot_bytes();
    for &(id, length) in files {
        metadata += size_of(1 + usize::try_from(length.div_ceil(zone)).unwrap_or(usize::MAX / 64));
        let sum = match id.kind {
            _ if !is_framed(id) => &mut tables,
            FileKind::Manifest => &mut manifests,
            _ => &mut logs,
        };
        // A full frame takes whole blocks. The last frame in each zone may need padding.
        let (full, ends) = (length / LOG_HELD_BACK as u64, 1 + length / zone);
        let heads = if is_framed(id) { (full + ends).saturating_mul(HEAD as u64).saturating_add(ends.saturating_mul(block)) } else { 0 };
        *sum = sum.saturating_add(length.saturating_add(heads).checked_next_multiple_of(block).unwrap_or(u64::MAX));
    }
    // The limit at which `ZonedStore::create` refuses files.
    if metadata > limit / 2 {
        let why = format!("the metadata of {} files takes {metadata} bytes, more than half of its region of {limit}", files.len());
        return Err(StoreError::store("open", io::Error::new(io::ErrorKind::StorageFull, why)));
    }
    // Logs and manifests do not share zones with other files, so the unused ends of their zones count.
    let whole = |bytes: u64| bytes.checked_next_multiple_of(zone).unwrap_or(u64::MAX);
    Ok(Fit { needed: tables.saturating_add(whole(logs)).saturating_add(whole(manifests)), room })
}

/// `AlreadyExists` if the drive holds anything but a volume without files.
pub(super) fn check_unused(device: &Arc<dyn ZonedDevice>) -> Result<()> {
    layout_to_make(device.geometry())?;
    let found = device.report(0, device.geometry().zones).map_err(|e| failed("report", e))?;
    let is_written = |zone: &&crate::zoned::Zone| zone.state.is_active() || zone.state == ZoneState::Full;
    let written = found.iter().filter(is_written).count();
    let what = match layout(&**device).and_then(|layout| Journal::open(device, &layout)) {
        _ if written == 0 => return Ok(()),
        Ok(Some(found)) if found.catalog.files.is_empty() => return Ok(()),
        Ok(Some(found)) => format!("it holds a volume with {} files", found.catalog.files.len()),
        Ok(None) => format!("{written} of its zones are written, and not by a volume"),
        Err(error) if error.source.kind() == io::ErrorKind::InvalidData => {
            format!("{written} of its zones are written, and not by a volume, or it is damaged: {}", error.source)
        }
        Err(error) => return Err(error),
    };
    Err(StoreError::store("format", io::Error::new(io::ErrorKind::AlreadyExists, what)))
}

/// Makes an empty volume; all data on the drive is lost.
pub(super) fn format(device: &Arc<dyn ZonedDevice>, id: VolumeId, options: Options) -> Result<Arc<Volume>> {
    format_as(device, id, options, layout_to_make(device.geometry())?)
}

fn format_as(device: &Arc<dyn ZonedDevice>, id: VolumeId, options: Options, layout: Layout) -> Result<Arc<Volume>> {
    let mut journal = Journal::new(device, &layout, id)?;
    let mut catalog = Catalog::new(device.geometry().zones);
    check_region(&catalog, journal.snapshot_limit()?)?;
    // Wear belongs to the drive, not to the volume: counts of resets are taken over if the old metadata can be read.
    if let Ok(Some(old)) = self::layout(&**device).and_then(|layout| Journal::open(device, &layout)) {
        let worn = old.catalog.zones.iter().map(|note| ZoneNote { resets: note.resets, ..ZoneNote::default() });
        catalog.zones = worn.collect();
    }
    catalog.wear(journal.to_empty()?);
    // The old metadata is erased first, durably, so that no metadata points to zones that are reset below. (A read-only region may still do
    // so until the new region is written. A crash in between loses no data that was to be kept, and formatting can be repeated.)
    journal.erase()?;
    for (number, slot) in (0u32..).zip(slots(&**device, &layout)?) {
        if matches!(slot.condition, Condition::Open | Condition::Full) {
            device.reset(number).map_err(|e| failed("reset", e))?;
            catalog.wear([number]);
        }
    }
    journal.flusher().flush(&**device)?;
    journal.roll(&catalog.snapshot(device.geometry(), layout.zones))?;
    let state = State::new(catalog, slots(&**device, &layout)?);
    Ok(Arc::new(Volume::new(Arc::clone(device), id, layout, options, state, journal)?))
}

/// Opens the volume on a drive. `NotFound` if there is none, `InvalidData` if it is damaged.
pub(super) fn open(device: &Arc<dyn ZonedDevice>, options: Options) -> Result<Arc<Volume>> {
    let layout = layout(&**device)?;
    let Some(mut found) = Journal::open(device, &layout)? else {
        let why = "there is no volume on this drive; `sinter zones format` makes one";
        return Err(StoreError::store("open", io::Error::new(io::ErrorKind::NotFound, why)));
    };
    let slots = slots(&**device, &layout)?;
    let finder = Finder { device: &**device, volume: found.volume, catalog: &found.catalog, slots: &slots };
    let mut files = Vec::new();
    for (&id, record) in &found.catalog.files {
        files.push((id, record.about.clone(), if is_framed(id) { finder.log(id, record)? } else { finder.table(id, record)? }));
    }
    if !found.torn {
        // A failure does not matter now: the region is emptied again before the log changes to it.
        drop(found.journal.empty_other());
    }
    let cut: BTreeSet<u32> = files.iter().filter_map(|(_, _, file)| file.cut).collect();
    let state = State::new(found.catalog, slots);
    let volume = Arc::new(Volume::new(Arc::clone(device), found.volume, layout, options, state, found.journal)?);
    {
        let mut state = volume.state.lock();
        let now = state.clock;
        for (id, about, file) in files {
            for (zone, bytes) in file.occupied {
                if let Some(slot) = state.zones.get_mut(zone as usize) {
                    slot.add(id, bytes, &about);
                    slot.touched = now;
                }
            }
            if let Some(place) = file.place {
                state.lies(id, place);
            }
            state.names.insert(id, SharedFile::new(id, about, file.content, true, &volume));
        }
    }
    volume.keep_to_places(&cut);
    // An error is kept by the volume and returned to writers; readers do not need the metadata to be written.
    drop(if found.torn { volume.checkpoint() } else { volume.commit_durably() });
    volume.reset_due();
    Ok(volume)
}

/// A file as found on the drive.
struct File {
    content: FileBytes,
    /// Bytes by zone, whole blocks.
    occupied: BTreeMap<u32, u64>,
    /// Location to be recorded in the metadata, if it differs from the recorded one.
    place: Option<FileLocation>,
    /// The zone in which the file was cut: its write pointer is before the end of the file by the metadata.
    cut: Option<u32>,
}

/// A frame of a log as found on the drive.
struct Frame {
    head: DataHead,
    zone: u32,
    at: u64,
}

/// Length of the part of a log that was durable. If a zone of the log is lost (`lost`), all bytes up to the end of the last frame count,
/// because bytes behind the gap may have been durable.
fn durable(record: &FileRecord, frames: &[Frame], lost: bool) -> u64 {
    let said = |frame: &Frame| if lost { frame.head.offset + u64::from(frame.head.length) } else { frame.head.synced };
    let sealed = if record.place.sealed { record.place.length } else { 0 };
    frames.iter().map(said).fold(sealed, u64::max)
}

pub(super) struct Finder<'a> {
    pub(super) device: &'a dyn ZonedDevice,
    pub(super) volume: VolumeId,
    pub(super) catalog: &'a Catalog,
    pub(super) slots: &'a [ZoneSlot],
}

impl Finder<'_> {
    fn block(&self) -> u64 {
        u64::from(self.device.geometry().block)
    }

    fn slot(&self, id: FileId, range: &Range) -> Result<&ZoneSlot> {
        let slot = self.slots.get(range.zone as usize).filter(|slot| slot.condition != Condition::Reserved);
        let fits = |slot: &&ZoneSlot| range.at.is_multiple_of(self.block()) && range.at <= slot.capacity;
        slot.filter(fits).ok_or_else(|| corrupt(&format!("{id} lies at byte {} of zone {}, where no file can lie", range.at, range.zone)))
    }

    fn table(&self, id: FileId, record: &FileRecord) -> Result<File> {
        let mut file = File { content: FileBytes::default(), occupied: BTreeMap::new(), place: None, cut: None };
        for range in &record.place.ranges {
            if range.zone == HOLE {
                file.content.push(HOLE, 0, range.len);
                continue;
            }
            let slot = self.slot(id, range)?;
            if slot.condition == Condition::Offline {
                file.content.push(HOLE, 0, range.len);
                continue;
            }
            let there = range.len.min(slot.written.saturating_sub(range.at));
            if there > 0 {
                file.content.push(range.zone, range.at, there);
                *file.occupied.entry(range.zone).or_default() += there.next_multiple_of(self.block());
            }
            if there < range.len {
                file.cut = Some(range.zone);
                break;
            }
        }
        let ranges = file.content.ranges();
        let known: u64 = record.place.ranges.iter().map(|range| range.len).fold(0, u64::saturating_add);
        if file.content.written < known {
            file.place = Some(FileLocation { sealed: true, length: file.content.written, ranges });
        }
        Ok(file)
    }

    /// Bytes of a log that can be read.
    pub(super) fn log_length(&self, id: FileId, record: &FileRecord) -> Result<u64> {
        let file = self.log(id, record)?;
        let holes = file.content.pieces.iter().filter(|piece| piece.zone == HOLE).map(|piece| piece.len);
        Ok(file.content.written - holes.sum::<u64>())
    }

    /// Reads a log. A log that was being written ends with its last whole frame, unless damaged frames follow in the same zone. Damaged
    /// bytes may have been durable, so they become a hole, which cannot be read.
    fn log(&self, id: FileId, record: &FileRecord) -> Result<File> {
        let sealed = record.place.sealed;
        let mut frames = Vec::new();
        let mut wounds: BTreeMap<u32, u64> = BTreeMap::new();
        // If the log was being written, a lost zone may have held frames of it that were durable.
        let (mut lost, mut lost_last) = (false, false);
        for range in &record.place.ranges {
            if self.slot(id, range)?.condition == Condition::Offline {
                (lost, lost_last) = (!sealed, !sealed);
                continue;
            }
            let before = frames.len();
            if let Some(wound) = self.frames(id, range, &mut frames)?.filter(|_| !sealed) {
                wounds.insert(range.zone, wound);
            }
            lost_last &= frames.len() == before;
        }
        frames.sort_by_key(|frame| (frame.head.offset, std::cmp::Reverse(frame.head.length)));
        let durable = durable(record, &frames, lost);
        let mut file = File { content: FileBytes::default(), occupied: BTreeMap::new(), place: None, cut: None };
        let content = &mut file.content;
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        // Zone and offset at which the last frame ends.
        let mut last = None;
        let is_wounded = |last: Option<(u32, u64)>| last.is_some_and(|(zone, end)| wounds.get(&zone).is_some_and(|wound| *wound >= end));
        for frame in &frames {
            let (offset, length) = (frame.head.offset, u64::from(frame.head.length));
            if offset > content.written {
                if durable <= content.written && !is_wounded(last) {
                    break;
                }
                content.push(HOLE, 0, offset - content.written);
            }
            let known = content.written - offset;
            if known >= length {
                continue;
            }
            content.push(frame.zone, frame.at + HEAD as u64 + known, length - known);
            let whole = (HEAD as u64 + length).next_multiple_of(self.block());
            *file.occupied.entry(frame.zone).or_default() += whole;
            let end = ends.entry(frame.zone).or_default();
            *end = (*end).max(frame.at + whole);
            last = Some((frame.zone, frame.at + whole));
        }
        if content.written < durable {
            content.push(HOLE, 0, durable - content.written);
        }
        if lost_last || is_wounded(last) {
            content.push(HOLE, 0, 1);
        }
        if !sealed {
            let ranges = record.place.ranges.iter().filter_map(|range| {
                let end = *ends.get(&range.zone)?;
                let end = end.min(range.at.saturating_add(range.len));
                (end > range.at).then(|| Range { len: end - range.at, ..*range })
            });
            file.place = Some(FileLocation { sealed: true, length: content.written, ranges: ranges.collect() });
        }
        Ok(file)
    }

    /// Adds the whole frames of a log in a range of a zone to `found`. If the range extends to the write pointer of a zone that holds
    /// frames only, returns the offset of the last damaged frame, if any. A power cut leaves a prefix, so it can only cut the last frame at
    /// the write pointer. In a zone that is full, or whose write pointer is unknown, bytes that are no frame may be padding of the drive;
    /// there they count as damaged only if a whole frame follows.
    fn frames(&self, id: FileId, range: &Range, found: &mut Vec<Frame>) -> Result<Option<u64>> {
        let slot = self.slot(id, range)?;
        let resets = self.catalog.zones.get(range.zone as usize).map_or(0, |note| note.resets);
        let salt = Salt::new(self.volume, range.zone, resets);
        let end = if range.len == OPEN { slot.written } else { range.at.saturating_add(range.len).min(slot.written) };
        let is_open = range.len == OPEN && self.catalog.zones.get(range.zone as usize).is_some_and(|note| note.framed);
        let is_written = matches!(slot.condition, Condition::Open | Condition::Ended);
        let (mut wound, mut suspect) = (None, None);
        let mut at = range.at;
        let mut window = Window { device: self.device, zone: range.zone, end, start: 0, bytes: Vec::new() };
        while at < end {
            let head = DataHead::decode(salt, at, window.bytes(at, HEAD)?);
            let is_cut = |head: &DataHead| HEAD as u64 + u64::from(head.length) > end - at;
            if is_open && head.as_ref().is_some_and(|(head, _)| is_cut(head)) {
                break;
            }
            let Some((head, check)) = head.filter(|(head, _)| !is_cut(head)) else {
                suspect = Some(at);
                at += self.block();
                continue;
            };
            let whole = (HEAD + head.length as usize).next_multiple_of(self.block() as usize);
            let data = window.bytes(at, HEAD + head.length as usize)?.get(HEAD..HEAD + head.length as usize);
            let good = data.is_some_and(|data| salt.checksum(at + HEAD as u64, data) == check);
            if good {
                wound = suspect.or(wound);
            } else {
                suspect = Some(at);
            }
            if good && head.file == id {
                found.push(Frame { head, zone: range.zone, at });
            }
            // The head is valid, so its length leads to the next frame, even if the data is damaged.
            at += whole as u64;
        }
        Ok(if is_written { suspect } else { wound }.filter(|_| is_open))
    }
}

/// Reads a zone ahead.
struct Window<'a> {
    device: &'a dyn ZonedDevice,
    zone: u32,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns `length` bytes from `at` on, or fewer at the end of the range. `at` is before that end.
    fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8]> {
        let there = self.start + self.bytes.len() as u64;
        if at < self.start || at + length as u64 > there && there < self.end || self.bytes.is_empty() {
            let block = self.device.geometry().block as usize;
            let wanted = length.next_multiple_of(block).max(WINDOW).min((self.end - at) as usize);
            self.bytes.resize(wanted, 0);
            self.start = at;
            self.device.read(self.zone, at, &mut self.bytes).map_err(|e| failed("read", e))?;
        }
        let skip = (at - self.start) as usize;
        let rest = self.bytes.get(skip..).unwrap_or_default();
        Ok(&rest[..rest.len().min(length)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Cause, Hint, Store};
    use crate::zoned::Emulator;
    use crate::zoned_store::format::About;

    /// On drives of many small zones, volumes made by earlier versions have smaller regions, so their second region lies elsewhere.
    #[test]
    fn a_volume_with_small_regions_is_read_and_made_anew() {
        let geometry = Geometry { block: 512, zones: 600, zone_size: 32 << 10, max_open: None, max_active: None, conventional: 0 };
        let device: Arc<dyn ZonedDevice> = Arc::new(Emulator::memory(geometry.clone(), 32 << 10).unwrap());
        let (id, before) = (VolumeId([7; 16]), Layout::before(&geometry));
        assert!(before.data() < Layout::new(&geometry).data());
        format_as(&device, id, Options::default(), before.clone()).unwrap();
        for opening in 0..4u64 {
            let volume = open(&device, Options::default()).unwrap();
            assert_eq!(volume.layout.data(), before.data());
            // Either region counts in turn.
            volume.checkpoint().unwrap();
            assert_eq!(volume.state.lock().names.len() as u64, opening);
            let cell = SharedFile::new(FileId::table(opening), About::default(), FileBytes::default(), false, &volume);
            volume.state.lock().enter(cell);
            volume.commit_durably().unwrap();
        }
        let unused = check_unused(&device).unwrap_err().source.to_string();
        assert!(unused.contains("a volume with 4 files"), "{unused}");
        let worn = open(&device, Options::default()).unwrap().state.lock().catalog.zones[0].resets;
        format(&device, id, Options::default()).unwrap();
        let volume = open(&device, Options::default()).unwrap();
        assert_eq!(volume.layout.data(), Layout::new(&geometry).data());
        assert!(volume.state.lock().names.is_empty() && volume.state.lock().catalog.zones[0].resets > worn && worn > 0);
    }

    /// The metadata says that a log continues in a zone where it lies already, and no frame was written there: the log must be readable.
    #[test]
    fn a_log_that_was_to_go_on_in_the_same_zone_is_read() {
        let geometry = Geometry { block: 512, zones: 24, zone_size: 64 << 10, max_open: None, max_active: None, conventional: 0 };
        let device: Arc<dyn ZonedDevice> = Arc::new(Emulator::memory(geometry, 64 << 10).unwrap());
        let store = crate::zoned_store::ZonedStore::format(Arc::clone(&device), VolumeId([7; 16]), Options::default()).unwrap();
        let id = FileId::log(1);
        let mut log = store.create(id, &Hint::new(Cause::Wal)).unwrap();
        store.sync_names().unwrap();
        log.append(b"synced").unwrap();
        log.sync().unwrap();
        let layout = layout(&*device).unwrap();
        let catalog = Journal::open(&device, &layout).unwrap().unwrap().catalog;
        let mut record = catalog.files[&id].clone();
        let first = record.place.ranges[0];
        record.place.ranges.push(Range { at: first.at + 4096, len: OPEN, ..first });
        let slots = slots(&*device, &layout).unwrap();
        let finder = Finder { device: &*device, volume: VolumeId([7; 16]), catalog: &catalog, slots: &slots };
        let found = finder.log(id, &record).unwrap();
        assert_eq!((found.content.written, found.place.unwrap().ranges.len()), (6, 1));
    }
}
