//! Finds the files that a path stands for.

use super::error::{Error, Result};
use crate::persist::manifest::{BASE, HISTORY, INCREMENT, Listed, MANIFEST, read_manifest};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// An open file.
pub(super) type Source = BufReader<File>;

/// Type of a file, according to its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Rdb,
    Log,
    Empty,
}

/// Opens a file and finds its type.
pub(super) fn open(path: &Path) -> Result<(Source, Start)> {
    let mut file = File::open(path).map_err(Error::file(path))?;
    let mut head = Vec::new();
    file.by_ref().take(6).read_to_end(&mut head).map_err(Error::file(path))?;
    std::io::Seek::rewind(&mut file).map_err(Error::file(path))?;
    let start = match head.as_slice() {
        head if head.starts_with(b"REDIS") || head == b"VALKEY" => Start::Rdb,
        [] => Start::Empty,
        [b'*' | b'#', ..] => Start::Log,
        _ => return Err(Error::log(path, 0, "this is neither an RDB file nor a log of commands")),
    };
    Ok((BufReader::with_capacity(BUFFER, file), start))
}

/// The files that a path stands for, in order.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !fs::metadata(path).map_err(Error::file(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut manifests = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::file(path))? {
        let entry = entry.map_err(Error::file(path))?;
        // The name of a manifest that was being written when its server died begins with `temp-`, as in Redis.
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(MANIFEST) && !name.starts_with("temp-")) {
            manifests.push(entry.path());
        }
    }
    match manifests.as_slice() {
        [manifest] => listed(path, manifest),
        [] => Err(Error::Request(format!("{}: there is no manifest of a log (a file that ends in {MANIFEST})", path.display()))),
        many => Err(Error::Request(format!("{}: there are {} manifests of logs; name one file", path.display(), many.len()))),
    }
}

/// The files that a manifest lists: the base, if there is one, and the increments after it.
fn listed(directory: &Path, manifest: &Path) -> Result<Vec<PathBuf>> {
    let text = read_manifest(manifest).map_err(Error::file(manifest))?;
    let (mut base, mut later, mut newest, mut at) = (None, Vec::new(), 0, 0);
    for bytes in text.split_inclusive(|byte| *byte == b'\n') {
        let wrong = |what: &str| Error::log(manifest, at, what);
        if !bytes.starts_with(b"#") {
            let line = Listed::parse(bytes).ok_or_else(|| wrong("this is no line of a manifest"))?;
            let path = directory.join(&line.file);
            match line.kind {
                BASE if base.is_some() => return Err(wrong("a second base file")),
                BASE => base = Some(path),
                INCREMENT if line.number <= newest => return Err(wrong("the numbers of files do not ascend")),
                INCREMENT => {
                    newest = line.number;
                    later.push(path);
                }
                // Replaced, and kept for a while.
                HISTORY => {}
                _ => return Err(wrong("a file of no known type")),
            }
        }
        at += bytes.len() as u64;
    }
    let all: Vec<PathBuf> = base.into_iter().chain(later).collect();
    if all.is_empty() { Err(Error::log(manifest, at, "it lists no file")) } else { Ok(all) }
}
