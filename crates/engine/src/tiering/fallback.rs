//! Creates table files on the tier of their temperature, or on a hotter one if that tier is full.
//!
//! **A full tier.** If a table finds no space on its tier, the whole table goes to the next hotter tier with space, and last to the primary
//! store, under its number, because a file lies in one store. The part already written is read back from the full medium and its hash
//! (XXH3) compared with that of the bytes appended, so that bytes lost by a failed sync are noticed. If the primary store is full as well,
//! its error is returned, and writers wait for space, as in a database without tiers. The job that writes the table notices none of this.
//!
//! **No space above the last level.** A merge that divides its data by age needs space on the fast medium for young data. If all tiers that
//! could take the young data are full, the primary store included, and the medium of the last level is not, the whole output goes to the
//! last level (`Inner::merge_tables`). Then the inputs leave the fast medium, and a later merge that finds space promotes the young data.
//!
//! A crash during a fallback leaves a torn file, and perhaps a whole file of the same name on another tier. The manifest names neither:
//! before it does, the names of all tiers are synced, and with them the deletion of the torn file.

use super::tier_name;
use crate::clock::Clock;
use crate::error;
use crate::ledger::Ledger;
use parking_lot::Mutex;
use sinter_storage::store::{Appender, FileId, HELD_BACK, Hint, ReadAt, Result, Store, StoreError, Temperature, Tiers};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use xxhash_rust::xxh3::Xxh3;

/// Number of recent events that are kept as notes: tables that fell back, and merges that found no space for young data.
const NOTES: usize = 8;
/// Bytes per read while a file is read back.
const PIECE: usize = 1 << 20;

/// Creates table files and accounts for the bytes written to them in the ledger.
pub struct Placer {
    store: Arc<dyn Store>,
    tiers: Option<Arc<Tiers>>,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    /// Tables that fell back to a hotter tier, and bytes written twice for that.
    tables: AtomicU64,
    bytes: AtomicU64,
    /// Merges that wrote young data to the last level for lack of space above it, and the bytes of that data.
    sinkings: AtomicU64,
    sunk_bytes: AtomicU64,
    notes: Mutex<VecDeque<String>>,
}

impl Placer {
    pub fn new(store: Arc<dyn Store>, tiers: Option<Arc<Tiers>>, ledger: Arc<Ledger>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let [tables, bytes, sinkings, sunk_bytes] = [const { AtomicU64::new(0) }; 4];
        Arc::new(Placer { store, tiers, ledger, clock, tables, bytes, sinkings, sunk_bytes, notes: Mutex::default() })
    }

    /// Creates a table file on the tier of its hint's temperature, or on a hotter one.
    pub fn create(self: &Arc<Self>, id: FileId, hint: &Hint) -> error::Result<Box<dyn Appender>> {
        let Some(tiers) = &self.tiers else { return Ok(self.account(Temperature::Unknown, hint, self.store.create(id, hint)?)) };
        let wanted = tiers.serving(hint.temperature);
        let mut hint = hint.clone();
        let file = self.create_or_hotter(tiers, id, &mut hint, None)?;
        if tiers.serving(hint.temperature) != wanted {
            self.note(id, wanted, tiers.serving(hint.temperature), 0);
        }
        if tiers.hotter(hint.temperature).is_none() {
            // The file is in the primary store: there is no hotter one to fall back to.
            return Ok(file);
        }
        let (placer, tiers) = (Arc::clone(self), Arc::clone(tiers));
        Ok(Box::new(Placed { placer, tiers, id, hint, file: Some(file), len: 0, digest: Xxh3::new(), held: Vec::new() }))
    }

    /// Creates a table file on the tier of its hint's temperature; an error if that tier is full.
    pub fn create_there(&self, id: FileId, hint: &Hint) -> error::Result<Box<dyn Appender>> {
        let place = self.tiers.as_ref().map_or(Temperature::Unknown, |tiers| tiers.serving(hint.temperature));
        Ok(self.account(place, hint, self.store.create(id, hint)?))
    }

    fn account(&self, place: Temperature, hint: &Hint, file: Box<dyn Appender>) -> Box<dyn Appender> {
        self.ledger.account(place, Some(hint.family), hint.cause, file)
    }

    /// Creates a file on the tier of the hint, or on the next hotter one that has space; sets the hint's temperature to that of the tier.
    /// `full`: the error with which the tier of the hint has already refused the file.
    fn create_or_hotter(&self, tiers: &Tiers, id: FileId, hint: &mut Hint, mut full: Option<StoreError>) -> Result<Box<dyn Appender>> {
        loop {
            if let Some(error) = full.take() {
                hint.temperature = tiers.hotter(hint.temperature).ok_or(error)?;
            }
            match self.store.create(id, hint) {
                Err(error) if error.is_no_space() => full = Some(error),
                created => return created.map(|file| self.account(tiers.serving(hint.temperature), hint, file)),
            }
        }
    }

    fn note(&self, id: FileId, from: Temperature, to: Temperature, again: u64) {
        self.tables.fetch_add(1, Relaxed);
        self.bytes.fetch_add(again, Relaxed);
        let (from, to, at) = (tier_name(from), tier_name(to), self.clock.unix_seconds());
        self.tell(format!("tier {from} was full (unix time {at}): {id} went to {to}, {again} bytes were written again"));
    }

    /// Notes that a merge found no space for young data and wrote it to the last level: number of entries, and approximate bytes.
    pub fn note_sunk(&self, entries: u64, bytes: u64) {
        self.sinkings.fetch_add(1, Relaxed);
        self.sunk_bytes.fetch_add(bytes, Relaxed);
        let at = self.clock.unix_seconds();
        let what = format!("{entries} entries that may be young, about {bytes} bytes, went to the last level");
        self.tell(format!("there was no space above the last level (unix time {at}): {what}"));
    }

    fn tell(&self, note: String) {
        let mut notes = self.notes.lock();
        notes.push_back(note);
        let surplus = notes.len().saturating_sub(NOTES);
        notes.drain(..surplus);
    }

    /// Number of tables that fell back to a hotter tier, and bytes written again for that.
    pub fn fallen(&self) -> (u64, u64) {
        (self.tables.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Number of merges that wrote young data to the last level for lack of space, and approximate bytes of that data.
    pub fn sunk(&self) -> (u64, u64) {
        (self.sinkings.load(Relaxed), self.sunk_bytes.load(Relaxed))
    }

    /// The most recent notes, a line each.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().iter().cloned().collect()
    }
}

/// A table file that falls back to a hotter tier if its medium fills up.
struct Placed {
    placer: Arc<Placer>,
    tiers: Arc<Tiers>,
    id: FileId,
    /// Hint with the temperature of the store in which the file lies.
    hint: Hint,
    /// `None` after a failure.
    file: Option<Box<dyn Appender>>,
    len: u64,
    /// Hash of all bytes so far.
    digest: Xxh3,
    /// The last bytes appended, if the appender may hold them back in memory; only direct ones do.
    held: Vec<u8>,
}

impl Placed {
    fn remember(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.digest.update(bytes);
        if self.hint.direct {
            self.held.extend_from_slice(bytes);
            if self.held.len() > 2 * HELD_BACK {
                self.held.drain(..self.held.len() - HELD_BACK);
            }
        }
    }

    /// Writes what the table has so far to a hotter tier, because its own is full. An error if no hotter tier can take the table, or if the
    /// bytes cannot be read back.
    fn fall_back(&mut self, full: StoreError) -> Result<()> {
        let Placed { placer, tiers, id, .. } = self;
        let (placer, tiers, id) = (Arc::clone(placer), Arc::clone(tiers), *id);
        // Dropped before the file is opened: opening makes an appender write the bytes it holds back, here to the full medium.
        self.file = None;
        let Ok(torn) = placer.store.open(id) else { return Err(full) };
        let from = tiers.serving(self.hint.temperature);
        let mut full = full;
        loop {
            // `torn` stays readable after the deletion.
            if placer.store.delete(id).is_err() {
                return Err(full);
            }
            let mut file = placer.create_or_hotter(&tiers, id, &mut self.hint, Some(full))?;
            match self.write_again(&*torn, &mut *file) {
                Ok(true) => {
                    placer.note(id, from, tiers.serving(self.hint.temperature), self.len);
                    self.file = Some(file);
                    return Ok(());
                }
                Ok(false) => {
                    let what = "the medium is full, and the bytes written to it cannot be read back";
                    return Err(StoreError::file("append", id, std::io::Error::new(std::io::ErrorKind::StorageFull, what)));
                }
                Err(error) if error.is_no_space() => full = error,
                Err(error) => return Err(error),
            }
        }
    }

    /// Copies all bytes appended so far to `file`. False if they cannot be read back, or differ from what was appended.
    fn write_again(&self, torn: &dyn ReadAt, file: &mut dyn Appender) -> Result<bool> {
        let mut digest = Xxh3::new();
        let on_medium = self.len - (self.held.len() as u64).min(self.len);
        let mut buffer = vec![0; PIECE];
        let mut offset = 0;
        while offset < on_medium {
            let n = usize::try_from(on_medium - offset).unwrap_or(PIECE).min(PIECE);
            if torn.read_at(offset, &mut buffer[..n]).is_err() {
                return Ok(false);
            }
            digest.update(&buffer[..n]);
            file.append(&buffer[..n])?;
            offset += n as u64;
        }
        digest.update(&self.held);
        if !self.held.is_empty() {
            file.append(&self.held)?;
        }
        Ok(digest.digest() == self.digest.digest())
    }

    /// Runs an operation on the file. If the medium is full, falls back to a hotter tier and repeats the operation there.
    fn attempt(&mut self, operation: &'static str, mut run: impl FnMut(&mut dyn Appender) -> Result<()>) -> Result<()> {
        loop {
            let Some(file) = &mut self.file else { return Err(StoreError::dead(operation, self.id)) };
            match run(&mut **file) {
                Err(error) if error.is_no_space() => self.fall_back(error)?,
                outcome => return outcome,
            }
        }
    }
}

impl Appender for Placed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt("append", |file| file.append(bytes))?;
        self.remember(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.attempt("sync", |file| file.sync())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn seal(mut self: Box<Self>) -> Result<()> {
        loop {
            let Some(file) = self.file.take() else { return Err(StoreError::dead("seal", self.id)) };
            match file.seal() {
                Err(error) if error.is_no_space() => self.fall_back(error)?,
                outcome => return outcome,
            }
        }
    }
}
