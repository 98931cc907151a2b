//! Extensions that a user can plug into a family: a merge operator and a compaction filter.
//!
//! # Calls into the database
//!
//! The engine waits for an operator or a filter that it calls, often with locks held. A method of [`Db`](crate::Db) that is called there,
//! of the same database, works or gives [`Error::Invalid`](crate::Error::Invalid) at once:
//!
//! * Reads, iterators, snapshots, settings, properties and other figures work.
//! * Writes, `sync`, `flush`, `compact_range`, `wait_for_compactions`, `checkpoint` and `close` give the error, and so does all that
//!   creates, drops or changes families or the division of memory.
//! * If the last handle goes there, a thread closes the database once the call has ended.
//!
//! A panic in a flush or a compaction ends the work of all handles of the database: writes give
//! [`Error::Closed`](crate::Error::Closed), reads go on, and nothing is lost for the next opener.
//!
//! Other databases are free, unless they wait for this one. Code that hands work to another thread and waits for it may wait for ever, and
//! a merge operator that reads the key it merges calls itself without end.

/// Folds operands into a value. Must be deterministic; the name is stored with the family and checked at open. Readers, flushes and
/// compactions call it; it may read from the database, and must not write to it ([Calls into the database](self#calls-into-the-database)).
pub trait MergeOperator: Send + Sync {
    /// A stable name; opening a family with another operator than it was written with is an error.
    fn name(&self) -> &str;

    /// The value after applying `operands` (oldest first) to `base` (`None`: the key did not exist). `None` means that the operands
    /// make no sense; the read then fails with an error and compaction keeps the operands as they are. So does a value of more than
    /// [`MAX_VALUE`](crate::MAX_VALUE) bytes.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `operands` (oldest first) do together, where that is possible without the base. One of more than
    /// [`MAX_VALUE`](crate::MAX_VALUE) bytes is not taken.
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// Decision of a compaction filter about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Keep the value.
    Keep,
    /// The key is gone (a tombstone is written where older versions may exist).
    Remove,
    /// Replace the value with this one. One of more than [`MAX_VALUE`](crate::MAX_VALUE) bytes is not taken: the value stays.
    Change(Vec<u8>),
}

/// Looks at values that no snapshot needs as compactions come by. Reads before that compaction still see the old value. It may read from
/// the database, and must not write to it ([Calls into the database](self#calls-into-the-database)).
pub trait CompactionFilter: Send + Sync {
    /// The fate of one value on its way to `level`.
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision;
}
