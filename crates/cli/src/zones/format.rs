//! `sinter zones format`: an empty volume on a drive, which may be emulated.

use super::view::{View, human};
use crate::ended::Ended;
use crate::store::drive_error;
use clap::Args;
use sinter_storage::place::ZonedPlace;
use sinter_storage::store::StoreError;
use sinter_storage::zoned::{Emulator, Geometry, ZonedDevice};
use sinter_storage::zoned_store::ZonedStore;
use sinterdb::internal::settings::parse_bytes;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Default limits of an emulated drive: those of an Ultrastar DC ZN540.
const PLACES: u32 = 14;

/// Zones of a drive, at most: more than any drive has.
const ZONES_MOST: u32 = 1 << 20;

/// Number of active zones below which purposes share zones.
const ACTIVE_ENOUGH: u32 = 6;

/// The form of `--emulate`.
const FORM: &str = "FILE|DEVICE,ZONESxSIZE[,capacity=SIZE][,open=N][,active=N][,block=SIZE]";

/// Numbers that stand for no limit, as in drives and kernels: `max_active_zones` in sysfs is 0 then, and MAR all ones.
const UNLIMITED: [u32; 2] = [0, u32::MAX];

/// The drive on which to make a volume.
#[derive(Debug, Args)]
pub struct FormatFlags {
    /// A zoned block device, such as /dev/nvme0n1, or an emulated drive: its file or its device.
    #[arg(required_unless_present = "emulate", conflicts_with = "emulate", value_parser = super::drive())]
    drive: Option<ZonedPlace>,
    /// Make an emulated drive first, in a new sparse file, as in zones.img,256x128MB, or on a block device without zones; 14 zones open
    /// and active (0: any number), blocks of 4 KiB. Sizes that are not whole blocks are rounded down.
    #[arg(long, value_name = FORM)]
    emulate: Option<String>,
    /// Also if the drive holds anything: all of it is lost.
    #[arg(long)]
    force: bool,
}

/// An emulated drive to be made.
#[derive(Debug, PartialEq)]
struct Emulated {
    file: PathBuf,
    geometry: Geometry,
    capacity: u64,
}

impl Emulated {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let file = parts.next().unwrap_or_default();
        let file = PathBuf::from(file.strip_prefix("zoned:").unwrap_or(file));
        let shape = parts.next().and_then(|shape| shape.split_once('x'));
        let shape = shape.and_then(|(zones, size)| Some((zones.parse::<u32>().ok()?, parse_bytes(size).ok()?)));
        let Some((zones, zone_size)) = shape.filter(|_| !file.as_os_str().is_empty()) else {
            return Err(format!("--emulate {text}: must be {FORM}"));
        };
        if zones > ZONES_MOST {
            return Err(format!("--emulate {text}: at most {ZONES_MOST} zones, of which each takes memory"));
        }
        let limits = Some(PLACES);
        let mut geometry = Geometry { block: 4096, zones, zone_size, max_open: limits, max_active: limits, conventional: 0 };
        let mut capacity = zone_size;
        let mut said: Vec<&str> = Vec::new();
        for part in parts {
            let wrong = |what: String| format!("--emulate: {part:?}: {what}; the form is {FORM}");
            let (name, value) = part.split_once('=').ok_or_else(|| wrong("no NAME=VALUE".into()))?;
            if said.contains(&name) {
                return Err(wrong("it is given twice".into()));
            }
            said.push(name);
            let number = || value.parse::<u32>().map_err(|_| wrong("no number of zones".into()));
            let limit = || Ok::<_, String>(Some(number()?).filter(|limit| !UNLIMITED.contains(limit)));
            match name {
                "capacity" => capacity = parse_bytes(value).map_err(wrong)?,
                "open" => geometry.max_open = limit()?,
                "active" => geometry.max_active = limit()?,
                "block" => {
                    let block = parse_bytes(value).map_err(wrong)?;
                    geometry.block = u32::try_from(block).map_err(|_| wrong("no size of a block".into()))?;
                }
                _ => return Err(wrong("no such option".into())),
            }
        }
        // Sizes are often given in round numbers, and zones consist of whole blocks.
        let block = u64::from(geometry.block.max(1));
        for bytes in [&mut geometry.zone_size, &mut capacity] {
            *bytes -= *bytes % block;
            if *bytes == 0 {
                return Err(format!("--emulate {text}: zones are whole blocks, and one is of {block} bytes; the form is {FORM}"));
            }
        }
        // If only one of both limits is given, the other one is adjusted as far as necessary.
        let (open, active) = (geometry.max_open, geometry.max_active);
        match (said.contains(&"open"), said.contains(&"active")) {
            (false, true) => geometry.max_open = open.into_iter().chain(active).min(),
            (true, false) => geometry.max_active = active.zip(open).map(|(active, open)| active.max(open)),
            // Without a limit of its own, the number of open zones is that of active ones.
            _ => geometry.max_open = open.or(active),
        }
        Ok(Emulated { file, geometry, capacity })
    }

    /// Makes the drive. An existing one, or anything on a device, is replaced only with `force`; other files never.
    fn make(self, force: bool) -> Result<PathBuf, Ended> {
        let Emulated { file, geometry, capacity } = self;
        // The target of a link is replaced, not the link.
        let file = if file.is_symlink() { std::fs::canonicalize(&file).unwrap_or(file) } else { file };
        let failed = |error: StoreError| drive_error(&file, error);
        let about = std::fs::metadata(&file);
        if about.as_ref().is_ok_and(|about| about.file_type().is_block_device()) {
            check_shape(&geometry, capacity).map_err(failed)?;
            let made = Emulator::create_on(&file, geometry, capacity, force);
            drop(made.map_err(|error| kept_unless_forced(&file, error))?);
            return Ok(file);
        }
        let is_drive = Emulator::is_image(&file);
        if about.is_ok() || is_drive {
            let name = file.display();
            let wrong = |what: &str| Ended::Usage(format!("{name}: {what}"));
            if !is_drive {
                return Err(wrong(&format!("the file exists and is no emulated drive, which has its states in {name}.zones")));
            }
            if !force && about.is_err() {
                return Err(wrong(&format!("of a drive there are only the states, in {name}.zones; --force makes another")));
            }
            if !force {
                return Err(wrong("the drive exists; name it without --emulate to format it as it is, or --force to make another"));
            }
            check_shape(&geometry, capacity).map_err(failed)?;
            Emulator::remove(&file).map_err(failed)?;
        }
        drop(Emulator::create(&file, geometry, capacity).map_err(failed)?);
        Ok(file)
    }
}

/// Checks that a drive and a volume of this shape can be made, before anything is replaced.
fn check_shape(geometry: &Geometry, capacity: u64) -> Result<(), StoreError> {
    let drive = Emulator::memory(geometry.clone(), capacity)?;
    ZonedStore::check_shape(drive.geometry(), capacity)
}

/// The error for a drive that could not be made.
fn kept_unless_forced(drive: &Path, error: StoreError) -> Ended {
    match error.source.kind() {
        ErrorKind::AlreadyExists => Ended::Usage(format!("{}; --force formats it all the same, and what is on it is lost", error.source)),
        _ => drive_error(drive, error),
    }
}

/// Runs the command.
pub fn run(flags: &FormatFlags) -> Result<ExitCode, Ended> {
    let place = match (&flags.drive, &flags.emulate) {
        (Some(place), _) => place.clone(),
        (None, Some(text)) => ZonedPlace::new(Emulated::parse(text).map_err(Ended::Usage)?.make(flags.force)?),
        (None, None) => return Err(Ended::usage("no drive is named")),
    };
    let formatted = format(&place, flags.force);
    if let (Err(_), Some(_)) = (&formatted, &flags.emulate) {
        // Too small for a volume: the drive alone would be useless.
        let _ = Emulator::remove(&place.drive);
    }
    let view = formatted?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", view.headline())?;
    let (files, metadata) = (view.beneath.zones, view.map.metadata.len());
    writeln!(
        out,
        "{metadata} zones for metadata, {} for files; {} of these are reserved (`sinter zones df`)",
        files.all,
        human(view.space.reserved())
    )?;
    writeln!(out, "a database with the default settings can store {}", human(view.space.storable))?;
    if let Some(active) = view.geometry.max_active.filter(|active| *active < ACTIVE_ENOUGH) {
        let what = "logs and manifests share zones with tables, which keeps zones from being emptied";
        writeln!(out, "only {active} zones may be active, so {what}: with {ACTIVE_ENOUGH} more could be stored")?;
    }
    if flags.emulate.is_some() {
        // The actual capacity: the given one may not have been whole blocks.
        let capacity = view.zones.first().map_or(0, |zone| zone.entry.capacity);
        writeln!(out, "a zone has {} bytes, of which {capacity} can be written", view.geometry.zone_size)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a volume on a drive and reads its state.
pub(super) fn format(place: &ZonedPlace, force: bool) -> Result<View, Ended> {
    let made = place.clone().quiet().format(force);
    let store = made.map_err(|error| kept_unless_forced(&place.drive, error))?;
    View::of(&place.drive, &store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        let plain = Emulated::parse("zones.img,256x128MB").unwrap();
        assert_eq!((plain.file.to_str(), plain.geometry.zones, plain.geometry.zone_size), (Some("zones.img"), 256, 128_000_000));
        let odd = Emulated::parse("a,64x100MB,capacity=77MB,block=64KiB").unwrap();
        assert_eq!((odd.geometry.zone_size, odd.capacity), (1525 << 16, 1174 << 16), "down to whole blocks");
        assert_eq!((plain.capacity, plain.geometry.block), (128_000_000, 4096));
        assert_eq!((plain.geometry.max_open, plain.geometry.max_active), (Some(14), Some(14)));
        let all = Emulated::parse("a,8x1MiB,capacity=512KiB,open=3,active=6,block=512").unwrap();
        assert_eq!((all.capacity, all.geometry.max_open, all.geometry.max_active, all.geometry.block), (512 << 10, Some(3), Some(6), 512));
        let limits = |text: &str| Emulated::parse(text).map(|drive| (drive.geometry.max_open, drive.geometry.max_active)).unwrap();
        assert_eq!(limits("a,8x1MiB,active=6"), (Some(6), Some(6)));
        assert_eq!(limits("a,8x1MiB,open=20"), (Some(20), Some(20)));
        let unlimited = [
            ("active=0", Some(14), None),
            ("open=0", None, None),
            ("active=4294967295,open=0", None, None),
            ("active=0,open=3", Some(3), None),
        ];
        for (said, open, active) in unlimited {
            assert_eq!(limits(&format!("a,8x1MiB,{said}")), (open, active), "{said}");
        }
        assert_eq!(limits("a,8x1MiB,open=0,active=5"), (Some(5), Some(5)));
        let unshaped = ["", "a", "a,8", "a,8x", "a,x1MB", ",8x1MB"];
        let odd = ["a,8x1MB,open", "a,8x1MB,depth=1", "a,8x1MB,block=9GB", "a,8x1MB,open=2,open=3"];
        for wrong in unshaped.into_iter().chain(odd) {
            assert!(Emulated::parse(wrong).unwrap_err().contains("ZONESxSIZE"), "{wrong}");
        }
    }
}
