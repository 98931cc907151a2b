//! The position of the keyspace in the replication stream: which stream, how many bytes of it, and which of them are stored (`backlog`).
//!
//! The position changes in the batch that changes the data, so data and offset agree whatever ends the process. The offset is where the
//! stored bytes end; the setting `stream` has the rest, and the offset while no byte is stored. A keyspace that takes no part in
//! replication does not have that setting, and one that no replica has asked for a stream does not have the families of stored bytes.

use super::backlog::{self, Parts};
use super::error::{Error, Result};
use super::layout::{self, FamilyKind};
use super::{DATABASES, Keyspace};
use crate::system;
use sinterdb::internal::coding::Decoder;
use std::fmt;

/// Name of the setting.
const STREAM: &[u8] = b"stream";
/// Number of streams before the second one whose ids are kept.
const EARLIER: usize = 7;
/// Byte for "no database" in the setting.
const NO_DB: u8 = u8::MAX;
/// Bits of the setting's byte of properties.
const AMID: u8 = 1;
const UNHEARD: u8 = 2;

/// Identity of a replication stream: 40 letters and digits. This server makes ids of 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId([u8; 40]);

impl StreamId {
    /// Reads an id that another server sent.
    pub fn parse(text: &[u8]) -> Option<StreamId> {
        let bytes: [u8; 40] = text.try_into().ok()?;
        bytes.iter().all(u8::is_ascii_alphanumeric).then_some(StreamId(bytes))
    }

    /// The id as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A position in a replication stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPosition {
    /// The stream.
    pub id: StreamId,
    /// Number of its bytes so far.
    pub offset: u64,
    /// The stream that this one continues, and the offset up to which both are the same.
    pub second: Option<(StreamId, u64)>,
    /// The database that is selected at this position; `None`: none is, so a `SELECT` comes next.
    pub db: Option<usize>,
}

impl StreamPosition {
    /// Position in a stream that continues no other.
    pub fn new(id: StreamId, offset: u64) -> StreamPosition {
        StreamPosition { id, offset, second: None, db: None }
    }
}

/// The position, and what else is known of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stream {
    position: Option<StreamPosition>,
    /// Streams that the second one continues, and the offsets up to which they are the same; the latest one first.
    earlier: [Option<(StreamId, u64)>; EARLIER],
    /// Division of the stored bytes.
    parts: Parts,
    /// Offset at which the last commit began.
    last: u64,
    /// The stream ends within a long string that is sent in parts: readers have the first parts under a reserved key (`feed::PARTS`).
    is_amid: bool,
    /// This server has made the id, and has told no other server of it.
    is_unheard: bool,
    /// Number of streams that have begun or ended here since the start.
    number: u64,
}

impl Stream {
    /// Whether both have the same setting, apart from the offset, which the stored bytes tell.
    fn has_setting_of(&self, other: &Stream) -> bool {
        let at_offset = |position: StreamPosition| StreamPosition { offset: 0, ..position };
        let rest = |stream: &Stream| Stream { position: stream.position.map(at_offset), last: 0, number: 0, ..*stream };
        rest(self) == rest(other)
    }

    /// `id | offset, 8 bytes | starts of the parts, 24 bytes | database or 255 | properties`, and with a second id
    /// `id | offset, 8 bytes`, followed by those before it in the same form.
    fn encode(&self) -> Option<Vec<u8>> {
        let position = self.position?;
        let mut out = position.id.0.to_vec();
        out.extend_from_slice(&position.offset.to_le_bytes());
        self.parts.encode(&mut out);
        out.push(position.db.and_then(|db| u8::try_from(db).ok()).unwrap_or(NO_DB));
        out.push((u8::from(self.is_amid) * AMID) | (u8::from(self.is_unheard) * UNHEARD));
        for (id, offset) in position.second.iter().chain(self.earlier.iter().flatten()) {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&offset.to_le_bytes());
        }
        Some(out)
    }

    fn decode(bytes: &[u8]) -> Option<Stream> {
        let mut from = Decoder::new(bytes);
        let id = StreamId::parse(from.bytes(40)?)?;
        let offset = from.u64()?;
        let parts = Parts::decode(from.bytes(24)?, offset)?;
        let (db, properties) = (from.u8()?, from.u8()?);
        let mut next = || if from.is_empty() { Some(None) } else { Some(Some((StreamId::parse(from.bytes(40)?)?, from.u64()?))) };
        let (second, mut earlier) = (next()?, [None; EARLIER]);
        for known in &mut earlier {
            *known = next()?;
        }
        let db = (db != NO_DB).then_some(usize::from(db)).filter(|db| *db < DATABASES);
        let (is_amid, is_unheard) = (properties & AMID != 0, properties & UNHEARD != 0);
        let is_valid = from.is_empty() && properties & !(AMID | UNHEARD) == 0;
        let position = StreamPosition { id, offset, second, db };
        is_valid.then_some(Stream { position: Some(position), earlier, parts, is_amid, is_unheard, ..Stream::default() })
    }
}

impl Keyspace {
    /// A new id, which no other stream has.
    pub fn new_stream_id(&mut self) -> StreamId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // If the system gives no random numbers, those of the keyspace have to do.
        let bytes = system::random_bytes(20).unwrap_or_else(|_| (0..20).map(|_| self.random().to_le_bytes()[0]).collect());
        let mut id = [0; 40];
        for (two, byte) in id.chunks_exact_mut(2).zip(bytes) {
            two.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        StreamId(id)
    }

    /// The position in the replication stream, with the bytes of this turn; `None`: the keyspace takes part in no replication.
    pub fn stream(&self) -> Option<&StreamPosition> {
        self.stream.position.as_ref()
    }

    /// Number of the stream, among those since the start: offsets of streams with different numbers have nothing to do with each other. A
    /// stream that goes on under another id keeps its number.
    pub fn stream_number(&self) -> u64 {
        self.stream.number
    }

    /// The offset up to which the stream of this id equals the one here: the end for the present id; for an earlier one the offset at which
    /// the stream went on under another id. `None`: the id is not known.
    pub fn same_until(&self, stream: &[u8]) -> Option<u64> {
        let position = self.stream.position?;
        let is = |id: &StreamId| id.as_bytes().eq_ignore_ascii_case(stream);
        if is(&position.id) {
            return Some(position.offset);
        }
        position.second.iter().chain(self.stream.earlier.iter().flatten()).find(|(id, _)| is(id)).map(|(_, end)| *end)
    }

    /// Whether the families of stored bytes exist, so that a stream begins without waiting for the medium.
    pub fn has_stream_families(&mut self) -> bool {
        let db = self.turn.engine().clone();
        self.turn.backlog_mut().find_families(&db)
    }

    /// Returns a function that creates the families of stored bytes. It waits for the medium, so a thread calls it, which ends before the
    /// keyspace is closed.
    pub fn stream_families_maker(&self) -> impl FnOnce() -> Result<()> + Send + 'static {
        let db = self.turn.engine().clone();
        move || backlog::create_families(&db)
    }

    /// Begins a stream at a position, without stored bytes, in the turn's batch.
    ///
    /// # Errors
    /// Errors of the engine, which gets the families of stored bytes with the first position, if it has none.
    pub fn begin_stream(&mut self, position: StreamPosition) -> Result<()> {
        let db = self.db().clone();
        if !self.turn.backlog_mut().find_families(&db) {
            backlog::create_families(&db)?;
            self.turn.backlog_mut().find_families(&db);
        }
        self.forget_backlog();
        let number = self.stream.number + 1;
        self.stream = Stream { position: Some(position), parts: Parts::from(position.offset), number, ..Stream::default() };
        self.put_stream();
        Ok(())
    }

    /// Ends the stream, in the turn's batch: the keyspace takes part in no replication any more.
    pub fn end_stream(&mut self) {
        if self.stream.position.is_some() {
            self.forget_backlog();
            self.stream = Stream { number: self.stream.number + 1, ..Stream::default() };
            self.put_stream();
        }
    }

    /// Goes on under another id, in the turn's batch: the old id becomes the second one, valid up to here, and stored bytes stay. Some ids
    /// before it are kept for replicas that were away for several changes. An old id that no other server has heard of is forgotten
    /// instead, and the second one stays.
    pub fn change_stream_id(&mut self, new: StreamId) {
        let Stream { position: Some(position), earlier, is_unheard, .. } = &mut self.stream else { return };
        if !std::mem::take(is_unheard)
            && let Some(before) = position.second.replace((position.id, position.offset))
        {
            earlier.rotate_right(1);
            earlier[0] = Some(before);
        }
        position.id = new;
        self.put_stream();
    }

    /// Notes, for the next batch, that this server has made the stream's id, of which no other server has heard yet.
    pub fn hide_stream_id(&mut self) {
        self.stream.is_unheard = self.stream.position.is_some();
    }

    /// Notes, in the turn's batch, that another server hears of the stream's id; false: some server has heard of it before.
    pub fn tell_stream_id(&mut self) -> bool {
        let is_first = std::mem::take(&mut self.stream.is_unheard);
        if is_first {
            self.put_stream();
        }
        is_first
    }

    /// The id and the offset by which a primary may know the stream: as in Redis the present id; or the second one, if nobody has heard of
    /// the present id and nothing has come since.
    pub fn stream_elsewhere(&self) -> Option<(StreamId, u64)> {
        let position = self.stream.position?;
        let second = position.second.filter(|(_, offset)| self.stream.is_unheard && *offset == position.offset);
        Some(second.unwrap_or((position.id, position.offset)))
    }

    /// Removes all stored bytes.
    fn forget_backlog(&mut self) {
        let Stream { position, parts, .. } = &self.committed_stream;
        self.turn.backlog_mut().begin_anew(parts, position.map_or(0, |position| position.offset));
    }

    /// Appends to the stream, in the turn's batch; `db`: the database that is selected behind the bytes.
    pub fn feed(&mut self, bytes: &[u8], db: Option<usize>) {
        let Some(position) = &mut self.stream.position else { return };
        if !bytes.is_empty() {
            self.turn.feed(self.stream.parts.last().0, position.offset, bytes);
            position.offset += bytes.len() as u64;
            position.db = db;
        }
    }

    /// Whether the stream ends amid a string that is sent in pieces.
    pub fn is_amid(&self) -> bool {
        self.stream.is_amid
    }

    /// Notes whether the stream ends amid a string that is sent in pieces.
    pub fn note_amid(&mut self, is_amid: bool) {
        self.stream.is_amid = is_amid && self.stream.position.is_some();
    }

    /// Smallest offset from which the stream can be read.
    pub fn backlog_start(&self) -> u64 {
        self.stream.parts.start()
    }

    /// Reads committed bytes of the stream behind `from`, at most `most` of them, and at least one if there are any.
    ///
    /// # Errors
    /// [`Error::Damaged`]: bytes from there are not stored (any more). Errors of the engine.
    pub fn read_backlog(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<()> {
        let end = self.committed_stream.position.map_or(0, |position| position.offset);
        let to = from.saturating_add(most as u64).min(end);
        if from >= to {
            return Ok(());
        }
        let (backlog, stream) = (self.turn.backlog(), (&self.committed_stream.parts, end));
        if from < self.committed_stream.last {
            // The committer may still be inserting the last batch. These bytes are older, so the read need not wait for it.
            return backlog.read(self.turn.engine(), stream, (from, to.min(self.committed_stream.last)), out);
        }
        backlog.read(self.turn.db(), stream, (from, to), out)
    }

    /// Begins a new part of the stored bytes, in the turn's batch, if the last one has at least `size` bytes. The oldest of three parts
    /// makes way for it, unless that has bytes behind `keep_from`, which a replica needs: then the last part grows. Does nothing in a turn
    /// that has written to the stream.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn turn_backlog(&mut self, size: u64, keep_from: u64) -> Result<()> {
        let Some(end) = self.stream.position.map(|position| position.offset) else { return Ok(()) };
        let (part, from, to) = self.stream.parts.oldest(end);
        let is_free = from == to;
        let is_due = end.saturating_sub(self.stream.parts.last().1) >= size.max(1);
        if !is_due || !is_free && to > keep_from || !self.turn.backlog().is_untouched() {
            return Ok(());
        }
        if !self.would_wait() {
            // The family of the last part gets no writes for long: what is in its memtable would keep the engine's log from being deleted.
            self.db().begin_flush()?;
        }
        if !is_free {
            self.turn.backlog_mut().clear(part, from, to);
        }
        self.stream.parts.begin(part, end);
        self.put_stream();
        Ok(())
    }

    fn put_stream(&mut self) {
        let key = layout::setting_key(STREAM);
        match self.stream.encode() {
            Some(value) => self.turn.put(FamilyKind::Keys, key, value),
            None => self.turn.delete(FamilyKind::Keys, key),
        }
    }

    /// Writes the setting if it says something new. Comes before each commit.
    pub(super) fn settle_stream(&mut self) {
        if !self.stream.has_setting_of(&self.committed_stream) {
            self.put_stream();
        }
        let end = self.stream.position.map_or(0, |position| position.offset);
        self.stream.last = self.turn.backlog().first_fresh().unwrap_or(end);
    }

    /// Reads the position at the start.
    pub(super) fn load_stream(&mut self) -> Result<()> {
        let Some(bytes) = self.setting(STREAM)? else { return Ok(()) };
        let mut stream = Stream::decode(&bytes).ok_or(Error::Damaged("the position in the replication stream"))?;
        let db = self.turn.db().clone();
        let (part, _) = stream.parts.last();
        if !self.turn.backlog_mut().find_families(&db) {
            return Err(Error::Damaged("the replication stream is missing"));
        }
        if let Some(position) = &mut stream.position
            && let Some(end) = self.turn.backlog().end(part, &db)?
        {
            if end < position.offset {
                return Err(Error::Damaged("the end of the replication stream"));
            }
            position.offset = end;
        }
        (self.stream, self.committed_stream) = (stream, stream);
        Ok(())
    }
}
