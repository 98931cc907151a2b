//! Sorted tables. STUB

mod builder;
mod reader;

pub use builder::{TableBuilder, TableOptions};
pub use reader::{ReadOptions, ScanCursor, Table, TableCursor, TableProperties};
