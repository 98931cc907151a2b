//! `sinter import` and `sinter export`: reading and writing the files of Redis servers.

use crate::ended::Ended;
use crate::serve;
use crate::store::require_database;
use clap::{Args, ValueEnum};
use sinter_server::keyspace::{DATABASES, Keyspace};
use sinter_server::net::unix_ms;
use sinter_server::rdb::Version;
use sinter_server::transfer::{Damage, Error, Found, Report, export_log, export_rdb};
use sinter_storage::store::Store;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An import. Nothing is written before the whole file is found to be sound, and keys that are there stay until the new ones are whole: an
/// import that is cut short has to be run again or abandoned. Exit code 0: done; 1: failed; 2: the request was wrong; 3: done, and damaged
/// keys were left out.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct ImportFlags {
    /// A dump.rdb, an appendonly.aof, or a directory with a manifest (appendonlydir of Redis 7).
    #[arg(required_unless_present = "abandon")]
    path: Option<PathBuf>,
    /// Directory of the data, created if it is missing. No server may be running there.
    #[arg(long, default_value = "sinter-data")]
    dir: PathBuf,
    /// Replace all keys that are there, at once when the new ones are whole. Without it, there must be none.
    #[arg(long)]
    replace: bool,
    /// Import an RDB file although some of it is damaged: all other keys are taken, and what was left out is listed.
    #[arg(long)]
    skip_damaged: bool,
    /// Remove what an import has left that was cut short, and import nothing: the keys from before it are served again.
    #[arg(long, conflicts_with_all = ["path", "replace", "skip_damaged"])]
    abandon: bool,
    /// Memory for memtables, block cache and hot keys together, such as 512MB; 2MiB at least.
    #[arg(long, value_parser = serve::memory)]
    memory: Option<u64>,
}

/// The export to make. Exit code 0: done; 1: failed; 2: the request was wrong.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct ExportFlags {
    /// File or directory to write; it must not exist.
    path: PathBuf,
    /// Directory of the data. No server may be running there.
    #[arg(long, default_value = "sinter-data")]
    dir: PathBuf,
    /// rdb: a file like dump.rdb; aof: a directory like appendonlydir of Redis 7.
    #[arg(long, value_enum)]
    format: Format,
    /// Version of the RDB format: 9 (every Redis since 5.0 reads it), 10 (Redis 7.0; from here on all that is known of streams has a
    /// place), 11 (Redis 7.2), 12 (Redis 7.4 and 8; taken anyway if fields of hashes have deadlines) or 80 (Valkey 9).
    #[arg(long, default_value = "9", value_parser = version)]
    rdb_version: Version,
}

/// Exit code of an import that has left something out.
const INCOMPLETE: u8 = 3;

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
        "12" => Ok(Version::Twelve),
        "80" => Ok(Version::Eighty),
        _ => Err("9, 10, 11, 12 or 80".into()),
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
    let Some(path) = &flags.path else { return abandon(flags) };
    if !path.exists() {
        return Err(Ended::usage(format!("{}: no such file or directory", path.display())));
    }
    let damage = if flags.skip_damaged { Damage::Skip } else { Damage::Refuse };
    let found = Found::look(path, damage).map_err(ended)?;
    let (mut keyspace, _) = open(serve::open(&flags.dir)?, flags)?;
    let report = found.load(&mut keyspace, flags.replace, unix_ms()).map_err(|error| match error {
        Error::Request(what) => Ended::usage(format!("{}: {what}; --replace replaces them", flags.dir.display())),
        error => Ended::Failed(error.into()),
    })?;
    keyspace.close().map_err(serve::failed)?;
    tell(&report, path, &flags.dir)?;
    Ok(if report.left_out > 0 { ExitCode::from(INCOMPLETE) } else { ExitCode::SUCCESS })
}

/// Opens the data without the remains of an interrupted import; returns whether there were any.
fn open(store: Arc<dyn Store>, flags: &ImportFlags) -> Result<(Keyspace, bool), Ended> {
    let settings = serve::settings(flags.memory.unwrap_or(0), 0)?;
    Keyspace::open_abandoning(store, &settings, serve::seed()?).map_err(serve::failed)
}

fn abandon(flags: &ImportFlags) -> Result<ExitCode, Ended> {
    let (keyspace, was_unfinished) = open(require_database(&flags.dir)?, flags)?;
    let keys: u64 = (0..DATABASES).map(|db| keyspace.size(db)).sum();
    keyspace.close().map_err(serve::failed)?;
    let what = if was_unfinished { "abandoned an import that had not finished" } else { "no import to abandon" };
    writeln!(io::stdout(), "{}: {what}: {keys} keys", flags.dir.display())?;
    Ok(ExitCode::SUCCESS)
}

fn tell(report: &Report, path: &Path, dir: &Path) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "imported {} into {}: {} keys", path.display(), dir.display(), report.keys)?;
    let more = [
        (report.commands, "commands of the log were run"),
        (report.expired, "keys had ended and were left out"),
        (report.empty, "collections without elements were left out"),
        (report.functions, "libraries of functions"),
        (report.early_functions, "functions of a pre-release of Redis were left out"),
        (report.modules, "records of modules that belong to no key were left out"),
        (report.corrected, "corrections of streams that contradicted their entries"),
        (report.left_out, "damaged keys or parts of the file were left out"),
    ];
    report.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    more.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| writeln!(out, "{count} {what}"))?;
    if let Some((file, from, bytes)) = &report.cut {
        writeln!(out, "{}: its last {bytes} bytes, from byte {from} on, are an incomplete command and were left out", file.display())?;
    }
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// A directory without data; a target that exists already; failures of the medium.
pub fn export(flags: &ExportFlags) -> Result<ExitCode, Ended> {
    let store = require_database(&flags.dir)?;
    // Only reading, but a server writing meanwhile would delete files that are being read.
    let _lock = store.lock()?;
    let mut keyspace = Keyspace::open_to_read(store).map_err(serve::not_opened(&flags.dir))?;
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
