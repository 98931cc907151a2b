//! Import of files of a Redis server into a keyspace.

use super::error::{Error, Result};
use super::found::{Source, Start, files, open};
use super::log::{Log, Next, Stopped};
use super::rdb::{NO_PARTS, Visitor, Where, printable, rest, walk};
use crate::command::{Command, Ended, Server, Session, execute, find};
use crate::feed::PARTS;
use crate::keyspace::{self, DATABASES, Keyspace, check_key};
use crate::persist::{LoadError, Pieces, check, load};
use crate::rdb::{Element, Key, Reader, Record, StreamElement};
use sinterdb::WriteOptions;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Bytes of writes at which an import commits. Tests have imports of many commits.
const COMMIT: usize = if cfg!(test) { 4 << 10 } else { 8 << 20 };
/// Largest number of keys with passed deadlines that are removed before a commit.
const EXPIRED_AT_ONCE: usize = 10_000;
const BEHIND: &str = "there is more behind the end of the RDB file";
/// Largest number of notes; further ones are counted only.
const NOTES_MAX: usize = 100_000;

/// Results of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Keys that exist after the import.
    pub keys: u64,
    /// Keys whose deadline had passed.
    pub expired: u64,
    /// Collections without elements, which some versions of Redis have written.
    pub empty: u64,
    /// Commands of logs that were run.
    pub commands: u64,
    /// Libraries of functions that exist after the import.
    pub functions: u64,
    /// Functions of pre-releases of Redis 7.0, which were skipped.
    pub early_functions: u64,
    /// Records of modules that were skipped.
    pub modules: u64,
    /// File with the incomplete end of the last log, which was left out; first byte and number of bytes of that end.
    pub cut: Option<(PathBuf, u64, u64)>,
    /// Corrections of streams that contradicted their entries.
    pub corrected: u64,
    /// Damaged keys and ends of files that were left out.
    pub left_out: u64,
    /// Corrections and left-out keys, each with its position in the file.
    pub notes: Vec<String>,
}

impl Report {
    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }
}

/// Treatment of damaged keys in an RDB file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing is imported.
    Refuse,
    /// All other keys are imported.
    Skip,
}

/// Files that were checked from end to end, and can be loaded.
#[derive(Debug)]
pub struct Found {
    files: Vec<PathBuf>,
    /// The files are a log, or the start of one: keys whose deadline has passed stay until its end is reached, as later commands may be
    /// about them.
    is_log: bool,
    skips: bool,
    report: Report,
}

/// End of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Behind a complete command.
    Whole,
    /// The command that begins at this byte is incomplete.
    Cut(u64),
}

fn stopped(path: &Path, why: Stopped) -> Error {
    match why {
        Stopped::Damaged(at, what) => Error::log(path, at, what),
        Stopped::Medium(error) => Error::file(path)(error),
    }
}

impl Found {
    /// Checks a whole file, or all files that the manifest in a directory lists.
    ///
    /// # Errors
    /// Something is damaged or not supported; nothing was done.
    pub fn look(path: &Path, damage: Damage) -> Result<Found> {
        let skips = damage == Damage::Skip;
        let mut found = Found { files: files(path)?, is_log: path.is_dir(), skips, report: Report::default() };
        let mut is_empty = true;
        for (n, path) in found.files.clone().iter().enumerate() {
            let (mut source, start) = open(path)?;
            is_empty &= start == Start::Empty;
            let mut at = 0;
            if start == Start::Rdb {
                let tail = walk(path, &mut source, skips, &mut Looker(&mut found.report))?;
                found.is_log |= tail.is_base;
                at = tail.at;
                if !tail.is_base {
                    let is_at_end = tail.is_cut || source.fill_buf().map_err(Error::file(path))?.is_empty();
                    if !is_at_end && !skips {
                        return Err(Error::log(path, at, BEHIND));
                    }
                    if !is_at_end {
                        Looker(&mut found.report).note(rest(path, at, &BEHIND));
                    }
                    continue;
                }
            }
            found.is_log |= start == Start::Log;
            if skips {
                return Err(Error::Request(format!("{}: {NO_PARTS}", path.display())));
            }
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

    /// Loads all files into a keyspace, replacing its keys and libraries of functions if `replaces`; else it must be empty. `now`: unix
    /// milliseconds.
    ///
    /// # Errors
    /// There are keys or libraries of functions; a command of a log fails; a collection has a member twice; errors of the engine. The
    /// keyspace is then unchanged, unless restoring it fails, too: then a start finds the import unfinished.
    pub fn load(self, keyspace: &mut Keyspace, replaces: bool, now: u64) -> Result<Report> {
        keyspace.set_now(now);
        let before: u64 = (0..DATABASES).map(|db| keyspace.size(db)).sum();
        if before > 0 && !replaces {
            return Err(Error::Request(format!("there are {before} keys already")));
        }
        let libraries = keyspace.libraries()?.len();
        if libraries > 0 && !replaces {
            return Err(Error::Request(format!("there are {libraries} libraries of functions already")));
        }
        let mut next = keyspace.begin_successor()?;
        match self.load_into(&mut next, now) {
            Ok(report) => keyspace.adopt(next, None).map(|()| report).map_err(Error::from),
            Err(error) => {
                next.discard();
                // If that fails, too, the first reason is the one to report: the next start finds the rest.
                let _ = keyspace.abandon_successor(next);
                Err(error)
            }
        }
    }

    fn load_into(self, keyspace: &mut Keyspace, now: u64) -> Result<Report> {
        keyspace.keep_ended(true);
        let mut loader = Loader {
            keyspace,
            server: Server::default(),
            report: self.report,
            now,
            keeps_ended: self.is_log,
            skips: self.skips,
            parts: BTreeSet::new(),
        };
        self.files.iter().try_for_each(|path| loader.load_file(path))?;
        loader.keyspace.keep_ended(false);
        loader.end()
    }
}

/// Checks a log up to its end; all its commands must be known.
fn look_at_log(path: &Path, source: Source, base: u64) -> Result<End> {
    let mut log = Log::new(source, base);
    // Start of a transaction whose end has not come.
    let mut multi = None;
    loop {
        match log.next().map_err(|why| stopped(path, why))? {
            Next::Cut(at) => return Ok(End::Cut(multi.unwrap_or(at))),
            Next::End => return Ok(multi.map_or(End::Whole, End::Cut)),
            Next::Command(at, arguments) => {
                let name = arguments.first().copied().unwrap_or_default();
                let command = find(name);
                if command.is_none() {
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

struct Loader<'k> {
    keyspace: &'k mut Keyspace,
    server: Server,
    report: Report,
    now: u64,
    /// Keys whose deadline has passed are loaded, too.
    keeps_ended: bool,
    skips: bool,
    /// Keys to which the log has written strings in parts.
    parts: BTreeSet<Vec<u8>>,
}

/// Counts the contents of a file, and finds its damage.
struct Looker<'r>(&'r mut Report);

impl Visitor for Looker<'_> {
    fn key(&mut self, reader: &mut Reader<&mut Source>, at: Where, key: &Key) -> std::result::Result<(), LoadError> {
        check_key(&key.name)?;
        reader.value(&mut |element| {
            if let Element::Stream(StreamElement::Corrected(what)) = &element {
                let (path, from, db, name) = (at.path.display(), at.from, at.db, printable(&key.name));
                self.0.corrected += 1;
                self.0.note(format!("{path}: from byte {from} on: stream {name} of database {db}: corrected {what}"));
            }
            check(&element)
        })
    }

    fn other(&mut self, record: &Record) {
        match record {
            Record::Module(_) => self.0.modules += 1,
            _ => self.0.early_functions += 1,
        }
    }

    fn left_out(&mut self, _: Where, _: &Key, _: &LoadError, note: String) -> Result<()> {
        self.note(note);
        Ok(())
    }

    fn note(&mut self, note: String) {
        self.0.left_out += 1;
        self.0.note(note);
    }
}

impl Visitor for Loader<'_> {
    fn key(&mut self, reader: &mut Reader<&mut Source>, at: Where, key: &Key) -> std::result::Result<(), LoadError> {
        if !self.keeps_ended && key.deadline.is_some_and(|deadline| deadline < self.now) {
            self.report.expired += 1;
            return Ok(reader.skip_value()?);
        }
        check_key(&key.name)?;
        let is_there = load(self.keyspace, (at.db, &key.name), key.deadline, Pieces::Many, |visit| reader.value(visit))?;
        self.report.empty += u64::from(!is_there);
        Ok(self.commit_some()?)
    }

    fn function(&mut self, path: &Path, at: u64, code: &[u8]) -> Result<()> {
        let (mut session, mut reply) = (Session::new(1, &self.server), Vec::new());
        let errors = self.server.statistics.errors;
        execute(self.keyspace, &mut self.server, &mut session, &[b"FUNCTION", b"LOAD", code], &mut reply);
        if self.server.statistics.errors == errors {
            return Ok(());
        }
        let what = format!("a library of functions does not load: {}", printable(&reply));
        if !self.skips {
            return Err(Error::log(path, at, what));
        }
        self.report.left_out += 1;
        self.report.note(format!("{}: at byte {at}: {what}", path.display()));
        Ok(())
    }

    /// Removes the loaded parts of a damaged key. Notes only errors that loading finds: damaged bytes were noted when the file was checked.
    fn left_out(&mut self, at: Where, key: &Key, error: &LoadError, note: String) -> Result<()> {
        if matches!(error, LoadError::Twice | LoadError::Unowned) {
            self.report.left_out += 1;
            self.report.note(note);
        }
        if check_key(&key.name).is_ok() {
            // A part of it may be there.
            self.keyspace.remove(at.db, &key.name)?;
        }
        Ok(())
    }

    fn note(&mut self, _: String) {}
}

impl Loader<'_> {
    fn load_file(&mut self, path: &Path) -> Result<()> {
        let (mut source, start) = open(path)?;
        let mut at = 0;
        if start == Start::Rdb {
            at = self.load_rdb(path, &mut source)?;
        }
        // With damaged keys skipped there is no log, and the bytes behind the keys were left out.
        if self.skips { Ok(()) } else { self.load_log(path, source, at) }
    }

    fn load_rdb(&mut self, path: &Path, source: &mut Source) -> Result<u64> {
        let skips = self.skips;
        Ok(walk(path, source, skips, self)?.at)
    }

    /// Runs the commands of a log up to where it is cut. Each log begins in database 0. Commands of a transaction are run one by one, so
    /// that errors name the failing one.
    fn load_log(&mut self, path: &Path, source: Source, base: u64) -> Result<()> {
        let mut session = Session::new(1, &self.server);
        session.repeats_log = true;
        let mut reply = Vec::new();
        let mut log = Log::new(source, base);
        loop {
            let Next::Command(at, arguments) = log.next().map_err(|why| stopped(path, why))? else { return Ok(()) };
            if self.report.cut.as_ref().is_some_and(|(cut, from, _)| cut == path && at >= *from) {
                return Ok(());
            }
            let name = arguments.first().copied().unwrap_or_default();
            if name.eq_ignore_ascii_case(b"multi") || name.eq_ignore_ascii_case(b"exec") {
                self.report.commands += 1;
                continue;
            }
            if let Some(key) = arguments.get(1).filter(|key| key.starts_with(PARTS)) {
                self.parts.insert(key.to_vec());
            }
            reply.clear();
            let errors = self.server.statistics.errors;
            let ended = execute(self.keyspace, &mut self.server, &mut session, &arguments, &mut reply);
            // Redis 6 logs a script that fails after a write, and here it fails again in the same way.
            let has_failed = if find(name).is_some_and(Command::runs_scripts) {
                reply.starts_with(b"-NOSCRIPT")
            } else {
                self.server.statistics.errors > errors
            };
            if ended != Ended::Open || has_failed {
                let command = arguments.get(..arguments.len().min(2)).unwrap_or_default().join(&b' ');
                let command = printable(&command);
                let what = format!("the command '{command}' failed that had not failed when it was logged: {}", printable(&reply));
                return Err(Error::log(path, at, what));
            }
            self.report.commands += 1;
            self.commit_some()?;
        }
    }

    fn commit_some(&mut self) -> keyspace::Result<()> {
        if self.keyspace.uncommitted() > COMMIT { self.keyspace.commit(&WriteOptions::default()) } else { Ok(()) }
    }

    /// Removes keys whose deadline has passed, and parts of strings that no key has got, and counts the rest.
    fn end(mut self) -> Result<Report> {
        for key in std::mem::take(&mut self.parts) {
            (0..DATABASES).try_for_each(|db| self.keyspace.remove(db, &key).map(drop))?;
        }
        let loaded = self.keys();
        loop {
            let removed = self.keyspace.remove_expired(EXPIRED_AT_ONCE)?;
            self.keyspace.commit(&WriteOptions::default())?;
            if removed < EXPIRED_AT_ONCE {
                break;
            }
        }
        self.report.functions = self.keyspace.libraries()?.len() as u64;
        self.report.keys = self.keys();
        // `remove_expired` counts fields of hashes as well; the report counts keys.
        self.report.expired += loaded - self.report.keys;
        Ok(self.report)
    }

    fn keys(&self) -> u64 {
        (0..DATABASES).map(|db| self.keyspace.size(db)).sum()
    }
}
