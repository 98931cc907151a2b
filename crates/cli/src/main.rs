//! `sinter`: the command. Thin: it reads flags, calls the library, prints. Exit codes: 0 done, 1 something failed or is damaged, 2 the
//! request was wrong, 3 (`check` alone) opening would cut the end of a log, 130 ended by Ctrl-C.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "these macros panic when the output is full or closed")]

mod advise;
mod background;
mod bench;
mod check;
mod descriptors;
#[cfg(test)]
mod documentation;
mod ended;
mod flags;
mod inspect;
mod report;
mod run;
mod serve;
mod signals;
mod store;
mod study;
mod transfer;
mod zones;

use clap::{CommandFactory, Parser, Subcommand};
use ended::Ended;
use sinter_storage::store::give_back_when_freed;
use sinterdb::internal::limits::{MemoryLimit, ProcessLimits};
use std::path::Path;
use std::process::ExitCode;

/// SinterDB: a key-value store that can say, for every byte written, why.
///
/// Each command raises its limit of open files to the hard one (ulimit -Hn).
#[derive(Debug, Parser)]
#[command(name = "sinter", version, rename_all = "snake_case")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve data to Redis clients.
    Serve(serve::ServeFlags),
    /// Take over the data of a Redis server from its files.
    Import(transfer::ImportFlags),
    /// Write the data into files that a Redis server loads.
    Export(transfer::ExportFlags),
    /// Run db_bench's workloads, with db_bench's flags.
    Bench(Box<bench::BenchFlags>),
    /// Show what is in a database.
    Inspect(inspect::InspectFlags),
    /// Read and verify everything; name any damage, and what opening would cut. Exit codes: 0 clean, 1 damaged, 2 not a database,
    /// 3 not damaged, but opening would cut the end of a log.
    Check(check::CheckFlags),
    /// Say which compaction settings would write least for a workload, before running it.
    Advise(advise::AdviseFlags),
    /// Run a study: many settings, repeats in random order, verdicts.
    Study(study::StudyFlags),
    /// Do one run of the laboratory: its spec as JSON on stdin, its record on stdout (docs/lab/lab.md).
    Run,
    /// Make, draw, verify, copy and restore volumes on zoned drives.
    Zones(zones::ZonesFlags),
    /// Draw the results of studies as a page, or compare several.
    Report(report::ReportFlags),
}

/// Memory limit below which the allocator must not keep freed memory, bytes: if it does, the kernel kills a process that has 64 MiB.
const LITTLE_MEMORY: u64 = 512 << 20;

/// Size from which on freed memory goes back to the kernel at once, under [`LITTLE_MEMORY`], bytes.
const LITTLE_BOUND: i32 = 128 << 10;
/// Size from which on a server gives freed memory back, bytes: it runs for long, beside other programs.
const SERVER_BOUND: i32 = 1 << 20;

fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(ended) => ended.report(),
    }
}

fn dispatch() -> Result<ExitCode, Ended> {
    let words: Vec<_> = flags::normalise(std::env::args_os()).collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return flags::explain(&error, Cli::command(), &words),
    };
    if !matches!(cli.command, Command::Serve(_)) {
        // If the limit cannot be raised, fewer tables stay open. A server logs the result.
        let _ = descriptors::raise();
    }
    let limits = ProcessLimits::find(Path::new("/")).memory();
    if MemoryLimit::tightest(&limits).is_some_and(|bytes| bytes < LITTLE_MEMORY) {
        give_back_when_freed(LITTLE_BOUND);
    } else if matches!(cli.command, Command::Serve(_)) {
        give_back_when_freed(SERVER_BOUND);
    }
    match cli.command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Import(flags) => transfer::import(&flags),
        Command::Export(flags) => transfer::export(&flags),
        Command::Bench(flags) => bench::run(&flags),
        Command::Inspect(flags) => inspect::run(&flags),
        Command::Check(flags) => check::run(&flags),
        Command::Advise(flags) => advise::run(&flags),
        Command::Study(flags) => study::run(&flags),
        Command::Run => Ok(run::run()),
        Command::Report(flags) => report::run(&flags),
        Command::Zones(flags) => zones::run(&flags),
    }
}
