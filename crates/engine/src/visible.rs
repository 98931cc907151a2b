//! Which version of a key a reader sees: for single keys ([`Resolver`]) and for scans ([`VisibleCursor`]). STUB

use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Kind, Seq};
use crate::operator::MergeOperator;
use crate::range_del::RangeTombstones;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Collects the versions of one key, newest source first, into what a reader sees. The caller's value buffer is reused: no allocation on
/// the plain path.
pub struct Resolver<'a> {
    _p: std::marker::PhantomData<&'a ()>,
}

impl<'a> Resolver<'a> {
    /// Starts; the result goes to `out` (cleared).
    pub fn new(_key: &'a [u8], _snapshot: Seq, _merge: Option<&'a dyn MergeOperator>, _out: &'a mut Vec<u8>) -> Self {
        unimplemented!()
    }
    /// A range tombstone of number `seq` covers the key (from this source or a newer one).
    pub fn covered(&mut self, _seq: Seq) {
        unimplemented!()
    }
    /// The next older version. Breaks when the answer is known.
    pub fn version(&mut self, _seq: Seq, _kind: Kind, _value: &[u8]) -> ControlFlow<()> {
        unimplemented!()
    }
    /// The answer is known; no older source needs looking at.
    pub fn done(&self) -> bool {
        unimplemented!()
    }
    /// True if the key exists; its value is then in `out`. Applies merge operands that found no base.
    pub fn finish(self) -> Result<bool> {
        unimplemented!()
    }
}

/// Walks the user keys that a snapshot sees, in both directions, within bounds.
pub struct VisibleCursor<C> {
    _inner: C,
}

impl<C: Cursor> VisibleCursor<C> {
    /// `tombstones` are those of all sources. Bounds: lower included, upper excluded.
    pub fn new(
        _inner: C,
        _tombstones: Vec<Arc<RangeTombstones>>,
        _snapshot: Seq,
        _merge: Option<Arc<dyn MergeOperator>>,
        _lower: Option<Vec<u8>>,
        _upper: Option<Vec<u8>>,
    ) -> Self {
        unimplemented!()
    }
    /// To the first visible key.
    pub fn seek_first(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the last visible key.
    pub fn seek_last(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the first visible key `>= key`.
    pub fn seek(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// To the last visible key `<= key`.
    pub fn seek_for_prev(&mut self, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// To the next visible key.
    pub fn next(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// To the previous visible key.
    pub fn prev(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// Stands on a key.
    pub fn valid(&self) -> bool {
        unimplemented!()
    }
    /// The key.
    pub fn key(&self) -> &[u8] {
        unimplemented!()
    }
    /// Its value.
    pub fn value(&self) -> &[u8] {
        unimplemented!()
    }
}
