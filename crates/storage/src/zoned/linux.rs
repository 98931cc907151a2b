//! A zoned block device of Linux: reads and writes past the page cache, the rest by ioctl.
//!
//! 1. The write pointers of all zones are kept here, read from the drive when it is opened, taken and when anything failed. A write that
//!    cannot succeed is refused here: since Linux 6.10 the kernel keeps pointers of its own, and a write that it sees fail leaves the zone
//!    unwritable, on some versions until a report, on others until a reset.
//! 2. For the same reason a write that did fail ends its zone: further ones fail until it is reset or finished. A zone without data is
//!    reset at once, which loses nothing and makes every kernel forget the failure.
//! 3. A write goes out in pieces that the kernel does not cut again, one after the other, since kernels before 6.10 may swap the parts of
//!    a larger one on their way to the drive.
//! 4. Each zone has a lock, so that calls on it come one after the other; that also makes an append of a write.

use super::direct::{Direct, PIECE};
use super::queue::Queue;
use super::sys::{self, Management, RawZone, ReportCall};
use super::{Geometry, Result, Zone, ZoneError, ZoneErrorKind, ZoneState, ZonedDevice};
use crate::store::{self, StoreError, StoreLock};
use parking_lot::Mutex;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kernel's sector, whatever the drive's block is.
const SECTOR: u64 = 512;

/// Zones asked for in one report.
const REPORTED: u32 = 1024;

/// Knowledge of a zone.
#[derive(Debug, Clone, Copy)]
struct Known {
    zone: Zone,
    /// A write failed and nothing has made the zone writable since.
    ended: bool,
}

/// A zoned block device, such as `/dev/nvme0n1`.
pub struct LinuxDevice {
    path: PathBuf,
    /// Writes go out in pieces that the kernel passes on as they are.
    direct: Direct,
    call: ReportCall,
    geometry: Geometry,
    zones: Vec<Mutex<Known>>,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Converts sectors to bytes.
fn bytes_of(sectors: u64) -> io::Result<u64> {
    sectors.checked_mul(SECTOR).ok_or_else(|| invalid("a number of sectors that no drive has"))
}

/// A zone of a kernel's report as a [`Zone`]. Drivers differ in the pointer of a zone that is full or broken, so the state decides.
fn zone_of(raw: &RawZone) -> io::Result<Zone> {
    let state = match (raw.kind, raw.condition) {
        // Conventional, by its type or by its condition.
        (1, _) | (_, 0) => ZoneState::ReadOnly,
        (_, 0x1) => ZoneState::Empty,
        (_, 0x2) => ZoneState::ImplicitlyOpen,
        (_, 0x3) => ZoneState::ExplicitlyOpen,
        // 0xff: active, and the kernel does not say how. Taking it for closed expects no more than is there.
        (_, 0x4 | 0xff) => ZoneState::Closed,
        (_, 0xd) => ZoneState::ReadOnly,
        (_, 0xe) => ZoneState::Full,
        (_, 0xf) => ZoneState::Offline,
        _ => return Err(invalid("the drive reports a condition that is not known")),
    };
    let capacity = bytes_of(raw.capacity.unwrap_or(raw.length))?;
    let written = match state {
        ZoneState::Empty | ZoneState::Offline | ZoneState::ReadOnly => 0,
        ZoneState::Full => capacity,
        _ => bytes_of(raw.pointer.checked_sub(raw.start).ok_or_else(|| invalid("a write pointer before its zone"))?)?,
    };
    if capacity > bytes_of(raw.length)? || written > capacity {
        return Err(invalid("a write pointer or a capacity beyond its zone"));
    }
    Ok(Zone { capacity, written, state })
}

impl LinuxDevice {
    /// Opens the device at `path`. Fails if it is none, or has no zones, or the kernel does not let us write it.
    pub fn open(path: impl AsRef<Path>) -> store::Result<Self> {
        let path = path.as_ref();
        LinuxDevice::try_open(path).map_err(|e| {
            let reason = io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            StoreError::store("open zoned device", reason)
        })
    }

    /// Makes the device ask for its zones by this call from now on. Fails if the kernel does not have it.
    pub fn with_report(mut self, call: ReportCall) -> store::Result<Self> {
        sys::report(&self.direct.file, call, 0, 1).map_err(|e| StoreError::store("report zones", e))?;
        self.call = call;
        Ok(self)
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let file = Direct::open(path)?;
        let queue = Queue::of(&file)?;
        if !sys::is_zoned(&file) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the device has no zones"));
        }
        let zone_size = bytes_of(queue.number("chunk_sectors")?)?;
        let block = u32::try_from(queue.number("logical_block_size")?).map_err(|_| invalid("a block of more than 4 GiB"))?;
        let count = u32::try_from(queue.number("nr_zones")?).map_err(|_| invalid("more than 2^32 zones"))?;
        if count == 0 || !block.is_power_of_two() || block < 512 || zone_size == 0 || !zone_size.is_multiple_of(u64::from(block)) {
            return Err(invalid("zones or blocks of a size that no drive has"));
        }
        // The first tells more. It is deprecated, and a kernel without it does not know its number.
        let call = match sys::report(&file, ReportCall::First, 0, 1) {
            Err(e) if e.raw_os_error() == Some(libc::ENOTTY) => ReportCall::Second,
            _ => ReportCall::First,
        };
        let raw = report(&file, call, zone_size, 0, count)?;
        if raw.iter().any(|zone| bytes_of(zone.length).ok() != Some(zone_size)) {
            // A last zone that is smaller is of no use here, and no drive with the command set has one.
            return Err(invalid("not all zones have the same size"));
        }
        let conventional = raw.iter().take_while(|zone| zone.kind == 1).count();
        let known = |raw: &RawZone| zone_of(raw).map(|zone| Mutex::new(Known { zone, ended: false }));
        let geometry = Geometry {
            block,
            zones: count,
            zone_size,
            max_open: queue.limit("max_open_zones")?,
            max_active: queue.limit("max_active_zones")?,
            conventional: u32::try_from(conventional).unwrap_or(count),
        };
        // Memory that is contiguous to us need not be so to the drive: each page may take a segment, and an unaligned start one more.
        let segments = queue.number("max_segments").unwrap_or(u64::MAX).saturating_sub(1).max(1);
        let largest = bytes_of(queue.number("max_sectors_kb")?.saturating_mul(2))?.min(segments.saturating_mul(4096)).min(PIECE as u64);
        let piece = (largest / u64::from(block)).max(1) * u64::from(block);
        let zones = raw.iter().map(known).collect::<io::Result<_>>()?;
        let piece = usize::try_from(piece).map_err(|_| invalid("a block that is larger than memory"))?;
        Ok(LinuxDevice { path: path.to_owned(), direct: Direct::new(file, piece), call, geometry, zones })
    }

    fn sector(&self, zone: u32) -> u64 {
        u64::from(zone) * self.geometry.zone_size / SECTOR
    }

    /// Asks the drive for one zone.
    fn ask(&self, zone: u32) -> io::Result<Zone> {
        let zones = sys::report(&self.direct.file, self.call, self.sector(zone), 1)?;
        zone_of(zones.first().ok_or_else(|| invalid("the drive reports no zone"))?)
    }

    /// The reason of a failure as an error kind. The kernel has three reasons: too many open, too many active, and everything else; the
    /// zone's state before (`state`) tells more.
    fn failed(operation: &'static str, zone: u32, state: Option<ZoneState>, e: io::Error) -> ZoneError {
        let writes = matches!(operation, "write" | "append");
        let kind = match (e.raw_os_error(), state) {
            (Some(libc::ETOOMANYREFS), _) => ZoneErrorKind::TooManyOpen,
            (Some(libc::EOVERFLOW), _) => ZoneErrorKind::TooManyActive,
            (Some(libc::EIO), Some(ZoneState::Offline)) if writes || operation == "read" => ZoneErrorKind::Offline,
            (Some(libc::EIO), Some(ZoneState::ReadOnly)) if writes => ZoneErrorKind::ReadOnly,
            (Some(libc::EIO), Some(ZoneState::Offline | ZoneState::ReadOnly)) if operation != "read" => ZoneErrorKind::InvalidTransition,
            (Some(libc::EIO), Some(ZoneState::Full)) if matches!(operation, "open" | "close") => ZoneErrorKind::InvalidTransition,
            (Some(libc::EIO), Some(ZoneState::Empty)) if operation == "close" => ZoneErrorKind::InvalidTransition,
            _ => ZoneErrorKind::Io,
        };
        ZoneError { kind, zone: Some(zone), operation, source: Some(e) }
    }

    /// Refuses what the drive would refuse.
    fn check_write(operation: &'static str, zone: u32, known: &Known, at: Option<u64>, length: u64) -> Result<()> {
        let Zone { capacity, written, state } = known.zone;
        let kind = match state {
            _ if known.ended => {
                let reason = io::Error::other("an earlier write to this zone failed");
                return Err(ZoneError::io(operation, Some(zone), reason));
            }
            ZoneState::Full => ZoneErrorKind::Full,
            ZoneState::ReadOnly => ZoneErrorKind::ReadOnly,
            ZoneState::Offline => ZoneErrorKind::Offline,
            _ if at.is_some_and(|at| at != written) => ZoneErrorKind::InvalidWrite,
            _ if length > capacity - written => ZoneErrorKind::Boundary,
            _ => return Ok(()),
        };
        Err(ZoneError::refused(kind, operation, zone))
    }

    fn put(&self, operation: &'static str, zone: u32, at: Option<u64>, bytes: &[u8]) -> Result<u64> {
        self.geometry.check_blocks(operation, zone, at.unwrap_or(0), bytes.len())?;
        let mut known = self.zones[zone as usize].lock();
        let length = bytes.len() as u64;
        LinuxDevice::check_write(operation, zone, &known, at, length)?;
        let at = known.zone.written;
        let Err(e) = self.direct.write(u64::from(zone) * self.geometry.zone_size + at, bytes) else {
            known.zone.written += length;
            known.zone.state = if known.zone.written == known.zone.capacity { ZoneState::Full } else { ZoneState::ImplicitlyOpen };
            return Ok(at);
        };
        known.ended = true;
        // Where the drive does not answer, the zone stays ended and its last known pointer is as good as any.
        if let Ok(now) = self.ask(zone) {
            known.zone = now;
            if now.state == ZoneState::Empty
                && sys::manage(&self.direct.file, Management::Reset, self.sector(zone), self.zone_sectors()).is_ok()
            {
                known.ended = false;
            }
        }
        Err(LinuxDevice::failed(operation, zone, Some(known.zone.state), e))
    }

    fn zone_sectors(&self) -> u64 {
        self.geometry.zone_size / SECTOR
    }

    fn manage(&self, operation: &'static str, what: Management, zone: u32) -> Result<()> {
        self.geometry.check_zones(operation, zone, 1)?;
        let mut known = self.zones[zone as usize].lock();
        let result = sys::manage(&self.direct.file, what, self.sector(zone), self.zone_sectors());
        // On success and failure alike, the drive tells the zone's new state.
        let now = self.ask(zone).map_err(|e| ZoneError::io(operation, Some(zone), e));
        match (result, now) {
            (Err(e), now) => {
                let state = now.ok().map(|now| {
                    known.zone = now;
                    now.state
                });
                Err(LinuxDevice::failed(operation, zone, state, e))
            }
            (Ok(()), Err(e)) => {
                known.ended = true;
                Err(e)
            }
            (Ok(()), Ok(now)) => {
                known.ended &= !matches!(what, Management::Reset | Management::Finish);
                known.zone = now;
                Ok(())
            }
        }
    }
}

/// Zones by number, in as many calls as it takes.
fn report(file: &File, call: ReportCall, zone_size: u64, first: u32, count: u32) -> io::Result<Vec<RawZone>> {
    let mut zones: Vec<RawZone> = Vec::new();
    while zones.len() < count as usize {
        let next = first + zones.len() as u32;
        let asked = REPORTED.min(count - zones.len() as u32);
        let sector = u64::from(next) * zone_size / SECTOR;
        let more = sys::report(file, call, sector, asked)?;
        if more.is_empty() || more[0].start != sector {
            return Err(invalid("the drive reports other zones than were asked for"));
        }
        zones.extend(more);
    }
    Ok(zones)
}

impl ZonedDevice for LinuxDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: u32, count: u32) -> Result<Vec<Zone>> {
        self.geometry.check_zones("report", first, count)?;
        let raw = report(&self.direct.file, self.call, self.geometry.zone_size, first, count);
        let zones = raw.and_then(|raw| raw.iter().map(zone_of).collect());
        zones.map_err(|e| ZoneError::io("report", Some(first), e))
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
        let Zone { written, state, .. } = self.zones[zone as usize].lock().zone;
        if state == ZoneState::Offline {
            return Err(ZoneError::refused(ZoneErrorKind::Offline, "read", zone));
        }
        if at.checked_add(length).is_none_or(|end| end > self.geometry.zone_size) {
            return Err(ZoneError::refused(ZoneErrorKind::Boundary, "read", zone));
        }
        // Past the pointer some drives return zeros and others ones; where that is in a read-only zone nobody knows.
        let known = if state == ZoneState::ReadOnly { length } else { written.saturating_sub(at).min(length) };
        let (below, above) = buffer.split_at_mut(known as usize);
        above.fill(0);
        let result = self.direct.read(u64::from(zone) * self.geometry.zone_size + at, below);
        result.map_err(|e| {
            let state = self.ask(zone).ok().map(|now| now.state);
            LinuxDevice::failed("read", zone, state, e)
        })
    }

    fn reset(&self, zone: u32) -> Result<()> {
        self.manage("reset", Management::Reset, zone)
    }

    fn finish(&self, zone: u32) -> Result<()> {
        self.manage("finish", Management::Finish, zone)
    }

    fn open(&self, zone: u32) -> Result<()> {
        self.manage("open", Management::Open, zone)
    }

    fn close(&self, zone: u32) -> Result<()> {
        self.manage("close", Management::Close, zone)
    }

    fn flush(&self) -> Result<()> {
        self.direct.file.sync_data().map_err(|e| ZoneError::io("flush", None, e))
    }

    /// Takes the device as mounting would. The zones are read again, since others may have written until now.
    fn lock(&self) -> store::Result<Box<dyn StoreLock>> {
        let fail = |e: io::Error| {
            let busy = e.raw_os_error() == Some(libc::EBUSY);
            StoreError::store("lock", if busy { io::ErrorKind::WouldBlock.into() } else { e })
        };
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(&self.path).map_err(fail)?;
        let zones = report(&self.direct.file, self.call, self.geometry.zone_size, 0, self.geometry.zones).map_err(fail)?;
        for (known, raw) in self.zones.iter().zip(&zones) {
            // A zone that still cannot be written says so again.
            *known.lock() = Known { zone: zone_of(raw).map_err(fail)?, ended: false };
        }
        Ok(Box::new(LinuxLock { _file: file }))
    }
}

impl fmt::Debug for LinuxDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_struct("LinuxDevice");
        list.field("path", &self.path).field("geometry", &self.geometry).field("report", &self.call).field("piece", &self.direct.piece());
        list.finish_non_exhaustive()
    }
}

/// The claim on the device lives as long as the open file description.
#[derive(Debug)]
struct LinuxLock {
    _file: File,
}

impl StoreLock for LinuxLock {}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(condition: u8, pointer: u64) -> RawZone {
        RawZone { start: 100, length: 64, pointer, kind: 2, condition, capacity: Some(48) }
    }

    #[test]
    fn conditions_are_states() {
        let zone = |condition, pointer| zone_of(&raw(condition, pointer)).unwrap();
        let expect = |written, state| Zone { capacity: 48 * SECTOR, written: written * SECTOR, state };
        assert_eq!(zone(1, 100), expect(0, ZoneState::Empty));
        assert_eq!(zone(2, 108), expect(8, ZoneState::ImplicitlyOpen));
        assert_eq!(zone(3, 100), expect(0, ZoneState::ExplicitlyOpen));
        assert_eq!(zone(4, 116), expect(16, ZoneState::Closed));
        assert_eq!(zone(0xff, 116), expect(16, ZoneState::Closed));
        // A full zone's pointer is its end, its capacity or nonsense, as the driver likes.
        for pointer in [148, 164, u64::MAX] {
            assert_eq!(zone(0xe, pointer), expect(48, ZoneState::Full));
        }
        assert_eq!(zone(0xd, u64::MAX), expect(0, ZoneState::ReadOnly));
        assert_eq!(zone(0xf, u64::MAX), expect(0, ZoneState::Offline));
        assert_eq!(zone(0, 164), expect(0, ZoneState::ReadOnly));
        let conventional = RawZone { kind: 1, capacity: None, ..raw(0, u64::MAX) };
        assert_eq!(zone_of(&conventional).unwrap(), Zone { capacity: 64 * SECTOR, written: 0, state: ZoneState::ReadOnly });
        for nonsense in [raw(5, 100), raw(2, 99), raw(2, 149), RawZone { capacity: Some(65), ..raw(1, 100) }] {
            assert!(zone_of(&nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn errors_of_the_kernel_are_kinds() {
        let kind = |operation, state, errno| LinuxDevice::failed(operation, 0, Some(state), io::Error::from_raw_os_error(errno)).kind;
        assert_eq!(kind("write", ZoneState::Empty, 109), ZoneErrorKind::TooManyOpen);
        assert_eq!(kind("open", ZoneState::Empty, 75), ZoneErrorKind::TooManyActive);
        assert_eq!(kind("write", ZoneState::Closed, 5), ZoneErrorKind::Io);
        assert_eq!(kind("append", ZoneState::Offline, 5), ZoneErrorKind::Offline);
        assert_eq!(kind("write", ZoneState::ReadOnly, 5), ZoneErrorKind::ReadOnly);
        assert_eq!(kind("read", ZoneState::Offline, 5), ZoneErrorKind::Offline);
        assert_eq!(kind("read", ZoneState::ReadOnly, 5), ZoneErrorKind::Io);
        for state in [ZoneState::ReadOnly, ZoneState::Offline] {
            assert_eq!(kind("reset", state, 5), ZoneErrorKind::InvalidTransition);
        }
        assert_eq!(kind("close", ZoneState::Empty, 5), ZoneErrorKind::InvalidTransition);
        assert_eq!(kind("open", ZoneState::Full, 5), ZoneErrorKind::InvalidTransition);
        assert_eq!(kind("finish", ZoneState::Closed, 5), ZoneErrorKind::Io);
        assert_eq!(kind("open", ZoneState::Empty, 19), ZoneErrorKind::Io);
    }

    #[test]
    fn what_is_no_zoned_device_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0; 4096]).unwrap();
        let refusal = LinuxDevice::open(&path).unwrap_err().to_string();
        assert!(refusal.contains("file"), "{refusal}");
        assert!(LinuxDevice::open(folder.path().join("none")).unwrap_err().is_not_found());
    }
}
