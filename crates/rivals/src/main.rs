//! `sinter-rivals run`: the laboratory's runner for RocksDB and fjall. Reads a run's spec from standard input and prints its record, as `sinter run`
//! does, which it can stand in for: one driver, one program, three engines.
//!
//! In reading order: [`asked`] is what a spec asks of any engine, [`rocks_db`] and [`fjall_db`] open their engine accordingly, [`tally`] is what both
//! need beside it.

mod asked;
mod fjall_db;
mod rocks_db;
mod tally;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
