//! `sinter bench`: reads the flags, runs the lab, prints and stores the results.

mod flags;
mod progress;
mod settings;

pub use flags::BenchFlags;

use crate::ended::Ended;
use crate::store::{open_volume, place, require_database};
use anyhow::{Context, anyhow};
use progress::Line;
use sinter_lab::bench::{Bench, BenchConfig, Progress, Workload};
use sinter_lab::drive::{INTERRUPTED, stop_on_signal};
use sinter_lab::result::{Machine, RESULT_VERSION, Report, WorkloadResult, header, print_levels, print_statistics, print_workload};
use sinter_lab::target::{Outcome, SinterOpener};
use sinter_storage::store::{Place, ZonedPlace};
use sinterdb::clock::{Clock, SystemClock};
use sinterdb::internal::limits::{MemoryLimit, ProcessLimits};
use sinterdb::internal::settings::confine;
use sinterdb::settings::Settings;
use sinterdb::{Builder, DEFAULT_FAMILY};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Runs the command.
///
/// # Errors
/// Wrong flags, settings or paths; failures of the database; results that cannot be written.
pub fn run(flags: &BenchFlags) -> Result<ExitCode, Ended> {
    let (workloads, config) = flags.plan().map_err(|list| Ended::Usage(list.join("; ")))?;
    let stored = stored_settings(flags)?;
    let chosen = settings::choose(&flags.engine, stored.as_ref()).map_err(|list| Ended::Usage(list.join("; ")))?;
    let json = flags.json.as_deref().map(JsonSink::open).transpose()?;
    let place = Home::choose(flags)?;
    // Notes go to stderr: they are about the flags, not part of the results.
    let memory = MemoryLimit::tightest(&ProcessLimits::find(Path::new("/")).memory());
    let confined = confine(&chosen.database, std::iter::once(&chosen.family), memory);
    chosen.notes.iter().chain(&confined.note).for_each(|note| eprintln!("sinter: note: {note}"));
    let opener = SinterOpener {
        path: place.path.clone(),
        zones: place.zones.clone(),
        disable_wal: flags.switches.disable_wal,
        hide_limits: false,
        database: chosen.database.clone(),
        families: vec![(DEFAULT_FAMILY.into(), chosen.family.clone())],
        clock: None,
        slow: chosen.slow.clone(),
    };
    let mut report = Report {
        version: RESULT_VERSION,
        target: format!("sinterdb {}", env!("CARGO_PKG_VERSION")),
        commit: std::env::var("SINTER_COMMIT").ok(),
        started_unix: SystemClock::default().unix_seconds(),
        machine: place.machine(),
        bench: config.clone(),
        settings: settings::listing(&chosen.database, &chosen.family),
        workloads: Vec::new(),
        interrupted: false,
        failure: None,
    };
    let json_on_stdout = matches!(json, Some(JsonSink::Stdout));
    let mut out: Box<dyn Write> = if json_on_stdout { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    header(&report, &place.name(), &mut out)?;
    let printer = Printer { distribution: flags.histogram == Some(true), statistics: flags.switches.statistics };
    let ended = measure(&config, &workloads, &opener, &printer, &mut report, &mut out);
    if let Some(json) = json {
        json.write(&report)?;
    }
    place.leave()?;
    ended
}

/// Runs the workloads with a progress line, until they end or Ctrl-C; adds finished ones to `report`.
fn measure(
    config: &BenchConfig,
    workloads: &[Workload],
    opener: &SinterOpener,
    printer: &Printer,
    report: &mut Report,
    out: &mut Box<dyn Write>,
) -> Result<ExitCode, Ended> {
    let stop = stop_on_signal().map_err(|failure| Ended::Failed(anyhow!(failure)))?;
    let progress = Progress::new(config.threads);
    let line = Line::new();
    let bench = Bench { config, opener, stop: &stop, progress: &progress };
    let outcome = std::thread::scope(|scope| {
        let drawer = scope.spawn(|| line.draw(&progress));
        let outcome = bench.run(workloads, |result| -> Outcome<()> {
            line.beside(|| printer.workload(result, out))?;
            report.workloads.push(result.clone());
            Ok(())
        });
        line.end();
        drawer.thread().unpark();
        outcome
    });
    report.interrupted = stop.load(Ordering::Relaxed);
    if let Err(failed) = outcome {
        let place = failed.workload.map_or("opening or closing the database", Workload::name);
        report.failure = Some(format!("{place}: {}", failed.failure));
        return Err(match failed.failure.downcast::<sinterdb::Error>() {
            Ok(error) if failed.workload.is_none() => Ended::from(*error),
            Ok(error) => Ended::Failed(anyhow::Error::from(*error).context(place)),
            Err(other) => Ended::Failed(anyhow!(other).context(place)),
        });
    }
    printer.end(report, out)?;
    Ok(if report.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Options for printing the results.
struct Printer {
    distribution: bool,
    statistics: bool,
}

impl Printer {
    fn workload(&self, result: &WorkloadResult, out: &mut dyn Write) -> io::Result<()> {
        print_workload(result, self.distribution, out)?;
        if ["stats", "levelstats"].contains(&result.name.as_str()) {
            print_levels(&result.levels, out)?;
        }
        out.flush()
    }

    fn end(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match report.workloads.iter().rfind(|result| result.skipped.is_none()) {
            Some(last) if self.statistics => print_statistics(&last.counters, out),
            _ => Ok(()),
        }
    }
}

/// Target of the JSON output. Opened before the first workload, so that no results of hours are lost because it cannot be written.
enum JsonSink {
    Stdout,
    File(File, PathBuf),
}

impl JsonSink {
    fn open(path: &Path) -> Result<Self, Ended> {
        if path == Path::new("-") {
            return Ok(JsonSink::Stdout);
        }
        let file = File::create(path).map_err(|error| Ended::Usage(format!("--json {}: {error}", path.display())))?;
        Ok(JsonSink::File(file, path.to_owned()))
    }

    fn write(self, report: &Report) -> Result<(), Ended> {
        let text = serde_json::to_string_pretty(report)? + "\n";
        match self {
            JsonSink::Stdout => Ok(io::stdout().write_all(text.as_bytes())?),
            JsonSink::File(mut file, path) => {
                file.write_all(text.as_bytes()).with_context(|| path.display().to_string()).map_err(Ended::Failed)
            }
        }
    }
}

/// The default path of the database.
fn default_path() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("."), PathBuf::from).join("sinter-bench-data")
}

/// Settings of an existing database, which apply unless flags override them.
fn stored_settings(flags: &BenchFlags) -> Result<Option<Settings>, Ended> {
    if !flags.switches.use_existing_db {
        return Ok(None);
    }
    let store = require_database(&flags.db.clone().unwrap_or_else(default_path))?;
    Builder::settings_in(&*store).map_err(Ended::from)
}

/// Location of the database.
struct Home {
    /// The directory, or the drive.
    path: PathBuf,
    zones: Option<ZonedPlace>,
    /// The directory was made by this run under its default name, and is removed at the end.
    remove: bool,
}

impl Home {
    fn choose(flags: &BenchFlags) -> Result<Self, Ended> {
        let path = match place(&flags.db.clone().unwrap_or_else(default_path))? {
            Place::Directory(path) => path,
            Place::Zoned(zoned) => return Self::on_zones(flags, zoned),
        };
        let wrong = |what: &dyn std::fmt::Display| Ended::Usage(format!("--db {}: {what}", path.display()));
        let existed = path.exists();
        if existed && !path.is_dir() {
            return Err(wrong(&"not a directory"));
        }
        if flags.switches.use_existing_db {
            require_database(&path)?;
        }
        fs::create_dir_all(&path).map_err(|error| wrong(&error))?;
        Ok(Home { remove: !existed && flags.db.is_none() && !flags.switches.keep, path, zones: None })
    }

    /// Requires an existing volume: a bench never overwrites other data on a drive.
    fn on_zones(flags: &BenchFlags, zoned: ZonedPlace) -> Result<Self, Ended> {
        let volume = open_volume(&zoned.clone().quiet())?;
        if flags.switches.use_existing_db && volume.files().is_empty() {
            return Err(Ended::Usage(format!("--db {zoned}: no database there")));
        }
        Ok(Home { path: zoned.drive.clone(), zones: Some(zoned), remove: false })
    }

    fn name(&self) -> String {
        self.zones.as_ref().map_or_else(|| self.path.display().to_string(), ZonedPlace::to_string)
    }

    fn machine(&self) -> Machine {
        let here = Machine::here(&self.path);
        if self.zones.is_some() { here.with_volume_on(&self.path) } else { here }
    }

    fn leave(&self) -> Result<(), Ended> {
        if !self.remove {
            return Ok(());
        }
        fs::remove_dir_all(&self.path).with_context(|| format!("removing {}", self.path.display())).map_err(Ended::Failed)
    }
}
