//! `sinter check`: reads and verifies everything, and says what is damaged.

use crate::ended::Ended;
use crate::store::{Where, escape, require_database};
use clap::Args;
use serde_json::json;
use sinter_storage::store::{FileId, FileKind, Store};
use sinterdb::internal::db::verify_files;
use sinterdb::internal::manifest;
use sinterdb::internal::table::verify_alone;
use sinterdb::{Damage, Db, Error};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// What to check. Exit code 0: clean; 1: damaged; 2: not a database.
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
    let damages = find_damage(require_database(path)?)?;
    let mut out = io::stdout().lock();
    if flags.json {
        let report = json!({ "path": path, "clean": damages.is_empty(), "damages": damages.iter().map(as_json).collect::<Vec<_>>() });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else if damages.is_empty() {
        writeln!(out, "{}: clean", path.display())?;
    } else {
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
        writeln!(out, "{}: {} damaged", path.display(), damages.len())?;
    }
    Ok(if damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Verifies a database, also one that damage keeps from opening: then file by file.
///
/// # Errors
/// Failures that are not damage.
pub fn find_damage(store: Arc<dyn Store>) -> Result<Vec<Damage>, Ended> {
    let opened = Db::builder().read_only().create_if_missing(false).open_store(Arc::clone(&store));
    let verified = opened.and_then(|db| {
        let damages = db.verify()?;
        db.close().map(|()| damages)
    });
    match verified {
        Err(Error::Corrupt { file, offset, what }) => {
            let mut damages = verify_files(&store)?;
            if damages.iter().all(|damage| damage.file != file) {
                damages.insert(0, Damage::of(&file, Some(offset), what));
            }
            Ok(damages)
        }
        Err(error @ Error::Io(_)) => match verify_files(&store) {
            Ok(damages) if !damages.is_empty() => Ok(damages),
            _ => Err(error.into()),
        },
        other => Ok(other?),
    }
}

/// Damage of whatever a store has: a database, a tier of one, or nothing that says what its bytes should be.
///
/// # Errors
/// Failures that are not damage.
pub fn damage_in(store: Arc<dyn Store>) -> Result<Vec<Damage>, Ended> {
    let files: Vec<FileId> = store.list()?.into_iter().map(|(id, _)| id).collect();
    let has = |kind| files.iter().any(|id| id.kind == kind);
    if has(FileKind::Manifest) {
        return find_damage(store);
    }
    let tables = files.iter().filter(|id| id.kind == FileKind::Table && has(FileKind::Tier));
    Ok(tables.filter_map(|id| verify_alone(&*store, *id).err().map(|error| Damage::from_error(&id.to_string(), &error))).collect())
}

/// The database in a store has tables elsewhere, too.
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

/// One line: file, offset, what, whose keys.
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

/// The same for programs.
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
