//! A thread that reads all data for a replica from a snapshot, as a file in Redis's format.
//!
//! The file goes to the event loop in chunks, a few at a time, so memory does not grow with the data, and the thread is as fast as the
//! replica takes them. The thread ends, and drops its snapshot, when nobody takes the chunks any more.

use crate::keyspace::{Image, StreamId};
use crate::persist::{Contents, write_image};
use crate::system::give_way;
use mio::Waker;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Bytes of a chunk, at most, and number of chunks that wait for the event loop.
const CHUNK: usize = 256 << 10;
const WAITING: usize = 2;

/// Part of the data, or their end.
#[derive(Debug)]
pub(super) enum Chunk {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// The last bytes.
    End(Vec<u8>),
    /// The data could not be read, for this reason.
    Failed(String),
}

/// A transfer of all data to one replica.
#[derive(Debug)]
pub(super) struct Transfer {
    chunks: Receiver<Chunk>,
    has_begun: bool,
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Transfer {
    /// Starts the thread. `mark`: the data are announced as ending in this mark. Without a mark they are announced by their length, for
    /// which they are read once more.
    pub fn start(image: Image, contents: Contents, mark: Option<StreamId>, waker: Arc<Waker>) -> io::Result<Transfer> {
        let (sender, chunks) = sync_channel(WAITING);
        let stops = Arc::new(AtomicBool::new(false));
        let mut pipe = Pipe { chunks: sender, stops: stops.clone(), waker };
        let work = move || {
            give_way();
            let last = match write(&mut pipe, &image, contents, mark.as_ref()) {
                Ok(()) => Chunk::End(mark.map_or(Vec::new(), |mark| mark.as_bytes().to_vec())),
                Err(why) => Chunk::Failed(why),
            };
            // The snapshot is released before the event loop hears of the end.
            drop(image);
            // The replica may be gone.
            let _ = pipe.send(last);
        };
        let thread = Builder::new().name("sinter-sync-full".into()).spawn(work)?;
        Ok(Transfer { chunks, has_begun: false, stops, thread })
    }

    /// The next chunk; `None`: it has not come yet.
    pub fn next(&mut self) -> Option<Chunk> {
        match self.chunks.try_recv() {
            Ok(chunk) => {
                self.has_begun = true;
                Some(chunk)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Chunk::Failed("the thread that reads the data has panicked".into())),
        }
    }

    /// Whether a chunk was taken.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Tells the thread to end, and returns it.
    pub fn stop(self) -> JoinHandle<()> {
        self.stops.store(true, Ordering::Release);
        // Without a receiver the thread does not wait.
        drop(self.chunks);
        self.thread
    }
}

/// Writes the announcement and the data.
fn write(pipe: &mut Pipe, image: &Image, contents: Contents, mark: Option<&StreamId>) -> Result<(), String> {
    let head = match mark {
        Some(mark) => [b"$EOF:", mark.as_bytes(), b"\r\n"].concat(),
        None => {
            let mut count = Count { bytes: 0, stops: pipe.stops.clone() };
            write_image(&mut count, image, Contents { delay_us: 0, ..contents }).map_err(|error| error.to_string())?;
            format!("${}\r\n", count.bytes).into_bytes()
        }
    };
    pipe.write_all(&head).map_err(|error| error.to_string())?;
    write_image(&mut *pipe, image, contents).map_err(|error| error.to_string())?;
    Ok(())
}

/// Output of the thread.
struct Pipe {
    chunks: SyncSender<Chunk>,
    stops: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Pipe {
    fn send(&self, chunk: Chunk) -> io::Result<()> {
        self.chunks.send(chunk).map_err(|_| stopped())?;
        self.waker.wake()
    }
}

fn stopped() -> io::Error {
    io::Error::other("nobody takes the data any more")
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stops.load(Ordering::Acquire) {
            return Err(stopped());
        }
        let some = bytes.get(..CHUNK).unwrap_or(bytes);
        if !some.is_empty() {
            self.send(Chunk::Bytes(some.to_vec()))?;
        }
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.stops.load(Ordering::Acquire) { Err(stopped()) } else { Ok(()) }
    }
}

/// Counts bytes.
struct Count {
    bytes: u64,
    stops: Arc<AtomicBool>,
}

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stops.load(Ordering::Acquire) {
            return Err(stopped());
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use crate::testing::fresh;
    use mio::{Poll, Token};
    use sinterdb::WriteOptions;
    use std::time::Duration;

    const MARK: &[u8] = &[b'm'; 40];

    fn filled(keys: usize) -> Keyspace {
        let mut keyspace = fresh();
        for n in 0..keys {
            keyspace.set_string(n % 3, format!("key:{n}").as_bytes(), &[b'v'; 1000], None).unwrap();
        }
        keyspace.commit(&WriteOptions::default()).unwrap();
        keyspace
    }

    fn start(keyspace: &Keyspace, mark: Option<StreamId>) -> (Poll, Transfer) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(1)).unwrap());
        let transfer = Transfer::start(keyspace.image(), Contents::default(), mark, waker).unwrap();
        (poll, transfer)
    }

    /// All bytes, and the reason of a failure.
    fn all(transfer: &mut Transfer) -> (Vec<u8>, Option<String>) {
        let mut bytes = Vec::new();
        loop {
            match transfer.next() {
                Some(Chunk::Bytes(some)) => {
                    assert!(some.len() <= CHUNK);
                    bytes.extend(some);
                }
                Some(Chunk::End(some)) => return ([bytes, some].concat(), None),
                Some(Chunk::Failed(why)) => return (bytes, Some(why)),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn data_are_announced_by_their_length_or_by_a_mark() {
        let keyspace = filled(2000);
        let mut file = Vec::new();
        write_image(&mut file, &keyspace.image(), Contents::default()).unwrap();
        let (_poll, mut transfer) = start(&keyspace, None);
        assert!(!transfer.has_begun());
        assert_eq!(all(&mut transfer), ([format!("${}\r\n", file.len()).as_bytes(), &file].concat(), None));
        let (_poll, mut transfer) = start(&keyspace, StreamId::parse(MARK));
        assert_eq!(all(&mut transfer), ([b"$EOF:", MARK, b"\r\n", &file, MARK].concat(), None));
        assert!(transfer.has_begun());
        transfer.stop().join().unwrap();
    }

    #[test]
    fn the_thread_ends_with_its_transfer() {
        let keyspace = filled(3000);
        let (_poll, transfer) = start(&keyspace, StreamId::parse(MARK));
        // Nothing is taken, so the thread waits.
        transfer.stop().join().unwrap();
        let (_poll, transfer) = start(&keyspace, None);
        transfer.stop().join().unwrap();
        keyspace.close().unwrap();
    }
}
