//! `sinter zones backup` and `sinter zones restore`: all files of a volume in a directory, and back.

use super::view::human;
use crate::ended::Ended;
use crate::store::drive_error;
use anyhow::anyhow;
use clap::Args;
use sinter_storage::store::{Backup, StoreError, ZonedPlace};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to copy where.
#[derive(Debug, Args)]
pub struct BackupFlags {
    /// The drive.
    drive: PathBuf,
    /// A directory, missing or empty. It can be opened as a database.
    directory: PathBuf,
}

/// What to restore where.
#[derive(Debug, Args)]
pub struct RestoreFlags {
    /// Directory of the backup.
    directory: PathBuf,
    /// The drive, which is formatted.
    drive: PathBuf,
    /// Also if the drive holds anything: all of it is lost.
    #[arg(long)]
    force: bool,
}

/// Of the directory: a wrong request, or damage.
fn wrong(error: StoreError) -> Ended {
    match error.source.kind() {
        ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::NotADirectory => Ended::Usage(error.source.to_string()),
        _ => error.into(),
    }
}

fn say(backup: &Backup, what: &str, drive: &Path, directory: &Path) -> Result<ExitCode, Ended> {
    let (files, bytes) = (backup.files(), human(backup.bytes()));
    let (drive, directory, volume) = (drive.display(), directory.display(), backup.volume());
    writeln!(io::stdout().lock(), "{directory}: {files} files, {bytes}, of volume {volume}, {what} {drive}")?;
    Ok(ExitCode::SUCCESS)
}

/// Copies a volume into a directory.
pub fn backup(flags: &BackupFlags) -> Result<ExitCode, Ended> {
    let store = super::open(&flags.drive)?;
    let backup = Backup::make(&store, &flags.directory).map_err(wrong)?;
    say(&backup, "saved from", &flags.drive, &flags.directory)
}

/// Makes a volume of a backup. The backup is read once before the drive is touched.
pub fn restore(flags: &RestoreFlags) -> Result<ExitCode, Ended> {
    let backup = Backup::open(&flags.directory).map_err(wrong)?;
    backup.verify().map_err(wrong)?;
    let place = ZonedPlace::new(&flags.drive).quiet();
    let failed = |error: StoreError| drive_error(&flags.drive, error);
    let room = place.room().map_err(failed)?;
    if room < backup.bytes() {
        let (drive, bytes, room) = (flags.drive.display(), human(backup.bytes()), human(room));
        return Err(Ended::Failed(anyhow!("{drive}: the backup has {bytes}, and the drive can take {room}; it was left as it is")));
    }
    super::format::format(&flags.drive, flags.force)?;
    let store = place.open().map_err(failed)?;
    backup.restore(&store).map_err(Ended::from)?;
    let complaints = store.check().map_err(Ended::from)?;
    if let Some(first) = complaints.first() {
        return Err(Ended::Failed(anyhow!("{}: {first}", flags.drive.display())));
    }
    say(&backup, "restored to", &flags.drive, &flags.directory)
}
