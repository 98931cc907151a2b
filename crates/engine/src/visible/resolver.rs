//! Point reads: the versions of one key, newest source first, become a value or nothing.

use super::{Operands, fold, unreadable, untimed};
use crate::error::{Error, Result};
use crate::key::{Kind, Seq, trailer};
use crate::operator::MergeOperator;
use crate::tiering::age::Expiry;
use std::ops::ControlFlow;

/// Collects the versions of one key, newest source first, into what a reader sees. The caller's value buffer is reused: no allocation on
/// the plain path.
pub struct Resolver<'a> {
    key: &'a [u8],
    snapshot: Seq,
    merge: Option<&'a dyn MergeOperator>,
    expiry: Option<Expiry>,
    out: &'a mut Vec<u8>,
    /// The newest range tombstone over the key so far; 0 deletes nothing.
    covered: Seq,
    /// Newest first.
    operands: Operands,
    answer: Option<Result<bool>>,
}

impl<'a> Resolver<'a> {
    /// Starts; the result goes to `out` (cleared).
    #[inline]
    pub fn new(key: &'a [u8], snapshot: Seq, merge: Option<&'a dyn MergeOperator>, out: &'a mut Vec<u8>) -> Self {
        out.clear();
        Resolver { key, snapshot, merge, expiry: None, out, covered: 0, operands: Operands::default(), answer: None }
    }

    /// Expired entries count as deleted.
    #[inline]
    pub fn with_expiry(self, expiry: Option<Expiry>) -> Self {
        Resolver { expiry, ..self }
    }

    /// A range tombstone of number `seq` covers the key (from this source or a newer one).
    #[inline]
    pub fn covered(&mut self, seq: Seq) {
        if seq <= self.snapshot {
            self.covered = self.covered.max(seq);
        }
    }

    /// The next older version. Breaks when the answer is known.
    #[inline]
    pub fn version(&mut self, seq: Seq, kind: Kind, value: &[u8]) -> ControlFlow<()> {
        if self.answer.is_some() {
            return ControlFlow::Break(());
        }
        if seq > self.snapshot {
            return ControlFlow::Continue(());
        }
        if seq < self.covered || self.expiry.is_some_and(|expiry| expiry.covers(trailer(seq, kind), value)) {
            self.base(None);
            return ControlFlow::Break(());
        }
        match kind {
            Kind::Value if self.operands.is_empty() => {
                self.out.extend_from_slice(value);
                self.answer = Some(Ok(true));
            }
            Kind::Value => self.base(Some(value)),
            Kind::TimedValue => match untimed(self.key, value) {
                Ok(value) if self.operands.is_empty() => {
                    self.out.extend_from_slice(value);
                    self.answer = Some(Ok(true));
                }
                Ok(value) => self.base(Some(value)),
                Err(error) => self.answer = Some(Err(error)),
            },
            Kind::Delete => self.base(None),
            Kind::Merge => {
                self.operands.push(value);
                return ControlFlow::Continue(());
            }
            Kind::RangeDelete | Kind::RangeDeleteFrom | Kind::ValueReference => {
                self.answer = Some(Err(unreadable(self.key, trailer(seq, kind))))
            }
        }
        ControlFlow::Break(())
    }

    /// Answers from `base`, the value to which the collected operands apply.
    fn base(&mut self, base: Option<&[u8]>) {
        if self.operands.is_empty() {
            self.answer = Some(Ok(false));
            return;
        }
        let operands: Vec<&[u8]> = self.operands.iter().rev().collect();
        self.answer = Some(fold(self.merge, self.key, base, &operands).map(|value| {
            *self.out = value;
            true
        }));
    }

    /// The answer is known; no older source needs looking at.
    #[inline]
    pub fn done(&self) -> bool {
        self.answer.is_some()
    }

    /// True if the key exists; its value is then in `out`. Applies merge operands that found no base.
    ///
    /// # Errors
    /// [`Error::Invalid`] for operands without a merge operator or that it refuses, and for kinds this build cannot read.
    pub fn finish(mut self) -> Result<bool> {
        if self.answer.is_none() {
            self.base(None);
        }
        self.answer.unwrap_or_else(|| Err(Error::invalid("unresolved")))
    }
}
