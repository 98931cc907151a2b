//! Facts about a block device in `/sys`.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// The files in `/sys` that describe one block device; a partition has none of its own.
pub(super) struct Queue {
    folder: PathBuf,
}

impl Queue {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        if !about.file_type().is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
        }
        let (major, minor) = (libc::major(about.rdev()), libc::minor(about.rdev()));
        Ok(Queue { folder: PathBuf::from(format!("/sys/dev/block/{major}:{minor}/queue")) })
    }

    pub(super) fn text(&self, name: &str) -> io::Result<String> {
        let path = self.folder.join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Ok(text.trim().to_owned())
    }

    pub(super) fn number(&self, name: &str) -> io::Result<u64> {
        let text = self.text(name)?;
        text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("queue/{name} is {text:?}, not a number")))
    }

    /// 0 and a missing file mean no limit.
    pub(super) fn limit(&self, name: &str) -> io::Result<Option<u32>> {
        match self.number(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            limit => Ok(u32::try_from(limit?).ok().filter(|limit| *limit > 0)),
        }
    }
}
