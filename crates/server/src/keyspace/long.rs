//! Long strings, written and read in steps, so that no other client waits for one.
//!
//! An [`Upload`] is a string that is still arriving. Its pieces go to the engine with the batches of many event-loop iterations, under an
//! id that no key names. The batch of the last step writes the entry of the key and the entry that says that the id exists: before it the
//! key holds its old value, after it the whole new one. An unfinished upload leaves pieces without an owner, which compactions remove like
//! the pieces of a deleted string; while the upload goes on, the cleaner holds its id.
//!
//! A [`StringReader`] reads a string as it was at one moment from a snapshot, a part at a time, whatever becomes of its key.

use super::Keyspace;
use super::entry::{Head, Kind, LONG, LONGEST_STRING};
use super::error::{Error, Result};
use super::layout::{self, FamilyKind, PIECE};
use super::pieces::{put_piece, walk_pieces};
use super::turn::Turn;
use std::ops::ControlFlow;

/// Shortest string whose pieces are deleted by a range tombstone, bytes: the engine drops tables that the tombstone covers as a whole, so
/// their space and their indexes in the cache do not wait for a compaction. Tests have both sorts.
pub(super) const HUGE: u64 = if cfg!(test) { 50_000 } else { 16 << 20 };

/// Range tombstones for huge strings: at most so many at once, and one more each second. A write of one takes longer the more of them the
/// engine has, and huge strings may hold next to nothing, such as a bitmap with one bit. Pieces of further huge strings are removed by
/// compactions.
pub(super) const TOMBSTONES: u64 = 64;

/// Number of range tombstones that may be written now.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    left: u64,
    /// Time of that number, unix seconds.
    since: u64,
}

impl Tombstones {
    /// Takes one tombstone; false: none is left.
    pub(super) fn take(&mut self, unix_ms: u64) -> bool {
        let now = unix_ms / 1000;
        self.left = self.left.saturating_add(now.saturating_sub(self.since)).min(TOMBSTONES);
        self.since = now;
        let takes = self.left > 0;
        self.left -= u64::from(takes);
        takes
    }
}

/// A string that is being uploaded.
#[derive(Debug)]
pub struct Upload {
    id: u64,
    /// Number of pieces written.
    pieces: u64,
    /// Bytes behind the written pieces, less than a piece.
    rest: Vec<u8>,
    /// [`Keyspace::losses`] at the begin of the upload: after a change, some of its pieces may be missing.
    losses: u64,
}

impl Upload {
    /// The id that the string has, and keeps when a key holds it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes that have arrived.
    pub fn length(&self) -> u64 {
        self.pieces * PIECE as u64 + self.rest.len() as u64
    }
}

/// Source of a [`StringReader`]'s bytes.
enum Source {
    /// Pieces of the string with this id.
    Pieces(Box<Turn>, u64),
    /// Memory.
    Bytes(Vec<u8>),
    /// No source: all bytes are zero.
    Zeros,
}

/// A string, or a part of one, as it was at a moment.
pub struct StringReader {
    source: Source,
    at: u64,
    to: u64,
}

impl std::fmt::Debug for StringReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StringReader({}..{})", self.at, self.to)
    }
}

impl StringReader {
    /// Reads a string that is in memory.
    pub fn of(bytes: Vec<u8>) -> StringReader {
        StringReader { at: 0, to: bytes.len() as u64, source: Source::Bytes(bytes) }
    }

    /// Reads so many zeros.
    pub fn zeros(length: u64) -> StringReader {
        StringReader { at: 0, to: length, source: Source::Zeros }
    }

    /// Number of bytes still to be read.
    pub fn left(&self) -> u64 {
        self.to - self.at
    }

    /// Appends at most `most` next bytes to `out`.
    pub fn read(&mut self, most: usize, out: &mut Vec<u8>) -> Result<()> {
        let to = self.to.min(self.at.saturating_add(most as u64));
        let length = usize::try_from(to - self.at).unwrap_or(usize::MAX);
        match &self.source {
            Source::Pieces(turn, id) => walk_pieces(turn, *id, self.at, to, &mut |_, part| {
                out.extend_from_slice(part);
                ControlFlow::Continue(())
            })?,
            Source::Bytes(bytes) => {
                let there = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)?.get(..length));
                out.extend_from_slice(there.unwrap_or_default());
            }
            Source::Zeros => out.resize(out.len() + length, 0),
        }
        self.at = to;
        Ok(())
    }
}

impl Keyspace {
    /// Begins to write a string that no key holds yet.
    ///
    /// # Errors
    /// [`Error::NoIds`].
    pub fn begin_upload(&mut self) -> Result<Upload> {
        let id = self.new_id()?;
        self.uploads.insert(id);
        self.cleaner.begin_upload(id);
        Ok(Upload { id, pieces: 0, rest: Vec::new(), losses: self.losses })
    }

    /// Writes the next bytes of a string.
    pub fn upload(&mut self, upload: &mut Upload, mut bytes: &[u8]) {
        if upload.losses != self.losses {
            return;
        }
        while !bytes.is_empty() {
            let (some, behind) = bytes.split_at(bytes.len().min(PIECE - upload.rest.len()));
            bytes = behind;
            if some.len() == PIECE {
                put_piece(&mut self.turn, upload.id, upload.pieces, some);
                upload.pieces += 1;
                continue;
            }
            upload.rest.extend_from_slice(some);
            if upload.rest.len() == PIECE {
                put_piece(&mut self.turn, upload.id, upload.pieces, &upload.rest);
                upload.pieces += 1;
                upload.rest.clear();
            }
        }
    }

    /// Gives up an upload: compactions remove its pieces.
    pub fn drop_upload(&mut self, upload: &Upload) {
        self.clear_pieces(upload.id, upload.length());
        self.uploads.remove(&upload.id);
        self.cleaner.end_uploads(&[upload.id]);
    }

    /// Deletes the pieces of a string at once by a range tombstone, if the string is long enough: see [`HUGE`].
    pub(super) fn clear_pieces(&mut self, id: u64, length: u64) {
        if length >= HUGE && self.tombstones.take(self.now) {
            // The range covers everything that belongs to the id, so that nothing lies between the tombstones of neighbours: they may share
            // a table.
            self.turn.clear(FamilyKind::Elements, (layout::exists_key(id), layout::exists_key(id + 1)));
        }
    }

    /// Whether strings are being uploaded.
    #[cfg(test)]
    pub(crate) fn has_uploads(&self) -> bool {
        !self.uploads.is_empty()
    }

    /// Sets a string to an upload, whatever the key holds. After an error the upload still has to be dropped.
    ///
    /// # Errors
    /// [`Error::Lost`] if a batch with some of its pieces failed.
    pub fn set_uploaded(&mut self, db: usize, key: &[u8], upload: &Upload, deadline: Option<u64>) -> Result<()> {
        let old = self.find(db, key)?;
        if upload.losses != self.losses {
            return Err(Error::Lost);
        }
        let count = upload.length();
        put_piece(&mut self.turn, upload.id, upload.pieces, &upload.rest);
        self.write(db, key, old.as_ref(), &Head { id: upload.id, count, ..Head::string(deadline) }, b"");
        self.uploads.remove(&upload.id);
        self.named.push(upload.id);
        Ok(())
    }

    /// A reader of the bytes `from..to` of a string that was uploaded, cut at its end.
    ///
    /// # Errors
    /// As [`Keyspace::set_uploaded`].
    pub fn upload_reader(&mut self, upload: &Upload, from: u64, to: u64) -> Result<StringReader> {
        if upload.losses != self.losses {
            return Err(Error::Lost);
        }
        put_piece(&mut self.turn, upload.id, upload.pieces, &upload.rest);
        let to = to.min(upload.length());
        Ok(self.pieces_reader(upload.id, from.min(to), to))
    }

    /// Reads a whole upload, for commands that need it whole.
    ///
    /// # Errors
    /// As [`Keyspace::set_uploaded`].
    pub fn read_upload(&mut self, upload: &Upload) -> Result<Vec<u8>> {
        let mut reader = self.upload_reader(upload, 0, u64::MAX)?;
        let length = usize::try_from(reader.left()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(length);
        reader.read(length, &mut bytes)?;
        Ok(bytes)
    }

    /// Sets a string that is long enough to lie in pieces.
    pub(super) fn set_long(&mut self, db: usize, key: &[u8], value: &[u8], deadline: Option<u64>) -> Result<()> {
        layout::check_key(key)?;
        let mut upload = self.begin_upload()?;
        self.upload(&mut upload, value);
        self.set_uploaded(db, key, &upload, deadline).inspect_err(|_| self.drop_upload(&upload))
    }

    /// Releases the ids of uploads whose key is committed: reads find the key now, so the cleaner need not hold their pieces any more.
    pub(super) fn end_committed(&mut self) {
        if !self.ending.is_empty() {
            self.turn.catch_up();
            self.cleaner.end_uploads(&self.ending);
            self.ending.clear();
        }
    }

    /// Notes that the writes of this turn are lost, perhaps with pieces of uploads. The ids of uploads that got a key in it stay held: a
    /// failed batch may yet be found in the log.
    pub(super) fn lose_uploads(&mut self) {
        self.losses += 1;
        self.named.clear();
    }

    /// Ranges of all elements of this keyspace except those of uploads.
    pub(super) fn elements_in_use(&self) -> Vec<layout::Bounds> {
        let (mut from, end) = layout::elements_of(&self.ids);
        let mut bounds = Vec::new();
        for id in &self.uploads {
            bounds.push((from, layout::exists_key(*id)));
            from = layout::exists_key(id + 1);
        }
        bounds.push((from, end));
        bounds.retain(|(from, to)| from < to);
        bounds
    }

    /// A reader of the bytes `from..to` of the string that was looked up last, cut at its end. `None`: the string is not in pieces, or the
    /// range has fewer than [`LONG`] bytes.
    pub fn string_reader(&mut self, from: u64, to: u64) -> Option<StringReader> {
        let head = self.known_string().filter(|head| head.kind == Kind::String && head.is_in_pieces())?;
        let to = to.min(head.count).min(LONGEST_STRING);
        if to.saturating_sub(from) < LONG as u64 {
            return None;
        }
        Some(self.pieces_reader(head.id, from, to))
    }

    fn pieces_reader(&self, id: u64, from: u64, to: u64) -> StringReader {
        let turn = self.turn.of_now(FamilyKind::Elements, &layout::pieces(id, from, to));
        StringReader { source: Source::Pieces(Box::new(turn), id), at: from, to }
    }

    /// A reader of the bytes `from..to` of the string whose length was asked for last, cut at its end; an empty one if there is no such
    /// key. A string that does not lie in pieces is copied.
    pub fn part_reader(&mut self, from: u64, to: u64) -> Result<StringReader> {
        match self.known_string().filter(Head::is_in_pieces) {
            Some(head) => {
                let to = to.min(head.count);
                Ok(self.pieces_reader(head.id, from.min(to), to))
            }
            None => Ok(StringReader::of(self.string_part(from, to)?.into_owned())),
        }
    }
}
