//! `sinter zones backup` and `sinter zones restore`: all files of a volume in a directory, and back.

use super::view::human;
use crate::ended::Ended;
use crate::store::drive_error;
use anyhow::anyhow;
use clap::Args;
use sinter_storage::store::{Backup, Copied, StoreError, ZonedPlace};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to copy where.
#[derive(Debug, Args)]
pub struct BackupFlags {
    /// The drive, also as zoned:DRIVE with options.
    #[arg(value_parser = super::drive())]
    drive: ZonedPlace,
    /// A directory, missing or empty. It can be opened as a database.
    directory: PathBuf,
}

/// What to restore where.
#[derive(Debug, Args)]
pub struct RestoreFlags {
    /// Directory of the backup.
    directory: PathBuf,
    /// The drive, which is formatted; also as zoned:DRIVE with options.
    #[arg(value_parser = super::drive())]
    drive: ZonedPlace,
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

/// Copies a volume into a directory: what can be read of it, if not all can.
pub fn backup(flags: &BackupFlags) -> Result<ExitCode, Ended> {
    let store = super::open(&flags.drive)?;
    let (drive, directory) = (&flags.drive.drive, &flags.directory);
    let lost = match Backup::make(&store, directory).map_err(wrong)? {
        Copied::Whole(backup) => return say(&backup, "saved from", drive, directory),
        Copied::Partly(lost) => lost,
    };
    let mut out = io::stdout().lock();
    for lost in &lost {
        writeln!(out, "lost: {} of {}: {}", human(lost.bytes), lost.file, lost.why)?;
    }
    let (drive, directory, files) = (drive.display(), directory.display(), lost.len());
    writeln!(
        out,
        "{directory}: what could be read of {drive}; of {files} files something is lost, which is zeros there. It is no backup."
    )?;
    Ok(ExitCode::FAILURE)
}

/// Makes a volume of a backup. The backup is read once before the drive is touched.
pub fn restore(flags: &RestoreFlags) -> Result<ExitCode, Ended> {
    let backup = Backup::open(&flags.directory).map_err(wrong)?;
    backup.verify().map_err(wrong)?;
    let (mut place, drive) = (flags.drive.clone().quiet(), &flags.drive.drive);
    // How a volume is run is not kept on it, and a policy that refuses files would keep these from a drive that has room for them.
    place.options.fallback = true;
    let failed = |error: StoreError| drive_error(drive, error);
    let fit = place.fit(&backup.lengths()).map_err(failed)?;
    if fit.room < fit.needed {
        let (drive, bytes, room) = (drive.display(), human(fit.needed), human(fit.room));
        return Err(Ended::Failed(anyhow!("{drive}: the backup takes {bytes}, and the drive can take {room}; it was left as it is")));
    }
    super::format::format(&place, flags.force)?;
    let store = place.open().map_err(failed)?;
    backup.restore(&store).map_err(Ended::from)?;
    let complaints = store.check().map_err(Ended::from)?;
    if let Some(first) = complaints.first() {
        return Err(Ended::Failed(anyhow!("{}: {first}", drive.display())));
    }
    say(&backup, "restored to", drive, &flags.directory)
}
