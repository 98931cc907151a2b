//! Age and temperature: where data lies by how old it is, as far as that needs neither the tree nor the database.
//!
//! `age` maps sequence numbers to write times, `auto_cutoff` chooses the age up to which data stays above the last level, `identity` tells
//! the stores of a database apart, `fallback` creates a table on the tier of its temperature or, if that is full, on a hotter one.
//!
//! Pickers and merges by age are in `compaction` (`young`, `demote`, `split_by_age`, `output_temperature`), the work with stores and
//! clocks in `db` (`mover`, `tier_stores`, `time_samples`, `cutoff_review`).

pub mod age;
pub mod auto_cutoff;
pub mod fallback;
pub mod identity;

use sinter_storage::store::Temperature;

/// Name of a store.
pub fn tier_name(temperature: Temperature) -> &'static str {
    if temperature == Temperature::Unknown { "primary" } else { temperature.name() }
}
