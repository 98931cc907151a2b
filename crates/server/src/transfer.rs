//! Import and export of whole keyspaces as files of a Redis server: RDB files, logs of commands (AOF), and directories of both.
//!
//! Reading order: `found` (the files of a path), `rdb` (an RDB file, key by key), `log` (a log, command by command), `import`, `export`.
//!
//! An import reads everything twice. The first time it only checks: damaged and unsupported parts are found before anything is written.
//! Then it fills a keyspace beside the present one, and replaces that one when the new one is whole.

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
