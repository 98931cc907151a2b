//! The inside, for SinterDB's own tools, tests and fuzzers. Not a part of the interface: any release may change it.
//!
//! Modules stand in ranks; each imports only its own and lower ones (`crates/cli/tests/layers.rs` enforces it). From the bottom:
//!
//! * words: `key`, `coding`, `checksum`, `codec`, `cursor`, `prefetch`; `limits` and `cpu`: what confines the process
//! * parts of files and of memory: `filter`, `cache`, `range_del`, `table`, `wal`, `memtable`; `tiering`: age and temperature
//! * many sources as one: `merge`, `run_cursor`, `visible`
//! * the tree: `manifest`, `compaction`, `pacing`, `memory_split`
//! * the database: `db`

macro_rules! inside {
    ($($module:ident)*) => {$(
        #[doc = concat!("All of `", stringify!($module), "`.")]
        pub mod $module {
            pub use crate::$module::*;
        }
    )*};
}

inside! {
    cache checksum codec coding compaction cpu cursor db filter key limits manifest memory_split memtable merge pacing prefetch
    range_del run_cursor table visible wal
}

/// Age and temperature.
pub mod tiering {
    pub use crate::tiering::{age, auto_cutoff, identity};
}

/// Readers and writers of the forms in which settings are text.
pub mod settings {
    pub use crate::settings::confined::{Confined, confine};
    pub use crate::settings::reference::reference;
    pub use crate::settings::size::{UNLIMITED, format_bytes, format_compression, format_seconds};
    pub use crate::settings::size::{parse_bytes, parse_compression, parse_count, parse_seconds};
}

/// Counters as text.
pub mod ledger {
    pub use crate::ledger::statistics::dump;
}
