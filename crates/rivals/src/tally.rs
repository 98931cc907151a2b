//! What an engine's own account leaves out: the bytes that its user wrote, and the bytes of its files.

use sinter_lab::target::Outcome;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Key and value bytes written by all sessions. (`rocksdb.bytes.written` is no such count: it has the headers of batches in it, 15 bytes
/// for a single small entry; fjall counts nothing.)
#[derive(Debug, Default)]
pub struct UserBytes(Mutex<Vec<Arc<SessionBytes>>>);

/// One session's part, in a cache line of its own, so that counting slows nobody.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SessionBytes(AtomicU64);

impl UserBytes {
    /// A new session's part.
    pub fn session(&self) -> Arc<SessionBytes> {
        let part = Arc::new(SessionBytes::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&part));
        part
    }

    /// Of all sessions so far, also of those that ended.
    pub fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

impl SessionBytes {
    /// A key and its value were written.
    #[inline]
    pub fn add(&self, key: &[u8], value: &[u8]) {
        self.0.fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
    }
}

/// Size of a block in the count of a file's blocks (stat(2), `st_blocks`).
const BLOCK: u64 = 512;

/// Bytes of all files below a directory. A file counts with its length or its blocks, whichever is less: RocksDB allocates more blocks
/// than its log is long, and fjall makes its journal longer than what it has blocks for.
///
/// # Errors
/// A directory that cannot be read. Files that vanish meanwhile do not count.
pub fn bytes_below(directory: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += bytes_below(&entry.path())?,
            Ok(metadata) => bytes += metadata.len().min(metadata.blocks() * BLOCK),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", entry.path().display())).into()),
        }
    }
    Ok(bytes)
}

/// The versions that this program was built with.
const LOCK: &str = include_str!("../Cargo.lock");

/// The version of a package as Cargo.lock has it, such as `0.19.0+11.8.1`; empty if there is none of that name.
pub fn locked_version(package: &str) -> &'static str {
    let name = format!("name = \"{package}\"");
    let entry = LOCK.split("[[package]]").find(|entry| entry.lines().any(|line| line == name)).unwrap_or_default();
    let version = entry.lines().find_map(|line| line.strip_prefix("version = "));
    version.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_add_up_also_when_they_are_gone() {
        let bytes = UserBytes::default();
        let first = bytes.session();
        first.add(b"key", b"value");
        drop(first);
        bytes.session().add(b"k", b"");
        assert_eq!(bytes.total(), 9);
    }

    #[test]
    fn a_file_counts_with_what_it_takes() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(directory.path().join("whole"), vec![7; 100_000]).unwrap();
        fs::write(inner.join("short"), "ten bytes.").unwrap();
        fs::File::create(inner.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(bytes_below(directory.path()).unwrap(), 100_010);
        assert!(bytes_below(&directory.path().join("absent")).is_err());
    }

    #[test]
    fn versions_are_known() {
        assert!(locked_version("fjall").starts_with("3."));
        assert!(locked_version("librocksdb-sys").contains('+'));
        assert_eq!(locked_version("absent"), "");
    }
}
