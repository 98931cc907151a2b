//! The set of tables that make up the database: pure descriptions ([`TableInfo`], [`Run`], [`Version`]), the edits that lead from one
//! version to the next, and the log that keeps the edits.

mod apply;
mod edit;
mod log;
mod state;
#[cfg(test)]
mod tests;
mod version;

pub use apply::{Change, RunLocation};
pub use edit::{Edit, KnownTier, NewFamily, TableChange, TierHeat};
pub use log::{Loaded, ManifestLog, ROTATE_BYTES, catch_up, load};
pub use state::{FamilyState, ManifestState, Prepared};
pub use version::{KeyRange, LevelRuns, OwnTimes, Run, TableInfo, Version};
