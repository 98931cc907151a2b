//! Log segments: started at each memtable switch, synced in order, deleted when no memtable needs them.
//!
//! Each segment's header names its predecessor, the length that one had when it ended, and how much of that was synced. Recovery follows
//! this chain: it replays a segment only if everything before it is there, so a lost tail can never leave a hole in the middle of the
//! writes. The manifest has the synced lengths, too: of a segment when its first sync is acknowledged, of those before it with each change
//! of the tree, and of all when the database is closed.

use super::insert::WriteState;
use super::{Inner, Shared};
use crate::coding::{Decoder, put_varint};
use crate::error::{Error, Result};
use crate::key::Seq;
use crate::ledger::Ledger;
use crate::manifest::{Edit, State};
use crate::wal::LogWriter;
use parking_lot::{Mutex, MutexGuard};
use sinter_storage::store::{Cause, FileId, Hint, Lifetime, StoreError, Temperature};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The first words of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    /// Number of the segment before; 0 for the first after an open.
    pub previous: u64,
    /// Length of that segment up to the end of its last record, bytes.
    pub previous_len: u64,
    /// Part of that length known to be durable, bytes.
    pub previous_synced: u64,
    /// Sequence number of the first write that can be in this one.
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
        // A log of version 1 ends here.
        let previous_synced = if from.is_empty() { 0 } else { from.varint()? };
        from.is_empty().then_some(Chain { previous, previous_len, previous_synced, first })
    }
}

/// More than the header of a segment and the head of a record take, bytes.
const SEGMENT_START: u64 = 512;

/// A segment that is no longer written to but still needed.
pub(super) struct Retired {
    number: u64,
    /// Bytes appended to it, markers included. Zeros ahead of its records do not count.
    bytes: u64,
    /// Length of the valid part: up to the end of the last acknowledged record.
    good: u64,
    /// Writer with which the segment is still to be synced; `None`: it is synced.
    unsynced: Option<LogWriter>,
    /// Someone syncs it: the file stays meanwhile.
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

    /// Starts a new segment and retires the active one. On an error the active one stays, unless the file of the new one may stay too. A
    /// segment for a record of `bytes` is not created where header and record find no space: refused writes use up no numbers. A segment
    /// for which no record waits (0) is created if the medium takes it: a medium may have more space than it counts as free.
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
                // The created file holds no record, but perhaps a whole header, and a crash may bring it back. The header says how long the
                // active segment was, and recovery would believe it: so that has to stay true.
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

    /// Ends the active segment, because it could not take a record, must not keep its last one, or counts as ended: no more is written to
    /// it, and bytes behind `good` do not count. Likewise for the segment that was active last, if that has been retired already.
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

    /// Syncs the segments before the active one, oldest first: a later one must never be durable without them. The list is free meanwhile,
    /// so that writers can retire segments and flushes can give them up; other callers that want them synced wait.
    pub(super) fn sync_retired(&self) -> Result<()> {
        self.sync_retired_in(&self.logs.turn.lock())
    }

    /// [`Inner::sync_retired`] for the holder of the turn to sync the log.
    pub(super) fn sync_retired_in(&self, _turn: &MutexGuard<'_, (u64, u64)>) -> Result<()> {
        loop {
            let mut retired = self.logs.retired.lock();
            let next = retired.iter_mut().find_map(|log| log.unsynced.take().map(|writer| (log, writer)));
            // Whoever had the turn before may have failed, and took the segment that is not synced off the list.
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

    /// Syncs one segment, or notes that it is synced; false if the marker behind the records did not fit, so that no more can be written to
    /// it. A failed sync ends the handle: after it, the kernel may have dropped the pages and report the next sync as good (fsyncgate).
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

    /// Ends a synced segment and gives back the zeros ahead of its records. Where that fails they stay, and are no part of the log.
    pub(super) fn close_segment(&self, log: LogWriter) {
        if !log.has_failed() && !self.end.is_over() {
            let _ = log.close();
        }
    }

    /// A sync counts only while there is a directory in which its file is found again: of the database and of each tier.
    pub(super) fn check_there(&self) -> Result<()> {
        self.store.check_there().map_err(|error| self.poison("sync of the log", error.into()))
    }

    /// Makes a segment's name durable before its first sync, so that it can be found whatever later says that it was synced. Called by the
    /// holder of the turn to sync the log.
    pub(super) fn name_log(&self, number: u64) -> Result<()> {
        if self.logs.is_activated(number) {
            return Ok(());
        }
        self.media.primary().sync_names().map_err(|error| self.poison("sync of names", error.into()))
    }

    /// Tells the manifest of a segment after its first sync, before that is acknowledged: of the `synced` bytes in it and of the segments
    /// before, so that their loss would be noticed. Called by the holder of the turn to sync the log.
    pub(super) fn activate(&self, number: u64, synced: u64) -> Result<()> {
        if self.logs.is_activated(number) {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        if number < shared.state.needed_log() {
            // The segment was given up meanwhile: its contents are in tables.
            return Ok(());
        }
        let mut lengths = self.logs.synced();
        lengths.push((number, synced));
        let mut edit = Edit::default();
        add_lengths(&mut edit, &lengths, &shared.state);
        self.log_edit(&mut shared, &edit)?;
        self.logs.activated.fetch_max(number, Ordering::AcqRel);
        Ok(())
    }

    /// Tells the manifest the lengths of the synced segments before the active one, if it does not know them. Their names are durable.
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

    /// Gives up segments that no family needs any more. Called with the state that the manifest has.
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

/// Adds to an edit the lengths of synced segments, whose names are durable: one that is shorter at the next open was damaged, not cut by a
/// crash.
pub(super) fn add_lengths(edit: &mut Edit, lengths: &[(u64, u64)], state: &State) {
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
