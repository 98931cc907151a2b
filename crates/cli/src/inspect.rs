//! `sinter inspect`: the contents of a database. It only reads files: it takes no lock and writes nothing, and a database that cannot be
//! opened can still be inspected. (A volume on a zoned drive has to be opened for that, by one process at a time.)

mod compression;
mod tiers;
mod views;

use crate::ended::{Ended, complain};
use crate::store::{Where, require_database};
use clap::{Args, Subcommand};
use serde_json::Value;
use sinter_storage::store::{Store, Temperature, Tiers};
use sinterdb::Error;
use sinterdb::internal::db::{Held, Seen, see};
use sinterdb::internal::manifest::{Loaded, ManifestState};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The database and the view to show.
#[derive(Debug, Args)]
pub struct InspectFlags {
    #[command(flatten)]
    place: Where,
    #[command(subcommand)]
    view: Option<View>,
    /// Print the view `tiers`.
    #[arg(long, global = true)]
    tiers: bool,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Subcommand)]
enum View {
    /// The manifest: what it says and its records.
    Manifest,
    /// Runs and tables of each level of each family (the default).
    Levels,
    /// How the tables of each level are compressed, and why where the engine chose (reads the end of every table).
    Compression,
    /// Each directory of the database: what lies there, how old it is, and what a read costs (reads some blocks of each).
    Tiers,
    /// The properties of table N.
    Table {
        /// File number.
        number: u64,
    },
    /// The records of log N and the operations in them.
    Log {
        /// File number.
        number: u64,
        /// The first record to show: the first at or behind this offset in the file.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Records are shown until so many operations are; a record is never split. 0: all.
        #[arg(long, default_value_t = 1000)]
        limit: u64,
    },
    /// The settings stored beside the data.
    Settings,
    /// Zones and extents below the files of a database on a zoned drive.
    Zones,
}

/// Part of a log to show.
#[derive(Debug, Clone, Copy)]
struct Page {
    from: u64,
    limit: u64,
}

/// Output of a view, as text and as JSON.
struct Shown {
    text: String,
    json: Value,
}

/// The stores of a database.
struct Stores {
    /// All files; those that are read are held open.
    files: Held,
    /// Tier of each file, as far as it can be read.
    places: Arc<Tiers>,
    /// The stores one by one, the primary one first.
    each: Vec<(Temperature, Arc<dyn Store>)>,
    /// Tiers that cannot be read.
    problems: Vec<(Temperature, Error)>,
}

/// Reads the manifest and opens the files of one moment, while another process may be writing.
fn look(path: &Path, store: Arc<dyn Store>) -> Result<(Loaded, ManifestState, Stores), Ended> {
    let Some(Seen { loaded, state, tiers, places, files }) = see(&store)? else {
        return Err(Ended::usage(format!("{}: no database there", path.display())));
    };
    let each = std::iter::once((Temperature::Unknown, store)).chain(tiers.stores).collect();
    Ok((loaded, state, Stores { files, places, each, problems: tiers.problems }))
}

/// An error without its kind, where the line says enough.
fn plain(error: &Error) -> String {
    match error {
        Error::Invalid(what) | Error::Busy(what) => what.clone(),
        other => other.to_string(),
    }
}

/// Runs the command.
///
/// # Errors
/// A path without a database, a number that names no file; damage that hides the requested view.
pub fn run(flags: &InspectFlags) -> Result<ExitCode, Ended> {
    let path = flags.place.path();
    let store = require_database(path)?;
    let (loaded, state, stores) = look(path, store)?;
    let view = match (flags.view, flags.tiers) {
        (None, true) => View::Tiers,
        (Some(_), true) => return Err(Ended::usage("--tiers is a view of its own")),
        (view, false) => view.unwrap_or(View::Levels),
    };
    // The view of tiers shows these problems itself.
    if view != View::Tiers {
        stores.problems.iter().for_each(|(_, error)| complain(format_args!("note: {}", plain(error))));
    }
    let shown = show(view, &stores, &loaded, &state)?;
    let mut out = io::stdout().lock();
    if flags.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&shown.json)?)?;
    } else {
        out.write_all(shown.text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(view: View, stores: &Stores, loaded: &Loaded, state: &ManifestState) -> Result<Shown, Ended> {
    let store = &stores.files;
    match view {
        View::Manifest => views::manifest(store, loaded, state),
        View::Levels => Ok(views::levels(state)),
        View::Compression => Ok(compression::view(store, state)),
        View::Tiers => Ok(tiers::view(stores, state)),
        View::Table { number } => views::table(store, state, number),
        View::Log { number, from, limit } => views::log(store, state, number, Page { from, limit }),
        View::Settings => Ok(views::settings(state)),
        View::Zones => views::zones(stores),
    }
}
