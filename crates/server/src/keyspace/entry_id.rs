//! The ids of a stream's entries.

use std::fmt;

/// The id of an entry: milliseconds and a sequence number among those of the same millisecond. Ids order as entries do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId(u128);

/// Bytes of an id in a key.
pub(super) const ENTRY_ID: usize = 16;

impl EntryId {
    /// Before all ids that an entry can have.
    pub const MIN: EntryId = EntryId(0);
    /// The last id.
    pub const MAX: EntryId = EntryId(u128::MAX);

    /// The id of these two numbers.
    pub fn new(ms: u64, seq: u64) -> Self {
        EntryId(u128::from(ms) << 64 | u128::from(seq))
    }

    /// The milliseconds.
    pub fn ms(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The sequence number.
    pub fn seq(self) -> u64 {
        // The lower half.
        self.0 as u64
    }

    /// The next id; `None`: this is the last one.
    pub fn after(self) -> Option<Self> {
        self.0.checked_add(1).map(EntryId)
    }

    /// The id before this one; `None`: this is the first one.
    pub fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(EntryId)
    }

    /// Bytes that order as ids do.
    pub(super) fn bytes(self) -> [u8; ENTRY_ID] {
        self.0.to_be_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| EntryId(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms(), self.seq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_neighbours_and_order_as_their_bytes() {
        let id = EntryId::new(5, u64::MAX);
        assert_eq!((id.ms(), id.seq(), id.to_string()), (5, u64::MAX, "5-18446744073709551615".into()));
        assert_eq!((id.after(), EntryId::new(6, 0).before()), (Some(EntryId::new(6, 0)), Some(id)));
        assert_eq!((EntryId::MAX.after(), EntryId::MIN.before()), (None, None));
        assert!(id.bytes() < EntryId::new(6, 0).bytes() && EntryId::from_bytes(&id.bytes()) == Some(id));
        assert_eq!(EntryId::from_bytes(b"short"), None);
    }
}
