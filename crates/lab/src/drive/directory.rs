//! Directories that a run creates and removes.

use crate::system::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Prefix of the directories of runs; the process id and a number follow.
pub(super) const PREFIX: &str = "sinter-run-";

/// A directory of the run's own, removed with everything in it.
pub(super) struct Directory {
    pub path: PathBuf,
}

impl Directory {
    /// Creates a directory below `parent`. `field`: path of `parent` in the spec, for complaints.
    pub fn below(field: &str, parent: &Path) -> Outcome<Self> {
        let wrong = |error: io::Error| Failure::from(format!("{field}.directory: {}: {error}", parent.display()));
        let process = std::process::id();
        for number in 0.. {
            let path = parent.join(format!("{PREFIX}{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Directory { path }),
                // A killed process of the same number made it, or another run of this one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        Err(Failure::from("no name is free"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The record is worth more than the complaint.
        let _ = fs::remove_dir_all(&self.path);
    }
}
