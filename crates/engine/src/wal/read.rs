//! Reading a log: the good records, and how the file ended. [`survey_log`] reads in pieces and keeps none of them; [`read_log`] keeps all.

use super::frame::{RECORD_HEADER, Record, Salts, header_at, lengths};
use super::header::{self, FileHeader, MAX_EXTRA, OLDEST, VERSION};
use super::window::LogWindow;
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
    /// The database that the log belongs to; `None` if the header was torn and never synced.
    pub db: Option<DbId>,
    /// The `extra` given to [`super::LogWriter::create`]; `None` if the header was torn and never synced: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// End of the log.
    pub end: LogEnd,
    /// Good records, without markers.
    pub records: u64,
    /// Offset of the first good record.
    pub first_record: Option<u64>,
    /// Offset of the header's end.
    start: usize,
    /// The format version, of record headers and of the engine's payloads.
    pub version: u16,
}

/// One log file, read whole. Damage below the synced watermark is `Corrupt`; above it the tail is cut and reported in `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The database that the log belongs to; `None` if the header was torn and never synced.
    pub db: Option<DbId>,
    /// The `extra` given to [`super::LogWriter::create`]; `None` if the header was torn and never synced: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// End of the log.
    pub end: LogEnd,
    /// The good part of the file.
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
    let len = usize::try_from(file.len()).map_err(|_| Error::corrupt(id, 0, "the file is longer than can be addressed"))?;
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
    let mut window = LogWindow::new(file, id)?;
    let end = usize::try_from(end.min(survey.end.good)).unwrap_or(usize::MAX);
    let mut at = survey.start;
    while at < end {
        let Some((record, payload)) = good_record(salts, &mut window, at)? else {
            return Err(Error::corrupt(id, at as u64, "a record that was valid in the survey is damaged or missing now"));
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

/// [`survey_log`] of an open file. If another process appends to the segment, the survey covers the records that were in the file at some
/// moment between the call and its return.
pub fn survey_file(file: &dyn ReadAt, db: Option<DbId>, id: FileId) -> Result<LogSurvey> {
    let mut window = LogWindow::new(file, id)?;
    let head = match read_head(&mut window, db, id)? {
        Some(head) => head,
        None => {
            let survey = survey_without_header(&mut window, db, id);
            // Another process may have written the header since it was read.
            window = LogWindow::new(file, id)?;
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
        // Another process may turn zeros into records, in order. So the offset `good` is damage or the end only if it is still no record
        // after the bytes behind it have been read.
        let mut now = LogWindow::new(file, id)?;
        match good_record(salts, &mut now, good)?.map(|(record, _)| record.end) {
            None => break (data, tail),
            // The record was appended after this survey took the length of the file; it ends the survey.
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
    /// Length of the header, bytes.
    start: usize,
    version: u16,
    db: DbId,
    extra: Vec<u8>,
}

/// Reads the file's header. `None`: the header is not whole. An error if it is of another database or file, or of an unknown version.
fn read_head(window: &mut LogWindow<'_>, db: Option<DbId>, id: FileId) -> Result<Option<Head>> {
    let most = window.len().min(header::FIXED + MAX_EXTRA);
    let Some(found) = header::decode(window.get(0, most)?.unwrap_or_default()) else { return Ok(None) };
    check_identity(&found, db, id)?;
    Ok(Some(Head { start: found.len, version: found.version, db: found.db, extra: found.extra.to_vec() }))
}

/// End of the file without zeros that may have been written ahead; manifests have no such zeros.
fn end_of_data(window: &mut LogWindow<'_>, id: FileId, from: usize) -> Result<usize> {
    if id.kind == FileKind::Log { window.end_of_data(from) } else { Ok(window.len()) }
}

/// The record at `at`, if it is whole and its checksums are right.
#[inline]
fn good_record<'w>(salts: Salts, window: &'w mut LogWindow<'_>, at: usize) -> Result<Option<(Record, &'w [u8])>> {
    let len = window.len();
    let Some(record) = window.header(at)?.and_then(|header| salts.record(&header, at, len)) else { return Ok(None) };
    let Some(payload) = payload(window, at, &record)? else { return Ok(None) };
    Ok(salts.payload_is_good(&record, payload).then_some((record, payload)))
}

/// The payload of the record at `at`. Reads header and payload together, so that a scan that goes on just behind the header finds the bytes
/// in the window.
fn payload<'w>(window: &'w mut LogWindow<'_>, at: usize, record: &Record) -> Result<Option<&'w [u8]>> {
    Ok(window.get(at, record.header + record.len)?.and_then(|bytes| bytes.get(record.header..)))
}

/// Checks that a valid header belongs to this database and file, and has a version that this program reads.
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

/// Surveys a log without a whole header. The first sync of a log covers its header, so any watermark in the file proves that the header was
/// damaged; without one, the whole file is a torn end.
fn survey_without_header(window: &mut LogWindow<'_>, db: Option<DbId>, id: FileId) -> Result<LogSurvey> {
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

/// Findings of a scan behind damage.
#[derive(Default)]
struct Tail {
    synced: u32,
    records: u64,
}

/// Searches every byte of `range` for the start of a record, in place or moved, until a watermark above `good` is found. The watermark of a
/// moved record counts, too, because it speaks of the file. Time is linear in the file: one header check per byte outside of zeros, and
/// payload checks for at most the length of the file in all.
fn scan(salts: Salts, window: &mut LogWindow<'_>, range: Range<usize>, good: usize) -> Result<Tail> {
    let mut tail = Tail::default();
    let len = window.len();
    let mut payload_budget = len;
    let mut at = range.start;
    while at < range.end {
        let Some(head) = window.header(at)? else { break };
        let here = at;
        at += 1;
        // Pages that did not reach the medium read as zeros: skips them at once.
        if head == [0; RECORD_HEADER] {
            at = at.max((window.end_of_zeros(here)? + 1).saturating_sub(RECORD_HEADER));
            continue;
        }
        let Some(record) = salts.found(&head, here, len) else { continue };
        // Random bytes may pass for the header of a moved record, so only its payload's checksum makes its watermark count.
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
