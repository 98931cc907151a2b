//! Conversion between keys and Redis's format: loading values, and writing keys.

mod error;
mod load;
pub mod manifest;
mod save;
mod steps;
mod streams;
#[cfg(test)]
mod tests;

pub use error::{LoadError, SaveError};
pub use load::{Pieces, Visit, check, load};
pub use save::{Contents, LongDump, Selection, dump, dump_for_valkey, save_file, sync_directory, write_image};
