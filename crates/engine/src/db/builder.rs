//! Options for opening a database.

use crate::clock::{Clock, SystemClock};
use crate::operator::{CompactionFilter, MergeOperator};
use crate::settings::{DbSettings, FamilySettings};
use sinter_storage::store::{Store, Temperature};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Options for opening a database: settings are data, parts (clock, store, operators) are passed in.
pub struct Builder {
    pub(super) settings: Option<DbSettings>,
    pub(super) tier_stores: BTreeMap<Temperature, Arc<dyn Store>>,
    pub(super) families: Vec<(String, FamilySettings)>,
    pub(super) operators: BTreeMap<String, Arc<dyn MergeOperator>>,
    pub(super) filters: BTreeMap<String, Arc<dyn CompactionFilter>>,
    pub(super) read_only: bool,
    pub(super) create_if_missing: bool,
    pub(super) error_if_exists: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) system_root: PathBuf,
    pub(super) id: Option<[u8; 16]>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            settings: None,
            tier_stores: BTreeMap::new(),
            families: Vec::new(),
            operators: BTreeMap::new(),
            filters: BTreeMap::new(),
            read_only: false,
            create_if_missing: true,
            error_if_exists: false,
            clock: Arc::new(SystemClock::default()),
            system_root: PathBuf::from("/"),
            id: None,
        }
    }
}

impl Builder {
    /// Settings of the database; without them, those stored with it (or the defaults for a new one).
    pub fn settings(mut self, settings: DbSettings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Settings of a family, which is created if it is missing. Families not named here keep their stored settings.
    pub fn family(mut self, name: &str, settings: FamilySettings) -> Self {
        self.families.push((name.to_owned(), settings));
        self
    }

    /// The merge operator of a family. One that was written with an operator cannot be opened for writing without it.
    pub fn merge_operator(mut self, family: &str, operator: Arc<dyn MergeOperator>) -> Self {
        self.operators.insert(family.to_owned(), operator);
        self
    }

    /// The compaction filter of a family.
    pub fn compaction_filter(mut self, family: &str, filter: Arc<dyn CompactionFilter>) -> Self {
        self.filters.insert(family.to_owned(), filter);
        self
    }

    /// Changes nothing on the medium and takes no lock. The contents of the log are kept in memory, all of it: a log of 10 GiB takes at
    /// least as much, whatever the settings say of memtables (opening for writing flushes on the way). Writes are refused. A damaged or
    /// missing table does not stop it: reads that need that table get the error, [`Db::verify`](crate::Db::verify) names it, everything
    /// else is readable. A writer may be at work: the handle then shows what the database was at one moment of the opening, and goes on to
    /// show that. If the writer deletes files faster than they can be opened, opening gives `Busy`; damage is reported only where nothing
    /// changed meanwhile.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Creates the database if there is none (the default).
    pub fn create_if_missing(mut self, yes: bool) -> Self {
        self.create_if_missing = yes;
        self
    }

    /// Refuses a database that is there already.
    pub fn error_if_exists(mut self, yes: bool) -> Self {
        self.error_if_exists = yes;
        self
    }

    /// Source of time.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Directory below which `proc` and the control groups lie (`/`), from which CPU and memory limits are read: for tests.
    #[doc(hidden)]
    pub fn system_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.system_root = root.into();
        self
    }

    /// The identity of a new database, instead of a random one: for tests that must repeat exactly.
    #[doc(hidden)]
    pub fn identity(mut self, id: [u8; 16]) -> Self {
        self.id = Some(id);
        self
    }
}
