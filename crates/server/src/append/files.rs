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
    /// A new one.
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

/// What the threads know of each other.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// What the manifest lists as the last file.
    pub current: Option<Arc<File>>,
    /// What belongs to a base that is being written.
    pub next: Option<Arc<File>>,
    /// The manifest may list that one soon, so what counts as durable has to be so in both.
    pub counts_next: bool,
    /// The manifest lists it.
    pub is_swapped: bool,
    /// The manifest must not list it.
    pub is_abandoned: bool,
    /// It is not known what of the current file is durable, or it lacks something.
    pub failure: Option<String>,
    /// The commit up to which everything was written.
    pub written: u64,
}

/// The same, for all threads.
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
        if let Some(error) = next.and_then(|next| next.sync_data().err()) {
            let mut files = self.lock();
            if files.is_swapped {
                return Err(files.failure.get_or_insert(error.to_string()).clone());
            }
            files.is_abandoned = true;
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
}
