//! Opening the stores of a tiered database, and attaching and detaching them.
//!
//! The manifest has the tiers of a database, with the identity of each ([`TierIdentity`]); the settings have their directories or zoned
//! drives. A tier that the database knows is opened, never created: a directory that is missing, empty (a medium that is not mounted) or
//! another one than was attached is an error, before a lock file or anything else is written to it.
//!
//! Attaching, all of it before the log is replayed:
//!
//! 1. a new database gets its manifest, so that its identity is durable. *A crash here is fine because* it is an empty database.
//! 2. the identity is written to the new tier and made durable, name included. *A crash here is fine because* the store holds nothing
//!    else, and an identity of this database that its manifest does not know is replaced when the tier is attached next.
//! 3. a new manifest knows the tier. Tables are written to it from then on.
//!
//! Detaching is step 3 without the tier, after a look whether all tables are elsewhere; then the files left in its store are removed.

use super::builder::Builder;
use super::media::Media;
use crate::checksum::DbId;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::manifest::{self, KnownTier, Loaded, ManifestState, TableInfo};
use crate::settings::{DbSettings, TierPaths};
use crate::tiering::identity::{TIER_BYTES, TierIdentity};
use sinter_storage::place::Place;
use sinter_storage::store::{
    BoundedStore, Cause, FileId, FileKind, Meter, OpenFiles, Relation, Store, StoreError, StoreLock, Temperature, relation,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Paths = BTreeMap<Temperature, PathBuf>;

/// A tier on its way to be opened.
struct Tier {
    temperature: Temperature,
    store: Arc<Meter>,
    /// Location of the store for people, where known.
    at: Option<PathBuf>,
    /// Entry of the manifest; `None`: the tier is new.
    known: Option<KnownTier>,
}

impl Tier {
    fn name(&self) -> String {
        name(self.temperature, self.at.as_deref())
    }

    fn check(&self, db: DbId) -> Result<()> {
        let checked = match &self.known {
            Some(known) => check_known(&*self.store, self.at.as_deref(), known, db),
            None => leftovers(self, db).map(drop),
        };
        checked.map_err(|error| self.named(error))
    }

    /// Adds the location of the tier to a failure of the medium.
    fn named(&self, error: Error) -> Error {
        let at_tier = |error: Arc<StoreError>| {
            let source = io::Error::new(error.source.kind(), format!("{}: {}", self.name(), error.source));
            Arc::new(StoreError { operation: error.operation, file: error.file, offset: error.offset, source })
        };
        match error {
            Error::Io(error) => Error::Io(at_tier(error)),
            Error::NoSpace(error) => Error::NoSpace(at_tier(error)),
            Error::NoDescriptors(error) => Error::NoDescriptors(at_tier(error)),
            error => error,
        }
    }
}

/// A tier for people.
fn name(temperature: Temperature, at: Option<&Path>) -> String {
    let at = at.map(|path| format!(" ({})", path.display())).unwrap_or_default();
    format!("tier {}{at}", temperature.name())
}

/// The settings that a state has stored, or those of a new database.
pub(super) fn stored_settings(state: &ManifestState) -> Result<DbSettings> {
    if state.settings.is_empty() {
        return Ok(DbSettings::default());
    }
    Ok(DbSettings::from_stored(&state.settings).map_err(|complaints| Error::Invalid(complaints.join("; ")))?.0)
}

fn paths_of(settings: &DbSettings) -> Paths {
    settings.tiers.named().map(|(temperature, path)| (temperature, path.to_owned())).collect()
}

/// Location of a tier, parsed from the settings.
fn place(path: &Path) -> Result<Place> {
    Place::of(path).map_err(|what| Error::invalid(format!("tiers: {}: {what}", path.display())))
}

fn files(store: &dyn Store) -> Result<Vec<FileId>> {
    Ok(store.list()?.into_iter().map(|(id, _)| id).collect())
}

/// Checks that the store is the one that was attached; `at`: its location, for people.
pub(super) fn check_known(store: &dyn Store, at: Option<&Path>, known: &KnownTier, db: DbId) -> Result<()> {
    let wrong = |what: String| Err(Error::invalid(format!("{} {what}", name(known.temperature, at))));
    let (files, id) = (files(store)?, FileId::tier(known.number));
    if let Some(other) = files.iter().find(|file| matches!(file.kind, FileKind::Manifest | FileKind::Log)) {
        return wrong(format!("is the directory of a database: {other} is in it"));
    }
    if files.contains(&id) {
        let (identity, checksum) = TierIdentity::read(store, id).map_err(|error| at_path(at, error))?;
        return if checksum == known.identity { Ok(()) } else { wrong(describe(&identity, known.temperature, db)) };
    }
    match files.iter().find(|file| file.kind == FileKind::Tier) {
        Some(other) => {
            let (identity, _) = TierIdentity::read(store, *other).map_err(|error| at_path(at, error))?;
            wrong(describe(&identity, known.temperature, db))
        }
        None if files.is_empty() => wrong("is empty: is its medium mounted?".into()),
        None => wrong(format!("has lost {id}, which says whose it is")),
    }
}

/// Says what a store is instead of the tier that was looked for.
fn describe(identity: &TierIdentity, wanted: Temperature, db: DbId) -> String {
    if identity.db != db {
        return format!("belongs to database {}, not to {db}", identity.db);
    }
    if identity.temperature != wanted {
        return format!("is tier {} of this database: directories were exchanged", identity.temperature.name());
    }
    "was attached another time than the database knows of: by a copy of it, or before it was detached".into()
}

/// Damage with the whole path of the file.
fn at_path(at: Option<&Path>, error: Error) -> Error {
    match (error, at) {
        (Error::Corrupt { file, offset, what }, Some(path)) => Error::Corrupt { file: path.join(file).display().to_string(), offset, what },
        (error, _) => error,
    }
}

/// Files that an unfinished attachment left in a store; anything else in it is an error.
fn leftovers(tier: &Tier, db: DbId) -> Result<Vec<FileId>> {
    let wrong = |what: String| Err(Error::invalid(format!("{} cannot be attached: it {what}", tier.name())));
    let files = files(&*tier.store)?;
    if let Some(other) = files.iter().find(|file| file.kind != FileKind::Tier) {
        return wrong(format!("is not empty, {other} is in it"));
    }
    for file in &files {
        match TierIdentity::read(&*tier.store, *file) {
            Ok((identity, _)) if identity.db != db => return wrong(format!("belongs to database {}", identity.db)),
            // Torn by a crash.
            Ok(_) | Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Checks that all directories are different ones, and none lies inside another.
fn check_apart(primary: &dyn Store, tiers: &[Tier]) -> Result<()> {
    let first = std::iter::once((String::from("the database's directory"), primary.directory()));
    let all = first.chain(tiers.iter().map(|tier| (tier.name(), tier.store.directory())));
    let named: Vec<(String, &Path)> = all.filter_map(|(name, path)| Some((name, path?))).collect();
    for (n, (b, other)) in named.iter().enumerate() {
        for (a, path) in &named[n + 1..] {
            let lies = relation(path, other).map_err(|error| Error::invalid(format!("{a}: {error}")))?;
            let what = match lies {
                Relation::Apart => continue,
                Relation::Same => format!("{a} is the same directory as {b}"),
                Relation::Inside => format!("{a} lies inside {b}"),
                Relation::Around => format!("{b} lies inside {a}"),
            };
            return Err(Error::invalid(format!("{what}: each store needs a directory of its own")));
        }
    }
    Ok(())
}

/// Checks that every table that the manifest names is in some store. The error depends on whether a tier is being detached.
fn check_complete(primary: &dyn Store, tiers: &[Tier], leaving: &[Temperature], state: &ManifestState) -> Result<()> {
    let mut here: HashSet<u64> = HashSet::new();
    for store in std::iter::once(primary).chain(tiers.iter().map(|tier| &*tier.store as &dyn Store)) {
        here.extend(files(store)?.into_iter().filter(|id| id.kind == FileKind::Table).map(|id| id.number));
    }
    let tables = state.families.values().flat_map(|family| family.version.tables()).map(|(_, _, table)| table);
    let missing: Vec<&Arc<TableInfo>> = tables.filter(|table| !here.contains(&table.number)).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let (count, bytes) = (missing.len(), missing.iter().map(|table| table.bytes).fold(0, u64::saturating_add));
    if !leaving.is_empty() {
        let names = leaving.iter().map(|temperature| temperature.name()).collect::<Vec<_>>().join(", ");
        let what = format!("tier {names} cannot be detached: {count} tables with {bytes} bytes are nowhere else");
        return Err(Error::invalid(format!("{what}; temperature_ages = \"hot\" in each family moves them")));
    }
    let places: Vec<String> = tiers.iter().map(Tier::name).collect();
    let what = format!("the table is missing, and {} others: neither beside the manifest nor in {}", count - 1, places.join(", "));
    Err(Error::corrupt(FileId::table(first.number), 0, what))
}

impl Builder {
    /// A store for tables of a temperature, instead of a directory. One that the database does not know yet is attached, and has to be
    /// empty. If a directory is behind it, that is stored with the settings and found again by whoever opens the database without it.
    pub fn tier_store(mut self, temperature: Temperature, store: Arc<dyn Store>) -> Self {
        self.tier_stores.insert(temperature, store);
        self
    }

    /// The settings to be stored, with all directories of tiers in them; `None`: those that are stored.
    pub(super) fn db_settings(&self, state: &ManifestState) -> Result<Option<DbSettings>> {
        if self.settings.is_none() && self.tier_stores.is_empty() {
            return Ok(None);
        }
        let stored = stored_settings(state)?;
        let mut settings = self.settings.clone().unwrap_or_else(|| stored.clone());
        let mut paths = paths_of(if settings.tiers == TierPaths::Stored { &stored } else { &settings });
        for (temperature, store) in &self.tier_stores {
            match store.directory() {
                Some(path) => drop(paths.insert(*temperature, path.to_owned())),
                // Whoever also names a drive has wrapped the volume on it.
                None if settings.tiers.named().any(|(named, path)| named == *temperature && matches!(place(path), Ok(Place::Zoned(_)))) => {
                }
                None => drop(paths.remove(temperature)),
            }
        }
        for path in paths.values_mut() {
            let absolute = place(path)?.absolute();
            *path = absolute.map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?.into_path();
        }
        settings.tiers = if paths.is_empty() { TierPaths::Stored } else { TierPaths::Only(paths) };
        settings.validate().map_err(|complaints| Error::Invalid(complaints.join("; ")))?;
        Ok(Some(settings))
    }

    /// Finds, checks and locks the tiers of a database, attaches those that are new and detaches those that are no longer wanted.
    pub(super) fn open_tiers(&self, primary: &Arc<Meter>, opening: &mut Opening<'_>) -> Result<Media> {
        let state = &*opening.state;
        let paths = paths_of(&stored_settings(state)?);
        let wanted = self.wanted_tiers(&paths, state)?;
        if wanted.is_empty() && state.tiers.is_empty() {
            return Media::new(opening.files, Arc::clone(primary), Vec::new());
        }
        let find = |temperature: &Temperature| {
            let path = paths.get(temperature);
            let found = BoundedStore::new(self.find_tier(*temperature, path)?, Arc::clone(opening.files), self.read_only);
            let store = Arc::new(Meter::new(Arc::new(found)));
            let at = store.directory().or(path.map(PathBuf::as_path)).map(Path::to_owned);
            Ok(Tier { temperature: *temperature, store, at, known: state.tiers.get(temperature).copied() })
        };
        let tiers = wanted.iter().map(find).collect::<Result<Vec<Tier>>>()?;
        check_apart(&**primary, &tiers)?;
        for tier in &tiers {
            tier.check(opening.state.db)?;
            let highest = files(&*tier.store)?.into_iter().map(|id| id.number).max().unwrap_or(0);
            let above = highest.checked_add(1).ok_or_else(|| Error::corrupt("manifest", 0, "file numbers are used up"))?;
            opening.loaded.next_number = opening.loaded.next_number.max(above);
        }
        if !self.read_only {
            self.settle_tiers(primary, &tiers, opening)?;
        }
        Media::new(opening.files, Arc::clone(primary), tiers.into_iter().map(|tier| (tier.temperature, tier.store)).collect())
    }

    /// The tiers that the database has from now on; `paths` are the directories in the settings that hold from now on.
    fn wanted_tiers(&self, paths: &Paths, state: &ManifestState) -> Result<BTreeSet<Temperature>> {
        let asked = self.settings.as_ref().map(|settings| &settings.tiers).filter(|tiers| **tiers != TierPaths::Stored);
        let listed = asked.into_iter().flat_map(TierPaths::named).map(|(temperature, _)| temperature);
        let mut wanted: BTreeSet<Temperature> = self.tier_stores.keys().copied().chain(listed).collect();
        if self.read_only {
            if let Some(new) = wanted.iter().find(|temperature| !state.tiers.contains_key(temperature)) {
                return Err(Error::invalid(format!("the database has no tier {}, and opening to read attaches none", new.name())));
            }
            return Ok(state.tiers.keys().copied().collect());
        }
        if asked.is_none() {
            wanted.extend(paths.keys().chain(state.tiers.keys()));
        }
        Ok(wanted)
    }

    fn find_tier(&self, temperature: Temperature, path: Option<&PathBuf>) -> Result<Arc<dyn Store>> {
        if let Some(store) = self.tier_stores.get(&temperature) {
            return Ok(Arc::clone(store));
        }
        let name = temperature.name();
        let Some(path) = path else {
            return Err(Error::invalid(format!("tier {name} of this database is a store that no setting names: pass it to the builder")));
        };
        let place = place(path)?;
        let is_directory = matches!(place, Place::Directory(_));
        match if self.read_only { place.quiet() } else { place }.open(false) {
            Ok(store) => Ok(store),
            Err(error) if error.is_not_found() && is_directory => {
                Err(Error::invalid(format!("tier {name}: there is no directory {}: is its medium mounted?", path.display())))
            }
            Err(error) if error.is_not_found() => Err(Error::invalid(format!("tier {name}: {}", error.source))),
            // Two processes cannot have one drive, not even to look at.
            Err(error) if error.is_locked() => Err(Error::Busy(format!("tier {name} ({}): the drive is in use", path.display()))),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the locks of all tiers, and makes the manifest know what is wanted.
    fn settle_tiers(&self, primary: &Arc<Meter>, tiers: &[Tier], opening: &mut Opening<'_>) -> Result<()> {
        for tier in tiers {
            let lock = tier.store.lock().map_err(|error| match Error::from(error) {
                Error::Busy(what) => Error::Busy(format!("{}: {what}", tier.name())),
                error => tier.named(error),
            })?;
            opening.locks.push(lock);
            // The process that had the lock until now may have attached it.
            tier.check(opening.state.db)?;
        }
        let is_wanted = |temperature: &Temperature| tiers.iter().any(|tier| tier.temperature == *temperature);
        let leaving: Vec<Temperature> = opening.state.tiers.keys().copied().filter(|temperature| !is_wanted(temperature)).collect();
        check_complete(&**primary, tiers, &leaving, opening.state)?;
        let new: Vec<&Tier> = tiers.iter().filter(|tier| tier.known.is_none()).collect();
        if new.is_empty() && leaving.is_empty() {
            return Ok(());
        }
        if opening.loaded.live.is_none() {
            opening.start_manifest(primary)?;
        }
        for tier in new {
            self.attach(tier, opening).map_err(|error| tier.named(error))?;
        }
        let left: Vec<KnownTier> = leaving.iter().filter_map(|temperature| opening.state.tiers.remove(temperature)).collect();
        opening.start_manifest(primary)?;
        left.iter().for_each(|known| opening.clear_out(known));
        Ok(())
    }

    fn attach(&self, tier: &Tier, opening: &mut Opening<'_>) -> Result<()> {
        let db = opening.state.db;
        for file in leftovers(tier, db)? {
            tier.store.delete(file)?;
        }
        let identity =
            TierIdentity { db, number: opening.new_number(), temperature: tier.temperature, attached: self.clock.unix_seconds() };
        let checksum = identity.write(&*tier.store)?;
        opening.ledger.record_on(tier.temperature, None, Cause::Manifest, TIER_BYTES as u64);
        let known = KnownTier { temperature: tier.temperature, number: identity.number, identity: checksum };
        opening.state.tiers.insert(tier.temperature, known);
        Ok(())
    }
}

/// A database that is being opened.
pub(super) struct Opening<'a> {
    pub loaded: &'a mut Loaded,
    pub state: &'a mut ManifestState,
    pub locks: &'a mut Vec<Box<dyn StoreLock>>,
    pub ledger: &'a Ledger,
    pub files: &'a Arc<OpenFiles>,
    /// Directories of tiers before the settings were changed.
    pub before: TierPaths,
}

impl Opening<'_> {
    fn new_number(&mut self) -> u64 {
        let number = self.loaded.next_number.max(self.state.next_number).max(1);
        self.state.next_number = number.saturating_add(1);
        number
    }

    /// Makes the state so far durable, in a manifest of its own.
    fn start_manifest(&mut self, primary: &Arc<Meter>) -> Result<()> {
        let number = self.new_number();
        let manifest = self.loaded.start(&**primary, number, self.state)?;
        self.ledger.record(None, Cause::Manifest, manifest.len());
        // The end of the manifest before is still to be reported.
        let end = std::mem::take(&mut self.loaded.end);
        let next_number = self.loaded.next_number;
        let loaded = manifest::load(&**primary)?;
        *self.loaded = Loaded { state: None, end, next_number: loaded.next_number.max(next_number), ..loaded };
        Ok(())
    }

    /// Removes files left in the directory of a tier that was detached. Nothing needs them, so failures do not matter.
    fn clear_out(&self, known: &KnownTier) {
        let Some((_, path)) = self.before.named().find(|(temperature, _)| *temperature == known.temperature) else { return };
        let Ok(store) = place(path).and_then(|place| Ok(place.quiet().open(false)?)) else { return };
        let Ok(_lock) = store.lock() else { return };
        if check_known(&*store, Some(path), known, self.state.db).is_err() {
            return;
        }
        let files = files(&*store).unwrap_or_default();
        let (identity, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|id| id.kind == FileKind::Tier);
        // Without its identity, a table that stays would keep the directory from being attached again.
        if others.into_iter().all(|id| store.delete(id).is_ok()) {
            identity.into_iter().for_each(|id| drop(store.delete(id)));
        }
        let _ = store.sync_names();
    }
}

/// Tiers of a database that can be looked at.
#[derive(Debug, Default)]
pub struct FoundTiers {
    /// Stores of these tiers.
    pub stores: Vec<(Temperature, Arc<dyn Store>)>,
    /// Tiers that cannot be looked at, and the reasons.
    pub problems: Vec<(Temperature, Error)>,
}

/// Finds the tiers that a manifest knows, by the directories in the settings, for tools that read files: nothing is locked or written, and
/// a problem with one hides only that one.
pub fn find_tiers(state: &ManifestState) -> FoundTiers {
    let mut found = FoundTiers::default();
    let paths = stored_settings(state).map(|settings| paths_of(&settings)).unwrap_or_default();
    for (temperature, known) in &state.tiers {
        let path = paths.get(temperature);
        let store = Builder::default().read_only().find_tier(*temperature, path);
        match store.and_then(|store| check_known(&*store, path.map(PathBuf::as_path), known, state.db).map(|()| store)) {
            Ok(store) => found.stores.push((*temperature, store)),
            Err(error) => found.problems.push((*temperature, error)),
        }
    }
    found
}
