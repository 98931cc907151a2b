//! An emulated drive in two files: a sparse one with the bytes of all zones, zone after zone, and beside it (`.zones` added to the name)
//! one with their states. On a block device the states lie at its beginning and the zones behind them, from the next whole MiB on.
//!
//! The states, numbers little-endian, every checksum XXH3 with 64 bits:
//!
//! * at 0, the header, 48 bytes: `SINTZONE`; version 1, block, zones, conventional zones (u32 each); size of a zone (u64); limits of open
//!   and of active zones (u32 each, all ones for none); checksum of these 40 bytes (u64);
//! * at 512, 24 bytes: the boot of the machine at which the drive was opened last (16 bytes; on a device the last eight of them are
//!   combined, by exclusive or, with the number that the kernel gave the disk in that boot), checksum;
//! * at 4096 + 64 z, zone z: its state, whether it is known to be full after a power cut (u8 each), two zero bytes, resets (u32); capacity,
//!   bytes written, bytes that are durable, the count at which it was opened, 16 zero bytes (u64 each), checksum with z as its seed.
//!
//! 1. A record is written in place whenever its zone changes. It lies within one sector, so that it is the old one or the new one.
//! 2. When a process dies, the kernel has all that was written: bytes and states are right. When the machine dies, bytes that were not
//!    flushed may be gone although a record counts them; the boot differs then, and the drive opens with what is durable. A drive may lose
//!    that.
//! 3. A flush syncs the bytes, then raises the durable counts, then syncs those.
//! 4. A reset syncs its record before the bytes go, since a record must never count bytes that are gone.

use super::check_shape;
use super::medium::{self, Bytes, Held, bytes_path, states_path};
use super::rules::ZoneRecord;
use crate::locked::Locked;
use crate::zoned::{Geometry, Streams, ZoneState, sys};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"SINTZONE";
const VERSION: u32 = 1;
const HEADER: usize = 48;
const BOOT_AT: u64 = 512;
const RECORDS_AT: u64 = 4096;
const RECORD: usize = 64;

/// Identifies a boot of the machine, and in it the stay of a disk: taking a disk out loses its unflushed bytes as well.
pub(super) type Boot = [u8; 16];

/// State of a zone that the drive is sure to find after the machine lost its power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Durable {
    pub(super) data: u64,
    pub(super) full: bool,
}

impl Durable {
    /// The state that both together are sure of, for one zone between two resets: it only grows.
    pub(super) fn or_more(self, other: Durable) -> Durable {
        Durable { data: self.data.max(other.data), full: self.full || other.full }
    }
}

/// A drive, held for one process.
pub(super) struct Image {
    bytes: Bytes,
    states: Held,
    zone_size: u64,
    /// Syncs reach the medium: the drive is to outlive the machine's power.
    pub(super) synced: bool,
}

/// A drive as it was found: its bytes and states, its shape and its zones.
pub(super) type Opened = (Image, Geometry, Vec<(ZoneRecord, Durable)>);

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Whether the states of an emulated drive lie beside `path`, or on it: by their first word, or if that is damaged by their boot. The bytes
/// may be missing, if it was made or removed by halves.
pub(super) fn is_image(path: &Path) -> bool {
    File::open(states_path(path)).is_ok_and(|states| !sys::is_zoned(&states) && are_states(&states))
}

fn are_states(states: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    let is_named = states.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC;
    is_named || boot_in(states).is_ok()
}

/// Keeps everybody else from the drive, whatever its states are, by whatever name they know it.
pub(super) fn hold(path: &Path) -> io::Result<(Held, Option<Locked>)> {
    if !is_image(path) {
        return Err(invalid("not an emulated drive"));
    }
    let states = Held::take(path)?;
    let bytes = match &states {
        Held::File(_) => File::open(path).ok().map(Locked::take).transpose()?,
        Held::Device(_) => None,
    };
    Ok((states, bytes))
}

/// The boot at which the drive was opened last.
fn boot_in(states: &File) -> io::Result<Boot> {
    let mut bytes = [0; 24];
    read_states(states, &mut bytes, BOOT_AT)?;
    let boot: Boot = std::array::from_fn(|i| bytes[i]);
    if u64_at(&bytes, 16) != xxh3_64(&boot) {
        return Err(invalid("the boot at which the drive was opened last is damaged"));
    }
    Ok(boot)
}

/// Removes a drive that is held: its files, the states last, since without its bytes it is a drive that does not open, not a file of
/// somebody's; or what makes one of a device, as far as one looks for it.
pub(super) fn remove(path: &Path, held: &Held) -> io::Result<()> {
    match held {
        Held::File(_) => remove_files(path),
        Held::Device(device) => medium::blank(device, medium::ALIGN),
    }
}

fn remove_files(path: &Path) -> io::Result<()> {
    let (bytes, states) = (bytes_path(path), states_path(path));
    match std::fs::remove_file(bytes) {
        // It was removed, or made, by halves.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    std::fs::remove_file(states)
}

/// Identity of the current boot, from Linux, for the drive at `path`.
pub(super) fn this_boot(path: &Path) -> io::Result<Boot> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: Vec<u8> = text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
    let mut boot = Boot::default();
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    if medium::is_device(path) {
        let disk = sys::disk_sequence(&File::open(path)?).to_le_bytes();
        boot[8..].iter_mut().zip(disk).for_each(|(byte, of_disk)| *byte ^= of_disk);
    }
    Ok(boot)
}

impl Image {
    /// Makes both files, which must not exist. The states come first, and of them first the part that identifies them: a process that dies
    /// in between leaves an empty file, which is in nobody's way, or states without bytes, which [`is_image`] knows. Errors name their
    /// file.
    pub(super) fn create(path: &Path, geometry: &Geometry, records: &[ZoneRecord]) -> io::Result<Self> {
        let of = |path: &Path| {
            let name = path.display().to_string();
            move |e: io::Error| io::Error::new(e.kind(), format!("{name}: {e}"))
        };
        let states_path = states_path(path);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&states_path);
        let states = open.and_then(Locked::take).map_err(of(&states_path))?;
        if states.metadata()?.len() > 0 {
            return Err(of(&states_path)(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists")));
        }
        let make = || {
            fill(&states, geometry, records, &this_boot(path)?).map_err(of(&states_path))?;
            let bytes = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(of(path))?;
            let size = || {
                bytes.set_len(geometry.bytes())?;
                bytes.sync_all()?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                File::open(parent)?.sync_all()?;
                Locked::take(bytes)
            };
            // Half a drive would be in the way of a whole one.
            size().inspect_err(|_| drop(std::fs::remove_file(path))).map_err(of(path))
        };
        let bytes = make().inspect_err(|_| drop(std::fs::remove_file(&states_path)))?;
        Ok(Image { bytes: Bytes::File(bytes), states: Held::File(states), zone_size: geometry.zone_size, synced: true })
    }

    /// Makes a drive of the device `path`. Unless `over`, there must be nothing on it: [`io::ErrorKind::AlreadyExists`].
    pub(super) fn create_on(path: &Path, geometry: &Geometry, records: &[ZoneRecord], over: bool) -> io::Result<Self> {
        let states = match Held::take(path)? {
            Held::File(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device")),
            device => device,
        };
        let states_end = record_at(geometry.zones);
        let bytes = Bytes::open(path, geometry, states_end)?;
        if !over {
            if are_states(&states) {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is an emulated drive on the device"));
            }
            medium::check_blank(&states)?;
        }
        // First the marks of what was there: a file system in which records are written would be taken for one that is damaged.
        medium::blank(&states, medium::first_zone(states_end))?;
        bytes.discard(0, geometry.bytes());
        fill(&states, geometry, records, &this_boot(path)?)?;
        Ok(Image { bytes, states, zone_size: geometry.zone_size, synced: true })
    }

    /// Opens a drive. If the machine was started since (`boot` is another), it is left with what was durable.
    pub(super) fn open(path: &Path, boot: &Boot) -> io::Result<Opened> {
        let states = Held::take(path)?;
        let mut bytes = [0; HEADER];
        read_states(&states, &mut bytes, 0)?;
        let geometry = parse_header(&bytes)?;
        let bytes = Bytes::open(path, &geometry, record_at(geometry.zones))?;
        let image = Image { bytes, states, zone_size: geometry.zone_size, synced: true };
        let power_cut = boot_in(&image.states)? != *boot;
        let mut zones = Vec::new();
        for zone in 0..geometry.zones {
            let mut bytes = [0; RECORD];
            read_states(&image.states, &mut bytes, record_at(zone))?;
            let (record, durable) =
                parse_record(&bytes, zone, &geometry).ok_or_else(|| invalid(format!("the record of zone {zone} is damaged")))?;
            let record = if power_cut { after_power_cut(record, durable) } else { record.after_power_cycle() };
            image.write_record(zone, &record, durable)?;
            zones.push((record, durable));
        }
        // Only now: earlier records must not be taken for something that this boot wrote.
        image.states.sync_data()?;
        write_boot(&image.states, boot)?;
        image.states.sync_data()?;
        Ok((image, geometry, zones))
    }

    pub(super) fn write_record(&self, zone: u32, record: &ZoneRecord, durable: Durable) -> io::Result<()> {
        write_record(&self.states, zone, record, durable)
    }

    pub(super) fn sync_states(&self) -> io::Result<()> {
        if self.synced { self.states.sync_data() } else { Ok(()) }
    }

    pub(super) fn sync_bytes(&self) -> io::Result<()> {
        if self.synced { self.bytes.sync() } else { Ok(()) }
    }

    pub(super) fn write(&self, zone: u32, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes.write(zone, self.start(zone) + at, bytes)
    }

    pub(super) fn read(&self, zone: u32, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read(self.start(zone) + at, buffer)
    }

    /// Gives the zone's space back. If that cannot be done the old bytes stay, behind the write pointer.
    pub(super) fn discard(&self, zone: u32) {
        self.bytes.discard(self.start(zone), self.zone_size);
    }

    pub(super) fn destine(&self, zone: u32, lifetime: u8) {
        self.bytes.destine(zone, lifetime);
    }

    pub(super) fn streams(&self) -> Streams {
        self.bytes.streams()
    }

    fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_size
    }
}

/// Writes the states of a new drive. The part by which [`are_states`] recognises them comes first, so that they can be replaced if this is
/// all there is, and the header last: without it there is no drive.
fn fill(states: &File, geometry: &Geometry, records: &[ZoneRecord], boot: &Boot) -> io::Result<()> {
    write_boot(states, boot)?;
    for (zone, record) in (0..).zip(records) {
        write_record(states, zone, record, Durable::default())?;
    }
    states.sync_all()?;
    states.write_all_at(&header(geometry), 0)?;
    states.sync_all()
}

fn write_record(states: &File, zone: u32, record: &ZoneRecord, durable: Durable) -> io::Result<()> {
    states.write_all_at(&record_bytes(zone, record, durable), record_at(zone))
}

fn write_boot(states: &File, boot: &Boot) -> io::Result<()> {
    states.write_all_at(&[&boot[..], &xxh3_64(boot).to_le_bytes()].concat(), BOOT_AT)
}

fn after_power_cut(record: ZoneRecord, durable: Durable) -> ZoneRecord {
    if matches!(record.state, ZoneState::ReadOnly | ZoneState::Offline) {
        return record;
    }
    let state = match durable {
        Durable { full: true, .. } => ZoneState::Full,
        Durable { data: 0, .. } => ZoneState::Empty,
        _ => ZoneState::Closed,
    };
    ZoneRecord { state, data: durable.data, ..record }
}

fn header(geometry: &Geometry) -> [u8; HEADER] {
    let limit = |limit: Option<u32>| limit.unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend_from_slice(MAGIC);
    for number in [VERSION, geometry.block, geometry.zones, geometry.conventional] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&geometry.zone_size.to_le_bytes());
    bytes.extend_from_slice(&limit(geometry.max_open));
    bytes.extend_from_slice(&limit(geometry.max_active));
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    std::array::from_fn(|i| bytes[i])
}

fn parse_header(bytes: &[u8; HEADER]) -> io::Result<Geometry> {
    if &bytes[..8] != MAGIC {
        return Err(invalid("not an emulated drive, or its making did not come to an end"));
    }
    if u64_at(bytes, 40) != xxh3_64(&bytes[..40]) {
        return Err(invalid("the header is damaged"));
    }
    if u32_at(bytes, 8) != VERSION {
        return Err(invalid(format!("version {} is not known", u32_at(bytes, 8))));
    }
    let limit = |at| Some(u32_at(bytes, at)).filter(|limit| *limit != u32::MAX);
    let geometry = Geometry {
        block: u32_at(bytes, 12),
        zones: u32_at(bytes, 16),
        conventional: u32_at(bytes, 20),
        zone_size: u64_at(bytes, 24),
        max_open: limit(32),
        max_active: limit(36),
    };
    check_shape(&geometry, geometry.zone_size).map_err(|e| invalid(format!("the header is of no drive: {e}")))?;
    Ok(geometry)
}

/// Reads states. That they end before is damage, not a failure of the medium.
fn read_states(states: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    states.read_exact_at(bytes, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid(format!("the states of the zones are cut short before byte {}", at + bytes.len() as u64)),
        _ => error,
    })
}

fn record_at(zone: u32) -> u64 {
    RECORDS_AT + u64::from(zone) * RECORD as u64
}

fn record_bytes(zone: u32, record: &ZoneRecord, durable: Durable) -> [u8; RECORD] {
    let state = ZoneState::ALL.iter().position(|state| *state == record.state).unwrap_or(0);
    let mut bytes = [0; RECORD];
    bytes[0] = state as u8;
    bytes[1] = u8::from(durable.full);
    bytes[4..8].copy_from_slice(&record.resets.to_le_bytes());
    for (i, number) in [record.capacity, record.data, durable.data, record.opened].into_iter().enumerate() {
        bytes[8 + 8 * i..16 + 8 * i].copy_from_slice(&number.to_le_bytes());
    }
    let checksum = xxh3_64_with_seed(&bytes[..56], u64::from(zone));
    bytes[56..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn parse_record(bytes: &[u8; RECORD], zone: u32, geometry: &Geometry) -> Option<(ZoneRecord, Durable)> {
    if u64_at(bytes, 56) != xxh3_64_with_seed(&bytes[..56], u64::from(zone)) {
        return None;
    }
    let record = ZoneRecord {
        state: *ZoneState::ALL.get(usize::from(bytes[0]))?,
        resets: u32_at(bytes, 4),
        capacity: u64_at(bytes, 8),
        data: u64_at(bytes, 16),
        opened: u64_at(bytes, 32),
    };
    let durable = Durable { data: u64_at(bytes, 24), full: bytes[1] != 0 };
    let whole = [record.capacity, record.data, durable.data].iter().all(|bytes| bytes.is_multiple_of(u64::from(geometry.block)));
    let within = record.data <= record.capacity && durable.data <= record.capacity;
    let possible = whole && within && (1..=geometry.zone_size).contains(&record.capacity);
    possible.then_some((record, durable))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of docs/engine/format.md: drives outlive the program that made them.
    #[test]
    fn states_have_these_bytes() {
        let geometry = Geometry { block: 4096, zones: 7, zone_size: 0x1_0000, max_open: Some(3), max_active: None, conventional: 2 };
        let record = ZoneRecord { state: ZoneState::Closed, resets: 9, capacity: 0xf000, data: 0x3000, opened: 5 };
        let durable = Durable { data: 0x2000, full: true };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (header, record_bytes) = (header(&geometry), record_bytes(6, &record, durable));
        assert_eq!(hex(&header), "53494e545a4f4e4501000000001000000700000002000000000001000000000003000000ffffffff648e638371e1b4ce");
        let due = concat!(
            "030100000900000000f000000000000000300000000000000020000000000000",
            "050000000000000000000000000000000000000000000000e628dd07b3f76edc"
        );
        assert_eq!(hex(&record_bytes), due);
        assert_eq!(parse_header(&header).unwrap(), geometry);
        assert_eq!(parse_record(&record_bytes, 6, &geometry), Some((record, durable)));
        assert_eq!(parse_record(&record_bytes, 5, &geometry), None, "another zone's");
    }

    /// Under a checksum that is right.
    #[test]
    fn records_of_no_zone_are_refused() {
        let geometry = Geometry { block: 4096, zones: 1, zone_size: 0x1_0000, max_open: None, max_active: None, conventional: 0 };
        let sound = ZoneRecord { state: ZoneState::Closed, resets: 0, capacity: 0xf000, data: 0x3000, opened: 0 };
        let parsed =
            |record: ZoneRecord, data| parse_record(&record_bytes(0, &record, Durable { data, full: false }), 0, &geometry).is_some();
        assert!(parsed(sound, 0xf000));
        for capacity in [0, 0x3800, 0x1_1000] {
            assert!(!parsed(ZoneRecord { capacity, data: 0, ..sound }, 0), "{capacity}");
        }
        assert!(!parsed(ZoneRecord { data: 0x1_0000, ..sound }, 0) && !parsed(ZoneRecord { data: 1, ..sound }, 0));
        assert!(!parsed(sound, 0x1_0000) && !parsed(sound, 4095));
    }

    #[test]
    fn a_flush_that_was_overtaken_takes_nothing_back() {
        let (early, late) = (Durable { data: 4096, full: false }, Durable { data: 8192, full: true });
        assert_eq!([early.or_more(late), late.or_more(early), late.or_more(Durable::default())], [late; 3]);
    }
}
