//! Errors by what the caller can do. "Not found" is an `Option`, never an error.

use sinter_storage::store::StoreError;
use std::io::ErrorKind;
use std::sync::Arc;

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. Cloneable, because a failure that ends a handle is reported to every later caller.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is wrong: a setting, a name, an argument. Change it.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Someone else has it: the database is open elsewhere. Try later.
    #[error("busy: {0}")]
    Busy(String),
    /// Bytes on the medium differ from those that were written. Restore them or salvage.
    #[error("corrupt: {file} at offset {offset}: {what}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Offset of the damage in the file, bytes.
        offset: u64,
        /// The damage in words.
        what: String,
    },
    /// The medium is full. Writing resumes when there is room again.
    #[error("no space: {0}")]
    NoSpace(Arc<StoreError>),
    /// The process or the system has no file descriptor left. The operation may be tried again; the database repeats its own background
    /// work. Raise the limit of open files, or lower `max_open_files` to leave more to others.
    #[error("no descriptors: {0}")]
    NoDescriptors(Arc<StoreError>),
    /// The medium failed.
    #[error("input/output: {0}")]
    Io(Arc<StoreError>),
    /// The handle is closed, or ended by an earlier failure, which is named. Reopen.
    #[error("closed: {0}")]
    Closed(String),
}

impl Error {
    /// Damage at a place in a file.
    #[doc(hidden)]
    pub fn corrupt(file: impl ToString, offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: file.to_string(), offset, what: what.into() }
    }

    /// The failed call may succeed later, on this handle.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Error::NoSpace(_) | Error::NoDescriptors(_))
    }

    /// A wrong request.
    #[doc(hidden)]
    pub fn invalid(what: impl Into<String>) -> Self {
        Error::Invalid(what.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if error.is_no_space() {
            Error::NoSpace(Arc::new(error))
        } else if error.is_no_descriptors() {
            Error::NoDescriptors(Arc::new(error))
        } else if error.is_superseded() {
            Error::Busy(error.to_string())
        } else if error.is_locked() {
            Error::Busy(format!("the database is open elsewhere ({error})"))
        } else if let Some(file) = error.file.filter(|_| error.is_damage()) {
            let what = match error.source.kind() {
                ErrorKind::UnexpectedEof => "the file ends before the bytes that belong here".into(),
                _ => error.source.to_string(),
            };
            Error::corrupt(file, error.offset.unwrap_or(0), what)
        } else if error.operation == "open directory" && error.source.kind() == ErrorKind::NotADirectory {
            Error::Invalid(error.source.to_string())
        } else {
            Error::Io(Arc::new(error))
        }
    }
}
