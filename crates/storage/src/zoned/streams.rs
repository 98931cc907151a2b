//! Write streams: a hint to a drive with flexible data placement (NVMe TP4146) about which writes die together.
//!
//! 1. The kernel takes the number of a stream with a direct write to a whole block device, and only through io_uring (since Linux 6.16). If
//!    a drive has fewer than two streams, no ring is made and everything is written by `pwrite`.
//! 2. A ring serves one write at a time and is then kept for the next write, so there are as many rings as concurrent writers. A single
//!    ring would need a lock during each write, or a thread that distributes completions; a ring per thread would remain after the thread
//!    ends.
//! 3. After a kernel or a container has refused streams, they are not tried again.

use super::{Streams, sys};
use io_uring::IoUring;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Most idle rings that are kept.
const KEPT: usize = 8;

/// The lifetimes that have a name, in the kernel's numbers: 2, short, to 5, extreme.
const SHORTEST: u8 = 2;
const LIFETIMES: u8 = 4;

/// Writes to one device, some of them to streams.
pub(super) struct StreamWriter {
    count: u8,
    make: fn() -> io::Result<IoUring>,
    free: Mutex<Vec<IoUring>>,
    refused: AtomicBool,
}

/// A ring for one write at a time.
fn ring() -> io::Result<IoUring> {
    IoUring::new(1)
}

/// Returns whether the kernel or the container refuses write streams altogether.
fn refuses(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP))
}

impl StreamWriter {
    /// A writer for a device for which the kernel reports `count` streams.
    pub(super) fn new(count: u64) -> Self {
        StreamWriter::with(count, ring)
    }

    fn with(count: u64, make: fn() -> io::Result<IoUring>) -> Self {
        let count = u8::try_from(count).unwrap_or(u8::MAX);
        let writer = StreamWriter { count, make, free: Mutex::default(), refused: AtomicBool::new(count < 2) };
        if count >= 2 {
            // Makes a ring at once, so that `figures` knows before the first write whether streams are used.
            match make() {
                Ok(ring) => writer.free.lock().push(ring),
                Err(_) => writer.refused.store(true, Relaxed),
            }
        }
        writer
    }

    pub(super) fn figures(&self) -> Streams {
        Streams { count: self.count, used: !self.refused.load(Relaxed) }
    }

    /// The stream for data of a lifetime; 0, no stream, for an unknown lifetime. With fewer streams than lifetimes, neighbours share one.
    pub(super) fn stream(&self, lifetime: u8) -> u8 {
        match lifetime.checked_sub(SHORTEST) {
            Some(rank) if rank < LIFETIMES && self.count > 0 => 1 + rank * self.count.min(LIFETIMES) / LIFETIMES,
            _ => 0,
        }
    }

    /// Writes aligned memory at an offset of the device: to a stream if possible, and by a plain write otherwise.
    pub(super) fn write(&self, device: &File, stream: u8, bytes: &[u8], at: u64) -> io::Result<()> {
        let written = if stream == 0 || self.refused.load(Relaxed) { 0 } else { self.write_to(device, stream, bytes, at)? };
        device.write_all_at(&bytes[written.min(bytes.len())..], at + written as u64)
    }

    /// Writes to a stream. Returns the number of bytes written; the caller writes the rest by a plain write.
    fn write_to(&self, device: &File, stream: u8, bytes: &[u8], at: u64) -> io::Result<usize> {
        let kept = self.free.lock().pop();
        let wrote = kept.map_or_else(self.make, Ok).and_then(|ring| sys::write_by_ring(ring, device, stream, bytes, at));
        let Ok((ring, written)) = wrote else {
            self.refused.store(true, Relaxed);
            return Ok(0);
        };
        let mut free = self.free.lock();
        if free.len() < KEPT {
            free.push(ring);
        }
        drop(free);
        // After any error the caller repeats the write as a plain one, which returns its own error if it fails.
        Ok(written.unwrap_or_else(|error| {
            self.refused.fetch_or(refuses(&error), Relaxed);
            0
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::direct::Direct;
    use crate::zoned::queue::Queue;

    #[test]
    fn lifetimes_share_the_streams_there_are() {
        let streams = |count| {
            let writer = StreamWriter::with(count, || Err(io::ErrorKind::Unsupported.into()));
            [0, 1, 2, 3, 4, 5, 6, 255].map(|lifetime| writer.stream(lifetime))
        };
        assert_eq!(streams(0), [0; 8]);
        assert_eq!(streams(1), [0, 0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(streams(2), [0, 0, 1, 1, 2, 2, 0, 0]);
        assert_eq!(streams(3), [0, 0, 1, 1, 2, 3, 0, 0]);
        for enough in [4, 8, 255, 65_535] {
            assert_eq!(streams(enough), [0, 0, 1, 2, 3, 4, 0, 0]);
        }
    }

    fn written(writer: &StreamWriter, stream: u8) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        writer.write(file.as_file(), stream, &[7; 8192], 4096).unwrap();
        std::fs::read(file.path()).unwrap()
    }

    #[test]
    fn what_refuses_is_asked_once_and_the_bytes_arrive_all_the_same() {
        static ASKED: AtomicBool = AtomicBool::new(false);
        let bytes = [vec![0; 4096], vec![7; 8192]].concat();
        let none = StreamWriter::with(1, || {
            ASKED.store(true, Relaxed);
            Err(io::Error::from_raw_os_error(libc::ENOSYS))
        });
        assert_eq!((none.figures(), written(&none, 1) == bytes), (Streams { count: 1, used: false }, true));
        assert!(!ASKED.load(Relaxed), "one stream is none: no ring is made");
        let refused = StreamWriter::with(8, || {
            assert!(!ASKED.swap(true, Relaxed), "it was asked again");
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!(refused.figures(), Streams { count: 8, used: false });
        assert!(written(&refused, 3) == bytes);
    }

    /// The kernel's own refusal: a loop device has no streams.
    #[test]
    fn a_kernel_that_refuses_a_write_is_not_asked_again() {
        let bytes = tempfile::NamedTempFile::new().unwrap();
        bytes.as_file().set_len(1 << 20).unwrap();
        let attached = std::process::Command::new("losetup").args(["--find", "--show"]).arg(bytes.path()).output();
        let Ok(attached) = attached.map(|output| String::from_utf8(output.stdout).unwrap()) else { return println!("SKIPPED: no losetup") };
        let Some(path) = attached.strip_suffix('\n').map(std::path::Path::new) else { return println!("SKIPPED: no loop device") };
        let device = Direct::new(Direct::open(path).unwrap(), 4096);
        let writer = StreamWriter::new(8);
        let outcome = device.write_by(4096, &[7; 8192], |piece, at| writer.write(&device.file, 3, piece, at));
        let mut found = vec![0; 8192];
        let read = device.read(4096, &mut found);
        let knows_streams = Queue::of(&device.file).unwrap().number("max_write_streams").is_ok();
        drop(device);
        assert!(std::process::Command::new("losetup").arg("--detach").arg(path).status().unwrap().success());
        assert!(outcome.is_ok() && read.is_ok() && found == [7; 8192], "{outcome:?} {read:?}");
        if knows_streams {
            assert_eq!(writer.figures(), Streams { count: 8, used: false });
        }
    }

    /// A file ignores the number, so that the way by the ring is what is tried here.
    #[test]
    fn a_ring_writes_what_a_plain_write_does() {
        let writer = StreamWriter::new(4);
        if !writer.figures().used {
            return println!("SKIPPED: this kernel, or what confines us, makes no ring");
        }
        let bytes = [vec![0; 4096], vec![7; 8192]].concat();
        std::thread::scope(|scope| {
            for stream in 0..5 {
                let (writer, bytes) = (&writer, &bytes);
                scope.spawn(move || (0..20).for_each(|_| assert!(written(writer, stream) == *bytes)));
            }
        });
        assert!(writer.figures().used && (1..=5).contains(&writer.free.lock().len()), "rings are kept");
        let missing = File::open("/dev/null").unwrap();
        let error = writer.write(&missing, 1, &[7; 512], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF), "a failed write is no refusal");
        assert!(writer.figures().used);
    }
}
