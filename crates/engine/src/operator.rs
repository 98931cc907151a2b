//! What a user can plug into a family: a merge operator and a compaction filter.

/// Folds operands into a value. Must be deterministic; the name is stored with the family and checked at open.
pub trait MergeOperator: Send + Sync {
    /// A stable name; opening a family with another operator than it was written with is an error.
    fn name(&self) -> &str;

    /// The value after applying `operands` (oldest first) to `base` (`None`: the key did not exist). `None` means that the operands
    /// make no sense; the read then fails with an error and compaction keeps the operands as they are.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `operands` (oldest first) do together, where that is possible without the base.
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

/// What a compaction filter decides about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Keep it.
    Keep,
    /// The key is gone (a tombstone is written where older versions may exist).
    Remove,
    /// It has this value from now on.
    Change(Vec<u8>),
}

/// Looks at values that no snapshot needs as compactions come by. Reads before that compaction still see the old value.
pub trait CompactionFilter: Send + Sync {
    /// The fate of one value on its way to `level`.
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision;
}
