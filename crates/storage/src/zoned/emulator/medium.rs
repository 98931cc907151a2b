//! The medium of an emulated drive that outlives its process: two files, or one block device without zones.

use crate::locked::Locked;
use crate::zoned::direct::{Direct, PIECE};
use crate::zoned::queue::Queue;
use crate::zoned::streams::StreamWriter;
use crate::zoned::{Geometry, Streams, sys};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::ops::Deref;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// On a device the zones begin at a multiple of this, so that they lie as whole in the drive's own units as their size lets them.
pub(super) const ALIGN: u64 = 1 << 20;

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

pub(super) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

/// Path of the bytes of the drive at `path`, which may be a link to them.
pub(super) fn bytes_path(path: &Path) -> PathBuf {
    let real = if path.is_symlink() { std::fs::canonicalize(path).ok() } else { None };
    real.unwrap_or_else(|| path.to_owned())
}

/// Path of the states of the drive at `path`: the device itself, or a file beside the bytes, whatever link led there.
pub(super) fn states_path(path: &Path) -> PathBuf {
    let path = bytes_path(path);
    if is_device(&path) {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(".zones");
    PathBuf::from(name)
}

/// The states, which one process has at a time. On a device they go through the page cache as in a file, so that a record costs a copy
/// and survives the process; the zones, which pass the cache, lie in other pages of it.
#[derive(Debug)]
pub(super) enum Held {
    /// A small file, by its lock.
    File(Locked),
    /// A device, as mounting would have it: nobody mounts it meanwhile, and what is mounted cannot be had.
    Device(File),
}

impl Held {
    /// [`io::ErrorKind::WouldBlock`] if someone has it.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let states = states_path(path);
        if !is_device(path) {
            return Ok(Held::File(Locked::take(OpenOptions::new().read(true).write(true).open(states)?)?));
        }
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(states).map_err(|e| {
            let busy = e.raw_os_error() == Some(libc::EBUSY);
            if busy { io::ErrorKind::WouldBlock.into() } else { e }
        })?;
        if sys::is_zoned(&device) {
            return Err(invalid("the device has zones of its own"));
        }
        Ok(Held::Device(device))
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Held::File(file) => file,
            Held::Device(file) => file,
        }
    }
}

/// The bytes of all zones, zone after zone.
pub(super) enum Bytes {
    /// A sparse file, by a lock of its own: it may have another name beside which other states lie.
    File(Locked),
    /// A device, past the page cache, from behind the states on.
    Device(Device),
}

/// A block device and where its first zone begins.
pub(super) struct Device {
    direct: Direct,
    first: u64,
    writer: StreamWriter,
    /// The write stream of each zone; 0 for none.
    streams: Vec<AtomicU8>,
}

impl Bytes {
    /// `states_end` is where the last record ends. Fails if the zones have no room, or blocks that the device does not write.
    pub(super) fn open(path: &Path, geometry: &Geometry, states_end: u64) -> io::Result<Self> {
        if !is_device(path) {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            if file.metadata()?.len() < geometry.bytes() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file with the bytes is too short"));
            }
            return Ok(Bytes::File(Locked::take(file)?));
        }
        let mut file = Direct::open(path)?;
        let first = first_zone(states_end);
        fits(geometry, first, file.seek(SeekFrom::End(0))?, sys::logical_block(&file)?)?;
        // A partition has none, and the file is missing in older kernels.
        let writer = StreamWriter::new(Queue::of(&file)?.number("max_write_streams").unwrap_or(0));
        let streams = (0..geometry.zones).map(|_| AtomicU8::new(0)).collect();
        Ok(Bytes::Device(Device { direct: Direct::new(file, PIECE), first, writer, streams }))
    }

    /// Writes bytes of a zone.
    pub(super) fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Bytes::File(file) => file.write_all_at(bytes, at),
            Bytes::Device(Device { direct, first, writer, streams }) => {
                let stream = streams.get(zone as usize).map_or(0, |stream| stream.load(Relaxed));
                direct.write_by(first + at, bytes, |piece, at| writer.write(&direct.file, stream, piece, at))
            }
        }
    }

    /// Tells the device how long bytes written to the zone from now on will live.
    pub(super) fn destine(&self, zone: u32, lifetime: u8) {
        if let Bytes::Device(Device { writer, streams, .. }) = self
            && let Some(stream) = streams.get(zone as usize)
        {
            stream.store(writer.stream(lifetime), Relaxed);
        }
    }

    pub(super) fn streams(&self) -> Streams {
        match self {
            Bytes::File(_) => Streams::default(),
            Bytes::Device(device) => device.writer.figures(),
        }
    }

    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Bytes::File(file) => file.read_exact_at(buffer, at),
            Bytes::Device(Device { direct, first, .. }) => direct.read(first + at, buffer),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self {
            Bytes::File(file) => file.sync_data(),
            Bytes::Device(Device { direct, .. }) => direct.file.sync_data(),
        }
    }

    /// Gives space back to the file system or to the device. If that cannot be done the old bytes stay; nobody relies on zeros.
    pub(super) fn discard(&self, at: u64, length: u64) {
        match self {
            Bytes::File(file) => sys::punch_hole(file, at, length),
            Bytes::Device(Device { direct, first, .. }) => sys::discard(&direct.file, first + at, length),
        }
    }
}

/// Offset of the first zone behind records that end at `states_end`.
pub(super) fn first_zone(states_end: u64) -> u64 {
    states_end.next_multiple_of(ALIGN)
}

/// Whether zones from `first` on fit a device of `length` bytes that is written in blocks of `block`.
fn fits(geometry: &Geometry, first: u64, length: u64, block: u32) -> io::Result<()> {
    if !geometry.block.is_multiple_of(block) {
        return Err(invalid(format!(
            "the device has blocks of {block} bytes, which those of the drive ({}) are no multiple of",
            geometry.block
        )));
    }
    match first.checked_add(geometry.bytes()) {
        Some(end) if end <= length => Ok(()),
        _ => Err(invalid(format!("the device has {length} bytes, of which {first} are for states; the zones take {}", geometry.bytes()))),
    }
}

/// Refuses a device with anything at its beginning, where file systems, tables of partitions and our own states have their marks.
pub(super) fn check_blank(device: &File) -> io::Result<()> {
    let mut start = vec![0; ALIGN as usize];
    device.read_exact_at(&mut start, 0)?;
    match start.iter().position(|byte| *byte != 0) {
        Some(at) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("there is something on the device: its byte {at} is not zero")))
        }
        None => Ok(()),
    }
}

/// Writes zeros over the first `length` bytes, durably.
pub(super) fn blank(device: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; ALIGN as usize];
    let mut at = 0;
    while at < length {
        let part = (length - at).min(ALIGN);
        // At most ALIGN, so the conversion loses nothing.
        device.write_all_at(&zeros[..part as usize], at)?;
        at += part;
    }
    device.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_begin_behind_the_states_and_fit_or_not() {
        assert_eq!([1, 1 << 20, (1 << 20) + 64].map(first_zone), [1 << 20, 1 << 20, 2 << 20]);
        let geometry = Geometry { block: 4096, zones: 8, zone_size: 1 << 20, max_open: None, max_active: None, conventional: 0 };
        for block in [512, 4096] {
            fits(&geometry, 1 << 20, 9 << 20, block).unwrap();
        }
        let refusal = |first, length, block| fits(&geometry, first, length, block).unwrap_err().to_string();
        assert!(refusal(1 << 20, (9 << 20) - 1, 512).contains("has 9437183 bytes, of which 1048576 are for states"));
        assert!(refusal(u64::MAX - 5, u64::MAX, 512).contains("the zones take 8388608"));
        assert!(refusal(1 << 20, 9 << 20, 8192).contains("blocks of 8192"));
    }

    #[test]
    fn what_is_not_blank_is_refused_until_it_is_made_so() {
        let device = tempfile::tempfile().unwrap();
        device.set_len(3 << 20).unwrap();
        device.write_all_at(b"x", (2 << 20) + 1).unwrap();
        check_blank(&device).unwrap();
        // Where ext4 has its magic.
        device.write_all_at(&[0x53, 0xef], 1080).unwrap();
        let refusal = check_blank(&device).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::AlreadyExists);
        assert!(refusal.to_string().contains("byte 1080"), "{refusal}");
        blank(&device, (2 << 20) + 1).unwrap();
        check_blank(&device).unwrap();
        let mut kept = [0];
        device.read_exact_at(&mut kept, (2 << 20) + 1).unwrap();
        assert_eq!(kept, *b"x", "no more than was asked for");
    }
}
