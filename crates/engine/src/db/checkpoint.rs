//! Checkpoints: a second database that shares the tables of the first by hard links (or has copies, on another medium).
//!
//! Of a database with tiers, all tables go to one place, and the checkpoint has none; or each tier has a target, and they are the tiers
//! of the checkpoint.

use super::tiers::stored_settings;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::manifest::{KnownTier, ManifestLog, State};
use crate::settings::TierPaths;
use crate::tier::TierIdentity;
use sinter_storage::store::DirStore;
use sinter_storage::store::{Cause, FileId, Hint, Shared as How, Store, Temperature};
use std::collections::BTreeMap;
use std::path::{Path, absolute};
use std::sync::Arc;

impl Db {
    /// Writes a consistent copy of everything written so far, unlogged writes included, to a directory, which must
    /// not exist or be empty. The copy is a database of its own, without tiers, and durable when this returns. Writers go on meanwhile.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        let target = DirStore::open(path.as_ref(), true)?;
        self.checkpoint_to(&target)
    }

    /// [`Db::checkpoint`] into any empty store.
    pub fn checkpoint_to(&self, target: &dyn Store) -> Result<()> {
        self.checkpoint_to_tiers(target, &[])
    }

    /// [`Db::checkpoint`] into an empty store, and the tables of tiers into further ones, which are the tiers of the copy. Tables of a tier
    /// that has none here go to the next hotter one that has, and last to `target`. No two of these may be one store.
    pub fn checkpoint_to_tiers(&self, target: &dyn Store, tiers: &[(Temperature, &dyn Store)]) -> Result<()> {
        for store in tiers.iter().map(|tier| tier.1).chain([target]) {
            if !store.list()?.is_empty() {
                return Err(Error::invalid("the checkpoint's directory has files of a database in it"));
            }
        }
        let by_temperature: BTreeMap<Temperature, &dyn Store> = tiers.iter().copied().collect();
        if by_temperature.len() < tiers.len() || by_temperature.contains_key(&Temperature::Unknown) {
            return Err(Error::invalid("the tiers of a checkpoint have different temperatures"));
        }
        // What is in memtables goes to tables first: a checkpoint has no log, so there is no live log to be copied.
        self.flush()?;
        let held = Hold::new(&self.inner);
        let (mut state, number) = {
            let shared = held.inner.shared.lock();
            (checkpoint_state(&shared.state, held.inner.visible()), held.inner.new_number())
        };
        for (_, _, table) in state.families.values().flat_map(|f| f.version.tables()) {
            let id = FileId::table(table.number);
            let place = held.inner.media.place(id);
            let into = by_temperature.range(..=place).next_back().map_or(target, |(_, store)| *store);
            let how = held.inner.store.share(id, into, &Hint::new(Cause::Checkpoint))?;
            if let How::Copied(bytes) = how {
                held.inner.ledger.record_on(place, None, Cause::Checkpoint, bytes);
            }
        }
        held.inner.settle_checkpoint(&mut state, &by_temperature)?;
        // Tables first, names durable, manifest last: a crash before the manifest leaves a directory that does not open, not a wrong one.
        target.sync_names()?;
        ManifestLog::create(target, number, &state)?;
        Ok(())
    }
}

impl Inner {
    /// Gives a checkpoint its tiers: their identities, which make the names of their tables durable, too, and where they are.
    fn settle_checkpoint(&self, state: &mut State, tiers: &BTreeMap<Temperature, &dyn Store>) -> Result<()> {
        state.tiers.clear();
        let mut paths = BTreeMap::new();
        for (temperature, store) in tiers {
            let (number, attached) = (self.new_number(), self.clock.unix_seconds());
            let identity = TierIdentity { db: state.db, number, temperature: *temperature, attached }.write(*store)?;
            state.tiers.insert(*temperature, KnownTier { temperature: *temperature, number, identity });
            if let Some(path) = store.directory() {
                let path = absolute(path).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
                paths.insert(*temperature, path);
            }
        }
        let mut settings = stored_settings(state)?;
        let tiers = if paths.is_empty() { TierPaths::Stored } else { TierPaths::Only(paths) };
        if settings.tiers != tiers {
            settings.tiers = tiers;
            settings.validate().map_err(|complaints| Error::Invalid(complaints.join("; ")))?;
            state.settings = settings.to_toml();
        }
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
