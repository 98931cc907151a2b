//! The state of a volume as plain data, and a check that all of it fits together.

use super::failed;
use super::file::{HOLE, is_framed};
use super::journal::Journal;
use super::recover::Finder;
use super::slot::Condition;
use super::volume::{SharedFile, Volume};
use crate::store::{FileId, Result};
use crate::zoned::ZoneState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A zone, for maps. Lengths are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneEntry {
    /// Number of the zone.
    pub zone: u32,
    /// State of the zone.
    pub condition: Condition,
    /// Bytes that can be written between two resets.
    pub capacity: u64,
    /// Bytes up to the write pointer.
    pub written: u64,
    /// Bytes of live files; all other written bytes are dead.
    pub live: u64,
    /// Resets since the drive got its first volume, if each formatting since then could read the metadata before it.
    pub resets: u64,
    /// Lifetime of the first file written since the last reset, as in the hint; 0 if the zone is empty.
    pub lifetime: u8,
    /// Level of the first file written since the last reset.
    pub level: u8,
    /// Number of files being written into the zone.
    pub writers: u32,
    /// Files with bytes in the zone, each with the number of its bytes here, padding included.
    pub files: Vec<(FileId, u64)>,
}

/// All zones of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneMap {
    /// Bytes per block.
    pub block: u32,
    /// Zones that hold the metadata.
    pub metadata: std::ops::Range<u32>,
    /// The volume's clock: bytes that the host has written since the volume was formatted, as far as recorded.
    pub clock: u64,
    /// All zones in order.
    pub zones: Vec<ZoneEntry>,
}

impl ZoneMap {
    /// Zones of files in which anything is written.
    pub fn used(&self) -> u32 {
        let used = |entry: &&ZoneEntry| !matches!(entry.condition, Condition::Empty | Condition::Reserved);
        self.zones.iter().filter(used).count() as u32
    }

    /// Bytes of live files, padding included.
    pub fn live(&self) -> u64 {
        self.zones.iter().map(|entry| entry.live).sum()
    }

    /// Bytes that files could fill.
    pub fn capacity(&self) -> u64 {
        self.zones.iter().filter(|entry| entry.condition != Condition::Reserved).map(|entry| entry.capacity).sum()
    }

    /// The least number of zones that could hold all live bytes.
    pub fn least(&self) -> u32 {
        let capacity = self.zones.iter().filter(|entry| entry.condition != Condition::Reserved).map(|entry| entry.capacity).max();
        u32::try_from(self.live().div_ceil(capacity.unwrap_or(1).max(1))).unwrap_or(u32::MAX)
    }
}

impl Volume {
    pub(super) fn map(&self) -> Result<ZoneMap> {
        let geometry = self.device.geometry();
        let found = self.device.report(0, geometry.zones).map_err(|e| failed("report", e))?;
        let state = self.state.lock();
        let entry = |((zone, slot), reported): ((u32, &super::slot::ZoneSlot), &crate::zoned::Zone)| {
            let note = state.catalog.zones.get(zone as usize).copied().unwrap_or_default();
            ZoneEntry {
                zone,
                condition: slot.condition,
                capacity: slot.capacity,
                written: if slot.condition == Condition::Reserved { reported.written } else { slot.written },
                live: slot.valid,
                resets: note.resets,
                lifetime: note.lifetime,
                level: note.level,
                writers: slot.writers,
                files: slot.tenants.iter().map(|(&id, &bytes)| (id, bytes)).collect(),
            }
        };
        let zones = (0u32..).zip(&state.zones).zip(&found).map(entry).collect();
        let metadata = self.layout.first..self.layout.data();
        Ok(ZoneMap { block: geometry.block, metadata, clock: state.clock, zones })
    }

    /// Reads metadata and logs again and compares them with the state in memory and with the drive. Returns one line per complaint. Nothing
    /// may be written meanwhile.
    pub(super) fn check(self: &Arc<Self>) -> Result<Vec<String>> {
        let mut complaints: Vec<String> = self.commit_durably().err().map(|error| error.to_string()).into_iter().collect();
        self.check_metadata(&mut complaints)?;
        self.check_places(&mut complaints);
        self.check_drive(&mut complaints)?;
        self.check_logs(&mut complaints)?;
        Ok(complaints)
    }

    fn check_metadata(&self, complaints: &mut Vec<String>) -> Result<()> {
        let Some(found) = Journal::open(&self.device, &self.layout)? else {
            complaints.push("there is no metadata on the drive".into());
            return Ok(());
        };
        let zones = self.device.report(self.layout.first, self.layout.zones * 2).map_err(|e| failed("report", e))?;
        for (number, zone) in (self.layout.first..).zip(zones) {
            match zone.state {
                ZoneState::ReadOnly => complaints.push(format!("zone {number}, which is for metadata, is read-only")),
                ZoneState::Offline => complaints.push(format!("zone {number}, which is for metadata, is offline")),
                _ => {}
            }
        }
        if self.check_alive("check").is_err() {
            // The volume takes no more changes, so the state in memory may be newer than the metadata: not damage.
            return Ok(());
        }
        let state = self.state.lock();
        if found.torn {
            complaints.push("the metadata does not end at the write pointer".into());
        }
        if found.volume != self.id {
            complaints.push("the metadata is that of another volume".into());
        }
        if found.catalog.files != state.catalog.files {
            complaints.push(format!("the metadata knows {} files, not {}", found.catalog.files.len(), state.catalog.files.len()));
        }
        if found.catalog.zones != state.catalog.zones {
            complaints.push("the metadata says other things of the zones".into());
        }
        Ok(())
    }

    /// Checks that no two files share bytes, that none lies beyond a write pointer, and that the counted bytes of each zone are right.
    fn check_places(&self, complaints: &mut Vec<String>) {
        let cells: Vec<Arc<SharedFile>> = self.state.lock().names.values().cloned().collect();
        let mut places: Vec<(u32, u64, u64, FileId)> = Vec::new();
        for cell in &cells {
            let content = cell.content.read();
            let mut offset = 0;
            for piece in &content.pieces {
                if piece.offset != offset {
                    complaints.push(format!("{} has a gap at byte {offset}", cell.id));
                }
                offset = piece.offset + piece.len;
                if piece.zone == HOLE {
                    complaints.push(format!("{} is damaged from byte {} to {offset}", cell.id, piece.offset));
                } else {
                    places.push((piece.zone, piece.at, piece.len, cell.id));
                }
            }
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            if let [(zone, at, len, one), (next, from, _, other)] = pair
                && zone == next
                && at + len > *from
            {
                complaints.push(format!("{one} and {other} share byte {from} of zone {zone}"));
            }
        }
        let state = self.state.lock();
        let mut counted: BTreeMap<(u32, FileId), u64> = BTreeMap::new();
        for (zone, at, len, id) in places {
            let written = state.zones.get(zone as usize).map_or(0, |slot| slot.written);
            if at + len > written {
                complaints.push(format!("{id} lies at byte {at} of zone {zone}, which is written up to {written}"));
            }
            if !is_framed(id) {
                *counted.entry((zone, id)).or_default() += len.next_multiple_of(self.block);
            }
        }
        for (zone, slot) in (0u32..).zip(&state.zones) {
            let sum: u64 = slot.tenants.values().sum();
            if sum != slot.valid {
                complaints.push(format!("zone {zone} counts {} living bytes, its files {sum}", slot.valid));
            }
            for (&id, &bytes) in slot.tenants.iter().filter(|(id, _)| !is_framed(**id) && state.names.contains_key(*id)) {
                let there = counted.remove(&(zone, id)).unwrap_or(0);
                if there != bytes {
                    complaints.push(format!("zone {zone} counts {bytes} bytes of {id}, there are {there}"));
                }
            }
        }
        complaints.extend(counted.into_iter().map(|((zone, id), bytes)| format!("zone {zone} does not count {bytes} bytes of {id}")));
    }

    /// Checks that the drive's write pointers agree with those in memory, and that no more zones are active than allowed.
    fn check_drive(&self, complaints: &mut Vec<String>) -> Result<()> {
        let found = self.device.report(0, self.device.geometry().zones).map_err(|e| failed("report", e))?;
        let state = self.state.lock();
        for ((zone, slot), there) in (0u32..).zip(&state.zones).zip(&found) {
            let settled = matches!(slot.condition, Condition::Empty | Condition::Open) && slot.writers == 0 && !slot.busy;
            if settled && there.written != slot.written {
                complaints.push(format!("zone {zone} is written up to {}, not {}", there.written, slot.written));
            }
        }
        let active = found.iter().filter(|zone| zone.state.is_active()).count();
        if let Some(limit) = self.device.geometry().max_active.filter(|limit| active > *limit as usize) {
            complaints.push(format!("{active} zones are active, {limit} may be"));
        }
        Ok(())
    }

    /// Checks that the frames of each log add up to its length.
    fn check_logs(&self, complaints: &mut Vec<String>) -> Result<()> {
        let (catalog, slots, cells) = {
            let state = self.state.lock();
            let sealed: Vec<Arc<SharedFile>> = state.names.values().filter(|cell| is_framed(cell.id)).cloned().collect();
            (state.catalog.clone(), state.zones.clone(), sealed)
        };
        let finder = Finder { device: &*self.device, volume: self.id, catalog: &catalog, slots: &slots };
        for cell in cells {
            let Some(record) = catalog.files.get(&cell.id) else { continue };
            let due = cell.content.read().written;
            let length = finder.log_length(cell.id, record)?;
            if length != due {
                complaints.push(format!("{} has {length} bytes in whole frames, not {due}", cell.id));
            }
        }
        Ok(())
    }
}
