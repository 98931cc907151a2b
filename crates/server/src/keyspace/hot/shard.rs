//! A part of the index of hot keys.

/// A slot of the index: the mark of an entry, and the unit at which it lies, counted from 1; 0: empty.
pub(super) type IndexSlot = u64;

pub(super) fn place(mark: u32, unit: u32) -> IndexSlot {
    u64::from(mark) << 32 | (u64::from(unit) + 1)
}

pub(super) fn mark_of(place: IndexSlot) -> u32 {
    (place >> 32) as u32
}

pub(super) fn unit_of(place: IndexSlot) -> u32 {
    (place as u32).wrapping_sub(1)
}

/// A part of the index. Open addressing: an entry is in the slot of its mark, or behind it without a gap.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub places: Vec<IndexSlot>,
    pub len: usize,
}

impl Shard {
    /// The slot of a mark, whose first `bits` bits have chosen the shard.
    pub fn home(&self, mark: u32, bits: u32) -> usize {
        let rest = mark.checked_shl(bits).unwrap_or(0);
        ((u64::from(rest) * self.places.len() as u64) >> 32) as usize
    }

    pub fn behind(&self, at: usize) -> usize {
        if at + 1 == self.places.len() { 0 } else { at + 1 }
    }

    pub fn is_full(&self) -> bool {
        self.len + 1 > self.places.len() / 8 * 7
    }

    pub fn add(&mut self, place: IndexSlot, bits: u32) {
        let mut free = self.home(mark_of(place), bits);
        while self.places[free] != 0 {
            free = self.behind(free);
        }
        self.places[free] = place;
        self.len += 1;
    }

    /// Enlarges the shard to so many slots.
    pub fn grow(&mut self, places: usize, bits: u32) {
        let old = std::mem::replace(&mut self.places, vec![0; places]);
        self.len = 0;
        old.into_iter().filter(|place| *place != 0).for_each(|place| self.add(place, bits));
    }

    /// Empties a slot; entries behind it move up where they may.
    pub fn unlink(&mut self, place: usize, bits: u32) {
        let (mut hole, mut at) = (place, self.behind(place));
        let count = self.places.len();
        while let Some(other) = self.places.get(at).copied().filter(|other| *other != 0) {
            let from = |start: usize| (at + count - start) % count;
            if from(self.home(mark_of(other), bits)) >= from(hole) {
                self.places[hole] = other;
                hole = at;
            }
            at = self.behind(at);
        }
        self.places[hole] = 0;
        self.len -= 1;
    }
}
