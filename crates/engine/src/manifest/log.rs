//! The manifest on the medium: a framed log ([`crate::wal`]) whose first record is a whole [`ManifestState`] and whose others are
//! [`Edit`]s, each durable before it counts.
//!
//! **Which manifest is the live one?** The one with the lowest number. No pointer file names it, because a pointer is one more file that a
//! crash could tear. A replacement is written whole while the live manifest exists, and becomes live by the deletion of the old one:
//!
//! 1. Delete every manifest but the live one: leftovers of unfinished replacements. *A crash here is fine because* nothing ever relied on
//!    these files; the live manifest has the lowest number, whichever deletions survive.
//! 2. Create the new manifest, append the state, sync the file, sync names (which makes step 1 durable too). *A crash here is fine
//!    because* the live manifest still exists with a lower number; whatever exists of the new one is a leftover. If there is no live
//!    manifest, this is the first creation: nothing was acknowledged, and no log or table exists yet, so a torn manifest in a store without
//!    either means "no database yet".
//! 3. Delete the old manifest, sync names. *A crash here is fine because* if the deletion is durable, the new manifest has the lowest
//!    number and was made durable in step 2; if not, the old manifest holds the same state as the new one, to which nothing has been added.
//!    For this reason the new manifest takes edits only after this step.
//!
//! So beside a manifest with edits of its own there can only be newer ones that hold a state and no edits; [`load`] refuses a store with
//! two manifests that have edits. *Appending an edit*: append, sync. A crash before the sync returned may keep or lose the edit. Both are
//! fine, because nobody was told of the edit; the new files that it names are orphans, and the old ones still exist, because they are
//! deleted only after the sync.

use super::edit::Edit;
use super::state::ManifestState;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::wal::{Log, LogEnd, LogWriter, read_log};
use sinter_storage::store::{Cause, FileId, FileKind, Hint, Store};

/// First byte of a record whose rest is an edit from an empty state to a whole one.
const SNAPSHOT: u8 = 1;
/// First byte of a record whose rest is an edit of the state before.
const EDIT: u8 = 2;

/// A manifest smaller than this is not worth replacing, unless the medium is small.
pub const ROTATE_BYTES: u64 = 1 << 20;

/// The writer of the live manifest.
pub struct ManifestLog {
    log: LogWriter,
    /// Length of the manifest with its first state alone, bytes.
    first_bytes: u64,
    /// Step 3 is done: edits may be added.
    live: bool,
    /// See [`ManifestLog::in_doubt`].
    in_doubt: bool,
}

impl ManifestLog {
    /// Creates manifest `number` in a store that has none, with `state` as its content; durable when it returns, name included.
    /// For the new store of a checkpoint; a database that opens uses [`Loaded::start`].
    pub fn create(store: &dyn Store, number: u64, state: &ManifestState) -> Result<Self> {
        let log = Self::write(store, number, state)?;
        store.sync_names()?;
        Ok(log)
    }

    /// [`ManifestLog::create`], except that the name is not made durable.
    fn write(store: &dyn Store, number: u64, state: &ManifestState) -> Result<Self> {
        let id = FileId::manifest(number);
        let mut log = LogWriter::create(store, state.db, id, &Hint::new(Cause::Manifest), &[])?;
        let mut snapshot = state.snapshot_edit();
        snapshot.next_number = Some(state.next_number.max(number.saturating_add(1)));
        log.append_with(|out| {
            out.push(SNAPSHOT);
            snapshot.encode(out);
        })?;
        log.sync()?;
        let first_bytes = log.len();
        Ok(ManifestLog { log, first_bytes, live: true, in_doubt: false })
    }

    /// Appends an edit, which is durable when this returns. The caller has checked that the edit applies ([`ManifestState::apply`]), and
    /// deletes obsolete files only afterwards. After an error the manifest refuses everything but a rotation. Whether a later open will
    /// find the edit is then unknown, so every file that it names, old or new, has to stay until a rotation succeeded.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        if !self.live {
            return Err(Error::Closed(format!("{} has not replaced its predecessor yet", self.log.id())));
        }
        self.log.append_with(|out| {
            out.push(EDIT);
            edit.encode(out);
        })?;
        self.in_doubt = true;
        match self.log.sync() {
            // The edit is durable; only the marker behind it found no space.
            Err(Error::NoSpace(_)) if self.log.records_len() == self.log.synced() => {}
            outcome => outcome?,
        }
        self.in_doubt = false;
        Ok(())
    }

    /// Returns whether a sync failed, of the last edit or of names: what a later open will find is not known, and no later sync can be
    /// trusted.
    pub fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns whether the manifest takes no more edits, because an append or an earlier rotation failed.
    pub fn must_rotate(&self) -> bool {
        !self.live || self.log.has_failed()
    }

    /// Returns whether most of the manifest is outdated: it is longer than `least` and longer than four times its first state.
    pub fn should_rotate(&self, least: u64) -> bool {
        self.log.len() > least.max(self.first_bytes.saturating_mul(4))
    }

    /// Replaces this manifest by one with the unused number `number` and the content `state`: all acknowledged edits and no others. Also
    /// repairs a manifest after a failed append, for example once a full disk has free space again. A failed rotation can be repeated
    /// with another number; whether appends work in between depends on the step that failed.
    pub fn rotate(&mut self, store: &dyn Store, number: u64, state: &ManifestState) -> Result<()> {
        let old = self.log.id();
        delete_manifests(store, Some(old))?;
        let new = Self::write(store, number, state)?;
        self.sync_names(store)?;
        *self = ManifestLog { live: false, ..new };
        store.delete(old)?;
        self.sync_names(store)?;
        self.live = true;
        Ok(())
    }

    fn sync_names(&mut self, store: &dyn Store) -> Result<()> {
        self.in_doubt = true;
        store.sync_names()?;
        self.in_doubt = false;
        Ok(())
    }

    /// Id of the file.
    pub fn id(&self) -> FileId {
        self.log.id()
    }

    /// Length of the file, bytes.
    #[expect(clippy::len_without_is_empty, reason = "a manifest has its first state from the start")]
    pub fn len(&self) -> u64 {
        self.log.len()
    }
}

/// Step 1: deletes every manifest but `keep`.
fn delete_manifests(store: &dyn Store, keep: Option<FileId>) -> Result<()> {
    for (id, _) in store.list()? {
        if id.kind == FileKind::Manifest && Some(id) != keep {
            store.delete(id)?;
        }
    }
    Ok(())
}

/// Result of [`load`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// State in the manifest; `None`: the store has no database yet. `next_number` is above every file of the store, files that the
    /// manifest does not know included.
    pub state: Option<ManifestState>,
    /// The live manifest.
    pub live: Option<FileId>,
    /// End of the live manifest. Bytes cut off there were never acknowledged.
    pub end: LogEnd,
    /// Number of edits behind the live manifest's first state.
    pub edits: u64,
    /// A number above those of all files in the store and above all numbers used before.
    pub next_number: u64,
    /// A number above all that the live manifest names, whatever files there are.
    pub named_below: u64,
}

impl Loaded {
    /// Makes the loaded manifest durable. False if there is none, or the store cannot sync a file that it does not write.
    pub fn make_durable(&self, store: &dyn Store) -> Result<bool> {
        let Some(live) = self.live else { return Ok(false) };
        if !store.sync_file(live)? {
            return Ok(false);
        }
        store.sync_names()?;
        Ok(true)
    }

    /// Deletes all other manifests. Begins no new one.
    pub fn delete_others(&self, store: &dyn Store) -> Result<()> {
        delete_manifests(store, self.live)
    }

    /// Opens for writing: replaces the loaded manifest, if there was one, by one with number `number` and the content `state`. An existing
    /// file is never continued, so nothing is ever written behind a cut end.
    pub fn start(&self, store: &dyn Store, number: u64, state: &ManifestState) -> Result<ManifestLog> {
        delete_manifests(store, self.live)?;
        let log = ManifestLog::create(store, number, state)?;
        if let Some(old) = self.live {
            store.delete(old)?;
            store.sync_names()?;
        }
        Ok(log)
    }
}

/// No file of a database has this number or a larger one: a million files a second reach it after a hundred thousand years. A file that
/// somebody else made may have, and the numbers after it would soon begin at 0 again.
const NUMBERS_END: u64 = 1 << 62;

/// Reads the live manifest; writes nothing. `Corrupt` for damage to anything acknowledged, for edits that do not apply, for a store with
/// logs or tables but no manifest, and for a store with two manifests that both hold edits. `Invalid` for the store of a tier.
pub fn load(store: &dyn Store) -> Result<Loaded> {
    let files: Vec<FileId> = store.list()?.into_iter().map(|(id, _)| id).collect();
    let highest = files.iter().max_by_key(|id| id.number);
    if let Some(strange) = highest.filter(|id| id.number >= NUMBERS_END) {
        return Err(Error::invalid(format!(
            "{strange} has a number that no file of a database has: move it away if it is not the database's"
        )));
    }
    let next_number = highest.map_or(1, |id| id.number + 1);
    if let Some(tier) = files.iter().find(|id| id.kind == FileKind::Tier) {
        return Err(Error::invalid(format!("this is a tier of a database ({tier}), not a database: name the database's own directory")));
    }
    let in_use = files.iter().find(|id| id.kind != FileKind::Manifest);
    let mut manifests: Vec<FileId> = files.iter().copied().filter(|id| id.kind == FileKind::Manifest).collect();
    manifests.sort();
    if let (Some(other), true) = (in_use, manifests.is_empty()) {
        return Err(Error::corrupt("manifest", 0, format!("is missing, but there is {other}")));
    }
    let mut found = Loaded { state: None, live: None, end: LogEnd::default(), edits: 0, next_number, named_below: 0 };
    for id in manifests {
        let log = read_log(store, None, id)?;
        let records = log.records().count() as u64;
        if found.live.is_some() {
            if records > 1 {
                return Err(Error::corrupt(id, 0, "has edits, although there is an older manifest: one of them belongs elsewhere"));
            }
        } else if let (Some(db), true) = (log.db, records > 0) {
            let mut state = replay(id, db, &log)?;
            let named_below = state.next_number;
            state.next_number = state.next_number.max(next_number);
            let next_number = state.next_number;
            found = Loaded { state: Some(state), live: Some(id), end: log.end, edits: records - 1, next_number, named_below };
        } else if let Some(other) = in_use {
            return Err(Error::corrupt(id, 0, format!("the first state is damaged or missing, but there is {other}")));
        }
    }
    Ok(found)
}

/// Applies the edits that a writer has appended since the manifest was loaded, and returns their number. An error if that manifest was
/// replaced. Applying a few edits costs far less than loading all, and a reader beside a writer has to be quick.
pub fn catch_up(store: &dyn Store, loaded: &mut Loaded) -> Result<u64> {
    let (Some(id), Some(state)) = (loaded.live, &mut loaded.state) else { return Ok(0) };
    let log = read_log(store, Some(state.db), id)?;
    let known = usize::try_from(loaded.edits).unwrap_or(usize::MAX).saturating_add(1);
    let mut fresh = 0;
    for (offset, record) in log.records().skip(known) {
        apply(state, id, offset, record, EDIT)?;
        fresh += 1;
    }
    (loaded.edits, loaded.end) = (loaded.edits + fresh, log.end);
    Ok(fresh)
}

/// The state that a manifest's records lead to.
fn replay(id: FileId, db: DbId, log: &Log) -> Result<ManifestState> {
    let mut state = ManifestState::new(db);
    let mut expected = SNAPSHOT;
    for (offset, record) in log.records() {
        apply(&mut state, id, offset, record, expected)?;
        expected = EDIT;
    }
    Ok(state)
}

fn apply(state: &mut ManifestState, id: FileId, offset: u64, record: &[u8], expected: u8) -> Result<()> {
    let corrupt = |what: String| Error::corrupt(id, offset, what);
    let (kind, bytes) = record.split_first().ok_or_else(|| corrupt("an empty record".into()))?;
    if *kind != expected {
        return Err(corrupt(format!("a record of kind {kind} instead of {expected}")));
    }
    let edit = Edit::decode(bytes).ok_or_else(|| corrupt("not an edit, or one of a newer format".into()))?;
    state.apply(&edit).map_err(|why| corrupt(format!("the edit does not apply: {why}")))
}
