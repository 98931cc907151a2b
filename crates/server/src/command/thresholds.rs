//! Sizes at which Redis changes the way in which it keeps a value: what `OBJECT ENCODING` answers by, and up to which a HyperLogLog is
//! sparse.

/// Elements of a collection, and bytes of each of them, up to which Redis packs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Elements.
    pub elements: u64,
    /// Bytes of the longest.
    pub bytes: u64,
}

/// What each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Hashes.
    pub hash: Packed,
    /// Elements of sets of integers.
    pub integers: u64,
    /// Sorted sets.
    pub sorted_set: Packed,
    /// Bytes up to which a HyperLogLog stays sparse.
    pub sparse_hyperloglog: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            hash: Packed { elements: 512, bytes: 64 },
            integers: 512,
            sorted_set: Packed { elements: 128, bytes: 64 },
            sparse_hyperloglog: 3000,
        }
    }
}
