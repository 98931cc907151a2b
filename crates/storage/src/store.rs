//! The seam between the engine and its media: files that are created with a placement hint, appended to,
//! synced, sealed and then only read or deleted.
//!
//! Durability contract, which every implementation keeps and the crashable memory store enforces in tests:
//! * bytes are durable only after [`Appender::sync`] (or [`Appender::seal`]) returned `Ok`;
//! * a name (a creation or a deletion) is durable only after [`Store::sync_names`] returned `Ok`;
//! * after a failed append the file ends in an unknown part of it; no more can be appended, but what was there before can still be synced
//!   (appenders that hold bytes back may refuse that as well);
//! * a log that was not sealed may end in zeros that nobody appended: space that was written ahead;
//! * after a failed sync nothing may be assumed about the bytes since the last good one, and the
//!   appender refuses further use.

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
    /// Says which tier of which database a store is.
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

    /// Reads a name such as `000012.sst`; `None` for anything that is not ours.
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

/// Held for as long as a database is open; dropping it lets the next opener in.
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

    /// Makes all creations and deletions so far durable.
    fn sync_names(&self) -> Result<()>;

    /// Bytes that can still be written, where the medium knows.
    fn free_bytes(&self) -> Result<Option<u64>>;

    /// Takes the store for one process; [`StoreError::is_locked`] if someone else has it.
    fn lock(&self) -> Result<Box<dyn StoreLock>>;

    /// The directory behind this store, if there is one.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Figures below the files, if the store lies on a zoned drive.
    fn beneath(&self) -> Option<Beneath> {
        None
    }

    /// Bytes that the medium frees only together, and that hold several tables: on a zoned drive, those of a zone. 0: it frees tables one
    /// by one. A compaction that takes neighbouring tables spares the medium the moving of the tables left in such a unit.
    fn unit(&self) -> u64 {
        0
    }

    /// The place of the store still exists. A directory that was removed while it is open takes files and syncs that nobody finds again.
    fn check_there(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the bytes of a file durable that nobody writes; false where the store has no way to.
    fn sync_file(&self, _id: FileId) -> Result<bool> {
        Ok(false)
    }

    /// Bytes that are not free because logs and manifests lie among them, these included, on a medium that frees bytes only together
    /// ([`Store::unit`]).
    fn pinned_bytes(&self) -> u64 {
        0
    }

    /// Puts an immutable file into `target` under the same name: by link where both can, else by copying. The copy is
    /// synced; the name is durable after `target.sync_names()`.
    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        copy(id, &*self.open(id)?, target, hint)
    }
}

/// Writes the bytes of `source` into `target` again. Removes a failed copy as far as the medium lets us: a half-written table must not be
/// found under a name that a later checkpoint wants.
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

/// After an append failed, all that was appended before can be read but for this many bytes at most, which the appender may hold back.
pub const HELD_BACK: usize = 1 << 20;

/// See [`Appender::sync_beside`].
pub type SyncBeside = Box<dyn FnOnce() -> Result<()> + Send>;

/// The one writer of a file.
pub trait Appender: Send {
    /// Adds bytes at the end. In the kernel (or the medium) when it returns, not yet durable.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes everything appended so far durable.
    fn sync(&mut self) -> Result<()>;

    /// A sync of what has been appended by now, to be run while more is appended; none where the medium cannot do that. The caller sees to
    /// it that no other sync of the file runs at the same time: the kernel tells a failure once, and it must not be the other one that
    /// hears it. After a failure the appender must not be used.
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

    /// Ends writing without making anything durable, and gives back space that was taken ahead of the bytes appended. What was synced stays
    /// durable, whatever the outcome.
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

    /// Tells the medium that this range will be read soon. A hint: failures are not reported.
    fn will_need(&self, _offset: u64, _length: u64) {}

    /// A reader of the same file past the page cache, to measure the cost of reads of the medium. `None`: this store has no such way.
    fn past_cache(&self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// The reader takes one of the descriptors of the process as long as it lives. A database closes such files and opens them again, so
    /// that it has no more than `max_open_files` of them.
    fn holds_descriptor(&self) -> bool {
        false
    }
}
