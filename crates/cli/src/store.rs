//! The location of a database, for commands that only read it: a directory, or a volume on a zoned drive.

use crate::ended::Ended;
use anyhow::anyhow;
use clap::Args;
use sinter_storage::place::{Place, ZonedPlace};
use sinter_storage::store::{DirStore, Store, StoreError};
use sinter_storage::zoned_store::ZonedStore;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The database to read.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Where {
    /// Directory of the database, or zoned:DRIVE for the volume on a zoned drive.
    path: Option<PathBuf>,
    /// Another way to say PATH.
    #[arg(long)]
    store: Option<PathBuf>,
}

impl Where {
    /// The path as given.
    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.store.as_deref()).unwrap_or(Path::new(""))
    }
}

/// Parses a location.
///
/// # Errors
/// A path that cannot be parsed, as a wrong request.
pub fn place(path: &Path) -> Result<Place, Ended> {
    Place::of(path).map_err(|what| Ended::Usage(format!("{}: {what}", path.display())))
}

/// Opens the store of an existing database.
///
/// # Errors
/// A location without a database, as a wrong request; a drive that is in use or damaged.
pub fn require_database(path: &Path) -> Result<Arc<dyn Store>, Ended> {
    let wrong = |what: &dyn std::fmt::Display| Ended::Usage(format!("{}: {what}", path.display()));
    let store: Arc<dyn Store> = match place(path)? {
        Place::Zoned(place) => Arc::new(open_volume(&place.quiet())?),
        Place::Directory(path) if !path.exists() => return Err(wrong(&"no such directory")),
        Place::Directory(path) if path.is_file() => {
            return Err(Ended::Usage(format!("{} is a file, not a database directory", path.display())));
        }
        Place::Directory(path) if !path.is_dir() => return Err(wrong(&"not a directory")),
        Place::Directory(path) => Arc::new(DirStore::open(path, false).map_err(|error| wrong(&error))?),
    };
    let files = store.list().map_err(|error| wrong(&error))?;
    // Tables without a manifest are a damaged database, which the caller reports.
    if files.is_empty() {
        return Err(wrong(&"no database there"));
    }
    Ok(store)
}

/// Opens a volume.
///
/// # Errors
/// A drive without a volume, as a wrong request; one that is in use or damaged.
pub fn open_volume(place: &ZonedPlace) -> Result<ZonedStore, Ended> {
    place.open().map_err(|error| drive_error(&place.drive, error))
}

/// The error for a drive that cannot be opened.
pub fn drive_error(drive: &Path, error: StoreError) -> Ended {
    if error.is_locked() {
        return Ended::Failed(anyhow!("{}: the drive is in use: mounted, or open in another process", drive.display()));
    }
    match error.source.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::Unsupported => Ended::Usage(error.source.to_string()),
        _ => error.into(),
    }
}

/// A key as text: printable ASCII as it is, all else as `\xNN`.
pub fn escape_whole(key: &[u8]) -> String {
    let mut out = String::new();
    for &byte in key {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

/// Like [`escape_whole`], for a line: of a long key only both ends are shown.
pub fn escape(key: &[u8]) -> String {
    const LONGEST: usize = 64;
    if key.len() <= LONGEST {
        return escape_whole(key);
    }
    let (head, tail) = (&key[..LONGEST / 2], &key[key.len() - LONGEST / 4..]);
    format!("{}...({} bytes)...{}", escape_whole(head), key.len(), escape_whole(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_printed_so_that_they_can_be_told_apart() {
        assert_eq!(escape(b"user:1 ~"), "user:1 ~");
        assert_eq!(escape(b"\0\xff\\\n"), "\\x00\\xff\\\\\\x0a");
        assert_eq!(escape(b""), "");
        assert_eq!(escape(&[b'a'; 64]), "a".repeat(64));
        assert_eq!(escape(&[b'a'; 65]), format!("{}...(65 bytes)...{}", "a".repeat(32), "a".repeat(16)));
    }
}
