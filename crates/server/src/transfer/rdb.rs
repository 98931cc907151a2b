//! Walk through an RDB file, key by key, with or without its damaged keys.

use super::error::{Error, Result};
use super::found::Source;
use crate::keyspace::{self, DATABASES};
use crate::persist::LoadError;
use crate::rdb::{self, Key, Reader, Record};
use std::fmt::Display;
use std::path::Path;

/// Largest number of bytes of a key or an error in a message.
const REPEATED: usize = 200;

/// Receiver of the contents of a file.
pub(super) trait Visitor {
    /// Called for a key; has to read or skip its value.
    fn key(&mut self, reader: &mut Reader<&mut Source>, at: Where, key: &Key) -> std::result::Result<(), LoadError>;

    /// Called for the code of a library of functions.
    fn function(&mut self, _: &Path, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Called for any other record.
    fn other(&mut self, _: &Record) {}

    /// Called for a key that was left out since [`Visitor::key`] has failed.
    fn left_out(&mut self, at: Where, key: &Key, error: &LoadError, note: String) -> Result<()>;

    /// Called for a note: something else was left out, or may be wrong.
    fn note(&mut self, note: String);
}

/// Location of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Where<'a> {
    pub path: &'a Path,
    /// Position of the key's first byte.
    pub from: u64,
    pub db: usize,
}

/// End of an RDB file: its position, and whether a log may follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    pub at: u64,
    pub is_base: bool,
    /// The walk has given the file up before its end.
    pub is_cut: bool,
}

/// Makes bytes printable for a message.
pub(super) fn printable(bytes: &[u8]) -> String {
    bytes.get(..bytes.len().min(REPEATED)).unwrap_or_default().escape_ascii().to_string()
}

/// Whether a property says that the file is the start of a log.
fn says_base(name: &[u8], value: &[u8]) -> bool {
    (name == b"aof-preamble" || name == b"aof-base") && value != b"0"
}

fn of_key(at: Where, read: u64, key: &Key, error: LoadError) -> Error {
    match error {
        LoadError::Keyspace(error @ (keyspace::Error::Engine(_) | keyspace::Error::Damaged(_))) => error.into(),
        error => Error::Key { path: at.path.display().to_string(), at: read, key: printable(&key.name), db: at.db, error },
    }
}

/// Whether reading can go on, or end, without the damaged part. Errors of the medium and the engine are not skipped.
fn is_damage(error: &LoadError) -> bool {
    match error {
        LoadError::Format(error) => !matches!(error, rdb::Error::Read { .. }),
        LoadError::Twice | LoadError::Unowned | LoadError::Keyspace(keyspace::Error::TooLong(_)) => true,
        LoadError::TooLarge | LoadError::Keyspace(_) => false,
    }
}

/// Shows a whole file, at whose start the source is. If it `skips`, damaged keys are left out, and everything behind the first byte from
/// which keys cannot be told apart.
///
/// # Errors
/// Damage, if it is not skipped; errors of the medium, and of the visitor.
pub(super) fn walk(path: &Path, source: &mut Source, skips: bool, visitor: &mut dyn Visitor) -> Result<Tail> {
    let reader = Reader::new(source).map_err(|error| Error::format(path, error))?;
    let mut walk = Walk { path, reader, skips, visitor, db: 0 };
    let (mut is_base, mut is_cut) = (false, false);
    while !is_cut {
        let from = walk.reader.position();
        match walk.record(from)? {
            None => is_cut = true,
            Some(Record::Aux { name, value }) => is_base |= says_base(&name, &value),
            Some(Record::Database(number)) => walk.begin_database(number)?,
            Some(Record::Key(key)) => is_cut = !walk.key(from, &key)?,
            Some(Record::Function(code)) => walk.visitor.function(path, from, &code)?,
            Some(record @ (Record::EarlyFunction | Record::Module(_))) => walk.visitor.other(&record),
            Some(Record::Sizes(..)) => {}
            Some(Record::End) => break,
        }
        if is_base && skips {
            return Err(Error::Request(format!("{}: {NO_PARTS}", path.display())));
        }
    }
    Ok(Tail { at: walk.reader.position(), is_base, is_cut })
}

/// A walk through a file.
struct Walk<'a> {
    path: &'a Path,
    reader: Reader<&'a mut Source>,
    skips: bool,
    visitor: &'a mut dyn Visitor,
    /// Number of the database of the keys that follow.
    db: u64,
}

impl Walk<'_> {
    /// Reads the next record; `None`: nothing can be read from here on.
    fn record(&mut self, from: u64) -> Result<Option<Record>> {
        match self.reader.record() {
            Ok(record) => Ok(Some(record)),
            Err(error @ rdb::Error::Checksum { .. }) if self.skips => {
                self.visitor.note(format!("{}: {error}: what was taken may be damaged, too", self.path.display()));
                Ok(Some(Record::End))
            }
            Err(error) if self.skips && !matches!(error, rdb::Error::Read { .. }) => {
                self.visitor.note(rest(self.path, from, &error));
                Ok(None)
            }
            Err(error) => Err(Error::format(self.path, error)),
        }
    }

    fn begin_database(&mut self, number: u64) -> Result<()> {
        self.db = number;
        if self.database().is_none() && !self.skips {
            return Err(Error::log(self.path, self.reader.position(), format!("database {number}, and there are {DATABASES}")));
        }
        Ok(())
    }

    /// Database of the keys that follow; `None`: there is no such database.
    fn database(&self) -> Option<usize> {
        usize::try_from(self.db).ok().filter(|db| *db < DATABASES)
    }

    /// Shows a key, leaving it out if it is damaged and `skips` is set; false: its end is not known.
    fn key(&mut self, from: u64, key: &Key) -> Result<bool> {
        let found = self.database().map(|db| Where { path: self.path, from, db });
        let result = found.map(|at| self.visitor.key(&mut self.reader, at, key));
        let error = match (found, result) {
            (_, Some(Ok(()))) => return Ok(true),
            (Some(at), Some(Err(error))) if !self.skips || !is_damage(&error) => {
                return Err(of_key(at, self.reader.position(), key, error));
            }
            (_, error) => error.and_then(std::result::Result::err),
        };
        let why = error.as_ref().map_or_else(|| format!("there are {DATABASES} databases"), ToString::to_string);
        let ended = self.reader.skip_value();
        let note = match &ended {
            Err(error @ rdb::Error::Read { .. }) => return Err(Error::log(self.path, self.reader.position(), error.to_string())),
            // The bytes behind it are not known to be a key.
            Err(_) => rest(self.path, from, &why),
            Ok(()) => {
                let (path, to, name) = (self.path.display(), self.reader.position(), printable(&key.name));
                format!("{path}: bytes {from} to {to}: key {name} of database {} was left out: {why}", self.db)
            }
        };
        match (found, error) {
            (Some(at), Some(error)) => self.visitor.left_out(at, key, &error, note)?,
            _ => self.visitor.note(note),
        }
        Ok(ended.is_ok())
    }
}

/// Why nothing is skipped in logs.
pub(super) const NO_PARTS: &str = "damaged keys are skipped in RDB files only: the commands of a log build on all that came before them";

/// Note about the end of a file that was left out.
pub(super) fn rest(path: &Path, from: u64, why: &dyn Display) -> String {
    format!("{}: from byte {from} on everything was left out: {why}", path.display())
}
