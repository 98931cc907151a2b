//! Sorted tables: immutable files of entries ordered by (user key ascending, trailer descending).
//!
//! ```text
//! data blocks | filter | range tombstones | dictionary | index | properties | footer
//! ```
//!
//! Reading order: `block` (how a search in a block works) and `block_builder`, `index` (how a block is found), `frame` (checksums and
//! compression around every block), `footer` and `properties`; then `builder` writes a table (`window` and `pack`: with
//! compression in other threads), `reader` opens one and answers gets, `cursor`
//! walks it through the cache, `scan` walks it past the cache for compactions, `verify` checks every byte, `copy` writes it again as it
//! is. `search` has the machine-specific code. The byte-by-byte format is in docs/engine/format.md.

pub mod block;
mod block_builder;
mod builder;
mod copy;
mod counted;
mod cursor;
mod footer;
mod frame;
pub mod index;
mod pack;
mod properties;
mod reader;
mod resident;
mod scan;
mod search;
mod verify;
mod window;

pub use builder::{TableBuilder, TableOptions};
pub use counted::{ReadSummary, ReadTimes, SLOW_GUESS_NS};
pub use cursor::TableCursor;
pub use footer::FORMAT_VERSION;
pub use pack::Packers;
pub use properties::TableProperties;
pub use reader::{ReadOptions, Table};
pub use scan::ScanCursor;
pub use verify::verify_alone;

#[cfg(test)]
mod tests;
