//! Payloads of log records. A record has the writes of a group, in the form of batches ([`super::batch`]):
//!
//! * One operation: `head | [number varint] | [family varint] | key length varint | key | value`. The head is the operation's first byte
//!   with [`SINGLE`]; the value, where the kind has one, goes on to the end.
//! * Any other group: `head | [number varint] | count varint | operations`. The head has no bits but perhaps [`NUMBERED`].
//!
//! A record begins with the sequence number behind the last one of the record before it, the first of a segment with the one that the
//! segment's header has. Where unlogged writes have taken numbers between, [`NUMBERED`] is set and the record's own number follows.
//!
//! Up to version 2 of the log a record is `number varint | count varint | operations`.

use super::batch::{FAMILY_FLAG, Operation, Operations};
use super::logs::Chain;
use crate::coding::{Decoder, put_bytes, put_varint};
use crate::key::{MAX_SEQ, Seq};
use crate::wal::LogSurvey;

/// The record is one operation.
const SINGLE: u8 = 0x40;
/// The record's sequence number follows.
const NUMBERED: u8 = 0x20;

/// The last version of the log in which each record has its number and count.
const LAST_COUNTED: u16 = 2;

/// Starts the record of a group: the operations of `count` writes follow. `number` is that of the first, if it does not follow from the
/// record before.
pub(super) fn put_group(out: &mut Vec<u8>, number: Option<Seq>, count: u64) {
    put_head(out, 0, number);
    put_varint(out, count);
}

/// Appends the record of one operation.
#[inline]
pub(super) fn put_single(out: &mut Vec<u8>, number: Option<Seq>, operation: &Operation<'_>) {
    let family = if operation.family == 0 { 0 } else { FAMILY_FLAG };
    put_head(out, SINGLE | family | operation.kind as u8, number);
    if operation.family != 0 {
        put_varint(out, u64::from(operation.family));
    }
    put_bytes(out, operation.key);
    out.extend_from_slice(operation.value);
}

#[inline]
fn put_head(out: &mut Vec<u8>, head: u8, number: Option<Seq>) {
    match number {
        None => out.push(head),
        Some(number) => {
            out.push(head | NUMBERED);
            put_varint(out, number);
        }
    }
}

/// Reads the records of one segment, in order.
pub struct Records {
    version: u16,
    next: Seq,
}

impl Records {
    /// Reads a segment of this format version whose first operation has at least the number `first`.
    pub(super) fn new(version: u16, first: Seq) -> Self {
        Records { version, next: first }
    }

    /// Reads a surveyed segment, for tools that look into it. One whose header names no first number begins with 0.
    pub fn of(log: &LogSurvey) -> Self {
        Records::new(log.version, log.extra.as_deref().and_then(Chain::decode).map_or(0, |chain| chain.first))
    }

    /// The smallest number that the next record may have.
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// The next record: its first sequence number, its count and its operations; `None` if damaged.
    pub(super) fn read<'a>(&mut self, payload: &'a [u8]) -> Option<(Seq, u64, Operations<'a>)> {
        let mut from = Decoder::new(payload);
        if self.version <= LAST_COUNTED {
            let (first, count) = (from.varint()?, from.varint()?);
            last_of(first, count)?;
            return Some((first, count, Operations::new(from)));
        }
        let head = from.u8()?;
        let first = if head & NUMBERED == 0 { self.next } else { from.varint()? };
        let kind = head & !NUMBERED;
        let (count, operations) = match kind {
            0 => (from.varint()?, Operations::new(from)),
            _ if kind & SINGLE != 0 => (1, Operations::single(kind & !SINGLE, from)),
            _ => return None,
        };
        let last = last_of(first, count)?;
        self.next = self.next.max(last);
        Some((first, count, operations))
    }

    /// The operations of the next record, each with its sequence number; `None` if it is not a whole record.
    pub fn operations<'a>(&mut self, payload: &'a [u8]) -> Option<Vec<(Seq, Operation<'a>)>> {
        let (first, count, operations) = self.read(payload)?;
        let numbered: Option<Vec<_>> = operations.zip(first..).map(|(operation, seq)| Some((seq, operation.ok()?))).collect();
        numbered.filter(|list| list.len() as u64 == count)
    }
}

/// The number behind those of a record, if there can be such numbers.
fn last_of(first: Seq, count: u64) -> Option<Seq> {
    first.checked_add(count).filter(|last| *last <= MAX_SEQ)
}

#[cfg(test)]
mod tests;
