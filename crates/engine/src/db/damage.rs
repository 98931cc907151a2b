//! Tables that a compaction could not read, because of damage or because their codec is not built in. They are left where they are and as
//! they are, reads of them go on giving the error, and compactions go on around them. The handle remembers them; the next one finds them
//! again when it meets them.
//!
//! Data above a damaged table can never be merged past it. On level 0, runs still become larger runs, which takes long to end: only when
//! their number (or the debt) reaches the limit at which writers wait, and no compaction of the family is possible that could change that,
//! does the family refuse writes, with the error of the table. Nobody waits for relief that cannot come.

use super::family::{Family, FamilyCore};
use super::jobs::unpack;
use super::{Damage, Db, Inner, Shared, callback};
use crate::compaction::{self, ManualRange, PickEnv, Plan};
use crate::error::{Error, Result};
use parking_lot::MutexGuard;
use sinter_storage::store::FileId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reason why a table is left alone.
#[derive(Debug)]
pub(super) struct Damaged {
    pub family: u32,
    pub error: Error,
}

impl Inner {
    /// The inputs to blame for a merge that failed with `error`. If the error names none of them (the merge read more or fewer entries than
    /// there should be), each input is verified.
    pub(super) fn find_damaged(&self, core: &FamilyCore, plan: &Plan, error: &Error) -> Vec<(u64, Error)> {
        let file = match error {
            Error::Corrupt { file, .. } => file,
            // Of all invalid arguments to a merge, only a codec that this build lacks is due to its tables.
            Error::Invalid(_) => return self.undecodable(core, plan),
            _ => return Vec::new(),
        };
        let named = plan.tables().find(|t| FileId::table(t.number).to_string() == *file);
        if let Some(table) = named {
            return vec![(table.number, error.clone())];
        }
        if FileId::parse(file).is_some() {
            return Vec::new();
        }
        let tree = core.view.load().tree.clone();
        let goes_on = || !self.end.stop_jobs.load(Ordering::Relaxed);
        let tables = plan.tables().take_while(|_| goes_on()).filter_map(|t| tree.table(t.number));
        tables.filter_map(|t| Some((t.info().number, t.verify().err()?))).filter(|(_, e)| matches!(e, Error::Corrupt { .. })).collect()
    }

    /// The inputs of a merge whose codec is not built in.
    fn undecodable(&self, core: &FamilyCore, plan: &Plan) -> Vec<(u64, Error)> {
        let tree = core.view.load().tree.clone();
        plan.tables().filter_map(|t| Some((t.number, tree.table(t.number)?.check_codec().err()?))).collect()
    }

    /// Remembers damaged tables of a family. The job that met them changed nothing.
    pub(super) fn set_aside(&self, shared: &mut MutexGuard<'_, Shared>, core: &FamilyCore, tables: Vec<(u64, Error)>) {
        if shared.families.contains_key(&core.id) {
            shared.damaged.extend(tables.into_iter().map(|(number, error)| (number, Damaged { family: core.id, error })));
        }
    }

    /// No compaction of the family runs or is possible, because damaged tables are in the way.
    pub(super) fn is_stuck(&self, shared: &Shared, core: &FamilyCore) -> bool {
        if shared.jobs.is_taken(core.id) || shared.damaged.values().all(|d| d.family != core.id) {
            return false;
        }
        let settings = core.settings.load();
        let version = core.view.load().tree.version.clone();
        unpack(self.with_env(shared, core, |env| compaction::picker(settings.style).pick(&version, &PickEnv { loading: false, ..*env })))
            .is_none()
    }

    /// The error with which a stuck family refuses writes.
    #[cold]
    pub(super) fn stuck_error(&self, core: &FamilyCore) -> Error {
        let shared = self.shared.lock();
        match shared.damaged.values().find(|d| d.family == core.id).map(|d| d.error.clone()) {
            Some(Error::Corrupt { file, offset, what }) => {
                let name = &core.name;
                let what = format!("{what}; column family {name:?} takes no writes, because compactions cannot get past this table");
                Error::Corrupt { file, offset, what }
            }
            other => other.unwrap_or_else(|| Error::Busy("compactions are behind".into())),
        }
    }

    /// The first damage met so far that keeps a compaction of `range` of a family (or any) from being complete.
    pub(super) fn check_undamaged(&self, shared: &Shared, within: Option<(&Arc<FamilyCore>, &ManualRange)>) -> Result<()> {
        let concerns = |(number, damaged): &(&u64, &Damaged)| {
            within.is_none_or(|(core, range)| {
                let version = &core.view.load().tree.version;
                damaged.family == core.id && version.tables().any(|(_, _, t)| t.number == **number && range.meets(&t.range))
            })
        };
        shared.damaged.iter().find(concerns).map_or(Ok(()), |(_, damaged)| Err(damaged.error.clone()))
    }
}

impl Db {
    /// The damaged tables that compactions have met since the database was opened, by number. [`Db::verify`] finds all there are.
    pub fn damaged_tables(&self) -> Vec<Damage> {
        if !callback::is_readable() {
            return Vec::new();
        }
        let shared = self.inner.shared.lock();
        let damage = shared.damaged.iter().filter_map(|(number, damaged)| {
            let core = shared.families.get(&damaged.family)?;
            let view = core.view.load();
            Some(Damage::of_table(&core.name, view.tree.table(*number)?.info(), &damaged.error))
        });
        damage.collect()
    }

    /// A line for each damaged table of a family that compactions have met.
    pub(super) fn damaged_lines(&self, family: &Family) -> String {
        let shared = self.inner.shared.lock();
        shared.damaged.values().filter(|d| d.family == family.id()).map(|d| format!("{}\n", d.error)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::{Codec, without};
    use crate::db::Db;
    use crate::error::Error;
    use crate::settings::{DbSettings, FamilySettings};
    use sinter_storage::store::MemoryStore;
    use std::sync::Arc;

    /// Tables are set aside in a build without the feature of their codec.
    #[test]
    fn a_table_whose_codec_is_not_built_in_is_set_aside() {
        let store = Arc::new(MemoryStore::new());
        let open = |codec: Codec| {
            let settings = DbSettings { max_background_jobs: 0, ..DbSettings::default() };
            let family = FamilySettings { compression: vec![codec.into()].into(), ..FamilySettings::default() };
            Db::builder().settings(settings).family("default", family).open_store(store.clone()).unwrap()
        };
        let put_all = |db: &Db, value: &[u8]| (0..200u32).for_each(|n| db.put(&n.to_be_bytes(), value).unwrap());
        let db = open(Codec::Lz4);
        put_all(&db, &[1; 500]);
        db.compact_range(&db.default_family(), None, None).unwrap();
        db.close().unwrap();
        without(Codec::Lz4, || {
            let db = open(Codec::None);
            put_all(&db, &[2; 500]);
            let error = db.compact_range(&db.default_family(), None, None).unwrap_err();
            assert!(matches!(&error, Error::Invalid(what) if what.contains("lz4 is not built in")), "{error}");
            assert_eq!(db.damaged_tables().len(), 1);
            put_all(&db, &[3; 500]);
            db.flush().unwrap();
            assert_eq!(db.get(&[0; 4]).unwrap().unwrap(), [3; 500]);
            assert!(db.iter().any(|entry| matches!(entry, Err(Error::Invalid(_)))), "a scan needs the table");
        });
        assert!(open(Codec::Lz4).damaged_tables().is_empty());
    }
}
