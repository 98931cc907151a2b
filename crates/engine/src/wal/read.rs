//! Reading a log whole: the good records, and how the file ended.

use super::frame::{RECORD_HEADER, Salts};
use super::header::{self, FileHeader, VERSION};
use crate::checksum::DbId;
use crate::error::{Error, Result};
use sinter_storage::store::{FileId, Store};

/// How a log ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Length of the good part, bytes.
    pub good: u64,
    /// Unsynced bytes behind it that were cut; 0 for a clean end.
    pub cut_bytes: u64,
    /// Records found in the cut part (valid ones behind the first damage).
    pub cut_records: u64,
    /// Largest synced watermark seen.
    pub synced: u64,
}

/// One log file, read whole. Damage below the synced watermark is `Corrupt`; above it the tail is cut and reported in `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The database it belongs to; `None` if the (never synced) header was torn.
    pub db: Option<DbId>,
    /// What [`super::LogWriter::create`] was given; `None` if the (never synced) header was torn: then there are no records.
    pub extra: Option<Vec<u8>>,
    /// How it ended.
    pub end: LogEnd,
    /// The good part.
    bytes: Vec<u8>,
    /// Where the first record starts.
    start: usize,
}

impl Log {
    /// Offset and payload of each record, in order. Markers are not records.
    pub fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            loop {
                let offset = at;
                let (header, rest) = self.bytes.get(at..)?.split_first_chunk::<RECORD_HEADER>()?;
                let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
                at += RECORD_HEADER + len;
                if len > 0 {
                    return Some((offset as u64, rest.get(..len)?));
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
pub fn parse_log(mut bytes: Vec<u8>, db: Option<DbId>, id: FileId) -> Result<Log> {
    let Some(found) = header::decode(&bytes) else { return parse_without_header(&bytes, db, id) };
    check_identity(&found, db, id)?;
    let (start, db, extra) = (found.len, found.db, found.extra.to_vec());
    let salts = Salts::new(&db, id);
    let mut good = start;
    let mut synced = 0;
    while let Some(record) = salts.record(&bytes, good)
        && salts.payload_is_good(good, &record)
    {
        synced = synced.max(record.synced);
        good = record.end;
    }
    let tail = scan(salts, &bytes, good + 1, good);
    if tail.synced as usize > good {
        let what = format!("a damaged record, although the first {} bytes had been made durable", tail.synced);
        return Err(Error::corrupt(id, good as u64, what));
    }
    let end = LogEnd {
        good: good as u64,
        cut_bytes: (bytes.len() - good) as u64,
        cut_records: tail.records,
        synced: u64::from(synced.max(tail.synced)),
    };
    bytes.truncate(good);
    Ok(Log { db: Some(db), extra: Some(extra), end, bytes, start })
}

/// The header was right when it was written, but is this the file we asked for?
fn check_identity(found: &FileHeader<'_>, db: Option<DbId>, id: FileId) -> Result<()> {
    if found.id != id || db.is_some_and(|db| db != found.db) {
        let belongs = db.map(|db| format!(" of database {db}")).unwrap_or_default();
        let what = format!("belongs to database {}, file {}; expected {id}{belongs}", found.db, found.id);
        return Err(Error::corrupt(id, 0, what));
    }
    if found.version != VERSION {
        let what = format!("has format version {}, this program reads {VERSION}", found.version);
        return Err(Error::corrupt(id, 0, what));
    }
    Ok(())
}

/// The first sync of a log covers its header, so any watermark at all proves that a header which is not there has been damaged.
fn parse_without_header(bytes: &[u8], db: Option<DbId>, id: FileId) -> Result<Log> {
    let tail = scan(Salts::new(&db.unwrap_or(DbId([0; 16])), id), bytes, 0, 0);
    if tail.synced > 0 {
        let what = format!("the header is damaged, although the first {} bytes had been made durable", tail.synced);
        return Err(Error::corrupt(id, 0, what));
    }
    let end = LogEnd { good: 0, cut_bytes: bytes.len() as u64, cut_records: tail.records, synced: 0 };
    Ok(Log { db: None, extra: None, end, bytes: Vec::new(), start: 0 })
}

/// What lies behind damage.
struct Tail {
    synced: u32,
    records: u64,
}

/// Looks at every byte from `from` on for records, until one knows of durable bytes above `good`. Time is linear in the file: a
/// header check per byte, and payloads are read for no more than the length of the file in all, whatever lengths claim.
fn scan(salts: Salts, bytes: &[u8], from: usize, good: usize) -> Tail {
    let mut tail = Tail { synced: 0, records: 0 };
    let mut payload_budget = bytes.len();
    let mut at = from;
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<RECORD_HEADER>()) {
        let here = at;
        at += 1;
        // Zeros are the commonest tail: filesystems extend files before the data arrives.
        if u128::from_le_bytes(*head) == 0 {
            continue;
        }
        let Some(record) = salts.record(bytes, here) else { continue };
        tail.synced = tail.synced.max(record.synced);
        if tail.synced as usize > good {
            return tail;
        }
        if record.payload.len() <= payload_budget {
            payload_budget -= record.payload.len();
            if salts.payload_is_good(here, &record) {
                tail.records += u64::from(!record.payload.is_empty());
                at = record.end;
            }
        }
    }
    tail
}
