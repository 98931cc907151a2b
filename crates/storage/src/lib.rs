//! Media and files below SinterDB.
//!
//! The engine sees one seam, [`store::Store`]: append-only files that are sealed and then immutable.
//! There is no rename, no truncation and no write in place, because a zone of a zoned device cannot do
//! them and nothing in a log-structured store needs them.

mod locked;
mod random;
pub mod store;
pub mod zoned;
