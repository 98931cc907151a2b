//! Reading a log: the good records, and how the file ended. [`survey_log`] reads in pieces and keeps none of them; [`read_log`] keeps all.

use super::frame::{RECORD_HEADER, Record, Salts, header_at, lengths};
use super::header::{self, FileHeader, MAX_EXTRA, OLDEST, VERSION};
use super::window::Window;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use sinter_storage::store::{FileId, FileKind, ReadAt, Store, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// End of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Length of the good part, bytes.
    pub good: u64,
    /// Unsynced bytes behind it that were cut; 0 for a clean end. Zeros up to the end of a log segment were written ahead of it, and are
    /// not counted.
    pub cut_bytes: u64,
    /// Records found in the cut part (valid ones behind the first damage).
    pub cut_records: u64,
    /// Largest synced watermark seen.
    pub synced: u64,
}

/// Summary of one log file, without the records themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSurvey {
    /// The database it belongs to; `None` if the (never synced) header was torn.
    pub db: Option<DbId>,
    /// The `extra` given to [`super::LogWriter::create`]; `None` if the (never synced) header was torn: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// End of the log.
    pub end: LogEnd,
    /// Good records, markers not counted.
    pub records: u64,
    /// Offset of the first good record.
    pub first_record: Option<u64>,
    /// Offset of the header's end.
    start: usize,
    /// The format version: the engine's payloads go by it, too.
    pub version: u16,
}

/// One log file, read whole. Damage below the synced watermark is `Corrupt`; above it the tail is cut and reported in `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The database it belongs to; `None` if the (never synced) header was torn.
    pub db: Option<DbId>,
    /// The `extra` given to [`super::LogWriter::create`]; `None` if the (never synced) header was torn: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// End of the log.
    pub end: LogEnd,
    /// The good part.
    bytes: Vec<u8>,
    /// Offset of the first record.
    start: usize,
    /// Format version of the records.
    version: u16,
}

impl Log {
    /// Offset and payload of each record, in order. Markers are not records.
    pub fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            loop {
                let (offset, rest) = (at, self.bytes.get(at..)?);
                let (header, len) = lengths(self.version, &header_at(rest)?)?;
                at += header + len;
                if len > 0 {
                    return Some((offset as u64, rest.get(header..header + len)?));
                }
            }
        })
    }
}

/// Reads a log file. `db`: the database it must belong to; `None` takes the header's word for it (a manifest is read before
/// anything else is known). `Corrupt` for damage below a synced watermark and for a file that belongs elsewhere.
pub fn read_log(store: &dyn Store, db: Option<DbId>, id: FileId) -> Result<Log> {
    let file = store.open(id)?;
    let len = usize::try_from(file.len()).map_err(|_| Error::corrupt(id, 0, "longer than memory"))?;
    let mut bytes = vec![0; len];
    file.read_at(0, &mut bytes)?;
    parse_log(bytes, db, id)
}

/// [`read_log`] of the content of a file.
pub fn parse_log(bytes: Vec<u8>, db: Option<DbId>, id: FileId) -> Result<Log> {
    let content = Content(bytes);
    let LogSurvey { db, extra, end, start, version, .. } = survey_file(&content, db, id)?;
    let mut bytes = content.0;
    bytes.truncate(usize::try_from(end.good).unwrap_or(usize::MAX));
    Ok(Log { db, extra, end, bytes, start, version })
}

/// Reads a log file in pieces and verifies it as [`read_log`] does, with the same errors. The memory needed is that of its largest record.
/// The open file comes along: [`walk_log`] reads it again, even if it was deleted meanwhile.
pub fn survey_log(store: &dyn Store, db: Option<DbId>, id: FileId) -> Result<(LogSurvey, Arc<dyn ReadAt>)> {
    let file = store.open(id)?;
    Ok((survey_file(&*file, db, id)?, file))
}

/// Calls `visit` with offset and payload of each record that starts before `end`, in order, of the log that `survey` is about. Each record
/// is read and verified again: one that is missing now, or has changed, is `Corrupt`. Ends with the first error of `visit`.
pub fn walk_log(
    file: &dyn ReadAt,
    survey: &LogSurvey,
    id: FileId,
    end: u64,
    mut visit: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let Some(db) = &survey.db else { return Ok(()) };
    let salts = Salts::new(db, id, survey.version);
    let mut window = Window::new(file, id)?;
    let end = usize::try_from(end.min(survey.end.good)).unwrap_or(usize::MAX);
    let mut at = survey.start;
    while at < end {
        let Some((record, payload)) = good_record(salts, &mut window, at)? else {
            return Err(Error::corrupt(id, at as u64, "a record that was good a moment ago is not any more"));
        };
        if !payload.is_empty() {
            visit(at as u64, payload)?;
        }
        at = record.end;
    }
    Ok(())
}

/// The content of a file in memory.
#[derive(Debug)]
struct Content(Vec<u8>);

impl ReadAt for Content {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> sinter_storage::store::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|from| self.0.get(from..)?.get(..buffer.len()));
        let bytes = from.ok_or_else(|| StoreError::store("read", std::io::ErrorKind::UnexpectedEof.into()))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// [`survey_log`] of a file that is open. Of a segment that is written meanwhile, the survey covers the records that were there at some
/// moment between the call and its return.
pub fn survey_file(file: &dyn ReadAt, db: Option<DbId>, id: FileId) -> Result<LogSurvey> {
    let mut window = Window::new(file, id)?;
    let head = match read_head(&mut window, db, id)? {
        Some(head) => head,
        None => {
            let survey = survey_without_header(&mut window, db, id);
            // A writer beside may have written the header since it was read.
            window = Window::new(file, id)?;
            let Some(head) = read_head(&mut window, db, id)? else { return survey };
            head
        }
    };
    let Head { start, version, db, extra } = head;
    let salts = Salts::new(&db, id, version);
    let (mut good, mut synced) = (start, 0);
    let (mut records, mut first_record) = (0, None);
    let (data, tail) = loop {
        while let Some((record, payload)) = good_record(salts, &mut window, good)? {
            if !payload.is_empty() {
                records += 1;
                first_record.get_or_insert(good as u64);
            }
            synced = synced.max(record.synced);
            good = record.end;
        }
        let data = end_of_data(&mut window, id, good)?;
        let tail = scan(salts, &mut window, good + 1..data, good)?;
        if data == good {
            break (data, tail);
        }
        // A writer beside turns zeros into records, in order. Only a place that is still no record, after the bytes behind it were seen,
        // is damage or the end.
        let mut now = Window::new(file, id)?;
        match good_record(salts, &mut now, good)?.map(|(record, _)| record.end) {
            None => break (data, tail),
            // The record is newer than the length that this survey goes by, and so is all that follows.
            Some(end) if end > window.len() => break (good, Tail::default()),
            Some(_) => window.forget(),
        }
    };
    if tail.synced as usize > good {
        let what = format!("a damaged record, although the first {} bytes had been made durable", tail.synced);
        return Err(Error::corrupt(id, good as u64, what));
    }
    let end = LogEnd {
        good: good as u64,
        cut_bytes: (data - good) as u64,
        cut_records: tail.records,
        synced: u64::from(synced.max(tail.synced)),
    };
    Ok(LogSurvey { db: Some(db), extra: Some(extra), end, records, first_record, start, version })
}

/// The header of a log file.
struct Head {
    /// Its length, bytes.
    start: usize,
    version: u16,
    db: DbId,
    extra: Vec<u8>,
}

/// Reads the header, which must be of this database, file and a known version; `None`: it is not whole.
fn read_head(window: &mut Window<'_>, db: Option<DbId>, id: FileId) -> Result<Option<Head>> {
    let most = window.len().min(header::FIXED + MAX_EXTRA);
    let Some(found) = header::decode(window.get(0, most)?.unwrap_or_default()) else { return Ok(None) };
    check_identity(&found, db, id)?;
    Ok(Some(Head { start: found.len, version: found.version, db: found.db, extra: found.extra.to_vec() }))
}

/// End of the file without the zeros that may have been written ahead; only segments have those, manifests do not.
fn end_of_data(window: &mut Window<'_>, id: FileId, from: usize) -> Result<usize> {
    if id.kind == FileKind::Log { window.end_of_data(from) } else { Ok(window.len()) }
}

/// The record at `at`, if it is whole and its checksums are right.
#[inline]
fn good_record<'w>(salts: Salts, window: &'w mut Window<'_>, at: usize) -> Result<Option<(Record, &'w [u8])>> {
    let len = window.len();
    let Some(record) = window.header(at)?.and_then(|header| salts.record(&header, at, len)) else { return Ok(None) };
    let Some(payload) = payload(window, at, &record)? else { return Ok(None) };
    Ok(salts.payload_is_good(&record, payload).then_some((record, payload)))
}

/// The payload is asked for with the header before it, so that a scan that goes on behind the header finds the window where it needs it.
fn payload<'w>(window: &'w mut Window<'_>, at: usize, record: &Record) -> Result<Option<&'w [u8]>> {
    Ok(window.get(at, record.header + record.len)?.and_then(|bytes| bytes.get(record.header..)))
}

/// The header was right when it was written, but is this the file we asked for?
fn check_identity(found: &FileHeader<'_>, db: Option<DbId>, id: FileId) -> Result<()> {
    if found.id != id || db.is_some_and(|db| db != found.db) {
        let belongs = db.map(|db| format!(" of database {db}")).unwrap_or_default();
        let what = format!("belongs to database {}, file {}; expected {id}{belongs}", found.db, found.id);
        return Err(Error::corrupt(id, 0, what));
    }
    if !(OLDEST..=VERSION).contains(&found.version) {
        let what = format!("has format version {}, this program reads {OLDEST} to {VERSION}", found.version);
        return Err(Error::corrupt(id, 0, what));
    }
    Ok(())
}

/// The first sync of a log covers its header, so any watermark at all proves that a header which is not there has been damaged.
fn survey_without_header(window: &mut Window<'_>, db: Option<DbId>, id: FileId) -> Result<LogSurvey> {
    let data = end_of_data(window, id, 0)?;
    let mut tail = Tail::default();
    for version in OLDEST..=VERSION {
        let found = scan(Salts::new(&db.unwrap_or(DbId([0; 16])), id, version), window, 0..data, 0)?;
        tail = Tail { synced: tail.synced.max(found.synced), records: tail.records + found.records };
    }
    if tail.synced > 0 {
        let what = format!("the header is damaged, although the first {} bytes had been made durable", tail.synced);
        return Err(Error::corrupt(id, 0, what));
    }
    let end = LogEnd { good: 0, cut_bytes: data as u64, cut_records: tail.records, synced: 0 };
    Ok(LogSurvey { db: None, extra: None, end, records: 0, first_record: None, start: 0, version: VERSION })
}

/// Findings behind damage.
#[derive(Default)]
struct Tail {
    synced: u32,
    records: u64,
}

/// Looks at every byte of `range` for records that begin there, at their place or moved, until one knows of durable bytes above `good`.
/// A watermark is true of the file wherever it stands. Time is linear in the file: a header check per byte that is not within
/// zeros, and payloads are read for no more than the length of the file in all, whatever lengths claim.
fn scan(salts: Salts, window: &mut Window<'_>, range: Range<usize>, good: usize) -> Result<Tail> {
    let mut tail = Tail::default();
    let len = window.len();
    let mut payload_budget = len;
    let mut at = range.start;
    while at < range.end {
        let Some(head) = window.header(at)? else { break };
        let here = at;
        at += 1;
        // Pages that did not reach the medium are zeros.
        if head == [0; RECORD_HEADER] {
            at = at.max((window.end_of_zeros(here)? + 1).saturating_sub(RECORD_HEADER));
            continue;
        }
        let Some(record) = salts.found(&head, here, len) else { continue };
        // The header of a moved record may be one by chance; the payload tells.
        let in_place = record.origin == here;
        if in_place {
            tail.synced = tail.synced.max(record.synced);
        }
        if tail.synced as usize <= good && record.len <= payload_budget {
            payload_budget -= record.len;
            let payload = payload(window, here, &record)?.unwrap_or_default();
            if salts.payload_is_good(&record, payload) {
                tail.synced = tail.synced.max(record.synced);
                tail.records += u64::from(record.len > 0);
                at = record.end;
            }
        }
        if tail.synced as usize > good {
            return Ok(tail);
        }
    }
    Ok(tail)
}
