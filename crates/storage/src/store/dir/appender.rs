//! The writer of one file in a directory: straight pwrites, a memory map, or aligned pieces past the page cache.

use super::mapped::MappedLog;
use crate::store::{Appender, FileId, FileKind, HELD_BACK, Result, StoreError, SyncBeside, sys};
use parking_lot::Mutex;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Direct writes have this size.
const PIECE: usize = HELD_BACK;

/// Alignment of direct writes in memory and on the medium; covers the logical block sizes in use (512 and 4096).
pub(super) const ALIGN: usize = 4096;

enum Output {
    /// Through the page cache. Write-back is started every `step` bytes (0: never) and has been up to `pushed`.
    Plain { file: Arc<File>, pushed: u64, step: u64 },
    /// Through the page cache by memory map.
    Mapped(MappedLog),
    /// Past the page cache.
    Direct(Arc<Mutex<DirectFile>>),
}

/// Keeps the offset, and refuses further use after a failure. After a failed append the end of the file is not known; bytes written before
/// through the page cache can still be synced. After a failed fdatasync the kernel may have dropped the dirty pages and would report
/// success for the next one (PostgreSQL's "fsyncgate", 2018).
pub(super) struct DirAppender {
    id: FileId,
    output: Output,
    len: u64,
    /// The operation that failed.
    failed: Option<&'static str>,
}

impl DirAppender {
    pub(super) fn plain(id: FileId, file: File, step: u64) -> Self {
        DirAppender { id, output: Output::Plain { file: Arc::new(file), pushed: 0, step }, len: 0, failed: None }
    }

    pub(super) fn mapped(id: FileId, file: File) -> Self {
        DirAppender { id, output: Output::Mapped(MappedLog::new(file)), len: 0, failed: None }
    }

    pub(super) fn direct(id: FileId, file: Arc<Mutex<DirectFile>>) -> Self {
        DirAppender { id, output: Output::Direct(file), len: 0, failed: None }
    }

    fn attempt<T>(&mut self, operation: &'static str, run: impl FnOnce(&mut Output, u64) -> io::Result<T>) -> Result<T> {
        let may_sync = operation == "sync" && !matches!(self.output, Output::Direct(_));
        if self.failed.is_some_and(|failed| failed != "append" || !may_sync) {
            return Err(StoreError::dead(operation, self.id));
        }
        run(&mut self.output, self.len).map_err(|e| {
            self.failed = Some(operation);
            StoreError::file(operation, self.id, e)
        })
    }
}

impl Appender for DirAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt("append", |output, at| match output {
            Output::Plain { file, pushed, step } => {
                file.write_all_at(bytes, at)?;
                let end = at + bytes.len() as u64;
                if *step > 0 && end - *pushed >= *step {
                    sys::start_writeback(file, *pushed, end - *pushed);
                    *pushed = end;
                }
                Ok(())
            }
            Output::Mapped(log) => log.append(bytes, at),
            Output::Direct(file) => file.lock().append(bytes),
        })?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let must_have_name = matches!(self.id.kind, FileKind::Log | FileKind::Manifest);
        self.attempt("sync", |output, len| {
            let file = match output {
                Output::Plain { file, .. } => {
                    file.sync_data()?;
                    file
                }
                Output::Mapped(log) => {
                    log.sync(len)()?;
                    log.file()
                }
                Output::Direct(file) => return file.lock().sync(),
            };
            // A sync of a log or manifest that another program deleted is worthless. The engine never deletes one that it writes.
            let is_gone = must_have_name && sys::names_and_length(file)?.0 == 0;
            if is_gone { Err(io::Error::new(io::ErrorKind::NotFound, "the file was deleted while it is open")) } else { Ok(()) }
        })
    }

    fn sync_beside(&self) -> Option<SyncBeside> {
        if self.failed.is_some() {
            return None;
        }
        let id = self.id;
        let fail = move |e| StoreError::file("sync", id, e);
        match &self.output {
            Output::Plain { file, .. } => {
                let file = Arc::clone(file);
                Some(Box::new(move || file.sync_data().map_err(fail)))
            }
            Output::Mapped(log) => {
                let sync = log.sync(self.len);
                Some(Box::new(move || sync().map_err(fail)))
            }
            Output::Direct(_) => None,
        }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        if self.failed.is_some() {
            return Err(StoreError::dead("seal", self.id));
        }
        self.attempt("seal", |output, len| if let Output::Mapped(log) = output { log.cut(len) } else { Ok(()) })?;
        self.sync().map_err(|e| StoreError { operation: "seal", ..e })?;
        let file = match self.output {
            Output::Plain { file, .. } => file,
            Output::Mapped(log) => log.into_file(),
            // Nothing of a direct file is left in the kernel after its sync, so its close has nothing to report.
            Output::Direct(_) => return Ok(()),
        };
        // If another thread is still syncing the file, that thread gets the error, if there is one.
        Arc::into_inner(file).map_or(Ok(()), sys::close).map_err(|e| StoreError::file("seal", self.id, e))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.attempt("close", |output, len| if let Output::Mapped(log) = output { log.cut(len) } else { Ok(()) })
    }
}

/// A file written past the page cache. Pieces are written when they are full. The unaligned tail is written padded with zeros, and then the
/// file is cut to its true length.
pub(super) struct DirectFile {
    file: File,
    /// `PIECE` usable bytes at an aligned address, found at `skip`.
    memory: Vec<u8>,
    skip: usize,
    /// Bytes in memory that belong to the file from `start` on.
    filled: usize,
    /// Number of these bytes that are on the medium as a padded tail.
    flushed: usize,
    /// File offset of the buffer, a multiple of `PIECE`.
    start: u64,
}

impl DirectFile {
    pub(super) fn new(file: File) -> Self {
        let memory = vec![0u8; PIECE + ALIGN];
        let skip = memory.as_ptr().align_offset(ALIGN);
        DirectFile { file, memory, skip, filled: 0, flushed: 0, start: 0 }
    }

    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            self.memory[self.skip + self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == PIECE {
                self.file.write_all_at(&self.memory[self.skip..][..PIECE], self.start)?;
                self.start += PIECE as u64;
                (self.filled, self.flushed) = (0, 0);
            }
        }
        Ok(())
    }

    /// Writes the bytes held back, so that readers see them. The bytes stay in memory, too, because their last block will be written again.
    pub(super) fn flush_tail(&mut self) -> io::Result<()> {
        if self.flushed == self.filled {
            return Ok(());
        }
        let padded = self.filled.next_multiple_of(ALIGN);
        let tail = &mut self.memory[self.skip..][..padded];
        tail[self.filled..].fill(0);
        self.file.write_all_at(tail, self.start)?;
        self.file.set_len(self.start + self.filled as u64)?;
        self.flushed = self.filled;
        Ok(())
    }

    /// fsync rather than fdatasync: the true length, shorter than what was written, has to be durable as well.
    fn sync(&mut self) -> io::Result<()> {
        self.flush_tail()?;
        self.file.sync_all()
    }
}

impl fmt::Debug for DirectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectFile").field("start", &self.start).field("filled", &self.filled).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// On /dev/full every write fails with ENOSPC and fdatasync with EINVAL: real errors of the kernel.
    fn full() -> File {
        OpenOptions::new().write(true).open("/dev/full").unwrap()
    }

    fn assert_dead(mut file: DirAppender) {
        for result in [file.append(b"more"), file.append(b""), file.sync(), Box::new(file).seal()] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("earlier append or sync"), "{error}");
        }
    }

    #[test]
    fn a_failed_append_ends_the_appender() {
        let id = FileId::table(1);
        let mut plain = DirAppender::plain(id, full(), 1);
        let error = plain.append(b"abc").unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert_eq!((plain.len(), error.file), (0, Some(id)));
        assert!(plain.append(b"more").unwrap_err().to_string().contains("earlier append"));
        // It may still be synced; this file says no, and that is the end.
        assert!(plain.sync().unwrap_err().to_string().contains("Invalid argument"));
        assert_dead(plain);

        // No zeros can be written ahead of a log, none can be taken back from this file, and none can be mapped.
        let mut mapped = DirAppender::mapped(FileId::log(1), full());
        assert!(mapped.append(b"abc").is_err());
        assert_eq!(mapped.len(), 0);
        assert!(mapped.sync().is_err());
        assert_dead(mapped);

        let mut direct = DirAppender::direct(id, Arc::new(Mutex::new(DirectFile::new(full()))));
        direct.append(b"held back").unwrap();
        assert!(direct.append(&vec![0; PIECE]).unwrap_err().is_no_space());
        assert_dead(direct);
    }

    #[test]
    fn a_failed_sync_ends_the_appender() {
        let mut plain = DirAppender::plain(FileId::log(1), full(), 0);
        let error = plain.sync().unwrap_err();
        assert_eq!(error.operation, "sync");
        assert_dead(plain);

        let mut direct = DirAppender::direct(FileId::table(1), Arc::new(Mutex::new(DirectFile::new(full()))));
        direct.append(b"abc").unwrap();
        assert!(direct.sync().unwrap_err().is_no_space());
        assert_dead(direct);
    }

    #[test]
    fn direct_memory_is_aligned() {
        for _ in 0..20 {
            let file = DirectFile::new(full());
            assert_eq!(file.memory[file.skip..].as_ptr() as usize % ALIGN, 0);
            assert!(file.memory.len() - file.skip >= PIECE);
        }
    }
}
