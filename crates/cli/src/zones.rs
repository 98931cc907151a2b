//! `sinter zones`: tools for volumes on zoned drives. Each takes the drive exclusively and opens the volume as a database would, which
//! first recovers from a crash; a drive in use is an error.

mod backup;
mod check;
mod format;
mod map;
mod picture;
mod space;
mod tables;
mod view;

use crate::ended::Ended;
use crate::store::open_volume;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use sinter_storage::place::ZonedPlace;
use sinter_storage::zoned_store::ZonedStore;
use std::io::{self, Write};
use std::process::ExitCode;
use view::View;

/// The drive, and what to do with it: a zoned block device, such as /dev/nvme0n1, or the file or the device of an emulated one.
#[derive(Debug, Args)]
pub struct ZonesFlags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
enum Verb {
    /// Make an empty volume on a drive, which may be emulated.
    Format(format::FormatFlags),
    /// Draw the zones: what is written, what of it lives, for what, and how often they were reset.
    Map(map::MapFlags),
    /// Verify the metadata, the logs and the database in the volume; name any damage.
    Check(ShowFlags),
    /// Print all metadata: zones, files, extents.
    Dump(ShowFlags),
    /// Say where the space is.
    Df(ShowFlags),
    /// Copy all files into a new directory, with checksums.
    Backup(backup::BackupFlags),
    /// Make a volume of a backup, on a drive of any shape.
    Restore(backup::RestoreFlags),
}

/// The drive to look at, and the form of the output.
#[derive(Debug, Args)]
struct ShowFlags {
    /// The drive, also as zoned:DRIVE with options, as everywhere else.
    #[arg(value_parser = drive())]
    drive: ZonedPlace,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Paths that are no drives, drives without a volume or in use; failures of a drive; output that cannot be written.
pub fn run(flags: &ZonesFlags) -> Result<ExitCode, Ended> {
    match &flags.verb {
        Verb::Format(flags) => format::run(flags),
        Verb::Map(flags) => map::run(flags),
        Verb::Check(flags) => check::run(&flags.drive, flags.json),
        Verb::Dump(flags) => show(flags, tables::dump, tables::dump_json),
        Verb::Df(flags) => show(flags, tables::df, tables::df_json),
        Verb::Backup(flags) => backup::backup(flags),
        Verb::Restore(flags) => backup::restore(flags),
    }
}

/// Parser of a drive's name.
fn drive() -> impl TypedValueParser<Value = ZonedPlace> {
    PathBufValueParser::new().try_map(|path| ZonedPlace::of(&path))
}

/// Opens the volume of a drive, for commands that only read it.
fn open(place: &ZonedPlace) -> Result<ZonedStore, Ended> {
    open_volume(&place.clone().quiet())
}

fn show(flags: &ShowFlags, text: fn(&View) -> String, json: fn(&View) -> serde_json::Value) -> Result<ExitCode, Ended> {
    let view = View::of(&flags.drive.drive, &open(&flags.drive)?)?;
    let shown = if flags.json { serde_json::to_string_pretty(&json(&view))? + "\n" } else { text(&view) };
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
