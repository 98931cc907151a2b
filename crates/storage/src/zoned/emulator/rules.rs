//! The command set's rules of states and limits, and nothing else: no bytes, no time, no files.

use crate::zoned::{Geometry, Zone, ZoneErrorKind, ZoneState};

/// The drive's record of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZoneRecord {
    pub(super) state: ZoneState,
    pub(super) capacity: u64,
    /// Bytes that were written; a finished zone has fewer than its capacity.
    pub(super) data: u64,
    /// When it was last opened implicitly, in a count of its own: the smallest is evicted first.
    pub(super) opened: u64,
    /// Number of resets.
    pub(super) resets: u32,
}

impl ZoneRecord {
    /// After a power cycle nothing is open; a zone that was opened and never written is empty again.
    pub(super) fn after_power_cycle(self) -> ZoneRecord {
        let state = match self.state {
            state if !state.is_active() => state,
            _ if self.data == 0 => ZoneState::Empty,
            _ => ZoneState::Closed,
        };
        ZoneRecord { state, ..self }
    }
}

type Result<T> = std::result::Result<T, ZoneErrorKind>;

/// States of all zones.
#[derive(Debug)]
pub(super) struct Rules {
    zone_size: u64,
    max_open: Option<u32>,
    max_active: Option<u32>,
    records: Vec<ZoneRecord>,
    open: u32,
    active: u32,
    clock: u64,
    /// Zones that changed since somebody asked.
    touched: Vec<u32>,
}

impl Rules {
    pub(super) fn new(geometry: &Geometry, capacity: u64) -> Self {
        let record = |zone| ZoneRecord {
            state: if zone < geometry.conventional { ZoneState::ReadOnly } else { ZoneState::Empty },
            capacity,
            data: 0,
            opened: 0,
            resets: 0,
        };
        Rules::restore(geometry, (0..geometry.zones).map(record).collect())
    }

    /// One record per zone, none of them open.
    pub(super) fn restore(geometry: &Geometry, records: Vec<ZoneRecord>) -> Self {
        let active = records.iter().filter(|record| record.state.is_active()).count();
        Rules {
            zone_size: geometry.zone_size,
            max_open: geometry.max_open,
            max_active: geometry.max_active,
            records,
            open: 0,
            active: u32::try_from(active).unwrap_or(u32::MAX),
            clock: 0,
            touched: Vec::new(),
        }
    }

    pub(super) fn records(&self) -> &[ZoneRecord] {
        &self.records
    }

    pub(super) fn record(&self, zone: u32) -> &ZoneRecord {
        &self.records[zone as usize]
    }

    pub(super) fn report(&self, zone: u32) -> Zone {
        let record = self.record(zone);
        let written = if record.state == ZoneState::Full { record.capacity } else { record.data };
        Zone { capacity: record.capacity, written, state: record.state }
    }

    /// Zones whose record changed since the last call, some perhaps twice.
    pub(super) fn take_touched(&mut self) -> impl Iterator<Item = (u32, ZoneRecord)> + '_ {
        let records = &self.records;
        self.touched.drain(..).map(move |zone| (zone, records[zone as usize]))
    }

    fn set(&mut self, zone: u32, state: ZoneState) {
        let record = &mut self.records[zone as usize];
        let before = std::mem::replace(&mut record.state, state);
        self.open = self.open - u32::from(before.is_open()) + u32::from(state.is_open());
        self.active = self.active - u32::from(before.is_active()) + u32::from(state.is_active());
        self.touched.push(zone);
    }

    /// Makes one more zone open, which is active already or becomes so; may close another. As in QEMU, the eviction comes before the look
    /// at the active zones, and is not taken back if that fails.
    fn admit(&mut self, active: bool) -> Result<()> {
        let at_limit = |limit: Option<u32>, count: u32| limit.is_some_and(|limit| count >= limit);
        if at_limit(self.max_open, self.open) {
            let implicit = self.records.iter().enumerate().filter(|(_, record)| record.state == ZoneState::ImplicitlyOpen);
            if let Some((oldest, _)) = implicit.min_by_key(|(_, record)| record.opened) {
                self.set(oldest as u32, ZoneState::Closed);
            }
        }
        if !active && at_limit(self.max_active, self.active) {
            return Err(ZoneErrorKind::TooManyActive);
        }
        if at_limit(self.max_open, self.open) {
            return Err(ZoneErrorKind::TooManyOpen);
        }
        Ok(())
    }

    /// Admits a write of whole blocks and opens the zone for it; returns its offset. `at` is `None` for an append.
    pub(super) fn begin_write(&mut self, zone: u32, at: Option<u64>, length: u64) -> Result<u64> {
        let record = *self.record(zone);
        match record.state {
            ZoneState::Full => return Err(ZoneErrorKind::Full),
            ZoneState::ReadOnly => return Err(ZoneErrorKind::ReadOnly),
            ZoneState::Offline => return Err(ZoneErrorKind::Offline),
            _ => {}
        }
        if at.is_some_and(|at| at != record.data) {
            return Err(ZoneErrorKind::InvalidWrite);
        }
        if length > record.capacity - record.data {
            return Err(ZoneErrorKind::Boundary);
        }
        if !record.state.is_open() {
            self.admit(record.state.is_active())?;
            self.clock += 1;
            self.records[zone as usize].opened = self.clock;
            self.set(zone, ZoneState::ImplicitlyOpen);
        }
        Ok(record.data)
    }

    /// Moves the write pointer over what `begin_write` admitted, or less. The zone may have been evicted in between.
    pub(super) fn advance(&mut self, zone: u32, length: u64) {
        let record = &mut self.records[zone as usize];
        record.data = record.capacity.min(record.data + length);
        let state = if record.data == record.capacity { ZoneState::Full } else { record.state };
        self.set(zone, state);
    }

    pub(super) fn check_read(&self, zone: u32, at: u64, length: u64) -> Result<()> {
        if self.record(zone).state == ZoneState::Offline {
            return Err(ZoneErrorKind::Offline);
        }
        match at.checked_add(length) {
            Some(end) if end <= self.zone_size => Ok(()),
            _ => Err(ZoneErrorKind::Boundary),
        }
    }

    pub(super) fn open(&mut self, zone: u32) -> Result<()> {
        match self.record(zone).state {
            ZoneState::ExplicitlyOpen => return Ok(()),
            ZoneState::ImplicitlyOpen => {}
            state @ (ZoneState::Empty | ZoneState::Closed) => self.admit(state.is_active())?,
            ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => return Err(ZoneErrorKind::InvalidTransition),
        }
        self.set(zone, ZoneState::ExplicitlyOpen);
        Ok(())
    }

    pub(super) fn close(&mut self, zone: u32) -> Result<()> {
        match self.record(zone).state {
            ZoneState::Closed => return Ok(()),
            state if state.is_open() => self.set(zone, ZoneState::Closed),
            _ => return Err(ZoneErrorKind::InvalidTransition),
        }
        Ok(())
    }

    /// True if the zone was not full before.
    pub(super) fn finish(&mut self, zone: u32) -> Result<bool> {
        match self.record(zone).state {
            ZoneState::Full => Ok(false),
            ZoneState::ReadOnly | ZoneState::Offline => Err(ZoneErrorKind::InvalidTransition),
            _ => {
                self.set(zone, ZoneState::Full);
                Ok(true)
            }
        }
    }

    /// True if the zone was not empty before.
    pub(super) fn reset(&mut self, zone: u32) -> Result<bool> {
        match self.record(zone).state {
            ZoneState::Empty => Ok(false),
            ZoneState::ReadOnly | ZoneState::Offline => Err(ZoneErrorKind::InvalidTransition),
            _ => {
                let record = &mut self.records[zone as usize];
                record.data = 0;
                record.resets = record.resets.saturating_add(1);
                self.set(zone, ZoneState::Empty);
                Ok(true)
            }
        }
    }

    /// Makes a zone read-only or offline.
    pub(super) fn damage(&mut self, zone: u32, state: ZoneState) {
        self.set(zone, state);
    }
}

#[cfg(test)]
mod tests;
