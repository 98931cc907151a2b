//! A plain Linux directory. Files carry the names of their [`FileId`]s, `LOCK` is taken with flock, and everything else in the
//! directory is left alone.

mod appender;
mod mapped;
mod window;

use super::{Appender, Cause, FileId, FileKind, Hint, ReadAt, Result, Shared, Store, StoreError, StoreLock, sys};
use crate::combined_sync::CombinedSync;
use crate::locked::Locked;
use appender::{ALIGN, DirAppender, DirectFile};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Position of one directory relative to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Both are one directory.
    Same,
    /// The first lies somewhere below the second.
    Inside,
    /// The second lies somewhere below the first.
    Around,
    /// None of these.
    Apart,
}

/// The position of directory `a` relative to directory `b`; both exist. Symbolic links and bind mounts are seen through.
pub fn relation(a: &Path, b: &Path) -> io::Result<Relation> {
    let identity = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino()));
    let (one, other) = (identity(a)?, identity(b)?);
    if one == other {
        return Ok(Relation::Same);
    }
    let above = |path: &Path, wanted| -> io::Result<bool> {
        for ancestor in fs::canonicalize(path)?.ancestors().skip(1) {
            if identity(ancestor)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    };
    Ok(match (above(a, other)?, above(b, one)?) {
        (true, _) => Relation::Inside,
        (_, true) => Relation::Around,
        _ => Relation::Apart,
    })
}

/// The file that stands for the whole store in [`Store::lock`].
const LOCK: &str = "LOCK";

/// A store in one directory of a Linux file system.
///
/// * Appends are not buffered in the process: when one returns, the bytes survive the death of the process. The exception are tables
///   with [`Hint::direct`], which bypass the page cache in aligned pieces of 1 MiB; logs and manifests ignore `direct`, because an append
///   of theirs acknowledges a write.
/// * The write-ahead log is written by memory map on file systems that overwrite blocks in place (ext4, XFS, tmpfs). Such a log is up to
///   256 KiB longer than the bytes appended, until it is sealed or closed; the rest is zeros.
/// * Writing tables back from the page cache to the medium starts every [`Hint::writeback_bytes`], so that the final fdatasync has little
///   left to do.
/// * The write-life hint is passed on with `F_SET_RW_HINT`. After the kernel refused one, no further hints are passed on
///   ([`DirStore::takes_lifetimes`]).
#[derive(Debug)]
pub struct DirStore {
    path: PathBuf,
    /// The directory itself.
    handle: File,
    /// The path through which files are reached. It goes by the open handle, so that changes of mounts do not change which files are read
    /// and written.
    held: PathBuf,
    /// Syncs of the names.
    names: CombinedSync,
    /// The file system overwrites blocks in place, so that logs can be mapped.
    keeps_space: bool,
    /// Open direct writers. They hold back an unaligned tail, which `open` makes them write.
    direct: Mutex<HashMap<FileId, Weak<Mutex<DirectFile>>>>,
    /// Whether the kernel accepted the last write-life hint; `None` before the first.
    lifetimes: Mutex<Option<bool>>,
}

impl DirStore {
    /// Opens the directory at `path`. With `create`, missing directories are made and their names made durable; without, a missing
    /// directory is an error ([`StoreError::is_not_found`]), as is a path that is not a directory.
    pub fn open(path: impl AsRef<Path>, create: bool) -> Result<Self> {
        let path = path.as_ref();
        let explain = |e| unopened(path, e);
        if create {
            create_durably(path).map_err(explain)?;
        }
        let handle = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path).map_err(explain)?;
        let held = Some(sys::path_of(&handle)).filter(|held| held.exists()).unwrap_or_else(|| path.to_owned());
        let keeps_space = sys::keeps_space(&handle);
        let (path, names, direct, lifetimes) = (path.to_owned(), CombinedSync::default(), Mutex::default(), Mutex::default());
        Ok(DirStore { path, handle, held, names, keeps_space, direct, lifetimes })
    }

    /// Whether the kernel accepts write-life hints; `None`: no hint was passed on yet.
    pub fn takes_lifetimes(&self) -> Option<bool> {
        *self.lifetimes.lock()
    }

    fn set_lifetime(&self, file: &File, hint: &Hint) {
        let mut taken = self.lifetimes.lock();
        if *taken != Some(false) {
            *taken = sys::set_lifetime(file, hint.lifetime).or(*taken);
        }
    }

    fn place(&self, id: FileId) -> PathBuf {
        self.held.join(id.to_string())
    }

    /// A second descriptor past the page cache, or `None` where the file system refuses (tmpfs before Linux 6.6: EINVAL). The file is
    /// created without `O_DIRECT` first, since a refusing open with `O_CREAT` leaves the file behind.
    fn reopen_direct(&self, id: FileId) -> Option<File> {
        OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(self.place(id)).ok()
    }
}

/// The reason why the directory at `path` was not opened, with the path in it.
fn unopened(path: &Path, e: io::Error) -> StoreError {
    if path.is_file() {
        let what = format!("{} is a file, not a database directory", path.display());
        return StoreError::store("open directory", io::Error::new(io::ErrorKind::NotADirectory, what));
    }
    StoreError::store("open directory", e).named(path.display())
}

/// `create_dir_all`, then fsync of every directory that got a new name in it. The parent is synced even if `path` was there: its creator
/// may have died before syncing.
fn create_durably(path: &Path) -> io::Result<()> {
    let parent = |p: &Path| match p.parent() {
        Some(up) if up.as_os_str().is_empty() => Some(PathBuf::from(".")),
        up => up.map(Path::to_owned),
    };
    let mut to_sync = Vec::new();
    let mut at = path.to_owned();
    while let Some(up) = parent(&at) {
        let there = up.exists();
        to_sync.push(up.clone());
        if there {
            break;
        }
        at = up;
    }
    let existed = path.exists();
    fs::create_dir_all(path)?;
    for directory in to_sync {
        match File::open(&directory).and_then(|d| d.sync_all()) {
            // The parent of an existing directory may be unreadable; then somebody else made the directory, and its name durable.
            Err(e) if existed && e.kind() == io::ErrorKind::PermissionDenied => {}
            result => result?,
        }
    }
    Ok(())
}

impl Store for DirStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        let is_mapped = self.keeps_space && id.kind == FileKind::Log && hint.cause == Cause::Wal;
        let mut options = OpenOptions::new();
        options.write(true).read(is_mapped).create_new(true);
        let file = options.open(self.place(id)).map_err(|e| StoreError::file("create", id, e))?;
        self.set_lifetime(&file, hint);
        if is_mapped {
            return Ok(Box::new(DirAppender::mapped(id, file)));
        }
        let table = id.kind == FileKind::Table;
        if hint.direct
            && table
            && let Some(file) = self.reopen_direct(id)
        {
            self.set_lifetime(&file, hint);
            let file = Arc::new(Mutex::new(DirectFile::new(file)));
            let mut direct = self.direct.lock();
            direct.retain(|_, writer| writer.strong_count() > 0);
            direct.insert(id, Arc::downgrade(&file));
            return Ok(Box::new(DirAppender::direct(id, file)));
        }
        Ok(Box::new(DirAppender::plain(id, file, if table { hint.writeback_bytes } else { 0 })))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        let fail = |e| StoreError::file("open", id, e);
        let writer = self.direct.lock().get(&id).and_then(Weak::upgrade);
        if let Some(writer) = writer {
            writer.lock().flush_tail().map_err(fail)?;
        }
        let file = File::open(self.place(id)).map_err(fail)?;
        let about = file.metadata().map_err(fail)?;
        if !about.is_file() {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        if id.kind == FileKind::Table {
            // Reads of two neighbouring blocks would start the kernel's read-ahead, which evicts useful pages from memory. Sequential
            // readers ask for read-ahead by `will_need`.
            sys::read_without_order(&file);
        }
        Ok(Arc::new(DirReader { id, file, opened_len: about.len() }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        fs::remove_file(self.place(id)).map_err(|e| StoreError::file("delete", id, e))
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        let fail = |e| StoreError::store("list", e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.held).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let Some(id) = entry.file_name().to_str().and_then(FileId::parse) else { continue };
            match fs::metadata(entry.path()) {
                Ok(about) if about.is_file() => files.push((id, about.len())),
                Ok(_) => {}
                // Deleted since the directory was read.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::file("list", id, e)),
            }
        }
        Ok(files)
    }

    fn sync_names(&self) -> Result<()> {
        let fail = |e| StoreError::store("sync names", e);
        let earlier = || fail(io::Error::other("an earlier sync of the names failed; open the directory again"));
        self.names.sync(earlier, || self.handle.sync_all().map_err(fail))
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        sys::free_bytes(&self.handle).map(Some).map_err(|e| StoreError::store("free bytes", e))
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        let fail = |e| StoreError::store("lock", e);
        let path = self.held.join(LOCK);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fail)?;
        Ok(Box::new(Locked::take(file).map_err(fail)?))
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
    }

    /// Checks that the directory still has a link: a removed one has none, a renamed one has.
    fn check_there(&self) -> Result<()> {
        let fail = |e| StoreError::store("find the directory", e);
        if self.handle.metadata().map_err(fail)?.nlink() > 0 {
            return Ok(());
        }
        let what = format!("{} was removed while it is open", self.path.display());
        Err(fail(io::Error::new(io::ErrorKind::NotFound, what)))
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        File::open(self.place(id)).and_then(|file| file.sync_all()).map_err(|e| StoreError::file("sync", id, e))?;
        Ok(true)
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        // A log may still be appended to, and a second name would show later bytes as well.
        if let Some(directory) = target.directory().filter(|_| id.kind != FileKind::Log) {
            match fs::hard_link(self.place(id), directory.join(id.to_string())) {
                Ok(()) => return Ok(Shared::Linked),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::file("share", id, e)),
                // The target is another file system, or has no hard links. Any other error will occur again in the copy.
                Err(_) => {}
            }
        }
        super::copy(id, &*self.open(id)?, target, hint)
    }
}

impl StoreLock for Locked {}

#[derive(Debug)]
struct DirReader {
    id: FileId,
    file: File,
    opened_len: u64,
}

impl ReadAt for DirReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|e| StoreError::read(self.id, offset, e))
    }

    fn len(&self) -> u64 {
        // The file may still grow; the call does not fail for an open file on local file systems.
        sys::names_and_length(&self.file).map_or(self.opened_len, |(_, length)| length)
    }

    fn will_need(&self, offset: u64, length: u64) {
        sys::will_need(&self.file, offset, length);
    }

    fn holds_descriptor(&self) -> bool {
        true
    }

    fn past_cache(&self) -> Option<Box<dyn ReadAt>> {
        // Opens the same file even if its name was deleted or used again.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(sys::path_of(&self.file)).ok()?;
        Some(Box::new(DirectReader { id: self.id, file, len: self.len() }))
    }
}

/// Reads past the page cache.
#[derive(Debug)]
struct DirectReader {
    id: FileId,
    file: File,
    len: u64,
}

impl ReadAt for DirectReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // Offset, length and memory are whole blocks to the kernel; at the end of the file it reads less.
        let skip = (offset % ALIGN as u64) as usize;
        let whole = (skip + buffer.len()).next_multiple_of(ALIGN);
        let mut memory = vec![0; whole + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        let blocks = &mut memory[start..start + whole];
        let read = self.file.read_at(blocks, offset - skip as u64).map_err(|e| StoreError::read(self.id, offset, e))?;
        let found = blocks.get(skip..skip + buffer.len()).filter(|_| read >= skip + buffer.len());
        buffer.copy_from_slice(found.ok_or_else(|| StoreError::read(self.id, offset, io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Lifetime;

    /// The kernel reports a failed sync once; the next one would succeed although names may be lost.
    #[test]
    fn no_sync_of_names_succeeds_after_a_failed_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = DirStore::open(directory.path(), false).unwrap();
        store.sync_names().unwrap();
        // A file of procfs cannot be synced.
        let handle = std::mem::replace(&mut store.handle, File::open("/proc/self/status").unwrap());
        store.sync_names().unwrap_err();
        store.handle = handle;
        store.sync_names().unwrap_err();
        DirStore::open(directory.path(), false).unwrap().sync_names().unwrap();
    }

    #[test]
    fn a_directory_for_which_no_descriptor_is_left_says_so() {
        let error = unopened(Path::new("/data"), io::Error::from_raw_os_error(libc::EMFILE));
        assert!(error.is_no_descriptors(), "{error}");
        assert!(error.to_string().contains("/data: "), "{error}");
        assert!(!unopened(Path::new("/data"), io::Error::from_raw_os_error(libc::EACCES)).is_no_descriptors());
    }

    /// On the file system that is there: what the kernel says of a file afterwards is what it was told, or it took none and lost none.
    #[test]
    fn the_kernel_is_told_how_long_files_live() {
        let directory = tempfile::tempdir().unwrap();
        let store = DirStore::open(directory.path(), false).unwrap();
        let wanted = [(Lifetime::Unknown, 0), (Lifetime::Short, 2), (Lifetime::Medium, 3), (Lifetime::Long, 4), (Lifetime::Extreme, 5)];
        for (number, (lifetime, expected)) in (1..).zip(wanted) {
            let (id, hint) = (FileId::table(number), Hint { lifetime, ..Hint::new(Cause::Flush) });
            let mut file = store.create(id, &hint).unwrap();
            file.append(b"bytes").unwrap();
            file.seal().unwrap();
            let there = sys::lifetime(&File::open(store.place(id)).unwrap());
            match store.takes_lifetimes() {
                None => assert_eq!(lifetime, Lifetime::Unknown, "nothing was asked"),
                Some(true) => assert_eq!(there, Some(expected)),
                Some(false) => assert!(there.is_none_or(|told| told == 0)),
            }
            assert_eq!(store.list().unwrap().len() as u64, number);
        }
        assert!(store.takes_lifetimes().is_some());
    }
}
