//! Write-behind: a separate thread appends the bytes of a producer, so that the copy into the page cache and the start of write-back cost
//! the producer nothing as long as a core is idle. At most one piece waits while another is written.

use super::{Appender, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Larger pieces, bytes, are not copied for the thread: the caller appends them itself.
const LARGEST: usize = 512 << 10;

/// Wraps an appender so that a thread does the appends, from the second on: a file of one piece is not worth a thread. The error of an
/// append is returned by a later call; after it the wrapped appender refuses further use, as always. If no thread can be started, the
/// caller appends by itself.
pub fn behind(file: Box<dyn Appender>) -> Box<dyn Appender> {
    let len = file.len();
    Box::new(Behind { file: Arc::new(Mutex::new(file)), writer: None, stays: false, len })
}

struct Behind {
    /// The lock is never contended: the caller takes it only while there is no writer.
    file: Arc<Mutex<Box<dyn Appender>>>,
    writer: Option<Writer>,
    /// No further writer is started: none could be started, or an append failed, so that later calls return the error at once.
    stays: bool,
    /// Bytes appended, those handed to the writer included.
    len: u64,
}

struct Writer {
    pieces: SyncSender<Vec<u8>>,
    /// Buffers to be reused.
    free: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<()>>,
}

impl Writer {
    /// Starts the thread; `None` if that fails.
    fn start(file: Arc<Mutex<Box<dyn Appender>>>) -> Option<Writer> {
        let (pieces, incoming) = sync_channel::<Vec<u8>>(1);
        let (used, free) = channel();
        let work = move || {
            incoming.iter().try_for_each(|piece| {
                file.lock().append(&piece)?;
                // Sending fails if the writer is being ended: then the buffer is not needed.
                drop(used.send(piece));
                Ok(())
            })
        };
        let thread = Builder::new().name("sinterdb-behind".into()).spawn(work).ok()?;
        Some(Writer { pieces, free, thread })
    }

    /// Waits until all pieces are appended. Returns the first error that the thread met.
    fn end(self) -> std::thread::Result<Result<()>> {
        drop(self.pieces);
        self.thread.join()
    }
}

impl Behind {
    fn end_writer(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let result = writer.end().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.stays |= result.is_err();
        self.len = self.file.lock().len();
        result
    }

    fn append_here(&mut self, bytes: &[u8]) -> Result<()> {
        self.end_writer()?;
        let mut file = self.file.lock();
        let result = file.append(bytes);
        self.len = file.len();
        self.stays |= result.is_err();
        result
    }
}

impl Appender for Behind {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.stays || self.len == 0 || bytes.len() > LARGEST {
            return self.append_here(bytes);
        }
        if self.writer.is_none() {
            self.writer = Writer::start(Arc::clone(&self.file));
            self.stays = self.writer.is_none();
        }
        let Some(writer) = &self.writer else { return self.append_here(bytes) };
        let mut piece = writer.free.try_recv().unwrap_or_default();
        piece.clear();
        // A buffer that grows by itself doubles.
        piece.reserve_exact(bytes.len());
        piece.extend_from_slice(bytes);
        if writer.pieces.send(piece).is_err() {
            // The thread ended early because an append failed; `append_here` returns its error.
            return self.append_here(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.end_writer()?;
        self.file.lock().sync()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        self.end_writer()?;
        let file = Arc::clone(&self.file);
        drop(self);
        match Arc::into_inner(file) {
            Some(file) => file.into_inner().seal(),
            None => unreachable!("the writer that shared it has ended"),
        }
    }
}

impl Drop for Behind {
    /// Waits for the thread, so that a file that is dropped is closed before it is deleted. Errors of the thread no longer matter.
    fn drop(&mut self) {
        drop(self.writer.take().map(Writer::end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Calls, Cause, DirStore, ENOSPC, Fault, FaultStore, FileId, FileKind, Hint, MemoryStore, Operation, Store};
    use std::sync::Arc;

    const ID: FileId = FileId { kind: FileKind::Table, number: 7 };

    fn pieces() -> Vec<Vec<u8>> {
        (0..40u8).map(|n| vec![n; if n == 20 { LARGEST + 1 } else { 1000 + 777 * usize::from(n) }]).collect()
    }

    fn content(store: &dyn Store) -> Vec<u8> {
        let file = store.open(ID).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_file_is_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(DirStore::open(scratch.path(), true).unwrap())];
        for store in stores {
            let mut file = behind(store.create(ID, &Hint::new(Cause::Flush)).unwrap());
            let mut len = 0;
            for (n, piece) in pieces().iter().enumerate() {
                file.append(piece).unwrap();
                len += piece.len() as u64;
                assert_eq!(file.len(), len);
                if n % 11 == 10 {
                    file.sync().unwrap();
                    assert_eq!(content(&*store).len() as u64, len, "a sync waits for what was handed over");
                }
            }
            file.seal().unwrap();
            assert_eq!(content(&*store), pieces().concat());
        }
    }

    #[test]
    fn a_failed_append_is_told_and_ends_it() {
        for at in 0..40 {
            let below = Arc::new(MemoryStore::new());
            let store = FaultStore::new(below.clone());
            store.inject(Fault::once(Calls::Only(Operation::Append), at, ENOSPC));
            let mut file = behind(store.create(ID, &Hint::new(Cause::Flush)).unwrap());
            let told = pieces().iter().find_map(|piece| file.append(piece).err());
            if told.is_some() {
                assert!(file.append(b"more").is_err(), "append {at}");
            }
            let error = told.or_else(|| file.seal().err()).expect("an append failed");
            assert!(error.is_no_space(), "append {at}: {error}");
            let kept = pieces()[..at as usize].concat();
            assert_eq!(content(&*below), kept, "append {at}: what came before is there, and nothing behind it");
        }
    }

    #[test]
    fn a_file_that_is_given_up_is_closed_first() {
        let store = Arc::new(MemoryStore::new());
        let mut file = behind(store.create(ID, &Hint::new(Cause::Flush)).unwrap());
        pieces().iter().for_each(|piece| file.append(piece).unwrap());
        drop(file);
        assert_eq!(content(&*store), pieces().concat(), "nothing is written later");
    }
}
