//! Checkpoints: a second database that shares the tables of the first by hard links (or has copies, on another medium).

use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::manifest::{ManifestLog, State};
use sinter_storage::store::DirStore;
use sinter_storage::store::{Cause, FileId, Hint, Shared as How, Store};
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Writes a consistent copy of everything written so far, unlogged writes included, to a directory, which must
    /// not exist or be empty. The copy is a database of its own and durable when this returns. Writers go on meanwhile.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        let target = DirStore::open(path.as_ref(), true)?;
        self.checkpoint_to(&target)
    }

    /// [`Db::checkpoint`] into any empty store.
    pub fn checkpoint_to(&self, target: &dyn Store) -> Result<()> {
        if !target.list()?.is_empty() {
            return Err(Error::invalid("the checkpoint's directory has files of a database in it"));
        }
        // What is in memtables goes to tables first: a checkpoint has no log, so there is no live log to be copied.
        self.flush()?;
        let held = Hold::new(&self.inner);
        let (state, number) = {
            let shared = held.inner.shared.lock();
            (checkpoint_state(&shared.state, held.inner.visible()), held.inner.new_number())
        };
        for table in state.families.values().flat_map(|f| f.version.tables()) {
            let how = held.inner.store.share(FileId::table(table.2.number), target, &Hint::new(Cause::Checkpoint))?;
            if let How::Copied(bytes) = how {
                held.inner.ledger.record(None, Cause::Checkpoint, bytes);
            }
        }
        // Tables first, names durable, manifest last: a crash before the manifest leaves a directory that does not open, not a wrong one.
        target.sync_names()?;
        ManifestLog::create(target, number, &state)?;
        Ok(())
    }
}

/// The state without its log.
fn checkpoint_state(state: &State, last_seq: u64) -> State {
    let mut state = state.clone();
    state.forget_logs();
    state.last_seq = state.last_seq.max(last_seq);
    state
}

/// While it lives, no file is deleted.
struct Hold {
    inner: Arc<Inner>,
}

impl Hold {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.shared.lock().hold_deletes += 1;
        Hold { inner: inner.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let doomed = {
            let mut shared = self.inner.shared.lock();
            shared.hold_deletes -= 1;
            self.inner.take_doomed(&mut shared)
        };
        self.inner.delete_files(&doomed);
    }
}
