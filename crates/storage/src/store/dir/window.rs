//! A part of a file in memory, through which bytes are written without a call of the kernel. All unsafe code of the mapped log.
//!
//! A store into the mapping changes the page cache, as a `pwrite` does: the bytes survive the death of the process, every read of the file
//! sees them, and `fdatasync` makes them durable. If a page cannot be provided, the kernel sends SIGBUS, which ends the process: when
//! another process has shortened the file, or when a page that left memory cannot be read again. Nothing is ever read through the mapping.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// Bytes of a window, a multiple of every page size in use. A mapped window counts as memory of the process.
pub(super) const WINDOW: usize = 1 << 20;

/// [`WINDOW`] bytes of a file, at a multiple of that.
pub(super) struct Window {
    base: NonNull<u8>,
    /// Offset in the file.
    at: u64,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread; writing takes `&mut self`.
unsafe impl Send for Window {}

impl Window {
    /// The window in which `offset` lies. The file is open for reading and writing; it may end within the window.
    pub(super) fn around(file: &File, offset: u64) -> io::Result<Self> {
        let at = offset - offset % WINDOW as u64;
        let start = libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without an address the kernel chooses one where nothing is mapped, so no memory of this process changes its meaning. The
        // descriptor is open for as long as `file` is borrowed; the mapping stays valid after it is closed.
        let base = unsafe { libc::mmap(ptr::null_mut(), WINDOW, access, libc::MAP_SHARED, file.as_raw_fd(), start) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Window { base, at })
    }

    /// Index in this window of the file's `offset`; `None` if it lies outside.
    fn index(&self, offset: u64) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        (index < WINDOW).then_some(index)
    }

    /// Returns whether the byte at `offset` of the file lies in this window.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.index(offset).is_some()
    }

    /// Writes `bytes` to `offset` of the file, as far as they lie in this window. Returns their number. The bytes must lie before the end
    /// of the file.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let Some(index) = self.index(offset) else { return 0 };
        let length = bytes.len().min(WINDOW - index);
        // SAFETY: `index + length <= WINDOW`, and `WINDOW` bytes from `base` on are mapped for writing until `self` is dropped. No
        // reference to them exists anywhere: the address does not leave this type. So `bytes` lies elsewhere, and the stores race with
        // nothing in this program; readers of the file go through the kernel. Where the file has been cut meanwhile, the store raises
        // SIGBUS and the process ends.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(index), length) };
        length
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: exactly what `mmap` returned, once; nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), WINDOW) };
    }
}
