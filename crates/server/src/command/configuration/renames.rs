//! `rename-command`: commands under other names, or disabled.

use super::Why;
use crate::command::Command;
use crate::command::units::Units;
use std::collections::{BTreeMap, BTreeSet};

/// Renamed and disabled commands, with names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renames {
    units: &'static Units,
    /// New names, each with the command's original name.
    given: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Original names under which no command is found any more.
    lost: BTreeSet<Vec<u8>>,
}

impl Renames {
    /// Finds a command by the name that clients use, in capitals or not, with its number among all units.
    pub(in crate::command) fn find(&self, name: &[u8]) -> Option<(usize, &'static Command)> {
        if self.lost.is_empty() {
            return self.units.command(name);
        }
        let lower = name.to_ascii_lowercase();
        match self.given.get(&lower) {
            Some(own) => self.units.command(own),
            None if self.lost.contains(&lower) => None,
            None => self.units.command(name),
        }
    }

    /// Renames a command; an empty name disables it.
    ///
    /// # Errors
    /// There is no such command, or another one has the new name.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), Why> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let (_, command) = self.find(old).ok_or_else(|| format!("there is no command {}", text(old)))?;
        let mut changed = self.clone();
        if changed.given.remove(&old.to_ascii_lowercase()).is_none() {
            changed.lost.insert(old.to_ascii_lowercase());
        }
        if !new.is_empty() {
            if changed.find(new).is_some() {
                return Err(format!("there is a command {} already", text(new)));
            }
            changed.given.insert(new.to_ascii_lowercase(), command.name.as_bytes().to_vec());
        }
        *self = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_names_that_they_were_given_last() {
        let mut renames = Renames::default();
        let found = |renames: &Renames, name: &[u8]| renames.find(name).map(|(_, command)| command.name);
        assert_eq!(found(&renames, b"Get"), Some("get"));
        for (old, new) in [(&b"GET"[..], &b"Fetch"[..]), (b"fetch", b"obtain"), (b"SET", b"get"), (b"config", b"")] {
            assert_eq!(renames.rename(old, new), Ok(()));
        }
        let names = [&b"get"[..], b"fetch", b"OBTAIN", b"set", b"CONFIG", b"ping"];
        assert_eq!(names.map(|name| found(&renames, name)), [Some("set"), None, Some("get"), None, None, Some("ping")]);
        assert_eq!(renames.rename(b"config", b"x"), Err("there is no command config".into()));
        assert_eq!(renames.rename(b"ping", b"OBTAIN"), Err("there is a command OBTAIN already".into()));
        assert_eq!(found(&renames, b"ping"), Some("ping"));
    }
}
