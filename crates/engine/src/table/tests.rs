//! Tables against a vector of rows: every key shape, block size and codec; damage; copies; a small cache under threads.

mod ages;
mod ahead;
mod copy;
mod damage;
mod golden;
mod hostile;
mod model;
mod packed;
mod support;
mod two_parts;
