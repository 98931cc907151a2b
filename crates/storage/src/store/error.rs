//! Why an operation on a store failed: which operation, on which file, and the system's own reason.

use super::{FileId, sys};
use std::fmt;
use std::io;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
#[error("{operation}{}: {source}", place(*file, *offset))]
pub struct StoreError {
    /// Operation that failed, such as `append`.
    pub operation: &'static str,
    /// File of the operation, if it was about one.
    pub file: Option<FileId>,
    /// Offset in the file of a failed read, bytes.
    pub offset: Option<u64>,
    /// The system's reason.
    pub source: io::Error,
}

/// The file and the offset as text for people.
fn place(file: Option<FileId>, offset: Option<u64>) -> String {
    let (file, at) = (file.map(|file| format!(" {file}")), offset.map(|at| format!(" at offset {at}")));
    file.unwrap_or_default() + &at.unwrap_or_default()
}

impl StoreError {
    /// An error about one file.
    pub fn file(operation: &'static str, file: FileId, source: io::Error) -> Self {
        StoreError { operation, file: Some(file), offset: None, source }
    }

    /// A failed read of one file from `offset`.
    pub fn read(file: FileId, offset: u64, source: io::Error) -> Self {
        StoreError { offset: Some(offset), ..StoreError::file("read", file, source) }
    }

    /// An error about the store as a whole.
    pub fn store(operation: &'static str, source: io::Error) -> Self {
        StoreError { operation, file: None, offset: None, source }
    }

    /// An appender that failed before refuses further use: the content of the medium since the last good sync is not known.
    pub fn dead(operation: &'static str, file: FileId) -> Self {
        StoreError::file(operation, file, io::Error::other("an earlier append or sync of this file failed"))
    }

    /// The error with `what`, such as a place, before its reason.
    #[must_use]
    pub fn named(self, what: impl fmt::Display) -> Self {
        let (kind, code) = (self.source.kind(), self.code());
        let source = io::Error::new(kind, Named { text: format!("{what}: {}", self.source), code });
        StoreError { source, ..self }
    }

    /// The system's error number.
    fn code(&self) -> Option<i32> {
        let named = || self.source.get_ref()?.downcast_ref::<Named>()?.code;
        self.source.raw_os_error().or_else(named)
    }

    /// The process or the system has no file descriptor left (EMFILE, ENFILE); there may be one later.
    pub fn is_no_descriptors(&self) -> bool {
        self.code().is_some_and(sys::is_no_descriptors)
    }

    /// A file that was open has been deleted by another process that writes.
    pub fn is_superseded(&self) -> bool {
        self.operation == "read" && self.source.kind() == io::ErrorKind::ResourceBusy
    }

    /// The file does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Bytes that were written are gone: the file ends before the bytes of a read, or the medium has lost them.
    pub fn is_damage(&self) -> bool {
        self.operation == "read"
            && self.file.is_some()
            && matches!(self.source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
    }

    /// The medium is full; there may be free space again later.
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Another process has the store.
    pub fn is_locked(&self) -> bool {
        self.operation == "lock" && self.source.kind() == io::ErrorKind::WouldBlock
    }
}

/// A reason with more text than the system gave, and the system's error number.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Named {
    text: String,
    code: Option<i32>,
}
