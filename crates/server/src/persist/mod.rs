//! Between keys and bytes: what a value in Redis's format becomes here, and how keys are written in it.

mod load;
pub mod manifest;
mod save;
mod streams;
#[cfg(test)]
mod tests;

pub use load::{Error as LoadError, Pieces, Visit, check, load};
pub use save::{Contents, Error as SaveError, LongDump, dump, save_file, sync_directory, write_image};
