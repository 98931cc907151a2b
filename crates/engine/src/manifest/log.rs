//! The manifest on the medium: a framed log ([`crate::wal`]) whose first record is a whole [`State`] and whose others are [`Edit`]s,
//! each durable before it counts.
//!
//! **Which manifest is the live one?** The one with the lowest number. There is no pointer to it, because a pointer would be one
//! more file to tear. A replacement is written whole beside the live one, and takes over by the live one's deletion:
//!
//! 1. delete every manifest but the live one: what unfinished replacements left behind. *A crash here is fine because* nothing
//!    has ever relied on those files; the live manifest is the lowest, and any subset of the deletions leaves it so.
//! 2. create the new manifest, append the state, sync it, sync names (which makes step 1 durable too). *A crash here is fine
//!    because* the live manifest is still there, lower; whatever there is of the new one counts as left behind. If there is no
//!    live one, this is the first creation: nothing was acknowledged, and no log or table exists yet, so a torn manifest in a
//!    store without either means "no database yet".
//! 3. delete the old manifest, sync names. *A crash here is fine because* the deletion is durable or not: if it is, the new
//!    manifest is the lowest and was made durable in step 2; if not, the old one still says the same as the new one, to which
//!    nothing has been added. For that reason the new one takes edits only after this step.
//!
//! So a manifest with edits of its own is alone, but for newer ones that hold a state and nothing else; [`load`] refuses a store
//! that shows both. *Appending an edit*: append, sync. A crash before the sync returned may keep or lose the edit, and both are fine
//! because nobody has been told; files that it names are orphans or inputs that still exist, because they are deleted after the sync only.

use super::edit::Edit;
use super::state::State;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::wal::{Log, LogEnd, LogWriter, read_log};
use sinter_storage::store::{Cause, FileId, FileKind, Hint, Store};

/// The first byte of a record: the rest is an edit that leads from nothing to a whole state.
const SNAPSHOT: u8 = 1;
/// The first byte of a record: the rest is an edit of the state before.
const EDIT: u8 = 2;

/// A manifest smaller than this is not worth replacing, unless the medium is small.
pub const ROTATE_BYTES: u64 = 1 << 20;

/// The writer of the live manifest.
pub struct ManifestLog {
    log: LogWriter,
    /// Length with the snapshot alone.
    first_bytes: u64,
    /// Step 3 is done: edits may be added.
    live: bool,
    /// See [`ManifestLog::in_doubt`].
    in_doubt: bool,
}

impl ManifestLog {
    /// Creates manifest `number` in a store that has none, with `state` as its content; durable when it returns, name included.
    /// For the new store of a checkpoint; a database that opens uses [`Loaded::start`].
    pub fn create(store: &dyn Store, number: u64, state: &State) -> Result<Self> {
        let log = Self::write(store, number, state)?;
        store.sync_names()?;
        Ok(log)
    }

    /// [`ManifestLog::create`] without its name made durable.
    fn write(store: &dyn Store, number: u64, state: &State) -> Result<Self> {
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

    /// Appends an edit, which is durable when this returns. The caller has made sure that the edit applies ([`State::apply`]), and
    /// deletes no file that the edit makes superfluous before. After an error the log refuses everything but a rotation. Whether a
    /// later open will find the edit is then unknown: every file that it names, old or new, has to stay until a rotation succeeded.
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

    /// A sync failed, of the last edit or of names: the result of a later open is not known, and no later sync can be believed.
    pub fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The manifest takes no more edits: an append or an earlier rotation failed.
    pub fn must_rotate(&self) -> bool {
        !self.live || self.log.has_failed()
    }

    /// Most of the manifest is history: it is longer than `least` and than four times the state it began with.
    pub fn should_rotate(&self, least: u64) -> bool {
        self.log.len() > least.max(self.first_bytes.saturating_mul(4))
    }

    /// Replaces this manifest by number `number` (never used before) with `state`, all acknowledged edits and no other. Also the way
    /// on after a failed append, such as on a disk that was full and has room again. If it fails, it can be tried again with
    /// another number; whether appends work in between depends on how far it came.
    pub fn rotate(&mut self, store: &dyn Store, number: u64, state: &State) -> Result<()> {
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

/// Step 1.
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
    pub state: Option<State>,
    /// The live manifest.
    pub live: Option<FileId>,
    /// End of the live manifest. Bytes cut off there had never been acknowledged.
    pub end: LogEnd,
    /// Edits behind the live manifest's first state.
    pub edits: u64,
    /// Above every number that a file of the store has, or that was used before.
    pub next_number: u64,
    /// Above every number that the live manifest's edits name, whatever files there are.
    pub named_below: u64,
}

impl Loaded {
    /// Makes the manifest durable as it was read; false if there is none, or the store has no way to.
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

    /// Begins to write: replaces the manifest that was loaded (if there was one) by number `number` with `state`. A log is never
    /// continued, so nothing is ever written behind a cut tail.
    pub fn start(&self, store: &dyn Store, number: u64, state: &State) -> Result<ManifestLog> {
        delete_manifests(store, self.live)?;
        let log = ManifestLog::create(store, number, state)?;
        if let Some(old) = self.live {
            store.delete(old)?;
            store.sync_names()?;
        }
        Ok(log)
    }
}

/// Reads the live manifest; writes nothing. `Corrupt` for damage to anything that was acknowledged, for edits that make no sense,
/// for a store with logs or tables but no manifest, and for one with two manifests that both hold edits. `Invalid` for a tier's store.
pub fn load(store: &dyn Store) -> Result<Loaded> {
    let files: Vec<FileId> = store.list()?.into_iter().map(|(id, _)| id).collect();
    let highest = files.iter().map(|id| id.number).max().unwrap_or(0);
    let next_number = highest.checked_add(1).ok_or_else(|| Error::corrupt("manifest", 0, "file numbers are used up"))?;
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
                return Err(Error::corrupt(id, 0, "has edits, although there is an older manifest: one of both is out of place"));
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
fn replay(id: FileId, db: DbId, log: &Log) -> Result<State> {
    let mut state = State::new(db);
    let mut expected = SNAPSHOT;
    for (offset, record) in log.records() {
        apply(&mut state, id, offset, record, expected)?;
        expected = EDIT;
    }
    Ok(state)
}

fn apply(state: &mut State, id: FileId, offset: u64, record: &[u8], expected: u8) -> Result<()> {
    let corrupt = |what: String| Error::corrupt(id, offset, what);
    let (kind, bytes) = record.split_first().ok_or_else(|| corrupt("an empty record".into()))?;
    if *kind != expected {
        return Err(corrupt(format!("a record of kind {kind} where {expected} belongs")));
    }
    let edit = Edit::decode(bytes).ok_or_else(|| corrupt("not an edit, or one of a newer format".into()))?;
    state.apply(&edit).map_err(|why| corrupt(format!("an edit that makes no sense: {why}")))
}
