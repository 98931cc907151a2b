//! Errors of loading and saving.

use crate::keyspace;
use crate::rdb;
use std::io;

/// Why a value could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes of the value.
    #[error(transparent)]
    Format(#[from] rdb::Error),
    /// A member of a set, a hash or a sorted set, or a part of a stream, occurs twice.
    #[error("the same member comes twice")]
    Twice,
    /// Pending entries of a group of a stream are not those of its consumers.
    #[error("a pending entry of a group that is not that of one consumer")]
    Unowned,
    /// A value that is loaded as a whole would take too much memory.
    #[error("the value would take more than 512 MiB")]
    TooLarge,
    /// The keyspace failed.
    #[error(transparent)]
    Keyspace(#[from] keyspace::Error),
}

/// Why something could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The output could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The keyspace could not be read.
    #[error(transparent)]
    Keyspace(#[from] keyspace::Error),
}
