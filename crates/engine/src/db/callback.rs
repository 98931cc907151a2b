//! Code of users that the database calls: merge operators, compaction filters, the clock, the notice of a logged batch.
//!
//! Such code may run on any thread, with the lead of the write queue or other locks held by its caller, and the engine waits for it. A
//! mark of the thread says which code runs. Methods of [`Db`](super::Db) that write or wait look at the mark and give an error at once;
//! within a clock, all methods do. Every call of such code goes through [`Plugged`].

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::key::MAX_VALUE;
use crate::operator::{CompactionFilter, Decision, MergeOperator};
use std::cell::Cell;
use std::sync::Arc;

/// Handle that stands for all databases.
const ANY: u64 = u64::MAX;

/// User code that runs, the least restricted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    None,
    Notice,
    Filter,
    Operator,
    Clock,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Code::None => "no callback",
            Code::Notice => "the notice of a write",
            Code::Filter => "a compaction filter",
            Code::Operator => "a merge operator",
            Code::Clock => "a clock",
        }
    }
}

/// User code that runs on a thread, and the open database ([`super::Inner::handle`]) that waits for it; 0: none does.
#[derive(Debug, Clone, Copy)]
struct Mark {
    handle: u64,
    code: Code,
}

thread_local! {
    static MARK: Cell<Mark> = const { Cell::new(Mark { handle: 0, code: Code::None }) };
}

/// Marks that code of a user runs on this thread, while it lives.
#[derive(Debug)]
pub(super) struct Inside {
    before: Mark,
}

impl Inside {
    /// Marks the thread. Code of one database within that of another makes both of them wait, and then counts as code of all.
    pub fn enter(handle: u64, code: Code) -> Self {
        let before = MARK.get();
        let handle = if before.handle == 0 || before.handle == handle { handle } else { ANY };
        MARK.set(Mark { handle, code: before.code.max(code) });
        Inside { before }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        MARK.set(self.before);
    }
}

/// Refuses calls that write or wait, if the database waits for this thread.
#[inline]
pub(super) fn check_outside(handle: u64) -> Result<()> {
    let mark = MARK.get();
    if mark.handle != handle && mark.handle != ANY { Ok(()) } else { Err(refusal(mark.code)) }
}

/// Refuses calls that only read, within a clock: the engine asks for the time with its locks held, and while it reads.
#[inline]
pub(super) fn check_readable() -> Result<()> {
    if is_readable() { Ok(()) } else { Err(refusal(Code::Clock)) }
}

/// [`check_readable`] for methods that give no errors.
#[inline]
pub(super) fn is_readable() -> bool {
    MARK.get().code != Code::Clock
}

#[cold]
fn refusal(code: Code) -> Error {
    Error::Invalid(format!("called from {}, for which the database waits", code.name()))
}

/// Code of a user, called with the thread marked.
#[derive(Debug)]
pub(super) struct Plugged<T: ?Sized> {
    handle: u64,
    kind: Code,
    code: Arc<T>,
    /// Goes after `code`, whose end is code of the user, too.
    ending: Option<Inside>,
}

impl<T: ?Sized> Plugged<T> {
    fn new(handle: u64, kind: Code, code: Arc<T>) -> Arc<Self> {
        Arc::new(Plugged { handle, kind, code, ending: None })
    }

    #[inline]
    fn enter(&self) -> Inside {
        Inside::enter(self.handle, self.kind)
    }
}

impl<T: ?Sized> Drop for Plugged<T> {
    fn drop(&mut self) {
        self.ending = Some(self.enter());
    }
}

/// A merge operator of an open database.
pub(super) fn operator(handle: u64, operator: Arc<dyn MergeOperator>) -> Arc<dyn MergeOperator> {
    Plugged::new(handle, Code::Operator, operator)
}

/// A compaction filter of an open database.
pub(super) fn filter(handle: u64, filter: Arc<dyn CompactionFilter>) -> Arc<dyn CompactionFilter> {
    Plugged::new(handle, Code::Filter, filter)
}

/// The clock of an open database.
pub(super) fn clock(clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
    Plugged::new(ANY, Code::Clock, clock)
}

/// Whether a value of a user's code may be stored: one of a batch has the same limit.
fn is_small_enough(value: &[u8]) -> bool {
    value.len() <= MAX_VALUE
}

impl MergeOperator for Plugged<dyn MergeOperator> {
    fn name(&self) -> &str {
        let _inside = self.enter();
        self.code.name()
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _inside = self.enter();
        self.code.full_merge(key, base, operands).filter(|value| is_small_enough(value))
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _inside = self.enter();
        self.code.partial_merge(key, operands).filter(|value| is_small_enough(value))
    }
}

impl CompactionFilter for Plugged<dyn CompactionFilter> {
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        let _inside = self.enter();
        match self.code.filter(level, key, value) {
            Decision::Change(value) if !is_small_enough(&value) => Decision::Keep,
            decision => decision,
        }
    }
}

impl Clock for Plugged<dyn Clock> {
    fn monotonic_ns(&self) -> u64 {
        let _inside = self.enter();
        self.code.monotonic_ns()
    }

    fn unix_seconds(&self) -> u64 {
        let _inside = self.enter();
        self.code.unix_seconds()
    }

    fn queued_ns(&self) -> u64 {
        let _inside = self.enter();
        self.code.queued_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives values of a length.
    struct OfLength(usize);

    impl MergeOperator for OfLength {
        fn name(&self) -> &str {
            "of a length"
        }

        fn full_merge(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
            Some(vec![0; self.0])
        }

        fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
            Some(vec![0; self.0])
        }
    }

    impl CompactionFilter for OfLength {
        fn filter(&self, _level: u8, _key: &[u8], _value: &[u8]) -> Decision {
            Decision::Change(vec![0; self.0])
        }
    }

    #[test]
    fn values_beyond_the_limit_are_not_taken() {
        for (length, is_taken) in [(MAX_VALUE, true), (MAX_VALUE + 1, false)] {
            let merge = operator(1, Arc::new(OfLength(length)));
            assert_eq!(merge.full_merge(b"k", None, &[]).is_some(), is_taken);
            assert_eq!(merge.partial_merge(b"k", &[]).is_some(), is_taken);
            assert_eq!(filter(1, Arc::new(OfLength(length))).filter(0, b"k", b"v") != Decision::Keep, is_taken);
        }
    }

    #[test]
    fn a_mark_holds_for_one_database_and_ends_with_its_code() {
        let is_free = |handle| check_outside(handle).is_ok();
        assert!(is_free(1) && is_readable());
        let filter = Inside::enter(1, Code::Filter);
        assert!(!is_free(1) && is_free(2) && is_readable());
        let other = Inside::enter(2, Code::Operator);
        assert!(!is_free(1) && !is_free(2) && is_readable());
        let beside = std::thread::scope(|scope| scope.spawn(|| is_free(1)).join());
        assert_eq!(beside.ok(), Some(true), "another thread is free");
        drop(other);
        assert!(!is_free(1) && is_free(2));
        let clock = Inside::enter(ANY, Code::Clock);
        assert!(!is_free(2) && !is_readable());
        let within = Inside::enter(1, Code::Operator);
        assert!(!is_readable(), "what a clock calls is restricted as the clock is");
        drop((within, clock));
        assert!(is_readable());
        let error = check_outside(1).map_err(|error| error.to_string());
        assert_eq!(error, Err("invalid: called from a compaction filter, for which the database waits".into()));
        drop(filter);
        assert!(is_free(1));
    }
}
