//! A volume as plain data, for all commands that show it.

use super::space::Space;
use crate::ended::Ended;
use sinter_storage::store::{Beneath, Store};
use sinter_storage::zoned::{Geometry, Streams};
use sinter_storage::zoned_store::{Condition, FileEntry, VolumeId, ZoneEntry, ZoneMap, ZonedStore};
use std::collections::BTreeMap;
use std::path::Path;

/// Purpose of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The volume's own metadata.
    Metadata,
    /// Written at random; the volume does not use it.
    Conventional,
    /// Holds files; lifetime and level of the first one.
    Files(u8, u8),
    /// Nothing is written in it.
    Empty,
    /// The drive made it read-only, or lost it.
    Broken,
}

impl Class {
    fn of(map: &ZoneMap, entry: &ZoneEntry) -> Self {
        match entry.condition {
            Condition::Reserved if map.metadata.contains(&entry.zone) => Class::Metadata,
            Condition::Reserved => Class::Conventional,
            Condition::Empty => Class::Empty,
            Condition::ReadOnly | Condition::Offline => Class::Broken,
            Condition::Open | Condition::Full | Condition::Ended => Class::Files(entry.lifetime, entry.level),
        }
    }

    /// The name, for people.
    pub fn name(self) -> String {
        match self {
            Class::Metadata => "metadata".into(),
            Class::Conventional => "conventional".into(),
            Class::Empty => "empty".into(),
            Class::Broken => "broken".into(),
            Class::Files(lifetime, level) => match lifetime_name(lifetime) {
                "unset" => "manifests".into(),
                "short" => "logs".into(),
                lifetime => format!("L{level} {lifetime}"),
            },
        }
    }

    /// One character, for a map.
    pub fn letter(self) -> char {
        match self {
            Class::Metadata => 'M',
            Class::Conventional => 'C',
            Class::Empty => '.',
            Class::Broken => '!',
            Class::Files(0, _) => 'm',
            Class::Files(2, _) => 'l',
            Class::Files(_, level) => char::from_digit(u32::from(level % 10), 10).unwrap_or('?'),
        }
    }
}

/// The kernel's name for a lifetime number.
pub fn lifetime_name(lifetime: u8) -> &'static str {
    match lifetime {
        2 => "short",
        3 => "medium",
        4 => "long",
        5 => "extreme",
        _ => "unset",
    }
}

/// The name of a condition.
pub fn condition_name(condition: Condition) -> &'static str {
    match condition {
        Condition::Empty => "empty",
        Condition::Open => "open",
        Condition::Full => "full",
        Condition::Ended => "ended",
        Condition::ReadOnly => "read-only",
        Condition::Offline => "offline",
        Condition::Reserved => "reserved",
    }
}

/// A zone. Lengths are bytes; the four parts add up to its capacity.
#[derive(Debug, Clone)]
pub struct Zone {
    pub entry: ZoneEntry,
    pub class: Class,
    /// Bytes of live files.
    pub live: u64,
    /// Heads of frames and ends of blocks of live files.
    pub padding: u64,
    /// Written, but no longer needed.
    pub dead: u64,
    /// Not written.
    pub unwritten: u64,
}

impl Zone {
    /// Describes the zone in one line.
    pub fn describe(&self) -> String {
        let (written, live) = (human(self.entry.written), human(self.live + self.padding));
        let Zone { entry, class, .. } = self;
        let (condition, files) = (condition_name(entry.condition), entry.files.len());
        let (zone, name, resets) = (entry.zone, class.name(), entry.resets);
        if *class == Class::Empty {
            return format!("zone {zone}: empty; {resets} resets");
        }
        format!("zone {zone}: {name}, {condition}; {written} written, {live} of it live in {files} files; {resets} resets")
    }
}

/// Sums over the zones of one class.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    pub zones: u32,
    pub live: u64,
    pub padding: u64,
    pub dead: u64,
    pub unwritten: u64,
    pub capacity: u64,
}

impl Sum {
    fn add(&mut self, zone: &Zone) {
        self.zones += 1;
        self.live += zone.live;
        self.padding += zone.padding;
        self.dead += zone.dead;
        self.unwritten += zone.unwritten;
        self.capacity += zone.entry.capacity;
    }
}

/// A volume at one moment.
pub struct View {
    pub drive: String,
    pub id: VolumeId,
    pub geometry: Geometry,
    pub map: ZoneMap,
    pub zones: Vec<Zone>,
    pub files: Vec<FileEntry>,
    /// Bytes that files can take, dead ones now included.
    pub free: u64,
    /// Zones reserved for the collector.
    pub reserve: u32,
    pub space: Space,
    pub streams: Streams,
    /// Work done by opening the volume.
    pub beneath: Beneath,
}

impl View {
    /// Reads the state of a volume.
    pub fn of(drive: &Path, store: &ZonedStore) -> Result<Self, Ended> {
        let map = store.map().map_err(sinterdb::Error::from)?;
        let files = store.files();
        let mut data: BTreeMap<u32, u64> = BTreeMap::new();
        for extent in files.iter().flat_map(|file| &file.extents) {
            if let Some(zone) = extent.zone {
                *data.entry(zone).or_default() += extent.len;
            }
        }
        let zone = |entry: &ZoneEntry| {
            let live = data.get(&entry.zone).copied().unwrap_or(0).min(entry.live);
            Zone {
                class: Class::of(&map, entry),
                live,
                padding: entry.live - live,
                dead: if entry.condition == Condition::Reserved { 0 } else { entry.written.saturating_sub(entry.live) },
                unwritten: entry.capacity.saturating_sub(entry.written),
                entry: entry.clone(),
            }
        };
        let zones: Vec<Zone> = map.zones.iter().map(zone).collect();
        let beneath = store.beneath().unwrap_or_default();
        let free = store.free_bytes().map_err(sinterdb::Error::from)?.unwrap_or(0);
        Ok(View {
            drive: drive.display().to_string(),
            id: store.id(),
            geometry: store.geometry().clone(),
            zones,
            files,
            free,
            space: Space::of(store, free),
            reserve: store.options().reserve,
            streams: store.streams(),
            beneath,
            map,
        })
    }

    /// Sums by class of zones.
    pub fn by_class(&self) -> BTreeMap<Class, Sum> {
        let mut sums: BTreeMap<Class, Sum> = BTreeMap::new();
        self.zones.iter().for_each(|zone| sums.entry(zone.class).or_default().add(zone));
        sums
    }

    /// Number of zones by condition; metadata zones are counted separately.
    pub fn by_condition(&self) -> Vec<(&'static str, usize)> {
        let all = [Condition::Empty, Condition::Open, Condition::Full, Condition::Ended, Condition::ReadOnly, Condition::Offline];
        let count = |condition| self.zones.iter().filter(|zone| zone.entry.condition == condition).count();
        let mut counts: Vec<(&'static str, usize)> = all.map(|condition| (condition_name(condition), count(condition))).to_vec();
        counts.push(("metadata", self.zones.iter().filter(|zone| zone.class == Class::Metadata).count()));
        counts
    }

    /// The drive in one line.
    pub fn headline(&self) -> String {
        let Geometry { block, zones, zone_size, .. } = self.geometry;
        format!("{}: {zones} zones of {}, blocks of {}, volume {}", self.drive, human(zone_size), human(u64::from(block)), self.id)
    }

    /// The use of the drive's write streams, in a line; `None`: it has none.
    pub fn streams(&self) -> Option<String> {
        let Streams { count, used } = self.streams;
        let use_of = match (count, used) {
            (0, _) => return None,
            (_, true) => "writes go to them by lifetime",
            (1, false) => "not used: a single stream separates nothing",
            (_, false) => "not used: io_uring is refused",
        };
        Some(format!("{count} write streams, {use_of}"))
    }

    /// Number of resets, in one line.
    pub fn wear(&self) -> String {
        let now = &self.beneath.zones;
        let mean = now.wear_total as f64 / f64::from(now.all.max(1));
        let (least, most, metadata) = (now.wear_least, now.wear_most, now.wear_metadata);
        format!("{least} to {most} resets of a zone, {mean:.1} on average; up to {metadata} of one for metadata")
    }
}

/// Bytes with a unit, for people.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be printed as 1024.0 is shown in the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_by_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (128_000_000, "122.1 MiB"),
            (5 << 40, "5.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn classes_have_names() {
        let names = [Class::Files(0, 0), Class::Files(2, 0), Class::Files(3, 1), Class::Files(5, 12), Class::Metadata, Class::Empty];
        let names = names.map(|class| (class.letter(), class.name()));
        let expected = [('m', "manifests"), ('l', "logs"), ('1', "L1 medium"), ('2', "L12 extreme"), ('M', "metadata"), ('.', "empty")];
        assert_eq!(names, expected.map(|(letter, name)| (letter, name.to_owned())));
    }
}
