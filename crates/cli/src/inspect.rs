//! `sinter inspect`: what is in a database. It reads files and nothing else: no lock is taken, nothing is written, and a database that
//! does not open can still be looked at.

mod compression;
mod views;

use crate::ended::Ended;
use crate::store::require_database;
use clap::{Args, Subcommand};
use serde_json::Value;
use sinter_storage::store::Store;
use sinterdb::manifest::{Loaded, State, load};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to show.
#[derive(Debug, Args)]
pub struct InspectFlags {
    /// Directory of the database.
    path: PathBuf,
    #[command(subcommand)]
    view: Option<View>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum View {
    /// The manifest: what it says and its records.
    Manifest,
    /// Runs and tables of each level of each family (the default).
    Levels,
    /// How the tables of each level are compressed, and why where the engine chose (reads the end of every table).
    Compression,
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
}

/// Which part of a log.
#[derive(Debug, Clone, Copy)]
struct Page {
    from: u64,
    limit: u64,
}

/// One view, for people and for programs.
struct Shown {
    text: String,
    json: Value,
}

/// Runs the command.
///
/// # Errors
/// A path without a database, a number that names no file; damage that hides what was asked for.
pub fn run(flags: &InspectFlags) -> Result<ExitCode, Ended> {
    let store = require_database(&flags.path)?;
    let loaded = load(&store)?;
    let state = loaded.state.as_ref().ok_or_else(|| Ended::usage(format!("{}: no database there", flags.path.display())))?;
    let shown = show(flags.view.unwrap_or(View::Levels), &store, &loaded, state)?;
    let mut out = io::stdout().lock();
    if flags.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&shown.json)?)?;
    } else {
        out.write_all(shown.text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(view: View, store: &dyn Store, loaded: &Loaded, state: &State) -> Result<Shown, Ended> {
    match view {
        View::Manifest => views::manifest(store, loaded, state),
        View::Levels => Ok(views::levels(state)),
        View::Compression => Ok(compression::view(store, state)),
        View::Table { number } => views::table(store, state, number),
        View::Log { number, from, limit } => views::log(store, state, number, Page { from, limit }),
        View::Settings => Ok(views::settings(state)),
    }
}
