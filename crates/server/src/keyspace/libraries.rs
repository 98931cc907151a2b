//! Libraries of functions: code by name, stored as settings of the keyspace, outside of the databases.

use super::error::Result;
use super::layout::{self, Direction, FamilyKind};
use super::{CHUNK, Keyspace};

/// Prefixes of the names of settings that hold libraries of the keyspace, and of its successor.
const LIBRARY: &[u8] = b"library:";
const NEXT_LIBRARY: &[u8] = b"next-library:";

/// Name and code of a library.
pub type Library = (Vec<u8>, Vec<u8>);

impl Keyspace {
    /// Names and codes of all libraries, in the order of their names.
    pub fn libraries(&self) -> Result<Vec<Library>> {
        self.libraries_at(self.library_prefix())
    }

    fn library_prefix(&self) -> &'static [u8] {
        if self.is_successor { NEXT_LIBRARY } else { LIBRARY }
    }

    fn library_place(&self, name: &[u8]) -> Vec<u8> {
        layout::setting_key(&[self.library_prefix(), name].concat())
    }

    fn libraries_at(&self, prefix: &[u8]) -> Result<Vec<Library>> {
        let prefix = layout::setting_key(prefix);
        let mut bounds = (prefix.clone(), [&prefix[..], &[u8::MAX]].concat());
        let mut all = Vec::new();
        loop {
            let some = self.chunk(FamilyKind::Keys, &bounds, Direction::Forward, CHUNK)?;
            let Some((last, _)) = some.last() else { return Ok(all) };
            bounds.0 = [last, &[0][..]].concat();
            all.extend(some.into_iter().map(|(key, code)| (key.get(prefix.len()..).unwrap_or_default().to_vec(), code)));
        }
    }

    /// Stores a library in place of one of the same name.
    pub fn put_library(&mut self, name: &[u8], code: &[u8]) {
        self.turn.put(FamilyKind::Keys, self.library_place(name), code);
        self.touched += 1;
    }

    /// Removes a library.
    pub fn remove_library(&mut self, name: &[u8]) {
        self.turn.delete(FamilyKind::Keys, self.library_place(name));
        self.touched += 1;
    }

    /// Removes all libraries.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn clear_libraries(&mut self) -> Result<()> {
        for (name, _) in self.libraries()? {
            self.remove_library(&name);
        }
        self.touched += 1;
        Ok(())
    }

    /// Removes all libraries of the successor; returns their names and codes.
    pub(super) fn take_next_libraries(&mut self) -> Result<Vec<Library>> {
        let libraries = self.libraries_at(NEXT_LIBRARY)?;
        for (name, _) in &libraries {
            self.turn.delete(FamilyKind::Keys, layout::setting_key(&[NEXT_LIBRARY, name].concat()));
        }
        Ok(libraries)
    }

    /// Number of times that writes were dropped before they were committed.
    pub fn losses(&self) -> u64 {
        self.losses
    }
}
