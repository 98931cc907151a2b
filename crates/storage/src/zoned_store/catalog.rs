//! The metadata of a volume as plain data: the sum of the edits of the metadata log.

use super::format::{About, Edit, FileLocation, Input, KEY_PREFIX, ZoneNote};
use crate::store::FileId;
use crate::zoned::Geometry;
use std::collections::BTreeMap;

/// A file as far as the metadata knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FileRecord {
    pub(super) about: About,
    pub(super) place: FileLocation,
}

/// The whole metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Catalog {
    pub(super) files: BTreeMap<FileId, FileRecord>,
    /// Notes of all zones of the drive.
    pub(super) zones: Vec<ZoneNote>,
    /// Bytes that the host has written in the volume's life, as of the last snapshot or creation.
    pub(super) clock: u64,
    /// Bytes that the files take in a snapshot, at most.
    file_bytes: usize,
}

/// Bytes of a zone's line in a snapshot.
pub(super) const ZONE_BYTES: usize = 15;

/// Bytes of the facts at the start of a snapshot.
pub(super) const FACTS: usize = 32;

/// Upper bound of a record's bytes in a snapshot.
fn size(record: &FileRecord) -> usize {
    size_of(record.place.ranges.len())
}

/// Upper bound of a record's bytes for a file with this number of ranges.
pub(super) fn size_of(ranges: usize) -> usize {
    let created = 1 + 9 + 2 + 4 + 16 + 1 + 2 * (1 + KEY_PREFIX);
    created + 1 + 9 + 1 + 8 + 4 + 20 * ranges
}

impl Catalog {
    /// The catalog of an empty volume.
    pub(super) fn new(zones: u32) -> Self {
        Catalog { zones: vec![ZoneNote::default(); zones as usize], ..Catalog::default() }
    }

    /// Notes that zones are reset, or about to be.
    pub(super) fn wear(&mut self, zones: impl IntoIterator<Item = u32>) {
        for zone in zones {
            if let Some(note) = self.zones.get_mut(zone as usize) {
                note.resets += 1;
            }
        }
    }

    /// Applies an edit. The error says why an edit does not fit.
    pub(super) fn apply(&mut self, edit: &Edit) -> Result<(), &'static str> {
        match edit {
            Edit::Create { id, about } => {
                let record = FileRecord { about: about.clone(), ..FileRecord::default() };
                self.clock = self.clock.max(about.born);
                self.file_bytes += size(&record);
                if self.files.insert(*id, record).is_some() {
                    return Err("a file is created twice");
                }
            }
            Edit::Delete { id } => {
                let record = self.files.remove(id).ok_or("a file is deleted that does not exist")?;
                self.file_bytes -= size(&record);
            }
            Edit::Lies { id, place } => {
                let record = self.files.get_mut(id).ok_or("a place is given for a file that does not exist")?;
                self.file_bytes -= size(record);
                record.place = place.clone();
                self.file_bytes += size(record);
            }
            Edit::Zone { zone, note } => {
                *self.zones.get_mut(*zone as usize).ok_or("a zone is named that the drive does not have")? = *note;
            }
        }
        Ok(())
    }

    /// Bytes that [`Catalog::snapshot`] makes at most.
    pub(super) fn snapshot_bytes(&self) -> usize {
        FACTS + ZONE_BYTES * self.zones.len() + self.file_bytes
    }

    /// A snapshot of the metadata, with the facts of the drive for which it is made.
    pub(super) fn snapshot(&self, geometry: &Geometry, region_zones: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.snapshot_bytes());
        for fact in facts(geometry, region_zones) {
            out.extend_from_slice(&fact.to_le_bytes());
        }
        out.extend_from_slice(&geometry.zone_size.to_le_bytes());
        out.extend_from_slice(&self.clock.to_le_bytes());
        for (zone, note) in (0u32..).zip(&self.zones) {
            if *note != ZoneNote::default() {
                Edit::Zone { zone, note: *note }.encode(&mut out);
            }
        }
        for (&id, record) in &self.files {
            Edit::Create { id, about: record.about.clone() }.encode(&mut out);
            if record.place != FileLocation::default() {
                Edit::Lies { id, place: record.place.clone() }.encode(&mut out);
            }
        }
        out
    }

    /// Reads what [`Catalog::snapshot`] made, for this drive.
    pub(super) fn read(bytes: &[u8], geometry: &Geometry, region_zones: u32) -> Result<Catalog, &'static str> {
        let mut from = Input(bytes);
        for fact in facts(geometry, region_zones) {
            if from.u32() != Some(fact) {
                return Err("the volume was formatted for a drive of another shape");
            }
        }
        if from.u64() != Some(geometry.zone_size) {
            return Err("the volume was formatted for zones of another size");
        }
        let mut catalog = Catalog::new(geometry.zones);
        catalog.clock = from.u64().ok_or("the facts are cut short")?;
        catalog.apply_all(from.0)?;
        Ok(catalog)
    }

    /// Zones per region, as a snapshot has it.
    pub(super) fn region_zones(bytes: &[u8]) -> Option<u32> {
        let mut from = Input(bytes);
        (0..4).map(|_| from.u32()).last().flatten()
    }

    /// Takes in the edits of a frame.
    pub(super) fn apply_all(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let mut from = Input(bytes);
        while !from.0.is_empty() {
            let edit = Edit::decode(&mut from).ok_or("an edit cannot be read")?;
            self.apply(&edit)?;
        }
        Ok(())
    }
}

fn facts(geometry: &Geometry, region_zones: u32) -> [u32; 4] {
    [geometry.block, geometry.zones, geometry.conventional, region_zones]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned_store::format::{OPEN, Range};

    fn geometry() -> Geometry {
        Geometry { block: 512, zones: 9, zone_size: 1 << 16, max_open: None, max_active: None, conventional: 0 }
    }

    fn lies(id: FileId, sealed: bool, ranges: Vec<Range>) -> Edit {
        Edit::Lies { id, place: FileLocation { sealed, length: 0, ranges } }
    }

    fn edits() -> Vec<Edit> {
        let about = About { lifetime: 3, level: 1, family: 7, born: 1000, death: 5000, keys: Some((b"a".to_vec(), vec![255; 16])) };
        let (table, log) = (FileId::table(5), FileId::log(6));
        vec![
            Edit::Create { id: table, about },
            Edit::Zone { zone: 4, note: ZoneNote { resets: 3, lifetime: 3, level: 1, framed: false } },
            Edit::Create { id: log, about: About::default() },
            lies(table, true, vec![Range { zone: 4, at: 0, len: 700 }, Range { zone: 5, at: 512, len: 1 }]),
            lies(log, false, vec![Range { zone: 6, at: 1024, len: OPEN }]),
        ]
    }

    #[test]
    fn a_snapshot_says_what_the_edits_said() {
        let mut catalog = Catalog::new(9);
        let mut bytes = Vec::new();
        for edit in edits() {
            catalog.apply(&edit).unwrap();
            edit.encode(&mut bytes);
        }
        let mut again = Catalog::new(9);
        again.apply_all(&bytes).unwrap();
        assert_eq!(again, catalog);
        let snapshot = catalog.snapshot(&geometry(), 1);
        assert!(snapshot.len() <= catalog.snapshot_bytes());
        assert_eq!(Catalog::read(&snapshot, &geometry(), 1).unwrap(), catalog);
        for cut in 0..snapshot.len() {
            if let Ok(other) = Catalog::read(&snapshot[..cut], &geometry(), 1) {
                assert_ne!(other, catalog, "cut at {cut}");
            }
        }
        assert!(Catalog::read(&snapshot, &Geometry { zones: 10, ..geometry() }, 1).is_err());
        assert!(Catalog::read(&snapshot, &geometry(), 2).is_err());

        catalog.apply(&Edit::Delete { id: FileId::table(5) }).unwrap();
        catalog.apply(&Edit::Delete { id: FileId::log(6) }).unwrap();
        assert_eq!(catalog.snapshot_bytes(), Catalog::new(9).snapshot_bytes(), "sizes are counted both ways");
    }

    #[test]
    fn edits_that_do_not_fit_are_refused() {
        let mut catalog = Catalog::new(2);
        let create = Edit::Create { id: FileId::log(1), about: About::default() };
        catalog.apply(&create).unwrap();
        for wrong in [
            create,
            Edit::Delete { id: FileId::log(2) },
            lies(FileId::table(1), true, Vec::new()),
            Edit::Zone { zone: 2, note: ZoneNote::default() },
        ] {
            assert!(catalog.clone().apply(&wrong).is_err(), "{wrong:?}");
        }
        let mut huge = vec![3];
        huge.extend_from_slice(&[1; 18]);
        huge.extend_from_slice(&u32::MAX.to_le_bytes());
        assert!(Edit::decode(&mut Input(&huge)).is_none(), "no memory is taken for a count that cannot be true");
    }
}
