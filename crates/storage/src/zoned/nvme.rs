//! A zoned drive asked in its own language: NVMe commands past the block layer, for the exact status of each and for real appends.
//!
//! This is the drive's own word, by which the emulator and the block device are judged. A database does not run on it: the kernel does not
//! see these commands, and its own idea of the zones is wrong afterwards. One must not write by both ways without a reset between.

use super::memory::{Aligned, Pool};
use super::sys::{self, NvmeCommand};
use super::{Geometry, LinuxDevice, Result, Zone, ZoneError, ZoneErrorKind, ZoneState, ZonedDevice};
use crate::store::{self, StoreError, StoreLock};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes of the largest read or write: less than any drive's limit that we know of.
const LARGEST: usize = 128 << 10;

/// Bytes of a report's head and of one zone in it.
const REPORT_HEAD: usize = 64;
const REPORT_ZONE: usize = 64;

/// Zones asked for in one report.
const REPORTED: u32 = 512;

/// Bytes of a list of reclaim units before them, and of one of them.
const UNITS_HEAD: usize = 16;
const UNIT: usize = 32;

/// Opcodes.
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const IO_MANAGEMENT_RECEIVE: u8 = 0x12;
const MANAGEMENT_SEND: u8 = 0x79;
const MANAGEMENT_RECEIVE: u8 = 0x7a;
const APPEND: u8 = 0x7d;

/// An NVMe namespace with zones, such as `/dev/nvme0n1`.
pub struct NvmeDevice {
    file: File,
    namespace: u32,
    geometry: Geometry,
    /// The drive as a block device, which has the exclusive claim.
    block_device: LinuxDevice,
    buffers: Pool,
}

impl NvmeDevice {
    /// Opens the namespace at `path`. Fails if it is none, or has no zones, or the kernel does not let us give it commands (which takes
    /// root).
    pub fn open(path: impl AsRef<Path>) -> store::Result<Self> {
        let block_device = LinuxDevice::open(path.as_ref())?;
        let fail = |e| StoreError::store("open NVMe namespace", e);
        let file = File::options().read(true).write(true).open(path).map_err(fail)?;
        let namespace = sys::nvme_namespace(&file).map_err(fail)?;
        let geometry = block_device.geometry().clone();
        Ok(NvmeDevice { file, namespace, geometry, block_device, buffers: Pool::new(LARGEST) })
    }

    /// A block's number on the drive.
    fn block(&self, zone: u32, at: u64) -> u64 {
        (u64::from(zone) * self.geometry.zone_size + at) / u64::from(self.geometry.block)
    }

    fn command(&self, operation: &'static str, zone: Option<u32>, opcode: u8, words: [u32; 4], data: &mut [u8]) -> Result<u64> {
        let command = NvmeCommand { opcode, namespace: self.namespace, words };
        match sys::nvme(&self.file, &command, data) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(status)) => Err(match ZoneErrorKind::from_status(status) {
                Some(kind) => ZoneError { kind, zone, operation, source: None },
                None => ZoneError::io(operation, zone, io::Error::other(format!("NVMe status {status:03x}h"))),
            }),
            Err(e) => Err(ZoneError::io(operation, zone, e)),
        }
    }

    /// Reads, writes and appends: the block where it goes and the number of blocks less one.
    fn transfer(&self, operation: &'static str, zone: u32, opcode: u8, at: u64, data: &mut [u8]) -> Result<u64> {
        let blocks = data.len() as u64 / u64::from(self.geometry.block);
        let (low, high) = halves(self.block(zone, at));
        // Not more than LARGEST, as the callers saw to.
        self.command(operation, Some(zone), opcode, [low, high, (blocks - 1) as u32, 0], data)
    }

    fn put(&self, operation: &'static str, zone: u32, opcode: u8, at: u64, bytes: &[u8]) -> Result<u64> {
        self.geometry.check_blocks(operation, zone, at, bytes.len())?;
        if bytes.len() > LARGEST {
            return Err(ZoneError::refused(ZoneErrorKind::InvalidField, operation, zone));
        }
        // The drive would take it for a write to another zone.
        if at >= self.geometry.zone_size {
            return Err(ZoneError::refused(ZoneErrorKind::InvalidWrite, operation, zone));
        }
        self.buffers.with(|buffer| {
            let copy = &mut buffer[..bytes.len()];
            copy.copy_from_slice(bytes);
            self.transfer(operation, zone, opcode, at, copy)
        })
    }

    fn manage(&self, operation: &'static str, zone: u32, action: u32) -> Result<()> {
        self.geometry.check_zones(operation, zone, 1)?;
        let (low, high) = halves(self.block(zone, 0));
        self.command(operation, Some(zone), MANAGEMENT_SEND, [low, high, 0, action], &mut []).map(|_| ())
    }

    fn parse(&self, zone: u32, descriptor: &[u8]) -> io::Result<Zone> {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| descriptor[at + i]));
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(self.geometry.block));
        let state = match descriptor[1] >> 4 {
            0x1 => ZoneState::Empty,
            0x2 => ZoneState::ImplicitlyOpen,
            0x3 => ZoneState::ExplicitlyOpen,
            0x4 => ZoneState::Closed,
            0xd => ZoneState::ReadOnly,
            0xe => ZoneState::Full,
            0xf => ZoneState::Offline,
            other => return Err(io::Error::other(format!("zone state {other:x}h is not known"))),
        };
        let capacity = bytes(number(8));
        let written = match state {
            ZoneState::Full => capacity,
            state if state.is_active() => bytes(number(24).saturating_sub(self.block(zone, 0))),
            _ => 0,
        };
        Ok(Zone { capacity, written, state })
    }
}

/// Low and high word.
fn halves(number: u64) -> (u32, u32) {
    (number as u32, (number >> 32) as u32)
}

impl ZonedDevice for NvmeDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: u32, count: u32) -> Result<Vec<Zone>> {
        self.geometry.check_zones("report", first, count)?;
        let mut zones = Vec::with_capacity(count as usize);
        let mut zone = first;
        while zone < first + count {
            let asked = REPORTED.min(first + count - zone) as usize;
            let length = REPORT_HEAD + asked * REPORT_ZONE;
            let mut buffer = Aligned::new(length);
            let (low, high) = halves(self.block(zone, 0));
            // Only as many zones as there is room for (bit 16).
            let words = [low, high, (length / 4 - 1) as u32, 1 << 16];
            self.command("report", Some(zone), MANAGEMENT_RECEIVE, words, buffer.bytes())?;
            for descriptor in buffer.bytes()[REPORT_HEAD..].chunks_exact(REPORT_ZONE) {
                zones.push(self.parse(zone, descriptor).map_err(|e| ZoneError::io("report", Some(zone), e))?);
                zone += 1;
            }
        }
        Ok(zones)
    }

    /// At most 128 KiB.
    fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> Result<()> {
        self.put("write", zone, WRITE, at, bytes).map(|_| ())
    }

    /// At most 128 KiB.
    fn append(&self, zone: u32, bytes: &[u8]) -> Result<u64> {
        let block = self.put("append", zone, APPEND, 0, bytes)?;
        Ok(block.saturating_sub(self.block(zone, 0)).saturating_mul(u64::from(self.geometry.block)))
    }

    fn read(&self, zone: u32, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.geometry.check_blocks("read", zone, at, buffer.len())?;
        for (at, piece) in (at..).step_by(LARGEST).zip(buffer.chunks_mut(LARGEST)) {
            self.buffers.with(|aligned| {
                let copy = &mut aligned[..piece.len()];
                self.transfer("read", zone, READ, at, copy)?;
                piece.copy_from_slice(copy);
                Result::Ok(())
            })?;
        }
        Ok(())
    }

    fn reset(&self, zone: u32) -> Result<()> {
        self.manage("reset", zone, 4)
    }

    fn finish(&self, zone: u32) -> Result<()> {
        self.manage("finish", zone, 2)
    }

    fn open(&self, zone: u32) -> Result<()> {
        self.manage("open", zone, 3)
    }

    fn close(&self, zone: u32) -> Result<()> {
        self.manage("close", zone, 1)
    }

    fn flush(&self) -> Result<()> {
        self.command("flush", None, FLUSH, [0; 4], &mut []).map(|_| ())
    }

    fn lock(&self) -> store::Result<Box<dyn StoreLock>> {
        self.block_device.lock()
    }
}

/// Unit into which a namespace with flexible data placement writes for one of its placement handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimUnit {
    /// The number by which writes name the handle.
    pub placement: u16,
    /// Blocks that can be written before the drive goes on to another unit.
    pub room: u64,
}

impl ReclaimUnit {
    /// The reclaim units of the namespace at `path`, in the order of the kernel's write streams. Fails without flexible data placement, or
    /// the right to give commands to the drive.
    pub fn of(path: impl AsRef<Path>) -> store::Result<Vec<ReclaimUnit>> {
        let list = || {
            let file = File::options().read(true).write(true).open(path)?;
            let namespace = sys::nvme_namespace(&file)?;
            let ask = |length: usize| {
                let mut buffer = Aligned::new(length);
                let command = NvmeCommand { opcode: IO_MANAGEMENT_RECEIVE, namespace, words: [1, (length / 4 - 1) as u32, 0, 0] };
                let refused = |status| io::Error::other(format!("NVMe status {status:03x}h"));
                sys::nvme(&file, &command, buffer.bytes())?.map_err(refused)?;
                io::Result::Ok(buffer)
            };
            // Not more than there is: QEMU refuses a buffer of which some would be left.
            let count = ReclaimUnit::count(ask(UNITS_HEAD)?.bytes());
            Ok(ReclaimUnit::parse(ask(UNITS_HEAD + count * UNIT)?.bytes()))
        };
        list().map_err(|e| StoreError::store("list reclaim units", e))
    }

    fn count(bytes: &[u8]) -> usize {
        usize::from(u16::from_le_bytes([bytes[14], bytes[15]]))
    }

    fn parse(bytes: &[u8]) -> Vec<ReclaimUnit> {
        let unit = |unit: &[u8]| ReclaimUnit {
            placement: u16::from_le_bytes([unit[0], unit[1]]),
            room: u64::from_le_bytes(std::array::from_fn(|i| unit[8 + i])),
        };
        bytes[UNITS_HEAD..].chunks_exact(UNIT).take(ReclaimUnit::count(bytes)).map(unit).collect()
    }
}

impl fmt::Debug for NvmeDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NvmeDevice").field("namespace", &self.namespace).field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reclaim_units_are_read() {
        let mut bytes = [0; UNITS_HEAD + 2 * UNIT];
        bytes[14] = 2;
        (bytes[16 + 32], bytes[16 + 32 + 8], bytes[16 + 32 + 9]) = (5, 1, 1);
        let units = [ReclaimUnit { placement: 0, room: 0 }, ReclaimUnit { placement: 5, room: 257 }];
        assert_eq!(ReclaimUnit::parse(&bytes), units);
        bytes[15] = 255;
        assert_eq!(ReclaimUnit::parse(&bytes), units, "no more than there are");
    }
}
