//! Export of a keyspace to files that a Redis server loads.

use super::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::persist::manifest::{BASE, Listed, replace_manifest};
use crate::persist::{Contents, SaveError, save_file, sync_directory};
use crate::rdb::Version;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Default names of Redis.
const BASE_FILE: &str = "appendonly.aof.1.base.rdb";
const MANIFEST: &str = "appendonly.aof.manifest";

/// Directory and last name of a path.
fn split(path: &Path) -> Result<(PathBuf, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::Request(format!("{}: this is no name for a file", path.display())))?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok((directory.unwrap_or(Path::new(".")).to_owned(), name))
}

fn save(keyspace: &Keyspace, path: &Path, contents: Contents, stops: &AtomicBool) -> Result<u64> {
    let (directory, name) = split(path)?;
    let failed = |error| Error::Save { path: path.display().to_string(), error };
    save_file(&keyspace.image(), &directory, name, contents, stops).map_err(failed)
}

/// Writes a new RDB file with everything committed; returns its number of keys.
///
/// # Errors
/// The file exists already; errors of the medium and of the engine. No incomplete file is left.
pub fn export_rdb(keyspace: &Keyspace, path: &Path, version: Version, stops: &AtomicBool) -> Result<u64> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::Request(format!("{}: it is there already", path.display())));
    }
    save(keyspace, path, Contents { version, ..Contents::default() }, stops)
}

/// Creates a directory like `appendonlydir` of Redis 7; an existing directory must be empty. Returns the number of keys.
///
/// # Errors
/// The directory is not empty; errors of the medium and of the engine. Without its manifest, which is written last, the directory is not a
/// log.
pub fn export_log(keyspace: &Keyspace, directory: &Path, version: Version, stops: &AtomicBool) -> Result<u64> {
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    if fs::read_dir(directory).map_err(Error::file(directory))?.next().is_some() {
        return Err(Error::Request(format!("{}: the directory is not empty", directory.display())));
    }
    let keys = save(keyspace, &directory.join(BASE_FILE), Contents { version, is_base: true, ..Contents::default() }, stops)?;
    write_manifest(directory).map_err(|error| Error::Save { path: directory.display().to_string(), error: SaveError::Output(error) })?;
    Ok(keys)
}

fn write_manifest(directory: &Path) -> io::Result<()> {
    let base = Listed { file: BASE_FILE.into(), number: 1, kind: BASE };
    replace_manifest(directory, MANIFEST, &base.to_string())?;
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
    sync_directory(above.unwrap_or(Path::new(".")))
}
