//! The settings that a spec asks of an engine, read once and in the same way for all. Specs use RocksDB's option names, SinterDB's reader
//! of OPTIONS files understands them, and options that a spec leaves out have SinterDB's defaults: engines differ only in settings that
//! were asked for.

use sinter_lab::run::EngineSpec;
use sinter_lab::system::Outcome;
use sinterdb::settings::{DbSettings, FamilySettings, OptionEntry};
use std::fmt;

/// A spec's settings.
pub struct Asked {
    /// The database; settings that the spec does not state have SinterDB's defaults.
    pub database: DbSettings,
    /// The families in the spec's order, by name; likewise.
    pub families: Vec<(String, FamilySettings)>,
    /// Every setting that the spec states, as it is written there.
    pub stated: Vec<Stated>,
}

/// One setting of a spec.
pub struct Stated {
    /// Section, name and value.
    pub entry: OptionEntry,
    /// The setting is in [`Asked::database`] or [`Asked::families`]; all others are RocksDB's alone.
    pub understood: bool,
}

/// The section of a database's settings.
const DATABASE: &str = "DBOptions";
/// Beginning of the section of a family's tables.
const TABLES: &str = "TableOptions/";

impl Asked {
    /// Reads the settings of a spec.
    ///
    /// # Errors
    /// Everything that cannot be read, in one line that names each setting.
    pub fn read(spec: &EngineSpec) -> Outcome<Self> {
        let file = spec.options()?;
        let understood = file.used.iter().map(|entry| (entry, true));
        let others = file.without_effect.iter().map(|other| &other.entry).chain(&file.unknown).map(|entry| (entry, false));
        let stated = understood.chain(others).map(|(entry, understood)| Stated { entry: entry.clone(), understood });
        let stated = stated.filter(|stated| stated.entry.section != "Version").collect();
        Ok(Asked { database: file.db, families: file.families, stated })
    }
}

/// Requests of a spec that only SinterDB can fulfil, as a list of settings that another engine ignores.
pub fn of_sinter_alone(spec: &EngineSpec) -> Vec<String> {
    let clock = spec.operations_per_clock_second.map(|rate| format!("operations_per_clock_second = {rate}: its clock is the system's"));
    let tiers = spec.tiers.iter().map(|tier| format!("tiers: {}: all files lie in one directory", tier.temperature));
    let zones = spec.zones.iter().map(|_| "zones: all files lie in one directory".to_string());
    clock.into_iter().chain(tiers).chain(zones).collect()
}

impl Stated {
    /// The family it is about; `None` for the database.
    pub fn family(&self) -> Option<&str> {
        (self.entry.section != DATABASE).then(|| self.entry.section.split('"').nth(1).unwrap_or_default())
    }

    /// The setting is about tables.
    pub fn is_of_tables(&self) -> bool {
        self.entry.section.starts_with(TABLES)
    }
}

/// Formats like `[CFOptions "hot"] write_buffer_size = 8388608`.
impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} = {}", self.entry.section, self.entry.key, self.entry.value)
    }
}
