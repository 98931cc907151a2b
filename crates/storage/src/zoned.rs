//! The interface to zoned drives: zones that are written in order, from their start to their capacity, and emptied as a whole.
//!
//! Terms are those of the NVMe Zoned Namespace command set. A zone is *open* while the drive holds resources to write it, and *active* from
//! its first write (or its opening) until it is full or reset; a drive limits both numbers. The contract of every implementation:
//!
//! * bytes are durable only after [`ZonedDevice::flush`] returned `Ok`. Of bytes written since then, a power cut leaves in each zone a
//!   prefix, cut at any block; resets since then may be lost as well;
//! * a write is at the write pointer or fails. A failed write may end the zone for writing: then further writes fail with
//!   [`ZoneErrorKind::Io`], reads go on, and [`ZonedDevice::finish`] or [`ZonedDevice::reset`] may be tried. [`ZonedDevice::report`] tells
//!   how much of the failed write arrived;
//! * all calls may come from several threads at once; calls on one zone are served one after the other.
//!
//! | event | `Empty` | `ImplicitlyOpen` | `ExplicitlyOpen` | `Closed` | `Full` | `ReadOnly` | `Offline` |
//! |---|---|---|---|---|---|---|---|
//! | write, append | becomes `ImplicitlyOpen` | stays | stays | becomes `ImplicitlyOpen` | 1B9h | 1BAh | 1BBh |
//! | open | `ExplicitlyOpen` | `ExplicitlyOpen` | stays | `ExplicitlyOpen` | 1BFh | 1BFh | 1BFh |
//! | close | 1BFh | `Closed` | `Closed` | stays | 1BFh | 1BFh | 1BFh |
//! | finish | `Full` | `Full` | `Full` | `Full` | stays | 1BFh | 1BFh |
//! | reset | stays | `Empty` | `Empty` | `Empty` | `Empty` | 1BFh | 1BFh |
//! | read | zeros | yes | yes | yes | yes | yes | 1BBh |
//!
//! A write that reaches the capacity makes the zone `Full`. A zone that becomes active counts towards [`Geometry::max_active`], one that
//! becomes open towards [`Geometry::max_open`]. If a zone cannot be opened because of the limit, the drive closes the zone that was
//! implicitly opened longest ago; if there is none, the call fails. At the limit of active zones, the call fails in any case.

mod direct;
mod emulator;
mod find;
mod linux;
mod memory;
mod nvme;
mod queue;
mod streams;
mod sys;

pub use emulator::{Activity, Call, Emulator, Latency, Unflushed, ZoneFate, ZoneFault, ZoneHook};
pub use find::find;
pub use linux::LinuxDevice;
pub use nvme::{NvmeDevice, ReclaimUnit};
pub use sys::ReportCall;

use crate::store::StoreLock;
use std::fmt;
use std::io;

/// The shape of a drive. Lengths are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// The unit of reads and writes: a power of two, 512 to 65,536.
    pub block: u32,
    /// Number of zones.
    pub zones: u32,
    /// From one zone's start to the next; a multiple of the block. A zone's capacity may be less.
    pub zone_size: u64,
    /// Zones that may be open at once; `None` for no limit.
    pub max_open: Option<u32>,
    /// Zones that may be active at once, at least `max_open`; `None` for no limit.
    pub max_active: Option<u32>,
    /// Number of conventional zones at the start of the drive, which are written at random and have no write pointer. They are not used,
    /// and are reported as [`ZoneState::ReadOnly`].
    pub conventional: u32,
}

impl Geometry {
    /// From the start of the first zone to the end of the last, in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.zones) * self.zone_size
    }

    /// An error if the drive does not have `count` zones from `zone` on.
    fn check_zones(&self, operation: &'static str, zone: u32, count: u32) -> Result<()> {
        match zone.checked_add(count) {
            Some(end) if end <= self.zones => Ok(()),
            _ => Err(ZoneError::refused(ZoneErrorKind::OutOfRange, operation, zone)),
        }
    }

    /// An error for a range that is invalid in any state of the zone: a missing zone, no bytes, or part of a block.
    fn check_blocks(&self, operation: &'static str, zone: u32, at: u64, length: usize) -> Result<()> {
        self.check_zones(operation, zone, 1)?;
        let (block, length) = (u64::from(self.block), length as u64);
        if length == 0 || !length.is_multiple_of(block) || !at.is_multiple_of(block) {
            return Err(ZoneError::refused(ZoneErrorKind::InvalidField, operation, zone));
        }
        Ok(())
    }
}

/// The state of a zone, by the names of the command set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// Opened by a write.
    ImplicitlyOpen,
    /// Opened by [`ZonedDevice::open`].
    ExplicitlyOpen,
    /// Partly written and not open.
    Closed,
    /// Written to its capacity, or finished.
    Full,
    /// Can be read and not written; a fault of the drive.
    ReadOnly,
    /// Lost; a fault of the drive.
    Offline,
}

impl ZoneState {
    /// Every state.
    pub const ALL: [ZoneState; 7] = [
        ZoneState::Empty,
        ZoneState::ImplicitlyOpen,
        ZoneState::ExplicitlyOpen,
        ZoneState::Closed,
        ZoneState::Full,
        ZoneState::ReadOnly,
        ZoneState::Offline,
    ];

    /// Counts towards [`Geometry::max_active`].
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }

    /// Counts towards [`Geometry::max_open`].
    pub fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }
}

/// A drive's report of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Bytes that can be written, at most [`Geometry::zone_size`].
    pub capacity: u64,
    /// Bytes from the zone's start to its write pointer; the capacity if the zone is full; without meaning if it is read-only or offline.
    pub written: u64,
    /// State of the zone.
    pub state: ZoneState,
}

/// Reason why a drive refused a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneErrorKind {
    /// 1B8h Zone Boundary Error: the range passes the zone's capacity (a write) or its end (a read).
    Boundary,
    /// 1B9h Zone Is Full.
    Full,
    /// 1BAh Zone Is Read Only.
    ReadOnly,
    /// 1BBh Zone Is Offline.
    Offline,
    /// 1BCh Zone Invalid Write: not at the write pointer.
    InvalidWrite,
    /// 1BDh Too Many Active Zones.
    TooManyActive,
    /// 1BEh Too Many Open Zones.
    TooManyOpen,
    /// 1BFh Invalid Zone State Transition.
    InvalidTransition,
    /// 80h LBA Out of Range: there is no such zone.
    OutOfRange,
    /// 02h Invalid Field in Command: nothing to write, or not whole blocks.
    InvalidField,
    /// Anything else; the source says what. After a write or an append the zone is ended for writing.
    Io,
}

impl ZoneErrorKind {
    /// Every kind.
    pub const ALL: [ZoneErrorKind; 11] = [
        ZoneErrorKind::Boundary,
        ZoneErrorKind::Full,
        ZoneErrorKind::ReadOnly,
        ZoneErrorKind::Offline,
        ZoneErrorKind::InvalidWrite,
        ZoneErrorKind::TooManyActive,
        ZoneErrorKind::TooManyOpen,
        ZoneErrorKind::InvalidTransition,
        ZoneErrorKind::OutOfRange,
        ZoneErrorKind::InvalidField,
        ZoneErrorKind::Io,
    ];

    /// The status of NVMe: code type in bits 8 to 10, code below. `None` for [`ZoneErrorKind::Io`].
    pub fn status(self) -> Option<u16> {
        Some(match self {
            ZoneErrorKind::Boundary => 0x1b8,
            ZoneErrorKind::Full => 0x1b9,
            ZoneErrorKind::ReadOnly => 0x1ba,
            ZoneErrorKind::Offline => 0x1bb,
            ZoneErrorKind::InvalidWrite => 0x1bc,
            ZoneErrorKind::TooManyActive => 0x1bd,
            ZoneErrorKind::TooManyOpen => 0x1be,
            ZoneErrorKind::InvalidTransition => 0x1bf,
            ZoneErrorKind::OutOfRange => 0x080,
            ZoneErrorKind::InvalidField => 0x002,
            ZoneErrorKind::Io => return None,
        })
    }

    /// The kind with this NVMe status, if it is one of ours.
    pub fn from_status(status: u16) -> Option<Self> {
        ZoneErrorKind::ALL.into_iter().find(|kind| kind.status() == Some(status))
    }
}

impl fmt::Display for ZoneErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ZoneErrorKind::Boundary => "the range passes the end of the zone",
            ZoneErrorKind::Full => "the zone is full",
            ZoneErrorKind::ReadOnly => "the zone is read-only",
            ZoneErrorKind::Offline => "the zone is offline",
            ZoneErrorKind::InvalidWrite => "not at the write pointer",
            ZoneErrorKind::TooManyActive => "too many active zones",
            ZoneErrorKind::TooManyOpen => "too many open zones",
            ZoneErrorKind::InvalidTransition => "the zone's state does not allow it",
            ZoneErrorKind::OutOfRange => "there is no such zone",
            ZoneErrorKind::InvalidField => "not whole blocks",
            ZoneErrorKind::Io => "input or output failed",
        })
    }
}

/// A refused or failed operation on a drive.
#[derive(Debug, thiserror::Error)]
#[error(
    "{operation}{}: {kind}{}",
    zone.map(|z| format!(" zone {z}")).unwrap_or_default(),
    source.as_ref().map(|e| format!(" ({e})")).unwrap_or_default()
)]
pub struct ZoneError {
    /// Reason.
    pub kind: ZoneErrorKind,
    /// Zone of the operation; `None` if it was about the whole drive.
    pub zone: Option<u32>,
    /// Operation that failed, such as `write`.
    pub operation: &'static str,
    /// The system's reason, where it gave one.
    pub source: Option<io::Error>,
}

impl ZoneError {
    /// A refusal that needs no further reason.
    pub fn refused(kind: ZoneErrorKind, operation: &'static str, zone: u32) -> Self {
        ZoneError { kind, zone: Some(zone), operation, source: None }
    }

    /// A failure that the system reported.
    pub fn io(operation: &'static str, zone: Option<u32>, source: io::Error) -> Self {
        ZoneError { kind: ZoneErrorKind::Io, zone, operation, source: Some(source) }
    }
}

/// The result of an operation on a drive.
pub type Result<T> = std::result::Result<T, ZoneError>;

/// The write streams of a drive, by which it keeps data of different lifetimes apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Number of streams that the kernel reports, at most 255; 0 for none.
    pub count: u8,
    /// Writes go to streams: there are at least two, and neither kernel nor container has refused.
    pub used: bool,
}

/// A drive of zones. Offsets (`at`) are bytes from the start of the zone; buffers may lie anywhere in memory.
pub trait ZonedDevice: Send + Sync + fmt::Debug {
    /// The drive's shape, which does not change.
    fn geometry(&self) -> &Geometry;

    /// States of `count` zones from `first`. [`ZoneErrorKind::OutOfRange`] if there are not that many.
    fn report(&self, first: u32, count: u32) -> Result<Vec<Zone>>;

    /// Writes whole blocks at the write pointer of `zone`; `at` must be it. Not durable before [`ZonedDevice::flush`].
    fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> Result<()>;

    /// Writes whole blocks at the write pointer and returns its position before the write. A device without appends locks the zone instead.
    fn append(&self, zone: u32, bytes: &[u8]) -> Result<u64>;

    /// Reads whole blocks of one zone, up to [`Geometry::zone_size`]; unwritten blocks read as zeros.
    fn read(&self, zone: u32, at: u64, buffer: &mut [u8]) -> Result<()>;

    /// Empties a zone. A power cut before the next [`ZonedDevice::flush`] may undo it.
    fn reset(&self, zone: u32) -> Result<()>;

    /// Makes a zone full. Some drives fill the rest of the zone, which takes as long as writing it.
    fn finish(&self, zone: u32) -> Result<()>;

    /// Opens a zone explicitly: the drive does not close it by itself.
    fn open(&self, zone: u32) -> Result<()>;

    /// Closes a zone: it stays active and is no longer open.
    fn close(&self, zone: u32) -> Result<()>;

    /// Makes everything that returned before this call durable.
    fn flush(&self) -> Result<()>;

    /// Sets the lifetime of data written to `zone` from now on, for drives that keep lifetimes apart: the kernel's number (`F_SET_RW_HINT`)
    /// from 2, short, to 5, extreme; any other number if nothing is known. Makes no system call, so it may be called under any lock.
    fn destine(&self, _zone: u32, _lifetime: u8) {}

    /// Write streams in which the drive keeps lifetimes apart.
    fn streams(&self) -> Streams {
        Streams::default()
    }

    /// Locks the drive for one volume; [`crate::store::StoreError::is_locked`] if it is locked already.
    fn lock(&self) -> crate::store::Result<Box<dyn StoreLock>>;
}
