//! What a spec asks of an engine, read once and in the same way for all. RocksDB's option names are the language, SinterDB's reader of
//! OPTIONS files understands it, and what a spec leaves out has SinterDB's default: engines differ in nothing that was not asked for.

use sinter_lab::run::EngineSpec;
use sinter_lab::target::Outcome;
use sinterdb::settings::{DbSettings, FamilySettings, OptionEntry, OptionsFile};
use std::fmt;

/// A spec's settings.
pub struct Asked {
    /// The database; what the spec does not state has SinterDB's default.
    pub database: DbSettings,
    /// The families in the spec's order, by name; likewise.
    pub families: Vec<(String, FamilySettings)>,
    /// Every setting that the spec states, as it is written there.
    pub stated: Vec<Stated>,
}

/// Where a setting stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Of the database.
    Database,
    /// Of a family.
    Family(String),
    /// Of the tables of a family.
    Table(String),
}

/// One setting of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// Where it stands.
    pub place: Place,
    /// RocksDB's name of it.
    pub name: String,
    /// Its value as it is written.
    pub value: String,
    /// It is in [`Asked::database`] or [`Asked::families`]; all others are RocksDB's own.
    pub understood: bool,
}

impl Asked {
    /// Reads the settings of a spec.
    ///
    /// # Errors
    /// Everything that cannot be read, in one line that names each setting.
    pub fn read(spec: &EngineSpec) -> Outcome<Self> {
        let file = OptionsFile::parse(&spec.options_text()).map_err(|complaints| complaints.join("; "))?;
        let settings = |name: &str| file.families.iter().find(|(known, _)| known == name).map(|(_, family)| family.clone());
        let families = spec.families.iter().map(|family| (family.name.clone(), settings(&family.name).unwrap_or_default())).collect();
        let understood = file.used.iter().map(|entry| (entry, true));
        let others = file.without_effect.iter().map(|other| &other.entry).chain(&file.unknown).map(|entry| (entry, false));
        let stated = understood.chain(others).filter_map(|(entry, understood)| Stated::of(entry, understood)).collect();
        Ok(Asked { database: file.db, families, stated })
    }

    /// The settings of a family by name.
    pub fn family(&self, name: &str) -> Option<&FamilySettings> {
        self.families.iter().find(|(known, _)| known == name).map(|(_, settings)| settings)
    }
}

impl Stated {
    /// `None` for what the file says of itself.
    fn of(entry: &OptionEntry, understood: bool) -> Option<Self> {
        let (section, family) = entry.section.split_once(' ').unwrap_or((&entry.section, ""));
        let family = family.trim_matches('"').to_string();
        let place = match section {
            "DBOptions" => Place::Database,
            "CFOptions" => Place::Family(family),
            "TableOptions/BlockBasedTable" => Place::Table(family),
            _ => return None,
        };
        Some(Stated { place, name: entry.key.clone(), value: entry.value.clone(), understood })
    }

    /// The family it is about; `None` for the database.
    pub fn family(&self) -> Option<&str> {
        match &self.place {
            Place::Database => None,
            Place::Family(name) | Place::Table(name) => Some(name),
        }
    }
}

/// As in `family hot: block_size = 8192`.
impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family() {
            None => write!(f, "database: {} = {}", self.name, self.value),
            Some(family) => write!(f, "family {family}: {} = {}", self.name, self.value),
        }
    }
}
