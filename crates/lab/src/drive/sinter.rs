//! SinterDB as an engine.

use super::{Engine, Opened};
use crate::run::{EngineSpec, InPlace, MediumModel, Source, TierSpec, ZONE_BLOCK, ZonesSpec, without_lines};
use crate::system::{OperationClock, Outcome, SinterOpener, SinterSystem};
use sinter_storage::store::{Medium, Temperature};
use sinter_storage::zoned::{Emulator, Geometry};
use sinter_storage::zoned_store::{Allocation, Collection, Options, Reset, VolumeId, ZonedStore};
use sinterdb::Db;
use sinterdb::settings::{DbSettings, TierPaths};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// SinterDB. Settings are read as from an OPTIONS file: missing ones have SinterDB's defaults.
#[derive(Debug, Clone, Copy)]
pub struct SinterEngine;

impl Engine for SinterEngine {
    type System = SinterSystem;

    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<SinterSystem>> {
        let file = spec.options()?;
        let (mut database, families) = (file.db.clone(), file.families.clone());
        let clock = spec.operations_per_clock_second.map(|rate| Arc::new(OperationClock::new(rate)));
        let slow = tiers(spec, &mut database)?;
        let (path, disable_wal, hide_limits) = (directory.to_owned(), !spec.wal, spec.hide_limits);
        let opener = SinterOpener { path, zones: None, database, families, disable_wal, hide_limits, slow, clock };
        let system = match &spec.zones {
            Some(zones) => {
                let store = on_zones(zones, directory, opener.database.max_background_jobs > 0)?;
                opener.open_on(Arc::<ZonedStore>::clone(&store), true)?.on(store)
            }
            None => opener.open(is_fresh(spec))?,
        };
        opened(system, without_lines(file.report()))
    }
}

/// SinterDB with settings and a place chosen elsewhere, which those of specs only describe.
impl Engine for SinterOpener {
    type System = SinterSystem;

    fn open(&self, spec: &EngineSpec, _: &Path) -> Outcome<Opened<SinterSystem>> {
        opened(self.open(is_fresh(spec))?, Vec::new())
    }
}

fn is_fresh(spec: &EngineSpec) -> bool {
    spec.in_place != Some(InPlace::Existing)
}

fn opened(system: SinterSystem, ignored_settings: Vec<String>) -> Outcome<Opened<SinterSystem>> {
    let (compression, version) = (compression(system.db())?, format!("sinterdb {}", env!("CARGO_PKG_VERSION")));
    Ok(Opened { compression, system, version, ignored_settings, source: Source::Engine })
}

/// Largest drive that is kept in memory, bytes: in a file, its pages cost three tenths of a run's processor time.
const IN_MEMORY: u64 = 2 << 30;

/// An empty volume on a new emulated drive. With `background` a thread resets and collects; without, as for an engine without threads,
/// nothing is done beside the engine and runs repeat exactly.
fn on_zones(spec: &ZonesSpec, directory: &Path, background: bool) -> Outcome<Arc<ZonedStore>> {
    let ZonesSpec { zones, zone_bytes, zone_capacity, max_active, allocation, reset, collector, fallback, tells } = spec;
    let named = |what: &str, name: &str| format!("engine.zones.{what}: there is no {name:?}");
    let allocation = Allocation::from_name(allocation).ok_or_else(|| named("allocation", allocation))?;
    let reset = Reset::from_name(reset).ok_or_else(|| named("reset", reset))?;
    let collection = match collector {
        Some(name) => Collection::from_name(name).ok_or_else(|| named("collector", name))?,
        None => Options::default().collection,
    };
    let options = Options { allocation, reset, collection, fallback: *fallback, tells: *tells, background, ..Options::default() };
    let block = u32::try_from(ZONE_BLOCK)?;
    let (max_open, max_active) = (*max_active, *max_active);
    let geometry = Geometry { block, zones: *zones, zone_size: *zone_bytes, max_open, max_active, conventional: 0 };
    let capacity = zone_capacity.unwrap_or(*zone_bytes);
    let drive = if u64::from(*zones).saturating_mul(capacity) <= IN_MEMORY {
        Emulator::memory(geometry, capacity)?
    } else {
        Emulator::create(directory.join("drive"), geometry, capacity)?.unsynced()
    };
    // The only volume on a private drive: any identity will do.
    Ok(Arc::new(ZonedStore::format(Arc::new(drive), VolumeId(*b"emulated for lab"), options)?))
}

/// Puts the directories of the spec's tiers into the settings, which have none of their own. Returns the slow tiers with their models.
fn tiers(spec: &EngineSpec, database: &mut DbSettings) -> Outcome<BTreeMap<Temperature, Medium>> {
    let (mut paths, mut slow) = (BTreeMap::new(), BTreeMap::new());
    for TierSpec { temperature, directory, model } in &spec.tiers {
        let known = Temperature::from_name(temperature).ok_or_else(|| format!("tiers: there is no temperature {temperature:?}"))?;
        let path = directory.clone().ok_or_else(|| format!("tiers: {temperature} has no directory"))?;
        paths.insert(known, path);
        if let Some(MediumModel { read_mb_per_s, write_mb_per_s, seek_ms }) = *model {
            let seek = Duration::from_secs_f64(seek_ms / 1000.0);
            slow.insert(known, Medium { read_mb_per_s, write_mb_per_s, seek });
        }
    }
    if !paths.is_empty() {
        database.tiers = TierPaths::Only(paths);
    }
    Ok(slow)
}

/// Compression setting of each family, as in a settings file.
fn compression(db: &Db) -> Outcome<BTreeMap<String, String>> {
    let text = |settings: &str| settings.lines().find_map(|line| line.strip_prefix("compression = ")).unwrap_or_default().replace('"', "");
    let families = db.families().into_iter();
    families.map(|family| Ok((family.name().to_string(), text(&db.family_settings(&family)?.to_toml())))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::FamilySpec;
    use crate::system::System;

    fn open(database: &[(&str, &str)], hot: &[(&str, &str)]) -> Outcome<Opened<SinterSystem>> {
        open_in(tempfile::tempdir()?.path(), database, hot, false)
    }

    fn open_in(directory: &Path, database: &[(&str, &str)], hot: &[(&str, &str)], hide_limits: bool) -> Outcome<Opened<SinterSystem>> {
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
        let db = opened.system.db();
        assert_eq!(db.settings().max_background_jobs, 3);
        let family = |name: &str| db.family_settings(&db.family(name).unwrap()).unwrap();
        assert_eq!((family("hot").style, family("hot").block_size), (sinterdb::settings::Style::Universal, 8192));
        assert_eq!((family("cold").style, family("cold").num_levels), (sinterdb::settings::Style::Leveled, 7));
        assert_eq!(opened.compression["hot"], "none zstd:3");
        assert_eq!((opened.system.levels(0).unwrap().len(), opened.system.levels(1).unwrap().len()), (5, 7));
    }

    /// The engine reports no cgroup limit if it is shown none, whatever confines the test; processors are still visible.
    #[test]
    fn limits_are_hidden_and_processors_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open_in(directory.path(), &[], &[], true).unwrap();
        let db = opened.system.db();
        let text = db.property(&db.family("hot").unwrap(), "sinterdb.limits").unwrap();
        assert!(text.contains("memory limit: none found") && !text.contains("cpu quota"), "{text}");
        let status = std::fs::read_to_string(directory.path().join("system/proc/thread-self/status")).unwrap();
        assert!(status.contains("Cpus_allowed_list:"));
        assert!(!directory.path().join("system/proc/self").exists());
        opened.system.close().unwrap();
        assert!(open_in(directory.path(), &[], &[], true).is_ok(), "it may be there already");
    }

    /// A tier is attached, in the directory that the run made for it, and slow if the spec has a model.
    #[test]
    fn tiers_are_those_of_the_spec() {
        let (fast, slow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let model = MediumModel { read_mb_per_s: 100.0, write_mb_per_s: 100.0, seek_ms: 0.1 };
        let tier = TierSpec { temperature: "cold".into(), directory: Some(slow.path().to_owned()), model: Some(model) };
        let families = vec![FamilySpec { name: "default".into(), settings: BTreeMap::new() }];
        let spec = EngineSpec { name: "sinter".into(), families, wal: true, tiers: vec![tier], ..EngineSpec::default() };
        let opened = SinterEngine.open(&spec, fast.path()).unwrap();
        assert_eq!(opened.ignored_settings, [""; 0]);
        let tiers: Vec<Temperature> = opened.system.db().tiers().iter().map(|tier| tier.temperature).collect();
        assert_eq!(tiers, [Temperature::Unknown, Temperature::Cold]);
        assert!(std::fs::read_dir(slow.path()).unwrap().next().is_some(), "it says whose it is");
        opened.system.close().unwrap();
    }

    /// All files lie on the drive, and its figures are in the record.
    #[test]
    fn zones_are_those_of_the_spec() {
        let directory = tempfile::tempdir().unwrap();
        let zones = |allocation: &str| ZonesSpec {
            zones: 32,
            zone_bytes: 2 << 20,
            zone_capacity: Some(1 << 20),
            max_active: Some(14),
            allocation: allocation.into(),
            reset: "sinter".into(),
            collector: None,
            fallback: true,
            tells: true,
        };
        let families = vec![FamilySpec { name: "default".into(), settings: BTreeMap::new() }];
        let spec = |name| EngineSpec {
            name: "sinter".into(),
            families: families.clone(),
            wal: true,
            zones: Some(zones(name)),
            ..EngineSpec::default()
        };
        let opened = SinterEngine.open(&spec("sinter"), directory.path()).unwrap();
        opened.system.db().put(b"a", b"b").unwrap();
        opened.system.flush().unwrap();
        let beneath = opened.system.figures().unwrap().beneath.unwrap();
        assert!(beneath.files > 0 && beneath.zones.used() > 0, "{beneath:?}");
        assert_eq!((beneath.zones.capacity, beneath.moved), (u64::from(beneath.zones.all) << 20, 0));
        opened.system.close().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing lies in the directory");
        assert!(SinterEngine.open(&spec("best"), directory.path()).err().unwrap().to_string().contains("best"));
    }

    #[test]
    fn wrong_settings_are_named() {
        let failure = open(&[("max_background_jobs", "many")], &[("num_levels", "99")]).err().unwrap().to_string();
        assert!(failure.contains("max_background_jobs") && failure.contains("CFOptions \"hot\": num_levels"), "{failure}");
        assert!(!failure.contains("line "), "{failure}");
    }
}
