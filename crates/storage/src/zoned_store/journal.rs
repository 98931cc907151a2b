//! The metadata log: two regions of a few zones each, one of which is valid. A region starts with a snapshot; frames of edits follow.
//!
//! When the valid region is full, the log changes regions: the other region is emptied, gets a snapshot and is flushed; only then is the
//! old region emptied. A crash before the flush is fine because the old region is still whole, and nothing in the new one has been
//! acknowledged. A crash after the flush is fine because of two whole regions the one with the higher generation is valid. The log checks
//! that the snapshot fits before it touches the other region.
//!
//! One region is enough as long as it has free space: the other one may be read-only or offline. An offline region cannot have been the
//! newer one, because the old region is emptied before anything is acknowledged by the new one alone. If the old region is read-only, it
//! could not be emptied, so this is not certain, and the volume counts as damaged.
//!
//! A power cut leaves in each zone a prefix of what was written there. So only the last frame can be cut, and only if it extends beyond the
//! write pointer; any other invalid frame is damage, an error. The write pointer of a read-only zone is unknown. There an invalid frame is
//! damage only if a later frame says that it was durable; otherwise it is taken for the end of the log and cut.

use super::catalog::{Catalog, FACTS, ZONE_BYTES, size_of};
use super::flusher::Flusher;
use super::format::{HEAD, Kind, MetadataHead, VolumeId};
use super::{corrupt, failed};
use crate::store::{Result, StoreError};
use crate::zoned::{Geometry, Zone, ZoneState, ZonedDevice};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Zones of the metadata.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The first zone of region 0; that of region 1 follows behind it.
    pub(super) first: u32,
    /// Zones per region.
    pub(super) zones: u32,
}

/// Least number of blocks of a region.
const BLOCKS_LEAST: u64 = 32;

/// A region has space for one file per this many bytes of the drive, up to [`FILES_MOST`] files.
const FILE_LEAST: u64 = 32 << 10;

/// Number of files for which a region has space on large drives, however small the zones are.
const FILES_MOST: u64 = 16_384;

/// Ranges expected per table: a table may cross from one zone into the next, or the collector may have moved a part of it.
const FILE_RANGES: usize = 2;

impl Layout {
    /// The layout for a new volume: a function of the drive's shape alone, so that the metadata can be found without reading any.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let zones = u64::from(geometry.zones);
        let files = (zones.saturating_mul(geometry.zone_size) / FILE_LEAST).min(FILES_MOST);
        // The other half is for edits.
        let bytes = (FACTS as u64 + zones * ZONE_BYTES as u64 + files * size_of(FILE_RANGES) as u64) * 2;
        Layout::before(geometry).at_least(geometry, bytes)
    }

    /// The layout of volumes made by an earlier version, whose regions have space for fewer files.
    pub(super) fn before(geometry: &Geometry) -> Self {
        let zones = u64::from(geometry.zones);
        let bytes = (zones * 256 + zones.saturating_mul(geometry.zone_size) / 4096).max(BLOCKS_LEAST * u64::from(geometry.block));
        Layout { first: geometry.conventional, zones: 1 }.at_least(geometry, bytes)
    }

    fn at_least(self, geometry: &Geometry, bytes: u64) -> Self {
        let zones = u32::try_from(bytes.div_ceil(geometry.zone_size.max(1))).unwrap_or(u32::MAX);
        Layout { zones: self.zones.max(zones), ..self }
    }

    /// The layout of the volume on the drive: that of [`Layout::before`] if there is a snapshot with it, otherwise the usual one.
    pub(super) fn found(device: &dyn ZonedDevice) -> Result<Self> {
        let [usual, before] = [Layout::new, Layout::before].map(|of| of(device.geometry()));
        if usual.zones == before.zones {
            return Ok(usual);
        }
        for region in 0..2 {
            if let Frame::Whole(head, snapshot) = Span::of(device, &before, region)?.frame(device, region, 0)?
                && head.kind == Kind::Snapshot
                && Catalog::region_zones(&snapshot) == Some(before.zones)
            {
                return Ok(before);
            }
        }
        Ok(usual)
    }

    /// The first zone for files.
    pub(super) fn data(&self) -> u32 {
        self.first.saturating_add(self.zones.saturating_mul(2))
    }

    fn region(&self, region: u32) -> Range<u32> {
        let first = self.first + region * self.zones;
        first..first + self.zones
    }
}

/// Cost of the metadata log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// Bytes of frames, padding among them.
    pub bytes: u64,
    /// Bytes of padding.
    pub padding: u64,
    /// Frames of edits.
    pub frames: u64,
    /// Snapshots, each into the other region.
    pub snapshots: u64,
    /// Zones emptied.
    pub resets: u64,
    /// Bytes that had been written to the emptied zones.
    pub reset_bytes: u64,
}

pub(super) struct Journal {
    device: Arc<dyn ZonedDevice>,
    layout: Layout,
    volume: VolumeId,
    /// Number of the valid region.
    region: u32,
    generation: u64,
    /// Sequence of the last frame.
    sequence: u64,
    /// Bytes of the region in use.
    end: u64,
    durable: u64,
    flusher: Arc<Flusher>,
    pub(super) figures: JournalFigures,
}

/// The zones of a region and how far each is written.
struct Span {
    zones: Vec<(u32, Zone)>,
}

impl Span {
    fn of(device: &dyn ZonedDevice, layout: &Layout, region: u32) -> Result<Span> {
        let range = layout.region(region);
        let found = device.report(range.start, layout.zones).map_err(|e| failed("report", e))?;
        Ok(Span { zones: range.zip(found).collect() })
    }

    fn capacity(&self) -> u64 {
        self.zones.iter().map(|(_, zone)| zone.capacity).sum()
    }

    /// Bytes that can be read without a gap from the start of the region.
    fn written(&self) -> u64 {
        let mut total = 0;
        for (_, zone) in &self.zones {
            match zone.state {
                ZoneState::Offline => break,
                ZoneState::ReadOnly => total += zone.capacity,
                _ => total += zone.written,
            }
            if zone.state != ZoneState::ReadOnly && zone.written < zone.capacity {
                break;
            }
        }
        total
    }

    /// The first offline zone, if the region's bytes may have continued in it.
    fn lost(&self) -> Option<u32> {
        let ends = |zone: &Zone| zone.state != ZoneState::ReadOnly && zone.written < zone.capacity;
        let end = self.zones.iter().find(|(_, zone)| zone.state == ZoneState::Offline || ends(zone));
        end.filter(|(_, zone)| zone.state == ZoneState::Offline).map(|(number, _)| *number)
    }

    /// The first zone of the region that is read-only or offline, so that the region cannot be emptied and written anew.
    fn broken(&self) -> Option<(u32, &'static str)> {
        self.zones.iter().find_map(|(number, zone)| match zone.state {
            ZoneState::ReadOnly => Some((*number, "read-only")),
            ZoneState::Offline => Some((*number, "offline")),
            _ => None,
        })
    }

    /// Returns whether the region's first zone is read-only, so that an old snapshot stays readable.
    fn stays(&self) -> bool {
        self.zones.first().is_some_and(|(_, zone)| zone.state == ZoneState::ReadOnly)
    }

    /// Number of zones in which the first `length` bytes lie.
    fn zones_below(&self, length: u64) -> u32 {
        self.pieces(0, length).len() as u32
    }

    /// The pieces of `length` bytes from `at` on: zone, offset in the zone, length.
    fn pieces(&self, at: u64, length: u64) -> Vec<(u32, u64, usize)> {
        let (mut start, mut pieces) = (0, Vec::new());
        for (number, zone) in &self.zones {
            let (from, to) = (at.max(start), (at + length).min(start + zone.capacity));
            if from < to {
                pieces.push((*number, from - start, (to - from) as usize));
            }
            start += zone.capacity;
        }
        pieces
    }

    /// Reads whole blocks from `at` on.
    fn read(&self, device: &dyn ZonedDevice, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        for (zone, from, part) in self.pieces(at, length as u64) {
            device.read(zone, from, &mut bytes[done..done + part]).map_err(|e| failed("read metadata", e))?;
            done += part;
        }
        Ok(bytes)
    }

    fn read_only(&self) -> bool {
        self.zones.iter().any(|(_, zone)| zone.state == ZoneState::ReadOnly)
    }

    /// Reads the frame at `at`.
    fn frame(&self, device: &dyn ZonedDevice, region: u32, at: u64) -> Result<Frame> {
        let (block, written) = (u64::from(device.geometry().block), self.written());
        if at + block > written {
            return Ok(Frame::Nothing);
        }
        let wrong = if self.read_only() { Frame::Cut } else { Frame::Damaged };
        let first = self.read(device, at, block as usize)?;
        let Some(head) = MetadataHead::peek(&first).filter(|head| head.region == region) else { return Ok(wrong) };
        let length = HEAD as u64 + u64::from(head.length);
        let whole = length.next_multiple_of(block);
        if whole > self.capacity() - at {
            return Ok(wrong);
        }
        if whole > written - at {
            // A frame beyond the write pointer was cut, unless it verifies with a smaller length: then only its length field is damaged.
            let bytes = self.read(device, at, (written - at) as usize)?;
            return Ok(if head.verify_shorter(at, bytes, block as usize) { Frame::Damaged } else { Frame::Cut });
        }
        let mut bytes = self.read(device, at, whole as usize)?;
        bytes.truncate(length as usize);
        if !head.verify(at, &bytes) {
            return Ok(wrong);
        }
        bytes.drain(..HEAD);
        Ok(Frame::Whole(head, bytes))
    }
}

/// Content of a region at an offset.
enum Frame {
    /// A valid frame: head and payload.
    Whole(MetadataHead, Vec<u8>),
    /// The start of a frame whose rest was lost in a power cut.
    Cut,
    /// Bytes that differ from those written.
    Damaged,
    Nothing,
}

/// A region as found on the drive.
pub(super) struct Found {
    pub(super) volume: VolumeId,
    pub(super) catalog: Catalog,
    pub(super) journal: Journal,
    /// The log does not end at the write pointers, so it cannot be continued and needs a new snapshot.
    pub(super) torn: bool,
}

impl Journal {
    /// Finds and reads the valid region. `None` if there is no volume on the drive; an error if there was one whose metadata is damaged.
    pub(super) fn open(device: &Arc<dyn ZonedDevice>, layout: &Layout) -> Result<Option<Found>> {
        let (mut best, mut rotten): (Option<(u32, MetadataHead, Vec<u8>)>, bool) = (None, false);
        let spans = [Span::of(&**device, layout, 0)?, Span::of(&**device, layout, 1)?];
        for (region, span) in (0..).zip(&spans) {
            let frame = span.frame(&**device, region, 0)?;
            rotten |= matches!(frame, Frame::Damaged);
            let Frame::Whole(head, payload) = frame else { continue };
            let starts = head.kind == Kind::Snapshot && head.generation == head.sequence;
            if starts && best.as_ref().is_none_or(|(_, other, _)| other.generation < head.generation) {
                best = Some((region, head, payload));
            }
        }
        let lost = spans.iter().find_map(Span::lost);
        let Some((region, head, payload)) = best else {
            return match lost {
                Some(zone) => Err(corrupt(&format!("zone {zone}, which is for metadata, is offline, and no other zone holds a snapshot"))),
                None if spans.iter().all(|span| span.written() == 0) => Ok(None),
                None => Err(corrupt("neither region of the metadata holds a whole snapshot: no volume, or a damaged one")),
            };
        };
        let [zero, one] = &spans;
        let (span, other) = if region == 0 { (zero, one) } else { (one, zero) };
        let stale = span.stays();
        if let Some(zone) = span.lost().or(other.lost().filter(|_| stale)) {
            return Err(corrupt(&format!("zone {zone}, which may have held the end of the metadata, is offline")));
        }
        if stale && rotten {
            return Err(corrupt(&format!("metadata region {} is damaged at byte 0, and the other one may be older", 1 - region)));
        }
        Self::replay(device, layout, region, span, &head, &payload).map(Some)
    }

    fn replay(
        device: &Arc<dyn ZonedDevice>,
        layout: &Layout,
        region: u32,
        span: &Span,
        first: &MetadataHead,
        snapshot: &[u8],
    ) -> Result<Found> {
        let block = u64::from(device.geometry().block);
        let step = |payload: usize| ((HEAD + payload) as u64).next_multiple_of(block);
        let mut catalog = Catalog::read(snapshot, device.geometry(), layout.zones).map_err(corrupt)?;
        let (mut end, mut sequence) = (step(snapshot.len()), first.sequence);
        let follows = |head: &MetadataHead| head.volume == first.volume && head.generation == first.generation && head.kind == Kind::Edits;
        let damaged = |at: u64| corrupt(&format!("metadata region {region} is damaged at byte {at}"));
        loop {
            match span.frame(&**device, region, end)? {
                Frame::Whole(head, payload) if follows(&head) && head.sequence == sequence + 1 => {
                    catalog.apply_all(&payload).map_err(corrupt)?;
                    sequence = head.sequence;
                    end += step(payload.len());
                }
                Frame::Whole(..) | Frame::Damaged => return Err(damaged(end)),
                Frame::Cut | Frame::Nothing => break,
            }
        }
        for at in (end + block..span.written()).step_by(block as usize) {
            if let Frame::Whole(head, _) = span.frame(&**device, region, at)?
                && follows(&head)
                && (head.durable > end || !span.read_only())
            {
                return Err(damaged(end));
            }
        }
        let (mut left, mut torn) = (end, false);
        for (_, zone) in &span.zones {
            let due = left.min(zone.capacity);
            left -= due;
            torn |= zone.written != due || matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline);
        }
        let journal = Journal {
            device: Arc::clone(device),
            layout: layout.clone(),
            volume: first.volume,
            region,
            generation: first.generation,
            sequence,
            end,
            durable: end,
            flusher: Arc::default(),
            figures: JournalFigures::default(),
        };
        Ok(Found { volume: first.volume, catalog, journal, torn })
    }

    /// The log of a new volume. Its first [`Journal::roll`] writes to the first region without broken zones; `Unsupported` if there is
    /// none. Its generation is higher than that of a frame in the other region, if that region cannot be emptied.
    pub(super) fn new(device: &Arc<dyn ZonedDevice>, layout: &Layout, volume: VolumeId) -> Result<Self> {
        let figures = JournalFigures::default();
        let (region, sequence) = match [Span::of(&**device, layout, 0)?, Span::of(&**device, layout, 1)?].each_ref().map(Span::broken) {
            [None, None] => (1, 0),
            [None, Some(_)] => (1, Self::generation_in(device, layout, 1)?),
            [Some(_), None] => (0, Self::generation_in(device, layout, 0)?),
            [Some((one, why)), Some((other, reason))] => {
                let what = format!("no metadata can be written: zone {one} is {why}, and zone {other} {reason}");
                return Err(StoreError::store("format", io::Error::new(io::ErrorKind::Unsupported, what)));
            }
        };
        let (device, layout, flusher) = (Arc::clone(device), layout.clone(), Arc::default());
        Ok(Journal { device, layout, volume, region, generation: 0, sequence, end: 0, durable: 0, flusher, figures })
    }

    /// Generation of a region's first frame; 0 if there is none.
    fn generation_in(device: &Arc<dyn ZonedDevice>, layout: &Layout, region: u32) -> Result<u64> {
        match Span::of(&**device, layout, region)?.frame(&**device, region, 0)? {
            Frame::Whole(head, _) => Ok(head.generation),
            _ => Ok(0),
        }
    }

    /// The flusher of the log, through which the volume must flush, too.
    pub(super) fn flusher(&self) -> Arc<Flusher> {
        Arc::clone(&self.flusher)
    }

    /// Sequence of the last frame.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Bytes of the region in use.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Notes the success of a flush that began when the log of this generation ended at `end`.
    pub(super) fn flushed(&mut self, generation: u64, end: u64) {
        if generation == self.generation {
            self.durable = self.durable.max(end);
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The largest snapshot that fits into the smaller region, bytes.
    pub(super) fn snapshot_limit(&self) -> Result<usize> {
        let mut least = u64::MAX;
        for region in 0..2 {
            least = least.min(Span::of(&*self.device, &self.layout, region)?.capacity());
        }
        Ok(usize::try_from(least).unwrap_or(usize::MAX).saturating_sub(HEAD))
    }

    fn head(&self, kind: Kind, payload: &[u8]) -> Result<MetadataHead> {
        let length = u32::try_from(payload.len()).map_err(|_| corrupt("metadata longer than 4 GiB"))?;
        let (volume, region, generation) = (self.volume, self.region, self.generation);
        Ok(MetadataHead { volume, region, kind, generation, sequence: self.sequence + 1, durable: self.durable, length })
    }

    /// Appends a frame of edits. False, without writing anything, if the frame does not fit into the region.
    pub(super) fn append(&mut self, edits: &[u8]) -> Result<bool> {
        let block = self.device.geometry().block as usize;
        let span = Span::of(&*self.device, &self.layout, self.region)?;
        let frame = self.head(Kind::Edits, edits)?.frame(self.end, edits, block);
        if self.end + frame.len() as u64 > span.capacity() {
            return Ok(false);
        }
        self.write(&span, self.end, &frame)?;
        self.end += frame.len() as u64;
        self.sequence += 1;
        self.figures.frames += 1;
        self.figures.padding += (frame.len() - HEAD - edits.len()) as u64;
        Ok(true)
    }

    fn write(&mut self, span: &Span, at: u64, frame: &[u8]) -> Result<()> {
        let mut done = 0;
        for (zone, from, part) in span.pieces(at, frame.len() as u64) {
            self.device.write(zone, from, &frame[done..done + part]).map_err(|e| failed("write metadata", e))?;
            done += part;
        }
        self.figures.bytes += frame.len() as u64;
        Ok(())
    }

    /// Changes regions: writes `snapshot` to the other region, durably, and empties this one. `StorageFull`, with nothing changed, if the
    /// snapshot does not fit.
    pub(super) fn roll(&mut self, snapshot: &[u8]) -> Result<()> {
        let block = self.device.geometry().block as usize;
        let (from, to) = (self.region, 1 - self.region);
        let span = Span::of(&*self.device, &self.layout, to)?;
        if ((HEAD + snapshot.len()).next_multiple_of(block)) as u64 > span.capacity() {
            let why = format!("the metadata ({} bytes) does not fit a region of {} bytes", snapshot.len(), span.capacity());
            return Err(StoreError::store("write metadata", io::Error::new(io::ErrorKind::StorageFull, why)));
        }
        self.empty(self.layout.region(to))?;
        // A power cut may have left zones behind the end partly written. They count as active, and the snapshot needs active zones.
        let ended = Span::of(&*self.device, &self.layout, from)?.zones_below(self.end);
        drop(self.empty(self.layout.region(from).start + ended..self.layout.region(from).end));
        // Makes the resets durable before the snapshot is written: an old frame that reappeared behind a cut snapshot would pass for
        // damage.
        self.flusher.flush(&*self.device)?;
        let head = MetadataHead { region: to, generation: self.sequence + 1, durable: 0, ..self.head(Kind::Snapshot, snapshot)? };
        let frame = head.frame(0, snapshot, block);
        self.write(&span, 0, &frame)?;
        self.flusher.flush(&*self.device)?;
        (self.region, self.generation, self.sequence) = (to, head.generation, head.sequence);
        (self.end, self.durable) = (frame.len() as u64, frame.len() as u64);
        self.figures.snapshots += 1;
        self.figures.padding += (frame.len() - HEAD - snapshot.len()) as u64;
        // The new region is already valid. Zones that cannot be emptied now are tried again at the next change of regions.
        drop(self.empty(self.layout.region(from)));
        Ok(())
    }

    /// The zones of both regions that [`Journal::roll`] or [`Journal::erase`] would reset now. Called before these, so that the snapshot
    /// includes the resets in the wear of zones.
    pub(super) fn to_empty(&self) -> Result<Vec<u32>> {
        let zones = self.layout.first..self.layout.data();
        let found = self.device.report(zones.start, zones.len() as u32).map_err(|e| failed("report", e))?;
        let written = |(_, zone): &(u32, Zone)| !matches!(zone.state, ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline);
        Ok(zones.zip(found).filter(written).map(|(number, _)| number).collect())
    }

    fn empty(&mut self, zones: Range<u32>) -> Result<()> {
        let found = self.device.report(zones.start, zones.len() as u32).map_err(|e| failed("report", e))?;
        for (number, zone) in zones.zip(found) {
            if zone.state != ZoneState::Empty {
                self.device.reset(number).map_err(|e| failed("empty a region of the metadata", e))?;
                self.figures.resets += 1;
                self.figures.reset_bytes += zone.written;
            }
        }
        Ok(())
    }

    /// Empties the region that is not valid, in case a crash undid its reset.
    pub(super) fn empty_other(&mut self) -> Result<()> {
        self.empty(self.layout.region(1 - self.region))
    }

    /// Empties both regions durably, except for zones that are read-only or offline: the first step of formatting.
    pub(super) fn erase(&mut self) -> Result<()> {
        for zone in self.to_empty()? {
            self.empty(zone..zone + 1)?;
        }
        self.flusher.flush(&*self.device)
    }
}
