//! Stores for the files of a database: the parts of `sinter-storage` that [`Builder::open_store`](crate::Builder::open_store) and
//! [`Builder::tier_store`](crate::Builder::tier_store) take, and that [`Stats`](crate::Stats) counts by.

pub use sinter_storage::place::{Place, ZonedPlace};
pub use sinter_storage::store::{
    Appender, Beneath, Cause, DirStore, FileId, FileKind, Hint, Lifetime, MemoryStore, MeterSnapshot, ReadAt, Reason, Result, Shared,
    Store, StoreError, StoreLock, SyncBeside, Temperature, ZonesNow,
};
