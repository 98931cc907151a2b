//! Reads and verifies everything: each table whole, each log segment, the manifest, the identity of each tier.

use super::read_only::{Seen, see};
use super::tier_stores::check_known;
use super::{Db, callback};
use crate::cache::Cache;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::manifest::TableInfo;
use crate::table::Table;
use crate::wal::survey_log;
use sinter_storage::store::{FileId, FileKind, Store};
use std::sync::Arc;

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// Offset in the file, bytes, if known.
    pub offset: Option<u64>,
    /// Description of the damage.
    pub what: String,
    /// The family whose data it is.
    pub family: Option<String>,
    /// Smallest and largest user key of the damaged table.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
}

impl Damage {
    /// Damage of a file, whosever data it is.
    #[doc(hidden)]
    pub fn of(file: &str, offset: Option<u64>, what: String) -> Self {
        Damage { file: file.to_owned(), offset, what, family: None, key_range: None }
    }

    /// Damage as described by an error that was met while `file` was read.
    #[doc(hidden)]
    pub fn from_error(file: &str, error: &Error) -> Self {
        match error {
            Error::Corrupt { file, offset, what } => Damage::of(file, Some(*offset), what.clone()),
            other => Damage::of(file, None, other.to_string()),
        }
    }

    pub(super) fn of_table(family: &str, info: &TableInfo, error: &Error) -> Self {
        let key_range = Some((info.range.smallest.clone(), info.range.largest.clone()));
        let damage = Damage::from_error(&FileId::table(info.number).to_string(), error);
        Damage { family: Some(family.to_owned()), key_range, ..damage }
    }
}

impl Db {
    /// Reads everything past the cache and verifies it; returns every damage found, none if all is well. Goes on after each. The end of a
    /// log that opening has cut is not among them: [`Db::recovery`] has it.
    pub fn verify(&self) -> Result<Vec<Damage>> {
        callback::check_readable()?;
        let mut found = Vec::new();
        for family in self.families() {
            let view = family.core.view.load_full();
            for table in view.tree.tables() {
                match table.verify() {
                    Ok(()) => {}
                    // No damage: a writer has deleted the table, or it could not be opened.
                    Err(error @ (Error::Busy(_) | Error::NoDescriptors(_))) => return Err(error),
                    Err(error) => found.push(Damage::of_table(family.name(), table.info(), &error)),
                }
            }
        }
        let store = &*self.inner.store;
        let mut files = store.list()?;
        files.sort_unstable();
        let known: Vec<_> = self.inner.shared.lock().state.tiers.values().copied().collect();
        for tier in known {
            let checked =
                self.inner.media.store_of(tier.temperature).map(|store| check_known(store, store.directory(), &tier, self.inner.db));
            match checked {
                Some(Err(error @ Error::NoDescriptors(_))) => return Err(error),
                Some(Err(error)) => found.push(Damage::from_error(&FileId::tier(tier.number).to_string(), &error)),
                Some(Ok(())) | None => {}
            }
        }
        for (id, _) in files.into_iter().filter(|(id, _)| matches!(id.kind, FileKind::Log | FileKind::Manifest)) {
            found.extend(verify_log(store, Some(self.inner.db), id)?);
        }
        Ok(found)
    }
}

fn verify_log(store: &dyn Store, db: Option<DbId>, id: FileId) -> Result<Option<Damage>> {
    match survey_log(store, db, id) {
        Ok(_) => Ok(None),
        // Deleted meanwhile, because a flush made it superfluous.
        Err(Error::Io(error)) if error.is_not_found() => Ok(None),
        Err(Error::Busy(_)) => Ok(None),
        Err(error @ Error::NoDescriptors(_)) => Err(error),
        Err(error) => {
            let is_there = store.list()?.iter().any(|(there, _)| *there == id);
            Ok(is_there.then(|| Damage::from_error(&id.to_string(), &error)))
        }
    }
}

/// Verifies like [`Db::verify`], file by file, a database that does not open. The manifest tells what each file is. Where that cannot be
/// read, nothing says what tables should be, and only logs and manifests are verified. `Busy` beside a writer that is quicker.
pub fn verify_files(store: &Arc<dyn Store>) -> Result<Vec<Damage>> {
    let seen = match see(store) {
        Err(error @ (Error::Busy(_) | Error::NoDescriptors(_))) => return Err(error),
        seen => seen.ok().flatten(),
    };
    let mut found = seen.as_ref().map_or_else(|| Ok(Vec::new()), verify_tables)?;
    let mut files = store.list()?;
    files.sort_unstable();
    let logs = files.into_iter().map(|(id, _)| id).filter(|id| matches!(id.kind, FileKind::Log | FileKind::Manifest));
    for id in logs {
        found.extend(verify_log(&**store, seen.as_ref().map(|seen| seen.state.db), id)?);
    }
    Ok(found)
}

fn verify_tables(seen: &Seen) -> Result<Vec<Damage>> {
    let (state, cache) = (&seen.state, Cache::new(0));
    let mut found = Vec::new();
    for family in state.families.values() {
        for (_, _, info) in family.version.tables() {
            match Table::open(&seen.files, state.db, Arc::clone(info), &cache).and_then(|table| table.verify()) {
                Ok(()) => {}
                // The table may lie on a tier that cannot be had now, which is no damage of its own.
                Err(Error::Io(error)) if error.is_not_found() && !seen.tiers.problems.is_empty() => {}
                Err(error @ (Error::Busy(_) | Error::NoDescriptors(_))) => return Err(error),
                Err(error) => found.push(Damage::of_table(&family.name, info, &error)),
            }
        }
    }
    Ok(found)
}
