//! Workloads as pure functions of a seed: the same seed gives the same keys and values on every machine and in every later version, so
//! a stream can also be played again after a measurement (to count live keys) instead of being watched during it.

mod keys;
mod latest;
mod live;
mod permutation;
mod random;
mod sizes;
pub mod trace;
mod values;
mod zipf;

pub use keys::{Distribution, KeyCoder, KeyStream};
pub use latest::{Latest, Recent};
pub use live::LiveKeys;
pub use permutation::Permutation;
pub use random::{Xoshiro256PlusPlus, mix};
pub use sizes::ValueSizes;
pub use values::{ValuePool, Values};
pub use zipf::Zipf;

#[cfg(test)]
mod tests;
