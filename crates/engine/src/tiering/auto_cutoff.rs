//! Up to which age a family's data is kept from the last level, if the settings leave it to the engine (`preclude_last_level_data_seconds =
//! "auto"`). Pure: nothing here knows tables, threads or clocks.
//!
//! `ages` is a histogram by age, `heat` counts what is touched at which age, `sample` knows how many bytes are alive and how old, `choose`
//! is the rule and `cutoff` keeps what the choice rests on. docs/engine/tiering.md explains it to users.

pub mod ages;
pub mod choose;
pub mod cutoff;
pub mod heat;
pub mod sample;
#[cfg(test)]
mod tests;

pub use ages::Ages;
pub use cutoff::{Auto, Observed};
pub use heat::Heat;
pub use sample::{Drawing, Holding};
