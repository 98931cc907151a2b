//! `sinter check`: reads and verifies everything, and says what is damaged.

use crate::ended::Ended;
use crate::store::{escape, require_database};
use clap::Args;
use serde_json::json;
use sinterdb::Error;
use sinterdb::db::{Damage, Db};
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
        let report = json!({ "path": flags.path, "clean": damages.is_empty(), "damages": damages.iter().map(as_json).collect::<Vec<_>>() });
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else if damages.is_empty() {
        writeln!(out, "{}: clean", flags.path.display())?;
    } else {
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
        writeln!(out, "{}: {} damaged", flags.path.display(), damages.len())?;
    }
    Ok(if damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Damage that keeps the database from opening is the one damage that can be named then.
fn find_damage(path: &Path) -> Result<Vec<Damage>, Ended> {
    let opened = Db::builder().read_only().create_if_missing(false).open(path);
    let verified = opened.and_then(|db| {
        let damages = db.verify()?;
        db.close().map(|()| damages)
    });
    match verified {
        Err(Error::Corrupt { file, offset, what }) => Ok(vec![Damage { file, offset: Some(offset), what, family: None, key_range: None }]),
        other => Ok(other?),
    }
}

/// One line: file, offset, what, whose keys.
fn describe(damage: &Damage) -> String {
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

fn as_json(damage: &Damage) -> serde_json::Value {
    json!({
        "file": damage.file,
        "offset": damage.offset,
        "what": damage.what,
        "family": damage.family,
        "smallest_key": damage.key_range.as_ref().map(|r| escape(&r.0)),
        "largest_key": damage.key_range.as_ref().map(|r| escape(&r.1)),
    })
}
