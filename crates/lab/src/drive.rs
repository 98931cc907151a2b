//! Executes one [`RunSpec`](crate::run::RunSpec) in this process and gives its record. In reading order: `execute` goes through the phases,
//! `phase` starts the threads of one (`together`), `requests` draws the requests of a thread, `client` makes them, `pacer` holds them to a
//! rate, `gauge` counts meanwhile, `sampler` reads everything once a second, `books` and `alive` carry figures from phase to phase,
//! `replay` is for traces, `limits` confines the process, `permits` finds the permitted limits, and `serve` is the program around a run.
//! `server` is the counterpart for an engine that is a server.

mod alive;
mod books;
mod client;
mod directory;
mod execute;
mod gauge;
mod interrupted;
mod limits;
mod pacer;
mod permits;
mod phase;
mod replay;
pub(crate) mod requests;
mod sampler;
mod serve;
mod server;
mod sinter;
mod together;

pub use execute::{Failed, Watch, execute, execute_watched, remove_left};
pub use interrupted::Interrupted;
pub use permits::{permitted_disk, permitted_memory, permitted_processors, permitted_quota};
pub use serve::{INTERRUPTED, serve, stop_on_signal};
pub use sinter::SinterEngine;

use crate::run::{EngineSpec, Source};
use crate::system::{Outcome, System};
use std::collections::BTreeMap;
use std::path::Path;

/// A kind of store that specs can name: SinterDB here, others in crates of their own.
pub trait Engine {
    /// Store that the engine opens.
    type System: System;

    /// Opens an empty store with all families of the spec (in the spec's order) in `directory`, which exists and is empty. With
    /// [`EngineSpec::in_place`], `directory` is the store's own place, and may have one in it.
    ///
    /// # Errors
    /// Settings that cannot be read, one line that names each, and failures of the engine.
    fn open(&self, spec: &EngineSpec, directory: &Path) -> Outcome<Opened<Self::System>>;
}

/// An open store, and its description for the record.
pub struct Opened<T> {
    /// The store.
    pub system: T,
    /// Name and version, such as `sinterdb 0.1.0`.
    pub version: String,
    /// Settings of the spec that have no effect in this engine, each with the reason where one is known.
    pub ignored_settings: Vec<String>,
    /// Compression reported by the engine, by family, in its own words; empty without a report.
    pub compression: BTreeMap<String, String>,
    /// Source of the system's [`Figures::written`](crate::system::Figures::written). For [`Source::Process`] the driver fills them in (one
    /// cause, `process`), so that the system may leave them empty.
    pub source: Source,
}

#[cfg(test)]
mod tests;
