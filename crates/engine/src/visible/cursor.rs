//! Scans: the user keys that a snapshot sees, in both directions.
//!
//! Walking forward, key and value are borrowed from the inner cursor, which stands on the visible version. Walking backward, the inner
//! cursor meets the versions of a key oldest first, so it has passed the visible one when it knows it, and a copy is kept. Either way the
//! work per key is bounded: after [`MAX_STEPS`] versions of one key the cursor seeks instead of stepping. Walking forward, it also does so
//! after as many keys under a range tombstone.

use super::{Operands, fold, unreadable, user_value};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Kind, Seq, kind_of, seq_of, upper};
use crate::operator::MergeOperator;
use crate::range_del::RangeTombstones;
use crate::tiering::age::Expiry;
use std::sync::Arc;

/// Versions of one key that are stepped over before a seek is cheaper. A seek costs about as much as 20 to 50 steps.
const MAX_STEPS: usize = 16;

/// Position of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    /// On the inner cursor's entry.
    Inner,
    /// On the copy; the inner cursor is past the version it was taken from.
    CopyForward,
    /// On the copy; the inner cursor is on the last entry of an earlier key, or nowhere.
    CopyBackward,
}

/// Walks the user keys that a snapshot sees, in both directions, within bounds.
pub struct VisibleCursor<C> {
    inner: C,
    coverage: Coverage,
    snapshot: Seq,
    merge: Option<Arc<dyn MergeOperator>>,
    expiry: Option<Expiry>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    at: At,
    /// Offset of the value in the bytes that the inner cursor's entry stores.
    value_at: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    operands: Operands,
    /// Dead keys that going forward may still pass over.
    patience: usize,
    /// Dead keys that were passed over, in both directions.
    passed: u64,
    /// The cursor ran out of patience before the dead key in `key` and stands nowhere.
    stopped: bool,
}

impl<C: Cursor> VisibleCursor<C> {
    /// `tombstones` are those of all sources. Bounds: lower included, upper excluded.
    pub fn new(
        inner: C,
        tombstones: Vec<Arc<RangeTombstones>>,
        snapshot: Seq,
        merge: Option<Arc<dyn MergeOperator>>,
        lower: Option<Vec<u8>>,
        upper: Option<Vec<u8>>,
    ) -> Self {
        VisibleCursor {
            inner,
            coverage: Coverage::new(tombstones, snapshot),
            snapshot,
            merge,
            expiry: None,
            lower,
            upper,
            at: At::Nowhere,
            value_at: 0,
            key: Vec::new(),
            value: Vec::new(),
            operands: Operands::default(),
            patience: usize::MAX,
            passed: 0,
            stopped: false,
        }
    }

    /// Expired entries count as deleted.
    pub fn with_expiry(self, expiry: Option<Expiry>) -> Self {
        VisibleCursor { expiry, ..self }
    }

    /// Limits the dead keys that going forward passes over in all; the cursor stops at the next one.
    pub fn with_patience(self, patience: usize) -> Self {
        VisibleCursor { patience, ..self }
    }

    /// The dead key at which the cursor ran out of patience; there may be others behind it.
    pub fn stopped_at(&self) -> Option<&[u8]> {
        self.stopped.then_some(&self.key)
    }

    /// Number of dead keys that the cursor has passed over.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Moves to the first visible key.
    pub fn seek_first(&mut self) -> Result<()> {
        (self.at, self.stopped) = (At::Nowhere, false);
        match &self.lower {
            Some(lower) => self.inner.seek(lower, upper(self.snapshot))?,
            None => self.inner.seek_first()?,
        }
        self.settle_forward(false)
    }

    /// Moves to the last visible key.
    pub fn seek_last(&mut self) -> Result<()> {
        (self.at, self.stopped) = (At::Nowhere, false);
        match &self.upper {
            Some(upper) => self.inner.seek_before(upper)?,
            None => self.inner.seek_last()?,
        }
        self.settle_backward()
    }

    /// Moves to the first visible key `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        (self.at, self.stopped) = (At::Nowhere, false);
        let from = self.lower.as_deref().map_or(key, |lower| lower.max(key));
        self.inner.seek(from, upper(self.snapshot))?;
        self.settle_forward(false)
    }

    /// Moves to the last visible key `<= key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        (self.at, self.stopped) = (At::Nowhere, false);
        match &self.upper {
            Some(upper) if upper.as_slice() <= key => self.inner.seek_before(upper)?,
            _ => {
                // The smallest key after `key`.
                self.key.clear();
                self.key.extend_from_slice(key);
                self.key.push(0);
                self.inner.seek_before(&self.key)?;
            }
        }
        self.settle_backward()
    }

    /// To the next visible key. Does nothing if the cursor stands nowhere.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor lends its key and value, an iterator cannot")]
    pub fn next(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Nowhere => return Ok(()),
            At::Inner => {
                self.copy_key();
                self.inner.next()?;
            }
            At::CopyForward => {}
            At::CopyBackward => self.inner.seek(&self.key, 0)?,
        }
        self.settle_forward(true)
    }

    /// To the previous visible key. Does nothing if the cursor stands nowhere.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Nowhere => return Ok(()),
            At::Inner => {
                self.copy_key();
                self.inner.seek_before(&self.key)?;
            }
            At::CopyForward => self.inner.seek_before(&self.key)?,
            At::CopyBackward => {}
        }
        self.settle_backward()
    }

    /// Stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at != At::Nowhere
    }

    /// The key. Only on a valid cursor.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.at == At::Inner { self.inner.key() } else { &self.key }
    }

    /// The value. Only on a valid cursor.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.at == At::Inner { self.inner.value().get(self.value_at..).unwrap_or_default() } else { &self.value }
    }

    /// The inner cursor, if it stands on the version that is seen, and not on the way to or from it.
    pub fn inner(&self) -> Option<&C> {
        (self.at == At::Inner).then_some(&self.inner)
    }

    /// The inner cursor's entry has.
    #[inline]
    fn has_expired(&self) -> bool {
        self.expiry.is_some_and(|expiry| expiry.covers(self.inner.trailer(), self.inner.value()))
    }

    #[inline]
    fn copy_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.inner.key());
    }

    /// From the inner cursor's entry to the first visible key. `skip`: the key in `self.key` is done with.
    fn settle_forward(&mut self, mut skip: bool) -> Result<()> {
        let (mut older, mut newer, mut deleted) = (0, 0, 0);
        self.stopped = false;
        while self.inner.valid() {
            let trailer = self.inner.trailer();
            let key = self.inner.key();
            if skip && is_same(key, &self.key) {
                older += 1;
                if older == MAX_STEPS {
                    // Trailer 0 is the oldest there can be: the next key, or a last entry.
                    self.inner.seek(&self.key, 0)?;
                } else {
                    self.inner.next()?;
                }
                continue;
            }
            if self.upper.as_deref().is_some_and(|upper| upper <= key) {
                return Ok(());
            }
            let seq = seq_of(trailer);
            if seq > self.snapshot {
                newer += 1;
                // Written after the snapshot. Every so often: is it one key with many such versions? Then jump over them.
                if newer % MAX_STEPS == 0 && newer > MAX_STEPS && self.inner.key() == self.key {
                    self.inner.seek(&self.key, upper(self.snapshot))?;
                    continue;
                }
                if newer % MAX_STEPS == 0 {
                    self.copy_key();
                    skip = false;
                }
                self.inner.next()?;
                continue;
            }
            let is_deleted = self.coverage.covers(key, seq);
            let covered = is_deleted || self.has_expired();
            match kind_of(trailer) {
                Some(kind @ (Kind::Value | Kind::TimedValue)) if !covered => {
                    self.value_at = 0;
                    if kind == Kind::TimedValue {
                        let stored = self.inner.value();
                        self.value_at = stored.len() - user_value(kind, key, stored)?.len();
                    }
                    self.at = At::Inner;
                    return Ok(());
                }
                Some(Kind::Merge) if !covered => return self.merge_forward(),
                Some(Kind::Value | Kind::TimedValue | Kind::Merge | Kind::Delete) => {
                    self.copy_key();
                    self.stopped = self.patience == 0;
                    if self.stopped {
                        return Ok(());
                    }
                    self.patience -= 1;
                    self.passed += 1;
                    (skip, older) = (true, 0);
                    deleted += usize::from(is_deleted);
                    if !(is_deleted && deleted % MAX_STEPS == 0 && self.pass_deleted()?) {
                        self.inner.next()?;
                    }
                }
                _ => return Err(unreadable(self.inner.key(), trailer)),
            }
        }
        Ok(())
    }

    /// Seeks to the end of the stretch of keys that a range tombstone deletes around the current one, in all sources in which no entry is
    /// newer than the tombstone. Returns whether one moved.
    #[cold]
    fn pass_deleted(&mut self) -> Result<bool> {
        let Some((end, newest)) = self.coverage.stretch() else { return Ok(false) };
        let to = self.upper.as_deref().map_or(end, |upper| upper.min(end));
        self.inner.pass(to, newest)
    }

    /// Folds the operands that begin at the inner cursor's entry.
    fn merge_forward(&mut self) -> Result<()> {
        self.copy_key();
        self.operands.clear();
        let mut base = None;
        while self.inner.valid() && self.inner.key() == self.key {
            let trailer = self.inner.trailer();
            if self.coverage.covers(&self.key, seq_of(trailer)) || self.has_expired() {
                break;
            }
            match kind_of(trailer) {
                Some(Kind::Merge) => self.operands.push(self.inner.value()),
                Some(kind @ (Kind::Value | Kind::TimedValue)) => {
                    base = Some(kind);
                    break;
                }
                Some(Kind::Delete) => break,
                _ => return Err(unreadable(&self.key, trailer)),
            }
            self.inner.next()?;
        }
        let operands: Vec<&[u8]> = self.operands.iter().rev().collect();
        let base = base.map(|kind| user_value(kind, &self.key, self.inner.value())).transpose()?;
        self.value = fold(self.merge.as_deref(), &self.key, base, &operands)?;
        self.at = At::CopyForward;
        Ok(())
    }

    /// From the inner cursor's entry, the oldest of its key, to the last visible key at or before it.
    fn settle_backward(&mut self) -> Result<()> {
        self.stopped = false;
        while self.inner.valid() {
            if self.lower.as_deref().is_some_and(|lower| self.inner.key() < lower) {
                return Ok(());
            }
            if self.resolve_backward()? {
                self.at = At::CopyBackward;
                return Ok(());
            }
            self.passed += 1;
        }
        Ok(())
    }

    /// Walks through the versions of one key, oldest first; leaves the inner cursor on the last entry of the key before. True if the
    /// key exists; key and value are then in the copy.
    fn resolve_backward(&mut self) -> Result<bool> {
        self.copy_key();
        self.operands.clear();
        // Result of the versions met so far: a value in `self.value`, or nothing, below the operands.
        let mut has_base = false;
        let mut versions = 0;
        while self.inner.valid() && self.inner.key() == self.key {
            versions += 1;
            if versions > MAX_STEPS {
                return self.resolve_by_seek();
            }
            let trailer = self.inner.trailer();
            let seq = seq_of(trailer);
            if seq <= self.snapshot {
                match kind_of(trailer) {
                    Some(Kind::Value | Kind::TimedValue | Kind::Delete | Kind::Merge) if self.coverage.covers(&self.key, seq) => {}
                    Some(Kind::Value | Kind::TimedValue | Kind::Merge) if self.has_expired() => {
                        self.operands.clear();
                        has_base = false;
                    }
                    Some(kind @ (Kind::Value | Kind::TimedValue)) => {
                        self.operands.clear();
                        self.value.clear();
                        self.value.extend_from_slice(user_value(kind, &self.key, self.inner.value())?);
                        has_base = true;
                    }
                    Some(Kind::Delete) => {
                        self.operands.clear();
                        has_base = false;
                    }
                    Some(Kind::Merge) => self.operands.push(self.inner.value()),
                    _ => return Err(unreadable(&self.key, trailer)),
                }
            }
            self.inner.prev()?;
        }
        if self.operands.is_empty() {
            return Ok(has_base);
        }
        let operands: Vec<&[u8]> = self.operands.iter().collect();
        self.value = fold(self.merge.as_deref(), &self.key, has_base.then_some(&self.value), &operands)?;
        Ok(true)
    }

    /// Resolves a key of many versions by seeking: down from the newest visible one.
    fn resolve_by_seek(&mut self) -> Result<bool> {
        self.inner.seek(&self.key, upper(self.snapshot))?;
        let mut exists = false;
        let is_here = self.inner.valid() && self.inner.key() == self.key;
        if is_here && !self.coverage.covers(&self.key, seq_of(self.inner.trailer())) && !self.has_expired() {
            let trailer = self.inner.trailer();
            match kind_of(trailer) {
                Some(kind @ (Kind::Value | Kind::TimedValue)) => {
                    self.value.clear();
                    self.value.extend_from_slice(user_value(kind, &self.key, self.inner.value())?);
                    exists = true;
                }
                Some(Kind::Merge) => {
                    self.merge_forward()?;
                    self.at = At::Nowhere;
                    exists = true;
                }
                Some(Kind::Delete) => {}
                _ => return Err(unreadable(&self.key, trailer)),
            }
        }
        self.inner.seek_before(&self.key)?;
        Ok(exists)
    }
}

/// Returns whether two keys are equal. Neighbours of one length usually differ in their last bytes, which takes no call to find out.
#[inline(always)]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.last_chunk::<8>() == b.last_chunk::<8>() && a == b
}

/// The range tombstones of all sources, with the answer for the stretch of keys around the last one asked for: a scan searches once
/// per stretch, not once per key.
struct Coverage {
    /// The sets that are not empty.
    sets: Vec<Arc<RangeTombstones>>,
    snapshot: Seq,
    /// `[from, to)`; `to` counts only if `bounded`.
    from: Vec<u8>,
    to: Vec<u8>,
    bounded: bool,
    /// The newest visible tombstone over the stretch; `None` before the first question.
    newest: Option<Seq>,
}

impl Coverage {
    fn new(mut sets: Vec<Arc<RangeTombstones>>, snapshot: Seq) -> Self {
        sets.retain(|set| !set.is_empty());
        Coverage { sets, snapshot, from: Vec::new(), to: Vec::new(), bounded: false, newest: None }
    }

    /// A visible range tombstone deletes the version `seq` of `key`.
    #[inline]
    fn covers(&mut self, key: &[u8], seq: Seq) -> bool {
        !self.sets.is_empty() && seq < self.newest(key)
    }

    /// The end of the stretch of the last question, if it has one, and the newest visible tombstone over it.
    fn stretch(&self) -> Option<(&[u8], Seq)> {
        self.newest.filter(|_| self.bounded).map(|newest| (self.to.as_slice(), newest))
    }

    fn newest(&mut self, key: &[u8]) -> Seq {
        match self.newest {
            Some(newest) if self.from.as_slice() <= key && (!self.bounded || key < self.to.as_slice()) => newest,
            _ => self.search(key),
        }
    }

    fn search(&mut self, key: &[u8]) -> Seq {
        let (mut from, mut to, mut newest) = (None, None, 0);
        for set in &self.sets {
            let span = set.span(key);
            from = from.max(span.from);
            to = match (to, span.to) {
                (Some(a), Some(b)) => Some(std::cmp::min::<&[u8]>(a, b)),
                (a, b) => a.or(b),
            };
            newest = newest.max(span.fragment.and_then(|f| f.newest(self.snapshot)).unwrap_or(0));
        }
        self.from.clear();
        self.from.extend_from_slice(from.unwrap_or_default());
        self.to.clear();
        self.to.extend_from_slice(to.unwrap_or_default());
        self.bounded = to.is_some();
        self.newest = Some(newest);
        newest
    }
}
