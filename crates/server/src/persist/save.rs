//! Writing of keys in Redis's format: single values, and files.

use super::error::SaveError;
use super::steps::Steps;
use super::streams;
use crate::keyspace::{self, Collection, DATABASES, Head, Image, Keyspace, Kind, StreamPosition, StringReader};
use crate::rdb::{END_OF_VALUE, Output, STRING_MAX, Version, crc64, kind, stream_kind};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes that are written to a file at once.
const BUFFER: usize = 256 << 10;

/// Format of a file to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// The version of the format.
    pub version: Version,
    /// The file is the start of a log of commands.
    pub is_base: bool,
    /// Parts of the data that are left out.
    pub selection: Selection,
    /// Position in the replication stream at which the data are complete, for a replica.
    pub stream: Option<StreamPosition>,
    /// Microseconds to wait after each key, for tests.
    pub delay_us: u64,
}

/// Longest wait before the output is flushed, so that a writer that waits after each key finds out that nobody reads.
const WAIT: Duration = Duration::from_millis(50);

/// Waits after keys.
struct Pause {
    each: Duration,
    /// Time since the output was flushed.
    since: Duration,
}

impl Pause {
    fn wait<W: Write>(&mut self, out: &mut Output<W>) -> io::Result<()> {
        let mut left = self.each;
        while !left.is_zero() {
            let some = left.min(WAIT);
            std::thread::sleep(some);
            (left, self.since) = (left.saturating_sub(some), self.since.saturating_add(some));
            if self.since >= WAIT {
                self.since = Duration::ZERO;
                out.flush()?;
            }
        }
        Ok(())
    }
}

/// Parts of the data that a file leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Selection {
    /// There are no keys in it.
    pub leaves_out_keys: bool,
    /// There are no libraries of functions in it.
    pub leaves_out_functions: bool,
}

/// Type byte under which a value is written.
fn kind_of(head: &Head, version: Version) -> u8 {
    match head.kind {
        Kind::String => kind::STRING,
        Kind::List => kind::LIST,
        Kind::Set => kind::SET,
        Kind::SortedSet => kind::SORTED_SET,
        Kind::Hash if head.has_field_deadlines() && version == Version::Eighty => kind::HASH_VALKEY,
        Kind::Hash if head.has_field_deadlines() => kind::HASH_DEADLINES,
        Kind::Hash => kind::HASH,
        Kind::Stream => stream_kind(version),
    }
}

/// Writes a value element by element; `body` is the part of the entry behind the head.
fn write_value<W: Write>(out: &mut Output<W>, version: Version, keyspace: &Keyspace, head: &Head, body: &[u8]) -> Result<(), SaveError> {
    match head.kind {
        Kind::String if head.is_in_pieces() => return write_pieces(out, keyspace, head),
        Kind::String => return Ok(out.string(body)?),
        Kind::Stream => return streams::write(out, version, keyspace, head),
        Kind::List | Kind::Set | Kind::SortedSet | Kind::Hash => {}
    }
    let kind = kind_of(head, version);
    if kind == kind::HASH_DEADLINES {
        out.time(head.fields.first)?;
    }
    let head = &keyspace.without_hidden(Collection::found(head, body))?;
    out.length(head.count)?;
    let mut steps = Steps::default();
    match head.kind {
        Kind::String | Kind::Stream => {}
        Kind::List => keyspace.walk_items(head, (0, head.count), false, &mut |item| steps.step(out.string(item)))?,
        Kind::Set => keyspace.walk_members(head, &mut |member, _| steps.step(out.string(member)))?,
        Kind::Hash if kind != kind::HASH => keyspace
            .walk_fields(head, &mut |field, value, deadline| steps.step(out.field(kind, (field, value), deadline, head.fields.first)))?,
        Kind::Hash => keyspace.walk_members(head, &mut |field, value| {
            let written = out.string(field).and_then(|()| out.string(value));
            steps.step(written)
        })?,
        Kind::SortedSet => keyspace.walk_scored_or_set(head, &mut |member, score| {
            let written = out.string(member).and_then(|()| out.score(score));
            steps.step(written)
        })?,
    }
    steps.end(head.count)
}

/// Writes a string of which only a part at a time is in memory.
fn write_pieces<W: Write>(out: &mut Output<W>, keyspace: &Keyspace, head: &Head) -> Result<(), SaveError> {
    out.length(head.count)?;
    let (mut written, mut failed) = (0, None);
    keyspace.walk_pieces(head, 0, head.count, &mut |_, part| {
        written += part.len() as u64;
        failed = out.part(part).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None if written != head.count => Err(keyspace::Error::Damaged("a string is not as long as it says").into()),
        None => Ok(()),
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the value would take more than 512 MiB")
}

/// Output in memory that refuses to grow beyond the longest string.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.0.len() as u64).saturating_add(bytes.len() as u64) > STRING_MAX {
            return Err(too_long());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Value of a key as `DUMP` gives it; `body` is the part of its entry behind the head. Streams are written in version 10, as version 9
/// cannot hold all their properties, and hashes whose fields have deadlines in version 12; all else in version 9.
///
/// # Errors
/// The value would be longer than a string may be; errors of the keyspace.
pub fn dump(keyspace: &Keyspace, head: &Head, body: &[u8]) -> Result<Vec<u8>, SaveError> {
    let version = match head.kind {
        Kind::Stream => Version::Ten,
        _ if head.has_field_deadlines() => Version::Twelve,
        _ => Version::Nine,
    };
    dump_in(version, keyspace, head, body)
}

/// [`dump`] of a hash whose fields have deadlines in the form of Valkey 9, which reads no version from 12 to 79; `None`: the value is not
/// such a hash, and a Valkey reads what [`dump`] gives, or it would be longer in this form than a string may be.
///
/// # Errors
/// Errors of the keyspace.
pub fn dump_for_valkey(keyspace: &Keyspace, head: &Head, body: &[u8]) -> Result<Option<Vec<u8>>, SaveError> {
    if !head.has_field_deadlines() {
        return Ok(None);
    }
    match dump_in(Version::Eighty, keyspace, head, body) {
        Ok(value) => Ok(Some(value)),
        Err(SaveError::Output(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn dump_in(version: Version, keyspace: &Keyspace, head: &Head, body: &[u8]) -> Result<Vec<u8>, SaveError> {
    let mut out = Output::new(Bounded::default());
    out.kind(kind_of(head, version))?;
    write_value(&mut out, version, keyspace, head, body)?;
    Ok(out.end_of_value(version)?.0)
}

/// A long string as `DUMP` gives it, which is read a part at a time.
#[derive(Debug)]
pub struct LongDump {
    /// Bytes before the string, until they are read.
    start: Vec<u8>,
    string: StringReader,
    crc: u64,
    left: u64,
}

impl LongDump {
    /// # Errors
    /// The value would be longer than a string may be.
    pub fn new(string: StringReader) -> Result<LongDump, SaveError> {
        let mut out = Output::new(Bounded::default());
        out.kind(kind::STRING)?;
        out.length(string.left())?;
        let start = out.into_inner().0;
        let left = start.len() as u64 + string.left() + END_OF_VALUE;
        if left > STRING_MAX {
            return Err(too_long().into());
        }
        Ok(LongDump { start, string, crc: 0, left })
    }

    /// Bytes that are still to be read.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Appends the next bytes to `out`: at most `most` of the string, and the bytes before and behind it.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn read(&mut self, most: usize, out: &mut Vec<u8>) -> keyspace::Result<()> {
        let before = out.len();
        out.append(&mut self.start);
        self.string.read(most, out)?;
        self.crc = crc64(self.crc, out.get(before..).unwrap_or_default());
        if self.string.left() == 0 && self.left > 0 {
            let version = Version::Nine.number().to_le_bytes();
            self.crc = crc64(self.crc, &version);
            out.extend_from_slice(&version);
            out.extend_from_slice(&self.crc.to_le_bytes());
        }
        self.left -= (out.len() - before) as u64;
        Ok(())
    }
}

/// Writes all libraries of functions, and all keys whose deadline has not passed; returns the number of keys. Libraries need version 10 at
/// least, deadlines of fields version 12.
fn write_all<W: Write>(out: &mut Output<W>, image: &Image, contents: Contents) -> Result<u64, SaveError> {
    let keyspace = image.keyspace();
    let Selection { leaves_out_keys, leaves_out_functions } = contents.selection;
    let libraries = if leaves_out_functions { Vec::new() } else { keyspace.libraries()? };
    let databases = || (0..DATABASES).filter(|_| !leaves_out_keys);
    let has_field_deadlines = databases().any(|db| keyspace.expiring(db) > 0);
    let needed = match () {
        () if has_field_deadlines => Version::Twelve,
        () if !libraries.is_empty() => Version::Ten,
        () => Version::Nine,
    };
    let version = contents.version.max(needed);
    out.head(version)?;
    out.aux("sinterdb-ver", env!("CARGO_PKG_VERSION"))?;
    out.aux("redis-bits", "64")?;
    out.aux("ctime", &(keyspace.now() / 1000).to_string())?;
    if contents.is_base {
        out.aux("aof-base", "1")?;
    }
    if let Some(StreamPosition { id, offset, db, .. }) = contents.stream {
        // Where no database is selected, the stream goes on with `SELECT`.
        out.aux("repl-stream-db", &db.unwrap_or(0).to_string())?;
        out.aux("repl-id", id.as_str())?;
        out.aux("repl-offset", &offset.to_string())?;
    }
    libraries.iter().try_for_each(|(_, code)| out.function(code))?;
    let (mut keys, mut pause) = (0, Pause { each: Duration::from_micros(contents.delay_us), since: Duration::ZERO });
    for db in databases().filter(|db| keyspace.size(*db) > 0) {
        out.database(db as u64, keyspace.size(db), keyspace.deadlines(db))?;
        let mut failed = None;
        keyspace.walk_keys(db, &mut |key, head, body| {
            let written = out.key(kind_of(head, version), key, head.deadline).map_err(SaveError::from);
            let written = written.and_then(|()| write_value(out, version, keyspace, head, body));
            match written.and_then(|()| pause.wait(out).map_err(SaveError::from)) {
                Ok(()) => keys += 1,
                Err(error) => failed = Some(error),
            }
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(keys)
}

/// A file whose writing fails once it is told to stop.
struct Interruptible<'a> {
    file: &'a File,
    stops: &'a AtomicBool,
}

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stops.load(Ordering::Acquire) {
            return Err(io::Error::other("saving was stopped"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// Errors of the medium.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Writes a file with all keys of an image, under another name first: under its own name there is always a whole file, or none. Ends early
/// when `stops` is set. Returns the number of keys.
///
/// # Errors
/// Errors of the medium and of the keyspace; nothing is left behind then.
pub fn save_file(image: &Image, directory: &Path, name: &str, contents: Contents, stops: &AtomicBool) -> Result<u64, SaveError> {
    let temporary = directory.join(format!("temp-{name}"));
    let result = write_file(image, &temporary, contents, stops).and_then(|keys| {
        fs::rename(&temporary, directory.join(name))?;
        sync_directory(directory)?;
        Ok(keys)
    });
    if result.is_err() {
        // The file may not even exist.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Writes all keys of an image, in pieces of 256 KiB; returns their number.
///
/// # Errors
/// Errors of `to` and of the keyspace.
pub fn write_image(to: impl Write, image: &Image, contents: Contents) -> Result<u64, SaveError> {
    let mut out = Output::new(BufWriter::with_capacity(BUFFER, to));
    let keys = write_all(&mut out, image, contents)?;
    out.end()?.flush()?;
    Ok(keys)
}

fn write_file(image: &Image, path: &Path, contents: Contents, stops: &AtomicBool) -> Result<u64, SaveError> {
    let file = File::create(path)?;
    let keys = write_image(Interruptible { file: &file, stops }, image, contents)?;
    file.sync_all()?;
    Ok(keys)
}
