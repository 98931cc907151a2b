//! A Redis-protocol server on SinterDB.
//!
//! From the bottom, each module importing only lower ones (docs/decisions/0020):
//!
//! * [`number`]: numbers as Redis reads and writes them
//! * [`resp`]: requests and replies as bytes
//! * [`glob`]: patterns; [`wide`]: floating-point numbers as `INCRBYFLOAT` needs them
//! * [`rdb`]: Redis's file format as bytes
//! * [`keyspace`]: keys and what they hold, on the engine
//! * [`persist`]: keys from and to that format
//! * [`command`]: what the commands do, one file per family
//! * [`transfer`]: import and export of files
//! * [`net`]: clients over TCP

pub mod command;
pub mod glob;
pub mod keyspace;
pub mod net;
pub mod number;
pub mod persist;
pub mod rdb;
pub mod resp;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod wide;
