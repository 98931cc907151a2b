//! A thread that prepares the engine for the first stream. The event loop goes on meanwhile: reads do not wait for the medium, and a write
//! waits at most for the one sync that creates all column families of the stream.

use crate::keyspace;
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};

/// The thread, and its result.
#[derive(Debug)]
pub(super) struct Preparation {
    result: Receiver<Result<(), String>>,
    thread: JoinHandle<()>,
}

impl Preparation {
    /// Starts the thread; the waker tells the event loop that it has a result.
    pub fn start(make: impl FnOnce() -> keyspace::Result<()> + Send + 'static, waker: Arc<Waker>) -> io::Result<Preparation> {
        let (sender, result) = channel();
        let work = move || {
            // A server that ends asks for no result.
            let _ = sender.send(make().map_err(|error| error.to_string()));
            // Without the waker the next tick looks.
            let _ = waker.wake();
        };
        let thread = Builder::new().name("sinter-stream".into()).spawn(work)?;
        Ok(Preparation { result, thread })
    }

    /// The result; `None`: it has not come yet.
    pub fn result(&self) -> Option<Result<(), String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the thread that prepares the stream has panicked".into())),
        }
    }

    /// Waits for the end of the thread.
    pub fn end(self) {
        // A panic of the thread is its result.
        let _ = self.thread.join();
    }
}
