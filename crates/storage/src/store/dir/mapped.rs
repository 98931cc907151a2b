//! A log written through a memory map: an append is a copy into the page cache, without a call of the kernel.
//!
//! Zeros are written ahead of the log, a step at a time, so that a copy never meets a hole of the file: the file system has given the file
//! all the space that the copy needs. The zeros enter the page cache in large pieces, so that copies over them cause few page faults. The
//! size of a step is the power of two above the bytes appended since the last good sync, from 4 to 256 KiB.
//!
//! Records as long as a step are written by `pwrite`, and so are the first few kilobytes after a sync: a store into a mapping makes a whole
//! large piece of the page cache dirty, so a log that is synced after each record would write each piece many times.
//!
//! The first bytes of each append are written last. If another process reads the log between the two writes, or this process dies there,
//! the place where the record begins holds zeros.
//!
//! If there is no space for a step, zeros are written page by page from then on. If there is no space even for the pages of a record, all
//! zeros are removed, and each record is written by `pwrite` alone. So on a full medium the log takes no more space than its records, and
//! errors concern records, not zeros.

use super::window::Window;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Fewest bytes of zeros written at once: a page. Also the bytes after a sync that are written by `pwrite`, before copying begins.
const STEP_MIN: u64 = 4 << 10;

/// Most bytes of zeros written at once.
const STEP_MAX: u64 = 256 << 10;

static ZEROS: [u8; STEP_MAX as usize] = [0; STEP_MAX as usize];

/// Bytes at the start of an append that are written last. Without them the bytes behind are no record.
const HEAD: usize = 16;

/// The system calls that prepare a file for records.
pub(super) trait FileCalls {
    fn write_zeros(&self, file: &File, zeros: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(zeros, at)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn map(&self, file: &File, at: u64) -> io::Result<Window> {
        Window::around(file, at)
    }
}

/// The real system calls.
pub(super) struct Kernel;

impl FileCalls for Kernel {}

/// The file of one log. The caller keeps the length of the log.
pub(super) struct MappedLog<C = Kernel> {
    file: Arc<File>,
    window: Option<Window>,
    /// Length of the file, bytes: the log and the zeros behind it.
    end: u64,
    /// Length of the log when the last good sync began, bytes. Shared with syncs that run while the log is appended to.
    synced: Arc<AtomicU64>,
    /// Largest step, bytes; one page once there was no space for more.
    step_max: u64,
    /// There was no space for zeros, so none are written any more.
    is_tight: bool,
    calls: C,
}

impl MappedLog {
    /// `file` is empty, and open for reading and writing.
    pub(super) fn new(file: File) -> Self {
        Self::with(Kernel, file)
    }
}

impl<C: FileCalls> MappedLog<C> {
    fn with(calls: C, file: File) -> Self {
        MappedLog { file: Arc::new(file), window: None, end: 0, synced: Arc::default(), step_max: STEP_MAX, is_tight: false, calls }
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Appends to a log of `len` bytes.
    pub(super) fn append(&mut self, bytes: &[u8], len: u64) -> io::Result<()> {
        if self.is_tight {
            return self.file.write_all_at(bytes, len);
        }
        let after = len + bytes.len() as u64;
        let (head, body) = bytes.split_at(bytes.len().min(HEAD));
        let body_at = len + head.len() as u64;
        let unsynced = len.saturating_sub(self.synced.load(Ordering::Relaxed));
        let step = (unsynced + 1).next_power_of_two().clamp(STEP_MIN, STEP_MAX);
        let is_long = body.len() as u64 >= step;
        if !is_long && after > self.end && !self.take_space(len, after, step)? {
            return self.file.write_all_at(bytes, len);
        }
        if is_long || unsynced < STEP_MIN {
            self.file.write_all_at(body, body_at)?;
            self.file.write_all_at(head, len)?;
            self.end = self.end.max(after);
        } else {
            self.copy(body, body_at)?;
            // A reader that sees the head also sees the body.
            fence(Ordering::Release);
            self.copy(head, len)?;
        }
        Ok(())
    }

    /// Writes zeros for a record from `len` to `after`: up to a multiple of `step`, or for the record's pages alone if there is no space
    /// for more. False: there is no space for these either, and all zeros were removed.
    fn take_space(&mut self, len: u64, after: u64, step: u64) -> io::Result<bool> {
        let mut step = step.min(self.step_max);
        while !self.write_ahead(after.next_multiple_of(step)) {
            // The zeros written before the failure may take the last free space, which other writers need.
            self.cut(len)?;
            if step == STEP_MIN {
                self.is_tight = true;
                return Ok(false);
            }
            (step, self.step_max) = (STEP_MIN, STEP_MIN);
        }
        Ok(true)
    }

    /// Writes zeros from the end of the file up to `end`. False if any write fails.
    fn write_ahead(&mut self, end: u64) -> bool {
        while self.end < end {
            let length = (end - self.end).min(STEP_MAX);
            if self.calls.write_zeros(&self.file, &ZEROS[..length as usize], self.end).is_err() {
                return false;
            }
            self.end += length;
        }
        true
    }

    /// Copies bytes to a part of the file that has space on the medium. If no window can be mapped, writes them by `pwrite`.
    fn copy(&mut self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            if !self.window.as_ref().is_some_and(|window| window.has(at)) {
                self.window = None;
                self.window = self.calls.map(&self.file, at).ok();
            }
            let Some(window) = &mut self.window else { return self.file.write_all_at(bytes, at) };
            let copied = window.write(at, bytes);
            (bytes, at) = (&bytes[copied..], at + copied as u64);
        }
        Ok(())
    }

    /// Removes the zeros behind a log of `len` bytes.
    pub(super) fn cut(&mut self, len: u64) -> io::Result<()> {
        self.calls.set_len(&self.file, len)?;
        self.end = len;
        Ok(())
    }

    /// A sync of the log, which has `len` bytes. May run at once, or in another thread while the log is appended to.
    pub(super) fn sync(&self, len: u64) -> impl FnOnce() -> io::Result<()> + Send + use<C> {
        let (file, synced) = (Arc::clone(&self.file), Arc::clone(&self.synced));
        move || {
            file.sync_data()?;
            synced.fetch_max(len, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Removes the mapping and returns the file, for the caller to close.
    pub(super) fn into_file(self) -> Arc<File> {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that refuses calls.
    struct Refusing {
        /// Bytes that a file of zeros may have.
        space: u64,
        cuts: bool,
        maps: bool,
    }

    impl FileCalls for Refusing {
        fn write_zeros(&self, file: &File, zeros: &[u8], at: u64) -> io::Result<()> {
            let fits = self.space.saturating_sub(at).min(zeros.len() as u64);
            file.write_all_at(&zeros[..fits as usize], at)?;
            if fits < zeros.len() as u64 { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
        }

        fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
            if self.cuts { file.set_len(len) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
        }

        fn map(&self, file: &File, at: u64) -> io::Result<Window> {
            if self.maps { Window::around(file, at) } else { Err(io::Error::from_raw_os_error(libc::ENOMEM)) }
        }
    }

    const WILLING: Refusing = Refusing { space: u64::MAX, cuts: true, maps: true };

    /// A log and what was appended to it.
    struct Tried {
        log: MappedLog<Refusing>,
        appended: Vec<u8>,
    }

    impl Tried {
        fn new(calls: Refusing) -> Self {
            Tried { log: MappedLog::with(calls, tempfile::tempfile().unwrap()), appended: Vec::new() }
        }

        fn append(&mut self, bytes: usize) -> io::Result<()> {
            let record: Vec<u8> = (0..bytes).map(|n| n as u8 | 1).collect();
            self.log.append(&record, self.appended.len() as u64)?;
            self.appended.extend_from_slice(&record);
            Ok(())
        }

        /// Zeros at the end of the file, in front of which stands what was appended.
        fn ahead(&self) -> usize {
            let mut bytes = vec![0; self.log.file.metadata().unwrap().len() as usize];
            self.log.file.read_exact_at(&mut bytes, 0).unwrap();
            let zeros = bytes.strip_prefix(&self.appended[..]).expect("all that was appended");
            assert!(zeros.iter().all(|byte| *byte == 0), "behind {} bytes", self.appended.len());
            zeros.len()
        }
    }

    #[test]
    fn a_log_that_cannot_be_mapped_is_written() {
        let mut tried = Tried::new(Refusing { maps: false, ..WILLING });
        for bytes in [10, 5000, 17, 3000, 16, 100_000, 1, 300_000, 5000] {
            tried.append(bytes).unwrap();
            assert!(tried.log.window.is_none() && tried.ahead() <= STEP_MAX as usize, "{bytes} bytes");
        }
    }

    #[test]
    fn a_log_that_finds_no_space_for_a_step_takes_its_pages_alone() {
        const SPACE: usize = 100_000;
        let mut tried = Tried::new(Refusing { space: SPACE as u64, ..WILLING });
        let mut most = 0;
        for _ in 0..SPACE / 500 + 20 {
            tried.append(500).unwrap();
            let (len, ahead) = (tried.appended.len(), tried.ahead());
            most = most.max(ahead);
            if len > 65_536 {
                // No second step may be tried, and zeros end with the last page that there is.
                let expected = if len <= SPACE / 4096 * 4096 { len.next_multiple_of(4096) - len } else { 0 };
                assert_eq!(ahead, expected, "{len} bytes");
            }
        }
        assert!(most >= 16_384, "there was space for longer steps at first: {most}");
    }

    #[test]
    fn a_log_whose_zeros_cannot_be_given_back_ends() {
        let mut tried = Tried::new(Refusing { space: 20_000, cuts: false, ..WILLING });
        let error = (0..100).find_map(|_| tried.append(500).err()).expect("there is no space");
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
        let (len, ahead) = (tried.appended.len() as u64, tried.ahead());
        assert!(ahead > 0, "as it was");
        assert!(tried.log.cut(len).is_err());
        assert_eq!(tried.ahead(), ahead);
    }
}
