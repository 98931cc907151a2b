//! Replays the chain of log segments into memtables. A crash may have taken the unsynced end of the log: that is cut and reported.
//!
//! A segment is replayed only if all earlier ones are whole: each header names the segment before it and the length of that one. Where
//! the chain is broken and nothing behind the break was synced, a power cut took the rest, which is cut. Where a later segment was synced,
//! the missing part had been synced, too: damage, and an error. A segment shorter than the synced length in the manifest or in the next
//! segment's header is damage as well.
//!
//! The log is read twice, in pieces, so that it may be longer than memory. [`survey`] checks all of it and changes nothing: damage
//! anywhere is found before any record is used. [`Survey::replay`] fills memtables and hands over each one that is full.

use super::batch::Operation;
use super::logs::Chain;
use super::mem::{Mem, MemWriter, behind_tables};
use super::records::Records;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::key::{Kind, Seq};
use crate::manifest::ManifestState;
use crate::memtable::ChunkPool;
use crate::wal::{LogEnd, LogSurvey, survey_file, walk_log};
use sinter_storage::store::{FileId, FileKind, ReadAt, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Replayed and cut parts of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Segments replayed.
    pub logs_replayed: usize,
    /// Records (groups of batches) replayed.
    pub records_replayed: u64,
    /// Unsynced bytes cut from the end of the log and of the manifest.
    pub cut_bytes: u64,
    /// Whole records among the cut bytes, which came after the first damage.
    pub cut_records: u64,
    /// Cut parts, file by file.
    pub cuts: Vec<Cut>,
}

/// The end of a file that recovery does not use; an open for writing deletes it together with the file. A crash leaves such an end: writes
/// that were not synced. Damage is mistaken for it only if nothing that survived says that the damaged bytes had been synced.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// The file's name.
    pub file: String,
    /// Offset at which the cut part begins, bytes.
    pub offset: u64,
    /// Length of the cut part, bytes; 0 for an empty file.
    pub bytes: u64,
    /// Whole records in the cut part.
    pub records: u64,
}

impl RecoveryReport {
    /// Adds the cut end of a file to the report; `end.good` is 0 if not even the header is good.
    pub(super) fn cut(&mut self, id: FileId, end: &LogEnd) {
        self.cut_bytes += end.cut_bytes;
        self.cut_records += end.cut_records;
        if end.cut_bytes > 0 || end.good == 0 {
            self.cuts.push(Cut { file: id.to_string(), offset: end.good, bytes: end.cut_bytes, records: end.cut_records });
        }
    }
}

/// The log as it will be replayed.
pub(super) struct Survey {
    segments: Vec<Segment>,
    /// Number of segments to be replayed, from the oldest on.
    usable: usize,
    pub report: RecoveryReport,
}

/// One segment.
struct Segment {
    number: u64,
    log: LogSurvey,
    chain: Option<Chain>,
    /// Kept open: while a read-only handle reads, the process that writes the database may delete the file.
    file: Arc<dyn ReadAt>,
}

/// Opens the log segments that a family may need, oldest first.
pub(super) fn open_log(store: &dyn Store, state: &ManifestState) -> Result<Vec<(u64, Arc<dyn ReadAt>)>> {
    let mut logs: Vec<u64> = store.list()?.into_iter().filter(|(id, _)| id.kind == FileKind::Log).map(|(id, _)| id.number).collect();
    logs.sort_unstable();
    let needed = state.needed_log();
    if let Some(lost) = state.logs.iter().find(|n| !logs.contains(n)) {
        return Err(Error::corrupt(FileId::log(*lost), 0, "the log segment is missing"));
    }
    logs.into_iter().filter(|number| *number >= needed).map(|number| Ok((number, store.open(FileId::log(number))?))).collect()
}

/// Reads and checks the whole log, and decides which segments will be replayed.
pub(super) fn survey(log: Vec<(u64, Arc<dyn ReadAt>)>, state: &ManifestState) -> Result<Survey> {
    let segments = survey_segments(state.db, log)?;
    check_lengths(&segments, state)?;
    let mut report = RecoveryReport::default();
    let usable = check_chain(&segments, state.needed_log(), &mut report)?;
    Ok(Survey { segments, usable, report })
}

/// Checks that each segment has at least the synced length that the manifest or the next segment's header gives.
fn check_lengths(segments: &[Segment], state: &ManifestState) -> Result<()> {
    let by_manifest = state.log_lengths.iter().map(|(number, length)| (*number, *length));
    let chains = segments.iter().filter_map(|s| s.chain).filter(|chain| chain.previous >= state.needed_log());
    for (number, length) in by_manifest.chain(chains.map(|chain| (chain.previous, chain.previous_synced))) {
        let good = segments.iter().find(|s| s.number == number).map_or(0, |s| s.log.end.good);
        if good < length {
            let what = format!("the log segment ends early: {length} bytes of it had been made durable");
            return Err(Error::corrupt(FileId::log(number), good, what));
        }
    }
    Ok(())
}

fn survey_segments(db: DbId, files: Vec<(u64, Arc<dyn ReadAt>)>) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for (number, file) in files {
        let id = FileId::log(number);
        let log = survey_file(&*file, Some(db), id)?;
        let chain = match &log.extra {
            None => None,
            Some(extra) => Some(Chain::decode(extra).ok_or_else(|| Error::corrupt(id, 0, "the header's content cannot be read"))?),
        };
        segments.push(Segment { number, log, chain, file });
    }
    Ok(segments)
}

/// The later segment whose header names segment `at` as the one before it, with that header.
fn successor(segments: &[Segment], at: usize) -> Option<(usize, Chain)> {
    let number = segments[at].number;
    let later = segments.iter().enumerate().skip(at + 1);
    later.filter_map(|(i, s)| Some((i, s.chain?))).find(|(_, chain)| chain.previous == number)
}

/// Returns how many segments, from the oldest on, may be replayed. Skips empty segments that a failed creation left behind.
fn check_chain(segments: &[Segment], needed: u64, report: &mut RecoveryReport) -> Result<usize> {
    let mut expected: Option<(u64, u64)> = None;
    for (at, segment) in segments.iter().enumerate() {
        let Some(chain) = segment.chain else {
            report.cut(FileId::log(segment.number), &segment.log.end);
            continue;
        };
        let is_empty = segment.log.records == 0;
        if is_empty && successor(segments, at).is_none() && segments[at + 1..].iter().any(|s| s.chain.is_some()) {
            // The creation of this segment failed, and so did its deletion: nothing was written to it, and no segment continues it.
            continue;
        }
        let whole = match expected {
            // The first segment: no family may need the one before it.
            None => chain.previous < needed,
            Some((number, good)) => chain.previous == number && good >= chain.previous_len,
        };
        if !whole {
            return broken_chain(segments, at, chain, report);
        }
        expected = Some((segment.number, segment.log.end.good));
    }
    if let Some(last) = segments.iter().rev().find(|s| s.chain.is_some()) {
        report.cut(FileId::log(last.number), &last.log.end);
    }
    Ok(segments.len())
}

/// Handles segment `at`, which does not continue the ones before it. If a record of it or of a later segment was synced, the missing part
/// had been synced too: damage. Otherwise cuts the log before it.
fn broken_chain(segments: &[Segment], at: usize, chain: Chain, report: &mut RecoveryReport) -> Result<usize> {
    let synced = |s: &Segment| s.log.first_record.is_some_and(|offset| s.log.end.synced > offset);
    if segments[at..].iter().any(synced) {
        let what = format!("the log is cut before byte {} although later segments were synced", chain.previous_len);
        return Err(Error::corrupt(FileId::log(chain.previous), chain.previous_len, what));
    }
    if let Some(last) = segments[..at].iter().rev().find(|s| s.chain.is_some()) {
        report.cut(FileId::log(last.number), &last.log.end);
    }
    for Segment { number, log: LogSurvey { end, records, .. }, .. } in &segments[at..] {
        let (cut_bytes, cut_records) = (end.good + end.cut_bytes, records + end.cut_records);
        report.cut(FileId::log(*number), &LogEnd { good: 0, cut_bytes, cut_records, synced: 0 });
    }
    Ok(at)
}

impl Survey {
    /// Replays the log into memtables of the families of `state`. Hands over each full memtable, and at the end the others, with the newest
    /// sequence number so far. Returns the newest sequence number. Nothing is durable yet: the caller publishes all of it, or none.
    pub fn replay(
        &mut self,
        state: &ManifestState,
        limits: ReplayLimits<'_>,
        hand_over: &mut dyn FnMut(u32, Arc<Mem>, Seq) -> Result<()>,
    ) -> Result<Seq> {
        let (mems, behind) = (BTreeMap::new(), BTreeMap::new());
        let mut replay = Replay { state, limits, mems, behind, held: 0, last_seq: state.last_seq, hand_over };
        for (at, segment) in self.segments.iter().enumerate().take(self.usable) {
            // The next segment's header has the final length of this one: records behind that were never acknowledged.
            let end = successor(&self.segments, at).map_or(u64::MAX, |(_, chain)| chain.previous_len);
            self.report.logs_replayed += 1;
            self.report.records_replayed += replay.segment(segment, end)?;
        }
        while let Some((family, writer)) = replay.mems.pop_first() {
            (replay.hand_over)(family, writer.mem, replay.last_seq)?;
        }
        Ok(replay.last_seq)
    }
}

/// Memory that a replay may take.
pub(super) struct ReplayLimits<'a> {
    pub pool: &'a Arc<ChunkPool>,
    /// Bytes at which a family's memtable is full.
    pub family: &'a dyn Fn(u32) -> usize,
    /// Bytes at which all memtables together are too large; then the largest counts as full.
    pub total: usize,
}

/// A replay under way.
struct Replay<'a> {
    state: &'a ManifestState,
    limits: ReplayLimits<'a>,
    /// The memtable being filled, by family; none for a family without data.
    mems: BTreeMap<u32, MemWriter>,
    /// The first key behind all memtables handed over so far, by family.
    behind: BTreeMap<u32, Vec<u8>>,
    /// Bytes of the memtables.
    held: usize,
    last_seq: Seq,
    hand_over: &'a mut dyn FnMut(u32, Arc<Mem>, Seq) -> Result<()>,
}

impl Replay<'_> {
    /// Replays the records that start before offset `end`. Returns their number.
    fn segment(&mut self, segment: &Segment, end: u64) -> Result<u64> {
        let id = FileId::log(segment.number);
        let mut records = 0;
        let mut payloads = Records::new(segment.log.version, segment.chain.map_or(0, |chain| chain.first));
        walk_log(&*segment.file, &segment.log, id, end, |offset, payload| {
            let bad = || Error::corrupt(id, offset, "the record is valid but its contents cannot be read");
            let least = payloads.next();
            let (first, count, operations) = payloads.read(payload).ok_or_else(bad)?;
            if first < least {
                return Err(Error::corrupt(id, offset, "the record has a sequence number that was used before"));
            }
            let mut seq = first;
            for operation in operations {
                let operation = operation.map_err(|()| bad())?;
                if self.state.families.get(&operation.family).is_some_and(|f| segment.number >= f.flushed_log) {
                    self.insert(&operation, seq)?;
                }
                seq += 1;
            }
            if seq - first != count {
                return Err(bad());
            }
            self.last_seq = self.last_seq.max(seq.saturating_sub(1));
            records += 1;
            Ok(())
        })?;
        Ok(records)
    }

    fn insert(&mut self, operation: &Operation<'_>, seq: Seq) -> Result<()> {
        let family = operation.family;
        let pool = self.limits.pool;
        let writer = self.mems.entry(family).or_insert_with(|| MemWriter::new(Mem::new(pool, 0, 0)));
        let before = writer.mem.memory();
        if operation.kind == Kind::RangeDeleteFrom {
            let tree = self.state.families.get(&family).map_or_else(Vec::new, |family| behind_tables(&family.version));
            let end = [writer.mem.behind_points(), self.behind.get(&family).cloned().unwrap_or_default()].into_iter().fold(tree, Vec::max);
            writer.insert(operation.key, seq, Kind::RangeDelete, &end);
        } else {
            writer.insert(operation.key, seq, operation.kind, operation.value);
        }
        let after = writer.mem.memory();
        self.held += after - before;
        self.last_seq = self.last_seq.max(seq);
        if after >= (self.limits.family)(family) {
            return self.full(family);
        }
        if self.held < self.limits.total {
            return Ok(());
        }
        let largest = self.mems.iter().max_by_key(|(_, writer)| writer.mem.memory()).map(|(family, _)| *family);
        largest.map_or(Ok(()), |family| self.full(family))
    }

    /// Hands a memtable over.
    fn full(&mut self, family: u32) -> Result<()> {
        let Some(writer) = self.mems.remove(&family) else { return Ok(()) };
        self.held -= writer.mem.memory();
        let behind = self.behind.entry(family).or_default();
        *behind = writer.mem.behind_points().max(std::mem::take(behind));
        (self.hand_over)(family, writer.mem, self.last_seq)
    }
}
