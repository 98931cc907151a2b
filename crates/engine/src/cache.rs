//! The block cache. STUB: the owner may change everything but `new`, `capacity`, `set_capacity`, `used`, `hits`/`misses`.

/// A byte budget shared by data blocks, indexes and filters of all tables.
#[derive(Debug)]
pub struct Cache {}

impl Cache {
    /// A cache of `capacity` bytes.
    pub fn new(_capacity: u64) -> std::sync::Arc<Cache> {
        unimplemented!()
    }
    /// The budget, bytes.
    pub fn capacity(&self) -> u64 {
        unimplemented!()
    }
    /// Changes the budget; evicts down to it.
    pub fn set_capacity(&self, _bytes: u64) {
        unimplemented!()
    }
    /// Bytes held now.
    pub fn used(&self) -> u64 {
        unimplemented!()
    }
}
