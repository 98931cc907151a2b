//! `sinter zones check`: verifies a volume, from the drive's states to the database's blocks.

use super::view::View;
use crate::check::{CUTS, Verified, as_json, cuts_as_json, describe, describe_cut, exit_code, verify_any};
use crate::ended::Ended;
use crate::store::drive_error;
use serde_json::json;
use sinter_storage::place::ZonedPlace;
use sinter_storage::store::{FileId, FileKind, Store, StoreError};
use sinter_storage::zoned_store::ZonedStore;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// Bytes read at once.
const READ: usize = 1 << 20;

/// Findings of a check.
#[derive(Default)]
struct Found {
    /// Findings about metadata, zones and files: sentences.
    volume: Vec<String>,
    /// Findings about the database.
    database: Verified,
    files: usize,
}

/// Runs the verb. Exit code 0: clean; 1: damaged; 3: not damaged, but opening the database would cut the end of a log.
pub fn run(place: &ZonedPlace, json: bool) -> Result<ExitCode, Ended> {
    let (found, drive) = (look(place)?, &place.drive);
    let Verified { damages, cuts } = &found.database;
    let number = found.volume.len() + damages.len();
    let mut out = io::stdout().lock();
    if json {
        let database: Vec<_> = damages.iter().map(as_json).collect();
        let (clean, cuts) = (number == 0 && cuts.is_empty(), cuts_as_json(cuts));
        let report = json!({
            "drive": drive, "clean": clean, "files": found.files, "volume": found.volume, "database": database, "cuts": cuts,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        found.volume.iter().try_for_each(|what| writeln!(out, "damaged: {what}"))?;
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
        cuts.iter().try_for_each(|cut| writeln!(out, "{}", describe_cut(cut)))?;
        match (number, cuts.len()) {
            (0, 0) => writeln!(out, "{}: clean, {} files", drive.display(), found.files)?,
            (0, _) => writeln!(out, "{}: {CUTS}", drive.display())?,
            _ => writeln!(out, "{}: {number} damaged", drive.display())?,
        }
    }
    Ok(exit_code(number, cuts.len()))
}

fn look(place: &ZonedPlace) -> Result<Found, Ended> {
    let drive = &place.drive;
    let store = match place.clone().quiet().open() {
        Ok(store) => Arc::new(store),
        // Damage that keeps the volume from opening is the only damage that can be named.
        Err(error) if error.source.kind() == ErrorKind::InvalidData => {
            return Ok(Found { volume: vec![error.source.to_string()], ..Found::default() });
        }
        Err(error) => return Err(drive_error(drive, error)),
    };
    let view = View::of(drive, &store)?;
    let mut found = Found { volume: store.check().map_err(sinterdb::Error::from)?, files: view.files.len(), ..Found::default() };
    match verify_any(Arc::clone(&store) as Arc<dyn Store>) {
        Ok(verified) => found.database = verified,
        // The error is listed beside the findings about the volume, which may be its cause.
        Err(Ended::Failed(error)) => found.volume.push(format!("the database cannot be read: {error:#}")),
        Err(ended) => return Err(ended),
    }
    if !view.files.iter().any(|file| file.id.kind == FileKind::Manifest) {
        // Most files have no checksum outside of a database; reading them shows at least that they are there.
        let named = |id: FileId| found.database.damages.iter().any(|damage| damage.file == id.to_string());
        let files = view.files.iter().filter(|file| !named(file.id));
        found.volume.extend(files.filter_map(|file| unreadable(&store, file.id)));
    }
    Ok(found)
}

/// Why a file cannot be read; `None`: it can.
fn unreadable(store: &ZonedStore, id: FileId) -> Option<String> {
    let read = || -> Result<(), StoreError> {
        let file = Store::open(store, id)?;
        let mut buffer = vec![0; READ];
        let mut at = 0;
        while at < file.len() {
            let part = READ.min(usize::try_from(file.len() - at).unwrap_or(READ));
            file.read_at(at, &mut buffer[..part])?;
            at += part as u64;
        }
        Ok(())
    };
    read().err().map(|error| error.to_string())
}
