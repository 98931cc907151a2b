//! `sinter-rivals run`: the laboratory's runner for RocksDB and fjall. It reads a run's spec from standard input and prints its record, as
//! `sinter run` does; it serves SinterDB too, so that one program can run all three.
//!
//! In reading order: [`asked`] is what a spec asks of any engine; [`rocks_db`] and [`fjall_db`] open theirs accordingly.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "these macros panic when the output is full or closed")]

mod asked;
mod fjall_db;
mod rocks_db;
#[cfg(test)]
mod tests;

use sinter_lab::drive::{SinterEngine, execute, serve};
use std::io::{self, Write};
use std::process::ExitCode;

/// Name of the program in what it says.
const PROGRAM: &str = "sinter-rivals";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["run"] {
        let _ = writeln!(io::stderr(), "{PROGRAM}: usage: {PROGRAM} run < SPEC.json > RECORD.json");
        return ExitCode::from(2);
    }
    serve(PROGRAM, &["rocksdb", "fjall", "sinter"], |spec, stop| match spec.engine.name.as_str() {
        "rocksdb" => execute(&rocks_db::Rocks, spec, stop),
        "fjall" => execute(&fjall_db::Fjall, spec, stop),
        _ => execute(&SinterEngine, spec, stop),
    })
}

/// The versions that this program is built with.
const LOCK: &str = include_str!("../Cargo.lock");

/// The version of a package as Cargo.lock has it, such as `0.19.0+11.8.1`; empty if there is none of that name.
fn locked_version(package: &str) -> &'static str {
    let name = format!("name = \"{package}\"");
    let entry = LOCK.split("[[package]]").find(|entry| entry.lines().any(|line| line == name)).unwrap_or_default();
    let version = entry.lines().find_map(|line| line.strip_prefix("version = "));
    version.unwrap_or_default().trim_matches('"')
}
