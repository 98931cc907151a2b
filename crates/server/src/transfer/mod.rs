//! Whole keyspaces from and to the files that a Redis server has: RDB files, logs of commands (AOF), and directories of both.
//!
//! Reading order: `found` (which files there are), `rdb` (an RDB file, key by key), `log` (a log, command by command), `import`, `export`.
//!
//! An import reads everything twice. The first time it only looks: damage and what is not supported are found before anything is written.
//! Then it fills a keyspace beside the one that is there, and puts it in that one's place when it is whole.

mod error;
mod export;
mod found;
mod import;
mod log;
mod rdb;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use export::{export_log, export_rdb};
pub use import::{Damage, Found, Report};
