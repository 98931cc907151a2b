//! Positions of the deadlines of keys and fields, from which the search for passed ones starts.

use super::layout::Bounds;

/// Positions before which there are no deadlines. A walk that starts there does not pass the dead engine keys of deadlines that were
/// removed. Otherwise, of many deadlines in one millisecond, each walk would pass all before.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Lower bound of all deadlines of keys, and of the earliest ones of fields.
    pub first: u64,
    /// Engine key of such a deadline; there is none before it.
    key: Vec<u8>,
    /// Id of the hash in which a deadline was found or removed last, and the engine key of that deadline; the hash has none before it.
    field: (u64, Vec<u8>),
}

impl Due {
    /// Notes a deadline that is added for a key, at this engine key.
    pub fn add_key(&mut self, deadline: u64, place: &[u8]) {
        self.first = self.first.min(deadline);
        if place < self.key.as_slice() {
            self.key.clear();
        }
    }

    /// Notes that all deadlines of keys before an engine key are removed.
    pub fn reach_key(&mut self, place: &[u8]) {
        place.clone_into(&mut self.key);
    }

    /// A range of deadlines of keys without a beginning that is empty.
    pub fn cut_keys(&self, bounds: Bounds) -> Bounds {
        cut(bounds, &self.key)
    }

    /// Notes a deadline that is added for a field of a hash, at this engine key.
    pub fn add_field(&mut self, id: u64, place: &[u8]) {
        if self.field.0 == id && place < self.field.1.as_slice() {
            place.clone_into(&mut self.field.1);
        }
    }

    /// Notes that all deadlines of a hash before an engine key are removed.
    pub fn reach_field(&mut self, id: u64, place: &[u8]) {
        self.field.0 = id;
        place.clone_into(&mut self.field.1);
    }

    /// A range of deadlines of a hash without a beginning that is empty.
    pub fn cut_fields(&self, id: u64, bounds: Bounds) -> Bounds {
        if self.field.0 == id { cut(bounds, &self.field.1) } else { bounds }
    }
}

/// A range without the part before an engine key, if the key is in it.
pub(super) fn cut((from, to): Bounds, place: &[u8]) -> Bounds {
    if from.as_slice() < place && place < to.as_slice() { (place.to_vec(), to) } else { (from, to) }
}
