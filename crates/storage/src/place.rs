//! Locations of databases as people write them: the path of a directory, or `zoned:` and the path of a drive, with options of its volume.

use crate::store::{DirStore, FileId, Result, Store, StoreError};
use crate::zoned::{Latency, find};
use crate::zoned_store::{Allocation, Collection, Fit, Options, Reset, VolumeId, ZonedStore};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prefix of a path to a drive.
const ZONED: &str = "zoned:";

/// Syntax of the path of a volume.
const FORM: &str = "zoned:DRIVE[,allocation=..][,reset=..][,collector=..][,reserve=N][,pace=N][,fallback=..][,tells=..][,latency=zn540]";

/// Location of a database.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A volume on a zoned drive.
    Zoned(ZonedPlace),
}

/// A volume on a zoned drive, and its options.
#[derive(Debug, Clone, PartialEq)]
pub struct ZonedPlace {
    /// A zoned block device, or the file of an emulated drive.
    pub drive: PathBuf,
    /// Options of the volume.
    pub options: Options,
    /// The drive is emulated and takes the time of an Ultrastar DC ZN540.
    pub zn540: bool,
}

/// The value of an option that has names.
fn named<T>(option: &str, value: &str, found: Option<T>, names: impl Iterator<Item = &'static str>) -> std::result::Result<T, String> {
    found.ok_or_else(|| format!("{option}={value}: must be one of {}", names.collect::<Vec<_>>().join(", ")))
}

fn switch(option: &str, value: &str) -> std::result::Result<bool, String> {
    named(option, value, value.parse().ok(), ["true", "false"].into_iter())
}

impl Place {
    /// Reads a path, or `zoned:DRIVE` with options behind commas, as in `zoned:/dev/nvme0n1,allocation=sla,reset=lzr`. The error says what
    /// is wrong with it.
    pub fn of(path: &Path) -> std::result::Result<Self, String> {
        if !path.as_os_str().as_encoded_bytes().starts_with(ZONED.as_bytes()) {
            return Ok(Place::Directory(path.to_owned()));
        }
        // A drive of another name would be taken for a directory otherwise.
        let text = path.to_str().and_then(|text| text.strip_prefix(ZONED)).ok_or("the path of a drive must be UTF-8")?;
        ZonedPlace::parse(text).map(Place::Zoned)
    }

    /// The location with the whole path of the directory or the drive, independent of the current directory.
    pub fn absolute(self) -> io::Result<Self> {
        Ok(match self {
            Place::Directory(path) => Place::Directory(std::path::absolute(path)?),
            Place::Zoned(place) => Place::Zoned(ZonedPlace { drive: std::path::absolute(&place.drive)?, ..place }),
        })
    }

    /// The location as it is written in settings.
    pub fn into_path(self) -> PathBuf {
        match self {
            Place::Directory(path) => path,
            Place::Zoned(place) => place.to_string().into(),
        }
    }

    /// For programs that only look: a volume gets no thread of its own.
    #[must_use]
    pub fn quiet(self) -> Self {
        match self {
            Place::Zoned(place) => Place::Zoned(place.quiet()),
            directory @ Place::Directory(_) => directory,
        }
    }

    /// Opens the store; `create` makes a directory that is missing, but no volume.
    pub fn open(&self, create: bool) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Place::Directory(path) => Arc::new(DirStore::open(path, create)?),
            Place::Zoned(place) => Arc::new(place.open()?),
        })
    }
}

impl ZonedPlace {
    /// A volume that is run in the usual way.
    pub fn new(drive: impl Into<PathBuf>) -> Self {
        ZonedPlace { drive: drive.into(), options: Options::default(), zn540: false }
    }

    /// The drive at a path, which may have `zoned:` in front and options behind, as in [`Place::of`].
    pub fn of(drive: &Path) -> std::result::Result<Self, String> {
        Ok(match Place::of(drive)? {
            Place::Zoned(place) => place,
            Place::Directory(path) => ZonedPlace::new(path),
        })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut parts = text.split(',');
        let mut place = ZonedPlace::new(parts.next().unwrap_or_default());
        if place.drive.as_os_str().is_empty() {
            return Err(format!("no drive is named; the form is {FORM}"));
        }
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is no option; the form is {FORM}"))?;
            place.set(name, value)?;
        }
        Ok(place)
    }

    /// Sets one of the options by name.
    pub fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        let options = &mut self.options;
        match name {
            "allocation" => {
                options.allocation = named(name, value, Allocation::from_name(value), Allocation::ALL.iter().map(|one| one.name()))?;
            }
            "reset" => options.reset = named(name, value, Reset::from_name(value), Reset::ALL.iter().map(|one| one.name()))?,
            "collector" => {
                options.collection = named(name, value, Collection::from_name(value), Collection::ALL.iter().map(|one| one.name()))?;
            }
            "reserve" => options.reserve = value.parse().map_err(|_| format!("{name}={value}: must be a number of zones"))?,
            "pace" => {
                let pace = value.parse().ok().filter(|pace: &f64| (0.0..=1e6).contains(pace));
                options.pace = pace.ok_or_else(|| format!("{name}={value}: must be a number from 0 to 1000000"))?;
            }
            "fallback" => options.fallback = switch(name, value)?,
            "tells" => options.tells = switch(name, value)?,
            "latency" => self.zn540 = named(name, value, (value == "zn540").then_some(true), std::iter::once("zn540"))?,
            _ => return Err(format!("there is no option {name:?}; the form is {FORM}")),
        }
        Ok(())
    }

    /// For programs that only look: the volume gets no thread of its own.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.options.background = false;
        self
    }

    /// Opens the volume. An error names the drive; [`StoreError::is_locked`] if it is in use.
    pub fn open(&self) -> Result<ZonedStore> {
        let device = find(&self.drive, self.zn540.then(Latency::zn540))?;
        ZonedStore::open(device, self.options).map_err(|e| self.explain(e))
    }

    /// Makes an empty volume and opens it. Everything on the drive is lost, which without `force` must be nothing
    /// ([`ZonedStore::format_unused`]).
    pub fn format(&self, force: bool) -> Result<ZonedStore> {
        let device = find(&self.drive, self.zn540.then(Latency::zn540))?;
        let id = VolumeId::random()?;
        let made = if force { ZonedStore::format(device, id, self.options) } else { ZonedStore::format_unused(device, id, self.options) };
        made.map_err(|e| self.explain(e))
    }

    /// Whether an empty volume on the drive could hold files of these lengths. Nothing is changed.
    pub fn fit(&self, files: &[(FileId, u64)]) -> Result<Fit> {
        let device = find(&self.drive, None)?;
        ZonedStore::fit_on(&device, self.options, files).map_err(|e| self.explain(e))
    }

    fn explain(&self, error: StoreError) -> StoreError {
        error.named(self.drive.display())
    }
}

/// Writes the location as it is given, without options that have their usual value.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) => write!(f, "{}", path.display()),
            Place::Zoned(place) => write!(f, "{place}"),
        }
    }
}

impl fmt::Display for ZonedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Options::default();
        let Options { allocation, reset, collection, reserve, pace, fallback, tells, background: _ } = self.options;
        write!(f, "{ZONED}{}", self.drive.display())?;
        if allocation != usual.allocation {
            write!(f, ",allocation={}", allocation.name())?;
        }
        if reset != usual.reset {
            write!(f, ",reset={}", reset.name())?;
        }
        if collection != usual.collection {
            write!(f, ",collector={}", collection.name())?;
        }
        if reserve != usual.reserve {
            write!(f, ",reserve={reserve}")?;
        }
        if pace != usual.pace {
            write!(f, ",pace={pace}")?;
        }
        if fallback != usual.fallback {
            write!(f, ",fallback={fallback}")?;
        }
        if tells != usual.tells {
            write!(f, ",tells={tells}")?;
        }
        if self.zn540 { f.write_str(",latency=zn540") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::{Emulator, Geometry};

    fn zoned(text: &str) -> std::result::Result<ZonedPlace, String> {
        match Place::of(Path::new(text))? {
            Place::Zoned(place) => Ok(place),
            Place::Directory(path) => panic!("{} is taken for a directory", path.display()),
        }
    }

    #[test]
    fn places_are_read_and_said_alike() {
        assert_eq!(Place::of(Path::new("a,b=c")), Ok(Place::Directory("a,b=c".into())));
        let every =
            "allocation=sla-without-tokens,reset=lzr,collector=lifetime,reserve=5,pace=0.5,fallback=false,tells=false,latency=zn540";
        for text in ["zoned:/dev/nvme0n1", &format!("zoned:a.img,{every}")] {
            assert_eq!(Place::of(Path::new(text)).unwrap().to_string(), text);
        }
        let all = zoned("zoned:a.img,pace=0,allocation=zenfs-without-tokens").unwrap();
        assert_eq!((all.options.pace, all.options.allocation), (0.0, Allocation::Zenfs { tokens: false }));
        assert!(!all.quiet().options.background);
        for (text, part) in [
            ("zoned:", "no drive is named"),
            ("zoned:a,sla", "\"sla\" is no option"),
            ("zoned:a,allocation=best", "must be one of zenfs, "),
            ("zoned:a,reset=never", "must be one of eager, "),
            ("zoned:a,collector=none", "must be one of greedy, "),
            ("zoned:a,reserve=-1", "must be a number of zones"),
            ("zoned:a,pace=NaN", "must be a number from 0"),
            ("zoned:a,fallback=no", "fallback=no: must be one of true, false"),
            ("zoned:a,tells=1", "tells=1: must be one of true, false"),
            ("zoned:a,latency=fast", "must be one of zn540"),
            ("zoned:a,speed=1", "there is no option \"speed\""),
        ] {
            let complaint = zoned(text).unwrap_err();
            assert!(complaint.contains(part), "{text}: {complaint}");
        }
        let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"zoned:\xff");
        assert!(Place::of(Path::new::<std::ffi::OsStr>(odd)).unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn the_page_has_the_options_their_defaults_and_the_policies() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engine/zones.md")).unwrap();
        let (_, table) = page.split_once("| option | default |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect::<Vec<_>>());
        let options: Vec<_> = cells.map(|cells| (cells[0], cells[1])).collect();
        let known = FORM.split("[,").skip(1).map(|option| option.split_once('=').unwrap().0);
        assert!(known.eq(options.iter().map(|(name, _)| *name)), "{options:?}");
        let mut place = ZonedPlace::new("a.img");
        for (name, default) in options.iter().filter(|(_, default)| *default != "none") {
            place.set(name, default).unwrap();
        }
        assert_eq!(place, ZonedPlace::new("a.img"));
        let policies = Allocation::ALL.map(Allocation::name).into_iter().chain(Reset::ALL.map(Reset::name));
        for name in policies.chain(Collection::ALL.map(Collection::name)) {
            assert!(page.contains(&format!("`{name}`")), "{name} is missing");
        }
    }

    #[test]
    fn a_drive_is_formatted_once_and_opened_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.img");
        let geometry = Geometry { block: 512, zones: 24, zone_size: 16 << 10, max_open: None, max_active: None, conventional: 0 };
        drop(Emulator::create(&image, geometry, 16 << 10).unwrap());
        let place = ZonedPlace::new(&image).quiet();
        let missing = place.open().unwrap_err();
        assert!(missing.is_not_found() && missing.to_string().contains("drive.img: "), "{missing}");
        let store = place.format(false).unwrap();
        assert!(place.open().unwrap_err().is_locked() && place.format(true).unwrap_err().is_locked());
        drop(store);
        let empty = place.format(false).unwrap();
        let free = empty.free_bytes().unwrap();
        drop(empty);
        assert_eq!(place.fit(&[]).map(|fit| (fit.needed, Some(fit.room))).unwrap(), (0, free));
        let store = Place::Zoned(place.clone()).open(false).unwrap();
        let id = crate::store::FileId::table(1);
        let file = store.create(id, &crate::store::Hint::new(crate::store::Cause::Flush)).unwrap();
        file.seal().unwrap();
        store.sync_names().unwrap();
        drop(store);
        let refusal = place.format(false).unwrap_err();
        assert!(refusal.source.kind() == io::ErrorKind::AlreadyExists && refusal.to_string().contains("1 files"), "{refusal}");
        assert_eq!(place.open().unwrap().files().len(), 1, "nothing was changed");
        assert_eq!(place.format(true).unwrap().files().len(), 0);
    }

    /// Bytes that are not ours are not overwritten without being told to.
    #[test]
    fn a_drive_that_something_else_wrote_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.img");
        let geometry = Geometry { block: 512, zones: 24, zone_size: 16 << 10, max_open: None, max_active: None, conventional: 0 };
        for zone in [0, 20] {
            let drive = Emulator::create(&image, geometry.clone(), 16 << 10).unwrap();
            crate::zoned::ZonedDevice::write(&drive, zone, 0, &[7; 512]).unwrap();
            drop(drive);
            let place = ZonedPlace::new(&image).quiet();
            let refusal = place.format(false).unwrap_err();
            assert!(refusal.to_string().contains("1 of its zones are written"), "{refusal}");
            drop(place.format(true).unwrap());
            Emulator::remove(&image).unwrap();
        }
    }
}
