//! Errors of transfers, with the file and the position in it.

use crate::keyspace;
use crate::persist::{LoadError, SaveError};
use crate::rdb;
use std::io;
use std::path::Path;

/// The result of a transfer.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is wrong.
    #[error("{0}")]
    Request(String),
    /// Access to a file.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Error of the system.
        error: io::Error,
    },
    /// Contents of an RDB file.
    #[error("{path}: {error}")]
    Format {
        /// The file.
        path: String,
        /// Description of the damage.
        error: rdb::Error,
    },
    /// A key of an RDB file.
    #[error("{path}: up to byte {at}: key {key} of database {db}: {error}")]
    Key {
        /// The file.
        path: String,
        /// Position up to which the file was read.
        at: u64,
        /// The key, printable.
        key: String,
        /// Database of the key.
        db: usize,
        /// Why the key could not be loaded.
        error: LoadError,
    },
    /// A command of a log, or a line of a manifest.
    #[error("{path}: at byte {at}: {what}")]
    Log {
        /// The file.
        path: String,
        /// Position at which the command begins.
        at: u64,
        /// Description of the error.
        what: String,
    },
    /// The keyspace.
    #[error(transparent)]
    Keyspace(#[from] keyspace::Error),
    /// Writing a file.
    #[error("{path}: {error}")]
    Save {
        /// The file that was to be written.
        path: String,
        /// Why it could not be written.
        error: SaveError,
    },
}

impl Error {
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.display().to_string();
        move |error| Error::File { path, error }
    }

    pub(super) fn format(path: &Path, error: rdb::Error) -> Error {
        Error::Format { path: path.display().to_string(), error }
    }

    pub(super) fn log(path: &Path, at: u64, what: impl Into<String>) -> Error {
        Error::Log { path: path.display().to_string(), at, what: what.into() }
    }
}
