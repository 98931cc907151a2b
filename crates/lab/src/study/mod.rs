//! Studies as data. In reading order: [`plan`] says what a study is (cells, order of runs, hypotheses with their rule), [`catalogue`] has
//! the ones that come with the laboratory and makes one of a user's own workload, [`conduct`] runs it, one child process per run,
//! [`folder`] keeps the results and [`mod@archive`] puts them into one file, [`judge`] applies the rule to them.

mod adaptive_compression;
mod aof_rewrite;
pub mod archive;
pub mod catalogue;
mod compaction_wal_waf;
pub mod conduct;
pub mod folder;
pub mod judge;
mod large_load;
mod memory_and_limits;
pub mod metric;
mod only;
pub mod own;
pub mod plan;
mod redis_speed;
pub mod servers;
pub mod settings;
mod side_by_side;
mod time_aware_tiering;
mod zone_allocation;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

/// Why a study did not go on.
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
