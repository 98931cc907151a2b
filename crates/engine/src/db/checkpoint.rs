//! Checkpoints: a second database that shares the tables of the first by hard links (or has copies, on another medium).
//!
//! Of a database with tiers, all tables go to one place, and the checkpoint has none; or each tier has a target, and they are the tiers
//! of the checkpoint.

use super::family::FamilyCore;
use super::jobs::added;
use super::mem::Mem;
use super::tier_stores::stored_settings;
use super::{Db, Inner};
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::compaction::job::{Context, Outcome};
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::manifest::{Edit, KnownTier, ManifestLog, ManifestState, RunLocation, TableChange, TableInfo};
use crate::settings::TierPaths;
use crate::table::Table;
use crate::tiering::identity::TierIdentity;
use sinter_storage::store::DirStore;
use sinter_storage::store::{Cause, FileId, Hint, Shared as How, Store, Temperature};
use std::collections::BTreeMap;
use std::path::{Path, absolute};
use std::sync::Arc;

impl Db {
    /// Writes a copy of the database to a directory, which must not exist or be empty. The copy is the database at one moment between
    /// the call and its return: all writes before that moment, in every family, unlogged writes included, and none after it; no batch is
    /// in it by half. It is a database of its own, without tiers, and durable when this returns. Writers go on meanwhile.
    ///
    /// On the file system of the database, tables are hard links, which are not read: damage of the one is damage of the other. Elsewhere
    /// they are copied, and each copy is read back once and its checksums are verified.
    ///
    /// # Errors
    /// `Corrupt` with the first table whose copy is damaged, as a rule because the table itself is. The copy is then no database.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.inner.check_outside()?;
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
        self.inner.check_outside()?;
        for store in tiers.iter().map(|tier| tier.1).chain([target]) {
            if !store.list()?.is_empty() {
                return Err(Error::invalid("the checkpoint's directory has files of a database in it"));
            }
        }
        let by_temperature: CopyTiers<'_> = tiers.iter().copied().collect();
        if by_temperature.len() < tiers.len() || by_temperature.contains_key(&Temperature::Unknown) {
            return Err(Error::invalid("the tiers of a checkpoint have different temperatures"));
        }
        // A table of the source is linked, or serves it later as well; what memtables hold is written for the copy alone, so little is left
        // there.
        self.flush()?;
        self.inner.copy_to(target, &by_temperature)
    }
}

/// Stores for the tables of a copy by their temperature; all other tables go to its primary store.
type CopyTiers<'a> = BTreeMap<Temperature, &'a dyn Store>;

/// The database as of one sequence number: every write up to that number, in all families, and no later one.
struct CopySource {
    seq: Seq,
    /// The manifest at that number.
    state: ManifestState,
    /// Families with memtables, newest first.
    mems: Vec<(Arc<FamilyCore>, Vec<Arc<Mem>>)>,
    /// Keeps the files that `state` names.
    _hold: Hold,
}

impl Inner {
    /// Takes the copy's source. Under the lead no commit is half inserted, and under the lock no tree changes: memtables, trees and state
    /// agree.
    fn copy_source(self: &Arc<Self>) -> Result<CopySource> {
        self.lead_in_turn(|writers| {
            self.check_writable()?;
            let mut shared = self.shared.lock();
            // Memtables of the copy were written by now.
            self.take_sample(&mut shared);
            let mut state = shared.state.clone();
            state.last_seq = state.last_seq.max(writers.last_seq);
            let of = |core: &Arc<FamilyCore>| core.view.load().mems().filter(|mem| !mem.is_empty()).cloned().collect::<Vec<_>>();
            let mems = shared.families.values().map(|core| (core.clone(), of(core))).filter(|(_, mems)| !mems.is_empty()).collect();
            shared.hold_deletes += 1;
            Ok(CopySource { seq: writers.last_seq, state, mems, _hold: Hold { inner: self.clone() } })
        })
    }

    /// Writes the database as of now to empty stores. Writers and background jobs go on.
    fn copy_to(self: &Arc<Self>, target: &dyn Store, tiers: &CopyTiers<'_>) -> Result<()> {
        let CopySource { seq, mut state, mems, _hold } = self.copy_source()?;
        let shared: Vec<_> = state.families.values().flat_map(|f| f.version.tables()).map(|(_, _, table)| table.clone()).collect();
        let mut edit = Edit::default();
        for (core, mems) in mems {
            edit.tables.extend(self.write_copy(&core, mems, seq, target, tiers)?);
        }
        state.apply(&edit).map_err(Error::Invalid)?;
        for table in shared {
            let id = FileId::table(table.number);
            let place = self.media.place(id);
            let into = store_of(place, target, tiers);
            let how = self.store.share(id, into, &Hint::new(Cause::Checkpoint))?;
            if let How::Copied(bytes) = how {
                verify_copy(into, state.db, &table)?;
                self.ledger.record_on(place, None, Cause::Checkpoint, bytes);
            }
        }
        self.settle_checkpoint(&mut state, tiers)?;
        let number = self.new_number();
        state.next_number = state.next_number.max(self.peek_number());
        state.forget_logs();
        // Tables first, names durable, manifest last: a crash before the manifest leaves a directory that does not open, not a wrong one.
        target.sync_names()?;
        ManifestLog::create(target, number, &state)?;
        Ok(())
    }

    /// Writes the entries of memtables (newest first) up to a number to tables of the copy, as its newest run. The ledger does not count
    /// them: the stores of this database write none of it.
    fn write_copy(
        &self,
        core: &Arc<FamilyCore>,
        mems: Vec<Arc<Mem>>,
        seq: Seq,
        target: &dyn Store,
        tiers: &CopyTiers<'_>,
    ) -> Result<impl Iterator<Item = TableChange>> {
        let create = |id: FileId, hint: &Hint| {
            let hint = Hint { cause: Cause::Checkpoint, ..hint.clone() };
            Ok(store_of(hint.temperature, target, tiers).create(id, &hint)?)
        };
        let outcome = self.with_context(core, None, None, |context| {
            // The speed of the copy's medium says nothing about this database's.
            let context = Context { store: target, create: &create, codecs: None, snapshots: &[seq], is_copy: true, ..context };
            self.level0(&mems, &context)
        })?;
        let Outcome::Done(report) = outcome else { return Err(Error::Closed("the database is closing".into())) };
        let (family, to) = (core.id, RunLocation { level: 0, run: self.new_number() });
        Ok(report.outputs.into_iter().map(move |info| added(family, to, info)))
    }

    /// Gives a checkpoint its tiers: their identities, which make the names of their tables durable, too, and where they are.
    fn settle_checkpoint(&self, state: &mut ManifestState, tiers: &CopyTiers<'_>) -> Result<()> {
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

/// Store of a copy for tables that lie at `place` or belong there: the next hotter tier that the copy has, or its primary store.
fn store_of<'a>(place: Temperature, target: &'a dyn Store, tiers: &CopyTiers<'a>) -> &'a dyn Store {
    tiers.range(..=place).next_back().map_or(target, |(_, store)| *store)
}

/// Reads a copied table and checks that its bytes are the ones that were written, long ago or just now. A damaged copy is deleted.
fn verify_copy(store: &dyn Store, db: DbId, table: &Arc<TableInfo>) -> Result<()> {
    let verified = Table::open(store, db, Arc::clone(table), &Cache::new(0)).and_then(|copy| copy.verify_frames());
    if verified.is_err() {
        // The damage is the error to tell. A copy that stays is in the way of the next checkpoint to that directory, and of nothing else.
        let _ = store.delete(FileId::table(table.number));
    }
    verified
}

/// Blocks deletions of files while it lives. It is counted in `hold_deletes` when it is made.
struct Hold {
    inner: Arc<Inner>,
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
