//! A log written through a memory map: an append is a copy into the page cache, without a call of the kernel.
//!
//! Zeros are written ahead of the log, a step at a time, so that a copy never meets a hole: whatever space it needs has been given to the
//! file before. The zeros are in the page cache already when they are overwritten, in large pieces, which makes the page faults of the
//! copies few. A step is as long as what was appended since the last sync, within bounds.
//!
//! Records as long as a step go by `pwrite`, and so do the first few kilobytes after a sync: a store into a mapping makes the whole piece
//! of the page cache dirty, so a log that is synced record by record would write each piece many times.
//!
//! Of each append the first bytes are written last. A reader beside, or after the process died between the two, finds zeros where the
//! record would begin.
//!
//! Where there is no space for zeros, those that are there are given back, and each record is written by `pwrite` and as long as it is: the
//! log of a full medium takes no more than it holds, and its errors are those of its records.

use super::window::Window;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Fewest bytes of zeros written at once, a page; and bytes appended since a sync before others are copied.
const STEP_MIN: u64 = 4 << 10;

/// Most bytes of zeros written at once.
const STEP_MAX: u64 = 256 << 10;

static ZEROS: [u8; STEP_MAX as usize] = [0; STEP_MAX as usize];

/// Bytes at the start of an append that are written last: they make a record of the bytes behind them.
const HEAD: usize = 16;

/// The file of one log. Its user keeps the length.
pub(super) struct MappedLog {
    file: Arc<File>,
    window: Option<Window>,
    /// Length of the file: the log and the zeros ahead of it.
    end: u64,
    /// Bytes appended since the last sync.
    unsynced: u64,
    /// There was no space for zeros: nothing is written ahead any more.
    is_tight: bool,
}

impl MappedLog {
    /// `file` is empty, and open for reading and writing.
    pub(super) fn new(file: File) -> Self {
        MappedLog { file: Arc::new(file), window: None, end: 0, unsynced: 0, is_tight: false }
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
        let step = (self.unsynced + 1).next_power_of_two().clamp(STEP_MIN, STEP_MAX);
        let is_long = body.len() as u64 >= step;
        if !is_long && after > self.end && !self.write_ahead(after.next_multiple_of(step)) {
            self.is_tight = true;
            self.cut(len)?;
            return self.file.write_all_at(bytes, len);
        }
        if is_long || self.unsynced < STEP_MIN {
            self.file.write_all_at(body, body_at)?;
            self.file.write_all_at(head, len)?;
            self.end = self.end.max(after);
        } else {
            self.copy(body, body_at)?;
            // A reader that sees the first bytes sees the others.
            fence(Ordering::Release);
            self.copy(head, len)?;
        }
        self.unsynced += bytes.len() as u64;
        Ok(())
    }

    /// Writes zeros from the end of the file up to `end`; false if there is no space for them, or nothing can be written.
    fn write_ahead(&mut self, end: u64) -> bool {
        while self.end < end {
            let length = (end - self.end).min(STEP_MAX);
            if self.file.write_all_at(&ZEROS[..length as usize], self.end).is_err() {
                return false;
            }
            self.end += length;
        }
        true
    }

    /// Copies bytes to a part of the file that has its space. Where there is no address space for a window, they are written by `pwrite`.
    fn copy(&mut self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            if !self.window.as_ref().is_some_and(|window| window.has(at)) {
                self.window = None;
                self.window = Window::around(&self.file, at).ok();
            }
            let Some(window) = &mut self.window else { return self.file.write_all_at(bytes, at) };
            let copied = window.write(at, bytes);
            (bytes, at) = (&bytes[copied..], at + copied as u64);
        }
        Ok(())
    }

    /// Removes the zeros behind a log of `len` bytes.
    pub(super) fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.end = len;
        Ok(())
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.unsynced = 0;
        self.file.sync_data()
    }

    /// Gives up the mapping and returns the file, which is left to close.
    pub(super) fn into_file(self) -> Arc<File> {
        self.file
    }
}
