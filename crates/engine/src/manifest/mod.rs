//! Which tables make up the database: pure descriptions ([`TableInfo`], [`Run`], [`Version`]), the edits that lead from one version to
//! the next, and the log that keeps the edits.

mod version;
pub use version::{KeyRange, LevelRuns, Run, TableInfo, Version};
