//! `sinter run`: runs one spec on the engine `sinter` or on a server.

use sinter_lab::drive::{SinterEngine, execute, serve};
use sinter_lab::run::SERVERS;
use std::process::ExitCode;

/// Reads a spec from stdin and prints its record.
pub fn run() -> ExitCode {
    serve("sinter", &SERVERS, |spec, stop| execute(&SinterEngine, spec, stop))
}
