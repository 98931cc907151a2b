//! A bounded number of file descriptors for any number of readers.
//!
//! [`BoundedStore`] returns readers whose file may be closed between reads; the next read opens it again. All stores of a database share
//! one [`OpenFiles`], a list of the open files. To close one, a CLOCK hand goes round the list, skips files that were read since the hand
//! last came by, and closes the first other one. A read of an open file takes no lock and writes no shared memory.
//!
//! A deleted file stays readable, as [`Store::delete`] promises: before the name is deleted, a closed file is opened, and then it stays
//! open as long as its reader exists. If too many files are held open this way, the deletion fails with the error of a lack of descriptors,
//! and can be tried again.
//!
//! If a call finds no descriptor, because other parts of the process have them, files of the list are closed and the call is repeated.
//! Readers without a descriptor ([`ReadAt::holds_descriptor`]) are not on the list.

use super::{Appender, Beneath, FileId, Hint, ReadAt, Result, Shared, Store, StoreError, StoreLock, sys};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors that are left to other uses: a quarter of the process's limit, and at least this number.
const RESERVE: u64 = 32;
/// Least number of files that stay open, however few descriptors there are.
const LEAST: u64 = 8;

/// Number of files that may stay open if the process may have `soft` descriptors.
fn room(soft: u64) -> u64 {
    soft.saturating_sub(RESERVE.max(soft / 4)).max(LEAST)
}

type File = Arc<Arc<dyn ReadAt>>;

/// The files that are open, of all stores of a database.
pub struct OpenFiles {
    listed: Mutex<Listed>,
    next: AtomicU64,
}

struct Listed {
    /// Most files that may be open, deleted ones included.
    most: usize,
    /// Every reader, by store, file and number.
    readers: BTreeMap<(u64, FileId, u64), Arc<Slot>>,
    /// Readers whose file is open and may be closed, by number.
    open: BTreeMap<u64, Arc<Slot>>,
    /// Number of files that are being opened.
    opening: usize,
    /// Number of files that stay open because they are deleted or about to be.
    kept: usize,
    /// Position of the CLOCK hand: the number of a reader in `open`.
    hand: u64,
}

/// One reader's file.
struct Slot {
    number: u64,
    id: FileId,
    file: ArcSwapOption<Arc<dyn ReadAt>>,
    /// The file was read since the hand came by.
    touched: AtomicBool,
    /// Locked while a thread opens the file.
    turn: Mutex<()>,
    /// The file stays open, because its name is deleted or about to be.
    kept: AtomicBool,
}

impl OpenFiles {
    /// Makes a list that keeps as many files open as the process's soft limit allows.
    pub fn new() -> Arc<Self> {
        let listed = Listed { most: 0, readers: BTreeMap::new(), open: BTreeMap::new(), opening: 0, kept: 0, hand: 0 };
        let files = OpenFiles { listed: Mutex::new(listed), next: AtomicU64::new(0) };
        files.set_most(0);
        Arc::new(files)
    }

    /// Sets the number of files that may stay open, at most what the process's present soft limit allows; 0: exactly that.
    pub fn set_most(&self, most: u64) {
        let room = sys::descriptor_limit().map_or(u64::MAX, room);
        let most = if most > 0 { most.min(room) } else { room };
        self.listed.lock().most = usize::try_from(most).unwrap_or(usize::MAX);
    }

    /// Largest number of files that stay open.
    pub fn most(&self) -> usize {
        self.listed.lock().most
    }

    /// Number of open files.
    pub fn open(&self) -> usize {
        let listed = self.listed.lock();
        listed.open.len() + listed.opening + listed.kept
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a call. If the call finds no descriptor, closes a file of the list and repeats the call, until the list is empty.
    fn with_descriptors<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match call() {
                Err(error) if error.is_no_descriptors() => {
                    let closed = self.listed.lock().close_one();
                    if closed.is_none() {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Opens a file for the list; closes others first if there are too many.
    fn open_one(&self, open: impl FnMut() -> Result<Arc<dyn ReadAt>>) -> Result<Arc<dyn ReadAt>> {
        let closed = self.listed.lock().make_room();
        drop(closed);
        let opened = self.with_descriptors(open);
        self.listed.lock().opening -= 1;
        opened
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFiles({} of {})", self.open(), self.most())
    }
}

impl Listed {
    /// Counts a file that is about to be opened, and removes files beyond the limit from the list. The caller drops, and so closes, the
    /// returned files without the lock.
    fn make_room(&mut self) -> Vec<File> {
        self.opening += 1;
        let mut closed = Vec::new();
        while self.open.len() + self.opening + self.kept > self.most
            && let Some(file) = self.close_one()
        {
            closed.push(file);
        }
        closed
    }

    /// Removes from the list the first file that was not read since the hand came by.
    fn close_one(&mut self) -> Option<File> {
        // After one round only files that are being read right now are still touched.
        for _ in 0..=2 * self.open.len() {
            let behind = self.open.range((Bound::Excluded(self.hand), Bound::Unbounded)).next();
            let (number, slot) = behind.or_else(|| self.open.iter().next())?;
            self.hand = *number;
            if !slot.touched.swap(false, Ordering::Relaxed) {
                break;
            }
        }
        self.open.remove(&self.hand)?.file.swap(None)
    }
}

impl Slot {
    #[inline]
    fn touch(&self) {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }
}

/// A store whose readers have a bounded number of descriptors.
pub struct BoundedStore {
    below: Arc<dyn Store>,
    files: Arc<OpenFiles>,
    number: u64,
    beside_writer: bool,
}

impl BoundedStore {
    /// `beside_writer`: another process may delete files, so a file that is missing when it is opened again is not damage.
    pub fn new(below: Arc<dyn Store>, files: Arc<OpenFiles>, beside_writer: bool) -> Self {
        BoundedStore { below, number: files.number(), files, beside_writer }
    }

    /// Makes a reader's file stay open as long as the reader exists; opens it if it is closed.
    fn keep_open(&self, slot: &Slot) -> Result<()> {
        let _turn = slot.turn.lock();
        if slot.kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        {
            let mut listed = self.files.listed.lock();
            // The reader has been dropped since it was looked up, so nothing would subtract the file from `kept` again.
            if !listed.readers.contains_key(&(self.number, slot.id, slot.number)) {
                return Ok(());
            }
            // Half of the list is left to files that have a name.
            if listed.kept >= (listed.most / 2).max(1) {
                return Err(StoreError::file("delete", slot.id, sys::no_descriptors()));
            }
            listed.kept += 1;
            listed.open.remove(&slot.number);
            slot.kept.store(true, Ordering::Relaxed);
        }
        if slot.file.load().is_some() {
            return Ok(());
        }
        match self.files.open_one(|| self.below.open(slot.id)) {
            Ok(file) => {
                slot.file.store(Some(Arc::new(file)));
                Ok(())
            }
            // The file cannot be opened: it is missing already, or the deletion fails.
            Err(error) => {
                let mut listed = self.files.listed.lock();
                // A reader that was dropped meanwhile has already subtracted the file from `kept`.
                if listed.readers.contains_key(&(self.number, slot.id, slot.number)) {
                    listed.kept -= 1;
                    slot.kept.store(false, Ordering::Relaxed);
                }
                drop(listed);
                if error.is_not_found() { Ok(()) } else { Err(error) }
            }
        }
    }
}

impl fmt::Debug for BoundedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedStore").field("below", &self.below).field("files", &self.files).finish_non_exhaustive()
    }
}

impl Store for BoundedStore {
    fn create(&self, id: FileId, hint: &Hint) -> Result<Box<dyn Appender>> {
        self.files.with_descriptors(|| self.below.create(id, hint))
    }

    fn open(&self, id: FileId) -> Result<Arc<dyn ReadAt>> {
        let file = self.files.open_one(|| self.below.open(id))?;
        if !file.holds_descriptor() {
            return Ok(file);
        }
        let number = self.files.number();
        let slot = Arc::new(Slot {
            number,
            id,
            touched: AtomicBool::new(true),
            turn: Mutex::new(()),
            kept: AtomicBool::new(false),
            file: ArcSwapOption::empty(),
        });
        let len = file.len();
        slot.file.store(Some(Arc::new(file)));
        let mut listed = self.files.listed.lock();
        listed.readers.insert((self.number, id, number), slot.clone());
        listed.open.insert(number, slot.clone());
        drop(listed);
        let (files, below) = (self.files.clone(), self.below.clone());
        Ok(Arc::new(Reader { slot, files, below, store: self.number, len, beside_writer: self.beside_writer }))
    }

    fn delete(&self, id: FileId) -> Result<()> {
        let of_file = (self.number, id, 0)..=(self.number, id, u64::MAX);
        let readers: Vec<Arc<Slot>> = self.files.listed.lock().readers.range(of_file).map(|(_, slot)| slot.clone()).collect();
        readers.iter().try_for_each(|slot| self.keep_open(slot))?;
        self.below.delete(id)
    }

    fn list(&self) -> Result<Vec<(FileId, u64)>> {
        self.files.with_descriptors(|| self.below.list())
    }

    fn sync_names(&self) -> Result<()> {
        self.below.sync_names()
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.below.free_bytes()
    }

    fn lock(&self) -> Result<Box<dyn StoreLock>> {
        self.files.with_descriptors(|| self.below.lock())
    }

    fn directory(&self) -> Option<&Path> {
        self.below.directory()
    }

    fn beneath(&self) -> Option<Beneath> {
        self.below.beneath()
    }

    fn unit(&self) -> u64 {
        self.below.unit()
    }

    fn check_there(&self) -> Result<()> {
        self.below.check_there()
    }

    fn sync_file(&self, id: FileId) -> Result<bool> {
        self.files.with_descriptors(|| self.below.sync_file(id))
    }

    fn pinned_bytes(&self) -> u64 {
        self.below.pinned_bytes()
    }

    fn share(&self, id: FileId, target: &dyn Store, hint: &Hint) -> Result<Shared> {
        self.files.with_descriptors(|| self.below.share(id, target, hint))
    }
}

/// A reader whose file may be closed.
struct Reader {
    slot: Arc<Slot>,
    files: Arc<OpenFiles>,
    below: Arc<dyn Store>,
    /// The store's number.
    store: u64,
    /// Length when the file was opened, bytes.
    len: u64,
    beside_writer: bool,
}

impl Reader {
    /// Opens the file again, unless another thread has done so.
    #[cold]
    fn reopen(&self) -> Result<File> {
        let _turn = self.slot.turn.lock();
        if let Some(file) = self.slot.file.load_full() {
            return Ok(file);
        }
        let file = Arc::new(self.files.open_one(|| self.below.open(self.slot.id)).map_err(|error| self.lost(error))?);
        self.slot.file.store(Some(file.clone()));
        self.slot.touch();
        self.files.listed.lock().open.insert(self.slot.number, self.slot.clone());
        Ok(file)
    }

    /// Converts the error of a file that cannot be opened again.
    fn lost(&self, error: StoreError) -> StoreError {
        let source = match error.is_not_found() {
            true if self.beside_writer => io::Error::new(io::ErrorKind::ResourceBusy, "a writer has deleted it: open the database again"),
            true => io::Error::new(io::ErrorKind::InvalidData, "the file is missing"),
            false => error.source,
        };
        StoreError::read(self.slot.id, 0, source)
    }

    /// Calls `read` with the open file.
    #[inline]
    fn with<T>(&self, read: impl FnOnce(&dyn ReadAt) -> T) -> Result<T> {
        let guard = self.slot.file.load();
        if let Some(file) = &*guard {
            self.slot.touch();
            return Ok(read(&***file));
        }
        drop(guard);
        Ok(read(&**self.reopen()?))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.slot.id)
    }
}

impl ReadAt for Reader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.with(|file| file.read_at(offset, buffer))?
    }

    /// Length of the file; of a closed file the last known one, because only open files grow.
    fn len(&self) -> u64 {
        self.slot.file.load().as_ref().map_or(self.len, |file| file.len())
    }

    fn will_need(&self, offset: u64, length: u64) {
        let _ = self.with(|file| file.will_need(offset, length));
    }

    fn past_cache(&self) -> Option<Box<dyn ReadAt>> {
        self.with(|file| file.past_cache()).ok()?
    }

    fn holds_descriptor(&self) -> bool {
        true
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Slot { number, id, kept, .. } = &*self.slot;
        let mut listed = self.files.listed.lock();
        listed.readers.remove(&(self.store, *id, *number));
        listed.open.remove(number);
        listed.kept -= usize::from(kept.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
