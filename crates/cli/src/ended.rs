//! Unsuccessful ends of a command: one line on stderr and an exit code.

use sinter_storage::store::StoreError;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Writes a line to standard error. A failure is ignored: standard error may be full or closed, and there is nobody else to tell.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "sinter: {line}");
}

/// Why a command ended.
#[derive(Debug)]
pub enum Ended {
    /// The request was wrong (flags, settings, paths): exit 2.
    Usage(String),
    /// Something failed: exit 1.
    Failed(anyhow::Error),
}

impl Ended {
    /// A wrong request.
    pub fn usage(what: impl Display) -> Self {
        Ended::Usage(what.to_string())
    }

    /// Tells the user, on one line whatever the message contains.
    pub fn report(&self) -> ExitCode {
        let (line, code) = match self {
            Ended::Usage(what) => (what.clone(), 2),
            // The reader of the output has closed it: no message is needed.
            Ended::Failed(error) if is_broken_pipe(error) => return ExitCode::SUCCESS,
            Ended::Failed(error) => (in_full(error), 1),
        };
        let line = line.lines().map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        complain(line);
        ExitCode::from(code)
    }
}

/// An error with its causes, each said once: many errors repeat their cause in their own text.
fn in_full(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line += &format!(": {cause}");
        }
    }
    line
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

impl From<sinterdb::Error> for Ended {
    fn from(error: sinterdb::Error) -> Self {
        match error {
            sinterdb::Error::Invalid(what) => Ended::Usage(what),
            other => Ended::Failed(other.into()),
        }
    }
}

impl From<StoreError> for Ended {
    /// The message without a chain of sources: it contains the source's text already.
    fn from(error: StoreError) -> Self {
        Ended::Failed(anyhow::Error::msg(error.to_string()))
    }
}

impl From<sinter_lab::study::Error> for Ended {
    fn from(error: sinter_lab::study::Error) -> Self {
        match error {
            sinter_lab::study::Error::Request(what) => Ended::Usage(what),
            failed => Ended::Failed(failed.into()),
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Failed(error.into())
    }
}

impl From<serde_json::Error> for Ended {
    fn from(error: serde_json::Error) -> Self {
        Ended::Failed(io::Error::from(error).into())
    }
}
