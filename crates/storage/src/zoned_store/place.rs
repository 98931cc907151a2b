//! Finds the zone for the next bytes: asks the policy, and does the work that its choice needs.
//!
//! The drive limits the number of active zones. Two of them are for the metadata, which needs both while it changes regions. If at least
//! four are left for files, tables leave two of these free, one for logs and one for the collector, and logs leave the collector's free.
//!
//! If the policy's choice cannot be had, these are tried in turn: a zone in which everything is dead is reset, or written on if most of it
//! is unwritten; the file goes to the open zone of the nearest lifetime, whatever the policy says; the writer waits (without polling) while
//! deletions are made durable and the collector works. If nothing helps, the medium is full. For studies of policies, the fallback can be
//! turned off (`Options::fallback`): then a write that the policy has no zone for fails.

use super::allocate::{Choice, Resources, Want, ZoneView};
use super::figures::Written;
use super::format::{Edit, ZoneNote};
use super::of_number;
use super::reset::{Dead, Space};
use super::slot::{Condition, ZoneSlot};
use super::volume::{SharedFile, State, Volume};
use crate::store::{ByLifetime, Cause, Result, StoreError};
use crate::zoned::ZoneState;
use parking_lot::MutexGuard;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

/// Active places that the metadata needs.
pub(super) const METADATA_PLACES: u32 = 2;

/// With fewer active zones than this for files, none is kept free for logs or the collector.
const FEW: u32 = 4;

/// The lifetime of logs.
const SHORT: u8 = 2;

/// The lifetime of manifests: unknown, but long.
const PINNING: u8 = 0;

impl Want {
    /// Returns whether the file is a manifest. A zone with a manifest cannot be emptied, however much of it is dead.
    fn pins(&self) -> bool {
        self.log && self.lifetime == PINNING
    }
}

/// Result of a wait for free space.
enum Wait {
    Changed,
    Hopeless,
}

impl State {
    pub(super) fn empty_zones(&self) -> u32 {
        self.count(|slot| slot.condition == Condition::Empty && !slot.busy)
    }

    fn count(&self, is: impl Fn(&ZoneSlot) -> bool) -> u32 {
        self.zones.iter().filter(|slot| is(slot)).count() as u32
    }

    fn file_zones(&self) -> u32 {
        self.count(|slot| slot.condition != Condition::Reserved)
    }

    pub(super) fn space(&self) -> Space {
        Space { empty: self.empty_zones(), zones: self.file_zones() }
    }

    /// Open zones that the policy may choose for the file. A zone into which the collector moves files takes only moved files: others would
    /// use up the reserve that the collector needs.
    pub(super) fn views(&self, want: &Want) -> Vec<ZoneView> {
        let is_open = |slot: &ZoneSlot| slot.condition == Condition::Open && !slot.busy && slot.room() > 0;
        let open = (0u32..).zip(&self.zones).filter(|(_, slot)| is_open(slot) && (want.moving || slot.movers == 0));
        open.map(|(zone, slot)| {
            let note = self.catalog.zones.get(zone as usize).copied().unwrap_or_default();
            ZoneView {
                zone,
                lifetime: note.lifetime,
                level: note.level,
                room: slot.room(),
                valid: slot.valid,
                writers: slot.writers,
                touched: slot.touched,
                death: slot.death,
                life: slot.life,
            }
        })
        .collect()
    }

    fn resources(&self, want: &Want, max_active: Option<u32>, reserve: u32) -> Resources {
        let active = self.count(|slot| matches!(slot.condition, Condition::Open | Condition::Ended));
        let token = places(max_active).is_none_or(|places| {
            let kept = match (want.moving || want.pins(), want.log) {
                _ if places < FEW => 0,
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
            active < places - kept
        });
        Resources { token, empty: self.to_be_had(want, reserve), zones: self.file_zones() }
    }

    /// Number of zones that the file may take: empty and dead ones, without those that it must leave.
    fn to_be_had(&self, want: &Want, reserve: u32) -> u32 {
        let dead = self.count(|slot| slot.is_dead() && !slot.stuck);
        (self.empty_zones() + dead).saturating_sub(left(want, reserve))
    }

    /// The empty zone to take: the least worn if `spare`, otherwise the first.
    fn next_empty(&self, spare: bool) -> Option<u32> {
        let empty = (0u32..).zip(&self.zones).filter(|(_, slot)| slot.condition == Condition::Empty && !slot.busy).map(|(zone, _)| zone);
        let wear = |zone: &u32| self.catalog.zones.get(*zone as usize).map_or(0, |note| note.resets);
        if spare { empty.min_by_key(wear) } else { empty.min() }
    }

    /// The dead zone with the fewest unwritten bytes; if `active`, among zones that are not full.
    fn next_dead(&self, active: bool) -> Option<u32> {
        let dead =
            (0u32..).zip(&self.zones).filter(|(_, slot)| slot.is_dead() && !slot.stuck && (!active || slot.condition != Condition::Full));
        dead.min_by_key(|(_, slot)| slot.capacity - slot.written).map(|(zone, _)| zone)
    }

    /// Counts one more file that is written into the zone. True if the zone was empty or dead: then it takes lifetime and level of the
    /// file. If a table comes beside logs, records that the zone no longer holds frames only.
    fn add_writer(&mut self, zone: u32, want: &Want) -> bool {
        let (Some(slot), Some(note)) = (self.zones.get_mut(zone as usize), self.catalog.zones.get(zone as usize).copied()) else {
            return false;
        };
        let first = slot.condition == Condition::Empty || slot.valid == 0 && slot.writers == 0;
        slot.condition = Condition::Open;
        slot.stuck &= !first;
        slot.writers += 1;
        slot.movers += u32::from(want.moving);
        self.due.retain(|due| *due != zone);
        if first {
            (slot.death, slot.life) = (want.death as f64, want.life as f64);
            self.log(&Edit::Zone { zone, note: ZoneNote { lifetime: want.lifetime, level: want.level, framed: want.log, ..note } });
        } else if note.framed && !want.log {
            slot.mixing = true;
            self.log(&Edit::Zone { zone, note: ZoneNote { framed: false, ..note } });
        }
        first
    }
}

/// Number of zones for files that may be active; `None`: no limit.
fn places(max_active: Option<u32>) -> Option<u32> {
    max_active.map(|limit| limit.saturating_sub(METADATA_PLACES).max(1))
}

/// Number of empty and dead zones that a file must leave free: none for a move by the collector; one for a manifest, which should not share
/// a zone with tables; the reserve for all other files. A zone that the collector has emptied counts even before it is reset.
fn left(want: &Want, reserve: u32) -> u32 {
    match want {
        _ if want.moving => 0,
        _ if want.pins() => reserve.min(1),
        _ => reserve,
    }
}

/// An open zone to fall back to.
struct Fallback {
    zone: u32,
    /// A manifest and another file would lie in the zone.
    pinned: bool,
}

/// The open zone to fall back to. In order of importance: does not mix manifests with other files, does not mix logs with tables, has the
/// nearest lifetime, has not been written for longest.
fn closest(want: &Want, zones: &[ZoneView]) -> Option<Fallback> {
    let pinned = |view: &ZoneView| !view.is_free() && (view.lifetime == PINNING) != (want.lifetime == PINNING);
    let logs = |view: &ZoneView| (view.lifetime <= SHORT) != (want.lifetime <= SHORT);
    let apart = |view: &ZoneView| (pinned(view), logs(view), view.lifetime.abs_diff(want.lifetime), view.touched);
    zones.iter().min_by_key(|view| apart(view)).map(|view| Fallback { zone: view.zone, pinned: pinned(view) })
}

/// The condition of a read-only or offline zone; `None` for any other.
fn broken(state: ZoneState) -> Option<Condition> {
    match state {
        ZoneState::ReadOnly => Some(Condition::ReadOnly),
        ZoneState::Offline => Some(Condition::Offline),
        _ => None,
    }
}

pub(super) fn no_space(operation: &'static str) -> StoreError {
    let why = "no zone can be written, and none can be emptied";
    StoreError::store(operation, io::Error::new(io::ErrorKind::StorageFull, why))
}

impl Volume {
    /// Finds a zone to write to. The caller counts as one of its writers until [`Volume::leave`].
    pub(super) fn acquire(&self, want: &Want) -> Result<u32> {
        let zone = self.choose(want)?;
        if !want.log && self.state.lock().zones.get(zone as usize).is_some_and(|slot| slot.mixing) {
            // The metadata says durably that the zone has a table before the table is written: after a crash, recovery of a log in the zone
            // would take the table for damaged frames.
            if let Err(error) = self.commit_durably() {
                self.leave(zone, want.moving);
                return Err(error);
            }
            if let Some(slot) = self.state.lock().zones.get_mut(zone as usize) {
                slot.mixing = false;
            }
        }
        Ok(zone)
    }

    /// [`Volume::acquire`] without the metadata that a mixed zone needs.
    fn choose(&self, want: &Want) -> Result<u32> {
        let policy = self.options.allocation;
        let reserve = self.options.reserve;
        let max_active = self.device.geometry().max_active;
        let mut state = self.state.lock();
        // Set after a wait that freed nothing.
        let mut hopeless = false;
        loop {
            self.check_alive("append")?;
            let views = state.views(want);
            let resources = state.resources(want, max_active, reserve);
            let choice = policy.choose(want, &views, resources);
            // A manifest and other files share a zone only when nothing else helps, because the collector cannot move a manifest.
            let may_share = want.moving || hopeless || places(max_active).is_some_and(|places| places < FEW);
            let fallback = closest(want, &views).filter(|fallback| may_share || !fallback.pinned);
            drop(views);
            match choice {
                Choice::Use(zone) => return Ok(self.begin_writing(&mut state, zone, want)),
                Choice::Open if resources.token && resources.empty > 0 => {
                    let plenty = state.empty_zones() > left(want, reserve);
                    if let Some(zone) = state.next_empty(policy.spares_wear()).filter(|_| plenty) {
                        return Ok(self.begin_writing(&mut state, zone, want));
                    }
                    if let Some(zone) = state.next_dead(false) {
                        if self.revive(&mut state, zone) {
                            return Ok(self.begin_writing(&mut state, zone, want));
                        }
                        continue;
                    }
                }
                Choice::Finish(zone) if resources.empty > 0 => {
                    match state.next_dead(true) {
                        Some(dead) if self.revive(&mut state, dead) => return Ok(self.begin_writing(&mut state, dead, want)),
                        Some(_) => {}
                        None => self.finish_zone(&mut state, zone),
                    }
                    continue;
                }
                _ => {}
            }
            if let Some(fallback) = fallback.filter(|_| self.options.fallback || want.moving) {
                state.figures.fallbacks += 1;
                return Ok(self.begin_writing(&mut state, fallback.zone, want));
            }
            if want.moving && resources.token && self.options.fallback {
                // The collector may use the reserve even if the policy would not open a zone for a move.
                if let Some(zone) = state.next_empty(policy.spares_wear()) {
                    return Ok(self.begin_writing(&mut state, zone, want));
                }
            }
            if want.moving || hopeless {
                return Err(no_space("append"));
            }
            hopeless = matches!(self.wait_for_room(&mut state)?, Wait::Hopeless);
        }
    }

    /// Resets a dead zone, or returns true if less than half of it is written, so that it can be written on without a reset.
    fn revive(&self, state: &mut MutexGuard<'_, State>, zone: u32) -> bool {
        let spacious = state.zones.get(zone as usize).is_some_and(|slot| slot.room() * 2 > slot.capacity);
        if !spacious {
            self.reset_zones(state, &[zone]);
        }
        spacious
    }

    /// Counts one more writer of a zone, and returns the zone.
    fn begin_writing(&self, state: &mut State, zone: u32, want: &Want) -> u32 {
        if state.add_writer(zone, want) {
            self.device.destine(zone, want.lifetime);
        }
        self.work.notify_one();
        zone
    }

    /// Waits for free space: makes deletions durable, or lets the collector work.
    fn wait_for_room(&self, state: &mut MutexGuard<'_, State>) -> Result<Wait> {
        state.figures.waits += 1;
        let epoch = state.epoch;
        if state.has_leaving() {
            MutexGuard::unlocked(state, || self.commit_durably())?;
            if state.epoch != epoch {
                return Ok(Wait::Changed);
            }
        }
        if !self.options.fallback {
            return Ok(Wait::Hopeless);
        }
        if !self.kept.load(Ordering::Acquire) {
            return Ok(if MutexGuard::unlocked(state, || self.collect())? { Wait::Changed } else { Wait::Hopeless });
        }
        state.waiting += 1;
        self.work.notify_all();
        while state.epoch == epoch && state.idle != Some(epoch) && self.kept.load(Ordering::Acquire) && self.check_alive("append").is_ok() {
            self.room.wait(state);
        }
        state.waiting -= 1;
        Ok(if state.epoch == epoch { Wait::Hopeless } else { Wait::Changed })
    }

    /// Ends the caller's writing into the zone. `moving`: the caller is the collector.
    pub(super) fn leave(&self, zone: u32, moving: bool) {
        let mut state = self.state.lock();
        if let Some(slot) = state.zones.get_mut(zone as usize) {
            slot.writers -= 1;
            slot.movers -= u32::from(moving);
        }
        self.consider(&mut state, zone);
        state.stir();
        drop(state);
        self.room.notify_all();
    }

    /// Accounts for `written` bytes of a file in a zone, whose write pointer is now at `end`. `cause` is `None` for a move by the
    /// collector.
    pub(super) fn wrote(&self, zone: u32, cell: &SharedFile, cause: Option<Cause>, written: Written, end: u64) {
        let mut state = self.state.lock();
        let total = written.total();
        let zone_size = self.device.geometry().zone_size as f64;
        match cause {
            Some(cause) => {
                state.clock += total;
                state.credit = (state.credit + total as f64 * self.options.pace).min(zone_size);
                state.figures.host.entry(cause).or_default().add(written);
            }
            None => {
                state.credit = (state.credit - total as f64).max(-zone_size);
                state.figures.moved.add(written);
            }
        }
        let clock = state.clock;
        if let Some(slot) = state.zones.get_mut(zone as usize) {
            slot.add(cell.id, total, &cell.about);
            slot.touched = clock;
            slot.written = slot.written.max(end);
            if slot.written == slot.capacity {
                slot.condition = Condition::Full;
            }
        }
    }

    /// Ends a zone after a failed write: finishes it if the drive does that. Nothing is written to it any more.
    pub(super) fn end_zone(&self, zone: u32) {
        let mut state = self.state.lock();
        match state.zones.get_mut(zone as usize) {
            Some(slot) if slot.condition == Condition::Open && !slot.busy => slot.busy = true,
            // Another writer of the zone has ended it already.
            _ => return,
        }
        state.figures.failed_zones += 1;
        let condition = MutexGuard::unlocked(&mut state, || self.finished(zone).unwrap_or_else(|left| left));
        if let Some(slot) = state.zones.get_mut(zone as usize) {
            slot.busy = false;
            slot.condition = condition;
        }
        // The zone may no longer count as active, so that another one can be opened.
        state.stir();
        drop(state);
        self.room.notify_all();
    }

    /// Finishes a zone and returns its new condition; `Err` with the condition if the drive fails to finish it: read-only or offline if the
    /// drive says so, otherwise [`Condition::Ended`], which counts as active.
    fn finished(&self, zone: u32) -> std::result::Result<Condition, Condition> {
        let Err(_) = self.device.finish(zone) else { return Ok(Condition::Full) };
        let found = self.device.report(zone, 1).ok().and_then(|found| found.first().map(|zone| zone.state));
        Err(found.and_then(broken).unwrap_or(Condition::Ended))
    }

    /// Marks the zone as due for a reset, if everything in it is dead and the policy says so.
    pub(super) fn consider(&self, state: &mut State, zone: u32) {
        let Some(slot) = state.zones.get(zone as usize).filter(|slot| slot.is_dead()) else { return };
        let space = state.space();
        let lifetime = state.catalog.zones.get(zone as usize).map_or(0, |note| note.lifetime);
        let written = if slot.condition == Condition::Open { slot.written } else { slot.capacity };
        let dead = Dead { lifetime, capacity: slot.capacity, written };
        if self.options.reset.is_due(dead, space) && !state.due.contains(&zone) {
            state.due.push(zone);
        }
    }

    /// Resets zones that are due. First asks the policy again about all dead zones, because space may have become short.
    pub(super) fn reset_due(&self) {
        let mut state = self.state.lock();
        for zone in 0..state.zones.len() as u32 {
            self.consider(&mut state, zone);
        }
        let due = std::mem::take(&mut state.due);
        if !due.is_empty() {
            self.reset_zones(&mut state, &due);
        }
    }

    /// Resets those of the given zones that are dead. Does nothing if the volume takes no more changes: then deletions may not be durable,
    /// and the next open may find the files again.
    fn reset_zones(&self, state: &mut MutexGuard<'_, State>, zones: &[u32]) {
        if self.check_alive("reset").is_err() {
            return;
        }
        let mut taken: Vec<u32> = Vec::new();
        for &zone in zones {
            if let Some(slot) = state.zones.get_mut(zone as usize).filter(|slot| slot.is_dead()) {
                slot.busy = true;
                taken.push(zone);
            }
        }
        let outcomes: Vec<(u32, Option<ZoneState>)> = MutexGuard::unlocked(state, || {
            let reset = |zone: u32| {
                let state = match self.device.reset(zone) {
                    Ok(()) => Some(ZoneState::Empty),
                    // Only the drive knows the zone's present state.
                    Err(_) => self.device.report(zone, 1).ok().and_then(|found| found.first().map(|zone| zone.state)),
                };
                if let Some(head) = self.heads.get(zone as usize).filter(|_| state == Some(ZoneState::Empty)) {
                    *head.lock() = 0;
                }
                (zone, state)
            };
            taken.into_iter().map(reset).collect()
        });
        for (zone, found) in outcomes {
            let Some(slot) = state.zones.get_mut(zone as usize) else { continue };
            slot.busy = false;
            slot.stuck = found != Some(ZoneState::Empty);
            if slot.stuck {
                slot.condition = found.and_then(broken).unwrap_or(slot.condition);
                continue;
            }
            let unwritten = if slot.condition == Condition::Full { 0 } else { slot.capacity - slot.written };
            let logged = std::mem::take(&mut slot.logged);
            (slot.condition, slot.written, slot.filled) = (Condition::Empty, 0, ByLifetime::default());
            let note = state.catalog.zones.get(zone as usize).copied().unwrap_or_default();
            state.figures.resets.add(of_number(note.lifetime), 1);
            state.figures.log_resets += u64::from(logged);
            state.figures.reset_unwritten += unwritten;
            state.log(&Edit::Zone { zone, note: ZoneNote { resets: note.resets + 1, ..ZoneNote::default() } });
            // Only for zones that were reset: waiting writers would be woken in vain for others.
            state.stir();
        }
        self.room.notify_all();
    }

    /// Finishes partly written zones beyond the number that may be active, when a volume is opened: a power cut that took the ends of full
    /// zones may leave more, and then the metadata finds no zone to open. Zones with the least unwritten bytes come first. Zones in which a
    /// file was cut (`cut`) come last: until the cut is in the metadata, a second power cut would make the padding behind the write pointer
    /// part of the file.
    pub(super) fn keep_to_places(&self, cut: &BTreeSet<u32>) {
        let Some(places) = places(self.device.geometry().max_active) else { return };
        let mut state = self.state.lock();
        let mut held: Vec<(bool, u64, u32)> = (0..)
            .zip(&state.zones)
            .filter(|(_, slot)| slot.condition == Condition::Open)
            .map(|(zone, slot)| (cut.contains(&zone), slot.room(), zone))
            .collect();
        held.sort_unstable();
        let surplus = held.len().saturating_sub(places as usize);
        for (_, _, zone) in held.into_iter().take(surplus) {
            self.finish_zone(&mut state, zone);
        }
    }

    fn finish_zone(&self, state: &mut MutexGuard<'_, State>, zone: u32) {
        let Some(slot) = state.zones.get_mut(zone as usize) else { return };
        slot.busy = true;
        let outcome = MutexGuard::unlocked(state, || self.finished(zone));
        let Some(slot) = state.zones.get_mut(zone as usize) else { return };
        slot.busy = false;
        let padding = slot.capacity - slot.written;
        slot.condition = outcome.unwrap_or_else(|left| left);
        if outcome.is_ok() {
            state.figures.finishes += 1;
            state.figures.finish_padding += padding;
        }
        self.consider(state, zone);
    }
}
