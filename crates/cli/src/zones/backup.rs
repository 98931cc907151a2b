//! `sinter zones backup` and `sinter zones restore`: copying all files of a volume to a directory, and back.

use super::view::human;
use crate::check::{Verified, describe, describe_cut, has_tiers, verify_any};
use crate::ended::Ended;
use crate::store::drive_error;
use anyhow::anyhow;
use clap::Args;
use sinter_storage::backup::{Backup, Copied};
use sinter_storage::place::ZonedPlace;
use sinter_storage::store::{DirStore, FileId, FileKind, Store, StoreError};
use sinterdb::{Cut, Damage};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The drive to copy, and the directory for the copy.
#[derive(Debug, Args)]
pub struct BackupFlags {
    /// The drive, also as zoned:DRIVE with options.
    #[arg(value_parser = super::drive())]
    drive: ZonedPlace,
    /// A directory, missing or empty. It can be opened as a database.
    directory: PathBuf,
}

/// The backup to restore, and the drive to restore it to.
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

/// The error for a directory: a wrong request, or damage.
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

/// Copies a volume into a directory and verifies the copy as a database. Damage is copied as it is, but then the list that marks the copy
/// as a backup is not written.
pub fn backup(flags: &BackupFlags) -> Result<ExitCode, Ended> {
    let store = super::open(&flags.drive)?;
    let (drive, directory) = (&flags.drive.drive, &flags.directory);
    let copied = Copied::make(&store, directory).map_err(wrong)?;
    let is_lost = |damage: &Damage| copied.lost().iter().any(|lost| lost.file.to_string() == damage.file);
    let Verified { damages, cuts } = verify_copy(copied.store())?;
    let damages: Vec<Damage> = damages.into_iter().filter(|damage| !is_lost(damage)).collect();
    tell_cuts(&cuts)?;
    if copied.lost().is_empty() && damages.is_empty() {
        return say(&copied.finish().map_err(wrong)?, "saved from", drive, directory);
    }
    let mut out = io::stdout().lock();
    for lost in copied.lost() {
        writeln!(out, "lost: {} of {} from offset {}: {}", human(lost.bytes), lost.file, lost.offset, lost.why)?;
    }
    damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
    let (drive, directory, lost, damaged) = (drive.display(), directory.display(), copied.lost().len(), damages.len());
    writeln!(
        out,
        "{directory}: what could be read of {drive}; {lost} files lack bytes, which are zeros there; {damaged} damaged. It is no backup."
    )?;
    Ok(ExitCode::FAILURE)
}

/// Prints the cuts that opening the copy would make. A crash leaves such ends as well, so a copy with one is still a backup.
fn tell_cuts(cuts: &[Cut]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    cuts.iter().try_for_each(|cut| writeln!(out, "{}", describe_cut(cut)))
}

/// Damage and cuts of the files in a directory. Files on other tiers are not part of a copy.
fn verify_copy(store: &Arc<DirStore>) -> Result<Verified, Ended> {
    let there: Vec<FileId> = store.list()?.into_iter().map(|(id, _)| id).collect();
    let has_tiers = there.iter().any(|id| id.kind == FileKind::Manifest) && has_tiers(&**store)?;
    let is_elsewhere = |damage: &Damage| {
        let id = FileId::parse(&damage.file);
        has_tiers && id.is_some_and(|id| matches!(id.kind, FileKind::Table | FileKind::Tier) && !there.contains(&id))
    };
    let mut verified = verify_any(Arc::clone(store) as Arc<dyn Store>)?;
    verified.damages.retain(|damage| !is_elsewhere(damage));
    Ok(verified)
}

/// Makes a volume of a backup. The backup is read and verified before the drive is touched.
pub fn restore(flags: &RestoreFlags) -> Result<ExitCode, Ended> {
    let backup = Backup::open(&flags.directory).map_err(wrong)?;
    backup.verify().map_err(wrong)?;
    let Verified { damages, cuts } = verify_copy(backup.store())?;
    tell_cuts(&cuts)?;
    if !damages.is_empty() {
        let mut out = io::stdout().lock();
        damages.iter().try_for_each(|damage| writeln!(out, "damaged: {}", describe(damage)))?;
        let (drive, directory, damaged) = (flags.drive.drive.display(), flags.directory.display(), damages.len());
        writeln!(out, "{directory}: {damaged} damaged; {drive} was left as it is. The directory can be read as a database.")?;
        return Ok(ExitCode::FAILURE);
    }
    let (mut place, drive) = (flags.drive.clone().quiet(), &flags.drive.drive);
    // Options are not stored on a volume, and an allocation policy that refuses files would fail although the drive has free space.
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
