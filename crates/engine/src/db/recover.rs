//! Recovery: manifest, then the chain of log segments, into memtables; what was not synced may end early, and is reported.
//!
//! A segment is replayed only if all before it are whole: each names its predecessor and that one's length. Where the chain is broken above
//! every synced watermark, the rest was lost with the power and is cut; where a later segment proves that the lost part had been
//! synced, it is damage and an error.

use super::batch::decode_record;
use super::logs::{Chain, first_needed_log};
use super::mem::{Mem, MemWriter};
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::manifest::State;
use crate::memtable::ChunkPool;
use crate::wal::{Log, read_log};
use sinter_storage::store::{FileId, FileKind, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What recovery found in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments replayed.
    pub logs_replayed: usize,
    /// Records (groups of batches) replayed.
    pub records_replayed: u64,
    /// Unsynced bytes cut from the end of the log and of the manifest.
    pub cut_bytes: u64,
    /// Whole records among them, which came after the first damage.
    pub cut_records: u64,
}

/// Memtables filled from the log.
pub(super) struct Replayed {
    pub mems: BTreeMap<u32, MemWriter>,
    pub last_seq: Seq,
    pub report: RecoveryReport,
}

/// One segment on its way in.
struct Segment {
    number: u64,
    log: Log,
    chain: Option<Chain>,
}

pub(super) fn replay(store: &dyn Store, db: DbId, state: &State, pool: &Arc<ChunkPool>) -> Result<Replayed> {
    let mut logs: Vec<u64> = store.list()?.into_iter().filter(|(id, _)| id.kind == FileKind::Log).map(|(id, _)| id.number).collect();
    logs.sort_unstable();
    let needed = first_needed_log(state);
    if let Some(lost) = state.logs.iter().find(|n| !logs.contains(n)) {
        return Err(Error::corrupt(FileId::log(*lost), 0, "the log segment is missing"));
    }
    let mut replayed = Replayed { mems: BTreeMap::new(), last_seq: state.last_seq, report: RecoveryReport::default() };
    for id in state.families.keys() {
        let mem = Mem::new(pool, 0, 0);
        replayed.mems.insert(*id, MemWriter::new(mem));
    }
    let segments = read_segments(store, db, logs.iter().copied().filter(|n| *n >= needed))?;
    for (number, length) in &state.log_lengths {
        let good = segments.iter().find(|s| s.number == *number).map_or(0, |s| s.log.end.good);
        if good < *length {
            let what = format!("the log segment ends early: the database was closed with {length} bytes in it");
            return Err(Error::corrupt(FileId::log(*number), good, what));
        }
    }
    let usable = check_chain(&segments, needed, &mut replayed.report)?;
    for (at, segment) in segments.iter().enumerate().take(usable) {
        // A successor knows how long this one was when it ended: what stands behind was never acknowledged.
        let end = successor(&segments, at).map_or(u64::MAX, |(_, chain)| chain.previous_len);
        replay_segment(segment, end, state, &mut replayed)?;
    }
    Ok(replayed)
}

fn read_segments(store: &dyn Store, db: DbId, numbers: impl Iterator<Item = u64>) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for number in numbers {
        let id = FileId::log(number);
        let log = read_log(store, Some(db), id)?;
        let chain = match &log.extra {
            None => None,
            Some(extra) => Some(Chain::decode(extra).ok_or_else(|| Error::corrupt(id, 0, "the header's chain cannot be read"))?),
        };
        segments.push(Segment { number, log, chain });
    }
    Ok(segments)
}

/// The segment that continues segment `at`, and what it says of it.
fn successor(segments: &[Segment], at: usize) -> Option<(usize, Chain)> {
    let number = segments[at].number;
    let later = segments.iter().enumerate().skip(at + 1);
    later.filter_map(|(i, s)| Some((i, s.chain?))).find(|(_, chain)| chain.previous == number)
}

/// How many segments, from the oldest, may be replayed. Empty ones that a failed creation left behind are passed over.
fn check_chain(segments: &[Segment], needed: u64, report: &mut RecoveryReport) -> Result<usize> {
    let mut expected: Option<(u64, u64)> = None;
    for (at, segment) in segments.iter().enumerate() {
        let Some(chain) = segment.chain else {
            report.cut_bytes += segment.log.end.cut_bytes;
            report.cut_records += segment.log.end.cut_records;
            continue;
        };
        let is_empty = segment.log.records().next().is_none();
        if is_empty && successor(segments, at).is_none() && segments[at + 1..].iter().any(|s| s.chain.is_some()) {
            // Its creation was reported as failed, and so was its deletion: nothing was ever written to it, and nothing continues it.
            continue;
        }
        let whole = match expected {
            // The first one: its predecessor must not be needed.
            None => chain.previous < needed,
            Some((number, good)) => chain.previous == number && good >= chain.previous_len,
        };
        if !whole {
            return broken_chain(segments, at, chain, report);
        }
        expected = Some((segment.number, segment.log.end.good));
    }
    if let Some(last) = segments.iter().rev().find(|s| s.chain.is_some()) {
        report.cut_bytes += last.log.end.cut_bytes;
        report.cut_records += last.log.end.cut_records;
    }
    Ok(segments.len())
}

/// Segment `at` does not continue what is there. If anything from it on was synced, the missing part had been synced too: damage.
fn broken_chain(segments: &[Segment], at: usize, chain: Chain, report: &mut RecoveryReport) -> Result<usize> {
    let synced = |s: &Segment| s.log.records().next().is_some_and(|(offset, _)| s.log.end.synced > offset);
    if segments[at..].iter().any(synced) {
        let what = format!("the log is cut before byte {} although later segments were synced", chain.previous_len);
        return Err(Error::corrupt(FileId::log(chain.previous), chain.previous_len, what));
    }
    for segment in &segments[at..] {
        report.cut_bytes += segment.log.end.good + segment.log.end.cut_bytes;
        report.cut_records += segment.log.records().count() as u64 + segment.log.end.cut_records;
    }
    if let Some(last) = segments[..at].iter().rev().find(|s| s.chain.is_some()) {
        report.cut_bytes += last.log.end.cut_bytes;
        report.cut_records += last.log.end.cut_records;
    }
    Ok(at)
}

fn replay_segment(segment: &Segment, end: u64, state: &State, replayed: &mut Replayed) -> Result<()> {
    let id = FileId::log(segment.number);
    replayed.report.logs_replayed += 1;
    for (offset, payload) in segment.log.records().take_while(|(offset, _)| *offset < end) {
        let bad = || Error::corrupt(id, offset, "the record is valid but its contents cannot be read");
        let (first, count, operations) = decode_record(payload).ok_or_else(bad)?;
        if segment.chain.is_some_and(|chain| first < chain.first) {
            return Err(Error::corrupt(id, offset, "the record has a number that was used before this segment began"));
        }
        let mut seq = first;
        for operation in operations {
            let operation = operation.map_err(|()| bad())?;
            let wanted = state.families.get(&operation.family).is_some_and(|f| segment.number >= f.flushed_log);
            if wanted && let Some(writer) = replayed.mems.get_mut(&operation.family) {
                writer.insert(operation.key, seq, operation.kind, operation.value);
            }
            seq += 1;
        }
        if seq - first != count {
            return Err(bad());
        }
        replayed.last_seq = replayed.last_seq.max(seq.saturating_sub(1));
        replayed.report.records_replayed += 1;
    }
    Ok(())
}
