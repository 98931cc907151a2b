//! Reads and verifies everything: each table whole, each log segment, the manifest, the identity of each tier.

use super::Db;
use super::tiers::check_known;
use crate::error::{Error, Result};
use crate::manifest::TableInfo;
use crate::wal::survey_log;
use sinter_storage::store::{FileId, FileKind};

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// Where in it, bytes, if known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// The family whose data it is.
    pub family: Option<String>,
    /// Smallest and largest user key of the damaged table.
    pub key_range: Option<(Vec<u8>, Vec<u8>)>,
}

impl Damage {
    fn new(file: String, error: &Error) -> Self {
        match error {
            Error::Corrupt { file, offset, what } => {
                Damage { file: file.clone(), offset: Some(*offset), what: what.clone(), family: None, key_range: None }
            }
            other => Damage { file, offset: None, what: other.to_string(), family: None, key_range: None },
        }
    }

    pub(super) fn of_table(family: &str, info: &TableInfo, error: &Error) -> Self {
        let key_range = Some((info.range.smallest.clone(), info.range.largest.clone()));
        let damage = Damage::new(FileId::table(info.number).to_string(), error);
        Damage { family: Some(family.to_owned()), key_range, ..damage }
    }
}

impl Db {
    /// Reads everything past the cache and verifies it; every damage found, none if all is well. Goes on after each.
    pub fn verify(&self) -> Result<Vec<Damage>> {
        let mut found = Vec::new();
        for family in self.families() {
            let view = family.core.view.load_full();
            for table in view.tree.tables() {
                if let Err(error) = table.verify() {
                    found.push(Damage::of_table(family.name(), table.info(), &error));
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
            if let Some(Err(error)) = checked {
                found.push(Damage::new(FileId::tier(tier.number).to_string(), &error));
            }
        }
        for (id, _) in files.into_iter().filter(|(id, _)| matches!(id.kind, FileKind::Log | FileKind::Manifest)) {
            match survey_log(store, Some(self.inner.db), id) {
                Ok(_) => {}
                // Deleted meanwhile, because a flush made it superfluous.
                Err(Error::Io(error)) if error.is_not_found() => {}
                Err(error) => found.push(Damage::new(id.to_string(), &error)),
            }
        }
        Ok(found)
    }
}
