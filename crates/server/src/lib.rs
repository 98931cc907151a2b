//! A Redis-protocol server on SinterDB.
//!
//! From the bottom, each module importing only lower ones (docs/decisions/0020):
//!
//! * [`number`]: numbers as Redis reads and writes them; [`system`]: figures of the system; [`log`]: the server's log; [`tls`]:
//!   certificates and keys
//! * [`resp`]: requests and replies as bytes
//! * [`glob`]: patterns; [`wide`]: floating-point numbers as `INCRBYFLOAT` needs them; [`bits`]: strings as bits; [`hyperloglog`]: counts
//!   of distinct elements; [`geohash`]: positions on earth
//! * [`rdb`]: Redis's file format as bytes
//! * [`keyspace`]: keys and values, on the engine
//! * [`persist`]: conversion of keys to and from that format
//! * [`feed`]: effects of requests, for logs and replicas; [`append`]: a log of commands in Redis's format, beside the engine's own
//! * [`replication`]: the replication stream and who reads it
//! * [`command`]: the commands, one file per family
//! * [`transfer`]: import and export of files
//! * [`net`]: clients over TCP

pub mod append;
pub mod bits;
pub mod command;
pub mod feed;
pub mod geohash;
pub mod glob;
pub mod hyperloglog;
pub mod keyspace;
pub mod log;
pub mod net;
pub mod number;
pub mod persist;
pub mod rdb;
pub mod replication;
pub mod resp;
pub mod system;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod transfer;
pub mod wide;
