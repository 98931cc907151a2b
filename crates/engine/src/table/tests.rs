//! Tables against a vector of rows: every key shape, block size and codec; damage; copies; a small cache under threads.

mod ages;
#[cfg(feature = "default")]
mod ahead;
#[cfg(feature = "default")]
mod copy;
#[cfg(feature = "default")]
mod damage;
mod golden;
mod hostile;
#[cfg(feature = "default")]
mod model;
#[cfg(feature = "default")]
mod packed;
#[cfg_attr(not(feature = "default"), expect(dead_code, reason = "most tests compress"))]
mod support;
#[cfg(feature = "default")]
mod two_parts;
