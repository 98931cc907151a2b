//! A file that one holder has at a time, in this process or another.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;

/// An open file with its flock, which is given back when this is dropped. Not by closing alone: a child process that another thread has
/// just forked shares the open file until it runs its program, and would keep the lock for so long.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Locked {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: somebody has it.
    pub fn take(file: File) -> io::Result<Locked> {
        match file.try_lock() {
            Ok(()) => Ok(Locked(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is what is left.
        let _ = self.0.unlock();
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
}
