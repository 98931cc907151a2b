//! The one place where the tree changes: an edit is logged and synced in the manifest, then the new view is swapped in, then files that
//! the new view no longer names are deleted.
//!
//! * A crash before the edit is logged is fine: new tables are files that nothing names; the next open deletes them.
//! * A crash after the edit is synced is fine: the next open finds the new version, and deletes old tables and logs.
//! * An edit that failed for lack of space may be in the manifest all the same, although its caller was told that it failed. For example,
//!   writes to a family whose drop "failed" would be lost if the edit took effect at the next open. So nothing is acknowledged or deleted
//!   until a new manifest, without the edit, has replaced this one.
//! * New tables are sealed and their names synced before the edit, so that the manifest never names a file that a crash could remove.

use super::family::FamilyCore;
use super::logs::add_lengths;
use super::mem::Mem;
use super::view::{OpenTree, TableOpener, View};
use super::{Inner, Shared};
use crate::error::{Error, Result};
use crate::manifest::{Change, Edit, ManifestLog, ManifestState, ROTATE_BYTES, TableChange, Version};
use sinter_storage::store::{Cause, FileId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Factor by which an edit may grow on a medium with units: an edit of some 60 bytes takes a whole block.
const EDIT_GROWS: u64 = 64;

impl Inner {
    /// Appends an edit to the manifest and applies it to the state. Durable when it returns.
    pub(super) fn log_edit(&self, shared: &mut Shared, edit: &Edit) -> Result<()> {
        self.check_writable()?;
        let mut edit = Edit { next_number: Some(self.peek_number()), ..edit.clone() };
        Self::take_samples_along(shared, &mut edit);
        edit.tier_heat = self.media.heat(self.clock.unix_seconds());
        let next = shared.state.prepare(&edit).map_err(|what| Error::invalid(format!("an edit does not fit the tree: {what}")))?;
        let Shared { manifest: Some(manifest), state, saved_seq, .. } = shared else {
            return Err(Error::invalid("the database was opened read-only"));
        };
        // On a small medium, the manifest is replaced once it has a quarter of the largest table's size.
        let least = ROTATE_BYTES.min(self.within_medium(u64::MAX) / 4).min(self.manifest_within_unit());
        if manifest.must_rotate() || manifest.should_rotate(least) {
            self.rotate_manifest(manifest, state)?;
        }
        let before = manifest.len();
        match manifest.append(&edit) {
            Ok(()) => {}
            // The record may be in the file, in part or whole: a new manifest replaces it before the next edit and the next write.
            Err(error @ Error::NoSpace(_)) if !manifest.in_doubt() => {
                self.torn_manifest.store(true, Ordering::Release);
                return Err(error);
            }
            Err(error) => return Err(self.poison("write to the manifest", error)),
        }
        self.ledger.record(None, Cause::Manifest, manifest.len() - before);
        state.accept(next);
        *saved_seq = state.times.newest().map_or(0, |newest| newest.0);
        Ok(())
    }

    /// Length of a manifest, bytes, that surely fits into one unit of the medium, with every edit padded to a block. A unit with a manifest
    /// in it cannot be freed.
    fn manifest_within_unit(&self) -> u64 {
        Some(self.media.primary().unit()).filter(|unit| *unit > 0).map_or(u64::MAX, |unit| unit / EDIT_GROWS)
    }

    /// Replaces a manifest that may contain a failed edit, before any write is acknowledged; then deletes files that had to wait for it.
    #[cold]
    pub(super) fn renew_manifest(&self) -> Result<()> {
        let mut shared = self.shared.lock();
        if let Shared { manifest: Some(manifest), state, .. } = &mut *shared
            && manifest.must_rotate()
        {
            self.rotate_manifest(manifest, state)?;
        }
        let doomed = self.take_doomed(&mut shared);
        drop(shared);
        self.delete_files(&doomed);
        Ok(())
    }

    /// Replaces the manifest by a new one that begins with the whole state. Syncs names of the primary store alone, where manifests lie, so
    /// that nobody waits for a slower tier under the lock: the names of all tables were synced before the edits that added them.
    fn rotate_manifest(&self, manifest: &mut ManifestLog, state: &ManifestState) -> Result<()> {
        let number = self.new_number();
        match manifest.rotate(self.media.primary(), number, state) {
            Ok(()) => {
                self.ledger.record(None, Cause::Manifest, manifest.len());
                self.torn_manifest.store(false, Ordering::Release);
                Ok(())
            }
            Err(error) if error.passes() && !manifest.in_doubt() => Err(error),
            Err(error) => Err(self.poison("change of manifests", error)),
        }
    }

    /// Publishes a change of one family's tables; the memtables in `flushed`, compared by identity, leave the view. If the family was
    /// dropped or the database closed meanwhile, nothing is published, the new tables are deleted, and the result is `Ok`.
    pub(super) fn publish(&self, core: &Arc<FamilyCore>, mut edit: Edit, flushed: Vec<Arc<Mem>>) -> Result<()> {
        let result = self.try_publish(core, &mut edit, &flushed);
        // Deleting files takes long, so the memory of the memtables is freed first: active memtables need it.
        drop(flushed);
        self.obsolete.clear();
        let doomed = {
            let mut shared = self.shared.lock();
            // After a lack of space or descriptors the job is repeated and writes other tables, so these are deleted. Any other error ends
            // the handle; then the edit may be durable, and its tables must stay.
            if result.as_ref().map_or_else(Error::passes, |published| !published) {
                shared.doomed.extend(new_tables(&edit.tables));
            }
            self.take_doomed(&mut shared)
        };
        self.delete_files(&doomed);
        if self.is_scarce() && result.is_ok() {
            self.sync_deletions()?;
        }
        result.map(drop)
    }

    pub(super) fn sync_names(&self) -> Result<()> {
        // Cleared before the sync: a file deleted during the sync sets the flag again.
        self.deleted.store(false, Ordering::Release);
        self.store.sync_names().map_err(|error| self.poison("sync of names", error.into()))
    }

    /// Makes deletions durable: a medium may count as free only files whose deletion is durable and that have no reader.
    pub(super) fn sync_deletions(&self) -> Result<()> {
        self.obsolete.clear();
        if self.deleted.load(Ordering::Acquire) { self.sync_names() } else { Ok(()) }
    }

    /// Publishes; false if the family was dropped, or the database closed.
    fn try_publish(&self, core: &Arc<FamilyCore>, edit: &mut Edit, flushed: &[Arc<Mem>]) -> Result<bool> {
        let lengths = self.logs.synced();
        // The names of new tables, and of the logs that the edit mentions, have to be durable before the edit.
        self.sync_names()?;
        let times = core.auto.read_times();
        let opener = TableOpener { media: &self.media, db: self.db, cache: &self.cache, times, tolerant: false, opened: &[] };
        // New tables are opened before the lock is taken, because opening a table on a slow medium takes long.
        let new = edit.tables.iter().filter_map(|change| match &change.change {
            Change::Add { table, .. } => Some(opener.open(table)),
            Change::Remove { .. } | Change::Move { .. } => None,
        });
        let opened = new.collect::<Result<Vec<_>>>()?;
        let opener = TableOpener { opened: &opened, ..opener };
        let mut shared = self.shared.lock();
        if core.dropped.load(Ordering::Acquire) {
            return Ok(false);
        }
        // The edit may also advance the flushed log of other families, some of which may have been dropped meanwhile.
        edit.flushed_logs.retain(|(id, _)| shared.families.contains_key(id));
        add_lengths(edit, &lengths, &shared.state);
        let old = core.view.load_full();
        let version = self.next_version(core, &old.tree.version, edit)?;
        let tree = Arc::new(OpenTree::open(Arc::new(version), Some(&old.tree), &opener)?);
        match self.log_edit(&mut shared, edit) {
            Err(Error::Closed(_)) if shared.closing => return Ok(false),
            logged => logged?,
        }
        let full = old.full.iter().filter(|m| !flushed.iter().any(|f| Arc::ptr_eq(f, m))).cloned().collect();
        core.view.store(Arc::new(View { mem: old.mem.clone(), full, tree: tree.clone() }));
        let gone = old.tree.gone(&tree);
        for table in &gone {
            table.forget();
            shared.doomed.push(FileId::table(table.info().number));
        }
        self.obsolete.add(flushed.iter().map(|mem| mem.points.clone()), gone);
        self.drop_old_logs(&mut shared);
        self.refresh_pressure(&mut shared, core);
        self.work.notify_all();
        Ok(true)
    }

    fn next_version(&self, core: &FamilyCore, version: &Version, edit: &Edit) -> Result<Version> {
        let changes = edit.tables.iter().filter(|t| t.family == core.id).map(|t| &t.change);
        version.apply(changes).map_err(|what| Error::invalid(format!("an edit does not fit family {:?}: {what}", core.name)))
    }

    /// Takes the obsolete files that may be deleted now: none while a checkpoint is being linked, or while the manifest may contain a
    /// failed edit.
    pub(super) fn take_doomed(&self, shared: &mut Shared) -> Vec<FileId> {
        let kept = shared.hold_deletes > 0 || shared.manifest.as_ref().is_some_and(ManifestLog::must_rotate);
        if kept { Vec::new() } else { std::mem::take(&mut shared.doomed) }
    }

    /// Deletes obsolete files. A failed deletion only wastes space until the next open repeats it. A deletion that fails for lack of a file
    /// descriptor (a closed file with readers is opened before its name goes) is repeated by [`Inner::delete_doomed`].
    pub(super) fn delete_files(&self, files: &[FileId]) {
        let is_kept = |file: &&FileId| {
            let is_kept = self.store.delete(**file).is_err_and(|error| error.is_no_descriptors());
            if !is_kept {
                self.deleted.store(true, Ordering::Release);
            }
            is_kept
        };
        let kept: Vec<FileId> = files.iter().filter(is_kept).copied().collect();
        if !kept.is_empty() {
            self.shared.lock().doomed.extend(kept);
        }
    }

    /// Deletes files that could not be deleted before.
    pub(super) fn delete_doomed(&self) {
        let doomed = self.take_doomed(&mut self.shared.lock());
        self.delete_files(&doomed);
    }
}

/// The tables that changes add.
pub(super) fn new_tables(changes: &[TableChange]) -> impl Iterator<Item = FileId> {
    changes.iter().filter_map(|t| match &t.change {
        Change::Add { table, .. } => Some(FileId::table(table.number)),
        Change::Remove { .. } | Change::Move { .. } => None,
    })
}
