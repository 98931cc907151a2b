//! Several stores as one: tables lie by temperature, everything else in the primary store.
//!
//! * A table is created in the store of its hint's temperature. A temperature without a store uses that of the next hotter temperature, or
//!   else the primary store, which also takes tables of unknown temperature.
//! * The store of each table is found by listing all stores once, and remembered. If two stores have a file of one name, the hotter one
//!   counts, and the primary store is the hottest. This happens when a table did not fit into its tier and was written again on a hotter
//!   one, and a crash brought the torn file back. A deletion removes both.
//! * A tier with less free space than the expected size of a table refuses to create it, before anything is written.
//! * Names are synced only in stores where files were created or deleted, so that a log on a fast medium does not wait for a slow one.
//!
//! Files in the store of a tier that are not tables do not belong to the database and are not listed here.

use super::{Appender, Beneath, FileId, FileKind, Hint, ReadAt, Result, Shared, Store, StoreError, StoreLock, Temperature};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNT: usize = Temperature::ALL.len();

/// One of the stores.
#[derive(Debug)]
struct Member {
    temperature: Temperature,
    store: Arc<dyn Store>,
    /// Number of files created or deleted so far. Counted after the call, so that a sync that began before the call does not cover it.
    changes: AtomicU64,
    /// Number of `changes` that are durable.
    synced: AtomicU64,
}

impl Member {
    /// Counts a name that was or may have been created or deleted.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes the changes so far durable, unless they are. A caller does not rely on a sync that another thread is running, because that
    /// sync has not succeeded yet.
    fn sync_names(&self) -> Result<()> {
        let changes = self.changes.load(Ordering::Acquire);
        if changes > self.synced.load(Ordering::Acquire) || self.temperature == Temperature::Unknown {
            self.store.sync_names().map_err(|error| self.named(error))?;
            self.synced.fetch_max(changes, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Adds the tier and its directory to an error.
    fn named(&self, error: StoreError) -> StoreError {
        if self.temperature == Temperature::Unknown {
            return error;
        }
        let at = self.store.directory().map(|path| format!(" ({})", path.display())).unwrap_or_default();
        error.named(format_args!("tier {}{at}", self.temperature.name()))
    }

    /// Whether the medium has `bytes` of free space, as far as it knows.
    fn has_room(&self, bytes: u64) -> Result<bool> {
        Ok(self.store.free_bytes().map_err(|error| self.named(error))?.is_none_or(|free| free >= bytes))
    }
}

/// A primary store and further ones by temperature.
#[derive(Debug)]
pub struct Tiers {
    /// Stores by temperature: the primary store first, then the tiers, the hottest first.
    members: [Option<Member>; COUNT],
    /// The stores that have a file: one bit per temperature.
    files: RwLock<HashMap<FileId, u8>>,
}

impl Tiers {
    /// Lists all stores. `primary` has no temperature, so none of `tiers` may be [`Temperature::Unknown`].
    pub fn new(primary: Arc<dyn Store>, tiers: impl IntoIterator<Item = (Temperature, Arc<dyn Store>)>) -> Result<Self> {
        let mut members = [const { None }; COUNT];
        for (temperature, store) in tiers.into_iter().chain([(Temperature::Unknown, primary)]) {
            // Begins with one unsynced change, because a process that used the store before may have died before a sync.
            let member = Member { temperature, store, changes: AtomicU64::new(1), synced: AtomicU64::new(0) };
            if members[temperature as usize].replace(member).is_some() {
                let what = format!("two stores for temperature {}", temperature.name());
                return Err(StoreError::store("open tiers", io::Error::new(io::ErrorKind::InvalidInput, what)));
            }
        }
        let tiers = Tiers { members, files: RwLock::default() };
        let mut files = HashMap::new();
        for (temperature, id, _) in tiers.walk()? {
            *files.entry(id).or_default() |= bit(temperature);
        }
        *tiers.files.write() = files;
        Ok(tiers)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    fn member(&self, temperature: Temperature) -> &Member {
        let mut hotter = self.members[..=temperature as usize].iter().rev().flatten();
        match hotter.next() {
            Some(member) => member,
            None => unreachable!("the primary store is always there"),
        }
    }

    /// The stores known to have a file. The first one counts.
    fn holders(&self, id: FileId) -> impl Iterator<Item = &Member> {
        let bits = self.files.read().get(&id).copied().unwrap_or(0);
        self.members().filter(move |member| bits & bit(member.temperature) != 0)
    }

    /// Notes that a store no longer has a file.
    fn forget(&self, id: FileId, at: Temperature) {
        let mut files = self.files.write();
        if let Some(bits) = files.get_mut(&id) {
            *bits &= !bit(at);
            if *bits == 0 {
                files.remove(&id);
            }
        }
    }

    /// All files of the database, each with the temperature of its store and its length.
    fn walk(&self) -> Result<Vec<(Temperature, FileId, u64)>> {
        let mut all = Vec::new();
        for member in self.members() {
            let is_primary = member.temperature == Temperature::Unknown;
            let files = member.store.list().map_err(|error| member.named(error))?.into_iter();
            let ours = files.filter(|(id, _)| is_primary || id.kind == FileKind::Table);
            all.extend(ours.map(|(id, bytes)| (member.temperature, id, bytes)));
        }
        Ok(all)
    }

    /// Temperature of the store that holds tables of `temperature`; [`Temperature::Unknown`] stands for the primary store.
    pub fn serving(&self, temperature: Temperature) -> Temperature {
        self.member(temperature).temperature
    }

    /// Temperature of the next hotter store than the one that serves `temperature`; `None` if that is the primary one, which is the
    /// hottest.
    pub fn hotter(&self, temperature: Temperature) -> Option<Temperature> {
        let at = self.serving(temperature) as usize;
        self.members[..at].iter().rev().flatten().map(|member| member.temperature).next()
    }

    /// Temperature of the store in which a file lies; `None` if it is not known.
    pub fn place(&self, id: FileId) -> Option<Temperature> {
        self.holders(id).map(|member| member.temperature).next()
    }

    /// The temperatures that have stores of their own, the hottest first; not the primary one.
    pub fn temperatures(&self) -> impl Iterator<Item = Temperature> {
        self.members().map(|member| member.temperature).filter(|temperature| *temperature != Temperature::Unknown)
    }

    /// Bytes that can still be written to the store that serves `temperature`; `None`: its medium does not know.
    pub fn free_bytes_of(&self, temperature: Temperature) -> Result<Option<u64>> {
        let member = self.member(temperature);
        member.store.free_bytes().map_err(|error| member.named(error))
    }

    /// The directory behind the store that serves `temperature`, if there is one.
    pub fn directory_of(&self, temperature: Temperature) -> Option<&Path> {
        self.member(temperature).store.directory()
    }
}

fn bit(temperature: Temperature) -> u8 {
    1 << temperature as u8
}

impl Store for Tiers {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        if self.files.read().contains_key(&id) {
            return Err(StoreError::file("create", id, io::ErrorKind::AlreadyExists.into()));
        }
        let member = self.member(if id.kind == FileKind::Table { hint.temperature } else { Temperature::Unknown });
        if member.temperature != Temperature::Unknown && !member.has_room(hint.expected_bytes)? {
            return Err(member.named(StoreError::file("create", id, io::ErrorKind::StorageFull.into())));
        }
        let created = member.store.create(id, hint);
        member.changed();
        let file = created.map_err(|error| member.named(error))?;
        self.files.write().insert(id, bit(member.temperature));
        Ok(file)
    }

    /// Also finds, and remembers, files created after the stores were listed: a read-only handle needs this while another process writes.
    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        for member in self.holders(id) {
            match member.store.open(id) {
                Err(error) if error.is_not_found() => {}
                opened => return opened.map_err(|error| member.named(error)),
            }
        }
        for member in self.members().filter(|member| member.temperature == Temperature::Unknown || id.kind == FileKind::Table) {
            match member.store.open(id) {
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(member.named(error)),
                Ok(file) => {
                    *self.files.write().entry(id).or_default() |= bit(member.temperature);
                    return Ok(file);
                }
            }
        }
        Err(StoreError::file("open", id, io::ErrorKind::NotFound.into()))
    }

    /// Deletes the file from every store that has it: the next open would find a copy left in one of them.
    fn delete(&self, id: FileId) -> Result<()> {
        let mut outcome = Err(StoreError::file("delete", id, io::ErrorKind::NotFound.into()));
        for member in self.holders(id).collect::<Vec<_>>() {
            let deleted = member.store.delete(id);
            member.changed();
            match deleted {
                Err(error) if !error.is_not_found() => return Err(member.named(error)),
                deleted => outcome = deleted.or(outcome),
            }
            self.forget(id, member.temperature);
        }
        outcome
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        let mut seen: HashMap<FileId, u64> = HashMap::new();
        for (_, id, bytes) in self.walk()? {
            seen.entry(id).or_insert(bytes);
        }
        Ok(seen.into_iter().collect())
    }

    fn sync_names(&self) -> Result<()> {
        self.members().try_for_each(Member::sync_names)
    }

    /// Free bytes of the primary store, without which nothing can be written.
    fn free_bytes(&self) -> Result<Option<u64>> {
        self.free_bytes_of(Temperature::Unknown)
    }

    fn unit(&self) -> u64 {
        self.members().map(|member| member.store.unit()).max().unwrap_or(0)
    }

    fn check_there(&self) -> Result<()> {
        self.members().try_for_each(|member| member.store.check_there().map_err(|error| member.named(error)))
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        match self.holders(id).next() {
            Some(member) => member.store.sync_file(id).map_err(|error| member.named(error)),
            None => Err(StoreError::file("sync", id, io::ErrorKind::NotFound.into())),
        }
    }

    /// Pinned bytes of the primary store, which has all logs and manifests.
    fn pinned_bytes(&self) -> u64 {
        self.member(Temperature::Unknown).store.pinned_bytes()
    }

    /// Locks all stores, or none.
    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        let locks = self.members().map(|member| member.store.lock().map_err(|error| member.named(error)));
        Ok(Box::new(Locks { _all: locks.collect::<Result<_>>()? }))
    }

    /// Directory of the primary store.
    fn directory(&self) -> Option<&Path> {
        self.directory_of(Temperature::Unknown)
    }

    /// Figures of the primary store.
    fn beneath(&self) -> Option<Beneath> {
        self.member(Temperature::Unknown).store.beneath()
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        match self.holders(id).next() {
            Some(member) => member.store.share(id, target, hint),
            None => Err(StoreError::file("share", id, io::ErrorKind::NotFound.into())),
        }
    }
}

#[derive(Debug)]
struct Locks {
    _all: Vec<Box<dyn StoreLock>>,
}

impl StoreLock for Locks {}
