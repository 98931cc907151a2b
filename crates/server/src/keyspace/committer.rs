//! A thread that gives large batches to the engine while the server's thread goes on.
//!
//! The work after a commit (hot keys, replies, requests that have arrived meanwhile) needs the batch only in the log. The next read of the
//! engine needs it in a memtable, too, which takes longer than logging it. With a second processor both go on at once.

use parking_lot::{Condvar, Mutex, MutexGuard};
use sinterdb::{Db, Error, WriteBatch, WriteOptions};
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle, available_parallelism};

/// Progress of a batch.
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
    /// The thread is to end, or has ended.
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

    /// Waits while `waits` is true.
    fn wait(&self, waits: impl Fn(&Stage) -> bool) -> MutexGuard<'_, Stage> {
        let mut stage = self.stage.lock();
        self.changed.wait_while(&mut stage, |stage| waits(stage));
        stage
    }

    /// Main loop of the thread.
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

/// Sets the stage to ended when dropped, so that nobody waits for a thread that has panicked.
struct Guard<'a>(&'a Desk);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(Stage::Ended);
    }
}

/// Handle of the thread, which handles one batch at a time.
#[derive(Debug)]
pub(super) struct Committer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread; `None`: it would compete with the server's thread for one processor, or cannot be started.
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

    /// Gives the thread a batch, once the batch before has ended, and returns the memory of that one in its place.
    pub fn begin(&self, batch: &mut WriteBatch, options: WriteOptions) {
        let mut stage = self.desk.wait(Stage::is_underway);
        // A thread that has ended takes no batch: `logged` returns the error.
        if !matches!(*stage, Stage::Ended) {
            let before = mem::take(&mut *stage);
            let memory = if let Stage::Done(memory, _) = before { memory } else { WriteBatch::new() };
            *stage = Stage::Given(mem::replace(batch, memory), options);
            self.desk.changed.notify_all();
        }
    }

    /// Waits until the batch is in the log; returns the error if it failed.
    pub fn logged(&self) -> Result<(), Error> {
        match &*self.desk.wait(|stage| matches!(stage, Stage::Given(..) | Stage::Taken)) {
            Stage::Done(_, result) => result.clone(),
            Stage::Ended => Err(Error::Closed("the thread that commits batches has ended".into())),
            Stage::Idle | Stage::Given(..) | Stage::Taken | Stage::Logged => Ok(()),
        }
    }

    /// Whether a batch is not in the memtables yet.
    pub fn is_underway(&self) -> bool {
        self.desk.stage.lock().is_underway()
    }

    /// Frees the memory of the batch that has ended.
    pub fn give_back(&self) {
        if let Stage::Done(memory, _) = &mut *self.desk.stage.lock() {
            *memory = WriteBatch::new();
        }
    }

    /// Waits until reads find the batch. If a batch fails after it was logged, the engine's handle has ended: the next writer gets an
    /// error, and the batch is found when the data are opened again.
    pub fn end(&self) {
        drop(self.desk.wait(Stage::is_underway));
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
        self.desk.set(Stage::Ended);
        if let Some(thread) = self.thread.take() {
            // The panic of a thread was printed when it happened.
            let _ = thread.join();
        }
    }
}
