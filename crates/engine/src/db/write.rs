//! The write path, on one page: join the queue; the leader passes the gate, gathers a group, appends one log record, syncs it if anyone
//! asked, inserts into the memtables, makes the group visible, and wakes the others.
//!
//! * A crash before the append is fine: nothing was acknowledged.
//! * A crash after the append is fine: the record is whole (its checksum says so) or it is cut; a group is never half visible.
//! * A sync is acknowledged only when older segments are synced too, the segment's name is durable, and the manifest has the segment and
//!   its synced length (`name_log`, `activate`): what is recovered is always a prefix of the writes.

use super::batch::{Operation, WriteBatch, Writes, refusal};
use super::callback::{Code, Inside};
use super::family::Family;
use super::insert::{WriteState, insert};
use super::queue::{Guest, Joined};
use super::records::{put_group, put_single};
use super::write_options::{Durability, WriteOptions};
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::key::{Kind, MAX_SEQ, Seq};
use crate::ledger::{Histogram, Ticker};
use crate::wal::LogWriter;
use sinter_storage::store::SyncBeside;
use std::sync::atomic::Ordering;

/// Bytes of waiting batches that join one group.
const GROUP_BYTES: usize = 1 << 20;

impl Db {
    /// Sets a key of the default family, buffered.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(&self.inner.default_family, key, value, &WriteOptions::default())
    }

    /// Sets a key.
    pub fn put_with(&self, family: &Family, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::Value, key, None, value, *options)
    }

    /// Sets a key of the default family as if it had been written at another time, buffered: see [`Db::put_at_with`].
    pub fn put_at(&self, key: &[u8], value: &[u8], unix_seconds: u64) -> Result<()> {
        self.put_at_with(&self.inner.default_family, key, value, unix_seconds, &WriteOptions::default())
    }

    /// Sets a key with a write time of its own, for example when old data is imported. Time to live and placement by age use this time.
    /// Visibility and order are those of a write made now: the value replaces earlier writes, even if their time is later. A time in the
    /// future lengthens the time to live accordingly.
    pub fn put_at_with(&self, family: &Family, key: &[u8], value: &[u8], unix_seconds: u64, options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::TimedValue, key, Some(unix_seconds), value, *options)
    }

    /// Removes a key of the default family, buffered.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(&self.inner.default_family, key, &WriteOptions::default())
    }

    /// Removes a key.
    pub fn delete_with(&self, family: &Family, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::Delete, key, None, b"", *options)
    }

    /// Adds an operand for the default family's merge operator, buffered.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_with(&self.inner.default_family, key, operand, &WriteOptions::default())
    }

    /// Adds an operand for the family's merge operator.
    pub fn merge_with(&self, family: &Family, key: &[u8], operand: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::Merge, key, None, operand, *options)
    }

    /// Removes all keys from `from` up to (not including) `to` from the default family, buffered: one range tombstone. Equal ends remove
    /// nothing; an end before the start is `Invalid`.
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.delete_range_with(&self.inner.default_family, from, to, &WriteOptions::default())
    }

    /// Removes all keys from `from` up to (not including) `to`: see [`Db::delete_range`].
    pub fn delete_range_with(&self, family: &Family, from: &[u8], to: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::RangeDelete, from, None, to, *options)
    }

    /// Removes all keys from `from` on from the default family, buffered: one range tombstone. The empty key removes all keys.
    pub fn delete_range_from(&self, from: &[u8]) -> Result<()> {
        self.delete_range_from_with(&self.inner.default_family, from, &WriteOptions::default())
    }

    /// Removes all keys from `from` on: one range tombstone.
    pub fn delete_range_from_with(&self, family: &Family, from: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner.write_one(family, Kind::RangeDeleteFrom, from, None, b"", *options)
    }

    /// Applies a batch: all of it or nothing. On success the batch is emptied and keeps its memory; after an error its contents are
    /// unspecified.
    pub fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.write_with_notice(batch, options, &mut || {})
    }

    /// [`Db::write`] that calls `logged` once, as soon as the batch has the durability that `options` ask for. Reads may not see the batch
    /// yet: a caller that needs durability alone need not wait for the memtables. After `logged` the write fails only if the handle ended.
    #[doc(hidden)]
    pub fn write_with_notice(&self, batch: &mut WriteBatch, options: &WriteOptions, logged: &mut dyn FnMut()) -> Result<()> {
        self.inner.check_outside()?;
        batch.check(self.inner.handle)?;
        self.inner.check_writable()?;
        let logged = &mut || {
            let _inside = Inside::enter(self.inner.handle, Code::Notice);
            logged();
        };
        if batch.is_empty() && options.durability != Durability::Sync {
            logged();
            return Ok(());
        }
        self.inner.admit(|| batch.is_deletion())?;
        if self.inner.queue.try_lead() {
            self.inner.lead(|state| self.inner.commit_alone(state, Writes::Batch(batch), *options, logged))?;
        } else {
            let mut taken = self.inner.write_shared(std::mem::take(batch), *options)?;
            std::mem::swap(batch, &mut taken);
            logged();
        }
        batch.clear();
        Ok(())
    }

    /// Syncs the log: all writes acknowledged so far, except unlogged ones, survive a power cut. Buffered and unlogged writes go on during
    /// the sync if the store can sync a file while it is appended to.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_outside()?;
        self.inner.check_writable()?;
        self.inner.sync_beside()
    }
}

impl Inner {
    /// Writes a single operation. If no other thread is writing, this allocates nothing: the operation is encoded in the buffer of the log.
    fn write_one(&self, family: &Family, kind: Kind, key: &[u8], time: Option<u64>, value: &[u8], options: WriteOptions) -> Result<()> {
        self.check_outside()?;
        self.check_writable()?;
        self.check_family(family)?;
        if kind == Kind::Merge && family.core.merge.is_none() {
            return Err(Error::invalid(format!("column family {:?} has no merge operator", family.name())));
        }
        self.admit(|| kind.deletes())?;
        if let Some(what) = refusal(kind, key, value) {
            return Err(Error::invalid(what));
        }
        if time.is_none() && self.queue.try_lead() {
            let operation = Operation { family: family.id(), kind, key, value };
            return self.lead(|state| self.commit_alone(state, Writes::One(operation), options, &mut || {}));
        }
        let mut batch = WriteBatch::new();
        batch.push_value(family.id(), kind, key, time, value);
        batch.check(self.handle)?;
        self.write_shared(batch, options).map(drop)
    }

    /// Leaves a batch with the leader, or becomes the leader. Returns a batch whose memory the caller can use again.
    fn write_shared(&self, batch: WriteBatch, options: WriteOptions) -> Result<WriteBatch> {
        match self.queue.join(batch, options) {
            Joined::Done(result) => {
                self.statistics.add(Ticker::WriteDoneByOther, 1);
                result.map(|()| WriteBatch::new())
            }
            Joined::Leader(batch) => self.lead(|state| self.commit(state, &batch, options, &mut || {})).map(|()| batch),
        }
    }

    /// Waits for the lead, then does as [`Inner::lead`].
    pub(super) fn lead_in_turn<T>(&self, own: impl FnOnce(&mut WriteState) -> Result<T>) -> Result<T> {
        self.check_outside()?;
        self.queue.lead();
        self.lead(own)
    }

    /// Runs `own` as the leader (the caller has the lead), commits batches that others left meanwhile, and gives the lead away.
    pub(super) fn lead<T>(&self, own: impl FnOnce(&mut WriteState) -> Result<T>) -> Result<T> {
        let guard = LeadGuard { inner: self };
        let result = {
            let mut state = self.write_state.lock();
            let result = own(&mut state);
            let mut round = 0;
            while self.queue.leave(round) {
                round += 1;
                self.commit_guests(&mut state);
            }
            result
        };
        std::mem::forget(guard);
        result
    }

    /// Commits a group of other writers' batches only.
    fn commit_guests(&self, state: &mut WriteState) {
        let mut guests = std::mem::take(&mut state.guests);
        self.queue.take(&mut guests, GROUP_BYTES);
        // Each guest is told its own result.
        let _ = self.commit_group(state, None, &mut guests, &mut || {});
        state.guests = guests;
    }

    /// Commits `batch` together with the batches that others have left so far. Result and `logged` concern `batch` only.
    fn commit(&self, state: &mut WriteState, batch: &WriteBatch, options: WriteOptions, logged: &mut dyn FnMut()) -> Result<()> {
        let mut guests = std::mem::take(&mut state.guests);
        // A large batch goes alone, so that a group has at most one of them.
        let room = GROUP_BYTES.saturating_sub(batch.bytes());
        if room > 0 {
            self.queue.take(&mut guests, room);
        }
        let result = self.commit_group(state, Some((Writes::Batch(batch), options)), &mut guests, logged);
        state.guests = guests;
        result
    }

    /// Commits the writes of a thread that took the lead when it was free: no other batch waits then.
    fn commit_alone(&self, state: &mut WriteState, writes: Writes<'_>, options: WriteOptions, logged: &mut dyn FnMut()) -> Result<()> {
        self.check_families(state, writes)?;
        self.commit_batches(state, || std::iter::once((writes, options)), logged)
    }

    fn commit_group(
        &self,
        state: &mut WriteState,
        own: Option<(Writes<'_>, WriteOptions)>,
        guests: &mut Vec<Guest>,
        logged: &mut dyn FnMut(),
    ) -> Result<()> {
        // A batch that names an unknown family fails alone, not the whole group.
        guests.retain(|guest| match self.check_families(state, Writes::Batch(&guest.batch)) {
            Ok(()) => true,
            Err(error) => {
                guest.waiter.finish(Err(error));
                false
            }
        });
        let own_check = own.map_or(Ok(()), |(writes, _)| self.check_families(state, writes));
        let own_good = own.filter(|_| own_check.is_ok());
        let group = || own_good.into_iter().chain(guests.iter().map(|g| (Writes::Batch(&g.batch), g.options)));
        let notice = || {
            if own_good.is_some() {
                logged()
            }
        };
        let result = if own_good.is_none() && guests.is_empty() { Ok(()) } else { self.commit_batches(state, group, notice) };
        for guest in guests.drain(..) {
            guest.waiter.finish(result.clone());
        }
        own_check.and(result)
    }

    /// Logs and syncs a group, calls `durable`, inserts the group into the memtables and makes it visible.
    fn commit_batches<'a, I>(&self, state: &mut WriteState, group: impl Fn() -> I, durable: impl FnOnce()) -> Result<()>
    where
        I: Iterator<Item = (Writes<'a>, WriteOptions)>,
    {
        let count: u64 = group().map(|(writes, _)| writes.len() as u64).sum();
        // Prefetches the memtable leaf of a single operation, so that the log's work hides the cache misses. The entry in the leaf is not
        // prefetched, because finding it would wait for the leaf.
        let single = (count == 1).then(|| group().find_map(|(writes, _)| writes.single())).flatten();
        let place = single.and_then(|operation| state.expect(&operation));
        self.check_writable()?;
        if self.torn_manifest.load(Ordering::Acquire) {
            self.renew_manifest()?;
        }
        if self.inline() {
            self.sample_if_due();
            self.note_write();
        }
        let bytes: usize = group().map(|(writes, _)| writes.bytes()).sum();
        let first = state.last_seq + 1;
        let logged = |options: &WriteOptions| options.durability != Durability::NoWal;
        let logged_count: u64 = group().filter(|(_, o)| logged(o)).map(|(writes, _)| writes.len() as u64).sum();
        if first.checked_add(count).is_none_or(|last| last > MAX_SEQ) {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        }
        // Logged batches come first, so that their numbers are contiguous.
        let logged_writes = || group().filter(|(_, o)| logged(o)).map(|(writes, _)| writes);
        let record = LoggedRecord { first, count: logged_count, writes: logged_writes };
        let before = self.or_await_demotion(|| {
            self.pass_gate(state, bytes)?;
            (logged_count > 0).then(|| self.append(state, bytes as u64, &record)).transpose()
        })?;
        if group().any(|(_, o)| o.durability == Durability::Sync)
            && let Err(error) = self.sync_log(state)
        {
            if let Some(before) = before {
                // The writers are told that the record failed, and its sequence numbers will be used again, so the record must not count.
                self.retire_log(state, before);
            }
            return Err(error);
        }
        if logged_count < count {
            self.logs.unlogged.store(true, Ordering::Release);
        }
        durable();
        let mut seq = first;
        if let Some(operation) = &single {
            state.insert(place, operation, seq, logged_count > 0);
        } else {
            for (writes, options) in group().filter(|(_, o)| logged(o)).chain(group().filter(|(_, o)| !logged(o))) {
                seq = insert(state, writes, seq, logged(&options))?;
            }
        }
        state.last_seq += count;
        self.visible.store(state.last_seq, Ordering::Release);
        self.statistics.add(Ticker::WriteDoneBySelf, 1);
        Ok(())
    }

    /// Runs `step`, and repeats it after [`Error::NoSpace`] as long as a demotion may have freed space.
    fn or_await_demotion<T>(&self, mut step: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match step() {
                Err(error @ Error::NoSpace(_)) if self.await_demotion(&error)? => {}
                result => return result,
            }
        }
    }

    /// Checks that the family of each operation exists, accepts writes and has a merge operator if one is needed.
    fn check_families(&self, state: &mut WriteState, writes: Writes<'_>) -> Result<()> {
        match writes {
            Writes::One(operation) => self.check_family_of(state, &operation),
            Writes::Batch(batch) => batch
                .operations()
                .try_for_each(|operation| self.check_family_of(state, &operation.map_err(|()| Error::invalid("the batch is damaged"))?)),
        }
    }

    fn check_family_of(&self, state: &mut WriteState, operation: &Operation<'_>) -> Result<()> {
        let Some(writer) = state.family(operation.family) else {
            return Err(Error::invalid(format!("column family {} does not exist or was dropped", operation.family)));
        };
        if writer.core.stuck.load(Ordering::Acquire) {
            return Err(self.stuck_error(&writer.core));
        }
        if operation.kind == Kind::Merge && writer.core.merge.is_none() {
            return Err(Error::invalid(format!("column family {:?} has no merge operator", writer.core.name)));
        }
        Ok(())
    }

    /// Appends one record to the active segment. Returns the length of the segment before the record, bytes.
    fn append<'a, I: Iterator<Item = Writes<'a>>>(
        &self,
        state: &mut WriteState,
        bytes: u64,
        record: &LoggedRecord<impl Fn() -> I>,
    ) -> Result<u64> {
        if state.log.is_none() {
            // An earlier append ran out of space. The old segment may end in half a record, so the next one goes to a new segment.
            self.start_log(state, bytes)?;
        }
        let Some(log) = state.log.as_mut() else { return Err(Error::Closed("no log segment".into())) };
        let (before, good) = (log.len(), log.records_len());
        let number = Some(record.first).filter(|first| *first != state.logged_next);
        match log.append_with(|out| record.encode(number, out)) {
            Ok(()) => {
                state.logged_next = record.first + record.count;
                self.logs.note_record(log.len() - before);
                Ok(good)
            }
            Err(error @ Error::NoSpace(_)) => {
                self.retire_log(state, good);
                Err(error)
            }
            Err(error @ Error::Invalid(_)) => Err(error),
            Err(error) => Err(self.poison("append to the log", error)),
        }
    }

    /// Makes the log durable up to its end. A failed sync ends the handle: after it, the kernel may have dropped the pages and report
    /// the next sync as good (fsyncgate).
    pub(super) fn sync_log(&self, state: &mut WriteState) -> Result<()> {
        let turn = self.logs.turn.lock();
        self.sync_retired_in(&turn)?;
        let Some((number, end)) = state.log.as_ref().map(|log| (log.id().number, log.records_len())) else {
            // The last segment is torn and has been retired and synced. Its name has to be made durable, and its length recorded.
            self.media.primary().sync_names().map_err(|error| self.poison("sync of names", error.into()))?;
            return self.note_retired();
        };
        self.name_log(number)?;
        let start = self.clock.monotonic_ns();
        self.sync_active(state, LogWriter::sync)?;
        self.note_log_sync(start);
        self.activate(number, end)
    }

    /// Runs `sync` on the active segment, and retires the segment if nothing more can be appended to it.
    fn sync_active(&self, state: &mut WriteState, sync: impl FnOnce(&mut LogWriter) -> Result<()>) -> Result<()> {
        if let Some(log) = state.log.as_mut()
            && !self.sync_segment(log, sync)?
        {
            let good = log.records_len();
            self.retire_log(state, good);
        }
        Ok(())
    }

    fn note_log_sync(&self, start: u64) {
        self.statistics.add(Ticker::WalFileSynced, 1);
        self.statistics.record(Histogram::WalFileSync, self.clock.monotonic_ns().saturating_sub(start));
    }

    /// Makes the log durable up to its end, without holding the lead during the sync. The lock `Logs::turn` admits one sync at a time:
    /// after a failed one the kernel reports success for the next, so the handle has to be ended before another sync can return.
    fn sync_beside(&self) -> Result<()> {
        let Some((number, sync, end)) = self.lead_in_turn(|state| self.begin_sync(state))? else { return Ok(()) };
        // Taken after the lead was given away: a leader also commits for other threads, whose batches may wait for this lock.
        let mut turn = self.logs.turn.lock();
        self.sync_retired_in(&turn)?;
        if *turn >= (number, end) {
            // A sync that began after this call covers it.
            return Ok(());
        }
        self.name_log(number)?;
        let start = self.clock.monotonic_ns();
        sync().map_err(|error| self.poison("sync of the log", error.into()))?;
        self.check_there()?;
        self.activate(number, end)?;
        *turn = (number, end);
        self.note_log_sync(start);
        drop(turn);
        self.lead_in_turn(|state| match &state.log {
            // No marker is written once the handle has ended: another process may have opened the database by now.
            Some(log) if log.id().number == number && self.check_writable().is_ok() => {
                self.sync_active(state, |log| log.synced_beside(end))
            }
            // The segment was retired meanwhile; `sync_retired` will sync it once more.
            _ => Ok(()),
        })
    }

    /// Begins a sync of the active segment: returns the segment's number, the sync to run without the lead, and the length that the sync
    /// makes durable. `None` if everything is durable; a store that cannot sync a file while it is appended to is synced here, under the
    /// lead.
    fn begin_sync(&self, state: &mut WriteState) -> Result<Option<(u64, SyncBeside, u64)>> {
        self.check_writable()?;
        if self.torn_manifest.load(Ordering::Acquire) {
            self.renew_manifest()?;
        }
        match &state.log {
            // A synced segment implies that earlier ones are synced. The activation is checked because the manifest may have had no space.
            Some(log) if !log.is_dirty() && self.logs.is_activated(log.id().number) => return Ok(None),
            Some(log) => {
                if let Some((sync, end)) = log.sync_beside() {
                    return Ok(Some((log.id().number, sync, end)));
                }
            }
            None => {}
        }
        self.sync_log(state).map(|()| None)
    }
}

/// The logged writes of a group, to be encoded as one record of the log.
struct LoggedRecord<F> {
    first: Seq,
    count: u64,
    writes: F,
}

impl<'a, F: Fn() -> I, I: Iterator<Item = Writes<'a>>> LoggedRecord<F> {
    /// Appends the record's payload to `out`. `number`: the sequence number of the first operation, if it does not follow from the record
    /// before.
    #[inline]
    fn encode(&self, number: Option<Seq>, out: &mut Vec<u8>) {
        let single = || (self.writes)().find_map(|writes| writes.single());
        match (self.count == 1).then(single).flatten() {
            Some(operation) => put_single(out, number, &operation),
            None => {
                put_group(out, number, self.count);
                (self.writes)().for_each(|writes| writes.encode(out));
            }
        }
    }
}

/// Passes the lead on and ends the handle if the leader panics, so that the other writers do not wait forever.
struct LeadGuard<'a> {
    inner: &'a Inner,
}

impl Drop for LeadGuard<'_> {
    fn drop(&mut self) {
        self.inner.poison("write", Error::Closed("a writer panicked".into()));
        while self.inner.queue.leave(usize::MAX) {}
    }
}

#[cfg(test)]
mod tests;
