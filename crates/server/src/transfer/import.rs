//! From files of a Redis server to a keyspace.

use super::error::{Error, Result};
use super::found::{Source, Start, files, open};
use super::log::{Log, Next, Stopped};
use crate::command::{Command, Ended, Server, Session, execute, find};
use crate::keyspace::{DATABASES, Keyspace, check_key};
use crate::persist::{LoadError, Pieces, check, load};
use crate::rdb::{Key, Reader, Record};
use sinterdb::{Durability, WriteOptions};
use std::path::{Path, PathBuf};

/// Bytes of writes at which they are committed.
const COMMIT: usize = 8 << 20;
/// Keys whose time has come that are removed before a commit.
const EXPIRED_AT_ONCE: usize = 10_000;
/// Bytes of a key or an error that a message repeats.
const REPEATED: usize = 200;
/// Commands that define functions and scripts, which are not there: they are skipped and counted.
const SKIPPED: &[&str] = &["function", "script"];

/// What an import has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Keys that are there now.
    pub keys: u64,
    /// Keys that had ended.
    pub expired: u64,
    /// Collections without elements, which some versions of Redis have written.
    pub empty: u64,
    /// Commands of logs that were run.
    pub commands: u64,
    /// Libraries of functions and scripts that were skipped.
    pub functions: u64,
    /// Records of modules that were skipped.
    pub modules: u64,
    /// The end of the last log, which is incomplete and was left out: from which byte on, and how many.
    pub cut: Option<(PathBuf, u64, u64)>,
}

/// Files that were looked at from end to end, and can be loaded.
#[derive(Debug)]
pub struct Found {
    files: Vec<PathBuf>,
    /// They are a log, or the start of one: keys that have ended stay until its end is reached, as later commands may be about them.
    is_log: bool,
    report: Report,
}

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Behind a complete command.
    Whole,
    /// From this byte on it is incomplete.
    Cut(u64),
}

/// Bytes for a message.
fn printable(bytes: &[u8]) -> String {
    bytes.get(..bytes.len().min(REPEATED)).unwrap_or_default().escape_ascii().to_string()
}

fn stopped(path: &Path, why: Stopped) -> Error {
    match why {
        Stopped::Damaged(at, what) => Error::log(path, at, what),
        Stopped::Medium(error) => Error::file(path)(error),
    }
}

/// The end of an RDB file: where it is, and whether a log may follow.
struct Tail {
    at: u64,
    is_base: bool,
}

/// The file says that it is the start of a log.
fn says_base(name: &[u8], value: &[u8]) -> bool {
    (name == b"aof-preamble" || name == b"aof-base") && value != b"0"
}

impl Found {
    /// Looks at all of a file, or at all that the manifest in a directory lists.
    ///
    /// # Errors
    /// What is damaged or not supported; nothing was done.
    pub fn look(path: &Path) -> Result<Found> {
        let mut found = Found { files: files(path)?, is_log: path.is_dir(), report: Report::default() };
        let mut is_empty = true;
        for (n, path) in found.files.clone().iter().enumerate() {
            let (mut source, start) = open(path)?;
            is_empty &= start == Start::Empty;
            let mut at = 0;
            if start == Start::Rdb {
                let tail = found.look_at_rdb(path, &mut source)?;
                found.is_log |= tail.is_base;
                at = tail.at;
                if !tail.is_base {
                    continue;
                }
            }
            found.is_log |= start == Start::Log;
            if let End::Cut(from) = look_at_log(path, source, at)? {
                if n + 1 < found.files.len() {
                    return Err(Error::log(path, from, "it ends in the middle of a command, and is not the last file"));
                }
                let length = std::fs::metadata(path).map_err(Error::file(path))?.len();
                found.report.cut = Some((path.clone(), from, length.saturating_sub(from)));
            }
        }
        if is_empty {
            return Err(Error::Request(format!("{}: there is nothing in it", path.display())));
        }
        Ok(found)
    }

    fn look_at_rdb(&mut self, path: &Path, source: &mut Source) -> Result<Tail> {
        let wrong = |error| Error::format(path, error);
        let mut reader = Reader::new(source).map_err(wrong)?;
        let (mut db, mut is_base) = (0, false);
        loop {
            match reader.record().map_err(wrong)? {
                Record::Aux { name, value } => is_base |= says_base(&name, &value),
                Record::Database(number) => db = database(path, reader.position(), number)?,
                Record::Key(key) => {
                    let checked = check_key(&key.name).map_err(LoadError::from);
                    let checked = checked.and_then(|()| reader.value(&mut |element| check(&element)));
                    checked.map_err(|error| of_key(path, reader.position(), db, &key, error))?;
                }
                Record::Function => self.report.functions += 1,
                Record::Module(_) => self.report.modules += 1,
                Record::Sizes(..) => {}
                Record::End => break,
            }
        }
        let at = reader.position();
        let is_at_end = std::io::BufRead::fill_buf(reader.into_inner()).map_err(Error::file(path))?.is_empty();
        if !is_base && !is_at_end {
            return Err(Error::log(path, at, "there is more behind the end of the RDB file"));
        }
        Ok(Tail { at, is_base })
    }

    /// Puts all of it into a keyspace. Keys that are there go first, if `replaces`; else there must be none. `now`: unix milliseconds.
    ///
    /// # Errors
    /// There are keys; a command of a log fails; a collection has a member twice; those of the engine. What was loaded before is there
    /// then.
    pub fn load(self, keyspace: &mut Keyspace, replaces: bool, now: u64) -> Result<Report> {
        keyspace.set_now(now);
        let before: u64 = (0..DATABASES).map(|db| keyspace.size(db)).sum();
        if before > 0 {
            if !replaces {
                return Err(Error::Request(format!("there are {before} keys already")));
            }
            keyspace.clear_all()?;
            keyspace.commit(&WriteOptions::default())?;
        }
        keyspace.keep_ended(true);
        let mut loader = Loader { keyspace, server: Server::default(), report: self.report, now, keeps_ended: self.is_log };
        let loaded = self.files.iter().try_for_each(|path| loader.load_file(path));
        loader.keyspace.keep_ended(false);
        if let Err(error) = loaded {
            loader.keyspace.discard();
            return Err(error);
        }
        loader.end()
    }
}

/// The database of this number, up to some byte of a file.
fn database(path: &Path, at: u64, number: u64) -> Result<usize> {
    let db = usize::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or_else(|| Error::log(path, at, format!("database {number}, and there are {DATABASES}")))
}

fn of_key(path: &Path, at: u64, db: usize, key: &Key, error: LoadError) -> Error {
    match error {
        LoadError::Keyspace(error @ (crate::keyspace::Error::Engine(_) | crate::keyspace::Error::Damaged(_))) => error.into(),
        error => Error::Key { path: path.display().to_string(), at, key: printable(&key.name), db, error },
    }
}

/// Reads a log to its end; all its commands have to be known.
fn look_at_log(path: &Path, source: Source, base: u64) -> Result<End> {
    let mut log = Log::new(source, base);
    // Where a transaction begins whose end has not come.
    let mut multi = None;
    loop {
        match log.next().map_err(|why| stopped(path, why))? {
            Next::Cut(at) => return Ok(End::Cut(multi.unwrap_or(at))),
            Next::End => return Ok(multi.map_or(End::Whole, End::Cut)),
            Next::Command(at, arguments) => {
                let name = arguments.first().copied().unwrap_or_default();
                let command = find(name);
                if command.is_none() && !is_skipped(name) {
                    return Err(Error::log(path, at, format!("the command '{}' is not supported", printable(name))));
                }
                if command.is_some_and(Command::is_for_admins) {
                    return Err(Error::log(path, at, format!("the command '{}' is none of a log", printable(name))));
                }
                if name.eq_ignore_ascii_case(b"multi") {
                    multi = Some(at);
                } else if name.eq_ignore_ascii_case(b"exec") {
                    multi = None;
                }
            }
        }
    }
}

fn is_skipped(name: &[u8]) -> bool {
    SKIPPED.iter().any(|skipped| name.eq_ignore_ascii_case(skipped.as_bytes()))
}

struct Loader<'k> {
    keyspace: &'k mut Keyspace,
    server: Server,
    report: Report,
    now: u64,
    /// Keys that have ended are loaded all the same.
    keeps_ended: bool,
}

impl Loader<'_> {
    fn load_file(&mut self, path: &Path) -> Result<()> {
        let (mut source, start) = open(path)?;
        let mut at = 0;
        if start == Start::Rdb {
            at = self.load_rdb(path, &mut source)?;
        }
        self.load_log(path, source, at)
    }

    fn load_rdb(&mut self, path: &Path, source: &mut Source) -> Result<u64> {
        let wrong = |error| Error::format(path, error);
        let mut reader = Reader::new(source).map_err(wrong)?;
        let mut db = 0;
        loop {
            match reader.record().map_err(wrong)? {
                // It was looked at before, but may be another file by now.
                Record::Database(number) => db = database(path, reader.position(), number)?,
                Record::Key(key) => {
                    if !self.keeps_ended && key.deadline.is_some_and(|deadline| deadline < self.now) {
                        self.report.expired += 1;
                        continue;
                    }
                    let loaded = load(self.keyspace, (db, &key.name), key.deadline, Pieces::Many, |visit| reader.value(visit));
                    let is_there = loaded.map_err(|error| of_key(path, reader.position(), db, &key, error))?;
                    self.report.empty += u64::from(!is_there);
                    self.commit_some()?;
                }
                Record::Aux { .. } | Record::Sizes(..) | Record::Function | Record::Module(_) => {}
                Record::End => return Ok(reader.position()),
            }
        }
    }

    /// Runs the commands of a log up to where it is cut. Each log begins in the first database. Commands of a transaction are run one by
    /// one, so that one that fails is known.
    fn load_log(&mut self, path: &Path, source: Source, base: u64) -> Result<()> {
        let mut session = Session::new(1, &self.server);
        let mut reply = Vec::new();
        let mut log = Log::new(source, base);
        loop {
            let Next::Command(at, arguments) = log.next().map_err(|why| stopped(path, why))? else { return Ok(()) };
            if self.report.cut.as_ref().is_some_and(|(cut, from, _)| cut == path && at >= *from) {
                return Ok(());
            }
            let name = arguments.first().copied().unwrap_or_default();
            if is_skipped(name) {
                self.report.functions += 1;
                continue;
            }
            if name.eq_ignore_ascii_case(b"multi") || name.eq_ignore_ascii_case(b"exec") {
                self.report.commands += 1;
                continue;
            }
            reply.clear();
            let errors = self.server.statistics.errors;
            let ended = execute(self.keyspace, &mut self.server, &mut session, &arguments, &mut reply);
            if ended != Ended::Open || self.server.statistics.errors > errors {
                let command = arguments.get(..arguments.len().min(2)).unwrap_or_default().join(&b' ');
                let command = printable(&command);
                let what = format!("the command '{command}' failed that had not failed when it was logged: {}", printable(&reply));
                return Err(Error::log(path, at, what));
            }
            self.report.commands += 1;
            self.commit_some()?;
        }
    }

    fn commit_some(&mut self) -> Result<()> {
        if self.keyspace.uncommitted() > COMMIT {
            self.keyspace.commit(&WriteOptions::default())?;
        }
        Ok(())
    }

    /// Removes what has ended, counts what is there, and makes it durable.
    fn end(mut self) -> Result<Report> {
        loop {
            let removed = self.keyspace.remove_expired(EXPIRED_AT_ONCE)?;
            self.report.expired += removed as u64;
            self.keyspace.commit(&WriteOptions::new(Durability::Sync))?;
            if removed < EXPIRED_AT_ONCE {
                break;
            }
        }
        self.report.keys = (0..DATABASES).map(|db| self.keyspace.size(db)).sum();
        Ok(self.report)
    }
}
