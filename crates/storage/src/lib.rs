//! Media and files below SinterDB. Programs use what of it `sinterdb::store` passes on; that is also all that the promise of stable
//! versions is about. The rest, hidden from this documentation, serves SinterDB's own tools and tests.
//!
//! The engine sees one seam, [`store::Store`]: append-only files that are sealed and then immutable.
//! There is no rename, no truncation and no write in place, because a zone of a zoned device cannot do
//! them and nothing in a log-structured store needs them.

#[doc(hidden)]
pub mod backup;
mod combined_sync;
mod locked;
pub mod place;
mod random;
pub mod store;
#[doc(hidden)]
pub mod zoned;
#[doc(hidden)]
pub mod zoned_store;
