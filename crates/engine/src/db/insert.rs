//! The memtables' side of a write: the leader's state of each family, and how operations are inserted.

use super::batch::{Operation, Writes};
use super::family::FamilyCore;
use super::mem::{MemWriter, behind_tables};
use super::queue::Guest;
use crate::error::{Error, Result};
use crate::key::{Kind, Seq};
use crate::memtable::{LeafHint, MemtableWriter};
use crate::wal::LogWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Operations of a batch whose places in a memtable are loaded together before they are inserted.
const TOGETHER: usize = 16;

/// A family's writing end.
pub(super) struct FamilyWriter {
    pub core: Arc<FamilyCore>,
    pub mem: MemWriter,
    /// Memory, bytes, at which the memtable is full.
    pub limit: usize,
}

impl FamilyWriter {
    /// Deletes all keys from `from` on. The range ends behind the largest key there is: no larger one is older than this write.
    #[cold]
    fn delete_from(&mut self, from: &[u8], seq: Seq) {
        let view = self.core.view.load();
        let mems = [&self.mem.mem].into_iter().chain([&view.mem]).chain(&view.full);
        let end = mems.map(|mem| mem.behind_points()).fold(behind_tables(&view.tree.version), Vec::max);
        self.mem.insert(from, seq, Kind::RangeDelete, &end);
    }
}

/// The state that only the leader of the queue touches.
pub(super) struct WriteState {
    /// Families by id; ids are small and never used again.
    pub families: Vec<Option<FamilyWriter>>,
    /// The active segment; `None` after an append to it or the start of its successor failed, until a new segment can be started.
    pub log: Option<LogWriter>,
    /// Number and good length of the segment that was active before that.
    pub broken_log: Option<(u64, u64)>,
    /// Families whose memtable is full.
    pub full: Vec<u32>,
    /// Bytes of the active memtables of all families.
    pub active: u64,
    pub last_seq: Seq,
    /// The number of the next log record, if it does not have its own.
    pub logged_next: Seq,
    /// Batches of other writers in the current group; kept for its memory.
    pub guests: Vec<Guest>,
}

impl WriteState {
    pub fn new(last_seq: Seq) -> Self {
        WriteState {
            families: Vec::new(),
            log: None,
            broken_log: None,
            full: Vec::new(),
            active: 0,
            last_seq,
            logged_next: 0,
            guests: Vec::new(),
        }
    }

    pub fn family(&mut self, id: u32) -> Option<&mut FamilyWriter> {
        self.families.get_mut(id as usize)?.as_mut()
    }

    /// Adds the writing end of a family.
    pub fn install(&mut self, writer: FamilyWriter) {
        let at = writer.core.id as usize;
        if self.families.len() <= at {
            self.families.resize_with(at + 1, || None);
        }
        self.families[at] = Some(writer);
    }

    /// The memtable into which an operation goes.
    fn points(&mut self, operation: &Operation<'_>) -> Option<&MemtableWriter> {
        let writer = self.family(operation.family).filter(|_| !operation.kind.is_range())?;
        Some(&writer.mem.points)
    }

    /// Prefetches the place of `operation`, which will be inserted, without waiting for it.
    pub fn expect(&mut self, operation: &Operation<'_>) -> Option<LeafHint> {
        self.points(operation)?.expect(operation.key)
    }

    /// The second step of prefetching, when [`WriteState::expect`] has had time.
    pub fn expect_entry(&mut self, place: LeafHint, operation: &Operation<'_>) {
        self.points(operation).into_iter().for_each(|points| points.expect_entry(place, operation.key));
    }

    /// Inserts one operation.
    pub fn insert(&mut self, place: Option<LeafHint>, operation: &Operation<'_>, seq: Seq, logged: bool) {
        let Some(writer) = self.family(operation.family) else { return };
        let before = writer.mem.mem.memory();
        if operation.kind == Kind::RangeDeleteFrom {
            writer.delete_from(operation.key, seq);
        } else {
            writer.mem.insert_at(place, operation.key, seq, operation.kind, operation.value);
        }
        let held = writer.mem.mem.memory();
        let bytes = (operation.key.len() + operation.value.len()) as u64;
        writer.core.counters.user(1, bytes);
        writer.core.newest.store(seq, Ordering::Relaxed);
        if logged {
            writer.core.counters.wal_share(bytes);
        }
        let is_full = held >= writer.limit;
        self.active += (held - before) as u64;
        if is_full && self.full.last() != Some(&operation.family) {
            self.full.push(operation.family);
        }
    }
}

/// Inserts writes into the memtables, numbering from `seq`; returns the next number.
pub(super) fn insert(state: &mut WriteState, writes: Writes<'_>, mut seq: Seq, logged: bool) -> Result<Seq> {
    if let Some(operation) = writes.single() {
        state.insert(None, &operation, seq, logged);
        return Ok(seq + 1);
    }
    let Writes::Batch(batch) = writes else { return Ok(seq) };
    let mut operations = batch.operations();
    let (mut few, mut places) = ([None; TOGETHER], [None; TOGETHER]);
    loop {
        for operation in &mut few {
            *operation = operations.next().transpose().map_err(|()| Error::invalid("the batch is damaged"))?;
        }
        for (place, operation) in places.iter_mut().zip(few.iter().flatten()) {
            *place = state.expect(operation);
        }
        for (place, operation) in places.iter().zip(few.iter().flatten()) {
            place.iter().for_each(|place| state.expect_entry(*place, operation));
        }
        for (place, operation) in places.iter().zip(few.iter().flatten()) {
            state.insert(*place, operation, seq, logged);
            seq += 1;
        }
        if few.iter().any(Option::is_none) {
            return Ok(seq);
        }
    }
}
