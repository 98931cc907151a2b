//! Batches: writes that happen together or not at all. Their operations stand in log records ([`super::records`]) as they do here:
//! `kind byte (0x80 set: a family id follows) | [family varint] | key length varint | key | [value length varint | value]`. A value with
//! its own time has that in front, as in tables ([`key::put_timed`]).

use super::family::Family;
use crate::coding::{Decoder, put_bytes, put_varint, varint_len};
use crate::error::{Error, Result};
use crate::key::{self, Kind, MAX_KEY, MAX_VALUE};

/// Marks an operation on another family than the default one.
pub(super) const FAMILY_FLAG: u8 = 0x80;

/// Largest batch, bytes.
pub const MAX_BATCH: usize = (1 << 30) + (1 << 26);

/// Bytes of memory that an emptied batch keeps.
const KEPT: usize = 16 << 20;

/// Bytes that a batch may put beside each deletion: counts of what is left, say.
const BESIDE_DELETION: usize = 1 << 10;

/// Writes that happen together or not at all, across column families.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    operations: Vec<u8>,
    count: u32,
    /// Handle of the open database whose families are named; 0 if none are.
    handle: u64,
    refused: Option<&'static str>,
}

/// One decoded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Id of the column family.
    pub family: u32,
    /// Kind of the operation.
    pub kind: Kind,
    /// The key, or the start of a deleted range.
    pub key: &'a [u8],
    /// The value, the operand, or the end of a deleted range; empty for a delete and for a range without an end. Of a timed value, time
    /// and value ([`key::split_timed`]).
    pub value: &'a [u8],
}

impl Operation<'_> {
    /// Adds the operation in its form in batches.
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_start(out, self.family, self.kind, self.key);
        if !self.kind.is_bare() {
            put_bytes(out, self.value);
        }
    }

    /// Bytes that [`Operation::encode`] adds.
    #[inline]
    fn bytes(&self) -> usize {
        let prefixed = |bytes: &[u8]| varint_len(bytes.len() as u64) + bytes.len();
        let family = if self.family == 0 { 0 } else { varint_len(self.family.into()) };
        1 + family + prefixed(self.key) + if self.kind.is_bare() { 0 } else { prefixed(self.value) }
    }
}

/// Adds an operation up to its key.
#[inline]
fn put_start(out: &mut Vec<u8>, family: u32, kind: Kind, key: &[u8]) {
    if family == 0 {
        out.push(kind as u8);
    } else {
        out.push(kind as u8 | FAMILY_FLAG);
        put_varint(out, u64::from(family));
    }
    put_bytes(out, key);
}

/// Reason why an operation is not possible.
#[inline]
pub(super) fn refusal(kind: Kind, key: &[u8], value: &[u8]) -> Option<&'static str> {
    if key.len() > MAX_KEY || (kind == Kind::RangeDelete && value.len() > MAX_KEY) {
        Some("a key is longer than 1 MiB")
    } else if value.len() > MAX_VALUE {
        Some("a value is longer than 1 GiB")
    } else if kind == Kind::RangeDelete && value < key {
        Some("a range ends before it begins")
    } else {
        None
    }
}

/// The writes of one caller.
#[derive(Clone, Copy)]
pub(super) enum Writes<'a> {
    Batch(&'a WriteBatch),
    /// One operation that needs no batch.
    One(Operation<'a>),
}

impl<'a> Writes<'a> {
    /// Operations.
    pub fn len(self) -> usize {
        match self {
            Writes::Batch(batch) => batch.len(),
            Writes::One(_) => 1,
        }
    }

    /// Bytes of the encoded operations.
    pub fn bytes(self) -> usize {
        match self {
            Writes::Batch(batch) => batch.bytes(),
            Writes::One(operation) => operation.bytes(),
        }
    }

    /// The operation, if there is one only.
    pub fn single(self) -> Option<Operation<'a>> {
        match self {
            Writes::Batch(batch) if batch.len() == 1 => batch.operations().next()?.ok(),
            Writes::Batch(_) => None,
            Writes::One(operation) => Some(operation),
        }
    }

    /// Adds the encoded operations.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Writes::Batch(batch) => out.extend_from_slice(&batch.operations),
            Writes::One(operation) => operation.encode(out),
        }
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key of the default family.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(0, Kind::Value, key, value);
    }

    /// Sets a key of the default family as if it had been written at another time, unix seconds: see [`super::Db::put_at_with`].
    pub fn put_at(&mut self, key: &[u8], value: &[u8], unix_seconds: u64) {
        self.push_value(0, Kind::TimedValue, key, Some(unix_seconds), value);
    }

    /// Removes a key of the default family.
    pub fn delete(&mut self, key: &[u8]) {
        self.push(0, Kind::Delete, key, b"");
    }

    /// Adds an operand for the default family's merge operator.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.push(0, Kind::Merge, key, operand);
    }

    /// Removes all keys from `from` up to (not including) `to` from the default family. Equal ends remove nothing; a batch with an end
    /// before its start is refused.
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.push(0, Kind::RangeDelete, from, to);
    }

    /// Removes all keys from `from` on from the default family.
    pub fn delete_range_from(&mut self, from: &[u8]) {
        self.push(0, Kind::RangeDeleteFrom, from, b"");
    }

    /// Sets a key.
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        self.push_in(family, Kind::Value, key, value);
    }

    /// Sets a key as if it had been written at another time, unix seconds: see [`super::Db::put_at_with`].
    pub fn put_at_in(&mut self, family: &Family, key: &[u8], value: &[u8], unix_seconds: u64) {
        self.name(family);
        self.push_value(family.id(), Kind::TimedValue, key, Some(unix_seconds), value);
    }

    /// Removes a key.
    pub fn delete_in(&mut self, family: &Family, key: &[u8]) {
        self.push_in(family, Kind::Delete, key, b"");
    }

    /// Adds an operand for the family's merge operator.
    pub fn merge_in(&mut self, family: &Family, key: &[u8], operand: &[u8]) {
        self.push_in(family, Kind::Merge, key, operand);
    }

    /// Removes all keys from `from` up to (not including) `to`: see [`WriteBatch::delete_range`].
    pub fn delete_range_in(&mut self, family: &Family, from: &[u8], to: &[u8]) {
        self.push_in(family, Kind::RangeDelete, from, to);
    }

    /// Removes all keys from `from` on.
    pub fn delete_range_from_in(&mut self, family: &Family, from: &[u8]) {
        self.push_in(family, Kind::RangeDeleteFrom, from, b"");
    }

    /// Empties the batch and keeps its memory, of a huge one 16 MiB.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.operations.shrink_to(KEPT);
        self.count = 0;
        self.handle = 0;
        self.refused = None;
    }

    /// Operations in the batch.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// No operation yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the encoded operations.
    pub fn bytes(&self) -> usize {
        self.operations.len()
    }

    /// Bytes of memory reserved for operations.
    #[doc(hidden)]
    pub fn memory(&self) -> usize {
        self.operations.capacity()
    }

    /// Notes the open database whose family is named.
    fn name(&mut self, family: &Family) {
        let handle = family.core.handle;
        if self.handle != handle && std::mem::replace(&mut self.handle, handle) != 0 {
            self.refused = Some("the batch names column families of two open databases");
        }
    }

    fn push_in(&mut self, family: &Family, kind: Kind, key: &[u8], value: &[u8]) {
        self.name(family);
        self.push(family.id(), kind, key, value);
    }

    #[inline]
    pub(crate) fn push(&mut self, family: u32, kind: Kind, key: &[u8], value: &[u8]) {
        self.push_value(family, kind, key, None, value);
    }

    /// Adds an operation. `time` is that of a timed value.
    #[inline]
    pub(crate) fn push_value(&mut self, family: u32, kind: Kind, key: &[u8], time: Option<u64>, value: &[u8]) {
        // Adding cannot fail, so that batches are pleasant to build; a batch that broke a limit is refused as a whole by `check`.
        if let Some(what) = refusal(kind, key, value) {
            self.refused = Some(what);
        } else if self.operations.len() + key.len() + value.len() > MAX_BATCH || self.count == u32::MAX {
            self.refused = Some("the batch is larger than 1 GiB");
        }
        if self.refused.is_some() {
            return;
        }
        if let Some(time) = time {
            put_start(&mut self.operations, family, kind, key);
            put_varint(&mut self.operations, (varint_len(time) + value.len()) as u64);
            key::put_timed(&mut self.operations, time, value);
        } else {
            Operation { family, kind, key, value }.encode(&mut self.operations);
        }
        self.count += 1;
    }

    /// Refuses a batch that broke a limit while it was built, and one for another open database than that with this handle.
    pub(crate) fn check(&self, handle: u64) -> Result<()> {
        if let Some(what) = self.refused {
            return Err(Error::invalid(what));
        }
        if self.handle != 0 && self.handle != handle {
            return Err(Error::invalid("the batch names column families of another open database"));
        }
        Ok(())
    }

    /// The batch deletes, and puts next to nothing beside: a full medium still takes such batches.
    pub(crate) fn is_deletion(&self) -> bool {
        let (mut deletions, mut bytes) = (0usize, 0usize);
        for operation in self.operations().flatten() {
            if operation.kind.deletes() {
                deletions += 1;
            } else {
                bytes += operation.key.len() + operation.value.len();
            }
        }
        self.is_empty() || (deletions > 0 && bytes <= deletions.saturating_mul(BESIDE_DELETION))
    }

    #[cfg(test)]
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.operations
    }

    pub(crate) fn operations(&self) -> Operations<'_> {
        Operations::new(Decoder::new(&self.operations))
    }
}

/// Walks encoded operations; `Err(())` on damage.
pub(crate) struct Operations<'a> {
    from: Decoder<'a>,
    /// The first byte of an operation whose value goes on to the end.
    single: Option<u8>,
}

impl<'a> Operations<'a> {
    pub(super) fn new(from: Decoder<'a>) -> Self {
        Operations { from, single: None }
    }

    /// Walks one operation with this first byte, whose value goes on to the end.
    pub(super) fn single(byte: u8, from: Decoder<'a>) -> Self {
        Operations { from, single: Some(byte) }
    }

    #[inline]
    fn decode(&mut self) -> Option<Operation<'a>> {
        let single = self.single.take();
        let byte = single.or_else(|| self.from.u8())?;
        let family = if byte & FAMILY_FLAG == 0 { 0 } else { u32::try_from(self.from.varint()?).ok()? };
        let kind = Kind::from_byte(byte & !FAMILY_FLAG).filter(|k| *k != Kind::ValueReference)?;
        let key = self.from.prefixed()?;
        let value = match single {
            _ if kind.is_bare() => &[][..],
            None => self.from.prefixed()?,
            Some(_) => self.from.bytes(self.from.rest().len())?,
        };
        if kind == Kind::TimedValue {
            key::split_timed(value)?;
        }
        Some(Operation { family, kind, key, value })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = std::result::Result<Operation<'a>, ()>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        (self.single.is_some() || !self.from.is_empty()).then(|| self.decode().ok_or(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_batch_keeps_little_memory() {
        let mut batch = WriteBatch::new();
        (0..20u8).for_each(|n| batch.put(&[n], &vec![n; 1 << 20]));
        batch.clear();
        assert!(batch.is_empty() && batch.operations.capacity() <= KEPT, "{}", batch.operations.capacity());
    }

    #[test]
    fn a_batch_reads_back_as_it_was_built() {
        let mut batch = WriteBatch::new();
        batch.put(b"", b"");
        batch.delete(b"k");
        batch.push(300, Kind::Merge, b"k", b"+1");
        batch.delete_range(b"a", b"b");
        batch.put_at(b"k", b"v", 300);
        batch.delete_range_from(b"a");
        let read: Vec<_> = batch.operations().map(|o| o.unwrap()).collect();
        assert_eq!(read.len(), batch.len());
        assert_eq!(read[0], Operation { family: 0, kind: Kind::Value, key: b"", value: b"" });
        assert_eq!(read[1], Operation { family: 0, kind: Kind::Delete, key: b"k", value: b"" });
        assert_eq!(read[2], Operation { family: 300, kind: Kind::Merge, key: b"k", value: b"+1" });
        assert_eq!(read[3], Operation { family: 0, kind: Kind::RangeDelete, key: b"a", value: b"b" });
        assert_eq!(read[4], Operation { family: 0, kind: Kind::TimedValue, key: b"k", value: b"\xac\x02v" });
        assert_eq!(key::split_timed(read[4].value), Some((300, &b"v"[..])));
        assert_eq!(read[5], Operation { family: 0, kind: Kind::RangeDeleteFrom, key: b"a", value: b"" });
    }

    #[test]
    fn a_batch_is_a_deletion_if_it_puts_little_beside_each() {
        let mut batch = WriteBatch::new();
        assert!(batch.is_deletion(), "a sync");
        batch.put(b"count", b"1");
        assert!(!batch.is_deletion());
        batch.delete(b"k");
        assert!(batch.is_deletion());
        batch.put(b"k", &vec![0; BESIDE_DELETION]);
        assert!(!batch.is_deletion());
        batch.delete_range(b"a", b"b");
        assert!(batch.is_deletion());
        batch.put(b"k", &vec![0; 2 * BESIDE_DELETION]);
        assert!(!batch.is_deletion());
    }

    #[test]
    fn a_batch_over_a_limit_is_refused_whole() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"b");
        batch.put(&vec![0; MAX_KEY + 1], b"");
        assert!(matches!(batch.check(1), Err(Error::Invalid(_))));
        batch.clear();
        batch.put_at(&vec![0; MAX_KEY + 1], b"", 7);
        assert!(matches!(batch.check(1), Err(Error::Invalid(_))));
        batch.clear();
        batch.delete_range(b"b", b"a");
        assert!(matches!(batch.check(1), Err(Error::Invalid(what)) if what.contains("ends before it begins")));
        batch.clear();
        batch.delete_range(b"a", b"a");
        assert!(batch.check(1).is_ok());
    }
}
