//! An emulated drive on a block device without zones: a loop device, where root can have one, else the tests say SKIPPED and why. Write
//! streams are tried by `scripts/write-streams`, in a guest with a drive that has some.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::{Mutex, MutexGuard};
use sinter_storage::store::{Cause, FileId, Hint, Store};
use sinter_storage::zoned::{Emulator, Geometry, ReclaimUnit, Streams, ZoneState, ZonedDevice, find};
use sinter_storage::zoned_store::{Options, VolumeId, ZonedStore};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const ZONE: u64 = 256 << 10;

/// Offset of the first zone behind as few records as here.
const FIRST: u64 = 1 << 20;

fn geometry(zones: u32) -> Geometry {
    Geometry { block: 4096, zones, zone_size: ZONE, max_open: Some(4), max_active: Some(6), conventional: 0 }
}

/// One test at a time: a process that another has just forked, for losetup, keeps the claim on a device until its program runs.
static ALONE: Mutex<()> = Mutex::new(());

/// A loop device, gone when this is dropped.
struct Loop {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
    file: tempfile::NamedTempFile,
}

impl Loop {
    /// A loop device of this length and sector size, bytes.
    fn new(length: u64, sector: u32) -> Option<Self> {
        let alone = ALONE.lock();
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(length).unwrap();
        let path = Loop::attach(file.path(), sector)?;
        Some(Loop { path, _alone: alone, file })
    }

    fn attach(file: &Path, sector: u32) -> Option<PathBuf> {
        let sector = sector.to_string();
        match Command::new("losetup").args(["--find", "--show", "--sector-size", &sector]).arg(file).output() {
            Ok(output) if output.status.success() => Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())),
            Ok(output) => {
                println!("SKIPPED: no loop device: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("SKIPPED: losetup cannot be run: {error}");
                None
            }
        }
    }

    fn detach(&self) -> bool {
        Command::new("losetup").arg("--detach").arg(&self.path).status().is_ok_and(|status| status.success())
    }

    /// The disk is taken out, and comes back.
    fn replug(&mut self, sector: u32) {
        assert!(self.detach());
        self.path = Loop::attach(self.file.path(), sector).unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        assert!(self.detach() || std::thread::panicking(), "{}", self.path.display());
    }
}

fn block(byte: u8) -> Vec<u8> {
    vec![byte; 4096]
}

fn read(drive: &dyn ZonedDevice, zone: u32, at: u64) -> Vec<u8> {
    let mut bytes = block(0xaa);
    drive.read(zone, at, &mut bytes).unwrap();
    bytes
}

fn about(drive: &dyn ZonedDevice, zone: u32) -> (u64, ZoneState) {
    let zone = drive.report(zone, 1).unwrap()[0];
    (zone.written, zone.state)
}

#[test]
fn a_drive_on_a_device_keeps_what_one_in_a_file_keeps() {
    let Some(device) = Loop::new(FIRST + 8 * ZONE, 512) else { return };
    let drive = Emulator::create_on(&device.path, geometry(8), ZONE, false).unwrap();
    assert_eq!(drive.streams(), Streams::default(), "a loop device has none");
    // Memory that is aligned and memory that is not, and more than goes out at once.
    let large: Vec<u8> = (0..ZONE as usize).map(|i| (i / 7) as u8).collect();
    drive.write(7, 0, &large).unwrap();
    assert_eq!(drive.append(1, &[&[0][..], &block(3)].concat()[1..]).unwrap(), 0);
    drive.destine(1, 2);
    drive.write(1, 4096, &block(4)).unwrap();
    drive.flush().unwrap();
    drive.write(1, 8192, &block(5)).unwrap();
    let raw = File::open(&device.path).unwrap();
    let mut found = block(0);
    raw.read_exact_at(&mut found, FIRST + ZONE + 8192).unwrap();
    assert_eq!(found, block(5), "zones lie one behind the other");
    assert!(Emulator::open(&device.path).unwrap_err().is_locked());
    drop(drive);

    let drive = find(&device.path, None).unwrap();
    assert_eq!(
        (drive.geometry(), about(&*drive, 1), about(&*drive, 7)),
        (&geometry(8), (12288, ZoneState::Closed), (ZONE, ZoneState::Full))
    );
    assert_eq!([0, 4096, 8192, 12288].map(|at| read(&*drive, 1, at)[17]), [3, 4, 5, 0]);
    let mut back = vec![0; ZONE as usize];
    drive.read(7, 0, &mut back).unwrap();
    assert!(back == large);
    drive.reset(7).unwrap();
    assert_eq!(read(&*drive, 7, 4096), block(0));
    drop(drive);
    let drive = Emulator::open_after_power_cut(&device.path).unwrap();
    assert_eq!((about(&drive, 1), about(&drive, 7)), ((8192, ZoneState::Closed), (0, ZoneState::Empty)));
    assert_eq!([4096, 8192].map(|at| read(&drive, 1, at)[17]), [4, 0], "what was not flushed is not read again");
}

/// The device's cache had no power meanwhile.
#[test]
fn a_device_that_was_taken_out_has_what_was_flushed() {
    let Some(mut device) = Loop::new(FIRST + 8 * ZONE, 512) else { return };
    let drive = Emulator::create_on(&device.path, geometry(8), ZONE, false).unwrap();
    drive.write(3, 0, &block(1)).unwrap();
    drive.flush().unwrap();
    drive.write(3, 4096, &block(2)).unwrap();
    drop(drive);
    let drive = Emulator::open(&device.path).unwrap();
    assert_eq!(about(&drive, 3), (8192, ZoneState::Closed), "it was there all the time");
    drop(drive);
    device.replug(512);
    let drive = Emulator::open(&device.path).unwrap();
    assert_eq!((about(&drive, 3), read(&drive, 3, 4096)), ((4096, ZoneState::Closed), block(0)));
}

#[test]
fn a_device_with_something_on_it_or_too_small_is_refused() {
    let Some(device) = Loop::new(FIRST + 8 * ZONE, 4096) else { return };
    let raw = OpenOptions::new().read(true).write(true).open(&device.path).unwrap();
    let refusal = |geometry: Geometry, over: bool| Emulator::create_on(&device.path, geometry, ZONE, over).unwrap_err();
    let first = || {
        let mut byte = [0];
        raw.read_exact_at(&mut byte, 1080).unwrap();
        byte[0]
    };
    raw.write_all_at(&[0x53, 0xef], 1080).unwrap();
    raw.sync_all().unwrap();
    let found = refusal(geometry(8), false);
    assert!(found.source.kind() == ErrorKind::AlreadyExists && found.to_string().contains("byte 1080 is not zero"), "{found}");
    assert_eq!(find(&device.path, None).unwrap_err().source.kind(), ErrorKind::InvalidInput);
    for over in [false, true] {
        let found = refusal(geometry(9), over);
        assert!(found.source.kind() == ErrorKind::InvalidInput && found.to_string().contains("the zones take 2359296"), "{found}");
        let found = refusal(Geometry { block: 512, ..geometry(8) }, over);
        assert!(found.to_string().contains("blocks of 4096 bytes"), "{found}");
        // As a mounted device is.
        let mounted = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&device.path).unwrap();
        assert!(refusal(geometry(8), over).is_locked());
        drop(mounted);
    }
    assert_eq!(first(), 0x53, "nothing was written");
    drop(Emulator::create_on(&device.path, geometry(8), ZONE, true).unwrap());
    assert_eq!(first(), 0);
    let found = refusal(geometry(8), false);
    assert!(found.source.kind() == ErrorKind::AlreadyExists && found.to_string().contains("there is an emulated drive"), "{found}");
    drop(find(&device.path, None).unwrap());
    Emulator::remove(&device.path).unwrap();
    assert!(!Emulator::is_image(&device.path));
    drop(Emulator::create_on(&device.path, geometry(8), ZONE, false).unwrap());
    // What no drive can be, under a checksum that is right.
    let mut header = [0; 48];
    raw.read_exact_at(&mut header, 0).unwrap();
    header[12..16].fill(0);
    let checksum = xxhash_rust::xxh3::xxh3_64(&header[..40]);
    header[40..].copy_from_slice(&checksum.to_le_bytes());
    raw.write_all_at(&header, 0).unwrap();
    let found = Emulator::open(&device.path).unwrap_err();
    assert!(found.to_string().contains("of no drive"), "{found}");
}

#[test]
fn what_is_no_device_is_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(Emulator::create_on(file.path(), geometry(8), ZONE, true).is_err());
    assert_eq!(file.as_file().metadata().unwrap().len(), 0);
}

#[test]
fn a_volume_lives_on_a_device() {
    let Some(device) = Loop::new(FIRST + 24 * ZONE, 512) else { return };
    drop(Emulator::create_on(&device.path, geometry(24), ZONE, false).unwrap());
    let open = || ZonedStore::open(find(&device.path, None).unwrap(), Options::default()).unwrap();
    let id = FileId::table(1);
    let store = ZonedStore::format(find(&device.path, None).unwrap(), VolumeId([7; 16]), Options::default()).unwrap();
    let mut file = store.create(id, &Hint::new(Cause::Flush)).unwrap();
    file.append(&vec![9; 300_000]).unwrap();
    file.seal().unwrap();
    store.sync_names().unwrap();
    drop(store);
    let store = open();
    assert_eq!((store.check().unwrap(), store.list().unwrap()), (Vec::new(), vec![(id, 300_000)]));
    store.delete(id).unwrap();
    store.sync_names().unwrap();
    drop(store);
    assert_eq!(open().check().unwrap(), [""; 0]);
}

/// The namespace in the guest, and how many streams its kernel is to have.
fn guest() -> (PathBuf, u8) {
    let value = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    (value("STREAMS_DEVICE").into(), value("STREAMS").parse().unwrap())
}

fn rooms(path: &Path) -> Vec<u64> {
    ReclaimUnit::of(path).unwrap().iter().map(|unit| unit.room).collect()
}

#[test]
#[ignore = "takes a drive with flexible data placement, in a guest of scripts/write-streams"]
fn each_lifetime_goes_to_a_stream() {
    let (path, streams) = guest();
    let drive = Emulator::create_on(&path, geometry(8), ZONE, true).unwrap();
    assert_eq!(drive.streams(), Streams { count: streams, used: streams > 1 });
    drive.flush().unwrap();
    let before = rooms(&path);
    // Zones 0 to 3 by lifetime, and one of which nothing is known: so many blocks each.
    for (zone, blocks) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16)] {
        drive.destine(zone, if zone < 4 { zone as u8 + 2 } else { 0 });
        drive.write(zone, 0, &block(7).repeat(blocks)).unwrap();
    }
    let after = rooms(&path);
    // The last unit is that of a stream that no lifetime goes to; one that has become full was followed by another.
    let full = *before.last().unwrap();
    let written: Vec<u64> = before.iter().zip(&after).map(|(before, after)| (before + full - after) % full).collect();
    let block = written.iter().sum::<u64>() / 31;
    let due: &[u64] = if streams > 1 { &[1 + 16, 2, 4, 8] } else { &[31] };
    let due: Vec<u64> = due.iter().map(|blocks| blocks * block).chain(std::iter::repeat(0)).take(written.len()).collect();
    assert_eq!((written, block > 0), (due, true));
    assert_eq!(drive.streams().used, streams > 1, "nothing refused");
    let where_to = if streams > 1 { "each lifetime has one of its own" } else { "one takes everything" };
    println!("{streams} write streams, {} reclaim units: {where_to}", before.len());
}

#[test]
#[ignore = "takes a drive with flexible data placement that a database was written to, in a guest of scripts/write-streams"]
fn a_database_was_written_to_several_streams() {
    let (path, streams) = guest();
    let rooms = rooms(&path);
    // The last unit is that of a stream that no lifetime goes to.
    let full = *rooms.last().unwrap();
    let used = rooms.iter().filter(|room| **room != full).count();
    println!("{streams} write streams, {used} of {} reclaim units written: room {rooms:?}", rooms.len());
    assert!(if streams > 1 { used >= 3 } else { used == 1 });
}
