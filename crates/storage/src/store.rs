//! The interface between the engine and its media: files are created with a placement hint, appended to, synced, sealed, and then only read
//! or deleted.
//!
//! Durability contract, which every implementation keeps and which the memory store checks in tests by simulated crashes:
//! * bytes are durable only after [`Appender::sync`] (or [`Appender::seal`]) returned `Ok`;
//! * a name (a creation or a deletion) is durable only after [`Store::sync_names`] returned `Ok`;
//! * after a failed append the file may end with any part of the bytes of that append; nothing more can be appended, but earlier bytes can
//!   still be synced (appenders that hold bytes back may refuse that, too);
//! * a log that was not sealed may end in zeros that nobody appended, because space is written ahead;
//! * after a failed sync nothing may be assumed about the bytes since the last good one, and the appender refuses further use.

mod behind;
mod beneath;
mod dir;
mod error;
mod fault;
mod hint;
mod memory;
mod meter;
mod open_files;
mod sys;
mod throttle;
mod tiers;

pub use beneath::{Beneath, ByLifetime, ZonesNow};
pub use dir::DirStore;
pub use error::{Result, StoreError};
pub use hint::{Cause, Hint, Lifetime, Reason, Temperature};
pub use memory::MemoryStore;
pub use meter::MeterSnapshot;

#[doc(hidden)]
pub use behind::behind;
#[doc(hidden)]
pub use dir::{Relation, relation};
#[doc(hidden)]
pub use fault::{Calls, EIO, EMFILE, ENOSPC, Fault, FaultStore, Hook, Operation};
#[doc(hidden)]
pub use memory::{CrashMode, Fate, Tail, Unsynced};
#[doc(hidden)]
pub use meter::Meter;
#[doc(hidden)]
pub use open_files::{BoundedStore, OpenFiles};
#[doc(hidden)]
pub use sys::{give_back_free, give_back_when_freed};
#[doc(hidden)]
pub use throttle::{Medium, Sleep, Throttle};
#[doc(hidden)]
pub use tiers::Tiers;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Kind of a file's content. The kind is part of the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// The log of version edits.
    Manifest,
    /// A segment of the write-ahead log.
    Log,
    /// A sorted table.
    Table,
    /// The identity of a tier: which tier of which database a store is.
    Tier,
}

impl FileKind {
    /// Every kind, for listings.
    pub const ALL: [FileKind; 4] = [FileKind::Manifest, FileKind::Log, FileKind::Table, FileKind::Tier];

    /// The ending of the file's name.
    pub fn extension(self) -> &'static str {
        match self {
            FileKind::Manifest => "manifest",
            FileKind::Log => "log",
            FileKind::Table => "sst",
            FileKind::Tier => "tier",
        }
    }
}

/// Names one file of a store. Numbers are never used twice within one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Kind of the content.
    pub kind: FileKind,
    /// Number, unique among files of all kinds of one database.
    pub number: u64,
}

impl FileId {
    /// A manifest.
    pub fn manifest(number: u64) -> Self {
        FileId { kind: FileKind::Manifest, number }
    }

    /// A log segment.
    pub fn log(number: u64) -> Self {
        FileId { kind: FileKind::Log, number }
    }

    /// A table.
    pub fn table(number: u64) -> Self {
        FileId { kind: FileKind::Table, number }
    }

    /// The identity of a tier.
    pub fn tier(number: u64) -> Self {
        FileId { kind: FileKind::Tier, number }
    }

    /// Parses a name such as `000012.sst`; `None` for names of other files.
    pub fn parse(name: &str) -> Option<Self> {
        let (number, extension) = name.split_once('.')?;
        let kind = FileKind::ALL.into_iter().find(|k| k.extension() == extension)?;
        if number.len() < 6 || !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let id = FileId { kind, number: number.parse().ok()? };
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}.{}", self.number, self.kind.extension())
    }
}

/// A lock that is held while a database is open. Dropping it lets another process open the store.
pub trait StoreLock: Send + Sync + fmt::Debug {}

/// Way in which [`Store::share`] put a file into another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// Both names lead to the same bytes; nothing was written.
    Linked,
    /// The bytes were written again.
    Copied(u64),
}

/// A place that keeps files.
pub trait Store: Send + Sync + fmt::Debug {
    /// Creates an empty file, which must not exist. The hint travels with it to the medium.
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>>;

    /// Opens a file for positioned reads. Bytes appended so far are readable, synced or not.
    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>>;

    /// Removes a file's name; open readers keep working.
    fn delete(&self, id: FileId) -> Result<()>;

    /// Every file with its length in bytes, in no particular order.
    fn list(&self) -> Result<Vec<(FileId, u64)>>;

    /// Makes all creations and deletions so far durable. After a failed call all later ones may fail until the store is opened anew,
    /// because the medium may have dropped names.
    fn sync_names(&self) -> Result<()>;

    /// Bytes that can still be written; `None`: the medium does not know.
    fn free_bytes(&self) -> Result<Option<u64>>;

    /// Locks the store for one database; [`StoreError::is_locked`] if it is locked already.
    fn lock(&self) -> Result<Box<dyn StoreLock>>;

    /// The directory behind this store, if there is one.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Figures of the medium below the files, if the store lies on a zoned drive.
    fn beneath(&self) -> Option<Beneath> {
        None
    }

    /// The unit in which the medium frees space, bytes, if a unit holds several tables: on a zoned drive, the capacity of a zone. 0: the
    /// medium frees each table by itself. Compactions of neighbouring tables leave fewer live tables in a unit, which the medium would have
    /// to move.
    fn unit(&self) -> u64 {
        0
    }

    /// Checks that the store still exists. A directory that is removed while it is open accepts files and syncs, but the files are lost.
    fn check_there(&self) -> Result<()> {
        Ok(())
    }

    /// Makes a file durable that has no appender. False if the store cannot do that.
    fn sync_file(&self, _id: FileId) -> Result<bool> {
        Ok(false)
    }

    /// On a medium that frees space in units ([`Store::unit`]): bytes that are not free because a log or a manifest lies in their unit,
    /// these files included.
    fn pinned_bytes(&self) -> u64 {
        0
    }

    /// Puts an immutable file into `target` under the same name: by a link if both stores can do that, otherwise by copying. A copy is
    /// synced; the name is durable after `target.sync_names()`.
    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        copy(id, &*self.open(id)?, target, hint)
    }
}

/// Copies the bytes of `source` to `target`. Deletes a failed copy if possible, because a half-written table must not be in the way of a
/// later checkpoint.
fn copy(id: FileId, source: &dyn ReadAt, target: &dyn Store, hint: &Hint) -> Result<Shared> {
    let mut out = target.create(id, hint)?;
    let mut fill = || {
        let mut buffer = vec![0u8; 1 << 20];
        let mut offset = 0;
        while offset < source.len() {
            let n = buffer.len().min(usize::try_from(source.len() - offset).unwrap_or(buffer.len()));
            source.read_at(offset, &mut buffer[..n])?;
            out.append(&buffer[..n])?;
            offset += n as u64;
        }
        Ok(offset)
    };
    let copied = fill().and_then(|bytes| out.seal().map(|()| bytes));
    if copied.is_err() {
        // The first error is the one worth reporting; the leftover is an orphan that the next open of the target removes.
        let _ = target.delete(id);
    }
    copied.map(Shared::Copied)
}

/// Most bytes that an appender may hold back in memory: after a failed append, all earlier bytes but these can be read.
pub const HELD_BACK: usize = 1 << 20;

/// See [`Appender::sync_beside`].
pub type SyncBeside = Box<dyn FnOnce() -> Result<()> + Send>;

/// The one writer of a file.
pub trait Appender: Send {
    /// Adds bytes at the end. In the kernel (or the medium) when it returns, not yet durable.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes everything appended so far durable.
    fn sync(&mut self) -> Result<()>;

    /// A sync of all bytes appended so far that can run while more are appended; `None` if the store cannot do that. The caller makes sure
    /// that no other sync of the file runs at the same time, because the kernel reports a failure only once, and the other sync could get
    /// it. After a failure the appender must not be used.
    fn sync_beside(&self) -> Option<SyncBeside> {
        None
    }

    /// Bytes appended so far.
    fn len(&self) -> u64;

    /// True before the first append.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes everything durable and ends writing: the file is immutable from here on.
    fn seal(self: Box<Self>) -> Result<()>;

    /// Ends writing without making anything durable, and frees space that was written ahead. Synced bytes stay durable whatever the result.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Positioned reads of one file; any number of threads at once.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// Fills `buffer` from `offset`; a file that ends earlier is an error (`UnexpectedEof`), with file and
    /// offset.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Length in bytes when opened (or, for a file still appended to, now).
    fn len(&self) -> u64;

    /// True for an empty file.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prefetches a range that will be read soon. A hint: failures are not reported.
    fn will_need(&self, _offset: u64, _length: u64) {}

    /// A reader of the same file that bypasses the page cache, to measure reads of the medium. `None`: the store has no such reader.
    fn past_cache(&self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Returns whether the reader holds a file descriptor of the process. A database closes such files and opens them again, so that it has
    /// at most `max_open_files` of them open.
    fn holds_descriptor(&self) -> bool {
        false
    }
}
