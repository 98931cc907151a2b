//! `sinter run`: the runner of the engine `sinter`.

use sinter_lab::drive::{SinterEngine, execute, serve};
use std::process::ExitCode;

/// Reads a spec from stdin and prints its record.
pub fn run() -> ExitCode {
    serve("sinter", &["sinter"], |spec, stop| execute(&SinterEngine, spec, stop))
}
