//! Conversion between keys and Redis's format: loading values, and writing keys.

mod load;
pub mod manifest;
mod save;
mod streams;
#[cfg(test)]
mod tests;

pub use load::{Error as LoadError, Pieces, Visit, check, load};
pub use save::{Contents, Error as SaveError, LongDump, Selection, dump, save_file, sync_directory, write_image};
