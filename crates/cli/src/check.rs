//! `sinter check`: reads and verifies everything, and says what is damaged.

use crate::ended::Ended;
use crate::store::require_database;
use clap::Args;
use serde_json::json;
use sinterdb::db::Db;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to check. Exit code 0: clean; 1: damaged; 2: not a database.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Directory of the database.
    path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A path without a database; failures that are not damage, such as a database that is open elsewhere.
pub fn run(flags: &CheckFlags) -> Result<ExitCode, Ended> {
    require_database(&flags.path)?;
    let damages = find_damage(&flags.path)?;
    let mut out = io::stdout().lock();
    if flags.json {
        let report = json!({ "path": flags.path, "clean": damages.is_empty(), "damages": damages });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else if damages.is_empty() {
        writeln!(out, "{}: clean", flags.path.display())?;
    } else {
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {damage}"))?;
        writeln!(out, "{}: {} damaged", flags.path.display(), damages.len())?;
    }
    Ok(if damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Damage that keeps the database from opening is the one damage that can be named then.
fn find_damage(path: &Path) -> Result<Vec<String>, Ended> {
    let opened = Db::builder().read_only().create_if_missing(false).open(path);
    let verified = opened.and_then(|db| {
        let damages = db.verify()?;
        db.close().map(|()| damages)
    });
    match verified {
        Err(damage @ sinterdb::Error::Corrupt { .. }) => Ok(vec![damage.to_string()]),
        other => Ok(other?),
    }
}
