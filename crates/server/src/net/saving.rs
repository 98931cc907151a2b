//! A thread that saves all keys in a file, from a snapshot, while everything else goes on.

use crate::command::Server;
use crate::keyspace::Keyspace;
use crate::persist::{Contents, save_file};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Result of the thread: why it failed, if it did.
type Ending = Result<(), String>;

/// The thread, if one runs.
#[derive(Debug, Default)]
pub(super) struct SaveThread {
    running: Option<JoinHandle<Ending>>,
    stops: Arc<AtomicBool>,
}

impl SaveThread {
    /// Notes the end of a save, and begins one that was asked for. The turn's writes are in the engine.
    pub fn turn(&mut self, keyspace: &Keyspace, server: &mut Server, now: u64) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(thread) = self.running.take()
        {
            server.saving.ended(thread.join().unwrap_or_else(|_| Err("the thread that saved has panicked".into())), now);
        }
        if std::mem::take(&mut server.saving.is_wanted) {
            server.saving.since = Some(now);
            server.saving.changes_when_begun = keyspace.times_changed();
            match self.start(keyspace, server) {
                Ok(thread) => self.running = Some(thread),
                Err(error) => server.saving.ended(Err(error.to_string()), now),
            }
        }
    }

    fn start(&self, keyspace: &Keyspace, server: &Server) -> io::Result<JoinHandle<Ending>> {
        let (directory, name) = server.configuration.dump_file();
        let (image, stops) = (keyspace.image(), self.stops.clone());
        let work = move || {
            let saved = save_file(&image, &directory, &name, Contents::default(), &stops);
            saved.map(|_| ()).map_err(|error| error.to_string())
        };
        std::thread::Builder::new().name("sinter-save".into()).spawn(work)
    }

    /// Whether keys are being saved.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Gives up an unfinished save; nothing of its file is left.
    pub fn stop(&mut self) {
        self.stops.store(true, Ordering::Release);
        if let Some(thread) = self.running.take() {
            // Nobody needs the result any more.
            let _ = thread.join();
        }
    }
}

impl Drop for SaveThread {
    fn drop(&mut self) {
        self.stop();
    }
}
