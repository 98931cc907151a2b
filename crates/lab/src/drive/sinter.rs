//! SinterDB as an engine.

use super::{Engine, Opened};
use crate::run::{EngineSpec, Source, without_lines};
use crate::target::{Opener, Outcome, SinterOpener, SinterTarget};
use sinterdb::db::Db;
use std::collections::BTreeMap;
use std::path::Path;

/// SinterDB. Settings are read as an OPTIONS file would be: what they leave out has SinterDB's default.
#[derive(Debug, Clone, Copy)]
pub struct SinterEngine;

impl Engine for SinterEngine {
    type Target = SinterTarget;

    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<SinterTarget>> {
        let file = spec.options()?;
        let (database, families) = (file.db.clone(), file.families.clone());
        let (path, disable_wal, hide_limits) = (directory.to_owned(), !spec.wal, spec.hide_limits);
        let opener = SinterOpener { path, database, families, disable_wal, hide_limits, slow: BTreeMap::new() };
        let target = opener.open(true)?;
        Ok(Opened {
            compression: compression(target.db())?,
            target,
            version: format!("sinterdb {}", env!("CARGO_PKG_VERSION")),
            ignored_settings: without_lines(file.report()),
            source: Source::Engine,
        })
    }
}

/// The setting of each family, as a settings file would have it.
fn compression(db: &Db) -> Outcome<BTreeMap<String, String>> {
    let text = |settings: &str| settings.lines().find_map(|line| line.strip_prefix("compression = ")).unwrap_or_default().replace('"', "");
    let families = db.families().into_iter();
    families.map(|family| Ok((family.name().to_string(), text(&db.family_settings(&family)?.to_toml())))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::FamilySpec;
    use crate::target::Target;

    fn open(database: &[(&str, &str)], hot: &[(&str, &str)]) -> Outcome<Opened<SinterTarget>> {
        open_in(tempfile::tempdir()?.path(), database, hot, false)
    }

    fn open_in(directory: &Path, database: &[(&str, &str)], hot: &[(&str, &str)], hide_limits: bool) -> Outcome<Opened<SinterTarget>> {
        let settings = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<BTreeMap<String, String>>();
        let families = [("hot", settings(hot)), ("cold", BTreeMap::new())];
        let families = families.into_iter().map(|(name, settings)| FamilySpec { name: name.into(), settings }).collect();
        let spec =
            EngineSpec { name: "sinter".into(), database: settings(database), families, wal: true, hide_limits, ..EngineSpec::default() };
        SinterEngine.open(&spec, directory)
    }

    #[test]
    fn settings_are_rocksdb_options() {
        let universal = [
            ("compaction_style", "kCompactionStyleUniversal"),
            ("block_size", "8192"),
            ("num_levels", "5"),
            ("compression_per_level", "kNoCompression:kZSTD"),
            ("compression_opts.level", "3"),
        ];
        let opened = open(&[("max_background_jobs", "3"), ("db_log_dir", "/x"), ("nonsense", "1")], &universal).unwrap();
        assert_eq!(opened.ignored_settings.len(), 2, "{:?}", opened.ignored_settings);
        assert!(opened.ignored_settings.iter().all(|line| line.starts_with("[DBOptions] ")), "{:?}", opened.ignored_settings);
        let db = opened.target.db();
        assert_eq!(db.settings().max_background_jobs, 3);
        let family = |name: &str| db.family_settings(&db.family(name).unwrap()).unwrap();
        assert_eq!((family("hot").style, family("hot").block_size), (sinterdb::settings::Style::Universal, 8192));
        assert_eq!((family("cold").style, family("cold").num_levels), (sinterdb::settings::Style::Leveled, 7));
        assert_eq!(opened.compression["hot"], "none zstd:3");
        assert_eq!((opened.target.levels(0).unwrap().len(), opened.target.levels(1).unwrap().len()), (5, 7));
    }

    /// What the engine says of limits has no group in it if it is shown none, whatever confines the test; the processors are there.
    #[test]
    fn limits_are_hidden_and_processors_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open_in(directory.path(), &[], &[], true).unwrap();
        let db = opened.target.db();
        let text = db.property(&db.family("hot").unwrap(), "sinterdb.limits").unwrap();
        assert!(text.contains("memory limit: none found") && !text.contains("cpu quota"), "{text}");
        let status = std::fs::read_to_string(directory.path().join("system/proc/thread-self/status")).unwrap();
        assert!(status.contains("Cpus_allowed_list:"));
        assert!(!directory.path().join("system/proc/self").exists());
        opened.target.close().unwrap();
        assert!(open_in(directory.path(), &[], &[], true).is_ok(), "it may be there already");
    }

    #[test]
    fn wrong_settings_are_named() {
        let failure = open(&[("max_background_jobs", "many")], &[("num_levels", "99")]).err().unwrap().to_string();
        assert!(failure.contains("max_background_jobs") && failure.contains("CFOptions \"hot\": num_levels"), "{failure}");
        assert!(!failure.contains("line "), "{failure}");
    }
}
