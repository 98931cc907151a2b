//! Errors of operations on keys, by what the caller can do about them.

/// The result of an operation on keys.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a key failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The key holds another type than the command is for.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// A key, or a member of a collection, that does not fit into a key of the engine.
    #[error("ERR {0} is longer than 1 MiB")]
    TooLong(&'static str),
    /// A stored value that this version cannot have written.
    #[error("ERR the stored value of a key is damaged: {0}")]
    Damaged(&'static str),
    /// The store was written by a version with another format.
    #[error("the data are in format {0}, and this program knows format {1}")]
    Format(u64, u64),
    /// The process or the machine stopped while an import was replacing all keys.
    #[error("an import has not finished; run it again, or drop what it has left with: sinter import --abandon")]
    Unfinished,
    /// The log beside the engine's failed.
    #[error("ERR the append-only file: {0}")]
    Beside(String),
    /// A part of a long value was written in a batch that failed.
    #[error("MISCONF Nothing was written: an earlier part of the value could not be written")]
    Lost,
    /// A collection or a long string needs an id, and none is left; what to do.
    #[error("ERR all ids of collections and long strings are used up: {0}")]
    NoIds(&'static str),
    /// The engine failed.
    #[error("ERR {0}")]
    Engine(#[from] sinterdb::Error),
}
