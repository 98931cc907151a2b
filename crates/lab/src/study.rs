//! Studies as data. In reading order: [`plan`] describes a study (cells, order of runs, hypotheses with their rules), [`catalogue`] has the
//! studies of the laboratory and makes one of a user's own workload, [`conduct`] runs a study, one child process per run, [`forecast`] says
//! how long it takes, [`folder`] stores the results and [`mod@archive`] puts them into one file, [`judge`] applies the rules to them,
//! [`factor`] has the names of factors for people.

mod adaptive_compression;
mod aof_rewrite;
pub mod archive;
pub mod catalogue;
mod compaction_wal_waf;
pub mod conduct;
pub mod factor;
pub mod finding;
pub mod folder;
pub mod forecast;
pub mod judge;
mod large_load;
mod memory_and_limits;
pub mod metric;
mod only;
pub mod own;
pub mod plan;
mod redis_speed;
mod server_cells;
pub mod servers;
pub mod settings;
mod side_by_side;
mod time_aware_tiering;
mod whole;
mod zone_allocation;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

/// Reason why a study ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The request is wrong; one line.
    Request(String),
    /// Something failed; one line.
    Failed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Error::Request(what) | Error::Failed(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Error {}
