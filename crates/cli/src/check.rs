//! `sinter check`: reads and verifies everything, and names damage and the ends of logs that opening would cut.

use crate::ended::Ended;
use crate::store::{Where, escape, require_database};
use clap::Args;
use serde_json::json;
use sinter_storage::store::{FileId, FileKind, Store};
use sinterdb::internal::db::verify_files;
use sinterdb::internal::manifest;
use sinterdb::internal::table::verify_alone;
use sinterdb::{Cut, Damage, Db, Error};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// Flags of `sinter check`. Exit code 0: clean; 1: damaged; 2: not a database; 3: not damaged, but opening would cut the end of a log.
#[derive(Debug, Args)]
pub struct CheckFlags {
    #[command(flatten)]
    place: Where,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A path without a database; failures that are not damage, such as a database that is open elsewhere.
pub fn run(flags: &CheckFlags) -> Result<ExitCode, Ended> {
    let path = flags.place.path();
    let Verified { damages, cuts } = verify(require_database(path)?)?;
    let mut out = io::stdout().lock();
    if flags.json {
        let damaged: Vec<_> = damages.iter().map(as_json).collect();
        let clean = damages.is_empty() && cuts.is_empty();
        let report = json!({ "path": path, "clean": clean, "damages": damaged, "cuts": cuts_as_json(&cuts) });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
        cuts.iter().try_for_each(|cut| writeln!(out, "{}", describe_cut(cut)))?;
        match (damages.len(), cuts.len()) {
            (0, 0) => writeln!(out, "{}: clean", path.display())?,
            (0, _) => writeln!(out, "{}: {CUTS}", path.display())?,
            (damaged, _) => writeln!(out, "{}: {damaged} damaged", path.display())?,
        }
    }
    Ok(exit_code(damages.len(), cuts.len()))
}

/// Message for a database of which opening cuts something.
pub const CUTS: &str = "no damage found, but opening cuts what is named above: a crash leaves such an end of writes that were not synced";

/// The exit code for numbers of damaged places and of cuts.
pub fn exit_code(damaged: usize, cuts: usize) -> ExitCode {
    ExitCode::from(match (damaged, cuts) {
        (0, 0) => 0,
        (0, _) => 3,
        _ => 1,
    })
}

/// The findings of a check.
#[derive(Debug, Default)]
pub struct Verified {
    /// Damaged places.
    pub damages: Vec<Damage>,
    /// Ends of files that opening for writing would cut.
    pub cuts: Vec<Cut>,
}

/// Verifies a database; if damage keeps it from opening, verifies file by file.
///
/// # Errors
/// Failures that are not damage.
pub fn verify(store: Arc<dyn Store>) -> Result<Verified, Ended> {
    let open = || Db::builder().read_only().create_if_missing(false).open_store(Arc::clone(&store));
    let verified = open().and_then(|db| {
        let damages = db.verify()?;
        let mut cuts = db.recovery().cuts;
        db.close()?;
        if !cuts.is_empty() {
            // A record that another process is just writing looks like a cut as well; a moment later it is complete.
            let again = open()?;
            cuts.retain(|cut| again.recovery().cuts.iter().any(|other| (&other.file, other.offset) == (&cut.file, cut.offset)));
            again.close()?;
        }
        Ok(Verified { damages, cuts })
    });
    let damages = match verified {
        Ok(verified) => return Ok(verified),
        Err(Error::Corrupt { file, offset, what }) => {
            let mut damages = verify_files(&store)?;
            if damages.iter().all(|damage| damage.file != file) {
                damages.insert(0, Damage::of(&file, Some(offset), what));
            }
            damages
        }
        Err(error @ Error::Io(_)) => match verify_files(&store) {
            Ok(damages) if !damages.is_empty() => damages,
            _ => return Err(error.into()),
        },
        Err(error) => return Err(error.into()),
    };
    Ok(Verified { damages, ..Verified::default() })
}

/// Like [`verify`], for any store: a database, a tier of one, or files without anything to verify them against.
///
/// # Errors
/// Failures that are not damage.
pub fn verify_any(store: Arc<dyn Store>) -> Result<Verified, Ended> {
    let files: Vec<FileId> = store.list()?.into_iter().map(|(id, _)| id).collect();
    let has = |kind| files.iter().any(|id| id.kind == kind);
    if has(FileKind::Manifest) {
        return verify(store);
    }
    let tables = files.iter().filter(|id| id.kind == FileKind::Table && has(FileKind::Tier));
    let damaged = tables.filter_map(|id| verify_alone(&*store, *id).err().map(|error| Damage::from_error(&id.to_string(), &error)));
    Ok(Verified { damages: damaged.collect(), ..Verified::default() })
}

/// Whether the database in a store has tables on tiers.
///
/// # Errors
/// A manifest that cannot be read for another reason than damage.
pub fn has_tiers(store: &dyn Store) -> Result<bool, Ended> {
    match manifest::load(store) {
        Ok(loaded) => Ok(loaded.state.is_some_and(|state| !state.tiers.is_empty())),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One line: file, offset, description, and whose keys.
pub fn describe(damage: &Damage) -> String {
    let mut line = damage.file.clone();
    if let Some(offset) = damage.offset {
        line += &format!(" at offset {offset}");
    }
    line += &format!(": {}", damage.what);
    if let (Some(family), Some((smallest, largest))) = (&damage.family, &damage.key_range) {
        line += &format!(" (family {family:?}, keys {} to {})", escape(smallest), escape(largest));
    }
    line
}

/// A damage as JSON.
pub fn as_json(damage: &Damage) -> serde_json::Value {
    json!({
        "file": damage.file,
        "offset": damage.offset,
        "what": damage.what,
        "family": damage.family,
        "smallest_key": damage.key_range.as_ref().map(|r| escape(&r.0)),
        "largest_key": damage.key_range.as_ref().map(|r| escape(&r.1)),
    })
}

/// One line: the file, and the part that opening cuts.
pub fn describe_cut(cut: &Cut) -> String {
    let Cut { file, offset, bytes, records, .. } = cut;
    match bytes {
        0 => format!("opening passes over {file}, which is empty"),
        _ => format!("opening cuts {bytes} bytes from {file}, from offset {offset} on, with {records} whole records in them"),
    }
}

/// Cuts as JSON.
pub fn cuts_as_json(cuts: &[Cut]) -> serde_json::Value {
    cuts.iter().map(|cut| json!({ "file": cut.file, "offset": cut.offset, "bytes": cut.bytes, "records": cut.records })).collect()
}
