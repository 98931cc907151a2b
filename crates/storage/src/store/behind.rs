//! Writing behind the back of whoever produces the bytes: a thread of its own appends what is handed over, so that the copy into the page
//! cache and the start of write-back cost the producer nothing as long as a core is free. At most one piece waits while another is written.

use super::{Appender, Result};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Larger pieces are not copied for the thread; the caller appends them itself.
const LARGEST: usize = 512 << 10;

/// An appender that another thread works on, from the second append on: a file of one piece is not worth a thread. An append that fails
/// there is told by a later call; from then on the appender below refuses further use, as always. If no thread can be started, the caller
/// goes on by itself.
pub fn behind(file: Box<dyn Appender>) -> Box<dyn Appender> {
    let len = file.len();
    Box::new(Behind { place: Place::Here(file), stays: false, len })
}

struct Behind {
    place: Place,
    /// No thread again: none could be started, or an append failed, which every later call is to hear at once.
    stays: bool,
    len: u64,
}

/// Where the file is.
enum Place {
    Here(Box<dyn Appender>),
    There(Writer),
    /// Between the two.
    Moving,
}

struct Writer {
    pieces: SyncSender<Vec<u8>>,
    /// Buffers to be used again.
    free: Receiver<Vec<u8>>,
    thread: JoinHandle<(Box<dyn Appender>, Result<()>)>,
}

impl Behind {
    /// Hands the file to a thread, unless one has it; it stays here if there is none to be had.
    fn send_away(&mut self) {
        let file = match std::mem::replace(&mut self.place, Place::Moving) {
            Place::Here(file) => file,
            place => {
                self.place = place;
                return;
            }
        };
        let (pieces, incoming) = sync_channel::<Vec<u8>>(1);
        let (used, free) = channel();
        // The file is handed over once the thread is there, because a thread that cannot start would drop it.
        let (hand, over) = sync_channel::<Box<dyn Appender>>(1);
        let spawned = Builder::new().name("sinterdb-behind".into()).spawn(move || {
            let mut file = over.recv().expect("handed over at once");
            let result = incoming.iter().try_for_each(|piece| {
                file.append(&piece)?;
                // Nobody takes buffers back from a writer that is being ended.
                drop(used.send(piece));
                Ok(())
            });
            (file, result)
        });
        self.place = match spawned {
            Ok(thread) => {
                hand.send(file).expect("the thread waits for it");
                Place::There(Writer { pieces, free, thread })
            }
            Err(_) => {
                self.stays = true;
                Place::Here(file)
            }
        };
    }

    /// Waits until all is appended, and gives the file with the first error that its thread met.
    fn come_back(&mut self) -> Result<&mut Box<dyn Appender>> {
        let mut result = Ok(());
        if let Place::There(_) = self.place
            && let Place::There(writer) = std::mem::replace(&mut self.place, Place::Moving)
        {
            drop(writer.pieces);
            let (file, ended) = writer.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.stays |= ended.is_err();
            (self.place, result) = (Place::Here(file), ended);
        }
        match &mut self.place {
            Place::Here(file) => {
                self.len = file.len();
                result.map(|()| file)
            }
            Place::There(_) | Place::Moving => unreachable!("it has just come back"),
        }
    }
}

impl Behind {
    fn append_here(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.come_back()?;
        let result = file.append(bytes);
        self.len = file.len();
        self.stays |= result.is_err();
        result
    }
}

impl Appender for Behind {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let is_first = matches!(&self.place, Place::Here(file) if file.is_empty());
        if self.stays || is_first || bytes.len() > LARGEST {
            return self.append_here(bytes);
        }
        self.send_away();
        let Place::There(writer) = &mut self.place else { return self.append_here(bytes) };
        let mut piece = writer.free.try_recv().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(bytes);
        if writer.pieces.send(piece).is_err() {
            // The thread has ended early: an append failed. If it did not say so, the file itself has to.
            return self.append_here(bytes);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.come_back()?.sync()
    }

    /// Bytes appended and handed over so far.
    fn len(&self) -> u64 {
        self.len
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        self.come_back()?;
        match std::mem::replace(&mut self.place, Place::Moving) {
            Place::Here(file) => file.seal(),
            Place::There(_) | Place::Moving => unreachable!("it has just come back"),
        }
    }
}

impl Drop for Behind {
    /// A file that is given up is closed before anybody deletes it. Whatever the thread met no longer matters.
    fn drop(&mut self) {
        if let Place::There(writer) = std::mem::replace(&mut self.place, Place::Moving) {
            drop(writer.pieces);
            drop(writer.thread.join());
        }
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
