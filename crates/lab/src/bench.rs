//! db_bench's workloads over any target: what to run ([`Workload`], [`BenchConfig`]), the loops that are measured, and the driver that
//! starts threads around them and turns their tallies into results.

mod config;
mod drive;
mod operations;
mod pacer;
mod probe;
mod workloads;

pub use config::BenchConfig;
pub use drive::{Bench, Failed};
pub use probe::Progress;
pub use workloads::{Workload, parse_workloads};

#[cfg(test)]
mod tests;
