//! The directory of a database, for commands that only read it.

use crate::ended::Ended;
use sinter_storage::store::{DirStore, Store};
use std::path::Path;

/// Opens the directory of an existing database.
///
/// # Errors
/// A path that is not one, as a wrong request.
pub fn require_database(path: &Path) -> Result<DirStore, Ended> {
    let wrong = |what: &dyn std::fmt::Display| Ended::Usage(format!("{}: {what}", path.display()));
    if !path.exists() {
        return Err(wrong(&"no such directory"));
    }
    if !path.is_dir() {
        return Err(wrong(&"not a directory"));
    }
    let store = DirStore::open(path, false).map_err(|error| wrong(&error))?;
    let files = store.list().map_err(|error| wrong(&error))?;
    // Tables without a manifest are a damaged database, which the caller should say.
    if files.is_empty() {
        return Err(wrong(&"no database there"));
    }
    Ok(store)
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

/// As [`escape_whole`], for a line: long keys keep both ends.
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
