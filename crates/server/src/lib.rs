//! A Redis-protocol server on SinterDB.
//!
//! From the bottom, each module importing only lower ones (docs/decisions/0020):
//!
//! * [`number`]: numbers as Redis reads and writes them; [`system`]: what the system says; [`log`]: what the server says
//! * [`resp`]: requests and replies as bytes
//! * [`glob`]: patterns; [`wide`]: floating-point numbers as `INCRBYFLOAT` needs them
//! * [`keyspace`]: keys and what they hold, on the engine
//! * [`command`]: what the commands do, one file per family
//! * [`net`]: clients over TCP

pub mod command;
pub mod glob;
pub mod keyspace;
pub mod log;
pub mod net;
pub mod number;
pub mod resp;
pub mod system;
#[cfg(test)]
mod testing;
pub mod wide;
