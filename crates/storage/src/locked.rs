//! A file that one holder has at a time, in this process or another.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;

/// An open file with its flock, which is given back when this is dropped. Not by closing alone: a child process that another thread has
/// just forked shares the open file until it runs its program, and would keep the lock for so long. A child that drops its copy gives
/// nothing back: the lock is its parent's.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
    /// The process that took the lock.
    process: u32,
}

impl Locked {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: somebody has it.
    pub fn take(file: File) -> io::Result<Locked> {
        match file.try_lock() {
            Ok(()) => Ok(Locked { file, process: std::process::id() }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Closing is what is left.
            let _ = self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_shares_the_open_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = File::create(&path).unwrap();
        // As a child process has it between fork and exec.
        let _shared = file.try_clone().unwrap();
        let locked = Locked::take(file).unwrap();
        let other = || Locked::take(File::open(&path).unwrap());
        assert_eq!(other().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(locked);
        other().unwrap();
    }

    #[test]
    fn a_forked_child_keeps_the_lock_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = File::create(&path).unwrap();
        let shared = file.try_clone().unwrap();
        let locked = Locked::take(file).unwrap();
        drop(Locked { file: shared, process: locked.process ^ 1 });
        let other = || Locked::take(File::open(&path).unwrap());
        assert_eq!(other().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(locked);
        other().unwrap();
    }
}
