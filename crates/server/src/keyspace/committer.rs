//! A thread that gives large batches to the engine while the server's own goes on.
//!
//! What follows a commit (hot keys, replies, what the clients have sent meanwhile) needs the batch in the log and no more; only who reads
//! the engine next needs it in a memtable, too, which takes longer than to log it. Where there is a second processor both can go on.

use parking_lot::{Condvar, Mutex, MutexGuard};
use sinterdb::{Db, Error, WriteBatch, WriteOptions};
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, available_parallelism};

/// How far a batch has come.
#[derive(Debug, Default)]
enum Stage {
    /// No batch is under way.
    #[default]
    Idle,
    /// The batch waits here for the thread.
    Given(WriteBatch, WriteOptions),
    /// The thread has taken the batch.
    Taken,
    /// The batch is in the engine's log.
    Logged,
    /// The engine is done with the batch: its memory can be used again.
    Done(WriteBatch, Result<(), Error>),
    /// The thread is to end, or did.
    Ended,
}

impl Stage {
    fn is_underway(&self) -> bool {
        matches!(self, Stage::Given(..) | Stage::Taken | Stage::Logged)
    }
}

/// Hand-over point of a batch between the keyspace and the committing thread.
#[derive(Debug, Default)]
struct Desk {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Desk {
    fn set(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits for as long as `waits` says.
    fn wait(&self, waits: impl Fn(&Stage) -> bool) -> MutexGuard<'_, Stage> {
        let mut stage = self.stage.lock();
        self.changed.wait_while(&mut stage, |stage| waits(stage));
        stage
    }

    /// The life of the thread.
    fn work(&self, db: &Db) {
        loop {
            let mut stage = self.wait(|stage| !matches!(stage, Stage::Given(..) | Stage::Ended));
            let Stage::Given(mut batch, options) = mem::replace(&mut *stage, Stage::Taken) else {
                *stage = Stage::Ended;
                return;
            };
            drop(stage);
            let result = db.write_with_notice(&mut batch, &options, &mut || self.set(Stage::Logged));
            self.set(Stage::Done(batch, result));
        }
    }
}

/// Nobody waits for a thread that has ended, by a panic perhaps.
struct Guard<'a>(&'a Desk);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(Stage::Ended);
    }
}

/// The thread. One batch at a time.
#[derive(Debug)]
pub(super) struct Committer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// `None` where it would only take turns with the server's thread, or cannot be started.
    pub fn beside(db: &Db) -> Option<Committer> {
        let has_processor = available_parallelism().is_ok_and(|processors| processors.get() > 1);
        has_processor.then(|| Committer::start(db.clone()).ok()).flatten()
    }

    fn start(db: Db) -> io::Result<Committer> {
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let work = move || {
            let _guard = Guard(&theirs);
            theirs.work(&db);
        };
        let thread = Builder::new().name("sinter-commit".into()).spawn(work)?;
        Ok(Committer { desk, thread: Some(thread) })
    }

    /// Takes a batch, when the one before has ended, and gives back that one's memory.
    pub fn begin(&self, batch: &mut WriteBatch, options: WriteOptions) {
        let mut stage = self.desk.wait(Stage::is_underway);
        // To one that has ended nothing can be given: whoever asks for the result is told.
        if !matches!(*stage, Stage::Ended) {
            let before = mem::take(&mut *stage);
            let memory = if let Stage::Done(memory, _) = before { memory } else { WriteBatch::new() };
            *stage = Stage::Given(mem::replace(batch, memory), options);
            self.desk.changed.notify_all();
        }
    }

    /// Waits until the batch is in the log, or how it failed.
    pub fn logged(&self) -> Result<(), Error> {
        match &*self.desk.wait(|stage| matches!(stage, Stage::Given(..) | Stage::Taken)) {
            Stage::Done(_, result) => result.clone(),
            Stage::Ended => Err(Error::Closed("the thread that writes has ended".into())),
            Stage::Idle | Stage::Given(..) | Stage::Taken | Stage::Logged => Ok(()),
        }
    }

    /// A batch is not in the memtables yet.
    pub fn is_underway(&self) -> bool {
        self.desk.stage.lock().is_underway()
    }

    /// Gives back the memory of the batch that has ended.
    pub fn give_back(&self) {
        if let Stage::Done(memory, _) = &mut *self.desk.stage.lock() {
            *memory = WriteBatch::new();
        }
    }

    /// Waits until reads find the batch. One that fails behind the log has ended the engine's handle, which tells whoever writes next; what
    /// the log has is there when the data are opened again.
    pub fn end(&self) {
        drop(self.desk.wait(Stage::is_underway));
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
        self.desk.set(Stage::Ended);
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
