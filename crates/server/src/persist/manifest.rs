//! The manifest of a Redis-format log: its files, a line for each.

use super::save::sync_directory;
use crate::resp::Parser;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Suffix of a manifest's name.
pub const MANIFEST: &str = ".manifest";
/// Longest manifest, bytes.
pub const MANIFEST_MAX: u64 = 1 << 20;

/// Type of a file that holds all data as of a moment.
pub const BASE: u8 = b'b';
/// Type of a file of later commands.
pub const INCREMENT: u8 = b'i';
/// Type of a file that was replaced and is about to be deleted.
pub const HISTORY: u8 = b'h';

/// A line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// The name of the file, in the same directory.
    pub file: String,
    /// Number of the file among those of its type.
    pub number: u64,
    /// Type of the file.
    pub kind: u8,
}

impl Listed {
    /// Parses `file NAME seq NUMBER type LETTER`, and perhaps more pairs. Names are quoted as in an inline request.
    pub fn parse(line: &[u8]) -> Option<Listed> {
        let mut parser = Parser::default();
        parser.feed(line).ok()??;
        let words: Vec<&[u8]> = parser.arguments(line).collect();
        let mut found = Listed::default();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return None };
            let value = std::str::from_utf8(value).ok()?;
            match () {
                () if name.eq_ignore_ascii_case(b"file") => found.file = value.into(),
                () if name.eq_ignore_ascii_case(b"seq") => found.number = value.parse().ok()?,
                () if name.eq_ignore_ascii_case(b"type") => found.kind = *value.as_bytes().first()?,
                () => {}
            }
        }
        let is_name = !found.file.is_empty() && !found.file.contains(['/', '\\', '\0']) && found.file != "..";
        (is_name && found.number > 0 && found.kind != 0).then_some(found)
    }
}

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "file {} seq {} type {}", self.file, self.number, char::from(self.kind))
    }
}

/// Reads a manifest.
///
/// # Errors
/// Errors of the medium; the file is longer than any manifest.
pub fn read_manifest(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MANIFEST_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MANIFEST_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "no manifest is as long"));
    }
    Ok(text)
}

/// Writes a manifest under another name, durably, and returns its path. Renamed, it replaces the present one.
///
/// # Errors
/// Errors of the medium.
pub fn prepare_manifest(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let temporary = directory.join(format!("temp-{name}"));
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(temporary)
}

/// Replaces the present manifest, durably: at any moment there is the old one or the new one.
///
/// # Errors
/// Errors of the medium.
pub fn replace_manifest(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = prepare_manifest(directory, name, text)?;
    fs::rename(temporary, directory.join(name))?;
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_manifests() {
        let line = Listed::parse(b"file appendonly.aof.1.base.rdb seq 1 type b\n").unwrap();
        assert_eq!((line.file.as_str(), line.number, line.kind), ("appendonly.aof.1.base.rdb", 1, BASE));
        assert_eq!(line.to_string(), "file appendonly.aof.1.base.rdb seq 1 type b\n");
        let line = Listed::parse(b"file \"with blank\" seq 12 type i more of\r\n").unwrap();
        assert_eq!((line.file.as_str(), line.number, line.kind), ("with blank", 12, INCREMENT));
        for wrong in [
            &b"\n"[..],
            b"file a seq 1 type b",
            b"file a seq 1\n",
            b"file a seq 0 type b\n",
            b"file ../a seq 1 type b\n",
            b"file .. seq 1 type b\n",
            b"file a seq x type b\n",
            b"file a seq 1 type\n",
            b"file \"a seq 1 type b\n",
            b"*1\r\n$1\r\nx\r\n",
        ] {
            assert!(Listed::parse(wrong).is_none(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_manifest_takes_the_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["file a seq 1 type b\n", "file b seq 2 type b\n"] {
            replace_manifest(folder.path(), "x.manifest", text).unwrap();
            assert_eq!(read_manifest(&folder.path().join("x.manifest")).unwrap(), text.as_bytes());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::write(folder.path().join("long"), vec![b'x'; 1 + MANIFEST_MAX as usize]).unwrap();
        assert!(read_manifest(&folder.path().join("long")).is_err());
    }
}
