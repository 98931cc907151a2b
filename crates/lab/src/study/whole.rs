//! Files that appear whole or not at all.

use super::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Writes a temporary file first, so that a file under its name is always whole.
pub(super) fn write_whole(file: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
    let unfinished = file.with_extension("unfinished");
    let written = File::create(&unfinished).and_then(|mut new| {
        fill(&mut new)?;
        new.sync_all()?;
        fs::rename(&unfinished, file)
    });
    written.map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            let _ = fs::remove_file(&unfinished);
        }
        Error::Failed(format!("{}: {error}", file.display()))
    })
}
