//! Log segments: started at each memtable switch, synced in order, deleted when no memtable needs them.
//!
//! The header of a segment names the segment before it, the final length of that one, and how much of it was synced. Recovery follows
//! this chain and replays a segment only if all earlier ones are whole, so a lost tail never leaves a hole in the middle of the writes. The
//! manifest stores synced lengths, too: of the active segment when its first sync is acknowledged, of retired segments with each change of
//! the tree, and of all segments when the database is closed.

use super::insert::WriteState;
use super::{Inner, Shared};
use crate::coding::{Decoder, put_varint};
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::ledger::Ledger;
use crate::manifest::{Edit, ManifestState};
use crate::wal::LogWriter;
use parking_lot::{Mutex, MutexGuard};
use sinter_storage::store::{Cause, FileId, Hint, Lifetime, StoreError, Temperature};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The content of a segment's header: its link to the segment before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    /// Number of the segment before this one; 0 for the first segment after an open.
    pub previous: u64,
    /// Length of that segment up to the end of its last record, bytes.
    pub previous_len: u64,
    /// Part of that length known to be durable, bytes.
    pub previous_synced: u64,
    /// Smallest sequence number that a write in this segment can have.
    pub first: Seq,
}

impl Chain {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        [self.previous, self.previous_len, self.first, self.previous_synced].into_iter().for_each(|n| put_varint(&mut out, n));
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(bytes);
        let (previous, previous_len, first) = (from.varint()?, from.varint()?, from.varint()?);
        // The header of a version 1 log ends here.
        let previous_synced = if from.is_empty() { 0 } else { from.varint()? };
        from.is_empty().then_some(Chain { previous, previous_len, previous_synced, first })
    }
}

/// Upper bound of the bytes that the header of a segment and the head of one record take.
const SEGMENT_START: u64 = 512;

/// A segment that is no longer written to but still needed.
pub(super) struct Retired {
    number: u64,
    /// Bytes appended to the segment, markers included; without the zeros that were written ahead.
    bytes: u64,
    /// Length of the valid part: up to the end of the last acknowledged record.
    good: u64,
    /// The writer, as long as the segment is not synced.
    unsynced: Option<LogWriter>,
    /// A thread is syncing the segment, so its file must not be deleted.
    syncing: bool,
}

/// The segments of a database's log. The writer of the active one is with the leader of the write queue ([`WriteState`]).
pub(super) struct Logs {
    /// The ledger's count of bytes in records.
    written: Arc<AtomicU64>,
    /// Segments before the active one.
    retired: Mutex<Vec<Retired>>,
    /// The turn to sync retired segments or the active one; segment and length up to which syncs beside writers have come.
    pub turn: Mutex<(u64, u64)>,
    /// Number of the active segment.
    active: AtomicU64,
    /// Segments up to this number are known to the manifest.
    activated: AtomicU64,
    /// Bytes of all segments.
    bytes: AtomicU64,
    /// Memtables may hold writes that are not in the log.
    pub unlogged: AtomicBool,
}

impl Logs {
    pub fn new(ledger: &Ledger) -> Logs {
        Logs {
            written: ledger.counter(None, Cause::Wal, Temperature::Unknown),
            retired: Mutex::default(),
            turn: Mutex::default(),
            active: AtomicU64::new(0),
            activated: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unlogged: AtomicBool::new(false),
        }
    }

    /// Number of the active segment.
    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Acquire)
    }

    /// Whether the manifest knows a segment.
    pub fn is_activated(&self, number: u64) -> bool {
        self.activated.load(Ordering::Acquire) >= number
    }

    /// Bytes of all segments.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes bytes that a record took.
    #[inline]
    pub fn note_record(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends a segment, of which `bytes` were appended and `good` count.
    fn retire(&self, number: u64, bytes: u64, good: u64, writer: LogWriter) {
        self.retired.lock().push(Retired { number, bytes, good, unsynced: Some(writer), syncing: false });
    }

    /// Numbers and lengths of the synced segments before the active one.
    pub fn synced(&self) -> Vec<(u64, u64)> {
        let retired = self.retired.lock();
        retired.iter().filter(|log| log.unsynced.is_none() && !log.syncing).map(|log| (log.number, log.good)).collect()
    }
}

impl Inner {
    pub(super) fn log_hint() -> Hint {
        Hint { lifetime: Lifetime::Short, ..Hint::new(Cause::Wal) }
    }

    /// Starts a new segment and retires the active one. After an error the active segment stays in use, unless the file of the new one
    /// could not be deleted. With `bytes` > 0, the size of a waiting record, fails without creating a file if header and record exceed the
    /// free bytes, so that refused writes use up no file numbers. With 0 it tries anyway: a medium may have more space than it reports.
    pub(super) fn start_log(&self, state: &mut WriteState, bytes: u64) -> Result<()> {
        let needed = bytes.saturating_add(SEGMENT_START);
        let free = if bytes > 0 { self.media.primary().free_bytes()? } else { None };
        if let Some(free) = free.filter(|free| *free < needed) {
            let what = format!("a segment with the next record takes {needed} bytes, {free} are free");
            return Err(StoreError::store("start a log segment", io::Error::new(io::ErrorKind::StorageFull, what)).into());
        }
        let (previous, previous_len, previous_synced) = match &state.log {
            Some(log) => (log.id().number, log.records_len(), log.synced()),
            None => state.broken_log.map_or((0, 0, 0), |(number, good)| (number, good, 0)),
        };
        let id = FileId::log(self.new_number());
        let chain = Chain { previous, previous_len, previous_synced, first: state.last_seq + 1 };
        let log = match LogWriter::create(&*self.store, self.db, id, &Self::log_hint(), &chain.encode()) {
            Ok(log) => log,
            Err(error) => {
                // The new file may contain a whole header, and if it cannot be deleted, recovery would find it and take the active segment
                // to end where that header says. So nothing more may be appended to the active segment.
                if !self.store.delete(id).is_err_and(|error| error.is_not_found()) {
                    self.retire_log(state, previous_len);
                }
                return Err(error);
            }
        };
        self.ledger.record(None, Cause::Wal, log.len());
        self.logs.bytes.fetch_add(log.len(), Ordering::Relaxed);
        self.logs.active.store(id.number, Ordering::Release);
        if let Some(old) = state.log.replace(log) {
            self.logs.retire(previous, old.len(), previous_len, old);
        }
        state.broken_log = None;
        state.logged_next = chain.first;
        Ok(())
    }

    /// Ends the active segment at byte `good`: nothing more is appended to it, and bytes behind `good` do not count. Called when an append
    /// failed, when the last record must not count, or when a successor may exist. If there is no active segment, shortens the one that
    /// was active last.
    pub(super) fn retire_log(&self, state: &mut WriteState, good: u64) {
        if let Some(log) = state.log.take() {
            let (number, bytes) = (log.id().number, log.len());
            state.broken_log = Some((number, good));
            self.logs.retire(number, bytes, good, log);
        } else if let Some((number, kept)) = &mut state.broken_log {
            *kept = good.min(*kept);
            self.logs.retired.lock().iter_mut().filter(|log| log.number == *number).for_each(|log| log.good = *kept);
        }
    }

    /// Syncs the retired segments, oldest first: a segment must never be acknowledged as durable before the older ones. The list is not
    /// locked during a sync, so that writers can retire segments and flushes can drop them; other callers of this wait.
    pub(super) fn sync_retired(&self) -> Result<()> {
        self.sync_retired_in(&self.logs.turn.lock())
    }

    /// [`Inner::sync_retired`] for a caller that holds the turn to sync ([`Logs::turn`]).
    pub(super) fn sync_retired_in(&self, _turn: &MutexGuard<'_, (u64, u64)>) -> Result<()> {
        loop {
            let mut retired = self.logs.retired.lock();
            let next = retired.iter_mut().find_map(|log| log.unsynced.take().map(|writer| (log, writer)));
            // A holder of the lock before this one may have failed: it took the writer of an unsynced segment, and ended the handle.
            let Some((log, mut writer)) = next else { return self.check_writable() };
            log.syncing = true;
            let number = log.number;
            drop(retired);
            let synced = self.sync_segment(&mut writer, LogWriter::sync);
            let bytes = writer.len();
            if synced.is_ok() {
                self.close_segment(writer);
            }
            for log in self.logs.retired.lock().iter_mut().filter(|log| log.number == number) {
                (log.syncing, log.bytes) = (false, bytes);
            }
            synced?;
        }
    }

    /// Runs `sync` on one segment. False: the records are durable, but the marker behind them found no space, so nothing more can be
    /// appended. Any other failed sync ends the handle: the kernel may have dropped the pages and would report success for the next sync
    /// (fsyncgate).
    pub(super) fn sync_segment(&self, log: &mut LogWriter, sync: impl FnOnce(&mut LogWriter) -> Result<()>) -> Result<bool> {
        let before = log.len();
        match sync(log) {
            Ok(()) => self.check_there()?,
            Err(Error::NoSpace(_)) if log.records_len() == log.synced() => return Ok(false),
            Err(error) => return Err(self.poison("sync of the log", error)),
        }
        let marker = log.len() - before;
        self.ledger.record(None, Cause::Wal, marker);
        self.logs.bytes.fetch_add(marker, Ordering::Relaxed);
        Ok(true)
    }

    /// Closes a synced segment and removes the zeros that were written ahead. Should that fail, the zeros stay, and readers ignore them.
    pub(super) fn close_segment(&self, log: LogWriter) {
        if !log.has_failed() && !self.end.is_over() {
            let _ = log.close();
        }
    }

    /// Fails, and ends the handle, if the directory of the database or of a tier was removed: files synced there could not be found again.
    pub(super) fn check_there(&self) -> Result<()> {
        self.store.check_there().map_err(|error| self.poison("sync of the log", error.into()))
    }

    /// Makes the name of a segment durable before its first sync: a later segment or the manifest may say that it was synced, so it must
    /// exist. The caller holds `Logs::turn`.
    pub(super) fn name_log(&self, number: u64) -> Result<()> {
        if self.logs.is_activated(number) {
            return Ok(());
        }
        self.media.primary().sync_names().map_err(|error| self.poison("sync of names", error.into()))
    }

    /// Records a segment in the manifest after its first sync and before that is acknowledged: its `synced` bytes, and the lengths of the
    /// segments before it, so that recovery notices their loss. The caller holds `Logs::turn`.
    pub(super) fn activate(&self, number: u64, synced: u64) -> Result<()> {
        if self.logs.is_activated(number) {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        if number < shared.state.needed_log() {
            // The segment is obsolete: its contents are in tables.
            return Ok(());
        }
        let mut lengths = self.logs.synced();
        // A writer may have retired the segment since, and synced it with those before.
        if lengths.iter().all(|log| log.0 != number) {
            lengths.push((number, synced));
        }
        let mut edit = Edit::default();
        add_lengths(&mut edit, &lengths, &shared.state);
        self.log_edit(&mut shared, &edit)?;
        self.logs.activated.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }

    /// Records the lengths of synced retired segments in the manifest, if it lacks any. The names of the segments are durable.
    pub(super) fn note_retired(&self) -> Result<()> {
        let mut shared = self.shared.lock();
        let mut edit = Edit::default();
        add_lengths(&mut edit, &self.logs.synced(), &shared.state);
        if edit.log_lengths.is_empty() { Ok(()) } else { self.log_edit(&mut shared, &edit) }
    }

    /// Writes the last edit of a clean close: the lengths of the segments, all of which are synced.
    pub(super) fn record_log_lengths(&self, state: &WriteState) -> Result<()> {
        let mut lengths = self.logs.synced();
        lengths.extend(state.log.as_ref().map(|log| (log.id().number, log.records_len())));
        let mut shared = self.shared.lock();
        let mut edit = Edit::default();
        add_lengths(&mut edit, &lengths, &shared.state);
        self.log_edit(&mut shared, &edit)
    }

    /// Drops retired segments that no family needs; `shared.state` must be what the manifest has.
    pub(super) fn drop_old_logs(&self, shared: &mut Shared) {
        let needed = shared.state.needed_log();
        self.logs.retired.lock().retain(|log| {
            let keep = log.number >= needed || log.syncing;
            if !keep {
                self.logs.bytes.fetch_sub(log.bytes, Ordering::Relaxed);
                shared.doomed.push(FileId::log(log.number));
            }
            keep
        });
    }
}

/// Adds the lengths of synced segments to an edit. A segment that is shorter at the next open was damaged, not cut by a crash. The names of
/// the segments must be durable.
pub(super) fn add_lengths(edit: &mut Edit, lengths: &[(u64, u64)], state: &ManifestState) {
    let is_new = |log: &&(u64, u64)| log.0 >= state.needed_log() && state.log_lengths.get(&log.0) != Some(&log.1);
    edit.log_lengths = lengths.iter().filter(is_new).copied().collect();
    edit.new_logs = edit.log_lengths.iter().map(|log| log.0).filter(|number| !state.logs.contains(number)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_reads_back() {
        let chain = Chain { previous: 7, previous_len: 1 << 33, previous_synced: 1 << 32, first: 99 };
        let bytes = chain.encode();
        assert_eq!(Chain::decode(&bytes), Some(chain));
        // A log of version 1 has the first seven bytes.
        assert_eq!(Chain::decode(&bytes[..7]), Some(Chain { previous_synced: 0, ..chain }));
        for end in (0..bytes.len()).filter(|end| *end != 7) {
            assert_eq!(Chain::decode(&bytes[..end]), None);
        }
    }
}
