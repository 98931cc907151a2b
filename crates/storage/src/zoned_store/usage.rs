//! The present contents of a volume's zones: the shares of the drive, and the figures with them.

use super::figures::{Figures, Shares};
use super::slot::Condition;
use super::volume::Volume;
use crate::store::{Beneath, ZonesNow};

impl Volume {
    pub(super) fn shares(&self) -> Shares {
        let state = self.state.lock();
        let mut shares = Shares::default();
        let metadata = self.layout.first..self.layout.data();
        for (zone, slot) in (0..).zip(&state.zones) {
            let tables = slot.tables().min(slot.capacity);
            shares.tables += tables;
            match slot.condition {
                Condition::Reserved if metadata.contains(&zone) => shares.metadata += slot.capacity,
                Condition::Reserved | Condition::ReadOnly | Condition::Offline => shares.unusable += slot.capacity - tables,
                Condition::Empty | Condition::Open | Condition::Full | Condition::Ended => {
                    let free = slot.free().min(slot.capacity - tables);
                    let pinned = slot.pinned();
                    shares.free += free;
                    shares.pinned += pinned;
                    shares.stranded += (slot.capacity - tables - free).saturating_sub(pinned);
                }
            }
        }
        shares
    }

    pub(super) fn figures(&self) -> Figures {
        self.state.lock().figures.clone()
    }

    pub(super) fn beneath(&self) -> Beneath {
        let state = self.state.lock();
        let mut now = ZonesNow::default();
        for (slot, note) in state.zones.iter().zip(&state.catalog.zones) {
            match slot.condition {
                Condition::Reserved => {
                    now.wear_metadata = now.wear_metadata.max(note.resets);
                    continue;
                }
                Condition::Empty => now.empty += 1,
                Condition::ReadOnly | Condition::Offline => now.broken += 1,
                Condition::Open | Condition::Full | Condition::Ended => {}
            }
            now.wear_least = if now.all == 0 { note.resets } else { now.wear_least.min(note.resets) };
            now.wear_most = now.wear_most.max(note.resets);
            now.wear_total += note.resets;
            now.all += 1;
            now.capacity += slot.capacity;
            now.written += slot.written;
            now.live += slot.valid;
        }
        state.figures.beneath(now)
    }
}
