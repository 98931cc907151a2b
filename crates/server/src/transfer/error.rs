//! What can go wrong, with the file and the place in it.

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
    /// A file.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// What an RDB file has in it.
    #[error("{path}: {error}")]
    Format {
        /// The file.
        path: String,
        /// What is wrong.
        error: rdb::Error,
    },
    /// A key of an RDB file.
    #[error("{path}: up to byte {at}: key {key} of database {db}: {error}")]
    Key {
        /// The file.
        path: String,
        /// How far it was read.
        at: u64,
        /// The key, printable.
        key: String,
        /// Its database.
        db: usize,
        /// What is wrong.
        error: LoadError,
    },
    /// A command of a log, or a line of a manifest.
    #[error("{path}: at byte {at}: {what}")]
    Log {
        /// The file.
        path: String,
        /// Where the command begins.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// The data here.
    #[error(transparent)]
    Keyspace(#[from] keyspace::Error),
    /// Writing.
    #[error("{path}: {error}")]
    Save {
        /// What was to be written.
        path: String,
        /// What is wrong.
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
