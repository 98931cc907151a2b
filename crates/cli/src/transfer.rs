//! `sinter import` and `sinter export`: from and to the files of Redis servers.

use crate::ended::Ended;
use crate::serve;
use crate::store::require_database;
use clap::{Args, ValueEnum};
use sinter_server::keyspace::Keyspace;
use sinter_server::net::unix_ms;
use sinter_server::rdb::Version;
use sinter_server::transfer::{Error, Found, Report, export_log, export_rdb};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to import. Nothing is written before all of it was found to be sound. Exit code 0: done; 1: failed; 2: the request was wrong.
#[derive(Debug, Args)]
pub struct ImportFlags {
    /// A dump.rdb, an appendonly.aof, or a directory with a manifest (appendonlydir of Redis 7).
    path: PathBuf,
    /// Directory of the data, created if it is missing. No server may be running there.
    #[arg(long, default_value = "sinter-data")]
    dir: PathBuf,
    /// Remove all keys that are there first. Without it, there must be none.
    #[arg(long)]
    replace: bool,
    /// Memory for memtables, block cache and hot keys together, such as 512MB; 2MiB at least.
    #[arg(long, value_parser = serve::memory)]
    memory: Option<u64>,
}

/// What to export. Exit code 0: done; 1: failed; 2: the request was wrong.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct ExportFlags {
    /// What is to be written: it must not be there yet.
    path: PathBuf,
    /// Directory of the data. No server may be running there.
    #[arg(long, default_value = "sinter-data")]
    dir: PathBuf,
    /// rdb: a file like dump.rdb; aof: a directory like appendonlydir of Redis 7.
    #[arg(long, value_enum)]
    format: Format,
    /// Version of the RDB format: 9 (every Redis since 5.0 reads it), 10 (Redis 7.0; from here on all that is known of streams has a place)
    /// or 11 (Redis 7.2).
    #[arg(long, default_value = "9", value_parser = version)]
    rdb_version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Rdb,
    Aof,
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "9" => Ok(Version::Nine),
        "10" => Ok(Version::Ten),
        "11" => Ok(Version::Eleven),
        _ => Err("9, 10 or 11".into()),
    }
}

fn ended(error: Error) -> Ended {
    match error {
        Error::Request(what) => Ended::Usage(what),
        error => Ended::Failed(error.into()),
    }
}

/// Runs the command.
///
/// # Errors
/// Files that are damaged or not supported; a directory that holds keys already; failures of the medium.
pub fn import(flags: &ImportFlags) -> Result<ExitCode, Ended> {
    if !flags.path.exists() {
        return Err(Ended::usage(format!("{}: no such file or directory", flags.path.display())));
    }
    let found = Found::look(&flags.path).map_err(ended)?;
    let mut keyspace = serve::open_keyspace(serve::open(&flags.dir)?, flags.memory.unwrap_or(0), 0)?;
    let report = found.load(&mut keyspace, flags.replace, unix_ms()).map_err(|error| match error {
        Error::Request(what) => Ended::usage(format!("{}: {what}; --replace removes them first", flags.dir.display())),
        error => Ended::Failed(error.into()),
    })?;
    keyspace.close().map_err(serve::failed)?;
    tell(&report, &flags.path, &flags.dir)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(report: &Report, path: &Path, dir: &Path) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "imported {} into {}: {} keys", path.display(), dir.display(), report.keys)?;
    let more = [
        (report.commands, "commands of the log were run"),
        (report.expired, "keys had ended and were left out"),
        (report.empty, "collections without elements were left out"),
        (report.functions, "functions or scripts were left out: they are not supported"),
        (report.modules, "records of modules that belong to no key were left out"),
    ];
    more.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| writeln!(out, "{count} {what}"))?;
    if let Some((file, from, bytes)) = &report.cut {
        writeln!(out, "{}: its last {bytes} bytes, from byte {from} on, are an incomplete command and were left out", file.display())?;
    }
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// A directory without data; a target that is there already; failures of the medium.
pub fn export(flags: &ExportFlags) -> Result<ExitCode, Ended> {
    let store = require_database(&flags.dir)?;
    // It is read only, but what a server writes meanwhile would take files away from under it.
    let _lock = store.lock()?;
    let mut keyspace = Keyspace::open_to_read(store).map_err(serve::failed)?;
    keyspace.set_now(unix_ms());
    let stops = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stops);
    ctrlc::set_handler(move || theirs.store(true, Ordering::Release)).map_err(serve::failed)?;
    let keys = match flags.format {
        Format::Rdb => export_rdb(&keyspace, &flags.path, flags.rdb_version, &stops),
        Format::Aof => export_log(&keyspace, &flags.path, flags.rdb_version, &stops),
    };
    let keys = keys.map_err(ended)?;
    writeln!(io::stdout(), "exported {} to {}: {keys} keys", flags.dir.display(), flags.path.display())?;
    Ok(ExitCode::SUCCESS)
}
