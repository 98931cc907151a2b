//! Files that are written at one end by the server's thread, and synced and replaced by others.

use crate::keyspace::Beside;
use parking_lot::{Mutex, MutexGuard};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// A file of commands that is being written.
#[derive(Debug)]
pub(super) struct Increment {
    pub file: Arc<File>,
    pub bytes: u64,
}

impl Increment {
    /// Creates an increment.
    pub fn create(path: &Path) -> io::Result<Increment> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Increment { file: Arc::new(file), bytes: 0 })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self.file).write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// State of the log's files, shared by the network's thread, the sync thread and the thread that writes a base.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The last file that the manifest lists.
    pub current: Option<Arc<File>>,
    /// The increment of a base that is being written.
    pub next: Option<Arc<File>>,
    /// The manifest may soon list `next`, so a commit counts as durable only if both files have it.
    pub counts_next: bool,
    /// The manifest lists `next`, or will at any moment.
    pub is_swapped: bool,
    /// The manifest must never list `next`.
    pub is_abandoned: bool,
    /// Why `next` lacks something although the manifest lists it; becomes `failure` when `next` becomes the current file.
    pub next_failure: Option<String>,
    /// Why the current file lacks something, or why it is not known what of it is durable.
    pub failure: Option<String>,
    /// The commit up to which everything was written.
    pub written: u64,
}

impl Files {
    /// The sync of `file`, which was `next` when the sync began, has failed.
    ///
    /// # Errors
    /// The log needs the file by now.
    fn next_failed(&mut self, file: &Arc<File>, why: String) -> Result<(), String> {
        let is = |known: &Option<Arc<File>>| known.as_ref().is_some_and(|known| Arc::ptr_eq(known, file));
        if is(&self.next) {
            if !self.is_swapped {
                self.is_abandoned = true;
                return Ok(());
            }
            self.next_failure = Some(why.clone());
        } else if !is(&self.current) {
            // The file was given up, or it is a current one that failed.
            return self.failure.clone().map_or(Ok(()), Err);
        }
        Err(self.failure.get_or_insert(why).clone())
    }
}

/// The [`Files`] that the threads share, behind a lock.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Files>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock()
    }
}

impl Beside for Shared {
    fn sync(&self) -> Result<u64, String> {
        let (current, next, written) = {
            let files = self.lock();
            if let Some(failure) = &files.failure {
                return Err(failure.clone());
            }
            if files.current.is_none() && files.next.is_none() {
                return Ok(u64::MAX);
            }
            (files.current.clone(), files.next.clone().filter(|_| files.counts_next), files.written)
        };
        if let Some(current) = current {
            current.sync_data().map_err(|error| self.lock().failure.get_or_insert(error.to_string()).clone())?;
        }
        if let Some(next) = next
            && let Err(error) = next.sync_data()
        {
            self.lock().next_failed(&next, error.to_string())?;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, path) = (Shared::default(), folder.path().join("a"));
        let mut increment = Increment::create(&path).unwrap();
        assert!(Increment::create(&path).is_err(), "no file is written over");
        increment.write(b"abc").unwrap();
        assert_eq!((increment.bytes, std::fs::read(&path).unwrap().as_slice()), (3, &b"abc"[..]));
        shared.lock().written = 7;
        assert_eq!(shared.sync(), Ok(u64::MAX), "there is no log");
        shared.lock().next = Some(increment.file.clone());
        assert_eq!(shared.sync(), Ok(7));
        shared.lock().counts_next = true;
        assert_eq!(shared.sync(), Ok(7));
        shared.lock().current = Some(increment.file);
        shared.lock().failure = Some("no room".into());
        assert_eq!(shared.sync(), Err("no room".into()));
    }

    /// A file that cannot be synced.
    fn lost() -> Arc<File> {
        Arc::new(OpenOptions::new().append(true).open("/dev/full").unwrap())
    }

    #[test]
    fn the_next_file_counts_when_it_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, current) = (Shared::default(), Increment::create(&folder.path().join("a")).unwrap());
        *shared.lock() = Files { current: Some(current.file), next: Some(lost()), counts_next: true, written: 7, ..Files::default() };
        assert_eq!(shared.sync(), Ok(7), "the manifest does not list it");
        assert!(std::mem::replace(&mut shared.lock().is_abandoned, false));
        shared.lock().is_swapped = true;
        let why = shared.sync().unwrap_err();
        let files = shared.lock();
        assert_eq!((&files.next_failure, &files.failure, files.is_abandoned), (&Some(why.clone()), &Some(why), false));
    }

    #[test]
    fn the_next_file_may_be_current_when_its_sync_fails() {
        let file = lost();
        let mut files = Files { current: Some(file.clone()), ..Files::default() };
        assert_eq!(files.next_failed(&file, "lost".into()), Err("lost".into()));
        assert_eq!((files.failure.as_deref(), files.is_abandoned), (Some("lost"), false));
        // One that was given up meanwhile says nothing of the base that is being written by then.
        let mut files = Files { current: Some(lost()), next: Some(lost()), ..Files::default() };
        assert_eq!(files.next_failed(&file, "lost".into()), Ok(()));
        assert_eq!((files.failure, files.is_abandoned), (None, false));
    }
}
